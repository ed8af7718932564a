// Logs of sessions, replayed on the simulated device, where the framework that was recorded is asynchronous: the
// session does the same again, every byte is right, no schedule has a race, and each wait that the others do not imply
// is missed.
//
// tests/data/session has the log of a run of PyTorch on the CPU and its plan; tests/pytorch/make_session_log.py makes
// them. TIDEMARK_SESSION_LOG and TIDEMARK_SESSION_PLAN, both, name others in their place.

#include "tests/support/session_replay.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/verify.h"
#include "device/host_device.h"
#include "device/sim_device.h"
#include "integrations/formats/file.h"
#include "integrations/formats/plan_restore.h"
#include "integrations/formats/program_file.h"
#include "integrations/formats/session_log.h"
#include "swap/session.h"
#include "tests/support/data.h"
#include "tests/support/framework_player.h"
#include "tests/support/random_plans.h"
#include "tests/support/sanitized.h"
#include "tests/support/wait_dropper.h"

namespace tidemark::swap {
namespace {

using testing::SessionReplay;
using Kind = SessionEvent::Kind;

/// A log and the plan that its session followed.
struct Recording {
  plan::RankPlan plan;
  SessionLog log;
};

std::filesystem::path path_of(const char* variable, const char* fixture) {
  const char* given = std::getenv(variable);
  return given != nullptr && *given != '\0' ? std::filesystem::path(given) : testing::source_path(fixture);
}

plan::RankPlan plan_of(const std::filesystem::path& path) {
  const auto file = formats::read_plan_file(testing::text_of(path), path.string());
  if (!file) throw std::runtime_error(file.error().message);
  auto restored = formats::restore_outcome(file.value(), {file.value().ranks.front().figures.rank}, path.string());
  if (!restored) throw std::runtime_error(restored.error().message);
  return std::move(restored.value().ranks.front());
}

/// Of PyTorch.
const Recording& pytorch() {
  static const Recording recording = [] {
    const auto path = path_of("TIDEMARK_SESSION_LOG", "tests/data/session/transformer.log");
    auto log = formats::read_session_log(testing::text_of(path), path.string());
    if (!log) throw std::runtime_error(log.error().message);
    return Recording{.plan = plan_of(path_of("TIDEMARK_SESSION_PLAN", "tests/data/session/transformer.plan.json")),
                     .log = std::move(log).value()};
  }();
  return recording;
}

/// What a played framework does on host memory, in the calling thread.
Recording played(plan::RankPlan plan) {
  Recording made{.plan = std::move(plan), .log = {}};
  const std::unique_ptr<Device> host = open_host_device({}).value();
  testing::FrameworkPlayer player(made.plan.graph, *host, {.on_calling_thread = true});
  auto session =
      Session::open(made.plan.program, *host,
                    {.log = [&made](const SessionEvent& event) { made.log.events.push_back(event); }}, player.calls());
  EXPECT_TRUE(session.ok());
  for (int step = 0; step < 2; ++step) player.play(*session.value());
  session.value().reset();
  EXPECT_EQ(player.fault(), "");
  return made;
}

std::int64_t count(const SessionLog& log, Kind kind) {
  return std::ranges::count(log.events, kind, &SessionEvent::kind);
}

/// What went wrong, races included.
std::string replay(const Recording& recording, std::uint64_t schedule, SessionReplay::Options options = {}) {
  const std::unique_ptr<SimDevice> sim =
      make_sim_device({.capacity_bytes = 4 * kGiB, .report_unwritten = true}, {.seed = schedule});
  std::string fault;
  {
    SessionReplay replayed(recording.plan, recording.log, *sim, options);
    fault = replayed.play();
  }
  if (fault.empty() && sim->race_count() > 0) fault = to_string(sim->races().front());
  return fault.empty() ? sim->leaks() : fault;
}

struct Found {
  std::int64_t waits = 0;
  bool by_checker = false, by_judge = false;
};

Found replay_without(const Recording& recording, std::int64_t dropped, bool reuses_at_once) {
  const std::unique_ptr<SimDevice> sim = make_sim_device({.capacity_bytes = 4 * kGiB});
  testing::WaitDropper device(*sim, dropped);
  SessionReplay replayed(recording.plan, recording.log, device, {.reuses_at_once = reuses_at_once, .verify = false});
  EXPECT_EQ(replayed.play(), "");
  return {.waits = device.waits(), .by_checker = sim->race_count() > 0, .by_judge = device.has_race()};
}

/// Of every how many waits one is left out.
constexpr std::int64_t kStride = testing::kSanitized ? 5 : 1;

/// How many waits the others do not imply: all of them must be missed.
std::int64_t missed(const Recording& recording, bool reuses_at_once) {
  const Found whole = replay_without(recording, -1, reuses_at_once);
  EXPECT_FALSE(whole.by_checker);
  EXPECT_FALSE(whole.by_judge);
  std::int64_t missed = 0;
  for (std::int64_t wait = 0; wait < whole.waits; wait += kStride) {
    const Found found = replay_without(recording, wait, reuses_at_once);
    EXPECT_EQ(found.by_checker, found.by_judge) << wait;
    missed += found.by_judge ? 1 : 0;
  }
  ::testing::Test::RecordProperty("waits", std::to_string(whole.waits));
  ::testing::Test::RecordProperty("missed", std::to_string(missed));
  return missed;
}

TEST(SessionReplay, PlayedFrameworksDoTheSameAgain) {
  for (plan::RankPlan& plan : testing::random_captured_plans(31, 6)) {
    const Recording recording = played(std::move(plan));
    EXPECT_GT(count(recording.log, Kind::take), 0);
    for (std::uint64_t schedule = 0; schedule < 5; ++schedule) EXPECT_EQ(replay(recording, schedule), "");
  }
}

TEST(SessionReplay, PyTorchsRunHasEverything) {
  const SessionLog& log = pytorch().log;
  for (const Kind kind : {Kind::begin_step, Kind::op, Kind::take, Kind::save, Kind::use, Kind::free, Kind::end_step,
                          Kind::close, Kind::rebuild, Kind::room, Kind::release, Kind::copy_out, Kind::copy_in})
    EXPECT_GT(count(log, kind), 0) << formats::write_session_event({.kind = kind});
  EXPECT_EQ(count(log, Kind::failed), 0);
  EXPECT_FALSE(verify_program(pytorch().plan.graph, pytorch().plan.program));
}

/// A hundred schedules a test, so that they run beside each other.
class SessionReplaySchedules : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(SessionReplaySchedules, PyTorchsRunHasNoRace) {
  for (std::uint64_t schedule = 100 * GetParam(); schedule < 100 * GetParam() + testing::cases(100U); ++schedule)
    ASSERT_EQ(replay(pytorch(), schedule), "") << schedule;
}

INSTANTIATE_TEST_SUITE_P(Thousand, SessionReplaySchedules, ::testing::Range(std::uint64_t{0}, std::uint64_t{10}));

TEST(SessionReplay, EveryWaitThatTheOthersDoNotImplyIsMissed) {
  EXPECT_GT(missed(pytorch(), true), 20 / kStride);
}

TEST(SessionReplay, EveryWaitThatTheRecordedReuseNeedsIsMissed) {
  EXPECT_GT(missed(pytorch(), false), 10 / kStride);
}

}  // namespace
}  // namespace tidemark::swap
