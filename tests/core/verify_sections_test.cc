// Sections that may run in chunks: a clean program, and one test for each way it can be broken.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dispatch_section.h"
#include "core/dynamic_region.h"
#include "core/verify.h"
#include "tests/support/tiny_graph.h"
#include "tests/support/tiny_schedule.h"

namespace tidemark {
namespace {

/// What a micro-batch's forward pass may do besides.
struct Quirks {
  bool sort_reads_home = false;
  bool peek_writes_home = false;
  bool sort_is_on_rows = true;
  bool use_is_on_rows = false;
  bool exchange_writes_home = false;
  bool two_write_home = false;
  Lane exchange_lane = Lane::intra_comm;
};

/// Two micro-batches: pack writes home and mark stat, exchange brings home rows to received, peek looks at stat, sort
/// turns received into rows; use reads rows in the end. Tasks 0 to 4, 5 to 9, 10 and 11.
class SectionRules : public ::testing::Test {
 protected:
  static constexpr Bytes kRows = 4 * kMiB;

  void SetUp() override { build({}); }

  void build(Quirks quirks) {
    testing::GraphBuilder b;
    const OpTemplateId pack = b.timed_op("pack", 1), mark = b.timed_op("mark", 1, Lane::inter_comm);
    const OpTemplateId exchange = b.timed_op("exchange", 1, quirks.exchange_lane), peek = b.timed_op("peek", 1);
    const OpTemplateId sort = b.timed_op("sort", 1);
    const OpTemplateId use = b.timed_op("use", 1, Lane::compute, OpPhase::backward);
    const BlockId layer = b.block(
        "layer", {{.name = "home", .fixed_bytes = kMiB},
                  {.name = "received", .routed_rows = 64, .routed_row_bytes = 64 * kKiB},
                  {.name = "rows", .routed_rows = 64, .routed_row_bytes = 64 * kKiB, .saved_for_backward = true},
                  {.name = "stat", .fixed_bytes = kMiB}});
    std::vector<SiteId> sites;
    for (std::int32_t mb = 0; mb < 2; ++mb) {
      const SiteId site = b.site(layer, {.layer = 0, .micro_batch = mb});
      sites.push_back(site);
      b.run(pack, site, {}, {b.at(site, 0)});
      b.run(mark, site, {}, {b.at(site, 3)});
      if (quirks.two_write_home)
        b.run(exchange, site, {}, {b.at(site, 1), b.at(site, 0)});
      else if (quirks.exchange_writes_home)
        b.run(exchange, site, {b.at(site, 0)}, {b.at(site, 1), b.at(site, 0)});
      else
        b.run(exchange, site, {b.at(site, 0)}, {b.at(site, 1)});
      if (quirks.peek_writes_home)
        b.run(peek, site, {b.at(site, 3)}, {b.at(site, 0)});
      else
        b.run(peek, site, {b.at(site, 3)}, {});
      if (quirks.two_write_home)
        b.run(sort, site, {b.at(site, 1)}, {b.at(site, 2), b.at(site, 0)});
      else if (quirks.sort_reads_home)
        b.run(sort, site, {b.at(site, 1), b.at(site, 3), b.at(site, 0)}, {b.at(site, 2)});
      else
        b.run(sort, site, {b.at(site, 1), b.at(site, 3)}, {b.at(site, 2)});
    }
    b.run(use, sites[1], {b.at(sites[1], 2)}, {});
    b.run(use, sites[0], {b.at(sites[0], 2)}, {});
    graph_ = std::move(b).finish();
    graph_.op_templates[row(exchange)].routed = true;
    graph_.op_templates[row(sort)].routed = quirks.sort_is_on_rows;
    graph_.op_templates[row(use)].routed = quirks.use_is_on_rows;
    program_ = {};
    program_.schedule = testing::keep_all_schedule(graph_);
    program_.layout = testing::side_by_side(program_.schedule, kPlanGranule);
    add_sections();
  }

