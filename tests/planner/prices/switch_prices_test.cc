// Every line against the job with its switch set by hand and played another way, and against closed forms.

#include "planner/prices/switch_prices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "planner/cost/op_prices.h"
#include "planner/graph_build/liveness.h"
#include "planner/graph_build/static_memory.h"
#include "planner/graph_build/step_graph.h"
#include "planner/prices/host_switches.h"
#include "planner/prices/schedule_parts.h"
#include "planner/simulate/keep_all_step.h"
#include "tests/support/pangu.h"

namespace tidemark::prices {
namespace {

using graph_build::JobSpec;

/// Experts over two nodes of two devices, two ranks of two chunks.
JobSpec spread_job() {
  JobSpec job = testing::small_job();
  graph_build::ParallelSpec& p = job.parallel;
  p.tensor = 2;
  p.sequence_parallel = true;
  p.expert = 4;
  p.data = 4;
  p.virtual_pipeline = 2;
  p.global_batch = 16;
  testing::fill_slots(job);
  return job;
}

Machine small_nodes() {
  Machine machine = testing::ascend_910b();
  machine.chip.sheet.devices_per_node = 4;
  return machine;
}

PriceTable table_of(const JobSpec& job, const Machine& machine, int threads = 0) {
  EXPECT_TRUE(graph_build::find_problems(job).empty());
  auto table = price_switches({.job = job, .machine = machine, .threads = threads});
  EXPECT_TRUE(table.ok()) << table.error().message;
  return table.value();
}

SwitchPrice line_of(const PriceTable& table, std::string_view name) {
  const auto found = std::ranges::find(table.prices, name, &SwitchPrice::name);
  EXPECT_NE(found, table.prices.end()) << name;
  return *found;
}

/// Step and peak of a job with everything kept, by the planner's own parts.
SwitchSide by_hand(const JobSpec& job, const Machine& machine) {
  const std::vector<double> loads(static_cast<std::size_t>(job.parallel.pipeline), 1.0);
  const auto step = simulate::keep_all_step(job, machine, loads, 1.0).value();
  SwitchSide side{.step_ns = step.timing.step_ns};
  for (const Graph& graph : step.graphs)
    side.peak_bytes = std::max(side.peak_bytes, graph_build::analyse_liveness(graph).peak_bytes);
  side.peak_bytes += graph_build::reserve_memory(machine, job.parallel).total();
  return side;
}

void expect_same(const SwitchSide& side, const SwitchSide& hand) {
  EXPECT_EQ(side.step_ns, hand.step_ns);
  EXPECT_EQ(side.peak_bytes, hand.peak_bytes);
}

TEST(SwitchPrices, OfTheJobsKeysAreTheJobWithTheKeySet) {
  const Machine machine = small_nodes();
  const JobSpec job = spread_job();
  const PriceTable table = table_of(job, machine);
  const SwitchSide own = by_hand(job, machine);
  expect_same(table.own, own);

  JobSpec other = job;
  other.parallel.hierarchical_expert_communication = true;
  expect_same(*line_of(table, "hierarchical exchange").on, by_hand(other, machine));
  other = job;
  other.parallel.overlap_forward_backward = true;
  expect_same(*line_of(table, "forward beside backward").on, by_hand(other, machine));
  other = job;
  other.parallel.expert_exchange_parts = 2;
  expect_same(*line_of(table, "exchange in parts").on, by_hand(other, machine));
  const KeptStep step = KeptStep::build({.job = job, .machine = machine}).value();
  other = ScheduleParts(step).balanced(job, 1, graph_build::StagePlacement::looped);
  EXPECT_EQ(other.parallel.virtual_pipeline, 1);
  expect_same(*line_of(table, "chunks of a rank").off, by_hand(other, machine));
  for (const char* name : {"hierarchical exchange", "forward beside backward", "exchange in parts"})
    expect_same(*line_of(table, name).off, own);
  expect_same(*line_of(table, "chunks of a rank").on, own);
}

TEST(SwitchPrices, AKeyThatIsSetIsSwitchedOff) {
  const Machine machine = small_nodes();
  JobSpec job = spread_job();
  job.parallel.hierarchical_expert_communication = true;
  const SwitchPrice line = line_of(table_of(job, machine), "hierarchical exchange");
  expect_same(*line.on, by_hand(job, machine));
  expect_same(*line.off, by_hand(spread_job(), machine));
}

/// One chunk with pairs of passes is nothing to compare with.
TEST(SwitchPrices, OfChunksAreWithoutOverlap) {
  const Machine machine = small_nodes();
  JobSpec job = spread_job();
  job.parallel.overlap_forward_backward = true;
  const SwitchPrice line = line_of(table_of(job, machine), "chunks of a rank");
  expect_same(*line.on, by_hand(spread_job(), machine));
  EXPECT_NE(line.note.find("on both sides"), std::string::npos);
}

TEST(SwitchPrices, OfBindingAreThePublishedRatioWhereTheHostIsAllThereIs) {
  Machine slow = small_nodes();
  slow.chip.rates.launch_s = 1;
  const SwitchPrice line = line_of(table_of(testing::small_job(), slow), "core binding of the host");
  EXPECT_NEAR(static_cast<double>(line.off->step_ns) / static_cast<double>(line.on->step_ns), 2887.0 / 2497.0, 1e-4);
  slow.chip.rates.launch_s *= 2887.0 / 2497.0;
  EXPECT_EQ(line.off->step_ns, by_hand(testing::small_job(), slow).step_ns);
}

/// One device and no other: the update is all that changes, and nothing waits beside it.
TEST(SwitchPrices, OfAHostOptimizerAreItsBytes) {
  JobSpec job = testing::small_job();
  job.parallel.pipeline = 1;
  testing::fill_slots(job);
  const Machine machine = small_nodes();
  const SwitchPrice line = line_of(table_of(job, machine), "optimizer on the host");
  const graph_build::StaticMemory state = graph_build::static_memory(job, 0);
  EXPECT_EQ(line.on->host_bytes, state.optimizer_bytes);
  EXPECT_LT(line.on->peak_bytes, line.off->peak_bytes);
  EXPECT_GE(line.on->peak_bytes, line.off->peak_bytes - state.optimizer_bytes);

  const Graph graph = graph_build::build_step_graph(job, machine, 0, 1.0).value();
  const std::vector<std::int64_t> ns = cost::op_durations(graph, machine);
  double device_ns = 0;
  for (std::size_t op = 0; op < ns.size(); ++op)
    if (graph.template_of(id_of<OpId>(op)).phase == OpPhase::optimizer) device_ns += static_cast<double>(ns[op]);
  const auto elements = static_cast<double>(state.optimizer_bytes) / 12;
  const double host_ns = 1e9 * elements * (4 + 2 * 12 + 2) / 23.4e9;
  EXPECT_NEAR(static_cast<double>(line.on->step_ns - line.off->step_ns), host_ns - device_ns, 1e-4 * host_ns);
}

TEST(SwitchPrices, OfOneLoaderAreItsBroadcasts) {
  const JobSpec job = spread_job();
  const SwitchPrice line = line_of(table_of(job, small_nodes()), "one data loader a tensor group");
  const Bytes batch = job.parallel.micro_batch * job.model.sequence * kLoadedTokenBytes;
  EXPECT_EQ(line.off->host_bytes, 4 * batch);
  EXPECT_EQ(line.on->host_bytes, 4 * batch / 2);
  // Four tensors, one hop of latency each at least, for every micro-batch.
  const auto least_ns = static_cast<double>(4 * job.parallel.micro_batches()) * 22e3;
  EXPECT_GE(static_cast<double>(line.on->step_ns - line.off->step_ns), least_ns);
}

/// Even stages, four ranks, plain 1F1B.
JobSpec even_job() {
  JobSpec job{.model = {.name = "even",
                        .hidden = 1024,
                        .vocabulary = 256,
                        .sequence = 1024,
                        .layers = testing::layer_kinds(16, 0),
                        .attention = {.kind = graph_build::AttentionSpec::Kind::gqa,
                                      .heads = 16,
                                      .kv_heads = 16,
                                      .head_dim = 64},
                        .dense_width = 4096},
              .parallel = {.pipeline = 4, .data = 1, .micro_batch = 1, .global_batch = 16},
              .device = "ascend-910b-64g"};
  testing::fill_slots(job);
  return job;
}

TEST(SwitchPrices, OfSchedulesOrderAsTheirPapersSay) {
  const PriceTable table = table_of(even_job(), testing::ascend_910b());
  const SwitchPrice split = line_of(table, "dX apart from dW"), h1 = line_of(table, "zero bubble ZB-H1"),
                    h2 = line_of(table, "zero bubble ZB-H2"), v = line_of(table, "zero bubble V (ZBV)"),
                    half = line_of(table, "V-Half"), third = line_of(table, "V-Min");
  for (const SwitchPrice* line : {&split, &h1, &h2, &v, &half, &third}) {
    ASSERT_TRUE(line->on) << line->name << ": " << line->why_not;
    EXPECT_EQ(line->off->step_ns, split.off->step_ns);
    EXPECT_EQ(line->off->peak_bytes, split.off->peak_bytes);
  }
  EXPECT_LT(split.on->step_ns, split.off->step_ns);
  EXPECT_EQ(split.on->setting, "dX sent before dW");
  EXPECT_LT(h1.on->bubble_share, h1.off->bubble_share);
  EXPECT_LT(v.on->bubble_share, v.off->bubble_share);
  EXPECT_GT(h2.on->peak_bytes, h1.on->peak_bytes);
  EXPECT_LT(half.on->peak_bytes, half.off->peak_bytes);
  EXPECT_LT(third.on->peak_bytes, half.on->peak_bytes);
}

TEST(SwitchPrices, NeedAPipelineForItsSchedules) {
  JobSpec job = testing::small_job();
  job.parallel.pipeline = 1;
  testing::fill_slots(job);
  for (const SwitchPrice& price : table_of(job, testing::ascend_910b()).prices)
    if (price.basis == Basis::passes || price.name == "chunks of a rank") {
      EXPECT_FALSE(price.on) << price.name;
      EXPECT_EQ(price.why_not, "one rank has no pipeline") << price.name;
    }
}

/// The same lines in the same order for every job, each with both sides and a source or with a reason.
TEST(SwitchPrices, EveryLineHasBothSidesOrAReason) {
  std::set<std::vector<std::string>> lists;
  for (const JobSpec& job : {testing::small_job(), spread_job(), even_job()}) {
    std::vector<std::string> names;
    for (const SwitchPrice& price : table_of(job, small_nodes()).prices) {
      names.emplace_back(price.name);
      EXPECT_EQ(price.off.has_value(), price.on.has_value()) << price.name;
      EXPECT_EQ(price.why_not.empty(), price.on.has_value()) << price.name;
      EXPECT_FALSE(price.constant.empty()) << price.name;
      if (!price.on) continue;
      EXPECT_GT(price.on->step_ns, 0) << price.name;
      EXPECT_GT(price.off->peak_bytes, 0) << price.name;
      EXPECT_NE(price.on->setting, price.off->setting) << price.name;
    }
    lists.insert(names);
  }
  EXPECT_EQ(lists.size(), 1U);
}

TEST(SwitchPrices, DoNotDependOnTheThreadCount) {
  const PriceTable one = table_of(spread_job(), small_nodes(), 1), many = table_of(spread_job(), small_nodes());
  ASSERT_EQ(one.prices.size(), many.prices.size());
  for (std::size_t i = 0; i < one.prices.size(); ++i) {
    if (!one.prices[i].on) continue;
    expect_same(*one.prices[i].on, *many.prices[i].on);
    expect_same(*one.prices[i].off, *many.prices[i].off);
  }
}

}  // namespace
}  // namespace tidemark::prices
