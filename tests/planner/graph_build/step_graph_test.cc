#include "planner/graph_build/step_graph.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <span>

#include "planner/cost/op_prices.h"
#include "planner/graph_build/liveness.h"
#include "planner/graph_build/load_model.h"
#include "planner/graph_build/load_shape.h"
#include "planner/graph_build/pipeline_schedule.h"
#include "planner/graph_build/site_loads.h"
#include "planner/graph_build/static_memory.h"
#include "planner/simulate/simulator.h"
#include "tests/support/graph_checks.h"
#include "tests/support/pangu.h"

namespace tidemark::graph_build {
namespace {

using testing::ascend_910b;
using testing::pangu_job;

Graph build(const JobSpec& job, std::int32_t rank, double load = 1.0) {
  auto graph = build_step_graph(job, ascend_910b(), rank, load);
  EXPECT_TRUE(graph.ok());
  return std::move(graph).value();
}

std::vector<Graph> build_all(const JobSpec& job) {
  std::vector<Graph> graphs;
  for (std::int32_t rank = 0; rank < job.parallel.pipeline; ++rank) graphs.push_back(build(job, rank));
  return graphs;
}

double gib(Bytes bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}

PipelineShape shape_of(const JobSpec& job) {
  return {.ranks = job.parallel.pipeline,
          .chunks = job.parallel.virtual_pipeline,
          .micro_batches = static_cast<std::int32_t>(job.parallel.micro_batches()),
          .overlap = job.parallel.overlap_forward_backward};
}

// ---- jobs ---------------------------------------------------------------------------------------------------------

struct NamedJob {
  std::string name;
  JobSpec job;
};

NamedJob variant(std::string name, JobSpec job, const std::function<void(JobSpec&)>& change) {
  change(job);
  return {std::move(name), std::move(job)};
}

/// Stage of the last layer along the pipeline.
std::int32_t last_layer_stage(const JobSpec& job) {
  std::int32_t last = -1;
  for (std::size_t chunk = 0; chunk < job.parallel.slots.front().size(); ++chunk)
    for (std::size_t rank = 0; rank < job.parallel.slots.size(); ++rank)
      for (const Slot& slot : job.parallel.slots[rank][chunk])
        if (slot.kind == Slot::Kind::layer) last = static_cast<std::int32_t>(chunk * job.parallel.slots.size() + rank);
  return last;
}

/// Four layers on four stages, the module alone on the fifth and last, the main head on that of the last layer.
JobSpec head_apart_job() {
  JobSpec job = testing::small_job();
  job.parallel.pipeline = 5;
  testing::fill_slots(job);
  job.parallel.head_stage = last_layer_stage(job);
  return job;
}

/// One job per switch that changes the shape of the graph.
std::vector<NamedJob> all_jobs() {
  const JobSpec small = testing::small_job();
  const JobSpec llama = testing::llama3_70b_job();
  const JobSpec mixtral = testing::mixtral_job();
  const auto pangu = [](std::string name, const std::function<void(JobSpec&)>& change) {
    JobSpec job = pangu_job();
    job.parallel.global_batch = 48 * 2 * 32;  // two groups of micro-batches are enough
    return variant(std::move(name), std::move(job), change);
  };
  std::vector<NamedJob> jobs{
      {"small", small},
      {"llama", llama},
      {"mixtral", mixtral},
      pangu("pangu", [](JobSpec&) {}),
      pangu("no overlap", [](JobSpec& j) { j.parallel.overlap_forward_backward = false; }),
      pangu("no sequence parallelism", [](JobSpec& j) { j.parallel.sequence_parallel = false; }),
      pangu("flat dispatch", [](JobSpec& j) { j.parallel.hierarchical_expert_communication = false; }),
      pangu("probabilities folded",
            [](JobSpec& j) { j.model.moe.probabilities = MoeSpec::Probabilities::in_activation; }),
      pangu("V viewed", [](JobSpec& j) { j.model.attention.v_own_storage = false; }),
      pangu("V padded", [](JobSpec& j) { j.model.attention.v_padded = true; }),
      pangu("queries projected directly", [](JobSpec& j) { j.model.attention.q_lora_rank = 0; }),
      pangu("exchange in 2 parts", [](JobSpec& j) { j.parallel.expert_exchange_parts = 2; }),
      pangu("exchange in 3 parts, flat, no overlap",
            [](JobSpec& j) {
              j.parallel.expert_exchange_parts = 3;
              j.parallel.hierarchical_expert_communication = j.parallel.overlap_forward_backward = false;
            }),
      pangu("pre-norm", [](JobSpec& j) { j.model.norm = NormPlacement::pre; }),
      pangu("no shared expert", [](JobSpec& j) { j.model.moe.shared_width = 0; }),
      pangu("experts split by tensor", [](JobSpec& j) { j.parallel.tensor_extends_expert = false; }),
      pangu("experts split, tokens whole",
            [](JobSpec& j) { j.parallel.tensor_extends_expert = j.parallel.sequence_parallel = false; }),
      pangu("context parallel", [](JobSpec& j) { j.parallel.context = 4; }),
      pangu("tied", [](JobSpec& j) { j.model.tied_embedding = true; }),
      variant("llama, V viewed", llama, [](JobSpec& j) { j.model.attention.v_own_storage = false; }),
      variant("llama, GELU, tied", llama,
              [](JobSpec& j) {
                j.model.activation = Activation::gelu;
                j.model.tied_embedding = true;
              }),
      variant("mixtral, one node", mixtral, [](JobSpec& j) { j.parallel.expert = 1; }),
      variant("mixtral, exchange in 4 parts", mixtral, [](JobSpec& j) { j.parallel.expert_exchange_parts = 4; }),
      variant("mixtral, hierarchical", mixtral,
              [](JobSpec& j) { j.parallel.hierarchical_expert_communication = true; }),
      variant("small, fewer micro-batches than ranks", small, [](JobSpec& j) { j.parallel.global_batch = 1; }),
      variant("small, three MTP modules", small,
              [](JobSpec& j) {
                j.model.mtp_layers = 3;
                testing::fill_slots(j);
              }),
      variant("small, overlapped", small, [](JobSpec& j) { j.parallel.overlap_forward_backward = true; }),
      variant("small, one rank", small,
              [](JobSpec& j) {
                j.parallel.pipeline = 1;
                testing::fill_slots(j);
              }),
      variant("small, one rank in chunks, tied", small,
              [](JobSpec& j) {
                j.parallel.pipeline = 1;
                j.parallel.virtual_pipeline = 4;
                j.model.tied_embedding = true;
                testing::fill_slots(j);
              }),
      variant("small, chunks without layers", small,
              [](JobSpec& j) {
                j.parallel.virtual_pipeline = 3;  // four layers on six stages
                testing::fill_slots(j);
              }),
      variant("small, plain data parallelism", small,
              [](JobSpec& j) {
                j.parallel.data = 2;
                j.parallel.global_batch = 8;
                j.parallel.distributed_optimizer = false;
              }),
      pangu("main head on rank 14", [](JobSpec& j) { j.parallel.head_stage = 30; }),
      pangu("main head on rank 14, tied, no overlap",
            [](JobSpec& j) {
              j.parallel.head_stage = 30;
              j.model.tied_embedding = true;
              j.parallel.overlap_forward_backward = false;
            }),
      variant("small, head apart", head_apart_job(), [](JobSpec&) {}),
      variant("small, head apart from three MTP modules, one for each", head_apart_job(),
              [](JobSpec& j) {
                j.model.mtp_layers = 3;
                testing::fill_slots(j);
                j.parallel.head_stage = last_layer_stage(j);
              }),
      variant("llama, QK norm, biases and windows", llama,
              [](JobSpec& j) {
                j.model.attention.qk_norm = j.model.attention.qkv_bias = true;
                j.model.attention.window = 1024;
                j.model.attention.global_every = 6;
                j.model.activation = Activation::geglu;
              }),
      variant("mixtral, fp8", mixtral, [](JobSpec& j) { j.parallel.compute = ParallelSpec::Compute::fp8; }),
      pangu("fp8, exchange in 2 parts",
            [](JobSpec& j) {
              j.parallel.compute = ParallelSpec::Compute::fp8;
              j.parallel.expert_exchange_parts = 2;
            }),
      pangu("gated shared expert", [](JobSpec& j) { j.model.moe.shared_gate = true; }),
      variant("mixtral, gradients sharded", mixtral, [](JobSpec& j) { j.parallel.sharded_gradients = true; }),
      variant("small, one rank, all sharded, two modules", small,
              [](JobSpec& j) {
                j.parallel.pipeline = 1;
                j.parallel.data = 4;
                j.parallel.global_batch = 8;
                j.parallel.sharded_gradients = j.parallel.sharded_parameters = true;
                j.model.mtp_layers = 2;
                testing::fill_slots(j);
              }),
      variant("llama, one rank, all sharded, tied", llama,
              [](JobSpec& j) {
                j.parallel.tensor = j.parallel.pipeline = j.parallel.virtual_pipeline = 1;
                j.parallel.sequence_parallel = false;
                j.parallel.data = 128;
                j.parallel.global_batch = 128;
                j.parallel.sharded_gradients = j.parallel.sharded_parameters = true;
                j.model.tied_embedding = true;
                testing::fill_slots(j);
              }),
      variant("small, head on a chunk of the last rank", testing::small_job(),
              [](JobSpec& j) {
                j.parallel.virtual_pipeline = 4;  // four layers on the first four of eight stages
                testing::fill_slots(j);
                j.parallel.head_stage = last_layer_stage(j);
              }),
  };
  return jobs;
}

TEST(StepGraph, EveryJobIsAConsistentGraph) {
  for (const auto& [name, job] : all_jobs()) {
    const auto problems = find_problems(job);
    ASSERT_TRUE(problems.empty()) << name << ": " << problems.front().key << ": " << problems.front().message;
    const std::vector<Graph> graphs = build_all(job);
    for (const Graph& graph : graphs) EXPECT_EQ(testing::check_graph(graph), "") << name << ", rank " << graph.rank;
    EXPECT_EQ(testing::check_messages(graphs), "") << name;
  }
}

TEST(StepGraph, EveryJobRunsToItsEnd) {
  for (const auto& [name, job] : all_jobs()) {
    std::vector<simulate::RankWork> work;
    for (const Graph& graph : build_all(job))
      work.push_back(simulate::work_of(graph, cost::op_durations(graph, ascend_910b())));
    const auto timing = simulate::simulate_step(work);
    ASSERT_TRUE(timing.ok()) << name << ": " << timing.error().message;
    EXPECT_GT(timing.value().step_ns, 0) << name;
  }
}

TEST(StepGraph, StaticStoragesEqualStaticMemory) {
  for (const auto& [name, job] : all_jobs()) {
    for (const Graph& graph : build_all(job)) {
      std::map<StorageRole, Bytes> bytes;
      for (std::size_t s = 0; s < graph.storages.size(); ++s) {
        bytes[graph.template_of(id_of<StorageId>(s)).role] += graph.storages[s].bytes;
      }
      const StaticMemory expected = static_memory(job, graph.rank);
      EXPECT_EQ(bytes[StorageRole::parameter], expected.parameter_bytes) << name;
      EXPECT_EQ(bytes[StorageRole::gradient], expected.gradient_bytes) << name;
      EXPECT_EQ(bytes[StorageRole::optimizer_state], expected.optimizer_bytes) << name;
    }
  }
}

/// Bytes of what persists and may be swapped.
Bytes offloadable_bytes(const Graph& graph, std::span<const StorageId> storages) {
  Bytes bytes = 0;
  for (const StorageId s : storages)
    if (graph.template_of(s).persists() && graph.template_of(s).swappable) bytes += graph.storages[row(s)].bytes;
  return bytes;
}

TEST(StepGraph, WhatMayBeOffloadedEqualsStaticMemory) {
  for (const auto& [name, job] : all_jobs()) {
    for (const Graph& graph : build_all(job)) {
      std::vector<StorageId> all;
      for (std::size_t s = 0; s < graph.storages.size(); ++s) all.push_back(id_of<StorageId>(s));
      Bytes largest = 0;
      for (std::size_t op = 0; op < graph.ops.size(); ++op) {
        std::set<StorageId> touched;
        for (const Access& access : graph.accesses_of(id_of<OpId>(op))) touched.insert(access.storage);
        const std::vector<StorageId> list(touched.begin(), touched.end());
        largest = std::max(largest, offloadable_bytes(graph, list));
      }
      const StaticMemory expected = static_memory(job, graph.rank);
      EXPECT_EQ(offloadable_bytes(graph, all), expected.offloadable_bytes) << name;
      EXPECT_EQ(largest, expected.largest_update_bytes) << name;
      EXPECT_GT(largest, 0) << name;
    }
  }
}

// ---- passes -------------------------------------------------------------------------------------------------------

/// Most (chunk, micro-batch) pairs of a graph that are between the first op of their forward pass and the last of their
/// backward pass, for chunks with layers.
std::int64_t most_in_flight(const Graph& graph) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::pair<std::size_t, std::size_t>> span;
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    const Site& site = graph.sites[row(graph.ops[op].site)];
    if (site.micro_batch < 0) continue;
    span.try_emplace({site.chunk, site.micro_batch}, op, op).first->second.second = op;
  }
  std::map<std::size_t, std::int64_t> change;
  for (const auto& [key, ends] : span) ++change[ends.first], --change[ends.second + 1];
  std::int64_t held = 0, most = 0;
  for (const auto& [op, delta] : change) most = std::max(most, held += delta);
  return most;
}

