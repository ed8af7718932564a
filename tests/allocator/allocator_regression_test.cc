// Failures that other allocators shipped, each as the smallest program that shows it.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "allocator/caching_allocator.h"
#include "device/sim_device.h"

namespace tidemark::allocator {
namespace {

using namespace literals;

class AllocatorRegression : public testing::Test {
 protected:
  void open(Bytes capacity, AllocatorOptions options = {}, bool mapping = true) {
    device_ = make_sim_device({.capacity_bytes = capacity, .mapping = mapping});
    order_ = std::make_unique<StreamOrder>();
    for (StreamHandle* stream : {&main_, &side_}) {
      ASSERT_EQ(device_->create_stream(StreamRole::compute, *stream), DeviceCode::ok);
    }
    ASSERT_EQ(device_->create_event(event_), DeviceCode::ok);
    allocator_ = std::make_unique<CachingAllocator>(*device_, *order_, std::move(options));
  }
  void TearDown() override {
    if (allocator_ == nullptr) return;
    EXPECT_EQ(allocator_->validate(), "");
    EXPECT_EQ(device_->synchronize_device(), DeviceCode::ok);
    EXPECT_EQ(device_->race_count(), 0) << (device_->races().empty() ? "" : to_string(device_->races().front()));
  }
  Address allocate(Bytes bytes, StreamHandle stream) {
    Address address = 0;
    EXPECT_EQ(allocator_->allocate(bytes, stream, address), DeviceCode::ok) << allocator_->last_error();
    return address;
  }
  void use(Address address, Bytes bytes, StreamHandle stream) {
    const Touch touch{.address = address, .bytes = bytes, .kind = AccessKind::write};
    ASSERT_EQ(device_->launch(stream, {.estimate_ns = 1'000'000, .touches = {&touch, 1}}), DeviceCode::ok);
  }
  void order_after(StreamHandle later, StreamHandle earlier) {
    ASSERT_EQ(order_->record(*device_, event_, earlier), DeviceCode::ok);
    ASSERT_EQ(order_->wait(*device_, later, event_), DeviceCode::ok);
  }
  /// A block of the main stream that the side stream uses, too.
  void lend_and_free(Address address, Bytes bytes) {
    order_after(side_, main_);
    ASSERT_EQ(allocator_->note_use(address, side_), DeviceCode::ok);
    use(address, bytes, side_);
    ASSERT_EQ(allocator_->free(address), DeviceCode::ok);
  }

