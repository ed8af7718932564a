#include "allocator/caching_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "device/sim_device.h"

namespace tidemark::allocator {
namespace {

using namespace literals;

/// A simulated device whose streams and allocator come and go with the test.
class CachingAllocatorTest : public testing::Test {
 protected:
  void open(SimOptions sim = {}, AllocatorOptions options = {}) {
    device_ = make_sim_device(sim);
    order_ = std::make_unique<StreamOrder>();
    for (StreamHandle& stream : streams_)
      ASSERT_EQ(device_->create_stream(StreamRole::compute, stream), DeviceCode::ok);
    ASSERT_EQ(device_->create_event(event_), DeviceCode::ok);
    allocator_ = std::make_unique<CachingAllocator>(*device_, *order_, std::move(options));
  }
  void TearDown() override {
    if (device_ == nullptr) return;
    EXPECT_EQ(allocator_->validate(), "");
    EXPECT_EQ(device_->synchronize_device(), DeviceCode::ok);
    EXPECT_EQ(device_->race_count(), 0) << (device_->races().empty() ? "" : to_string(device_->races().front()));
    allocator_.reset();
    for (const StreamHandle stream : streams_) EXPECT_EQ(device_->destroy_stream(stream), DeviceCode::ok);
    EXPECT_EQ(device_->destroy_event(event_), DeviceCode::ok);
    EXPECT_EQ(device_->leaks(), "");
  }
  Address allocate(Bytes bytes, std::size_t stream = 0, std::uint32_t owner = 0) {
    Address address = 0;
    EXPECT_EQ(allocator_->allocate(bytes, streams_[stream], address, owner), DeviceCode::ok)
        << allocator_->last_error();
    return address;
  }
  void use(Address address, Bytes bytes, std::size_t stream, std::int64_t estimate_ns = 1'000'000) {
    const Touch touch{.address = address, .bytes = bytes, .kind = AccessKind::write};
    ASSERT_EQ(device_->launch(streams_[stream], {.estimate_ns = estimate_ns, .touches = {&touch, 1}}), DeviceCode::ok);
  }
  void order_after(std::size_t later, std::size_t earlier) {
    ASSERT_EQ(order_->record(*device_, event_, streams_[earlier]), DeviceCode::ok);
    ASSERT_EQ(order_->wait(*device_, streams_[later], event_), DeviceCode::ok);
  }
  Bytes reserved() const { return allocator_->statistics().reserved_bytes.current; }

