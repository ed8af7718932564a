// What ranks of plans hold, against a count of every residency at every half-step of the clock.

#include "planner/plan_holdings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "planner/budget/limit.h"
#include "policies/policies.h"
#include "tests/support/random_job.h"
#include "tests/support/sanitized.h"

namespace tidemark::plan {
namespace {

using budget::Category;
using budget::Phase;

Bytes alive_at(const Schedule& schedule, std::int32_t clock) {
  Bytes alive = 0;
  for (const Residency& r : schedule.residencies)
    if (r.space == MemorySpace::device && r.acquire <= clock && clock < r.release) alive += r.bytes;
  return alive;
}

/// The pass that a compute task belongs to.
OpPhase pass_of(const Graph& graph, const Task& task) {
  return task.kind == TaskKind::recompute ? OpPhase::backward : graph.template_of(task.op).phase;
}

Phase naive_phase(const RankPlan& plan, std::int32_t clock) {
  std::int32_t at = 0;
  for (const Task& task : plan.program.schedule.tasks) {
    if (task.lane != Lane::compute) continue;
    if (at++ < clock / 2) continue;
    switch (pass_of(plan.graph, task)) {
      case OpPhase::forward:
        return Phase::forward;
      case OpPhase::backward:
      case OpPhase::weight_gradient:
        return Phase::backward;
      default:
        return Phase::optimizer;
    }
  }
  return Phase::between_steps;
}

/// Bytes by name at a half-step: module path and name, as the builders write them (they have no layer numbers).
std::map<std::string, Bytes> naive_storages(const RankPlan& plan, std::int32_t clock) {
  std::map<std::string, Bytes> bytes;
  for (const Residency& r : plan.program.schedule.residencies) {
    if (r.space != MemorySpace::device || clock < r.acquire || r.release <= clock) continue;
    const StorageTemplate& storage = plan.graph.template_of(r.storage);
    bytes[storage.module_path + "." + storage.name] += r.bytes;
  }
  return bytes;
}

void expect_adds_up(const budget::RankHoldings& rank, const std::string& where) {
  EXPECT_EQ(std::accumulate(rank.by_category.begin(), rank.by_category.end(), Bytes{0}), rank.peak_bytes) << where;
  budget::CategoryBytes by_row{};
  for (const budget::HeldStorage& held : rank.storages) {
    EXPECT_GT(held.bytes, 0) << where << ", " << held.name;
    EXPECT_GT(held.count, 0) << where << ", " << held.name;
    by_row[static_cast<std::size_t>(held.category)] += held.bytes;
  }
  EXPECT_EQ(by_row, rank.by_category) << where;
  EXPECT_EQ(rank.by_category[static_cast<std::size_t>(Category::other)], 0) << where;
  EXPECT_TRUE(std::ranges::is_sorted(rank.storages, std::ranges::greater{}, &budget::HeldStorage::bytes)) << where;
  Bytes highest = 0;
  for (const std::optional<Bytes>& phase : rank.by_phase) highest = std::max(highest, phase.value_or(0));
  EXPECT_EQ(highest, rank.peak_bytes) << where;
  ASSERT_TRUE(rank.peak_phase) << where;
  EXPECT_EQ(rank.by_phase[static_cast<std::size_t>(*rank.peak_phase)], rank.peak_bytes) << where;
}

void expect_counted(const budget::RankHoldings& rank, const RankPlan& plan, const std::string& where) {
  const Schedule& schedule = plan.program.schedule;
  std::array<std::optional<Bytes>, budget::kPhaseCount> most;
  Bytes highest = 0;
  std::int32_t peak = 0;
  for (std::int32_t clock = 0; clock < 2 * schedule.compute_tasks; ++clock) {
    const Bytes alive = alive_at(schedule, clock);
    std::optional<Bytes>& here = most[static_cast<std::size_t>(naive_phase(plan, clock))];
    here = std::max(here.value_or(0), alive);
    if (alive <= highest) continue;
    highest = alive;
    peak = clock;
  }
  const Bytes above = plan.program.layout.arenas.front().height_bytes - highest;
  EXPECT_GE(above, 0) << where;
  EXPECT_EQ(rank.by_category[static_cast<std::size_t>(Category::cached)], above) << where;
  EXPECT_EQ(rank.by_category[static_cast<std::size_t>(Category::reserve)], plan.figures.reserve_bytes) << where;
  EXPECT_EQ(rank.peak_bytes, plan.figures.reserve_bytes + highest + above) << where;
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::optimizer}) {
    const auto p = static_cast<std::size_t>(phase);
    ASSERT_EQ(rank.by_phase[p].has_value(), most[p].has_value()) << where;
    if (most[p]) {
      EXPECT_EQ(*rank.by_phase[p], *most[p] + plan.figures.reserve_bytes + above) << where;
    }
  }
  std::map<std::string, Bytes> rows;
  for (const budget::HeldStorage& held : rank.storages)
    if (held.category != Category::reserve && held.category != Category::cached) rows[held.name] = held.bytes;
  std::map<std::string, Bytes> naive = naive_storages(plan, peak);
  // Parts of an exchange have numbers, but in the middle of a word.
  EXPECT_EQ(rows, naive) << where;
}

