#pragma once
// Races that shipped in other systems, as pairs of protocols: the broken one, written as the plain sequence of device
// calls it came down to, and the corrected one. race_test.cc runs both under many schedules. Adding one is one function
// and one line in a table.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/sim_device.h"
#include "tests/device/sim_fixture.h"

namespace tidemark {

inline constexpr Bytes kBlock = kMiB;

/// A small training process: streams, an arena of device blocks, pinned host blocks, and work that verifies contents.
/// Blocks are named by number; who may use which when is the business of the protocol.
class Stage {
 public:
  explicit Stage(std::uint64_t seed);

  const SimRig& rig() const { return rig_; }
  SimDevice& device() const { return *rig_.device; }
  StreamHandle compute() const { return rig_.compute; }
  StreamHandle side() const { return side_; }  ///< a second compute stream
  StreamHandle comm() const { return comm_; }
  StreamHandle d2h() const { return rig_.d2h; }
  StreamHandle h2d() const { return rig_.h2d; }

  [[nodiscard]] Address block(int i) const { return arena_ + static_cast<Address>(i * kBlock); }
  [[nodiscard]] Address host(int i) const { return pinned_ + static_cast<Address>(i * kBlock); }

  /// A kernel that writes, or reads and expects, pattern(seed).
  void write(StreamHandle on, Address at, std::uint64_t seed, Bytes bytes = kBlock);
  void read(StreamHandle on, Address at, std::uint64_t seed, Bytes bytes = kBlock);
  /// A kernel that reads `from` and writes the same to `to`.
  void clone(StreamHandle on, Address from, Address to, std::uint64_t seed);
  void copy_out(Address host, Address from, Bytes bytes = kBlock);
  void copy_in(Address to, Address host, Bytes bytes = kBlock);

  void order(StreamHandle earlier, StreamHandle later) { rig_.order(earlier, later); }
  void wait(StreamHandle later, EventHandle event) { EXPECT_EQ(device().wait_event(later, event), DeviceCode::ok); }
  [[nodiscard]] EventHandle mark(StreamHandle on);
  void host_waits_for(EventHandle event) { EXPECT_EQ(device().synchronize_event(event), DeviceCode::ok); }
  /// The host waits for everything, as between two steps.
  void finish() { rig_.finish(); }

 private:
  SimRig rig_;
  StreamHandle side_{}, comm_{};
  Address arena_ = 0, pinned_ = 0;
  std::int64_t next_id_ = 1;
};

struct Protocol {
  const char* name;    ///< of the test
  const char* source;  ///< where it shipped
  /// One step, broken or right; run twice.
  void (*step)(Stage& stage, bool right);
  // What the report of the broken one must say.
  const char* earlier;  ///< stream of the side submitted first
  const char* later;    ///< stream of the other side, or "host"
  const char* missing;  ///< part of the missing edge
  bool garbles = true;  ///< under some schedule the bytes really come out wrong
};

[[nodiscard]] std::span<const Protocol> offload_protocols();
[[nodiscard]] std::span<const Protocol> allocator_protocols();

}  // namespace tidemark