  std::unique_ptr<SimDevice> device_;
  std::unique_ptr<StreamOrder> order_;
  std::unique_ptr<CachingAllocator> allocator_;
  StreamHandle streams_[4] = {};
  EventHandle event_ = {};
};

TEST_F(CachingAllocatorTest, RoundsToTheUnitAndLeavesTheTailPad) {
  open({.tail_pad_bytes = 32});
  EXPECT_EQ(allocator_->rounded_bytes(0), 512);
  EXPECT_EQ(allocator_->rounded_bytes(480), 512);
  EXPECT_EQ(allocator_->rounded_bytes(481), 1024);
  const Address a = allocate(481);
  EXPECT_EQ(allocator_->block_bytes(a), 1024);
  EXPECT_EQ(allocator_->block_bytes(a + 512), 0) << "exact starts only";
  EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
  EXPECT_EQ(allocator_->block_bytes(a), 0);
}

TEST_F(CachingAllocatorTest, SmallBlocksShareAGranule) {
  open();
  for (int i = 0; i < 4096; ++i) (void)allocate(1);
  EXPECT_EQ(reserved(), 2_MiB);
}

TEST_F(CachingAllocatorTest, SameStreamReusesAtOnceWithoutTheDevice) {
  open();
  const Address a = allocate(100_KiB);
  use(a, 100_KiB, 0);
  EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
  EXPECT_EQ(allocate(100_KiB), a);
  use(a, 100_KiB, 0);
  const AllocatorStatistics statistics = allocator_->statistics();
  EXPECT_EQ(statistics.front_hits, 1);
  EXPECT_EQ(statistics.events_recorded, 0);
  EXPECT_EQ(statistics.num_device_alloc, 1);
}

TEST_F(CachingAllocatorTest, AnotherStreamReusesOnceTheOrderIsKnownAndNotBefore) {
  for (const Bytes bytes : {64_KiB, 8_MiB}) {
    open();
    const Address a = allocate(bytes, 0);
    use(a, bytes, 0);
    EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
    const Address b = allocate(bytes, 1);
    EXPECT_TRUE(b + static_cast<Address>(bytes) <= a || a + static_cast<Address>(bytes) <= b);
    use(b, bytes, 1);
    order_after(2, 0);
    const Bytes before = reserved();
    // Small ones may also find room beside the others; large ones have nowhere else to go.
    const Address c = allocate(bytes, 2);
    use(c, bytes, 2);
    if (bytes > 2_MiB) {
      EXPECT_EQ(c, a);
    }
    EXPECT_EQ(reserved(), before);
    TearDown();
    device_.reset();
  }
}

TEST_F(CachingAllocatorTest, CompletedWorkIsFoundWithoutBeingTold) {
  open({.capacity_bytes = 16_MiB});
  const Address a = allocate(12_MiB, 0);
  use(a, 12_MiB, 0);
  EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
  const Address b = allocate(12_MiB, 1);  // the only way is to wait
  use(b, 12_MiB, 1);
  EXPECT_EQ(reserved(), 12_MiB);
}

TEST_F(CachingAllocatorTest, FreeOnAnotherStreamMovesTheDeath) {
  open();
  const Address a = allocate(8_MiB, 0);
  use(a, 8_MiB, 0);
  order_after(1, 0);
  use(a, 8_MiB, 1);
  EXPECT_EQ(allocator_->free(a, streams_[1]), DeviceCode::ok);
  const Address b = allocate(8_MiB, 0);
  EXPECT_NE(a, b) << "stream 0 does not run after stream 1";
  EXPECT_EQ(allocate(8_MiB, 1), a);
  use(a, 8_MiB, 1);
  use(b, 8_MiB, 0);
}

TEST_F(CachingAllocatorTest, ABlockUsedElsewhereIsParkedUntilBothAreOver) {
  open();
  const Address a = allocate(8_MiB, 0);
  use(a, 8_MiB, 0);
  order_after(1, 0);
  EXPECT_EQ(allocator_->note_use(a, streams_[1]), DeviceCode::ok);
  use(a, 8_MiB, 1);
  EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
  EXPECT_EQ(allocator_->statistics().pending_bytes, 8_MiB);
  EXPECT_EQ(allocator_->statistics().active_bytes.current, 8_MiB);
  EXPECT_NE(allocate(8_MiB, 0), a);
  order_after(0, 1);
  EXPECT_EQ(allocate(8_MiB, 0), a);
  use(a, 8_MiB, 0);
  EXPECT_EQ(allocator_->statistics().pending_bytes, 0);
}

TEST_F(CachingAllocatorTest, MoreUsersThanAFrontierHolds) {
  open({.capacity_bytes = 16_MiB});
  std::vector<StreamHandle> more(6);
  for (StreamHandle& stream : more) ASSERT_EQ(device_->create_stream(StreamRole::d2h, stream), DeviceCode::ok);
  const Address a = allocate(12_MiB, 0);
  use(a, 12_MiB, 0);
  for (const StreamHandle stream : more) {
    ASSERT_EQ(order_->record(*device_, event_, streams_[0]), DeviceCode::ok);
    ASSERT_EQ(order_->wait(*device_, stream, event_), DeviceCode::ok);
    ASSERT_EQ(allocator_->note_use(a, stream), DeviceCode::ok);
    const Touch touch{.address = a, .bytes = 12_MiB};
    ASSERT_EQ(device_->launch(stream, {.estimate_ns = 1000, .touches = {&touch, 1}}), DeviceCode::ok);
  }
  EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
  const Address b = allocate(12_MiB, 1);
  use(b, 12_MiB, 1);
  allocator_->empty_cache();
  for (const StreamHandle stream : more) {
    ASSERT_EQ(device_->destroy_stream(stream), DeviceCode::ok);
    order_->note_stream_destroyed(stream);
  }
}

TEST_F(CachingAllocatorTest, AStreamHandleThatComesBackIsANewStream) {
  open();
  const Address a = allocate(64_KiB, 3);
  use(a, 64_KiB, 3);
  EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
  ASSERT_EQ(device_->synchronize_stream(streams_[3]), DeviceCode::ok);
  order_->note_stream_destroyed(streams_[3]);  // as if it had been: the handle is used again below
  const Address b = allocate(64_KiB, 3);
  use(b, 64_KiB, 3);
  EXPECT_EQ(allocator_->free(b), DeviceCode::ok);
  EXPECT_EQ(allocator_->validate(), "");
  EXPECT_EQ(allocator_->empty_cache(), 2_MiB);
}

TEST_F(CachingAllocatorTest, WrongAddressesAreRefusedWithoutHarm) {
  open();
  const Address a = allocate(4_KiB);
  const Address large = allocate(4_MiB);
  EXPECT_EQ(allocator_->free(0), DeviceCode::invalid);
  EXPECT_EQ(allocator_->free(a + 512), DeviceCode::invalid);
  EXPECT_EQ(allocator_->free(~Address{0}), DeviceCode::invalid);
  EXPECT_EQ(allocator_->note_use(a + 512, streams_[1]), DeviceCode::invalid);
  for (const Address address : {a, large}) {
    EXPECT_EQ(allocator_->free(address), DeviceCode::ok);
    EXPECT_EQ(allocator_->free(address), DeviceCode::invalid);
    EXPECT_NE(allocator_->last_error(), "");
  }
  Address none = 1;
  EXPECT_EQ(allocator_->allocate(-1, streams_[0], none), DeviceCode::invalid);
  EXPECT_EQ(none, 0U);
  EXPECT_EQ(allocator_->statistics().allocated_bytes.current, 0);
}

TEST_F(CachingAllocatorTest, PeakReservedFollowsPeakLiveByMovingIdleGranules) {
  open();
  // Holes of 4 MiB everywhere, then blocks that fit into none of them.
  std::vector<Address> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(allocate(4_MiB));
  for (std::size_t i = 0; i < blocks.size(); i += 2) EXPECT_EQ(allocator_->free(blocks[i]), DeviceCode::ok);
  for (int i = 0; i < 8; ++i) (void)allocate(16_MiB);
  const AllocatorStatistics statistics = allocator_->statistics();
  EXPECT_EQ(statistics.allocated_bytes.peak, 256_MiB);
  EXPECT_LE(statistics.reserved_bytes.peak, 258_MiB);
  EXPECT_GT(statistics.remaps, 0);
}

TEST_F(CachingAllocatorTest, ASteadyLoopStopsMovingAnything) {
  open({}, {.growth_slack_bytes = 64_MiB});
  const auto round = [&] {
    std::vector<Address> held;
    for (int i = 0; i < 40; ++i) {
      held.push_back(allocate((1 + i % 7) * 3_MiB + i * 512, 0));
      if (i % 3 == 2) {
        EXPECT_EQ(allocator_->free(held[held.size() - 2]), DeviceCode::ok);
        held.erase(held.end() - 2);
      }
    }
    for (const Address a : held) EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
  };
  for (int i = 0; i < 5; ++i) round();
  const AllocatorStatistics warm = allocator_->statistics();
  for (int i = 0; i < 5; ++i) round();
  const AllocatorStatistics later = allocator_->statistics();
  EXPECT_EQ(later.remaps, warm.remaps);
  EXPECT_EQ(later.num_device_alloc, warm.num_device_alloc);
}

/// Eight blocks of 1.5 MiB fill six granules; two die. The tail of one hole and the head of the other make 2.5 MiB.
TEST_F(CachingAllocatorTest, HolesAtGranuleEndsAreStitchedOnceAndUsedAgain) {
  open({}, {.growth_slack_bytes = 1});
  std::vector<Address> small;
  for (int i = 0; i < 8; ++i) small.push_back(allocate(1536_KiB));
  ASSERT_EQ(reserved(), 12_MiB);
  for (const std::size_t i : {1U, 3U}) EXPECT_EQ(allocator_->free(small[i]), DeviceCode::ok);
  const Address stitched = allocate(2560_KiB);
  use(stitched, 2560_KiB, 0);
  EXPECT_EQ(reserved(), 12_MiB);
  EXPECT_EQ(allocator_->statistics().stitched_windows, 1);
  EXPECT_EQ(allocator_->block_bytes(stitched), 2560_KiB);
  EXPECT_EQ(allocator_->validate(), "");
  Bytes total = 0;
  int seen = 0;
  for (const SnapshotSegment& segment : allocator_->snapshot().segments) {
    total += segment.total_size;
    for (const SnapshotBlock& block : segment.blocks) {
      seen += block.address == stitched && block.size == 2560_KiB ? 1 : 0;
    }
  }
  EXPECT_EQ(total, 12_MiB);
  EXPECT_EQ(seen, 1);

  const AllocatorStatistics before = allocator_->statistics();
  for (int step = 0; step < 10; ++step) {  // settled: the window is used again
    EXPECT_EQ(allocator_->free(stitched), DeviceCode::ok);
    ASSERT_EQ(allocate(2560_KiB), stitched);
    use(stitched, 2560_KiB, 0);
  }
  EXPECT_EQ(allocator_->free(stitched), DeviceCode::ok);
  for (const std::size_t i : {1U, 3U}) use(small[i] = allocate(1536_KiB), 1536_KiB, 0);  // and its pieces at home
  const AllocatorStatistics after = allocator_->statistics();
  EXPECT_EQ(after.stitched_windows, 1);
  EXPECT_EQ(after.num_device_alloc, before.num_device_alloc);
  EXPECT_EQ(after.remaps, before.remaps);

  for (const Address address : small) EXPECT_EQ(allocator_->free(address), DeviceCode::ok);
  EXPECT_EQ(allocator_->empty_cache(), 12_MiB);
  MemoryInfo memory;
  ASSERT_EQ(device_->memory_info(memory), DeviceCode::ok);
  EXPECT_EQ(memory.free_bytes, memory.total_bytes) << "no window keeps memory alive";
}

TEST_F(CachingAllocatorTest, AStitchedBlockOfAnotherStreamWaitsItsTurn) {
  open({}, {.growth_slack_bytes = 1});
  std::vector<Address> small;
  for (int i = 0; i < 8; ++i) small.push_back(allocate(1536_KiB));
  for (const std::size_t i : {1U, 3U}) EXPECT_EQ(allocator_->free(small[i]), DeviceCode::ok);
  const Address stitched = allocate(2560_KiB);
  use(stitched, 2560_KiB, 0);
  EXPECT_EQ(allocator_->free(stitched), DeviceCode::ok);
  const Address other = allocate(2560_KiB, 1);
  EXPECT_NE(other, stitched) << "still in use by the first stream";
  use(other, 2560_KiB, 1);
  EXPECT_EQ(allocator_->free(other), DeviceCode::ok);
}

TEST_F(CachingAllocatorTest, WithoutASecondAddressHolesStayHoles) {
  open({.aliasing = false}, {.growth_slack_bytes = 1});
  std::vector<Address> small;
  for (int i = 0; i < 8; ++i) small.push_back(allocate(1536_KiB));
  for (const std::size_t i : {1U, 3U}) EXPECT_EQ(allocator_->free(small[i]), DeviceCode::ok);
  use(allocate(2560_KiB), 2560_KiB, 0);
  EXPECT_EQ(allocator_->statistics().stitched_windows, 0);
  EXPECT_GT(reserved(), 12_MiB);
}

TEST_F(CachingAllocatorTest, TrimEmptyAndDefragment) {
  open();
  std::vector<Address> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(allocate(2_MiB));
  for (std::size_t i = 0; i < blocks.size(); i += 2) EXPECT_EQ(allocator_->free(blocks[i]), DeviceCode::ok);
  EXPECT_EQ(allocator_->defragment(streams_[0]), 16_MiB);
  const std::int64_t moved = allocator_->statistics().remaps;
  const std::int64_t mapped = allocator_->statistics().num_device_alloc;
  EXPECT_GT(moved, 0);
  const Address whole = allocate(16_MiB);
  EXPECT_EQ(allocator_->statistics().remaps, moved) << "made ready beforehand";
  EXPECT_EQ(allocator_->statistics().num_device_alloc, mapped);
  EXPECT_EQ(allocator_->free(whole), DeviceCode::ok);
  EXPECT_EQ(allocator_->trim(24_MiB), 8_MiB);
  EXPECT_EQ(reserved(), 24_MiB);
  EXPECT_EQ(allocator_->empty_cache(), 8_MiB);
  EXPECT_EQ(allocator_->defragment(streams_[0]), 0);
}

TEST_F(CachingAllocatorTest, TrimLeavesWhatIsInFlight) {
  open();
  const Address a = allocate(8_MiB);
  use(a, 8_MiB, 0);
  EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
  EXPECT_EQ(allocator_->trim(), 0) << "not known to be complete";
  EXPECT_EQ(allocator_->empty_cache(), 8_MiB);
}

TEST_F(CachingAllocatorTest, TheLimitHoldsAndMayBeRaised) {
  open({}, {.limit_bytes = 8_MiB});
  const Address a = allocate(6_MiB);
  Address b = 0;
  EXPECT_EQ(allocator_->allocate(4_MiB, streams_[0], b), DeviceCode::out_of_memory);
  EXPECT_EQ(allocator_->statistics().num_ooms, 1);
  EXPECT_EQ(allocator_->statistics().num_alloc_retries, 1);
  allocator_->set_limit(12_MiB);
  EXPECT_EQ(allocator_->allocate(4_MiB, streams_[0], b), DeviceCode::ok);
  EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
}

TEST_F(CachingAllocatorTest, TheReportSaysWhoHoldsTheMemory) {
  std::vector<OutOfMemory> reports;
  AllocatorOptions options{.limit_bytes = 64_MiB};
  options.owner_name = [](std::uint32_t owner) { return owner == 7 ? "activations" : "other"; };
  options.on_out_of_memory = [&](const OutOfMemory& report) { reports.push_back(report); };
  open({}, std::move(options));
  for (int i = 0; i < 5; ++i) (void)allocate(10_MiB, 0, 7);
  (void)allocate(4_MiB, 1, 1);
  Address none = 0;
  ASSERT_EQ(allocator_->allocate(20_MiB, streams_[0], none), DeviceCode::out_of_memory);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].allocated_bytes, 54_MiB);
  EXPECT_EQ(reports[0].limit_bytes, 64_MiB);
  EXPECT_EQ(reports[0].requested_bytes, 20_MiB);
  ASSERT_EQ(reports[0].holders.size(), 2U);
  EXPECT_EQ(reports[0].holders[0].name, "activations");
  EXPECT_EQ(reports[0].holders[0].count, 5);
  EXPECT_EQ(reports[0].holders[0].bytes, 50_MiB);
  EXPECT_NE(allocator_->last_error().find("50.00 MiB activations"), std::string::npos) << allocator_->last_error();
  EXPECT_NE(allocator_->last_error().find("20.00 MiB"), std::string::npos);
  ASSERT_EQ(allocator_->allocate(1_GiB, streams_[0], none), DeviceCode::out_of_memory);
  EXPECT_NE(allocator_->last_error().find("larger than the limit"), std::string::npos);
}

