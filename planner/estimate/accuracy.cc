#include "planner/estimate/accuracy.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <utility>

#include "planner/estimate/run_holdings.h"

namespace tidemark::estimate {
namespace {

constexpr double kLeastPeakBytes = 1 << 30;
constexpr std::int64_t kLeastIterations = 3;

/// A run as it was understood, or why it was not.
struct Understood {
  std::optional<TrainingRun> run;
  std::string refused;
  bool in_full = false;  ///< every argument: `check` may say PASS
};

Understood understand(const MeasuredRun& measured) {
  if (!measured.unusable.empty()) return {.refused = measured.unusable};
  Result<ImportedRun> imported = import_run(measured.arguments, measured.hints);
  if (!imported) return {.refused = imported.error().message};
  const bool in_full = is_understood(imported.value());
  return {.run = std::move(imported).value().run, .in_full = in_full};
}

bool belongs_in_summary(const MeasuredRun& run, const MeasuredRank& rank) {
  if (run.hints.platform.framework == Framework::mindspeed_llm) return true;
  const bool large = !rank.peak_bytes || *rank.peak_bytes > kLeastPeakBytes;
  return large && run.iterations.value_or(0) >= kLeastIterations;
}

std::int64_t rank_of(const TrainingRun& run, const MeasuredRank& measured) {
  return measured.rank.value_or(logged_rank(run));
}

ScoredRank refuse(ScoredRank scored, std::string why) {
  scored.refused = std::move(why);
  return scored;
}

ScoredRank score_rank(ScoredRank scored, const Understood& understood, const MemoryKnobs& knobs, bool rival) {
  if (!understood.run) return refuse(std::move(scored), understood.refused);
  scored.rank = rank_of(*understood.run, scored.measured);
  if (!scored.measured.steady_bytes || !scored.measured.peak_bytes)
    return refuse(std::move(scored), "no measured memory to compare with");
  const Result<RankMemory> memory = estimate_rank(*understood.run, *scored.rank, knobs);
  if (!memory) return refuse(std::move(scored), memory.error().message);
  scored.predicted =
      MemoryFigures{.steady_bytes = memory.value().steady_bytes, .peak_bytes = memory.value().peak_bytes};
  if (rival) scored.rival = megatron_formula(*understood.run);
  const Result<RankMemory> checked = estimate_rank(cautious(*understood.run), *scored.rank, cautious(knobs));
  if (!checked) return refuse(std::move(scored), checked.error().message);
  scored.checked_peak_bytes = checked.value().peak_bytes;
  if (understood.in_full) scored.band = &band_of(*understood.run);
  return scored;
}

MemoryKnobs knobs_of(const Understood& understood, const ScoreOptions& options) {
  const bool of_model =
      options.correction && understood.run && model_text(*understood.run) == options.correction->model;
  return of_model ? corrected(options.knobs, *options.correction) : options.knobs;
}

/// Knobs by model, each from one rank; and which rank of the list that was.
struct PerModel {
  std::map<std::string, std::pair<MemoryKnobs, std::size_t>> knobs;
};

PerModel calibrate(std::span<const ScoredRank> ranks, std::span<const Understood> understood,
                   const MemoryKnobs& knobs) {
  PerModel result;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const ScoredRank& at = ranks[i];
    if (!at.predicted || !at.in_summary) continue;
    const TrainingRun& run = *understood[at.run].run;
    std::string model = model_text(run);
    if (result.knobs.contains(model)) continue;
    MeasuredRank measured = at.measured;
    measured.rank = at.rank;
    const Result<MemoryCorrection> found = fit_memory(run, measured, knobs);
    if (found) result.knobs.emplace(std::move(model), std::pair(corrected(knobs, found.value()), i));
  }
  return result;
}

void count_band(const ScoredRank& at, std::vector<BandFigures>& bands) {
  if (at.band == nullptr) return;
  auto found = std::ranges::find(bands, at.band, &BandFigures::band);
  if (found == bands.end()) found = bands.insert(bands.end(), {.band = at.band});
  found->count += 1;
  if (*at.measured.peak_bytes > *at.checked_peak_bytes * (1 + at.band->percent / 100)) found->exceeded += 1;
}

double error_percent(double predicted, double measured) {
  return std::abs(predicted / measured - 1) * 100;
}

}  // namespace

