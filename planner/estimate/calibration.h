#pragma once
// What one measured run of a user's own says about his machine, as few corrections of later predictions.
//
// Memory: what was found beside the prediction between steps is taken for buffers of libraries and kept in bytes; what
// was missing for state that is smaller than modelled, and kept as a factor, so that no other layout comes out below
// nothing. What a step adds on top is kept as a factor of the activations. All are of one model: another one has other
// buffers. Times: a factor of all compute times. Links: rates that replace those of the device file.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/machine.h"
#include "core/result.h"
#include "planner/estimate/measured_run.h"
#include "planner/estimate/rank_memory.h"
#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

struct MemoryCorrection {
  std::string model;                        ///< model_text of the run it was measured with
  double static_offset_bytes = 0;           ///< added between steps and at the peak; not negative
  double static_factor = 1;                 ///< of what is predicted between steps; at most 1
  std::optional<double> activation_factor;  ///< of what a step holds above that; none: no peak was measured
  friend bool operator==(const MemoryCorrection&, const MemoryCorrection&) = default;
};

struct Calibration {
  std::vector<std::string> sources;  ///< what was measured, one line each, for people
  std::optional<MemoryCorrection> memory;
  std::optional<double> op_time_scale;  ///< of compute times
  std::optional<double> d2h_bytes_per_s;
  std::optional<double> h2d_bytes_per_s;
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// What was measured between steps lies within this factor of the prediction, or it was another run than described.
inline constexpr double kMostSteadyFactor = 2;

/// Factors of activations are looked for in this range; a measurement beyond it says that the run was another one, and
/// leaves a remainder (remainder_of).
inline constexpr double kLeastActivationFactor = 0.5;
inline constexpr double kMostActivationFactor = 2;

/// The model in one line, without layout, batch or hardware: `gpt, 12 layers, hidden 512, ...`. Equal texts, equal
/// models.
[[nodiscard]] std::string model_text(const TrainingRun& run);

/// The correction at which estimate_rank gives what was measured on a rank; where `peak_bytes` is none, or no factor in
/// range reaches it, the nearest. REQUIRES: a rank and `steady_bytes`. Errors: those of estimate_rank; bad_input where
/// the run measured cannot be the one described.
[[nodiscard]] Result<MemoryCorrection> fit_memory(const TrainingRun& run, const MeasuredRank& measured,
                                                  const MemoryKnobs& knobs = {});

/// Of several ranks: the medians. REQUIRES: not empty, and each as above.
[[nodiscard]] Result<MemoryCorrection> fit_memory(const TrainingRun& run, std::span<const MeasuredRank> measured,
                                                  const MemoryKnobs& knobs = {});

/// What a correction leaves unexplained of a measured rank: measured over corrected, less one.
struct Remainder {
  std::int64_t rank = 0;
  double steady = 0;
  std::optional<double> peak;
};
/// REQUIRES: what fit_memory asks of `measured`. Errors: those of estimate_rank.
[[nodiscard]] Result<Remainder> remainder_of(const TrainingRun& run, const MeasuredRank& measured,
                                             const MemoryCorrection& correction, const MemoryKnobs& knobs = {});

/// `knobs` with the correction in them.
[[nodiscard]] MemoryKnobs corrected(MemoryKnobs knobs, const MemoryCorrection& correction);

/// The measured links in place of the device file's; bytes that were found beside what is modelled count as workspace,
/// which no plan may use. (A plan is not made larger by bytes that were found missing.)
[[nodiscard]] Machine corrected(Machine machine, const Calibration& calibration);

/// What it does, one line each, without the sources: for every report that uses it.
[[nodiscard]] std::vector<std::string> describe(const Calibration& calibration);

}  // namespace tidemark::estimate