  // At load 2 every routed storage lacks two granules: six are taken whole, four in chunks.
  void add_sections() {
    for (const std::int32_t r : {1, 2, 5, 6})
      program_.routed.push_back({.residency = static_cast<ResidencyId>(r),
                                 .site = static_cast<SiteId>(r / 4),
                                 .rows = 64,
                                 .row_bytes = 64 * kKiB});
    Arena& device = program_.layout.arenas[0];
    device.dynamic_bytes = 4 * kPlanGranule;
    device.capacity_bytes = device.height_bytes + device.dynamic_bytes;
    program_.contingency_limit_f = 1.5;
    program_.collective_limit_f = 2;
    program_.sections = {{.chunks = 4, .first_buffer = 0, .buffer_count = 1},
                         {.chunks = 4, .first_buffer = 1, .buffer_count = 1}};
    for (const std::size_t r : {1U, 5U})
      program_.chunk_buffers.push_back({.residency = id_of<ResidencyId>(r), .offset = program_.layout.offset_of[r]});
  }

  DispatchSection& section() { return program_.sections[1]; }
  ChunkBuffer& buffer() { return program_.chunk_buffers[1]; }
  void expect_broken(std::string_view says) {
    const auto found = verify_program(graph_, program_);
    ASSERT_TRUE(found.has_value()) << says;
    EXPECT_EQ(found->rule, Violation::Rule::contingency) << found->detail;
    EXPECT_NE(found->detail.find(says), std::string::npos) << found->detail;
  }

