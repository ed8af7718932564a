#pragma once
// Tracks: kinds of runs that are scored apart. Errors differ by a factor of ten between them, so that a figure over all
// would say only which kind has the most rows.
//
//   1 vtrain single   vTrain, one node of A100, layouts of small models varied; eager attention
//   2 vtrain multi    vTrain, 64 to 512 A100
//   2b korthikanti    arXiv:2205.05198, table 5
//   2c sc21           arXiv:2104.04473, table 1
//   3 fsdp bf16, fp8  dense models with sharded weights: llm-foundry, torchtitan, fms-fsdp, InternEvo, JAX-Toolbox
//   4 h100 bf16, fp8  other dense models on A100, H100 and H200: tuned Megatron, in the main
//   5 moe bf16, fp8   mixtures of experts on those devices
//   6 ascend dense, moe
//   9 blackwell dense, moe

#include <string>
#include <string_view>

namespace tidemark::step_time {

/// What decides the track, in the words of TimeRow.
struct TrackWords {
  std::string_view software;  ///< name of a Software; empty: not known
  std::string_view device;
  std::string_view precision;
  bool is_moe = false;
};

/// Every run has one. What is neither bf16 nor fp8 counts as fp8 in the dense tracks and as bf16 in that of MoE.
[[nodiscard]] std::string track_of(const TrackWords& words);

}  // namespace tidemark::step_time
