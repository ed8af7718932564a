// The pickle reader: every instruction it knows, what Python writes in every protocol, and everything it refuses.

#include "integrations/formats/pickle_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "integrations/formats/export_snapshot.h"
#include "integrations/formats/import_snapshot.h"

namespace tidemark {
namespace {

using std::string_literals::operator""s;

/// The document as text: dicts in order, sets as lists in `<>`.
std::string shown_value(const formats::PickleDocument& document, formats::PickleId id) {
  const formats::PickleValue& value = document.get(id);
  const auto items = [&](char open, char close) {
    std::string text(1, open);
    for (const formats::PickleId item : std::get<std::vector<formats::PickleId>>(value.data))
      text += shown_value(document, item) + ",";
    return text + close;
  };
  switch (value.kind) {
    case formats::PickleValue::Kind::none:
      return "None";
    case formats::PickleValue::Kind::boolean:
      return std::get<std::int64_t>(value.data) != 0 ? "True" : "False";
    case formats::PickleValue::Kind::integer:
      return std::holds_alternative<std::int64_t>(value.data) ? std::to_string(std::get<std::int64_t>(value.data))
                                                              : std::to_string(std::get<std::uint64_t>(value.data));
    case formats::PickleValue::Kind::real:
      return std::to_string(std::get<double>(value.data));
    case formats::PickleValue::Kind::text:
      return "'" + std::string(std::get<std::string_view>(value.data)) + "'";
    case formats::PickleValue::Kind::bytes:
      return "b'" + std::string(std::get<std::string_view>(value.data)) + "'";
    case formats::PickleValue::Kind::list:
      return items('[', ']');
    case formats::PickleValue::Kind::tuple:
      return items('(', ')');
    case formats::PickleValue::Kind::dict:
      return items('{', '}');
    case formats::PickleValue::Kind::set:
      return items('<', '>');
  }
  return "?";
}

std::string read(std::string_view bytes) {
  const Result<formats::PickleDocument> document = formats::read_pickle(bytes, "p");
  return document ? shown_value(document.value(), document.value().root()) : document.error().message;
}

TEST(PickleReader, Numbers) {
  EXPECT_EQ(read("N."), "None");
  EXPECT_EQ(read("\x88."), "True");
  EXPECT_EQ(read("\x89."), "False");
  EXPECT_EQ(read("I01\n."), "True");
  EXPECT_EQ(read("I00\n."), "False");
  EXPECT_EQ(read("I-12\n."), "-12");
  EXPECT_EQ(read("L18446744073709551615L\n."), "18446744073709551615");
  EXPECT_EQ(read("J\xff\xff\xff\xff."), "-1");
  EXPECT_EQ(read("K\xff."), "255");
  EXPECT_EQ(read("M\x01\x02."), "513");
  EXPECT_EQ(read("\x8a\x00."s), "0");
  EXPECT_EQ(read("\x8a\x01\xff."s), "-1");
  EXPECT_EQ(read("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00."s), "18446744073709551615");
  EXPECT_EQ(read("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\xff."s), "-9223372036854775808");
  EXPECT_EQ(read("\x8b\x02\x00\x00\x00\x00\x01."s), "256");
  EXPECT_EQ(read("F1.5\n."), "1.500000");
  EXPECT_EQ(read("G\x3f\xf8\x00\x00\x00\x00\x00\x00."s), "1.500000");
}

TEST(PickleReader, TextsAndBytes) {
  EXPECT_EQ(read("X\x02\x00\x00\x00"
                 "ab."s),
            "'ab'");
  EXPECT_EQ(read("\x8c\x02"
                 "ab."s),
            "'ab'");
  EXPECT_EQ(read("\x8d\x02\x00\x00\x00\x00\x00\x00\x00"
                 "ab."s),
            "'ab'");
  EXPECT_EQ(read("Vab\n."), "'ab'");
  EXPECT_EQ(read("S'ab'\n."), "'ab'");
  EXPECT_EQ(read("U\x02"
                 "ab."s),
            "'ab'");
  EXPECT_EQ(read("T\x02\x00\x00\x00"
                 "ab."s),
            "'ab'");
  EXPECT_EQ(read("C\x02"
                 "ab."s),
            "b'ab'");
  EXPECT_EQ(read("B\x02\x00\x00\x00"
                 "ab."s),
            "b'ab'");
  EXPECT_EQ(read("\x8e\x02\x00\x00\x00\x00\x00\x00\x00"
                 "ab."s),
            "b'ab'");
  EXPECT_EQ(read("\x96\x02\x00\x00\x00\x00\x00\x00\x00"
                 "ab."s),
            "b'ab'");
}

TEST(PickleReader, Containers) {
  EXPECT_EQ(read("]K\x01"
                 "a."),
            "[1,]");
  EXPECT_EQ(read("](K\x01K\x02"
                 "e."),
            "[1,2,]");
  EXPECT_EQ(read("(K\x01K\x02l."), "[1,2,]");
  EXPECT_EQ(read("(K\x01t."), "(1,)");
  EXPECT_EQ(read(")."), "()");
  EXPECT_EQ(read("K\x01K\x02K\x03\x87."), "(1,2,3,)");
  EXPECT_EQ(read("}K\x01K\x02s."), "{1,2,}");
  EXPECT_EQ(read("}(K\x01K\x02K\x03K\x04u."), "{1,2,3,4,}");
  EXPECT_EQ(read("(K\x01K\x02"
                 "d."),
            "{1,2,}");
  EXPECT_EQ(read("\x8f(K\x01\x90."), "<1,>");
  EXPECT_EQ(read("(K\x01\x91."), "<1,>");
}

TEST(PickleReader, StackAndMemo) {
  EXPECT_EQ(read("K\x01K\x02"
                 "0."),
            "1");
  EXPECT_EQ(read("K\x01(K\x02K\x03"
                 "1."),
            "1");
  EXPECT_EQ(read("K\x01(0."), "1");  // takes the mark away
  EXPECT_EQ(read("K\x01"
                 "2\x86."),
            "(1,1,)");
  EXPECT_EQ(read("]q\x05h\x05\x86."), "([],[],)");
  EXPECT_EQ(read("]\x94h\x00\x86."s), "([],[],)");
  EXPECT_EQ(read("]p300\ng300\n\x86."), "([],[],)");
  EXPECT_EQ(read("]r\x00\x01\x00\x00j\x00\x01\x00\x00\x86."s), "([],[],)");
  const auto cycle = formats::read_pickle(
      "]q\x00h\x00"
      "a."s,
      "p");  // a list that holds itself
  ASSERT_TRUE(cycle);
  EXPECT_EQ(cycle.value().find_items(cycle.value().root())->front(), cycle.value().root());
}

TEST(PickleReader, WhatRunsCodeIsRefused) {
  const std::pair<std::string, std::string> refused[] = {{"cos\nsystem\n.", "GLOBAL"},
                                                         {"\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL"},
                                                         {"(ios\nsystem\n.", "INST"},
                                                         {"(K\x01o.", "OBJ"},
                                                         {"N)\x81.", "NEWOBJ"},
                                                         {"N)}\x92.", "NEWOBJ_EX"},
                                                         {"N)R.", "REDUCE"},
                                                         {"N}b.", "BUILD"},
                                                         {"P1\n.", "PERSID"},
                                                         {"K\x01Q.", "BINPERSID"},
                                                         {"\x82\x01.", "EXT1"},
                                                         {"\x83\x01\x01.", "EXT2"},
                                                         {"\x84\x01\x01\x01\x01.", "EXT4"},
                                                         {"\x97.", "NEXT_BUFFER"},
                                                         {"N\x98.", "READONLY_BUFFER"}};
  for (const auto& [bytes, name] : refused) {
    const std::string said = read(bytes);
    EXPECT_NE(said.find(": " + name + " would run code of Python"), std::string::npos) << said;
  }
}

TEST(PickleReader, BrokenInputIsNamedByItsByte) {
  const std::pair<std::string, std::string> broken[] = {
      {"", "p: byte 0: the file ends here; 1 more bytes are announced"},
      {"N", "p: byte 1: the file ends here; 1 more bytes are announced"},
      {"NN.", "p: byte 2: the pickle does not end with one value"},
      {".", "p: byte 0: the pickle does not end with one value"},
      {"(N.", "p: byte 2: the pickle does not end with one value"},
      {"a.", "p: byte 0: the stack is empty"},
      {"](K\x01"
       "a.",
       "p: byte 4: items are added to something that takes none of this kind"},
      {"K\x01K\x01"
       "a.",
       "p: byte 4: items are added to something that takes none of this kind"},
      {"e.", "p: byte 0: there is no mark"},
      {"}(Nu.", "p: byte 3: a key has no value"},
      {"(Nd.", "p: byte 2: a key has no value"},
      {"0.", "p: byte 0: the stack is empty"},
      {"h\x07.", "p: byte 0: nothing was kept at position 7 of the memo"},
      {"gx\n.", "p: byte 0: 'x' is no position in the memo"},
      {"Iten\n.", "p: byte 0: 'ten' is not a whole number of 64 bits"},
      {"I\n.", "p: byte 0: '' is not a whole number of 64 bits"},
      {"I1", "p: byte 0: the file ends within a line"},
      {"Fx\n.", "p: byte 0: 'x' is not a number"},
      {"Sab\n.", "p: byte 0: a text is not in quotes"},
      {"X\xff\xff\xff\xff.", "p: byte 0: the file ends here; 4294967295 more bytes are announced"},
      {"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
       "p: byte 0: the file ends here; 18446744073709551615 more bytes are announced"},
      {"\x80\x09N.", "p: byte 0: protocol 9 is newer than 5, the newest known"},
      {"\x95\xff\xff\xff\xff\xff\xff\xff\xffN.",
       "p: byte 0: the file ends here; a frame of 18446744073709551615 bytes is announced"},
      {"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."s, "p: byte 0: a number has more than 64 bits"},
      {"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xff."s, "p: byte 0: a number has more than 64 bits"},
      {std::string(2000, '('), "p: byte 1000: it is nested deeper than 1000"},
      {"\x01.", "p: byte 0: 0x01 is no instruction of a pickle; is this a memory snapshot?"}};
  for (const auto& [bytes, expected] : broken) EXPECT_EQ(read(bytes), expected);
}

std::string python(const std::string& program, const std::string& input = "") {
  const std::string path = ::testing::TempDir() + "pickle_reader_test_input_" + std::to_string(::getpid());
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  std::fwrite(input.data(), 1, input.size(), file.get());
  std::fflush(file.get());
  const std::string command = std::string(TIDEMARK_PYTHON) + " -c '" + program + "' < " + path;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string output;
  std::array<char, 4096> buffer{};
  while (std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) output.append(buffer.data(), got);
  return output;
}

TEST(PickleReader, EveryProtocolOfPython) {
  for (int protocol = 0; protocol <= 5; ++protocol) {
    const std::string bytes = python(
        "import pickle,sys;shared=[1];"
        "sys.stdout.buffer.write(pickle.dumps({\"a\":[1,-1,255,65535,-70000,2**40,2**64-1,1.5,True,None],"
        "\"b\":(),\"c\":(1,2),\"d\":(1,2,3,4),\"e\":[shared,shared],\"f\":\"x\"*300}," +
        std::to_string(protocol) + "))");
    EXPECT_EQ(read(bytes),
              "{'a',[1,-1,255,65535,-70000,1099511627776,18446744073709551615,1.500000,True,None,],"
              "'b',(),'c',(1,2,),'d',(1,2,3,4,),'e',[[1,],[1,],],'f','" +
                  std::string(300, 'x') + "',}")
        << protocol;
  }
}

// ---- the way out ----------------------------------------------------------------------------------------------------

allocator::Snapshot sample() {
  return {
      .segments = {{.device = 1,
                    .address = 0x7f00'0000'0000,
                    .total_size = 2 * kMiB,
                    .allocated_size = 512,
                    .active_size = 1024,
                    .requested_size = 500,
                    .stream = StreamHandle{0xffff'ffff'ffff'fff0},
                    .blocks = {{.address = 0x7f00'0000'0000,
                                .size = 512,
                                .requested_size = 500,
                                .state = allocator::SnapshotBlock::State::active_allocated,
                                .owner = 3},
                               {.address = 0x7f00'0000'0200,
                                .size = 512,
                                .state = allocator::SnapshotBlock::State::active_pending_free},
                               {.address = 0x7f00'0000'0400, .size = 2 * kMiB - 1024}}}},
      .trace = {{.action = allocator::TraceAction::segment_map, .address = 0x7f00'0000'0000, .size = 2 * kMiB},
                {.action = allocator::TraceAction::alloc, .address = 0x7f00'0000'0200, .size = 512, .time_ns = 5'999},
                {.action = allocator::TraceAction::free_requested, .address = 0x7f00'0000'0200, .size = 512},
                {.action = allocator::TraceAction::oom, .size = kGiB, .device_free = 7}},
      .settings = {{"growth", "mapped"}}};
}

TEST(SnapshotPickle, PythonReadsIt) {
  const std::string bytes = formats::snapshot_pickle(sample(), {.owner_name = [](std::uint32_t) { return "decoder"; }});
  EXPECT_EQ(
      python("import pickle,sys,json;d=pickle.load(sys.stdin.buffer);s=d[\"segments\"][0];t=d[\"device_traces\"];"
             "print(sorted(d),len(t),[e[\"action\"] for e in t[1]],t[1][1][\"time_us\"],t[1][3][\"device_free\"]);"
             "print(s[\"address\"],s[\"stream\"],s[\"segment_type\"],s[\"is_expandable\"],s[\"segment_pool_id\"]);"
             "print([(b[\"size\"],b[\"requested_size\"],b[\"state\"]) for b in s[\"blocks\"]],"
             "s[\"blocks\"][0][\"frames\"],s[\"blocks\"][1][\"frames\"],d[\"allocator_settings\"])",
             bytes),
      "['allocator_settings', 'device_traces', 'external_annotations', 'segments'] 2 "
      "['segment_map', 'alloc', 'free_requested', 'oom'] 5 7\n"
      "139637976727552 18446744073709551600 large True (0, 0)\n"
      "[(512, 500, 'active_allocated'), (512, 0, 'active_pending_free'), (2096128, 0, 'inactive')] "
      "[{'name': 'decoder', 'filename': 'owner', 'line': 3}] [] {'growth': 'mapped'}\n");
}

TEST(SnapshotPickle, OurOwnReaderReadsIt) {
  const Result<formats::AllocationTrace> trace = formats::read_snapshot(formats::snapshot_pickle(sample()), "p");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(formats::figures_of(trace.value()),
            (formats::TraceFigures{.allocs = 1, .frees = 1, .start_bytes = 512, .peak_bytes = 1024, .end_bytes = 512}));
}

TEST(SnapshotPickle, NothingAtAll) {
  EXPECT_EQ(python("import pickle,sys;d=pickle.load(sys.stdin.buffer);print(d[\"segments\"],d[\"device_traces\"])",
                   formats::snapshot_pickle({})),
            "[] [[]]\n");
}

TEST(PickleLimits, ADictHasAtMost256Keys) {
  const auto dict = [](int keys, const std::string& begin, const std::string& each, const std::string& end) {
    std::string text = begin;
    for (int i = 0; i < keys; ++i) text += each;
    return text + end;
  };
  EXPECT_TRUE(formats::read_pickle(dict(256, "(d", "I1\nI1\ns", "."), "f").ok());
  for (const std::string& text :
       {dict(257, "(d", "I1\nI1\ns", "."), dict(257, "(", "I1\nI1\n", "d."), dict(257, "}(", "I1\nI1\n", "u.")}) {
    const Result<formats::PickleDocument> read = formats::read_pickle(text, "f");
    ASSERT_FALSE(read.ok());
    EXPECT_NE(read.error().message.find("a dict has more than 256 keys"), std::string::npos) << read.error().message;
  }
}

}  // namespace
}  // namespace tidemark
