// What small snapshots and profiler tables tell of a rank, and what the real ones do.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "integrations/formats/import_operator_memory.h"
#include "integrations/formats/import_snapshot.h"
#include "integrations/measured/rank_measure.h"
#include "tests/measured/sample_run.h"
#include "tests/support/data.h"

namespace tidemark::measured {
namespace {

using budget::Category;

budget::RankHoldings holdings_of_text(const std::string& pickle) {
  const auto run = formats::read_attributed_snapshot(pickle, "s.pickle");
  EXPECT_TRUE(run.ok()) << run.error().message;
  return run ? holdings_of(0, "", measure_of(run.value())) : budget::RankHoldings{};
}

Bytes of(const budget::RankHoldings& rank, Category category) {
  return rank.by_category[static_cast<std::size_t>(category)];
}

/// `name: bytes category xcount`, a line each.
std::string rows(const budget::RankHoldings& rank) {
  std::string text;
  for (const budget::HeldStorage& held : rank.storages)
    text += held.name + ": " + std::to_string(held.bytes) + " " + std::string(budget::word_of(held.category)) + " x" +
            std::to_string(held.count) + "\n";
  return text;
}

const std::vector<Frame> kStep = {{"/v/site-packages/torch/optim/adam.py", "_multi_tensor_adam"}, {"w/t.py", "step"}};
const std::vector<Frame> kForward = {{"/v/site-packages/torch/nn/functional.py", "linear"},
                                     {"/v/site-packages/torch/nn/modules/module.py", "_call_impl"},
                                     {"w/t.py", "step"}};

TEST(SnapshotMeasure, StoragesCachedAndSteady) {
  const budget::RankHoldings rank = holdings_of_text(
      pickled_snapshot({{.address = 4096, .blocks = {{.bytes = 100}, {.bytes = 412, .state = "inactive"}}}},
                       {{.action = "segment_alloc", .address = 4096, .bytes = 512},
                        {.action = "alloc", .address = 4196, .bytes = 40, .frames = kForward},
                        {.action = "alloc", .address = 4236, .bytes = 60, .frames = kForward},
                        {.action = "alloc", .address = 4300, .bytes = 30, .frames = {}},
                        {.action = "free_requested", .address = 4196, .bytes = 40, .frames = kStep},
                        {.action = "free_requested", .address = 4236, .bytes = 60},
                        {.action = "free_requested", .address = 4300, .bytes = 30}}));
  EXPECT_EQ(rank.peak_bytes, 512);
  EXPECT_EQ(rows(rank),
            "cached: 282 cached x1\n"
            "live before the recording: 100 other x1\n"
            "w/t.py:step (linear): 100 activations x2\n"
            "no Python frame: 30 other x1\n");
  EXPECT_EQ(rank.by_phase[0], 100 + 282);  // live and cached
  EXPECT_EQ(rank.peak_at, "event 3 of 6, in no Python frame");
}

TEST(SnapshotMeasure, WhatOutlivesAnOptimizersStepIsItsState) {
  const auto pickle = [](bool something_else) {
    std::vector<PickledEntry> entries = {{.action = "alloc", .address = 4096, .bytes = 10, .frames = kStep}};
    if (something_else) entries.push_back({.action = "alloc", .address = 5096, .bytes = 1, .frames = kForward});
    entries.push_back({.action = "alloc", .address = 6096, .bytes = 5, .frames = kStep});
    return pickled_snapshot({}, entries);
  };
  EXPECT_EQ(rows(holdings_of_text(pickle(false))), "w/t.py:step (_multi_tensor_adam): 15 temporaries x2\n");
  EXPECT_EQ(rows(holdings_of_text(pickle(true))),
            "w/t.py:step (_multi_tensor_adam) [optimizer_state]: 10 optimizer_state x1\n"
            "w/t.py:step (_multi_tensor_adam) [temporaries]: 5 temporaries x1\n"
            "w/t.py:step (linear): 1 activations x1\n");
}

TEST(SnapshotMeasure, WhatBackwardLeftWhenAnOptimizerAllocatesIsAGradient) {
  const std::vector<PickledEntry> step = {{.action = "alloc", .address = 4096, .bytes = 10, .frames = kForward},
                                          {.action = "alloc", .address = 5096, .bytes = 20},
                                          {.action = "alloc", .address = 6096, .bytes = 30, .category = "temporary"}};
  EXPECT_EQ(rows(holdings_of_text(pickled_snapshot({}, step))),
            "no Python frame [temporaries]: 30 temporaries x1\n"
            "no Python frame [other]: 20 other x1\n"
            "w/t.py:step (linear): 10 activations x1\n");
  std::vector<PickledEntry> more = step;
  more.push_back({.action = "alloc", .address = 7096, .bytes = 5, .frames = kStep});
  more.push_back({.action = "alloc", .address = 8096, .bytes = 4});
  EXPECT_EQ(rows(holdings_of_text(pickled_snapshot({}, more))),
            "no Python frame [temporaries]: 30 temporaries x1\n"
            "gradients left by backward: 20 gradients x1\n"
            "w/t.py:step (linear): 10 activations x1\n"
            "w/t.py:step (_multi_tensor_adam): 5 optimizer_state x1\n"
            "no Python frame [other]: 4 other x1\n");
}

TEST(SnapshotMeasure, TheUsersWordsComeFirst) {
  const budget::RankHoldings rank = holdings_of_text(pickled_snapshot(
      {}, {{.action = "alloc", .address = 4096, .bytes = 10, .frames = kForward, .metadata = "layers.3.mlp"},
           {.action = "alloc", .address = 5096, .bytes = 20, .frames = kForward, .metadata = "layers.4.mlp"},
           {.action = "alloc", .address = 6096, .bytes = 5, .frames = kStep, .metadata = "gradients: grad buffer"},
           {.action = "alloc", .address = 7096, .bytes = 4, .frames = kStep, .category = "parameter"},
           {.action = "alloc", .address = 8096, .bytes = 3, .frames = kForward, .metadata = "communication"},
           {.action = "alloc", .address = 9096, .bytes = 2, .frames = {}, .category = "unknown"}}));
  EXPECT_EQ(rows(rank),
            "layers.mlp: 30 activations x2\n"
            "grad buffer: 5 gradients x1\n"
            "w/t.py:step (_multi_tensor_adam): 4 parameters x1\n"
            "w/t.py:step (linear): 3 communication x1\n"
            "no Python frame: 2 other x1\n");
}

TEST(SnapshotMeasure, BlocksOfTheEndSayWhereTheyWereAllocated) {
  // The history begins behind their allocation; what is freed within it is told of by its free alone.
  const budget::RankHoldings rank =
      holdings_of_text(pickled_snapshot({{.address = 4096, .blocks = {{.bytes = 7, .frames = kForward}}}},
                                        {{.action = "free_requested", .address = 9096, .bytes = 5, .frames = kStep}}));
  EXPECT_EQ(rows(rank), "w/t.py:step (linear): 7 activations x1\nlive before the recording: 5 other x1\n");
  EXPECT_EQ(rank.by_phase[0], std::nullopt);  // it falls below what was there at the start
}

TEST(SnapshotMeasure, ExpandableSegmentsGrowAndShrink) {
  const budget::RankHoldings rank = holdings_of_text(pickled_snapshot(
      {{.address = 4096, .blocks = {{.bytes = 100}}}}, {{.action = "segment_map", .address = 4196, .bytes = 300},
                                                        {.action = "alloc", .address = 4200, .bytes = 50},
                                                        {.action = "free_requested", .address = 4200, .bytes = 50},
                                                        {.action = "segment_unmap", .address = 4196, .bytes = 300}}));
  EXPECT_EQ(rank.peak_bytes, 400);
  EXPECT_EQ(of(rank, Category::cached), 250);
}

TEST(SnapshotMeasure, AHistoryWithGapsReservesAtLeastWhatIsAllocated) {
  const budget::RankHoldings rank =
      holdings_of_text(pickled_snapshot({}, {{.action = "segment_alloc", .address = 4096, .bytes = 300},
                                             {.action = "segment_free", .address = 4096, .bytes = 900},
                                             {.action = "alloc", .address = 4096, .bytes = 5'000}}));
  EXPECT_EQ(rank.peak_bytes, 5'000);
  EXPECT_EQ(of(rank, Category::cached), 0);
}

TEST(SnapshotMeasure, WrongSegmentEntriesAreNamed) {
  const auto wrong = [](const PickledEntry& entry) {
    const auto run = formats::read_attributed_snapshot(pickled_snapshot({}, {entry}), "s.pickle");
    return run ? "read without complaint" : run.error().message;
  };
  EXPECT_EQ(wrong({.action = "segment_map", .bytes = -1}),
            "s.pickle: device_traces[0][0]: 'size' is no whole number from 0");
  EXPECT_EQ(wrong({.action = "segment_map", .bytes = std::int64_t{1} << 51}),
            "s.pickle: device_traces[0][0]: 'size' is 2251799813685248; it must be at most 2^50");
}

TEST(SnapshotMeasure, FramesThatAreNoneAreLeftOut) {
  std::string pickle =
      pickled_snapshot({}, {{.action = "alloc", .address = 4096, .bytes = 10, .frames = {{"a.py", "f"}}}});
  const std::string name = "Vname\nVf\n";
  pickle.replace(pickle.find(name), name.size(), "Vname\nI5\n");
  EXPECT_EQ(rows(holdings_of_text(pickle)), "no Python frame: 10 other x1\n");
}

TEST(SnapshotMeasure, RealSnapshots) {
  const auto folder = testing::data_path("snapshots");
  if (!folder) GTEST_SKIP() << "no reference data (set TIDEMARK_DATA)";
  const budget::RankHoldings expandable = holdings_of_text(testing::text_of(*folder / "snapshot_expandable.pkl"));
  EXPECT_EQ(expandable.peak_bytes, 643'825'664);  // the segments of the end: nothing was ever returned
  EXPECT_EQ(of(expandable, Category::cached), 643'825'664 - 597'483'440);
  EXPECT_EQ(expandable.by_phase[0], 94'482'944 + of(expandable, Category::cached));
  EXPECT_GT(of(expandable, Category::optimizer_state), 150'000'000);  // Adam's two moments of 23.5 M parameters
  EXPECT_LT(of(expandable, Category::optimizer_state), 200'000'000);
  const budget::RankHoldings plain = holdings_of_text(testing::text_of(*folder / "snapshot_1768383987920985470.pkl"));
  EXPECT_EQ(plain.peak_bytes, 551'550'976);
  EXPECT_EQ(of(plain, Category::cached), 551'550'976 - 471'498'368);
  EXPECT_NEAR(static_cast<double>(of(plain, Category::parameters)), 94.3e6, 0.3e6);  // ResNet-50 in fp32
  EXPECT_NEAR(static_cast<double>(of(plain, Category::gradients)), 94.1e6, 0.1e6);
  EXPECT_FALSE(plain.by_phase[0]);  // the recording begins before the model
}

TEST(OperatorMemoryMeasure, StoragesByOperator) {
  constexpr std::string_view kTable =
      "Name,Size(KB),Allocation Time(us),Release Time(us),Allocation Total Allocated(MB),Allocation Total Reserved(MB),"
      "Release Total Reserved(MB),Stream Ptr,Device Type\n"
      "aten::mm,1024,10,,3,8,,2,NPU:0\n"
      "aten::mm,1024,20,40,4,8,12,2,NPU:0\n"
      "c10d::allreduce_,512,30,,4.5,10,,2,NPU:0\n";
  const auto run = formats::read_attributed_operator_memory(kTable, "o.csv");
  ASSERT_TRUE(run.ok()) << run.error().message;
  const budget::RankHoldings rank = holdings_of(0, "", measure_of(run.value()));
  EXPECT_EQ(rank.peak_bytes, 12 * kMiB);
  EXPECT_EQ(rows(rank),
            "cached: 7864320 cached x1\n"
            "aten::mm: 2097152 other x2\n"
            "live before the recording: 2097152 other x1\n"
            "c10d::allreduce_: 524288 communication x1\n");
  EXPECT_EQ(rank.by_phase[0], 2 * kMiB + of(rank, Category::cached));
}

TEST(OperatorMemoryMeasure, RealTable) {
  const auto path = testing::data_path("ascend_profiler/rank_0_operator_memory.csv");
  if (!path) GTEST_SKIP() << "no reference data (set TIDEMARK_DATA)";
  const std::string text = testing::text_of(*path);
  const auto run = formats::read_attributed_operator_memory(text, "o.csv");
  ASSERT_TRUE(run.ok()) << run.error().message;
  const budget::RankHoldings rank = holdings_of(0, "", measure_of(run.value()));
  EXPECT_EQ(rank.peak_bytes, 10'372 * kMiB);  // `Allocation Total Reserved(MB)`, the same in every row
  EXPECT_NEAR(static_cast<double>(rank.peak_bytes - of(rank, Category::cached)) / kMiB, 10'282.7, 0.1);
  EXPECT_EQ(rank.storages.front().name, kBefore);
}

}  // namespace
}  // namespace tidemark::measured
