#include "planner/simulate/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "planner/graph_build/liveness.h"
#include "planner/graph_build/pipeline_schedule.h"
#include "tests/support/data.h"
#include "tests/support/json_text.h"
#include "tests/support/tiny_graph.h"

namespace tidemark::simulate {
namespace {

/// Columns of one rank, task by task.
class WorkBuilder {
 public:
  std::int32_t task(Lane lane, std::int64_t ns, const std::vector<std::int32_t>& waits = {}) {
    work_.lanes.push_back(lane);
    work_.duration_ns.push_back(ns);
    work_.first_wait.push_back(static_cast<std::int32_t>(work_.waits.size()));
    work_.waits.insert(work_.waits.end(), waits.begin(), waits.end());
    return static_cast<std::int32_t>(work_.lanes.size()) - 1;
  }
  std::int32_t send(std::int32_t peer, std::int64_t tag, std::int64_t ns, const std::vector<std::int32_t>& waits = {}) {
    const std::int32_t id = task(Lane::send, ns, waits);
    work_.messages.push_back({.task = id, .peer_rank = peer, .tag = tag, .is_send = true});
    return id;
  }
  std::int32_t receive(std::int32_t peer, std::int64_t tag, const std::vector<std::int32_t>& waits = {}) {
    const std::int32_t id = task(Lane::receive, 0, waits);
    work_.messages.push_back({.task = id, .peer_rank = peer, .tag = tag, .is_send = false});
    return id;
  }
  [[nodiscard]] std::size_t size() const { return work_.lanes.size(); }
  [[nodiscard]] RankWork finish() const {
    RankWork result = work_;
    result.first_wait.push_back(static_cast<std::int32_t>(result.waits.size()));
    return result;
  }

