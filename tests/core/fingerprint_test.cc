#include "core/fingerprint.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/tiny_graph.h"

namespace tidemark {
namespace {

TEST(Fingerprint, EqualGraphsAgree) {
  EXPECT_EQ(fingerprint(testing::chain_graph()), fingerprint(testing::chain_graph()));
}

TEST(Fingerprint, EveryChangeOfAGraphShows) {
  const Graph base = testing::chain_graph();
  std::set<std::uint64_t> seen{fingerprint(base)};
  const auto expect_new = [&](auto change) {
    Graph graph = base;
    change(graph);
    EXPECT_TRUE(seen.insert(fingerprint(graph)).second);
  };
  expect_new([](Graph& g) { g.rank = 1; });
  expect_new([](Graph& g) { g.storage_templates[0].name += "x"; });
  expect_new([](Graph& g) { g.storage_templates[0].fixed_bytes += 1; });
  expect_new([](Graph& g) { g.op_templates[1].cost.given += 0.5; });
  expect_new([](Graph& g) { g.op_templates[1].routed = true; });
  expect_new([](Graph& g) { g.recipes[0].pure = false; });
  expect_new([](Graph& g) { g.recipes[0].steps[0].reads.clear(); });
  expect_new([](Graph& g) { g.sites[0].load = 1.5F; });
  expect_new([](Graph& g) { g.storages[4].bytes += 1; });
  expect_new([](Graph& g) { std::swap(g.accesses[0], g.accesses[1]); });
  expect_new([](Graph& g) { g.ops.pop_back(); });
  expect_new([](Graph& g) { g.messages.push_back({.peer_rank = 1}); });
}

TEST(Fingerprint, EveryChangeOfAScheduleShows) {
  const Schedule base{.rank = 3,
                      .tasks = {Task{.op = OpId{0}}, Task{.op = OpId{1}, .first_wait = 1, .first_touch = 1}},
                      .waits = {TaskId{0}},
                      .touches = {{.residency = ResidencyId{0}}},
                      .residencies = {{.storage = StorageId{0}, .bytes = 512, .release = 4}},
                      .compute_tasks = 2};
  std::set<std::uint64_t> seen{fingerprint(base)};
  EXPECT_EQ(fingerprint(Schedule(base)), fingerprint(base));
  const auto expect_new = [&](auto change) {
    Schedule schedule = base;
    change(schedule);
    EXPECT_TRUE(seen.insert(fingerprint(schedule)).second);
  };
  expect_new([](Schedule& s) { s.rank = 4; });
  expect_new([](Schedule& s) { std::swap(s.tasks[0].op, s.tasks[1].op); });
  expect_new([](Schedule& s) { s.tasks[1].kind = TaskKind::recompute; });
  expect_new([](Schedule& s) { s.tasks[1].first_wait = 0; });
  expect_new([](Schedule& s) { s.waits[0] = TaskId{1}; });
  expect_new([](Schedule& s) { s.touches[0].kind = AccessKind::write; });
  expect_new([](Schedule& s) { s.residencies[0].bytes = 1024; });
  expect_new([](Schedule& s) { s.residencies[0].space = MemorySpace::host; });
  expect_new([](Schedule& s) { s.residencies[0].full_behind = true; });
}

TEST(Fingerprint, MachineIsItsValuesNotItsName) {
  Machine machine{.name = "a", .visible_bytes = 60 * kGiB, .d2h = {.bytes_per_s = 23e9}};
  const std::uint64_t base = fingerprint(machine);
  machine.name = "b";
  EXPECT_EQ(fingerprint(machine), base);
  machine.h2d = machine.d2h;
  EXPECT_NE(fingerprint(machine), base);
}

}  // namespace
}  // namespace tidemark
