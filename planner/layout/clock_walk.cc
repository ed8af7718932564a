#include "planner/layout/clock_walk.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "planner/layout/best_fit_placer.h"
#include "planner/layout/effort.h"
#include "planner/layout/order.h"
#include "planner/layout/placer.h"

namespace tidemark::layout {
namespace {

constexpr std::int64_t kAliveAUnit = 256;  // gaps looked at in about a microsecond
constexpr int kClassShift = 49;            // of a double's bits: eight classes from one power of two to the next

PackItem on_clock(const PackItem& item, bool backward) {
  return backward ? PackItem{-item.end, -item.begin, item.bytes} : item;
}

std::vector<Room> rooms_for(const Blocks& blocks, const ClockWalk& walk, Bytes load) {
  if (walk.room_share <= 0) return {};
  std::vector<Room> rooms = rooms_for_passing(blocks, load);
  for (Room& room : rooms) {
    room.bytes = round_up(static_cast<Bytes>(static_cast<double>(room.bytes) * walk.room_share), blocks.alignment(0));
    if (walk.backward) room = {.begin = -room.end, .end = -room.begin, .bytes = room.bytes};
  }
  if (walk.backward) std::reverse(rooms.begin(), rooms.end());
  return rooms;
}

}  // namespace

std::int64_t largest_first(const PackItem& item, LifeWeight weight) {
  if (weight == LifeWeight::none) return -item.bytes;
  double root = std::sqrt(static_cast<double>(item.life()));
  if (weight == LifeWeight::fourth_root) root = std::sqrt(root);
  return -(std::bit_cast<std::int64_t>(static_cast<double>(item.bytes) * root) >> kClassShift);
}

std::vector<Bytes> walk_clock(const Blocks& blocks, const ClockWalk& walk, Bytes load,
                              const std::function<bool()>& should_stop) {
  const double shortest = mean_life(blocks.hulls()) * walk.long_share;
  std::vector<PackItem> lasting(blocks.hulls().begin(), blocks.hulls().end());
  std::vector<PackItem> passing = lasting;
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const PackItem& hull = blocks.hulls()[b];
    const auto life = static_cast<double>(hull.life());
    (life >= shortest ? passing : lasting)[b].bytes = 0;
    if (life < shortest) continue;
    lasting[b] = on_clock(hull, walk.backward);
    sum += life;
    ++count;
  }
  const auto first = rows_by_birth(lasting);
  const auto rest = sorted_rows(passing, [&](const PackItem& item) {
    return SortKey{.first = largest_first(item, walk.life_weight), .second = item.begin};
  });
  Placer placer(blocks);
  const double mean_long = count > 0 ? sum / static_cast<double>(count) : 1;
  BestFitPlacer best_fit({.both_sides = walk.both_sides,
                          .per_tick = 1 / mean_long,
                          .per_byte = walk.tightness / static_cast<double>(load)},
                         rooms_for(blocks, walk, load), load);
  Effort effort(std::numeric_limits<std::int64_t>::max(), should_stop);
  for (std::size_t k = 0; k < first.size(); ++k) {
    if (effort.over()) {
      std::vector<SortKey> left(first.begin() + static_cast<std::ptrdiff_t>(k), first.end());
      left.insert(left.end(), rest.begin(), rest.end());
      placer.pile_above(left);
      return {placer.addresses().begin(), placer.addresses().end()};
    }
    placer.place(first[k].row, best_fit.place(lasting[first[k].row]));
    effort.spend(1 + static_cast<std::int64_t>(best_fit.alive()) / kAliveAUnit);
  }
  placer.place_all(rest, should_stop);
  return {placer.addresses().begin(), placer.addresses().end()};
}

}  // namespace tidemark::layout
