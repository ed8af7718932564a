// The pinned pool around a fork(): whatever the parent's threads were at, the child has a pool that serves and ends.
// Children start no threads, so that ThreadSanitizer can watch. TIDEMARK_SOAK_SECONDS and TIDEMARK_SOAK_SEED:
// tests/support/soak.h.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "allocator/pinned_pool.h"
#include "device/forwarding_device.h"
#include "device/host_device.h"
#include "tests/support/fork.h"
#include "tests/support/soak.h"

namespace tidemark::allocator {
namespace {

using namespace literals;

constexpr Bytes kBound = 8_MiB;
constexpr Bytes kChunk = 2_MiB;

/// Holds calls of the process it was made in until open(); a child goes through.
class Barrier {
 public:
  void pass() {
    if (getpid() != process_) return;
    std::unique_lock lock(mutex_);
    ++held_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void await_calls(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, count] { return held_ >= count; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable changed_;
  int held_ = 0;
  bool open_ = false;
};

/// Its calls can be held before they reach the host device, which a fork would wait for.
class HeldDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Barrier* before_allocation = nullptr;
  Barrier* before_release = nullptr;
  Barrier* before_synchronization = nullptr;

  [[nodiscard]] DeviceCode allocate_pinned(Bytes bytes, Address& address) override {
    if (before_allocation != nullptr) before_allocation->pass();
    return ForwardingDevice::allocate_pinned(bytes, address);
  }
  [[nodiscard]] DeviceCode free_pinned(Address address) override {
    if (before_release != nullptr) before_release->pass();
    return ForwardingDevice::free_pinned(address);
  }
  [[nodiscard]] DeviceCode synchronize_event(EventHandle event, std::int64_t timeout_ns) override {
    if (before_synchronization != nullptr) before_synchronization->pass();
    return ForwardingDevice::synchronize_event(event, timeout_ns);
  }
};

class PinnedPoolForks : public testing::Test {
 protected:
  void open(PinnedPoolOptions options, Barrier* before_allocation = nullptr) {
    auto opened = open_host_device({.capacity_bytes = 16_MiB, .touch_threads = 1});
    ASSERT_TRUE(opened.ok());
    host_ = std::move(opened).value();
    device_ = std::make_unique<HeldDevice>(*host_);
    device_->before_allocation = before_allocation;
    ASSERT_EQ(device_->create_stream(StreamRole::d2h, stream_), DeviceCode::ok);
    pool_ = std::make_unique<PinnedPool>(*device_, std::move(options));
  }

  /// A block that is there to be written to, after whatever wait the pool asks for.
  [[nodiscard]] PinnedBlock get(Bytes bytes) {
    for (PinnedAllocation made = pool_->allocate(bytes);; made = pool_->allocate(bytes)) {
      if (made.outcome == PinnedOutcome::ok) {
        auto* const data = reinterpret_cast<unsigned char*>(made.block.address);
        data[0] = data[bytes - 1] = 7;
        return made.block;
      }
      if (made.outcome == PinnedOutcome::wait_chunk && pool_->wait_for_chunk(made)) continue;
      if (made.outcome == PinnedOutcome::wait_block && pool_->wait_for_block(made) == DeviceCode::ok) continue;
      return {};
    }
  }
  /// What a child does with the pool before it ends it.
  bool serves_and_ends() {
    const PinnedBlock now = get(64_KiB), later = get(32_KiB);
    if (now.address == 0 || later.address == 0) return false;
    pool_->free(now);
    if (pool_->free_after(later, stream_) != DeviceCode::ok) return false;
    if (device_->synchronize_stream(stream_) != DeviceCode::ok || pool_->reclaim() < 32_KiB) return false;
    pool_.reset();
    return true;
  }

  Barrier barrier_;
  std::unique_ptr<Device> host_;
  std::unique_ptr<HeldDevice> device_;
  StreamHandle stream_{};
  std::unique_ptr<PinnedPool> pool_;
};

/// Allocates and frees, at once and behind a stream, until told to stop. Never more than two blocks, so that a child
/// finds room beside them.
class Customer {
 public:
  Customer(PinnedPool& pool, Device& device, unsigned seed) : pool_(pool), device_(device), random_(Soak::seed(seed)) {
    thread_ = std::thread([this] { work(); });
  }
  ~Customer() {
    stop_ = true;
    thread_.join();
  }
  Customer(const Customer&) = delete;
  Customer& operator=(const Customer&) = delete;
  [[nodiscard]] int rounds() const { return rounds_; }

