// Offloading between captured graphs on the simulated device, whose race checker watches the order, and on the stand-in
// for the CUDA driver, which has real bytes and threads: contents, order, memory held, and what comes during a capture.

#include "swap/captured_executor.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "device/forwarding_device.h"
#include "device/sim_device.h"
#include "swap/verify_fixed_layout.h"
#include "tests/support/stand_ins.h"
#include "tests/swap/captured_player.h"
#include "tests/swap/failing_device.h"
#include "tests/swap/random_pieces.h"

namespace tidemark::swap {
namespace {

using testing::Call;
using testing::FailingDevice;

constexpr Bytes kGranule = 64 * kKiB;

SimOptions sim_options() {
  return {.capacity_bytes = kGiB, .granule_bytes = kGranule};
}

std::unique_ptr<CapturedExecutor> open_on(Device& device, const CapturedPieces& step, Bytes spare = 0) {
  Result<std::unique_ptr<CapturedExecutor>> opened = CapturedExecutor::open(device, step, spare);
  EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
  return opened.ok() ? std::move(opened).value() : nullptr;
}

CapturedPieces random_step(std::uint32_t seed, Bytes bytes = 3 * kGranule) {
  return RandomPieces(seed, {.pieces = 10, .storages = 10, .bytes = bytes}).make();
}

/// Four activations made in the forward and read in the backward, each away in between, beside what the middle needs.
CapturedPieces layered_step(Bytes bytes) {
  CapturedPieces step{.pieces = 10, .storages = {}};
  for (std::int32_t layer = 0; layer < 4; ++layer) {
    PieceStorage activation{.bytes = bytes};
    activation.touches = {{.piece = PieceId{layer}, .writes = true}, {.piece = PieceId{9 - layer}, .reads = true}};
    if (layer < 3) activation.away = {{PieceId{layer + 2}, PieceId{7 - layer}}};
    step.storages.push_back(activation);
  }
  step.storages.push_back({.bytes = bytes,
                           .between = BetweenSteps::on_device,
                           .touches = {{.piece = PieceId{0}, .reads = true, .writes = true}}});
  return step;
}

/// Fails the test at any call to the device while a capture goes on.
class CaptureWatch : public ForwardingDevice {
 public:
  explicit CaptureWatch(Device& to) : ForwardingDevice(to) {}
  bool capturing = false;
  int moves = 0;

  DeviceCode map(Address at, Bytes bytes) override { return see("map"), ForwardingDevice::map(at, bytes); }
  DeviceCode unmap(Address at, Bytes bytes) override { return see("unmap"), ForwardingDevice::unmap(at, bytes); }
  DeviceCode remap(Address at, Address source, Bytes bytes) override {
    ++moves;
    return see("remap"), ForwardingDevice::remap(at, source, bytes);
  }
  DeviceCode record_event(EventHandle event, StreamHandle stream) override {
    return see("record_event"), ForwardingDevice::record_event(event, stream);
  }
  DeviceCode wait_event(StreamHandle stream, EventHandle event) override {
    return see("wait_event"), ForwardingDevice::wait_event(stream, event);
  }
  DeviceCode synchronize_event(EventHandle event, std::int64_t timeout_ns) override {
    return see("synchronize_event"), ForwardingDevice::synchronize_event(event, timeout_ns);
  }
  DeviceCode copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind, std::int64_t id) override {
    return see("copy"), ForwardingDevice::copy(stream, to, from, bytes, kind, id);
  }