/// Whole granules alone are taken.
TEST_F(CachingAllocatorTest, TheReportNamesALimitThatLeavesLessThanAGranule) {
  open({}, {.limit_bytes = 5_MiB});
  (void)allocate(4_MiB, 0, 0);
  Address none = 0;
  ASSERT_EQ(allocator_->allocate(512_KiB, streams_[0], none), DeviceCode::out_of_memory);
  EXPECT_NE(allocator_->last_error().find("a higher limit would do"), std::string::npos) << allocator_->last_error();
}

TEST_F(CachingAllocatorTest, AnOwnerNameThatThrowsLeavesTheNumberAndNoLock) {
  AllocatorOptions options{.limit_bytes = 8_MiB};
  options.owner_name = [](std::uint32_t owner) -> std::string {
    if (owner == 7) throw std::runtime_error("no name");
    return "parameters";
  };
  options.on_out_of_memory = [](const OutOfMemory&) { throw std::runtime_error("not here"); };
  open({}, std::move(options));
  const Address a = allocate(6_MiB, 0, 7);
  (void)allocate(1_KiB, 0, 1);
  Address none = 0;
  ASSERT_EQ(allocator_->allocate(4_MiB, streams_[0], none), DeviceCode::out_of_memory);
  EXPECT_NE(allocator_->last_error().find("owner 7"), std::string::npos) << allocator_->last_error();
  EXPECT_EQ(allocator_->report().holders.back().name, "parameters");
  EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
  (void)allocate(4_MiB);
}

