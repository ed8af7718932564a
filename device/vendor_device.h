#pragma once
// What the devices of all vendors do alike, whatever their libraries are called: the caller's context on each call, the
// text of failures, what a lost device still answers, handles that go back, memory in granules, pinned memory.
//
// A device that is lost refuses everything but giving back: that waits once, for all threads, until what may still run
// has ended, and then answers ok whatever the vendor says.
//
// After a fork the vendor's library is the parent's alone: in the child the device is lost, says why, and calls
// nothing.
//
// Vendor is a struct of types and static members:
//   Library, Context            the functions, and what must be current when they are called
//   ContextScope                makes the context current, restores the caller's; code() is 0 or what went wrong
//   meaning_of, text_of         of a code from a call
//   wait_for_all(library)       until the device has nothing left to do
//   pinned_calls(library)       for PinnedBlocks; the library outlives them
//   kAliasing                   whether a handle may be attached at several addresses
//   kNoMapping                  the error text where traits().mapping is not set
//   kSetContext, kAllocatePinned, kFreePinned     names of calls, for error texts
// Codes are ints, 0 is success.

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "device/copy_sides.h"
#include "device/device.h"
#include "device/error_texts.h"
#include "device/fork_handlers.h"
#include "device/host_pages.h"
#include "device/mapped_memory.h"
#include "device/outstanding.h"
#include "device/pinned_blocks.h"
#include "device/vendor_call.h"

namespace tidemark {

template <class Vendor>
class VendorDevice : public Device, protected GranuleVendor {
 public:
  [[nodiscard]] const DeviceTraits& traits() const override { return traits_; }
  [[nodiscard]] std::string last_error() const override { return errors_.get(); }

  [[nodiscard]] DeviceCode reserve(Bytes bytes, Address& base) override {
    return mapping([&] { return mapped_.reserve(bytes, base); });
  }
  [[nodiscard]] DeviceCode release(Address base, Bytes bytes) override {
    return unmapping([&] { return mapped_.release(base, bytes); });
  }
  [[nodiscard]] DeviceCode map(Address at, Bytes bytes) override {
    return mapping([&] { return mapped_.map(at, bytes); });
  }
  [[nodiscard]] DeviceCode unmap(Address at, Bytes bytes) override {
    return unmapping([&] { return mapped_.unmap(at, bytes); });
  }
  [[nodiscard]] DeviceCode alias(Address at, Address source, Bytes bytes) override {
    return mapping([&] { return mapped_.alias(at, source, bytes); });
  }
  [[nodiscard]] DeviceCode remap(Address at, Address source, Bytes bytes) override {
    return mapping([&] { return mapped_.remap(at, source, bytes); });
  }

  [[nodiscard]] DeviceCode allocate_pinned(Bytes bytes, Address& address) override;
  [[nodiscard]] DeviceCode free_pinned(Address address) override;
  [[nodiscard]] PinnedFacts pinned_facts(Address address) override { return pinned_.facts(address); }

  [[nodiscard]] std::int64_t now_ns() override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  }

 protected:
  using Code = int;
  using Library = typename Vendor::Library;

  /// `touch_threads` populate pinned memory.
  VendorDevice(Library library, int touch_threads) : library_(std::move(library)), touch_threads_(touch_threads) {}

  DeviceCode refuse(DeviceCode code, std::string text) override {
    if (code == DeviceCode::lost) lost_ = true;
    errors_.set(std::move(text));
    return code;
  }
  /// A thread that saw the failure itself keeps its text.
  DeviceCode answer_lost() {
    if (forked_) return refuse(DeviceCode::lost, kForked);
    if (errors_.get().empty()) errors_.set("the device is lost since an earlier failure");
    return DeviceCode::lost;
  }
  /// The outcome of a vendor's call: keeps the text of a failure and notices a lost device.
  DeviceCode outcome(Code code, VendorCall purpose, const char* call) {
    const DeviceCode meaning = Vendor::meaning_of(code, purpose);
    if (meaning == DeviceCode::ok || meaning == DeviceCode::not_ready) return meaning;
    return refuse(meaning, Vendor::text_of(library_, call, code));
  }
  DeviceCode given_back(Code code, const char* call) {
    return lost_ ? DeviceCode::ok : outcome(code, VendorCall::give_back, call);
  }

  /// body(): calls to the vendor, answering its code.
  template <class Body>
  DeviceCode in_context(VendorCall purpose, const char* call, Body&& body);
  template <class Body>
  DeviceCode give_back(const char* call, Body&& body);
  /// The same for a handle that is in `books`, where it stays if the vendor refuses.
  template <class Body>
  DeviceCode give_back_of(Outstanding& books, std::uint64_t handle, const char* call, Body&& body);

  /// ok, or why the copy is refused.
  DeviceCode check_copy(Address to, Address from, Bytes bytes, CopyKind kind);
  /// What a launch does: checks what is read, lets the time pass, then fills what is written, while all goes well.
  template <class Check, class Pause, class Fill>
  static Code carry_out(const Work& work, bool play_estimates, Check&& check, Pause&& pause, Fill&& fill);

  Library library_;
  typename Vendor::Context context_ = nullptr;
  DeviceTraits traits_;
  std::atomic<bool> lost_ = false;
  std::atomic<bool> forked_ = false;  ///< this process is a child of the one that opened it
  ErrorTexts errors_;
  MappedMemory mapped_{*this, Vendor::kAliasing};
  PinnedBlocks pinned_{Vendor::pinned_calls(library_)};
  Outstanding streams_, events_;

