// Threads that keep the memory of a device full, byte by byte, while another one trims, moves, changes the limit, looks
// and forks: no byte is lost, the books are right and below the limit all the while, and everything comes back.
// TIDEMARK_SOAK_SECONDS and TIDEMARK_SOAK_SEED: tests/support/soak.h.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "allocator/caching_allocator.h"
#include "device/host_device.h"
#include "tests/support/filled_blocks.h"
#include "tests/support/soak.h"

namespace tidemark::allocator {
namespace {

using namespace literals;

constexpr std::size_t kThreads = 4;
constexpr Bytes kCapacity = 48_MiB;

class NearFullMemory : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_host_device({.capacity_bytes = kCapacity});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    device_ = std::move(opened).value();
    for (StreamHandle& stream : streams_)
      ASSERT_EQ(device_->create_stream(StreamRole::compute, stream), DeviceCode::ok);
    allocator_ = std::make_unique<CachingAllocator>(*device_, order_, AllocatorOptions{.shards = kThreads});
    for (std::size_t i = 0; i < kThreads; ++i) blocks_.emplace_back(*allocator_, streams_, Soak::seed(i));
  }
  void TearDown() override {
    look();
    EXPECT_GE(most_reserved_, kCapacity / 10 * 9) << "memory was never near full";
    expect_exact();
    for (FilledBlocks& blocks : blocks_) blocks.release_all();
    for (const FilledBlocks& blocks : blocks_) {
      EXPECT_EQ(blocks.failure(), "");
      EXPECT_GT(blocks.refusals(), 0) << "memory was never full";
    }
    EXPECT_EQ(allocator_->validate(), "");
    EXPECT_EQ(allocator_->statistics().allocated_bytes.current, 0);
    allocator_->empty_cache();
    EXPECT_EQ(allocator_->statistics().reserved_bytes.current, 0);
    allocator_.reset();
    MemoryInfo memory;
    EXPECT_EQ(device_->memory_info(memory), DeviceCode::ok);
    EXPECT_EQ(memory.free_bytes, memory.total_bytes) << "all of it went back";
  }

  /// What is true of the statistics at any time, whatever the threads are at.
  void look() {
    const AllocatorStatistics now = allocator_->statistics();
    EXPECT_LE(now.reserved_bytes.current, ceiling_) << "more than the limit";
    EXPECT_LE(now.reserved_bytes.peak, kCapacity) << "more than there is";
    EXPECT_LE(now.requested_bytes.current, now.allocated_bytes.current);
    EXPECT_LE(now.allocated_bytes.current, now.active_bytes.current);
    EXPECT_LE(now.active_bytes.current, now.reserved_bytes.current);
    EXPECT_EQ(now.cached_bytes, now.reserved_bytes.current - now.active_bytes.current);
    for (const Counter& counter : {now.requested_bytes, now.allocated_bytes, now.active_bytes, now.reserved_bytes}) {
      EXPECT_GE(counter.current, 0);
      EXPECT_GE(counter.peak, counter.current);
      EXPECT_EQ(counter.total_up - counter.total_down, counter.current);
    }
    most_reserved_ = std::max(most_reserved_, now.reserved_bytes.peak);
  }
  /// Where nobody is at work, the statistics are what the blocks and the device say.
  void expect_exact() const {
    Bytes requested = 0, allocated = 0;
    for (const FilledBlocks& blocks : blocks_) {
      requested += blocks.requested_bytes();
      allocated += blocks.allocated_bytes();
    }
    const AllocatorStatistics now = allocator_->statistics();
    EXPECT_GT(requested, 0);
    EXPECT_EQ(now.requested_bytes.current, requested);
    EXPECT_EQ(now.allocated_bytes.current, allocated);
    MemoryInfo memory;
    EXPECT_EQ(device_->memory_info(memory), DeviceCode::ok);
    EXPECT_EQ(now.reserved_bytes.current, memory.total_bytes - memory.free_bytes);
  }
  /// What is above a lower limit may stay; nothing more is taken from then on.
  void set_limit(Bytes bytes) {
    allocator_->set_limit(bytes);
    ceiling_ = std::max(bytes, allocator_->statistics().reserved_bytes.current);
  }

  /// Every thread keeps the memory full while `meddle(step)` is called again and again.
  template <class Meddle>
  void keep_full(int steps, const Meddle& meddle) {
    std::atomic<std::size_t> at_work{kThreads};
    std::vector<std::thread> threads;
    for (FilledBlocks& blocks : blocks_) {
      threads.emplace_back([&, mine = &blocks] {
        for (int i = 0; soak_.goes_on(i, steps) && mine->failure().empty(); ++i) mine->step();
        --at_work;
      });
    }
    for (int i = 0; at_work > 0; ++i) meddle(i);
    for (std::thread& thread : threads) thread.join();
  }

  const Soak soak_{};
  std::unique_ptr<Device> device_;
  std::array<StreamHandle, kThreads> streams_{};
  StreamOrder order_;
  std::unique_ptr<CachingAllocator> allocator_;
  std::deque<FilledBlocks> blocks_;
  std::mt19937_64 random_{Soak::seed(kThreads)};
  Bytes ceiling_ = kCapacity;  ///< of what may be reserved
  Bytes most_reserved_ = 0;    ///< of all that look() has seen
};

TEST_F(NearFullMemory, NoByteIsLostWhileMemoryIsTrimmedAndMoved) {
  keep_full(3'000, [this](int) {
    const auto any_bytes = static_cast<Bytes>(random_() % kCapacity);
    switch (random_() % 8) {
      case 0:
        allocator_->trim(any_bytes);
        break;
      case 1:
        (void)allocator_->defragment(streams_[0], any_bytes);
        break;
      case 2:
        set_limit(random_() % 2 == 0 ? kCapacity : kCapacity / 2 + any_bytes / 2);
        break;
      case 3:
        allocator_->empty_cache();
        break;
      case 4:
        look();
        allocator_->reset_peaks();
        break;
      case 5:
        EXPECT_GT(allocator_->report().limit_bytes, 0);
        break;
      case 6:
        look();
        break;
      case 7:
        (void)allocator_->snapshot();
        break;
    }
    std::this_thread::yield();
  });
}

/// Children allocate and free where the parent's threads were in the middle of it, and end there; every other one with
/// blocks of its own alive.
TEST_F(NearFullMemory, NoByteIsLostThoughChildrenEndInTheMiddle) {
  int forks = 0;
  keep_full(1'500, [this, &forks](int step) {
    const std::uint64_t childs_seed = random_();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);
      FilledBlocks own(*allocator_, streams_, childs_seed);
      for (std::uint64_t i = 0; i < childs_seed % 200; ++i) own.step();
      if (step % 2 == 0) own.release_all();
      if (!own.failure().empty()) std::fprintf(stderr, "in a child: %s\n", own.failure().c_str());
      _exit(own.failure().empty() ? 0 : 1);
    }
    ++forks;
    look();
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "a child hung" : "a child failed")
                         << ", after " << forks << " forks; what it said is above";
  });
  EXPECT_GT(forks, 0);
  std::printf("%d forks\n", forks);
}

}  // namespace
}  // namespace tidemark::allocator
