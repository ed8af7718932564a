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
// With too many rows, `rows` of micro-batch 0 is swapped out and `out` of micro-batch 1 recomputed from its rows.
class ContingencyRules : public ::testing::Test {
 protected:
  ContingencyRules() {
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
    add_contingencies();
  }

  void add_routed() {
    for (std::int32_t r = 0; r < 4; ++r)
      program_.routed.push_back({.residency = static_cast<ResidencyId>(r),
                                 .site = static_cast<SiteId>(r / 2),
                                 .rows = 64,
                                 .row_bytes = (r % 2 == 0 ? 64 : 32) * kKiB});
  }

  // At load 2 the slots lack 2 + 1 + 2 + 1 granules, all of them in memory at task 3.
  void add_contingencies() {
    Arena& device = program_.layout.arenas[0];
    device.dynamic_bytes = 6 * kPlanGranule;
    device.capacity_bytes = device.height_bytes + device.dynamic_bytes;
    Arena& host = program_.layout.arenas[1];
    host.dynamic_bytes = host.capacity_bytes = 8 * kMiB;
    program_.contingency_limit_f = program_.collective_limit_f = 2;
    program_.contingencies = {{.trigger_bytes = 4 * kMiB,
                               .trigger = id_of<TaskId>(1),
                               .residency = id_of<ResidencyId>(0),
                               .freed_bytes = 2 * kPlanGranule,
                               .release_at = id_of<TaskId>(4),
                               .prefetch_at = id_of<TaskId>(9),
                               .needed_at = id_of<TaskId>(11),
                               .host_offset = 0},
                              {.kind = Contingency::Kind::recompute,
                               .trigger_bytes = 2 * kMiB,
                               .trigger = id_of<TaskId>(3),
                               .residency = id_of<ResidencyId>(3),
                               .freed_bytes = kPlanGranule,
                               .release_at = id_of<TaskId>(4),
                               .prefetch_at = id_of<TaskId>(7),
                               .needed_at = id_of<TaskId>(8),
                               .first_step = 0,
                               .step_count = 1}};
    program_.contingency_steps = {
        {.op_template = activate_,
         .estimate_ns = 1,
         .touches = {{id_of<ResidencyId>(2), AccessKind::read}, {id_of<ResidencyId>(3), AccessKind::write}}}};
  }

