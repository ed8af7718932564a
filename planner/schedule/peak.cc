#include "planner/schedule/peak.h"

#include <vector>

namespace tidemark::schedule {

std::int32_t peak_clock(const Schedule& schedule) {
  std::vector<Bytes> change(static_cast<std::size_t>(schedule.compute_tasks) * 2 + 2, 0);
  for (const Residency& residency : schedule.residencies) {
    if (residency.space != MemorySpace::device || residency.acquire >= residency.release) continue;
    change[static_cast<std::size_t>(residency.acquire)] += residency.bytes;
    change[static_cast<std::size_t>(residency.release)] -= residency.bytes;
  }
  Bytes held = 0, most = 0;
  std::size_t peak = 0;
  for (std::size_t clock = 0; clock < change.size(); ++clock) {
    held += change[clock];
    if (held <= most) continue;
    most = held;
    peak = clock;
  }
  return static_cast<std::int32_t>(peak);
}

}  // namespace tidemark::schedule