 private:
  void work() {
    StreamHandle stream{};
    ASSERT_EQ(device_.create_stream(StreamRole::d2h, stream), DeviceCode::ok);
    for (; !stop_; ++rounds_) {
      const PinnedAllocation made = pool_.allocate(1 + static_cast<Bytes>(random_() % 100'000));
      ASSERT_TRUE(made.outcome != PinnedOutcome::wait_chunk || pool_.wait_for_chunk(made));
      ASSERT_TRUE(made.outcome != PinnedOutcome::wait_block || pool_.wait_for_block(made) == DeviceCode::ok);
      if (made.outcome != PinnedOutcome::ok) continue;
      if (random_() % 2 == 0) {
        pool_.free(made.block);
      } else {
        EXPECT_EQ(pool_.free_after(made.block, stream), DeviceCode::ok);
      }
    }
  }

  PinnedPool& pool_;
  Device& device_;
  std::mt19937_64 random_;
  std::atomic<bool> stop_{false};
  std::atomic<int> rounds_{0};
  std::thread thread_;
};

TEST_F(PinnedPoolForks, AChildServesAndEndsThePoolThatThreadsOfItsParentUse) {
  open({.bound_bytes = kBound, .chunk_bytes = kChunk});
  std::deque<Customer> customers;
  for (unsigned seed = 1; seed <= 3; ++seed) customers.emplace_back(*pool_, *device_, seed);
  const Soak soak;
  int forks = 0;
  for (; soak.goes_on(forks, 40); ++forks) {
    for (const int before = customers[0].rounds(); customers[0].rounds() == before;) std::this_thread::yield();
    ASSERT_EQ(in_a_fork([this] { return serves_and_ends(); }), 0) << "fork " << forks;
  }
  customers.clear();
  std::printf("%d forks\n", forks);
  EXPECT_TRUE(serves_and_ends()) << "the parent's";
}

TEST_F(PinnedPoolForks, AChildGetsTheChunksThatThePoolsThreadWasAt) {
  open({.bound_bytes = kBound, .chunk_bytes = kChunk}, &barrier_);
  barrier_.await_calls(1);
  const PinnedAllocation answer = pool_->allocate(64_KiB);
  ASSERT_EQ(answer.outcome, PinnedOutcome::wait_chunk);
  const auto builds = [&] { return pool_->wait_for_chunk(answer) && serves_and_ends(); };
  EXPECT_EQ(in_a_fork(builds), 0) << "an answer of the parent's";
  const auto has_all = [&] {
    pool_->wait_until_built();
    std::vector<PinnedBlock> blocks;
    for (Bytes i = 0; i < kBound / kChunk; ++i) blocks.push_back(get(kChunk));
    const bool whole = blocks.back().address != 0 && pool_->statistics().held_bytes == kBound;
    return whole && pool_->allocate(1).outcome == PinnedOutcome::exhausted;
  };
  EXPECT_EQ(in_a_fork(has_all), 0);
  EXPECT_EQ(in_a_fork([&] { return in_a_fork(has_all) == 0 && has_all(); }), 0) << "a child's child";
  barrier_.open();
  EXPECT_TRUE(has_all()) << "the parent's";
}

/// Without a thread of its own: the chunk that another caller is getting is not waited for in the child.
TEST_F(PinnedPoolForks, AChildGetsTheChunkThatAnotherCallerWasAt) {
  open({.bound_bytes = kChunk, .chunk_bytes = kChunk, .background = false}, &barrier_);
  std::thread caller([this] { EXPECT_NE(get(64_KiB).address, 0U); });
  barrier_.await_calls(1);
  const PinnedAllocation answer = pool_->allocate(64_KiB);
  ASSERT_EQ(answer.outcome, PinnedOutcome::wait_chunk);
  EXPECT_EQ(in_a_fork([&] { return pool_->wait_for_chunk(answer) && serves_and_ends(); }), 0);
  barrier_.open();
  caller.join();
  EXPECT_TRUE(serves_and_ends()) << "the parent's";
}

TEST_F(PinnedPoolForks, AChildHasRoomThoughAThreadWasGivingChunksBack) {
  open({.bound_bytes = kBound, .chunk_bytes = kChunk});
  pool_->wait_until_built();
  device_->before_release = &barrier_;
  std::thread caller([this] { EXPECT_NE(get(kBound).address, 0U); });  // all chunks make way
  barrier_.await_calls(1);
  EXPECT_EQ(in_a_fork([this] { return get(kBound).address != 0; }), 0);
  barrier_.open();
  caller.join();
}

TEST_F(PinnedPoolForks, AChildTakesBackTheBlockThatThreadsWaitFor) {
  open({.bound_bytes = kChunk, .chunk_bytes = kChunk, .background = false});
  device_->before_synchronization = &barrier_;
  ASSERT_EQ(pool_->free_after(get(kChunk), stream_), DeviceCode::ok);
  const PinnedAllocation answer{.outcome = PinnedOutcome::wait_block, .ticket = 1};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)  // one asks the device, one waits for the first
    threads.emplace_back([&] { EXPECT_EQ(pool_->wait_for_block(answer), DeviceCode::ok); });
  barrier_.await_calls(1);
  const auto takes_it = [&] { return pool_->wait_for_block(answer) == DeviceCode::ok && get(kChunk).address != 0; };
  EXPECT_EQ(in_a_fork(takes_it), 0);
  EXPECT_EQ(in_a_fork([&] { return pool_->reclaim() == kChunk && serves_and_ends(); }), 0);
  barrier_.open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(serves_and_ends()) << "the parent's";
}

}  // namespace
}  // namespace tidemark::allocator
