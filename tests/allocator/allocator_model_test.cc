// The caching allocator under random programs on the simulated device, whose race checker sees every use: blocks never
// overlap, bytes are never reused without order, and what was promised to be idle when given back is idle.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "allocator/caching_allocator.h"
#include "device/sim_device.h"

namespace tidemark::allocator {
namespace {

using namespace literals;

constexpr std::size_t kStreams = 4;
constexpr std::size_t kEvents = 6;

class RandomProgram {
 public:
  RandomProgram(std::uint64_t seed, const SimOptions& sim, const AllocatorOptions& options)
      : random_(seed), device_(make_sim_device(sim, {.seed = seed})) {
    for (StreamHandle& stream : streams_)
      EXPECT_EQ(device_->create_stream(StreamRole::compute, stream), DeviceCode::ok);
    for (EventHandle& event : events_) EXPECT_EQ(device_->create_event(event), DeviceCode::ok);
    allocator_ = std::make_unique<CachingAllocator>(*device_, order_, options);
  }
  ~RandomProgram() {
    EXPECT_EQ(device_->synchronize_device(), DeviceCode::ok);
    EXPECT_EQ(device_->race_count(), 0) << (device_->races().empty() ? "" : to_string(device_->races().front()));
    allocator_.reset();
    for (const StreamHandle stream : streams_) EXPECT_EQ(device_->destroy_stream(stream), DeviceCode::ok);
    for (const EventHandle event : events_) EXPECT_EQ(device_->destroy_event(event), DeviceCode::ok);
    EXPECT_EQ(device_->leaks(), "");
  }

  void step() {
    const std::uint64_t choice = random_() % 100;
    if (choice < 35) return allocate();
    if (choice < 50) return use_elsewhere();
    if (choice < 80) return give_back();
    if (choice < 88) return record();
    if (choice < 94) return wait();
    if (choice < 96) return synchronize();
    if (choice < 98) {
      allocator_->trim(static_cast<Bytes>(random_() % 64) * 2_MiB);
    } else {
      allocator_->defragment(streams_[random_() % kStreams], static_cast<Bytes>(random_() % 8) * 2_MiB);
    }
  }
  [[nodiscard]] std::string validate() const { return allocator_->validate(); }
  [[nodiscard]] AllocatorStatistics statistics() const { return allocator_->statistics(); }

 private:
  struct Live {
    Bytes bytes;
    std::vector<std::size_t> streams;  ///< the first one allocated it
  };
  using Blocks = std::map<Address, Live>;

