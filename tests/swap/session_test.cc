// Plans of captured steps, followed: every byte that a framework reads is checked, on simulated devices for races too.

#include "swap/session.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "device/sim_device.h"
#include "planner/planner.h"
#include "tests/support/captured_steps.h"
#include "tests/support/framework_player.h"
#include "tests/support/random_plans.h"
#include "tests/support/session_replay.h"
#include "tests/support/session_stage.h"

namespace tidemark::swap {
namespace {

using testing::FrameworkPlayer;
using Stage = testing::SessionStage;

TEST(Session, FollowsPlansWithoutRacesOrDepartures) {
  std::int64_t copied_out = 0, rebuilt = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(1, 20))
    for (const std::uint64_t seed : {0U, 1U, 2U}) {
      Stage stage(plan, {.seed = seed});
      for (int step = 0; step < 3; ++step) stage.player->play(*stage.session);
      EXPECT_EQ(stage.player->fault(), "");
      const SessionReport report = stage.session->report();
      EXPECT_EQ(report.counts.departures, 0);
      EXPECT_EQ(report.counts.steps, 3);
      rebuilt += report.counts.rebuilt;
      copied_out += report.out.copies;
    }
  EXPECT_GT(rebuilt, testing::cases(100));
  EXPECT_GT(copied_out, testing::cases(100));
}

/// Ops on several streams, which the framework orders by the blocks that they touch: copies are ordered by the session.
TEST(Session, FollowsAFrameworkOfSeveralStreams) {
  std::int64_t copied_out = 0, rebuilt = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(15, 20))
    for (const std::uint64_t seed : {0U, 1U, 2U}) {
      Stage stage(plan, {.seed = seed}, {.streams = 2 + seed % 2});
      for (int step = 0; step < 3; ++step) stage.player->play(*stage.session);
      EXPECT_EQ(stage.player->fault(), "");
      EXPECT_EQ(stage.session->report().counts.departures, 0);
      rebuilt += stage.session->report().counts.rebuilt;
      copied_out += stage.session->report().out.copies;
    }
  EXPECT_GT(rebuilt, testing::cases(100));
  EXPECT_GT(copied_out, testing::cases(100));
}

/// All that backward asks for may leave, and whoever takes memory, the session too, has it leave at random.
TEST(Session, GivesUpMemoryWheneverItIsAskedFor) {
  std::int64_t spilled = 0, dropped = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(31, 12))
    for (const std::uint64_t seed : {0U, 1U, 2U}) {
      const FrameworkPlayer::Options options{.tells_backward = seed != 1, .streams = 1 + seed % 2};
      std::vector<SessionEvent> events;
      SessionOptions asked{.log = [&](const SessionEvent& event) { events.push_back(event); }};
      for (std::size_t s = 0; s < plan.graph.storages.size(); ++s) asked.loop.may_spill.push_back(id_of<StorageId>(s));
      Stage stage(plan, {.seed = seed}, options, asked);
      stage.asks_for_room(seed, 3);
      for (int step = 0; step < 3; ++step) stage.player->play(*stage.session);
      EXPECT_EQ(stage.player->fault(), "");
      const SessionCounts counts = stage.session->report().counts;
      spilled += counts.spilled;
      dropped += counts.dropped;
      if (seed != 2) continue;  // of one stream
      events.push_back({.kind = SessionEvent::Kind::close});
      SessionLog log{.loop = asked.loop, .events = std::move(events)};
      const std::unique_ptr<SimDevice> other = make_sim_device({.capacity_bytes = 4 * kGiB}, {.seed = 5});
      testing::SessionReplay replay(plan, log, *other, {});
      EXPECT_EQ(replay.play(), "");
      EXPECT_EQ(other->race_count(), 0) << (other->races().empty() ? "" : to_string(other->races().front()));
    }
  EXPECT_GT(spilled, testing::cases(500));
  EXPECT_GT(dropped, testing::cases(20));
}

