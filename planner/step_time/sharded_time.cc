#include "planner/step_time/sharded_time.h"

#include <algorithm>
#include <cstdint>

#include "planner/cost/collective_time.h"
#include "planner/cost/rounded_max.h"

namespace tidemark::step_time {
namespace {

/// Corner of the maximum of compute and collectives, and the share of a collective's time that it takes of the compute
/// beside it: both use cores and memory. Defaults of the model, set on the development rows, not fitted.
constexpr double kSharpness = 2.5, kSlowdown = 0.4;
constexpr double kWeightBytes = 2;

}  // namespace

double sharded_s(const StepSetting& setting, const HeldElements& held, double compute_s) {
  const TimedRun& run = setting.run;
  if (run.sharded <= 1) return 0;
  const std::int64_t stride = run.sharded <= run.data ? run.tensor * run.context : run.tensor;
  const cost::GroupSpan span = cost::group_span(run.sharded, stride, setting.device);
  const double gathers = run.gathers_once ? 1 : 2;
  const auto collectives_s = [&](double elements) {
    const cost::Network network{.share = run.network_share};
    return gathers * cost::ring_s(kWeightBytes * elements, 1, span, network, setting.device) +
           cost::ring_s(run.reduced_bytes * elements, 1, span, network, setting.device);
  };
  // The tables of both ends, whether or not this rank's stage has them: their stage is the slowest.
  const double tables = run.model.is_tied ? 1 : 2;
  const double moved_s = held.layers * collectives_s(held.layer()) + collectives_s(tables * held.table);
  return cost::rounded_max(compute_s, moved_s, kSharpness) - compute_s + kSlowdown * std::min(compute_s, moved_s);
}

}  // namespace tidemark::step_time
