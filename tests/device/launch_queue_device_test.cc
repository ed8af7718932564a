// A framework that queues its launches, on the stand-in for ACL: what we put on its streams comes behind what it called
// before.

#include "device/launch_queue_device.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "device/acl_runtime.h"
#include "device/ascend_device.h"
#include "tests/device/vendor_fixture.h"
#include "tests/support/framework_queue.h"

namespace tidemark {
namespace {

class BelowALaunchQueue : public OnStandIn {
 protected:
  static constexpr Bytes kBytes = 4096;

  BelowALaunchQueue() : OnStandIn(TIDEMARK_ACL_STAND_IN) {
    controls_.find(set_device_, "aclrtSetDevice");
    controls_.find(create_stream_, "aclrtCreateStream");
    controls_.find(destroy_stream_, "aclrtDestroyStream");
    controls_.find(synchronize_, "aclrtSynchronizeStream");
    controls_.find(copy_, "aclrtMemcpyAsync");
  }

  /// With a stream of the framework's, and pinned memory that holds 1, 2 and 3.
  void open(bool asks) {
    auto opened = open_ascend_device(ascend_stand_in_options());
    ASSERT_TRUE(opened.ok());
    device_ = std::move(opened).value();
    if (asks)
      device_ = make_launch_queue_device(std::move(device_), [this](std::string& why) {
        if (answer_ != DeviceCode::ok) why = "said so";
        return answer_ == DeviceCode::ok ? queue_.submit(why) : answer_;
      });
    ASSERT_EQ(set_device_(0), acl::kSuccess);
    ASSERT_EQ(create_stream_(&theirs_), acl::kSuccess);
    block_ = plain(kBytes);
    for (int i = 0; i < 3; ++i) {
      values_[i] = pinned(kBytes);
      std::memset(reinterpret_cast<void*>(values_[i]), i + 1, kBytes);
    }
    result_ = pinned(kBytes);
  }
  void submit() {
    std::string why;
    ASSERT_EQ(queue_.submit(why), DeviceCode::ok);
    ASSERT_EQ(queue_.stuck(), 0);
  }
  void close() {
    submit();
    ASSERT_EQ(synchronize_(theirs_), acl::kSuccess);
    ASSERT_EQ(destroy_stream_(theirs_), acl::kSuccess);
  }
  [[nodiscard]] StreamHandle theirs() const { return StreamHandle{reinterpret_cast<std::uint64_t>(theirs_)}; }
  /// The framework calls a kernel that writes values_[i] to the block.
  void call_kernel(int i) {
    queue_.call([this, i] {
      ASSERT_EQ(set_device_(0), acl::kSuccess);
      ASSERT_EQ(copy_(reinterpret_cast<void*>(block_), kBytes, reinterpret_cast<void*>(values_[i]), kBytes,
                      acl::kHostToDevice, theirs_),
                acl::kSuccess);
    });
  }
  /// The block goes out on a stream of ours, behind an event on theirs. What came out.
  int copied_out() {
    const StreamHandle ours = stream(StreamRole::d2h);
    const EventHandle done = event();
    EXPECT_EQ(device_->record_event(done, theirs()), DeviceCode::ok);
    EXPECT_EQ(device_->wait_event(ours, done), DeviceCode::ok);
    EXPECT_EQ(device_->copy(ours, result_, block_, kBytes, CopyKind::device_to_host), DeviceCode::ok);
    EXPECT_EQ(device_->synchronize_stream(ours), DeviceCode::ok);
    return *reinterpret_cast<const char*>(result_);
  }