  Graph graph_;
  Program program_;
};

TEST_F(SectionRules, CleanSectionsPass) {
  const auto found = verify_program(graph_, program_);
  EXPECT_FALSE(found.has_value()) << found->detail;
}

TEST_F(SectionRules, Parts) {
  const SectionParts parts =
      parts_of(program_.schedule, buffers_of(program_, section()), compute_clock(program_.schedule));
  EXPECT_EQ(parts.tasks, (std::vector<TaskId>{id_of<TaskId>(7), id_of<TaskId>(9)}));
  EXPECT_EQ(parts.inside, std::vector<ResidencyId>{id_of<ResidencyId>(5)});
  EXPECT_EQ(parts.kept,
            (std::vector<ResidencyId>{id_of<ResidencyId>(4), id_of<ResidencyId>(6), id_of<ResidencyId>(7)}));
  EXPECT_EQ(parts.begin, 2 * 4 - 1) << "behind pack, the compute task issued last";
  EXPECT_EQ(parts.follows, (std::vector<Lane>{Lane::compute, Lane::intra_comm, Lane::inter_comm}));
}

TEST_F(SectionRules, ListsAndIds) {
  const Program good = program_;
  const auto expect = [&](std::string_view says, auto change) {
    program_ = good;
    change();
    expect_broken(says);
  };
  expect("1 chunks", [&] { section().chunks = 1; });
  expect("65 chunks", [&] { section().chunks = 65; });
  expect("buffers 1 to 3 do not exist", [&] { section().buffer_count = 2; });
  expect("buffers -1 to 0 do not exist", [&] { section().first_buffer = -1; });
  expect("its buffers begin at 0; those of the section before it end at 1", [&] { section().first_buffer = 0; });
  expect("its buffers begin at 1; those of the section before it end at 0",
         [&] { program_.sections.erase(program_.sections.begin()); });
  expect("buffers are listed behind its own", [&] { program_.chunk_buffers.push_back(buffer()); });
  expect("does not exist", [&] { buffer().residency = id_of<ResidencyId>(99); });
  expect("is not routed", [&] { buffer().residency = id_of<ResidencyId>(4); });
  expect("begins before", [&] { buffer().residency = id_of<ResidencyId>(1); });
  expect("without sections", [&] { program_.sections.clear(); });
  expect("without sections", [&] {
    program_.sections.clear();
    program_.chunk_buffers.clear();
  });
}

TEST_F(SectionRules, TasksAreOpsOnRowsOfOneSite) {
  build({.sort_is_on_rows = false});
  expect_broken("no op on rows");
  build({});
  section().first_buffer = 0;
  section().buffer_count = 2;
  program_.sections.erase(program_.sections.begin());
  expect_broken("of another layer or micro-batch");
  // Rows are read by use, too, which is no op on rows.
  build({});
  buffer().residency = id_of<ResidencyId>(6);
  expect_broken("no op on rows");
}

TEST_F(SectionRules, ChunksInFrontOvertakeNobodyTheyDependOn) {
  build({.sort_reads_home = true});
  EXPECT_FALSE(verify_program(graph_, program_).has_value());
  build({.sort_reads_home = true, .peek_writes_home = true});
  expect_broken("would overtake");
  build({.peek_writes_home = true});
  EXPECT_FALSE(verify_program(graph_, program_).has_value()) << "exchange reads home before peek writes it";
}

// sort knows of mark through peek alone, which the chunks in front do not follow.
TEST_F(SectionRules, ChunksInFrontFindOlderTasksDone) {
  Schedule& s = program_.schedule;
  const auto first = s.waits.begin() + s.tasks[9].first_wait, last = s.waits.begin() + s.tasks[10].first_wait;
  const auto wait = std::find(first, last, id_of<TaskId>(6));
  ASSERT_NE(wait, last);
  *wait = id_of<TaskId>(7);
  expect_broken("its chunks do not wait for");
}

TEST_F(SectionRules, BuffersShareNoBytes) {
  const Program good = program_;
  const auto expect = [&](std::string_view says, Bytes offset) {
    program_ = good;
    buffer().offset = offset;
    expect_broken(says);
  };
  expect("not within the arena", good.layout.arenas[0].height_bytes);
  expect("not within the arena", -kPlanGranule);
  expect("not within the arena, or not aligned", buffer().offset + 1);
  expect("shares bytes with storage received", good.layout.offset_of[2]);  // rows of the other micro-batch, kept
  expect("shares bytes with storage rows", good.layout.offset_of[6]);      // its own, written early
  program_ = good;
  buffer().offset = good.layout.offset_of[1] + kPlanGranule;  // over by then
  EXPECT_FALSE(verify_program(graph_, program_).has_value());
}

// Another device arena has offsets of its own.
TEST_F(SectionRules, KeptStoragesOfOtherArenasShareNothingWithBuffers) {
  Layout& layout = program_.layout;
  layout.arenas.push_back({.space = MemorySpace::device,
                           .kind = Arena::Kind::plain,
                           .capacity_bytes = layout.arenas[0].height_bytes,
                           .alignment_bytes = 512,
                           .height_bytes = layout.arenas[0].height_bytes});
  layout.arena_of[4] = id_of<ArenaId>(2);
  layout.offset_of[4] = buffer().offset;
  const auto found = verify_program(graph_, program_);
  EXPECT_FALSE(found.has_value()) << found->detail;
  layout.arena_of[6] = id_of<ArenaId>(0);
  layout.arena_of[7] = id_of<ArenaId>(2);
  layout.offset_of[7] = layout.offset_of[4];
  EXPECT_TRUE(verify_program(graph_, program_).has_value());
}

// rows comes into bytes of home, which the plan has over by then; for the chunks in front it is not.
TEST_F(SectionRules, KeptStoragesDoNotComeTooEarly) {
  std::vector<Bytes>& offset_of = program_.layout.offset_of;
  std::swap(offset_of[5], offset_of[6]);
  buffer().offset = offset_of[5];
  offset_of[6] = offset_of[4];
  expect_broken("shares bytes with storage home");
  program_.sections.pop_back();
  program_.chunk_buffers.pop_back();
  program_.collective_limit_f = 1.5;
  const auto found = verify_program(graph_, program_);
  EXPECT_FALSE(found.has_value()) << found->detail;
}

TEST_F(SectionRules, MessagesAreNotSentInChunks) {
  for (const Lane lane : {Lane::send, Lane::receive}) {
    build({.exchange_lane = lane});
    expect_broken("task 2 (exchange, chunk 0, layer 0, micro-batch 0) is a message to another rank");
  }
}

// The tasks of rows are sort, of the second section already, and use.
TEST_F(SectionRules, ATaskBelongsToOneSection) {
  build({.use_is_on_rows = true});
  program_.sections.push_back({.chunks = 4, .first_buffer = 2, .buffer_count = 1});
  program_.chunk_buffers.push_back({.residency = id_of<ResidencyId>(6), .offset = program_.layout.offset_of[6]});
  expect_broken("belongs to section 1 as well");
}

// sort reads what is received and writes rows: both are there at once.
TEST_F(SectionRules, BuffersOfOneSectionShareNoBytes) {
  build({.use_is_on_rows = true});
  section().buffer_count = 2;
  program_.chunk_buffers.push_back({.residency = id_of<ResidencyId>(6), .offset = program_.layout.offset_of[6]});
  const auto found = verify_program(graph_, program_);
  EXPECT_FALSE(found.has_value()) << found->detail;
  program_.chunk_buffers[2].offset = buffer().offset;
  expect_broken("the buffers of storage rows (chunk 0, layer 0, micro-batch 1) and storage received");
}

// Home is not rows: the second chunk would read what the first has written.
TEST_F(SectionRules, WhatEveryChunkWritesIsNotReadInBetween) {
  build({.exchange_writes_home = true});
  expect_broken("reads storage home (chunk 0, layer 0, micro-batch 0), which is written with every chunk");
}

// The second chunk of exchange would add to what sort has written.
TEST_F(SectionRules, OneTaskAddsToWhatEveryChunkWrites) {
  build({.two_write_home = true});
  expect_broken("write storage home (chunk 0, layer 0, micro-batch 0), to which one alone may add");
}

TEST_F(SectionRules, BuffersAreOfTheFirstArena) {
  Layout& layout = program_.layout;
  layout.arenas.push_back({.space = MemorySpace::device,
                           .kind = Arena::Kind::plain,
                           .capacity_bytes = kRows,
                           .alignment_bytes = 512,
                           .height_bytes = kRows});
  layout.arena_of[5] = id_of<ArenaId>(2);
  layout.offset_of[5] = 0;
  expect_broken("storage received (chunk 0, layer 0, micro-batch 1) is not in the first arena");
}

TEST_F(SectionRules, TheSecondLimitIsCarried) {
  program_.layout.arenas[0].dynamic_bytes -= kPlanGranule;
  expect_broken("in chunks, at expert load 2 up to 4 granules");
}

/// What a step with a contingency beside its section may do besides.
struct Detours {
  bool use_reads_received = false, use_reads_grad = true;
  std::optional<Lane> peek;  ///< where rows are read before the section, behind their gap
};

/// exchange brings received, sort turns it into rows, which may be out from idle 3 to idle 4; bring brings grad, and
/// use reads rows and grad. Tasks 0 to 8 (9 with peek, which is 5); residencies received, rows, grad.
class SectionsAndContingencies : public ::testing::Test {
 protected:
  static constexpr Bytes kRows = 4 * kMiB;

