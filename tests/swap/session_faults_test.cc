// A device that fails any one call of a session: what a framework reads is right all the same, nothing races, and all
// is given back. A framework that is refused asks once more.

#include <gtest/gtest.h>

#include <vector>

#include "device/sim_device.h"
#include "swap/session.h"
#include "tests/support/framework_player.h"
#include "tests/support/random_plans.h"
#include "tests/support/sanitized.h"
#include "tests/swap/failing_device.h"

namespace tidemark::swap {
namespace {

using testing::Call;
using testing::CallCounts;
using testing::FailingDevice;
using testing::FrameworkPlayer;

struct Played {
  CallCounts calls{};
  std::int64_t refusals = 0;
  bool is_open = false;
};

/// Whether the framework's allocator is now and then at its end, and all that backward asks for may leave, also what
/// the plan does not know.
enum class Room : std::uint8_t { ample, scarce };

/// Two steps, the second with its backward behind a third. `number` 0: nothing fails.
Played play(const plan::RankPlan& plan, Call call, std::int64_t number, DeviceCode code, Room room = Room::ample) {
  const std::unique_ptr<SimDevice> sim = make_sim_device({.capacity_bytes = 4 * kGiB, .report_unwritten = true});
  Played played;
  {
    FailingDevice failing(*sim);
    failing.fail(call, number, code);
    FrameworkPlayer player(plan.graph, *sim, {.may_fail = true, .departs = room == Room::scarce ? 1U : 0U});
    SessionOptions asked;
    if (room == Room::scarce)
      for (std::size_t s = 0; s < plan.graph.storages.size(); ++s) asked.loop.may_spill.push_back(id_of<StorageId>(s));
    auto session = Session::open(plan.program, failing, std::move(asked), player.calls());
    played.is_open = session.ok();
    if (session) {
      int blocks = 0;
      player.before_blocks([&] {
        if (room == Room::ample || ++blocks % 4 != 0 || !session.value()->is_in_step()) return;
        static_cast<void>(session.value()->make_room(kMiB, player.stream()));
      });
      player.play(*session.value());
      player.begin(*session.value());
      std::vector<OpId> backward;
      for (std::size_t op = 0; op < plan.graph.ops.size(); ++op) {
        const bool is_forward = plan.graph.template_of(id_of<OpId>(op)).phase == OpPhase::forward;
        if (is_forward) player.issue(session.value().get(), id_of<OpId>(op));
        if (!is_forward) backward.push_back(id_of<OpId>(op));
      }
      auto late = player.put_aside();
      player.play(*session.value());
      player.take_up(std::move(late));
      for (const OpId op : backward) player.issue(nullptr, op);
      player.forget_saved();
      player.finish(*session.value());
      player.before_blocks({});
    }
    EXPECT_EQ(player.fault(), "");
    session = bad_input("closed");
    EXPECT_EQ(player.lent(), 0);
    played.calls = failing.counts();
    played.refusals = player.refusals();
  }
  EXPECT_EQ(sim->race_count(), 0) << (sim->races().empty() ? "" : to_string(sim->races().front()));
  EXPECT_EQ(sim->leaks(), "");
  return played;
}

/// Of every how many calls one fails.
constexpr std::int64_t kStride = testing::kSanitized ? 3 : 1;

TEST(SessionFaults, AnyCallMayFailOnce) {
  constexpr Call kCalls[] = {Call::allocate_pinned,   Call::create_stream,  Call::create_event,
                             Call::record_event,      Call::wait_event,     Call::copy,
                             Call::destroy_event,     Call::destroy_stream, Call::synchronize_event,
                             Call::synchronize_device};
  std::int64_t refusals = 0, closed = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(31, 4)) {
    const Played whole = play(plan, Call::copy, 0, DeviceCode::ok);
    EXPECT_EQ(whole.refusals, 0);
    for (const Call call : kCalls)
      for (const DeviceCode code : {DeviceCode::copy_failed, DeviceCode::no_resource, DeviceCode::out_of_memory})
        for (std::int64_t number = 1; number <= whole.calls[static_cast<std::size_t>(call)]; number += kStride) {
          SCOPED_TRACE(::testing::Message()
                       << "call " << number << " of " << testing::kCallNames[static_cast<std::size_t>(call)] << ": "
                       << name_of(code));
          const Played played = play(plan, call, number, code);
          refusals += played.refusals;
          closed += played.is_open ? 0 : 1;
        }
  }
  EXPECT_GT(refusals, 20 / kStride);
  EXPECT_GT(closed, 0);
}

TEST(SessionFaults, AnyCallMayFailWhileMemoryIsGivenUp) {
  std::int64_t refusals = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(34, 3)) {
    const Played whole = play(plan, Call::copy, 0, DeviceCode::ok, Room::scarce);
    for (const Call call : {Call::allocate_pinned, Call::record_event, Call::wait_event, Call::copy,
                            Call::synchronize_event, Call::synchronize_device})
      for (std::int64_t number = 1; number <= whole.calls[static_cast<std::size_t>(call)]; number += kStride) {
        SCOPED_TRACE(::testing::Message()
                     << "call " << number << " of " << testing::kCallNames[static_cast<std::size_t>(call)]);
        refusals += play(plan, call, number, DeviceCode::copy_failed, Room::scarce).refusals;
      }
  }
  EXPECT_GT(refusals, 10 / kStride);
}

/// What it would have restored is restored when it is asked for, from sources that are still there.
TEST(SessionFaults, AnyRecomputeMayFailOnce) {
  std::int64_t refusals = 0;
  for (const plan::RankPlan& plan : testing::random_captured_plans(32, 16)) {
    std::int64_t rebuilds = 1;
    for (std::int64_t failing = 0; failing <= rebuilds; ++failing) {
      const std::unique_ptr<SimDevice> sim = make_sim_device({.capacity_bytes = 4 * kGiB, .report_unwritten = true});
      {
        FrameworkPlayer player(plan.graph, *sim, {.may_fail = true, .failing_rebuild = failing});
        auto session = Session::open(plan.program, *sim, {}, player.calls());
        ASSERT_TRUE(session.ok());
        for (int step = 0; step < 2; ++step) player.play(*session.value());
        EXPECT_EQ(player.fault(), "") << "recompute " << failing;
        refusals += player.refusals();
        if (failing == 0) rebuilds = player.rebuilds();
        session = bad_input("closed");
        EXPECT_EQ(player.lent(), 0);
      }
      EXPECT_EQ(sim->race_count(), 0);
      EXPECT_EQ(sim->leaks(), "");
    }
  }
  EXPECT_GT(refusals, testing::cases(20));
}

}  // namespace
}  // namespace tidemark::swap
