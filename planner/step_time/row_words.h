#pragma once
// What a row of measured step times says of its run, member by member and unjudged. row_run.h turns it into a run. A
// count of 0 and an empty text: not stated.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/step_time/timed_run.h"

namespace tidemark::step_time {

/// A degree that is not stated is 1.
[[nodiscard]] inline std::int64_t or_one(std::int64_t count) {
  return std::max<std::int64_t>(count, 1);
}

struct ModelWords {
  std::string name;
  std::int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0;
  bool is_gated = false;
  bool is_tied = false;
  std::int64_t window = 0;        ///< of attention, tokens
  std::int64_t window_every = 0;  ///< one layer in so many attends to all
  std::int64_t experts = 0, top_k = 0, expert_ffn = 0, shared_ffn = 0;
  std::int64_t dense_layers = 0;  ///< the first ones; -1: a pattern that the row does not hold
  std::int64_t moe_every = 0;     ///< one layer in so many of the rest has experts; -1 as above
  std::int64_t mtp_layers = 0;
  std::optional<TimedMla> mla{};
};

struct LayoutWords {
  std::int64_t tensor = 0, pipeline = 0, virtual_pipeline = 0, context = 0, expert = 0, expert_tensor = 0;
  std::int64_t sharded = 0;         ///< ranks that weights are fully sharded over
  std::int64_t optimizer_span = 0;  ///< ranks that the optimizer state is sharded over; 0: all, or not stated
  std::optional<bool> shards_optimizer;
  std::optional<bool> is_sequence_parallel;
  std::string sharding;  ///< of FSDP: zero3, hsdp, grad_op
  std::string schedule;  ///< of the pipeline: 1f1b
  std::string task;      ///< sft, lora; else pretraining
};

struct RecomputeWords {
  std::string granularity;  ///< none, full, selective, selective-op, selective-layer, or layers a stage: "[8, 7]"
  std::string method;       ///< block: `layers` of each chunk; uniform: all
  std::int64_t layers = 0;
  std::optional<std::vector<std::string>> modules;  ///< of selective
  bool is_activation_recomputed = false;            ///< the activation function, beside
  std::string select;  ///< operators that MindFormers recomputes beside: "False", "True" or layers a stage
};

struct OverlapWords {
  std::string dispatcher;        ///< of tokens to experts: alltoall, deepep, hybridep, flex
  bool is_expert = false;        ///< dispatch and combine beside the compute of another micro-batch
  bool is_moe = false;           ///< other overlap of the exchange between experts (moe_overlap, alltoall_overlap)
  bool is_fused_tensor = false;  ///< MC2: collectives inside matmuls
  bool is_async_tensor = false;
  bool is_tensor = false;  ///< tp_comm_overlap
  bool is_compiled = false;
  bool is_deterministic = false;
  std::optional<bool> is_gradient_reduce;
  std::vector<std::string> captured;  ///< modules in CUDA graphs
  std::int64_t dispatcher_cores = 0;
};

struct RowWords {
  std::string id, source, device, precision;
  std::int64_t devices = 0;
  ModelWords model;
  LayoutWords layout;
  std::int64_t micro_batch = 0, global_batch = 0, sequence = 0;
  RecomputeWords recompute;
  OverlapWords overlap;
  bool has_fused_attention = true;
};

}  // namespace tidemark::step_time
