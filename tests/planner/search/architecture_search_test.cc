// Architectures of small random jobs: the enumeration against loops, sums over layers against chunks' own graphs, the
// bound against every layout, and the pruned search against one that prices all.

#include "planner/search/architecture_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "planner/graph_build/layer_placement.h"
#include "planner/simulate/layer_sums.h"
#include "policies/policies.h"
#include "tests/support/pangu.h"

namespace tidemark::search {
namespace {

/// A tenth of the reference model, on 16 devices.
graph_build::JobSpec small_pangu() {
  graph_build::JobSpec job = testing::pangu_job();
  job.model.layers = testing::layer_kinds(1, 11);
  job.model.hidden = 2048;
  job.model.vocabulary = 16384;
  job.model.dense_width = 4096;
  job.model.attention.heads = 16;
  job.model.moe = {.experts = 32, .top_k = 4, .width = 512, .shared_width = 512};
  graph_build::ParallelSpec& p = job.parallel;
  p.tensor = 2;
  p.pipeline = 4;
  p.virtual_pipeline = 1;
  p.expert = 2;
  p.data = 2;
  p.head_stage = -1;
  p.micro_batch = 1;
  p.global_batch = 16;
  testing::fill_slots(job);
  return job;
}

ArchitectureRanges small_ranges() {
  return {.layers = {8, 12},
          .dense_layers = {1, 2},
          .hidden = {1536, 2048},
          .heads = {12, 16},
          .experts = {32, 48},
          .top_k = {2, 4},
          .expert_width = {512},
          .shared_experts = {0, 1},
          .mtp_layers = {0, 1}};
}

plan::PlanRequest request_of(graph_build::JobSpec job) {
  return {.job = std::move(job),
          .machine = testing::ascend_910b(),
          .policy = policies::find_policy("optimal"),
          .load = 1.0};
}

TEST(ArchitectureSpace, HoldsEveryCombinationWithinBoundsOnce) {
  const graph_build::JobSpec job = small_pangu();
  const ArchitectureRanges ranges = small_ranges();
  const ArchitectureSpace all = enumerate_architectures(job, ranges, {});
  EXPECT_EQ(all.combinations, 256);
  EXPECT_EQ(all.outside, 0);
  std::int64_t refused = 0;
  for (const auto& [key, count] : all.refused) refused += count;
  EXPECT_EQ(static_cast<std::int64_t>(all.architectures.size()) + refused, 256);
  ASSERT_TRUE(all.given);
  EXPECT_EQ(all.architectures[*all.given].model, job.model);
  std::set<std::string> texts;
  for (const Architecture& architecture : all.architectures) texts.insert(architecture_text(architecture.model));
  EXPECT_EQ(texts.size(), all.architectures.size());

  const double most = all.architectures[*all.given].parameters.total_with_mtp;
  const double least_active = 0.7 * all.architectures[*all.given].parameters.active;
  const ArchitectureSpace some =
      enumerate_architectures(job, ranges, {.most_parameters = most, .least_active = least_active});
  std::size_t expected = 0;
  for (const Architecture& architecture : all.architectures)
    expected += architecture.parameters.total_with_mtp <= most && architecture.parameters.active >= least_active;
  EXPECT_EQ(some.architectures.size(), expected);
  EXPECT_LT(expected, all.architectures.size());
  EXPECT_GT(expected, 10U);
}

TEST(LayerSums, AreCloseToTheGraphsOfChunks) {
  const graph_build::JobSpec job = small_pangu();
  const Machine machine = testing::ascend_910b();
  simulate::PassTimeTable table(machine, 1.0, 1.0);
  simulate::LayerSums sums(table);
  const auto layers = static_cast<std::int32_t>(job.model.layers.size());
  for (const simulate::ChunkContent& content :
       {simulate::ChunkContent{.layers = 3, .is_first = true}, simulate::ChunkContent{.first_layer = 3, .layers = 4},
        simulate::ChunkContent{.first_layer = layers - 2, .layers = 2, .is_last = true, .has_head = true},
        simulate::ChunkContent{.first_layer = layers - 3, .layers = 3, .has_head = true},
        simulate::ChunkContent{.first_layer = layers, .layers = 0, .is_last = true, .has_head = true}}) {
    const auto exact = table.chunk_of(job, content);
    const auto sum = sums.chunk_of(job, content);
    ASSERT_TRUE(exact && sum);
    for (const bool forward : {true, false}) {
      const simulate::PassTime& a = forward ? exact.value().forward : exact.value().backward;
      const simulate::PassTime& b = forward ? sum.value().forward : sum.value().backward;
      EXPECT_EQ(a.compute_ns, b.compute_ns) << forward << content.first_layer;
      EXPECT_NEAR(static_cast<double>(b.lane_ns), static_cast<double>(a.lane_ns),
                  0.05 * static_cast<double>(a.lane_ns));
      EXPECT_NEAR(static_cast<double>(b.out_ns), static_cast<double>(a.out_ns),
                  0.06 * static_cast<double>(a.out_ns) + 1e5);
    }
  }
}

/// The bound of a layout holds for every placement with the main head in either place, also with stages that are empty.
TEST(LayerSums, TheComputeOfTheMeanRankBoundsEveryStep) {
  const Machine machine = testing::ascend_910b();
  int placements = 0;
  for (const bool overlap : {false, true})
    for (const std::int64_t mtp : {0, 1, 2})
      for (const std::int32_t chunks : {1, 2, 4}) {
        graph_build::JobSpec job = small_pangu();
        job.model.mtp_layers = mtp;
        job.parallel.virtual_pipeline = chunks;
        job.parallel.overlap_forward_backward = overlap;
        graph_build::fill_stages_evenly(job.model, job.parallel);
        ASSERT_TRUE(graph_build::find_problems(job).empty()) << graph_build::find_problems(job).front().message;
        simulate::PassTimeTable table(machine, 1.0, 1.0);
        simulate::LayerSums sums(table);
        const std::int64_t bound = sums.compute_ns(job).value() * job.parallel.micro_batches() / job.parallel.pipeline;
        const auto found = search_placements(job, sums, {.bounding_rounds = 8, .kept = 1000});
        ASSERT_TRUE(found) << found.error().message;
        for (const PlacedStep& placed : found.value().best) EXPECT_GE(placed.step_ns, bound);
        placements += static_cast<int>(found.value().best.size());
      }
  EXPECT_GT(placements, 500);
}

class SmallSearch {
 public:
  SmallSearch() : plan_(request_of(small_pangu())) {
    plan_.job.parallel.overlap_forward_backward = false;
    ArchitectureRanges ranges = small_ranges();
    ranges.layers = {8};
    ranges.dense_layers = {1};
    ranges.experts = {32};
    ranges.layers.push_back(12);
    bounds_ = {.most_parameters = 6e9};
    space_ = enumerate_architectures(plan_.job, ranges, bounds_);
  }

