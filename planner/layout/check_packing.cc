#include "planner/layout/check_packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace tidemark::layout {
namespace {

using Found = std::optional<std::string>;

Bytes aligned(const PackProblem& problem, std::size_t i) {
  const Bytes bytes = problem.items[i].bytes;
  return (bytes + problem.alignment - 1) / problem.alignment * problem.alignment;
}

std::int32_t number_of(const PackProblem& problem, std::size_t i) {
  return problem.block_of.empty() ? static_cast<std::int32_t>(i) : problem.block_of[i];
}

Found check_places(const PackProblem& problem, const Packing& packing) {
  std::map<std::int32_t, std::pair<std::size_t, Bytes>> address;
  Bytes height = 0;
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    const Bytes offset = packing.offsets[i];
    if (!problem.items[i].takes_part()) continue;
    if (offset < 0 || offset % problem.alignment != 0)
      return fmt::format("item {} is misaligned, at {}, no multiple of {}", i, offset, problem.alignment);
    if (!problem.fixed_offset.empty() && problem.fixed_offset[i] != kAnywhere && offset != problem.fixed_offset[i])
      return fmt::format("item {} is fixed to {} and lies at {}", i, problem.fixed_offset[i], offset);
    const Bytes start = offset - (problem.shift.empty() ? 0 : problem.shift[i]);
    const auto [at, first] = address.try_emplace(number_of(problem, i), i, start);
    const Bytes own = problem.own_alignment.empty() ? 1 : problem.own_alignment[i];
    if (start < 0 || start % own != 0)
      return fmt::format("item {} is misaligned, its block at {}, no multiple of {}", i, start, own);
    if (!first && at->second.second != start)
      return fmt::format("items {} and {} are one block at two addresses", at->second.first, i);
    height = std::max(height, offset + aligned(problem, i));
  }
  if (height != packing.height_bytes)
    return fmt::format("the height is said to be {}, the highest byte used is {}", packing.height_bytes, height);
  return {};
}

// Bytes in use now, by where they begin; bytes that items of one block share are there once for each of them.
class InUse {
 public:
  InUse(const PackProblem& problem, const Packing& packing) : problem_(problem), packing_(packing) {
    if (problem.block_of.empty()) return;
    for (std::size_t i = 0; i < problem.items.size(); ++i) largest_ = std::max(largest_, aligned(problem, i));
  }

  Found enter(std::size_t i) {
    const Bytes begin = packing_.offsets[i];
    const Bytes end = begin + aligned(problem_, i);
    // Where no two in use overlap, only the one just below can reach up into this one. Those of one block may overlap.
    auto at = by_begin_.lower_bound(begin);
    while (at != by_begin_.begin() && (std::prev(at)->second.end > begin || std::prev(at)->first > begin - largest_))
      --at;
    for (; at != by_begin_.end() && at->first < end; ++at) {
      if (at->second.end > begin && !same_block(at->second.item, i))
        return fmt::format("items {} and {} live together and share bytes", std::min(at->second.item, i),
                           std::max(at->second.item, i));
    }
    by_begin_.emplace(begin, Use{end, i});
    return {};
  }
  void leave(std::size_t i) {
    auto [at, last] = by_begin_.equal_range(packing_.offsets[i]);
    while (at != last && at->second.item != i) ++at;
    if (at != last) by_begin_.erase(at);
  }

 private:
  struct Use {
    Bytes end = 0;
    std::size_t item = 0;
  };
  [[nodiscard]] bool same_block(std::size_t a, std::size_t b) const {
    return number_of(problem_, a) == number_of(problem_, b);
  }
  const PackProblem& problem_;
  const Packing& packing_;
  Bytes largest_ = 0;
  std::multimap<Bytes, Use> by_begin_;
};

Found check_lives(const PackProblem& problem, const Packing& packing) {
  struct Moment {
    std::int32_t time = 0;
    bool enters = false;  // what leaves comes first
    std::size_t item = 0;
    [[nodiscard]] auto key() const { return std::tuple(time, enters, item); }
  };
  std::vector<Moment> moments;
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    if (!problem.items[i].takes_part()) continue;
    moments.push_back({.time = problem.items[i].begin, .enters = true, .item = i});
    moments.push_back({.time = problem.items[i].end, .enters = false, .item = i});
  }
  std::ranges::sort(moments, {}, &Moment::key);
  InUse in_use(problem, packing);
  for (const Moment& moment : moments) {
    if (!moment.enters) {
      in_use.leave(moment.item);
    } else if (Found found = in_use.enter(moment.item)) {
      return found;
    }
  }
  return {};
}

Found check_apart(const PackProblem& problem, const Packing& packing) {
  for (const auto& [a, b] : problem.apart) {
    const auto i = static_cast<std::size_t>(a);
    const auto j = static_cast<std::size_t>(b);
    if (!problem.items[i].takes_part() || !problem.items[j].takes_part()) continue;
    if (packing.offsets[i] < packing.offsets[j] + aligned(problem, j) &&
        packing.offsets[j] < packing.offsets[i] + aligned(problem, i))
      return fmt::format("items {} and {} must be apart and share bytes", a, b);
  }
  return {};
}

}  // namespace

std::optional<std::string> find_fault(const PackProblem& problem, const Packing& packing) {
  if (packing.offsets.size() != problem.items.size())
    return fmt::format("{} offsets for {} items", packing.offsets.size(), problem.items.size());
  if (Found found = check_places(problem, packing)) return found;
  if (Found found = check_lives(problem, packing)) return found;
  return check_apart(problem, packing);
}

}  // namespace tidemark::layout
