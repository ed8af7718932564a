#include "planner/layout/exact_cause.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "planner/layout/exact_parts.h"

namespace tidemark::layout {
namespace {

using Rows = std::vector<std::int32_t>;

std::int32_t number_of(const PackProblem& problem, std::int32_t row) {
  return problem.block(static_cast<std::size_t>(row));
}

Bytes bytes_of(const PackProblem& problem, std::int32_t row) {
  return round_up(problem.items[static_cast<std::size_t>(row)].bytes, problem.alignment);
}

// Of every block that lives when the row begins, the item with the most bytes, most bytes first; only so many that they
// exceed the capacity. Nothing if they do not.
Rows too_much_at_once(const PackProblem& problem, std::int32_t row, Bytes capacity) {
  const std::int32_t moment = problem.items[static_cast<std::size_t>(row)].begin;
  std::map<std::int32_t, std::int32_t> largest;
  for (std::int32_t other = 0; other < static_cast<std::int32_t>(problem.items.size()); ++other) {
    const PackItem& item = problem.items[static_cast<std::size_t>(other)];
    if (!item.takes_part() || item.begin > moment || item.end <= moment) continue;
    std::int32_t& seen = largest.try_emplace(number_of(problem, other), other).first->second;
    if (bytes_of(problem, other) > bytes_of(problem, seen)) seen = other;
  }
  Rows rows;
  for (const auto& [number, other] : largest) rows.push_back(other);
  std::ranges::stable_sort(rows, std::greater<>(), [&](std::int32_t r) { return bytes_of(problem, r); });
  Bytes bytes = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    bytes += bytes_of(problem, rows[r]);
    if (bytes <= capacity) continue;
    rows.resize(r + 1);
    std::ranges::sort(rows);
    return rows;
  }
  return {};
}

// The row at whose begin the most bytes live, counting every item; exact where blocks are plain.
std::int32_t worst_begin(const PackProblem& problem) {
  std::vector<std::pair<std::int32_t, std::int32_t>> begins, ends;
  for (std::int32_t row = 0; row < static_cast<std::int32_t>(problem.items.size()); ++row) {
    const PackItem& item = problem.items[static_cast<std::size_t>(row)];
    if (!item.takes_part()) continue;
    begins.emplace_back(item.begin, row);
    ends.emplace_back(item.end, row);
  }
  std::ranges::sort(begins);
  std::ranges::sort(ends);
  Bytes live = 0;
  Bytes most = -1;
  std::int32_t worst = -1;
  auto ended = ends.begin();
  for (const auto& [begin, row] : begins) {
    for (; ended != ends.end() && ended->first <= begin; ++ended) live -= bytes_of(problem, ended->second);
    live += bytes_of(problem, row);
    if (live <= most) continue;
    most = live;
    worst = row;
  }
  return worst;
}

// Leaves out ever smaller lots of items as long as the others still cannot fit.
class Filter {
 public:
  Filter(const PackProblem& problem, Bytes capacity, const FitLimits& limits)
      : problem_(problem), capacity_(capacity), limits_(limits) {}

  Rows reduce(Rows rows) {
    if (!impossible(rows)) return {};
    // Short lives first: long ones are likelier to be in everybody's way.
    std::ranges::stable_sort(rows, {}, [&](std::int32_t row) {
      const PackItem& item = problem_.items[static_cast<std::size_t>(row)];
      return static_cast<double>(item.end - static_cast<std::int64_t>(item.begin)) * static_cast<double>(item.bytes);
    });
    for (std::size_t lot = std::max<std::size_t>(rows.size() / 2, 1); lot > 0; lot /= 2) {
      for (std::size_t at = 0; at < rows.size() && may_go_on();) {
        Rows others = rows;
        const auto from = others.begin() + static_cast<std::ptrdiff_t>(at);
        others.erase(from, from + static_cast<std::ptrdiff_t>(std::min(lot, rows.size() - at)));
        if (!others.empty() && impossible(others)) {
          rows = std::move(others);
        } else {
          at += lot;
        }
      }
    }
    std::ranges::sort(rows);
    return rows;
  }

