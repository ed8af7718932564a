// What a capture does not survive, what threads do to pools, and the limit that pools share: an allocator and its pools
// (integrations/c_api) on devices that watch. No GPU takes part.

#include "integrations/c_api/allocator_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/launch_queue_device.h"
#include "device/sim_device.h"
#include "tests/support/framework_queue.h"
#include "tests/support/stand_ins.h"

namespace tidemark::c_api {
namespace {

using namespace literals;

/// Counts the calls that would end a capture on one stream, or become part of it.
class WatchedDevice : public ForwardingDevice {
 public:
  explicit WatchedDevice(std::unique_ptr<Device> device) : ForwardingDevice(*device), device_(std::move(device)) {}
  DeviceCode record_event(EventHandle event, StreamHandle stream) override {
    harm_ += stream == captured_ ? 1 : 0;
    return ForwardingDevice::record_event(event, stream);
  }
  DeviceCode wait_event(StreamHandle stream, EventHandle event) override {
    harm_ += stream == captured_ ? 1 : 0;
    return ForwardingDevice::wait_event(stream, event);
  }
  DeviceCode synchronize_device() override {
    harm_ += captured_ == StreamHandle{} ? 0 : 1;
    return ForwardingDevice::synchronize_device();
  }
  DeviceCode unmap(Address at, Bytes bytes) override {
    unmapped_ += bytes;
    return ForwardingDevice::unmap(at, bytes);
  }
  DeviceCode remap(Address at, Address source, Bytes bytes) override {
    ++moved_;
    return ForwardingDevice::remap(at, source, bytes);
  }
  std::atomic<StreamHandle> captured_{};
  std::atomic<int> harm_{0}, moved_{0};
  std::atomic<Bytes> unmapped_{0};

 private:
  std::unique_ptr<Device> device_;
};

class AllocatorGroupTest : public testing::Test {
 protected:
  explicit AllocatorGroupTest(Bytes capacity = 64 * kMiB)
      : device_(std::make_shared<WatchedDevice>(make_sim_device({.capacity_bytes = capacity}))),
        group_(device_, {.growth_slack_bytes = 1}) {
    for (StreamHandle& stream : streams_)
      EXPECT_EQ(device_->create_stream(StreamRole::compute, stream), DeviceCode::ok);
  }
  void begin(std::size_t stream) {
    group_.begin_graph(kGraph, [captured = streams_[stream]](StreamHandle asked) { return asked == captured; });
    device_->captured_ = streams_[stream];
  }
  void end() {
    device_->captured_ = StreamHandle{};
    EXPECT_TRUE(group_.end_graph(kGraph).ok());
  }
  Address allocate(Bytes bytes, std::size_t stream) {
    Address address = 0;
    EXPECT_EQ(group_.allocate(bytes, streams_[stream], address, 0), DeviceCode::ok) << group_.error_text({});
    return address;
  }
  Bytes device_bytes() const {
    MemoryInfo memory;
    EXPECT_EQ(device_->memory_info(memory), DeviceCode::ok);
    return memory.total_bytes - memory.free_bytes;
  }
  static constexpr GraphId kGraph = {5, 0};

