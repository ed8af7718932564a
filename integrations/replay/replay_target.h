#pragma once
// What a trace is replayed on: one allocator with its device behind two calls.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "allocator/planned_arena.h"
#include "core/bytes.h"
#include "core/result.h"
#include "device/device.h"
#include "integrations/replay/planned_trace.h"

namespace tidemark::replay {

class ReplayTarget {
 public:
  ReplayTarget() = default;
  ReplayTarget(const ReplayTarget&) = delete;
  ReplayTarget& operator=(const ReplayTarget&) = delete;
  virtual ~ReplayTarget() = default;

  /// `address` is 0 where the answer is not ok.
  [[nodiscard]] virtual DeviceCode allocate(Bytes bytes, StreamHandle stream, Address& address) = 0;
  virtual void free(Address address) = 0;
  /// The trace starts from its beginning; nothing is in use.
  virtual void begin_pass() {}

  [[nodiscard]] virtual Bytes reserved_bytes() const = 0;  ///< device memory taken
  [[nodiscard]] virtual Bytes peak_reserved_bytes() const = 0;
  /// Of the planned arena; nothing for the others.
  [[nodiscard]] virtual std::optional<allocator::PlannedArenaCounts> planned_counts() const { return std::nullopt; }
};

/// The device outlives every target.
[[nodiscard]] std::unique_ptr<ReplayTarget> make_caching_target(Device& device);
/// `streams`: how many share the addresses; each gets two expandable segments.
[[nodiscard]] std::unique_ptr<ReplayTarget> make_baseline_target(Device& device, bool expandable, std::size_t streams);
/// The arena, with a caching allocator for what is not planned. Errors (infeasible): the device has no room for it.
[[nodiscard]] Result<std::unique_ptr<ReplayTarget>> make_planned_target(Device& device, const PlannedTrace& plan);

}  // namespace tidemark::replay
