// What the builder of captured graphs works out from the ops alone.

#include "planner/graph_build/captured_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "planner/graph_build/liveness.h"

namespace tidemark::graph_build {
namespace {

using OpRow = CapturedGraphBuilder::OpRow;
using StorageRow = CapturedGraphBuilder::StorageRow;
using Recompute = CapturedGraphBuilder::Recompute;
using Touch = std::pair<std::int32_t, std::int32_t>;  ///< storage, version

CapturedGraphBuilder with_storages(std::int32_t count) {
  CapturedGraphBuilder builder;
  for (std::int32_t s = 0; s < count; ++s) builder.add(StorageRow{.name = "s" + std::to_string(s), .bytes = 1 + s});
  return builder;
}

std::vector<Touch> touches_of(const Graph& graph, std::int32_t op, AccessKind kind) {
  std::vector<Touch> touches;
  for (const Access& access : graph.accesses_of(static_cast<OpId>(op)))
    if (access.kind == kind) touches.emplace_back(static_cast<std::int32_t>(access.storage), access.version);
  return touches;
}

std::vector<std::string> recipe_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Recipe& recipe : graph.recipes) names.push_back(recipe.name);
  return names;
}

TEST(CapturedGraph, EveryWriteMakesAVersion) {
  CapturedGraphBuilder builder = with_storages(2);
  builder.add(OpRow{.name = "make", .writes = {0}});
  builder.add(OpRow{.name = "change", .reads = {0}, .writes = {0}});
  builder.add(OpRow{.name = "read", .reads = {0, 1}});
  builder.add(OpRow{.name = "overwrite", .writes = {0, 1}});
  const Graph graph = std::move(builder).build();
  EXPECT_EQ(touches_of(graph, 0, AccessKind::write), (std::vector<Touch>{{0, 1}}));
  EXPECT_EQ(touches_of(graph, 1, AccessKind::read), (std::vector<Touch>{{0, 1}}));
  EXPECT_EQ(touches_of(graph, 1, AccessKind::write), (std::vector<Touch>{{0, 2}}));
  EXPECT_EQ(touches_of(graph, 2, AccessKind::read), (std::vector<Touch>{{0, 2}, {1, 0}}));
  EXPECT_EQ(touches_of(graph, 3, AccessKind::write), (std::vector<Touch>{{0, 3}, {1, 1}}));
}

TEST(CapturedGraph, ContentBeforeTheStepIsWhatIsReadFirst) {
  CapturedGraphBuilder builder = with_storages(3);
  builder.add(OpRow{.reads = {0}, .writes = {0, 1}});  // 0 is read and written by its first op
  builder.add(OpRow{.writes = {2}});
  builder.add(OpRow{.reads = {2}});
  const Graph graph = std::move(builder).build();
  EXPECT_TRUE(graph.storage_templates[0].initial);
  EXPECT_FALSE(graph.storage_templates[1].initial);
  EXPECT_FALSE(graph.storage_templates[2].initial);
}

TEST(CapturedGraph, UntouchedStoragesCountWhereSomethingHoldsThem) {
  CapturedGraphBuilder builder;
  builder.add(StorageRow{.name = "used", .bytes = 1});
  builder.add(StorageRow{.name = "lasting", .bytes = 2, .lasting = true});
  builder.add(StorageRow{.name = "held", .bytes = 4, .held_until = 1});
  builder.add(StorageRow{.name = "neither", .bytes = 8});
  builder.add(StorageRow{.name = "made and held", .bytes = 16, .held_until = 1});
  builder.add(StorageRow{.name = "made and lasting", .bytes = 32, .lasting = true});
  for (const std::vector<std::int32_t>& writes : {std::vector<std::int32_t>{0, 4}, {5}, {}})
    builder.add(OpRow{.writes = writes});
  const Graph graph = std::move(builder).build();
  std::vector<bool> initial, lasting;
  for (const StorageTemplate& row : graph.storage_templates) {
    initial.push_back(row.initial);
    lasting.push_back(row.lasting);
  }
  EXPECT_EQ(initial, (std::vector<bool>{false, true, true, false, false, false}));
  EXPECT_EQ(lasting, (std::vector<bool>{false, true, false, false, false, true}));
  EXPECT_EQ(graph.storages[2].held_until, static_cast<OpId>(1));
  EXPECT_EQ(graph.storages[1].held_until, kNone<OpId>);
  EXPECT_EQ(analyse_liveness(graph).live_bytes, (std::vector<Bytes>{1 + 2 + 4 + 16, 2 + 4 + 16 + 32, 2 + 32}));
}

