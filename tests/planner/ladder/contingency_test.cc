#include "planner/ladder/contingency.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "core/dispatch_section.h"
#include "core/dynamic_region.h"
#include "core/hole_granules.h"
#include "core/verify.h"
#include "planner/decide/sites/evaluator.h"
#include "planner/ladder/chunk_search.h"
#include "planner/ladder/dynamic_bound.h"
#include "planner/layout/lay_out.h"
#include "planner/schedule/program_rows.h"
#include "planner/schedule/scheduler.h"
#include "tests/support/rank_fixture.h"
#include "tests/support/tiny_graph.h"

namespace tidemark::ladder {
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
  Machine machine = testing::byte_per_ns_machine();
  machine.d2h.bytes_per_s = machine.h2d.bytes_per_s = link_bytes_per_s;
  return RankFixture::of(std::move(b).finish(), machine);
}

/// Two routed storages per micro-batch, `out` made from `rows` by a recipe of `recipe_ns`.
std::unique_ptr<RankFixture> routed_pair(int micro_batches, double recipe_ns, double link_bytes_per_s) {
  testing::GraphBuilder b;
  const OpTemplateId make = b.timed_op("make", kMsNs), activate = b.timed_op("activate", recipe_ns);
  const OpTemplateId idle = b.timed_op("idle", kMsNs);
  const OpTemplateId use = b.timed_op("use", kMsNs, Lane::compute, OpPhase::backward);
  const BlockId block = b.block(
      "layer",
      {{.name = "rows", .routed_rows = 32, .routed_row_bytes = kMiB, .saved_for_backward = true},
       {.name = "out", .routed_rows = 32, .routed_row_bytes = 2 * kMiB, .saved_for_backward = true}},
      {{.name = "out", .outputs = {1}, .sources = {0}, .steps = {{.op = activate, .reads = {0}, .writes = {1}}}}});
  std::vector<SiteId> sites;
  for (int mb = 0; mb < micro_batches; ++mb) {
    sites.push_back(b.site(block, {.layer = 0, .micro_batch = mb}));
    b.run(make, sites.back(), {}, {b.at(sites.back(), 0)});
    b.run(activate, sites.back(), {b.at(sites.back(), 0)}, {b.at(sites.back(), 1)});
  }
  const SiteId idle_site = b.site(b.block("idle", {}), {});
  for (int i = 0; i < 200; ++i) b.run(idle, idle_site, {}, {});
  for (int mb = micro_batches - 1; mb >= 0; --mb) {
    const SiteId site = sites[static_cast<std::size_t>(mb)];
    b.run(use, site, {b.at(site, 1)}, {});
    b.run(use, site, {b.at(site, 0)}, {});
  }
  Machine machine = testing::byte_per_ns_machine();
  machine.d2h.bytes_per_s = machine.h2d.bytes_per_s = link_bytes_per_s;
  return RankFixture::of(std::move(b).finish(), machine);
}

Program keep_all(RankFixture& f, Bytes dynamic_bytes, Bytes host, bool chunk_dispatch = false) {
  const Plan nothing;
  Program program;
  program.schedule =
      schedule::build_schedule({.graph = f.graph, .liveness = f.liveness, .nominal = f.nominal, .plan = nothing})
          .value();
  program.layout = layout::lay_out(program.schedule, kTiB, host, 512);
  Arena& device = program.layout.arenas.front();
  device.dynamic_bytes = dynamic_bytes;
  device.capacity_bytes = device.height_bytes + dynamic_bytes;
  schedule::add_program_rows(f.graph, program);
  add_contingencies(f.problem, decide::gaps::Choice(f.problem.gaps.size(), Action::keep),
                    {.load = 1.0, .host_budget = host, .chunk_dispatch = chunk_dispatch}, program);
  return program;
}

