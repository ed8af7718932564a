#pragma once
// The device as the allocators of one group see it: the memory that they take together stays below one limit; while a
// graph is being captured nothing is done that the capture would not survive; and what a captured graph may touch when
// it is replayed stays where it is.
//
// Cost: one more virtual call on the way to the device, never on an allocator's fast path. Threads: any.

#include <atomic>
#include <map>
#include <mutex>

#include "device/forwarding_device.h"
#include "integrations/c_api/captures.h"

namespace tidemark::c_api {

/// What the allocators of a group have taken from the device together.
class SharedBudget {
 public:
  void set_limit(Bytes bytes) { limit_ = bytes; }
  [[nodiscard]] Bytes limit() const { return limit_; }
  [[nodiscard]] bool take(Bytes bytes) {
    const Bytes limit = limit_;
    Bytes taken = taken_;
    do {
      if (limit > 0 && bytes > limit - taken) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + bytes));
    return true;
  }
  void give(Bytes bytes) { taken_ -= bytes; }

 private:
  std::atomic<Bytes> taken_{0};
  std::atomic<Bytes> limit_{0};  ///< 0: what the device has
};

class PoolDevice final : public ForwardingDevice {
 public:
  PoolDevice(Device& device, SharedBudget& budget, const Captures& captures)
      : ForwardingDevice(device), budget_(budget), captures_(captures) {}

  /// While set, nothing that was mapped is unmapped or moved: a graph may be replayed.
  void set_fixed(bool fixed) { fixed_ = fixed; }

  [[nodiscard]] DeviceCode map(Address at, Bytes bytes) override {
    return take(bytes, [&] { return ForwardingDevice::map(at, bytes); });
  }
  [[nodiscard]] DeviceCode unmap(Address at, Bytes bytes) override;
  [[nodiscard]] DeviceCode alias(Address at, Address source, Bytes bytes) override;
  [[nodiscard]] DeviceCode remap(Address at, Address source, Bytes bytes) override;
  [[nodiscard]] DeviceCode allocate_plain(Bytes bytes, Address& address) override;
  [[nodiscard]] DeviceCode free_plain(Address address) override;

  /// An event recorded on a stream that is captured becomes part of the graph: it can no more be asked than waited for.
  [[nodiscard]] DeviceCode record_event(EventHandle event, StreamHandle stream) override {
    return captures_.covers(stream) ? DeviceCode::no_resource : ForwardingDevice::record_event(event, stream);
  }
  [[nodiscard]] DeviceCode wait_event(StreamHandle stream, EventHandle event) override {
    return captures_.covers(stream) ? DeviceCode::no_resource : ForwardingDevice::wait_event(stream, event);
  }
  [[nodiscard]] DeviceCode synchronize_stream(StreamHandle stream) override {
    return captures_.covers(stream) ? DeviceCode::no_resource : ForwardingDevice::synchronize_stream(stream);
  }
  /// A capture does not survive that the device is waited for. What an allocator hoped for from waiting is not there.
  [[nodiscard]] DeviceCode synchronize_device() override {
    return captures_.any() ? DeviceCode::out_of_memory : ForwardingDevice::synchronize_device();
  }

 private:
  template <class Take>
  DeviceCode take(Bytes bytes, const Take& call) {
    if (!budget_.take(bytes)) return DeviceCode::out_of_memory;
    const DeviceCode code = call();
    if (code != DeviceCode::ok) budget_.give(bytes);
    return code;
  }

  SharedBudget& budget_;
  const Captures& captures_;
  std::atomic<bool> fixed_{false};
  std::mutex mutex_;
  std::map<Address, Bytes> plain_;    ///< sizes of plain segments
  std::map<Address, Bytes> aliases_;  ///< what is mapped without being taken
};

}  // namespace tidemark::c_api