std::vector<ScoredRank> score_runs(std::span<const MeasuredRun> runs, const ScoreOptions& options) {
  std::vector<Understood> understood;
  understood.reserve(runs.size());
  std::vector<ScoredRank> ranks;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    understood.push_back(understand(runs[r]));
    const MemoryKnobs knobs = knobs_of(understood[r], options);
    for (const MeasuredRank& measured : runs[r].ranks) {
      ScoredRank scored{
          .run = r, .rank = measured.rank, .measured = measured, .in_summary = belongs_in_summary(runs[r], measured)};
      ranks.push_back(score_rank(std::move(scored), understood[r], knobs, options.rival));
    }
  }
  if (!options.calibrate_per_model) return ranks;
  const PerModel models = calibrate(ranks, understood, options.knobs);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!ranks[i].predicted) continue;
    const auto found = models.knobs.find(model_text(*understood[ranks[i].run].run));
    if (found == models.knobs.end()) continue;
    const auto& [knobs, source] = found->second;
    ranks[i].calibrates = i == source;
    ranks[i] = score_rank(std::move(ranks[i]), understood[ranks[i].run], knobs, options.rival);
  }
  return ranks;
}

double nearest_rank(std::vector<double> values, double quantile) {
  assert(!values.empty());
  std::ranges::sort(values);
  const double position = std::ceil(quantile * static_cast<double>(values.size()));
  const auto index = static_cast<std::size_t>(std::max(position, 1.0)) - 1;
  return values[std::min(index, values.size() - 1)];
}

ErrorFigures error_figures(const std::vector<double>& absolute_percent) {
  if (absolute_percent.empty()) return {};
  return {.count = absolute_percent.size(),
          .median_percent = nearest_rank(absolute_percent, 0.5),
          .p90_percent = nearest_rank(absolute_percent, 0.9),
          .worst_percent = nearest_rank(absolute_percent, 1)};
}

AccuracySummary summarize(std::span<const MeasuredRun> runs, std::span<const ScoredRank> ranks,
                          const std::optional<std::string>& suite) {
  std::vector<double> steady, peak, rival_steady, rival_peak, beside_steady, beside_peak;
  AccuracySummary summary;
  std::optional<std::size_t> last;  // ranks of a run follow one another
  for (const ScoredRank& at : ranks) {
    if (!at.in_summary || (suite && runs[at.run].suite != *suite)) continue;
    const bool is_new = last != at.run;
    last = at.run;
    summary.runs += is_new ? 1 : 0;
    if (!at.predicted) {
      summary.refused += 1;
      summary.refused_runs += is_new ? 1 : 0;
      continue;
    }
    if (at.calibrates) continue;
    count_band(at, summary.bands);
    steady.push_back(error_percent(at.predicted->steady_bytes, *at.measured.steady_bytes));
    peak.push_back(error_percent(at.predicted->peak_bytes, *at.measured.peak_bytes));
    if (!at.rival) continue;
    rival_steady.push_back(error_percent(at.rival->steady_bytes, *at.measured.steady_bytes));
    rival_peak.push_back(error_percent(at.rival->peak_bytes, *at.measured.peak_bytes));
    beside_steady.push_back(steady.back());
    beside_peak.push_back(peak.back());
  }
  summary.steady = error_figures(steady);
  summary.peak = error_figures(peak);
  summary.rival_steady = error_figures(rival_steady);
  summary.rival_peak = error_figures(rival_peak);
  summary.beside_steady = error_figures(beside_steady);
  summary.beside_peak = error_figures(beside_peak);
  return summary;
}

}  // namespace tidemark::estimate
