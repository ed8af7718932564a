// The planned arena in front of the caching allocator: one memory, one set of figures, no block to two owners.

#include "allocator/planned_front.h"

#include <gtest/gtest.h>

#include <array>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "device/forwarding_device.h"
#include "device/sim_device.h"

namespace tidemark::allocator {
namespace {

using namespace literals;

//   a 1 MiB@0, b 1 MiB@1 MiB, (a freed) c 1 MiB@0
const std::vector<PlannedBlock> kThree = {
    {.bytes = kMiB, .offset = 0}, {.bytes = kMiB, .offset = kMiB}, {.bytes = kMiB, .offset = 0}};

class PlannedFrontTest : public testing::Test {
 protected:
  PlannedFrontTest() {
    for (StreamHandle& stream : streams_)
      EXPECT_EQ(device_->create_stream(StreamRole::compute, stream), DeviceCode::ok);
  }
  ~PlannedFrontTest() override {
    front_.reset();
    EXPECT_EQ(allocator_->validate(), "");
    EXPECT_EQ(allocator_->statistics().allocated_bytes.current, 0);
    EXPECT_EQ(device_->synchronize_device(), DeviceCode::ok);
    EXPECT_EQ(device_->race_count(), 0) << (device_->races().empty() ? std::string() : to_string(device_->races()[0]));
    allocator_.reset();
    for (const StreamHandle stream : streams_) EXPECT_EQ(device_->destroy_stream(stream), DeviceCode::ok);
    EXPECT_EQ(device_->leaks(), "");
  }
  void open(const std::vector<PlannedBlock>& blocks) {
    ASSERT_EQ(PlannedFront::open(*device_, *allocator_, blocks, streams_[0], front_), DeviceCode::ok);
  }
  Address take(Bytes bytes) {
    const std::optional<Address> address = front_->allocate(bytes, streams_[0]);
    EXPECT_TRUE(address);
    return address.value_or(0);
  }
  void use(Address address, std::size_t stream) {
    const Touch touch{.address = address, .bytes = kMiB, .kind = AccessKind::write};
    ASSERT_EQ(device_->launch(streams_[stream], {.estimate_ns = 1'000'000, .touches = {&touch, 1}}), DeviceCode::ok);
  }
  void give_back(Address address) {
    EXPECT_EQ(front_->free(address, nullptr), DeviceCode::ok);
    front_->release_freed();
  }
  AllocatorStatistics statistics() const { return allocator_->statistics(); }

