#pragma once
// Local search on a State at one budget: take back some second runs, repair what is then above the budget with the
// moves that free most for their cost, keep the outcome if it is not much dearer. Deterministic: seeded, and bounded by
// counted work.

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "planner/decide/flat/priced_inputs.h"
#include "planner/decide/flat/random.h"
#include "planner/decide/flat/state.h"

namespace tidemark::decide::flat {

/// Solutions none of which is both lower and cheaper than another; by ascending peak, so by descending cost.
class Archive {
 public:
  Archive() = default;
  /// What is found besides another archive, which is not changed and must outlive this one.
  explicit Archive(const Archive* base) : base_(base) {}
  [[nodiscard]] bool wants(Bytes peak, std::int64_t cost) const;
  void add(Solution solution);
  void add_all(const Archive& other) {
    for (const Solution& solution : other.all()) add(solution);
  }
  /// The cheapest that fits, of the base too; nullptr: none does.
  [[nodiscard]] const Solution* best_within(Bytes budget) const;
  /// Without those of the base.
  [[nodiscard]] const std::vector<Solution>& all() const { return solutions_; }

 private:
  const Archive* base_ = nullptr;
  std::vector<Solution> solutions_;
};

class Improver {
 public:
  Improver(State& state, Archive& archive, std::uint64_t seed);

  /// Brings the state below its budget. False: it did not get there, or was told to stop before; the state is then as
  /// before.
  bool repair(std::int64_t work, const std::function<bool()>& should_stop = {});
  /// Searches from the state, which must fit, and leaves the cheapest schedule found in it. `heat`: of what is usual
  /// for long searches; short ones from a good start do better colder.
  void improve(std::int64_t work, double heat, const std::function<bool()>& should_stop);

 private:
  struct Candidate {
    std::int32_t storage = 0;
    Key until = 0;  ///< the use it is back for
    Key rerun = 0;  ///< of its writer; or, with `carried`, of a reader that it is paged in for; 0: it is paged in
    bool carried = false;
    double score = 0;
  };
  /// How often dead inputs run again rather than live on, and later reruns of the same ops go.
  struct Way {
    double recreate = 0, drop_later = 0;
    int most_inputs = 0;  ///< that run again
    double price = 0;     ///< of a byte that lives on, which then decides instead; 0: none
  };
  /// `most_cost`: what ends above it is of no use, so nothing that leads there is gone through with.
  bool repair_to_fit(int most_steps, std::int64_t most_work, double most_cost = INFINITY,
                     const std::function<bool()>& should_stop = {});
  bool repair_step();
  Way random_way();
  void kick();
  bool find_candidate(Key position, Candidate& candidate);
  [[nodiscard]] Key rerun_for(std::int32_t storage, Key position, Key until);
  [[nodiscard]] Key carrier_for(std::int32_t storage, Key position, Key until);
  bool apply(const Candidate& candidate, const Way& way);
  bool rerun(Key key, const Way& way);
  [[nodiscard]] bool too_dear(std::int64_t more = 0) const;
  [[nodiscard]] std::int64_t work() const;
  void change_some();
  void exchange();
  void shift();
  void ruin();
  void ruin_most();
  void record();
  void keep();

  State& state_;
  Archive& archive_;
  Random random_;
  PricedInputs inputs_;
  std::vector<std::int32_t> leaving_;  ///< storages that can leave and come back, by their first touch
  double most_cost_ = INFINITY;
};

}  // namespace tidemark::decide::flat
