#pragma once
// A simulated device with one stream a role, memory of both kinds, and calls that must succeed, for tests.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/sim_device.h"

namespace tidemark {

/// Work on a whole range, with or without verification.
inline Touch reads(Address at, Bytes bytes, std::uint64_t seed = 0) {
  return {at, bytes, AccessKind::read, seed};
}
inline Touch writes(Address at, Bytes bytes, std::uint64_t seed = 0) {
  return {at, bytes, AccessKind::write, seed};
}

struct SimRig {
  std::unique_ptr<SimDevice> device;
  StreamHandle compute{}, send{}, receive{}, d2h{}, h2d{};

  explicit SimRig(const SimOptions& options = {}, const SimSchedule& schedule = {})
      : SimRig(make_sim_device(options, schedule)) {}
  SimRig(SimWorld& world, const SimOptions& options) : SimRig(world.make_device(options)) {}
  explicit SimRig(std::unique_ptr<SimDevice> made) : device(std::move(made)) {
    compute = stream(StreamRole::compute);
    send = stream(StreamRole::send);
    receive = stream(StreamRole::receive);
    d2h = stream(StreamRole::d2h);
    h2d = stream(StreamRole::h2d);
  }
  SimDevice* operator->() const { return device.get(); }

  StreamHandle stream(StreamRole role) const {
    StreamHandle made{};
    EXPECT_EQ(device->create_stream(role, made), DeviceCode::ok);
    return made;
  }
  EventHandle event() const {
    EventHandle made{};
    EXPECT_EQ(device->create_event(made), DeviceCode::ok);
    return made;
  }
  /// An event recorded on a stream now.
  EventHandle mark(StreamHandle on) const {
    const EventHandle made = event();
    EXPECT_EQ(device->record_event(made, on), DeviceCode::ok);
    return made;
  }
  /// What `later` gets from now on comes after what `earlier` has so far.
  void order(StreamHandle earlier, StreamHandle later) const {
    const EventHandle made = mark(earlier);
    EXPECT_EQ(device->wait_event(later, made), DeviceCode::ok);
    EXPECT_EQ(device->destroy_event(made), DeviceCode::ok);
  }
  Address mapped(Bytes bytes) const {
    Address at = 0;
    EXPECT_EQ(device->reserve(bytes, at), DeviceCode::ok);
    EXPECT_EQ(device->map(at, bytes), DeviceCode::ok);
    return at;
  }
  Address plain(Bytes bytes) const {
    Address at = 0;
    EXPECT_EQ(device->allocate_plain(bytes, at), DeviceCode::ok);
    return at;
  }
  Address pinned(Bytes bytes) const {
    Address at = 0;
    EXPECT_EQ(device->allocate_pinned(bytes, at), DeviceCode::ok);
    return at;
  }
  void work(StreamHandle on, std::int64_t id, std::int64_t ns, std::vector<Touch> touches = {},
            bool verify = false) const {
    EXPECT_EQ(device->launch(on, {.id = id, .estimate_ns = ns, .touches = touches, .verify = verify}), DeviceCode::ok);
  }
  void copy_out(StreamHandle on, Address host, Address from, Bytes bytes, std::int64_t id = -1) const {
    EXPECT_EQ(device->copy(on, host, from, bytes, CopyKind::device_to_host, id), DeviceCode::ok);
  }
  void copy_in(StreamHandle on, Address to, Address host, Bytes bytes, std::int64_t id = -1) const {
    EXPECT_EQ(device->copy(on, to, host, bytes, CopyKind::host_to_device, id), DeviceCode::ok);
  }
  void finish() const { EXPECT_EQ(device->synchronize_device(), DeviceCode::ok) << device->last_error(); }
  std::int64_t mismatches() const {
    Mismatch first;
    return device->mismatches(first);
  }
};

/// 1 GB/s and no latency: a byte takes a nanosecond.
inline SimOptions slow_links() {
  SimOptions options;
  options.d2h = options.h2d = {.bytes_per_s = 1e9, .latency_ns = 0};
  options.record_timeline = true;
  return options;
}

}  // namespace tidemark