/// What a storage takes of the region at one half-step, straight from the rule: with a contingency, nothing in its gap,
/// and what its holes hold it does not take.
std::int64_t taken(const Program& program, const HoleGranules& holes, const RoutedResidency& routed, double load,
                   std::int32_t half_step) {
  const Residency& r = program.schedule.residencies[row(routed.residency)];
  if (half_step < r.acquire || half_step >= r.release) return 0;
  const Bytes actual = routed_bytes(routed, load);
  if (actual <= r.bytes) return 0;
  const std::vector<std::int32_t> clock = compute_clock(program.schedule);
  for (const Contingency& c : program.contingencies) {
    if (c.residency != routed.residency || actual <= c.trigger_bytes) continue;
    if (half_step >= 2 * clock[row(c.release_at)] && half_step <= 2 * clock[row(c.prefetch_at)]) return 0;
  }
  const Bytes offset = program.layout.offset_of[row(routed.residency)];
  std::int64_t inside = 0;
  for (Bytes at = 0; at + kPlanGranule <= offset + r.bytes; at += kPlanGranule) inside += at >= offset ? 1 : 0;
  std::int64_t in_holes = 0;
  for (std::size_t s = 0; s < holes.stays().size(); ++s) {
    const RoutedStay& stay = holes.stays()[s];
    if (program.routed[static_cast<std::size_t>(stay.routed)] == routed && stay.begin <= half_step &&
        half_step < stay.end)
      in_holes = holes.count(s);
  }
  return std::max<std::int64_t>(0, (actual + kPlanGranule - 1) / kPlanGranule - inside - in_holes);
}

/// Every half-step, every storage. `load_of` gives each site's load.
template <class LoadOf>
std::int64_t most_taken(const Program& program, LoadOf load_of) {
  HoleGranules holes(program);
  EXPECT_TRUE(holes.assign(program.contingency_limit_f));
  std::int64_t most = 0;
  for (std::int32_t t = 0; t < 2 * program.schedule.compute_tasks; ++t) {
    std::int64_t sum = 0;
    for (const RoutedResidency& routed : program.routed) sum += taken(program, holes, routed, load_of(routed.site), t);
    most = std::max(most, sum);
  }
  return most;
}

std::int64_t region(const Program& program) {
  return dynamic_region(program.layout.arenas.front(), kPlanGranule).count;
}

/// The limit is what the rule says: nothing exceeds the region at it, and unless host memory binds, one step more does.
void expect_exact(const RankFixture& f, const Program& program, bool host_binds = false) {
  const double limit = program.contingency_limit_f;
  const auto all = [](double load) { return [load](SiteId) { return load; }; };
  EXPECT_LE(most_taken(program, all(limit)), region(program));
  if (limit < DynamicBound::kMostLoad && !host_binds) {
    const double beyond = limit + 1.0 / DynamicBound::kSteps;
    EXPECT_GT(most_taken(program, all(beyond)), region(program));
    EXPECT_FALSE(HoleGranules(program).assign(beyond));
  }
  const auto found = verify_program(f.graph, program);
  EXPECT_FALSE(found.has_value()) << found->detail;
}

TEST(Contingency, WithoutHostMemoryTheLimitIsTheDynamicRegion) {
  const auto f = routed_chain(4, 64, 200, 1e12);
  ASSERT_NE(f, nullptr);
  // 4 x 32 MiB, on granules; 128 granules more serve 32 each: twice the slots.
  const Program program = keep_all(*f, 4 * 32 * kMiB, 0);
  EXPECT_TRUE(program.contingencies.empty());
  EXPECT_DOUBLE_EQ(program.contingency_limit_f, 2.0);
  expect_exact(*f, program);
}

// What a larger storage will take later is a hole while the routed one is there.
TEST(Contingency, HolesRaiseTheLimit) {
  testing::GraphBuilder b;
  const OpTemplateId work = b.timed_op("work", kMsNs);
  const BlockId routed = b.block("routed", {{.name = "rows", .routed_rows = 32, .routed_row_bytes = kMiB}});
  const BlockId plain = b.block("plain", {{.name = "plain", .fixed_bytes = 64 * kMiB}});
  const SiteId early = b.site(routed, {.layer = 0}), late = b.site(plain, {.layer = 1});
  b.run(work, early, {}, {b.at(early, 0)});
  b.run(work, early, {b.at(early, 0)}, {});
  b.run(work, late, {}, {b.at(late, 0)});
  b.run(work, late, {b.at(late, 0)}, {});
  const auto f = RankFixture::of(std::move(b).finish(), testing::byte_per_ns_machine());
  ASSERT_NE(f, nullptr);
  // 32 MiB of 64 MiB are a hole while `rows` is there, and 8 MiB more are the region.
  const Program program = keep_all(*f, 8 * kMiB, 0);
  EXPECT_DOUBLE_EQ(program.contingency_limit_f, (32 + 32 + 8) / 32.0);
  expect_exact(*f, program);
  EXPECT_DOUBLE_EQ(keep_all(*f, 0, 0).contingency_limit_f, 1.0);
}