TEST(StepGraph, PassesInFlightEqualTheClosedForm) {
  for (const auto& [name, job] : all_jobs()) {
    for (const Graph& graph : build_all(job)) {
      EXPECT_EQ(most_in_flight(graph), in_flight_passes(shape_of(job), graph.rank)) << name << ", rank " << graph.rank;
    }
  }
  for (const std::int32_t rank : {0, 2, 15}) {
    EXPECT_EQ(most_in_flight(build(pangu_job(), rank)), 48 - 2 * rank);
  }
}

TEST(StepGraph, ReceivesComeFirstInAPass) {
  const Graph graph = build(pangu_job(), 3);
  for (const Message& message : graph.messages) {
    if (message.is_send) continue;
    const Access& write = graph.accesses_of(message.op).front();
    EXPECT_EQ(write.kind, AccessKind::write);
    EXPECT_EQ(write.version, 1);
  }
  // One activation and one gradient in, one of each out, per chunk and micro-batch.
  EXPECT_EQ(graph.messages.size(), 4U * 2 * 64);
  EXPECT_EQ(build(pangu_job(), 0).messages.size(), (4U * 2 - 2) * 64);
}

TEST(StepGraph, OverlapInterleavesAForwardWithABackward) {
  const Graph graph = build(pangu_job(), 4);
  std::int64_t switches = 0;
  OpPhase last = OpPhase::forward;
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    const OpPhase phase = graph.template_of(id_of<OpId>(op)).phase;
    if (phase != OpPhase::forward && phase != OpPhase::backward) continue;
    switches += phase != last ? 1 : 0;
    last = phase;
  }
  JobSpec job = pangu_job();
  job.parallel.overlap_forward_backward = false;
  EXPECT_GT(switches, 10 * 2 * 85);
  EXPECT_EQ(build(job, 4).ops.size(), graph.ops.size());
}