  void build(Detours detours, std::int32_t inside) {
    testing::GraphBuilder b;
    const OpTemplateId pack = b.timed_op("pack", 1), idle = b.timed_op("idle", 1), sort = b.timed_op("sort", 1);
    const OpTemplateId exchange = b.timed_op("exchange", 1, Lane::intra_comm);
    const OpTemplateId bring = b.timed_op("bring", 1, Lane::intra_comm, OpPhase::backward);
    const OpTemplateId use = b.timed_op("use", 1, Lane::compute, OpPhase::backward);
    const OpTemplateId peek = b.timed_op("peek", 1, detours.peek.value_or(Lane::compute));
    const auto rows = [](std::string name) {
      return StorageTemplate{
          .name = std::move(name), .routed_rows = 64, .routed_row_bytes = 64 * kKiB, .saved_for_backward = true};
    };
    const BlockId layer =
        b.block("layer", {rows("received"), rows("rows"), rows("grad"), {.name = "note", .fixed_bytes = kMiB}},
                {{.name = "sort again", .outputs = {1}, .sources = {0}, .steps = {{sort, {0}, {1}}}}});
    const SiteId site = b.site(layer, {.layer = 0, .micro_batch = 0});
    const auto at = [&](std::int32_t local) { return b.at(site, local); };
    b.run(pack, site, {}, {at(3)});
    b.run(exchange, site, {}, {at(0)});
    b.run(sort, site, {at(0)}, {at(1)});
    for (int i = 3; i < 6; ++i) b.run(idle, site, {}, {});
    if (detours.peek) b.run(peek, site, {at(1)}, {at(3)});
    b.run(bring, site, {}, {at(2)});
    b.run(idle, site, detours.peek ? std::vector{at(3)} : std::vector<StorageId>{}, {});
    std::vector<StorageId> read{at(1)};
    if (detours.use_reads_received) read.push_back(at(0));
    if (detours.use_reads_grad) read.push_back(at(2));
    b.run(use, site, read, {});
    graph_ = std::move(b).finish();
    for (const OpTemplateId op : {exchange, sort, bring, use}) graph_.op_templates[row(op)].routed = true;
    program_ = {};
    program_.schedule = testing::keep_all_schedule(graph_);
    program_.layout = testing::side_by_side(program_.schedule, kPlanGranule);
    for (const std::int32_t r : {0, 1, 2})
      program_.routed.push_back(
          {.residency = static_cast<ResidencyId>(r), .site = site, .rows = 64, .row_bytes = 64 * kKiB});
    for (Arena& arena : program_.layout.arenas) {
      arena.dynamic_bytes = 8 * kPlanGranule;
      arena.capacity_bytes = arena.height_bytes + arena.dynamic_bytes;
    }
    program_.contingency_limit_f = program_.collective_limit_f = 2;
    program_.sections = {{.chunks = 4, .first_buffer = 0, .buffer_count = 1}};
    program_.chunk_buffers = {{.residency = static_cast<ResidencyId>(inside),
                               .offset = program_.layout.offset_of[static_cast<std::size_t>(inside)]}};
  }