TEST(Contingency, SwapsRaiseTheLimit) {
  const auto f = routed_chain(4, 64, 200, 1e12);
  ASSERT_NE(f, nullptr);
  const Program alone = keep_all(*f, 64 * kMiB, 0);
  const Program helped = keep_all(*f, 64 * kMiB, kGiB);
  ASSERT_FALSE(helped.contingencies.empty());
  EXPECT_GT(helped.contingency_limit_f, 1.3 * alone.contingency_limit_f);
  expect_exact(*f, alone);
  expect_exact(*f, helped);
  const Arena& host = helped.layout.arenas[1];
  EXPECT_GT(host.dynamic_bytes, 0);
  EXPECT_LE(host.height_bytes + host.dynamic_bytes, kGiB);
  for (const Contingency& c : helped.contingencies) {
    EXPECT_EQ(c.kind, Contingency::Kind::swap);
    EXPECT_EQ(c.trigger_bytes, helped.schedule.residencies[row(c.residency)].bytes);
    EXPECT_NE(f->graph.template_of(helped.schedule.residencies[row(c.residency)].storage).routed_rows, 0);
  }
}

TEST(Contingency, NoRoomInTheLinkWindowMeansNone) {
  const auto f = routed_chain(4, 64, 20, 1e9);  // 34 ms a copy against 20 ms of idle time
  ASSERT_NE(f, nullptr);
  EXPECT_TRUE(keep_all(*f, 64 * kMiB, kGiB).contingencies.empty());
}

TEST(Contingency, NothingRoutedLeavesTheLoadAsItIs) {
  const auto f = RankFixture::of(testing::chain_graph());
  ASSERT_NE(f, nullptr);
  const Program program = keep_all(*f, kGiB, kGiB);
  EXPECT_TRUE(program.contingencies.empty());
  EXPECT_DOUBLE_EQ(program.contingency_limit_f, 1.0);
}

TEST(Contingency, RecomputesWhereThereIsNoHostMemory) {
  const auto f = routed_pair(4, 10 * kMsNs, 1e12);
  ASSERT_NE(f, nullptr);
  const Program alone = keep_all(*f, 200 * kMiB, 0);
  ASSERT_FALSE(alone.contingencies.empty());
  EXPECT_EQ(alone.contingency_steps.size(), alone.contingencies.size());
  for (const Contingency& c : alone.contingencies) {
    EXPECT_EQ(c.kind, Contingency::Kind::recompute);
    EXPECT_EQ(f->graph.template_of(alone.schedule.residencies[row(c.residency)].storage).name, "out");
  }
  for (const ContingencyStep& step : alone.contingency_steps) EXPECT_EQ(step.estimate_ns, 10 * 1000 * 1000);
  expect_exact(*f, alone);
}

// Copies cost the compute lane launches and a share of memory bandwidth.
TEST(Contingency, TheCheaperWayIsTaken) {
  const auto kind_of_out = [](double recipe_ns) -> std::optional<Contingency::Kind> {
    const auto f = routed_pair(4, recipe_ns, 1e12);
    const Program program = keep_all(*f, 200 * kMiB, 4 * kGiB);
    expect_exact(*f, program);
    for (const Contingency& c : program.contingencies)
      if (f->graph.template_of(program.schedule.residencies[row(c.residency)].storage).name == "out") return c.kind;
    return std::nullopt;
  };
  EXPECT_EQ(kind_of_out(10 * kMsNs), Contingency::Kind::swap);
  EXPECT_EQ(kind_of_out(1), Contingency::Kind::recompute);
}

