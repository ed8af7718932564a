#pragma once
// Which line of a job made it grow: one whose value was another before, with what it was, or one that is no longer
// there.

#include <optional>
#include <string>
#include <vector>

#include "planner/budget/control.h"
#include "planner/budget/growth.h"
#include "planner/budget/holdings.h"

namespace tidemark::ci {

struct ChangedLine {
  budget::Control now;  ///< without a text: what was there before is gone, or has no effect any more
  std::string before;  ///< the text that had its key or flag, empty: none had; of what is gone up to three, with commas
  friend bool operator==(const ChangedLine&, const ChangedLine&) = default;
};

struct ChangedControl {
  ChangedLine line;
  /// Where no line that controls a storage changed: others of the job's that did. At most kMostChangedLines with
  /// `line`, what is gone last.
  std::vector<ChangedLine> others;
  friend bool operator==(const ChangedControl&, const ChangedControl&) = default;
};
inline constexpr std::size_t kMostChangedLines = 5;

/// The first placed control whose value (setting_text.h) is not among `before`: of the storages that grew, largest
/// growth first, then of all that `held` holds. Where there is none, the settings of `after` that changed, and what of
/// `before` has a key or flag that nothing of `after` has. Nothing: no value changed, or `before` is empty, which tells
/// nothing. `before`: of all ranks, as control_texts gives them; `held`: storages of one rank of `after`.
[[nodiscard]] std::optional<ChangedControl> changed_control(const std::vector<std::string>& before,
                                                            const budget::Holdings& after,
                                                            const std::vector<budget::StorageGrowth>& growth,
                                                            const std::vector<budget::HeldStorage>& held);

/// `; changed: lm.yaml:8: model.dense_width: 9216 (was 8192)`, `; changed: --recompute-granularity full (no longer in
/// effect)`; several with commas; nothing changed: empty.
[[nodiscard]] std::string changed_text(const std::optional<ChangedControl>& changed);

}  // namespace tidemark::ci