/// Share of the steady part's wall time, on one rank with its inputs always there, that compute waits.
TEST(StepGraph, OverlapHidesSteadyCommunication) {
  for (const bool overlap : {false, true}) {
    JobSpec job = pangu_job();
    job.parallel.overlap_forward_backward = overlap;
    const Graph graph = build(job, 8);
    const std::vector<std::int64_t> durations = cost::op_durations(graph, ascend_910b());
    const OpWaits waits = analyse_waits(graph);
    std::vector<std::int64_t> end(graph.ops.size());
    std::array<std::int64_t, kLaneCount> free_at{};
    std::int64_t from = 0, busy = 0;
    for (std::size_t op = 0; op < graph.ops.size() * 6 / 10; ++op) {
      const auto lane = static_cast<std::size_t>(graph.template_of(id_of<OpId>(op)).lane);
      std::int64_t start = free_at[lane];
      for (std::int32_t w = waits.first[op]; w < waits.first[op + 1]; ++w) {
        start = std::max(start, end[row(waits.predecessors[static_cast<std::size_t>(w)])]);
      }
      end[op] = free_at[lane] = start + durations[op];
      if (op < graph.ops.size() * 4 / 10) from = free_at[0];
      if (op >= graph.ops.size() * 4 / 10 && lane == 0) busy += durations[op];
    }
    const double exposed = 1 - static_cast<double>(busy) / static_cast<double>(free_at[0] - from);
    EXPECT_GT(exposed, overlap ? 0.0 : 0.15);
    EXPECT_LT(exposed, overlap ? 0.02 : 0.5);
  }
}

