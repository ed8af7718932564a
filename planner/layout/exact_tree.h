#pragma once
// One pass of the exact search: a tree of two branches, to a limit.

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/layout/exact_state.h"

namespace tidemark {

enum class FitStatus : std::uint8_t { placed, infeasible, undecided };

/// At the lowest floor of all one block is chosen: it lies there, or it does not. What shares no block yet to be placed
/// is packed on its own.
class ExactTree {
 public:
  /// What makes a block worth trying first: its own worth, times the blame of what it stands in, over the slack there.
  struct Choice {
    std::vector<double> worth;  ///< per block, > 0
    bool over_slack = false;
  };

  /// Keeps references to all. REQUIRES: state.start().
  ExactTree(ExactState& state, const Choice& choice, const std::function<bool()>& should_stop)
      : state_(state), choice_(choice), should_stop_(should_stop) {}

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
  [[nodiscard]] double score(std::uint32_t block) const;

  ExactState& state_;
  const Choice& choice_;
  const std::function<bool()>& should_stop_;
  std::int64_t last_step_ = 0;
  std::int64_t last_node_ = 0;
  std::int64_t nodes_ = 0;
  bool stopped_ = false;
  std::vector<Range> parts_;  // a stack: those of the nodes above come first
};

}  // namespace tidemark