 private:
  RankWork work_;
};

StepTiming simulate(const std::vector<RankWork>& ranks) {
  auto timing = simulate_step(ranks);
  EXPECT_TRUE(timing.ok()) << (timing.ok() ? "" : timing.error().message);
  return timing.ok() ? std::move(timing).value() : StepTiming{};
}

std::string fault_of(const std::vector<RankWork>& ranks) {
  const auto timing = simulate_step(ranks);
  if (timing.ok()) return "no fault";
  EXPECT_EQ(timing.error().code, Error::Code::internal);
  return timing.error().message;
}

TEST(Simulator, LanesRunBesideEachOtherAndInOrder) {
  WorkBuilder w;
  const auto a = w.task(Lane::compute, 10);
  const auto b = w.task(Lane::intra_comm, 30, {a});
  w.task(Lane::compute, 5);
  w.task(Lane::compute, 7, {b});
  const StepTiming timing = simulate({w.finish()});
  const Timeline& t = timing.ranks[0];
  EXPECT_EQ(t.start_ns, (std::vector<std::int64_t>{0, 10, 10, 40}));
  EXPECT_EQ(t.end_ns, (std::vector<std::int64_t>{10, 40, 15, 47}));
  EXPECT_EQ(timing.step_ns, 47);
  EXPECT_EQ(t.intra_wait_ns, 25);
  EXPECT_EQ(t.busy_ns[static_cast<std::size_t>(Lane::compute)], 22);
  EXPECT_EQ(t.busy_ns[static_cast<std::size_t>(Lane::intra_comm)], 30);
}

TEST(Simulator, IdleTimeIsDividedAlongTheChainThatEndsIt) {
  WorkBuilder sender, receiver;
  const auto pass = sender.task(Lane::compute, 100);
  sender.send(1, 7, 20, {pass});
  const auto first = receiver.task(Lane::compute, 40);
  const auto message = receiver.receive(0, 7);
  const auto gather = receiver.task(Lane::intra_comm, 30, {message});  // 120 .. 150
  const auto reduce = receiver.task(Lane::inter_comm, 15, {gather});   // 150 .. 165
  receiver.task(Lane::compute, 10, {reduce});                          // 165 .. 175
  const auto copy_out = receiver.task(Lane::d2h, 50, {first});         // 40 .. 90
  const auto copy_in = receiver.task(Lane::h2d, 100, {copy_out});      // 90 .. 190
  receiver.task(Lane::compute, 10, {copy_in});                         // 190 .. 200
  const Timeline t = simulate({sender.finish(), receiver.finish()}).ranks[1];
  EXPECT_EQ(t.receive_wait_ns, 80);  // 40 .. 120
  EXPECT_EQ(t.intra_wait_ns, 30);
  EXPECT_EQ(t.inter_wait_ns, 15);
  EXPECT_EQ(t.copy_wait_ns, 15);
  EXPECT_EQ(t.finish_ns, 200);
  EXPECT_EQ(t.start_ns[static_cast<std::size_t>(message)], 120);
  EXPECT_EQ(t.end_ns[static_cast<std::size_t>(message)], 120);
}

TEST(Simulator, ReceiveBlocksOnlyItsReadersAndLaterReceives) {
  WorkBuilder slow, fast;
  const auto long_pass = slow.task(Lane::compute, 1000);
  slow.send(1, 1, 0, {long_pass});
  const auto posted = fast.receive(0, 1);
  const auto free_compute = fast.task(Lane::compute, 10);
  const auto free_comm = fast.task(Lane::intra_comm, 10);
  const auto later_send = fast.send(0, 2, 5, {free_compute});
  const auto reader = fast.task(Lane::compute, 10, {posted});
  const Timeline t = simulate({slow.finish(), fast.finish()}).ranks[1];
  const auto start = [&](std::int32_t task) { return t.start_ns[static_cast<std::size_t>(task)]; };
  EXPECT_EQ(start(free_compute), 0);
  EXPECT_EQ(start(free_comm), 0);
  EXPECT_EQ(start(later_send), 10);
  EXPECT_EQ(start(reader), 1000);
}

TEST(Simulator, ReceiveDoesNotWaitForAnEarlierSendOfItsRank) {
  WorkBuilder a, b;
  a.send(1, 1, 500);
  const auto received = a.receive(1, 2);
  b.send(0, 2, 20);
  b.receive(0, 1);
  const StepTiming timing = simulate({a.finish(), b.finish()});
  EXPECT_EQ(timing.ranks[0].end_ns[static_cast<std::size_t>(received)], 20);
  EXPECT_EQ(timing.step_ns, 500);
}

TEST(Simulator, DeadlockNamesRankAndTask) {
  WorkBuilder a, b;
  a.task(Lane::compute, 1);
  a.receive(1, 5);
  a.send(1, 6, 1);
  b.receive(0, 6);
  b.send(0, 5, 1);
  EXPECT_EQ(fault_of({a.finish(), b.finish()}),
            "deadlock: rank 0 task 1 waits for the message with tag 5 that rank 1 sends in task 1, but rank 1 stands "
            "still at task 0");
}

TEST(Simulator, ReceiveWithoutASendIsReported) {
  WorkBuilder a, b;
  a.receive(1, 5);
  b.send(0, 4, 1);
  EXPECT_EQ(fault_of({a.finish(), b.finish()}), "rank 0 task 0: no send of rank 1 matches the receive with tag 5");
  WorkBuilder nobody;
  nobody.receive(9, 5);
  EXPECT_EQ(fault_of({nobody.finish()}), "rank 0 task 0: no send of rank 9 matches the receive with tag 5");
}

TEST(Simulator, RepeatedTagIsReported) {
  WorkBuilder a, b;
  a.send(1, 5, 1);
  a.send(1, 5, 1);
  b.receive(0, 5);
  EXPECT_EQ(fault_of({a.finish(), b.finish()}), "rank 0: two messages from rank 0 to rank 1 have tag 5");
}

TEST(Simulator, WaitForALaterTaskIsADeadlock) {
  WorkBuilder w;
  w.task(Lane::compute, 1, {1});
  w.task(Lane::intra_comm, 1);
  EXPECT_EQ(fault_of({w.finish()}), "deadlock: rank 0 task 0 waits for a task that does not come before it");
}

TEST(Simulator, NoRanksTakeNoTime) {
  EXPECT_EQ(simulate({}).step_ns, 0);
}

/// Random work in a global order that could run one task at a time, so it never deadlocks.
std::vector<RankWork> random_ranks(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::int32_t>(random() % n); };
  std::vector<WorkBuilder> ranks(1 + seed % 4);
  struct Sent {
    std::int32_t from, to;
    std::int64_t tag;
  };
  std::vector<Sent> in_flight;
  for (int i = 0; i < 120; ++i) {
    const auto r = static_cast<std::size_t>(below(ranks.size()));
    std::vector<std::int32_t> waits;
    for (std::int32_t k = below(3); k > 0 && ranks[r].size() > 0; --k) waits.push_back(below(ranks[r].size()));
    const std::int32_t duration = below(50);
    const std::int32_t peer = below(ranks.size());
    const std::int32_t what = below(8);
    if (what < 2 && peer != static_cast<std::int32_t>(r)) {
      ranks[r].send(peer, i, duration, waits);
      in_flight.push_back({static_cast<std::int32_t>(r), peer, i});
    } else if (what < 4 && !in_flight.empty()) {
      const auto m = static_cast<std::size_t>(below(in_flight.size()));
      ranks[static_cast<std::size_t>(in_flight[m].to)].receive(in_flight[m].from, in_flight[m].tag);
      in_flight.erase(in_flight.begin() + static_cast<std::ptrdiff_t>(m));
    } else {
      constexpr Lane kLanes[] = {Lane::compute,    Lane::compute, Lane::intra_comm,
                                 Lane::inter_comm, Lane::d2h,     Lane::h2d};
      ranks[r].task(kLanes[below(6)], duration, waits);
    }
  }
  std::vector<RankWork> result;
  for (const WorkBuilder& rank : ranks) result.push_back(rank.finish());
  return result;
}

/// Ends of all tasks by applying every rule again and again until nothing moves.
std::vector<std::vector<std::int64_t>> relax(const std::vector<RankWork>& ranks) {
  using Key = std::tuple<std::int32_t, std::int32_t, std::int64_t>;
  std::vector<std::vector<std::int64_t>> ends;
  for (const RankWork& rank : ranks) ends.emplace_back(rank.lanes.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    std::map<Key, std::int64_t> sent;
    std::vector<std::map<std::int32_t, const RankWork::Message*>> messages(ranks.size());
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      for (const RankWork::Message& m : ranks[r].messages) {
        messages[r][m.task] = &m;
        if (m.is_send)
          sent[{static_cast<std::int32_t>(r), m.peer_rank, m.tag}] = ends[r][static_cast<std::size_t>(m.task)];
      }
    }
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const auto is_receive = [&](std::size_t t) {
        const auto it = messages[r].find(static_cast<std::int32_t>(t));
        return it != messages[r].end() && !it->second->is_send;
      };
      for (std::size_t t = 0; t < ends[r].size(); ++t) {
        std::int64_t start = 0;
        for (std::size_t earlier = 0; earlier < t; ++earlier) {
          if (ranks[r].lanes[earlier] != ranks[r].lanes[t]) continue;
          if (is_receive(t) && !is_receive(earlier)) continue;
          start = std::max(start, ends[r][earlier]);
        }
        for (std::int32_t w = ranks[r].first_wait[t]; w < ranks[r].first_wait[t + 1]; ++w) {
          start = std::max(start, ends[r][static_cast<std::size_t>(ranks[r].waits[static_cast<std::size_t>(w)])]);
        }
        if (is_receive(t)) {
          const RankWork::Message* m = messages[r][static_cast<std::int32_t>(t)];
          start = std::max(start, sent[{m->peer_rank, static_cast<std::int32_t>(r), m->tag}]);
        }
        const std::int64_t end = start + ranks[r].duration_ns[t];
        moved = moved || end != ends[r][t];
        ends[r][t] = end;
      }
    }
  }
  return ends;
}

