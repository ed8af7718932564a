// Words of a budget file that are wrong, files that are not what they are called, and names that would act in the log
// of a CI job: with the real program.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/support/gate_answer.h"
#include "tests/support/json_text.h"
#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

/// A job whose line a test writes, beside one that passes.
class GateWords : public ::testing::Test {
 protected:
  void SetUp() override {
    place.write("small.yaml", text_of(small_model()));
    place.write("pretrain.sh", kGptScript);
  }

  void write_budget(const std::string& job) const {
    place.write("tidemark-budget.yaml", "schema: tidemark-budget/1\ncapacity: 70GiB\njobs:\n  - " + job +
                                            "\n  - {name: gpt, script: pretrain.sh}\n");
  }

  /// `check` says that the job is an error with this message, and judges the other.
  void expect_unjudged(const std::string& job, const std::string& message) const {
    write_budget(job);
    const Json result = gate_answer(place, {"check"}, 2);
    ASSERT_EQ(result["jobs"].size(), 2U) << job;
    EXPECT_EQ(job_named(result, "a")["verdict"], "ERROR") << job;
    EXPECT_EQ(job_named(result, "gpt")["verdict"], "PASS") << job;
    EXPECT_TRUE(has_match(job_named(result, "a").dump(), message)) << job_named(result, "a").dump();
  }

  /// So does `check`, and `baseline update` writes nothing.
  void expect_error_of_one(const std::string& job, const std::string& message) const {
    expect_unjudged(job, message);
    expect_refused(place, {"baseline", "update", "--quiet"}, message);
  }

  Workplace place;
};

TEST_F(GateWords, APolicyThatIsNoneIsAnErrorOfItsJobAlone) {
  for (const char* policy : {"nope", "KEEP-ALL", "'keep-all '"})
    expect_error_of_one(std::string("{name: a, model: small.yaml, policy: ") + policy + "}",
                        "tidemark-budget.yaml:4: policy: unknown policy '.*'.*; known: keep-all, .*optimal");
  write_budget("{name: a, model: small.yaml, policy: keep-all}");
  EXPECT_EQ(gate_answer(place, {"check"}, 0)["jobs"].size(), 2U);
}

TEST_F(GateWords, AnAcceleratorThatIsNoneIsAnErrorOfItsJobAlone) {
  for (const char* word : {"NPU", "H100", "rtx4090"})
    expect_error_of_one(std::string("{name: a, script: pretrain.sh, accelerator: ") + word + "}",
                        "tidemark-budget.yaml:4: accelerator: unknown accelerator '.*'.*; known: a100, h100, gb200 or "
                        "ascend");
}

TEST_F(GateWords, ADeviceThatIsNoneIsAnErrorAtItsLine) {
  expect_error_of_one("{name: a, script: pretrain.sh,\n     device: nope}",
                      "tidemark-budget.yaml:5: device: no device 'nope'");
}

TEST_F(GateWords, WhatNoEstimateUsesIsNoKey) {
  write_budget("{name: a, script: pretrain.sh, framework: megatron}");
  expect_refused(place, {"check", "--quiet"}, "tidemark-budget.yaml:4: unknown key 'framework'");
}

TEST_F(GateWords, AWorldIsAsLargeAsOnTheCommandLineAtMost) {
  write_budget("{name: a, script: pretrain.sh, world_size: 16777217}");
  expect_refused(place, {"check", "--quiet"}, "tidemark-budget.yaml:4: world_size is 16777217; it is at most 16777216");
}

TEST_F(GateWords, ACapacityBelowTheReserveOfItsDeviceIsNoBudget) {
  expect_unjudged("{name: a, script: pretrain.sh, capacity: 1B, device: h100-80g}",
                  "tidemark-budget.yaml:4: capacity 1 B leaves nothing beside the reserve of [0-9.]+ [GM]iB");
}

// ---- files that are not what they are called ------------------------------------------------------------------------

