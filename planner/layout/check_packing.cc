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

Found check_places(const PackProblem& problem, const Packing& packing) {
  std::map<std::int32_t, std::pair<std::size_t, Bytes>> address;
  Bytes height = 0;
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    const Bytes offset = packing.offsets[i];
    if (!problem.items[i].takes_part()) continue;
    if (offset < 0 || offset % problem.alignment != 0)
      return fmt::format("item {} is misaligned, at {}, no multiple of {}", i, offset, problem.alignment);
    if (problem.fixed(i) != kAnywhere && offset != problem.fixed(i))
      return fmt::format("item {} is fixed to {} and lies at {}", i, problem.fixed(i), offset);
    const Bytes start = offset - problem.shift_in_block(i);
    const auto [at, first] = address.try_emplace(problem.block(i), i, start);
    const Bytes own = problem.block_alignment(i);
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
  InUse(const PackProblem& problem, std::span<const Bytes> offsets) : problem_(problem), offsets_(offsets) {
    if (problem.block_of.empty()) return;
    for (std::size_t i = 0; i < problem.items.size(); ++i) largest_ = std::max(largest_, aligned(problem, i));
  }

  // Another block's item that holds bytes of this one, or nothing.
  std::optional<std::size_t> enter(std::size_t i) {
    const Bytes begin = offsets_[i];
    const Bytes end = begin + aligned(problem_, i);
    // Where no two in use overlap, only the one just below can reach up into this one. Those of one block may overlap.
    auto at = by_begin_.lower_bound(begin);
    while (at != by_begin_.begin() && (std::prev(at)->second.end > begin || std::prev(at)->first > begin - largest_))
      --at;
    for (; at != by_begin_.end() && at->first < end; ++at) {
      if (at->second.end > begin && problem_.block(at->second.item) != problem_.block(i)) return at->second.item;
    }
    by_begin_.emplace(begin, Use{end, i});
    return {};
  }
  void leave(std::size_t i) {
    auto [at, last] = by_begin_.equal_range(offsets_[i]);
    while (at != last && at->second.item != i) ++at;
    if (at != last) by_begin_.erase(at);
  }

 private:
  struct Use {
    Bytes end = 0;
    std::size_t item = 0;
  };
  const PackProblem& problem_;
  std::span<const Bytes> offsets_;
  Bytes largest_ = 0;
  std::multimap<Bytes, Use> by_begin_;
};

}  // namespace

std::optional<std::pair<std::size_t, std::size_t>> find_shared(const PackProblem& problem,
                                                               std::span<const Bytes> offsets) {
  struct Moment {
    std::int32_t time = 0;
    bool enters = false;  // what leaves comes first
    std::size_t item = 0;
    [[nodiscard]] auto key() const { return std::tuple(time, enters, item); }
  };
  std::vector<Moment> moments;
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    if (!problem.items[i].takes_part() || offsets[i] == kAnywhere) continue;
    moments.push_back({.time = problem.items[i].begin, .enters = true, .item = i});
    moments.push_back({.time = problem.items[i].end, .enters = false, .item = i});
  }
  std::ranges::sort(moments, {}, &Moment::key);
  InUse in_use(problem, offsets);
  for (const Moment& moment : moments) {
    if (!moment.enters) {
      in_use.leave(moment.item);
    } else if (const std::optional<std::size_t> other = in_use.enter(moment.item)) {
      return std::minmax({*other, moment.item});
    }
  }
  return {};
}

std::optional<std::pair<std::int32_t, std::int32_t>> find_shared_apart(const PackProblem& problem,
                                                                       std::span<const Bytes> offsets) {
  for (const auto& [a, b] : problem.apart) {
    const auto i = static_cast<std::size_t>(a);
    const auto j = static_cast<std::size_t>(b);
    if (!problem.items[i].takes_part() || !problem.items[j].takes_part()) continue;
    if (offsets[i] == kAnywhere || offsets[j] == kAnywhere) continue;
    if (offsets[i] < offsets[j] + aligned(problem, j) && offsets[j] < offsets[i] + aligned(problem, i))
      return std::pair(a, b);
  }
  return {};
}

std::optional<std::string> find_fault(const PackProblem& problem, const Packing& packing) {
  if (packing.offsets.size() != problem.items.size())
    return fmt::format("{} offsets for {} items", packing.offsets.size(), problem.items.size());
  if (Found found = check_places(problem, packing)) return found;
  if (const auto found = find_shared(problem, packing.offsets))
    return fmt::format("items {} and {} live together and share bytes", found->first, found->second);
  if (const auto found = find_shared_apart(problem, packing.offsets))
    return fmt::format("items {} and {} must be apart and share bytes", found->first, found->second);
  return {};
}

}  // namespace tidemark::layout
