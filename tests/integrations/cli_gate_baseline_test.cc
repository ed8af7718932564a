// What the gate says where growth cannot be told, and what a baseline does not lose: with the real program.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "tests/support/gate_answer.h"
#include "tests/support/json_text.h"
#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

/// A job `nightly` that was measured, another of a script.
class GateBaseline : public ::testing::Test {
 protected:
  void SetUp() override {
    measure(5000);
    place.write("pretrain.sh", kGptScript);
    write_budget("  - {name: nightly, measured: run.jsonl}\n  - {name: gpt, script: pretrain.sh}\n");
  }

  void measure(Bytes used) const { place.write("run.jsonl", device_sample(used)); }

  void write_budget(const std::string& jobs) const {
    place.write("tidemark-budget.yaml", "schema: tidemark-budget/1\ncapacity: 70GiB\njobs:\n" + jobs);
  }

  void update(Words more = {}) const {
    more.insert(more.begin(), {"baseline", "update", "--quiet"});
    const Ran ran = place.run(more);
    ASSERT_EQ(ran.status, 0) << ran.err;
  }

  [[nodiscard]] std::string written() const { return place.read("tidemark-baseline.json"); }

  [[nodiscard]] Json answer(Words words, int status = 0) const { return gate_answer(place, std::move(words), status); }

  static bool says(const Json& job, const std::string& part) {
    return job.at("notices").dump().find(part) != std::string::npos;
  }

  Workplace place;
};

// ---- update ---------------------------------------------------------------------------------------------------------

TEST_F(GateBaseline, AnUpdateLosesNoRun) {
  update();
  measure(5100);
  update({"--job", "nightly", "--add-run"});
  const std::string two = written();
  ASSERT_EQ(parsed(two)["jobs"]["nightly"]["runs"].size(), 2U);
  update();
  EXPECT_EQ(written(), two) << "the run is one of those that are written";
  measure(5200);
  expect_refused(place, {"baseline", "update", "--quiet"},
                 "nightly: its 2 runs are not replaced by this one: give --add-run, or --job nightly --anew");
  EXPECT_EQ(written(), two);
  expect_refused(place, {"baseline", "update", "--anew"}, "--anew: .*--job says of which");
  expect_refused(place, {"baseline", "update", "--job", "nightly", "--anew", "--add-run"}, "excludes");
  expect_refused(place, {"baseline", "show", "--anew"}, "--anew: belongs to update");
  update({"--job", "nightly", "--anew"});
  EXPECT_EQ(parsed(written())["jobs"]["nightly"]["runs"].size(), 1U);
  EXPECT_EQ(parsed(written())["jobs"]["nightly"]["ranks"][0]["peak_bytes"], 5200);
}

/// Of one run a plain update is what it was: the run of now.
TEST_F(GateBaseline, AnUpdateOfOneRunReplacesIt) {
  update();
  measure(5200);
  update();
  EXPECT_EQ(parsed(written())["jobs"]["nightly"]["ranks"][0]["peak_bytes"], 5200);
}

TEST_F(GateBaseline, WhatNoCheckWouldReadIsNotWritten) {
  update();
  const std::string before = written();
  measure(Bytes{1} << 51);  // more than a baseline may hold
  const Ran ran = place.run({"baseline", "update", "--quiet"});
  EXPECT_EQ(ran.status, 2) << ran.err;
  EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
  EXPECT_EQ(written(), before);
}

// ---- no baseline ----------------------------------------------------------------------------------------------------

TEST_F(GateBaseline, ThatThereIsNoneIsSaidOnce) {
  const Json without = answer({"check"});
  EXPECT_TRUE(says(job_named(without, "nightly"),
                   "there is no tidemark-baseline.json beside the budget file: no job is held against"))
      << without;
  EXPECT_FALSE(says(job_named(without, "gpt"), "there is no tidemark-baseline.json"));
  update();
  EXPECT_FALSE(says(job_named(answer({"check"}), "nightly"), "there is no"));
}

TEST_F(GateBaseline, ALinkThatLeadsNowhereIsNoMissingOne) {
  for (const char* target : {"nowhere.json", "tidemark-baseline.json"}) {  // the second leads to itself
    std::filesystem::remove(place.path("tidemark-baseline.json"));
    std::filesystem::create_symlink(target, place.path("tidemark-baseline.json"));
    expect_refused(place, {"check"}, "^tidemark-baseline\\.json: ");
    expect_refused(place, {"baseline", "update"}, "^tidemark-baseline\\.json: ");
  }
}

TEST_F(GateBaseline, AJobThatItLacksIsNearWhereGrowthIsAskedFor) {
  update();
  EXPECT_FALSE(says(job_named(answer({"check", "--job", "nightly"}), "nightly"), "the baseline has job gpt"));
  write_budget("  - {name: nightly, measured: run.jsonl}\n  - {name: renamed, script: pretrain.sh}\n");
  const Json noted = answer({"check"});
  EXPECT_TRUE(says(job_named(noted, "renamed"), "the baseline does not have this job")) << noted;
  EXPECT_TRUE(says(job_named(noted, "nightly"), "the baseline has job gpt, which the budget file does not")) << noted;
  EXPECT_EQ(job_named(noted, "nightly")["verdict"], "PASS");
  const Json asked = job_named(answer({"check", "--fail-on", "growth=2%"}), "renamed");
  EXPECT_EQ(asked["verdict"], "NEAR");
  const Json& finding = asked["findings"].back();
  EXPECT_EQ(finding["kind"], "growth");
  EXPECT_NE(finding["line"].get<std::string>().find("so that nothing says what it grew by"), std::string::npos)
      << finding;
}

TEST_F(GateBaseline, OneOfAnotherBasisIsAnErrorWhereGrowthIsAskedFor) {
  update();
  write_budget("  - {name: nightly, measured: run.jsonl}\n  - {name: gpt, measured: run.jsonl}\n");
  EXPECT_EQ(job_named(answer({"check"}), "gpt")["verdict"], "NEAR");
  const Json error = job_named(answer({"check", "--fail-on", "growth=2%"}, 2), "gpt");
  EXPECT_EQ(error["verdict"], "ERROR");
  const std::string why =
      "--fail-on: tidemark-baseline.json is estimated, run.jsonl is measured: they are not compared";
  EXPECT_NE(error["error"].get<std::string>().find(why), std::string::npos) << error;
  expect_refused(place,
                 {"check", "run.jsonl", "--budget", "1GiB", "--baseline", "tidemark-baseline.json", "--job", "gpt",
                  "--fail-on", "growth=2%"},
                 why);
}

// ---- capacity -------------------------------------------------------------------------------------------------------

TEST_F(GateBaseline, AnEstimateSaysThatNothingOfItsCapacityIsKept) {
  constexpr const char* kNotice = "nothing of the capacity is kept for driver";
  const Json found = answer({"check"});
  EXPECT_TRUE(says(job_named(found, "gpt"), kNotice)) << found;
  EXPECT_FALSE(says(job_named(found, "nightly"), kNotice)) << found;
  for (const char* more : {"reserve: 0B", "device: h100-80g"}) {
    write_budget(std::string("  - {name: gpt, script: pretrain.sh, ") + more + "}\n");
    EXPECT_FALSE(says(job_named(answer({"check"}), "gpt"), kNotice)) << more;
  }
}

}  // namespace
}  // namespace tidemark::testing
