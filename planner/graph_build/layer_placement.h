#pragma once
// Which layer sits where: fills the slots of every (rank, chunk) from a short description. Slots are numbered along the
// pipeline, so slot s of n lies in stage s / (n / stages), and stage g is chunk g / ranks of rank g % ranks:
//
//   4 ranks, 2 chunks, 16 slots      rank 0    rank 1    rank 2    rank 3
//                        chunk 0      0  1      2  3      4  5      6  7
//                        chunk 1      8  9     10 11     12 13     14 15

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/graph_build/job_spec.h"

namespace tidemark::graph_build {

/// Exceptions to "layer i in slot i". Slots that are neither listed nor the MTP slot hold the layers in order.
struct SlotChoice {
  std::vector<std::int64_t> noop_slots;
  std::optional<std::int64_t> mtp_slot;  ///< holds all MTP modules; nothing: they follow the last slot of the last rank
};

struct LayerPlacement {
  std::vector<std::vector<std::vector<Slot>>> slots;  ///< [rank][chunk]; empty where there are problems
  std::vector<SpecProblem> problems;
};

/// Even fill. Problems: the slots are not a multiple of the stages, a listed slot is out of range or listed twice.
/// Counts of ranks, chunks, layers or MTP layers out of range give no slots and no problem: find_problems names them.
[[nodiscard]] LayerPlacement place_layers(const ModelSpec& model, const ParallelSpec& parallel,
                                          const SlotChoice& choice = {});

/// Layers in order along the pipeline, `counts[stage]` in each; all MTP modules behind the last. Sets `slots` alone.
/// REQUIRES: counts has as many entries as `parallel` has stages, and sums to the model's layers.
void fill_stages(const ModelSpec& model, const std::vector<std::int32_t>& counts, ParallelSpec& parallel);

/// As many layers in each stage, one more in the first ones where they do not come out even. REQUIRES: stages > 0.
[[nodiscard]] std::vector<std::int32_t> even_layers(std::int32_t layers, std::int32_t stages);

/// fill_stages with even_layers. Sets nothing where counts are out of range, which find_problems names.
void fill_stages_evenly(const ModelSpec& model, ParallelSpec& parallel);

/// How many layers each stage holds, along the pipeline.
[[nodiscard]] std::vector<std::int32_t> stage_layers(const ParallelSpec& parallel);

}  // namespace tidemark::graph_build
