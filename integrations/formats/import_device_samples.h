#pragma once
// What tidemark.device_sample() writes: one JSON object a line, docs/schemas/device_sample.schema.json.
//
//   {"tidemark_device_sample": 1, "rank": 3, "device_total_bytes": 68719476736, "device_used_bytes": 40802189312,
//    "allocator_reserved_bytes": 30064771072, "allocator_allocated_bytes": 25769803776}
//   {"tidemark_device_sample": 1, "rank": 3, "label": "checkpoint", "host_peak_bytes": 91268055040}
//
// The device's side and the allocator's are read at one moment, so that their difference is what others hold.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tidemark::formats {

inline constexpr std::string_view kDeviceSampleKey = "tidemark_device_sample";
inline constexpr std::int64_t kDeviceSampleVersion = 1;

/// Members that a line leaves out are nothing.
struct DeviceSample {
  int line = 0;
  std::optional<std::int64_t> rank;
  std::string label;                                           ///< `checkpoint`; empty: none
  std::optional<Bytes> device_total_bytes, device_used_bytes;  ///< what the device reports, of all processes
  std::optional<Bytes> allocator_reserved_bytes, allocator_allocated_bytes;
  /// Highest since the process began or the peaks were reset.
  std::optional<Bytes> allocator_reserved_peak_bytes, allocator_allocated_peak_bytes;
  std::optional<Bytes> host_peak_bytes;    ///< most resident memory of the process
  std::optional<Bytes> host_pinned_bytes;  ///< most that the pinned pool held
  friend bool operator==(const DeviceSample&, const DeviceSample&) = default;
};

/// At least one line; blank lines are skipped. Errors (bad_input): `file:line: what`: no JSON object of this version,
/// an unknown or repeated member, no figure at all, a figure below 0 or above 2^60, more used than the device has,
/// lines of different ranks, more than 1,000,000 lines.
[[nodiscard]] Result<std::vector<DeviceSample>> read_device_samples(std::string_view text, std::string_view file_name);

}  // namespace tidemark::formats