/// A framework that makes and saves what no plan knows, beside one that it follows, and is short of memory.
TEST(Session, GivesUpWhatThePlanDoesNotKnow) {
  std::int64_t spilled = 0, dropped = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(41, 12))
    for (const std::uint64_t seed : {0U, 1U, 2U}) {
      const FrameworkPlayer::Options options{.tells_backward = seed != 1, .streams = 1 + seed % 2, .departs = seed + 1};
      std::vector<SessionEvent> events;
      SessionOptions asked{.log = [&](const SessionEvent& event) { events.push_back(event); }};
      asked.loop.may_spill.push_back(id_of<StorageId>(0));
      Stage stage(plan, {.seed = seed}, options, asked);
      stage.asks_for_room(seed, 3);
      for (int step = 0; step < 3; ++step) stage.player->play(*stage.session);
      stage.player->begin(*stage.session);  // a backward that comes behind another step
      stage.issue(stage.ops(true));
      auto first = stage.player->put_aside();
      stage.player->play(*stage.session);
      stage.player->take_up(std::move(first));
      stage.issue_late(stage.ops(false));
      stage.player->finish(*stage.session);
      EXPECT_EQ(stage.player->fault(), "");
      EXPECT_EQ(stage.session->report().steps_open, 0);
      const SessionCounts counts = stage.session->report().counts;
      spilled += counts.spilled;
      dropped += counts.dropped;
      if (seed != 2) continue;  // of one stream
      events.push_back({.kind = SessionEvent::Kind::close});
      SessionLog log{.loop = asked.loop, .events = std::move(events)};
      const std::unique_ptr<SimDevice> other = make_sim_device({.capacity_bytes = 4 * kGiB}, {.seed = 5});
      testing::SessionReplay replay(plan, log, *other, {});
      EXPECT_EQ(replay.play(), "");
      EXPECT_EQ(other->race_count(), 0) << (other->races().empty() ? "" : to_string(other->races().front()));
    }
  EXPECT_GT(spilled, testing::cases(500));
  EXPECT_GT(dropped, testing::cases(20));
}

/// Nothing may be copied that the plan does not copy: what leaves is made again, while what it is made of is there.
TEST(Session, GivesUpWhatCanBeMadeAgain) {
  std::int64_t dropped = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(33, 40))
    for (const std::uint64_t seed : {0U, 1U, 2U}) {
      Stage stage(plan, {.seed = seed}, {.tells_backward = seed != 1});
      stage.asks_for_room(seed, 2);
      for (int step = 0; step < 3; ++step) stage.player->play(*stage.session);
      EXPECT_EQ(stage.player->fault(), "");
      dropped += stage.session->report().counts.dropped;
    }
  EXPECT_GT(dropped, testing::cases(40));
}

/// What is needed last goes first, and no more than is asked for.
TEST(Session, GivesUpWhatIsNeededLast) {
  const std::vector<plan::RankPlan> plans = testing::random_captured_plans(32, 6);
  std::int64_t tried = 0;
  for (const plan::RankPlan& plan : plans) {
    SessionOptions asked;
    for (std::size_t s = 0; s < plan.graph.storages.size(); ++s) asked.loop.may_spill.push_back(id_of<StorageId>(s));
    Stage stage(plan, SimSchedule{}, {}, asked);
    stage.player->begin(*stage.session);
    stage.issue(stage.ops(true));
    const std::size_t lent = stage.player->lent();
    const auto given_up = stage.session->make_room(1, stage.player->stream());
    ASSERT_TRUE(given_up.ok());
    if (given_up.value() > 0) {
      ++tried;
      EXPECT_EQ(stage.player->lent(), lent - 1);
      EXPECT_EQ(stage.session->make_room(0, stage.player->stream()).value(), 0);
    }
    stage.issue(stage.ops(false));
    stage.player->finish(*stage.session);
    EXPECT_EQ(stage.player->fault(), "");
  }
  EXPECT_GT(tried, 0);
}

TEST(Session, HearsOfBackwardByWhatItAsksFor) {
  for (const plan::RankPlan& plan : testing::random_captured_plans(2, 10)) {
    Stage stage(plan, SimSchedule{}, {.tells_backward = false});
    for (int step = 0; step < 3; ++step) stage.player->play(*stage.session);
    EXPECT_EQ(stage.player->fault(), "");
  }
}

TEST(Session, StepsThatDepartReadWhatWasWritten) {
  std::int64_t departures = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(4, 12)) {
    Stage stage(plan, {.seed = 7});
    FrameworkPlayer& player = *stage.player;
    const std::vector<OpId> forward = stage.ops(true), backward = stage.ops(false);
    player.begin(*stage.session);  // an evaluation
    stage.issue(forward);
    player.finish(*stage.session);
    player.play(*stage.session);
    player.begin(*stage.session);  // one step's forward, all of another, then its backward
    stage.issue(forward);
    auto first = player.put_aside();
    player.play(*stage.session);
    player.take_up(std::move(first));
    stage.issue_late(backward);
    player.forget_saved();
    player.begin(*stage.session);  // a backward that stops half way
    stage.issue(forward);
    stage.issue({backward.begin(), backward.begin() + static_cast<std::ptrdiff_t>(backward.size() / 2)});
    player.finish(*stage.session);
    player.play(*stage.session);
    EXPECT_EQ(player.fault(), "");
    EXPECT_EQ(stage.session->report().steps_open, 0);
    departures += stage.session->report().counts.departures;
  }
  EXPECT_GT(departures, 0);
}