TEST(PlanHoldings, AddUpAndAgreeWithEveryResidencyCounted) {
  testing::JobGenerator generator(20261129);
  bool several_ranks = false, some_address_gap = false;
  for (int i = 0; i < testing::cases(10); ++i) {
    const graph_build::JobSpec job = generator.next();
    const Policy& policy = policies::policies()[static_cast<std::size_t>(i) % policies::policies().size()];
    PlanRequest request{.job = job, .machine = testing::ascend_910b(), .policy = &policy, .load = 1.1};
    Result<PlanOutcome> outcome = plan_step(request);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    if (policy.name == "optimal") {  // at a budget that asks for something
      Bytes peak = 0, least = 0;
      for (const RankPlan& r : outcome.value().ranks) {
        peak = std::max(peak, r.figures.peak_bytes);
        least = std::max(least, r.figures.static_bytes + r.figures.reserve_bytes);
      }
      request.budget_bytes = least + (peak - least) * 3 / 4;
      outcome = plan_step(request);
      ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    }
    const budget::Holdings holdings = holdings_of(request, outcome.value(), "job");
    ASSERT_EQ(holdings.ranks.size(), outcome.value().ranks.size());
    EXPECT_EQ(holdings.basis, budget::Basis::planned);
    several_ranks = several_ranks || holdings.ranks.size() > 1;
    for (std::size_t r = 0; r < holdings.ranks.size(); ++r) {
      const RankPlan& plan = outcome.value().ranks[r];
      const budget::RankHoldings& rank = holdings.ranks[r];
      const std::string where = "job " + std::to_string(i) + " " + std::string(policy.name) + " " + rank.place;
      EXPECT_EQ(rank.place, job.parallel.pipeline == 1 ? "" : "pp" + std::to_string(r)) << where;
      EXPECT_EQ(rank.peak_bytes, plan.figures.peak_bytes) << where;
      EXPECT_EQ(rank.host_bytes, plan.figures.host_bytes) << where;
      expect_adds_up(rank, where);
      expect_counted(rank, plan, where);
      some_address_gap = some_address_gap || rank.by_category[static_cast<std::size_t>(Category::cached)] > 0;
      for (const budget::HeldStorage& held : rank.storages)
        EXPECT_EQ(held.controls.empty(), held.category == Category::cached) << where << ", " << held.name;
    }
  }
  EXPECT_TRUE(several_ranks && some_address_gap) << "no plan had them: the test showed nothing";
}

TEST(PlanHoldings, WithoutItsReserveARankStillAddsUp) {
  testing::JobGenerator generator(7);
  const PlanRequest request{.job = generator.next(),
                            .machine = testing::ascend_910b(),
                            .policy = policies::find_policy("keep-all"),
                            .load = 1.0};
  const Result<PlanOutcome> outcome = plan_step(request);
  ASSERT_TRUE(outcome.ok());
  const budget::Holdings whole = holdings_of(request, outcome.value(), "job");
  const budget::Holdings less = budget::without_reserve(whole);
  for (std::size_t r = 0; r < whole.ranks.size(); ++r) {
    EXPECT_EQ(less.ranks[r].peak_bytes, whole.ranks[r].peak_bytes - outcome.value().ranks[r].figures.reserve_bytes);
    EXPECT_EQ(less.ranks[r].by_category[static_cast<std::size_t>(Category::reserve)], 0);
    expect_adds_up(less.ranks[r], "rank " + std::to_string(r));
  }
}

