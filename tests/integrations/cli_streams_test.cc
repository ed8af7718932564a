// Where results go and what happens where they cannot: full streams, stdout as an output, pipes, names that are no
// text, memory that is short.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "tests/support/json_text.h"
#include "tests/support/program_run.h"
#include "tests/support/sanitized.h"

namespace tidemark::testing {
namespace {

using Words = std::vector<std::string>;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

constexpr std::string_view kBuffers = "id,lower,upper,size\nb0,0,3,4\nb1,1,5,4\nb2,4,6,4\n";

/// A working directory with an input of every verb that writes a file.
class Streams : public ::testing::Test {
 protected:
  void SetUp() override {
    place.write("buffers.csv", kBuffers);
    ASSERT_EQ(place.run({"plan", small_model(), "--policy", "keep-all", "--out", "made.json", "-q"}).status, 0);
    ASSERT_EQ(place.run({"loads", small_model(), "--out", "loads.csv", "-q"}).status, 0);
  }

  /// Each without the name behind its last option, which names the output.
  static std::vector<Words> writers() {
    const Words plan = {"plan", small_model(), "--policy", "keep-all"};
    return {with(plan, {"--out"}),
            with(plan, {"--report"}),
            with(plan, {"--trace"}),
            {"pack", "buffers.csv", "--out"},
            {"export", "made.json", "--to", "megatron", "--out"},
            {"calibrate", "--d2h", "23GB/s", "--out"},
            {"loads", small_model(), "--out"},
            {"run", "made.json", "--loads", "loads.csv", "--report"}};
  }

  Workplace place;
};

// ---- full -----------------------------------------------------------------------------------------------------------

TEST_F(Streams, AFullStdoutLeavesNoFile) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  place.write("old", "old");
  const std::set<std::string> before = place.files();
  for (const Words& writer : writers()) {
    if (writer.front() == "loads") continue;  // prints nothing where it writes a file
    for (const char* name : {"new", "old"})
      for (const char* format : {"text", "json"}) {
        SCOPED_TRACE(writer.front() + " " + writer.back() + " " + name + " " + format);
        const Ran ran = place.run(with(writer, {name, "--format", format}), "/dev/full");
        EXPECT_EQ(ran.status, 2);
        EXPECT_TRUE(has_match(ran.err, "stdout: cannot write: No space left on device\n$")) << ran.err;
        EXPECT_EQ(place.files(), before);
        EXPECT_EQ(place.read("old"), "old");
      }
  }
}

TEST_F(Streams, AFullDeviceAsStdoutOutputIsSaid) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const std::set<std::string> before = place.files();
  for (const Words& writer : writers()) {
    SCOPED_TRACE(writer.front() + " " + writer.back());
    const Ran ran = place.run(with(writer, {"-", "-q"}), "/dev/full");
    EXPECT_EQ(ran.status, 2);
    EXPECT_EQ(ran.err, "stdout: cannot write: No space left on device\n");
    EXPECT_EQ(place.files(), before);
  }
}

// ---- stdout as an output --------------------------------------------------------------------------------------------

/// Seconds of two runs differ.
std::string without_measured(const std::string& text) {
  std::string kept;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.ends_with("(measured)")) kept += line + "\n";
  return kept;
}

TEST_F(Streams, DashIsStdoutAndTheTextGoesToStderr) {
  for (const Words& writer : writers()) {
    SCOPED_TRACE(writer.front() + " " + writer.back());
    const Ran to_file = place.run(with(writer, {"file", "-q"}));
    ASSERT_LE(to_file.status, 1) << to_file.err;
    const std::string bytes = place.read("file");
    for (const char* name : {"-", "/dev/stdout"}) {
      const Ran quiet = place.run(with(writer, {name, "-q"}));
      EXPECT_EQ(quiet.status, to_file.status);
      EXPECT_TRUE(quiet.out == bytes) << "the bytes of the file, and nothing else";
      EXPECT_EQ(quiet.err, "");
    }
    const Ran ran = place.run(with(writer, {"-"}));
    EXPECT_TRUE(ran.out == bytes);
    // The text of calibrate names its file; loads has none.
    if (writer.front() == "calibrate")
      EXPECT_TRUE(ran.err.starts_with("-: corrections")) << ran.err;
    else
      EXPECT_NE(without_measured(ran.err).find(without_measured(to_file.out)), std::string::npos) << ran.err;
    EXPECT_EQ(place.files().count("-"), 0U);
  }
}

