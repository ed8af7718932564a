#pragma once
// A training run as its time is predicted from: model, layout, batches and what the software does. Values only; the
// reader of rows and the importers of arguments fill it. Widths and counts are elements, whole for the model, not of
// one device.

#include <cstdint>
#include <string>
#include <vector>

#include "core/chip.h"
#include "planner/cost/launch_counts.h"

namespace tidemark::step_time {

struct TimedMla {
  std::int64_t q_lora = 0, kv_lora = 0, qk_nope = 0, qk_rope = 0, v = 0;  ///< q_lora 0: projected directly
};

struct TimedModel {
  std::int64_t layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0;
  bool is_gated = true;
  bool is_tied = false;
  bool is_causal = true;
  std::int64_t window = 0;         ///< of attention, tokens; 0: none
  bool alternates_window = false;  ///< every other layer attends to all: priced as if all did
  std::int64_t experts = 0, top_k = 0, expert_ffn = 0, shared_ffn = 0;  ///< experts 0: dense
  std::int64_t moe_layers = 0;
  std::int64_t mtp_layers = 0;
  bool is_mla = false;
  TimedMla mla;
};

/// A part of a layer that is run again, by the names that frameworks give it.
struct RecomputedModule {
  /// Megatron-Core's core_attn, mla_up_proj, mlp, moe, shared_experts, layernorm, moe_act; of MindSpeed activation (of
  /// all layers), mla_attention (all up to the output projection), zero_memory_level0 and _level1. Others cost nothing.
  std::string name;
  double share = 1;  ///< of the layers that are not run again whole
  friend bool operator==(const RecomputedModule&, const RecomputedModule&) = default;
};

/// What backward runs again of the forward.
struct Recomputed {
  double layers = 0;                 ///< share of them that is run again whole
  bool is_half_of_products = false;  ///< every second matmul and all vector work (torchtitan's selective op)
  std::vector<RecomputedModule> modules;
  friend bool operator==(const Recomputed&, const Recomputed&) = default;
};

/// What lies in host memory between its uses.
struct HostHeld {
  double dense_bytes = 0, moe_bytes = 0;  ///< of a layer's activations on one rank and in one micro-batch
  bool is_state_swapped = false;          ///< optimizer state comes to the device for the update, in parts
  double updated_share = 0;               ///< of the optimizer's state, updated by the host
};

/// How what a framework launches, moves and hides differs from others. One value a framework, none a model.
struct Software {
  std::string name;
  bool is_eager = false;                         ///< attention writes its scores to memory
  double hidden_passes = 8;                      ///< over rows of the hidden width, forward of a layer
  double ungated_passes = 0;                     ///< more of them for models with biases and dropout
  double qkv_passes = 3;                         ///< over the width of queries, keys and values
  double activation_factor = 1;                  ///< on the traffic of the activation
  double loss_bytes = 16;                        ///< a logit
  double layer_launches = cost::kLayerLaunches;  ///< of a dense layer, forward
  double moe_launches = cost::kMoeLaunches;      ///< more for a MoE layer, forward
  double head_launches = cost::kHeadLaunches;    ///< of head and loss, each pass
  double wrapper_launches = 12;                  ///< of a recomputed module
  double collective_launches = 2;                ///< of a layer's tensor parallel collectives, forward
  bool is_flash_2 = false;                       ///< attention kernel of the Ampere generation
  double tensor_hidden = 0;                      ///< share of tensor parallel traffic beside matmuls
  double exchange_hidden = 0.8;                  ///< share of gradient and weight exchange that may run beside compute
  double gradient_bytes = 4;                     ///< an element, on the wire
  double weight_bytes = 2;                       ///< an element, on the wire; 0: every rank updates all
  double optimizer_bytes = 30;                   ///< an element held, read and written
  double weight_gradient_bytes = 8;              ///< an element and micro-batch: weights read, gradients added
  bool is_sequence_parallel = true;              ///< where tensor parallel, unless the run says otherwise
  double send_hidden = 1;                        ///< share of sends between stages hidden in steady state
  double send_rate = 1;                          ///< share of the link that a send inside a node reaches
  bool has_tf32_head = false;                    ///< the head's products at the TF32 rate without tensor parallelism
  bool has_one_link = false;                     ///< gradient rings do not spread over a node's links
  bool broadcasts_weights = false;               ///< new weights go out tensor by tensor
  double bucket_bytes = 500e6;                   ///< of gradients
  double step_s = 0;                             ///< host work of a step
  double pass_corner = 0;         ///< sharpness of device and host that meet in every pass of a layer; 0: they do not
  bool permutes_plainly = false;  ///< tokens reach their experts' order by a kernel an operation, none fused
  bool is_graph = false;          ///< launches are captured: no host floor
  double imbalance = 1;           ///< rows of the fullest device over the mean
};

struct TimedRun {
  TimedModel model;
  std::int64_t tensor = 1, pipeline = 1, virtual_pipeline = 1, context = 1, expert = 1, expert_tensor = 1, data = 1;
  std::int64_t sharded = 1;  ///< ranks that weights are fully sharded over (FSDP); 1: they are held whole
  bool is_sequence_parallel = false;
  bool gathers_once = false;        ///< FSDP keeps weights gathered between forward and backward
  std::int64_t optimizer_span = 0;  ///< ranks the optimizer state is sharded over; 0: all data-parallel ones
  std::int64_t micro_batch = 1, global_batch = 1, sequence = 0;
  Precision precision = Precision::bf16;
  Recomputed recomputed;
  HostHeld host;
  bool is_folded = false;          ///< ranks are passed twice, the ends both on the first (DualPipeV)
  double network_share = 1;        ///< of the device file's link between nodes that the cluster has
  double tensor_hidden = 0;        ///< as Software's, for this run
  double expert_hidden = 0;        ///< share of expert exchange beside compute
  bool sends_once_a_node = false;  ///< dispatchers that send a token to a node once
  double more_moe_launches = 0;    ///< beside Software's
  std::int64_t document = 0;       ///< tokens that attend to each other where documents are packed; 0: the sequence
  double fused_vector_share = 1;   ///< of vector traffic that is left where a compiler fuses it
  bool is_even = false;            ///< layers are placed so that the ends are balanced
  double reduced_bytes = 4;        ///< an element of a gradient, FSDP
  [[nodiscard]] double micro_batches() const {
    return static_cast<double>(global_batch) / static_cast<double>(micro_batch * data);
  }
};

}  // namespace tidemark::step_time
