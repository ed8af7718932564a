#include "allocator/pinned_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "device/host_device.h"
#include "device/sim_device.h"
#include "tests/support/host_memory.h"
#include "tests/support/soak.h"

namespace tidemark::allocator {
namespace {

using namespace literals;

/// Chunks inside allocate(): the same on every run.
PinnedPoolOptions in_turn(Bytes bound, Bytes chunk) {
  return {.bound_bytes = bound, .chunk_bytes = chunk, .background = false};
}

TEST(PinnedPool, BlocksCostTheirSizeNotTheNextPowerOfTwo) {
  // Sizes of pinned buffers that were reported to double: 129.5 MiB, 20.4 GiB split in pieces, and the like.
  const auto device = make_sim_device({.capacity_bytes = 1_GiB});
  for (const Bytes size : {129_MiB + 512_KiB, 1_GiB + 283_MiB, 67_MiB + 1, 5_MiB + 777, 1_MiB + 1, 640_KiB}) {
    PinnedPool pool(*device, in_turn(16_GiB, 4_GiB));
    const Bytes count = 8_GiB / size;
    for (Bytes i = 0; i < count; ++i) ASSERT_EQ(pool.allocate(size).outcome, PinnedOutcome::ok);
    const PinnedPoolStatistics used = pool.statistics();
    EXPECT_EQ(used.requested_bytes, count * size);
    EXPECT_LT(used.used_bytes - used.requested_bytes, used.requested_bytes / 100) << size;
    // And as many as there is room for: no hole of a whole block is left in a chunk.
    Bytes more = 0;
    while (pool.allocate(size).outcome == PinnedOutcome::ok) ++more;
    EXPECT_GE(count + more, 4 * (4_GiB / round_up(size, 4_KiB))) << size;
    EXPECT_LE(pool.statistics().held_bytes, 16_GiB);
  }
}

TEST(PinnedPool, BlocksDoNotOverlapAndComeBackWhole) {
  const auto device = make_sim_device({.capacity_bytes = 1_GiB});
  PinnedPool pool(*device, in_turn(64_MiB, 16_MiB));
  std::mt19937 random(5);
  std::map<Address, PinnedBlock> live;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0 || live.empty()) {
      const Bytes bytes = 1 + static_cast<Bytes>(random() % 3'000'000);
      const PinnedAllocation made = pool.allocate(bytes);
      if (made.outcome != PinnedOutcome::ok) continue;
      ASSERT_EQ(made.block.bytes, bytes);
      const auto next = live.lower_bound(made.block.address);
      const Address end = made.block.address + static_cast<Address>(bytes);
      ASSERT_TRUE(next == live.end() || next->first >= end);
      ASSERT_TRUE(next == live.begin() ||
                  std::prev(next)->first + static_cast<Address>(std::prev(next)->second.bytes) <= made.block.address);
      live.emplace(made.block.address, made.block);
    } else {
      const auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      pool.free(victim->second);
      live.erase(victim);
    }
  }
  for (const auto& [address, block] : live) pool.free(block);
  const PinnedPoolStatistics end = pool.statistics();
  EXPECT_EQ(end.used_bytes, 0);
  EXPECT_EQ(end.requested_bytes, 0);
  EXPECT_EQ(end.live_blocks, 0);
  EXPECT_EQ(end.largest_free_bytes, 16_MiB);
  EXPECT_LE(end.held_bytes, 64_MiB);
}

TEST(PinnedPool, ABlockAboveTheChunkSizeGetsAChunkOfItsOwnThatServesOthersLater) {
  const auto device = make_sim_device({.capacity_bytes = 1_GiB});
  PinnedPool pool(*device, {.bound_bytes = 40_MiB, .initial_bytes = 0, .chunk_bytes = 8_MiB, .background = false});
  const PinnedAllocation large = pool.allocate(30_MiB + 1);
  ASSERT_EQ(large.outcome, PinnedOutcome::ok);
  EXPECT_EQ(pool.statistics().held_bytes, 30_MiB + 4_KiB);
  pool.free(large.block);
  EXPECT_EQ(pool.allocate(20_MiB).outcome, PinnedOutcome::ok);
  EXPECT_EQ(pool.statistics().chunks, 1);
}

