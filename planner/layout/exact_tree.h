#pragma once
// One pass of the exact search: a tree of two branches, to a limit.

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/layout/exact_state.h"

namespace tidemark::layout {

enum class FitStatus : std::uint8_t { placed, infeasible, undecided };

/// At the lowest floor of all one block is chosen: it lies there, or it does not. What shares no block yet to be placed
/// is packed on its own.
class ExactTree {
 public:
  /// What makes a block worth trying first: its own worth, times the blame of what it stands in, over the slack there.
  struct Choice {
    std::vector<double> worth;  ///< per block, > 0
    bool over_slack = false;
    bool few_first = false;  ///< shared among those of which one must lie at the floor of a section
  };

  /// Keeps references to all. REQUIRES: state.start().
  ExactTree(ExactState& state, const Choice& choice, const std::function<bool()>& should_stop)
      : state_(state), choice_(choice), should_stop_(should_stop), scores_(state.sections().blocks()) {}

  /// Goes on until all is placed, until nothing can be, or for so many nodes, or steps of the state. All is placed in
  /// the state in the first case, and nothing otherwise.
  [[nodiscard]] FitStatus run(std::int64_t nodes, std::int64_t steps);

 private:
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };
  [[nodiscard]] bool solve(Range range);
  [[nodiscard]] bool solve_parts(Range range);
  [[nodiscard]] bool exhausted();
  [[nodiscard]] std::uint32_t choose(Range range);
  [[nodiscard]] bool lift(Range range, Bytes& lowest);
  // Blocks that may lie at the floor of a section; one must if the next to come would leave a hole wider than the
  // slack.
  struct AtFloor {
    std::uint32_t count = 0;
    std::uint32_t block = 0;  // the last of them
    bool one_must = false;
  };
  [[nodiscard]] AtFloor at_floor(std::uint32_t section, Bytes lowest) const;
  // Of blocks that differ in nothing the first comes first.
  [[nodiscard]] bool comes_now(std::uint32_t block) const;
  [[nodiscard]] double score(std::uint32_t block);

  ExactState& state_;
  const Choice& choice_;
  const std::function<bool()>& should_stop_;
  std::int64_t last_step_ = 0;
  std::int64_t last_node_ = 0;
  std::int64_t nodes_ = 0;
  std::int64_t next_question_ = 0;
  bool stopped_ = false;
  struct Score {
    std::int64_t round = 0;
    double score = 0;
  };
  std::vector<Score> scores_;  // as of the round of choosing
  std::int64_t round_ = 0;
  std::vector<Range> parts_;  // a stack: those of the nodes above come first
};

}  // namespace tidemark::layout