TEST(Simulator, EqualsRepeatedRelaxationOnRandomWork) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    const std::vector<RankWork> ranks = random_ranks(seed);
    const StepTiming timing = simulate(ranks);
    const auto expected = relax(ranks);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      ASSERT_EQ(timing.ranks[r].end_ns, expected[r]) << "seed " << seed << " rank " << r;
    }
  }
}

TEST(Simulator, BusyAndIdleTimeAddUpOnRandomWork) {
  std::int64_t idle_seen = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    const std::vector<RankWork> ranks = random_ranks(seed);
    const StepTiming timing = simulate(ranks);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const Timeline& t = timing.ranks[r];
      std::array<std::int64_t, kLaneCount> busy{};
      std::int64_t last_compute = 0, finish = 0;
      for (std::size_t i = 0; i < ranks[r].lanes.size(); ++i) {
        busy[static_cast<std::size_t>(ranks[r].lanes[i])] += ranks[r].duration_ns[i];
        if (ranks[r].lanes[i] == Lane::compute) last_compute = t.end_ns[i];
        finish = std::max(finish, t.end_ns[i]);
      }
      EXPECT_EQ(t.busy_ns, busy);
      EXPECT_EQ(t.finish_ns, finish);
      const std::int64_t idle = t.receive_wait_ns + t.intra_wait_ns + t.inter_wait_ns + t.copy_wait_ns;
      EXPECT_EQ(busy[0] + idle, last_compute) << "seed " << seed << " rank " << r;
      idle_seen += idle;
    }
  }
  EXPECT_GT(idle_seen, 0);
}

