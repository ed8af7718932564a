#include "integrations/formats/captured_report.h"

#include <gtest/gtest.h>

#include "integrations/formats/outcome_json.h"
#include "integrations/formats/summary_text.h"
#include "tests/support/captured_steps.h"
#include "tests/support/json_text.h"

namespace tidemark {
namespace {

struct PlannedChain {
  plan::PlanRequest request;
  plan::PlanOutcome outcome;
  [[nodiscard]] nlohmann::json json() const { return testing::parsed(formats::plan_json(request, outcome, 0.5)); }
  [[nodiscard]] std::string text() const { return formats::plan_summary(request, outcome); }
};

PlannedChain planned_chain(Bytes budget) {
  PlannedChain planned{.request = testing::captured_request(testing::captured_chain(8), budget)};
  Result<plan::PlanOutcome> outcome = plan::plan_step(planned.request);
  EXPECT_TRUE(outcome.ok()) << (outcome.ok() ? "" : outcome.error().message);
  planned.outcome = std::move(outcome).value();
  return planned;
}

TEST(CapturedReport, JsonHasWhatTheContractSays) {
  const PlannedChain planned = planned_chain(5);
  const nlohmann::json json = planned.json(), captured = json.at("captured"), rank = json.at("ranks").at(0);
  EXPECT_EQ(json.at("seconds"), 0.5);
  for (const char* key : {"peak_bytes", "budget_bytes"}) EXPECT_TRUE(rank.at(key).is_number()) << key;
  for (const char* key :
       {"live_peak_bytes", "keep_all_peak_bytes", "lower_bound_bytes", "added_cost", "added_cost_percent",
        "lower_bound_percent", "total_cost", "waited_cost", "cost_quantum", "recomputed", "swapped"})
    EXPECT_TRUE(captured.at(key).is_number()) << key;
  EXPECT_EQ(captured["status"], "optimal");
  EXPECT_EQ(captured["cost_unit"], "one");
  EXPECT_EQ(captured["keep_all_peak_bytes"], planned.outcome.ranks[0].liveness.peak_bytes);
  EXPECT_LE(captured["live_peak_bytes"], 5);
  EXPECT_LE(captured["live_peak_bytes"], rank["peak_bytes"]);
  EXPECT_EQ(captured["order"].get<std::vector<std::int32_t>>(), formats::run_list_of(planned.outcome.ranks[0]).order);
  EXPECT_EQ(captured["recomputed"], captured["order"].size() - planned.outcome.ranks[0].graph.ops.size());
  EXPECT_GT(captured["recomputed"], 0);
  EXPECT_TRUE(captured["swaps"].empty());
  EXPECT_FALSE(captured.contains("frontier"));
}

/// The order is that of the compute lane: ops in their own order, each recomputed one behind its first run.
TEST(CapturedReport, OrderRunsEveryOpAndRecomputesWhatRan) {
  const PlannedChain planned = planned_chain(5);
  std::int32_t next = 0;
  for (const std::int32_t op : formats::run_list_of(planned.outcome.ranks[0]).order) {
    EXPECT_LE(op, next);
    if (op == next) ++next;
  }
  EXPECT_EQ(next, 17);
  const Decisions& decisions = planned.outcome.ranks[0].decisions;
  ASSERT_FALSE(decisions.rows.empty());
  for (const auto& decision : decisions.rows) EXPECT_EQ(decision.action, Action::recompute);
}

TEST(CapturedReport, TextSaysHowGoodTheAnswerIs) {
  const std::string text = planned_chain(5).text();
  for (const char* part : {"FITS", "status      optimal: no schedule that fits adds less", "cost        7; added",
                           "bound       no schedule that fits adds less than", "bytes live  5 B at most; keeping all",
                           "0 swaps", "recompute"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
}

TEST(CapturedReport, NoAnswerNamesTheSmallestBudget) {
  const PlannedChain planned = planned_chain(2);
  EXPECT_NE(planned.text().find("status      infeasible"), std::string::npos) << planned.text();
  EXPECT_NE(planned.text().find("3 B"), std::string::npos) << planned.text();
  const nlohmann::json json = planned.json();
  EXPECT_EQ(json["captured"]["status"], "infeasible");
  EXPECT_EQ(json["captured"]["lower_bound_bytes"], 3);  // proven: more than the budget
  EXPECT_EQ(json["captured"]["proven"], true);
  const std::string op = json["captured"]["lower_bound_op"];
  EXPECT_FALSE(op.empty());
  EXPECT_NE(planned.text().find("infeasible: proven, op " + op + " binds"), std::string::npos) << planned.text();
  EXPECT_EQ(json["ranks"][0]["smallest_budget_bytes"], 3);
}

TEST(CapturedReport, OrderIsOneIndexALine) {
  EXPECT_EQ(formats::order_text({.order = {0, 1, 0, 2}}), "0\n1\n0\n2\n");
}

TEST(CapturedReport, CostsHaveTheUnitOfTheFile) {
  EXPECT_EQ(formats::cost_text({.unit = GivenCosts::Unit::joule, .quantum = 0.5}, 3), "1.5 J");
  EXPECT_EQ(formats::cost_text({.unit = GivenCosts::Unit::ns}, 250'000), "0.25 ms");
  EXPECT_EQ(formats::cost_text({.unit = GivenCosts::Unit::one, .quantum = 10}, 4), "40");
}

}  // namespace
}  // namespace tidemark