TEST(StepGraph, EveryWeightGetsAGradientFromEveryMicroBatch) {
  const Graph graph = build(pangu_job(), 0);
  std::map<StorageId, std::int32_t> writes;
  for (const Access& access : graph.accesses) {
    if (access.kind == AccessKind::write) ++writes[access.storage];
  }
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    const StorageTemplate& t = graph.template_of(id_of<StorageId>(s));
    const std::int32_t count = writes[id_of<StorageId>(s)];
    if (t.role == StorageRole::gradient) {
      EXPECT_GE(count, 64) << t.name;
    } else if (t.role == StorageRole::parameter) {
      EXPECT_EQ(count, 2) << t.name;  // update, all-gather
    } else if (t.role == StorageRole::optimizer_state) {
      EXPECT_EQ(count, 1) << t.name;
    }
  }
}

// ---- heads --------------------------------------------------------------------------------------------------------

/// Ops of a name, by rank.
std::vector<std::int64_t> count_ops(const JobSpec& job, const std::string& name) {
  std::vector<std::int64_t> counts;
  for (const Graph& graph : build_all(job))
    counts.push_back(std::ranges::count_if(
        graph.ops, [&](const Op& op) { return graph.op_templates[row(op.op_template)].name == name; }));
  return counts;
}

TEST(StepGraph, AHeadApartRunsWhereItIs) {
  const JobSpec job = head_apart_job();
  ASSERT_EQ(job.parallel.head_stage, 3);
  using Counts = std::vector<std::int64_t>;
  EXPECT_EQ(count_ops(job, "head.logits"), (Counts{0, 0, 0, 6, 0}));
  EXPECT_EQ(count_ops(job, "mtp.head.logits"), (Counts{0, 0, 0, 0, 6}));
  // Each rank with a copy of the output matrix adds up its gradients with the other; the embedding has its own.
  EXPECT_EQ(count_ops(job, "gradient.head_twin_all_reduce"), (Counts{0, 0, 0, 1, 1}));
  EXPECT_EQ(count_ops(job, "gradient.embedding_twin_all_reduce"), (Counts{1, 0, 0, 0, 1}));
  JobSpec beside = job;
  beside.parallel.head_stage = -1;
  EXPECT_EQ(count_ops(beside, "head.logits"), (Counts{0, 0, 0, 0, 6}));
  EXPECT_EQ(count_ops(beside, "gradient.head_twin_all_reduce"), (Counts{0, 0, 0, 0, 0}));
}

