// `tidemark replay` as a user runs it.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/json_text.h"
#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

const std::string kTrace = "id,lower,upper,size\na,0,1,31457280\nb,1,3,12582912\nc,2,3,15728640\n";

TEST(CliReplay, ComparesAllAllocators) {
  const Workplace place;
  place.write("t.csv", kTrace);
  const Ran ran = place.run({"replay", "t.csv"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  for (const char* line : {"t.csv: minimalloc, 3 allocations, 3 frees", "\ncaching ", "\nplanned ", "\nbaseline ",
                           "\nbaseline, expandable ", "3 requests served from the plan, 0 not planned",
                           "Reserved: simulated", "ns: measured"})
    EXPECT_NE(ran.out.find(line), std::string::npos) << line << " is not in\n" << ran.out;
}

TEST(CliReplay, OneAllocatorAsJson) {
  const Workplace place;
  place.write("t.csv", kTrace);
  const auto names = [&](const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {"replay", "t.csv", "--format", "json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Ran ran = place.run(arguments);
    EXPECT_EQ(ran.status, 0) << ran.err;
    const nlohmann::json json = parsed(ran.out);
    std::string list;
    for (const nlohmann::json& replay : json["replays"]) list += replay["allocator"].get<std::string>() + ";";
    return list;
  };
  EXPECT_EQ(names({}), "caching;planned;baseline;baseline, expandable;");
  EXPECT_EQ(names({"--expandable"}), "caching;planned;baseline, expandable;");
  EXPECT_EQ(names({"--allocator", "caching"}), "caching;");
  EXPECT_EQ(names({"--allocator", "planned", "--device", "sim"}), "planned;");
  EXPECT_EQ(names({"--allocator", "baseline", "--tail-pad", "32B"}), "baseline;baseline, expandable;");
  EXPECT_EQ(names({"--allocator", "baseline", "--expandable"}), "baseline, expandable;");
}

TEST(CliReplay, WhatDoesNotFitEndsWithOne) {
  const Workplace place;
  place.write("t.csv", kTrace);
  const Ran ran = place.run({"replay", "t.csv", "--allocator", "caching", "--capacity", "28MiB"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.err, "");
  EXPECT_TRUE(has_match(ran.out, "caching does not fit: event 0: no room for 30.00 MiB, 0 B of 28.00")) << ran.out;
  const Ran json = place.run({"replay", "t.csv", "--allocator", "baseline", "--capacity", "28MiB", "--format", "json"});
  EXPECT_EQ(json.status, 1);
  EXPECT_NE(json.out.find("\"fits\":false,\"no_room\":\"event 0: "), std::string::npos) << json.out;
}

TEST(CliReplay, WhatTheModelOfAnotherAllocatorCannotDoIsAFigure) {
  const Workplace place;
  // Two sizes above a MiB in turn: the model without expandable segments keeps a segment of each.
  place.write("t.csv",
              "Action,Pointer,Size,Stream\nallocate,1000000000,20971520,1\nallocate,2000000000,2097152,1\n"
              "free,1000000000,20971520,1\nallocate,3000000000,31457280,1\n");
  const Ran beside = place.run({"replay", "t.csv", "--capacity", "34MiB"});
  EXPECT_EQ(beside.status, 0) << beside.out << beside.err;
  EXPECT_NE(beside.out.find("\nbaseline  "), std::string::npos) << beside.out;
  EXPECT_NE(beside.out.find("baseline does not fit: "), std::string::npos) << beside.out;
  EXPECT_EQ(place.run({"replay", "t.csv", "--capacity", "34MiB", "--allocator", "baseline"}).status, 1);
}

TEST(CliReplay, BadInput) {
  const Workplace place;
  place.write("t.csv", kTrace);
  place.write("bad.csv", "id,lower,upper,size\na,5,1,4\n");
  place.write("empty.csv", "");
  place.write("plan.json", "{}");
  place.write("evil.pkl",
              "\x80\x02"
              "cos\nsystem\nX\x04\x00\x00\x00true\x85R.");
  place.write("cut.pkl", "\x80\x02}q");
  place.write("d/inside", "");
  expect_refused(place, {"replay", "bad.csv"}, "^bad\\.csv:2: upper is 1; it must be above lower, 5");
  expect_refused(place, {"replay", "empty.csv"}, "^empty\\.csv:1: the file is empty");
  expect_refused(place, {"replay", "plan.json"}, "^plan\\.json:1: it is JSON");
  expect_refused(place, {"replay", "evil.pkl"}, "^evil\\.pkl: byte 2: GLOBAL would run code of Python");
  expect_refused(place, {"replay", "cut.pkl"}, "^cut\\.pkl: byte 3: the file ends here");
  expect_refused(place, {"replay", "missing.csv"}, "^missing\\.csv: cannot read: No such file");
  expect_refused(place, {"replay", "d"}, "^d: cannot read: Is a directory");
  expect_refused(place, {"replay"}, "TRACE is required");
  expect_refused(place, {"replay", "t.csv", "--allocator", "cashing"}, "did you mean 'caching'");
  expect_refused(place, {"replay", "t.csv", "--device", "host"}, "--device: ");
  expect_refused(place, {"replay", "t.csv", "--allocator", "planned", "--expandable"},
                 "--expandable: only the baseline");
  expect_refused(place, {"replay", "t.csv", "--capacity", "64"}, "--capacity: .*unit");
  expect_refused(place, {"replay", "t.csv", "--capacity", "0B"}, "--capacity: must be above 0");
  expect_refused(place, {"replay", "t.csv", "--capacity", "5TiB"}, "--capacity: .*at most 4TiB");
  expect_refused(place, {"replay", "t.csv", "--tail-pad", "2MiB"}, "--tail-pad: must be at most 1MiB");
}

}  // namespace
}  // namespace tidemark::testing