TEST(Session, PartsMayComeInAnotherOrder) {
  for (const plan::RankPlan& plan : testing::random_captured_plans(5, 10, 3)) {
    FollowedLoop loop;
    std::vector<std::vector<OpId>> forward(1), backward(1);  // per part
    for (std::size_t op = 0; op < plan.graph.ops.size(); ++op) {
      const bool is_forward = plan.graph.template_of(id_of<OpId>(op)).phase == OpPhase::forward;
      if (is_forward && !backward.back().empty()) {
        forward.emplace_back();
        backward.emplace_back();
      }
      (is_forward ? forward : backward).back().push_back(id_of<OpId>(op));
      loop.part_of_op.push_back(static_cast<std::int32_t>(forward.size()) - 1);
    }
    ASSERT_EQ(forward.size(), 3);
    Stage stage(plan, {.seed = 3}, {}, {.loop = loop});
    for (const std::vector<int>& order : {std::vector<int>{0, 1, 2}, {2, 0, 1}, {1, 2}, {0}}) {
      stage.player->begin(*stage.session);
      for (const int part : order) stage.issue(forward[static_cast<std::size_t>(part)]);
      for (const int part : order) stage.issue(backward[static_cast<std::size_t>(part)]);
      stage.player->finish(*stage.session);
      EXPECT_EQ(stage.player->fault(), "") << order.front();
    }
    stage.player->play(*stage.session);
    EXPECT_EQ(stage.player->fault(), "");
  }
}

/// Ops in an order that keeps that of each part, and of what they touch: a part may wait for another.
std::vector<OpId> draw_order(const Graph& graph, const std::vector<std::int32_t>& part_of, std::mt19937& random) {
  const std::size_t count = graph.ops.size();
  std::vector<std::vector<std::size_t>> behind(count);  // ops that must have run
  std::map<StorageId, std::vector<std::size_t>> readers;
  std::map<StorageId, std::size_t> writer;
  for (std::size_t op = 0; op < count; ++op) {
    for (std::size_t before = op; before-- > 0;)
      if (part_of[before] == part_of[op]) {
        behind[op].push_back(before);
        break;
      }
    for (const Access& access : graph.accesses_of(id_of<OpId>(op))) {
      if (const auto last = writer.find(access.storage); last != writer.end()) behind[op].push_back(last->second);
      if (access.kind == AccessKind::read) {
        readers[access.storage].push_back(op);
        continue;
      }
      for (const std::size_t reader : std::exchange(readers[access.storage], {})) behind[op].push_back(reader);
      writer[access.storage] = op;
    }
    std::erase(behind[op], op);
  }
  std::vector<OpId> order;
  std::vector<bool> done(count);
  while (order.size() < count) {
    std::vector<std::size_t> ready;
    for (std::size_t op = 0; op < count; ++op)
      if (!done[op] && std::ranges::all_of(behind[op], [&](std::size_t before) { return done[before]; }))
        ready.push_back(op);
    const std::size_t next = ready[random() % ready.size()];
    done[next] = true;
    order.push_back(id_of<OpId>(next));
  }
  return order;
}

/// What one part is recomputed from may be planned for until another part, which comes first, is through with it.
TEST(Session, PartsMayWaitForEachOther) {
  std::mt19937 random(19);
  std::int64_t departures = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(16, 40)) {
    FollowedLoop loop;
    for (std::size_t op = 0; op < plan.graph.ops.size(); ++op)
      loop.part_of_op.push_back(static_cast<std::int32_t>(random() % 3));
    Stage stage(plan, {.seed = 3}, {}, {.loop = loop});
    for (int step = 0; step < 4; ++step) {
      stage.player->begin(*stage.session);
      stage.issue(draw_order(plan.graph, loop.part_of_op, random));
      stage.player->finish(*stage.session);
    }
    EXPECT_EQ(stage.player->fault(), "");
    departures += stage.session->report().counts.departures;
  }
  EXPECT_GT(departures, 0);
}

