#include "integrations/formats/import_captured_step.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tidemark {
namespace {

const std::string kGraph = "# made by hand\nG 3 2\nN 0 5 100 0 in\nN 1 10 200 0 mid\nE 0 1\nN 2 20 300 1 out\nE 1 2\n";
const std::string kSwapGraph = "G 2 1\nN 0 0.5 100 0 in 2 0.25 0.125\nN 1 1.5 200 0 out 4 0.5 0.25\nE 0 1\n";
const std::string kJson = R"({"tidemark_graph": 1, "name": "step", "cost_unit": "ns",
 "storages": [{"name": "w", "bytes": 8, "until_end": true}, {"name": "x", "bytes": 16, "bound_bytes": 32, "pinned_until": 1},
              {"name": "y", "bytes": 4, "page_out_cost": 3, "page_in_cost": 5}],
 "ops": [{"name": "f", "cost": 2.5, "reads": [0], "writes": [1], "transient_bytes": 7},
         {"name": "g", "cost": 4, "reads": [1, 0, 1], "writes": [2], "phase": "backward", "recompute": "random",
          "told": false}]})";

std::string message(const std::string& text, formats::StepObjective objective = formats::StepObjective::cost) {
  const Result<formats::CapturedStep> step = formats::read_captured_step(text, "f", objective);
  return step ? "" : step.error().message;
}

std::string with(std::string text, const std::string& old, const std::string& now) {
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), now);
}

/// Storages of the accesses of an op, by kind.
std::vector<std::int32_t> touched(const Graph& graph, std::int32_t op, AccessKind kind) {
  std::vector<std::int32_t> storages;
  for (const Access& access : graph.accesses_of(static_cast<OpId>(op)))
    if (access.kind == kind) storages.push_back(static_cast<std::int32_t>(access.storage));
  return storages;
}

double cost_of(const Graph& graph, std::size_t op) {
  return graph.given_costs.to_units(static_cast<std::int64_t>(graph.op_templates[op].cost.given));
}

Graph graph_of(const std::string& text, formats::StepObjective objective = formats::StepObjective::cost) {
  Result<formats::CapturedStep> step = formats::read_captured_step(text, "f", objective);
  EXPECT_TRUE(step.ok()) << (step.ok() ? "" : step.error().message);
  return step.ok() ? std::move(step.value().graph) : Graph{};
}

using Ids = std::vector<std::int32_t>;

TEST(ImportCapturedStep, Graph) {
  const Graph graph = graph_of(kGraph);
  ASSERT_EQ(graph.ops.size(), 3U);
  EXPECT_EQ(graph.op_templates[2].name, "out");
  EXPECT_EQ(graph.op_templates[2].cost.kind, WorkKind::given);
  EXPECT_EQ(graph.op_templates[2].cost.given, 20);
  EXPECT_EQ(touched(graph, 2, AccessKind::read), Ids{1});
  EXPECT_EQ(touched(graph, 2, AccessKind::write), Ids{2});
  EXPECT_EQ(graph.op_templates[1].phase, OpPhase::forward);
  EXPECT_EQ(graph.op_templates[2].phase, OpPhase::backward);
  EXPECT_EQ(graph.storages[1].bytes, 200);
  EXPECT_EQ(graph.storage_templates[1].name, "mid");
  EXPECT_FALSE(graph.storage_templates[1].swappable);
  EXPECT_FALSE(graph.storage_templates[1].given_copies);
  EXPECT_EQ(graph.given_costs, GivenCosts{.unit = GivenCosts::Unit::one});
}