/// Two compute tasks over storages of three layers, as a captured step names them.
RankPlan numbered_plan() {
  RankPlan plan;
  Graph& graph = plan.graph;
  graph.blocks.push_back({.name = "step", .first_storage_template = id_of<StorageTemplateId>(0), .storage_count = 4});
  graph.sites.push_back({.block = id_of<BlockId>(0), .first_storage = id_of<StorageId>(0)});
  const auto storage = [&](std::string module, std::string name, StorageRole role, Bytes bytes) {
    const auto id = id_of<StorageTemplateId>(graph.storage_templates.size());
    graph.storage_templates.push_back({.name = std::move(name), .module_path = std::move(module), .role = role});
    graph.storages.push_back({.storage_template = id, .site = id_of<SiteId>(0), .bytes = bytes});
    plan.program.schedule.residencies.push_back(
        {.storage = id_of<StorageId>(graph.storages.size() - 1), .bytes = bytes, .acquire = 0, .release = 4});
  };
  storage("layers.3.attention", "q", StorageRole::activation, 100);
  storage("layers.4.attention", "q", StorageRole::activation, 100);
  storage("layers.7.attention", "q", StorageRole::activation, 50);
  storage("layers.7.attention", "q", StorageRole::temporary, 10);
  graph.op_templates.push_back({.name = "f"});
  graph.op_templates.push_back({.name = "b", .phase = OpPhase::backward});
  for (std::size_t op = 0; op < 2; ++op) {
    graph.ops.push_back({.op_template = id_of<OpTemplateId>(op), .site = id_of<SiteId>(0)});
    plan.program.schedule.tasks.push_back(
        {.op_template = id_of<OpTemplateId>(op), .site = id_of<SiteId>(0), .op = id_of<OpId>(op)});
  }
  plan.program.schedule.compute_tasks = 2;
  plan.figures.peak_bytes = 260;
  return plan;
}

TEST(PlanHoldings, NumbersOfLayersLeaveTheNameAndAreSaidBesideIt) {
  const PlanRequest request{.step = GivenStep{}, .machine = {}};
  const budget::RankHoldings rank = rank_holdings(request, numbered_plan());
  ASSERT_EQ(rank.storages.size(), 2U);
  EXPECT_EQ(rank.storages[0].name, "layers.attention.q");
  EXPECT_EQ(rank.storages[0].module, "layers.attention");
  EXPECT_EQ(rank.storages[0].layers, "3-4,7");
  EXPECT_EQ(rank.storages[0].count, 3);
  EXPECT_EQ(rank.storages[0].bytes, 250);
  EXPECT_EQ(rank.storages[1].name, "layers.attention.q (temporaries)");
  EXPECT_EQ(rank.peak_at, "forward, step");
  EXPECT_EQ(rank.place, "");
}

TEST(PlanHoldings, APeakSaysItsPassMicroBatchAndLayer) {
  testing::JobGenerator generator(20261130);
  for (int i = 0; i < 4; ++i) {
    const PlanRequest request{.job = generator.next(),
                              .machine = testing::ascend_910b(),
                              .policy = policies::find_policy("full-recompute"),
                              .load = 1.0};
    const Result<PlanOutcome> outcome = plan_step(request);
    ASSERT_TRUE(outcome.ok());
    for (const budget::RankHoldings& rank : holdings_of(request, outcome.value(), "job").ranks) {
      EXPECT_TRUE(rank.peak_at.starts_with(budget::word_of(*rank.peak_phase))) << rank.peak_at;
      if (*rank.peak_phase != Phase::optimizer) {
        EXPECT_NE(rank.peak_at.find(", micro-batch "), std::string::npos) << rank.peak_at;
      }
    }
  }
}

}  // namespace
}  // namespace tidemark::plan