  std::unique_ptr<SimDevice> device_ = make_sim_device({.capacity_bytes = 64 * kMiB});
  std::array<StreamHandle, 2> streams_{};
  StreamOrder order_;
  std::unique_ptr<CachingAllocator> allocator_ = std::make_unique<CachingAllocator>(*device_, order_);
  std::unique_ptr<PlannedFront> front_;
};

TEST_F(PlannedFrontTest, CountsWhatItHandsOutAndNotItself) {
  open(kThree);
  EXPECT_EQ(statistics().allocated_bytes.peak, 0);
  EXPECT_GE(statistics().reserved_bytes.current, 2 * kMiB);
  const Address a = take(kMiB), b = take(kMiB);
  EXPECT_EQ(b, a + static_cast<Address>(kMiB));
  Address beside = 0;
  ASSERT_EQ(allocator_->allocate(kMiB, streams_[0], beside), DeviceCode::ok);
  give_back(a);
  EXPECT_EQ(take(kMiB), a);
  EXPECT_EQ(statistics().allocated_bytes.current, 3 * kMiB);
  EXPECT_EQ(statistics().allocated_bytes.peak, 3 * kMiB);
  EXPECT_EQ(statistics().allocation.current, 3);
  EXPECT_EQ(front_->counts().served, 3);
  EXPECT_EQ(front_->requested_bytes(b), kMiB);
  give_back(a);
  give_back(b);
  EXPECT_EQ(front_->free(b, nullptr), DeviceCode::invalid);
  EXPECT_EQ(front_->requested_bytes(b), 0);
  EXPECT_EQ(allocator_->free(beside), DeviceCode::ok);
}

TEST_F(PlannedFrontTest, ServesTheStreamItIsForUntilItRetires) {
  open(kThree);
  EXPECT_FALSE(front_->allocate(kMiB, streams_[1]));
  const Address a = take(kMiB);
  front_->retire();
  EXPECT_FALSE(front_->allocate(kMiB, streams_[0]));
  EXPECT_FALSE(front_->is_empty());
  const std::optional<Address> guest = front_->allocate_anywhere(kMiB, streams_[0]);
  ASSERT_TRUE(guest) << "the allocator is at its end, and this memory is held for one block";
  give_back(*guest);
  give_back(a);
  EXPECT_TRUE(front_->is_empty());
}

TEST_F(PlannedFrontTest, ServesTheThreadWhoseWorkTheStepIs) {
  open(kThree);
  const auto asked_by_another = [&] {
    std::optional<Address> address;
    std::thread([&] { address = front_->allocate(kMiB, streams_[0]); }).join();
    return address;
  };
  front_->begin_step(std::this_thread::get_id());
  EXPECT_FALSE(asked_by_another());
  front_->expect(Requests::transient);
  EXPECT_FALSE(asked_by_another());
  front_->expect(Requests::planned);
  const Address a = take(kMiB);
  EXPECT_FALSE(asked_by_another());
  EXPECT_EQ(take(kMiB), a + static_cast<Address>(kMiB));
  EXPECT_EQ(front_->counts().unplanned, 0);  // none of the step's requests was taken for another
  EXPECT_EQ(front_->requests_of_other_threads(), 3);
  std::thread([&] { give_back(a); }).join();
  front_->begin_step();  // work of a stream, whoever asks
  give_back(a + static_cast<Address>(kMiB));
  const std::optional<Address> again = asked_by_another();
  ASSERT_EQ(again, a);
  give_back(a);
}

TEST_F(PlannedFrontTest, ServesTheSamePlanAgain) {
  open(kThree);
  const Address a = take(kMiB), b = take(kMiB);
  give_back(a);
  EXPECT_FALSE(front_->resume(kThree, streams_[0])) << "it serves";
  front_->retire();
  std::vector<PlannedBlock> other = kThree;
  other.back().bytes += 512;
  EXPECT_FALSE(front_->resume(other, streams_[0]));
  EXPECT_FALSE(front_->resume(kThree, streams_[1]));
  ASSERT_TRUE(front_->resume(kThree, streams_[0]));
  EXPECT_EQ(front_->counts().served, 0);
  EXPECT_EQ(front_->requests_of_other_threads(), 0);
  EXPECT_EQ(front_->counts().live_bytes, kMiB);
  EXPECT_EQ(take(kMiB), a);
  EXPECT_FALSE(front_->allocate(kMiB, streams_[0])) << "held since before";
  give_back(b);
  give_back(a);
  EXPECT_TRUE(front_->is_empty());
}

TEST_F(PlannedFrontTest, WaitsForOtherStreamsThatUseABlock) {
  open(kThree);
  const Address a = take(kMiB), b = take(kMiB);
  use(a, 1);
  ASSERT_EQ(front_->note_use(a, streams_[1]), DeviceCode::ok);
  give_back(a);
  EXPECT_FALSE(front_->allocate(kMiB, streams_[0])) << "the other stream has not come by";
  EXPECT_EQ(front_->free(a, nullptr), DeviceCode::invalid);
  use(b, 1);
  EXPECT_EQ(front_->free(b, &streams_[1]), DeviceCode::ok);
  EXPECT_TRUE(front_->has_unwatched());
  front_->release_freed();
  EXPECT_FALSE(front_->has_unwatched());
  EXPECT_FALSE(front_->is_empty()) << "the other stream has not come by";
  ASSERT_EQ(device_->synchronize_device(), DeviceCode::ok);
  front_->begin_step();
  use(take(kMiB), 0);
  use(take(kMiB), 0);
  give_back(a);
  give_back(b);
  EXPECT_TRUE(front_->is_empty());
}

/// Streams are neither given events nor waited for: the thread may not wait for the framework that queues for them.
struct Unwatchable final : ForwardingDevice {
  using ForwardingDevice::ForwardingDevice;
  [[nodiscard]] DeviceCode record_event(EventHandle event, StreamHandle stream) override {
    ++asked;
    return later ? DeviceCode::no_resource : ForwardingDevice::record_event(event, stream);
  }
  [[nodiscard]] DeviceCode synchronize_stream(StreamHandle stream) override {
    return later ? DeviceCode::no_resource : ForwardingDevice::synchronize_stream(stream);
  }
  bool later = false;
  int asked = 0;
};

TEST_F(PlannedFrontTest, HoldsWhatOtherStreamsUseUntilTheyCanBeAskedForAnEvent) {
  Unwatchable device(*device_);
  ASSERT_EQ(PlannedFront::open(device, *allocator_, kThree, streams_[0], front_), DeviceCode::ok);
  const Address a = take(kMiB);
  use(a, 1);
  ASSERT_EQ(front_->note_use(a, streams_[1]), DeviceCode::ok);
  device.later = true;
  give_back(a);
  use(take(kMiB), 0);
  EXPECT_FALSE(front_->allocate(kMiB, streams_[0])) << "the third block is the first one's place";
  EXPECT_FALSE(front_->wait_for_freed()) << "no caller waits for what has no event";
  EXPECT_TRUE(front_->has_unwatched());
  front_->release_freed();
  EXPECT_FALSE(front_->is_empty());
  device.later = false;
  const int asked = device.asked;
  front_->release_freed();
  EXPECT_EQ(device.asked, asked + 1);
  EXPECT_TRUE(front_->wait_for_freed());
  const std::optional<Address> guest = front_->allocate_anywhere(kMiB, streams_[0]);
  ASSERT_TRUE(guest);
  use(*guest, 0);
  give_back(*guest);
  give_back(a + kMiB);
  EXPECT_TRUE(front_->is_empty());
}

TEST_F(PlannedFrontTest, IsWithinTheLimitOrNotThere) {
  allocator_->set_limit(kMiB);
  EXPECT_EQ(PlannedFront::open(*device_, *allocator_, kThree, streams_[0], front_), DeviceCode::out_of_memory);
  EXPECT_EQ(front_, nullptr);
}

TEST_F(PlannedFrontTest, TakesGuestsWhereNothingElseIsLeft) {
  open(kThree);
  const std::optional<Address> guest = front_->allocate_anywhere(2 * kMiB, streams_[0]);
  ASSERT_TRUE(guest);
  EXPECT_FALSE(front_->allocate(kMiB, streams_[0]));
  EXPECT_EQ(statistics().allocated_bytes.current, 2 * kMiB);
  give_back(*guest);
  front_->begin_step();
  give_back(take(kMiB));
}

TEST_F(PlannedFrontTest, GuestsHaveTheBytesOfWhatWasWaitedFor) {
  open(kThree);
  const Address a = take(kMiB), b = take(kMiB);
  use(a, 1);
  ASSERT_EQ(front_->note_use(a, streams_[1]), DeviceCode::ok);
  give_back(a);
  EXPECT_FALSE(front_->allocate_anywhere(2 * kMiB, streams_[0]));
  EXPECT_TRUE(front_->wait_for_freed());
  EXPECT_FALSE(front_->wait_for_freed());
  EXPECT_FALSE(front_->allocate_anywhere(2 * kMiB, streams_[0]));
  use(b, 1);
  ASSERT_EQ(front_->note_use(b, streams_[1]), DeviceCode::ok);
  give_back(b);
  EXPECT_FALSE(front_->allocate_anywhere(2 * kMiB, streams_[0]));
  EXPECT_TRUE(front_->wait_for_freed());
  const std::optional<Address> guest = front_->allocate_anywhere(2 * kMiB, streams_[0]);
  ASSERT_TRUE(guest);
  use(*guest, 0);
  give_back(*guest);
  EXPECT_TRUE(front_->is_empty());
}

std::vector<PlannedBlock> in_a_row(std::int64_t count, Bytes bytes) {
  std::vector<PlannedBlock> blocks;
  for (std::int64_t i = 0; i < count; ++i) blocks.push_back({.bytes = bytes, .offset = i * bytes});
  return blocks;
}

TEST_F(PlannedFrontTest, IdleGranulesServeElsewhereUntilTheNextStep) {
  open(in_a_row(8, 2 * kMiB));
  allocator_->set_limit(statistics().reserved_bytes.current);
  front_->begin_step();
  const Address first = take(2 * kMiB);
  use(first, 0);
  Address beside = 0;
  ASSERT_EQ(allocator_->allocate(8 * kMiB, streams_[0], beside), DeviceCode::out_of_memory);
  ASSERT_EQ(front_->unmap_idle(8 * kMiB), 8 * kMiB);
  EXPECT_EQ(front_->unmapped_bytes(), 8 * kMiB);
  ASSERT_EQ(allocator_->allocate(8 * kMiB, streams_[0], beside), DeviceCode::ok);
  EXPECT_EQ(allocator_->validate(), "");
  use(beside, 0);
  const Address second = take(2 * kMiB), third = take(2 * kMiB);  // those that the plan wanted last are gone
  use(third, 0);
  EXPECT_FALSE(front_->allocate_anywhere(4 * kMiB, streams_[0]));
  for (const Address address : {first, second, third}) give_back(address);
  front_->map_again();  // there is nothing to take
  EXPECT_EQ(front_->unmapped_bytes(), 8 * kMiB);
  EXPECT_EQ(allocator_->free(beside), DeviceCode::ok);
  front_->map_again();
  EXPECT_EQ(front_->unmapped_bytes(), 0);
  front_->begin_step();
  std::vector<Address> all;
  for (int i = 0; i < 8; ++i) use(all.emplace_back(take(2 * kMiB)), 0);
  EXPECT_EQ(all.front(), first);
  for (const Address address : all) give_back(address);
  EXPECT_LE(statistics().reserved_bytes.peak, 18 * kMiB);
}

TEST_F(PlannedFrontTest, APieceComesBackAsFarAsTheLimitAllows) {
  open(in_a_row(8, 2 * kMiB));
  allocator_->set_limit(statistics().reserved_bytes.current);
  ASSERT_EQ(front_->unmap_idle(8 * kMiB), 8 * kMiB);
  Address outlives = 0;
  ASSERT_EQ(allocator_->allocate(5 * kMiB, streams_[0], outlives), DeviceCode::ok);
  EXPECT_EQ(front_->map_again(), DeviceCode::out_of_memory);
  EXPECT_EQ(front_->unmapped_bytes(), 4 * kMiB);
  EXPECT_EQ(allocator_->validate(), "");
  front_->begin_step();
  std::vector<Address> served;
  for (int i = 0; i < 8; ++i)
    if (const auto address = front_->allocate(2 * kMiB, streams_[0])) use(served.emplace_back(*address), 0);
  EXPECT_EQ(served.size(), 6U);
  for (const Address address : served) give_back(address);
  EXPECT_EQ(allocator_->free(outlives), DeviceCode::ok);
  EXPECT_EQ(front_->map_again(), DeviceCode::ok);
  EXPECT_EQ(front_->unmapped_bytes(), 0);
}

TEST_F(PlannedFrontTest, APieceComesBackAsFarAsTheDeviceHasMemory) {
  open(in_a_row(8, 2 * kMiB));
  ASSERT_EQ(front_->unmap_idle(16 * kMiB), 16 * kMiB);
  MemoryInfo memory;
  ASSERT_EQ(device_->memory_info(memory), DeviceCode::ok);
  const Bytes others_bytes = memory.free_bytes - 6 * kMiB;  // another program's
  Address others = 0;
  ASSERT_EQ(device_->reserve(others_bytes, others), DeviceCode::ok);
  ASSERT_EQ(device_->map(others, others_bytes), DeviceCode::ok);
  EXPECT_EQ(front_->map_again(), DeviceCode::out_of_memory);
  EXPECT_EQ(front_->unmapped_bytes(), 10 * kMiB);
  EXPECT_EQ(allocator_->validate(), "");
  ASSERT_EQ(device_->unmap(others, others_bytes), DeviceCode::ok);
  ASSERT_EQ(device_->release(others, others_bytes), DeviceCode::ok);
  EXPECT_EQ(front_->map_again(), DeviceCode::ok);
  EXPECT_EQ(front_->unmapped_bytes(), 0);
  const Address first = take(2 * kMiB);
  use(first, 0);
  give_back(first);
}

TEST_F(PlannedFrontTest, WhatCannotComeBackIsNotWaitedFor) {
  open(in_a_row(8, 2 * kMiB));
  allocator_->set_limit(statistics().reserved_bytes.current);
  ASSERT_EQ(front_->unmap_idle(8 * kMiB), 8 * kMiB);
  Address outlives = 0;
  ASSERT_EQ(allocator_->allocate(7 * kMiB, streams_[0], outlives), DeviceCode::ok);
  const Address busy = take(2 * kMiB);
  use(busy, 0);
  const std::int64_t waits = statistics().host_waits;
  EXPECT_EQ(front_->map_again(), DeviceCode::out_of_memory);
  EXPECT_EQ(statistics().host_waits, waits) << "no granule would be idle after it";
  give_back(busy);
  EXPECT_EQ(allocator_->free(outlives), DeviceCode::ok);
}

TEST_F(PlannedFrontTest, AnArenaEndsWithoutItsUnmappedGranules) {
  open(in_a_row(8, 2 * kMiB));
  const Bytes reserved = statistics().reserved_bytes.current;
  ASSERT_EQ(front_->unmap_idle(6 * kMiB), 6 * kMiB);
  front_.reset();
  EXPECT_EQ(allocator_->validate(), "");
  EXPECT_EQ(statistics().reserved_bytes.current, reserved - 6 * kMiB);
  open(in_a_row(8, 2 * kMiB));  // as large as the block that ended: none of it is without memory
  EXPECT_EQ(statistics().reserved_bytes.current, reserved);
  std::vector<Address> all;
  for (int i = 0; i < 8; ++i) use(all.emplace_back(take(2 * kMiB)), 0);
  for (const Address address : all) give_back(address);
  front_.reset();
  Address next = 0;
  ASSERT_EQ(allocator_->allocate(16 * kMiB, streams_[0], next), DeviceCode::ok);
  use(next + 15 * kMiB, 0);
  EXPECT_EQ(allocator_->free(next), DeviceCode::ok);
}

TEST_F(PlannedFrontTest, WhatItUnmappedIsNeitherKeptNorMappedBySuspension) {
  open(in_a_row(8, 2 * kMiB));
  const Address first = take(2 * kMiB);
  ASSERT_EQ(front_->unmap_idle(6 * kMiB), 6 * kMiB);
  const Bytes reserved = statistics().reserved_bytes.current;
  ASSERT_EQ(allocator_->suspend(CachingAllocator::Contents::keep), DeviceCode::ok);
  EXPECT_LE(allocator_->kept_bytes(), reserved);
  EXPECT_EQ(front_->unmap_idle(2 * kMiB), 0);
  front_->map_again();  // refused while there is no memory
  EXPECT_EQ(front_->unmapped_bytes(), 6 * kMiB);
  EXPECT_EQ(allocator_->validate(), "");
  ASSERT_EQ(allocator_->resume(), DeviceCode::ok);
  EXPECT_LE(statistics().reserved_bytes.current, reserved);
  use(first, 0);
  front_->map_again();
  EXPECT_EQ(front_->unmapped_bytes(), 0);
  give_back(first);
}

/// Whatever comes in whatever order: no byte has two owners or no memory, and the books are right.
TEST_F(PlannedFrontTest, RandomStepsWithIdleGranulesElsewhere) {
  constexpr Bytes kLimit = 40 * kMiB;
  std::int64_t given = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](std::uint32_t count) { return static_cast<Bytes>(random() % count); };
    std::vector<PlannedBlock> blocks;
    for (int i = 0; i < 24; ++i)
      blocks.push_back({.bytes = (1 + draw(8)) * 512 * kKiB, .offset = draw(40) * 512 * kKiB});
    allocator_->set_limit(kLimit);
    open(blocks);
    std::map<Address, std::pair<Bytes, bool>> live;  // by address: bytes, and whether the arena has them
    const auto add = [&](Address address, Bytes bytes, bool of_front) {
      const auto behind = live.lower_bound(address);
      ASSERT_TRUE(behind == live.end() || address + static_cast<Address>(bytes) <= behind->first);
      ASSERT_TRUE(behind == live.begin() ||
                  std::prev(behind)->first + static_cast<Address>(std::prev(behind)->second.first) <= address);
      live.emplace(address, std::pair{bytes, of_front});
      const Touch touch{.address = address, .bytes = bytes, .kind = AccessKind::write};
      ASSERT_EQ(device_->launch(streams_[0], {.estimate_ns = 1000, .touches = {&touch, 1}}), DeviceCode::ok);
    };
    const auto drop_one = [&] {
      const auto one = std::next(live.begin(), draw(static_cast<std::uint32_t>(live.size())));
      if (one->second.second) {
        ASSERT_EQ(front_->free(one->first, nullptr), DeviceCode::ok);
      } else {
        ASSERT_EQ(allocator_->free(one->first), DeviceCode::ok);
      }
      live.erase(one);
    };
    for (int i = 0; i < 400; ++i) {
      const Bytes bytes = (1 + draw(8)) * 512 * kKiB;
      const auto act = draw(8);
      if (act < 2) {
        if (const auto address = front_->allocate(bytes, streams_[0])) add(*address, bytes, true);
      } else if (act == 2) {
        if (const auto address = front_->allocate_anywhere(bytes, streams_[0])) add(*address, bytes, true);
      } else if (act == 3) {
        Address address = 0;
        if (allocator_->allocate(4 * bytes, streams_[0], address) == DeviceCode::ok) add(address, 4 * bytes, false);
      } else if (act == 4) {
        given += front_->unmap_idle(bytes);
      } else if (act == 5 && draw(4) == 0) {
        front_->map_again();
        front_->begin_step();
      } else if (act == 6 && draw(16) == 0) {
        ASSERT_EQ(allocator_->suspend(), DeviceCode::ok);
        ASSERT_EQ(allocator_->resume(), DeviceCode::ok);
      } else if (!live.empty()) {
        drop_one();
      }
      ASSERT_LE(statistics().reserved_bytes.current, kLimit);
      if (i % 20 == 0) {
        ASSERT_EQ(allocator_->validate(), "") << "seed " << seed;
      }
      if (HasFatalFailure()) return;
    }
    while (!live.empty()) drop_one();
    front_.reset();
  }
  EXPECT_GT(given, 100 * kMiB);
}

TEST_F(PlannedFrontTest, ThreadsShareIt) {
  std::vector<PlannedBlock> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back({.bytes = 64 * kKiB, .offset = i * 64 * kKiB});
  open(blocks);
  constexpr int kRequests = 5'000;
  std::mutex mutex;
  std::set<Address> live;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Address> mine;
    for (int i = 0; i < kRequests; ++i) {
      if (random() % 512 == 0) front_->begin_step();
      const auto address = random() % 4 == 0 ? front_->allocate_anywhere(64 * kKiB, streams_[0])
                                             : front_->allocate(64 * kKiB, streams_[0]);
      if (address) {
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(live.insert(*address).second) << "handed out twice";
        mine.push_back(*address);
      }
      while (!mine.empty() && (i == kRequests - 1 || random() % 2 == 0)) {
        std::swap(mine[random() % mine.size()], mine.back());
        {
          const std::lock_guard lock(mutex);
          live.erase(mine.back());
        }
        EXPECT_EQ(front_->free(mine.back(), nullptr), DeviceCode::ok);
        mine.pop_back();
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(front_->counts().served + front_->counts().guests, 1'000);
  EXPECT_TRUE(front_->is_empty());
}

}  // namespace
}  // namespace tidemark::allocator