TEST_F(GateWords, ABudgetFileThatCannotBeReadHidesThoseAbove) {
  write_budget("{name: a, model: small.yaml}");
  std::filesystem::create_directory(place.path("sub"));
  const std::filesystem::path link = place.path("sub/tidemark-budget.yaml");
  for (const char* target : {"nowhere", "tidemark-budget.yaml"}) {
    std::filesystem::create_symlink(target, link);
    for (const char* verb : {"check", "baseline update", "list jobs"}) {
      const Ran ran = place.finish(
          place.start({"/bin/sh", "-c", std::string("cd sub && exec ") + program_path() + " " + verb}, ""), "");
      EXPECT_EQ(ran.status, 2) << verb << ran.out;
      EXPECT_EQ(ran.err.find("tidemark-budget.yaml: "), 0U) << ran.err;
      EXPECT_EQ(ran.out, "");
    }
    std::filesystem::remove(link);
  }
}

TEST_F(GateWords, AnOutputLinkIsFollowedAndNeverReplaced) {
  write_budget("{name: a, script: pretrain.sh}");
  place.write("target.json", "old");
  std::filesystem::create_symlink("target.json", place.path("live.json"));
  std::filesystem::create_symlink("nowhere.json", place.path("dangling.json"));
  expect_refused(place, {"check", "--quiet", "--output", "json=live.json", "--output", "text=dangling.json"},
                 "dangling.json: cannot write: it is a link that leads nowhere");
  EXPECT_EQ(place.read("target.json"), "old");
  EXPECT_EQ(place.run({"check", "--quiet", "--output", "json=live.json"}).status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(place.path("live.json")));
  EXPECT_TRUE(std::filesystem::is_symlink(place.path("dangling.json")));
  EXPECT_EQ(parsed(place.read("target.json"))["verdict"], "PASS");
}

// ---- the log of a CI job --------------------------------------------------------------------------------------------

/// No line of a text begins with a command to a runner, or holds one of the older kind.
void expect_no_command(const std::string& text) {
  EXPECT_FALSE(has_match("\n" + text, "\n[ \t]*::")) << text;
  EXPECT_EQ(text.find("##["), std::string::npos) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

TEST_F(GateWords, NoNameOfAFileBeginsALineOfTheLog) {
  const std::string name = "we ird\n::error::p\r\x1b[31m##[error]q.sh";
  place.write(name, kGptScript);
  write_budget("{name: a, script: \"we ird\\n::error::p\\r\\e[31m##[error]q.sh\"}");
  const Ran ran = place.run({"check"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.err.find("tidemark: note: we ird?::error::p??[31m##\\[error]q.sh: accelerator taken as"),
            std::string::npos)
      << ran.err;
  expect_no_command(ran.err);
  expect_no_command(ran.out);
}

TEST_F(GateWords, NoErrorIsACommand) {
  for (const char* name : {"::error::x", "a\n::error::x", " ::error::x", "##[error]x"}) {
    const Ran ran = place.run({"check", name, "--format", "json"});
    EXPECT_EQ(ran.status, 2);
    EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
    expect_no_command(ran.err);
    expect_no_command(ran.out);
  }
  EXPECT_EQ(
      parsed(place.run({"check", "##[error]x", "--format", "json"}).out)["message"].get<std::string>().find("##["), 0U);
}

TEST_F(GateWords, WhatTurnsTextIsRefusedAndNotShown) {
  write_budget("{name: \"a\\u202egpj.exe\", model: small.yaml}");
  expect_refused(place, {"check", "--quiet"}, "name 'a\\?gpj.exe' has characters that turn the direction of text");
  write_budget(
      "{name: a, model: small.yaml, waivers: [{owner: \"\\u200b \", reason: r, expires: 2026-12-31, at_most: 1GiB}]}");
  expect_refused(place, {"check", "--quiet"}, "tidemark-budget.yaml:4: owner '.*' shows nothing");
}

// ---- a lock that another process holds ------------------------------------------------------------------------------

TEST_F(GateWords, ThatALockIsWaitedForIsSaid) {
  write_budget("{name: a, script: pretrain.sh}");
  const int folder = ::open(place.path("").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(folder, LOCK_EX), 0);
  const pid_t update = place.start({program_path(), "baseline", "update"}, "");
  const std::filesystem::path err = place.path("../err");
  const auto is_said = [&err] {
    return text_of(err).find("tidemark: waiting for another process") != std::string::npos;
  };
  for (int i = 0; i < 3000 && !is_said(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(is_said()) << text_of(err);
  EXPECT_FALSE(std::filesystem::exists(place.path("tidemark-baseline.json")));
  ::close(folder);
  const Ran ran = place.finish(update, "");
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(std::filesystem::exists(place.path("tidemark-baseline.json")));
}

}  // namespace
}  // namespace tidemark::testing