TEST(CapturedGraph, RecipesAreOfOpsThatWriteResultsAlone) {
  CapturedGraphBuilder builder = with_storages(6);
  builder.add(OpRow{.name = "pure", .reads = {0}, .writes = {1, 2}});
  builder.add(OpRow{.name = "in place", .reads = {3}, .writes = {3}});  // content from before the step
  builder.add(OpRow{.name = "result and in place", .writes = {0, 4}});  // 0 was read before
  builder.add(OpRow{.name = "one of two writers", .writes = {5}});
  builder.add(OpRow{.name = "the other", .writes = {5}});
  builder.add(OpRow{.name = "nothing", .reads = {1, 2, 4}});
  const Graph graph = std::move(builder).build();
  ASSERT_EQ(recipe_names(graph), std::vector<std::string>{"pure"});
  const Recipe& recipe = graph.recipes.front();
  EXPECT_EQ(recipe.outputs, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(recipe.sources, std::vector<std::int32_t>{0});
  EXPECT_TRUE(recipe.transients.empty());
  ASSERT_EQ(recipe.steps.size(), 1U);
  EXPECT_EQ(recipe.steps.front().op, graph.ops.front().op_template);
  EXPECT_EQ(recipe.steps.front().reads, recipe.sources);
  EXPECT_EQ(recipe.steps.front().writes, recipe.outputs);
  EXPECT_TRUE(recipe.pure);
  EXPECT_EQ(graph.blocks.front().recipe_count, 1);
}

TEST(CapturedGraph, RecipesAreOfOpsThatMayRunAgain) {
  CapturedGraphBuilder builder = with_storages(5);
  std::int32_t s = 0;
  for (const auto& [name, kind] : {std::pair{"pure", Recompute::pure},
                                   {"random", Recompute::random},
                                   {"routing", Recompute::routing},
                                   {"collective", Recompute::collective},
                                   {"never", Recompute::never}})
    builder.add(OpRow{.name = name, .recompute = kind, .writes = {s++}});
  const Graph graph = std::move(builder).build();
  ASSERT_EQ(recipe_names(graph), (std::vector<std::string>{"pure", "random", "collective"}));
  const auto flags = [&](std::size_t r) {
    return std::pair(graph.recipes[r].needs_random_state, graph.recipes[r].collective);
  };
  EXPECT_EQ(flags(0), std::pair(false, false));
  EXPECT_EQ(flags(1), std::pair(true, false));
  EXPECT_EQ(flags(2), std::pair(false, true));
  EXPECT_TRUE(graph.op_templates[3].collective);
}

TEST(CapturedGraph, TransientsAreBehindTheStorages) {
  CapturedGraphBuilder builder = with_storages(2);
  builder.add(OpRow{.name = "a", .module = "m", .transient_bytes = 100, .writes = {0}});
  builder.add(OpRow{.name = "b", .reads = {0}, .writes = {1}});
  builder.add(OpRow{.name = "c", .transient_bytes = 200, .recompute = Recompute::never, .reads = {1}});
  const Graph graph = std::move(builder).build();
  ASSERT_EQ(graph.storages.size(), 4U);
  EXPECT_EQ(graph.storages[2].bytes, 100);
  EXPECT_EQ(graph.storages[3].bytes, 200);
  EXPECT_EQ(graph.storage_templates[2].name, "a.workspace");
  EXPECT_EQ(graph.storage_templates[2].module_path, "m");
  for (const std::size_t t : {std::size_t{2}, std::size_t{3}}) {
    EXPECT_EQ(graph.storage_templates[t].role, StorageRole::temporary);
    EXPECT_FALSE(graph.storage_templates[t].swappable);
    EXPECT_FALSE(graph.storage_templates[t].initial);
  }
  EXPECT_EQ(touches_of(graph, 0, AccessKind::write), (std::vector<Touch>{{0, 1}, {2, 1}}));
  EXPECT_EQ(touches_of(graph, 2, AccessKind::write), (std::vector<Touch>{{3, 1}}));
  ASSERT_EQ(recipe_names(graph), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(graph.recipes[0].outputs, std::vector<std::int32_t>{0});
  EXPECT_EQ(graph.recipes[0].transients, std::vector<std::int32_t>{2});
  EXPECT_EQ(graph.recipes[0].steps.front().writes, (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(graph.blocks.front().storage_count, 4);
}

TEST(CapturedGraph, CostsAndCopiesAreAsGiven) {
  CapturedGraphBuilder builder({.unit = GivenCosts::Unit::joule, .quantum = 0.25});
  const GivenCopies copies{.out = {.link = 1, .compute = 2}, .in = {.link = 3, .compute = 4}};
  EXPECT_EQ(builder.add(StorageRow{.name = "s", .module = "net", .bytes = 7, .swappable = true, .copies = copies}), 0);
  EXPECT_EQ(builder.add(StorageRow{.bytes = 9}), 1);
  EXPECT_EQ(builder.add(OpRow{.name = "o", .cost = 40, .phase = OpPhase::backward, .reads = {0}, .writes = {1}}), 0);
  EXPECT_EQ(builder.storage_count(), 2U);
  EXPECT_EQ(builder.op_count(), 1U);
  const Graph graph = std::move(builder).build();
  EXPECT_EQ(graph.given_costs, (GivenCosts{.unit = GivenCosts::Unit::joule, .quantum = 0.25}));
  EXPECT_EQ(graph.storage_templates[0].given_copies, copies);
  EXPECT_FALSE(graph.storage_templates[1].given_copies.has_value());
  EXPECT_TRUE(graph.storage_templates[0].swappable);
  EXPECT_FALSE(graph.storage_templates[1].swappable);
  EXPECT_EQ(graph.storages[0].bytes, 7);
  EXPECT_EQ(graph.op_templates[0].cost.kind, WorkKind::given);
  EXPECT_EQ(graph.op_templates[0].cost.given, 40);
  EXPECT_EQ(graph.op_templates[0].phase, OpPhase::backward);
  ASSERT_EQ(graph.sites.size(), 1U);
  EXPECT_EQ(graph.block_of(static_cast<SiteId>(0)).name, "step");
}

}  // namespace
}  // namespace tidemark::graph_build
