#include "planner/layout/clock_windows.h"

#include <algorithm>
#include <array>

#include "planner/layout/order.h"
#include "planner/layout/packer.h"
#include "planner/layout/repair.h"

namespace tidemark::layout {
namespace {

constexpr std::size_t kKept = 27;  // blocks of a window
constexpr std::size_t kWidth = 107;
constexpr std::int64_t kRepairWork = 40'000;  // for one window
constexpr std::int64_t kNearAUnit = 64;       // looked at for a window
constexpr std::int64_t kOrderUnits = 2;       // a block: the orders tried before that

// What is tried for one window, in turn: how many steps to go back, and how wide it is.
struct Try {
  std::size_t back = 0;
  std::size_t thirds = 3;  // of the width
};
constexpr std::array kTries = {Try{.back = 0, .thirds = 3}, Try{.back = 2, .thirds = 3},  Try{.back = 0, .thirds = 2},
                               Try{.back = 4, .thirds = 3}, Try{.back = 8, .thirds = 3},  Try{.back = 6, .thirds = 4},
                               Try{.back = 3, .thirds = 2}, Try{.back = 12, .thirds = 3}, Try{.back = 5, .thirds = 3},
                               Try{.back = 16, .thirds = 3}};
constexpr std::size_t kMostBack = 16;

class Horizon {
 public:
  Horizon(const Blocks& blocks, Bytes height, const std::function<bool()>& should_stop, std::vector<Bytes>& addresses)
      : blocks_(blocks), height_(height), should_stop_(should_stop), addresses_(addresses) {
    std::vector<PackItem> standing(blocks.hulls().begin(), blocks.hulls().end());
    std::vector<PackItem> passing = standing;
    for (std::size_t b = 0; b < blocks.size(); ++b) (addresses[b] == kAnywhere ? standing : passing)[b].bytes = 0;
    const auto by_birth = [](const PackItem& item) { return SortKey{.first = item.begin, .second = item.end}; };
    for (const SortKey& key : sorted_rows(passing, by_birth)) {
      passing_.push_back(key.row);
      const PackItem& hull = blocks.hulls()[key.row];
      longest_ = std::max(longest_, hull.life());
    }
    for (const SortKey& key : sorted_rows(standing, by_birth)) standing_.push_back(key.row);
  }

  bool place(Effort& effort) {
    for (std::size_t at = 0; at < passing_.size(); at += kKept) {
      if (effort.over()) return false;
      forget_before(at);
      if (!place_window(at, effort)) return false;
    }
    return true;
  }

 private:
  bool place_window(std::size_t at, Effort& effort) {
    for (const Try& one : kTries) {
      if (effort.over()) return false;
      const std::size_t from = at - std::min(at, one.back * kKept);
      const std::size_t to = std::min(passing_.size(), at + kWidth * one.thirds / 3);
      const std::vector<Bytes> found = lower(part_of(from, to), effort);
      if (found.empty()) continue;
      const std::size_t kept = std::min(to, at + kKept);
      for (std::size_t k = from; k < kept; ++k) addresses_[passing_[k]] = found[k - from];
      return true;
    }
    return false;
  }

  // Offsets below the height, the free rows first; empty: none found.
  std::vector<Bytes> lower(const PackProblem& problem, Effort& effort) const {
    PackAnswer order = best_order(problem, {.should_stop = should_stop_, .enough_bytes = height_});
    effort.spend(std::ssize(problem.items) * kOrderUnits + std::ssize(near_) / kNearAUnit);
    if (order.packing.height_bytes <= height_) return std::move(order.packing.offsets);
    const Blocks blocks(problem);
    Repair repair(blocks, blocks.addresses(order.packing), 0);
    Effort slice(kRepairWork, should_stop_);
    repair.lower_to(order.bound_bytes, height_, slice);
    effort.spend(kRepairWork - slice.left());
    if (repair.height() > height_) return {};
    return blocks.packing(repair.addresses()).offsets;
  }

