// The share that capacities drop, by counts and by the model, and the table of it.

#include "integrations/formats/capacity_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "integrations/formats/expert_counts.h"
#include "planner/graph_build/load_draws.h"
#include "planner/graph_build/load_shape.h"
#include "policies/policies.h"
#include "tests/support/json_text.h"
#include "tests/support/pangu.h"

namespace tidemark {
namespace {

using graph_build::LoadFamily;
using Level = graph_build::MoeSpec::CapacityLevel;

/// 4 devices with two experts each.
graph_build::JobSpec group_of_four() {
  graph_build::JobSpec job = testing::small_job();
  job.model.layers = testing::layer_kinds(0, 3);
  job.model.mtp_layers = 0;
  job.parallel.data = job.parallel.expert = 4;
  job.parallel.global_batch = 16;
  job.model.sequence = 512;
  job.expert_load = {.coefficient_of_variation = 0.1};
  testing::fill_slots(job);
  return job;
}

/// Two steps of a family, as `tidemark loads` writes them.
std::string drawn(const graph_build::JobSpec& job, LoadFamily family, bool by_expert) {
  const graph_build::LoadShape shape = graph_build::load_shape(job, testing::ascend_910b()).value();
  const graph_build::LoadDraws draws(shape, family, job.expert_load, 3);
  std::string text = fmt::format("{}\n", by_expert ? formats::kCountHeaderOfExperts : formats::kExpertCountHeader);
  for (const std::int64_t step : {0, 1}) {
    const std::vector<std::int64_t> rows = by_expert ? draws.expert_rows(step) : draws.rows(step);
    auto next = rows.begin();
    for (const std::int64_t layer : shape.layers)
      for (std::int64_t m = 0; m < shape.micro_batches; ++m)
        for (std::int64_t h = 0; h < (by_expert ? shape.experts : shape.devices); ++h)
          text += fmt::format("{},{},{},{},{}\n", step, layer, m, h, *next++);
  }
  return text;
}

/// The share dropped, by a count of its own over the text: rows of (step, layer, micro-batch) and holder.
double naive_share(const std::string& text, std::int64_t per_holder, std::int64_t tenths) {
  std::map<std::vector<std::int64_t>, std::map<std::int64_t, std::int64_t>> sites;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    std::vector<std::int64_t> numbers;
    for (std::string field; std::getline(fields, field, ',');) numbers.push_back(std::stoll(field));
    sites[{numbers[0], numbers[1], numbers[2]}][numbers[3] / per_holder] += numbers[4];
  }
  std::int64_t all = 0, dropped = 0;
  for (const auto& [site, holders] : sites) {
    std::int64_t rows = 0;
    for (const auto& [holder, count] : holders) rows += count;
    const std::int64_t parts = 10 * std::ssize(holders), capacity = (tenths * rows + parts - 1) / parts;
    for (const auto& [holder, count] : holders) dropped += std::max<std::int64_t>(0, count - capacity);
    all += rows;
  }
  return static_cast<double>(dropped) / static_cast<double>(all);
}

formats::CapacityDrops counted(const std::string& text, const graph_build::JobSpec& job) {
  Result<formats::CapacityDrops> drops = formats::counted_drops(text, "loads.csv", job, plan::capacity_choices(true));
  EXPECT_TRUE(drops.ok()) << drops.error().message;
  return std::move(drops).value();
}

TEST(CapacityDrops, OfCountsAreANaiveCount) {
  const graph_build::JobSpec job = group_of_four();
  const std::vector<plan::CapacityChoice> choices = plan::capacity_choices(true);
  for (const LoadFamily family : {LoadFamily::own, LoadFamily::cold_start, LoadFamily::hotspot}) {
    const std::string text = drawn(job, family, true);
    const formats::CapacityDrops drops = counted(text, job);
    EXPECT_TRUE(drops.is_counted);
    ASSERT_EQ(drops.shares.size(), choices.size());
    EXPECT_EQ(drops.shares[0], formats::DroppedShare{});
    EXPECT_GT(drops.shares[1].share, 0);
    for (std::size_t i = 1; i < choices.size(); ++i) {
      const auto tenths = static_cast<std::int64_t>(10 * choices[i].factor + 0.5);
      EXPECT_EQ(drops.shares[i].share, naive_share(text, choices[i].level == Level::device ? 2 : 1, tenths));
      EXPECT_FALSE(drops.shares[i].is_bound);
    }
  }
}

/// Counts of devices say exactly what devices drop, and that experts drop as much or more.
TEST(CapacityDrops, OfDevicesBoundThoseOfExperts) {
  const graph_build::JobSpec job = group_of_four();
  for (const LoadFamily family : {LoadFamily::own, LoadFamily::cold_start, LoadFamily::hotspot}) {
    const formats::CapacityDrops devices = counted(drawn(job, family, false), job);
    const formats::CapacityDrops experts = counted(drawn(job, family, true), job);
    for (std::size_t i = 7; i < devices.shares.size(); ++i) {
      EXPECT_EQ(devices.shares[i], experts.shares[i]) << "the same draws";
      EXPECT_FALSE(devices.shares[i].is_bound);
      const formats::DroppedShare& bound = devices.shares[i - 6];
      EXPECT_TRUE(bound.is_bound);
      EXPECT_EQ(bound.share, devices.shares[i].share);
      EXPECT_LE(bound.share, experts.shares[i - 6].share + 0.001) << "but for what rounding gives";
    }
  }
}

TEST(CapacityDrops, OfAnotherGroupAreRefused) {
  graph_build::JobSpec job = group_of_four();
  const std::string text = drawn(job, LoadFamily::own, false), experts = drawn(job, LoadFamily::own, true);
  const auto complaint = [&](const std::string& counts) {
    const auto drops = formats::counted_drops(counts, "loads.csv", job, plan::capacity_choices(true));
    return drops.ok() ? std::string() : drops.error().message;
  };
  EXPECT_EQ(complaint("step,layer\n").substr(0, 12), "loads.csv:1:");
  job.parallel.expert = 2;
  EXPECT_EQ(complaint(text), "loads.csv:1: 4 devices are counted; an expert group of this job has 2");
  EXPECT_EQ(complaint(experts), "");
  job.model.moe.experts = 16;
  EXPECT_EQ(complaint(experts), "loads.csv:1: 8 experts are counted; an expert group of this job has 16");
}

TEST(CapacityDrops, OfTheModelFallWithTheFactor) {
  graph_build::JobSpec job = group_of_four();
  const formats::CapacityDrops drops = formats::modelled_drops(job, plan::capacity_choices(true));
  EXPECT_FALSE(drops.is_counted);
  for (std::size_t i = 2; i < drops.shares.size(); ++i) {
    if (i != 7) {
      EXPECT_LT(drops.shares[i].share, drops.shares[i - 1].share);
    }
    if (i >= 7) {
      EXPECT_GT(drops.shares[i - 6].share, drops.shares[i].share) << "experts vary more than their device";
    }
  }
  EXPECT_NEAR(drops.shares[7].share, 0.1 / std::sqrt(2 * 3.14159265358979), 1e-9) << "E[(f - 1)+] of a normal f";
  job.expert_load.coefficient_of_variation = 0;
  const formats::CapacityDrops even = formats::modelled_drops(job, plan::capacity_choices(true));
  for (std::size_t i = 1; i < even.shares.size(); ++i)
    EXPECT_EQ(even.shares[i], (formats::DroppedShare{.share = 0, .is_bound = i < 7}));
}

TEST(CapacityTable, IsReadByPeopleAndScripts) {
  const plan::PlanRequest request{
      .job = group_of_four(), .machine = testing::ascend_910b(), .policy = policies::find_policy("optimal")};
  std::vector<plan::CapacityLine> lines;
  formats::CapacityDrops drops{.is_counted = true, .loads = "loads.csv: 2 steps", .notes = {"a note"}};
  for (const plan::CapacityChoice& choice :
       {plan::CapacityChoice{}, plan::CapacityChoice{.factor = 1.2, .pads = true},
        plan::CapacityChoice{.factor = 1.2, .level = Level::device, .pads = true}}) {
    lines.push_back({.choice = choice,
                     .least_load = choice.factor > 0 ? 1.2 : 1.1,
                     .most_load = 1.2,
                     .kept_bytes = 70 * kGiB,
                     .peak_bytes = 60 * kGiB,
                     .ranks = 2,
                     .fitting = choice.factor > 0 ? 2 : 1,
                     .step = {.step_ns = 1'234'000'000}});
    drops.shares.push_back({.share = choice.factor > 0 ? 0.0125 : 0, .is_bound = lines.size() == 2});
  }
  const std::string text = formats::capacity_text(request, lines, drops);
  EXPECT_NE(text.find("dropless beside drop-and-pad; counts of loads.csv: 2 steps\n"), std::string::npos) << text;
  EXPECT_NE(text.find("capacity  level           load f  kept GiB  planned GiB     fit  step s       dropped %\n"
                      "    none          1.100 to 1.200     70.00        60.00  1 of 2   1.234           0.000\n"
                      "     1.2  expert           1.200     70.00        60.00  2 of 2   1.234  at least 1.250\n"
                      "     1.2  device           1.200     70.00        60.00  2 of 2   1.234           1.250\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("a note\n"), std::string::npos);
  const auto json = testing::parsed(formats::capacity_json(request, lines, drops));
  EXPECT_EQ(json["dropped_is"], "counted");
  EXPECT_EQ(json["pads"], true);
  ASSERT_EQ(json["lines"].size(), 3U);
  EXPECT_TRUE(json["lines"][0]["capacity_factor"].is_null());
  EXPECT_TRUE(json["lines"][0]["capacity_level"].is_null());
  EXPECT_EQ(json["lines"][1]["capacity_factor"], 1.2);
  EXPECT_EQ(json["lines"][2]["capacity_level"], "device");
  EXPECT_EQ(json["lines"][1]["dropped_percent"], 1.25);
  EXPECT_EQ(json["lines"][1]["dropped_is_bound"], true);
  EXPECT_EQ(json["lines"][2]["ranks_that_fit"], 2);
  EXPECT_EQ(json["lines"][2]["step_ms"], 1234);
  EXPECT_EQ(json["notes"][0], "a note");
}

}  // namespace
}  // namespace tidemark