  std::unique_ptr<StreamOrder> order_;
  std::unique_ptr<SimDevice> device_;
  std::unique_ptr<CachingAllocator> allocator_;
  StreamHandle main_ = {}, side_ = {};
  EventHandle event_ = {};
};

// pytorch#189504: an out-of-memory was raised although a fitting block was only waiting for an event.
TEST_F(AllocatorRegression, PytorchIssue189504PendingBlocksAreWaitedForBeforeOutOfMemory) {
  for (const bool mapping : {true, false}) {
    for (const PendingWait wait : {PendingWait::host, PendingWait::stream}) {
      open(16_MiB, {.pending_wait = wait}, mapping);
      const Address a = allocate(12_MiB, main_);
      use(a, 12_MiB, main_);
      lend_and_free(a, 12_MiB);
      const Address b = allocate(12_MiB, main_);
      use(b, 12_MiB, main_);
      EXPECT_EQ(allocator_->statistics().num_ooms, 0);
      EXPECT_EQ(allocator_->statistics().num_alloc_retries, 1);
      if (wait == PendingWait::stream) {
        EXPECT_EQ(allocator_->statistics().host_waits, 0) << "the stream waits, not the caller";
      }
      TearDown();
      allocator_.reset();
    }
  }
}

// pytorch#159674: memory held by another pool was not given back before an out-of-memory, and nothing was tried again.
TEST_F(AllocatorRegression, PytorchIssue159674AnotherPoolsCacheIsGivenBack) {
  open(16_MiB);
  Address a = 0;
  ASSERT_EQ(allocator_->allocate_plain(12_MiB, side_, a), DeviceCode::ok);
  use(a, 12_MiB, side_);
  ASSERT_EQ(allocator_->free(a), DeviceCode::ok);
  const Address b = allocate(12_MiB, main_);
  use(b, 12_MiB, main_);
  ASSERT_EQ(allocator_->free(b), DeviceCode::ok);
  ASSERT_EQ(allocator_->allocate_plain(12_MiB, side_, a), DeviceCode::ok) << "and the other way round";
}

// pytorch#147168: blocks with a noted use were never reused while the host ran ahead, memory grew with every round.
TEST_F(AllocatorRegression, PytorchIssue147168NotedUsesDoNotOverAllocate) {
  open(4_GiB);
  for (int i = 0; i < 100; ++i) {
    const Address a = allocate(8_MiB, main_);
    use(a, 8_MiB, main_);
    lend_and_free(a, 8_MiB);
    order_after(main_, side_);  // the program orders its streams anyway; nobody waits on the host
  }
  EXPECT_EQ(allocator_->statistics().reserved_bytes.peak, 8_MiB);
  EXPECT_EQ(allocator_->statistics().events_recorded, 0);
}

// Megatron-LM PR#6885: memory that a side stream used once stayed with it for ever, 20 GB of peak reserved.
TEST_F(AllocatorRegression, MegatronPullRequest6885AOneShotSideStreamCostsNothingLater) {
  open(4_GiB);
  std::vector<Address> once;
  for (int i = 0; i < 32; ++i) {
    once.push_back(allocate(10_MiB + i * 512, side_));
    use(once.back(), 10_MiB, side_);
  }
  for (const Address a : once) ASSERT_EQ(allocator_->free(a), DeviceCode::ok);
  ASSERT_EQ(device_->synchronize_stream(side_), DeviceCode::ok);
  const Bytes before = allocator_->statistics().reserved_bytes.current;
  // The allocator was not even told of the synchronisation: it finds out when nothing fits.
  for (int i = 0; i < 10; ++i) {
    const Address a = allocate(32_MiB, main_);
    use(a, 32_MiB, main_);
  }
  EXPECT_LE(allocator_->statistics().reserved_bytes.peak, before + 2_MiB);
}

// torch_npu, lazy reclaim: events were processed after a free block had been selected; a block that became free then
// was merged with the selected one, which went out with the wrong size. Every allocation here finds parked neighbours
// whose order has just become known.
TEST_F(AllocatorRegression, TorchNpuNothingIsReleasedBetweenSelectionAndHandOut) {
  open(64_MiB);
  for (int round = 0; round < 50; ++round) {
    std::vector<Address> blocks;
    for (int i = 0; i < 6; ++i) {
      blocks.push_back(allocate(2_MiB, main_));
      use(blocks.back(), 2_MiB, main_);
    }
    for (std::size_t i = 0; i < 6; ++i) {
      if (i % 2 == 0) {
        ASSERT_EQ(allocator_->free(blocks[i]), DeviceCode::ok);
      } else {
        lend_and_free(blocks[i], 2_MiB);
      }
    }
    order_after(main_, side_);
    const Bytes bytes = (1 + round % 3) * 2_MiB;
    const Address a = allocate(bytes, main_), b = allocate(bytes, main_);
    ASSERT_EQ(allocator_->block_bytes(a), bytes);
    ASSERT_EQ(allocator_->block_bytes(b), bytes);
    ASSERT_TRUE(a + static_cast<Address>(bytes) <= b || b + static_cast<Address>(bytes) <= a);
    use(a, bytes, main_);
    use(b, bytes, main_);
    ASSERT_EQ(allocator_->validate(), "");
    ASSERT_EQ(allocator_->free(a), DeviceCode::ok);
    ASSERT_EQ(allocator_->free(b), DeviceCode::ok);
  }
}

// rmm#2039: two streams that take turns fragment the pool until it is full.
TEST_F(AllocatorRegression, RmmIssue2039TwoStreamsDoNotFragment) {
  open(1_GiB);
  for (int round = 0; round < 200; ++round) {
    std::vector<Address> blocks;
    for (int i = 0; i < 16; ++i) {
      const StreamHandle stream = i % 2 == 0 ? main_ : side_;
      const Bytes bytes = (1 + (round * 7 + i * 3) % 11) * 700_KiB;
      blocks.push_back(allocate(bytes, stream));
      use(blocks.back(), bytes, stream);
    }
    for (const Address a : blocks) ASSERT_EQ(allocator_->free(a), DeviceCode::ok);
    ASSERT_EQ(order_->synchronize(*device_), DeviceCode::ok);
  }
  const AllocatorStatistics statistics = allocator_->statistics();
  EXPECT_LE(statistics.reserved_bytes.peak, statistics.allocated_bytes.peak * 5 / 4 + 4_MiB);
}

// nixl#1754 and others: mapped memory cannot be exported at speed; buffers for collectives are single plain
// allocations.
TEST_F(AllocatorRegression, ExportSafeBlocksLieInPlainMemory) {
  open(256_MiB);
  (void)allocate(4_MiB, main_);
  Address a = 0;
  ASSERT_EQ(allocator_->allocate_plain(3_MiB, main_, a), DeviceCode::ok);
  EXPECT_GT(device_->statistics().plain_bytes, 0);
  bool plain = false;
  for (const SnapshotSegment& segment : allocator_->snapshot().segments) {
    if (a >= segment.address && a < segment.address + static_cast<Address>(segment.total_size)) {
      plain = !segment.is_expandable;
    }
  }
  EXPECT_TRUE(plain);
  const Bytes mapped = device_->statistics().mapped_bytes;
  ASSERT_EQ(allocator_->free(a), DeviceCode::ok);
  ASSERT_EQ(allocator_->allocate_plain(3_MiB, main_, a), DeviceCode::ok);
  EXPECT_EQ(device_->statistics().mapped_bytes, mapped);
}

}  // namespace
}  // namespace tidemark::allocator