  /// On a storage, from sort to the use of it; of the kind swap.
  Contingency& give_back(std::int32_t residency) {
    const auto last = static_cast<std::int32_t>(program_.schedule.tasks.size()) - 1;
    program_.contingencies = {{.trigger_bytes = kRows,
                               .trigger = id_of<TaskId>(2),
                               .residency = static_cast<ResidencyId>(residency),
                               .freed_bytes = 2 * kPlanGranule,
                               .release_at = id_of<TaskId>(3),
                               .prefetch_at = id_of<TaskId>(4),
                               .needed_at = static_cast<TaskId>(last),
                               .host_offset = 0}};
    return program_.contingencies.front();
  }
  /// Rows are sorted again.
  void recompute() {
    Contingency& c = give_back(1);
    c.kind = Contingency::Kind::recompute;
    c.host_offset = -1;
    c.step_count = 1;
    const Task& sort = program_.schedule.tasks[2];
    program_.contingency_steps = {
        {.op_template = sort.op_template,
         .touches = {{id_of<ResidencyId>(0), AccessKind::read}, {id_of<ResidencyId>(1), AccessKind::write}}}};
  }
  void expect_sound() {
    const auto found = verify_program(graph_, program_);
    EXPECT_FALSE(found.has_value()) << found->detail;
  }
  void expect_broken(std::string_view says) {
    const auto found = verify_program(graph_, program_);
    ASSERT_TRUE(found.has_value()) << says;
    EXPECT_EQ(found->rule, Violation::Rule::contingency) << found->detail;
    EXPECT_NE(found->detail.find(says), std::string::npos) << found->detail;
  }
  /// The contingencies alone are in order.
  void expect_sound_without_sections() {
    Program& p = program_;
    const auto [sections, buffers] = std::pair(std::exchange(p.sections, {}), std::exchange(p.chunk_buffers, {}));
    expect_sound();
    p.sections = sections;
    p.chunk_buffers = buffers;
  }

