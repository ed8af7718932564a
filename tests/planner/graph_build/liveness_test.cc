#include "planner/graph_build/liveness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "tests/support/tiny_graph.h"

namespace tidemark::graph_build {
namespace {

using testing::chain_graph;
using testing::ChainShape;
using testing::GraphBuilder;
using testing::random_graph;

bool is_static(const Graph& graph, StorageId storage) {
  return graph.template_of(storage).role < StorageRole::activation;
}

bool touches(const Graph& graph, OpId op, StorageId storage) {
  const auto accesses = graph.accesses_of(op);
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& a) { return a.storage == storage; });
}

/// Every op that touches a storage, by asking every op.
std::vector<OpId> naive_touches(const Graph& graph, StorageId storage) {
  std::vector<OpId> result;
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    if (touches(graph, id_of<OpId>(op), storage)) result.push_back(id_of<OpId>(op));
  }
  return result;
}

bool naive_live(const Graph& graph, StorageId storage, std::size_t op) {
  if (is_static(graph, storage)) return true;
  const std::vector<OpId> list = naive_touches(graph, storage);
  return !list.empty() && row(list.front()) <= op && op <= row(list.back());
}

bool naive_movable(const Graph& graph, StorageId storage) {
  if (is_static(graph, storage)) return false;
  if (graph.template_of(storage).swappable) return true;
  for (const Recipe& recipe : graph.recipes_of(graph.site_of(storage).block)) {
    for (std::int32_t output : recipe.outputs) {
      if (recipe.pure && output == graph.local_of(storage)) return true;
    }
  }
  return false;
}

Graph property_graph(std::uint32_t seed) {
  return random_graph({.seed = seed,
                       .ops = 10 + static_cast<std::int32_t>(seed % 50),
                       .lanes = 1 + static_cast<std::int32_t>(seed % 4)});
}

TEST(Liveness, RangesOfOneLayerByHand) {
  const Graph graph = chain_graph({.layers = 1});
  const Liveness liveness = analyse_liveness(graph);
  // Ops: embed 0, up 1, value 2, key 3, out 4, loss 5, d_out 6, d_in 7, optimizer 8.
  const std::vector<LiveRange> expected = {{0, 9}, {0, 9}, {0, 9},                          // statics
                                           {0, 8}, {3, 7}, {2, 7}, {1, 4}, {6, 8}, {7, 8},  // layer
                                           {4, 6}, {5, 7}};                                 // head
  EXPECT_EQ(liveness.ranges, expected);
  const StorageId key = graph.storage_at(id_of<SiteId>(1), testing::kChainKey);
  const std::vector<OpId> touched(liveness.touches_of(key).begin(), liveness.touches_of(key).end());
  EXPECT_EQ(touched, (std::vector<OpId>{id_of<OpId>(3), id_of<OpId>(4), id_of<OpId>(6)}));
}

TEST(Liveness, PeakOfAChainIsItsClosedForm) {
  for (std::int32_t layers = 1; layers <= 5; ++layers) {
    for (std::int32_t warm_up = 0; warm_up <= 3; ++warm_up) {
      const ChainShape shape{.layers = layers, .micro_batches = 5, .warm_up = warm_up};
      const Liveness liveness = analyse_liveness(chain_graph(shape));
      const Bytes saved = layers * (shape.in_bytes + shape.key_bytes + shape.value_bytes) + shape.in_bytes;
      const Bytes loss_gradient = shape.in_bytes;
      EXPECT_EQ(liveness.peak_bytes, 7 * shape.parameter_bytes + (warm_up + 1) * saved + loss_gradient)
          << layers << " layers, " << warm_up << " ahead";
      // The first loss comes after warm_up + 1 forward passes of one embed and four ops a layer.
      EXPECT_EQ(row(liveness.peak_op), static_cast<std::size_t>((warm_up + 1) * (1 + 4 * layers)));
    }
  }
}

