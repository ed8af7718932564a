#include "planner/decide/flat/link_views.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "planner/decide/gaps/load_tree.h"

namespace tidemark::decide::flat {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// The op of the list before which a storage is touched for the last time whatever is recomputed.
std::int32_t last_possible_touch(const Problem& problem, std::int32_t storage) {
  std::int32_t last = 0;
  for (const Key use : problem.uses[at(storage)])
    last = std::max({last, stage_of(use), std::min(problem.rerun_until[at(op_of(use))], problem.op_count - 1)});
  return last;
}

/// Leaves as many storages swappable as host memory holds if all of them are out from their first touch to their last:
/// those first that cost most to recompute. `whatever_is_recomputed`: where recomputations touch them later, also then.
void fit_host(Problem& problem, bool whatever_is_recomputed) {
  const Bytes host = problem.host_bytes;
  const auto cost_per_byte = [&](std::int32_t s) {
    const std::int32_t v = problem.producer[at(s)];
    if (v < 0 || problem.rerun_until[at(v)] < 0) return std::numeric_limits<double>::infinity();
    return static_cast<double>(problem.cost[at(v)]) / static_cast<double>(std::max<Bytes>(problem.bytes[at(s)], 1));
  };
  std::vector<std::int32_t> order;
  for (std::int32_t s = 0; s < problem.storage_count; ++s)
    if (problem.swappable[at(s)] != 0) order.push_back(s);
  std::ranges::stable_sort(order, std::greater<>(), cost_per_byte);
  gaps::LoadTree load(std::vector<Bytes>(at(problem.op_count), 0));
  for (const std::int32_t s : order) {
    const std::vector<Key>& uses = problem.uses[at(s)];
    const std::int32_t first = stage_of(problem.begin[at(s)]);
    const std::int32_t end =
        uses.empty() ? first : (whatever_is_recomputed ? last_possible_touch(problem, s) : stage_of(uses.back())) + 1;
    const Bytes bytes = problem.bytes[at(s)];
    if (bytes > host || load.max(first, end) > host - bytes)
      problem.swappable[at(s)] = 0;
    else
      load.add(first, end, bytes);
  }
}

}  // namespace

Problem as_seen(const Problem& problem, const LinkView& view) {
  Problem seen = problem;
  for (std::size_t s = 0; s < problem.bytes.size(); ++s) {
    const auto time = [&](std::int64_t alone, double share) {
      return std::llround(static_cast<double>(alone) * share);
    };
    seen.page_out[s] += time(problem.copy_out[s].link_ns, view.price);
    seen.page_in[s] += time(problem.copy_in[s].link_ns, view.price);
    if (view.stretch == 0) continue;
    seen.out_time.push_back(time(problem.copy_out[s].link_ns, view.stretch));
    seen.in_time.push_back(time(problem.copy_in[s].link_ns, view.stretch));
  }
  if (view.stretch == 0) return seen;
  seen.stage_start.resize(problem.cost.size());
  std::exclusive_scan(problem.cost.begin(), problem.cost.end(), seen.stage_start.begin(), std::int64_t{0});
  return seen;
}

std::vector<Problem> offers_of(const Problem& problem) {
  std::vector<Problem> offered(2, problem);
  fit_host(offered[0], false);
  fit_host(offered[1], true);
  if (offered[0].swappable == offered[1].swappable) offered.pop_back();
  return offered;
}

}  // namespace tidemark::decide::flat
