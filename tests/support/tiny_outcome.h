#pragma once
// A planned step small enough to read: the chain of tiny_graph.h on a few ranks, where layer 0 swaps `in`, layer 1
// recomputes `key` and `value`, and everything else is kept. Figures are literals, so that reports can be compared with
// them.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "planner/graph_build/liveness.h"
#include "planner/planner.h"
#include "planner/schedule/scheduler.h"
#include "planner/simulate/simulator.h"
#include "tests/support/plain_chip.h"
#include "tests/support/tiny_graph.h"

namespace tidemark::testing {

inline Machine tiny_machine() {
  return {.name = "tiny-device",
          .visible_bytes = 1 * kMiB,
          .context_bytes = 3000,
          .workspace_bytes = 2000,
          .collective_buffer_bytes = 100,
          .chip = plain_chip(1e12, 1e12, 20e9),
          .copy_launch_ns = 100,
          .d2h = {.bytes_per_s = 20e9},
          .h2d = {.bytes_per_s = 20e9},
          .host_bytes_per_device = 64 * kKiB};
}

inline plan::PlanRequest tiny_request() {
  plan::PlanRequest request{.machine = tiny_machine()};
  request.job.model.name = "tiny";
  request.job.model.sequence = 128;
  request.job.parallel.pipeline = 2;
  request.job.parallel.global_batch = 4;
  return request;
}

class TinyRank {
 public:
  TinyRank(std::int32_t number, const ChainShape& shape) {
    plan_.graph = chain_graph(shape);
    plan_.graph.rank = number;
    plan_.liveness = graph_build::analyse_liveness(plan_.graph);
    for (std::size_t s = 0; s < plan_.graph.sites.size(); ++s) decide(id_of<SiteId>(s));
    for (std::size_t i = 0; i < made_.swaps.size(); ++i) made_.swap_in_order.push_back(static_cast<int>(i));
    schedule();
    figures(number);
  }

  [[nodiscard]] plan::RankPlan finish() && { return std::move(plan_); }

 private:
  [[nodiscard]] OpId touch(StorageId storage, std::size_t n) const { return plan_.liveness.touches_of(storage)[n]; }

  void decide(SiteId id) {
    const Site& site = plan_.graph.sites[row(id)];
    if (site.layer == 0) {
      const StorageId in = plan_.graph.storage_at(id, kChainIn);  // written, read by up, read by d_in
      const auto ready = static_cast<std::int32_t>(touch(in, 1)), needed = static_cast<std::int32_t>(touch(in, 2));
      made_.swaps.push_back({.storage = in,
                             .ready = {.op = touch(in, 1)},
                             .released = PlanPoint::ahead_of(static_cast<OpId>(ready + 3)),
                             .prefetch = PlanPoint::ahead_of(static_cast<OpId>(needed - 2)),
                             .needed = PlanPoint::ahead_of(touch(in, 2))});
      if (site.micro_batch == 0) add_decision(in, Action::swap);
    }
    if (site.layer == 1) {
      for (const std::int32_t local : {kChainKey, kChainValue}) {  // written, read by out, read by d_out
        const StorageId storage = plan_.graph.storage_at(id, local);
        made_.drops.push_back({.storage = storage, .after = {.op = touch(storage, 1)}});
        if (site.micro_batch == 0) add_decision(storage, Action::recompute);
      }
      const OpId need = touch(plan_.graph.storage_at(id, kChainKey), 2);
      made_.runs.push_back({.site = id, .recipe = id_of<RecipeId>(0), .start = need, .need = need});
    }
  }

  void add_decision(StorageId storage, Action action) {
    const Site& site = plan_.graph.site_of(storage);
    plan_.decisions.rows.push_back({.key = {.storage_template = plan_.graph.storages[row(storage)].storage_template,
                                            .chunk = site.chunk,
                                            .layer = site.layer,
                                            .gap = 1},
                                    .action = action,
                                    .recipe = action == Action::recompute ? id_of<RecipeId>(0) : kNone<RecipeId>});
  }

  void schedule() {
    std::vector<std::int64_t> durations(plan_.graph.ops.size(), 1000);
    auto nominal = simulate::simulate_step(std::vector<simulate::RankWork>{simulate::work_of(plan_.graph, durations)});
    EXPECT_TRUE(nominal.ok());
    auto schedule = schedule::build_schedule(
        {.graph = plan_.graph, .liveness = plan_.liveness, .nominal = nominal.value().ranks[0], .plan = made_});
    EXPECT_TRUE(schedule.ok()) << (schedule.ok() ? "" : schedule.error().message);
    plan_.program.schedule = std::move(schedule).value();
    plan_.task_ns = schedule::task_durations(plan_.graph, plan_.program.schedule, tiny_machine());
    auto timing = simulate::simulate_step(
        std::vector<simulate::RankWork>{simulate::work_of(plan_.graph, plan_.program.schedule, plan_.task_ns)});
    EXPECT_TRUE(timing.ok()) << (timing.ok() ? "" : timing.error().message);
    plan_.timeline = std::move(timing).value().ranks[0];
  }

  void figures(std::int32_t number) {
    plan_.figures = {.rank = number,
                     .load = 1.5,
                     .peak_bytes = plan_.liveness.peak_bytes + 5800,
                     .budget_bytes = 1 * kMiB,
                     .static_bytes = 57344,
                     .activation_peak_bytes = plan_.liveness.peak_bytes - 57344,
                     .reserve_bytes = 5800,
                     .host_bytes = 8192,
                     .swapped_bytes_per_step = 16384,
                     .recompute_ns = 12'000'000,
                     .exposed_communication_ns = 1'000'000,
                     .exposed_copy_ns = 2'000'000,
                     .copy_overhead_ns = 500'000,
                     .added_ns = 15'500'000,
                     .lower_bound_ns = 14'000'000,
                     .lower_bound_percent = 1.4,
                     .worst_load_f = 8,
                     .fits = true,
                     .peak_op = "head.loss of micro-batch 1"};
    plan_.attempts = {{.target_bytes = 900000, .height_bytes = 1100000, .load_bytes = 890000, .packer = "by_size"},
                      {.target_bytes = 800000, .height_bytes = 1000000, .load_bytes = 790000, .packer = "start_order"}};
  }

  plan::RankPlan plan_;
  Plan made_;
};

inline plan::PlanOutcome tiny_outcome(std::int32_t ranks = 2) {
  plan::PlanOutcome outcome;
  const ChainShape shape{.layers = 3, .micro_batches = 4, .warm_up = 1};
  for (std::int32_t rank = 0; rank < ranks; ++rank) outcome.ranks.push_back(TinyRank(rank, shape).finish());
  outcome.step = {.step_ns = 1'015'500'000,
                  .keep_all_step_ns = 1'000'000'000,
                  .bubble_percent = 10.5,
                  .exposed_communication_percent = 1.25,
                  .exposed_copy_percent = 0.25,
                  .recompute_percent = 2.5,
                  .mfu_percent = 31.5,
                  .mfu_causal_percent = 27.25,
                  .tokens_per_s = 504.5};
  outcome.parameters = {.total = 7.5e9, .total_both = 8e9, .total_with_mtp = 9e9, .active = 1.25e9};
  return outcome;
}

}  // namespace tidemark::testing
