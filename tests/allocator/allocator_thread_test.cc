// Threads on one allocator: blocks handed from thread to thread, freed far from home, while others trim and look.
// TIDEMARK_SOAK_SECONDS and TIDEMARK_SOAK_SEED: tests/support/soak.h.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "allocator/caching_allocator.h"
#include "device/forwarding_device.h"
#include "device/host_device.h"
#include "device/sim_device.h"
#include "device/sim_world.h"
#include "tests/support/soak.h"

namespace tidemark::allocator {
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
    std::mt19937_64 random(Soak::seed(me + 1));
    for (int i = 0; soak_.goes_on(i, steps); ++i) {
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
    std::barrier together(static_cast<std::ptrdiff_t>(kThreads));  // a thread that had ended would leave its shard
    for (std::size_t me = 0; me < kThreads; ++me) {
      threads.emplace_back([this, me, steps, &together] {
        together.arrive_and_wait();
        work(me, steps);
        together.arrive_and_wait();
      });
    }
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

  const Soak soak_{};
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

/// Fails some calls that take memory or events, in turn.
class FaultyDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  [[nodiscard]] DeviceCode map(Address at, Bytes bytes) override {
    return fails(7) ? DeviceCode::out_of_memory : ForwardingDevice::map(at, bytes);
  }
  [[nodiscard]] DeviceCode alias(Address at, Address source, Bytes bytes) override {
    return fails(5) ? DeviceCode::no_resource : ForwardingDevice::alias(at, source, bytes);
  }
  [[nodiscard]] DeviceCode remap(Address at, Address source, Bytes bytes) override {
    return fails(5) ? DeviceCode::no_resource : ForwardingDevice::remap(at, source, bytes);
  }
  [[nodiscard]] DeviceCode record_event(EventHandle event, StreamHandle stream) override {
    return fails(9) ? DeviceCode::no_resource : ForwardingDevice::record_event(event, stream);
  }

 private:
  [[nodiscard]] bool fails(int each) { return calls_.fetch_add(1) % each == each - 1; }
  std::atomic<int> calls_{0};
};

/// Real bytes: each thread fills its blocks on a stream of its own, looks whether they are still there, and frees them
/// or lets another thread do that. The memory is too small, and the device refuses calls.
class HostThreads : public testing::Test {
 protected:
  struct Held {
    Address address = 0;
    Bytes bytes = 0;
    std::uint64_t seed = 0;
  };

  void touch(StreamHandle stream, const Held& held, AccessKind kind) {
    const Bytes bytes = std::min<Bytes>(held.bytes, 4096);
    const Touch both[] = {{.address = held.address, .bytes = bytes, .kind = kind, .seed = held.seed},
                          {.address = held.address + static_cast<Address>(held.bytes - bytes),
                           .bytes = bytes,
                           .kind = kind,
                           .seed = held.seed}};
    const std::size_t count = held.bytes > 2 * bytes ? 2 : 1;
    EXPECT_EQ(host_->launch(stream, {.touches = {both, count}, .verify = true}), DeviceCode::ok);
  }
  void drop(std::size_t me, std::vector<Held>& held, std::uint64_t any) {
    std::swap(held[any % held.size()], held.back());
    touch(streams_[me], held.back(), AccessKind::read);
    if (any / 64 % 4 == 0) {
      exchange_.put(held.back().address);
    } else {
      EXPECT_EQ(allocator_->free(held.back().address), DeviceCode::ok);
    }
    held.pop_back();
  }
  void work(std::size_t me, int steps) {
    std::mt19937_64 random(Soak::seed(me + 1));
    std::vector<Held> held;
    for (int i = 0; soak_.goes_on(i, steps); ++i) {
      if (const Address far = exchange_.take(random())) {
        EXPECT_EQ(allocator_->free(far), DeviceCode::ok);
      }
      const Bytes most = random() % 4 == 0 ? 6_MiB : 64_KiB;
      Held block{.bytes = static_cast<Bytes>(random() % static_cast<std::uint64_t>(most) + 8) / 8 * 8,
                 .seed = random()};
      const DeviceCode code =
          held.size() > 12 ? DeviceCode::out_of_memory : allocator_->allocate(block.bytes, streams_[me], block.address);
      EXPECT_TRUE(code == DeviceCode::ok || is_recoverable(code)) << allocator_->last_error();
      if (code == DeviceCode::ok) {
        touch(streams_[me], block, AccessKind::write);
        held.push_back(block);
      }
      if (!held.empty() && (code != DeviceCode::ok || random() % 2 == 0)) drop(me, held, random());
    }
    while (!held.empty()) drop(me, held, 64);
  }

  const Soak soak_{};
  std::unique_ptr<Device> host_;
  StreamOrder order_;
  std::unique_ptr<CachingAllocator> allocator_;
  StreamHandle streams_[kThreads] = {};
  Exchange exchange_;
};

TEST_F(HostThreads, NoByteIsLostThoughTheDeviceRefuses) {
  auto opened = open_host_device({.capacity_bytes = 32_MiB});
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  host_ = std::move(opened).value();
  for (StreamHandle& stream : streams_) ASSERT_EQ(host_->create_stream(StreamRole::compute, stream), DeviceCode::ok);
  FaultyDevice device(*host_);
  allocator_ = std::make_unique<CachingAllocator>(device, order_, AllocatorOptions{.shards = kThreads});
  std::vector<std::thread> threads;
  for (std::size_t me = 0; me < kThreads; ++me) threads.emplace_back([this, me] { work(me, 1'500); });
  for (std::thread& thread : threads) thread.join();
  while (const Address far = exchange_.take(0)) EXPECT_EQ(allocator_->free(far), DeviceCode::ok);
  EXPECT_EQ(allocator_->validate(), "");
  const AllocatorStatistics statistics = allocator_->statistics();
  EXPECT_EQ(statistics.allocated_bytes.current, 0);
  EXPECT_GT(statistics.num_alloc_retries, 0) << "memory was never short";
  EXPECT_GT(statistics.front_hits, 0);
  EXPECT_EQ(host_->synchronize_device(), DeviceCode::ok);
  Mismatch first;
  EXPECT_EQ(host_->mismatches(first), 0) << "a block was reused too early, at " << first.address;
  allocator_.reset();
  for (const StreamHandle stream : streams_) EXPECT_EQ(host_->destroy_stream(stream), DeviceCode::ok);
  MemoryInfo memory;
  EXPECT_EQ(host_->memory_info(memory), DeviceCode::ok);
  EXPECT_EQ(memory.free_bytes, memory.total_bytes) << "all of it went back";
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
}  // namespace tidemark::allocator
