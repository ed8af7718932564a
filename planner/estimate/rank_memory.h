#pragma once
// What one rank of a training run holds: the figures its framework would log, term by term.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

/// Where a term's rule comes from. `fitted`: its shape was found in measurements, not read in the framework's code.
enum class Origin : std::uint8_t { code, library_default, fitted };

/// One cause of bytes. `source`: the file of the framework, the document, or the measurement behind the rule.
struct Term {
  std::string_view name;  ///< snake_case, stable: scripts and overlays use it
  double bytes = 0;       ///< negative: held when the figure is logged, but not at the peak
  Origin origin = Origin::code;
  std::string_view source;
};

/// Values with no derivation from the arguments, each overridable by calibration. Documented in docs/ACCURACY.md.
struct MemoryKnobs {
  double routing_load = 1.1;            ///< dropless rows of a full rank over the mean
  double flex_buffers = 3;              ///< of rows * hidden * 2 bytes, in the flex dispatcher
  double split_slack_bytes = 3 << 20;   ///< unsplittable rest of cached blocks, pipeline > 1, no expandable segments
  double variable_length_share = 0.35;  ///< of the sequence, where batches are padded to their longest sample
  double preference_bytes_per_logit = 24;
  double boundary_tensors = 2;         ///< kept after the last pipeline exchange, per chunk on CUDA
  double swap_attention_residue = 8;   ///< boundary tensors not yet resized when memory is logged
  double step_floor_bytes = 16 << 20;  ///< least optimizer-step transient on Ascend
  /// Factors a calibration found for this job on this machine; 1 without one.
  double static_factor = 1;
  double activation_factor = 1;
  double static_offset_bytes = 0;
};

/// Figures of one rank. All bytes are of the framework's allocator ("allocated"), as both frameworks log them.
struct RankMemory {
  std::int64_t rank = 0;      ///< global
  std::int64_t stage = 0;     ///< pipeline
  std::vector<Term> steady;   ///< held between steps, moments included
  std::vector<Term> at_peak;  ///< what the peak adds to (or takes from) the steady terms
  /// The same of the running peak: with the moments, which the first step of Ascend's figures has not.
  std::vector<Term> at_running_peak;
  double steady_bytes = 0;        ///< sum of `steady`
  double first_peak_bytes = 0;    ///< of the first step: moments do not exist before the optimizer runs
  double peak_bytes = 0;          ///< over the run, as the framework reports it: Ascend after one step
  double running_peak_bytes = 0;  ///< from the second step on, moments included: what a budget has to hold
  double step_peak_bytes = 0;     ///< while the optimizer steps, moments included; CUDA: in place, the steady bytes
  double parameters = 0;          ///< elements on this rank
};

/// The rank whose memory Megatron-LM logs: the last.
[[nodiscard]] std::int64_t logged_rank(const TrainingRun& run);

/// Errors (bad_input): a kind of job whose memory is not modelled (multimodal, LoRA, sparse attention, ...) or a rank
/// outside the world; one line, the reason. Thread-safe. Modelled; measured agreement: docs/ACCURACY.md.
[[nodiscard]] Result<RankMemory> estimate_rank(const TrainingRun& run, std::int64_t rank,
                                               const MemoryKnobs& knobs = {});

}  // namespace tidemark::estimate