TEST_F(CachingAllocatorTest, CallbacksMayAskTheAllocator) {
  AllocatorOptions options{.limit_bytes = 8_MiB};
  options.owner_name = [this](std::uint32_t) {
    return "one of " + std::to_string(allocator_->statistics().allocation.current);
  };
  Bytes freed = 0;
  options.on_out_of_memory = [&](const OutOfMemory&) { freed = allocator_->trim(); };
  open({}, std::move(options));
  (void)allocate(4_MiB);
  EXPECT_EQ(allocator_->free(allocate(2_MiB)), DeviceCode::ok);
  Address none = 0;
  ASSERT_EQ(allocator_->allocate(6_MiB, streams_[0], none), DeviceCode::out_of_memory);
  EXPECT_NE(allocator_->last_error().find("one of 1"), std::string::npos) << allocator_->last_error();
  EXPECT_EQ(freed, 2_MiB);
}

// Every stream uses and frees memory that the streams before it left, and is gone before its block.
TEST_F(CachingAllocatorTest, TenThousandStreamsComeAndGo) {
  open({.capacity_bytes = 64_MiB});
  Address left = 0;
  ASSERT_EQ(device_->destroy_stream(streams_[1]), DeviceCode::ok);
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(device_->create_stream(StreamRole::compute, streams_[1]), DeviceCode::ok) << i;
    const Bytes large = (1 + i % 3) * 2_MiB;
    const Address a = allocate(8_KiB, 1), b = allocate(large, 1), c = allocate(1_MiB + (i % 4) * 512_KiB, 0);
    use(a, 8_KiB, 1, 1000);
    use(b, large, 1, 1000);
    order_after(1, 0);
    ASSERT_EQ(allocator_->note_use(c, streams_[1]), DeviceCode::ok);
    use(c, 1_MiB, 1, 1000);
    for (const Address gone : {a, c}) ASSERT_EQ(allocator_->free(gone), DeviceCode::ok);
    ASSERT_EQ(device_->destroy_stream(streams_[1]), DeviceCode::ok);
    order_->note_stream_destroyed(streams_[1]);
    if (left != 0) {
      ASSERT_EQ(allocator_->free(left), DeviceCode::ok);
    }
    left = b;
  }
  ASSERT_EQ(allocator_->free(left), DeviceCode::ok);
  EXPECT_EQ(device_->statistics().launches, 30'000);
  EXPECT_LE(order_->stream_count(), 3U);
  EXPECT_LE(allocator_->statistics().reserved_bytes.peak, 32_MiB);
  ASSERT_EQ(device_->create_stream(StreamRole::compute, streams_[1]), DeviceCode::ok);
}