TEST(ImportCapturedStep, SwapGraphInJoulesOrSeconds) {
  const Graph energy = graph_of(kSwapGraph);
  EXPECT_EQ(energy.given_costs.unit, GivenCosts::Unit::joule);
  EXPECT_NEAR(cost_of(energy, 1), 4, 1e-9);
  EXPECT_TRUE(energy.storage_templates[0].swappable);
  ASSERT_TRUE(energy.storage_templates[0].given_copies);
  const GivenCopies& copies = *energy.storage_templates[0].given_copies;
  EXPECT_NEAR(energy.given_costs.to_units(copies.in.compute), 0.25, 1e-9);
  EXPECT_NEAR(energy.given_costs.to_units(copies.out.compute), 0.125, 1e-9);
  EXPECT_EQ(copies.in.link, 0);  // joules say nothing of how long a copy takes
  EXPECT_EQ(copies.out.link, 0);
  const Graph time = graph_of(kSwapGraph, formats::StepObjective::time);
  EXPECT_EQ(time.given_costs.unit, GivenCosts::Unit::ns);
  EXPECT_NEAR(cost_of(time, 1), 1.5e9, 1);
  EXPECT_FALSE(time.storage_templates[0].swappable);  // the file does not say how long a copy takes
}

TEST(ImportCapturedStep, Json) {
  const formats::CapturedStep step = formats::read_captured_step(kJson, "f", formats::StepObjective::time).value();
  const Graph& graph = step.graph;
  EXPECT_EQ(step.name, "step");
  EXPECT_EQ(step.host_bytes, std::numeric_limits<Bytes>::max());
  ASSERT_EQ(graph.storages.size(), 4U);
  EXPECT_TRUE(graph.storage_templates[0].lasting);
  EXPECT_TRUE(graph.storage_templates[0].initial);  // read before anything writes it
  EXPECT_FALSE(graph.storage_templates[1].lasting);
  EXPECT_FALSE(graph.storage_templates[1].initial);
  EXPECT_EQ(graph.storages[0].held_until, kNone<OpId>);
  EXPECT_EQ(graph.storages[1].bytes, 32);
  EXPECT_EQ(graph.storages[1].held_until, id_of<OpId>(1));
  EXPECT_FALSE(graph.storage_templates[1].swappable);
  EXPECT_TRUE(graph.storage_templates[2].swappable);
  EXPECT_NEAR(cost_of(graph, 0), 2.5, 1e-9);
  EXPECT_EQ(graph.given_costs.unit, GivenCosts::Unit::ns);
  ASSERT_TRUE(graph.storage_templates[2].given_copies);
  EXPECT_NEAR(graph.given_costs.to_units(graph.storage_templates[2].given_copies->out.compute), 3, 1e-9);
  EXPECT_NEAR(graph.given_costs.to_units(graph.storage_templates[2].given_copies->in.compute), 5, 1e-9);
  EXPECT_EQ(touched(graph, 1, AccessKind::read), (Ids{0, 1}));
  EXPECT_TRUE(graph.op_templates[0].told);
  EXPECT_FALSE(graph.op_templates[1].told);
}

/// Workspace is a storage of its own, written by its op and read by none.
TEST(ImportCapturedStep, JsonTransients) {
  const Graph graph = graph_of(kJson);
  ASSERT_EQ(graph.storages.size(), 4U);
  EXPECT_EQ(graph.storage_templates[3].name, "f.workspace");
  EXPECT_EQ(graph.storage_templates[3].role, StorageRole::temporary);
  EXPECT_EQ(graph.storages[3].bytes, 7);
  EXPECT_FALSE(graph.storage_templates[3].swappable);
  EXPECT_FALSE(graph.storage_templates[3].initial);
  EXPECT_EQ(touched(graph, 0, AccessKind::write), (Ids{1, 3}));
  EXPECT_EQ(touched(graph, 1, AccessKind::write), Ids{2});
}

