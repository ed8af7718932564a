#include "planner/schedule/link_window.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tidemark::schedule {

LinkPlan plan_copies(const std::vector<CopyRequest>& requests) {
  LinkPlan plan;
  plan.copies.resize(requests.size());

  std::int64_t link_free = std::numeric_limits<std::int64_t>::min();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    link_free = std::max(link_free, requests[i].ready_ns) + requests[i].out_ns;
    plan.copies[i].out_end_ns = link_free;
  }

  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return requests[a].deadline_ns < requests[b].deadline_ns; });

  std::int64_t latest_end = std::numeric_limits<std::int64_t>::max();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const CopyRequest& request = requests[*it];
    latest_end = std::min(latest_end, request.deadline_ns) - request.in_ns;
    plan.copies[*it].in_start_ns = latest_end;
  }

  // Forwards again: a copy in cannot start before its copy out has ended. What comes late delays everything after it.
  std::int64_t delay = 0;
  std::int64_t link_end = std::numeric_limits<std::int64_t>::min();
  for (const std::size_t i : order) {
    CopyTimes& times = plan.copies[i];
    times.in_start_ns = std::max({times.in_start_ns, times.out_end_ns, link_end});
    link_end = times.in_start_ns + requests[i].in_ns;
    delay = std::max(delay, link_end - requests[i].deadline_ns);
  }
  plan.exposed_ns = delay;
  return plan;
}

}  // namespace tidemark::schedule
