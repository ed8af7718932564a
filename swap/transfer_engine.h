#pragma once
// Copies between device and pinned host memory: one stream a direction, in the order they are submitted, split where
// the host side is, and accounted for.
//
// It neither orders nor retries: order is the caller's, and so is what a failed copy means.

#include <cstdint>
#include <span>

#include "device/device.h"
#include "swap/run_report.h"
#include "swap/stream_set.h"

namespace tidemark::swap {

/// Pinned bytes that are contiguous in address; several of them, one behind the other, are the host side of a copy.
struct HostRange {
  Address address = 0;
  Bytes bytes = 0;
};

class TransferEngine {
 public:
  enum class Cause : std::uint8_t { step, outside_step };

  explicit TransferEngine(StreamSet& streams) : streams_(streams) {}

  /// `id`: as in Work.
  [[nodiscard]] DeviceCode copy_out(std::span<const HostRange> to, Address from, std::int64_t id, Cause cause);
  [[nodiscard]] DeviceCode copy_in(Address to, std::span<const HostRange> from, std::int64_t id, Cause cause);

  void restart() { out_ = in_ = {}; }
  [[nodiscard]] const CopyFigures& out() const { return out_; }
  [[nodiscard]] const CopyFigures& in() const { return in_; }

 private:
  DeviceCode copy(Address device, std::span<const HostRange> host, CopyKind kind, std::int64_t id);
  static void count(CopyFigures& figures, std::span<const HostRange> host, Cause cause);

  StreamSet& streams_;
  CopyFigures out_, in_;
};

}  // namespace tidemark::swap
