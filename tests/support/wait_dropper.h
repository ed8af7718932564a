#pragma once
// A simulated device whose users may be robbed of one wait, and a judge of what is left: by reachability over all
// calls, sharing nothing with the device's own race checker.

#include <map>
#include <utility>
#include <vector>

#include "device/forwarding_device.h"
#include "device/sim_device.h"

namespace tidemark::testing {

/// Passes everything on but one wait, and remembers what was ordered after what.
class WaitDropper final : public ForwardingDevice {
 public:
  /// `dropped`: which wait, counted from 0; -1: none.
  WaitDropper(SimDevice& device, std::int64_t dropped)
      : ForwardingDevice(device), traits_(device.traits()), dropped_(dropped) {
    traits_.mapping = traits_.aliasing = false;  // so that bytes are the same where addresses are
  }
  const DeviceTraits& traits() const override { return traits_; }

  DeviceCode record_event(EventHandle event, StreamHandle stream) override {
    std::vector<std::ptrdiff_t> before = pending_[stream];
    before.push_back(last(stream));
    recorded_[event] = std::move(before);
    return ForwardingDevice::record_event(event, stream);
  }
  DeviceCode wait_event(StreamHandle stream, EventHandle event) override {
    if (waits_++ == dropped_) return DeviceCode::ok;
    append(pending_[stream], event);
    return ForwardingDevice::wait_event(stream, event);
  }
  /// What the host has seen complete is behind it whatever it submits.
  DeviceCode query_event(EventHandle event) override {
    const DeviceCode code = ForwardingDevice::query_event(event);
    if (code == DeviceCode::ok) append(seen_, event);
    return code;
  }
  DeviceCode synchronize_event(EventHandle event, std::int64_t timeout_ns) override {
    append(seen_, event);
    return ForwardingDevice::synchronize_event(event, timeout_ns);
  }
  DeviceCode copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind, std::int64_t id) override {
    add(stream, {{from, bytes, AccessKind::read}, {to, bytes, AccessKind::write}});
    return ForwardingDevice::copy(stream, to, from, bytes, kind, id);
  }
  DeviceCode launch(StreamHandle stream, const Work& work) override {
    std::vector<Range> ranges;
    for (const Touch& touch : work.touches) ranges.push_back({touch.address, touch.bytes, touch.kind});
    add(stream, std::move(ranges));
    return ForwardingDevice::launch(stream, work);
  }

  [[nodiscard]] std::int64_t waits() const { return waits_; }
  /// Whether two pieces of work touch a byte, one of them writing, in no order.
  [[nodiscard]] bool has_race() const {
    for (std::size_t b = 0; b < works_.size(); ++b)
      for (std::size_t a = 0; a < b; ++a)
        if (!works_[b].behind[a] && conflict(works_[a], works_[b])) return true;
    return false;
  }

 private:
  struct Range {
    Address address = 0;
    Bytes bytes = 0;
    AccessKind kind = AccessKind::read;
  };
  struct Piece {
    std::vector<Range> ranges;
    std::vector<bool> behind;  ///< of earlier pieces
  };

  void add(StreamHandle stream, std::vector<Range> ranges) {
    Piece piece{.ranges = std::move(ranges), .behind = std::vector<bool>(works_.size())};
    std::vector<std::ptrdiff_t>& from = pending_[stream];
    from.push_back(last(stream));
    from.insert(from.end(), seen_.begin(), seen_.end());
    for (const std::ptrdiff_t before : from) {
      if (before < 0) continue;
      piece.behind[static_cast<std::size_t>(before)] = true;
      const std::vector<bool>& more = works_[static_cast<std::size_t>(before)].behind;
      for (std::size_t i = 0; i < more.size(); ++i)
        if (more[i]) piece.behind[i] = true;
    }
    // What a stream has waited for stays behind everything it is given later.
    from.clear();
    last_[stream] = static_cast<std::ptrdiff_t>(works_.size());
    works_.push_back(std::move(piece));
  }
  std::ptrdiff_t last(StreamHandle stream) { return last_.try_emplace(stream, -1).first->second; }
  void append(std::vector<std::ptrdiff_t>& list, EventHandle event) {
    if (const auto found = recorded_.find(event); found != recorded_.end())
      list.insert(list.end(), found->second.begin(), found->second.end());
  }
  static bool conflict(const Piece& a, const Piece& b) {
    for (const Range& x : a.ranges)
      for (const Range& y : b.ranges)
        if ((x.kind == AccessKind::write || y.kind == AccessKind::write) &&
            x.address < y.address + static_cast<Address>(y.bytes) &&
            y.address < x.address + static_cast<Address>(x.bytes))
          return true;
    return false;
  }

  DeviceTraits traits_;
  const std::int64_t dropped_;
  std::int64_t waits_ = 0;
  std::vector<Piece> works_;
  std::map<StreamHandle, std::ptrdiff_t> last_;
  std::map<StreamHandle, std::vector<std::ptrdiff_t>> pending_;
  std::map<EventHandle, std::vector<std::ptrdiff_t>> recorded_;
  std::vector<std::ptrdiff_t> seen_;
};

}  // namespace tidemark::testing
