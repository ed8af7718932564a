// Threads that keep the memory of a device full, byte by byte, while another one trims, moves, changes the limit, looks
// and forks: no byte is lost, and everything comes back. TIDEMARK_SOAK_SECONDS and TIDEMARK_SOAK_SEED:
// tests/support/soak.h.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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

namespace tidemark {
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

  const Soak soak_;
  std::unique_ptr<Device> device_;
  std::array<StreamHandle, kThreads> streams_{};
  StreamOrder order_;
  std::unique_ptr<CachingAllocator> allocator_;
  std::deque<FilledBlocks> blocks_;
  std::mt19937_64 random_{Soak::seed(kThreads)};
};

TEST_F(NearFullMemory, NoByteIsLostWhileMemoryIsTrimmedAndMoved) {
  keep_full(1'000, [this](int) {
    const auto any_bytes = static_cast<Bytes>(random_() % kCapacity);
    switch (random_() % 8) {
      case 0:
        allocator_->trim(any_bytes);
        break;
      case 1:
        (void)allocator_->defragment(streams_[0], any_bytes);
        break;
      case 2:
        allocator_->set_limit(kCapacity / 2 + any_bytes / 2);
        break;
      case 3:
        allocator_->empty_cache();
        break;
      case 4:
        allocator_->reset_peaks();
        break;
      case 5:
        EXPECT_GT(allocator_->report().limit_bytes, 0);
        break;
      case 6:
        EXPECT_LE(allocator_->statistics().allocated_bytes.current, kCapacity);
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
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "a child hung" : "a child failed");
  });
  EXPECT_GT(forks, 0);
  std::printf("%d forks\n", forks);
}

}  // namespace
}  // namespace tidemark
