#pragma once
// Counts calls by their point and says what a fault list does to each. Threads: the caller serialises.

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/sim_device.h"

namespace tidemark {

class SimFaults {
 public:
  /// All that strikes one call.
  struct Strike {
    DeviceCode code = DeviceCode::ok;
    bool late = false;
    std::int64_t stall_ns = 0;
    Bytes capacity_bytes = -1;
  };

  void set(std::vector<Fault> faults) {
    faults_ = std::move(faults);
    calls_ = {};
  }
  [[nodiscard]] Strike count(FaultPoint point) {
    Strike strike;
    if (faults_.empty()) return strike;
    const std::int64_t call = ++calls_[static_cast<std::size_t>(point)];
    for (const Fault& fault : faults_) {
      if (fault.point != point || call < fault.first_call || call - fault.first_call >= fault.calls) continue;
      if (fault.code != DeviceCode::ok) {
        strike.code = fault.code;
        strike.late = fault.late;
      }
      strike.stall_ns += fault.stall_ns;
      if (fault.capacity_bytes >= 0) strike.capacity_bytes = fault.capacity_bytes;
    }
    return strike;
  }

 private:
  std::vector<Fault> faults_;
  std::array<std::int64_t, kFaultPointCount> calls_{};
};

}  // namespace tidemark
