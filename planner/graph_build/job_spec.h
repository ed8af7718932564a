#pragma once
// What a user describes: the model, the parallel layout and the memory-relevant switches of one training job. Values
// only; integrations/formats reads them from YAML, planner/graph_build turns them into a Graph per pipeline rank. Sizes
// are elements or counts unless a name ends in _bytes.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tidemark::graph_build {

struct AttentionSpec {
  enum class Kind : std::uint8_t { gqa, mla };
  Kind kind = Kind::gqa;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< gqa; equal to heads for MHA
  std::int64_t head_dim = 0;  ///< gqa: query, key and value head size
  // mla (DeepSeek-V2/V3, Pangu Ultra MoE)
  std::int64_t q_lora_rank = 0;  ///< 0: queries projected directly
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_rope_dim = 0;
  std::int64_t qk_nope_dim = 0;
  std::int64_t v_head_dim = 0;
  bool v_own_storage = true;      ///< false: V is a view of the kv up-projection output and pins all of it
  bool v_padded = false;          ///< V padded to the query-key head size for the fused kernel
  bool qk_norm = false;           ///< gqa: RMSNorm over every query and key head, weights shared by the heads
  bool qkv_bias = false;          ///< gqa: of the query, key and value projections
  std::int64_t window = 0;        ///< keys that a query attends to, its own included; 0: all before it
  std::int64_t global_every = 0;  ///< of layers with a window every n-th attends to all; 0: none does
  friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
};

enum class Activation : std::uint8_t { swiglu, gelu, geglu };
/// One half of the product in front scales the other, which goes through the function.
[[nodiscard]] constexpr bool is_gated(Activation activation) {
  return activation != Activation::gelu;
}

struct MoeSpec {
  std::int64_t experts = 0;  ///< routed experts; 0: no MoE layer in the model
  std::int64_t top_k = 0;
  std::int64_t width = 0;         ///< hidden width of one routed expert
  std::int64_t shared_width = 0;  ///< hidden width of all shared experts together; 0: none
  bool router_fp32 = true;
  bool shared_gate = false;  ///< the output of the shared experts is scaled by a number of each token's own
  enum class Probabilities : std::uint8_t {
    at_unpermute,   ///< rows are scaled where they are combined: the un-permute input is saved
    in_activation,  ///< folded into the expert activation: nothing saved at un-permute, rounding differs
  };
  Probabilities probabilities = Probabilities::at_unpermute;
  double capacity_factor = 0;  ///< rows that are taken at most, over the mean; 0: dropless
  /// Who takes so many (graph_build/dropped_rows.h).
  enum class CapacityLevel : std::uint8_t {
    expert,  ///< each expert; what exceeds it is dropped, whatever room its device has
    device,  ///< the experts of a device together
  };
  CapacityLevel capacity_level = CapacityLevel::expert;
  bool pad_to_capacity = false;  ///< drop-and-pad: so many are sent, held and computed, however few there are
  [[nodiscard]] bool drops() const { return capacity_factor > 0; }
  [[nodiscard]] bool pads() const { return drops() && pad_to_capacity; }
  friend bool operator==(const MoeSpec&, const MoeSpec&) = default;
};

/// A state-space mixer (Mamba-2), which takes the place of attention in some layers.
struct MambaSpec {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t state_dim = 0;
  std::int64_t groups = 1;       ///< of heads that share B and C
  std::int64_t convolution = 4;  ///< taps a channel
  friend bool operator==(const MambaSpec&, const MambaSpec&) = default;
};

/// A mixer of linear attention (gated DeltaNet, as in Qwen3-Next), which takes the place of attention in some layers.
struct LinearAttentionSpec {
  std::int64_t key_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_heads = 0;
  std::int64_t value_dim = 0;
  std::int64_t convolution = 4;  ///< taps a channel
  friend bool operator==(const LinearAttentionSpec&, const LinearAttentionSpec&) = default;
};

/// Limits that keep a typing error from filling the machine's memory before it is found.
inline constexpr std::int64_t kMostLayers = 100'000;
inline constexpr std::int64_t kMostMtpLayers = 64;
/// Of rows on a device over the mean: no job has more devices to share them.
inline constexpr double kMostMeanLoad = 65536;