TEST(PinnedPool, FreeChunksMakeWayForALargerBlockWithinTheBound) {
  const auto device = make_sim_device({.capacity_bytes = 1_GiB});
  PinnedPool pool(*device, in_turn(40_MiB, 8_MiB));
  pool.wait_until_built();
  EXPECT_EQ(pool.statistics().chunks, 5);
  const PinnedAllocation small = pool.allocate(1_MiB);
  ASSERT_EQ(pool.allocate(30_MiB).outcome, PinnedOutcome::ok);
  EXPECT_LE(device->statistics().peak_pinned_bytes, 40_MiB) << "never more than the bound, in between neither";
  EXPECT_EQ(pool.allocate(10_MiB).outcome, PinnedOutcome::exhausted);
  pool.free(small.block);
}

TEST(PinnedPool, WhatCanNeverBeServedIsSaidSo) {
  const auto device = open_host({.capacity_bytes = 4_MiB, .largest_pinned_bytes = 8_MiB});
  PinnedPool pool(*device, in_turn(20_MiB, 16_MiB));
  const PinnedAllocation too_large = pool.allocate(20_MiB + 1);
  EXPECT_EQ(too_large.outcome, PinnedOutcome::exhausted);
  EXPECT_FALSE(too_large.ever);
  const PinnedAllocation not_in_one_piece = pool.allocate(8_MiB + 1);
  EXPECT_EQ(not_in_one_piece.outcome, PinnedOutcome::exhausted);
  EXPECT_FALSE(not_in_one_piece.ever);
  const PinnedAllocation one = pool.allocate(8_MiB), two = pool.allocate(8_MiB);
  ASSERT_EQ(one.outcome, PinnedOutcome::ok);
  ASSERT_EQ(two.outcome, PinnedOutcome::ok);
  const PinnedAllocation full = pool.allocate(5_MiB);
  EXPECT_EQ(full.outcome, PinnedOutcome::exhausted);
  EXPECT_TRUE(full.ever);
  EXPECT_GE(full.missing_bytes, 1_MiB);
  EXPECT_LE(full.missing_bytes, 5_MiB);
}

/// A transfer engine in small: buffers go out and come back over random streams, freed behind their last copy.
void swap_around(SimDevice& device, PinnedPool& pool, std::uint64_t seed, bool broken) {
  std::mt19937_64 random(seed);
  const auto ok = [](DeviceCode code) { ASSERT_EQ(code, DeviceCode::ok); };
  constexpr Bytes kBytes = 256_KiB;
  std::array<StreamHandle, 3> streams{};
  for (StreamHandle& stream : streams) ok(device.create_stream(StreamRole::d2h, stream));
  std::array<Address, 6> blocks{};
  for (Address& block : blocks) ok(device.allocate_plain(kBytes, block));
  for (std::size_t step = 0; step < 40; ++step) {
    const Address block = blocks[step % blocks.size()];
    const StreamHandle stream = streams[step % blocks.size() % streams.size()];  // one stream a block: ordered
    const Bytes bytes = 1 + static_cast<Bytes>(random() % kBytes);
    PinnedAllocation host = pool.allocate(bytes);
    while (host.outcome == PinnedOutcome::wait_block) {
      ok(pool.wait_for_block(host));
      host = pool.allocate(bytes);
    }
    ASSERT_EQ(host.outcome, PinnedOutcome::ok);
    ok(device.copy(stream, host.block.address, block, bytes, CopyKind::device_to_host));
    ok(device.copy(stream, block, host.block.address, bytes, CopyKind::host_to_device));
    if (broken) {
      pool.free(host.block);
    } else {
      ok(pool.free_after(host.block, stream));
    }
  }
  ok(device.synchronize_device());
  for (const StreamHandle stream : streams) ok(device.destroy_stream(stream));
  for (const Address block : blocks) ok(device.free_plain(block));
}

TEST(PinnedPool, NoBlockIsRecycledUnderACopyInAThousandSchedules) {
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const auto device = make_sim_device({.capacity_bytes = 64_MiB}, {.seed = seed});
    {
      PinnedPool pool(*device, in_turn(1_MiB, 512_KiB));
      swap_around(*device, pool, seed, false);
    }
    ASSERT_EQ(device->race_count(), 0) << "seed " << seed << ": " << to_string(device->races().front());
    ASSERT_EQ(device->leaks(), "") << "seed " << seed;
  }
}

TEST(PinnedPool, FreedAtOnceTheRaceCheckerSeesTheRecycling) {
  std::int64_t caught = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto device = make_sim_device({.capacity_bytes = 64_MiB}, {.seed = seed});
    PinnedPool pool(*device, in_turn(1_MiB, 512_KiB));
    swap_around(*device, pool, seed, true);
    caught += device->race_count() > 0;
  }
  EXPECT_EQ(caught, 20);
}

