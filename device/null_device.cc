#include "device/null_device.h"

#include <chrono>

#include "device/error_texts.h"

namespace tidemark {
namespace {

class NullDevice final : public Device {
 public:
  // Step 1 of a clone: say here, before anything else, what the hardware can.
  NullDevice() : traits_{.name = "null", .product = "no device", .has_bytes = false} {}

  [[nodiscard]] const DeviceTraits& traits() const override { return traits_; }
  [[nodiscard]] std::string last_error() const override { return errors_.get(); }
  [[nodiscard]] DeviceCode memory_info(MemoryInfo& info) override {
    info = {};
    return DeviceCode::ok;
  }

  // Step 2: memory. A vendor that maps whole handles only can go through device/mapped_memory.h, one that registers
  // pages through device/pinned_blocks.h.
  [[nodiscard]] DeviceCode reserve(Bytes, Address&) override { return refuse("reserve"); }
  [[nodiscard]] DeviceCode release(Address, Bytes) override { return refuse("release"); }
  [[nodiscard]] DeviceCode map(Address, Bytes) override { return refuse("map"); }
  [[nodiscard]] DeviceCode unmap(Address, Bytes) override { return refuse("unmap"); }
  [[nodiscard]] DeviceCode alias(Address, Address, Bytes) override { return refuse("alias"); }
  [[nodiscard]] DeviceCode remap(Address, Address, Bytes) override { return refuse("remap"); }
  [[nodiscard]] DeviceCode allocate_plain(Bytes, Address&) override { return refuse("allocate_plain"); }
  [[nodiscard]] DeviceCode free_plain(Address) override { return refuse("free_plain"); }
  [[nodiscard]] DeviceCode allocate_pinned(Bytes, Address&) override { return refuse("allocate_pinned"); }
  [[nodiscard]] DeviceCode free_pinned(Address) override { return refuse("free_pinned"); }

  // Step 3: streams and events.
  [[nodiscard]] DeviceCode create_stream(StreamRole, StreamHandle&) override { return refuse("create_stream"); }
  [[nodiscard]] DeviceCode destroy_stream(StreamHandle) override { return refuse("destroy_stream"); }
  [[nodiscard]] DeviceCode create_event(EventHandle&) override { return refuse("create_event"); }
  [[nodiscard]] DeviceCode destroy_event(EventHandle) override { return refuse("destroy_event"); }
  [[nodiscard]] DeviceCode record_event(EventHandle, StreamHandle) override { return refuse("record_event"); }
  [[nodiscard]] DeviceCode wait_event(StreamHandle, EventHandle) override { return refuse("wait_event"); }
  [[nodiscard]] DeviceCode query_event(EventHandle) override { return refuse("query_event"); }
  [[nodiscard]] DeviceCode synchronize_event(EventHandle, std::int64_t) override { return refuse("synchronize_event"); }
  [[nodiscard]] DeviceCode synchronize_stream(StreamHandle) override { return refuse("synchronize_stream"); }
  /// Nothing can be in flight.
  [[nodiscard]] DeviceCode synchronize_device() override { return DeviceCode::ok; }

  // Step 4: work.
  [[nodiscard]] DeviceCode copy(StreamHandle, Address, Address, Bytes, CopyKind, std::int64_t) override {
    return refuse("copy");
  }
  [[nodiscard]] DeviceCode launch(StreamHandle, const Work&) override { return refuse("launch"); }
  [[nodiscard]] std::int64_t mismatches(Mismatch& first) override {
    first = {};
    return 0;
  }
  [[nodiscard]] std::int64_t now_ns() override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }

 private:
  DeviceCode refuse(const char* call) {
    errors_.set(std::string("the null device has no ") + call + "()");
    return DeviceCode::unsupported;
  }

  const DeviceTraits traits_;
  ErrorTexts errors_;
};

}  // namespace

std::unique_ptr<Device> open_null_device() {
  return std::make_unique<NullDevice>();
}

}  // namespace tidemark
