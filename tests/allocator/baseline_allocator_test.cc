// The model of PyTorch's allocator on sequences computed by hand from its described rules, on the simulated device.

#include "allocator/baseline_allocator.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "device/sim_device.h"

namespace tidemark::allocator {
namespace {

class BaselineTest : public ::testing::Test {
 protected:
  void SetUp() override { open({}); }
  void TearDown() override {
    if (!allocator_) return;
    allocator_.reset();
    for (const StreamHandle stream : streams_) EXPECT_EQ(device_->destroy_stream(stream), DeviceCode::ok);
    EXPECT_EQ(device_->leaks(), "");
    EXPECT_EQ(device_->race_count(), 0);
  }

  void open(const BaselineAllocator::Options& options, Bytes capacity = 64 * kGiB) {
    allocator_.reset();
    device_ = make_sim_device({.capacity_bytes = capacity});
    streams_.resize(2);
    for (StreamHandle& stream : streams_)
      ASSERT_EQ(device_->create_stream(StreamRole::compute, stream), DeviceCode::ok);
    allocator_ = std::make_unique<BaselineAllocator>(*device_, options);
  }

  Address take(Bytes bytes, std::size_t stream = 0) {
    Address address = 0;
    EXPECT_EQ(allocator_->allocate(bytes, streams_[stream], address), DeviceCode::ok) << bytes;
    return address;
  }
  void give(Address address) { allocator_->free(address); }
  [[nodiscard]] Bytes reserved() const { return allocator_->counts().reserved_bytes; }
  [[nodiscard]] Bytes allocated() const { return allocator_->counts().allocated_bytes; }

  void run_kernel(std::size_t stream, Address address, std::int64_t ns) {
    const Touch touch{.address = address, .bytes = 512, .kind = AccessKind::read};
    ASSERT_EQ(device_->launch(streams_[stream], {.estimate_ns = ns, .touches = {&touch, 1}}), DeviceCode::ok);
  }

