#pragma once
// A run with other flags: what the framework makes of them, what it holds then, and how long its step takes.

#include <cstddef>
#include <optional>
#include <vector>

#include "core/bytes.h"
#include "core/chip.h"
#include "core/result.h"
#include "core/time_term.h"
#include "planner/budget/holdings.h"
#include "planner/budget/limit.h"
#include "planner/estimate/argument_table.h"
#include "planner/estimate/flag_candidates.h"
#include "planner/estimate/flag_edit.h"
#include "planner/estimate/rank_memory.h"
#include "planner/estimate/run_seconds.h"

namespace tidemark::estimate {

/// A set of candidates and what became of the run with it.
struct FlagTrial {
  std::vector<std::size_t> picks;  ///< of the candidates, in the order they were added
  std::vector<Flag> flags;
  budget::Holdings holdings;
  budget::Verdict verdict = budget::Verdict::fail;
  Bytes peak_bytes = 0;  ///< of the highest rank
  RunSeconds time;
  TimeTerms terms;          ///< that the step's seconds rest on
  double step_percent = 0;  ///< longer than the step of the job as it is
};

/// Tries sets of flags, each from the arguments on. Deterministic. Threads: none.
class FlagTrials {
 public:
  /// `chip`: what the job runs on. REQUIRES: all but `knobs` outlive this. Errors (bad_input): the run itself is
  /// refused.
  [[nodiscard]] static Result<FlagTrials> of(const ArgumentSet& set, const RunHints& hints, const MemoryKnobs& knobs,
                                             const std::vector<budget::Limit>& limits, const Chip& chip);

  /// Nothing: the framework refuses the flags, or they change the job.
  [[nodiscard]] std::optional<FlagTrial> attempt(std::vector<std::size_t> picks);

  [[nodiscard]] const FlagTrial& base() const { return base_; }  ///< no flag
  [[nodiscard]] const std::vector<FlagCandidate>& candidates() const { return candidates_; }
  [[nodiscard]] const std::vector<budget::Limit>& limits() const { return *limits_; }
  [[nodiscard]] bool is_understood() const { return is_understood_; }
  /// State that every device holds whole could be shared out, but among how many is not known: such flags are refused.
  [[nodiscard]] bool leaves_out_sharding() const {
    return run_.platform.devices == 0 && !run_.optimizer.distributed && !run_.optimizer.fsdp;
  }
  [[nodiscard]] std::size_t looked_at() const { return looked_at_; }  ///< sets that were imported

 private:
  FlagTrials(const ArgumentSet& set, const RunHints& hints, const MemoryKnobs& knobs,
             const std::vector<budget::Limit>& limits, const Chip& chip)
      : set_(&set), hints_(&hints), limits_(&limits), chip_(&chip), knobs_(knobs) {}
  void weigh(const TrainingRun& run, const std::vector<RankMemory>& stages, FlagTrial& trial) const;
  void price(const TrainingRun& run, FlagTrial& trial) const;
  [[nodiscard]] bool is_same_job(const ImportedRun& imported) const;

  const ArgumentSet* set_;
  const RunHints* hints_;
  const std::vector<budget::Limit>* limits_;
  const Chip* chip_;
  MemoryKnobs knobs_;  ///< cautious
  bool is_understood_ = true;
  TrainingRun run_;  ///< of the job, cautious
  FlagTrial base_;
  std::vector<FlagCandidate> candidates_;
  std::size_t looked_at_ = 0;
};

}  // namespace tidemark::estimate
