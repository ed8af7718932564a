// Exact search: from the lower bound upward, with a proof for every height left behind. For hard small sets.

#include <algorithm>
#include <numeric>

#include "planner/layout/exact_cause.h"
#include "planner/layout/exact_search.h"

namespace tidemark::layout {
namespace {

constexpr std::string_view kName = "exact";
constexpr std::int64_t kFirstWork = 20'000;
// Of one try: what is undecided for other reasons than its work is tried again and again.
constexpr std::int64_t kMostWork = std::int64_t{1} << 50;

class Descent {
 public:
  Descent(const PackProblem& problem, const PackLimits& limits)
      : problem_(problem),
        limits_(limits),
        blocks_(problem),
        best_(best_order(problem, {.should_stop = limits.should_stop})),
        work_left_(limits.work) {
    for (const BlockPart& part : blocks_.parts()) unit_ = std::gcd(unit_, part.shift + part.bytes);
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      unit_ = std::gcd(unit_, blocks_.alignment(b));
      if (blocks_.fixed(b) != kAnywhere) unit_ = std::gcd(unit_, blocks_.fixed(b));
    }
  }

  PackAnswer decide(Bytes capacity) {
    if (best_.packing.height_bytes <= capacity) return std::move(best_);
    if (best_.bound_bytes <= capacity) try_height(capacity, work_left_);
    if (best_.bound_bytes > capacity && best_.packing.height_bytes > capacity) {
      best_.status = PackStatus::infeasible;
      best_.cannot_fit = cannot_fit(problem_, capacity, fit_limits(std::max(work_left_, limits_.work / 2)));
      if (best_.cannot_fit.empty()) best_.cannot_fit = everything();
    }
    return std::move(best_);
  }

  /// The bound again and again, each time for longer, and between two tries heights half way to the best so far. What
  /// is tried does not depend on how much work is left, so more of it never ends higher.
  PackAnswer minimise() {
    for (std::int64_t work = kFirstWork; may_go_on(); work = std::min(2 * work, kMostWork)) {
      try_height(best_.bound_bytes, work);
      for (Bytes low = best_.bound_bytes; may_go_on();) {
        const Bytes middle = low + (best_.packing.height_bytes - low) / 2 / unit_ * unit_;
        if (middle <= low || middle >= best_.packing.height_bytes) break;
        if (!try_height(middle, work)) low = middle;
      }
    }
    return std::move(best_);
  }

 private:
  [[nodiscard]] bool may_go_on() const {
    return best_.packing.height_bytes > best_.bound_bytes && work_left_ > 0 &&
           !(limits_.should_stop && limits_.should_stop());
  }
  [[nodiscard]] FitLimits fit_limits(std::int64_t work) const {
    return {.work = work, .should_stop = limits_.should_stop};
  }
  [[nodiscard]] std::vector<std::int32_t> everything() const {
    std::vector<std::int32_t> rows;
    for (std::size_t i = 0; i < problem_.items.size(); ++i) {
      if (problem_.items[i].bytes > 0 && problem_.items[i].begin < problem_.items[i].end)
        rows.push_back(static_cast<std::int32_t>(i));
    }
    return rows;
  }
  bool try_height(Bytes height, std::int64_t work) {
    FitAnswer answer = fit(blocks_, height, fit_limits(std::min(work, work_left_)));
    work_left_ -= std::max<std::int64_t>(answer.work, kFirstWork / 20);
    if (answer.status == FitStatus::infeasible)
      best_.bound_bytes = std::max(best_.bound_bytes, (height / unit_ + 1) * unit_);
    if (answer.status == FitStatus::placed) {
      best_.packing = blocks_.packing(answer.addresses);
      best_.packer = kName;
    }
    if (best_.packing.height_bytes <= best_.bound_bytes) best_.status = PackStatus::optimal;
    return answer.status == FitStatus::placed;
  }

  const PackProblem& problem_;
  const PackLimits& limits_;
  Blocks blocks_;
  PackAnswer best_;
  std::int64_t work_left_ = 0;
  Bytes unit_ = 0;
};

PackAnswer pack(const PackProblem& problem, const PackLimits& limits) {
  Descent descent(problem, limits);
  return limits.enough_bytes > 0 ? descent.decide(limits.enough_bytes) : descent.minimise();
}

}  // namespace

extern const Packer kExact;
const Packer kExact = {.name = kName, .help = "a tree search from the lower bound up; small sets only", .pack = pack};

}  // namespace tidemark::layout
