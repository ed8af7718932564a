#pragma once
// A device that hands every call on to another one: what observers and failing doubles derive from, so that each writes
// down only the calls it cares about. Owns nothing; the other device must outlive it.

#include <cstdint>
#include <string>

#include "device/device.h"

namespace tidemark {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(Device& to) : to_(to) {}

  [[nodiscard]] const DeviceTraits& traits() const override { return to_.traits(); }
  [[nodiscard]] std::string last_error() const override { return to_.last_error(); }
  [[nodiscard]] DeviceCode memory_info(MemoryInfo& info) override { return to_.memory_info(info); }

  [[nodiscard]] DeviceCode reserve(Bytes bytes, Address& base) override { return to_.reserve(bytes, base); }
  [[nodiscard]] DeviceCode release(Address base, Bytes bytes) override { return to_.release(base, bytes); }
  [[nodiscard]] DeviceCode map(Address at, Bytes bytes) override { return to_.map(at, bytes); }
  [[nodiscard]] DeviceCode unmap(Address at, Bytes bytes) override { return to_.unmap(at, bytes); }
  [[nodiscard]] DeviceCode alias(Address at, Address source, Bytes bytes) override {
    return to_.alias(at, source, bytes);
  }
  [[nodiscard]] DeviceCode remap(Address at, Address source, Bytes bytes) override {
    return to_.remap(at, source, bytes);
  }
  [[nodiscard]] DeviceCode allocate_plain(Bytes bytes, Address& address) override {
    return to_.allocate_plain(bytes, address);
  }
  [[nodiscard]] DeviceCode free_plain(Address address) override { return to_.free_plain(address); }
  [[nodiscard]] DeviceCode allocate_pinned(Bytes bytes, Address& address) override {
    return to_.allocate_pinned(bytes, address);
  }
  [[nodiscard]] DeviceCode free_pinned(Address address) override { return to_.free_pinned(address); }
  [[nodiscard]] PinnedFacts pinned_facts(Address address) override { return to_.pinned_facts(address); }

  [[nodiscard]] DeviceCode create_stream(StreamRole role, StreamHandle& stream) override {
    return to_.create_stream(role, stream);
  }
  [[nodiscard]] DeviceCode destroy_stream(StreamHandle stream) override { return to_.destroy_stream(stream); }
  [[nodiscard]] DeviceCode create_event(EventHandle& event) override { return to_.create_event(event); }
  [[nodiscard]] DeviceCode destroy_event(EventHandle event) override { return to_.destroy_event(event); }
  [[nodiscard]] DeviceCode record_event(EventHandle event, StreamHandle stream) override {
    return to_.record_event(event, stream);
  }
  [[nodiscard]] DeviceCode wait_event(StreamHandle stream, EventHandle event) override {
    return to_.wait_event(stream, event);
  }
  [[nodiscard]] DeviceCode query_event(EventHandle event) override { return to_.query_event(event); }
  [[nodiscard]] DeviceCode synchronize_event(EventHandle event, std::int64_t timeout_ns) override {
    return to_.synchronize_event(event, timeout_ns);
  }
  [[nodiscard]] DeviceCode synchronize_stream(StreamHandle stream) override { return to_.synchronize_stream(stream); }
  [[nodiscard]] DeviceCode synchronize_device() override { return to_.synchronize_device(); }

  [[nodiscard]] DeviceCode copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind,
                                std::int64_t id) override {
    return to_.copy(stream, to, from, bytes, kind, id);
  }
  [[nodiscard]] DeviceCode launch(StreamHandle stream, const Work& work) override { return to_.launch(stream, work); }
  [[nodiscard]] std::int64_t mismatches(Mismatch& first) override { return to_.mismatches(first); }
  [[nodiscard]] std::int64_t now_ns() override { return to_.now_ns(); }

 private:
  Device& to_;
};

}  // namespace tidemark
