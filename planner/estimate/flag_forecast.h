#pragma once
// What a set of flags may come to, from what each did alone: good for choosing which sets to estimate, nothing else.
//
// A category of a rank takes the product of what the flags make of it alone, and of what two that were estimated
// together made of it beyond that; the step's passes and its end alike. The pipeline's idle part follows from stages
// and micro-batches. Estimating a set takes some hundred times as long.

#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "planner/estimate/flag_trial.h"

namespace tidemark::estimate {

/// Of some rows of ranks by category and phase, and of the step.
struct ForecastParts {
  std::vector<double> bytes;
  RunSeconds time;
};

struct Forecast {
  double reach = 0;    ///< the largest part of its limit that a rank comes to, error band included: above 1 is no PASS
  double bare = 0;     ///< the same without the band: above 1 is FAIL
  double excess = 0;   ///< bytes above the limits, band included, of all rows together
  double peak = 0;     ///< bytes of the highest row
  double percent = 0;  ///< that the step takes longer
};

class FlagForecast {
 public:
  /// `singles`: by candidate, nothing where it was refused. REQUIRES: `trials` outlives this.
  FlagForecast(const FlagTrials& trials, const std::vector<std::optional<FlagTrial>>& singles);

  [[nodiscard]] ForecastParts parts_of(const FlagTrial& trial) const;
  /// `before` with another candidate, into `after`. REQUIRES: the candidate was not refused.
  void add(const ForecastParts& before, std::size_t candidate, ForecastParts& after) const;
  /// Two candidates of the set that `parts` is of: what is known of them together.
  void correct(ForecastParts& parts, std::size_t one, std::size_t other) const;
  /// Takes what two candidates came to together. REQUIRES: two picks, asked once for each two.
  void learn(const FlagTrial& two);
  [[nodiscard]] Forecast of(const ForecastParts& parts) const;
  [[nodiscard]] Forecast of(const std::vector<std::size_t>& picks) const;

 private:
  /// What a flag does to each part: a factor where there is something to multiply, else what it adds.
  struct Change {
    std::vector<double> factor, more;
    RunSeconds time;  ///< factors; of idle_chunks what it adds
  };
  /// One limit held against one row.
  struct Bound {
    std::size_t first = 0, count = 0;  ///< of a row's parts: they are added up
    std::size_t row = 0;
    double most_bytes = 0;
    double kept_bytes = 0;  ///< to be PASS, its own margin considered
  };

  void choose_rows(const budget::Holdings& holdings);
  void add_bounds(const budget::Limit& limit, const budget::Holdings& holdings);
  [[nodiscard]] static Change change_between(const ForecastParts& before, const ForecastParts& after);
  static void apply(const Change& change, const ForecastParts& before, ForecastParts& after);

  ForecastParts base_;
  double base_seconds_ = 0;
  double band_ = 0;                ///< a part, not percent
  std::vector<std::size_t> rows_;  ///< of the job as it is
  std::size_t row_count_ = 0;      ///< of the same: those looked at and others
  std::vector<Bound> bounds_;
  std::vector<Change> changes_;                                     ///< by candidate
  std::map<std::pair<std::size_t, std::size_t>, Change> together_;  ///< ascending in each pair
};

}  // namespace tidemark::estimate