/// What mixes tokens, attention unless it is named, and what follows it. Models are described with all of them; those
/// with attention are planned.
enum class LayerKind : std::uint8_t { dense, moe, mamba_dense, mamba_moe, linear_dense, linear_moe };
enum class Mixer : std::uint8_t { attention, mamba, linear_attention };
[[nodiscard]] constexpr Mixer mixer_of(LayerKind kind) {
  if (kind == LayerKind::mamba_dense || kind == LayerKind::mamba_moe) return Mixer::mamba;
  return kind == LayerKind::linear_dense || kind == LayerKind::linear_moe ? Mixer::linear_attention : Mixer::attention;
}
[[nodiscard]] constexpr bool has_experts(LayerKind kind) {
  return kind == LayerKind::moe || kind == LayerKind::mamba_moe || kind == LayerKind::linear_moe;
}
enum class NormPlacement : std::uint8_t { pre, sandwich };

struct ModelSpec {
  std::string name;
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;
  std::int64_t sequence = 0;
  std::vector<LayerKind> layers;
  std::int64_t mtp_layers = 0;  ///< multi-token-prediction modules, each with one layer of the kind of the last layer
  AttentionSpec attention;
  Activation activation = Activation::swiglu;
  std::int64_t dense_width = 0;
  MoeSpec moe;
  NormPlacement norm = NormPlacement::pre;
  bool tied_embedding = false;
  MambaSpec mamba;                       ///< of layers with that mixer
  LinearAttentionSpec linear_attention;  ///< of layers with that mixer
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;

  [[nodiscard]] bool has_experts() const {
    return std::ranges::any_of(layers, [](LayerKind kind) { return graph_build::has_experts(kind); });
  }
  /// Decoder layer `layer`, from 0, attends to the window alone. Modules for multi-token prediction do as the last.
  [[nodiscard]] bool is_windowed(std::size_t layer) const {
    const auto number = static_cast<std::int64_t>(std::min(layer, layers.size() - 1)) + 1;
    return attention.window > 0 && (attention.global_every == 0 || number % attention.global_every != 0);
  }
};

/// What fills one slot of a (rank, chunk): a decoder layer, nothing, or the MTP module(s).
struct Slot {
  enum class Kind : std::uint8_t { layer, noop, mtp };
  Kind kind = Kind::layer;
  std::int32_t layer = -1;  ///< model layer, or number of the MTP module
  friend bool operator==(const Slot&, const Slot&) = default;
};

struct ParallelSpec {
  std::int32_t tensor = 1;
  bool sequence_parallel = false;
  std::int32_t pipeline = 1;
  std::int32_t virtual_pipeline = 1;  ///< chunks per rank
  std::int32_t context = 1;
  /// How context ranks meet keys and values that others have: all of them gathered, passed on from rank to rank, or
  /// heads exchanged for tokens. The first is planned.
  enum class ContextKind : std::uint8_t { all_gather, ring, ulysses };
  ContextKind context_kind = ContextKind::all_gather;
  std::int32_t expert = 1;
  bool tensor_extends_expert = false;  ///< expert ranks = expert * tensor, experts are not split by tensor
  std::int32_t data = 1;
  std::int64_t micro_batch = 1;           ///< sequences
  std::int64_t global_batch = 1;          ///< sequences per step over all data-parallel ranks
  bool overlap_forward_backward = false;  ///< forward of one micro-batch beside backward of another; one more in flight
  bool hierarchical_expert_communication = false;  ///< inter-node all-gather + intra-node all-to-all
  std::int32_t expert_exchange_parts = 1;  ///< rows travel and are computed in so many parts, one behind the other
  /// slots[rank][chunk] in order; filled evenly by the reader when the file gives none.
  std::vector<std::vector<std::vector<Slot>>> slots;
  std::int32_t head_stage = -1;  ///< stage of the main output head and its loss; -1: the last
  bool auto_placement = false;   ///< `slots` are only a legal start: search/auto_placement.h finds the ones that count