TEST_F(CachingAllocatorTest, APairOfLargeCallsDoesNotGoToThePool) {
  open({.capacity_bytes = 10_MiB});
  const Address first = allocate(8_MiB);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(allocator_->free(first), DeviceCode::ok);
    EXPECT_EQ(allocate(8_MiB), first);
  }
  EXPECT_EQ(allocator_->statistics().front_hits, 10);
  EXPECT_EQ(allocator_->free(first), DeviceCode::ok);
  EXPECT_EQ(allocator_->free(first), DeviceCode::invalid) << "a second free";
  EXPECT_EQ(allocator_->statistics().allocated_bytes.current, 0);
  EXPECT_EQ(allocator_->statistics().allocated_bytes.peak, 8_MiB);
  // What was kept is no loss to another size, kind or stream, nor to another thread.
  Address other = allocate(9_MiB);
  EXPECT_EQ(allocator_->free(other), DeviceCode::ok);
  std::thread([&] {
    other = allocate(10_MiB);
    EXPECT_EQ(allocator_->free(other), DeviceCode::ok);
  }).join();
  EXPECT_EQ(allocator_->statistics().allocated_bytes.peak, 10_MiB);
  Address plain = 0;
  EXPECT_EQ(allocator_->allocate_plain(8_MiB, streams_[0], plain), DeviceCode::ok) << allocator_->last_error();
  EXPECT_EQ(allocator_->free(plain), DeviceCode::ok);
}

