#include "integrations/formats/step_plan_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/remat/random_list.h"

namespace tidemark {
namespace {

TEST(StepPlanReport, JsonHasWhatTheContractSays) {
  const OpList list = testing::uniform_chain(8);
  const remat::StepPlan plan = remat::plan_step_within(list, 5);
  const StepPlanReport report{.file = "f", .list = &list, .plan = &plan, .seconds = 0.5};
  const nlohmann::json json = nlohmann::json::parse(step_plan_json(report));
  for (const char* key : {"budget_bytes", "peak_bytes", "keep_all_peak_bytes", "lower_bound_bytes", "added_cost",
                          "added_cost_percent", "lower_bound_percent", "seconds", "recomputed", "swapped"})
    EXPECT_TRUE(json.at(key).is_number()) << key;
  EXPECT_EQ(json["status"], "optimal");
  EXPECT_EQ(json["schedule"].get<std::vector<std::int32_t>>(), plan.schedule.order);
  EXPECT_EQ(json["recomputed"], plan.schedule.order.size() - list.ops.size());
  ASSERT_FALSE(json["decisions"].empty());
  for (const char* key : {"storage", "action", "after_op", "before_op"})
    EXPECT_TRUE(json["decisions"][0].contains(key)) << key;
  EXPECT_EQ(json["decisions"][0]["action"], "recompute");
}

TEST(StepPlanReport, TextSaysWhatSetsThePeak) {
  const OpList list = testing::uniform_chain(8);
  const remat::StepPlan plan = remat::plan_step_within(list, 5);
  const std::string text = step_plan_text({.file = "f", .list = &list, .plan = &plan});
  for (const char* part : {"f: 17 ops, 17 storages", "budget      5 B", "status      optimal", "peak        5 B",
                           "resident at the peak", "what frees most"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
}

TEST(StepPlanReport, NoAnswerNamesTheSmallestBudget) {
  const OpList list = testing::uniform_chain(8);
  const remat::StepPlan plan = remat::plan_step_within(list, 2);
  const StepPlanReport report{.file = "f", .list = &list, .plan = &plan};
  EXPECT_NE(step_plan_text(report).find("infeasible: no schedule has a peak that low"), std::string::npos);
  EXPECT_NE(step_plan_text(report).find("smallest budget known to do: 3 B"), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(step_plan_json(report));
  EXPECT_EQ(json["status"], "infeasible");
  EXPECT_EQ(json["smallest_known_peak_bytes"], 3);
}

TEST(StepPlanReport, ScheduleIsOneIndexALine) {
  EXPECT_EQ(schedule_text({.order = {0, 1, 0, 2}}), "0\n1\n0\n2\n");
}

}  // namespace
}  // namespace tidemark
