#pragma once
// All choices that fit and in which nothing more can be kept: what a search looks through that counts other things than
// added cost, but in which doing less is never worse.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/decide/gaps/gap_problem.h"

namespace tidemark::decide::gaps {

/// What is chosen for: each unit by itself, or all units of one kind alike.
enum class Grain : std::uint8_t { units, kinds };

/// Lists choices of one problem. Borrowed arguments must outlive it. Not thread-safe.
class LeastChoices {
 public:
  LeastChoices(const GapProblem& problem, Pricer& pricer, Bytes device_budget, Bytes host_budget, Grain grain);

  /// Every choice within the budgets of which no part can be kept; of a unit's gaps the first 16 may be swapped.
  /// Nothing: there are more choices than `most`. At most that many are priced.
  [[nodiscard]] std::optional<std::vector<Choice>> list(std::size_t most);

  /// Those within the budgets that keep one part less than `choice`.
  [[nodiscard]] std::vector<Choice> beyond(const Choice& choice);

  /// Those within the budgets that do less or another thing to one part that has a gap marked in `wanted` (per gap), at
  /// most with another part that does more instead; those that add least first. None where the choice differs within a
  /// part. At most about `most` choices are priced.
  [[nodiscard]] std::vector<Choice> near(const Choice& choice, const std::vector<bool>& wanted, std::size_t most);
  /// Choices priced so far.
  [[nodiscard]] std::size_t priced() const { return priced_; }

 private:
  /// One thing that may be done to the gaps of a unit.
  struct Option {
    std::vector<Action> actions;
    std::vector<std::size_t> lesser;  ///< options that keep one of its gaps more; of a recompute: that keeps all
  };
  /// Units that are chosen for together. Option 0 keeps all.
  struct Part {
    std::vector<std::int32_t> units;
    std::vector<Option> options;
  };
  [[nodiscard]] std::vector<Option> options_of(const GapProblem::Unit& unit) const;
  struct Priced {
    Choice choice;
    std::int64_t added_cost = 0;
  };
  /// Which option of the part the choice takes; nothing: none, or not for all units alike.
  [[nodiscard]] std::optional<std::size_t> option_in(const Part& part, const Choice& choice) const;
  [[nodiscard]] bool is_any(const Part& part, const std::vector<bool>& wanted) const;
  void exchange(const std::vector<std::optional<std::size_t>>& now, std::size_t part, const Choice& less,
                std::vector<Priced>& found);
  void set(const Part& part, const Option& option, Choice& choice) const;
  /// What it adds; nothing: it does not fit.
  [[nodiscard]] std::optional<std::int64_t> added_cost(const Choice& choice);

  const GapProblem& p_;
  Pricer& pricer_;
  Bytes budget_, host_budget_;
  std::vector<Part> parts_;
  std::size_t priced_ = 0;
};

}  // namespace tidemark::decide::gaps
