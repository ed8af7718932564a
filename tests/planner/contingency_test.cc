#include "planner/contingency.h"

#include <gtest/gtest.h>

#include "core/verify.h"
#include "planner/decision/evaluator.h"
#include "planner/layout/packer.h"
#include "planner/scheduler.h"
#include "tests/support/rank_fixture.h"
#include "tests/support/tiny_graph.h"

namespace tidemark {
namespace {

using testing::RankFixture;

constexpr double kMsNs = 1e6;

/// One routed storage of 32 MiB at load 1 and one plain storage of `plain_mib` per micro-batch, made in forward order
/// and read back in reverse, with `ops` idle ops of one millisecond in between.
std::unique_ptr<RankFixture> routed_chain(int micro_batches, Bytes plain_mib, int ops, double link_bytes_per_s) {
  testing::GraphBuilder b;
  const BlockId block =
      b.block("layer", {{.name = "rows", .routed_rows = 32, .routed_row_bytes = kMiB, .saved_for_backward = true},
                        {.name = "plain", .fixed_bytes = plain_mib * kMiB, .saved_for_backward = true}});
  const OpTemplateId make = b.timed_op("make", kMsNs), idle = b.timed_op("idle", kMsNs);
  const OpTemplateId use = b.timed_op("use", kMsNs, Lane::compute, OpPhase::backward);
  std::vector<SiteId> sites;
  for (int mb = 0; mb < micro_batches; ++mb) {
    sites.push_back(b.site(block, {.layer = 0, .micro_batch = mb}));
    b.run(make, sites.back(), {}, {b.at(sites.back(), 0), b.at(sites.back(), 1)});
  }
  const SiteId idle_site = b.site(b.block("idle", {}), {});
  for (int i = 0; i < ops; ++i) b.run(idle, idle_site, {}, {});
  for (int mb = micro_batches - 1; mb >= 0; --mb)
    b.run(use, sites[static_cast<std::size_t>(mb)],
          {b.at(sites[static_cast<std::size_t>(mb)], 0), b.at(sites[static_cast<std::size_t>(mb)], 1)}, {});
  Machine machine = testing::tiny_machine();
  machine.d2h.bytes_per_s = machine.h2d.bytes_per_s = link_bytes_per_s;
  return RankFixture::of(std::move(b).finish(), machine);
}

Program keep_all(RankFixture& f, Bytes capacity, Bytes host) {
  const Placement nothing;
  Program program;
  program.schedule =
      build_schedule({.graph = f.graph, .liveness = f.liveness, .nominal = f.nominal, .placement = nothing}).value();
  program.layout = lay_out(program.schedule, capacity, host, 512);
  program.layout.arenas.front().dynamic_bytes = capacity - program.layout.arenas.front().height_bytes;
  add_contingencies(f.problem, Choice(f.problem.gaps.size(), Action::keep), 1.0, host, 0, program);
  return program;
}

TEST(Contingency, WithoutHostMemoryTheLimitIsTheRoomAboveThePlan) {
  const auto f = routed_chain(4, 64, 200, 1e12);
  ASSERT_NE(f, nullptr);
  // 4 x (32 + 64) MiB planned; 256 MiB above it and the routed slots themselves serve 4 routed storages, each rounded
  // to a granule.
  const Program program = keep_all(*f, (4 * 96 + 256) * kMiB, 0);
  EXPECT_TRUE(program.contingencies.empty());
  EXPECT_NEAR(program.contingency_limit_f, (256.0 + 4 * 32 - 4 * 2) / (4 * 32), 0.02);
}

TEST(Contingency, SwapsRaiseTheLimitAndEveryPrefixVerifies) {
  const auto f = routed_chain(4, 64, 200, 1e12);
  ASSERT_NE(f, nullptr);
  const Program alone = keep_all(*f, (4 * 96 + 64) * kMiB, 0);
  const Program helped = keep_all(*f, (4 * 96 + 64) * kMiB, kGiB);
  ASSERT_FALSE(helped.contingencies.empty());
  EXPECT_GT(helped.contingency_limit_f, alone.contingency_limit_f);
  EXPECT_FALSE(verify_program(f->graph, helped).has_value());
  for (const Contingency& c : helped.contingencies) {
    EXPECT_GE(c.trigger_bytes, 0);
    EXPECT_LT(c.trigger, c.release_at);
    EXPECT_LT(c.prefetch_at, c.needed_at);
  }
}

TEST(Contingency, NoRoomInTheLinkWindowMeansNone) {
  const auto f = routed_chain(4, 64, 20, 1e9);  // 67 ms a copy against 20 ms of idle time
  ASSERT_NE(f, nullptr);
  EXPECT_TRUE(keep_all(*f, (4 * 96 + 64) * kMiB, kGiB).contingencies.empty());
}

TEST(Contingency, NothingRoutedLeavesTheLoadAsItIs) {
  const auto f = RankFixture::of(testing::chain_graph());
  ASSERT_NE(f, nullptr);
  const Program program = keep_all(*f, kGiB, kGiB);
  EXPECT_TRUE(program.contingencies.empty());
  EXPECT_DOUBLE_EQ(program.contingency_limit_f, 1.0);
}

}  // namespace
}  // namespace tidemark