  ArchitectureSearchResult run(bool prune, int threads, std::size_t most_planned) {
    plan_.threads = threads;
    auto result =
        search_architectures({.plan = plan_,
                              .space = space_,
                              .devices = 16,
                              .layouts = {.tensor = {1, 16}, .pipeline = {1, 2, 4}, .virtual_pipeline = {1, 2}},
                              .bounds = bounds_,
                              .most_planned = most_planned,
                              .prune = prune});
    EXPECT_TRUE(result);
    return std::move(result).value();
  }
  /// With a policy that gives up at once.
  void set_budget(Bytes bytes) {
    plan_.budget_bytes = bytes;
    plan_.policy = policies::find_policy("keep-all");
  }
  [[nodiscard]] const ArchitectureSpace& space() const { return space_; }
  [[nodiscard]] const plan::PlanRequest& plan() const { return plan_; }

 private:
  plan::PlanRequest plan_;
  ArchitectureBounds bounds_;
  ArchitectureSpace space_;
};

TEST(ArchitectureSearch, PruningChangesNothingButTheWork) {
  SmallSearch search;
  const ArchitectureSearchResult all = search.run(false, 0, 0), pruned = search.run(true, 2, 0);
  ASSERT_EQ(all.fitting.size(), pruned.fitting.size());
  ASSERT_GT(all.fitting.size(), 20U);
  for (std::size_t i = 0; i < all.fitting.size(); ++i) {
    EXPECT_EQ(all.fitting[i].id, pruned.fitting[i].id);
    EXPECT_EQ(all.fitting[i].step_ns, pruned.fitting[i].step_ns);
    EXPECT_GE(all.fitting[i].step_ns, all.fitting[i].bound_ns);
    EXPECT_EQ(pruned.fitting[i].looked_at + pruned.fitting[i].bounded_away, all.fitting[i].looked_at);
  }
  EXPECT_EQ(pruned.looked_at + pruned.bounded_away, all.looked_at);
}

/// On one stage of whole products a step is its compute, so what splits them further is passed over unseen.
TEST(ArchitectureSearch, LayoutsWithSlowerKernelsArePassedOver) {
  graph_build::JobSpec job = small_pangu();
  job.model.layers = testing::layer_kinds(12, 0);
  job.model.mtp_layers = 0;
  job.model.moe = {};
  graph_build::ParallelSpec& p = job.parallel;
  p.tensor = p.pipeline = p.expert = 1;
  p.tensor_extends_expert = p.hierarchical_expert_communication = p.overlap_forward_backward = false;
  p.data = 16;
  graph_build::fill_stages_evenly(job.model, p);
  const plan::PlanRequest plan = request_of(job);
  const ArchitectureSpace space =
      enumerate_architectures(job, {.layers = {8, 12}, .hidden = {1536, 2048}, .dense_width = {4096, 8192}}, {});
  const auto search = [&](bool prune) {
    return search_architectures({.plan = plan,
                                 .space = space,
                                 .devices = 16,
                                 .layouts = {.tensor = {1, 4, 16}},
                                 .bounds = {},
                                 .most_planned = 0,
                                 .prune = prune})
        .value();
  };
  const ArchitectureSearchResult all = search(false), pruned = search(true);
  ASSERT_EQ(all.fitting.size(), space.architectures.size());
  ASSERT_EQ(pruned.fitting.size(), all.fitting.size());
  for (std::size_t i = 0; i < all.fitting.size(); ++i) EXPECT_EQ(all.fitting[i].step_ns, pruned.fitting[i].step_ns);
  EXPECT_GT(pruned.bounded_away, 0);
}

TEST(ArchitectureSearch, TheParetoSetIsWhatNothingBeatsInBoth) {
  SmallSearch search;
  const ArchitectureSearchResult result = search.run(true, 0, 4);
  const auto active = [&](std::size_t at) {
    return search.space().architectures[result.fitting[at].id].parameters.active;
  };
  std::vector<std::size_t> pareto;
  for (std::size_t i = 0; i < result.fitting.size(); ++i) {
    bool beaten = false;
    for (std::size_t j = 0; j < result.fitting.size(); ++j) beaten = beaten || (j < i && active(j) >= active(i));
    if (!beaten) pareto.push_back(i);
  }
  EXPECT_EQ(result.pareto, pareto);
  ASSERT_FALSE(pareto.empty());
  std::size_t planned = 0;
  for (const ArchitectureFigures& figures : result.fitting) {
    if (!figures.planned) continue;
    ++planned;
    plan::PlanRequest alone = search.plan();
    alone.job.model = search.space().architectures[figures.id].model;
    alone.job = with_layout(alone.job, figures.layout);
    const auto outcome = plan::plan_step(alone);
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome.value().step.step_ns, figures.step_ns);
    EXPECT_TRUE(outcome.value().fits());
  }
  EXPECT_GT(planned, 0U);
  ASSERT_TRUE(result.given);
  EXPECT_TRUE(result.fitting[*result.given].planned);
}

TEST(ArchitectureSearch, WhatDoesNotFitIsCounted) {
  SmallSearch search;
  search.set_budget(search.plan().machine.visible_bytes);
  const ArchitectureSearchResult roomy = search.run(true, 0, 0);
  Bytes least = std::numeric_limits<Bytes>::max(), most = 0;
  for (const ArchitectureFigures& figures : roomy.fitting) {
    least = std::min(least, figures.spare_bytes);
    most = std::max(most, figures.spare_bytes);
  }
  search.set_budget(search.plan().machine.visible_bytes - (least + most) / 2);
  const ArchitectureSearchResult tight = search.run(true, 0, 0);
  EXPECT_LT(tight.fitting.size() + static_cast<std::size_t>(tight.misfit), roomy.fitting.size() + 1);
  EXPECT_EQ(static_cast<std::int64_t>(tight.fitting.size()) + tight.misfit,
            static_cast<std::int64_t>(search.space().architectures.size()));
  EXPECT_GT(tight.over_memory, 0);
}

}  // namespace
}  // namespace tidemark::search