  std::unique_ptr<SimDevice> device_;
  std::vector<StreamHandle> streams_;
  std::unique_ptr<BaselineAllocator> allocator_;
};

TEST_F(BaselineTest, SmallRequestsShareSegmentsOfTwoMebibytes) {
  const Address first = take(1);
  EXPECT_EQ(allocated(), 512);
  EXPECT_EQ(reserved(), 2 * kMiB);
  EXPECT_EQ(take(513), first + 512);
  EXPECT_EQ(allocated(), 3 * 512);
  EXPECT_EQ(take(kMiB - 1536), first + 1536);  // the first half is full
  EXPECT_EQ(take(kMiB), first + kMiB);
  EXPECT_EQ(reserved(), 2 * kMiB);
  take(1);
  EXPECT_EQ(reserved(), 4 * kMiB);
}

TEST_F(BaselineTest, LargeRequestsFollowTheirClasses) {
  const Address first = take(kMiB + 1);  // 20 MiB segment, cut
  EXPECT_EQ(reserved(), 20 * kMiB);
  EXPECT_EQ(allocated(), kMiB + 512);
  EXPECT_EQ(take(9 * kMiB), first + kMiB + 512);
  EXPECT_EQ(reserved(), 20 * kMiB);
  take(10 * kMiB);  // 10 MiB - 512 are left: a segment of its own
  EXPECT_EQ(reserved(), 30 * kMiB);
  take(11 * kMiB);  // 12 MiB, of which 1 MiB would be left: not cut
  EXPECT_EQ(reserved(), 42 * kMiB);
  EXPECT_EQ(allocated(), (1 + 9 + 10 + 12) * kMiB + 512);
  EXPECT_EQ(take(10 * kMiB - 512), first + 10 * kMiB + 512);  // exactly the rest of the first
  EXPECT_EQ(allocator_->counts().segments, 3);
}

TEST_F(BaselineTest, TheSmallestBlockThatFitsIsTaken) {
  const Address a = take(30 * kMiB), b = take(24 * kMiB), c = take(26 * kMiB);
  for (const Address address : {a, b, c}) give(address);
  EXPECT_EQ(take(25 * kMiB), c);
  EXPECT_EQ(take(25 * kMiB), a);
  EXPECT_EQ(take(20 * kMiB), b);
  EXPECT_EQ(reserved(), 80 * kMiB);
}

TEST_F(BaselineTest, FreeNeighboursMerge) {
  const Address first = take(4 * kMiB);
  const Address second = take(5 * kMiB), third = take(6 * kMiB), rest = take(5 * kMiB);
  EXPECT_EQ(rest, first + 15 * kMiB);
  give(second);
  give(first);
  EXPECT_EQ(take(9 * kMiB), first);
  give(first);
  give(rest);
  give(third);
  EXPECT_EQ(take(20 * kMiB), first);
  EXPECT_EQ(reserved(), 20 * kMiB);
}

TEST_F(BaselineTest, BlocksStayWithTheirStream) {
  const Address first = take(8 * kMiB, 0);
  give(first);
  EXPECT_NE(take(8 * kMiB, 1), first);
  EXPECT_EQ(reserved(), 40 * kMiB);
  EXPECT_EQ(take(8 * kMiB, 0), first);
}

TEST_F(BaselineTest, RecordedBlocksWaitForTheirEvents) {
  const Address first = take(20 * kMiB);
  allocator_->record_stream(first, streams_[1]);
  run_kernel(1, first, 1'000'000'000);
  give(first);
  EXPECT_EQ(allocated(), 0);
  EXPECT_EQ(allocator_->counts().active_bytes, 20 * kMiB);
  EXPECT_NE(take(20 * kMiB), first);  // over-allocation: the kernel still runs
  EXPECT_EQ(reserved(), 40 * kMiB);
  ASSERT_EQ(device_->synchronize_stream(streams_[1]), DeviceCode::ok);
  EXPECT_EQ(allocator_->counts().active_bytes, 40 * kMiB);  // not looked at before the next request
  EXPECT_EQ(take(20 * kMiB), first);
  EXPECT_EQ(reserved(), 40 * kMiB);
}

TEST_F(BaselineTest, RecordingTheOwnStreamChangesNothing) {
  const Address first = take(20 * kMiB);
  allocator_->record_stream(first, streams_[0]);
  give(first);
  EXPECT_EQ(take(20 * kMiB), first);
}

TEST_F(BaselineTest, CachedSegmentsGoBackWhenTheDeviceRefuses) {
  open({}, 64 * kMiB);
  const Address first = take(20 * kMiB), second = take(20 * kMiB);
  give(first);
  give(second);
  EXPECT_EQ(reserved(), 40 * kMiB);
  take(60 * kMiB);
  EXPECT_EQ(reserved(), 60 * kMiB);
  EXPECT_EQ(allocator_->counts().alloc_retries, 1);
  Address address = 0;
  EXPECT_EQ(allocator_->allocate(6 * kMiB, streams_[0], address), DeviceCode::out_of_memory);
  EXPECT_EQ(allocator_->counts().out_of_memory, 1);
  EXPECT_EQ(allocated(), 60 * kMiB);
}

TEST_F(BaselineTest, PartlyUsedSegmentsCannotGoBack) {
  open({}, 64 * kMiB);
  const Address small = take(2 * kMiB), large = take(18 * kMiB);
  give(large);
  Address address = 0;
  EXPECT_EQ(allocator_->allocate(50 * kMiB, streams_[0], address), DeviceCode::out_of_memory);
  give(small);
  allocator_->empty_cache();
  EXPECT_EQ(reserved(), 0);
}

TEST_F(BaselineTest, ParkedBlocksAreWaitedForBeforeOutOfMemory) {
  open({}, 64 * kMiB);
  const Address first = take(40 * kMiB);
  allocator_->record_stream(first, streams_[1]);
  run_kernel(1, first, 1'000'000'000);
  give(first);
  take(50 * kMiB);
  EXPECT_EQ(reserved(), 50 * kMiB);
  EXPECT_EQ(allocator_->counts().alloc_retries, 1);
}

TEST_F(BaselineTest, BlocksAboveTheSplitLimitStayWhole) {
  open({.max_split_bytes = 40 * kMiB}, 200 * kMiB);
  const Address large = take(60 * kMiB);
  give(large);
  EXPECT_NE(take(30 * kMiB), large);  // below the limit: may not take it
  EXPECT_EQ(take(50 * kMiB), large);  // not more than 20 MiB too large; not cut
  EXPECT_EQ(allocated(), 90 * kMiB);
}

TEST_F(BaselineTest, BlocksAboveTheSplitLimitGoBackFirst) {
  open({.max_split_bytes = 40 * kMiB}, 200 * kMiB);
  const Address first = take(60 * kMiB), second = take(60 * kMiB), small = take(30 * kMiB);
  for (const Address address : {first, second, small}) give(address);
  take(110 * kMiB);  // the two large ones make room; the small one stays cached
  EXPECT_EQ(reserved(), 140 * kMiB);
  open({.max_split_bytes = 40 * kMiB}, 100 * kMiB);
  give(take(90 * kMiB));
  take(50 * kMiB);  // the cached one is too large to be used, and large enough to make room
  EXPECT_EQ(reserved(), 50 * kMiB);
  EXPECT_EQ(allocator_->counts().alloc_retries, 0);
}

TEST_F(BaselineTest, ExpandableSegmentsGrowByGranules) {
  open({.expandable = true});
  const Address small = take(1);
  EXPECT_EQ(reserved(), 2 * kMiB);
  const Address first = take(30 * kMiB);
  EXPECT_EQ(reserved(), 42 * kMiB);
  EXPECT_EQ(take(9 * kMiB), first + 30 * kMiB);
  EXPECT_EQ(take(4 * kMiB), first + 39 * kMiB);  // 1 MiB is there: it grows over the border
  EXPECT_EQ(reserved(), 62 * kMiB);
  EXPECT_EQ(take(2 * kMiB), first + 43 * kMiB);
  give(first);
  EXPECT_EQ(take(100 * kMiB), first + 45 * kMiB);  // the hole is too small; 15 MiB behind are free
  EXPECT_EQ(reserved(), (2 + 160) * kMiB);
  EXPECT_EQ(take(30 * kMiB - 512), first);
  EXPECT_EQ(take(512 * 3), small + 512);
}

TEST_F(BaselineTest, ExpandableSegmentsGiveWholeGranulesBack) {
  open({.expandable = true});
  const Address first = take(5 * kMiB), second = take(60 * kMiB), third = take(5 * kMiB);
  EXPECT_EQ(reserved(), 80 * kMiB);
  give(second);  // 5 to 65 MiB: granules 20 to 60 are free
  allocator_->empty_cache();
  EXPECT_EQ(reserved(), 40 * kMiB);
  EXPECT_EQ(take(15 * kMiB), first + 5 * kMiB);
  EXPECT_EQ(take(5 * kMiB), first + 60 * kMiB);
  EXPECT_EQ(take(20 * kMiB), first + 20 * kMiB);  // mapped again in the middle
  EXPECT_EQ(reserved(), 60 * kMiB);
  EXPECT_EQ(third, first + 65 * kMiB);
}

TEST_F(BaselineTest, RandomSequencesKeepBlocksApartAndCountRight) {
  for (const bool expandable : {false, true}) {
    open({.expandable = expandable}, 700 * kMiB);
    std::mt19937_64 random(5);
    std::map<Address, Bytes> live;
    for (int i = 0; i < 20'000; ++i) {
      const bool large = random() % 3 == 0;
      const Bytes bytes = 1 + static_cast<Bytes>(random() % static_cast<std::uint64_t>(large ? 30 * kMiB : kMiB));
      Address address = 0;
      if (random() % 2 == 0 && allocator_->allocate(bytes, streams_[random() % 2], address) == DeviceCode::ok) {
        const auto behind = live.lower_bound(address);
        ASSERT_TRUE(behind == live.end() || address + static_cast<Address>(bytes) <= behind->first);
        ASSERT_TRUE(behind == live.begin() ||
                    std::prev(behind)->first + static_cast<Address>(std::prev(behind)->second) <= address);
        live[address] = bytes;
      } else if (!live.empty()) {
        auto gone =
            live.lower_bound(std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()))->first);
        if (random() % 4 == 0) allocator_->record_stream(gone->first, streams_[random() % 2]);
        give(gone->first);
        live.erase(gone);
      }
    }
    EXPECT_GT(allocator_->counts().alloc_retries, 0);
    for (const auto& [address, bytes] : live) give(address);
    allocator_->empty_cache();
    EXPECT_EQ(allocator_->counts().allocated_bytes, 0);
    EXPECT_EQ(allocator_->counts().active_bytes, 0);
    EXPECT_EQ(reserved(), 0) << expandable;
    const SimStatistics statistics = device_->statistics();
    EXPECT_EQ(statistics.mapped_bytes + statistics.plain_bytes, 0);
  }
}

}  // namespace
}  // namespace tidemark::allocator