  FrameworkQueue queue_{std::chrono::milliseconds(30)};
  DeviceCode answer_ = DeviceCode::ok;
  acl::Stream theirs_ = nullptr;
  Address block_ = 0, result_ = 0;
  Address values_[3] = {};
  acl::Code (*set_device_)(std::int32_t) = nullptr;
  acl::Code (*create_stream_)(acl::Stream*) = nullptr;
  acl::Code (*destroy_stream_)(acl::Stream) = nullptr;
  acl::Code (*synchronize_)(acl::Stream) = nullptr;
  acl::Code (*copy_)(void*, std::size_t, const void*, std::size_t, int, acl::Stream) = nullptr;
};

TEST_F(BelowALaunchQueue, AnEventComesBehindWhatWasCalledBefore) {
  open(true);
  call_kernel(0);
  call_kernel(1);
  EXPECT_EQ(copied_out(), 2);
  EXPECT_EQ(queue_.waits(), 1) << "once for the record; our own stream needs no more";
  close();
}

/// What the test above would see without the order.
TEST_F(BelowALaunchQueue, WithoutAskingItComesBefore) {
  open(false);
  call_kernel(0);
  submit();
  ASSERT_EQ(synchronize_(theirs_), acl::kSuccess);
  call_kernel(1);
  EXPECT_EQ(copied_out(), 1);
  close();
}

TEST_F(BelowALaunchQueue, WhatIsCalledLaterComesBehindACopyIn) {
  open(true);
  const StreamHandle ours = stream(StreamRole::h2d);
  const EventHandle read = event();
  const EventHandle arrived = event();
  call_kernel(0);
  EXPECT_EQ(device_->copy(theirs(), result_, block_, kBytes, CopyKind::device_to_host), DeviceCode::ok);
  EXPECT_EQ(device_->record_event(read, theirs()), DeviceCode::ok);
  EXPECT_EQ(device_->wait_event(ours, read), DeviceCode::ok);
  EXPECT_EQ(device_->copy(ours, block_, values_[2], kBytes, CopyKind::host_to_device), DeviceCode::ok);
  EXPECT_EQ(device_->record_event(arrived, ours), DeviceCode::ok);
  EXPECT_EQ(device_->wait_event(theirs(), arrived), DeviceCode::ok);
  call_kernel(1);
  EXPECT_EQ(device_->synchronize_device(), DeviceCode::ok);
  EXPECT_EQ(*reinterpret_cast<const char*>(result_), 1);
  EXPECT_EQ(copied_out(), 2);
  close();
}

TEST_F(BelowALaunchQueue, WaitingForTheirsWaitsForWhatIsQueued) {
  open(true);
  call_kernel(2);
  EXPECT_EQ(device_->synchronize_stream(theirs()), DeviceCode::ok);
  EXPECT_EQ(controls_.get("operations"), 0);
  EXPECT_EQ(controls_.get("copies_in"), 1);
  call_kernel(1);
  EXPECT_EQ(device_->synchronize_device(), DeviceCode::ok);
  EXPECT_EQ(controls_.get("copies_in"), 2);
  close();
}

TEST_F(BelowALaunchQueue, NothingIsDoneWhereTheQueueCannotBeWaitedFor) {
  open(true);
  const EventHandle done = event();
  const StreamHandle ours = stream();
  ASSERT_EQ(device_->record_event(done, ours), DeviceCode::ok);
  for (const DeviceCode answer : {DeviceCode::no_resource, DeviceCode::lost}) {
    answer_ = answer;
    EXPECT_EQ(device_->record_event(done, theirs()), answer);
    EXPECT_EQ(device_->last_error(), "said so");
    EXPECT_EQ(device_->wait_event(theirs(), done), answer);
    EXPECT_EQ(device_->synchronize_stream(theirs()), answer);
    EXPECT_EQ(device_->synchronize_device(), answer);
    EXPECT_EQ(device_->copy(theirs(), result_, block_, kBytes, CopyKind::device_to_host), answer);
    EXPECT_EQ(device_->launch(theirs(), {}), answer);
    EXPECT_EQ(controls_.get("copies_out"), 0);
    EXPECT_EQ(device_->record_event(done, ours), DeviceCode::ok);  // the framework knows nothing of it
  }
  answer_ = DeviceCode::ok;
  EXPECT_EQ(device_->record_event(done, theirs()), DeviceCode::ok);
  EXPECT_NE(device_->last_error(), "said so");
  close();
}

TEST_F(BelowALaunchQueue, AStreamThatIsGoneIsNoLongerOurs) {
  open(true);
  const StreamHandle ours = stream();
  ASSERT_EQ(device_->destroy_stream(ours), DeviceCode::ok);
  answer_ = DeviceCode::no_resource;
  EXPECT_EQ(device_->synchronize_stream(ours), DeviceCode::no_resource) << "the handle may be the framework's now";
  close();
}

}  // namespace
}  // namespace tidemark