/// A dispatch per micro-batch, `received` routed and inside, `rows` routed and kept, and back again at the end with
/// `gradient` inside. Idle ops in between where `apart`.
std::unique_ptr<RankFixture> dispatches(int micro_batches, Bytes row_kib, bool apart) {
  testing::GraphBuilder b;
  const OpTemplateId pack = b.timed_op("pack", kMsNs), idle = b.timed_op("idle", kMsNs);
  const OpTemplateId exchange = b.timed_op("exchange", kMsNs, Lane::intra_comm), sort = b.timed_op("sort", kMsNs);
  const OpTemplateId back = b.timed_op("back", kMsNs, Lane::compute, OpPhase::backward);
  const OpTemplateId add = b.timed_op("add", kMsNs, Lane::compute, OpPhase::backward);
  const OpTemplateId close = b.timed_op("close", kMsNs, Lane::compute, OpPhase::backward);
  const BlockId block = b.block(
      "layer", {{.name = "home", .fixed_bytes = 8 * kMiB},
                {.name = "received", .routed_rows = 32, .routed_row_bytes = kMiB},
                {.name = "rows", .routed_rows = 32, .routed_row_bytes = row_kib * kKiB, .saved_for_backward = true},
                {.name = "gradient", .routed_rows = 32, .routed_row_bytes = 3 * kMiB},
                {.name = "sum", .fixed_bytes = 8 * kMiB}});
  const SiteId idle_site = b.site(b.block("idle", {}), {});
  std::vector<SiteId> sites;
  for (int mb = 0; mb < micro_batches; ++mb) {
    const SiteId site = sites.emplace_back(b.site(block, {.layer = 0, .micro_batch = mb}));
    b.run(pack, site, {}, {b.at(site, 0), b.at(site, 4)});
    b.run(exchange, site, {b.at(site, 0)}, {b.at(site, 1)});
    if (apart) b.run(idle, idle_site, {}, {});
    b.run(sort, site, {b.at(site, 1)}, {b.at(site, 2)});
  }
  for (int mb = micro_batches - 1; mb >= 0; --mb) {
    const SiteId site = sites[static_cast<std::size_t>(mb)];
    b.run(back, site, {b.at(site, 2)}, {b.at(site, 3)});
    if (apart) b.run(idle, idle_site, {}, {});
    b.run(add, site, {b.at(site, 3)}, {b.at(site, 4)});
  }
  // Home and sum stay all the time, so that what is kept finds its place free when chunks begin.
  for (const SiteId site : sites) b.run(close, site, {b.at(site, 0), b.at(site, 4)}, {});
  Graph graph = std::move(b).finish();
  for (const OpTemplateId op : {exchange, sort, back, add}) graph.op_templates[row(op)].routed = true;
  return RankFixture::of(std::move(graph), testing::byte_per_ns_machine());
}

/// Every half-step, every storage, straight from the rule; `in_chunks[i]`: section i is.
template <class LoadOf>
std::int64_t most_taken_in_chunks(const Program& program, LoadOf load_of, const std::vector<char>& in_chunks) {
  HoleGranules holes(program);
  EXPECT_TRUE(holes.assign(program.contingency_limit_f));
  const std::vector<std::int32_t> clock = compute_clock(program.schedule);
  std::vector<char> inside(program.schedule.residencies.size(), 0);
  std::vector<std::int32_t> from(program.schedule.residencies.size());
  for (std::size_t r = 0; r < from.size(); ++r) from[r] = program.schedule.residencies[r].acquire;
  for (std::size_t i = 0; i < in_chunks.size(); ++i) {
    if (in_chunks[i] == 0) continue;
    const SectionParts parts = parts_of(program.schedule, buffers_of(program, program.sections[i]), clock);
    for (const ResidencyId r : parts.inside) inside[row(r)] = 1;
    for (const ResidencyId r : parts.kept) from[row(r)] = std::min(from[row(r)], parts.begin);
  }
  std::int64_t most = 0;
  for (std::int32_t t = 0; t < 2 * program.schedule.compute_tasks; ++t) {
    std::int64_t sum = 0;
    for (const RoutedResidency& routed : program.routed) {
      if (inside[row(routed.residency)] != 0) continue;
      const std::int32_t acquire = program.schedule.residencies[row(routed.residency)].acquire;
      const bool early = from[row(routed.residency)] <= t && t < acquire;
      sum += taken(program, holes, routed, load_of(routed.site), early ? acquire : t);
    }
    most = std::max(most, sum);
  }
  return most;
}

/// Whether the section asks for chunks at these loads: a storage inside it does not fit its slot.
template <class LoadOf>
bool asks(const Program& program, const DispatchSection& section, LoadOf load_of) {
  for (const ChunkBuffer& b : buffers_of(program, section))
    for (const RoutedResidency& routed : program.routed)
      if (routed.residency == b.residency &&
          routed_bytes(routed, load_of(routed.site)) > program.schedule.residencies[row(b.residency)].bytes)
        return true;
  return false;
}

