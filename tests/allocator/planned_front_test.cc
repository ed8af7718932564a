// The planned arena in front of the caching allocator: one memory, one set of figures, no block to two owners.

#include "allocator/planned_front.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
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
    EXPECT_EQ(device_->race_count(), 0);
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
