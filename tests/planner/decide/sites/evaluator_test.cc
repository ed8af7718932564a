// The evaluator against what the scheduler really does with the same choice.

#include "planner/decide/sites/evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "core/verify.h"
#include "planner/decide/sites/gaps.h"
#include "planner/decide/sites/uniform.h"
#include "planner/layout/lay_out.h"
#include "planner/layout/pack_problem.h"
#include "planner/layout/packer.h"
#include "planner/schedule/scheduler.h"
#include "tests/support/rank_fixture.h"
#include "tests/support/sanitized.h"
#include "tests/support/tiny_graph.h"

namespace tidemark::decide::sites {
namespace {

using testing::RankFixture;

Bytes device_load(const Schedule& schedule) {
  layout::PackProblem problem;
  for (const Residency& r : schedule.residencies)
    if (r.space == MemorySpace::device) problem.items.push_back({r.acquire, r.release, r.bytes});
  return layout::packing_load(problem);
}

/// A random choice that obeys the rules of units.
gaps::Choice random_choice(const DecisionProblem& p, std::mt19937& random) {
  gaps::Choice choice(p.gaps.size(), Action::keep);
  for (const SiteClass& c : p.classes)
    for (const std::int32_t first : c.first_gap)
      for (const SiteClass::Unit& unit : c.units) {
        const auto pick = random() % 3;
        for (const std::int32_t slot : unit.slots) {
          const auto g = static_cast<std::size_t>(first + slot);
          if (pick == 1 && unit.recipe != kNone<RecipeId>) choice[g] = Action::recompute;
          if (pick == 2 && p.graph->template_of(p.gaps[g].gap.storage).swappable && random() % 2 == 0)
            choice[g] = Action::swap;
        }
      }
  return choice;
}

TEST(Evaluator, PeakCoversTheScheduleAndTheScheduleVerifies) {
  std::mt19937 random(3);
  for (const bool communication : {false, true})
    for (const double op_ns : {200.0, 3000.0, 50000.0}) {
      const auto f = RankFixture::of(testing::chain_graph({.layers = 4,
                                                           .micro_batches = 6,
                                                           .warm_up = 3,
                                                           .chunks = 2,
                                                           .op_ns = op_ns,
                                                           .communication = communication}));
      ASSERT_NE(f, nullptr);
      Evaluator evaluator(f->problem);
      for (int round = 0; round < testing::cases(40); ++round) {
        const gaps::Choice choice = round == 0   ? gaps::Choice(f->problem.gaps.size(), Action::keep)
                                    : round == 1 ? gaps::recompute_all(gap_problem_of(f->problem))
                                                 : random_choice(f->problem, random);
        gaps::PlanCost cost;
        const Plan plan = evaluator.plan(choice, cost);
        const Evaluation e = evaluator.evaluate(choice);
        const Result<Schedule> schedule =
            schedule::build_schedule({.graph = f->graph, .liveness = f->liveness, .nominal = f->nominal, .plan = plan});
        ASSERT_TRUE(schedule.ok()) << schedule.error().message;
        const auto violation = verify_schedule(f->graph, schedule.value());
        ASSERT_FALSE(violation.has_value()) << violation->detail;
        const Layout layout = layout::lay_out(schedule.value(), kGiB, kGiB, 1);
        const auto overlap = verify_layout_quadratic(schedule.value(), layout);
        ASSERT_FALSE(overlap.has_value()) << overlap->detail;
        const Bytes load = device_load(schedule.value());
        EXPECT_LE(load, e.peak_bytes) << "round " << round;
        // The estimate may be above what the schedule needs, by no more than what one op and its recipes hold.
        EXPECT_GE(load, e.peak_bytes - 16 * kKiB) << "round " << round;
      }
    }
}

/// One layer whose `gathered` is a collective's, and whose backward is `first_ns` of computing, a dispatch of 3 us on
/// the lane of that collective, and an op that needs both. `behind_ns`: what that lane still does for another storage
/// when backward begins.
Graph gathering_graph(double first_ns, double behind_ns) {
  testing::GraphBuilder b;
  const OpTemplateId make = b.timed_op("make", 100), gather = b.timed_op("gather", 2000, Lane::inter_comm);
  const OpTemplateId use = b.timed_op("use", 100), other = b.timed_op("other", behind_ns, Lane::inter_comm);
  const auto backward = [&](const char* name, double ns, Lane lane = Lane::compute) {
    return b.timed_op(name, ns, lane, OpPhase::backward);
  };
  const OpTemplateId first = backward("first", first_ns), dispatch = backward("dispatch", 3000, Lane::inter_comm);
  const OpTemplateId last = backward("last", 100);
  std::vector<StorageTemplate> storages;
  for (const char* name : {"in", "gathered", "out", "busy", "grad", "sent", "end"})
    storages.push_back({.name = name, .role = StorageRole::activation, .fixed_bytes = 1000});
  const BlockId layer = b.block("layer", std::move(storages),
                                {{.name = "gathered",
                                  .outputs = {1},
                                  .sources = {0},
                                  .steps = {{.op = gather, .reads = {0}, .writes = {1}}},
                                  .collective = true}});
  const SiteId site = b.site(layer);
  const auto at = [&](std::int32_t local) { return b.at(site, local); };
  b.run(make, site, {}, {at(0)});
  b.run(gather, site, {at(0)}, {at(1)});
  b.run(use, site, {at(1)}, {at(2)});
  b.run(other, site, {at(2)}, {at(3)});
  b.run(first, site, {at(0), at(2)}, {at(4)});
  b.run(dispatch, site, {at(4)}, {at(5)});
  b.run(last, site, {at(1), at(5)}, {at(6)});
  return std::move(b).finish();
}

TEST(Evaluator, RecomputedCommunicationIsExposedByWhatItHoldsUp) {
  struct Case {
    double first_ns, behind_ns;
    std::int64_t exposed_ns;
  };
  for (const Case& c : {Case{.first_ns = 5000, .behind_ns = 0, .exposed_ns = 0},
                        Case{.first_ns = 2000, .behind_ns = 0, .exposed_ns = 0},
                        Case{.first_ns = 500, .behind_ns = 0, .exposed_ns = 1500},
                        Case{.first_ns = 5000, .behind_ns = 4000, .exposed_ns = 1000},
                        Case{.first_ns = 5000, .behind_ns = 3000, .exposed_ns = 0}}) {
    const auto f = RankFixture::of(gathering_graph(c.first_ns, c.behind_ns));
    ASSERT_NE(f, nullptr);
    gaps::Choice choice(f->problem.gaps.size(), Action::keep);
    for (std::size_t g = 0; g < choice.size(); ++g)
      if (f->graph.template_of(f->problem.gaps[g].gap.storage).name == "gathered") choice[g] = Action::recompute;
    ASSERT_EQ(std::ranges::count(choice, Action::recompute), 1);
    Evaluator evaluator(f->problem);
    gaps::PlanCost cost;
    const Plan plan = evaluator.plan(choice, cost);
    EXPECT_EQ(cost.recompute_ns, 0);
    EXPECT_EQ(cost.exposed_communication_ns, c.exposed_ns) << c.first_ns << ", " << c.behind_ns;
    const Result<Schedule> schedule =
        schedule::build_schedule({.graph = f->graph, .liveness = f->liveness, .nominal = f->nominal, .plan = plan});
    ASSERT_TRUE(schedule.ok()) << schedule.error().message;
    EXPECT_EQ(added_alone_ns(f->problem, schedule.value()), c.exposed_ns) << c.first_ns << ", " << c.behind_ns;
  }
}

/// One layer whose `normed` takes `norm_ns` to compute, and whose backward sends for 3 us. What comes back is read by
/// an op ahead of the one that needs `normed`, or by that one.
Graph waiting_graph(double norm_ns, bool reads_ahead) {
  testing::GraphBuilder b;
  const OpTemplateId make = b.timed_op("make", 100), norm = b.timed_op("norm", norm_ns), use = b.timed_op("use", 100);
  const auto backward = [&](const char* name, double ns, Lane lane = Lane::compute) {
    return b.timed_op(name, ns, lane, OpPhase::backward);
  };
  const OpTemplateId first = backward("first", 500), exchange = backward("exchange", 3000, Lane::inter_comm);
  const OpTemplateId next = backward("next", 100), last = backward("last", 100);
  std::vector<StorageTemplate> storages;
  for (const char* name : {"in", "normed", "out", "grad", "sent", "between", "end"})
    storages.push_back({.name = name, .role = StorageRole::activation, .fixed_bytes = 1000});
  const BlockId layer = b.block(
      "layer", std::move(storages),
      {{.name = "normed", .outputs = {1}, .sources = {0}, .steps = {{.op = norm, .reads = {0}, .writes = {1}}}}});
  const SiteId site = b.site(layer);
  const auto at = [&](std::int32_t local) { return b.at(site, local); };
  b.run(make, site, {}, {at(0)});
  b.run(norm, site, {at(0)}, {at(1)});
  b.run(use, site, {at(1)}, {at(2)});
  b.run(first, site, {at(0), at(2)}, {at(3)});
  b.run(exchange, site, {at(3)}, {at(4)});
  b.run(next, site, {reads_ahead ? at(4) : at(3)}, {at(5)});
  b.run(last, site, {at(0), at(1), at(4), at(5)}, {at(6)});
  return std::move(b).finish();
}

TEST(Evaluator, RecomputationHidesWhereTheLaneWaitsForCollectives) {
  struct Case {
    double norm_ns;
    bool reads_ahead;
    std::int64_t hidden_ns;
  };
  for (const Case& c : {Case{.norm_ns = 2000, .reads_ahead = true, .hidden_ns = 2000},
                        Case{.norm_ns = 2000, .reads_ahead = false, .hidden_ns = 2000},
                        Case{.norm_ns = 5000, .reads_ahead = true, .hidden_ns = 3000},
                        Case{.norm_ns = 5000, .reads_ahead = false, .hidden_ns = 2900},  // `next` runs meanwhile
                        Case{.norm_ns = 8000, .reads_ahead = true, .hidden_ns = 0}}) {   // not worth the memory
    const auto f = RankFixture::of(waiting_graph(c.norm_ns, c.reads_ahead));
    ASSERT_NE(f, nullptr);
    gaps::Choice choice(f->problem.gaps.size(), Action::keep);
    for (std::size_t g = 0; g < choice.size(); ++g)
      if (f->graph.template_of(f->problem.gaps[g].gap.storage).name == "normed") choice[g] = Action::recompute;
    ASSERT_EQ(std::ranges::count(choice, Action::recompute), 1);
    Evaluator evaluator(f->problem);
    gaps::PlanCost cost;
    const Plan plan = evaluator.plan(choice, cost);
    EXPECT_EQ(cost.hidden_recompute_ns, c.hidden_ns) << c.norm_ns;
    EXPECT_EQ(cost.recompute_ns + cost.hidden_recompute_ns, static_cast<std::int64_t>(c.norm_ns));
    const gaps::GapProblem gaps = gap_problem_of(f->problem);
    for (const gaps::GapProblem::Unit& unit : gaps.units)
      EXPECT_LE(unit.recompute_cost, static_cast<double>(cost.recompute_ns)) << "a bound would be wrong";
    const Result<Schedule> schedule =
        schedule::build_schedule({.graph = f->graph, .liveness = f->liveness, .nominal = f->nominal, .plan = plan});
    ASSERT_TRUE(schedule.ok()) << schedule.error().message;
    EXPECT_EQ(added_alone_ns(f->problem, schedule.value()), cost.added_ns()) << c.norm_ns << ", " << c.reads_ahead;

    const Result<DecisionProblem> late = build_problem(f->graph, f->liveness, f->machine, f->nominal, f->op_ns,
                                                       {.offload = {}, .run_time = RunTime::late, .weights = {}});
    ASSERT_TRUE(late.ok());
    Evaluator without(late.value());
    const std::int64_t at_need_ns = c.reads_ahead ? 0 : 2900;
    EXPECT_EQ(without.evaluate(choice).hidden_recompute_ns, std::min(at_need_ns, static_cast<std::int64_t>(c.norm_ns)));
  }
}

/// Weighted costs are what a choice adds where it adds it; at full cost nothing is left of them.
TEST(Evaluator, WeightsScaleWhatSitesAdd) {
  std::mt19937 random(7);
  const auto f = RankFixture::of(testing::chain_graph(
      {.layers = 4, .micro_batches = 6, .warm_up = 3, .chunks = 2, .op_ns = 3000, .communication = true}));
  ASSERT_NE(f, nullptr);
  const auto weighted_by = [&](const std::vector<float>& weights) {
    Result<DecisionProblem> problem = build_problem(f->graph, f->liveness, f->machine, f->nominal, f->op_ns,
                                                    {.offload = {}, .run_time = RunTime::hidden, .weights = weights});
    EXPECT_TRUE(problem.ok());
    return std::move(problem).value();
  };
  std::vector<float> uneven(f->problem.compute_op.size());
  for (float& weight : uneven) weight = 0.1F + 0.9F * static_cast<float>(random() % 1000) / 1000;
  const DecisionProblem half = weighted_by(std::vector<float>(uneven.size(), 0.5F)), mixed = weighted_by(uneven);
  Evaluator in_full(f->problem), by_half(half), by_mixed(mixed);
  for (int round = 0; round < testing::cases(40); ++round) {
    const gaps::Choice choice = random_choice(f->problem, random);
    const Evaluation full = in_full.evaluate(choice), halved = by_half.evaluate(choice);
    EXPECT_EQ(full.weighted_ns(), full.added_ns());
    EXPECT_EQ(halved.added_ns(), full.added_ns());
    const std::int64_t of_sites = full.added_ns() - full.exposed_copy_ns;
    EXPECT_NEAR(static_cast<double>(halved.weighted_ns() - full.exposed_copy_ns), 0.5 * static_cast<double>(of_sites),
                1);
    const Evaluation uneven_sum = by_mixed.evaluate(choice);
    EXPECT_LE(uneven_sum.weighted_ns(), full.added_ns());
    EXPECT_GE(static_cast<double>(uneven_sum.weighted_ns() - full.exposed_copy_ns),
              0.1 * static_cast<double>(of_sites) - 1);
  }
  const gaps::GapProblem plain = gap_problem_of(f->problem), at_full = at_full_cost(gap_problem_of(mixed));
  ASSERT_EQ(at_full.units.size(), plain.units.size());
  for (std::size_t u = 0; u < plain.units.size(); ++u)
    EXPECT_NEAR(at_full.units[u].recompute_cost, plain.units[u].recompute_cost, 1e-6);
  for (std::size_t g = 0; g < plain.gaps.size(); ++g) EXPECT_EQ(at_full.gaps[g].swap_cost, plain.gaps[g].swap_cost);
  for (const gaps::Move& move : gap_problem_of(mixed).moves) EXPECT_LE(move.cost, move.full_cost);
}

/// The evaluation of one gap that is given up is what the decision core is told of it, whatever its weights.
TEST(Evaluator, OneGapCostsWhatTheCoreIsTold) {
  std::mt19937 random(8);
  const auto f = RankFixture::of(testing::chain_graph(
      {.layers = 3, .micro_batches = 4, .warm_up = 2, .chunks = 2, .op_ns = 3000, .communication = true}));
  ASSERT_NE(f, nullptr);
  DecisionProblem p = build_problem(f->graph, f->liveness, f->machine, f->nominal, f->op_ns,
                                    {.offload = {}, .run_time = RunTime::hidden, .weights = {}})
                          .value();
  gaps::GapProblem gaps = gap_problem_of(p);
  Evaluator evaluator(p);
  for (int round = 0; round < 3; ++round) {
    std::vector<float> weights(p.compute_op.size());
    for (float& weight : weights) weight = static_cast<float>(random() % 1000) / 1000;
    gaps::Choice planned(p.gaps.size(), Action::keep);
    for (std::size_t g = 0; g < planned.size(); g += 2) planned[g] = Action::swap;
    weigh(p, weights, planned);
    weigh_costs(p, gaps);
    evaluator.forget();
    int moves = 0;
    for (const gaps::Move& move : gaps.moves) {
      gaps::Choice choice(p.gaps.size(), Action::keep);
      for (const std::int32_t g : gaps.gaps_of(move)) choice[static_cast<std::size_t>(g)] = move.action;
      const Evaluation one = evaluator.evaluate(choice);
      if (one.exposed_copy_ns > 0) continue;
      ++moves;
      EXPECT_NEAR(static_cast<double>(one.weighted_ns()), move.cost, 1);
      EXPECT_NEAR(static_cast<double>(one.added_ns()), move.full_cost, 1);
    }
    EXPECT_GT(moves, 10);
  }
}

/// Recomputations are listed where the schedule has them, and add up to what the evaluation says.
TEST(Evaluator, ListsRecomputations) {
  std::mt19937 random(9);
  const auto f = RankFixture::of(testing::chain_graph({.layers = 3, .micro_batches = 5, .warm_up = 3, .op_ns = 3000}));
  ASSERT_NE(f, nullptr);
  const gaps::GapProblem gaps = gap_problem_of(f->problem);
  Evaluator evaluator(f->problem);
  for (int round = 0; round < testing::cases(20); ++round) {
    const gaps::Choice choice = random_choice(f->problem, random);
    std::int64_t listed_ns = 0;
    for (const Evaluator::Placed& run : evaluator.recomputations(choice)) {
      const gaps::GapProblem::Unit& unit = gaps.units[static_cast<std::size_t>(run.unit)];
      const std::int32_t first = gaps.gaps_of(unit).front();
      EXPECT_EQ(choice[static_cast<std::size_t>(first)], Action::recompute);
      EXPECT_LE(2 * run.clock, f->problem.gaps[static_cast<std::size_t>(first)].taken_from);
      listed_ns += run.ns;
    }
    const Evaluation evaluation = evaluator.evaluate(choice);
    EXPECT_EQ(listed_ns, evaluation.recompute_ns + evaluation.exposed_communication_ns);
  }
}

/// Whatever was evaluated before, the same choice or another, nothing of it is left.
TEST(Evaluator, RemembersNothingThatItShouldNot) {
  std::mt19937 random(4);
  const auto f = RankFixture::of(testing::chain_graph({.layers = 3, .micro_batches = 5, .warm_up = 3, .op_ns = 3000}));
  ASSERT_NE(f, nullptr);
  Evaluator used(f->problem);
  const gaps::Choice first = random_choice(f->problem, random);
  for (int round = 0; round < testing::cases(40); ++round) {
    const gaps::Choice choice = round % 4 == 3 ? first : random_choice(f->problem, random);
    Evaluator fresh(f->problem);
    const gaps::Pricing wanted = fresh.price(choice);
    for (int again = 0; again < 2; ++again) {
      const gaps::Pricing pricing = used.price(choice);
      EXPECT_EQ(pricing.peak_bytes, wanted.peak_bytes);
      EXPECT_EQ(pricing.host_peak_bytes, wanted.host_peak_bytes);
      EXPECT_EQ(pricing.added_cost, wanted.added_cost);
      EXPECT_EQ(pricing.exposed_copy_cost, wanted.exposed_copy_cost);
      EXPECT_EQ(used.profile(), fresh.profile());
      EXPECT_EQ(used.host_profile(), fresh.host_profile());
    }
    for (std::size_t g = 0; g < choice.size(); ++g) {
      if (choice[g] == Action::keep) continue;
      EXPECT_EQ(used.freed_from()[g], fresh.freed_from()[g]);
      EXPECT_EQ(used.freed_until()[g], fresh.freed_until()[g]);
    }
    gaps::PlanCost cost, fresh_cost;
    EXPECT_EQ(used.plan(choice, cost), fresh.plan(choice, fresh_cost));
  }
}

TEST(Evaluator, AddedTimeIsRecomputeAndCopiesCountedOneByOne) {
  const auto f = RankFixture::of(testing::chain_graph({.layers = 2, .micro_batches = 3, .warm_up = 2, .op_ns = 40000}));
  ASSERT_NE(f, nullptr);
  Evaluator evaluator(f->problem);
  const Evaluation full = evaluator.evaluate(gaps::recompute_all(gap_problem_of(f->problem)));
  EXPECT_EQ(full.recompute_ns, 2 * 3 * 3 * 40000);  // layers x micro-batches x (up, key, value)
  EXPECT_EQ(full.copy_overhead_ns, 0);

  const NamedAction swap_in[] = {{"in", Action::swap}};
  const gaps::Choice choice = choose_by_name(f->problem, swap_in);
  const Evaluation swapped = evaluator.evaluate(choice);
  std::int64_t copies = 0;
  Bytes bytes = 0;
  for (std::size_t g = 0; g < choice.size(); ++g) {
    if (choice[g] != Action::swap) continue;
    bytes += f->problem.gaps[g].bytes;
    copies += 2 * (10 + f->problem.gaps[g].bytes / 1000);  // launch + bytes over 1e12 B/s, each way
  }
  EXPECT_EQ(swapped.swapped_bytes, bytes);
  EXPECT_NEAR(static_cast<double>(swapped.copy_overhead_ns), static_cast<double>(copies),
              static_cast<double>(choice.size()));
  EXPECT_EQ(swapped.recompute_ns, 0);
  EXPECT_LT(swapped.peak_bytes, evaluator.evaluate(gaps::Choice(choice.size(), Action::keep)).peak_bytes);
}

}  // namespace
}  // namespace tidemark::decide::sites
