#pragma once
// How far predictions of memory are from measured runs: one score per measured rank, and order statistics of their
// absolute errors.
//
// The summary covers what is worth predicting: on CUDA runs that peak above 1 GiB and made at least three iterations
// (before the third, the optimizer's state or the allocator's blocks are not all there), on Ascend every run. What was
// refused has no error and is counted.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/estimate/calibration.h"
#include "planner/estimate/error_band.h"
#include "planner/estimate/measured_run.h"
#include "planner/estimate/megatron_formula.h"

namespace tidemark::estimate {

struct ScoredRank {
  std::size_t run = 0;               ///< of the measured runs
  std::optional<std::int64_t> rank;  ///< global; none: a refused run does not tell which rank it logged
  MeasuredRank measured;
  std::optional<MemoryFigures> predicted;
  /// What Megatron-LM's own formula gives for the same rank; none: not asked for, or it does not cover the model.
  std::optional<MemoryFigures> rival;
  /// Peak as `check` takes it (a cautious run), and the band it adds. None and nullptr: refused. nullptr alone: not
  /// all arguments are understood, and there is no band.
  std::optional<double> checked_peak_bytes;
  const ErrorBand* band = nullptr;
  std::string refused;      ///< why nothing is predicted; empty: `predicted` is there
  bool in_summary = false;  ///< by size and length of the run, refused or not
  bool calibrates = false;  ///< its measurement corrects the others: in no percentile
};

struct ScoreOptions {
  MemoryKnobs knobs;
  std::optional<MemoryCorrection> correction;  ///< of the runs of its model
  /// The first usable rank of every model corrects the predictions of all others of that model.
  bool calibrate_per_model = false;
  bool rival = false;
};

/// Every rank of every run, in order. Deterministic, thread-safe. O(runs * (arguments + layers)).
[[nodiscard]] std::vector<ScoredRank> score_runs(std::span<const MeasuredRun> runs, const ScoreOptions& options);

/// Ranks of one class whose measured peak lies above the checked one and its band.
struct BandFigures {
  const ErrorBand* band = nullptr;
  std::size_t count = 0;
  std::size_t exceeded = 0;
};

/// Absolute errors in percent of what was measured. p90 and median are nearest ranks: values that occurred.
struct ErrorFigures {
  std::size_t count = 0;
  double median_percent = 0;
  double p90_percent = 0;
  double worst_percent = 0;
};

/// Value at `quantile` in (0, 1] by nearest rank: the ceil(quantile * n)-th smallest. REQUIRES: not empty.
[[nodiscard]] double nearest_rank(std::vector<double> values, double quantile);
[[nodiscard]] ErrorFigures error_figures(const std::vector<double>& absolute_percent);

struct AccuracySummary {
  ErrorFigures steady;
  ErrorFigures peak;
  std::size_t refused = 0;         ///< ranks, as the counts above
  std::size_t runs = 0;            ///< that the summary covers, refused ones included
  std::size_t refused_runs = 0;    ///< of them
  std::vector<BandFigures> bands;  ///< of the classes that occur
  /// The rival's and ours, on the ranks for which the rival has a figure. Counts are 0 where it was not asked for.
  ErrorFigures rival_steady, rival_peak, beside_steady, beside_peak;
};

/// Over the ranks of the suite `suite`, or of all of them.
[[nodiscard]] AccuracySummary summarize(std::span<const MeasuredRun> runs, std::span<const ScoredRank> ranks,
                                        const std::optional<std::string>& suite = std::nullopt);

}  // namespace tidemark::estimate
