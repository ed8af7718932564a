#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <random>
#include <vector>

#include "planner/graph_build/liveness.h"
#include "planner/planner.h"
#include "tests/support/tiny_graph.h"

namespace tidemark::plan {
namespace {

using testing::chain_graph;
using testing::ChainShape;

/// Residencies at random places of a clock of `steps` compute tasks, over the storages of a random graph.
Schedule random_residencies(const Graph& graph, std::uint32_t seed, std::int32_t steps) {
  std::mt19937 random(seed);
  Schedule schedule{.compute_tasks = steps};
  const auto clock = static_cast<std::uint32_t>(2 * steps + 1);
  for (int i = 0; i < 80; ++i) {
    const auto storage = id_of<StorageId>(random() % graph.storages.size());
    const auto a = static_cast<std::int32_t>(random() % clock), b = static_cast<std::int32_t>(random() % clock);
    schedule.residencies.push_back({.storage = storage,
                                    .space = random() % 4 == 0 ? MemorySpace::host : MemorySpace::device,
                                    .bytes = graph.storages[row(storage)].bytes,
                                    .acquire = std::min(a, b),
                                    .release = std::max(a, b)});
  }
  return schedule;
}

std::array<Bytes, kStorageRoleCount> naive_bytes(const Graph& graph, const Schedule& schedule, std::int32_t clock) {
  std::array<Bytes, kStorageRoleCount> sum{};
  for (const Residency& r : schedule.residencies) {
    if (r.space == MemorySpace::host || clock < r.acquire || clock >= r.release) continue;
    sum[static_cast<std::size_t>(graph.template_of(r.storage).role)] += r.bytes;
  }
  return sum;
}

TEST(MemoryProfile, EqualsTheSumOverResidenciesAtEveryHalfStep) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const Graph graph = testing::random_graph({.seed = seed});
    const Schedule schedule = random_residencies(graph, seed, 30);
    const MemoryProfile profile = memory_profile(graph, schedule);
    ASSERT_EQ(profile.clock.size(), profile.bytes.size());
    std::array<Bytes, kStorageRoleCount> held{};
    std::size_t next = 0;
    for (std::int32_t clock = 0; clock <= 60; ++clock) {
      if (next < profile.clock.size() && profile.clock[next] == clock) held = profile.bytes[next++];
      ASSERT_EQ(held, naive_bytes(graph, schedule, clock)) << "seed " << seed << " clock " << clock;
    }
    EXPECT_EQ(next, profile.clock.size());
  }
}

/// What holds content before or behind the step is held to that end of the clock, the last position included, whenever
/// it is touched.
TEST(MemoryProfile, WhatLastsIsHeldToTheEnd) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const Graph graph = testing::random_graph({.seed = seed});
    Schedule schedule = random_residencies(graph, seed, 30);
    std::mt19937 random(seed);
    for (Residency& r : schedule.residencies) {
      r.full_before = random() % 3 == 0;
      r.full_behind = random() % 3 == 0;
    }
    const MemoryProfile profile = memory_profile(graph, schedule);
    std::array<Bytes, kStorageRoleCount> held{};
    std::size_t next = 0;
    for (std::int32_t clock = 0; clock <= 60; ++clock) {
      if (next < profile.clock.size() && profile.clock[next] == clock) held = profile.bytes[next++];
      std::array<Bytes, kStorageRoleCount> expected{};
      Bytes all = 0;
      for (const Residency& r : schedule.residencies) {
        const bool begun = r.full_before || clock >= r.acquire, over = !r.full_behind && clock >= r.release;
        if (r.space == MemorySpace::host || !begun || over) continue;
        expected[static_cast<std::size_t>(graph.template_of(r.storage).role)] += r.bytes;
        all += r.bytes;
      }
      ASSERT_EQ(held, expected) << "seed " << seed << " clock " << clock;
      Bytes sum = 0;
      for (const Contributor& c : contributors_at(graph, schedule, clock)) sum += c.bytes;
      ASSERT_EQ(sum, all) << "contributors, seed " << seed << " clock " << clock;
    }
    EXPECT_EQ(next, profile.clock.size());
  }
}

TEST(MemoryProfile, OfNoResidenciesIsEmpty) {
  EXPECT_TRUE(memory_profile(Graph{}, Schedule{.compute_tasks = 3}).clock.empty());
}

TEST(Contributors, AddUpToTheBytesHeldAtEachHalfStep) {
  const Graph graph = testing::random_graph({.seed = 3});
  const Schedule schedule = random_residencies(graph, 3, 30);
  for (std::int32_t clock = 0; clock <= 60; ++clock) {
    Bytes expected = 0;
    for (const Bytes bytes : naive_bytes(graph, schedule, clock)) expected += bytes;
    Bytes sum = 0;
    for (const Contributor& c : contributors_at(graph, schedule, clock)) sum += c.bytes;
    EXPECT_EQ(sum, expected);
  }
}

TEST(Contributors, OfAChainAtItsPeakGroupMicroBatchesOfALayer) {
  const ChainShape shape{.layers = 2, .micro_batches = 4, .warm_up = 2};
  const Graph graph = chain_graph(shape);
  const Liveness liveness = graph_build::analyse_liveness(graph);
  const std::vector<Contributor> list = contributors_at(graph, liveness, liveness.peak_op);
  Bytes sum = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    sum += list[i].bytes;
    EXPECT_GE(list[i == 0 ? 0 : i - 1].bytes, list[i].bytes);
  }
  EXPECT_EQ(sum, liveness.peak_bytes);
  EXPECT_EQ(list[0].name, "model.moments");
  EXPECT_EQ(list[0].role, StorageRole::optimizer_state);
  EXPECT_EQ(list[0].layer, -1);
  int keys = 0;
  for (const Contributor& c : list) {
    if (c.name != "attention.key") continue;
    EXPECT_EQ(c.layer, keys++);
    EXPECT_EQ(c.count, 3);  // two forward passes ahead and the one at the peak
    EXPECT_EQ(c.bytes, 3 * shape.key_bytes);
  }
  EXPECT_EQ(keys, shape.layers);
}

TEST(Contributors, NameWithoutAModulePathHasNoDot) {
  testing::GraphBuilder b;
  const SiteId site = b.site(b.block("block", {{.name = "alone", .fixed_bytes = 8}}));
  b.run(b.timed_op("write", 1), site, {}, {b.at(site, 0)});
  const Graph graph = std::move(b).finish();
  const std::vector<Contributor> list = contributors_at(graph, graph_build::analyse_liveness(graph), id_of<OpId>(0));
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].name, "alone");
}

}  // namespace
}  // namespace tidemark::plan
