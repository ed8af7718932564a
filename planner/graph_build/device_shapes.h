#pragma once
// Tensor sizes and communication groups of one device, derived from the job and the machine: what tensor, sequence,
// context and expert parallelism leave of each dimension. Elements unless a name says otherwise.

#include <cstdint>

#include "core/graph.h"
#include "core/machine.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

/// Of one element. Activations are 16-bit.
inline constexpr std::int64_t kActivationBytes = 2;
/// But for inputs of products in fp8, of which the 8-bit copy is kept.
inline constexpr std::int64_t kQuantizedBytes = 1;

/// How rows travel between expert ranks. One group of `ranks` devices, `per_node` of them in each of `nodes` nodes.
struct ExpertGroup {
  std::int64_t ranks = 1;
  std::int64_t per_node = 1;
  std::int64_t nodes = 1;
  bool hierarchical = false;  ///< inter-node all-gather of tokens, then intra-node exchange of rows
};

struct DeviceShapes {
  std::int64_t hidden = 0;
  std::int64_t sequences = 0;     ///< of a micro-batch
  std::int64_t sequence = 0;      ///< whole length
  double attended_length = 0;     ///< attention_length.h, of the layer that is recorded
  std::int64_t tokens = 0;        ///< n: of a micro-batch on one context rank
  std::int64_t local_tokens = 0;  ///< t: n / tensor with sequence parallelism, n without
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  bool sequence_parallel = false;
  bool fp8 = false;                    ///< products of linear layers; what their dW read is kept in 8 bits
  bool late_weight_gradients = false;  ///< dW moved behind communication (forward/backward overlap)
  Lane tensor_lane = Lane::intra_comm;
  Lane context_lane = Lane::intra_comm;
  Lane data_lane = Lane::inter_comm;
  GroupShape tensor_group, context_group, node_group;  ///< of collectives; the last: one rank a node of an expert group
  GroupShape data_group, expert_data_group;            ///< ranks with the same weights
  bool sends_inside_node = false;                      ///< neighbours of the pipeline share a node

  std::int64_t heads = 0;     ///< per device
  std::int64_t kv_heads = 0;  ///< per device
  std::int64_t qk_dim = 0;
  std::int64_t v_dim = 0;                     ///< of the output and of the flops
  std::int64_t v_stored_dim = 0;              ///< v_dim, or qk_dim when V is padded
  bool v_own_storage = true;                  ///< false: V is a view of the projection's output (never when padded)
  std::int64_t statistics_bytes_per_row = 0;  ///< softmax statistics of one (token, head)

  std::int64_t sent_rows = 0;    ///< routed rows of the tokens here, at load 1
  std::int64_t expert_rows = 0;  ///< rows its experts process at load 1
  std::int64_t local_experts = 0;
  std::int64_t expert_width = 0;  ///< per device
  std::int64_t capacity = 0;      ///< rows they process at most; 0: dropless
  double padding = 1;          ///< rows that are sent over those of the tokens here: more where a capacity is filled up
  bool experts_split = false;  ///< experts are split by tensor parallelism
  ExpertGroup expert_group;
  std::int32_t exchange_parts = 1;

  std::int64_t vocabulary = 0;  ///< per device

  /// Bytes of one element that a linear layer keeps as its input where nothing else reads it.
  [[nodiscard]] std::int64_t input_bytes() const { return fp8 ? kQuantizedBytes : kActivationBytes; }
  [[nodiscard]] bool gathers() const { return tensor > 1 && sequence_parallel; }
};

[[nodiscard]] DeviceShapes device_shapes(const JobSpec& job, const Machine& machine);

/// Of one of `exchange_parts`, numbered from 0, which have all tokens together: its tokens and routed rows.
[[nodiscard]] DeviceShapes shapes_of_part(const DeviceShapes& shapes, std::int32_t part);

}  // namespace tidemark::graph_build
