// `tidemark pack` as a user runs it.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/json_text.h"
#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

const std::string kBuffers = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";

TEST(CliPack, PrintsWhatItProved) {
  const Workplace place;
  place.write("b.csv", kBuffers);
  const Ran ran = place.run({"pack", "b.csv", "--capacity", "12"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  for (const char* line :
       {"b.csv: 5 buffers, packed by ", "\nheight       12 B\n", "\nlower bound  12 B\n", "\nexcess       0.000 %\n",
        "\nstatus       optimal: no packing is lower\n", "\ncapacity     12 B: fits, 0 B to spare\n", "(measured)\n"})
    EXPECT_NE(ran.out.find(line), std::string::npos) << line << " is not in\n" << ran.out;
  EXPECT_EQ(ran.out.find("time x addresses"), std::string::npos);
  EXPECT_NE(place.run({"pack", "b.csv", "--picture"}).out.find("\ntime x addresses\n"), std::string::npos);
}

TEST(CliPack, Json) {
  const Workplace place;
  place.write("b.csv", kBuffers);
  const Ran ran = place.run({"pack", "b.csv", "--format", "json", "--packer", "first_fit_by_size"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  const nlohmann::json json = parsed(ran.out);
  EXPECT_EQ(json["height_bytes"], 12);
  EXPECT_EQ(json["lower_bound_bytes"], 12);
  EXPECT_EQ(json["excess_percent"], 0.0);
  EXPECT_EQ(json["status"], "optimal");
  EXPECT_TRUE(json["seconds"].is_number());
  EXPECT_EQ(json["buffers"], 5);
  EXPECT_EQ(json["packer"], "first_fit_by_size");
  EXPECT_TRUE(json["capacity_bytes"].is_null());
  EXPECT_FALSE(json.contains("picture"));
}

TEST(CliPack, WhatCannotFitIsNamed) {
  const Workplace place;
  place.write("b.csv", kBuffers);
  const Ran ran = place.run({"pack", "b.csv", "--capacity", "11B", "--out", "o.csv"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.out.find("status       infeasible: 3 buffers need 12 B at time "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find(", 1 B more than the capacity: 'b"), std::string::npos) << ran.out;
  EXPECT_NE(ran.err.find("o.csv is not written"), std::string::npos) << ran.err;
  EXPECT_EQ(place.files(), std::set<std::string>{"b.csv"});
  const nlohmann::json json = parsed(place.run({"pack", "b.csv", "--capacity", "11", "--format", "json"}).out);
  EXPECT_EQ(json["status"], "infeasible");
  EXPECT_EQ(json["fits"], false);
  EXPECT_EQ(json["capacity_bytes"], 11);
  EXPECT_EQ(json["cannot_fit"].size(), 3U);
  EXPECT_EQ(json["cannot_fit_bytes"], 12);
}

TEST(CliPack, WritesTheFileAgainWithAddresses) {
  const Workplace place;
  place.write("b.csv", "# from a compiler\r\nsize,color,id,begin,end\r\n4,red,a,0,2\r\n4,\"b,l\",b,3,8\r\n");
  const Ran ran = place.run({"pack", "b.csv", "--out", "o.csv"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.err, "tidemark: b.csv: column 'color' is not used\ntidemark: wrote o.csv\n");
  EXPECT_EQ(place.read("o.csv"),
            "# from a compiler\r\nsize,color,id,begin,end,offset\r\n4,red,a,0,2,0\r\n4,\"b,l\",b,3,8,0\r\n");
  const Ran again = place.run({"pack", "o.csv", "-q", "--out", "p.csv"});
  EXPECT_EQ(again.err, "");
  EXPECT_NE(again.out.find("packed by the file's own offsets\n"), std::string::npos) << again.out;
  EXPECT_EQ(place.read("p.csv"), place.read("o.csv"));
  EXPECT_EQ(place.run({"pack", "o.csv", "--repack"}).status, 0);
  expect_refused(place, {"pack", "b.csv", "--out", "b.csv"}, "^b\\.csv: cannot write: it is read by this command");
  expect_refused(place, {"pack", "b.csv", "--out", "no/o.csv"}, "^no/o\\.csv: cannot write: No such file");
}

TEST(CliPack, TheSameBytesWhateverTheThreads) {
  const Workplace place;
  std::string text = "id,lower,upper,size\n";
  for (int i = 0; i < 300; ++i) {
    const int lower = i * 37 % 200;
    text += "b" + std::to_string(i) + "," + std::to_string(lower) + "," + std::to_string(lower + 3 + i * 13 % 40) +
            "," + std::to_string(1 + i * 71 % 500) + "\n";
  }
  place.write("b.csv", text);
  for (const char* threads : {"1", "4"})
    EXPECT_EQ(
        place.run({"pack", "b.csv", "--work", "20000", "--threads", threads, "--out", std::string(threads)}).status, 0);
  EXPECT_EQ(place.read("1"), place.read("4"));
  EXPECT_EQ(place.run({"pack", "b.csv", "--time-limit", "50ms", "--alignment", "64"}).status, 0);
}

TEST(CliPack, BadInput) {
  const Workplace place;
  const auto refused = [&](const std::string& text, const std::string& pattern) {
    place.write("b.csv", text);
    expect_refused(place, {"pack", "b.csv", "--out", "o.csv"}, pattern);
  };
  const std::string head = "id,lower,upper,size\n";
  refused("", "^b\\.csv:1: the file is empty; the first line names the columns");
  refused(head, "^b\\.csv:1: there is no buffer; every line below the header is one");
  refused("\xef\xbb\xbf\r\n" + head, "^b\\.csv:1: there is no buffer");
  refused("0,3,9,4\n", "^b\\.csv:1: there is no column 'id'");
  refused("id;lower;upper;size\na;0;1;4\n",
          "^b\\.csv:1: there is no column 'id'; the header is one field, 'id;lower;upper;size': commas must separate");
  refused("id,lower,upper,size\ra,0,1,4\r", "^b\\.csv:1: lines end in a carriage return alone");
  refused("id,lower,upper\na,0,1\n", "^b\\.csv:1: there is no column 'size'");
  refused(head + "a,3,3,4\n", "^b\\.csv:2: upper is 3; it must be above lower, 3");
  refused(head + "a,0,1,-4\n", "^b\\.csv:2: size is '-4'; it must be a whole number from 1");
  refused(head + "a,0,1,99999999999999999999\n", "^b\\.csv:2: size is '99999999999999999999'; it must be");
  refused(head + "a,0,1,1125899906842624\n" + "b,0,1,1125899906842625\n", "^b\\.csv:3: size is ");
  refused(head + "a,0,9223372036854775807,1\n", "^b\\.csv:2: upper is '9223372036854775807'; it must be");
  refused(head + "a,0,1,4\r\nb,0,1,4\r\na,0,1,4\r\n", "^b\\.csv:4: id 'a' is there twice, first in line 2");
  refused(head + "a,0,1\n", "^b\\.csv:2: there are 3 fields; the header has 4");
  refused(head + "\"a,0,1,4\n", "^b\\.csv:2: a quote before .* is not closed");
  refused(head + std::string("a\0,0,1,4\n", 9), "^b\\.csv:2: there is a NUL byte");
  refused("id,lower,upper,size,gaps\na,0,9,4,3..5\n", "^b\\.csv:2: gap '3..5' is not understood; write 3-7");
  refused("id,lower,upper,size,gaps\na,0,9,4,3-12\n", "^b\\.csv:2: gap '3-12' leaves the life of the buffer, 0 to 9");
  refused("id,lower,upper,size,fixed\na,0,9,4,0\nb,3,5,4,2\nc,0,1,1,\n",
          "^b\\.csv:3: buffers 'a' \\(line 2\\) and 'b' \\(line 3\\) are fixed to bytes");
}

TEST(CliPack, BadUsage) {
  const Workplace place;
  place.write("b.csv", kBuffers);
  expect_refused(place, {"pack"}, "^tidemark pack: FILE is required");
  expect_refused(place, {"pack", "b.csv", "--capacity", "0"}, "--capacity: '0' is out of range");
  expect_refused(place, {"pack", "b.csv", "--capacity", "-1"}, "--capacity: ");
  expect_refused(place, {"pack", "b.csv", "--capacity", "12XB"}, "--capacity: ");
  expect_refused(place, {"pack", "b.csv", "--time-limit", "10"}, "--time-limit: '10' is not a time; .* like 10s");
  expect_refused(place, {"pack", "b.csv", "--time-limit", "0s"}, "--time-limit: '0s' is out of range");
  expect_refused(place, {"pack", "b.csv", "--packer", "atuo"}, "unknown packer 'atuo'; did you mean 'auto'");
  expect_refused(place, {"pack", "b.csv", "--alignment", "2GiB"}, "--alignment: '2GiB' is out of range; .* 1073741824");
  expect_refused(place, {"pack", "b.csv", "--capacity", "99999999999999999999"}, "--capacity: .* is out of range");
  expect_refused(place, {"pack", "b.csv", "--work", "0"}, "--work: '0' is not a whole number from 1");
}

TEST(CliPack, EveryListedPackerPacks) {
  const Workplace place;
  place.write("b.csv", kBuffers);
  const nlohmann::json list = parsed(place.run({"list", "packers", "--format", "json"}).out);
  EXPECT_GE(list.size(), 4U);
  for (const nlohmann::json& packer : list) {
    const std::string name = packer["name"];
    EXPECT_EQ(place.run({"pack", "b.csv", "--packer", name, "--work", "1000"}).status, 0) << name;
  }
}

}  // namespace
}  // namespace tidemark::testing