TEST_F(CachingAllocatorTest, ALargeBlockJustFreedIsNotAnotherStreamsBeforeOrder) {
  open();
  const Address first = allocate(8_MiB);
  use(first, 8_MiB, 0);
  EXPECT_EQ(allocator_->free(first), DeviceCode::ok);
  const Address second = allocate(8_MiB, 1);
  EXPECT_NE(second, first);
  use(second, 8_MiB, 1);
}

// A large block that one thread freed and keeps counts as free when another allocates.
TEST_F(CachingAllocatorTest, PeaksKnowWhatOtherThreadsFreed) {
  open();
  const Address first = allocate(64_MiB);
  EXPECT_EQ(allocator_->free(first), DeviceCode::ok);
  std::thread([&] { (void)allocate(64_MiB); }).join();
  EXPECT_EQ(allocator_->statistics().allocated_bytes.peak, 64_MiB);
}

// The same with more shards than there are bits to say which ones changed: one of the threads shares the caller's bit.
TEST_F(CachingAllocatorTest, PeaksKnowWhatOtherThreadsFreedWithManyShards) {
  open({.capacity_bytes = 2_GiB}, {.shards = 128});
  EXPECT_EQ(allocator_->free(allocate(1_GiB)), DeviceCode::ok);
  Address theirs = allocate(2_MiB);  // from here on the pool has room: nobody flushes the shards
  allocator_->reset_peaks();
  for (int i = 0; i < 128; ++i) {
    std::thread([&] { EXPECT_EQ(allocator_->free(theirs), DeviceCode::ok); }).join();
    EXPECT_EQ(allocator_->free(allocate(3_MiB)), DeviceCode::ok);
    theirs = allocate(2_MiB);
  }
  EXPECT_EQ(allocator_->statistics().allocated_bytes.peak, 3_MiB);
}

TEST(AllocatorOptionsTest, WhatNoAllocatorCanWorkWithIsRefusedInWords) {
  const auto device = make_sim_device({.capacity_bytes = 64_MiB});
  const auto refusal = [&](const AllocatorOptions& options) {
    const Status status = check_options(options, device->traits());
    return status ? std::string{} : status.error().message;
  };
  constexpr Bytes kMost = std::numeric_limits<Bytes>::max();
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({.unit_bytes = 2_MiB}), "");
  EXPECT_EQ(refusal({.address_space_bytes = 2_MiB}), "");
  for (const Bytes unit : {Bytes{0}, Bytes{-512}, Bytes{256}, Bytes{513}, Bytes{1536}, 4_MiB, kMost}) {
    EXPECT_NE(refusal({.unit_bytes = unit}).find("a power of two from 512 to 2097152"), std::string::npos) << unit;
  }
  for (const Bytes space : {Bytes{-1}, Bytes{1}, 2_MiB - 1, kMost - 1, kMost}) {
    EXPECT_NE(refusal({.address_space_bytes = space}).find("from one granule, 2097152, to"), std::string::npos);
  }
  EXPECT_EQ(refusal({.limit_bytes = -1}), "limit_bytes is -1; it must not be negative");
  EXPECT_EQ(refusal({.front_cache_bytes = -1}), "front_cache_bytes is -1; it must not be negative");
  EXPECT_EQ(refusal({.growth_slack_bytes = -1}), "growth_slack_bytes is -1; it must not be negative");
  EXPECT_EQ(refusal({.shards = 0}), "shards is 0; it must be from 1 to 4096");
  EXPECT_EQ(refusal({.shards = 4097}), "shards is 4097; it must be from 1 to 4096");
  for (const double threshold : {-0.5, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_NE(refusal({.garbage_threshold = threshold}).find("a part of the limit below 1"), std::string::npos);
  }
  EXPECT_NE(refusal({.trace_entries = std::numeric_limits<std::size_t>::max()}).find("at most 16777216"),
            std::string::npos);
  EXPECT_EQ(refusal({.device_index = -1}), "device_index is -1; it must not be negative");
}