/// As swap_around(), by a caller that takes every refusal as it comes.
void swap_through_faults(SimDevice& device, PinnedPool& pool, StreamHandle stream, Address block) {
  for (int step = 0; step < 12; ++step) {
    const PinnedAllocation host = pool.allocate(200_KiB);
    if (host.outcome == PinnedOutcome::wait_block) {
      static_cast<void>(pool.wait_for_block(host));
      pool.reclaim();
    }
    if (host.outcome != PinnedOutcome::ok) continue;
    static_cast<void>(device.copy(stream, host.block.address, block, 200_KiB, CopyKind::device_to_host));
    if (pool.free_after(host.block, stream) == DeviceCode::ok) continue;
    while (device.synchronize_stream(stream) != DeviceCode::ok) {
    }
    pool.free(host.block);
  }
}

TEST(PinnedPool, NothingStaysBehindWhicheverCallFails) {
  for (const FaultPoint point : {FaultPoint::allocate_pinned, FaultPoint::create_event, FaultPoint::record_event,
                                 FaultPoint::copy, FaultPoint::synchronize}) {
    for (std::int64_t call = 1; call <= 8; ++call) {
      const DeviceCode code = point == FaultPoint::copy          ? DeviceCode::copy_failed
                              : point == FaultPoint::synchronize ? DeviceCode::not_ready
                                                                 : DeviceCode::out_of_memory;
      const auto device = make_sim_device({.faults = {{.point = point, .first_call = call, .code = code}}});
      StreamHandle stream{};
      Address block = 0;
      ASSERT_EQ(device->create_stream(StreamRole::d2h, stream), DeviceCode::ok);
      ASSERT_EQ(device->allocate_plain(1_MiB, block), DeviceCode::ok);
      {
        PinnedPool pool(*device, in_turn(1_MiB, 512_KiB));
        swap_through_faults(*device, pool, stream, block);
        device->set_faults({});
        const PinnedPoolStatistics now = pool.statistics();
        EXPECT_EQ(now.live_blocks, 0);
        EXPECT_EQ(now.used_bytes, 0);
        EXPECT_LE(now.held_bytes, now.bound_bytes);
        EXPECT_EQ(device->statistics().pinned_bytes, now.held_bytes);
      }
      EXPECT_EQ(device->destroy_stream(stream), DeviceCode::ok);
      EXPECT_EQ(device->free_plain(block), DeviceCode::ok);
      EXPECT_EQ(device->leaks(), "") << "point " << static_cast<int>(point) << ", call " << call;
    }
  }
}

