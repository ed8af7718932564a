#include "planner/step_time/host_time.h"

#include <algorithm>

#include "planner/cost/host_link.h"

namespace tidemark::step_time {

PassCost copy_cost(const StepSetting& setting, const LayerCost& layer) {
  const HostHeld& host = setting.run.host;
  const double bytes = layer.kind == LayerKind::moe ? host.moe_bytes : host.dense_bytes;
  const double copied_s = cost::host_copy_s(bytes, setting.device);
  return {.copy_s = std::max(0.0, copied_s - layer.passes.forward.device_s()) +
                    std::max(0.0, copied_s - layer.passes.backward.device_s())};
}

double host_state_s(const StepSetting& setting, double elements) {
  constexpr double kStateBytes = 4 + 4 + 4;  // fp32 weights and two moments
  constexpr double kWireBytes = 4 + 2;       // gradients down, weights up
  const HostHeld& host = setting.run.host;
  // All of it comes up and goes down, both directions at once.
  double bytes = host.is_state_swapped ? kStateBytes * elements : 0;
  // The host reads and writes its state at the speed of its memory, which the devices of a node share: assumed to be
  // what a device's link carries.
  bytes += host.updated_share * elements * (kWireBytes + 2 * kStateBytes);
  return cost::host_copy_s(bytes, setting.device);
}

}  // namespace tidemark::step_time
