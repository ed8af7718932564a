#pragma once
// Copies between device and pinned host memory: one stream a direction, in the order they are submitted, split where
// the host side is, accounted for, and after each copy in a check of what arrived (with verify).
//
// It neither orders nor retries: order is the executor's, and a copy that fails ends the step.

#include <cstdint>
#include <span>

#include "device/device.h"
#include "swap/arena_memory.h"
#include "swap/run_report.h"
#include "swap/stream_set.h"

namespace tidemark::swap {

/// Bytes of a pinned arena; several of them, one behind the other, are the host side of a copy.
struct HostPiece {
  ArenaId arena = kNone<ArenaId>;
  Bytes offset = 0;
  Bytes bytes = 0;
};

class TransferEngine {
 public:
  enum class Cause : std::uint8_t { planned, contingency, outside_step };

  TransferEngine(StreamSet& streams, const ArenaMemory& memory) : streams_(streams), memory_(memory) {}

  /// `id`: as in Work.
  [[nodiscard]] DeviceCode copy_out(std::span<const HostPiece> to, Address from, std::int64_t id, Cause cause);
  [[nodiscard]] DeviceCode copy_in(Address to, std::span<const HostPiece> from, std::int64_t id, Cause cause);

  void restart() { out_ = in_ = {}; }
  [[nodiscard]] const CopyFigures& out() const { return out_; }
  [[nodiscard]] const CopyFigures& in() const { return in_; }

 private:
  DeviceCode copy(Address device, std::span<const HostPiece> host, CopyKind kind, std::int64_t id);
  static void count(CopyFigures& figures, std::span<const HostPiece> pieces, Cause cause);

  StreamSet& streams_;
  const ArenaMemory& memory_;
  CopyFigures out_, in_;
};

}  // namespace tidemark::swap