  Contingency& swap() { return program_.contingencies[0]; }
  Contingency& recompute() { return program_.contingencies[1]; }
  ContingencyStep& step() { return program_.contingency_steps[0]; }
  void expect_broken(std::string_view says, Rule rule = Rule::contingency) {
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

TEST_F(ContingencyRules, CleanListPasses) {
  expect_clean();
}

TEST_F(ContingencyRules, IdsAndBytes) {
  const Contingency good = swap();
  const auto expect = [&](std::string_view says, auto change) {
    swap() = good;
    change(swap());
    expect_broken(says);
  };
  expect("residency does not exist", [](auto& c) { c.residency = id_of<ResidencyId>(999); });
  expect("task 999 does not exist", [](auto& c) { c.prefetch_at = id_of<TaskId>(999); });
  expect("fewer than the", [](auto& c) { --c.trigger_bytes; });
  expect("at the limit it frees", [](auto& c) { c.freed_bytes += 1; });
  expect("no steps", [](auto& c) { c.step_count = 1; });
  expect("kind 7", [](auto& c) { c.kind = static_cast<Contingency::Kind>(7); });
  swap() = good;
  graph_.storage_templates[0].swappable = false;
  expect_broken("must not be swapped");
}

TEST_F(ContingencyRules, PointsInOrder) {
  swap().release_at = id_of<TaskId>(1);
  expect_broken("not in order");
  swap().release_at = id_of<TaskId>(10);
  expect_broken("not in order");
}

TEST_F(ContingencyRules, TriggerAndNeedTouchTheStorage) {
  swap().trigger = id_of<TaskId>(2);
  expect_broken("does not touch it");
  swap().trigger = id_of<TaskId>(0);
  expect_broken("touches it while it is out");
  swap().trigger = id_of<TaskId>(1);
  swap().needed_at = id_of<TaskId>(10);
  expect_broken("does not touch it");
}

TEST_F(ContingencyRules, WindowsOfOneResidencyMustNotMeet) {
  program_.contingencies.insert(program_.contingencies.begin(), swap());
  expect_broken("out at the same time");
}

TEST_F(ContingencyRules, TriggersAscend) {
  std::swap(program_.contingencies[0], program_.contingencies[1]);
  expect_broken("before the one listed before it");
}

TEST_F(ContingencyRules, TheCopyHasItsOwnHostMemory) {
  swap().host_offset = -1;
  expect_broken("not within the host memory for copies");
  swap().host_offset = 1;
  expect_broken("not within the host memory for copies");
  swap().host_offset = 0;
  // What the plan itself swaps lies below height_bytes.
  program_.layout.arenas[1].height_bytes = 1;
  program_.layout.arenas[1].dynamic_bytes -= 1;
  expect_broken("not within the host memory for copies");
}

TEST_F(ContingencyRules, CopiesShareHostMemoryOneAfterTheOther) {
  recompute() = swap();
  recompute().residency = id_of<ResidencyId>(2);
  recompute().trigger = id_of<TaskId>(3);
  recompute().prefetch_at = id_of<TaskId>(7);
  recompute().needed_at = id_of<TaskId>(9);
  program_.contingency_steps.clear();
  expect_broken("shares host memory with that of contingency 0");
  program_.layout.arenas[1].dynamic_bytes = program_.layout.arenas[1].capacity_bytes = 16 * kMiB;
  recompute().host_offset = 8 * kMiB - 1;
  expect_broken("shares host memory with that of contingency 0");
  recompute().host_offset = 8 * kMiB;
  expect_clean();
}

TEST_F(ContingencyRules, StepsAreThoseOfARecipe) {
  step().op_template = make_;
  expect_broken("not those of a recipe");
  step().op_template = activate_;
  step().touches[0].residency = id_of<ResidencyId>(0);  // of another site
  expect_broken("not those of a recipe");
  step().touches[0].residency = id_of<ResidencyId>(2);
  recompute().first_step = 1;
  expect_broken("do not exist");
  recompute().first_step = 0;
  recompute().step_count = 0;
  expect_broken("not those of a recipe");
  recompute().step_count = 1;
  recompute().host_offset = 0;
  expect_broken("needs no host memory");
  recompute().host_offset = -1;
  for (const auto spoil : {&Recipe::needs_random_state, &Recipe::collective}) {
    graph_.recipes[0].*spoil = true;
    expect_broken("not those of a recipe");
    graph_.recipes[0].*spoil = false;
  }
  expect_clean();
}

TEST_F(ContingencyRules, SourcesAreThereWhereTheStepsRun) {
  Contingency source = swap();  // rows of micro-batch 1 comes back only when it is used itself
  source.residency = id_of<ResidencyId>(2);
  source.trigger = id_of<TaskId>(3);
  source.prefetch_at = id_of<TaskId>(7);
  source.needed_at = id_of<TaskId>(9);
  source.host_offset = 8 * kMiB;
  program_.layout.arenas[1].dynamic_bytes = program_.layout.arenas[1].capacity_bytes = 16 * kMiB;
  program_.contingencies.push_back(source);
  expect_broken("contingency 2 has its source out where the steps run");
}

// make rows, activate, `between` (touching rows: -, R, W), idle x 2, use out, and `after` the same way.
std::string said_of_source(char between, char after, Lane between_lane = Lane::compute) {
  testing::GraphBuilder b;
  const OpTemplateId make = b.timed_op("make", 1), activate = b.timed_op("activate", 1);
  const OpTemplateId touch = b.timed_op("touch", 1, between_lane), work = b.timed_op("work", 1);
  const SiteId site = b.site(b.block(
      "layer",
      {{.name = "rows", .routed_rows = 1, .routed_row_bytes = 8},
       {.name = "out", .routed_rows = 1, .routed_row_bytes = 8}},
      {{.name = "out", .outputs = {1}, .sources = {0}, .steps = {{.op = activate, .reads = {0}, .writes = {1}}}}}));
  const auto run = [&](OpTemplateId op, char how) {
    const std::vector<StorageId> rows = {b.at(site, 0)}, none;
    b.run(op, site, how == 'R' ? rows : none, how == 'W' ? rows : none);
  };
  b.run(make, site, {}, {b.at(site, 0)});
  b.run(activate, site, {b.at(site, 0)}, {b.at(site, 1)});
  run(touch, between);
  run(work, '-');
  run(work, '-');
  b.run(work, site, {b.at(site, 1)}, {});
  run(work, after);
  const Graph graph = std::move(b).finish();
  Program program;
  program.schedule = testing::keep_all_schedule(graph);
  program.layout = testing::side_by_side(program.schedule);
  for (std::int32_t r = 0; r < 2; ++r)
    program.routed.push_back({.residency = static_cast<ResidencyId>(r), .site = site, .rows = 1, .row_bytes = 8});
  program.contingencies = {{.kind = Contingency::Kind::recompute,
                            .trigger_bytes = 8,
                            .trigger = id_of<TaskId>(1),
                            .residency = id_of<ResidencyId>(1),
                            .release_at = id_of<TaskId>(3),
                            .prefetch_at = id_of<TaskId>(4),
                            .needed_at = id_of<TaskId>(5),
                            .step_count = 1}};
  program.contingency_steps = {
      {.op_template = activate,
       .touches = {{id_of<ResidencyId>(0), AccessKind::read}, {id_of<ResidencyId>(1), AccessKind::write}}}};
  const auto found = verify_program(graph, program);
  return found ? found->detail : "";
}

TEST(Contingencies, ASourceStaysCompleteAndUnchanged) {
  EXPECT_EQ(said_of_source('-', 'R'), "");
  EXPECT_EQ(said_of_source('R', 'R'), "");
  EXPECT_NE(said_of_source('-', '-').find("may be gone where the steps run"), std::string::npos);
  EXPECT_NE(said_of_source('R', '-').find("may be gone where the steps run"), std::string::npos);
  EXPECT_NE(said_of_source('W', 'R').find("is written after it was used"), std::string::npos);
  EXPECT_NE(said_of_source('W', 'R', Lane::intra_comm).find("is written after it was used"), std::string::npos);
}

TEST_F(ContingencyRules, TheStatedLimitIsCarried) {
  program_.layout.arenas[0].dynamic_bytes -= 1;
  expect_broken("at expert load 2 up to 6 granules of the dynamic region are taken at half-step");
  program_.layout.arenas[0].dynamic_bytes += 1;
  program_.contingency_limit_f = program_.collective_limit_f = 2.01;
  swap().freed_bytes += kPlanGranule;
  recompute().freed_bytes += kPlanGranule;
  program_.layout.arenas[1].dynamic_bytes = program_.layout.arenas[1].capacity_bytes = 16 * kMiB;
  expect_broken("at expert load 2.01");
  program_.contingency_limit_f = std::numeric_limits<double>::quiet_NaN();
  expect_broken("limit is not an expert load", Rule::schedule_shape);
}

TEST_F(ContingencyRules, RoutedResidenciesAreAllListed) {
  const auto good = program_.routed;
  program_.routed.pop_back();
  expect_broken("residency 3", Rule::schedule_shape);
  program_.routed = good;
  program_.routed[1].row_bytes += 1;
  expect_broken("residency 1", Rule::schedule_shape);
  program_.routed = good;
  program_.routed.push_back(good.back());
  expect_broken("5 residencies are listed as routed, 4 are", Rule::schedule_shape);
}

// The last use before the gap may be on a lane that the release does not wait for.
TEST(Contingencies, ReleaseMustFollowEveryEarlierUse) {
  testing::GraphBuilder g;
  const OpTemplateId work = g.timed_op("work", 1);
  const OpTemplateId gather = g.timed_op("gather", 1, Lane::intra_comm);
  const SiteId site = g.site(g.block("b", {{.name = "x", .routed_rows = 1, .routed_row_bytes = 8}}));
  const StorageId x = g.at(site, 0);
  g.run(work, site, {}, {x});
  g.run(gather, site, {x}, {});
  for (int i = 0; i < 4; ++i) g.run(work, site, {}, {});
  g.run(work, site, {x}, {});
  const Graph graph = std::move(g).finish();
  Program program;
  program.schedule = testing::keep_all_schedule(graph);
  program.layout = testing::side_by_side(program.schedule);
  program.layout.arenas[1].dynamic_bytes = program.layout.arenas[1].capacity_bytes = 8;
  program.routed = {{.residency = id_of<ResidencyId>(0), .site = site, .rows = 1, .row_bytes = 8}};
  program.contingencies = {{.trigger_bytes = 8,
                            .trigger = id_of<TaskId>(0),
                            .residency = id_of<ResidencyId>(0),
                            .release_at = id_of<TaskId>(3),
                            .prefetch_at = id_of<TaskId>(4),
                            .needed_at = id_of<TaskId>(6),
                            .host_offset = 0}};
  const auto early = verify_program(graph, program);
  ASSERT_TRUE(early.has_value());  // the gather reads x while it is out
  EXPECT_NE(early->detail.find("while it is out"), std::string::npos) << early->detail;
  program.contingencies[0].trigger = id_of<TaskId>(1);
  const auto found = verify_program(graph, program);
  EXPECT_FALSE(found.has_value()) << found->detail;
}

TEST_F(ContingencyRules, ProgramColumns) {
  program_.estimate_ns = {1, 2, 3};
  expect_broken("3 estimates", Rule::schedule_shape);
  program_.estimate_ns.clear();
  program_.receives = {{.task = id_of<TaskId>(2)}};
  expect_broken("1 events of receive, the graph has 0", Rule::schedule_shape);
  program_.receives.clear();
  program_.routing_slots = {kNone<ResidencyId>};
  expect_broken("routing slot", Rule::schedule_shape);
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

TEST_F(ContingencyRules, OverlapIsNamed) {
  program_.layout.offset_of[2] = program_.layout.offset_of[0];
  const auto found = verify_program(graph_, program_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rule, Rule::overlap);
  EXPECT_NE(found->detail.find("storage experts.rows (chunk 0, layer 0, micro-batch 0)"), std::string::npos)
      << found->detail;
}

}  // namespace
}  // namespace tidemark