TEST(StepGraph, AHeadApartNeedsTheOutputMatrixTwice) {
  const JobSpec job = head_apart_job();
  JobSpec beside = job;
  beside.parallel.head_stage = -1;
  const auto parameters = [](const JobSpec& j, std::int32_t rank) {
    const StaticMemory memory = static_memory(j, rank);
    return memory.dense_parameters + memory.expert_parameters;
  };
  const std::int64_t matrix = job.model.vocabulary * job.model.hidden, norm = job.model.hidden;
  EXPECT_EQ(parameters(job, 3) - parameters(beside, 3), matrix + norm);
  EXPECT_EQ(parameters(job, 4) - parameters(beside, 4), -norm);
  for (const std::int32_t rank : {0, 1, 2}) EXPECT_EQ(parameters(job, rank), parameters(beside, rank));
}

/// The last layer's backward pass begins with both gradients of what it wrote: the one that is sent back, and the
/// head's.
TEST(StepGraph, AHeadApartAddsToTheGradientThatComesBack) {
  const Graph graph = build(head_apart_job(), 3);
  std::map<StorageId, std::vector<std::string>> writers;
  for (std::size_t op = 0; op < graph.ops.size(); ++op)
    for (const Access& access : graph.accesses_of(id_of<OpId>(op)))
      if (access.kind == AccessKind::write)
        writers[access.storage].push_back(graph.op_templates[row(graph.ops[op].op_template)].name);
  std::int64_t both = 0;
  for (const auto& [storage, names] : writers)
    both += names == std::vector<std::string>{"pipeline.receive_gradient", "head.final_norm_backward"} ? 1 : 0;
  EXPECT_EQ(both, 6);  // one a micro-batch
}

// ---- memory -------------------------------------------------------------------------------------------------------

TEST(StepGraph, KeepAllPeakOfStageTwo) {
  const Graph graph = build(pangu_job(), 2);
  const Liveness liveness = analyse_liveness(graph);
  const double saved = 44 * 2 * 1234.75 / 1024;
  const double activations = gib(liveness.peak_bytes - static_memory(pangu_job(), 2).total());
  // The last forward pass is not complete when its pair starts to free; transients come on top.
  EXPECT_NEAR(activations, saved, 2.0);
}

/// Of storages that hold logits, most at one time.
double logits_gib(const JobSpec& job, std::int32_t rank) {
  const Graph graph = build(job, rank);
  Liveness liveness = analyse_liveness(graph);
  std::vector<Bytes> change(graph.ops.size() + 1, 0);
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    if (graph.template_of(id_of<StorageId>(s)).name.find("logits") == std::string::npos) continue;
    change[static_cast<std::size_t>(liveness.ranges[s].begin)] += graph.storages[s].bytes;
    change[static_cast<std::size_t>(liveness.ranges[s].end)] -= graph.storages[s].bytes;
  }
  Bytes held = 0, most = 0;
  for (const Bytes delta : change) most = std::max(most, held += delta);
  return gib(most);
}

