// `tidemark run` as a user runs it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "core/bytes.h"
#include "tests/support/json_text.h"
#include "tests/support/program_run.h"
#include "tests/support/sanitized.h"

namespace tidemark {
namespace {

using testing::is_one_line;
using testing::Ran;
using testing::small_model;
using testing::Workplace;

class CliRun : public ::testing::Test {
 protected:
  void plan(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"plan", small_model(), "--out", "plan.json", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    ASSERT_EQ(place.run(words).status, 0);
  }
  Ran run(std::vector<std::string> more) {
    more.insert(more.begin(), {"run", "plan.json"});
    return place.run(more);
  }
  Workplace place;
};

TEST_F(CliRun, SimulatedStepMatchesThePlanAndSaysWhatItsTimesAre) {
  plan();
  const Ran text = run({"--verify", "--seed", "0", "--schedules", "4"});
  EXPECT_EQ(text.status, 0) << text.out << text.err;
  for (const char* word : {"simulated", "modelled", "true sizes", "contents checked", "\nOK\n"})
    EXPECT_NE(text.out.find(word), std::string::npos) << word << "\n" << text.out;
  const Ran json = run({"--verify", "--format", "json"});
  ASSERT_EQ(json.status, 0) << json.err;
  const auto parsed = testing::parsed(json.out);
  EXPECT_EQ(parsed["verdict"], "OK");
  EXPECT_EQ(parsed["time_is"], "simulated");
  EXPECT_EQ(parsed["messages_matched"], true);
  EXPECT_NEAR(parsed["step_ms"].get<double>() / parsed["plan_step_ms"].get<double>(), 1, 0.03);
  for (const auto& rank : parsed["ranks"]) {
    EXPECT_LE(rank["planned_extent_bytes"], rank["plan_bytes"]);
    EXPECT_GE(rank["taken_bytes"], rank["planned_extent_bytes"]);
    EXPECT_LE(rank["taken_bytes"], rank["allowed_bytes"]);
    EXPECT_EQ(rank["races"], 0);
    EXPECT_EQ(rank["mismatches"], 0);
  }
}

/// The plan's step has in it what issuing copies costs; the simulated devices play it, so that the two are one
/// quantity.
TEST_F(CliRun, StepsOfPlanAndRunAreOfTheSameThingWithCopies) {
  plan({"--imbalance", "1.1", "--policy", "published-recipe-attention-swap"});
  const auto shown = testing::parsed(place.run({"show", "plan.json", "--format", "json"}).out);
  const auto ran = testing::parsed(run({"--format", "json"}).out);
  std::int64_t copies = 0;
  double latest_ms = 0;
  for (const auto& rank : ran["ranks"]) {
    copies += rank["out"]["copies"].get<std::int64_t>();
    latest_ms = std::max(latest_ms, rank["plan_step_ms"].get<double>());
    EXPECT_NEAR(rank["step_ms"].get<double>() / rank["plan_step_ms"].get<double>(), 1, 1e-3) << rank["rank"];
  }
  EXPECT_GT(copies, 100);
  EXPECT_NEAR(latest_ms, ran["plan_step_ms"].get<double>(), 1e-3);
  EXPECT_NEAR(ran["step_ms"].get<double>() / ran["plan_step_ms"].get<double>(), 1, 1e-3);
  EXPECT_NEAR(shown["step_ms"].get<double>(), ran["plan_step_ms"].get<double>(), 1e-3);
}

/// A captured step says by itself how long its copies take; the machine's links do not come into it.
TEST_F(CliRun, CopyTimesOfACapturedStepAreItsOwn) {
  const auto storage = [](const char* name, Bytes mib, const char* more = "") {
    return fmt::format(R"({{"name": "{}", "bytes": {}{}}})", name, mib * kMiB, more);
  };
  const std::string kept = R"(, "until_end": true)";
  place.write("step.json",
              R"({"tidemark_graph": 1, "name": "by hand", "cost_unit": "ns", "link": {"out_bytes_per_second": 20e9,
                  "in_bytes_per_second": 10e9, "latency_ns": 5000, "host_bytes": 1073741824}, "storages": [)" +
                  storage("weights", 8, kept.c_str()) + "," + storage("hidden", 32) + "," + storage("output", 32) +
                  "," + storage("gradient", 32) + R"(], "ops": [
    {"name": "first", "cost": 9000000, "reads": [0], "writes": [1]},
    {"name": "second", "cost": 900000, "reads": [0], "writes": [2]},
    {"name": "loss", "cost": 900000, "reads": [2], "writes": [3]},
    {"name": "third", "cost": 900000, "reads": [3, 0], "writes": [0]},
    {"name": "last", "cost": 900000, "reads": [1, 0], "writes": [0]}]})");
  ASSERT_EQ(place
                .run({"plan", "--graph", "step.json", "--budget", "80MiB", "--effort", "0.01", "--out", "plan.json",
                      "--quiet"})
                .status,
            0);
  const auto ran = testing::parsed(run({"--format", "json"}).out);
  EXPECT_GT(ran["ranks"][0]["out"]["copies"].get<std::int64_t>(), 0);
  EXPECT_GT(ran["step_ms"].get<double>(), 12.6);
  EXPECT_NEAR(ran["step_ms"].get<double>() / ran["plan_step_ms"].get<double>(), 1, 1e-3);
}

