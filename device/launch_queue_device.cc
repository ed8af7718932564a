#include "device/launch_queue_device.h"

#include <mutex>
#include <set>
#include <utility>

#include "device/fork_handlers.h"
#include "device/forwarding_device.h"

namespace tidemark {
namespace {

/// Why the calling thread's last call was not made, and on which device; none: nullptr.
struct Refusal {
  const void* device = nullptr;
  std::string why;
};

Refusal& last_refusal() {
  thread_local Refusal refusal;
  return refusal;
}

class LaunchQueueDevice final : public ForwardingDevice {
 public:
  LaunchQueueDevice(std::unique_ptr<Device> device, SubmitQueued submit_queued)
      : ForwardingDevice(*device), owned_(std::move(device)), submit_queued_(std::move(submit_queued)) {}

  [[nodiscard]] std::string last_error() const override {
    const Refusal& refusal = last_refusal();
    return refusal.device == this ? refusal.why : ForwardingDevice::last_error();
  }

  [[nodiscard]] DeviceCode create_stream(StreamRole role, StreamHandle& stream) override {
    const DeviceCode code = ForwardingDevice::create_stream(role, stream);
    if (code != DeviceCode::ok) return code;
    const std::lock_guard lock(mutex_);
    own_.insert(stream);
    return code;
  }
  /// Out of the books before the call: the vendor may give the handle to the framework before this thread is back.
  [[nodiscard]] DeviceCode destroy_stream(StreamHandle stream) override {
    std::unique_lock lock(mutex_);
    auto node = own_.extract(stream);
    lock.unlock();
    const DeviceCode code = ForwardingDevice::destroy_stream(stream);
    // Invalid: gone, or never there. Anything else may have left it where it is.
    if (code == DeviceCode::ok || code == DeviceCode::invalid || node.empty()) return code;
    lock.lock();
    own_.insert(std::move(node));
    return code;
  }

  [[nodiscard]] DeviceCode record_event(EventHandle event, StreamHandle stream) override {
    const DeviceCode code = before(stream);
    return code == DeviceCode::ok ? ForwardingDevice::record_event(event, stream) : code;
  }
  [[nodiscard]] DeviceCode wait_event(StreamHandle stream, EventHandle event) override {
    const DeviceCode code = before(stream);
    return code == DeviceCode::ok ? ForwardingDevice::wait_event(stream, event) : code;
  }
  [[nodiscard]] DeviceCode synchronize_stream(StreamHandle stream) override {
    const DeviceCode code = before(stream);
    return code == DeviceCode::ok ? ForwardingDevice::synchronize_stream(stream) : code;
  }
  [[nodiscard]] DeviceCode synchronize_device() override {
    const DeviceCode code = submit();
    return code == DeviceCode::ok ? ForwardingDevice::synchronize_device() : code;
  }
  [[nodiscard]] DeviceCode copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind,
                                std::int64_t id) override {
    const DeviceCode code = before(stream);
    return code == DeviceCode::ok ? ForwardingDevice::copy(stream, to, from, bytes, kind, id) : code;
  }
  [[nodiscard]] DeviceCode launch(StreamHandle stream, const Work& work) override {
    const DeviceCode code = before(stream);
    return code == DeviceCode::ok ? ForwardingDevice::launch(stream, work) : code;
  }

 private:
  [[nodiscard]] bool is_own(StreamHandle stream) {
    const std::lock_guard lock(mutex_);
    return own_.count(stream) != 0;
  }
  [[nodiscard]] DeviceCode before(StreamHandle stream) { return is_own(stream) ? DeviceCode::ok : submit(); }
  [[nodiscard]] DeviceCode submit() {
    std::string why;
    const DeviceCode code = submit_queued_(why);
    last_refusal() = code == DeviceCode::ok ? Refusal{} : Refusal{.device = this, .why = std::move(why)};
    return code;
  }

  const std::unique_ptr<Device> owned_;
  const SubmitQueued submit_queued_;
  std::mutex mutex_;
  std::set<StreamHandle> own_;
  const ForkHandlers at_fork_{ForkLevel::device,
                              {.before_fork = [this] { mutex_.lock(); },
                               .after_fork_in_parent = [this] { mutex_.unlock(); },
                               .after_fork_in_child = [this] { mutex_.unlock(); }}};
};

}  // namespace

std::unique_ptr<Device> make_launch_queue_device(std::unique_ptr<Device> device, SubmitQueued submit_queued) {
  return std::make_unique<LaunchQueueDevice>(std::move(device), std::move(submit_queued));
}

}  // namespace tidemark