  std::int32_t parameter_bytes = 2;  ///< per element
  std::int32_t gradient_bytes = 4;
  std::int32_t optimizer_bytes = 12;  ///< fp32 master + two moments
  bool distributed_optimizer = true;  ///< optimizer state sharded over data ranks (experts: over expert-data ranks)
  bool sharded_gradients = false;     ///< ZeRO-2: gradients too, reduced for every micro-batch
  bool sharded_parameters = false;    ///< ZeRO-3, FSDP2: parameters as well, gathered layer by layer
  enum class Compute : std::uint8_t { bf16, fp8 };
  Compute compute = Compute::bf16;  ///< of the linear layers' products
  bool reuse_fp32_parameter =
      false;  ///< MindSpeed: bf16 + residual share the master copy (saves parameter bytes / shards)
  std::int32_t communicators = 8;  ///< each takes Machine::collective_buffer_bytes
  Bytes framework_bytes = 0;       ///< the framework holds it all through: masks, library workspaces, kept buffers
  friend bool operator==(const ParallelSpec&, const ParallelSpec&) = default;

  [[nodiscard]] std::int64_t stages() const { return std::int64_t{pipeline} * virtual_pipeline; }
  [[nodiscard]] std::int64_t main_head_stage() const { return head_stage < 0 ? stages() - 1 : head_stage; }
  /// That of the model's last layer; -1: `slots` hold none.
  [[nodiscard]] std::int64_t last_layer_stage() const;
  /// MTP modules follow on a later stage, with heads of their own.
  [[nodiscard]] bool is_head_apart() const { return main_head_stage() + 1 < stages(); }
  [[nodiscard]] std::int64_t micro_batches() const { return global_batch / (micro_batch * data); }
  [[nodiscard]] std::int64_t devices() const { return std::int64_t{tensor} * pipeline * context * data; }
  [[nodiscard]] std::int64_t expert_ranks() const {
    return tensor_extends_expert ? std::int64_t{expert} * tensor : expert;
  }
  /// Expert rows leave the device: to other expert ranks, or to those that share its experts. But for hierarchical
  /// exchange over nodes of one device, which only the machine tells (graph_build/expert_exchange.h).
  [[nodiscard]] bool exchanges_rows() const { return expert_ranks() > 1 || (tensor > 1 && !tensor_extends_expert); }
  /// Ranks of one stage over which expert shards of the optimizer are spread (expert-data parallel).
  [[nodiscard]] std::int64_t expert_data() const {
    const std::int64_t stage = std::int64_t{tensor} * context * data;
    const std::int64_t per_copy = tensor_extends_expert ? expert_ranks() : std::int64_t{expert} * tensor;
    return stage / per_copy;
  }
};

/// How unevenly tokens fall on devices (graph_build/load_model.h). f = rows on a device over the mean.
struct ExpertLoadSpec {
  double mean = 1.0;
  double coefficient_of_variation = 0.0;  ///< of f over (layer, micro-batch) on one device; 0: every site at `mean`
  double layer_correlation = 0.0;         ///< share of the variance common to all layers of a device and step, 0..1
  double quantile = 0;                    ///< of the highest peak of a rank in its expert group; 0: the cheapest
  std::uint64_t seed = 1;
  double popularity_share = 0.0;  ///< share of the variance that stays with a layer of a device over steps, 0..1
  double persistence = 1.0;       ///< correlation of that part from one step to the next, 0..1
  friend bool operator==(const ExpertLoadSpec&, const ExpertLoadSpec&) = default;
};

struct JobSpec {
  ModelSpec model;
  ParallelSpec parallel;
  ExpertLoadSpec expert_load;
  std::string device;  ///< name of a file in devices/, without .yaml
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

/// Which rule of a JobSpec is broken, and the key that breaks it, so that a reader can name the line.
struct SpecProblem {
  std::string key;  ///< dotted path in the YAML file, e.g. "parallel.tensor"
  std::string message;
};

/// Every rule a layout must obey (heads divisible by TP, experts by expert ranks, layers fill the slots exactly once,
/// batch divisible, products within 2^53, ...), then what of a valid job is not planned. Empty: it can be planned.
[[nodiscard]] std::vector<SpecProblem> find_problems(const JobSpec& job);
/// The first of the two alone: a job that is described well, whether or not it can be planned.
[[nodiscard]] std::vector<SpecProblem> find_description_problems(const JobSpec& job);

}  // namespace tidemark::graph_build
