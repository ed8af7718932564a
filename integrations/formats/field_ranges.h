#pragma once
// What a number in a table of plan.json can be, by its name: names say units, units say ranges. What lies outside was
// never written by Tidemark and would overflow or mislead later. Device files and the command line take their limits
// from here, so that what they let in can be read back.

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "core/bytes.h"
#include "core/site_load.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::formats {

inline constexpr Bytes kMostPlanBytes = 1024 * kTiB;                ///< of anything in bytes; sums stay far from 2^63
inline constexpr std::int64_t kMostTaskNs = std::int64_t{1} << 50;  ///< 13 days
inline constexpr std::int64_t kMostStepNs = std::int64_t{1} << 58;  ///< 9 years: also of all tasks of all ranks
inline constexpr double kLeastLayerMs = 1e-6;                       ///< of a layer and micro-batch: one nanosecond
inline constexpr double kMostLayerMs = 1e6;                         ///< as asked for
inline constexpr double kMostTimeScale = kMostLayerMs * 1e6;        ///< of a layer that is modelled at 1 ns
inline constexpr double kLeastTimeScale = 1 / kMostTimeScale;       ///< of one that comes to 1 ns
inline constexpr Bytes kMostAlignment = kGiB;                       ///< 2^31 residencies so far apart are an address
inline constexpr double kLeastBytesPerS = 1e3;                      ///< less is no link, and times would overflow
inline constexpr double kLeastFlopsPerS = 1e6;
inline constexpr double kMostRate = 1e18;
inline constexpr double kMostLatencyNs = 1e9;
inline constexpr double kMostTileStart = 100'000;  ///< of an inner dimension
inline constexpr std::int64_t kMostCores = 65'536;
inline constexpr std::int64_t kMostTileSide = 65'536;
inline constexpr std::size_t kMostTiles = 16;
inline constexpr std::int32_t kMostRank = 65535;

/// From `least` to `most`, or above `least` where `open`.
struct RealRange {
  double least = 0, most = 0;
  bool open = false;
  /// Written so that what is no number lies outside.
  [[nodiscard]] constexpr bool holds(double value) const {
    return (open ? value > least : value >= least) && value <= most;
  }
};

[[nodiscard]] constexpr RealRange real_range_of(std::string_view name) {
  if (name.ends_with("bytes_per_s")) return {.least = kLeastBytesPerS, .most = kMostRate};
  if (name.ends_with("flops_per_s")) return {.least = kLeastFlopsPerS, .most = kMostRate};
  if (name.ends_with("_share") && name != "popularity_share") return {.most = 1, .open = true};
  if (name == "tile_start") return {.most = kMostTileStart};
  if (name == "launch_s" || name == "hop_s") return {.most = 1};
  if (name.ends_with("_ns")) return {.most = kMostLatencyNs};
  // A share of the step, but the MFU of times scaled down can exceed what a device could do.
  if (name.ends_with("_percent")) return {.most = 1e6};
  if (name == "load" || name == "mean") return {.most = graph_build::kMostMeanLoad, .open = true};
  if (name == "capacity_factor") return {.most = graph_build::kMostMeanLoad, .open = true};
  if (name == "load_quantile") return {.most = 1};
  if (name == "worst_load_f") return {.most = kMostSiteLoad};
  if (name == "time_scale") return {.least = kLeastTimeScale, .most = kMostTimeScale};
  return {.most = 1e18};  // counts of parameters, tokens per second
}

struct WholeRange {
  std::int64_t least = 0, most = 0;
};

/// What a message says a number must be.
[[nodiscard]] inline std::string whole_range_text(std::int64_t least, std::int64_t most) {
  if (least == most) return std::to_string(least);
  return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
}

/// Of numbers that nothing else judges; those of a job have rules of their own (find_problems).
[[nodiscard]] constexpr WholeRange whole_range_of(std::string_view name) {
  constexpr WholeRange kAny{.least = std::numeric_limits<std::int64_t>::min(),
                            .most = std::numeric_limits<std::int64_t>::max()};
  // A target can be below zero, where the reserves alone exceed the budget.
  if (name == "target_bytes") return {.least = -kMostPlanBytes, .most = kMostPlanBytes};
  if (name == "alignment_bytes") return {.least = 1, .most = kMostAlignment};
  if (name.ends_with("_bytes")) return {.most = kMostPlanBytes};
  if (name == "host_bytes_per_device" || name == "host_bytes_per_node") return {.most = kMostPlanBytes};
  // Of all copies of a step: more than any memory holds.
  if (name == "swapped_bytes_per_step") return {.most = Bytes{1} << 60};
  if (name.ends_with("_ns")) return {.most = kMostStepNs};
  if (name == "rank") return {.most = kMostRank};
  if (name == "softmax_statistics_width") return {.least = 1, .most = 64};
  if (name == "cores") return {.least = 1, .most = kMostCores};
  if (name == "devices_per_node") return {.least = 1, .most = kMostRank};
  return kAny;
}

}  // namespace tidemark::formats