  // Rows [from, to) free, among all that has a place and meets them; what does so all the while as one.
  PackProblem part_of(std::size_t from, std::size_t to) {
    PackProblem part{.alignment = blocks_.alignment(0)};
    PackItem span{.begin = blocks_.hulls()[passing_[from]].begin};
    span.end = span.begin;
    for (std::size_t k = from; k < to; ++k) {
      part.items.push_back(blocks_.hulls()[passing_[k]]);
      span.end = std::max(span.end, part.items.back().end);
    }
    part.fixed_offset.assign(part.items.size(), kAnywhere);
    throughout_.clear();
    for (std::size_t k = first_that_meets(span.begin); k < from; ++k) fix(passing_[k], span, part);
    go_to(span.end);
    for (const std::uint32_t block : near_) fix(block, span, part);
    fix_throughout(span, part);
    return part;
  }

  void fix(std::uint32_t block, const PackItem& span, PackProblem& problem) {
    const PackItem& hull = blocks_.hulls()[block];
    const PackItem meets{std::max(hull.begin, span.begin), std::min(hull.end, span.end), hull.bytes};
    const Bytes address = addresses_[block];
    if (!meets.takes_part() || address >= height_) return;
    const Bytes end = std::min(address + hull.bytes, height_);
    if (meets.begin == span.begin && meets.end == span.end) {
      throughout_.emplace_back(address, end);
    } else {
      problem.items.push_back({meets.begin, meets.end, end - address});
      problem.fixed_offset.push_back(address);
    }
  }
  void fix_throughout(const PackItem& span, PackProblem& problem) {
    std::sort(throughout_.begin(), throughout_.end());
    for (std::size_t i = 0; i < throughout_.size();) {
      auto [begin, end] = throughout_[i];
      for (++i; i < throughout_.size() && throughout_[i].first <= end; ++i) end = std::max(end, throughout_[i].second);
      problem.items.push_back({span.begin, span.end, end - begin});
      problem.fixed_offset.push_back(begin);
    }
  }

  // The first of the passing that can live on at a moment.
  [[nodiscard]] std::size_t first_that_meets(std::int32_t moment) const {
    const auto born_before = [&](std::uint32_t block, std::int64_t time) {
      return blocks_.hulls()[block].begin < time;
    };
    return static_cast<std::size_t>(std::lower_bound(passing_.begin(), passing_.end(), moment - longest_, born_before) -
                                    passing_.begin());
  }
  // What ends before all that is still searched anew.
  void forget_before(std::size_t at) {
    const std::size_t back = std::min(at, kMostBack * kKept);
    const std::int32_t begin = blocks_.hulls()[passing_[at - back]].begin;
    std::erase_if(near_, [&](std::uint32_t block) { return blocks_.hulls()[block].end <= begin; });
  }
  // Who stands and is born before `end` is near.
  void go_to(std::int32_t end) {
    while (born_ < standing_.size() && blocks_.hulls()[standing_[born_]].begin < end)
      near_.push_back(standing_[born_++]);
  }

  const Blocks& blocks_;
  Bytes height_;
  const std::function<bool()>& should_stop_;
  std::vector<Bytes>& addresses_;
  std::vector<std::uint32_t> passing_, standing_;  // by birth
  std::vector<std::uint32_t> near_;                // of the standing: those a window may meet
  std::size_t born_ = 0;
  std::int64_t longest_ = 0;                         // life of the passing
  std::vector<std::pair<Bytes, Bytes>> throughout_;  // bytes taken for the whole of a window
};

}  // namespace

bool place_by_windows(const Blocks& blocks, Bytes height, Effort& effort, const std::function<bool()>& should_stop,
                      std::vector<Bytes>& addresses) {
  return Horizon(blocks, height, should_stop, addresses).place(effort);
}

}  // namespace tidemark::layout
