// The caching allocator below a framework that queues its launches: while the device waits for the framework's thread,
// that thread frees blocks, and needs the allocator's locks for it.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "allocator/caching_allocator.h"
#include "device/launch_queue_device.h"
#include "device/sim_device.h"
#include "tests/support/framework_queue.h"
#include "tests/support/soak.h"

namespace tidemark::allocator {
namespace {

using namespace literals;

class LaunchQueueAllocator : public testing::Test {
 protected:
  void open(AllocatorOptions options) {
    std::unique_ptr<SimDevice> sim = make_sim_device({.capacity_bytes = 64_MiB, .check_races = false});
    sim_ = sim.get();
    for (StreamHandle& stream : streams_)  // the framework's: not created through the launch queue
      ASSERT_EQ(sim_->create_stream(StreamRole::compute, stream), DeviceCode::ok);
    device_ = make_launch_queue_device(std::move(sim), [this](std::string& why) { return queue_.submit(why); });
    allocator_ = std::make_unique<CachingAllocator>(*device_, order_, std::move(options));
  }
  void TearDown() override {
    queue_.before_submit = nullptr;
    EXPECT_EQ(queue_.stuck(), 0) << "the device waited for the framework's thread, which waited for the allocator";
    EXPECT_EQ(allocator_->validate(), "");
    EXPECT_EQ(allocator_->statistics().allocated_bytes.current, 0);
    allocator_.reset();
    for (const StreamHandle stream : streams_) EXPECT_EQ(sim_->destroy_stream(stream), DeviceCode::ok);
    EXPECT_EQ(sim_->leaks(), "");
  }
  Address take(Bytes bytes, std::size_t stream = 0) {
    Address address = 0;
    EXPECT_EQ(allocator_->allocate(bytes, streams_[stream], address), DeviceCode::ok) << allocator_->last_error();
    return address;
  }
  /// One that two streams use.
  Address take_shared(Bytes bytes) {
    const Address address = take(bytes);
    EXPECT_EQ(allocator_->note_use(address, streams_[1]), DeviceCode::ok);
    return address;
  }
  void give_back(Address address) { EXPECT_EQ(allocator_->free(address), DeviceCode::ok); }
  void work_on(std::size_t stream) {
    EXPECT_EQ(sim_->launch(streams_[stream], {.estimate_ns = 1'000'000}), DeviceCode::ok);
  }
  /// Whenever the framework is waited for, its thread frees one of some blocks that two streams use.
  void free_some_meanwhile() {
    for (int i = 0; i < 32; ++i) small_.push_back(take_shared(512));
    queue_.before_submit = [this] {
      const std::lock_guard lock(mutex_);
      if (small_.empty()) return;
      queue_.call([this, address = small_.back()] { give_back(address); });
      small_.pop_back();
    };
  }
  void free_the_rest() {
    queue_.before_submit = nullptr;
    for (const Address address : small_) give_back(address);
    small_.clear();
  }

  FrameworkQueue queue_;
  StreamOrder order_;
  SimDevice* sim_ = nullptr;  ///< inside device_
  std::unique_ptr<Device> device_;
  std::unique_ptr<CachingAllocator> allocator_;
  std::array<StreamHandle, 4> streams_{};
  std::mutex mutex_;
  std::vector<Address> small_;
};

TEST_F(LaunchQueueAllocator, ARecordLetsTheFrameworksThreadFree) {
  open({});
  free_some_meanwhile();
  const Address x = take_shared(40_MiB);
  work_on(1);
  give_back(x);
  const Address again = take(40_MiB);
  EXPECT_GT(queue_.waits(), 0);
  EXPECT_GT(allocator_->statistics().events_recorded, 0);
  EXPECT_EQ(allocator_->statistics().num_ooms, 0);
  give_back(again);
  free_the_rest();
}

TEST_F(LaunchQueueAllocator, AStreamsWaitLetsTheFrameworksThreadFree) {
  open({.pending_wait = PendingWait::stream});
  free_some_meanwhile();
  const Address x = take_shared(40_MiB);
  work_on(1);
  give_back(x);
  const Address again = take(40_MiB);
  EXPECT_GT(allocator_->statistics().stream_waits, 0);
  EXPECT_EQ(allocator_->statistics().host_waits, 0);
  give_back(again);
  free_the_rest();
}

TEST_F(LaunchQueueAllocator, TrimmingLetsTheFrameworksThreadFree) {
  open({});
  free_some_meanwhile();
  for (const bool gathers : {false, true}) {
    const Address x = take(20_MiB);
    work_on(0);
    give_back(x);
    const std::int64_t recorded = allocator_->statistics().events_recorded;
    (void)(gathers ? allocator_->defragment(streams_[0], 20_MiB) : allocator_->trim(0));
    EXPECT_GT(allocator_->statistics().events_recorded, recorded);
    EXPECT_EQ(sim_->synchronize_device(), DeviceCode::ok);
  }
  free_the_rest();
}

TEST_F(LaunchQueueAllocator, WhatTheFrameworkFreesDuringARecordIsFound) {
  open({});
  const Address x = take_shared(20_MiB), y = take(40_MiB);
  give_back(x);
  queue_.before_submit = [this, y, is_over = false]() mutable {
    if (!std::exchange(is_over, true)) queue_.call([this, y] { give_back(y); });
  };
  give_back(take(60_MiB));
}

TEST_F(LaunchQueueAllocator, ThreadsShareItAndTheQueueNeverSticks) {
  open({.shards = 4, .pending_wait = PendingWait::stream});
  const Soak soak;
  std::vector<std::thread> threads;
  for (std::size_t me = 0; me < streams_.size(); ++me) {
    threads.emplace_back([&, me] {
      std::mt19937_64 random(Soak::seed(me + 1));
      std::vector<Address> held;
      const auto drop = [&] {
        const Address address = held.back();
        held.pop_back();
        if (random() % 2 == 0) {
          give_back(address);
        } else {
          queue_.call([this, address] { give_back(address); });
        }
      };
      for (int i = 0; soak.goes_on(i, 300); ++i) {
        Address address = 0;
        const Bytes bytes = static_cast<Bytes>(random() % (random() % 4 == 0 ? 16'000'000 : 64'000));
        const DeviceCode code = allocator_->allocate(bytes, streams_[me], address);
        EXPECT_TRUE(code == DeviceCode::ok || code == DeviceCode::out_of_memory) << allocator_->last_error();
        if (code == DeviceCode::ok) {
          if (random() % 4 == 0) {
            EXPECT_EQ(allocator_->note_use(address, streams_[random() % streams_.size()]), DeviceCode::ok);
          }
          held.push_back(address);
        }
        if (i % 16 == 0) work_on(me);
        if (i % 64 == 0) (void)allocator_->trim(32_MiB);
        if (!held.empty() && (code != DeviceCode::ok || held.size() > 6 || random() % 2 == 0)) drop();
      }
      while (!held.empty()) drop();
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string why;
  EXPECT_EQ(queue_.submit(why), DeviceCode::ok);
  EXPECT_GT(allocator_->statistics().num_alloc_retries, 0) << "memory was never short";
  EXPECT_GT(allocator_->statistics().stream_waits, 0);
}

}  // namespace
}  // namespace tidemark::allocator
