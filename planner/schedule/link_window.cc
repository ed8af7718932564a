#include "planner/schedule/link_window.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tidemark::schedule {
namespace {

/// By deadline, then as asked for. Keys are sorted in place of rows of requests, which lie far apart.
std::vector<std::uint32_t> by_deadline(const std::vector<CopyRequest>& requests) {
  std::vector<std::pair<std::int64_t, std::uint32_t>> keys;
  keys.reserve(requests.size());
  for (const CopyRequest& request : requests)
    keys.emplace_back(request.deadline_ns, static_cast<std::uint32_t>(keys.size()));
  std::sort(keys.begin(), keys.end());
  std::vector<std::uint32_t> order;
  order.reserve(keys.size());
  for (const auto& [deadline_ns, request] : keys) order.push_back(request);
  return order;
}

}  // namespace

LinkPlan plan_copies(const std::vector<CopyRequest>& requests) {
  LinkPlan plan;
  plan.copies.resize(requests.size());

  std::int64_t link_free = std::numeric_limits<std::int64_t>::min();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    link_free = std::max(link_free, requests[i].ready_ns) + requests[i].out_ns;
    plan.copies[i].out_end_ns = link_free;
  }

  plan.in_order = by_deadline(requests);
  std::int64_t latest_end = std::numeric_limits<std::int64_t>::max();
  for (auto it = plan.in_order.rbegin(); it != plan.in_order.rend(); ++it) {
    const CopyRequest& request = requests[*it];
    latest_end = std::min(latest_end, request.deadline_ns) - request.in_ns;
    plan.copies[*it].in_start_ns = latest_end;
  }

  // Forwards again: a copy in cannot start before its copy out has ended. What comes late delays everything after it.
  std::int64_t delay = 0;
  std::int64_t link_end = std::numeric_limits<std::int64_t>::min();
  for (const std::uint32_t i : plan.in_order) {
    CopyTimes& times = plan.copies[i];
    times.in_start_ns = std::max({times.in_start_ns, times.out_end_ns, link_end});
    link_end = times.in_start_ns + requests[i].in_ns;
    delay = std::max(delay, link_end - requests[i].deadline_ns);
  }
  plan.exposed_ns = delay;
  return plan;
}

}  // namespace tidemark::schedule