TEST(Liveness, LiveBytesEqualTheSumOverAllStoragesAtEachOp) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    const Graph graph = property_graph(seed);
    const Liveness liveness = analyse_liveness(graph);
    ASSERT_EQ(liveness.live_bytes.size(), graph.ops.size());
    Bytes peak = 0;
    std::size_t peak_op = 0;
    for (std::size_t op = 0; op < graph.ops.size(); ++op) {
      Bytes expected = 0;
      for (std::size_t s = 0; s < graph.storages.size(); ++s) {
        if (naive_live(graph, id_of<StorageId>(s), op)) expected += graph.storages[s].bytes;
      }
      ASSERT_EQ(liveness.live_bytes[op], expected) << "seed " << seed << " op " << op;
      if (expected > peak) {
        peak = expected;
        peak_op = op;
      }
    }
    EXPECT_EQ(liveness.peak_bytes, peak);
    EXPECT_EQ(row(liveness.peak_op), peak_op);
  }
}

TEST(Liveness, TouchesAreDistinctOpsInOrder) {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    const Graph graph = property_graph(seed);
    const Liveness liveness = analyse_liveness(graph);
    for (std::size_t s = 0; s < graph.storages.size(); ++s) {
      const auto found = liveness.touches_of(id_of<StorageId>(s));
      EXPECT_EQ(std::vector<OpId>(found.begin(), found.end()), naive_touches(graph, id_of<StorageId>(s)));
    }
  }
}

TEST(Liveness, WorkingSetIsWhatNoPlanCanMove) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    const Graph graph = property_graph(seed);
    Bytes expected = 0;
    for (std::size_t op = 0; op < graph.ops.size(); ++op) {
      Bytes needed = 0;
      for (std::size_t s = 0; s < graph.storages.size(); ++s) {
        const auto id = id_of<StorageId>(s);
        const bool stays = naive_live(graph, id, op) && !naive_movable(graph, id);
        if (stays || touches(graph, id_of<OpId>(op), id)) needed += graph.storages[s].bytes;
      }
      expected = std::max(expected, needed);
    }
    const Liveness liveness = analyse_liveness(graph);
    EXPECT_EQ(liveness.working_set_bytes, expected) << "seed " << seed;
    EXPECT_LE(liveness.working_set_bytes, liveness.peak_bytes);
  }
}

TEST(Liveness, EmptyGraph) {
  const Liveness liveness = analyse_liveness(Graph{});
  EXPECT_TRUE(liveness.live_bytes.empty());
  EXPECT_EQ(liveness.peak_op, kNone<OpId>);
  EXPECT_EQ(liveness.first_touch, std::vector<std::int32_t>{0});
  EXPECT_EQ(analyse_waits(Graph{}).first, std::vector<std::int32_t>{0});
}

TEST(Gaps, EqualTheNaiveListOnRandomGraphs) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    const Graph graph = property_graph(seed);
    const std::int32_t min_ops = static_cast<std::int32_t>(seed % 7);
    std::vector<std::tuple<StorageId, std::int32_t, OpId, OpId>> expected, found;
    for (std::size_t s = 0; s < graph.storages.size(); ++s) {
      const auto id = id_of<StorageId>(s);
      const std::vector<OpId> list = naive_touches(graph, id);
      for (std::size_t i = 0; naive_movable(graph, id) && i + 1 < list.size(); ++i) {
        const auto idle = static_cast<std::int32_t>(row(list[i + 1]) - row(list[i])) - 1;
        if (idle >= 1 && idle >= min_ops) {
          expected.emplace_back(id, static_cast<std::int32_t>(i), list[i], list[i + 1]);
        }
      }
    }
    for (const Gap& gap : find_gaps(graph, analyse_liveness(graph), min_ops)) {
      found.emplace_back(gap.storage, gap.ordinal, gap.before, gap.after);
    }
    EXPECT_EQ(found, expected) << "seed " << seed;
  }
}

TEST(Gaps, WithoutSwapOnlyOutputsOfPureRecipesRemain) {
  Graph graph = chain_graph({.layers = 2, .swappable = false});
  const auto names = [&] {
    std::set<std::string> result;
    for (const Gap& gap : find_gaps(graph, analyse_liveness(graph), 1))
      result.insert(graph.template_of(gap.storage).name);
    return result;
  };
  EXPECT_EQ(names(), (std::set<std::string>{"key", "value"}));
  graph.recipes[0].pure = false;
  EXPECT_TRUE(names().empty());
}