 private:
  static constexpr const char* kForked =
      "this process was forked from the one that opened the device, which cannot be used here: open it behind the "
      "fork, "
      "or start the process anew (spawn)";

  /// A device that is lost only because its books no longer hold may well be at work. Nobody passes before it has
  /// ended. The context is current.
  void drain_if_lost() {
    if (lost_) std::call_once(drained_, [this] { Vendor::wait_for_all(library_); });
  }
  template <class Body>
  DeviceCode mapping(Body&& body);
  template <class Body>
  DeviceCode unmapping(Body&& body);

  const int touch_threads_;
  std::once_flag drained_;
  const ForkHandlers at_fork_{ForkLevel::device,
                              {.before_fork = [this] { errors_.lock(); },
                               .after_fork_in_parent = [this] { errors_.unlock(); },
                               .after_fork_in_child =
                                   [this] {
                                     forked_ = lost_ = true;
                                     errors_.unlock();
                                   }}};
};

template <class Vendor>
template <class Body>
DeviceCode VendorDevice<Vendor>::in_context(VendorCall purpose, const char* call, Body&& body) {
  if (lost_) return answer_lost();
  const typename Vendor::ContextScope scope(library_, context_);
  return outcome(scope.code() == 0 ? body() : scope.code(), purpose, call);
}

template <class Vendor>
template <class Body>
DeviceCode VendorDevice<Vendor>::give_back(const char* call, Body&& body) {
  if (forked_) return DeviceCode::ok;
  const typename Vendor::ContextScope scope(library_, context_);
  drain_if_lost();
  return given_back(scope.code() == 0 ? body() : scope.code(), call);
}

/// Out of the books before the call: the vendor may give the handle to another thread before this one is back.
template <class Vendor>
template <class Body>
DeviceCode VendorDevice<Vendor>::give_back_of(Outstanding& books, std::uint64_t handle, const char* call, Body&& body) {
  if (forked_) return DeviceCode::ok;  // another thread may have had the books' lock
  Outstanding::Node node = books.remove(handle);
  if (node.empty()) return refuse(DeviceCode::invalid, fmt::format("{}: there is no {:#x}", call, handle));
  const DeviceCode code = give_back(call, body);
  if (code != DeviceCode::ok) books.put_back(std::move(node));
  return code;
}

template <class Vendor>
template <class Body>
DeviceCode VendorDevice<Vendor>::mapping(Body&& body) {
  if (!traits_.mapping) return refuse(DeviceCode::unsupported, Vendor::kNoMapping);
  if (lost_) return answer_lost();
  const typename Vendor::ContextScope scope(library_, context_);
  if (scope.code() != 0) return outcome(scope.code(), VendorCall::other, Vendor::kSetContext);
  return body();
}

template <class Vendor>
template <class Body>
DeviceCode VendorDevice<Vendor>::unmapping(Body&& body) {
  if (forked_) return DeviceCode::ok;
  if (!traits_.mapping) return refuse(DeviceCode::unsupported, Vendor::kNoMapping);
  const typename Vendor::ContextScope scope(library_, context_);
  if (scope.code() != 0 && !lost_) return outcome(scope.code(), VendorCall::other, Vendor::kSetContext);
  drain_if_lost();
  return body();
}

template <class Vendor>
DeviceCode VendorDevice<Vendor>::allocate_pinned(Bytes bytes, Address& address) {
  if (bytes <= 0) return refuse(DeviceCode::invalid, "cannot allocate no bytes");
  if (bytes > traits_.largest_pinned_bytes) {
    return refuse(DeviceCode::unsupported,
                  fmt::format("one piece of pinned memory is at most {}", format_bytes(traits_.largest_pinned_bytes)));
  }
  const HostPagesOptions wish{.bytes = bytes, .numa_node = traits_.numa_node, .touch_threads = touch_threads_};
  if (lost_) return answer_lost();
  if (std::string text = PinnedBlocks::no_room(wish); !text.empty()) {
    return refuse(DeviceCode::out_of_memory, std::move(text));
  }
  return in_context(VendorCall::memory, Vendor::kAllocatePinned,
                    [&] { return pinned_.allocate(wish, traits_.host_register, address); });
}

template <class Vendor>
DeviceCode VendorDevice<Vendor>::free_pinned(Address address) {
  if (forked_) return DeviceCode::ok;
  if (!pinned_.has(address)) return refuse(DeviceCode::invalid, fmt::format("{:#x} is no pinned block", address));
  return give_back(Vendor::kFreePinned, [&] { return pinned_.free(address, lost_); });
}

template <class Vendor>
DeviceCode VendorDevice<Vendor>::check_copy(Address to, Address from, Bytes bytes, CopyKind kind) {
  if (lost_) return answer_lost();
  const auto pinned = [this](Address at, Bytes size) { return pinned_.covers(at, size); };
  std::string why = wrong_side_of_copy(to, from, bytes, kind, pinned);
  return why.empty() ? DeviceCode::ok : refuse(DeviceCode::invalid, std::move(why));
}

template <class Vendor>
template <class Check, class Pause, class Fill>
int VendorDevice<Vendor>::carry_out(const Work& work, bool play_estimates, Check&& check, Pause&& pause, Fill&& fill) {
  Code code = 0;
  const auto touch_all = [&](AccessKind kind, auto&& body) {
    for (const Touch& touch : work.touches) {
      if (code == 0 && work.verify && touch.kind == kind && touch.bytes != 0) code = body(touch);
    }
  };
  touch_all(AccessKind::read, check);
  if (code == 0 && play_estimates && work.estimate_ns > 0) code = pause();
  touch_all(AccessKind::write, fill);
  return code;
}

}  // namespace tidemark
