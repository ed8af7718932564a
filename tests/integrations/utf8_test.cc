#include "integrations/formats/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "integrations/formats/csv_table.h"
#include "integrations/formats/import_architectures.h"
#include "integrations/formats/import_arguments.h"
#include "integrations/formats/import_captured_step.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/formats/pickle_reader.h"
#include "integrations/formats/shown.h"
#include "tests/support/devices.h"

namespace tidemark::formats {
namespace {

using namespace std::string_literals;

/// A code point in the form of `size` bytes, whether or not that is its shortest.
std::string encoded(unsigned point, std::size_t size) {
  if (size == 1) return {static_cast<char>(point)};
  constexpr unsigned kLeads[] = {0, 0, 0xc0, 0xe0, 0xf0};
  std::string text(size, '\0');
  for (std::size_t i = size - 1; i > 0; --i, point >>= 6) text[i] = static_cast<char>(0x80 | (point & 0x3f));
  text[0] = static_cast<char>(kLeads[size] | point);
  return text;
}

/// RFC 3629, section 3: every code point but the surrogates, each in its shortest form only.
TEST(Utf8, KnowsEveryCharacterInItsShortestFormAlone) {
  for (unsigned point = 0; point < 0x200000; ++point) {
    const bool exists = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
    const std::size_t shortest = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (std::size_t size = shortest; size <= 4; ++size)
      ASSERT_EQ(utf8_size(encoded(point, size)), exists && size == shortest ? size : 0) << point << ", " << size;
  }
}

TEST(Utf8, KnowsNoCharacterThatIsCutOrBegunInTheMiddle) {
  for (const std::string& whole : {"\xc3\xa9"s, "\xe2\x82\xac"s, "\xf0\x9f\x98\x80"s}) {
    EXPECT_EQ(utf8_size(whole), whole.size());
    for (std::size_t size = 1; size < whole.size(); ++size) {
      EXPECT_EQ(utf8_size(whole.substr(0, size)), 0U);
      EXPECT_EQ(utf8_size(whole.substr(0, size) + "aaa"), 0U);
      EXPECT_EQ(utf8_size(whole.substr(size)), 0U);
    }
  }
  for (int lead = 0xf5; lead <= 0xff; ++lead)
    EXPECT_EQ(utf8_size(std::string(1, static_cast<char>(lead)) + "\x80\x80\x80"), 0U);
}

TEST(Utf8, FindsTheFirstBadByteAtEveryPlace) {
  for (std::size_t at = 0; at < 40; ++at)
    for (const bool is_wide : {false, true}) {
      std::string before(is_wide ? at % 2 : at, 'a');
      while (before.size() < at) before += "\xc3\xa9";
      EXPECT_EQ(find_bad_utf8(before), std::string_view::npos);
      EXPECT_EQ(find_bad_utf8(before + "\xff" + "tail that is longer than eight"), at);
      EXPECT_EQ(find_bad_utf8(before + "\xc3"), at);
    }
}

TEST(Utf8, ShowsBadBytesAndCutsNoCharacter) {
  EXPECT_EQ(utf8_text("a\xff"
                      "z\xc3\xa9\xc3"),
            "a\\xffz\xc3\xa9\\xc3");
  EXPECT_EQ(utf8_text(""), "");
  EXPECT_EQ(utf8_prefix("a\xc3\xa9z", 2), "a");
  EXPECT_EQ(utf8_prefix("a\xc3\xa9z", 3), "a\xc3\xa9");
  EXPECT_EQ(utf8_prefix("abc", 9), "abc");
  // 40 bytes end within the 14th character of three.
  std::string wide;
  for (int i = 0; i < 20; ++i) wide += "\xe5\xad\x97";
  const std::string cut = shown(wide);
  EXPECT_EQ(find_bad_utf8(cut), std::string_view::npos) << cut;
  EXPECT_EQ(cut, "'" + wide.substr(0, 39) + "...'");
  EXPECT_EQ(shown("\xff\n"), "'\\xff?'");
}

/// A message of whatever a reader said; empty: it took the text.
template <class T>
std::string message_of(const Result<T>& result) {
  return result ? "" : result.error().message;
}

TEST(Utf8, IsWhatEveryReaderOfTextWants) {
  const std::string bad = "f:2: byte 0xff is not UTF-8; save the file as UTF-8";
  EXPECT_EQ(message_of(read_job("model:\n  name: a\xff"
                                "b\n",
                                "f")),
            bad);
  EXPECT_EQ(message_of(read_machine("name: a\n# \xff\n", "f", testing::shipped_chips())), bad);
  EXPECT_EQ(message_of(read_arguments("#!/bin/bash\nNAME=\xff\npython train.py --num-layers 2\n", "f")), bad);
  EXPECT_EQ(message_of(read_arguments("num-layers: 2\nsave: '\xff'\n", "f")), bad);
  EXPECT_EQ(message_of(read_captured_step("G 1 0\nN 0 1 1 0 a\xff\n", "f", StepObjective::cost)), bad);
  EXPECT_EQ(message_of(read_captured_step("{\"tidemark_graph\": 1,\n\"name\": \"\xff\"}", "f", StepObjective::cost)),
            bad);
  EXPECT_EQ(message_of(CsvTable::open("name\n\xff\n", "f")), bad);
  EXPECT_EQ(message_of(read_job("\xff\xfem\0o\0"s, "f")), "f:1: the file is UTF-16; save it as UTF-8");
  EXPECT_EQ(message_of(read_pickle("X\x02\0\0\0a\xff."s, "f")), "f: byte 0: the text 'a\\xff' is not UTF-8");
  EXPECT_EQ(message_of(read_pickle("X\x03\0\0\0\xed\xa0\x80."s, "f")),
            "f: byte 0: the text '\\xed\\xa0\\x80' is not UTF-8")
      << "a lone surrogate, as Python writes it";
  EXPECT_EQ(message_of(read_pickle("C\x01\xff."s, "f")), "") << "bytes are no text";
}

TEST(Utf8, ANulIsNoTextToAnyReader) {
  const std::string nul = "f:2: byte 0x00 is no part of a text; save the file as UTF-8, without it";
  EXPECT_EQ(message_of(read_job("model:\n  name: a\0b\n"s, "f")), nul);
  EXPECT_EQ(message_of(read_job("a: 1\n# \0 \xff\n"s, "f")), nul) << "the first of both";
  EXPECT_EQ(message_of(read_job("a: 1\n# \xff \0\n"s, "f")), "f:2: byte 0xff is not UTF-8; save the file as UTF-8");
  EXPECT_EQ(message_of(read_machine("name: a\n\0"s, "f", testing::shipped_chips())), nul);
  EXPECT_EQ(message_of(read_architectures("vary:\n  layers: [1\0]\n"s, "f")), nul);
  EXPECT_EQ(message_of(read_arguments("num-layers: 2\nsave: '\0'\n"s, "f")), nul);
  EXPECT_EQ(message_of(read_arguments("{\"num-layers\": 2,\n\"save\": \"\0\"}"s, "f")), nul);
  EXPECT_EQ(message_of(read_captured_step("{\"tidemark_graph\": 1,\n\"name\": \"\0\"}"s, "f", StepObjective::cost)),
            nul);
  EXPECT_EQ(message_of(read_captured_step("{}\n\0G 1 0\n"s, "f", StepObjective::cost)), nul)
      << "the library would take it for the end";
}

}  // namespace
}  // namespace tidemark::formats
