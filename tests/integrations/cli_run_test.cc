// `tidemark run` as a user runs it.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/program_run.h"

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
  const auto parsed = nlohmann::json::parse(json.out);
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

TEST_F(CliRun, RealMemoryIsMeasuredAndRunsRanksAlone) {
  plan();
  const Ran ran = run({"--device", "host", "--scale", "1/64", "--verify", "--rank", "1"});
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
  for (const char* word : {"measured", "sizes 1/64", "WARNING ranks 1: one rank alone", "\nOK\n"})
    EXPECT_NE(ran.out.find(word), std::string::npos) << word << "\n" << ran.out;
}

TEST_F(CliRun, LoadsAboveThePlanAreServedOrRefused) {
  plan({"--imbalance", "1.1"});
  const Ran served = run({"--load-rise", "1.2@100", "--verify"});
  EXPECT_EQ(served.status, 0) << served.out << served.err;
  EXPECT_NE(served.out.find("Expert load above the plan"), std::string::npos) << served.out;
  const Ran refused = run({"--load", "900"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(is_one_line(refused.err)) << refused.err;
  EXPECT_NE(refused.err.find("load 900"), std::string::npos) << refused.err;
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
