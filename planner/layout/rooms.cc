#include "planner/layout/rooms.h"

#include <algorithm>

#include "planner/layout/load_profile.h"
#include "planner/layout/order.h"

namespace tidemark::layout {
namespace {

constexpr Bytes kLargeShare = 64;
constexpr double kPassingShare = 0.15;

}  // namespace

std::vector<Room> rooms_for_passing(const Blocks& blocks, Bytes load) {
  const double soon = mean_life(blocks.hulls());
  std::vector<BlockPart> large;
  for (const PackItem& hull : blocks.hulls()) {
    if (static_cast<double>(hull.life()) < kPassingShare * soon && hull.bytes >= load / kLargeShare)
      large.push_back({.begin = hull.begin, .end = hull.end, .bytes = hull.bytes});
  }
  if (large.empty()) return {};
  std::sort(large.begin(), large.end(), [](const BlockPart& a, const BlockPart& b) { return a.begin < b.begin; });
  std::vector<Room> rooms;
  for (const BlockPart& part : large) {
    if (rooms.empty() || static_cast<double>(part.begin) - rooms.back().end > soon)
      rooms.push_back({.begin = part.begin, .end = part.end});
    rooms.back().end = std::max(rooms.back().end, part.end);
  }
  const LoadProfile profile(large);
  for (Room& room : rooms) room.bytes = profile.peak_during(room.begin, room.end);
  return rooms;
}

}  // namespace tidemark::layout