 private:
  void see(const char* call) const { EXPECT_FALSE(capturing) << call << " during a capture"; }
};

TEST(CapturedExecutorOnSim, RandomStepsKeepContentsOrderAndMemory) {
  std::int64_t moved = 0, copies = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const CapturedPieces step = random_step(seed);
    const auto device = make_sim_device(sim_options(), {.seed = seed});
    {
      const auto executor = open_on(*device, step, seed % 4 * kGranule);
      ASSERT_NE(executor, nullptr);
      const Bytes peak = executor->layout().peak_bytes();
      CapturedPlayer player(*device, step, *executor, 1 + seed % 3);
      device->reset_statistics();
      player.look = [&] { ASSERT_EQ(device->statistics().mapped_bytes, peak); };
      for (int i = 0; i < 4; ++i) player.run_step();
      player.expect_contents();
      EXPECT_EQ(device->statistics().peak_device_bytes, peak);
      EXPECT_EQ(device->race_count(), 0) << to_string(device->races().front());
      const CapturedFigures figures = executor->figures();
      EXPECT_EQ(figures.steps, 4);
      EXPECT_EQ(figures.host_waits, 4 * executor->layout().host_waits());
      EXPECT_EQ(figures.moved_granules, 4 * executor->layout().moved_granules());
      moved += figures.moved_granules;
      copies += figures.out.copies + figures.in.copies;
    }
    EXPECT_EQ(device->leaks(), "");
    if (HasFailure()) return;
  }
  EXPECT_GT(moved, 1000);
  EXPECT_GT(copies, 1000);
}

/// Leaves out one of the waits of each step.
class WaitThief : public ForwardingDevice {
 public:
  WaitThief(Device& to, std::int64_t waits_a_step, std::int64_t stolen)
      : ForwardingDevice(to), waits_a_step_(waits_a_step), stolen_(stolen) {}

  DeviceCode wait_event(StreamHandle stream, EventHandle event) override {
    return steals() ? DeviceCode::ok : ForwardingDevice::wait_event(stream, event);
  }
  DeviceCode synchronize_event(EventHandle event, std::int64_t timeout_ns) override {
    return steals() ? DeviceCode::ok : ForwardingDevice::synchronize_event(event, timeout_ns);
  }

 private:
  bool steals() { return waits_++ % waits_a_step_ == stolen_; }

  const std::int64_t waits_a_step_, stolen_;
  std::int64_t waits_ = 0;
};

/// The layout without each of its waits, in order.
std::vector<FixedLayout> without_each_wait(const FixedLayout& layout) {
  std::vector<FixedLayout> all;
  for (std::size_t boundary = 0; boundary < layout.before.size(); ++boundary)
    for (std::size_t i = 0; i < layout.before[boundary].size(); ++i) {
      if (!std::holds_alternative<LaneWait>(layout.before[boundary][i])) continue;
      FixedLayout& without = all.emplace_back(layout);
      without.before[boundary].erase(without.before[boundary].begin() + static_cast<std::ptrdiff_t>(i));
    }
  return all;
}

TEST(CapturedExecutorOnSim, WithoutAWaitTheRaceCheckerFindsWhatTheJudgeOfLayoutsFinds) {
  int races = 0, none = 0;
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    const CapturedPieces step = random_step(seed);
    const std::vector<FixedLayout> layouts =
        without_each_wait(open_on(*make_sim_device(sim_options()), step)->layout());
    for (std::size_t stolen = 0; stolen < layouts.size(); ++stolen) {
      const auto device = make_sim_device(sim_options());
      WaitThief thief(*device, std::ssize(layouts), static_cast<std::int64_t>(stolen));
      {
        const auto executor = open_on(thief, step);
        CapturedPlayer player(thief, step, *executor);
        for (int i = 0; i < 4; ++i) player.run_step();
        ASSERT_EQ(device->synchronize_device(), DeviceCode::ok);
      }
      const bool has_race = device->race_count() > 0;
      EXPECT_EQ(has_race, !verify_fixed_layout(step, layouts[stolen]).ok()) << "seed " << seed << ", wait " << stolen;
      (has_race ? races : none) += 1;
    }
  }
  EXPECT_GT(races, 500);
  EXPECT_GT(none, 5) << "waits that the step before implies";
}

