#pragma once
// A device that counts its calls by kind and lets one of them fail, whichever it is: the simulated device's own faults
// leave out reserving, waiting and giving back.
//
// What fails has changed nothing, as device.h promises; what is left afterwards is the caller's fault. Calls that wait,
// and destroying a stream, take place and answer the failure all the same: it is that of earlier work.

#include <array>
#include <cstdint>
#include <vector>

#include "device/forwarding_device.h"

namespace tidemark::testing {

enum class Call : std::uint8_t {
  reserve,
  map,
  alias,
  allocate_plain,
  allocate_pinned,
  create_stream,
  create_event,
  record_event,
  wait_event,
  copy,
  launch,
  synchronize_event,
  synchronize_device,
  destroy_event,
  destroy_stream,
  unmap,
  release,
  free_plain,
  free_pinned,
};
inline constexpr const char* kCallNames[] = {"reserve",
                                             "map",
                                             "alias",
                                             "allocate_plain",
                                             "allocate_pinned",
                                             "create_stream",
                                             "create_event",
                                             "record_event",
                                             "wait_event",
                                             "copy",
                                             "launch",
                                             "synchronize_event",
                                             "synchronize_device",
                                             "destroy_event",
                                             "destroy_stream",
                                             "unmap",
                                             "release",
                                             "free_plain",
                                             "free_pinned"};
inline constexpr std::size_t kCallCount = std::size(kCallNames);

using CallCounts = std::array<std::int64_t, kCallCount>;

class FailingDevice : public ForwardingDevice {
 public:
  explicit FailingDevice(Device& to) : ForwardingDevice(to) {}

  /// The `number`-th call of its kind, counted from 1, answers `code`.
  void fail(Call call, std::int64_t number, DeviceCode code) {
    call_ = call;
    number_ = number;
    code_ = code;
  }
  [[nodiscard]] const CallCounts& counts() const { return counts_; }
  [[nodiscard]] bool struck() const { return struck_; }

  DeviceCode reserve(Bytes bytes, Address& base) override {
    return before(Call::reserve, [&] { return ForwardingDevice::reserve(bytes, base); });
  }
  DeviceCode map(Address at, Bytes bytes) override {
    return before(Call::map, [&] { return ForwardingDevice::map(at, bytes); });
  }
  DeviceCode alias(Address at, Address source, Bytes bytes) override {
    return before(Call::alias, [&] { return ForwardingDevice::alias(at, source, bytes); });
  }
  DeviceCode allocate_plain(Bytes bytes, Address& address) override {
    return before(Call::allocate_plain, [&] { return ForwardingDevice::allocate_plain(bytes, address); });
  }
  DeviceCode allocate_pinned(Bytes bytes, Address& address) override {
    return before(Call::allocate_pinned, [&] { return ForwardingDevice::allocate_pinned(bytes, address); });
  }
  DeviceCode create_stream(StreamRole role, StreamHandle& stream) override {
    return before(Call::create_stream, [&] { return ForwardingDevice::create_stream(role, stream); });
  }
  DeviceCode create_event(EventHandle& event) override {
    return before(Call::create_event, [&] { return ForwardingDevice::create_event(event); });
  }
  DeviceCode record_event(EventHandle event, StreamHandle stream) override {
    return before(Call::record_event, [&] { return ForwardingDevice::record_event(event, stream); });
  }
  DeviceCode wait_event(StreamHandle stream, EventHandle event) override {
    return before(Call::wait_event, [&] { return ForwardingDevice::wait_event(stream, event); });
  }
  DeviceCode copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind, std::int64_t id) override {
    return before(Call::copy, [&] { return ForwardingDevice::copy(stream, to, from, bytes, kind, id); });
  }
  DeviceCode launch(StreamHandle stream, const Work& work) override {
    return before(Call::launch, [&] { return ForwardingDevice::launch(stream, work); });
  }
  DeviceCode synchronize_event(EventHandle event, std::int64_t timeout_ns) override {
    return behind(Call::synchronize_event, ForwardingDevice::synchronize_event(event, timeout_ns));
  }
  DeviceCode synchronize_device() override {
    return behind(Call::synchronize_device, ForwardingDevice::synchronize_device());
  }
  DeviceCode destroy_event(EventHandle event) override {
    return before(Call::destroy_event, [&] { return ForwardingDevice::destroy_event(event); });
  }
  DeviceCode destroy_stream(StreamHandle stream) override {
    return behind(Call::destroy_stream, ForwardingDevice::destroy_stream(stream));
  }
  DeviceCode unmap(Address at, Bytes bytes) override {
    return before(Call::unmap, [&] { return ForwardingDevice::unmap(at, bytes); });
  }
  DeviceCode release(Address base, Bytes bytes) override {
    return before(Call::release, [&] { return ForwardingDevice::release(base, bytes); });
  }
  DeviceCode free_plain(Address address) override {
    return before(Call::free_plain, [&] { return ForwardingDevice::free_plain(address); });
  }
  DeviceCode free_pinned(Address address) override {
    return before(Call::free_pinned, [&] { return ForwardingDevice::free_pinned(address); });
  }

 private:
  [[nodiscard]] bool strikes(Call call) {
    const bool now = ++counts_[static_cast<std::size_t>(call)] == number_ && call == call_;
    struck_ = struck_ || now;
    return now;
  }
  template <class Forward>
  DeviceCode before(Call call, Forward&& forward) {
    return strikes(call) ? code_ : forward();
  }
  DeviceCode behind(Call call, DeviceCode code) { return strikes(call) ? code_ : code; }

  CallCounts counts_{};
  Call call_ = Call::reserve;
  std::int64_t number_ = 0;  ///< 0: none fails
  DeviceCode code_ = DeviceCode::ok;
  bool struck_ = false;
};

}  // namespace tidemark::testing
