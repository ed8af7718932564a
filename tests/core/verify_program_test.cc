#include <gtest/gtest.h>

#include "core/verify.h"
#include "tests/support/tiny_graph.h"
#include "tests/support/tiny_schedule.h"

namespace tidemark {
namespace {

using Rule = Violation::Rule;

// Two layers kept; a contingency swaps the `in` of layer 0 out between its forward and its backward pass.
class ContingencyRules : public ::testing::Test {
 protected:
  // Storages: 0-2 static, 3-8 layer 0, 9-14 layer 1, 15-16 head. Ops: 0 embed, 1-4 layer 0, 5-8 layer 1, 9 loss,
  // 10-11 layer 1 backward, 12-13 layer 0 backward, 14 optimizer; task = op.
  ContingencyRules() {
    graph_ = testing::chain_graph({.layers = 2});
    program_.schedule = testing::keep_all_schedule(graph_);
    program_.layout = testing::side_by_side(program_.schedule);
    program_.contingencies = {{.trigger_bytes = 10,
                               .trigger = id_of<TaskId>(1),
                               .residency = id_of<ResidencyId>(3),
                               .freed_bytes = program_.schedule.residencies[3].bytes,
                               .release_at = id_of<TaskId>(3),
                               .prefetch_at = id_of<TaskId>(9),
                               .needed_at = id_of<TaskId>(13)}};
  }
  Contingency& contingency() { return program_.contingencies[0]; }
  void expect_broken(std::string_view says) {
    const auto found = verify_program(graph_, program_);
    ASSERT_TRUE(found.has_value()) << says;
    EXPECT_EQ(found->rule, Rule::contingency) << found->detail;
    EXPECT_NE(found->detail.find(says), std::string::npos) << found->detail;
  }
  Graph graph_;
  Program program_;
};

TEST_F(ContingencyRules, CleanListPasses) {
  const auto found = verify_program(graph_, program_);
  EXPECT_FALSE(found.has_value()) << found->detail;
}

TEST_F(ContingencyRules, IdsAndBytes) {
  contingency().residency = id_of<ResidencyId>(999);
  expect_broken("residency does not exist");
  contingency().residency = id_of<ResidencyId>(3);
  contingency().prefetch_at = id_of<TaskId>(999);
  expect_broken("task 999 does not exist");
  contingency().prefetch_at = id_of<TaskId>(9);
  contingency().freed_bytes += 1;
  expect_broken("frees");
  contingency().freed_bytes = 1;
  contingency().residency = id_of<ResidencyId>(0);
  expect_broken("must not be swapped");
}

TEST_F(ContingencyRules, PointsInOrder) {
  contingency().release_at = id_of<TaskId>(1);
  expect_broken("not in order");
  contingency().release_at = id_of<TaskId>(10);
  expect_broken("not in order");
}

TEST_F(ContingencyRules, TriggerAndNeedTouchTheStorage) {
  contingency().trigger = id_of<TaskId>(2);
  expect_broken("does not touch it");
  contingency().trigger = id_of<TaskId>(0);
  expect_broken("touches it while it is out");
  contingency().trigger = id_of<TaskId>(1);
  contingency().needed_at = id_of<TaskId>(12);
  expect_broken("does not touch it");
}

TEST_F(ContingencyRules, WindowsOfOneResidencyMustNotMeet) {
  program_.contingencies.push_back(contingency());
  expect_broken("out at the same time");
}

TEST_F(ContingencyRules, ALaterContingencyIsCheckedToo) {
  Contingency second = contingency();
  second.residency = id_of<ResidencyId>(9);
  second.trigger = id_of<TaskId>(5);
  second.release_at = id_of<TaskId>(7);
  second.needed_at = id_of<TaskId>(11);
  program_.contingencies.push_back(second);
  EXPECT_FALSE(verify_program(graph_, program_).has_value());
  program_.contingencies[1].needed_at = id_of<TaskId>(12);
  expect_broken("contingency 1 on storage attention.in (chunk 0, layer 1, micro-batch 0)");
}

// The last use before the gap may be on a lane that the release does not wait for.
TEST(Contingencies, ReleaseMustFollowEveryEarlierUse) {
  testing::GraphBuilder g;
  const OpTemplateId work = g.timed_op("work", 1);
  const OpTemplateId send = g.timed_op("send", 1, Lane::p2p, OpPhase::send);
  const SiteId site = g.site(g.block("b", {{.name = "x", .fixed_bytes = 8}}));
  const StorageId x = g.at(site, 0);
  g.run(work, site, {}, {x});
  g.run(send, site, {x}, {});
  for (int i = 0; i < 4; ++i) g.run(work, site, {}, {});
  g.run(work, site, {x}, {});
  const Graph graph = std::move(g).finish();
  Program program;
  program.schedule = testing::keep_all_schedule(graph);
  program.layout = testing::side_by_side(program.schedule);
  program.contingencies = {{.trigger = id_of<TaskId>(0),
                            .residency = id_of<ResidencyId>(0),
                            .freed_bytes = 8,
                            .release_at = id_of<TaskId>(3),
                            .prefetch_at = id_of<TaskId>(4),
                            .needed_at = id_of<TaskId>(6)}};
  ASSERT_TRUE(verify_program(graph, program).has_value());  // the send reads x while it is out
  program.contingencies[0].trigger = id_of<TaskId>(1);
  const auto found = verify_program(graph, program);
  EXPECT_FALSE(found.has_value()) << found->detail;
}

TEST_F(ContingencyRules, ProgramColumns) {
  program_.estimate_ns = {1, 2, 3};
  EXPECT_EQ(verify_program(graph_, program_)->rule, Rule::schedule_shape);
  program_.estimate_ns.clear();
  program_.receives = {{.task = id_of<TaskId>(2)}};
  EXPECT_EQ(verify_program(graph_, program_)->rule, Rule::schedule_shape);
  program_.receives.clear();
  program_.routing_slots = {kNone<ResidencyId>};
  EXPECT_EQ(verify_program(graph_, program_)->rule, Rule::schedule_shape);
}

TEST_F(ContingencyRules, OverlapIsNamed) {
  program_.layout.offset_of[9] = program_.layout.offset_of[3];
  const auto found = verify_program(graph_, program_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rule, Rule::overlap);
  EXPECT_NE(found->detail.find("storage attention.in (chunk 0, layer 0, micro-batch 0)"), std::string::npos)
      << found->detail;
}

}  // namespace
}  // namespace tidemark