TEST(CapturedExecutorOnSim, CopiesRunBesideThePiecesThatTheirGapLeavesThem) {
  // A piece takes 20 us, a copy of 4 granules some 10: each has a piece to hide behind, either way.
  const CapturedPieces step = layered_step(4 * kGranule);
  SimOptions options = sim_options();
  options.d2h = options.h2d = {.bytes_per_s = 25e9, .latency_ns = 0};
  const auto device = make_sim_device(options);
  const auto executor = open_on(*device, step);
  ASSERT_NE(executor, nullptr);
  CapturedPlayer player(*device, step, *executor);
  player.run_step();
  ASSERT_EQ(device->synchronize_device(), DeviceCode::ok);
  device->reset_statistics();
  player.run_step();
  player.expect_contents();
  const SimStatistics statistics = device->statistics();
  EXPECT_EQ(statistics.last_end_ns - statistics.first_start_ns, 10 * 20'000);
  EXPECT_EQ(executor->layout().peak_granules, 3 * 4) << "of five storages";
}

TEST(CapturedExecutorOnSim, WhatTheDeviceRefusesIsTriedAgainFromThere) {
  const CapturedPieces step = layered_step(2 * kGranule);
  std::int64_t retries = 0;
  for (const FaultPoint point : {FaultPoint::map, FaultPoint::record_event, FaultPoint::copy, FaultPoint::synchronize})
    for (std::int64_t call = 1; call <= 12; ++call) {
      SCOPED_TRACE(::testing::Message() << "point " << static_cast<int>(point) << ", call " << call);
      const auto device = make_sim_device(sim_options());
      {
        const auto executor = open_on(*device, step);
        ASSERT_NE(executor, nullptr);
        CapturedPlayer player(*device, step, *executor);
        device->set_faults({{.point = point, .first_call = call, .code = DeviceCode::out_of_memory}});
        for (int i = 0; i < 2; ++i) player.run_step(2);
        device->set_faults({});
        player.run_step();
        player.expect_contents();
        EXPECT_EQ(device->race_count(), 0) << to_string(device->races().front());
        retries += player.retries();
      }
      EXPECT_EQ(device->leaks(), "");
      if (HasFailure()) return;
    }
  EXPECT_GT(retries, 30);
}

TEST(CapturedExecutorOnSim, NothingIsLeftOfALostDevice) {
  const CapturedPieces step = layered_step(2 * kGranule);
  for (const FaultPoint point :
       {FaultPoint::map, FaultPoint::record_event, FaultPoint::copy, FaultPoint::synchronize}) {
    const auto device = make_sim_device(sim_options());
    StreamHandle stream{};
    ASSERT_EQ(device->create_stream(StreamRole::compute, stream), DeviceCode::ok);
    {
      const auto executor = open_on(*device, step);
      ASSERT_NE(executor, nullptr);
      device->set_faults({{.point = point, .first_call = 2, .code = DeviceCode::lost}});
      Status status;
      for (std::int32_t piece = 0; status.ok() && piece < step.pieces; ++piece)
        status = executor->before_piece(PieceId{piece}, stream);
      ASSERT_FALSE(status.ok());
      EXPECT_NE(status.error().message.find("lost on device sim"), std::string::npos) << status.error().message;
    }
    EXPECT_EQ(device->destroy_stream(stream), DeviceCode::ok);
    EXPECT_EQ(device->leaks(), "");
  }
}

TEST(CapturedExecutorOnSim, NothingIsLeftWhereOpeningFails) {
  const CapturedPieces step = layered_step(2 * kGranule);
  int refused = 0;
  for (const Call call : {Call::reserve, Call::map, Call::allocate_pinned, Call::create_stream, Call::create_event})
    for (std::int64_t number = 1; number <= 3; ++number) {
      SCOPED_TRACE(::testing::Message() << testing::kCallNames[static_cast<std::size_t>(call)] << " " << number);
      const auto device = make_sim_device(sim_options());
      FailingDevice failing(*device);
      failing.fail(call, number, DeviceCode::out_of_memory);
      const auto opened = CapturedExecutor::open(failing, step);
      EXPECT_EQ(opened.ok(), !failing.struck());
      if (!opened.ok()) {
        ++refused;
        EXPECT_EQ(opened.error().message.find("captured graphs: taking "), 0U) << opened.error().message;
        EXPECT_EQ(device->leaks(), "");
      }
    }
  EXPECT_GE(refused, 9);
}

TEST(CapturedExecutorOnSim, CallsOutOfOrderAreRefusedInWords) {
  const CapturedPieces step = layered_step(kGranule);
  const auto device = make_sim_device(sim_options());
  const auto executor = open_on(*device, step);
  ASSERT_NE(executor, nullptr);
  StreamHandle stream{};
  ASSERT_EQ(device->create_stream(StreamRole::compute, stream), DeviceCode::ok);
  EXPECT_EQ(executor->before_piece(PieceId{1}, stream).error().message, "piece 1 is announced where piece 0 is due");
  EXPECT_EQ(executor->end_step().error().message, "the step is ended where piece 0 is due");
  for (std::int32_t piece = 0; piece < step.pieces; ++piece)
    ASSERT_TRUE(executor->before_piece(PieceId{piece}, stream).ok());
  EXPECT_EQ(executor->before_piece(PieceId{0}, stream).error().message,
            "piece 0 is announced where the step is to be ended");
  EXPECT_TRUE(executor->end_step().ok());
  SimOptions plain = sim_options();
  plain.mapping = false;
  EXPECT_EQ(CapturedExecutor::open(*make_sim_device(plain), step).error().message,
            "captured graphs keep their addresses only on a device that can map memory; sim cannot");
}

class CapturedExecutorOnCudaStandIn : public ::testing::Test {
 protected:
  CapturedExecutorOnCudaStandIn() : controls_(TIDEMARK_CUDA_STAND_IN) {
    controls_.reset();
    controls_.set("granule_bytes", kGranule);
    controls_.set("delay_us", 50);
    auto opened = open_cuda_device(cuda_stand_in_options());
    EXPECT_TRUE(opened.ok());
    device_ = std::move(opened).value();
    EXPECT_EQ(device_->launch(StreamHandle{}, {.verify = true}), DeviceCode::ok) << "what verifying needs itself";
    held_before_ = controls_.get("device_bytes");
  }
  ~CapturedExecutorOnCudaStandIn() override {
    EXPECT_EQ(controls_.get("device_bytes"), held_before_);
    EXPECT_EQ(controls_.get("violations"), 0);
    device_.reset();
    controls_.reset();
  }

  StandInControls controls_;
  std::unique_ptr<Device> device_;
  std::int64_t held_before_ = 0;
};

TEST_F(CapturedExecutorOnCudaStandIn, CapturedAddressesHoldTheirContentsStepAfterStep) {
  std::int64_t moves = 0;
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const CapturedPieces step = seed == 0 ? layered_step(3 * kGranule) : random_step(seed);
    CaptureWatch watch(*device_);
    const auto executor = open_on(watch, step);
    ASSERT_NE(executor, nullptr);
    const Bytes peak = executor->layout().peak_bytes();
    CapturedPlayer player(watch, step, *executor);
    player.begin_capture = [&] {
      controls_.set("capturing", 1);
      watch.capturing = true;
    };
    player.end_capture = [&] {
      watch.capturing = false;
      controls_.set("capturing", 0);
    };
    player.look = [&] { EXPECT_EQ(controls_.get("device_bytes") - held_before_, peak); };
    for (int i = 0; i < 4; ++i) player.run_step();
    player.expect_contents();
    moves += watch.moves;
    if (HasFailure()) return;
  }
  EXPECT_GT(moves, 50) << "physical granules changed behind the captured addresses";
}

}  // namespace
}  // namespace tidemark::swap
