#pragma once
// ZeRO-2, ZeRO-3 and FSDP2 in one block: whole weights gathered before they are first read, gradients of the block
// reduced behind its backward pass and added to the shards that the step keeps.
//
//   forward  | all-gather of the next block | compute ...                                          (ZeRO-3)
//   backward | all-gather, unless the weights were kept | compute ... | reduce-scatter              (ZeRO-2 and 3)
//
// What is gathered is saved like an activation whose recipe gathers it again, so that a policy decides between keeping
// whole weights from forward to backward and FSDP2's reshard_after_forward. Gathered weights are in 16 bits, whatever
// the shards are; gradients have the width of the job's. The block's gradients are there whole while it runs backward,
// as torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py has them. Forward the weights of the next block are
// gathered while one computes (step_parts.cc), as FSDP2 does; what a policy has gathered again for the backward pass
// begins with its own block, as recomputation does.

#include <string>
#include <vector>

#include "planner/graph_build/block_context.h"
#include "planner/graph_build/parameter_groups.h"
#include "planner/graph_build/step_block.h"

namespace tidemark::graph_build {

class ShardedWeights {
 public:
  /// Records the gather. `groups`: bound by the builder and used by the block. Does nothing, nor do the calls below,
  /// where neither parameters nor gradients are sharded, or over one rank. REQUIRES: context, its builder and
  /// `parallel` outlive it.
  ShardedWeights(const BlockContext& context, const ParallelSpec& parallel, const std::vector<ParameterGroup>& groups);
  /// Forward ops that the gather took.
  [[nodiscard]] std::int32_t gathers() const;
  /// Before the first op of the backward pass.
  void begin_backward();
  /// Behind its last.
  void reduce_gradients();

 private:
  /// Groups that travel together: those over all data ranks, or experts over those that share them.
  struct Unit {
    std::string name;
    bool expert = false;
    std::vector<std::string> groups;
    std::int64_t elements = 0;
    Ref gradients;
  };
  [[nodiscard]] const GroupShape& replicas(const Unit& unit) const;
  void gather(const Unit& unit) const;

  const BlockContext& context_;
  const ParallelSpec& parallel_;
  std::vector<Unit> units_;
};

/// Of the groups that a block at the end of the model can reach, those of these names, each once.
[[nodiscard]] std::vector<ParameterGroup> used_groups(const EndParameters& parameters,
                                                      const std::vector<std::string>& names);

}  // namespace tidemark::graph_build
