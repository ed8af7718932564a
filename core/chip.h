#pragma once
// What an accelerator is sold as and what its kernels and links reach of it: all that prices work of a size.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/time_term.h"

namespace tidemark {

enum class Precision : std::uint8_t { bf16, fp16, tf32, fp8, mxfp8, nvfp4 };
inline constexpr std::size_t kPrecisionCount = 6;

/// A block of rows and columns that one core computes at a time, and the rate of kernels with it beside the best.
struct MatmulTile {
  std::int64_t rows = 0, columns = 0;
  double relative_rate = 1;
  friend bool operator==(const MatmulTile&, const MatmulTile&) = default;
};

/// From data sheets only. Rates of links are of one device, one way.
struct DeviceSheet {
  double flops_per_s[kPrecisionCount] = {};  ///< dense, by Precision; 0: not supported
  double memory_bytes_per_s = 0;
  std::int64_t cores = 0;         ///< SMs, AI cores
  std::vector<MatmulTile> tiles;  ///< that matmul kernels choose from
  double intra_bytes_per_s = 0;   ///< inside a node
  double inter_bytes_per_s = 0;   ///< between nodes
  double host_bytes_per_s = 0;    ///< to host memory, and as much from it at the same time
  std::int64_t devices_per_node = 8;
  bool is_hopper_or_later = false;  ///< attention kernels of the generation before reach less of it
  [[nodiscard]] double peak(Precision precision) const { return flops_per_s[static_cast<std::size_t>(precision)]; }
  friend bool operator==(const DeviceSheet&, const DeviceSheet&) = default;
};

/// Half width in percent of what held four fifths of the measured steps, either way, each predicted by rates that were
/// fitted without it. 0: not known.
struct StepBands {
  double dense_percent = 0, experts_percent = 0;
  friend bool operator==(const StepBands&, const StepBands&) = default;
};

/// Fitted to measured step times of one device, at most eight of them (scripts/fit_device); the rest are priors.
struct FittedRates {
  double matmul = 0.75;          ///< share of the peak that large matmuls reach
  double tile_start = 150;       ///< length of the inner dimension that a tile's start and end take, at the bf16 peak
  double memory = 0.75;          ///< share of memory bandwidth that vector work reaches
  double launch_s = 18e-6;       ///< host time of a launch
  double intra_link = 0.7;       ///< share of the link inside a node
  double inter_link = 0.8;       ///< share of the link between nodes
  double hop_s = 22e-6;          ///< latency of a hop of a collective
  double attention = 0.42;       ///< share of the bf16 peak, attention forward
  double grouped_matmul = 0.85;  ///< of grouped matmuls, relative to `matmul`
  double fp8 = 0.9;              ///< of fp8 matmuls, relative to `matmul`
  friend bool operator==(const FittedRates&, const FittedRates&) = default;
};

struct Chip {
  DeviceSheet sheet;
  FittedRates rates;
  TimeTerms measured;  ///< that the measured runs had which the rates were fitted to
  StepBands bands;
  friend bool operator==(const Chip&, const Chip&) = default;
};

}  // namespace tidemark
