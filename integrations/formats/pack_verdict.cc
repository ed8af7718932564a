#include "integrations/formats/pack_verdict.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

namespace tidemark::formats {
namespace {

using Items = std::vector<std::int32_t>;

Bytes aligned_bytes(const layout::PackProblem& problem, std::int32_t item) {
  return round_up(problem.items[static_cast<std::size_t>(item)].bytes, problem.alignment);
}

std::int32_t block_of(const layout::PackProblem& problem, std::int32_t item) {
  return problem.block_of.empty() ? item : problem.block_of[static_cast<std::size_t>(item)];
}

/// Of items that live at one moment: those of a block share their bytes.
Bytes needed_at_once(const layout::PackProblem& problem, const Items& items) {
  std::map<std::int32_t, Bytes> most;
  for (const std::int32_t item : items) {
    Bytes& bytes = most[block_of(problem, item)];
    bytes = std::max(bytes, aligned_bytes(problem, item));
  }
  Bytes sum = 0;
  for (const auto& [block, bytes] : most) sum += bytes;
  return sum;
}

/// The item that is fixed to bytes beyond the capacity.
Items fixed_beyond(const layout::PackProblem& problem, Bytes capacity) {
  for (std::size_t i = 0; i < problem.fixed_offset.size(); ++i) {
    const auto item = static_cast<std::int32_t>(i);
    if (problem.fixed_offset[i] != layout::kAnywhere &&
        problem.fixed_offset[i] + aligned_bytes(problem, item) > capacity)
      return {item};
  }
  return {};
}

/// Items that live when most bytes do.
Items at_busiest_moment(const IntervalProblem& problem) {
  std::vector<Bytes> change(problem.times.size() + 1, 0);
  const auto& items = problem.problem.items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Bytes bytes = aligned_bytes(problem.problem, static_cast<std::int32_t>(i));
    change[static_cast<std::size_t>(items[i].begin)] += bytes;
    change[static_cast<std::size_t>(items[i].end)] -= bytes;
  }
  Bytes live = 0, most = 0;
  std::int32_t moment = 0;
  for (std::size_t time = 0; time < change.size(); ++time) {
    live += change[time];
    if (live <= most) continue;
    most = live;
    moment = static_cast<std::int32_t>(time);
  }
  Items found;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (items[i].begin <= moment && moment < items[i].end) found.push_back(static_cast<std::int32_t>(i));
  return found;
}

/// As few of them as need more than the capacity at once: the largest. Nothing: they do not.
Items too_much_at_once(const layout::PackProblem& problem, Items items, Bytes capacity) {
  std::ranges::stable_sort(
      items, [&](std::int32_t a, std::int32_t b) { return aligned_bytes(problem, a) > aligned_bytes(problem, b); });
  std::map<std::int32_t, bool> seen;
  Bytes sum = 0;
  Items few;
  for (const std::int32_t item : items) {
    if (!seen.try_emplace(block_of(problem, item), true).second) continue;  // its largest is there already
    few.push_back(item);
    sum += aligned_bytes(problem, item);
    if (sum > capacity) return few;
  }
  return {};
}

/// Rank of the first moment at which all of them live; nothing: there is none.
std::optional<std::int32_t> moment_of(const layout::PackProblem& problem, const Items& items) {
  std::int32_t begin = 0, end = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t item : items) {
    begin = std::max(begin, problem.items[static_cast<std::size_t>(item)].begin);
    end = std::min(end, problem.items[static_cast<std::size_t>(item)].end);
  }
  return begin < end ? std::optional(begin) : std::nullopt;
}

void explain(const IntervalProblem& problem, Items items, Bytes capacity, PackVerdict& verdict) {
  if (items.empty()) items = fixed_beyond(problem.problem, capacity);
  if (items.empty()) items = too_much_at_once(problem.problem, at_busiest_moment(problem), capacity);
  if (items.empty()) return;
  const std::optional<std::int32_t> moment = moment_of(problem.problem, items);
  const Bytes together = moment ? needed_at_once(problem.problem, items) : 0;
  if (together > capacity) {
    verdict.together_bytes = together;
    verdict.time = problem.times[static_cast<std::size_t>(*moment)];
  }
  for (const std::int32_t item : items) verdict.cannot_fit.push_back(problem.row_of[static_cast<std::size_t>(item)]);
  std::ranges::sort(verdict.cannot_fit);
  verdict.cannot_fit.erase(std::unique(verdict.cannot_fit.begin(), verdict.cannot_fit.end()), verdict.cannot_fit.end());
}

}  // namespace

std::string_view word_text(PackWord word) {
  constexpr std::array<std::string_view, 4> kWords = {"optimal", "within", "best_found", "infeasible"};
  return kWords[static_cast<std::size_t>(word)];
}

PackVerdict judge(const IntervalProblem& problem, const layout::PackAnswer& answer,
                  std::optional<Bytes> capacity_bytes) {
  PackVerdict verdict;
  const Bytes height = answer.packing.height_bytes;
  verdict.fits = !capacity_bytes || height <= *capacity_bytes;
  if (!verdict.fits && (answer.status == layout::PackStatus::infeasible || answer.bound_bytes > *capacity_bytes ||
                        !fixed_beyond(problem.problem, *capacity_bytes).empty())) {
    verdict.word = PackWord::infeasible;
    explain(problem, answer.cannot_fit, *capacity_bytes, verdict);
  } else if (height == answer.bound_bytes || answer.status == layout::PackStatus::optimal) {
    verdict.word = PackWord::optimal;
  } else if (answer.excess_percent() <= kWithinPercent) {
    verdict.word = PackWord::within;
  }
  return verdict;
}

}  // namespace tidemark::formats
