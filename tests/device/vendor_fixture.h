#pragma once
// What the tests of cuda and ascend on their stand-ins share: a device, the library's controls, short ways to what most
// tests need, and the checks that are the same for every vendor but for the names of the calls.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <utility>

#include "tests/support/stand_ins.h"

namespace tidemark {

class OnStandIn : public ::testing::Test {
 protected:
  explicit OnStandIn(const char* library) : controls_(library) { controls_.reset(); }
  ~OnStandIn() override {
    device_.reset();
    controls_.reset();
  }

  Device& use(Result<std::unique_ptr<Device>> opened) {
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    device_ = std::move(opened).value();
    return *device_;
  }
  Address reserve(Bytes bytes) {
    Address base = 0;
    EXPECT_EQ(device_->reserve(bytes, base), DeviceCode::ok) << device_->last_error();
    return base;
  }
  StreamHandle stream(StreamRole role = StreamRole::compute) {
    StreamHandle made{};
    EXPECT_EQ(device_->create_stream(role, made), DeviceCode::ok);
    return made;
  }
  EventHandle event() {
    EventHandle made{};
    EXPECT_EQ(device_->create_event(made), DeviceCode::ok);
    return made;
  }
  Address pinned(Bytes bytes) {
    Address address = 0;
    EXPECT_EQ(device_->allocate_pinned(bytes, address), DeviceCode::ok);
    return address;
  }
  Address plain(Bytes bytes) {
    Address address = 0;
    EXPECT_EQ(device_->allocate_plain(bytes, address), DeviceCode::ok);
    return address;
  }
  [[nodiscard]] Bytes granule() const { return device_->traits().granule_bytes; }

  /// Of the device's own; `streams` are the library's default ones.
  void expect_nothing_left(std::int64_t streams) {
    for (const char* const count :
         {"blocks", "reservations", "mappings", "physicals", "events", "device_bytes", "violations"}) {
      EXPECT_EQ(controls_.get(count), 0) << count;
    }
    EXPECT_EQ(controls_.get("streams"), streams);
  }

  /// A bit of everything, stopping at the first call that fails.
  DeviceCode use_everything();
  /// Lets each of the calls fail with `code` at its first four places in use_everything(), each time on a new device,
  /// and expects nothing to be left. Answers how many of them were noticed.
  int fail_everywhere(std::initializer_list<const char*> calls, int code, const std::function<void()>& open);
  /// A stream whose work has failed is told to go, and the vendor refuses that as well.
  void expect_failed_work_told(const char* synchronize, int failure, const char* destroy, int refusal);
  /// A child calls nothing of the vendor's: all but giving back is refused with a text that says why.
  void expect_refused_in_a_child();

  StandInControls controls_;
  std::unique_ptr<Device> device_;
};

inline DeviceCode OnStandIn::use_everything() {
  Device& device = *device_;
  Address base = 0, block = 0, host = 0;
  StreamHandle first{}, second{};
  EventHandle done{};
  DeviceCode code = DeviceCode::ok;
  const auto then = [&](auto&& call) { code = code == DeviceCode::ok ? call() : code; };
  then([&] { return device.reserve(4 * granule(), base); });
  then([&] { return device.map(base, 2 * granule()); });
  then([&] { return device.allocate_plain(70'000, block); });
  then([&] { return device.allocate_pinned(2 * granule(), host); });
  then([&] { return device.create_stream(StreamRole::compute, first); });
  then([&] { return device.create_stream(StreamRole::d2h, second); });
  then([&] { return device.create_event(done); });
  const Bytes bytes = 2 * granule() - device.traits().tail_pad_bytes;
  const Touch touches[] = {{base, bytes, AccessKind::write, 1}, {block, 70'000, AccessKind::write, 2}};
  then([&] { return device.launch(first, {.id = 1, .touches = touches, .verify = true}); });
  then([&] { return device.record_event(done, first); });
  then([&] { return device.wait_event(second, done); });
  then([&] { return device.copy(second, host, base, bytes, CopyKind::device_to_host); });
  then([&] { return device.synchronize_event(done); });
  then([&] { return device.synchronize_stream(second); });
  then([&] { return device.remap(base + 2 * static_cast<Address>(granule()), base, granule()); });
  return code;
}

inline int OnStandIn::fail_everywhere(std::initializer_list<const char*> calls, int code,
                                      const std::function<void()>& open) {
  controls_.set("granule_bytes", 64 * kKiB);  // quicker
  open();
  const std::int64_t streams = controls_.get("streams");
  int faults = 0;
  for (const char* const call : calls) {
    for (std::int64_t skip = 0; skip < 4; ++skip) {
      SCOPED_TRACE(::testing::Message() << call << " after " << skip);
      if (device_ == nullptr) open();
      controls_.fail_call(call, skip, code);
      faults += use_everything() == DeviceCode::ok ? 0 : 1;
      controls_.fail_call(call, 1'000'000, 0);  // not while giving back
      device_.reset();
      expect_nothing_left(streams);
      EXPECT_EQ(controls_.get("operations"), 0);
      if (HasFailure()) return faults;
    }
  }
  return faults;
}

inline void OnStandIn::expect_failed_work_told(const char* synchronize, int failure, const char* destroy, int refusal) {
  const StreamHandle on = stream();
  controls_.fail_call(synchronize, 0, failure);
  controls_.fail_call(destroy, 0, refusal);
  EXPECT_EQ(device_->destroy_stream(on), DeviceCode::copy_failed);
  EXPECT_NE(device_->last_error().find(synchronize), std::string::npos) << device_->last_error();
  EXPECT_EQ(device_->destroy_stream(on), DeviceCode::ok) << "it was still there";
  EXPECT_EQ(device_->destroy_stream(on), DeviceCode::invalid);
}

inline void OnStandIn::expect_refused_in_a_child() {
  ASSERT_EQ(use_everything(), DeviceCode::ok);
  const StreamHandle compute = stream();
  const EventHandle done = event();
  const Address host = pinned(granule());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    const auto refuses = [&](DeviceCode code) {
      return code == DeviceCode::lost && device_->last_error().find("forked") != std::string::npos;
    };
    Address block = 0;
    StreamHandle made{};
    bool is_right = refuses(device_->create_stream(StreamRole::d2h, made)) &&
                    refuses(device_->allocate_plain(1000, block)) && refuses(device_->reserve(granule(), block)) &&
                    refuses(device_->record_event(done, compute)) && refuses(device_->synchronize_stream(compute));
    is_right = is_right && device_->destroy_stream(compute) == DeviceCode::ok &&
               device_->destroy_event(done) == DeviceCode::ok && device_->free_pinned(host) == DeviceCode::ok;
    const std::int64_t streams = controls_.get("streams");
    device_.reset();
    _exit(is_right && controls_.get("streams") == streams ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(device_->destroy_stream(compute), DeviceCode::ok) << "the parent's is as it was";
  EXPECT_EQ(device_->destroy_event(done), DeviceCode::ok);
  EXPECT_EQ(device_->free_pinned(host), DeviceCode::ok);
}

}  // namespace tidemark
