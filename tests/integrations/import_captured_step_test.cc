#include "integrations/formats/import_op_list.h"

#include <gtest/gtest.h>

#include <string>

namespace tidemark {
namespace {

const std::string kGraph = "# made by hand\nG 3 2\nN 0 5 100 0 in\nN 1 10 200 0 mid\nE 0 1\nN 2 20 300 1 out\nE 1 2\n";
const std::string kSwapGraph = "G 2 1\nN 0 0.5 100 0 in 2 0.25 0.125\nN 1 1.5 200 0 out 4 0.5 0.25\nE 0 1\n";
const std::string kJson = R"({"tidemark_graph": 1, "name": "step", "cost_unit": "ns",
 "storages": [{"name": "w", "bytes": 8, "until_end": true}, {"name": "x", "bytes": 16, "bound_bytes": 32, "pinned_until": 1},
              {"name": "y", "bytes": 4, "page_out_cost": 3, "page_in_cost": 5}],
 "ops": [{"name": "f", "cost": 2.5, "reads": [0], "writes": [1], "transient_bytes": 7},
         {"name": "g", "cost": 4, "reads": [1, 0, 1], "writes": [2], "phase": "backward", "recompute": "random"}]})";

std::string message(const std::string& text, StepObjective objective = StepObjective::cost) {
  const Result<OpList> list = read_op_list(text, "f", objective);
  return list ? "" : list.error().message;
}

std::string with(std::string text, const std::string& old, const std::string& now) {
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), now);
}

TEST(ImportOpList, Graph) {
  const OpList list = read_op_list(kGraph, "f").value();
  ASSERT_EQ(list.ops.size(), 3U);
  EXPECT_EQ(list.ops[2].name, "out");
  EXPECT_EQ(list.ops[2].cost, 20);
  EXPECT_EQ(list.ops[2].reads, std::vector<std::int32_t>{1});
  EXPECT_EQ(list.ops[2].writes, std::vector<std::int32_t>{2});
  EXPECT_EQ(list.ops[2].phase, OpList::Phase::backward);
  EXPECT_EQ(list.storages[1].bytes, 200);
  EXPECT_FALSE(list.storages[1].swappable);
  EXPECT_EQ(list.cost_quantum, 1);
}

TEST(ImportOpList, SwapGraphInJoulesOrSeconds) {
  const OpList energy = read_op_list(kSwapGraph, "f").value();
  EXPECT_EQ(energy.cost_unit, OpList::CostUnit::joule);
  EXPECT_NEAR(energy.to_units(energy.ops[1].cost), 4, 1e-9);
  EXPECT_NEAR(energy.to_units(energy.storages[0].page_in_cost), 0.25, 1e-9);
  EXPECT_NEAR(energy.to_units(energy.storages[0].page_out_cost), 0.125, 1e-9);
  EXPECT_TRUE(energy.storages[0].swappable);
  const OpList time = read_op_list(kSwapGraph, "f", StepObjective::time).value();
  EXPECT_EQ(time.cost_unit, OpList::CostUnit::ns);
  EXPECT_NEAR(time.to_units(time.ops[1].cost), 1.5e9, 1);
  EXPECT_FALSE(time.storages[0].swappable);  // nobody says how long a page takes
}

TEST(ImportOpList, Json) {
  const OpList list = read_op_list(kJson, "f", StepObjective::time).value();
  EXPECT_EQ(list.name, "step");
  EXPECT_TRUE(list.storages[0].until_end);
  EXPECT_EQ(list.storages[1].bytes, 32);
  EXPECT_EQ(list.storages[1].pinned_until, 1);
  EXPECT_FALSE(list.storages[1].swappable);
  EXPECT_TRUE(list.storages[2].swappable);
  EXPECT_NEAR(list.to_units(list.ops[0].cost), 2.5, 1e-9);
  EXPECT_NEAR(list.to_units(list.storages[2].page_in_cost), 5, 1e-9);
  EXPECT_EQ(list.ops[0].transient_bytes, 7);
  EXPECT_EQ(list.ops[1].reads, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(list.ops[1].recompute, OpList::Recompute::random);
}

TEST(ImportOpList, JsonWithALink) {
  const std::string text = with(
      with(kJson, R"("cost_unit": "ns",)",
           R"("cost_unit": "ns", "link": {"out_bytes_per_second": 2e9, "in_bytes_per_second": 1e9, "latency_ns": 10,
              "host_bytes": 99},)"),
      R"("bytes": 8,)", R"("bytes": 8, "swappable": false,)");
  const OpList list = read_op_list(text, "f", StepObjective::time).value();
  ASSERT_TRUE(list.link.has_value());
  EXPECT_EQ(list.link->host_bytes, 99);
  EXPECT_FALSE(list.storages[0].swappable);
  EXPECT_TRUE(list.storages[1].swappable);  // its 32 B take 10 + 16 ns out, 10 + 32 ns in
  EXPECT_NEAR(list.to_units(list.storages[1].page_out_time), 26, 1e-9);
  EXPECT_NEAR(list.to_units(list.storages[1].page_in_time), 42, 1e-9);
  EXPECT_EQ(list.storages[1].page_in_cost, 0);
  EXPECT_NEAR(list.to_units(list.storages[2].page_in_cost), 5, 1e-9);
  EXPECT_NE(message(with(text, "\"ns\"", "\"one\"")).find("f: /link: a link takes time"), std::string::npos);
  EXPECT_NE(message(with(text, "\"latency_ns\"", "\"latency\"")).find("f: /link: a link has the keys"),
            std::string::npos);
  const OpList slow = read_op_list(with(text, "\"latency_ns\": 10,", "\"latency_ns\": 1e18,"), "f").value();
  EXPECT_FALSE(slow.storages[1].swappable);  // a page would take longer than any step
  EXPECT_NEAR(slow.to_units(slow.ops[0].cost), 2.5, 1e-9);
  EXPECT_NE(message(with(text, "2e9", "0")).find("f: /link/out_bytes_per_second"), std::string::npos);
  EXPECT_NE(message(with(text, "\"in_bytes_per_second\": 1e9,", "")).find("in_bytes_per_second"), std::string::npos);
}

TEST(ImportOpList, WrongTextsSayWhere) {
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
  EXPECT_NE(message(kGraph, StepObjective::energy).find("cost without a unit"), std::string::npos);
  EXPECT_NE(message(with(kSwapGraph, " 4 0.5 0.25", "")).find("f:3: a node of a .swapgraph"), std::string::npos);
}

TEST(ImportOpList, WrongJsonSaysWhere) {
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
  EXPECT_NE(message(kJson, StepObjective::energy).find("needs 'joule'"), std::string::npos);
}

}  // namespace
}  // namespace tidemark
