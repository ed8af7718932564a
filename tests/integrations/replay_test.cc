// Replays: figures computed by hand for a small trace, and what must hold on the real ones.

#include "integrations/replay/replay.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <ostream>
#include <string>

#include "integrations/formats/import_trace.h"
#include "integrations/replay/replay_report.h"
#include "tests/support/data.h"
#include "tests/support/json_text.h"

namespace tidemark {
namespace {

constexpr replay::ReplayAllocator kAll[] = {replay::ReplayAllocator::caching, replay::ReplayAllocator::planned,
                                            replay::ReplayAllocator::baseline};

formats::AllocationTrace read(const std::string& text) {
  Result<formats::AllocationTrace> trace = formats::read_trace(text, "trace");
  EXPECT_TRUE(trace.ok()) << trace.error().message;
  return std::move(trace).value();
}

replay::ReplayFigures run(const formats::AllocationTrace& trace, replay::ReplayRequest request) {
  Result<replay::ReplayFigures> figures = replay::replay(trace, request);
  EXPECT_TRUE(figures.ok()) << figures.error().message;
  return figures ? std::move(figures).value() : replay::ReplayFigures{};
}

/// 30 MiB, then 12 MiB beside 15 MiB in its place.
const std::string kSmall = "id,lower,upper,size\na,0,1,31457280\nb,1,3,12582912\nc,2,3,15728640\n";

TEST(Replay, SmallTraceByHand) {
  const formats::AllocationTrace trace = read(kSmall);
  const replay::ReplayFigures planned = run(trace, {.allocator = replay::ReplayAllocator::planned});
  EXPECT_EQ(planned.peak_reserved_bytes, 30 * kMiB);
  ASSERT_TRUE(planned.planned);
  EXPECT_EQ(planned.planned->height_bytes, 30 * kMiB);
  EXPECT_EQ(planned.planned->load_bytes, 30 * kMiB);
  EXPECT_EQ(planned.planned->served, 3);
  EXPECT_EQ(planned.planned->not_planned, 0);
  const replay::ReplayFigures caching = run(trace, {.allocator = replay::ReplayAllocator::caching});
  EXPECT_EQ(caching.peak_reserved_bytes, 30 * kMiB);
  EXPECT_FALSE(caching.planned);
  // 30 MiB, cut into 12 and 18, of which 15 are taken. Expandable: granules of 20 MiB.
  EXPECT_EQ(run(trace, {.allocator = replay::ReplayAllocator::baseline}).peak_reserved_bytes, 30 * kMiB);
  EXPECT_EQ(run(trace, {.allocator = replay::ReplayAllocator::baseline, .expandable = true}).peak_reserved_bytes,
            40 * kMiB);
}

TEST(Replay, TimesWholePassesAndAtLeastAsManyOperationsAsAsked) {
  const formats::AllocationTrace trace = read(kSmall);
  for (const replay::ReplayAllocator allocator : kAll) {
    const replay::ReplayFigures figures = run(trace, {.allocator = allocator, .timed_operations = 20});
    EXPECT_EQ(figures.timed_passes, 4);  // of 6 operations
    EXPECT_GT(figures.ns_per_operation, 0);
    const replay::ReplayFigures untimed = run(trace, {.allocator = allocator, .timed_operations = 0});
    EXPECT_EQ(untimed.timed_passes, 0);
    EXPECT_EQ(untimed.peak_reserved_bytes, figures.peak_reserved_bytes);
  }
}

TEST(Replay, WhatDoesNotFitIsAnAnswer) {
  const formats::AllocationTrace trace = read(kSmall);
  for (const replay::ReplayAllocator allocator : kAll) {
    const Result<replay::ReplayFigures> figures =
        replay::replay(trace, {.allocator = allocator, .capacity_bytes = 28 * kMiB});
    ASSERT_TRUE(figures.ok()) << figures.error().message;
    EXPECT_NE(figures.value().no_room.find("30.00 MiB"), std::string::npos) << figures.value().no_room;
    EXPECT_EQ(figures.value().timed_passes, 0);
  }
}

TEST(Replay, StreamsStayApartInTheBaseline) {
  const formats::AllocationTrace trace =
      read("Action,Pointer,Size,Stream\nallocate,1,20971520,1\nfree,1,20971520,1\nallocate,2,20971520,2\n");
  EXPECT_EQ(run(trace, {.allocator = replay::ReplayAllocator::baseline}).peak_reserved_bytes, 40 * kMiB);
}

/// One block on each of many streams.
formats::AllocationTrace many_streams(int count) {
  std::string text = "Action,Pointer,Size,Stream\n";
  for (const char* action : {"allocate", "free"})
    for (int i = 1; i <= count; ++i) text += fmt::format("{},{},4096,{}\n", action, 4096 * i, i);
  return read(text);
}

TEST(Replay, MoreStreamsThanTheCachingAllocatorTakesAreRefusedInWords) {
  const formats::AllocationTrace trace = many_streams(4097);
  const Result<replay::ReplayFigures> refused = replay::replay(trace, {.allocator = replay::ReplayAllocator::caching});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Error::Code::bad_input);
  EXPECT_NE(refused.error().message.find("uses 4097 streams; the caching allocator takes 4096"), std::string::npos);
  EXPECT_EQ(run(trace, {.allocator = replay::ReplayAllocator::planned, .timed_operations = 0}).planned->not_planned, 0);
}

// Each stream has segments of its own: the addresses are shared out among them.
TEST(Replay, TheBaselineHasAddressesForManyStreams) {
  const formats::AllocationTrace trace = many_streams(1'000);
  EXPECT_EQ(run(trace, {.allocator = replay::ReplayAllocator::caching, .timed_operations = 0}).peak_reserved_bytes,
            4 * kMiB);
  for (const bool expandable : {false, true})
    EXPECT_EQ(
        run(trace, {.allocator = replay::ReplayAllocator::baseline, .expandable = expandable, .timed_operations = 0})
            .peak_reserved_bytes,
        2'000 * kMiB);
}

TEST(ReplayReport, JsonSaysWhatIsSimulatedAndWhatIsMeasured) {
  const formats::AllocationTrace trace = read(kSmall);
  replay::ReplayReport report{.file = "a \"file\"", .trace = &trace};
  for (const replay::ReplayAllocator allocator : kAll)
    report.replays.push_back(run(trace, {.allocator = allocator, .timed_operations = 10}));
  const nlohmann::json json = testing::parsed(replay::replay_json(report));
  EXPECT_EQ(json["trace"]["file"], "a \"file\"");
  EXPECT_EQ(json["trace"]["peak_live_bytes"], 30 * kMiB);
  EXPECT_EQ(json["trace"]["allocations"], 3);
  ASSERT_EQ(json["replays"].size(), 3U);
  for (const nlohmann::json& replayed : json["replays"]) {
    EXPECT_EQ(replayed["simulated"], true);
    EXPECT_EQ(replayed["peak_live_percent"], 100.0);
    EXPECT_EQ(replayed["granules_above"], 0);
    EXPECT_GT(replayed["measured_ns_per_operation"], 0.0);
  }
  EXPECT_TRUE(json["replays"][0]["planned"].is_null());
  EXPECT_EQ(json["replays"][1]["planned"]["not_planned"], 0);
  const std::string text = replay::replay_text(report);
  EXPECT_NE(text.find("Reserved: simulated"), std::string::npos);
  EXPECT_NE(text.find("ns: measured on this machine"), std::string::npos);
}

// ---- the reference traces -------------------------------------------------------------------------------------------

struct Reference {
  std::string path;
  Bytes baseline_bytes = 0;    ///< peak reserved by the model of PyTorch's allocator
  Bytes expandable_bytes = 0;  ///< the same with expandable segments
};

std::ostream& operator<<(std::ostream& out, const Reference& reference) {
  return out << reference.path;
}

class ReferenceTrace : public ::testing::TestWithParam<Reference> {
 protected:
  void SetUp() override {
    const auto path = testing::data_path(GetParam().path);
    if (!path) GTEST_SKIP() << "no reference data (set TIDEMARK_DATA)";
    trace_ = read(testing::text_of(*path));
    peak_bytes_ = formats::figures_of(trace_).peak_bytes;
  }

  formats::AllocationTrace trace_;
  Bytes peak_bytes_ = 0;
};

TEST_P(ReferenceTrace, PlannedServesEveryRequestAtThePackersHeight) {
  const replay::ReplayFigures figures =
      run(trace_, {.allocator = replay::ReplayAllocator::planned, .timed_operations = 0});
  EXPECT_EQ(figures.planned->not_planned, 0);
  EXPECT_EQ(figures.planned->served, static_cast<std::int64_t>(trace_.blocks.size()));
  EXPECT_EQ(figures.peak_reserved_bytes, round_up(figures.planned->height_bytes, figures.granule_bytes));
}

TEST_P(ReferenceTrace, CachingReservesLittleMoreThanIsLive) {
  const replay::ReplayFigures figures =
      run(trace_, {.allocator = replay::ReplayAllocator::caching, .timed_operations = 0});
  const Bytes above = figures.peak_reserved_bytes - peak_bytes_;
  const double percent = 100.0 * static_cast<double>(peak_bytes_) / static_cast<double>(figures.peak_reserved_bytes);
  EXPECT_TRUE(above <= 4 * figures.granule_bytes || percent >= 98)
      << peak_bytes_ << " B live, " << figures.peak_reserved_bytes << " B reserved";
}

TEST_P(ReferenceTrace, BaselineReservesAsItsRulesSay) {
  EXPECT_EQ(run(trace_, {.allocator = replay::ReplayAllocator::baseline, .timed_operations = 0}).peak_reserved_bytes,
            GetParam().baseline_bytes);
  EXPECT_EQ(run(trace_, {.allocator = replay::ReplayAllocator::baseline, .expandable = true, .timed_operations = 0})
                .peak_reserved_bytes,
            GetParam().expandable_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Data, ReferenceTrace,
    ::testing::Values(Reference{"ascend_profiler/rank_0_operator_memory.csv", 11'716 * kMiB, 10'372 * kMiB},
                      Reference{"snapshots/snapshot_1768383987920985470.pkl", 496 * kMiB, 480 * kMiB},
                      Reference{"snapshots/snapshot_expandable.pkl", 622 * kMiB, 608 * kMiB},
                      Reference{"minimalloc/A.1048576.csv", 2 * kMiB, 2 * kMiB},
                      Reference{"minimalloc/B.1048576.csv", 2 * kMiB, 2 * kMiB},
                      Reference{"minimalloc/C.1048576.csv", 2 * kMiB, 2 * kMiB},
                      Reference{"minimalloc/D.1048576.csv", 2 * kMiB, 2 * kMiB},
                      Reference{"minimalloc/E.1048576.csv", 2 * kMiB, 2 * kMiB},
                      Reference{"minimalloc/F.1048576.csv", 2 * kMiB, 2 * kMiB},
                      Reference{"minimalloc/K.1048576.csv", 4 * kMiB, 2 * kMiB},
                      Reference{"minimalloc/input.12.csv", 2 * kMiB, 2 * kMiB},
                      Reference{"somas/pangu_2.6B.csv", 7'732 * kMiB, 6'304 * kMiB},
                      Reference{"somas/resnet50.csv", 1'610 * kMiB, 1'476 * kMiB}),
    [](const auto& test) {
      std::string name = test.param.path.substr(0, test.param.path.rfind('.'));
      std::ranges::replace_if(
          name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
      return name;
    });

/// What torch_npu's allocator, PyTorch's with 32 B behind every request, had reserved when these traces were recorded:
/// the sum of the snapshots' segments, and the profiler's "Total Reserved". The model of it takes exactly that.
struct Recorded {
  std::string path;
  bool expandable = false;
  Bytes reserved_bytes = 0;
};

TEST(Baseline, ReservesWhatTheRecordedRunsDid) {
  for (const Recorded& recorded : {Recorded{"snapshots/snapshot_1768383987920985470.pkl", false, 526 * kMiB},
                                   Recorded{"snapshots/snapshot_expandable.pkl", true, 614 * kMiB},
                                   Recorded{"ascend_profiler/rank_0_operator_memory.csv", true, 10'372 * kMiB}}) {
    const auto path = testing::data_path(recorded.path);
    if (!path) GTEST_SKIP() << "no reference data (set TIDEMARK_DATA)";
    const replay::ReplayFigures figures =
        run(read(testing::text_of(*path)), {.allocator = replay::ReplayAllocator::baseline,
                                            .expandable = recorded.expandable,
                                            .tail_pad_bytes = 32,
                                            .timed_operations = 0});
    EXPECT_EQ(figures.peak_reserved_bytes, recorded.reserved_bytes) << recorded.path;
  }
}

TEST(Planned, ServesEveryRequestWithAPadToo) {
  for (const replay::ReplayAllocator allocator : kAll) {
    const replay::ReplayFigures figures =
        run(read(kSmall), {.allocator = allocator, .tail_pad_bytes = 32, .timed_operations = 0});
    EXPECT_GE(figures.peak_reserved_bytes, 32 * kMiB);
    if (figures.planned) {
      EXPECT_EQ(figures.planned->not_planned, 0);
    }
  }
}

}  // namespace
}  // namespace tidemark
