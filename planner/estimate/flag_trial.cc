#include "planner/estimate/flag_trial.h"

#include <algorithm>
#include <utility>

#include "planner/estimate/error_band.h"
#include "planner/estimate/run_holdings.h"
#include "planner/estimate/to_timed_run.h"
#include "planner/step_time/run_terms.h"

namespace tidemark::estimate {
namespace {

/// Sequences of a step as it runs: the global batch, rounded down where micro-batches do not divide it.
std::int64_t sequences_of(const TrainingRun& run) {
  return run.batch.micro * run.parallel.data * run.batch.micro_batches;
}

}  // namespace

Result<FlagTrials> FlagTrials::of(const ArgumentSet& set, const RunHints& hints, const MemoryKnobs& knobs,
                                  const std::vector<budget::Limit>& limits, const Chip& chip) {
  Result<ImportedRun> imported = import_run(set, hints);
  if (!imported) return imported.error();
  FlagTrials trials(set, hints, cautious(knobs), limits, chip);
  trials.is_understood_ = estimate::is_understood(imported.value());
  trials.price(imported.value().run, trials.base_);
  trials.run_ = cautious(std::move(imported.value().run));
  const Result<std::vector<RankMemory>> stages = estimate_stages(trials.run_, trials.knobs_);
  if (!stages) return stages.error();
  trials.weigh(trials.run_, stages.value(), trials.base_);
  trials.candidates_ = flag_candidates(set, trials.run_);
  return trials;
}

/// Holds a run against the limits. Limits that nothing can be held against are for others to report.
void FlagTrials::weigh(const TrainingRun& run, const std::vector<RankMemory>& stages, FlagTrial& trial) const {
  trial.holdings = bare_holdings(run, stages);
  trial.peak_bytes = trial.holdings.ranks[budget::highest_rank(trial.holdings)].peak_bytes;
  trial.verdict = budget::Verdict::pass;
  for (const budget::Finding& finding : budget::judge(trial.holdings, *limits_))
    if (finding.rank) trial.verdict = std::max(trial.verdict, finding.verdict);
}

/// Time is that of the run as it is: what memory is taken cautiously for would slow all runs alike.
void FlagTrials::price(const TrainingRun& run, FlagTrial& trial) const {
  const PricedRun priced = to_timed_run(run, *chip_);
  trial.time = run_seconds(priced, *chip_);
  trial.terms = step_time::terms_of(priced.run);
}

bool FlagTrials::is_same_job(const ImportedRun& imported) const {
  return imported.run.parallel.world == run_.parallel.world && imported.run.batch.global == run_.batch.global &&
         sequences_of(imported.run) == sequences_of(run_) && estimate::is_understood(imported) >= is_understood_;
}

std::optional<FlagTrial> FlagTrials::attempt(std::vector<std::size_t> picks) {
  FlagTrial trial{.picks = std::move(picks)};
  for (const std::size_t pick : trial.picks) {
    std::optional<std::vector<Flag>> joined = join_flags(trial.flags, candidates_[pick].flags);
    if (!joined) return std::nullopt;
    trial.flags = std::move(*joined);
  }
  if (!fit_together(trial.flags)) return std::nullopt;
  ++looked_at_;
  Result<ImportedRun> imported = import_run(with_flags(*set_, trial.flags), *hints_);
  if (!imported || !is_same_job(imported.value())) return std::nullopt;
  price(imported.value().run, trial);
  const TrainingRun run = cautious(std::move(imported.value().run));
  const Result<std::vector<RankMemory>> stages = estimate_stages(run, knobs_);
  if (!stages) return std::nullopt;
  weigh(run, stages.value(), trial);
  trial.step_percent = 100 * (trial.time.seconds() / base_.time.seconds() - 1);
  return trial;
}

}  // namespace tidemark::estimate