/// Without room for the arenas all copies go to blocks; where these end, storages stay.
TEST(Session, HoldsNoMorePinnedMemoryThanItMay) {
  std::int64_t kept = 0, copied = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(10, 8)) {
    Bytes arenas = 0;
    for (const Arena& arena : plan.program.layout.arenas)
      if (arena.space == MemorySpace::host) arenas += arena.height_bytes;
    const Bytes most = std::max<Bytes>(arenas / 2, 1);
    Stage stage(plan, {.seed = 5}, {}, {.host_bytes = most});
    for (int step = 0; step < 3; ++step) stage.player->play(*stage.session);
    EXPECT_EQ(stage.player->fault(), "");
    EXPECT_LE(stage.sim->statistics().peak_pinned_bytes, most);
    const SessionReport report = stage.session->report();
    EXPECT_EQ(report.counts.departures, report.counts.kept_for_host);
    kept += report.counts.kept_for_host;
    copied += report.out.copies;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(copied, 0);
}

/// Layers whose large activation is made anew from a small one that backward does not read.
plan::RankPlan plan_of_pairs(std::int32_t layers) {
  using Builder = graph_build::CapturedGraphBuilder;
  Builder builder({.unit = GivenCosts::Unit::ns});
  std::vector<std::int32_t> large;
  std::int32_t small = builder.add({.name = "input", .bytes = 64 * kKiB});
  for (std::int32_t l = 0; l < layers; ++l) {
    const std::int32_t next = builder.add({.name = "small", .bytes = 64 * kKiB});
    large.push_back(builder.add({.name = "large", .bytes = 2 * kMiB}));
    builder.add(
        {.name = "mix", .cost = 1000, .recompute = Builder::Recompute::never, .reads = {small}, .writes = {next}});
    builder.add({.name = "widen", .cost = 1000, .reads = {next}, .writes = {large.back()}});
    small = next;
  }
  for (std::int32_t l = layers; l-- > 0;) {
    const std::int32_t gradient = builder.add({.name = "gradient", .bytes = 64 * kKiB});
    builder.add({.name = "backward",
                 .cost = 1000,
                 .phase = OpPhase::backward,
                 .recompute = Builder::Recompute::never,
                 .reads = {large[static_cast<std::size_t>(l)]},
                 .writes = {gradient}});
  }
  plan::PlanRequest request = testing::captured_request(std::move(builder).build(), 5 * kMiB);
  request.step->effort = 0.01;
  Result<plan::PlanOutcome> planned = plan::plan_step(request);
  EXPECT_TRUE(planned.ok() && planned.value().fits());
  return std::move(planned.value().ranks.front());
}

/// Large activations that are recomputed from one storage, which is there until the first of them has been used.
plan::RankPlan plan_of_one_source(std::int32_t layers) {
  using Builder = graph_build::CapturedGraphBuilder;
  Builder builder({.unit = GivenCosts::Unit::ns});
  const std::int32_t input = builder.add({.name = "input", .bytes = 64 * kKiB});
  const std::int32_t source = builder.add({.name = "source", .bytes = 64 * kKiB});
  builder.add(
      {.name = "mix", .cost = 1000, .recompute = Builder::Recompute::never, .reads = {input}, .writes = {source}});
  std::vector<std::int32_t> large;
  for (std::int32_t l = 0; l < layers; ++l) {
    large.push_back(builder.add({.name = "large", .bytes = 2 * kMiB}));
    builder.add({.name = "widen", .cost = 1000, .reads = {source}, .writes = {large.back()}});
  }
  for (std::int32_t l = layers; l-- > 0;)
    builder.add({.name = "backward",
                 .cost = 1000,
                 .phase = OpPhase::backward,
                 .recompute = Builder::Recompute::never,
                 .reads = {large[static_cast<std::size_t>(l)]},
                 .writes = {builder.add({.name = "gradient", .bytes = 64 * kKiB})}});
  plan::PlanRequest request = testing::captured_request(std::move(builder).build(), 5 * kMiB);
  request.step->effort = 0.01;
  Result<plan::PlanOutcome> planned = plan::plan_step(request);
  EXPECT_TRUE(planned.ok() && planned.value().fits());
  return std::move(planned.value().ranks.front());
}

