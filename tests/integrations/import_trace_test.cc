// Traces of every kind: what small ones mean, what the real ones add up to, and what is said of wrong ones.

#include "integrations/formats/import_trace.h"

#include <gtest/gtest.h>

#include <string>

#include "integrations/formats/import_minimalloc_csv.h"
#include "integrations/formats/import_operator_memory.h"
#include "integrations/formats/import_rmm_log.h"
#include "integrations/formats/import_snapshot.h"
#include "tests/support/data.h"

namespace tidemark {
namespace {

using Block = formats::AllocationTrace::Block;

/// `+2` allocates block 2, `-2` frees it.
std::string events_of(const formats::AllocationTrace& trace) {
  std::string text;
  for (const formats::AllocationTrace::Event& event : trace.events)
    text += (event.action == formats::AllocationTrace::Action::alloc ? "+" : "-") + std::to_string(event.block) + " ";
  return text;
}

formats::AllocationTrace good(Result<formats::AllocationTrace> trace) {
  EXPECT_TRUE(trace.ok()) << trace.error().message;
  if (!trace) return {};
  EXPECT_EQ(formats::find_fault(trace.value()), std::nullopt);
  return std::move(trace).value();
}

std::string message(const Result<formats::AllocationTrace>& trace) {
  return trace ? "read without complaint" : trace.error().message;
}

// ---- the vocabulary -------------------------------------------------------------------------------------------------

TEST(AllocationTrace, Figures) {
  const formats::AllocationTrace trace{.blocks = {{.bytes = 10}, {.bytes = 20}, {.bytes = 5}},
                                       .live_at_start = 1,
                                       .events = {{formats::AllocationTrace::Action::alloc, 1},
                                                  {formats::AllocationTrace::Action::free, 0},
                                                  {formats::AllocationTrace::Action::alloc, 2}}};
  EXPECT_EQ(formats::find_fault(trace), std::nullopt);
  EXPECT_EQ(formats::figures_of(trace),
            (formats::TraceFigures{.allocs = 2, .frees = 1, .start_bytes = 10, .peak_bytes = 30, .end_bytes = 25}));
}

TEST(AllocationTrace, FaultsAreFound) {
  using Action = formats::AllocationTrace::Action;
  const formats::AllocationTrace good{
      .blocks = {{.bytes = 1}, {.bytes = 2}}, .live_at_start = 1, .events = {{Action::alloc, 1}}};
  ASSERT_EQ(formats::find_fault(good), std::nullopt);
  const auto broken = [&](const auto& change) {
    formats::AllocationTrace trace = good;
    change(trace);
    return formats::find_fault(trace).has_value();
  };
  EXPECT_TRUE(broken([](formats::AllocationTrace& trace) { trace.blocks[0].bytes = 0; }));
  EXPECT_TRUE(broken([](formats::AllocationTrace& trace) { trace.live_at_start = 3; }));
  EXPECT_TRUE(broken([](formats::AllocationTrace& trace) { trace.live_at_start = 2; }));
  EXPECT_TRUE(broken([](formats::AllocationTrace& trace) { trace.events.clear(); }));
  EXPECT_TRUE(broken([](formats::AllocationTrace& trace) { trace.events[0].block = 2; }));
  EXPECT_TRUE(broken([](formats::AllocationTrace& trace) { trace.events.push_back({Action::alloc, 1}); }));
  EXPECT_TRUE(broken([](formats::AllocationTrace& trace) { trace.events = {{Action::free, 1}}; }));
  EXPECT_TRUE(broken([](formats::AllocationTrace& trace) {
    trace.events.push_back({Action::free, 0});
    trace.events.push_back({Action::free, 0});
  }));
}

// ---- operator_memory.csv --------------------------------------------------------------------------------------------

constexpr std::string_view kOperatorHeader =
    "Name,Size(KB),Allocation Time(us),Release Time(us),Allocation Total Allocated(MB),Stream Ptr,Device Type\n";

TEST(OperatorMemory, TimesOrderEvents) {
  const std::string text = std::string(kOperatorHeader) +
                           "aten::a,0.5,1764246877074330.300\t,1764246877074330.500\t,1.0,2,NPU:0\n"
                           "\"aten::b, of c\",2,1764246877074330.301\t,,1.0,3,NPU:0\n"
                           "aten::d,32.5,1764246877074330.500\t,1764246877074330.500\t,1.0,2,NPU:0\n";
  const formats::AllocationTrace trace = good(formats::read_operator_memory(text, "f"));
  EXPECT_EQ(trace.source, "operator_memory");
  EXPECT_EQ(trace.live_at_start, 1);  // 1 MiB of total less the first 512 B
  EXPECT_EQ(trace.blocks, (std::vector<Block>{{.bytes = kMiB - 512, .stream = 2},
                                              {.bytes = 512, .stream = 2},
                                              {.bytes = 2048, .stream = 3},
                                              {.bytes = 33'280, .stream = 2}}));
  EXPECT_EQ(events_of(trace), "+1 +2 -1 +3 -3 ");
  EXPECT_EQ(trace.notes.size(), 1U);
}

TEST(OperatorMemory, RowsWithoutAllocationTimeAreThereAtTheStart) {
  const std::string text = std::string(kOperatorHeader) +
                           "a,1024,,20,,2,NPU:0\n"
                           "b,1024,10,30,3,2,NPU:0\n"
                           "c,0,10,30,3,2,NPU:0\n"
                           "d,1,11,12,3,2,NPU:1\n";
  const formats::AllocationTrace trace = good(formats::read_operator_memory(text, "f"));
  EXPECT_EQ(trace.live_at_start, 2);
  EXPECT_EQ(formats::figures_of(trace).start_bytes, 2 * kMiB);
  EXPECT_EQ(events_of(trace), "+2 -1 -2 ");
  EXPECT_EQ(trace.notes.size(), 3U);  // what no row describes, size 0, the other device
}

TEST(OperatorMemory, TotalsBelowTheRowsAreNotUsed) {
  const formats::AllocationTrace trace =
      good(formats::read_operator_memory(std::string(kOperatorHeader) + "a,1024,1,2,0.5,,\n", "f"));
  EXPECT_EQ(trace.live_at_start, 0);
  EXPECT_EQ(trace.notes.size(), 1U);
}

TEST(OperatorMemory, TotalsBeyondAnyDeviceAreNotUsed) {
  const formats::AllocationTrace trace =
      good(formats::read_operator_memory(std::string(kOperatorHeader) + "a,1024,1,2,4000000000000,,\n", "f"));
  EXPECT_EQ(trace.live_at_start, 0);
  EXPECT_EQ(trace.notes, std::vector<std::string>{"the totals count more than 2^60 bytes; they are not used"});
}

TEST(OperatorMemory, WrongRowsAreNamed) {
  const auto wrong = [](const std::string& row) {
    return message(
        formats::read_operator_memory(std::string(kOperatorHeader) + "a,1,1,2,,2,NPU:0\n" + row + "\n", "m.csv"));
  };
  EXPECT_EQ(wrong("a,-1,1,2,,2,NPU:0"), "m.csv:3: Size(KB) is '-1'; it must be a number such as 12.5");
  EXPECT_EQ(wrong("a,,1,2,,2,NPU:0"), "m.csv:3: Size(KB) is ''; it must be a number such as 12.5");
  EXPECT_EQ(wrong("a,1,x,2,,2,NPU:0"), "m.csv:3: Allocation Time(us) is 'x'; it must be a number such as 12.5");
  EXPECT_EQ(wrong("a,1,9,2,,2,NPU:0"), "m.csv:3: Release Time(us) is '2'; it must not be before the allocation at '9'");
  EXPECT_EQ(wrong("a,1,1,2,,two,NPU:0").substr(0, 28), "m.csv:3: Stream Ptr is 'two'");
  EXPECT_EQ(wrong("a,1,1,2,,2"), "m.csv:3: there are 6 fields; the header has 7");
  EXPECT_EQ(wrong("\"a,1,1,2,,2,NPU:0"), "m.csv:3: a quote before '\"a,1,1,2,,2,NPU:0' is not closed");
  EXPECT_EQ(wrong("a,99999999999999999999,1,2,,2,NPU:0").substr(0, 19), "m.csv:3: Size(KB) i");
  EXPECT_EQ(wrong("a,4000000000000000,1,2,,2,NPU:0"), "m.csv:3: the sizes up to here add up to more than 2^60 bytes");
  EXPECT_EQ(message(formats::read_operator_memory("Size(KB),Allocation Time(us),Release Tme(us)\n", "m.csv")),
            "m.csv:1: there is no column 'Release Time(us)'; is it 'Release Tme(us)'?");
}

TEST(OperatorMemory, RealTrace) {
  const auto path = testing::data_path("ascend_profiler/rank_0_operator_memory.csv");
  if (!path) GTEST_SKIP() << "no reference data (set TIDEMARK_DATA)";
  const formats::AllocationTrace trace = good(formats::read_trace(testing::text_of(*path), "f"));
  EXPECT_EQ(trace.source, "operator_memory");
  EXPECT_EQ(formats::figures_of(trace),
            (formats::TraceFigures{.allocs = 3103,
                                   .frees = 3102,
                                   .start_bytes = 4'514'074'624,
                                   .peak_bytes = 10'782'243'840,  // 10,282.749 MB, as the profiler counted
                                   .end_bytes = 4'514'075'136}));
}

// ---- minimalloc -----------------------------------------------------------------------------------------------------

TEST(Minimalloc, IntervalsBecomeEvents) {
  const auto table = formats::read_minimalloc_csv("id,lower,upper,size\nb1,0,3,4\nb2,3,9,5\nb3,0,9,6\n", "f");
  ASSERT_TRUE(table) << table.error().message;
  const formats::AllocationTrace trace = good(formats::trace_of(table.value()));
  EXPECT_EQ(trace.blocks, (std::vector<Block>{{.bytes = 4}, {.bytes = 6}, {.bytes = 5}}));
  EXPECT_EQ(events_of(trace), "+0 +1 -0 +2 -2 -1 ");  // the free of b1 comes before b2 at the same time
}

TEST(Minimalloc, OptionalColumnsAndTheInclusiveForm) {
  const auto table = formats::read_minimalloc_csv(
      "\xef\xbb\xbf# from somewhere\r\nsize,id,alignment,hint,offset,color,start,end\r\n4,a,512,,1024,1-2,0,2\r\n",
      "f");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table.value().rows,
            (std::vector<formats::IntervalTable::Row>{
                {.id = "a", .line = 3, .lower = 0, .upper = 3, .bytes = 4, .alignment_bytes = 512, .offset = 1024}}));
  EXPECT_EQ(table.value().notes, std::vector<std::string>{"column 'color' is not used"});
}

TEST(Minimalloc, InAGapABufferIsAway) {
  const auto table =
      formats::read_minimalloc_csv("id,lower,upper,size,gaps\na,0,9,8,2-4 6-7@0:3\nb,2,4,5,\nc,0,3,1,0-3\n", "f");
  ASSERT_TRUE(table) << table.error().message;
  const formats::AllocationTrace trace = good(formats::trace_of(table.value()));
  EXPECT_EQ(trace.blocks, (std::vector<Block>{{.bytes = 8}, {.bytes = 5}, {.bytes = 8}, {.bytes = 3}, {.bytes = 8}}));
  EXPECT_EQ(events_of(trace), "+0 -0 +1 -1 +2 -2 +3 -3 +4 -4 ");
  EXPECT_EQ(formats::figures_of(trace).peak_bytes, 8);
  EXPECT_EQ(trace.notes, std::vector<std::string>{"1 gaps keep a window, which is replayed as a block"});
}

TEST(Minimalloc, ManyUnknownColumnsAreOneShortNote) {
  std::string header = "id,lower,upper,size", row = "a,0,3,4";
  for (int i = 0; i < 9000; ++i) {
    header += ",column" + std::to_string(i);
    row += ",";
  }
  const auto table = formats::read_minimalloc_csv(header + "\n" + row + "\n", "f");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table.value().notes,
            std::vector<std::string>{"columns 'column0', 'column1', 'column2' and 8997 more are not used"});
  for (int i = 0; i < 1000; ++i) header += ",more";
  const auto wider = formats::read_minimalloc_csv(header + "\n", "f");
  ASSERT_FALSE(wider);
  EXPECT_EQ(wider.error().message, "f:1: there are more than 10000 fields");
  EXPECT_EQ(
      formats::read_minimalloc_csv("id,lower,upper,size\n" + std::string(20'000, ',') + "\n", "f").error().message,
      "f:2: there are more than 10000 fields");
  EXPECT_EQ(formats::read_minimalloc_csv("id,lower,upper,size,size\n", "f").error().message,
            "f:1: column 'size' is there twice");
}

TEST(Minimalloc, WrongRowsAreNamed) {
  const auto wrong = [](const std::string& row) {
    const auto table = formats::read_minimalloc_csv("id,lower,upper,size\na,0,1,1\n" + row + "\n", "m.csv");
    return table ? "read without complaint" : table.error().message;
  };
  EXPECT_EQ(wrong("b,3,3,1"), "m.csv:3: upper is 3; it must be above lower, 3");
  EXPECT_EQ(wrong("b,0,3,0").substr(0, 20), "m.csv:3: size is '0'");
  EXPECT_EQ(wrong("b,0,3,1.5").substr(0, 22), "m.csv:3: size is '1.5'");
  EXPECT_EQ(wrong("b,-1,3,1").substr(0, 22), "m.csv:3: lower is '-1'");
  EXPECT_EQ(wrong("a,0,3,1"), "m.csv:3: id 'a' is there twice, first in line 2");
  EXPECT_EQ(wrong(",0,3,1"), "m.csv:3: id is empty; every buffer has a name");
  EXPECT_EQ(wrong("b,0,3"), "m.csv:3: there are 3 fields; the header has 4");
}

TEST(Minimalloc, RealInstances) {
  const auto folder = testing::data_path("minimalloc");
  const auto somas = testing::data_path("somas");
  if (!folder || !somas) GTEST_SKIP() << "no reference data (set TIDEMARK_DATA)";
  const auto figures = [](const std::filesystem::path& path) {
    return formats::figures_of(good(formats::read_trace(testing::text_of(path), "f")));
  };
  EXPECT_EQ(figures(*folder / "A.1048576.csv"),
            (formats::TraceFigures{.allocs = 154, .frees = 154, .peak_bytes = 1'048'576}));
  EXPECT_EQ(figures(*folder / "D.1048576.csv"),
            (formats::TraceFigures{.allocs = 213, .frees = 213, .peak_bytes = 986'112}));
  EXPECT_EQ(figures(*folder / "input.12.csv"), (formats::TraceFigures{.allocs = 5, .frees = 5, .peak_bytes = 12}));
  EXPECT_EQ(figures(*somas / "pangu_2.6B.csv"),
            (formats::TraceFigures{.allocs = 18'692, .frees = 18'692, .peak_bytes = 5'530'099'775}));
  EXPECT_EQ(figures(*somas / "resnet50.csv"),
            (formats::TraceFigures{.allocs = 1042, .frees = 1042, .peak_bytes = 1'515'472'556}));
}

// ---- RMM logs -------------------------------------------------------------------------------------------------------

TEST(RmmLog, PointersBecomeBlocks) {
  const formats::AllocationTrace trace =
      good(formats::read_rmm_log("Thread,Time,Action,Pointer,Size,Stream\n"
                                 "1,12:00:00:000001,allocate,0x10,100,0\n"
                                 "1,12:00:00:000002,free,0x99,7,0x2\n"
                                 "1,12:00:00:000003,free,0x10,100,0\n"
                                 "1,12:00:00:000004,allocate failure,0,5,0\n"
                                 "2,12:00:00:000005,allocate,0x10,50,1\n",
                                 "f"));
  EXPECT_EQ(trace.blocks, (std::vector<Block>{{.bytes = 7, .stream = 2, .address = 0x99},
                                              {.bytes = 100, .stream = 0, .address = 0x10},
                                              {.bytes = 50, .stream = 1, .address = 0x10}}));
  EXPECT_EQ(trace.live_at_start, 1);
  EXPECT_EQ(events_of(trace), "+1 -0 -1 +2 ");
  EXPECT_EQ(trace.notes.size(), 1U);
}

TEST(RmmLog, DoubtfulLinesAreCounted) {
  const formats::AllocationTrace trace =
      good(formats::read_rmm_log("Thread,Time,Action,Pointer,Size,Stream\n"
                                 "1,12:00:00:000002,allocate,0x100,256,0\n"
                                 "1,12:00:00:000001,allocate,0x200,256,0\n"
                                 "1,12:00:00:000003,free,0x100,300,0\n"
                                 "1,12:00:00:000004,free,0x200,256,0\n",
                                 "f"));
  EXPECT_EQ(events_of(trace), "+0 +1 -0 -1 ");
  EXPECT_EQ(trace.notes,
            (std::vector<std::string>{"1 lines are earlier than the line before; the order of the lines counts",
                                      "1 frees state another size than their allocation, which counts"}));
}

TEST(RmmLog, WrongRowsAreNamed) {
  const auto wrong = [](const std::string& rows) {
    return message(formats::read_rmm_log("Thread,Time,Action,Pointer,Size,Stream\n" + rows, "m.csv"));
  };
  EXPECT_EQ(wrong("1,t,allocate,0x10,1,0\n1,t,allocate,0x10,1,0\n"),
            "m.csv:3: pointer 0x10 is allocated while it is in use; a free is missing");
  EXPECT_EQ(wrong("1,t,allocate,0x100,512,0\n1,t,allocate,0x200,1,0\n"),
            "m.csv:3: the block at 0x200 lies over the one at 0x100, which is in use; a free is missing");
  EXPECT_EQ(wrong("1,t,allocate,0x300,512,0\n1,t,allocate,0x200,512,0\n"),
            "m.csv:3: the block at 0x200 lies over the one at 0x300, which is in use; a free is missing");
  EXPECT_EQ(wrong("1,t,allocate,0x300,-1,0\n").substr(0, 19), "m.csv:2: Size is '-");
  EXPECT_EQ(wrong("1,t,allocate,zz,1,0\n").substr(0, 24), "m.csv:2: Pointer is 'zz'");
  EXPECT_EQ(message(formats::read_rmm_log("Thread,Action,Pointer,Size\n", "m.csv")),
            "m.csv:1: there is no column 'Stream'");
}

// ---- snapshots ------------------------------------------------------------------------------------------------------

/// Pickles of protocol 0, which can be written by hand.
std::string text_of(const std::string& value) {
  return "V" + value + "\n";
}
std::string number(std::int64_t value) {
  return "I" + std::to_string(value) + "\n";
}
std::string list(const std::vector<std::string>& items) {
  std::string text = "(l";
  for (const std::string& item : items) text += item + "a";
  return text;
}
std::string dict(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string text = "(d";
  for (const auto& [key, value] : fields) text += text_of(key) + value + "s";
  return text;
}
std::string entry(const std::string& action, std::int64_t address, std::int64_t bytes) {
  return dict({{"action", text_of(action)}, {"addr", number(address)}, {"size", number(bytes)}, {"stream", "I7\n"}});
}
std::string segment(std::int64_t address, const std::vector<std::pair<std::int64_t, std::string>>& blocks) {
  std::vector<std::string> items;
  for (const auto& [bytes, state] : blocks) items.push_back(dict({{"size", number(bytes)}, {"state", text_of(state)}}));
  return dict({{"device", "I0\n"}, {"address", number(address)}, {"stream", "I7\n"}, {"blocks", list(items)}});
}
std::string snapshot(const std::vector<std::string>& segments, const std::vector<std::string>& entries) {
  return dict({{"segments", list(segments)}, {"device_traces", list({list(entries)})}}) + ".";
}

TEST(SnapshotTrace, WhatWasThereBeforeIsFoundBackwards) {
  // At the end 100 (since before), 300 (new) and 500 (parked) are listed; 200 was freed and its place taken by 300.
  const formats::AllocationTrace trace = good(formats::read_trace(
      snapshot({segment(100, {{64, "active_allocated"}, {136, "inactive"}}),
                segment(200, {{32, "active_allocated"}, {168, "inactive"}, {8, "active_pending_free"}})},
               {entry("free_requested", 200, 30), entry("free_completed", 200, 30), entry("segment_map", 200, 512),
                entry("alloc", 200, 31), entry("free_requested", 400, 8)}),
      "f"));
  EXPECT_EQ(trace.source, "snapshot");
  EXPECT_EQ(trace.live_at_start, 3);
  EXPECT_EQ(trace.blocks, (std::vector<Block>{{.bytes = 64, .stream = 7, .address = 100},
                                              {.bytes = 30, .stream = 7, .address = 200},
                                              {.bytes = 8, .stream = 7, .address = 400},
                                              {.bytes = 31, .stream = 7, .address = 200}}));
  EXPECT_EQ(events_of(trace), "-1 +3 -2 ");
  EXPECT_TRUE(trace.notes.empty());
}

TEST(SnapshotTrace, HolesInTheHistoryAreNoted) {
  const formats::AllocationTrace trace =
      good(formats::read_trace(snapshot({}, {entry("alloc", 8, 1), entry("alloc", 8, 2), entry("free_requested", 8, 2),
                                             entry("something_new", 1, 1)}),
                               "f"));
  EXPECT_EQ(events_of(trace), "+0 -0 +1 -1 ");
  EXPECT_EQ(trace.notes.size(), 2U);
}

TEST(SnapshotTrace, BlocksOverLiveOnesTellOfMissingFrees) {
  const formats::AllocationTrace trace =
      good(formats::read_trace(snapshot({}, {entry("alloc", 100, 50), entry("alloc", 200, 50), entry("alloc", 120, 100),
                                             entry("free_requested", 120, 100), entry("free_requested", 200, 50)}),
                               "f"));
  EXPECT_EQ(events_of(trace), "+0 +1 -1 -0 +2 -2 ");
  EXPECT_EQ(trace.notes, (std::vector<std::string>{"2 frees are missing from the history",
                                                   "1 allocations are missing from the history"}));
}

TEST(SnapshotTrace, BlocksFromBeforeTheHistoryDoNotOverlap) {
  const formats::AllocationTrace trace = good(
      formats::read_trace(snapshot({}, {entry("free_requested", 100, 50), entry("free_requested", 120, 50)}), "f"));
  EXPECT_EQ(trace.blocks, (std::vector<Block>{{.bytes = 50, .stream = 7, .address = 100}}));
  EXPECT_EQ(trace.notes,
            (std::vector<std::string>{"1 allocations are missing from the history",
                                      "1 blocks from before the history lie over others and are left out"}));
}

TEST(SnapshotTrace, ManyOddEntriesAreFewShortNotes) {
  std::vector<std::string> entries;
  for (int i = 0; i < 5000; ++i)
    entries.push_back(dict({{"action", text_of("new" + std::to_string(10'000 + i))}, {"time_us", number(-i)}}));
  entries.push_back(entry("alloc", 8, 1));
  const formats::AllocationTrace trace = good(formats::read_trace(snapshot({}, entries), "f"));
  EXPECT_EQ(trace.notes, (std::vector<std::string>{
                             "entries of actions 'new10000', 'new10001', 'new10002' and 4997 more are not used",
                             "4999 entries are earlier than the entry before; their order in the file counts"}));
}

TEST(SnapshotTrace, SizesInUseAddUpToSomethingThatFits) {
  std::vector<std::string> segments;
  for (int i = 0; i < 1025; ++i)
    segments.push_back(segment(std::int64_t{i} << 50, {{std::int64_t{1} << 50, "active_allocated"}}));
  EXPECT_EQ(message(formats::read_trace(snapshot(segments, {entry("alloc", 8, 1)}), "f")),
            "f: segments[1024].blocks[0]: the blocks up to here add up to more than 2^60 bytes");
}

TEST(SnapshotTrace, WrongContentsAreNamed) {
  const auto wrong = [](const std::string& bytes) { return message(formats::read_trace(bytes, "s.pkl")); };
  EXPECT_EQ(wrong(snapshot({}, {})),
            "s.pkl: device_traces: no device has a history; record one with "
            "torch.cuda.memory._record_memory_history()");
  EXPECT_EQ(wrong(dict({{"segments", list({})}}) + "."), "s.pkl: the snapshot: 'device_traces' is missing");
  EXPECT_EQ(wrong(dict({{"device_traces", list({"I1\n"})}}) + "."), "s.pkl: device_traces[0]: it is no list");
  EXPECT_EQ(wrong(list({"I1\n"}) + "."), "s.pkl: the snapshot: 'device_traces' is missing");
  EXPECT_EQ(wrong(snapshot({}, {entry("alloc", -8, 1)})),
            "s.pkl: device_traces[0][0]: 'addr' is no whole number from 0");
  EXPECT_EQ(wrong(snapshot({}, {entry("alloc", 8, 1), "I5\n"})), "s.pkl: device_traces[0][1]: 'action' is missing");
  EXPECT_EQ(wrong(snapshot({}, {entry("alloc", 8, std::int64_t{1} << 55)})),
            "s.pkl: device_traces[0][0]: 'size' is 36028797018963968; it must be at most 2^50");
  EXPECT_EQ(wrong(snapshot({segment(8, {{8, "active_allocated"}}), segment(8, {{8, "active_allocated"}})},
                           {entry("alloc", 8, 1)})),
            "s.pkl: segments[1].blocks[0]: address 8 is in use twice");
  EXPECT_EQ(wrong(snapshot({segment(8, {{8, "active_allocated"}}), segment(12, {{8, "active_allocated"}})},
                           {entry("alloc", 8, 1)})),
            "s.pkl: segments[1].blocks[0]: address 12 is in use twice");
  EXPECT_EQ(wrong(snapshot({dict({{"device", "I0\n"}})}, {entry("alloc", 8, 1)})),
            "s.pkl: segments[0]: 'address' is missing");
  EXPECT_EQ(wrong("\x80\x02"
                  "cos\nsystem\n(S'true'\ntR."),
            "s.pkl: byte 2: GLOBAL would run code of Python; a snapshot holds numbers, texts, lists and dicts only");
}

TEST(SnapshotTrace, RealSnapshots) {
  const auto folder = testing::data_path("snapshots");
  if (!folder) GTEST_SKIP() << "no reference data (set TIDEMARK_DATA)";
  const formats::AllocationTrace expandable =
      good(formats::read_trace(testing::text_of(*folder / "snapshot_expandable.pkl"), "f"));
  EXPECT_EQ(formats::figures_of(expandable), (formats::TraceFigures{.allocs = 2899,
                                                                    .frees = 2574,
                                                                    .start_bytes = 94'482'944,
                                                                    .peak_bytes = 597'483'440,
                                                                    .end_bytes = 408'540'240}));
  EXPECT_TRUE(expandable.notes.empty());
  const formats::AllocationTrace plain =
      good(formats::read_trace(testing::text_of(*folder / "snapshot_1768383987920985470.pkl"), "f"));
  EXPECT_EQ(formats::figures_of(plain),
            (formats::TraceFigures{.allocs = 3216, .frees = 3216, .peak_bytes = 471'498'368}));
  EXPECT_TRUE(plain.notes.empty());
}

// ---- which kind -----------------------------------------------------------------------------------------------------

TEST(TraceKind, IsSeenInTheContent) {
  const auto wrong = [](std::string_view bytes) { return message(formats::read_trace(bytes, "x")); };
  EXPECT_EQ(good(formats::read_trace("id,lower,upper,size\na,0,1,1\n", "x")).source, "minimalloc");
  EXPECT_EQ(good(formats::read_trace("Action,Pointer,Size,Stream\nallocate,1,1,1\n", "x")).source, "rmm_log");
  EXPECT_EQ(wrong(""), "x:1: the file is empty; the first line names the columns");
  EXPECT_EQ(wrong("\n\n# nothing\n"), "x:1: the file is empty; the first line names the columns");
  EXPECT_EQ(wrong("{}").substr(0, 15), "x:1: it is JSON");
  EXPECT_EQ(wrong("PK\x03\x04rest"), "x:1: it is a zip archive; unpack it first");
  EXPECT_EQ(wrong("\x1f\x8brest"), "x:1: it is compressed; unpack it first");
  EXPECT_EQ(wrong("a,b\n1,2\n").substr(0, 30), "x:1: the first line starts wit");
  EXPECT_EQ(wrong("id,lower,upper,size\n"), "x:1: the trace holds no allocation and no free");
  EXPECT_EQ(wrong("id,lower,uper,size\n"), "x:1: there is no column 'upper'; is it 'uper'?");
}

/// Two bytes a segment and two a block would be read as one block for each pair of them.
TEST(SnapshotLimits, BlocksThatSegmentsShareAreCountedForEach) {
  std::string text =
      "(dVdevice_traces\n(l(l(dVaction\nVoom\nsaasVsegments\n(l(dVdevice\nI0\nsVaddress\nI0\nsVblocks\n(l(dVsize\nI0\n"
      "sVstate\nVinactive\nsp1\na";
  for (int i = 0; i < 2'000; ++i) text += "g1\na";
  text += "sp2\na";
  for (int i = 0; i < 2'000; ++i) text += "g2\na";
  const Result<formats::AllocationTrace> trace = formats::read_trace(text + "s.", "f");
  ASSERT_FALSE(trace.ok());
  EXPECT_EQ(trace.error().message,
            "f: segments[0]: the blocks up to here are more than the values of the file; segments share a list");
}

}  // namespace
}  // namespace tidemark