TEST(StepGraph, LogitsAreOfHeadsAndOfMicroBatchesInFlight) {
  JobSpec together = pangu_job();
  together.parallel.head_stage = -1;
  EXPECT_GE(logits_gib(together, 15), 3.5);
  EXPECT_LE(logits_gib(together, 15), 4.7);
  EXPECT_EQ(logits_gib(together, 14), 0);
  // In bf16, in fp32, and the gradients of both halves: four times 16,384 x 153,600 / 8 elements of two bytes.
  // Before the last stage two micro-batches are in flight: the next passes forward before the first comes back.
  const double of_one_head = 4 * 2 * 16384 * 153600.0 / 8 / (1 << 30);
  EXPECT_NEAR(logits_gib(pangu_job(), 15), of_one_head, 0.001);
  EXPECT_NEAR(logits_gib(pangu_job(), 14), 2 * of_one_head, 0.001);
}

TEST(StepGraph, UpdateScratchIsTheLargestLocalPiece) {
  const auto largest_scratch = [](const JobSpec& job, std::int32_t rank) {
    const Graph graph = build(job, rank);
    Bytes largest = 0;
    for (std::size_t s = 0; s < graph.storages.size(); ++s) {
      if (graph.template_of(id_of<StorageId>(s)).name == "update_scratch") {
        largest = std::max(largest, graph.storages[s].bytes);
      }
    }
    return largest;
  };
  JobSpec job = pangu_job();
  // Experts: 377.5 M elements over 12 ranks.
  EXPECT_EQ(largest_scratch(job, 2), Bytes{4} * 8 * 3 * 7680 * 2048 / 12);
  job.parallel.distributed_optimizer = false;
  EXPECT_EQ(largest_scratch(job, 2), Bytes{4} * 8 * 7680 * 4096);  // the grouped gate and up weights
}

TEST(StepGraph, ReadsRecordedRoutingAndSourcesInTheBlockOnly) {
  const Graph graph = build(pangu_job(), 2);
  std::map<std::string, const Recipe*> recipes;
  const Block* moe = nullptr;
  for (std::size_t b = 0; b < graph.blocks.size(); ++b) {
    if (graph.blocks[b].name != "moe_layer") continue;
    moe = &graph.blocks[b];
    for (const Recipe& recipe : graph.recipes_of(id_of<BlockId>(b))) recipes[recipe.name] = &recipe;
  }
  ASSERT_NE(moe, nullptr);
  const auto names = [&](const std::vector<std::int32_t>& locals) {
    std::vector<std::string> list;
    for (const std::int32_t local : locals) {
      list.push_back(graph.storage_templates[row(moe->first_storage_template) + static_cast<std::size_t>(local)].name);
    }
    std::ranges::sort(list);
    return list;
  };
  using Names = std::vector<std::string>;
  struct Expected {
    const char* recipe;
    Names outputs, sources;
    bool collective, routing;
  };
  const Expected rows[] = {
      {"y1", {"y1"}, {"x"}, false, false},
      {"latent", {"latent"}, {"y1"}, false, false},
      {"latent_q_norm", {"latent_q_norm"}, {"latent"}, false, false},
      {"latent_kv_norm", {"latent_kv_norm"}, {"latent"}, false, false},
      {"query", {"q"}, {"latent_q_norm"}, true, false},
      {"key_value", {"k", "v"}, {"latent", "latent_kv_norm"}, true, false},
      {"core_attention", {"attention_out_core", "softmax_stats"}, {"k", "q", "v"}, false, false},
      {"attention_out", {"attention_out"}, {"attention_out_core"}, true, false},
      {"x1", {"x1"}, {"attention_out", "x"}, false, false},
      {"y2", {"y2"}, {"x1"}, false, false},
      {"fc1_in", {"fc1_in"}, {"router", "y2"}, true, true},
      {"fc1_out", {"fc1_out"}, {"fc1_in"}, false, false},
      {"act_out", {"act_out"}, {"fc1_out"}, false, false},
      {"unpermute_in", {"unpermute_in"}, {"act_out", "router"}, true, true},
      {"shared_fc1_out", {"shared_fc1_out"}, {"y2"}, true, false},
      {"shared_act_out", {"shared_act_out"}, {"shared_fc1_out"}, false, false},
      {"mlp_out", {"mlp_out"}, {"router", "shared_act_out", "unpermute_in", "y2"}, true, true},
  };
  for (const Expected& expected : rows) {
    ASSERT_TRUE(recipes.contains(expected.recipe)) << expected.recipe;
    const Recipe& recipe = *recipes[expected.recipe];
    EXPECT_EQ(names(recipe.outputs), expected.outputs) << expected.recipe;
    EXPECT_EQ(names(recipe.sources), expected.sources) << expected.recipe;
    EXPECT_EQ(recipe.collective, expected.collective) << expected.recipe;
    EXPECT_EQ(recipe.replays_routing, expected.routing) << expected.recipe;
    EXPECT_TRUE(recipe.pure);
  }
  EXPECT_EQ(recipes.size(), std::size(rows));  // neither x nor router has one
}