  std::shared_ptr<WatchedDevice> device_;
  AllocatorGroup group_;
  StreamHandle streams_[3] = {};
};

TEST_F(AllocatorGroupTest, NothingThatACaptureWouldNotSurviveIsDoneMeanwhile) {
  const Address used = allocate(4_MiB, 0);
  EXPECT_EQ(group_.note_use(used, streams_[1]), DeviceCode::ok);
  EXPECT_EQ(group_.free(used), DeviceCode::ok);
  begin(0);
  std::vector<Address> captured, eager;
  for (int round = 0; round < 4; ++round) {  // from cheap to dear, until memory runs out on both sides
    for (const Bytes bytes : {64_KiB, 3_MiB, 5_MiB}) {
      captured.push_back(allocate(bytes, 0));
      EXPECT_EQ(group_.note_use(captured.back(), streams_[1]), DeviceCode::ok);
      if (round % 2 != 1) continue;
      EXPECT_EQ(group_.free(captured[captured.size() - 2]), DeviceCode::ok);
    }
  }
  Address none = 0;
  for (const std::size_t stream : {0U, 1U, 2U}) {
    EXPECT_EQ(group_.allocate(200_MiB, streams_[stream], none, 0), DeviceCode::out_of_memory);
    Address address = 0;
    while (group_.allocate(7_MiB, streams_[stream], address, 0) == DeviceCode::ok) eager.push_back(address);
  }
  EXPECT_EQ(group_.empty_cache(), 0) << "for that the device is waited for";
  Bytes given = 0;
  ASSERT_TRUE(group_.create_pool("a", false).ok());
  EXPECT_NE(group_.suspend_pool("a", false, given).text.find("during a capture"), std::string::npos);
  EXPECT_EQ(device_->harm_, 0);
  end();
  for (const Address address : eager) EXPECT_EQ(group_.free(address), DeviceCode::ok);
  EXPECT_GT(group_.empty_cache(), 0);
  EXPECT_TRUE(group_.release_graph(kGraph).ok());
}

TEST_F(AllocatorGroupTest, ALogIsOfTheThreadThatEndsIt) {
  Address own = 0, others = 0;
  group_.begin_log();
  ASSERT_EQ(group_.allocate(kMiB, {}, own, 0), DeviceCode::ok);
  std::thread([&] { ASSERT_EQ(group_.allocate(2 * kMiB, {}, others, 0), DeviceCode::ok); }).join();
  std::thread([&] { ASSERT_EQ(group_.free(own, nullptr), DeviceCode::ok); }).join();
  const auto events = group_.end_log();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].address, own);
  EXPECT_EQ(events[0].bytes, kMiB);
  EXPECT_EQ(events[1].address, own);
  EXPECT_EQ(events[1].bytes, 0);
  EXPECT_EQ(group_.free(others, nullptr), DeviceCode::ok);
}

TEST_F(AllocatorGroupTest, TheMemoryOfAGraphStaysWhereItIs) {
  begin(0);
  std::vector<Address> temporaries;
  for (const Bytes bytes : {2_MiB, 6_MiB, 3_MiB, 8_MiB}) temporaries.push_back(allocate(bytes, 0));
  for (const Address address : temporaries) EXPECT_EQ(group_.free(address), DeviceCode::ok);
  end();
  begin(0);  // another graph of the pool, whose blocks fit nowhere without moving idle granules
  const Address larger = allocate(17_MiB, 0);
  end();
  EXPECT_EQ(group_.free(larger), DeviceCode::ok);
  Address none = 0;
  EXPECT_EQ(group_.allocate(60_MiB, streams_[1], none, 0), DeviceCode::out_of_memory);
  (void)group_.empty_cache();
  EXPECT_EQ(device_->moved_, 0);
  EXPECT_EQ(device_->unmapped_, 0);
  EXPECT_TRUE(group_.release_graph(kGraph).ok());
  EXPECT_TRUE(group_.release_graph(kGraph).ok());
  EXPECT_GE(device_->unmapped_, 19_MiB) << "once the graphs are gone";
  EXPECT_EQ(group_.statistics().reserved_bytes.current, 0);
}

TEST_F(AllocatorGroupTest, AGraphThatGoesDuringACaptureIsGivenBackAfterwards) {
  begin(0);
  EXPECT_EQ(group_.free(allocate(4_MiB, 0)), DeviceCode::ok);
  end();
  group_.begin_graph({6, 0}, [](StreamHandle) { return false; });
  device_->captured_ = streams_[2];
  EXPECT_TRUE(group_.release_graph(kGraph).ok());
  EXPECT_EQ(device_->harm_, 0);
  device_->captured_ = StreamHandle{};
  EXPECT_TRUE(group_.end_graph({6, 0}).ok());
  EXPECT_EQ(group_.statistics().reserved_bytes.current, 0);
  EXPECT_TRUE(group_.release_graph({6, 0}).ok());
}

