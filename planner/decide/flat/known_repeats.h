#pragma once
// The repeats of a step, found when a search first asks for them: a search that ends before its first fold never does,
// and those of the same ops ask once.

#include <mutex>
#include <optional>

#include "planner/decide/flat/problem.h"
#include "planner/decide/flat/repeats.h"

namespace tidemark::decide::flat {

class KnownRepeats {
 public:
  /// The problem must outlive this.
  explicit KnownRepeats(const Problem& problem) : problem_(problem) {}

  /// From any thread; one finds them, the others wait.
  [[nodiscard]] const Repeats& get() const {
    std::call_once(once_, [this] { repeats_.emplace(problem_); });
    return *repeats_;
  }

 private:
  const Problem& problem_;
  mutable std::once_flag once_;
  mutable std::optional<Repeats> repeats_;
};

}  // namespace tidemark::decide::flat
