#pragma once
// Memory figures of one rank: from each of its files, then from all of them, as budget::RankHoldings. Pure.
//
//   allocated   peak of the bytes that the framework asked for, by storage
//   cached      bytes that its allocator held beyond them at its own peak: free blocks, rounding, fragmentation
//   outside     bytes that the device reports beside the allocator: context, libraries, communicators, other processes
//
// The peak of a rank is their sum: the memory that the device needed for the run as it was. Each figure is the highest
// of its own kind, so the sum is never below the bytes in use at one time.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "integrations/formats/attributed_trace.h"
#include "integrations/formats/import_device_samples.h"
#include "integrations/formats/import_memory_record.h"
#include "planner/budget/holdings.h"

namespace tidemark::measured {

/// The row of bytes that the device reports and no allocator that was asked holds. Its size is measured, its owner is
/// not.
inline constexpr std::string_view kOutside = "held outside the allocator";
/// Blocks from before the recording, where the file does not name their owner.
inline constexpr std::string_view kBefore = "live before the recording";
/// Blocks of backward's threads that are still live when an optimizer allocates.
inline constexpr std::string_view kLeftByBackward = "gradients left by backward";

/// Figures of one file, or of several files of one rank together. Nothing: no file tells the figure.
struct RankMeasure {
  std::optional<Bytes> allocated_bytes;  ///< highest
  std::optional<Bytes> reserved_bytes;   ///< highest, of the framework's allocator
  /// Storages that are live where allocated is highest; they add up to it. Empty: no file tells them apart.
  std::vector<budget::HeldStorage> storages;
  std::string peak_at;                ///< place of the highest allocated_bytes
  std::optional<Bytes> steady_bytes;  ///< live when the recording began, if the recording never falls below it
  std::optional<Bytes> outside_bytes;
  std::optional<Bytes> used_bytes;  ///< most in use on the device, by any owner: a lower bound of the peak
  std::vector<budget::HeldStorage> named_outside;  ///< of components that a profiler names; a part of outside_bytes
  std::optional<Bytes> host_bytes;                 ///< most resident memory of the process, or of the pinned pool
  std::vector<std::string> notes;
  std::vector<std::string> doubts;  ///< notes, each with a reason why the peak may have been higher
};

[[nodiscard]] RankMeasure measure_of(const formats::AttributedTrace& run);
[[nodiscard]] RankMeasure measure_of(const formats::MemoryRecord& record);
/// REQUIRES: at least one sample.
[[nodiscard]] RankMeasure measure_of(const std::vector<formats::DeviceSample>& samples);

/// Adds the figures of `more` to `all`. The larger one counts of a figure that both have; storages of `more` count only
/// where `all` has none.
void add(RankMeasure& all, RankMeasure more);

/// Whether a figure of the device was measured. `host_bytes` alone makes no holdings of a rank.
[[nodiscard]] bool tells_device(const RankMeasure& measure);

/// REQUIRES: tells_device.
[[nodiscard]] budget::RankHoldings holdings_of(std::int64_t rank, std::string place, const RankMeasure& measure);

}  // namespace tidemark::measured
