#include "swap/planned_host.h"

#include <algorithm>

namespace tidemark::swap {

bool PlannedHost::take(HostPiece part, std::vector<EventHandle>& behind) {
  if (std::ranges::any_of(taken_, [&](HostPiece other) { return overlaps(part, other); })) return false;
  for (const Passing& passing : passing_)
    if (overlaps(part, passing.part)) behind.push_back(passing.behind);
  taken_.push_back(part);
  return true;
}

void PlannedHost::give_back(HostPiece part, EventHandle behind) {
  give_back(part);
  passing_.push_back({.part = part, .behind = behind});
}

std::vector<EventHandle> PlannedHost::forget_passed(Device& device) {
  std::vector<EventHandle> passed;
  std::erase_if(passing_, [&](const Passing& passing) {
    if (device.query_event(passing.behind) == DeviceCode::not_ready) return false;
    passed.push_back(passing.behind);
    return true;
  });
  return passed;
}

}  // namespace tidemark::swap