TEST_F(AllocatorGroupTest, OneLimitHoldsForAll) {
  group_.set_limit(32_MiB);
  ASSERT_TRUE(group_.create_pool("a", false).ok());
  Address in_pool = 0, other = 0;
  ASSERT_TRUE(group_.allocate_in("a", 20_MiB, streams_[0], in_pool, 0).ok());
  EXPECT_EQ(group_.allocate(20_MiB, streams_[0], other, 0), DeviceCode::out_of_memory);
  EXPECT_NE(group_.error_text(DeviceCode::out_of_memory).find("Pools beside it hold: 'a' 20.00 MiB"),
            std::string::npos);
  EXPECT_EQ(group_.free(in_pool), DeviceCode::ok);
  EXPECT_EQ(group_.allocate(20_MiB, streams_[0], other, 0), DeviceCode::ok) << "what the pool holds idle goes first";
  EXPECT_EQ(group_.free(other), DeviceCode::ok);
}

/// The plan's four blocks of 4 MiB lie one behind the other.
TEST_F(AllocatorGroupTest, IdleGranulesOfAnArenaServeUntilTheNextStep) {
  std::vector<allocator::PlannedBlock> blocks;
  for (Bytes i = 0; i < 4; ++i) blocks.push_back({.bytes = 4 * kMiB, .offset = i * 4 * kMiB});
  std::shared_ptr<allocator::PlannedFront> front;
  ASSERT_EQ(group_.begin_planned(blocks, streams_[0], front), DeviceCode::ok);
  group_.set_limit(group_.statistics().reserved_bytes.current);
  const auto step = [&] {
    group_.begin_planned_step(*front, {});
    const std::int64_t before = front->counts().served;
    std::vector<Address> taken;
    for (int i = 0; i < 3; ++i) taken.push_back(allocate(4 * kMiB, 0));
    EXPECT_EQ(front->counts().served, before + 3);
    return taken;
  };
  const auto give_back = [&](const std::vector<Address>& taken) {
    for (const Address address : taken) EXPECT_EQ(group_.free(address), DeviceCode::ok);
  };
  const std::vector<Address> first = step();
  const Address beside = allocate(5 * kMiB, 1);  // another stream's, which the arena does not serve
  EXPECT_EQ(front->unmapped_bytes(), 4 * kMiB);
  give_back(first);
  Address never = 0;
  EXPECT_EQ(group_.allocate(Bytes{1} << 40, streams_[1], never, 0), DeviceCode::out_of_memory);
  EXPECT_EQ(front->unmapped_bytes(), 4 * kMiB) << "what did not help is back";
  give_back(step());
  EXPECT_EQ(group_.free(beside, nullptr), DeviceCode::ok);
  give_back(step());
  EXPECT_EQ(front->unmapped_bytes(), 0);
  group_.end_planned(*front);
}

