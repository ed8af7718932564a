// What threads share in the caching allocator: exact peaks, blocks that change hands once, and streams without end.
// TIDEMARK_SOAK_SECONDS and TIDEMARK_SOAK_SEED: tests/support/soak.h.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "allocator/caching_allocator.h"
#include "device/sim_device.h"
#include "tests/support/soak.h"

namespace tidemark::allocator {
namespace {

using namespace literals;

class AllocatorShards : public testing::Test {
 protected:
  void SetUp() override {
    allocator_.reset();
    device_ = make_sim_device({.capacity_bytes = 1_GiB, .check_races = false});
    for (StreamHandle& stream : streams_)
      ASSERT_EQ(device_->create_stream(StreamRole::compute, stream), DeviceCode::ok);
    allocator_ = std::make_unique<CachingAllocator>(*device_, order_);
  }
  void TearDown() override { EXPECT_EQ(allocator_->validate(), ""); }

  Address allocate(Bytes bytes, std::size_t stream = 0) {
    Address address = 0;
    EXPECT_EQ(allocator_->allocate(bytes, streams_[stream], address), DeviceCode::ok) << allocator_->last_error();
    return address;
  }

  StreamOrder order_;
  std::unique_ptr<SimDevice> device_;
  std::unique_ptr<CachingAllocator> allocator_;
  StreamHandle streams_[3] = {};
};

/// Threads of which one runs at a time, on call.
class Actors {
 public:
  explicit Actors(std::size_t count) : jobs_(count) {
    for (std::size_t me = 0; me < count; ++me) threads_.emplace_back([this, me] { serve(me); });
  }
  ~Actors() {
    for (std::size_t me = 0; me < jobs_.size(); ++me) run(me, nullptr);
    for (std::thread& thread : threads_) thread.join();
  }
  Actors(const Actors&) = delete;
  Actors& operator=(const Actors&) = delete;

  /// Returns when it is done.
  void run(std::size_t actor, std::function<void()> job) {
    jobs_[actor].job = std::move(job);
    jobs_[actor].turn = true;
    jobs_[actor].turn.notify_one();
    jobs_[actor].turn.wait(true);
  }