TEST(Simulator, TotalDoesNotDependOnWhichRankIsListedFirst) {
  // The ranks of a two-stage pipeline, once as 0 -> 1 and once as 1 -> 0.
  const auto build = [](std::int32_t first, std::int32_t second) {
    std::vector<RankWork> ranks(2);
    WorkBuilder a, b;
    for (int i = 0; i < 5; ++i) a.send(second, i, 3, {a.task(Lane::compute, 10 + i)});
    for (int i = 0; i < 5; ++i) b.task(Lane::compute, 12, {b.receive(first, i)});
    ranks[static_cast<std::size_t>(first)] = a.finish();
    ranks[static_cast<std::size_t>(second)] = b.finish();
    return simulate(ranks).step_ns;
  };
  EXPECT_EQ(build(0, 1), build(1, 0));
}

// ---- Reference schedules

struct StageTimes {
  std::int64_t forward_ns = 0;  ///< of one chunk
  std::int64_t backward_ns = 0;
  std::int64_t hop_ns = 0;
};

/// One rank's passes with the messages between virtual stages (stage = chunk * ranks + rank).
RankWork pipeline_rank(const graph_build::PipelineShape& shape, std::int32_t rank, const StageTimes& times) {
  const std::int32_t stages = shape.ranks * shape.chunks;
  const auto tag = [&](bool forward, std::int32_t stage, std::int32_t micro_batch) {
    return (std::int64_t{micro_batch} * stages + stage) * 2 + (forward ? 1 : 0);
  };
  const auto rank_of = [&](std::int32_t stage) { return stage % shape.ranks; };
  WorkBuilder w;
  auto passes = graph_build::pipeline_passes(shape, rank);
  EXPECT_TRUE(passes.ok());
  for (const graph_build::Pass& pass : passes.value()) {
    const std::int32_t stage = pass.chunk * shape.ranks + rank;
    const std::int32_t from = pass.forward ? stage - 1 : stage + 1;
    const std::int32_t to = pass.forward ? stage + 1 : stage - 1;
    std::vector<std::int32_t> waits;
    if (from >= 0 && from < stages)
      waits.push_back(w.receive(rank_of(from), tag(pass.forward, from, pass.micro_batch)));
    const std::int32_t work = w.task(Lane::compute, pass.forward ? times.forward_ns : times.backward_ns, waits);
    if (to >= 0 && to < stages) w.send(rank_of(to), tag(pass.forward, stage, pass.micro_batch), times.hop_ns, {work});
  }
  return w.finish();
}

StepTiming simulate_pipeline(const graph_build::PipelineShape& shape, const StageTimes& times) {
  std::vector<RankWork> ranks;
  for (std::int32_t rank = 0; rank < shape.ranks; ++rank) ranks.push_back(pipeline_rank(shape, rank, times));
  return simulate(ranks);
}

TEST(ReferenceSchedules, MakespanIsExact) {
  const auto path = testing::data_path("schedules/reference_schedules.json");
  if (!path) GTEST_SKIP() << "schedules/reference_schedules.json is not installed; set TIDEMARK_DATA";
  int rows = 0;
  for (const auto& reference : testing::parsed(testing::text_of(*path))) {
    const std::string name = reference["schedule"];
    if (name != "1F1B" && name != "interleaved-1F1B") continue;
    const graph_build::PipelineShape shape{
        .ranks = reference["p"], .chunks = reference["chunks"], .micro_batches = reference["m"]};
    const auto ns = [](double units) { return std::llround(units * 1e6); };
    const double backward = reference["B"].get<double>() + reference["W"].get<double>();
    const StageTimes times{.forward_ns = ns(reference["F"].get<double>() / shape.chunks),
                           .backward_ns = ns(backward / shape.chunks),
                           .hop_ns = ns(reference["comm"])};
    const StepTiming timing = simulate_pipeline(shape, times);
    EXPECT_EQ(timing.step_ns, ns(reference["makespan"])) << reference.dump();
    for (const Timeline& t : timing.ranks) {
      EXPECT_EQ(t.busy_ns[0], (times.forward_ns + times.backward_ns) * shape.chunks * shape.micro_batches);
    }
    ++rows;
  }
  EXPECT_GE(rows, 27);
}