/// The player finds fault with an op that is recomputed behind its last time.
TEST(Session, AnUnplannedChangeRecomputesNothingThatIsOver) {
  constexpr std::int32_t kLayers = 8;
  const plan::RankPlan plan = plan_of_one_source(kLayers);
  for (std::int32_t done = 0; done <= kLayers; ++done) {
    Stage stage(plan);
    const std::vector<OpId> backward = stage.ops(false);
    stage.player->begin(*stage.session);
    stage.issue(stage.ops(true));
    stage.issue({backward.begin(), backward.begin() + done});
    const std::int64_t before = stage.session->report().counts.rebuilt;
    stage.player->spoil(*stage.session, id_of<StorageId>(1));
    EXPECT_LE(stage.session->report().counts.rebuilt - before, kLayers - done);
    stage.issue({backward.begin() + done, backward.end()});
    stage.player->finish(*stage.session);
    EXPECT_EQ(stage.player->fault(), "") << done;
  }
}

TEST(Session, WhatIsChangedUnplannedIsNotRecomputedFrom) {
  const plan::RankPlan plan = plan_of_pairs(8);
  Stage stage(plan);
  int spoiled = 0;
  for (std::size_t s = 0; s < plan.graph.storages.size(); ++s) {
    const auto storage = id_of<StorageId>(s);
    if (!stage.session->is_managed(storage) || stage.player->is_saved(storage)) continue;
    stage.player->begin(*stage.session);
    stage.issue(stage.ops(true));
    stage.player->spoil(*stage.session, storage);
    stage.issue(stage.ops(false));
    stage.player->finish(*stage.session);
    EXPECT_EQ(stage.player->fault(), "") << s;
    ++spoiled;
  }
  EXPECT_GT(spoiled, 5);
}

TEST(Session, ARetainedGraphIsThereForAnotherBackward) {
  std::int64_t rebuilt = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(23, 40)) {
    Stage stage(plan, SimSchedule{}, {.retains = true});
    for (int step = 0; step < 2; ++step) {
      stage.player->begin(*stage.session);
      stage.issue(stage.ops(true));
      stage.issue(stage.ops(false));
      for (int again = 0; again < 2; ++again) stage.player->ask_again();
      stage.player->finish(*stage.session);
      ASSERT_EQ(stage.player->fault(), "");
    }
    rebuilt += stage.session->report().counts.rebuilt;
  }
  EXPECT_GT(rebuilt, testing::cases(60));
}

/// Nothing is left to be recomputed for a step of which only what the framework keeps itself is still saved.
TEST(Session, ALateUseOfAStepThatIsOverActsOnNothing) {
  const plan::RankPlan plan = plan_of_one_source(4);
  Stage stage(plan);
  stage.player->begin(*stage.session);
  stage.issue(stage.ops(true));
  const OpId last = stage.ops(false).back();
  SavedStorage kept = stage.session->save(kNone<StorageId>, {.op = last, .until = last});
  stage.player->forget_saved();
  stage.session->end_step(stage.player->stream());
  const auto used = Session::use(kept, false, stage.player->stream());
  EXPECT_TRUE(used.ok()) << used.error().message;
  EXPECT_EQ(stage.session->report().counts.rebuilt, 0);
  Session::free(kept);
}

/// A kernel that raised was told before and made nothing: there is nothing to make again, whatever is told behind it.
TEST(Session, AnOpThatWasToldAndNeverIssuedIsNotAskedFor) {
  std::int64_t rebuilt = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(29, 5))
    for (const bool all : {false, true}) {  // all ops, or every third of them
      Stage stage(plan);
      stage.player->begin(*stage.session);
      for (std::size_t op = 0; op < plan.graph.ops.size(); op += all ? 1 : 3)
        EXPECT_TRUE(stage.session->tell(id_of<OpId>(op), stage.player->stream()).ok());
      EXPECT_TRUE(stage.session->make_room(kGiB, stage.player->stream()).ok());
      stage.player->finish(*stage.session);
      EXPECT_EQ(stage.player->rebuilds(), 0);
      stage.player->play(*stage.session);
      EXPECT_EQ(stage.player->fault(), "");
      rebuilt += stage.player->rebuilds();
    }
  EXPECT_GT(rebuilt, 0);
}

TEST(Session, SavedContentOutlivesTheSession) {
  for (const plan::RankPlan& plan : testing::random_captured_plans(8, 5)) {
    Stage stage(plan);
    stage.player->begin(*stage.session);
    stage.issue(stage.ops(true));
    stage.session.reset();
    stage.issue_late(stage.ops(false));
    stage.player->forget_saved();
    EXPECT_EQ(stage.player->fault(), "");
  }
}

}  // namespace
}  // namespace tidemark::swap
