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