  Graph graph_;
  Program program_;
};

TEST_F(SectionsAndContingencies, WhatIsInsideIsNotGivenBackAsWell) {
  build({.use_reads_received = true, .use_reads_grad = false}, 0);
  expect_sound();
  give_back(0);
  expect_sound_without_sections();
  expect_broken("storage received (chunk 0, layer 0, micro-batch 0) is also given back by a contingency");
}

TEST_F(SectionsAndContingencies, WhatIsInsideIsNoSource) {
  build({.use_reads_received = true, .use_reads_grad = false}, 0);
  recompute();
  expect_sound_without_sections();
  expect_broken("storage received (chunk 0, layer 0, micro-batch 0) is also a source of a contingency");
}

// The chunks in front read rows where bring is: they are there if their copy in begins before.
TEST_F(SectionsAndContingencies, WhatIsKeptIsBroughtBeforeTheSection) {
  build({}, 2);
  Contingency& c = give_back(1);
  expect_sound();
  c.prefetch_at = id_of<TaskId>(7);
  expect_sound_without_sections();
  expect_broken("a contingency may have storage rows (chunk 0, layer 0, micro-batch 0) out when its chunks begin");
}

// Its steps run where use is, behind the chunks in front.
TEST_F(SectionsAndContingencies, WhatIsKeptIsNotRecomputedWithinTheSection) {
  build({.use_reads_received = true}, 2);
  recompute();
  expect_sound_without_sections();
  expect_broken("a contingency may have storage rows (chunk 0, layer 0, micro-batch 0) out when its chunks begin");
}

TEST_F(SectionsAndContingencies, WhatIsKeptIsKnownToBeBackBeforeTheSection) {
  build({.peek = Lane::compute}, 2);
  give_back(1).needed_at = id_of<TaskId>(6);
  expect_sound();
  // Chunks do not follow that lane, and nothing they follow waits for it.
  build({.peek = Lane::inter_comm}, 2);
  give_back(1).needed_at = id_of<TaskId>(6);
  expect_sound_without_sections();
  expect_broken("a contingency may have storage rows (chunk 0, layer 0, micro-batch 0) out when its chunks begin");
}

/// What has content before the step begins, or after it ends, is in its slot then.
class SectionsOnSums : public ::testing::Test {
 protected:
  void build(bool read_first, bool touched_to_the_end) {
    testing::GraphBuilder b;
    const OpTemplateId add = b.timed_op("add", 1, Lane::compute, OpPhase::weight_gradient);
    const OpTemplateId look = b.timed_op("look", 1);
    const SiteId site = b.site(b.block("layer", {{.name = "sum",
                                                  .role = StorageRole::gradient,
                                                  .routed_rows = 4,
                                                  .routed_row_bytes = kMiB,
                                                  .initial = true,
                                                  .lasting = true}}),
                               {.layer = 0, .micro_batch = 0});
    b.run(add, site, read_first ? std::vector{b.at(site, 0)} : std::vector<StorageId>{}, {b.at(site, 0)});
    b.run(add, site, {b.at(site, 0)}, {b.at(site, 0)});
    if (!touched_to_the_end) b.run(look, site, {}, {});
    graph_ = std::move(b).finish();
    graph_.op_templates[row(add)].routed = true;
    program_.schedule = testing::keep_all_schedule(graph_);
    program_.layout = testing::side_by_side(program_.schedule, kPlanGranule);
    program_.routed = {{.residency = id_of<ResidencyId>(0), .site = site, .rows = 4, .row_bytes = kMiB}};
    program_.sections = {{.chunks = 2, .first_buffer = 0, .buffer_count = 1}};
    program_.chunk_buffers = {{.residency = id_of<ResidencyId>(0), .offset = 0}};
  }
  void expect_broken(std::string_view says) {
    const auto found = verify_program(graph_, program_);
    ASSERT_TRUE(found.has_value()) << says;
    EXPECT_NE(found->detail.find(says), std::string::npos) << found->detail;
  }

  Graph graph_;
  Program program_;
};

TEST_F(SectionsOnSums, ChunksAreWrittenBeforeTheyAreRead) {
  build(true, true);
  expect_broken("reads storage sum (chunk 0, layer 0, micro-batch 0) before a chunk of it is written");
}

TEST_F(SectionsOnSums, WhatOutlivesItsTasksIsNotInside) {
  for (const bool touched_to_the_end : {false, true}) {
    build(false, touched_to_the_end);
    expect_broken("storage sum (chunk 0, layer 0, micro-batch 0) is not made and used up by the step");
  }
}

TEST(DispatchSection, RowsAreCutIntoChunks) {
  for (const std::int64_t rows : {0, 1, 3, 4, 5, 64, 1001})
    for (const std::int32_t chunks : {2, 3, 4, 64}) {
      std::int64_t next = 0;
      for (std::int32_t c = 0; c < chunks; ++c) {
        const RowRange range = rows_of_chunk(rows, chunks, c);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.end - range.begin, rows_of_chunk(rows, chunks, 0).end);
        next = range.end;
      }
      EXPECT_EQ(next, rows);
    }
  const RoutedResidency routed{.fixed_bytes = 10, .rows = 100, .row_bytes = 7};
  EXPECT_EQ(rows_in(routed, 10 + 7 * 33), 33);
  EXPECT_EQ(chunk_bytes(routed, 10 + 7 * 33, 4), 10 + 7 * 9);
  EXPECT_EQ(buffer_bytes(routed, 0, 1.5, 4), 10 + 7 * 38);
  EXPECT_EQ(buffer_bytes(routed, 10 + 7 * 200, 1.5, 4), 10 + 7 * 50) << "planned for more than the limit";
}

}  // namespace
}  // namespace tidemark