// Options that nobody checked do no harm: no huge history, no loop without end, one clear text.
TEST(AllocatorOptionsTest, AnAllocatorWithRefusedOptionsRefusesEveryAllocation) {
  const auto device = make_sim_device({.capacity_bytes = 64_MiB});
  StreamOrder order;
  for (const AllocatorOptions& options : {AllocatorOptions{.unit_bytes = 0}, AllocatorOptions{.shards = 0},
                                          AllocatorOptions{.trace_entries = std::numeric_limits<std::size_t>::max()},
                                          AllocatorOptions{.address_space_bytes = std::numeric_limits<Bytes>::max()}}) {
    CachingAllocator allocator(*device, order, options);
    Address address = 1;
    EXPECT_EQ(allocator.allocate(1024, {}, address), DeviceCode::invalid);
    EXPECT_EQ(address, 0U);
    EXPECT_EQ(allocator.last_error(), check_options(options, device->traits()).error().message);
    EXPECT_EQ(allocator.allocate_plain(1024, {}, address), DeviceCode::invalid);
    EXPECT_EQ(allocator.trim(), 0);
    EXPECT_EQ(allocator.validate(), "");
  }
}

TEST(AllocatorOptionsTest, TheAddressSpaceOfAHugeDeviceDoesNotOverflow) {
  const auto device = make_sim_device({.capacity_bytes = Bytes{1} << 62, .check_races = false});
  StreamOrder order;
  StreamHandle stream = {};
  ASSERT_EQ(device->create_stream(StreamRole::compute, stream), DeviceCode::ok);
  {
    CachingAllocator allocator(*device, order);
    Address address = 0;
    EXPECT_EQ(allocator.allocate(1_MiB, stream, address), DeviceCode::ok) << allocator.last_error();
  }
  EXPECT_EQ(device->destroy_stream(stream), DeviceCode::ok);
}

TEST_F(CachingAllocatorTest, AboveTheGarbageThresholdIdleGranulesAreUsedFirst) {
  open({}, {.limit_bytes = 64_MiB, .growth_slack_bytes = 64_MiB, .garbage_threshold = 0.25});
  std::vector<Address> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(allocate(2_MiB));
  for (std::size_t i = 0; i < blocks.size(); i += 2) EXPECT_EQ(allocator_->free(blocks[i]), DeviceCode::ok);
  (void)allocate(8_MiB);
  EXPECT_EQ(reserved(), 16_MiB);
}

TEST_F(CachingAllocatorTest, WithoutMappingBlocksComeFromSegments) {
  open({.capacity_bytes = 64_MiB, .mapping = false});
  const Address small = allocate(1_KiB), medium = allocate(5_MiB), large = allocate(30_MiB);
  EXPECT_EQ(reserved(), 2_MiB + 20_MiB + 30_MiB);
  EXPECT_EQ(allocator_->statistics().segment.current, 3);
  for (const Address a : {small, medium, large}) EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
  const Address whole = allocate(60_MiB);  // segments go back to make room
  EXPECT_EQ(reserved(), 60_MiB);
  EXPECT_EQ(allocator_->free(whole), DeviceCode::ok);
}

TEST_F(CachingAllocatorTest, PlainBlocksAreCachedBesideTheMappedOnes) {
  open({.capacity_bytes = 64_MiB});
  Address a = 0, b = 0;
  ASSERT_EQ(allocator_->allocate_plain(10_MiB, streams_[0], a), DeviceCode::ok);
  use(a, 10_MiB, 0);
  EXPECT_EQ(device_->statistics().plain_bytes, 10_MiB);
  EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
  ASSERT_EQ(allocator_->allocate_plain(10_MiB, streams_[0], b), DeviceCode::ok);
  EXPECT_EQ(a, b);
  EXPECT_EQ(allocator_->free(b), DeviceCode::ok);
  (void)allocate(60_MiB);  // plain segments are given back for it
  EXPECT_EQ(device_->statistics().plain_bytes, 0);
}