// ---- growth and repeatability -------------------------------------------------------------------------------------

bool same(const Graph& a, const Graph& b) {
  const auto ops = [](const Op& x, const Op& y) {
    return x.op_template == y.op_template && x.site == y.site && x.first_access == y.first_access;
  };
  const auto accesses = [](const Access& x, const Access& y) {
    return x.storage == y.storage && x.version == y.version && x.kind == y.kind;
  };
  return std::ranges::equal(a.ops, b.ops, ops) && std::ranges::equal(a.accesses, b.accesses, accesses) &&
         a.storages.size() == b.storages.size() && a.sites.size() == b.sites.size();
}

TEST(StepGraph, SameInputSameGraph) {
  for (const std::int32_t rank : {0, 7, 15}) {
    EXPECT_TRUE(same(build(pangu_job(), rank, 1.3), build(pangu_job(), rank, 1.3)));
  }
}

/// Loads that are set afterwards make the graph that is built for them.
TEST(StepGraph, LoadsMayBeSetAfterwards) {
  for (const auto& [name, job] : all_jobs()) {
    const Result<LoadShape> shape = load_shape(job, ascend_910b());
    if (!shape) continue;  // no experts
    Graph set = build(job, 0, 1.0);
    set_site_loads(set, [&](const Site&) { return built_load(job, ascend_910b(), 1.5); });
    const Graph built = build(job, 0, 1.5);
    ASSERT_EQ(set.sites.size(), built.sites.size()) << name;
    ASSERT_EQ(set.storages.size(), built.storages.size()) << name;
    for (std::size_t i = 0; i < built.sites.size(); ++i)
      EXPECT_EQ(set.sites[i], built.sites[i]) << name << ", site " << i;
    for (std::size_t i = 0; i < built.storages.size(); ++i)
      EXPECT_EQ(set.storages[i].bytes, built.storages[i].bytes) << name << ", storage " << i;
  }
}

/// Memory follows the device's own load; time the fullest of its group, as far as the distribution says how full.
TEST(StepGraph, TimesAreOfTheFullestDeviceWhateverMemoryIsFor) {
  const Machine machine = ascend_910b();
  int all_routed = 0;
  for (auto [name, job] : all_jobs()) {
    int routed = 0;
    const Result<LoadShape> shape = load_shape(job, machine);
    if (!shape || shape.value().devices < 2) continue;
    job.expert_load.coefficient_of_variation = 0;
    const auto times_of = [&](double load) { return cost::op_durations(build(job, 0, load), machine); };
    const std::vector<std::int64_t> one = times_of(1), two = times_of(2);
    job.expert_load.coefficient_of_variation = 0.1;
    const Graph graph = build(job, 0, 2);
    const double fullest = mean_fullest_load(load_model(job.expert_load), shape.value().devices);
    for (const Site& site : graph.sites)
      if (site.load != 1) {
        EXPECT_EQ(site.load, 2) << name;
        EXPECT_NEAR(static_cast<double>(site.fullest_load), std::min(fullest, shape.value().most_load()), 1e-6) << name;
        ++routed;
      }
    EXPECT_EQ(times_of(1), times_of(2)) << name;
    job.expert_load.coefficient_of_variation = 0;
    if (routed > 0) {
      EXPECT_NE(one, two) << name;
      EXPECT_EQ(cost::op_durations(graph, machine), times_of(fullest)) << name;
    }
    all_routed += routed;
  }
  EXPECT_GT(all_routed, 10);
}

TEST(StepGraph, GrowsLinearlyWithMicroBatches) {
  JobSpec job = pangu_job();
  const std::size_t once = build(job, 2).ops.size();
  job.parallel.global_batch *= 4;
  const std::size_t four_times = build(job, 2).ops.size();
  EXPECT_LT(four_times, 4 * once);
  EXPECT_GT(four_times, 4 * once - 200);  // the step's end comes once
}

