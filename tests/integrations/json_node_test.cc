#include "integrations/formats/json_node.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "integrations/formats/calibration_file.h"
#include "integrations/formats/import_captured_step.h"
#include "integrations/formats/import_measured_memory.h"
#include "integrations/formats/program_file.h"
#include "integrations/formats/truth_file.h"

namespace tidemark::formats {
namespace {

std::string mistake_in(const std::string& text) {
  const Result<nlohmann::json> document = parse_json(text, "f", "the text");
  return document ? "" : document.error().message;
}

/// The library's own parser is the oracle.
TEST(ParseJson, BuildsWhatTheLibraryBuilds) {
  for (const std::string text :
       {R"(null)", R"(true)", R"(-3)", R"(18446744073709551615)", R"(1.5e3)", R"("a\u00e9\ud83d\ude00")", R"([])",
        R"({})", R"([1,[2,[3,{"a":[]}]],{"b":{"c":null,"d":[true,false]}},"x"])",
        R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}],"c":[[],[[]],{}]})", "\xef\xbb\xbf[1]"}) {
    const Result<nlohmann::json> document = parse_json(text, "f", "the text");
    ASSERT_TRUE(document.ok()) << text << document.error().message;
    EXPECT_EQ(document.value(), nlohmann::json::parse(text)) << text;
  }
  const std::string deep = std::string(10'000, '[') + std::string(10'000, ']');
  EXPECT_TRUE(parse_json(deep, "f", "the text").ok());
}

TEST(ParseJson, RefusesAKeyTwiceAnywhere) {
  EXPECT_EQ(mistake_in(R"({"a":1,"b":2,"a":1})"), "f: /: has the member 'a' twice");
  EXPECT_EQ(mistake_in(R"({"x":[0,{"y/z":{"k":[],"k":[]}}]})"), "f: /x/1/y~1z: has the member 'k' twice");
  EXPECT_EQ(mistake_in(R"([[1],[{"a":1},{"a":1,"\u0061":2}]])"), "f: /1/1: has the member 'a' twice") << "the same key";
  EXPECT_EQ(mistake_in(R"({"a":{"b":1},"b":{"a":1}})"), "");
}

TEST(ParseJson, NamesThePlaceOfWhatIsNoJson) {
  EXPECT_EQ(mistake_in("{\n \"a\": 1e999}"), "f:2:11: a number in the file is too large");
  EXPECT_EQ(mistake_in("[1,"), "f:1:3: the text ends in the middle of the text; is the file cut short?");
  EXPECT_EQ(mistake_in("[1,\n\xc3\xa9]"), "f:2:1: not valid JSON here") << "a character, though none of JSON";
  EXPECT_EQ(mistake_in("[1,\n\"\xff\"]"), "f:2: byte 0xff is not UTF-8; save the file as UTF-8");
  EXPECT_EQ(mistake_in("[x, \"\xff\"]"), "f:1:2: not valid JSON here") << "the first mistake";
}

template <class T>
std::string message_of(const Result<T>& result) {
  return result ? "taken" : result.error().message;
}

TEST(ParseJson, StandsBehindEveryReaderOfJson) {
  const std::string twice = R"({"a": 1, "a": 2})", says = "f: /: has the member 'a' twice";
  EXPECT_EQ(message_of(read_plan_file(twice, "f")), says);
  EXPECT_EQ(message_of(read_calibration(twice, "f")), says);
  EXPECT_EQ(message_of(read_truth(twice, "f")), says);
  EXPECT_EQ(message_of(read_measured_memory(twice, "f")), says);
  EXPECT_EQ(message_of(read_captured_step(R"({"tidemark_graph": 1, "tidemark_graph": 1})", "f", StepObjective::cost)),
            "f: /: has the member 'tidemark_graph' twice");
}

}  // namespace
}  // namespace tidemark::formats
