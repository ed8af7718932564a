#include <gtest/gtest.h>

#include <limits>

#include "core/dynamic_region.h"
#include "core/verify.h"
#include "tests/support/tiny_graph.h"
#include "tests/support/tiny_schedule.h"

namespace tidemark {
namespace {

using Rule = Violation::Rule;

// Two micro-batches, forward, four idle ops, backward in reverse:
//   make rows, activate (rows -> out) | idle x 4 | use out, use rows
// Storages and residencies: 0 rows, 1 out of micro-batch 0; 2 rows, 3 out of micro-batch 1. Task = op, all on compute.
class ProgramRules : public ::testing::Test {
 protected:
  ProgramRules() {
    testing::GraphBuilder b;
    make_ = b.timed_op("make", 1);
    activate_ = b.timed_op("activate", 1);
    const OpTemplateId idle = b.timed_op("idle", 1), use = b.timed_op("use", 1);
    const BlockId layer = b.block(
        "layer",
        {{.name = "rows", .module_path = "experts", .routed_rows = 64, .routed_row_bytes = 64 * kKiB},
         {.name = "out", .module_path = "experts", .routed_rows = 64, .routed_row_bytes = 32 * kKiB}},
        {{.name = "out", .outputs = {1}, .sources = {0}, .steps = {{.op = activate_, .reads = {0}, .writes = {1}}}}});
    for (std::int32_t mb = 0; mb < 2; ++mb) {
      const SiteId site = b.site(layer, {.layer = 0, .micro_batch = mb});
      b.run(make_, site, {}, {b.at(site, 0)});
      b.run(activate_, site, {b.at(site, 0)}, {b.at(site, 1)});
    }
    const SiteId pause = b.site(b.block("pause", {}));
    for (int i = 0; i < 4; ++i) b.run(idle, pause, {}, {});
    for (std::int32_t mb = 1; mb >= 0; --mb) {
      const SiteId site = id_of<SiteId>(static_cast<std::size_t>(mb));
      b.run(use, site, {b.at(site, 1)}, {});
      b.run(use, site, {b.at(site, 0)}, {});
    }
    graph_ = std::move(b).finish();
    program_.schedule = testing::keep_all_schedule(graph_);
    program_.layout = testing::side_by_side(program_.schedule);
    add_routed();
  }

  void add_routed() {
    for (std::int32_t r = 0; r < 4; ++r)
      program_.routed.push_back({.residency = static_cast<ResidencyId>(r),
                                 .site = static_cast<SiteId>(r / 2),
                                 .rows = 64,
                                 .row_bytes = (r % 2 == 0 ? 64 : 32) * kKiB});
  }

  void expect_broken(std::string_view says, Rule rule = Rule::section) {
    const auto found = verify_program(graph_, program_);
    ASSERT_TRUE(found.has_value()) << says;
    EXPECT_EQ(found->rule, rule) << found->detail;
    EXPECT_NE(found->detail.find(says), std::string::npos) << found->detail;
  }
  void expect_clean() {
    const auto found = verify_program(graph_, program_);
    EXPECT_FALSE(found.has_value()) << found->detail;
  }

  Graph graph_;
  Program program_;
  OpTemplateId make_ = kNone<OpTemplateId>, activate_ = kNone<OpTemplateId>;
};

TEST_F(ProgramRules, RoutedResidenciesAreAllListed) {
  const auto good = program_.routed;
  program_.routed.pop_back();
  expect_broken("residency 3", Rule::schedule_shape);
  program_.routed = good;
  program_.routed[1].row_bytes += 1;
  expect_broken("residency 1", Rule::schedule_shape);
  program_.routed = good;
  program_.routed[2].rows_of = RowsOf::sent;
  expect_broken("residency 2", Rule::schedule_shape);
  program_.routed = good;
  program_.routed.push_back(good.back());
  expect_broken("5 residencies are listed as routed, 4 are", Rule::schedule_shape);
}

TEST_F(ProgramRules, ProgramColumns) {
  program_.estimate_ns = {1, 2, 3};
  expect_broken("3 estimates", Rule::schedule_shape);
  program_.estimate_ns.clear();
  program_.receives = {{.task = id_of<TaskId>(2)}};
  expect_broken("1 events of receive, the graph has 0", Rule::schedule_shape);
  program_.receives.clear();
  program_.routing_slots = {kNone<ResidencyId>};
  expect_broken("routing slot", Rule::schedule_shape);
  program_.routing_slots.clear();
  program_.section_ends = {id_of<TaskId>(3)};
  expect_broken("1 ends of sections are listed, there are 0");
  program_.section_ends.clear();
  expect_clean();
}

// One send and one receive.
TEST(ProgramMessages, MustBeThoseOfTheGraph) {
  testing::GraphBuilder g;
  const OpTemplateId work = g.timed_op("work", 1);
  const OpTemplateId send = g.timed_op("send", 1, Lane::send, OpPhase::send);
  const OpTemplateId receive = g.timed_op("receive", 0, Lane::receive, OpPhase::receive);
  const SiteId site = g.site(g.block("b", {{.name = "x", .fixed_bytes = 8}, {.name = "y", .fixed_bytes = 8}}));
  g.run(work, site, {}, {g.at(site, 0)});
  g.run(send, site, {g.at(site, 0)}, {});
  g.message(1, 17, true, 8);
  g.run(receive, site, {}, {g.at(site, 1)});
  g.message(2, 18, false, 8);
  g.run(work, site, {g.at(site, 1)}, {});
  const Graph graph = std::move(g).finish();
  Program program;
  program.schedule = testing::keep_all_schedule(graph);
  program.layout = testing::side_by_side(program.schedule);
  const auto expect = [&](std::string_view says) {
    const auto found = verify_program(graph, program);
    ASSERT_TRUE(found.has_value()) << says;
    EXPECT_NE(found->detail.find(says), std::string::npos) << found->detail;
  };
  expect("the send with tag 17 is not listed");
  program.sends = {{.task = id_of<TaskId>(1), .peer_rank = 1, .tag = 17}};
  expect("the receive with tag 18 is not listed");
  program.receives = {{.task = id_of<TaskId>(2), .peer_rank = 2, .tag = 18, .arrival_estimate_ns = 5}};
  EXPECT_FALSE(verify_program(graph, program).has_value());
  program.sends[0].peer_rank = 2;
  expect("send event of task 1 with rank 2 and tag 17; the graph has rank 1");
  program.sends[0] = {.task = id_of<TaskId>(0), .peer_rank = 1, .tag = 17};
  expect("send event of task 0, which is not on that lane");
  program.sends[0] = {.task = id_of<TaskId>(2), .peer_rank = 1, .tag = 17};
  expect("send event of task 2");
}

TEST_F(ProgramRules, OverlapIsNamed) {
  program_.layout.offset_of[2] = program_.layout.offset_of[0];
  const auto found = verify_program(graph_, program_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rule, Rule::overlap);
  EXPECT_NE(found->detail.find("storage experts.rows (chunk 0, layer 0, micro-batch 0)"), std::string::npos)
      << found->detail;
}

}  // namespace
}  // namespace tidemark