TEST_F(AllocatorGroupTest, WhatAnArenaHoldsForABusyStreamIsWaitedForByAnother) {
  std::shared_ptr<allocator::PlannedFront> front;
  const allocator::PlannedBlock blocks[] = {{.bytes = 8 * kMiB, .offset = 0}, {.bytes = 8 * kMiB, .offset = 8 * kMiB}};
  ASSERT_EQ(group_.begin_planned(blocks, streams_[0], front), DeviceCode::ok);
  group_.set_limit(group_.statistics().reserved_bytes.current);
  group_.begin_planned_step(*front, {});
  for (int i = 0; i < 2; ++i) {
    const Address address = allocate(8 * kMiB, 0);
    const Touch touch{.address = address, .bytes = kMiB, .kind = AccessKind::write};
    ASSERT_EQ(device_->launch(streams_[1], {.estimate_ns = 1'000'000'000, .touches = {&touch, 1}}), DeviceCode::ok);
    ASSERT_EQ(group_.note_use(address, streams_[1]), DeviceCode::ok);
    ASSERT_EQ(group_.free(address), DeviceCode::ok);
  }
  const Address beside = allocate(12 * kMiB, 1);
  EXPECT_GT(front->unmapped_bytes(), 0);
  EXPECT_EQ(group_.free(beside), DeviceCode::ok);
  group_.end_planned(*front);
}

/// Steps begin on one thread while others take the arena's idle granules, some of them in vain.
TEST_F(AllocatorGroupTest, ThreadsTakeIdleGranulesOfAnArenaWhileItsStepsBegin) {
  std::shared_ptr<allocator::PlannedFront> front;
  std::vector<allocator::PlannedBlock> blocks;
  for (Bytes i = 0; i < 4; ++i) blocks.push_back({.bytes = 4 * kMiB, .offset = i * 4 * kMiB});
  ASSERT_EQ(group_.begin_planned(blocks, streams_[0], front), DeviceCode::ok);
  group_.set_limit(group_.statistics().reserved_bytes.current + 4 * kMiB);
  std::atomic<int> served{0};
  const auto take_and_free = [&](std::size_t stream, Bytes bytes) {
    Address address = 0;
    const DeviceCode code = group_.allocate(bytes, streams_[stream], address, 0);
    EXPECT_TRUE(code == DeviceCode::ok || code == DeviceCode::out_of_memory);
    if (code != DeviceCode::ok) return;
    ++served;
    EXPECT_EQ(group_.free(address), DeviceCode::ok);
  };
  std::vector<std::thread> threads;
  for (std::size_t stream = 1; stream < 3; ++stream)
    threads.emplace_back([&, stream] {
      for (int i = 0; i < 100; ++i) take_and_free(stream, (i % 8 == 0 ? 30 : 2 + 2 * (i % 4)) * kMiB);
    });
  for (int i = 0; i < 100; ++i) {
    group_.begin_planned_step(*front, {});
    for (int k = 0; k < 4; ++k) take_and_free(0, 4 * kMiB);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(served, 100);
  group_.begin_planned_step(*front, {});
  EXPECT_EQ(front->unmapped_bytes(), 0) << "nothing else is live";
  EXPECT_EQ(group_.main().validate(), "");
  group_.end_planned(*front);
}

TEST_F(AllocatorGroupTest, ThreadsAllocateWhilePoolsComeAndGo) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      Address address = 0;
      while (!stop) {
        bool taken = group_.allocate(64_KiB, streams_[i], address, 0) == DeviceCode::ok;
        EXPECT_TRUE(!taken || group_.free(address) == DeviceCode::ok);
        taken = group_.allocate_in("a", 3_MiB, streams_[i], address, 0).ok();
        EXPECT_TRUE(!taken || group_.free(address) == DeviceCode::ok);
      }
    });
  }
  Bytes given = 0;
  for (int round = 0; round < 100; ++round) {
    EXPECT_TRUE(group_.create_pool("a", false).ok());
    group_.begin_graph(kGraph, [this](StreamHandle stream) { return stream == streams_[0]; });
    std::this_thread::yield();
    EXPECT_TRUE(group_.end_graph(kGraph).ok());
    EXPECT_TRUE(group_.release_graph(kGraph).ok());
    EXPECT_TRUE(group_.suspend_pool("a", round % 2 == 0, given).ok());
    EXPECT_TRUE(group_.resume_pool("a").ok());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(group_.statistics().allocated_bytes.current, 0);
  EXPECT_TRUE(group_.destroy_pool("a").ok());
}

/// Against a number: what is taken, and whether the next would exceed the limit of that moment.
TEST(SharedBudget, TakesWhatTheLimitLeavesAndNoMore) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    SharedBudget budget;
    Bytes limit = 0, taken = 0;  // 0: no limit
    std::vector<Bytes> parts;
    for (int step = 0; step < 2'000; ++step) {
      const auto bytes = static_cast<Bytes>(random() % 1'000);
      if (random() % 50 == 0) {
        limit = random() % 4 == 0 ? 0 : static_cast<Bytes>(random() % 20'000);  // also below what is taken
        budget.set_limit(limit);
      } else if (random() % 5 < 3) {
        const bool fits = limit == 0 || taken + bytes <= limit;
        ASSERT_EQ(budget.take(bytes), fits) << bytes << " on top of " << taken << " of " << limit << ", seed " << seed;
        if (fits) parts.push_back(bytes);
        taken += fits ? bytes : 0;
      } else if (!parts.empty()) {
        std::swap(parts[random() % parts.size()], parts.back());
        budget.give(parts.back());
        taken -= parts.back();
        parts.pop_back();
      }
    }
    for (const Bytes part : parts) budget.give(part);
    budget.set_limit(12'345);
    EXPECT_FALSE(budget.take(12'346));
    EXPECT_TRUE(budget.take(12'345)) << "all of it came back";
  }
}

/// `held` is never more than what is taken: it grows behind every take and shrinks before every give.
TEST(SharedBudget, ThreadsTogetherNeverTakeMoreThanTheLimit) {
  constexpr Bytes kLimit = 5'000;
  SharedBudget budget;
  budget.set_limit(kLimit);
  std::atomic<Bytes> held{0}, most{0};
  std::atomic<int> to_start{4};
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      std::vector<Bytes> parts;
      --to_start;
      while (to_start > 0) std::this_thread::yield();
      for (int step = 0; step < 300'000; ++step) {
        const auto bytes = static_cast<Bytes>(1 + random() % 1'000);
        if (random() % 2 == 0 && budget.take(bytes)) {
          const Bytes now = held += bytes;
          for (Bytes so_far = most; now > so_far && !most.compare_exchange_weak(so_far, now);) continue;
          parts.push_back(bytes);
        } else if (!parts.empty()) {
          held -= parts.back();
          budget.give(parts.back());
          parts.pop_back();
        }
      }
      for (const Bytes part : parts) {
        held -= part;
        budget.give(part);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, kLimit);
  EXPECT_GT(most, kLimit / 2) << "it was never near the limit";
  EXPECT_EQ(held, 0);
  EXPECT_TRUE(budget.take(kLimit)) << "all of it came back";
  EXPECT_FALSE(budget.take(1));
}

/// The budget and the device agree at every step, whichever pool a block is from and however its memory came to be.
TEST_F(AllocatorGroupTest, RandomProgramsStayBelowTheLimitAndGiveAllOfItBack) {
  constexpr Bytes kLimit = 40_MiB;
  group_.set_limit(kLimit);
  const std::vector<std::string> tags = {"a", "b", "plain"};
  for (const std::string& tag : tags) ASSERT_TRUE(group_.create_pool(tag, tag == "plain").ok());
  std::mt19937_64 random(3);
  std::vector<Address> blocks;
  int refusals = 0;
  for (int step = 0; step < 2'000; ++step) {
    const StreamHandle stream = streams_[random() % 3];
    const auto bytes = static_cast<Bytes>(1 + random() % (random() % 4 == 0 ? 6'000'000U : 60'000U));
    const std::string& tag = tags[random() % 3];
    Address made = 0;
    Bytes given = 0;
    const std::uint64_t choice = random() % 100;
    if (choice < 30) {
      if (group_.allocate(bytes, stream, made, 0) != DeviceCode::ok) made = 0;
    } else if (choice < 50) {
      if (!group_.allocate_in(tag, bytes, stream, made, 0).ok()) made = 0;
    } else if (choice < 90) {
      if (blocks.empty()) continue;
      std::swap(blocks[random() % blocks.size()], blocks.back());
      ASSERT_EQ(group_.free(blocks.back()), DeviceCode::ok);
      blocks.pop_back();
    } else if (choice < 94) {
      (void)group_.suspend_pool(tag, false, given);
    } else if (choice < 98) {
      (void)group_.resume_pool(tag);
    } else {
      (void)group_.empty_cache();
    }
    if (made != 0) blocks.push_back(made);
    refusals += choice < 50 && made == 0 ? 1 : 0;
    ASSERT_EQ(device_bytes(), group_.statistics().reserved_bytes.current) << step;
    ASSERT_LE(device_bytes(), kLimit) << step;
  }
  EXPECT_GT(refusals, 0) << "the limit was never reached";
  group_.set_limit(4 * kLimit);  // a suspended pool's share may be in use elsewhere
  for (const std::string& tag : tags) EXPECT_TRUE(group_.resume_pool(tag).ok());
  group_.set_limit(kLimit);
  for (const Address address : blocks) EXPECT_EQ(group_.free(address), DeviceCode::ok);
  (void)group_.empty_cache();
  EXPECT_EQ(device_bytes(), 0);
  EXPECT_EQ(group_.free(allocate(kLimit, 0)), DeviceCode::ok) << "no byte of the budget was lost";
}

/// What is free is less than the device has, for a reason.
class LimitedDevice : public ForwardingDevice {
 public:
  explicit LimitedDevice(std::unique_ptr<Device> device) : ForwardingDevice(*device), device_(std::move(device)) {}
  DeviceCode memory_info(MemoryInfo& info) override {
    const DeviceCode code = ForwardingDevice::memory_info(info);
    info.free_bytes = 1_MiB;
    info.limit = "limit of memory group /sys/fs/cgroup/job";
    return code;
  }

 private:
  std::unique_ptr<Device> device_;
};

struct Refusals {
  std::vector<Bytes> bytes;
  std::vector<std::string> texts;
  AllocatorGroup::Refused listen() {
    return [this](Bytes asked, const std::string& text) {
      bytes.push_back(asked);
      texts.push_back(text);
      throw std::runtime_error("dropped");
    };
  }
};

TEST(AllocatorGroupRefusals, AreToldOnceAndOnlyWhenNoPoolCanHelp) {
  Refusals refusals;
  AllocatorGroup group(make_sim_device({.capacity_bytes = 64_MiB}), {}, refusals.listen());
  ASSERT_TRUE(group.create_pool("a", false).ok());
  Address held = 0, address = 0;
  ASSERT_TRUE(group.allocate_in("a", 40_MiB, {}, held, 0).ok());
  EXPECT_EQ(group.allocate(40_MiB, {}, address, 0), DeviceCode::out_of_memory);
  ASSERT_EQ(refusals.bytes, std::vector<Bytes>{40_MiB});
  EXPECT_EQ(refusals.texts.front(), group.error_text(DeviceCode::out_of_memory)) << "one text for both";
  EXPECT_NE(refusals.texts.front().find("Pools beside it hold: 'a' 40.00 MiB"), std::string::npos);
  ASSERT_EQ(group.free(held), DeviceCode::ok);
  EXPECT_EQ(group.allocate(40_MiB, {}, address, 0), DeviceCode::ok) << "what the pool held idle";
  EXPECT_EQ(refusals.bytes.size(), 1U) << "nothing was refused";
  const Outcome refused = group.allocate_in("a", 41_MiB, {}, held, 0);
  EXPECT_EQ(refused.status, TIDEMARK_STATUS_OUT_OF_MEMORY);
  ASSERT_EQ(refusals.bytes, (std::vector<Bytes>{40_MiB, 41_MiB}));
  EXPECT_EQ(refusals.texts.back(), refused.text);
  ASSERT_EQ(group.free(address), DeviceCode::ok);
  EXPECT_TRUE(group.allocate_in("a", 41_MiB, {}, held, 0).ok());
  EXPECT_EQ(refusals.bytes.size(), 2U);
}

TEST(AllocatorGroupRefusals, NameTheLimitThatTheDeviceIsUnder) {
  Refusals refusals;
  AllocatorGroup group(std::make_shared<LimitedDevice>(make_sim_device({.capacity_bytes = 64_MiB})), {},
                       refusals.listen());
  Address address = 0;
  EXPECT_EQ(group.allocate(80_MiB, {}, address, 0), DeviceCode::out_of_memory);
  ASSERT_EQ(refusals.texts.size(), 1U);
  EXPECT_NE(refusals.texts.front().find("of which 1.00 MiB free"), std::string::npos) << refusals.texts.front();
  EXPECT_NE(refusals.texts.front().find("What is free is the limit of memory group /sys/fs/cgroup/job."),
            std::string::npos)
      << refusals.texts.front();
}

TEST_F(AllocatorGroupTest, ASuspendedPoolSaysWhatBringsItBack) {
  ASSERT_TRUE(group_.create_pool("a", false).ok());
  Bytes given = 0;
  Address address = 0;
  ASSERT_TRUE(group_.suspend_pool("a", false, given).ok());
  const Outcome refused = group_.allocate_in("a", 1_MiB, streams_[0], address, 0);
  EXPECT_EQ(refused.status, TIDEMARK_STATUS_INVALID);
  EXPECT_NE(refused.text.find("pool 'a' is suspended"), std::string::npos) << refused.text;
  EXPECT_NE(refused.text.find("tidemark_pool_resume (tidemark.restore)"), std::string::npos) << refused.text;
}

TEST(AllocatorGroupOnCudaStandIn, ACaptureSurvivesWhatTheAllocatorDoes) {
  const StandInControls controls(TIDEMARK_CUDA_STAND_IN);
  controls.reset();
  controls.set("capacity_bytes", 64_MiB);
  {
    auto opened = open_cuda_device(cuda_stand_in_options());
    ASSERT_TRUE(opened.ok());
    AllocatorGroup group(std::shared_ptr<Device>(std::move(opened).value()), {});
    StreamHandle captured{}, eager{};
    ASSERT_EQ(group.device().create_stream(StreamRole::compute, captured), DeviceCode::ok);
    ASSERT_EQ(group.device().create_stream(StreamRole::compute, eager), DeviceCode::ok);
    group.begin_graph({1, 0}, [captured](StreamHandle stream) { return stream == captured; });
    controls.set("capturing", 1);
    for (const StreamHandle stream : {captured, eager}) {
      Address address = 0, plain = 0;
      EXPECT_EQ(group.allocate_plain(1_MiB, stream, plain, 0), DeviceCode::ok);
      std::vector<Address> blocks;
      while (group.allocate(5_MiB, stream, address, 0) == DeviceCode::ok) blocks.push_back(address);
      for (const Address block : blocks) EXPECT_EQ(group.free(block), DeviceCode::ok);
      EXPECT_EQ(group.free(plain), DeviceCode::ok);
    }
    EXPECT_EQ(controls.get("violations"), 0);
    controls.set("capturing", 0);
    EXPECT_TRUE(group.end_graph({1, 0}).ok());
    EXPECT_TRUE(group.release_graph({1, 0}).ok());
  }
  EXPECT_EQ(controls.get("violations"), 0);
  EXPECT_EQ(controls.get("device_bytes"), 0);
  controls.reset();
}

/// Whoever waits for an event waits for what the framework has yet to submit, as for the other end of a message.
class EventsBehindAQueue final : public ForwardingDevice {
 public:
  EventsBehindAQueue(std::unique_ptr<Device> device, FrameworkQueue& queue)
      : ForwardingDevice(*device), device_(std::move(device)), queue_(queue) {}
  DeviceCode synchronize_event(EventHandle event, std::int64_t timeout_ns) override {
    std::string why;
    const DeviceCode code = queue_.submit(why);
    return code == DeviceCode::ok ? ForwardingDevice::synchronize_event(event, timeout_ns) : code;
  }

 private:
  std::unique_ptr<Device> device_;
  FrameworkQueue& queue_;
};

/// Whenever the framework's thread is waited for it allocates and frees, while the group is logged: every call of it
/// takes the group's lock alone.
class AllocatorGroupBelowALaunchQueue : public testing::Test {
 protected:
  AllocatorGroupBelowALaunchQueue() {
    std::unique_ptr<Device> sim = make_sim_device({.capacity_bytes = 64 * kMiB});
    for (StreamHandle& stream : streams_)  // the framework's: not created through the launch queue
      EXPECT_EQ(sim->create_stream(StreamRole::compute, stream), DeviceCode::ok);
    device_ = make_launch_queue_device(std::make_unique<EventsBehindAQueue>(std::move(sim), queue_),
                                       [this](std::string& why) { return queue_.submit(why); });
    group_ = std::make_unique<AllocatorGroup>(device_, allocator::AllocatorOptions{.limit_bytes = 16 * kMiB});
    EXPECT_EQ(group_->begin_planned(kTwo, streams_[0], front_), DeviceCode::ok);
    group_->begin_log();
    queue_.before_submit = [this] {
      queue_.call([this] {
        Address address = 0;
        const DeviceCode code = group_->allocate(512, streams_[1], address, 0);
        EXPECT_TRUE(code == DeviceCode::ok || is_recoverable(code));
        if (code == DeviceCode::ok) give_back(address);
      });
    };
  }
  ~AllocatorGroupBelowALaunchQueue() override {
    queue_.before_submit = nullptr;
    EXPECT_GT(queue_.waits(), 0);
    EXPECT_EQ(queue_.stuck(), 0) << "the device waited for the framework's thread, which waited for the group";
    if (front_ != nullptr) group_->end_planned(*front_);
    front_.reset();
    group_.reset();
  }
  Address take_shared() {
    Address address = 0;
    EXPECT_EQ(group_->allocate(kMiB, streams_[0], address, 0), DeviceCode::ok);
    EXPECT_TRUE(front_->covers(address));
    EXPECT_EQ(group_->note_use(address, streams_[1]), DeviceCode::ok);
    return address;
  }
  void give_back(Address address) { EXPECT_EQ(group_->free(address), DeviceCode::ok); }
  /// It may not wait for itself, so that the block is left without an event.
  void give_back_in_the_frameworks_thread(Address address) {
    std::atomic<bool> is_done{false};
    queue_.call([&] {
      give_back(address);
      is_done = true;
    });
    while (!is_done) std::this_thread::yield();
    EXPECT_TRUE(front_->has_unwatched());
  }

  static inline const std::vector<allocator::PlannedBlock> kTwo = {{.bytes = kMiB, .offset = 0},
                                                                   {.bytes = kMiB, .offset = kMiB}};
  FrameworkQueue queue_;
  std::shared_ptr<Device> device_;
  StreamHandle streams_[2] = {};
  std::unique_ptr<AllocatorGroup> group_;
  std::shared_ptr<allocator::PlannedFront> front_;
};

TEST_F(AllocatorGroupBelowALaunchQueue, AFreeRecordsWithoutTheGroupsLock) {
  give_back(take_shared());
}

TEST_F(AllocatorGroupBelowALaunchQueue, AnAllocationRecordsWithoutTheGroupsLock) {
  give_back_in_the_frameworks_thread(take_shared());
  give_back(take_shared());
  EXPECT_FALSE(front_->has_unwatched());
}

TEST_F(AllocatorGroupBelowALaunchQueue, AnArenaThatEndsRecordsWithoutTheGroupsLock) {
  give_back_in_the_frameworks_thread(take_shared());
  group_->end_planned(*front_);
  front_.reset();
  ASSERT_EQ(group_->begin_planned(kTwo, streams_[0], front_), DeviceCode::ok);
  give_back(take_shared());
}

TEST_F(AllocatorGroupBelowALaunchQueue, AGuestIsWaitedForWithoutTheGroupsLock) {
  Address rest = 0;
  EXPECT_EQ(group_->allocate(12 * kMiB, streams_[0], rest, 0), DeviceCode::ok);
  EXPECT_FALSE(front_->covers(rest));
  const Address a = take_shared();
  EXPECT_EQ(device_->launch(streams_[1], {.estimate_ns = 1'000'000}), DeviceCode::ok);
  give_back(a);
  Address guest = 0;
  EXPECT_EQ(group_->allocate(2 * kMiB, streams_[0], guest, 0), DeviceCode::ok);
  EXPECT_TRUE(front_->covers(guest));
  give_back(guest);
  give_back(rest);
}

}  // namespace
}  // namespace tidemark::c_api