  Bytes some_bytes() {
    switch (random_() % 4) {
      case 0:
        return static_cast<Bytes>(random_() % 2048);
      case 1:
        return static_cast<Bytes>(random_() % (256 * 1024));
      case 2:
        return static_cast<Bytes>(1 + random_() % 4) * 2_MiB;
      default:
        return static_cast<Bytes>(random_() % (12 * 1024 * 1024));
    }
  }
  Blocks::iterator any_block() {
    auto block = blocks_.lower_bound(random_() % 2 == 0 ? 0 : last_);
    for (std::uint64_t skip = random_() % 8; skip > 0 && block != blocks_.end(); --skip) ++block;
    return block == blocks_.end() ? blocks_.begin() : block;
  }
  void touch(Address address, Bytes bytes, std::size_t stream, AccessKind kind) {
    if (bytes == 0) return;
    const Touch touch{.address = address, .bytes = bytes, .kind = kind};
    const Work work{
        .id = ++works_, .estimate_ns = static_cast<std::int64_t>(random_() % 100'000), .touches = {&touch, 1}};
    ASSERT_EQ(device_->launch(streams_[stream], work), DeviceCode::ok);
  }

  void allocate() {
    const std::size_t stream = random_() % kStreams;
    const Bytes bytes = some_bytes();
    Address address = 0;
    const bool plain = random_() % 16 == 0;
    const DeviceCode code = plain ? allocator_->allocate_plain(bytes, streams_[stream], address)
                                  : allocator_->allocate(bytes, streams_[stream], address);
    if (code == DeviceCode::out_of_memory) return;
    ASSERT_EQ(code, DeviceCode::ok) << allocator_->last_error();
    const auto after = blocks_.lower_bound(address);
    const auto end = address + static_cast<Address>(allocator_->rounded_bytes(bytes));
    if (after != blocks_.end()) {
      ASSERT_LE(end, after->first) << "overlaps the next block";
    }
    if (after != blocks_.begin()) {
      const auto before = std::prev(after);
      ASSERT_LE(before->first + static_cast<Address>(allocator_->rounded_bytes(before->second.bytes)), address);
    }
    blocks_[last_ = address] = {.bytes = bytes, .streams = {stream}};
    touch(address, bytes, stream, AccessKind::write);
  }
  /// As a framework does: the other stream waits for the first one, uses the block, and the allocator is told.
  void use_elsewhere() {
    const auto block = any_block();
    if (block == blocks_.end()) return;
    const std::size_t stream = random_() % kStreams, home = block->second.streams.front();
    if (stream != home) {
      const std::size_t e = random_() % kEvents;
      ASSERT_EQ(order_.record(*device_, events_[e], streams_[home]), DeviceCode::ok);
      ASSERT_EQ(order_.wait(*device_, streams_[stream], events_[e]), DeviceCode::ok);
    }
    ASSERT_EQ(allocator_->note_use(block->first, streams_[stream]), DeviceCode::ok);
    touch(block->first, block->second.bytes, stream, AccessKind::read);
    if (stream != home) block->second.streams.push_back(stream);
  }
  void give_back() {
    const auto block = any_block();
    if (block == blocks_.end()) return;
    const Live& live = block->second;
    const std::size_t other = random_() % kStreams;
    if (live.streams.size() == 1 && other != live.streams.front() && random_() % 4 == 0) {
      const std::size_t e = random_() % kEvents;
      ASSERT_EQ(order_.record(*device_, events_[e], streams_[live.streams.front()]), DeviceCode::ok);
      ASSERT_EQ(order_.wait(*device_, streams_[other], events_[e]), DeviceCode::ok);
      touch(block->first, live.bytes, other, AccessKind::write);
      ASSERT_EQ(allocator_->free(block->first, streams_[other]), DeviceCode::ok);
    } else {
      ASSERT_EQ(allocator_->free(block->first), DeviceCode::ok);
    }
    blocks_.erase(block);
  }
  void record() {
    ASSERT_EQ(order_.record(*device_, events_[random_() % kEvents], streams_[random_() % kStreams]), DeviceCode::ok);
  }
  void wait() {
    ASSERT_EQ(order_.wait(*device_, streams_[random_() % kStreams], events_[random_() % kEvents]), DeviceCode::ok);
  }
  void synchronize() {
    const std::size_t e = random_() % kEvents;
    if (device_->query_event(events_[e]) == DeviceCode::ok) order_.note_synchronized(events_[e]);
    if (random_() % 4 != 0) return;
    const StreamHandle stream = streams_[random_() % kStreams];
    ASSERT_EQ(device_->synchronize_stream(stream), DeviceCode::ok);
    order_.note_synchronized(stream);
  }

  std::mt19937_64 random_;
  StreamOrder order_;
  std::unique_ptr<SimDevice> device_;
  std::unique_ptr<CachingAllocator> allocator_;
  StreamHandle streams_[kStreams] = {};
  EventHandle events_[kEvents] = {};
  Blocks blocks_;
  Address last_ = 0;
  std::int64_t works_ = 0;
};

void run(std::uint64_t seeds, int steps, const SimOptions& sim, const AllocatorOptions& options) {
  AllocatorStatistics sum;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    RandomProgram program(seed, sim, options);
    for (int i = 0; i < steps; ++i) {
      program.step();
      if (i % 100 == 99) {
        ASSERT_EQ(program.validate(), "") << "seed " << seed << " step " << i;
      }
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << i;
    }
    const AllocatorStatistics one = program.statistics();
    sum.front_hits += one.front_hits;
    sum.remaps += one.remaps;
    sum.stitched_windows += one.stitched_windows;
    sum.cross_stream_reuses += one.cross_stream_reuses;
    sum.host_waits += one.host_waits;
    sum.stream_waits += one.stream_waits;
  }
  // The programs went where they should.
  EXPECT_GT(sum.front_hits, 0);
  EXPECT_GT(sum.cross_stream_reuses, 0);
  if (sim.mapping) {
    EXPECT_GT(sum.remaps, 0);
    EXPECT_EQ(sum.stitched_windows > 0, sim.aliasing);
  }
  EXPECT_GT(options.pending_wait == PendingWait::host ? sum.host_waits : sum.stream_waits, 0);
}

TEST(AllocatorModel, MappedMemoryWaitingOnTheHost) {
  run(40, 600, {.capacity_bytes = 128_MiB}, {.address_space_bytes = 2_GiB});
}

TEST(AllocatorModel, MappedMemoryWaitingOnTheStream) {
  run(40, 600, {.capacity_bytes = 128_MiB}, {.pending_wait = PendingWait::stream});
}

TEST(AllocatorModel, MappedMemoryWithoutASecondAddress) {
  run(40, 600, {.capacity_bytes = 128_MiB, .aliasing = false}, {});
}

TEST(AllocatorModel, PlainSegmentsWithATailPad) {
  run(40, 600, {.capacity_bytes = 128_MiB, .alignment_bytes = 64, .tail_pad_bytes = 32, .mapping = false}, {});
}

TEST(AllocatorModel, ASmallAddressSpaceAndATinyFrontCache) {
  run(20, 600, {.capacity_bytes = 96_MiB}, {.address_space_bytes = 128_MiB, .front_cache_bytes = 8_KiB});
}

}  // namespace
}  // namespace tidemark::allocator