TEST(ImportCapturedStep, JsonRecipes) {
  const Graph graph = graph_of(kJson);
  ASSERT_EQ(graph.recipes.size(), 2U);
  const Recipe &pure = graph.recipes[0], &random = graph.recipes[1];
  EXPECT_EQ(pure.outputs, Ids{1});
  EXPECT_EQ(pure.sources, Ids{0});
  EXPECT_EQ(pure.transients, Ids{3});
  ASSERT_EQ(pure.steps.size(), 1U);
  EXPECT_EQ(pure.steps[0].op, id_of<OpTemplateId>(0));
  EXPECT_EQ(pure.steps[0].reads, Ids{0});
  EXPECT_EQ(pure.steps[0].writes, (Ids{1, 3}));
  EXPECT_TRUE(pure.pure && !pure.needs_random_state && !pure.collective);
  EXPECT_TRUE(random.pure && random.needs_random_state && !random.collective);
  EXPECT_EQ(random.outputs, Ids{2});
  EXPECT_EQ(random.sources, (Ids{0, 1}));
  EXPECT_TRUE(random.transients.empty());
  const Graph group = graph_of(with(kJson, "random", "collective"));
  ASSERT_EQ(group.recipes.size(), 2U);
  EXPECT_TRUE(group.recipes[1].collective && !group.recipes[1].needs_random_state);
  EXPECT_TRUE(group.op_templates[1].collective && !group.op_templates[0].collective);
  for (const char* kind : {"routing", "never"}) {
    const Graph other = graph_of(with(kJson, "random", kind));
    ASSERT_EQ(other.recipes.size(), 1U) << kind;
    EXPECT_EQ(other.recipes[0].steps[0].op, id_of<OpTemplateId>(0)) << kind;
  }
}

/// What an op changes in place, no op restores; nor does one that has nothing to restore.
TEST(ImportCapturedStep, JsonChangedInPlace) {
  const Graph graph = graph_of(with(kJson, R"("writes": [2])", R"("writes": [1, 2])"));
  EXPECT_TRUE(graph.recipes.empty());
  ASSERT_EQ(graph.accesses_of(id_of<OpId>(1)).size(), 4U);
  EXPECT_EQ(graph.accesses_of(id_of<OpId>(1))[1].version, 1);  // reads what f made of storage 1
  EXPECT_EQ(graph.accesses_of(id_of<OpId>(1))[2].version, 2);  // and makes the next version
  EXPECT_EQ(graph_of(with(kJson, R"("writes": [2])", R"("writes": [])")).recipes.size(), 1U);
}

TEST(ImportCapturedStep, JsonWithALink) {
  const std::string text = with(
      with(kJson, R"("cost_unit": "ns",)",
           R"("cost_unit": "ns", "link": {"out_bytes_per_second": 2e9, "in_bytes_per_second": 1e9, "latency_ns": 10,
              "host_bytes": 99},)"),
      R"("bytes": 8,)", R"("bytes": 8, "swappable": false,)");
  const formats::CapturedStep step = formats::read_captured_step(text, "f", formats::StepObjective::time).value();
  EXPECT_EQ(step.host_bytes, 99);
  const std::vector<StorageTemplate>& storages = step.graph.storage_templates;
  const auto units = [&](std::int64_t quanta) { return step.graph.given_costs.to_units(quanta); };
  EXPECT_FALSE(storages[0].swappable);
  EXPECT_FALSE(storages[0].given_copies);
  EXPECT_TRUE(storages[1].swappable);  // its 32 B take 10 + 16 ns out, 10 + 32 ns in
  ASSERT_TRUE(storages[1].given_copies && storages[2].given_copies);
  EXPECT_NEAR(units(storages[1].given_copies->out.link), 26, 1e-9);
  EXPECT_NEAR(units(storages[1].given_copies->in.link), 42, 1e-9);
  EXPECT_EQ(storages[1].given_copies->in.compute, 0);
  EXPECT_NEAR(units(storages[2].given_copies->in.compute), 5, 1e-9);
  EXPECT_NE(message(with(text, "\"ns\"", "\"one\"")).find("f: /link: a link takes time"), std::string::npos);
  EXPECT_NE(message(with(text, "\"latency_ns\"", "\"latency\"")).find("f: /link: a link has the keys"),
            std::string::npos);
  const Graph slow = graph_of(with(text, "\"latency_ns\": 10,", "\"latency_ns\": 1e18,"));
  EXPECT_FALSE(slow.storage_templates[1].swappable);  // a copy would take longer than any step
  EXPECT_NEAR(cost_of(slow, 0), 2.5, 1e-9);
  EXPECT_NE(message(with(text, "2e9", "0")).find("f: /link/out_bytes_per_second"), std::string::npos);
  EXPECT_NE(message(with(text, "\"in_bytes_per_second\": 1e9,", "")).find("in_bytes_per_second"), std::string::npos);
}