TEST_F(CliRun, RandomDurationsAreSaidToBeRandom) {
  plan();
  const Ran text = run({"--seed", "3", "--schedules", "2"});
  EXPECT_NE(text.out.find("2 schedules from seed 3\ndurations randomised by seed: each 0.1 to 4 times its estimate"),
            std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("times shown are of seed 3"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find(" %"), std::string::npos) << "compares a random time with the plan's:\n" << text.out;
  EXPECT_EQ(testing::parsed(run({"--schedules", "2", "--format", "json"}).out)["durations"], "randomised");
  EXPECT_NE(run({"--schedules", "2"}).out.find("seed 0, whose times are shown, is as estimated"), std::string::npos);
  EXPECT_EQ(run({}).out.find("randomised"), std::string::npos);
  EXPECT_EQ(testing::parsed(run({"--seed", "3", "--format", "json"}).out)["durations"], "randomised");
}

TEST_F(CliRun, WhatThePlanDoesNotSayIsNull) {
  plan();
  const auto host =
      testing::parsed(run({"--device", "host", "--scale", "1/64", "--rank", "0", "--format", "json"}).out);
  EXPECT_TRUE(host["ranks"][0]["plan_step_ms"].is_null()) << host;
  EXPECT_EQ(host["durations"], "real");
  const auto sim = testing::parsed(run({"--format", "json"}).out);
  EXPECT_GT(sim["ranks"][0]["plan_step_ms"], 0);
}

/// Refused before anything is taken, with what is needed, what there is, and what would fit.
TEST_F(CliRun, MoreThanTheMachineHasIsRefusedUpFront) {
  plan();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs all of the address space";
#endif
  // Address space for the program itself and a little more; far from the 2 GiB of the plan.
  const Ran ran = place.run_limited({"run", "plan.json", "--device", "host"}, 1200 * kMiB);
  EXPECT_EQ(ran.status, 1) << ran.out << ran.err;
  EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
  EXPECT_TRUE(testing::has_match(
      ran.err,
      "^tidemark run: rank 1 needs 1\\.90 GiB of this machine's memory at --scale 1: .* are available "
      "\\(limit of address space \\(ulimit -v\\)\\) .*; --scale 1/[0-9]+ would fit"))
      << ran.err;
}

/// The value of a line of /proc/PID/status as text; empty: no such line, or no such process.
std::string status_line(pid_t process, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) return line.substr(name.size() + 1);
  return "";
}

/// A handler would run only when the system call that fills the memory is over.
TEST_F(CliRun, SignalsEndItAtOnceWhileMemoryIsTaken) {
  plan();
  const pid_t process =
      place.start({testing::program_path(), "run", "plan.json", "--device", "host", "--scale", "1/2", "--verify"}, "");
  // With a sanitizer, reading the plan alone takes that much: signals are still caught then.
  constexpr long kTakenKib = 100 * 1024;
  const auto catches_none = [&] {
    const std::uint64_t caught = std::stoull(status_line(process, "SigCgt"), nullptr, 16);
    return (caught >> (SIGINT - 1) & 1) + (caught >> (SIGTERM - 1) & 1) + (caught >> (SIGHUP - 1) & 1) == 0;
  };
  std::string resident;
  do {
    ::usleep(1000);
    const std::string state = status_line(process, "State");
    ASSERT_TRUE(!state.empty() && state.find('Z') == std::string::npos) << "over before signals ended it at once";
    resident = status_line(process, "VmRSS");
  } while (resident.empty() || std::stol(resident) < kTakenKib || !catches_none());
  ::kill(process, SIGTERM);
  const Ran ran = place.finish(process, "");
  EXPECT_EQ(ran.status, 128 + SIGTERM) << ran.out << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(place.files(), std::set<std::string>{"plan.json"});
}

TEST_F(CliRun, RealMemoryIsMeasuredAndRunsRanksAlone) {
  plan();
  const Ran ran = run({"--device", "host", "--scale", "1/64", "--verify", "--rank", "1"});
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  for (const char* word : {"measured", "sizes 1/64", "WARNING ranks 1: one rank alone", "\nOK\n"})
    EXPECT_NE(ran.out.find(word), std::string::npos) << word << "\n" << ran.out;
}

