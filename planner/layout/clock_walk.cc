#include "planner/layout/clock_walk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/layout/effort.h"
#include "planner/layout/order.h"
#include "planner/layout/placer.h"

namespace tidemark {
namespace {

constexpr std::int64_t kAliveAUnit = 256;  // gaps looked at in about a microsecond

struct Living {
  Bytes begin = 0;
  Bytes end = 0;
  std::int32_t ends = 0;  // on the clock
};

struct Gap {
  Bytes begin = 0;
  Bytes end = 0;
  const Living* below = nullptr;  // null: the floor
  const Living* above = nullptr;  // null: nothing, the gap is open
};

class Arena {
 public:
  Arena(const ClockWalk& walk, double mean_life, Bytes load)
      : both_sides_(walk.both_sides), per_tick_(1 / mean_life), per_byte_(walk.tightness / static_cast<double>(load)) {}

  Bytes take(const PackItem& item) {
    if (!living_.empty() && next_end_ <= item.begin) give_back(item.begin);
    best_ = std::numeric_limits<double>::max();
    Gap gap;
    for (const Living& one : living_) {
      gap.end = one.begin;
      gap.above = &one;
      if (gap.end - gap.begin >= item.bytes) try_gap(gap, item);
      gap = {.begin = one.end, .end = 0, .below = &one, .above = nullptr};
    }
    // What is open is taken only where nothing else fits.
    const Bytes address = best_ < std::numeric_limits<double>::max() ? address_ : gap.begin;
    const auto at = std::upper_bound(living_.begin(), living_.end(), address,
                                     [](Bytes begin, const Living& one) { return begin < one.begin; });
    living_.insert(at, {address, address + item.bytes, item.end});
    next_end_ = std::min(next_end_, item.end);
    return address;
  }
  [[nodiscard]] std::size_t alive() const { return living_.size(); }

 private:
  void give_back(std::int32_t now) {
    next_end_ = std::numeric_limits<std::int32_t>::max();
    std::erase_if(living_, [&](const Living& one) {
      if (one.ends > now) next_end_ = std::min(next_end_, one.ends);
      return one.ends <= now;
    });
  }
  void try_gap(const Gap& gap, const PackItem& item) {
    const double low = mismatch(gap.below, item);
    const double high = mismatch(gap.above, item);
    const Bytes rest = gap.end - gap.begin - item.bytes;
    const double loose = static_cast<double>(rest) * per_byte_;
    if (rest == 0 && both_sides_) {
      offer(gap.begin, loose + (low + high) / 2);
    } else {
      offer(gap.begin, loose + low);
      offer(gap.end - item.bytes, loose + high);
    }
  }
  [[nodiscard]] double mismatch(const Living* neighbour, const PackItem& item) const {
    return neighbour == nullptr ? 0 : std::abs(static_cast<double>(neighbour->ends) - item.end) * per_tick_;
  }
  void offer(Bytes address, double cost) {
    if (cost >= best_) return;
    best_ = cost;
    address_ = address;
  }

  bool both_sides_ = false;
  double per_tick_ = 0;
  double per_byte_ = 0;
  std::vector<Living> living_;  // by address
  std::int32_t next_end_ = std::numeric_limits<std::int32_t>::max();
  double best_ = 0;
  Bytes address_ = 0;
};

PackItem on_clock(const PackItem& item, bool backward) {
  return backward ? PackItem{-item.end, -item.begin, item.bytes} : item;
}

double mean_life(std::span<const PackItem> items) {
  double sum = 0;
  for (const PackItem& item : items) sum += static_cast<double>(item.end) - item.begin;
  return items.empty() ? 1 : sum / static_cast<double>(items.size());
}

}  // namespace

std::vector<Bytes> walk_clock(const Blocks& blocks, const ClockWalk& walk, Bytes load,
                              const std::function<bool()>& should_stop) {
  const double shortest = mean_life(blocks.hulls()) * walk.long_share;
  std::vector<PackItem> lasting(blocks.hulls().begin(), blocks.hulls().end());
  std::vector<PackItem> passing = lasting;
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const PackItem& hull = blocks.hulls()[b];
    const double life = static_cast<double>(hull.end) - hull.begin;
    (life >= shortest ? passing : lasting)[b].bytes = 0;
    if (life < shortest) continue;
    lasting[b] = on_clock(hull, walk.backward);
    sum += life;
    ++count;
  }
  const auto first = sorted_rows(
      lasting, [](const PackItem& item) { return SortKey{.first = item.begin, .second = -std::int64_t{item.end}}; });
  const auto rest =
      sorted_rows(passing, [](const PackItem& item) { return SortKey{.first = -item.bytes, .second = item.begin}; });
  Placer placer(blocks);
  Arena arena(walk, count > 0 ? sum / static_cast<double>(count) : 1, load);
  Effort effort(std::numeric_limits<std::int64_t>::max(), should_stop);
  for (std::size_t k = 0; k < first.size(); ++k) {
    if (effort.over()) {
      std::vector<SortKey> left(first.begin() + static_cast<std::ptrdiff_t>(k), first.end());
      left.insert(left.end(), rest.begin(), rest.end());
      placer.pile_above(left);
      return {placer.addresses().begin(), placer.addresses().end()};
    }
    placer.place(first[k].row, arena.take(lasting[first[k].row]));
    effort.spend(1 + static_cast<std::int64_t>(arena.alive()) / kAliveAUnit);
  }
  placer.place_all(rest, should_stop);
  return {placer.addresses().begin(), placer.addresses().end()};
}

}  // namespace tidemark
