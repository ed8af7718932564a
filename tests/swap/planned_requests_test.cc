// What a followed step asks for stands where its Program has it: every request of every step, while it goes as planned.

#include "swap/planned_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "device/sim_device.h"
#include "tests/support/captured_steps.h"
#include "tests/support/framework_player.h"
#include "tests/support/random_plans.h"

namespace tidemark::swap {
namespace {

using testing::FrameworkPlayer;

/// What the player asks for: what an op writes and nobody has made before, workspaces by their place.
std::vector<OpRequest> requests_of(const Graph& graph, Bytes tail_pad_bytes = 0) {
  std::vector<OpRequest> requests;
  std::set<StorageId> made;
  for (std::size_t op = 0; op < graph.ops.size(); ++op)
    for (const Access& access : graph.accesses_of(id_of<OpId>(op))) {
      const StorageTemplate& of = graph.template_of(access.storage);
      if (access.kind != AccessKind::write || of.initial || !made.insert(access.storage).second) continue;
      const bool is_workspace = of.name.ends_with(".workspace");
      requests.push_back({.op = id_of<OpId>(op),
                          .storage = is_workspace ? kNone<StorageId> : access.storage,
                          .bytes = std::max<Bytes>(graph.storages[row(access.storage)].bytes - tail_pad_bytes, 1)});
    }
  return requests;
}

constexpr Bytes kUnit = 512;

/// Every other storage is made by a kernel that has had a workspace before, of up to as many bytes, in its place.
std::vector<OpRequest> with_work_before(const std::vector<OpRequest>& requests, const Graph& graph,
                                        std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<OpRequest> found;
  for (const OpRequest& request : requests) {
    const Bytes most = request.storage == kNone<StorageId> ? 0 : graph.storages[row(request.storage)].bytes;
    if (most > allocator::kUnorderedBytes && random() % 2 == 0) {
      const Bytes bytes = static_cast<Bytes>(random() % static_cast<std::uint64_t>(most)) + 1;
      const Bytes offset = (most - bytes) / 2 / kUnit * kUnit;
      found.push_back(
          {.op = request.op, .storage = request.storage, .bytes = bytes, .offset = offset, .is_within = true});
    }
    found.push_back(request);
  }
  return found;
}

struct Served {
  allocator::PlannedArenaCounts counts;
  std::int64_t departures = 0;
};

Served play(const plan::RankPlan& plan, std::uint64_t seed, const std::vector<OpRequest>& requests,
            Bytes tail_pad_bytes = 0) {
  FollowedLoop loop;
  for (const OpTemplate& of : plan.graph.op_templates) loop.is_told.push_back(of.told);
  const auto blocks = plan_requests(plan.program, loop, requests, tail_pad_bytes);
  EXPECT_TRUE(blocks.ok());
  const auto sim = make_sim_device(
      {.capacity_bytes = 4 * kGiB, .tail_pad_bytes = tail_pad_bytes, .report_unwritten = true}, {.seed = seed});
  Served served;
  {
    FrameworkPlayer player(plan.graph, *sim, {});
    player.serve(blocks.value());
    for (std::size_t s = 0; s < plan.graph.storages.size(); ++s)  // the plan's have the pad
      player.resize(id_of<StorageId>(s), std::max<Bytes>(plan.graph.storages[s].bytes - tail_pad_bytes, 1));
    for (const OpRequest& request : requests)
      if (request.is_within) player.work_before(request.storage, request.bytes);
    const Result<std::unique_ptr<Session>> session = Session::open(plan.program, *sim, {.loop = loop}, player.calls());
    EXPECT_TRUE(session.ok());
    for (int step = 0; step < 3; ++step) player.play(*session.value());
    EXPECT_EQ(player.fault(), "");
    served = {.counts = player.front()->counts(), .departures = session.value()->report().counts.departures};
    EXPECT_LE(player.front()->extent_bytes(), plan.program.layout.arenas.front().height_bytes);
  }
  EXPECT_EQ(sim->race_count(), 0) << (sim->races().empty() ? "" : to_string(sim->races().front()));
  return served;
}

TEST(PlannedRequests, EveryRequestOfAStepThatGoesAsPlannedIsServed) {
  std::int64_t served = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(11, 16)) {
    const Served one = play(plan, 1, requests_of(plan.graph));
    EXPECT_EQ(one.counts.unplanned, 0) << one.counts.blocked << " blocked";
    EXPECT_EQ(one.counts.passed_over, 0);
    EXPECT_EQ(one.departures, 0);
    served += one.counts.served;
  }
  EXPECT_GT(served, testing::cases(1'000));
}

TEST(PlannedRequests, EveryOneAlsoWhereBlocksHaveAPadBehindThem) {
  constexpr Bytes kAscendPad = 32;
  std::int64_t served = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(14, 12)) {
    const Served one = play(plan, 1, requests_of(plan.graph, kAscendPad), kAscendPad);
    EXPECT_EQ(one.counts.unplanned, 0) << one.counts.blocked << " blocked";
    served += one.counts.served;
  }
  EXPECT_GT(served, testing::cases(500));
}

TEST(PlannedRequests, WorkspacesLieInThePlaceOfWhatIsAskedForBehindThem) {
  std::int64_t within = 0, rebuilt = 0;
  for (const testing::Hears hears : {testing::Hears::everything, testing::Hears::what_it_asks_for})
    for (const plan::RankPlan& plan : testing::random_captured_plans(15, 12, 1, hears)) {
      const std::vector<OpRequest> requests = with_work_before(requests_of(plan.graph), plan.graph, 3);
      const Served one = play(plan, 1, requests);
      EXPECT_EQ(one.counts.unplanned, 0) << one.counts.blocked << " blocked";
      EXPECT_EQ(one.counts.passed_over, 0);
      EXPECT_EQ(one.departures, 0);
      within += std::ranges::count(requests, true, &OpRequest::is_within);
      rebuilt += std::ranges::count(plan.program.schedule.tasks, TaskKind::recompute, &Task::kind);
    }
  EXPECT_GT(within, testing::cases(50));
  EXPECT_GT(rebuilt, testing::kSanitized ? 0 : 20);
}

TEST(PlannedRequests, EveryOneAlsoWhereBackwardIsHeardByWhatItAsksFor) {
  std::int64_t served = 0, untold = 0, rebuilt = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(12, 60, 1, testing::Hears::what_it_asks_for)) {
    const Served one = play(plan, 1, requests_of(plan.graph));
    EXPECT_EQ(one.counts.unplanned, 0) << one.counts.blocked << " blocked";
    EXPECT_EQ(one.counts.passed_over, 0);
    EXPECT_EQ(one.departures, 0);
    served += one.counts.served;
    untold += std::ranges::count(plan.graph.op_templates, false, &OpTemplate::told);
    rebuilt += std::ranges::count(plan.program.schedule.tasks, TaskKind::recompute, &Task::kind);
  }
  EXPECT_GT(served, testing::cases(1'000));
  EXPECT_GT(untold, testing::cases(50));
  EXPECT_GT(rebuilt, testing::kSanitized ? 0 : 20);
}

TEST(PlannedRequests, WhatDepartsIsServedElsewhereAndNothingIsLost) {
  for (const plan::RankPlan& plan : testing::random_captured_plans(13, 6)) {
    const auto requests = plan_requests(plan.program, {}, requests_of(plan.graph));
    ASSERT_TRUE(requests.ok());
    std::vector<allocator::PlannedBlock> blocks = requests.value();
    for (std::size_t i = 0; i < blocks.size(); i += 7) blocks[i].bytes += 4 * kKiB;  // of another framework
    const auto sim = make_sim_device({.capacity_bytes = 4 * kGiB, .report_unwritten = true}, {.seed = 3});
    {
      FrameworkPlayer player(plan.graph, *sim, {});
      player.serve(blocks);
      const Result<std::unique_ptr<Session>> session = Session::open(plan.program, *sim, {}, player.calls());
      ASSERT_TRUE(session.ok());
      for (int step = 0; step < 2; ++step) player.play(*session.value());
      EXPECT_EQ(player.fault(), "");
      EXPECT_GT(player.front()->counts().served, 0);
      EXPECT_GT(player.front()->counts().unplanned, 0);
    }
    EXPECT_EQ(sim->race_count(), 0);
  }
}

}  // namespace
}  // namespace tidemark::swap