 private:
  [[nodiscard]] bool may_go_on() const { return limits_.work > 0 && !(limits_.should_stop && limits_.should_stop()); }
  bool impossible(const Rows& rows) {
    PackProblem part = problem_;
    for (PackItem& item : part.items) item.bytes = 0;
    for (const std::int32_t row : rows) {
      const auto i = static_cast<std::size_t>(row);
      part.items[i].bytes = problem_.items[i].bytes;
    }
    const FitAnswer answer = fit(Blocks(part), capacity_, limits_);
    limits_.work -= answer.work;
    return answer.status == FitStatus::infeasible;
  }

  const PackProblem& problem_;
  Bytes capacity_ = 0;
  FitLimits limits_;
};

template <class Value>
std::vector<Value> some_of(const std::vector<Value>& all, const Rows& rows) {
  std::vector<Value> some;
  for (const std::int32_t row : all.empty() ? Rows{} : rows) some.push_back(all[static_cast<std::size_t>(row)]);
  return some;
}

// Items by their rows, ascending, and the pairs kept apart among them.
struct Part {
  Rows rows;
  std::vector<std::pair<std::int32_t, std::int32_t>> apart;

  [[nodiscard]] PackProblem of(const PackProblem& problem) const {
    PackProblem part{.items = some_of(problem.items, rows),
                     .alignment = problem.alignment,
                     .block_of = some_of(problem.block_of, rows),
                     .shift = some_of(problem.shift, rows),
                     .own_alignment = some_of(problem.own_alignment, rows),
                     .fixed_offset = some_of(problem.fixed_offset, rows),
                     .hint = {},
                     .apart = apart};
    const auto place_of = [&](std::int32_t row) {
      return static_cast<std::int32_t>(std::ranges::lower_bound(rows, row) - rows.begin());
    };
    for (auto& [one, other] : part.apart) {
      one = place_of(one);
      other = place_of(other);
    }
    return part;
  }
};

// A try takes as long as there are items, so all others are left behind first. Nothing if these fit, or perhaps do.
Rows reduce(const PackProblem& problem, const Part& part, Bytes capacity, const FitLimits& limits) {
  const PackProblem alone = part.of(problem);
  Rows all(part.rows.size());
  std::iota(all.begin(), all.end(), 0);
  return some_of(part.rows, Filter(alone, capacity, limits).reduce(std::move(all)));
}

// One for every group of blocks that meet.
std::vector<Part> independent_parts(const PackProblem& problem) {
  const Blocks blocks(problem);
  const auto groups = independent_groups(blocks);
  std::vector<std::size_t> group_of(blocks.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::uint32_t block : groups[g]) group_of[block] = g;
  }
  std::map<std::int32_t, std::size_t> block_of;  // blocks are in the order of their first items
  std::vector<Part> parts(groups.size());
  for (std::int32_t row = 0; row < static_cast<std::int32_t>(problem.items.size()); ++row) {
    if (!problem.items[static_cast<std::size_t>(row)].takes_part()) continue;
    const std::size_t block = block_of.try_emplace(number_of(problem, row), block_of.size()).first->second;
    parts[group_of[block]].rows.push_back(row);
  }
  for (const auto& pair : problem.apart) {
    if (!problem.items[static_cast<std::size_t>(pair.first)].takes_part() ||
        !problem.items[static_cast<std::size_t>(pair.second)].takes_part())
      continue;
    parts[group_of[block_of.at(number_of(problem, pair.first))]].apart.push_back(pair);
  }
  return parts;
}

}  // namespace

std::vector<std::int32_t> cannot_fit(const PackProblem& problem, Bytes capacity, const FitLimits& limits) {
  const std::int32_t worst = worst_begin(problem);
  if (worst < 0) return {};
  if (Rows rows = too_much_at_once(problem, worst, capacity); !rows.empty()) {
    if (problem.plain()) return rows;
    Rows fewer = reduce(problem, {.rows = rows, .apart = {}}, capacity, limits);  // they live together anyhow
    return fewer.empty() ? rows : fewer;
  }
  FitLimits left = limits;
  for (const Part& part : independent_parts(problem)) {
    if (left.work <= 0 || (limits.should_stop && limits.should_stop())) return {};
    const PackProblem alone = part.of(problem);
    const FitAnswer answer = fit(Blocks(alone), capacity, left);
    if (answer.status == FitStatus::infeasible) return reduce(problem, part, capacity, left);
    left.work -= answer.work;
  }
  return {};
}

}  // namespace tidemark::layout
