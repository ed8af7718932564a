#pragma once
// The fastest layouts, of which some have been planned and of others it is known only what their steps take at least.
// Says between what the step of the last place will lie, so that the others are planned only where it matters.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

namespace tidemark::search {

/// A layout in a queue or a ranking, which goes by its step, or by what that is taken to be.
struct LayoutStep {
  std::int64_t step_ns = 0;
  std::size_t id = 0;
  friend auto operator<=>(const LayoutStep&, const LayoutStep&) = default;
};

class LayoutRanking {
 public:
  /// There are fewer layouts than places.
  static constexpr std::int64_t kNoStep = std::numeric_limits<std::int64_t>::max();

  /// REQUIRES: places >= 1.
  explicit LayoutRanking(std::size_t places) : places_(places) {}

  void add(LayoutStep planned);
  /// Its step will be no shorter than that, or it will not fit.
  void expect(LayoutStep least);
  /// Those expected with at most `step_ns`, least first, at most `most` of them; they are expected no longer.
  [[nodiscard]] std::vector<std::size_t> take(std::int64_t step_ns, std::size_t most);

  /// The step of the last place once all that are expected have been added, kNoStep included, is not below the first
  /// and not above the second. Where one is expected with no more than the second, so is one with no more than the
  /// first.
  [[nodiscard]] std::int64_t least_last_ns() const { return least_last_ns_; }
  [[nodiscard]] std::int64_t most_last_ns() const { return most_last_ns_; }

  [[nodiscard]] const std::set<LayoutStep>& planned() const { return planned_; }
  [[nodiscard]] const std::set<LayoutStep>& expected() const { return expected_; }

 private:
  void find_last();

  std::size_t places_;
  std::set<LayoutStep> planned_, expected_;
  std::int64_t least_last_ns_ = kNoStep, most_last_ns_ = kNoStep;
};

}  // namespace tidemark::search
