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
  bool v_own_storage = true;  ///< false: V is a view of the kv up-projection output and pins all of it
  bool v_padded = false;      ///< V padded to the query-key head size for the fused kernel
  friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
};

enum class Activation : std::uint8_t { swiglu, gelu };

struct MoeSpec {
  std::int64_t experts = 0;  ///< routed experts; 0: no MoE layer in the model
  std::int64_t top_k = 0;
  std::int64_t width = 0;         ///< hidden width of one routed expert
  std::int64_t shared_width = 0;  ///< hidden width of all shared experts together; 0: none
  bool router_fp32 = true;
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

/// Limits that keep a typing error from filling the machine's memory before it is found.
inline constexpr std::int64_t kMostLayers = 100'000;
inline constexpr std::int64_t kMostMtpLayers = 64;
/// Of rows on a device over the mean: no job has more devices to share them.
inline constexpr double kMostMeanLoad = 65536;

enum class LayerKind : std::uint8_t { dense, moe };
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
  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;

  [[nodiscard]] bool has_experts() const { return std::ranges::find(layers, LayerKind::moe) != layers.end(); }
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
/// batch divisible, products within 2^53, ...). Empty: valid.
[[nodiscard]] std::vector<SpecProblem> find_problems(const JobSpec& job);

}  // namespace tidemark::graph_build
