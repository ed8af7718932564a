// Threads on one allocator: blocks handed from thread to thread, freed far from home, while others trim and look.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "allocator/caching_allocator.h"
#include "device/sim_device.h"
#include "device/sim_world.h"

namespace tidemark {
namespace {

using namespace literals;

constexpr std::size_t kThreads = 4;

/// Blocks on their way between threads.
class Exchange {
 public:
  void put(Address address) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back(address);
  }
  Address take(std::uint64_t any) {
    const std::lock_guard lock(mutex_);
    if (blocks_.empty()) return 0;
    std::swap(blocks_[any % blocks_.size()], blocks_.back());
    const Address address = blocks_.back();
    blocks_.pop_back();
    return address;
  }

 private:
  std::mutex mutex_;
  std::vector<Address> blocks_;
};

class AllocatorThreads : public testing::Test {
 protected:
  void open(Bytes capacity, AllocatorOptions options) {
    device_ = make_sim_device({.capacity_bytes = capacity, .check_races = false});
    for (StreamHandle& stream : streams_)
      ASSERT_EQ(device_->create_stream(StreamRole::compute, stream), DeviceCode::ok);
    allocator_ = std::make_unique<CachingAllocator>(*device_, order_, std::move(options));
  }
  void TearDown() override {
    EXPECT_EQ(allocator_->validate(), "");
    allocator_.reset();
    for (const StreamHandle stream : streams_) EXPECT_EQ(device_->destroy_stream(stream), DeviceCode::ok);
    EXPECT_EQ(device_->leaks(), "");
  }
  void work(std::size_t me, int steps) {
    std::mt19937_64 random(me + 1);
    for (int i = 0; i < steps; ++i) {
      const std::uint64_t choice = random() % 64;
      if (choice < 30) {
        const Bytes bytes = static_cast<Bytes>(random() % (random() % 8 == 0 ? 3'000'000 : 20'000));
        Address address = 0;
        const DeviceCode code = allocator_->allocate(bytes, streams_[random() % kThreads], address);
        if (code == DeviceCode::ok) exchange_.put(address);
        EXPECT_TRUE(code == DeviceCode::ok || code == DeviceCode::out_of_memory);
      } else if (choice < 60) {
        const Address address = exchange_.take(random());
        if (address == 0) continue;
        if (choice < 32) (void)allocator_->note_use(address, streams_[random() % kThreads]);
        EXPECT_GT(allocator_->block_bytes(address), 0);
        EXPECT_EQ(allocator_->free(address), DeviceCode::ok);
      } else if (choice < 62) {
        EventHandle event = static_cast<EventHandle>(1000 + me);
        order_.note_record(event, streams_[me]);
        order_.note_wait(streams_[(me + 1) % kThreads], event);
      } else if (i % 8 == 0) {
        (void)allocator_->statistics();
        (void)allocator_->trim(64_MiB);
      }
    }
  }
  void run(int steps) {
    std::vector<std::thread> threads;
    for (std::size_t me = 0; me < kThreads; ++me) threads.emplace_back([this, me, steps] { work(me, steps); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(allocator_->validate(), "");
    while (const Address address = exchange_.take(0)) EXPECT_EQ(allocator_->free(address), DeviceCode::ok);
    const AllocatorStatistics statistics = allocator_->statistics();
    EXPECT_EQ(statistics.allocated_bytes.current, 0);
    EXPECT_EQ(statistics.allocation.total_up, statistics.allocation.total_down);
    EXPECT_GT(statistics.remote_frees, 0);
    EXPECT_GT(allocator_->empty_cache(), 0);
    EXPECT_EQ(allocator_->statistics().reserved_bytes.current, 0) << "everything was idle";
  }

  StreamOrder order_;
  std::unique_ptr<SimDevice> device_;
  std::unique_ptr<CachingAllocator> allocator_;
  StreamHandle streams_[kThreads] = {};
  Exchange exchange_;
};

TEST_F(AllocatorThreads, BlocksFreedFarFromHome) {
  open(4_GiB, {.shards = kThreads});
  run(4'000);
}

TEST_F(AllocatorThreads, FewerShardsThanThreadsAndLittleMemory) {
  open(32_MiB, {.front_cache_bytes = 256_KiB, .shards = 2, .trace_entries = 128});
  run(3'000);
}

// The device can only finish once another thread has submitted a message's other end, for which that thread asks the
// allocator: whoever waits for the device must not lock the others out.
TEST(AllocatorWaits, TheDeviceIsWaitedForWithoutALock) {
  SimWorld world;
  auto device = world.make_device({.rank = 0, .capacity_bytes = 16_MiB});
  auto other = world.make_device({.rank = 1});
  StreamHandle receives = {}, uses = {}, sends = {};
  for (StreamHandle* stream : {&receives, &uses})
    ASSERT_EQ(device->create_stream(StreamRole::receive, *stream), DeviceCode::ok);
  ASSERT_EQ(other->create_stream(StreamRole::send, sends), DeviceCode::ok);
  StreamOrder order;
  CachingAllocator allocator(*device, order);
  Address address = 0;
  ASSERT_EQ(allocator.allocate(12_MiB, receives, address), DeviceCode::ok);
  ASSERT_EQ(device->launch(receives, {.estimate_ns = 10, .message = {.peer_rank = 1, .tag = 1}}), DeviceCode::ok);
  ASSERT_EQ(allocator.free(address), DeviceCode::ok);
  device->set_faults({{.point = FaultPoint::create_event, .calls = Fault::kNoEnd, .code = DeviceCode::no_resource}});

  std::unique_ptr<SimHost> waits = world.attach_host(), submits = world.attach_host();
  std::thread waiting([&] {
    EXPECT_EQ(allocator.allocate(12_MiB, uses, address), DeviceCode::ok) << allocator.last_error();
    waits.reset();
  });
  while (allocator.statistics().host_waits == 0) std::this_thread::yield();
  const WorkMessage message{.peer_rank = 0, .tag = 1, .is_send = true};
  EXPECT_EQ(other->launch(sends, {.estimate_ns = 10, .message = message}), DeviceCode::ok);
  submits.reset();
  waiting.join();
  EXPECT_EQ(allocator.statistics().num_ooms, 0);
}

}  // namespace
}  // namespace tidemark