// In chunks where a section asks for it, and wherever else another rank has the group do so; below the first limit,
// whichever way the group decides.
TEST(Contingency, BothLimitsHoldWhateverTheLoadsAndTheGroups) {
  std::mt19937 random(12);
  std::size_t sections = 0;
  double gain = 1;
  for (int round = 0; round < 40; ++round) {
    const auto f = dispatches(2 + static_cast<int>(random() % 4), 64 << random() % 5, round % 2 == 0);
    ASSERT_NE(f, nullptr);
    const Bytes room = (2 + static_cast<Bytes>(random() % 60)) * kMiB;
    const Program program = keep_all(*f, room, static_cast<Bytes>(random() % 3) * 200 * kMiB, true);
    const auto found = verify_program(f->graph, program);
    ASSERT_FALSE(found.has_value()) << found->detail;
    EXPECT_GE(program.collective_limit_f, program.contingency_limit_f);
    sections += program.sections.size();
    gain = std::max(gain, program.collective_limit_f / program.contingency_limit_f);
    for (int trial = 0; trial < 8; ++trial) {
      const bool agreed = trial % 2 == 0;
      const double most = agreed ? program.collective_limit_f : program.contingency_limit_f;
      std::vector<double> loads;
      for (std::size_t s = 0; s < f->graph.sites.size(); ++s)
        loads.push_back(trial < 2 ? most : most * static_cast<double>(random() % 5) / 4);
      const auto load_of = [&](SiteId site) { return loads[row(site)]; };
      std::vector<char> in_chunks;
      for (const DispatchSection& section : program.sections)
        in_chunks.push_back((agreed && asks(program, section, load_of)) || random() % 2 == 0 ? 1 : 0);
      EXPECT_LE(most_taken_in_chunks(program, load_of, in_chunks), region(program))
          << "round " << round << ", trial " << trial;
    }
  }
  EXPECT_GT(sections, 40U);
  EXPECT_GT(gain, 1.2);
}

// A draft that does not hold costs the second limit, never the plan.
TEST(Contingency, SectionsThatDoNotVerifyAreNotTaken) {
  std::mt19937 random(12);
  int taken = 0;
  for (int round = 0; round < 20; ++round) {
    const auto f = dispatches(2 + static_cast<int>(random() % 4), 64 << random() % 5, round % 2 == 0);
    ASSERT_NE(f, nullptr);
    Program program = keep_all(*f, (2 + static_cast<Bytes>(random() % 60)) * kMiB, kGiB, true);
    if (program.sections.empty()) continue;
    ++taken;
    ChunkChoice choice{
        .limit = program.collective_limit_f, .sections = program.sections, .buffers = program.chunk_buffers};
    EXPECT_TRUE(adopt_chunks(f->graph, choice, program));
    choice.buffers.front().offset = program.layout.arenas.front().height_bytes;
    EXPECT_FALSE(adopt_chunks(f->graph, choice, program));
  }
  EXPECT_GT(taken, 5);
}

// Chunks are worth it only where inside storages bind: without them the one limit is the other.
TEST(Contingency, NothingInsideMeansNoSections) {
  const auto f = routed_chain(4, 64, 200, 1e12);
  ASSERT_NE(f, nullptr);
  const Program program = keep_all(*f, 64 * kMiB, kGiB, true);
  EXPECT_TRUE(program.sections.empty());
  EXPECT_DOUBLE_EQ(program.collective_limit_f, program.contingency_limit_f);
}

// Whatever the loads of the sites are, none above the limit.
TEST(Contingency, TheLimitHoldsForEverySiteOnItsOwn) {
  std::mt19937 random(11);
  int helped = 0;
  for (int round = 0; round < 40; ++round) {
    const int micro_batches = 2 + static_cast<int>(random() % 4);
    const auto f = round % 2 == 0 ? routed_pair(micro_batches, kMsNs, 1e12)
                                  : routed_chain(micro_batches, 1 + static_cast<Bytes>(random() % 9), 150, 1e12);
    const Bytes room = (10 + static_cast<Bytes>(random() % 300)) * kMiB;
    const Bytes host = static_cast<Bytes>(random() % 3) * 200 * kMiB;
    const Program program = keep_all(*f, room, host);
    expect_exact(*f, program, host > 0);
    helped += program.contingencies.empty() ? 0 : 1;
    for (int trial = 0; trial < 5; ++trial) {
      std::vector<double> loads;
      for (std::size_t s = 0; s < f->graph.sites.size(); ++s) {
        const double share = static_cast<double>(random() % 5) / 4;
        loads.push_back(share * program.contingency_limit_f);
      }
      EXPECT_LE(most_taken(program, [&](SiteId site) { return loads[row(site)]; }), region(program));
    }
  }
  EXPECT_GT(helped, 10);
}

}  // namespace
}  // namespace tidemark::ladder