TEST(StepGraph, RefusesARankOutsideThePipeline) {
  EXPECT_FALSE(build_step_graph(pangu_job(), ascend_910b(), 16, 1.0).ok());
  EXPECT_FALSE(build_step_graph(pangu_job(), ascend_910b(), -1, 1.0).ok());
}

/// A chunk of no-op slots on a pipeline of one rank runs nothing, so nothing of it is ever in flight.
bool every_chunk_has_a_layer(const JobSpec& job, std::int32_t rank) {
  const auto is_layer = [](const Slot& slot) { return slot.kind == Slot::Kind::layer; };
  return std::ranges::all_of(job.parallel.slots[static_cast<std::size_t>(rank)],
                             [&](const auto& chunk) { return std::ranges::any_of(chunk, is_layer); });
}

/// Random layouts of a small model: whatever find_problems accepts is a consistent graph.
TEST(StepGraph, RandomLayoutsAreConsistent) {
  std::mt19937 random(20250507);
  const auto pick = [&](std::initializer_list<std::int32_t> values) {
    return values.begin()[random() % values.size()];
  };
  int built = 0, apart = 0;
  for (int i = 0; i < 400; ++i) {
    JobSpec job = testing::small_job();
    ParallelSpec& p = job.parallel;
    p.tensor = pick({1, 2, 4});
    p.sequence_parallel = pick({0, 1}) != 0;
    p.pipeline = pick({1, 2, 3, 4});
    p.virtual_pipeline = pick({1, 1, 2, 3});
    p.context = pick({1, 1, 2});
    p.data = pick({1, 2, 4});
    p.expert = pick({1, 2, 4});
    p.tensor_extends_expert = pick({0, 1}) != 0;
    p.hierarchical_expert_communication = pick({0, 1}) != 0;
    p.overlap_forward_backward = pick({0, 1}) != 0;
    p.expert_exchange_parts = pick({1, 1, 2, 3});
    p.global_batch = std::int64_t{p.data} * pick({1, 2, 3, 4, 6, 12});
    job.model.attention.q_lora_rank = pick({0, 48});
    job.model.attention.v_own_storage = pick({0, 1}) != 0;
    job.model.attention.v_padded = pick({0, 1}) != 0;
    job.model.norm = pick({0, 1}) != 0 ? NormPlacement::pre : NormPlacement::sandwich;
    job.model.mtp_layers = pick({0, 1, 2});
    job.model.tied_embedding = pick({0, 1}) != 0;
    job.model.moe.shared_width = pick({0, 128});
    job.model.layers =
        testing::layer_kinds(static_cast<std::size_t>(pick({0, 1, 2})), static_cast<std::size_t>(pick({1, 3, 5})));
    testing::fill_slots(job);
    if (i % 2 == 0) p.head_stage = last_layer_stage(job);
    if (!find_problems(job).empty()) continue;
    ++built;
    apart += p.is_head_apart() ? 1 : 0;
    Machine machine = ascend_910b();
    machine.chip.sheet.devices_per_node = pick({1, 2, 4, 8});
    std::vector<Graph> graphs;
    std::vector<simulate::RankWork> work;
    for (std::int32_t rank = 0; rank < p.pipeline; ++rank) {
      graphs.push_back(std::move(build_step_graph(job, machine, rank, 1.7)).value());
      work.push_back(simulate::work_of(graphs.back(), cost::op_durations(graphs.back(), machine)));
      ASSERT_EQ(testing::check_graph(graphs.back()), "") << "case " << i << ", rank " << rank;
      const std::int64_t bound = in_flight_passes(shape_of(job), rank);
      ASSERT_LE(most_in_flight(graphs.back()), bound) << "case " << i;
      if (every_chunk_has_a_layer(job, rank)) {
        ASSERT_EQ(most_in_flight(graphs.back()), bound)
            << "case " << i << " p " << p.pipeline << " v " << p.virtual_pipeline << " m " << p.micro_batches() << " o "
            << p.overlap_forward_backward << " r " << rank;
      }
    }
    ASSERT_EQ(testing::check_messages(graphs), "") << "case " << i;
    ASSERT_TRUE(simulate::simulate_step(work).ok()) << "case " << i;
  }
  EXPECT_GT(built, 100);
  EXPECT_GT(apart, 10);
}

}  // namespace
}  // namespace tidemark::graph_build