TEST(ImportCapturedStep, WrongTextsSayWhere) {
  EXPECT_EQ(message("hello\n"), "f:1: the line begins with 'hello'; it must be G, N or E");
  EXPECT_NE(message("").find("f:1: there is no line `G nodes edges`"), std::string::npos);
  EXPECT_NE(message(with(kGraph, "N 1", "N 7")).find("f:4: idx is '7'"), std::string::npos);
  EXPECT_NE(message(with(kGraph, "E 1 2", "E 2 1")).find("f:7: src"), std::string::npos);
  EXPECT_NE(message(with(kGraph, "E 1 2", "E 1 3")).find("f:7: dst"), std::string::npos);
  EXPECT_NE(message(with(kGraph, "E 1 2\n", "")).find("2 edges, the file has 1"), std::string::npos);
  EXPECT_NE(message(with(kGraph, "G 3 2", "G 4 2")).find("4 nodes, the file has 3"), std::string::npos);
  EXPECT_NE(message(with(kGraph, "10 200", "-1 200")).find("f:4: cost is '-1'"), std::string::npos);
  EXPECT_NE(message(with(kGraph, "10 200", "nan 200")).find("f:4: cost is 'nan'"), std::string::npos);
  EXPECT_NE(message(with(kGraph, "10 200", "10 2e9")).find("f:4: bytes is '2e9'"), std::string::npos);
  EXPECT_NE(message(with(kGraph, "G 3 2", "G 3 2\nG 3 2")).find("f:3: a second line G"), std::string::npos);
  EXPECT_NE(message(kGraph, formats::StepObjective::energy).find("cost without a unit"), std::string::npos);
  EXPECT_NE(message(with(kSwapGraph, " 4 0.5 0.25", "")).find("f:3: a node of a .swapgraph"), std::string::npos);
}

TEST(ImportCapturedStep, WrongJsonSaysWhere) {
  EXPECT_EQ(message("{").substr(0, 4), "f:1:");
  EXPECT_NE(message(with(kJson, "\"tidemark_graph\": 1", "\"tidemark_graph\": 2")).find("f: /tidemark_graph"),
            std::string::npos);
  EXPECT_NE(message(with(kJson, "[1, 0, 1]", "[1, 9]")).find("f: /ops/1/reads/1"), std::string::npos);
  EXPECT_NE(message(with(kJson, "\"bytes\": 8", "\"bytes\": -8")).find("f: /storages/0/bytes"), std::string::npos);
  EXPECT_NE(message(with(kJson, "\"pinned_until\": 1", "\"pinned_until\": 2")).find("f: /storages/1/pinned_until"),
            std::string::npos);
  EXPECT_NE(message(with(kJson, "\"bound_bytes\": 32", "\"bound_bytes\": 3")).find("f: /storages/1/bound_bytes"),
            std::string::npos);
  EXPECT_NE(message(with(kJson, "\"random\"", "\"often\"")).find("f: /ops/1/recompute"), std::string::npos);
  EXPECT_NE(message(with(kJson, "\"cost\": 4", "\"cost\": \"4\"")).find("f: /ops/1/cost"), std::string::npos);
  EXPECT_NE(message(R"({"tidemark_graph": 1, "storages": [], "ops": []})").find("f: /ops"), std::string::npos);
  EXPECT_NE(message(kJson, formats::StepObjective::energy).find("needs 'joule'"), std::string::npos);
}

}  // namespace
}  // namespace tidemark