TEST(ReferenceSchedules, WaitingForOtherRanksIsTheBubbleOfAUniformPipeline) {
  for (const graph_build::PipelineShape& shape :
       {graph_build::PipelineShape{.ranks = 16, .chunks = 1, .micro_batches = 64},
        graph_build::PipelineShape{.ranks = 16, .chunks = 2, .micro_batches = 64}}) {
    const StepTiming timing = simulate_pipeline(shape, {.forward_ns = 1'000'000, .backward_ns = 2'000'000});
    for (const Timeline& t : timing.ranks) {
      const std::int64_t waiting = t.receive_wait_ns + (timing.step_ns - t.finish_ns);
      EXPECT_NEAR(static_cast<double>(waiting) / static_cast<double>(timing.step_ns), graph_build::bubble_share(shape),
                  1e-9);
      EXPECT_EQ(t.intra_wait_ns + t.inter_wait_ns + t.copy_wait_ns, 0);
    }
  }
}

// ---- Columns

TEST(RankWorkOfGraph, HasItsWaitsAndMessages) {
  testing::GraphBuilder b(2);
  const SiteId site = b.site(b.block("block", {{.name = "in"}, {.name = "out"}}));
  b.run(b.timed_op("receive", 0, Lane::receive, OpPhase::receive), site, {}, {b.at(site, 0)});
  b.message(1, 77, false);
  b.run(b.timed_op("pass", 10), site, {b.at(site, 0)}, {b.at(site, 1)});
  b.run(b.timed_op("send", 3, Lane::send, OpPhase::send), site, {b.at(site, 1)}, {});
  b.message(3, 78, true);
  const RankWork work = work_of(std::move(b).finish(), {0, 10, 3});
  EXPECT_EQ(work.lanes, (std::vector<Lane>{Lane::receive, Lane::compute, Lane::send}));
  EXPECT_EQ(work.first_wait, (std::vector<std::int32_t>{0, 0, 1, 2}));
  EXPECT_EQ(work.waits, (std::vector<std::int32_t>{0, 1}));
  ASSERT_EQ(work.messages.size(), 2U);
  EXPECT_EQ(work.messages[0].task, 0);
  EXPECT_EQ(work.messages[0].peer_rank, 1);
  EXPECT_FALSE(work.messages[0].is_send);
  EXPECT_EQ(work.messages[1].task, 2);
  EXPECT_EQ(work.messages[1].tag, 78);
}

TEST(RankWorkOfSchedule, MessagesFollowTheirOpsToTheirTasks) {
  testing::GraphBuilder b;
  const SiteId site = b.site(b.block("block", {{.name = "in"}, {.name = "out"}}));
  b.run(b.timed_op("pass", 10), site, {}, {b.at(site, 1)});
  b.run(b.timed_op("send", 3, Lane::send, OpPhase::send), site, {b.at(site, 1)}, {});
  b.message(1, 5, true);
  const Graph graph = std::move(b).finish();
  Schedule schedule;
  schedule.tasks = {{.kind = TaskKind::op, .lane = Lane::compute, .op = id_of<OpId>(0)},
                    {.kind = TaskKind::recompute, .lane = Lane::compute, .op = id_of<OpId>(1)},
                    {.kind = TaskKind::swap_out, .lane = Lane::d2h, .op = id_of<OpId>(1), .first_wait = 0},
                    {.kind = TaskKind::op, .lane = Lane::send, .op = id_of<OpId>(1), .first_wait = 1}};
  schedule.waits = {id_of<TaskId>(0), id_of<TaskId>(0)};
  const RankWork work = work_of(graph, schedule, {10, 10, 4, 3});
  ASSERT_EQ(work.messages.size(), 1U);
  EXPECT_EQ(work.messages[0].task, 3);
  EXPECT_EQ(work.first_wait, (std::vector<std::int32_t>{0, 0, 0, 1, 2}));
  EXPECT_EQ(work.waits, (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(work.lanes[2], Lane::d2h);
}

TEST(RankWorkOfGraph, CollectiveOverlapsWithIndependentCompute) {
  // up, then value (gathered) beside key, then out: the step shrinks by min(value, key) per layer and pass.
  const testing::ChainShape shape{.layers = 3, .micro_batches = 2, .communication = true};
  const Graph graph = testing::chain_graph(shape);
  const StepTiming timing = simulate({work_of(graph, std::vector<std::int64_t>(graph.ops.size(), 1000))});
  const auto ops = static_cast<std::int64_t>(graph.ops.size());
  EXPECT_EQ(timing.step_ns, (ops - shape.layers * shape.micro_batches) * 1000);
  EXPECT_EQ(timing.ranks[0].intra_wait_ns, 0);
}

}  // namespace
}  // namespace tidemark::simulate