TEST_F(CachingAllocatorTest, StatisticsKnowPeaksAndTotals) {
  open();
  const Address a = allocate(1000), b = allocate(3_MiB);
  EXPECT_EQ(allocator_->free(a), DeviceCode::ok);
  EXPECT_EQ(allocator_->free(b), DeviceCode::ok);
  AllocatorStatistics s = allocator_->statistics();
  EXPECT_EQ(s.allocated_bytes.current, 0);
  EXPECT_EQ(s.allocated_bytes.peak, 3_MiB + 1024);
  EXPECT_EQ(s.requested_bytes.peak, 3_MiB + 1000);
  EXPECT_EQ(s.allocated_bytes.total_up, s.allocated_bytes.total_down);
  EXPECT_EQ(s.allocation.peak, 2);
  EXPECT_EQ(s.cached_bytes, s.reserved_bytes.current);
  allocator_->reset_peaks();
  s = allocator_->statistics();
  EXPECT_EQ(s.allocated_bytes.peak, 0);
  EXPECT_EQ(s.reserved_bytes.peak, s.reserved_bytes.current);
  const auto names = name_statistics(s);
  EXPECT_TRUE(std::any_of(names.begin(), names.end(),
                          [](const NamedStatistic& n) { return n.name == "allocated_bytes.all.peak"; }));
}

TEST_F(CachingAllocatorTest, TheSnapshotCoversEveryMappedByteOnce) {
  open({}, {.trace_entries = 100});
  const Address a = allocate(1000, 0, 3), b = allocate(3_MiB, 1, 4), c = allocate(4096, 0);
  EXPECT_EQ(allocator_->note_use(c, streams_[1]), DeviceCode::ok);
  EXPECT_EQ(allocator_->free(c), DeviceCode::ok);
  const Snapshot snapshot = allocator_->snapshot();
  Bytes total = 0, allocated = 0;
  int pending = 0;
  for (const SnapshotSegment& segment : snapshot.segments) {
    Address at = segment.address;
    for (const SnapshotBlock& block : segment.blocks) {
      EXPECT_EQ(block.address, at);
      at += static_cast<Address>(block.size);
      if (block.state == SnapshotBlock::State::active_pending_free) ++pending;
      if (block.address == a) {
        EXPECT_EQ(block.owner, 3U);
      }
      if (block.address == b) {
        EXPECT_EQ(block.stream, streams_[1]);
      }
    }
    EXPECT_EQ(at, segment.address + static_cast<Address>(segment.total_size));
    total += segment.total_size;
    allocated += segment.allocated_size;
  }
  EXPECT_EQ(total, reserved());
  EXPECT_EQ(allocated, 3_MiB + 1024);
  EXPECT_EQ(pending, 1);
  EXPECT_EQ(std::count_if(snapshot.trace.begin(), snapshot.trace.end(),
                          [](const TraceEvent& e) { return e.action == TraceAction::alloc; }),
            3);
  EXPECT_EQ(std::count_if(snapshot.trace.begin(), snapshot.trace.end(),
                          [](const TraceEvent& e) { return e.action == TraceAction::free_completed; }),
            0)
      << "the block is still parked";
}

TEST_F(CachingAllocatorTest, TheHistoryRingForgetsTheOldest) {
  open({}, {.trace_entries = 4});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(allocator_->free(allocate(512)), DeviceCode::ok);
  const Snapshot snapshot = allocator_->snapshot();
  ASSERT_EQ(snapshot.trace.size(), 4U);
  EXPECT_EQ(snapshot.trace_dropped, 1 + 15 - 4);  // one map, five times three events
  EXPECT_EQ(snapshot.trace.back().action, TraceAction::free_completed);
}

TEST_F(CachingAllocatorTest, WhoeverKeepsMovingGranulesGetsRoomInstead) {
  open({.check_races = false});
  std::mt19937 random(1);
  const auto size = [&] { return Bytes{512} << (random() % 16) | static_cast<Bytes>(random() % 512); };
  std::vector<Address> live[4];
  for (std::size_t stream = 0; stream < 4; ++stream) {
    for (int i = 0; i < 1500; ++i) live[stream].push_back(allocate(size(), stream));
  }
  constexpr int kReplaced = 150'000;
  for (int i = 0; i < kReplaced; ++i) {
    const std::size_t stream = random() % 4;
    Address& one = live[stream][random() % live[stream].size()];
    ASSERT_EQ(allocator_->free(one), DeviceCode::ok);
    one = allocate(size(), stream);
  }
  const AllocatorStatistics s = allocator_->statistics();
  EXPECT_GT(s.remaps, 128) << "too tame a workload to say anything";
  EXPECT_LT(s.remaps, 2 * (1024 + kReplaced / 1024));
  EXPECT_LT(s.reserved_bytes.peak, s.allocated_bytes.peak * 3 / 2);
}

}  // namespace
}  // namespace tidemark::allocator