 private:
  struct Job {
    std::atomic<bool> turn{false};
    std::function<void()> job;
  };
  void serve(std::size_t me) {
    for (bool goes_on = true; goes_on;) {
      jobs_[me].turn.wait(false);
      goes_on = jobs_[me].job != nullptr;
      if (goes_on) jobs_[me].job();
      jobs_[me].turn = false;
      jobs_[me].turn.notify_one();
    }
  }
  std::vector<Job> jobs_;
  std::vector<std::thread> threads_;
};

TEST_F(AllocatorShards, PeaksCountWhatEveryThreadReusesFromItsOwnLists) {
  Actors actors(2);
  std::array<std::vector<Address>, 2> blocks;
  for (int round = 0; round < 2; ++round) {  // the second is served from the threads' own lists
    for (std::size_t actor = 0; actor < 2; ++actor) {
      actors.run(actor, [&] {
        for (int i = 0; i < 30; ++i) blocks[actor].push_back(allocate(32_KiB, actor));
      });
      if (round == 0) {
        actors.run(actor, [&] {
          for (const Address block : blocks[actor]) EXPECT_EQ(allocator_->free(block), DeviceCode::ok);
          blocks[actor].clear();
        });
        EXPECT_EQ(allocator_->statistics().allocated_bytes.peak, 30 * 32_KiB);
      }
    }
  }
  EXPECT_EQ(allocator_->statistics().allocated_bytes.peak, 2 * 30 * 32_KiB);
  EXPECT_EQ(allocator_->statistics().active_bytes.peak, 2 * 30 * 32_KiB);
}

TEST_F(AllocatorShards, PeaksEqualANaiveCountOverRandomProgramsOfThreads) {
  struct Sum {
    std::int64_t now = 0, peak = 0;
    void add(std::int64_t by) { peak = std::max(peak, now += by); }
  };
  const Soak soak;
  for (int program = 0; soak.goes_on(program, 6); ++program) {
    const std::uint64_t seed = Soak::seed(static_cast<std::size_t>(program) + 1);
    SetUp();
    Actors actors(4);
    std::mt19937_64 random(seed);
    Sum allocated, requested, blocks;
    std::vector<std::pair<Address, Bytes>> live;
    for (int i = 0; i < 900; ++i) {
      const std::size_t actor = random() % 4;
      const bool grows = live.empty() || random() % 100 < (i / 300 % 2 == 0 ? 60U : 40U);
      actors.run(actor, [&] {
        if (grows) {
          const Bytes bytes = static_cast<Bytes>(random() % (random() % 16 == 0 ? 4'000'000 : 40'000)) + 1;
          live.emplace_back(allocate(bytes, actor % 3), bytes);
          allocated.add(allocator_->rounded_bytes(bytes));
          requested.add(bytes);
          blocks.add(1);
          return;
        }
        std::swap(live[random() % live.size()], live.back());
        const auto [address, bytes] = live.back();
        live.pop_back();
        if (random() % 8 == 0) (void)allocator_->note_use(address, streams_[random() % 3]);
        EXPECT_EQ(allocator_->free(address), DeviceCode::ok);
        allocated.add(-allocator_->rounded_bytes(bytes));
        requested.add(-bytes);
        blocks.add(-1);
      });
      if (i == 500) {
        allocator_->reset_peaks();
        for (Sum* sum : {&allocated, &requested, &blocks}) sum->peak = sum->now;
      }
      if (i % 50 != 0) continue;
      const AllocatorStatistics statistics = allocator_->statistics();
      ASSERT_EQ(statistics.allocated_bytes.peak, allocated.peak) << "seed " << seed << " step " << i;
      ASSERT_EQ(statistics.requested_bytes.peak, requested.peak) << "seed " << seed << " step " << i;
      ASSERT_EQ(statistics.allocation.peak, blocks.peak) << "seed " << seed << " step " << i;
      ASSERT_EQ(statistics.allocated_bytes.current, allocated.now);
      ASSERT_GE(statistics.active_bytes.peak, statistics.allocated_bytes.peak);
    }
  }
}

// A block's header is used for the next block, wherever that lies. A release that looked the old block up before must
// not take the new one.
TEST_F(AllocatorShards, AStaleReleaseFreesNobodysBlock) {
  const Address stale = allocate(2_MiB);
  (void)allocate(2_MiB);  // right behind: a larger block does not start there
  EXPECT_EQ(allocator_->free(stale), DeviceCode::ok);
  std::atomic<bool> over{false};
  std::thread releases_again([&] {
    while (!over.load(std::memory_order_relaxed)) (void)allocator_->free(stale);  // may take a block that starts there
  });
  const Soak soak;
  for (int i = 0; soak.goes_on(i, 60'000); ++i) {
    const Address mine = allocate(2_MiB);
    (void)allocator_->free(mine);
    const Address other = allocate(3_MiB);
    ASSERT_NE(other, stale);
    ASSERT_EQ(allocator_->block_bytes(other), 3_MiB) << "step " << i;
    ASSERT_EQ(allocator_->free(other), DeviceCode::ok) << "step " << i;
  }
  over = true;
  releases_again.join();
}

// What another thread's shard has free in pieces serves at the limit, though no piece is large enough by itself.
TEST_F(AllocatorShards, PiecesInAnotherShardServeAtTheLimit) {
  allocator_ = std::make_unique<CachingAllocator>(*device_, order_, AllocatorOptions{.limit_bytes = 64_MiB});
  Actors actors(2);
  std::vector<Address> blocks;
  actors.run(0, [&] {
    for (int i = 0; i < 64; ++i) blocks.push_back(allocate(1_MiB));
    for (std::size_t i = 0; i < blocks.size(); ++i) {  // the start of one granule, the end of the next
      if (i % 8 != 0 && i % 8 != 3) continue;
      EXPECT_EQ(allocator_->free(blocks[i]), DeviceCode::ok);
    }
  });
  ASSERT_EQ(allocator_->statistics().reserved_bytes.current, 64_MiB);
  Address address = 0;
  actors.run(1, [&] {
    EXPECT_EQ(allocator_->allocate(2_MiB, streams_[0], address), DeviceCode::ok) << allocator_->last_error();
  });
  EXPECT_EQ(allocator_->statistics().reserved_bytes.peak, 64_MiB);
}

TEST_F(AllocatorShards, TooManyStreamsAreNoWantOfHostMemory) {
  Address address = 0;
  for (std::uint64_t n = 0; n < StreamOrder::kMaxStreams; ++n)
    (void)order_.slot_of(static_cast<StreamHandle>(1'000'000 + n));
  EXPECT_EQ(allocator_->allocate(4_KiB, static_cast<StreamHandle>(77), address), DeviceCode::no_resource);
  EXPECT_NE(allocator_->last_error().find("4096 streams are alive"), std::string::npos) << allocator_->last_error();
}

}  // namespace
}  // namespace tidemark::allocator
