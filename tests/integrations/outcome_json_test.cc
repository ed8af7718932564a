#include "integrations/formats/outcome_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "integrations/formats/balance_text.h"
#include "planner/stage_balance.h"
#include "tests/support/json_text.h"
#include "tests/support/tiny_outcome.h"

namespace tidemark {
namespace {

using nlohmann::json;
using testing::tiny_outcome;
using testing::tiny_request;

TEST(PlanJson, SaysHowEvenlyAStepFalls) {
  const plan::PlanOutcome outcome = testing::tiny_outcome();
  plan::PlanRequest request = testing::tiny_request();
  const auto expected = plan::stage_balance(outcome, request.job.parallel);
  ASSERT_TRUE(expected.has_value());
  const auto balance = formats::balance_json(request, outcome);
  EXPECT_EQ(balance.at("busiest_rank"), expected->busiest_rank);
  EXPECT_EQ(balance.at("rank_percent"), expected->rank_percent);
  EXPECT_EQ(balance.at("busiest_chunk").at("rank"), expected->busiest_chunk_rank);
  EXPECT_EQ(balance.at("busiest_chunk").at("chunk"), expected->busiest_chunk);
  EXPECT_EQ(balance.at("chunk_percent"), expected->chunk_percent);
  const std::string text = formats::balance_text(request, outcome);
  EXPECT_EQ(text,
            fmt::format("busiest rank {}, {:.1f} % above the mean", expected->busiest_rank, expected->rank_percent));
  request.job.parallel.pipeline = 1;
  EXPECT_TRUE(formats::balance_json(request, outcome).is_null());
  EXPECT_EQ(formats::balance_text(request, outcome), "");
}

TEST(PlanJson, HasTheFieldsThatScriptsRelyOn) {
  const json out = testing::parsed(formats::plan_json(tiny_request(), tiny_outcome(), 0.75));
  for (const char* field : {"ranks", "step_ms", "bubble_percent", "mfu_percent", "mfu_causal_percent", "tokens_per_s",
                            "parameters", "active_parameters", "seconds"}) {
    EXPECT_TRUE(out.contains(field)) << field;
  }
  ASSERT_EQ(out["ranks"].size(), 2U);
  for (const char* field : {"rank", "peak_bytes", "budget_bytes", "static_bytes", "activation_peak_bytes",
                            "reserve_bytes", "host_bytes", "swapped_bytes_per_step", "recompute_ms", "exposed_copy_ms",
                            "added_ms", "lower_bound_percent", "worst_load_f", "fits"}) {
    EXPECT_TRUE(out["ranks"][1].contains(field)) << field;
  }
}

TEST(PlanJson, KeepsUnits) {
  const json out = testing::parsed(formats::plan_json(tiny_request(), tiny_outcome(), 0.75));
  const json& rank = out["ranks"][1];
  EXPECT_EQ(rank["rank"], 1);
  EXPECT_EQ(rank["budget_bytes"], 1048576);
  EXPECT_DOUBLE_EQ(rank["recompute_ms"], 12.0);
  EXPECT_DOUBLE_EQ(rank["added_ms"], 15.5);
  EXPECT_DOUBLE_EQ(rank["added_percent"], 1.55);
  EXPECT_DOUBLE_EQ(rank["lower_bound_ms"], 14.0);
  EXPECT_EQ(rank["fits"], true);
  EXPECT_DOUBLE_EQ(out["step_ms"], 1015.5);
  EXPECT_DOUBLE_EQ(out["parameters"], 7.5e9);
  EXPECT_DOUBLE_EQ(out["active_parameters"], 1.25e9);
  EXPECT_DOUBLE_EQ(out["parameters_with_input_embedding"], 8e9);
  EXPECT_DOUBLE_EQ(out["seconds"], 0.75);
}

TEST(PlanJson, TheVerdictIsAWordAndTheLineSaysWhy) {
  plan::PlanOutcome outcome = tiny_outcome();
  const json fits = testing::parsed(formats::plan_json(tiny_request(), outcome, 0));
  EXPECT_EQ(fits["verdict"], outcome.fits() ? "FITS" : "OVER");
  EXPECT_NE(fits["line"].get<std::string>().find("ranks"), std::string::npos);
  for (plan::RankPlan& rank : outcome.ranks) rank.figures.fits = true;
  EXPECT_EQ(testing::parsed(formats::plan_json(tiny_request(), outcome, 0))["verdict"], "FITS");
  outcome.ranks.front().figures.fits = false;
  EXPECT_EQ(testing::parsed(formats::plan_json(tiny_request(), outcome, 0))["verdict"], "OVER");
}

TEST(PlanJson, SurvivesNamesThatAreNotUtf8) {
  plan::PlanRequest request = tiny_request();
  request.job.model.name = "bad \xff\xfe \"name\"\n";
  const json out = testing::parsed(formats::plan_json(request, tiny_outcome(1), 0));
  EXPECT_NE(out["model"].get<std::string>().find("\"name\"\n"), std::string::npos);
}

TEST(PlanJson, SameInputsGiveSameBytes) {
  EXPECT_EQ(formats::plan_json(tiny_request(), tiny_outcome(), 1),
            formats::plan_json(tiny_request(), tiny_outcome(), 1));
}

TEST(EstimateJson, AddsCategoriesAndContributors) {
  const json out = testing::parsed(formats::estimate_json(tiny_request(), tiny_outcome(), 0));
  const json& estimate = out["ranks"][0]["estimate"];
  EXPECT_EQ(estimate["parameter_bytes"], 8192);
  EXPECT_EQ(estimate["optimizer_bytes"], 4 * 8192);
  EXPECT_EQ(estimate["context_bytes"], 3000);
  EXPECT_EQ(estimate["passes_in_flight"], 2);
  EXPECT_EQ(estimate["contributors"][0]["storage"], "attention.in");
  EXPECT_EQ(estimate["contributors"][0]["in_flight"], 2);
  const std::int64_t sum =
      estimate["parameter_bytes"].get<std::int64_t>() + estimate["gradient_bytes"].get<std::int64_t>() +
      estimate["optimizer_bytes"].get<std::int64_t>() + estimate["activation_bytes"].get<std::int64_t>() +
      estimate["transient_bytes"].get<std::int64_t>() + estimate["communication_bytes"].get<std::int64_t>() +
      estimate["context_bytes"].get<std::int64_t>() + estimate["workspace_bytes"].get<std::int64_t>() +
      estimate["collective_buffer_bytes"].get<std::int64_t>() + estimate["framework_bytes"].get<std::int64_t>() +
      estimate["unused_bytes"].get<std::int64_t>();
  EXPECT_EQ(sum, out["ranks"][0]["peak_bytes"]);
}

}  // namespace
}  // namespace tidemark