TEST_F(CliRun, LoadsAboveThePlanAreServed) {
  plan({"--imbalance", "1.1"});
  const Ran beside = run({"--load-rise", "1.2@100", "--verify"});
  EXPECT_EQ(beside.status, 0) << beside.out << beside.err;
  EXPECT_NE(beside.out.find("Expert load above the plan"), std::string::npos) << beside.out;
  EXPECT_NE(beside.out.find(" storages beside their slots"), std::string::npos) << beside.out;
  EXPECT_EQ(beside.out.find(" in up to "), std::string::npos) << beside.out;
  plan({"--imbalance", "1.1", "--budget", "4.6GiB"});
  const Ran chunked = run({"--load", "4"});
  EXPECT_EQ(chunked.status, 0) << chunked.out << chunked.err;
  EXPECT_TRUE(testing::has_match(chunked.out, "rank 0: .* [0-9]+ sections in up to [0-9]+ chunks")) << chunked.out;
}

/// Of the reference job, a rank with little to spare, where routing sends it as much as it can.
TEST_F(CliRun, WhatDoesNotFitRunsInChunks) {
  if (testing::kSanitized) GTEST_SKIP() << "chunks of a small job are run by LoadsAboveThePlanAreServed";
  const std::string model = testing::source_path("models/pangu-ultra-moe-718b.yaml").string();
  const Ran planned = place.run({"plan", model, "--ranks", "14", "--out", "plan.json", "--quiet"});
  ASSERT_EQ(planned.status, 0) << planned.err;
  EXPECT_NE(planned.out.find("any load up to"), std::string::npos) << planned.out;
  const auto rank = testing::parsed(place.read("plan.json"))["ranks"][0];
  const double worst = rank["figures"]["worst_load_f"];
  EXPECT_EQ(worst, 32);  // each of 32 devices has as many experts as a token chooses
  const auto run_at = [&](double load, std::vector<std::string> more) {
    more.insert(more.begin(), {"--load", fmt::format("{:.17g}", load)});
    return run(more);
  };
  const Ran text = run_at(worst, {"--verify", "--scale", "1/64"});
  EXPECT_EQ(text.status, 0) << text.out << text.err;
  EXPECT_TRUE(testing::has_match(text.out, "rank 14: .* sections in up to [0-9]+ chunks")) << text.out;
  const Ran ran = run_at(worst, {"--verify", "--seed", "3", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto loaded = testing::parsed(ran.out)["ranks"][0];
  const auto& sections = loaded["sections"];
  // All but a few of the first micro-batch, beside which little is held yet.
  EXPECT_GE(sections.size() * 100, rank["program"]["section_ends"]["count"].get<std::size_t>() * 99);
  ASSERT_GT(sections.size(), 300U);
  for (const auto& section : sections) {
    EXPECT_EQ(section["load"], worst);
    EXPECT_GE(section["chunks"], 2);
    EXPECT_EQ(section["wanted"], true);
  }
  EXPECT_EQ(loaded["races"], 0);
  EXPECT_EQ(loaded["mismatches"], 0);
  EXPECT_LE(loaded["taken_bytes"], loaded["allowed_bytes"]);
  const auto as_planned = testing::parsed(run_at(rank["figures"]["load"], {"--format", "json"}).out)["ranks"][0];
  EXPECT_EQ(as_planned["sections"].size(), 0U);
}

/// Ranks that do not run may well have experts.
TEST_F(CliRun, ALoadThatChangesNothingIsRefused) {
  const Ran planned = place.run({"plan", testing::source_path("models/llama-3-70b.yaml").string(), "--ranks", "0",
                                 "--policy", "keep-all", "--out", "plan.json", "--quiet"});
  ASSERT_LE(planned.status, 1) << planned.err;
  const Ran ran = run({"--rank", "0", "--load", "1.2"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.err,
            "tidemark run: --load, --load-rise: nothing in the ranks that run depends on the expert load; none has "
            "routed storages\n");
}

TEST_F(CliRun, BadOptionsAreOneLine) {
  plan();
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--scale", "1/3"},
                                             {"--scale", "2"},
                                             {"--scale", "1/128"},
                                             {"--rank", "7"},
                                             {"--rank", "x"},
                                             {"--device", "tpu"},
                                             {"--load", "0"},
                                             {"--load", "1.2x"},
                                             {"--load", "4.01"},
                                             {"--load-rise", "4.01@0"},
                                             {"--load-rise", "1.2@99999999"},
                                             {"--load-rise", "1.2"},
                                             {"--load-rise", "1.2@-1"},
                                             {"--load", "1", "--load-rise", "2@3"},
                                             {"--device", "host", "--seed", "3"}}) {
    const Ran ran = run(words);
    EXPECT_EQ(ran.status, 2) << words.back() << ran.err;
    EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
}

}  // namespace
}  // namespace tidemark
