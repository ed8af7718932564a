#pragma once
// What every rule about one rank looks at, gathered once.

#include <vector>

#include "planner/estimate/local_sizes.h"
#include "planner/estimate/parameter_list.h"
#include "planner/estimate/rank_place.h"
#include "planner/estimate/state_bytes.h"

namespace tidemark::estimate {

struct RankView {
  const TrainingRun& run;
  const MemoryKnobs& knobs;
  RankPlace place;
  LocalSizes sizes;
  std::vector<std::vector<Parameter>> chunks;  ///< parameters, chunk by chunk
  std::vector<Parameter> parameters;           ///< all of them
  StateBytes state;

  [[nodiscard]] bool has_loss() const;  ///< the loss is computed on this rank
  [[nodiscard]] bool last_stage() const { return place.stage == run.parallel.pipeline - 1; }
};

/// REQUIRES: a run and a rank that estimate_rank accepts; `run` and `knobs` outlive the view.
[[nodiscard]] RankView view_of(const TrainingRun& run, std::int64_t rank, const MemoryKnobs& knobs);

/// Terms without those of zero bytes. A small type so that adding one reads as one line.
class TermList {
 public:
  void add(Term term) {
    if (term.bytes != 0) terms_.push_back(term);
  }
  [[nodiscard]] std::vector<Term> take() && { return std::move(terms_); }

 private:
  std::vector<Term> terms_;
};

[[nodiscard]] double sum_of(const std::vector<Term>& terms);

}  // namespace tidemark::estimate
