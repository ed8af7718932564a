// Plans at the gate: of some ranks, above their budgets, with a reserve of the job's own. With the real program.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "tests/support/gate_answer.h"
#include "tests/support/json_text.h"
#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

/// models/small.yaml, a job of two ranks.
class GatePlan : public ::testing::Test {
 protected:
  void SetUp() override { place.write("small.yaml", text_of(small_model())); }

  void plan(const Words& more, int status = 0) const {
    Words words = {"plan", "small.yaml", "--policy", "keep-all", "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = place.run(words);
    ASSERT_EQ(ran.status, status) << ran.err;
  }

  /// The one job that is checked.
  [[nodiscard]] Json job(Words words, int status = 0) const {
    words.insert(words.begin(), "check");
    return gate_answer(place, std::move(words), status).at("jobs").at(0);
  }

  [[nodiscard]] Json job_of(const std::string& lines, int status = 0) const {
    place.write("tidemark-budget.yaml",
                "schema: tidemark-budget/1\njobs:\n  - name: small\n    model: small.yaml\n" + lines);
    return job({}, status);
  }

  Workplace place;
};

TEST_F(GatePlan, OfSomeRanksIsNotTheWholeJob) {
  plan({"--out", "whole.json"});
  plan({"--ranks", "1", "--out", "last.json"});
  EXPECT_EQ(job({"whole.json", "--budget", "60GiB"})["verdict"], "PASS");
  const Json last = job({"last.json", "--budget", "60GiB"});
  EXPECT_EQ(last["verdict"], "NEAR");
  EXPECT_EQ(last["findings"].back()["kind"], "rank");
  EXPECT_NE(last["findings"].back()["line"].get<std::string>().find("rank 0 was not planned"), std::string::npos)
      << last;
  const Ran diff = place.run({"diff", "whole.json", "last.json", "--fail-on", "growth=2%", "--quiet"});
  EXPECT_EQ(diff.status, 0) << diff.err;
  EXPECT_TRUE(diff.out.starts_with("NEAR ")) << diff.out;
  // What was asked for is all that there is to judge.
  EXPECT_EQ(job({"whole.json", "--ranks", "1", "--budget", "60GiB"})["verdict"], "PASS");
  EXPECT_EQ(job({"small.yaml", "--ranks", "1", "--budget", "60GiB"})["verdict"], "PASS");
}

TEST_F(GatePlan, MadeAboveItsBudgetIsNear) {
  plan({"--budget", "5GiB", "--out", "p.json"}, 1);
  const Json found = job({"p.json", "--budget", "60GiB"});
  EXPECT_EQ(found["verdict"], "NEAR");
  const std::string why = "was planned over its budget: its figures are checked, its program is not";
  EXPECT_NE(found["findings"][0]["line"].get<std::string>().find(why), std::string::npos) << found["findings"];
  EXPECT_NE(found["notes"].dump().find(why), std::string::npos) << found["notes"];
  plan({"--budget", "60GiB", "--out", "p.json"});
  EXPECT_EQ(job({"p.json", "--budget", "60GiB"})["verdict"], "PASS");
}

/// Without a capacity the job's own reserve is off what the device shows: the policy plans to what is left.
TEST_F(GatePlan, IsMadeToTheReserveOfTheJobWithoutACapacity) {
  const std::string policy = "    policy: optimal\n";
  const Json at_ease = job_of(policy + "    reserve: 0B\n");
  const Bytes room = at_ease["findings"][0]["most_bytes"].get<Bytes>(), peak = highest_peak(at_ease);
  const std::string most = "    reserve: " + std::to_string(room - peak * 9 / 10) + "B\n";
  const Json tight = job_of(policy + most);
  EXPECT_NE(tight["verdict"], "FAIL") << tight["findings"];
  EXPECT_EQ(tight["findings"][0]["most_bytes"].get<Bytes>(), peak * 9 / 10);
  EXPECT_LE(highest_peak(tight), peak * 9 / 10);
}

/// A limit on the reserve is held against what there is of it, by the verdict and by its remedy.
TEST_F(GatePlan, ARemedyIsHeldAgainstTheLimitsOfTheVerdict) {
  const Bytes peak = highest_peak(job_of("    capacity: 60GiB\n    reserve: 0B\n"));
  const Json failed = job_of("    reserve: 0B\n    capacity: " + std::to_string(peak - 1) +
                                 "B\n    limits:\n      - {category: reserve, at_most: 1GiB}\n",
                             1);
  ASSERT_EQ(failed["findings"].size(), 3U);
  for (const Json& finding : failed["findings"])
    EXPECT_EQ(finding["verdict"], finding["kind"] == "host" ? "PASS" : "FAIL") << finding;
  const Json& remedy = failed["remedy"];
  EXPECT_TRUE(remedy["sought"].get<bool>());
  EXPECT_FALSE(remedy["clears"].get<bool>()) << remedy;
  EXPECT_TRUE(remedy["edits"].empty()) << "they clear nothing: " << remedy;
  EXPECT_NE(remedy["reason"].get<std::string>().find("but not the limit of 1.00 GiB on line 8"), std::string::npos)
      << remedy;
}

TEST_F(GatePlan, ARemedyThatIsNotLookedForSaysSo) {
  const Json failed = job_of("    capacity: 60GiB\n    limits:\n      - {category: activations, at_most: 1MiB}\n", 1);
  EXPECT_FALSE(failed["remedy"]["sought"].get<bool>()) << failed["remedy"];
  const Ran text = place.run({"check", "--quiet"});
  EXPECT_EQ(text.out.find("no change that was looked at"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("plans are made to budgets of whole ranks"), std::string::npos) << text.out;
}

}  // namespace
}  // namespace tidemark::testing