TEST(Gaps, OrdinalNamesTheSameGapInEveryMicroBatch) {
  // With one forward, one backward, the last micro-batches have shorter gaps than the first.
  const Graph graph = chain_graph({.layers = 3, .micro_batches = 6, .warm_up = 3});
  std::map<std::tuple<StorageTemplateId, std::int32_t, std::int32_t>, std::set<OpTemplateId>> op_before;
  for (const Gap& gap : find_gaps(graph, analyse_liveness(graph), 2)) {
    const auto key = std::make_tuple(graph.storages[row(gap.storage)].storage_template,
                                     graph.site_of(gap.storage).layer, gap.ordinal);
    op_before[key].insert(graph.ops[row(gap.before)].op_template);
  }
  ASSERT_FALSE(op_before.empty());
  for (const auto& [key, ops] : op_before) EXPECT_EQ(ops.size(), 1U);
}

/// reaches[a][b]: op a runs before op b by FIFO and the waits for which `keep` holds.
using Reach = std::vector<std::vector<bool>>;

template <class Keep>
Reach close(const Graph& graph, const OpWaits& waits, Keep keep) {
  const std::size_t n = graph.ops.size();
  Reach reaches(n, std::vector<bool>(n, false));
  for (std::size_t b = 0; b < n; ++b) {
    const auto inherit = [&](std::size_t a) {
      reaches[a][b] = true;
      for (std::size_t earlier = 0; earlier < a; ++earlier) {
        if (reaches[earlier][a]) reaches[earlier][b] = true;
      }
    };
    for (std::size_t a = b; a-- > 0;) {
      if (graph.template_of(id_of<OpId>(a)).lane != graph.template_of(id_of<OpId>(b)).lane) continue;
      inherit(a);
      break;
    }
    for (auto w = static_cast<std::size_t>(waits.first[b]); w < static_cast<std::size_t>(waits.first[b + 1]); ++w) {
      if (keep(w)) inherit(row(waits.predecessors[w]));
    }
  }
  return reaches;
}

bool conflicts(const Graph& graph, std::size_t a, std::size_t b) {
  for (const Access& x : graph.accesses_of(id_of<OpId>(a))) {
    for (const Access& y : graph.accesses_of(id_of<OpId>(b))) {
      if (x.storage == y.storage && (x.kind == AccessKind::write || y.kind == AccessKind::write)) return true;
    }
  }
  return false;
}

TEST(Waits, ImplyEveryDataDependency) {
  for (std::uint32_t seed = 1; seed <= 80; ++seed) {
    const Graph graph = property_graph(seed);
    const Reach reaches = close(graph, analyse_waits(graph), [](std::size_t) { return true; });
    for (std::size_t b = 0; b < graph.ops.size(); ++b) {
      for (std::size_t a = 0; a < b; ++a) {
        if (conflicts(graph, a, b)) {
          ASSERT_TRUE(reaches[a][b]) << "seed " << seed << ": op " << b << " must wait for op " << a;
        }
      }
    }
  }
}

TEST(Waits, NoneCanBeLeftOut) {
  std::size_t seen = 0;
  for (std::uint32_t seed = 1; seed <= 25; ++seed) {
    const Graph graph = property_graph(seed);
    const OpWaits waits = analyse_waits(graph);
    for (std::size_t op = 0; op < graph.ops.size(); ++op) {
      for (auto w = static_cast<std::size_t>(waits.first[op]); w < static_cast<std::size_t>(waits.first[op + 1]); ++w) {
        const Reach reaches = close(graph, waits, [&](std::size_t other) { return other != w; });
        EXPECT_FALSE(reaches[row(waits.predecessors[w])][op]) << "seed " << seed << " op " << op;
        ++seen;
      }
    }
  }
  EXPECT_GT(seen, 100U);
}

TEST(Waits, OneLaneNeedsNone) {
  EXPECT_TRUE(analyse_waits(chain_graph()).predecessors.empty());
}

TEST(Waits, CollectiveOfAChainWaitsForItsInputAndIsWaitedForByItsReader) {
  const Graph graph = chain_graph({.layers = 1, .communication = true});
  const OpWaits waits = analyse_waits(graph);
  // value (2) on the intra lane reads tmp of up (1); out (4) reads value.
  EXPECT_EQ(waits.predecessors, (std::vector<OpId>{id_of<OpId>(1), id_of<OpId>(2)}));
  EXPECT_EQ(waits.first[2], 0);
  EXPECT_EQ(waits.first[3], 1);
  EXPECT_EQ(waits.first[4], 1);
  EXPECT_EQ(waits.first[5], 2);
}

}  // namespace
}  // namespace tidemark::graph_build