TEST(PinnedPool, ThePressureComesBackAsTheBlockToWaitFor) {
  const auto device = make_sim_device({.capacity_bytes = 64_MiB});
  PinnedPool pool(*device, in_turn(4_MiB, 4_MiB));
  StreamHandle stream{};
  EventHandle event{};
  ASSERT_EQ(device->create_stream(StreamRole::d2h, stream), DeviceCode::ok);
  ASSERT_EQ(device->create_event(event), DeviceCode::ok);
  const PinnedAllocation a = pool.allocate(3_MiB);
  ASSERT_EQ(device->launch(stream, {.estimate_ns = 1'000'000'000}), DeviceCode::ok);
  ASSERT_EQ(device->record_event(event, stream), DeviceCode::ok);
  pool.free_after_event(a.block, event);
  EXPECT_TRUE(pool.pending(event));
  EXPECT_EQ(pool.statistics().pending_bytes, 3_MiB);
  const PinnedAllocation b = pool.allocate(2_MiB);
  ASSERT_EQ(b.outcome, PinnedOutcome::wait_block);
  EXPECT_EQ(pool.reclaim(), 0);
  EXPECT_EQ(pool.wait_for_block(b, 1000), DeviceCode::not_ready);
  EXPECT_TRUE(pool.pending(event));
  ASSERT_EQ(pool.wait_for_block(b), DeviceCode::ok);
  EXPECT_FALSE(pool.pending(event)) << "taken back by the wait";
  EXPECT_EQ(pool.allocate(2_MiB).outcome, PinnedOutcome::ok);
  EXPECT_EQ(pool.statistics().waits, 1);
}

/// The event behind an answer is soon recorded again for another block. The wait must be for the block of the answer.
TEST(PinnedPool, AWaitIsForTheBlockOfItsAnswerNotForItsEvent) {
  const auto device = make_sim_device({.capacity_bytes = 64_MiB});
  PinnedPool pool(*device, in_turn(4_MiB, 4_MiB));
  StreamHandle stream{};
  ASSERT_EQ(device->create_stream(StreamRole::d2h, stream), DeviceCode::ok);
  const auto busy = [&](std::int64_t ns) { ASSERT_EQ(device->launch(stream, {.estimate_ns = ns}), DeviceCode::ok); };
  const PinnedAllocation a = pool.allocate(3_MiB);
  busy(1'000'000);
  ASSERT_EQ(pool.free_after(a.block, stream), DeviceCode::ok);
  const PinnedAllocation refused = pool.allocate(3_MiB);
  ASSERT_EQ(refused.outcome, PinnedOutcome::wait_block);
  ASSERT_EQ(device->synchronize_stream(stream), DeviceCode::ok);
  const PinnedAllocation c = pool.allocate(3_MiB);  // takes the first block and its event back
  ASSERT_EQ(c.outcome, PinnedOutcome::ok);
  busy(50'000'000'000);
  ASSERT_EQ(pool.free_after(c.block, stream), DeviceCode::ok);  // the same event
  const std::int64_t before = device->now_ns();
  EXPECT_EQ(pool.wait_for_block(refused), DeviceCode::ok);
  EXPECT_LT(device->now_ns() - before, 1'000'000'000) << "waited for the younger block";
  EXPECT_EQ(pool.allocate(3_MiB).outcome, PinnedOutcome::wait_block);
}

/// Passes on to the host back end what the pool calls; counts questions, and notices calls made under the pool's lock.
class WatchedDevice final : public Device {
 public:
  explicit WatchedDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}
  std::function<void()> on_call;         ///< in each call that the pool makes
  std::function<void()> on_synchronize;  ///< in each wait for an event
  std::atomic<int> synchronizing{0};     ///< waits under way
  std::atomic<int> overlaps{0};          ///< waits that began during others
  std::atomic<std::int64_t> queries{0};
  bool all_pending = false;  ///< query_event() finds nothing
  int refused_frees = 0;     ///< free_pinned() fails that often

  const DeviceTraits& traits() const override { return device_->traits(); }
  std::string last_error() const override { return device_->last_error(); }
  DeviceCode memory_info(MemoryInfo& info) override { return device_->memory_info(info); }
  DeviceCode reserve(Bytes bytes, Address& base) override { return device_->reserve(bytes, base); }
  DeviceCode release(Address base, Bytes bytes) override { return device_->release(base, bytes); }
  DeviceCode map(Address at, Bytes bytes) override { return device_->map(at, bytes); }
  DeviceCode unmap(Address at, Bytes bytes) override { return device_->unmap(at, bytes); }
  DeviceCode alias(Address at, Address source, Bytes bytes) override { return device_->alias(at, source, bytes); }
  DeviceCode remap(Address at, Address source, Bytes bytes) override { return device_->remap(at, source, bytes); }
  DeviceCode allocate_plain(Bytes bytes, Address& at) override { return device_->allocate_plain(bytes, at); }
  DeviceCode free_plain(Address at) override { return device_->free_plain(at); }
  DeviceCode allocate_pinned(Bytes bytes, Address& at) override {
    called();
    return device_->allocate_pinned(bytes, at);
  }
  DeviceCode free_pinned(Address at) override {
    if (refused_frees > 0 && refused_frees-- > 0) return DeviceCode::invalid;
    return device_->free_pinned(at);
  }
  DeviceCode create_stream(StreamRole role, StreamHandle& stream) override {
    return device_->create_stream(role, stream);
  }
  DeviceCode destroy_stream(StreamHandle stream) override { return device_->destroy_stream(stream); }
  DeviceCode create_event(EventHandle& event) override {
    called();
    return device_->create_event(event);
  }
  DeviceCode destroy_event(EventHandle event) override { return device_->destroy_event(event); }
  DeviceCode record_event(EventHandle event, StreamHandle stream) override {
    called();
    return device_->record_event(event, stream);
  }
  DeviceCode wait_event(StreamHandle stream, EventHandle event) override { return device_->wait_event(stream, event); }
  DeviceCode query_event(EventHandle event) override {
    called();
    ++queries;
    return all_pending ? DeviceCode::not_ready : device_->query_event(event);
  }
  DeviceCode synchronize_event(EventHandle event, std::int64_t timeout_ns) override {
    called();
    overlaps += synchronizing.fetch_add(1) > 0 ? 1 : 0;
    if (on_synchronize) on_synchronize();
    const DeviceCode code = device_->synchronize_event(event, timeout_ns);
    --synchronizing;
    return code;
  }
  DeviceCode synchronize_stream(StreamHandle stream) override { return device_->synchronize_stream(stream); }
  DeviceCode synchronize_device() override { return device_->synchronize_device(); }
  DeviceCode copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind, std::int64_t id) override {
    return device_->copy(stream, to, from, bytes, kind, id);
  }
  DeviceCode launch(StreamHandle stream, const Work& work) override { return device_->launch(stream, work); }
  std::int64_t mismatches(Mismatch& first) override { return device_->mismatches(first); }
  std::int64_t now_ns() override { return device_->now_ns(); }

 private:
  void called() const {
    if (on_call) on_call();
  }
  std::unique_ptr<Device> device_;
};

TEST(PinnedPool, LookingForWhatIsCompleteAsksOnceAStreamAndWithoutTheLock) {
  WatchedDevice device(open_host({.capacity_bytes = 4_MiB}));
  PinnedPool pool(device, in_turn(4_MiB, 4_MiB));
  std::array<StreamHandle, 3> streams{};
  for (StreamHandle& stream : streams) ASSERT_EQ(device.create_stream(StreamRole::d2h, stream), DeviceCode::ok);
  std::vector<PinnedBlock> blocks;
  for (int i = 0; i < 1000; ++i) {
    const PinnedAllocation made = pool.allocate(4_KiB);
    ASSERT_EQ(made.outcome, PinnedOutcome::ok);
    blocks.push_back(made.block);
  }
  // Another call of the pool from inside a call of the device: with the lock held it would never return.
  device.on_call = [&pool] { static_cast<void>(pool.statistics()); };
  device.all_pending = true;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ASSERT_EQ(pool.free_after(blocks[i], streams[i % streams.size()]), DeviceCode::ok);
  }
  EXPECT_LE(device.queries.load(), 1000) << "one for each at most, not one for each that waits";
  device.queries = 0;
  EXPECT_EQ(pool.reclaim(), 0);
  EXPECT_EQ(device.queries.load(), 3);
  const PinnedAllocation refused = pool.allocate(4_MiB);
  EXPECT_EQ(refused.outcome, PinnedOutcome::wait_block);
  EXPECT_EQ(device.queries.load(), 6);
  EXPECT_EQ(pool.wait_for_block(refused), DeviceCode::ok);
  device.all_pending = false;
  ASSERT_EQ(device.synchronize_device(), DeviceCode::ok);
  EXPECT_EQ(pool.reclaim(), 999 * 4_KiB);
  EXPECT_EQ(pool.allocate(4_MiB).outcome, PinnedOutcome::ok);
}

/// Keeps what the pool reports, from whatever thread.
struct Reports {
  std::function<void(const PinnedReport&)> sink() {
    return [this](const PinnedReport& report) {
      const std::lock_guard lock(mutex);
      all.push_back(report);
    };
  }
  std::mutex mutex;
  std::vector<PinnedReport> all;
};

TEST(PinnedPool, ARefusalShrinksTheBoundOnceAndThePoolGoesOn) {
  Reports reports;
  const auto device = open_host({.capacity_bytes = 4_MiB, .pinned_capacity_bytes = 20_MiB});
  PinnedPool pool(*device, {.bound_bytes = 64_MiB, .chunk_bytes = 8_MiB, .report = reports.sink()});
  pool.wait_until_built();
  PinnedPoolStatistics now = pool.statistics();
  EXPECT_EQ(now.bound_bytes, 16_MiB);
  EXPECT_EQ(now.held_bytes, 16_MiB);
  EXPECT_EQ(now.refusals, 1);
  const PinnedAllocation a = pool.allocate(8_MiB), b = pool.allocate(6_MiB), c = pool.allocate(4_MiB);
  EXPECT_EQ(a.outcome, PinnedOutcome::ok);
  EXPECT_EQ(b.outcome, PinnedOutcome::ok);
  EXPECT_EQ(c.outcome, PinnedOutcome::exhausted);
  EXPECT_EQ(pool.statistics().refusals, 1) << "not asked again";
  const auto refused = [](const PinnedReport& report) { return report.kind == PinnedReport::Kind::refused; };
  const std::lock_guard lock(reports.mutex);
  ASSERT_EQ(std::count_if(reports.all.begin(), reports.all.end(), refused), 1);
  EXPECT_NE(reports.all.front().text.find("16.00 MiB"), std::string::npos) << reports.all.front().text;
}

TEST(PinnedPool, ARefusedLargePieceDoesNotTakeThePoolAlong) {
  const auto device = make_sim_device();
  PinnedPool pool(*device, in_turn(64_MiB, 8_MiB));
  pool.wait_until_built();
  device->set_faults({{.point = FaultPoint::allocate_pinned, .first_call = 1, .code = DeviceCode::out_of_memory}});
  const PinnedAllocation large = pool.allocate(64_MiB);
  EXPECT_EQ(large.outcome, PinnedOutcome::exhausted);
  EXPECT_FALSE(large.ever) << "not asked for again";
  EXPECT_EQ(pool.statistics().bound_bytes, 64_MiB);
  EXPECT_EQ(pool.statistics().refusals, 1);
  EXPECT_EQ(pool.allocate(4_KiB).outcome, PinnedOutcome::ok);
  EXPECT_EQ(pool.allocate(7_MiB).outcome, PinnedOutcome::ok);
}

/// Chunks that were to make way and that the device does not take back: still held, still of use, and offered again.
TEST(PinnedPool, WhatTheDeviceDoesNotTakeBackIsStillHeld) {
  for (const int refused : {1, 2, 3, 4, 5, 1000}) {
    SCOPED_TRACE(refused);
    auto sim = make_sim_device();
    SimDevice& books = *sim;
    WatchedDevice device(std::move(sim));
    {
      PinnedPool pool(device, in_turn(16_MiB, 8_MiB));
      pool.wait_until_built();
      device.refused_frees = refused;
      const PinnedAllocation large = pool.allocate(16_MiB);
      EXPECT_EQ(large.outcome, refused < 2 ? PinnedOutcome::ok : PinnedOutcome::exhausted);
      EXPECT_TRUE(large.ever);
      EXPECT_EQ(books.statistics().pinned_bytes, pool.statistics().held_bytes);
      EXPECT_LE(books.statistics().peak_pinned_bytes, 16_MiB) << "above the bound";
      device.refused_frees = 0;
      if (refused >= 2) {
        const PinnedAllocation small = pool.allocate(8_MiB);
        EXPECT_EQ(small.outcome, PinnedOutcome::ok);
        pool.free(small.block);
        EXPECT_EQ(pool.allocate(16_MiB).outcome, PinnedOutcome::ok);
      }
      EXPECT_EQ(books.statistics().pinned_bytes, 16_MiB);
      device.refused_frees = 1;  // at the end, once more
    }
    EXPECT_EQ(books.leaks(), "");
  }
}

TEST(PinnedPool, RefusedAltogetherItIsExhaustedNotBroken) {
  const auto device = open_host({.fault = [](HostCall call) {
    return call == HostCall::allocate_pinned ? DeviceCode::out_of_memory : DeviceCode::ok;
  }});
  PinnedPool pool(*device, {.bound_bytes = 64_MiB, .chunk_bytes = 8_MiB});
  PinnedAllocation answer = pool.allocate(1_MiB);
  while (answer.outcome == PinnedOutcome::wait_chunk) {
    ASSERT_TRUE(pool.wait_for_chunk(answer));
    answer = pool.allocate(1_MiB);
  }
  EXPECT_EQ(answer.outcome, PinnedOutcome::exhausted);
  EXPECT_FALSE(answer.ever);
  EXPECT_EQ(pool.statistics().bound_bytes, 0);
}

TEST(PinnedPool, ALostDeviceIsSaidSo) {
  const auto device = open_host(
      {.fault = [](HostCall call) { return call == HostCall::allocate_pinned ? DeviceCode::lost : DeviceCode::ok; }});
  PinnedPool pool(*device, in_turn(8_MiB, 4_MiB));
  EXPECT_EQ(pool.allocate(1_MiB).outcome, PinnedOutcome::lost);
}

/// A device whose pinned allocations wait for the test's word, and that says what was not as asked.
class Gate {
 public:
  HostFaultHook hook() {
    return [this](HostCall call) {
      if (call != HostCall::allocate_pinned) return DeviceCode::ok;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return open_ > 0; });
      --open_;
      return DeviceCode::ok;
    };
  }
  void let_through(int calls) {
    const std::lock_guard lock(mutex_);
    open_ += calls;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int open_ = 0;
};

TEST(PinnedPool, TheFirstChunkServesWhileTheOthersAreStillToCome) {
  Gate gate;
  const auto device = open_host({.fault = gate.hook()});
  PinnedPool pool(*device, {.bound_bytes = 32_MiB, .chunk_bytes = 8_MiB});
  PinnedAllocation answer = pool.allocate(1_MiB);
  ASSERT_EQ(answer.outcome, PinnedOutcome::wait_chunk);
  EXPECT_FALSE(pool.wait_for_chunk(answer, 1000)) << "nothing has come";
  gate.let_through(1);
  ASSERT_TRUE(pool.wait_for_chunk(answer));
  EXPECT_EQ(pool.allocate(1_MiB).outcome, PinnedOutcome::ok);
  EXPECT_EQ(pool.statistics().held_bytes, 8_MiB);
  EXPECT_GE(pool.statistics().first_chunk_ns, 0);
  EXPECT_EQ(pool.statistics().all_chunks_ns, -1);
  gate.let_through(3);
  pool.wait_until_built();
  EXPECT_EQ(pool.statistics().held_bytes, 32_MiB);
  EXPECT_GE(pool.statistics().all_chunks_ns, pool.statistics().first_chunk_ns);
}

TEST(PinnedPool, EndsWhileItIsBeingBuilt) {
  Gate gate;
  const auto device = open_host({.fault = gate.hook()});
  {
    PinnedPool pool(*device, {.bound_bytes = 32_MiB, .chunk_bytes = 8_MiB});
    gate.let_through(1);
    const PinnedAllocation answer = pool.allocate(1_MiB);
    EXPECT_TRUE(answer.outcome == PinnedOutcome::ok || pool.wait_for_chunk(answer));
    gate.let_through(1);  // whatever it is at now may end; the rest is not begun
  }
  Address all = 0;
  gate.let_through(1);
  EXPECT_EQ(device->allocate_pinned(1_MiB, all), DeviceCode::ok);
}

TEST(PinnedPool, EndsWithCopiesInFlight) {
  const auto device = open_host({.capacity_bytes = 16_MiB, .d2h_bytes_per_s = 200'000'000});
  StreamHandle stream{};
  Address block = 0;
  ASSERT_EQ(device->create_stream(StreamRole::d2h, stream), DeviceCode::ok);
  ASSERT_EQ(device->allocate_plain(2_MiB, block), DeviceCode::ok);
  {
    PinnedPool pool(*device, in_turn(8_MiB, 4_MiB));
    for (int i = 0; i < 3; ++i) {
      const PinnedAllocation host = pool.allocate(2_MiB);
      ASSERT_EQ(host.outcome, PinnedOutcome::ok);
      ASSERT_EQ(device->copy(stream, host.block.address, block, 2_MiB, CopyKind::device_to_host), DeviceCode::ok);
      ASSERT_EQ(pool.free_after(host.block, stream), DeviceCode::ok);
    }
  }  // the pool waits: without that the copies would write to pages that are gone
  EXPECT_EQ(device->synchronize_device(), DeviceCode::ok);
}

TEST(PinnedPool, WithoutEventsTheBlockStaysTheCallers) {
  const auto device = open_host({.event_limit = 1});
  PinnedPool pool(*device, in_turn(8_MiB, 4_MiB));
  StreamHandle stream{};
  EventHandle taken{};
  ASSERT_EQ(device->create_stream(StreamRole::d2h, stream), DeviceCode::ok);
  ASSERT_EQ(device->create_event(taken), DeviceCode::ok);
  const PinnedAllocation a = pool.allocate(1_MiB);
  EXPECT_EQ(pool.free_after(a.block, stream), DeviceCode::no_resource);
  EXPECT_EQ(pool.statistics().live_blocks, 1);
  ASSERT_EQ(device->destroy_event(taken), DeviceCode::ok);
  EXPECT_EQ(pool.free_after(a.block, stream), DeviceCode::ok);
  EXPECT_EQ(pool.statistics().live_blocks, 0);
}

TEST(PinnedPool, MissingPlacementIsReportedOncePerKind) {
  Reports reports;
  const auto device = open_host({.numa_node = 511});
  PinnedPool pool(*device, {.bound_bytes = 16_MiB, .chunk_bytes = 4_MiB, .report = reports.sink()});
  pool.wait_until_built();
  const std::lock_guard lock(reports.mutex);
  std::set<PinnedReport::Kind> kinds;
  for (const PinnedReport& report : reports.all) EXPECT_TRUE(kinds.insert(report.kind).second) << report.text;
  EXPECT_TRUE(kinds.contains(PinnedReport::Kind::numa_unbound));
}

/// Calls on one event must not overlap: of several that wait for a block, or for blocks behind one event, one asks.
TEST(PinnedPool, OneAtATimeWaitsForAnEvent) {
  WatchedDevice device(open_host({.capacity_bytes = 4_MiB}));
  PinnedPool pool(device, in_turn(8_MiB, 4_MiB));
  StreamHandle stream{};
  EventHandle event{};
  ASSERT_EQ(device.create_stream(StreamRole::d2h, stream), DeviceCode::ok);
  ASSERT_EQ(device.create_event(event), DeviceCode::ok);
  const PinnedAllocation first = pool.allocate(4_MiB), second = pool.allocate(4_MiB);
  ASSERT_EQ(device.record_event(event, stream), DeviceCode::ok);
  pool.free_after_event(first.block, event);
  pool.free_after_event(second.block, event);
  device.all_pending = true;  // nobody takes the blocks back before the wait
  const PinnedAllocation refused = pool.allocate(4_MiB);
  ASSERT_EQ(refused.outcome, PinnedOutcome::wait_block);
  PinnedAllocation younger = refused;
  ++younger.ticket;
  // While one is at it the others come, and give up, or wait until it is done.
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  std::atomic<bool> begun{false};
  device.on_synchronize = [&] {
    if (begun.exchange(true)) return;
    for (const PinnedAllocation& answer : {refused, younger}) {
      wrong += pool.wait_for_block(answer, 1000) != DeviceCode::not_ready;
      threads.emplace_back([&pool, &wrong, answer] { wrong += pool.wait_for_block(answer) != DeviceCode::ok; });
    }
  };
  EXPECT_EQ(pool.wait_for_block(refused), DeviceCode::ok);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(device.overlaps.load(), 0);
  EXPECT_EQ(pool.statistics().pending_bytes, 0) << "each took its block back";
  EXPECT_EQ(device.synchronize_device(), DeviceCode::ok);
}

TEST(PinnedPool, ServesManyThreads) {
  const auto device = open_host({.capacity_bytes = 16_MiB});
  PinnedPool pool(*device, {.bound_bytes = 8_MiB, .chunk_bytes = 4_MiB});
  std::atomic<int> wrong{0}, waits{0};
  const Soak soak;  // tests/support/soak.h
  const auto work = [&](unsigned seed) {
    std::mt19937_64 random(Soak::seed(seed));
    StreamHandle stream{};
    wrong += device->create_stream(StreamRole::d2h, stream) != DeviceCode::ok;
    std::deque<PinnedBlock> mine;
    for (int i = 0; soak.goes_on(i, 400); ++i) {
      const Bytes bytes = 1 + static_cast<Bytes>(random() % 1'000'000);
      const PinnedAllocation made = pool.allocate(bytes);
      if (made.outcome == PinnedOutcome::wait_chunk) wrong += !pool.wait_for_chunk(made);
      if (made.outcome == PinnedOutcome::wait_block) {
        wrong += pool.wait_for_block(made) != DeviceCode::ok;
        ++waits;
      }
      if (made.outcome == PinnedOutcome::ok) {
        // Every byte is this thread's alone; ThreadSanitizer watches.
        auto* const data = reinterpret_cast<unsigned char*>(made.block.address);
        data[0] = data[bytes - 1] = static_cast<unsigned char>(seed);
        mine.push_back(made.block);
      }
      if (mine.size() > 5 || made.outcome != PinnedOutcome::ok) {
        for (const PinnedBlock& block : mine) {
          const auto* const data = reinterpret_cast<const unsigned char*>(block.address);
          wrong += data[0] != seed || data[block.bytes - 1] != seed;
          wrong += pool.free_after(block, stream) != DeviceCode::ok;
        }
        mine.clear();
      }
    }
    for (const PinnedBlock& block : mine) pool.free(block);
    wrong += device->destroy_stream(stream) != DeviceCode::ok;
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i <= 4; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  RecordProperty("waits", waits.load());  // as it happens; that waits end is tested elsewhere
  EXPECT_EQ(device->synchronize_device(), DeviceCode::ok);
  pool.reclaim();
  EXPECT_EQ(pool.statistics().used_bytes + pool.statistics().pending_bytes, 0);
}

}  // namespace
}  // namespace tidemark::allocator