TEST_F(Streams, TwoResultsOnStdoutAreRefused) {
  const Words plan = {"plan", small_model(), "--out", "-"};
  for (const char* other : {"-", "/dev/stdout", "/proc/self/fd/1"})
    expect_refused(place, with(plan, {"--report", other}), "^stdout: cannot write: it is named for two outputs\n$");
  for (const Words& writer : writers()) {
    if (writer.front() == "loads") continue;  // has no other result
    const Ran ran = place.run(with(writer, {"-", "--format", "json"}));
    EXPECT_EQ(ran.status, 2);
    EXPECT_EQ(ran.err,
              "stdout: cannot write: --format json prints its result there, too; name a file or drop one of them\n");
    EXPECT_EQ(parsed(ran.out).value("verdict", ""), "REFUSED");
  }
  expect_refused(place, {"search", small_model(), "--resume", "-"}, "--resume: .*must be a file, not stdout");
}

TEST_F(Streams, AFileMayStillBeCalledDash) {
  const Ran ran = place.run({"pack", "buffers.csv", "--out", "./-", "-q"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out, "");
  EXPECT_NE(place.read("-").find("offset"), std::string::npos);
}

// ---- pipes ----------------------------------------------------------------------------------------------------------

TEST_F(Streams, APipeThatNoProcessReadsIsRefused) {
  ASSERT_EQ(::mkfifo(place.path("pipe").c_str(), 0600), 0);
  for (const Words& writer : writers())
    expect_refused(place, with(writer, {"pipe"}),
                   "^pipe: cannot write: no process reads this pipe; start the one that does first\n$");
}

TEST_F(Streams, APipeThatIsReadGetsTheFile) {
  ASSERT_EQ(::mkfifo(place.path("pipe").c_str(), 0600), 0);
  const int reader = ::open(place.path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ASSERT_EQ(place.run({"calibrate", "--d2h", "23GB/s", "--out", "file"}).status, 0);
  const Ran ran = place.run({"calibrate", "--d2h", "23GB/s", "--out", "pipe"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  std::array<char, 1 << 16> bytes{};
  const ssize_t got = ::read(reader, bytes.data(), bytes.size());
  ::close(reader);
  ASSERT_GT(got, 0);
  EXPECT_EQ(std::string(bytes.data(), static_cast<std::size_t>(got)), place.read("file"));
}

TEST_F(Streams, APipeIsNoInput) {
  ASSERT_EQ(::mkfifo(place.path("pipe").c_str(), 0600), 0);
  const std::string says = "^pipe: is not a regular file; give a file\n$";
  const std::vector<Words> readers = {{"plan", "pipe"},
                                      {"plan", "--graph", "pipe", "--budget", "1GiB"},
                                      {"plan", "--megatron-args", "pipe", "--device", "h100-80g"},
                                      {"plan", small_model(), "--device", "pipe"},
                                      {"plan", small_model(), "--imbalance-from", "pipe"},
                                      {"plan", small_model(), "--calibration", "pipe"},
                                      {"check", "pipe", "--budget", "1GiB"},
                                      {"show", "pipe"},
                                      {"diff", "made.json", "pipe"},
                                      {"run", "pipe"},
                                      {"run", "made.json", "--loads", "pipe"},
                                      {"pack", "pipe"},
                                      {"replay", "pipe"},
                                      {"export", "pipe", "--to", "megatron"},
                                      {"estimate", "--truth", "pipe"}};
  for (const Words& reader : readers) expect_refused(place, reader, says);
}

// ---- names ----------------------------------------------------------------------------------------------------------

/// Names of files are bytes to the system; in JSON, those that are no characters are shown as `\xNN`.
TEST_F(Streams, NamesThatAreNotUtf8AreShownInJson) {
  const std::string name = "b\xff.csv";
  place.write(name, kBuffers);
  const Ran packed = place.run({"pack", name, "--format", "json"});
  EXPECT_EQ(packed.status, 0) << packed.err;
  EXPECT_EQ(parsed(packed.out).value("status", ""), "optimal");
  const Ran refused = place.run({"show", "no\xe5\xad.json", "--format", "json"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(parsed(refused.out).value("message", ""), "no\\xe5\\xad.json: cannot read: No such file or directory");
  EXPECT_EQ(refused.err, "no\\xe5\\xad.json: cannot read: No such file or directory\n");
}

/// The name of a job that comes from the name of its file goes into plans.
TEST_F(Streams, AFileNameBecomesTheNameOfAJobAsText) {
  const std::string name = "train\xff.yaml";
  place.write(name,
              "num-layers: 2\nhidden-size: 64\nnum-attention-heads: 4\nseq-length: 128\nmicro-batch-size: 1\n"
              "bf16: true\nattention-backend: flash\n");
  const Ran ran = place.run(
      {"plan", "--megatron-args", name, "--device", "h100-80g", "--out", "plan.json", "--format", "json", "-q"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("train\\\\xff"), std::string::npos);
  EXPECT_FALSE(parsed(ran.out).is_null());
  EXPECT_FALSE(parsed(place.read("plan.json")).is_null()) << "throws where it is no JSON";
  EXPECT_EQ(place.run({"show", "plan.json"}).status, 0);
}

TEST_F(Streams, AModelNameThatIsNotUtf8IsRefused) {
  std::string text = text_of(small_model());
  const std::size_t at = text.find("name: ");
  ASSERT_NE(at, std::string::npos);
  text.insert(at + 6, "\xe9");
  place.write("bad.yaml", text);
  for (const char* verb : {"plan", "estimate", "simulate", "check"})
    expect_refused(place, {verb, "bad.yaml"}, "^bad\\.yaml:[0-9]+: byte 0xe9 is not UTF-8; save the file as UTF-8\n$");
  place.write("bad.sh", "#!/bin/bash\n# fine\npython train.py --num-layers 2 --save /data/\xff\n");
  expect_refused(place, {"plan", "--megatron-args", "bad.sh", "--device", "h100-80g"},
                 "^bad\\.sh:3: byte 0xff is not UTF-8; save the file as UTF-8\n$");
}

// ---- limits of numbers ----------------------------------------------------------------------------------------------

TEST_F(Streams, NumbersBeyondWhatIsModelledNameTheBound) {
  const auto refused = [&](const Words& more, const std::string& says) {
    for (const char* verb : {"plan", "simulate"}) expect_refused(place, with({verb, small_model()}, more), says);
  };
  refused({"--layer-ms", "1e-300"}, "--layer-ms: '1e-300' is out of range; it must be from 1e-06 to 1000000\n$");
  refused({"--layer-ms", "1e-7"}, "--layer-ms: .*from 1e-06");
  refused({"--op-time-scale", "1e-300"}, "--op-time-scale: '1e-300' is out of range; it must be from 0.001 to 1000\n$");
  refused({"--imbalance", "p99.9999"},
          "--imbalance: quantile 'p99.9999' is out of range; peaks are sampled from p0.1 to p99.9\n$");
  refused({"--imbalance", "p0.01"}, "--imbalance: .*from p0.1 to p99.9\n$");
  std::string text = text_of(small_model());
  const std::string load = "  coefficient_of_variation: 0.10\n";
  ASSERT_NE(text.find(load), std::string::npos);
  place.write("bad.yaml", text.insert(text.find(load) + load.size(), "  quantile: 0.999999\n"));
  expect_refused(
      place, {"plan", "bad.yaml"},
      "^bad\\.yaml:[0-9]+: quantile is 0.999999; it must be from 0.001 to 0.999, as far as peaks are sampled");
}

// ---- memory ---------------------------------------------------------------------------------------------------------

/// Whatever the limit, the program ends with an answer or with one line and the status of bad input.
TEST_F(Streams, ShortMemoryIsBadInput) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer maps more address space than any of these limits";
  place.write("deep.json", std::string(50'000'000, '['));
  const std::vector<Words> commands = {{"plan", small_model(), "--out", "plan.json", "--report", "plan.html", "-q"},
                                       {"show", "made.json"},
                                       {"show", "deep.json"},
                                       {"pack", "buffers.csv", "--threads", "8"},
                                       {"completion", "bash"}};
  int short_of_memory = 0, answered = 0;
  const std::set<std::string> before = place.files();
  for (const Words& command : commands)
    for (std::int64_t mib = 24; mib <= 1024; mib += mib < 128 ? 4 : mib < 320 ? 16 : 128) {
      SCOPED_TRACE(command.front() + " " + command.back() + " within " + std::to_string(mib) + " MiB");
      const Ran ran = place.run_limited(command, mib * kMiB);
      if (ran.status == 127) continue;  // not even its libraries can be loaded
      if (ran.status <= 1) {
        ++answered;
        std::error_code none;
        for (const char* made : {"plan.json", "plan.html"}) std::filesystem::remove(place.path(made), none);
        continue;
      }
      EXPECT_EQ(ran.status, 2) << ran.err;
      EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
      EXPECT_EQ(place.files(), before);
      if (ran.err.find("memory") != std::string::npos || ran.err.find("thread") != std::string::npos) ++short_of_memory;
    }
  EXPECT_GT(short_of_memory, 10);
  EXPECT_GT(answered, 10);
}

}  // namespace
}  // namespace tidemark::testing
