// Programs made by hand for what random jobs seldom come to: answers of the group above this rank's need, host slots
// that end on a piece, copies that find no pinned memory while a section is open, and Programs that say nothing of
// sections.

#include <gtest/gtest.h>

#include <memory>

#include "core/row_sections.h"
#include "device/sim_device.h"
#include "swap/executor.h"
#include "tests/support/planned_step.h"
#include "tests/support/tiny_schedule.h"

namespace tidemark::swap {
namespace {

using testing::PlannedStep;
using testing::ScheduleBuilder;
using testing::StepGenerator;

constexpr auto kRead = AccessKind::read, kWrite = AccessKind::write;
constexpr std::int64_t kRows = 4096;

class HandMade {
 public:
  [[nodiscard]] ResidencyId on_device(std::size_t storage, Bytes bytes) {
    return b_.stay(id_of<StorageId>(storage), bytes);
  }
  [[nodiscard]] ResidencyId on_host(std::size_t storage, Bytes bytes) {
    return b_.stay(id_of<StorageId>(storage), bytes, MemorySpace::host);
  }
  /// A compute task.
  TaskId op(const std::vector<TaskId>& waits, const std::vector<Schedule::Touch>& touches, std::size_t site = 0) {
    return b_.task({.op_template = id_of<OpTemplateId>(0), .site = id_of<SiteId>(site), .op = id_of<OpId>(ops_++)},
                   waits, touches);
  }
  TaskId out(const std::vector<TaskId>& waits, ResidencyId from, ResidencyId to) {
    return b_.copy_out(id_of<StorageId>(0), waits, from, to);
  }
  TaskId in(const std::vector<TaskId>& waits, ResidencyId from, ResidencyId to) {
    return b_.copy_in(id_of<StorageId>(0), waits, from, to);
  }

  /// Residencies side by side, as many MiB beside them as are said.
  [[nodiscard]] Program finish(Bytes dynamic_mib, Bytes spare_host_mib) && {
    Program p;
    p.schedule = std::move(b_).finish();
    p.layout = testing::side_by_side(p.schedule, 512);
    Arena& device = p.layout.arenas[0];
    device.kind = Arena::Kind::mapped;
    device.dynamic_bytes = dynamic_mib * kMiB;
    device.capacity_bytes = device.height_bytes + device.dynamic_bytes;
    p.layout.arenas[1].height_bytes += spare_host_mib * kMiB;
    p.layout.arenas[1].capacity_bytes = p.layout.arenas[1].height_bytes;
    p.estimate_ns.assign(p.schedule.tasks.size(), 1000);
    return p;
  }

 private:
  ScheduleBuilder b_;
  std::size_t ops_ = 0;
};

/// Rows of the size that their slot has at load 1.
void route(Program& program, const std::vector<ResidencyId>& residencies) {
  for (const ResidencyId r : residencies)
    program.routed.push_back({.residency = r,
                              .site = id_of<SiteId>(0),
                              .rows = kRows,
                              .row_bytes = program.schedule.residencies[row(r)].bytes / kRows});
}

struct Seen {
  std::string error;
  RunReport report;
  std::int64_t races = 0;
};

Seen run(const Program& program, LoadSource load, Agree agree = {}, bool aliasing = true) {
  const std::unique_ptr<SimDevice> device =
      make_sim_device({.aliasing = aliasing, .check_races = true, .report_unwritten = true});
  RunOptions options{.verify = true};
  options.load = std::move(load);
  options.agree = std::move(agree);
  Result<std::unique_ptr<Executor>> executor = Executor::open(program, *device, std::move(options));
  if (!executor) return {.error = executor.error().message};
  if (const Status s = executor.value()->issue(); !s) return {.error = s.error().message};
  Result<RunReport> report = executor.value()->finish();
  if (!report) return {.error = report.error().message};
  return {.report = std::move(report).value(), .races = device->race_count()};
}

Seen run(const Program& program, double load, Agree agree = {}, bool aliasing = true) {
  return run(
      program, [load](SiteId) { return SiteLoad(load); }, std::move(agree), aliasing);
}

void expect_right(const Seen& seen, const std::string& what) {
  EXPECT_EQ(seen.error, "") << what;
  EXPECT_EQ(seen.races, 0) << what;
  EXPECT_EQ(seen.report.mismatches, 0) << what << ": " << seen.report.first_mismatch;
}

/// A neighbour that is in use all step | send | rows | out, whose slot is the room.
Program with_neighbour(std::int64_t rows, Bytes room) {
  HandMade m;
  const ResidencyId neighbour = m.on_device(0, 2 * kMiB), send = m.on_device(1, rows * kMiB),
                    arrived = m.on_device(2, 2 * kMiB), out = m.on_device(3, room);
  m.op({}, {{neighbour, kWrite}});
  m.op({}, {{send, kWrite}});
  m.op({}, {{send, kRead}, {arrived, kWrite}});
  m.op({}, {{arrived, kRead}, {out, kWrite}});
  const TaskId end = m.op({}, {{out, kRead}});
  m.op({}, {{neighbour, kRead}});
  Program p = std::move(m).finish(0, 0);
  // Smaller rows than those received, so that their parts lie otherwise.
  p.routed.push_back(
      {.residency = send, .site = id_of<SiteId>(0), .rows = rows * 1024, .row_bytes = kKiB, .rows_of = RowsOf::sent});
  for (const ResidencyId r : {arrived, out})
    p.routed.push_back({.residency = r, .site = id_of<SiteId>(0), .rows = rows, .row_bytes = kMiB});
  p.section_ends = {end};
  p.layout.arenas[1] = p.layout.arenas[0];
  p.layout.arenas.pop_back();
  // The neighbour lies right behind the room.
  const Bytes at = p.layout.offset_of[row(out)];
  p.layout.offset_of[row(neighbour)] = at + room;
  p.layout.arenas[0].height_bytes = p.layout.arenas[0].capacity_bytes = at + room + 2 * kMiB;
  return p;
}

/// More chunks may lie less well than fewer: places are laid out for the number that the room was found for.
TEST(AnyLoadCases, AnAnswerAboveWhatThisRankNeedsStaysInTheRoom) {
  int tried = 0;
  for (std::int64_t rows = 5; rows < 100; rows += 7)
    for (Bytes room = 9 * kMiB / 4; room <= 8 * kMiB; room += 3 * kMiB / 4) {
      const Program program = with_neighbour(rows, room);
      const RowSection section = row_sections(program).front();
      const std::int32_t fewest = least_chunks(program, section, 1, room);
      if (fewest < 2) continue;
      std::int32_t answer = fewest + 1;
      while (answer < fewest + 60 && room_bytes(program, section, 1, answer) <= room) ++answer;
      if (answer == fewest + 60) continue;
      ++tried;
      const auto agree = [&](std::int32_t, std::int32_t, ChunkWish wish) { return wish.wanted ? answer : 1; };
      const Seen seen = run(program, 1, agree, false);
      expect_right(seen, std::to_string(rows) + " rows, " + std::to_string(answer) + " chunks");
      ASSERT_EQ(seen.report.sections.size(), 1U);
      EXPECT_EQ(seen.report.sections.front().chunks, answer);
    }
  EXPECT_GT(tried, 3);
}

/// b leaves and returns while a is in memory; then a leaves, too, and is larger than its slot. What b's slot lends is
/// wanted while b may be on its way back.
TEST(AnyLoadCases, AHostSlotThatEndsOnAPieceIsLentWhenItsCopyIsOver) {
  for (const Bytes shift : {Bytes{0}, 64 * kKiB}) {
    HandMade m;
    const ResidencyId a0 = m.on_device(0, 4 * kMiB), ha = m.on_host(0, 4 * kMiB), a1 = m.on_device(0, 4 * kMiB);
    const ResidencyId b0 = m.on_device(1, 2 * kMiB), hb = m.on_host(1, 2 * kMiB), b1 = m.on_device(1, 2 * kMiB);
    const TaskId makes_b = m.op({}, {{b0, kWrite}});
    const TaskId b_out = m.out({makes_b}, b0, hb);
    const TaskId makes_a = m.op({}, {{a0, kWrite}});
    const TaskId b_in = m.in({b_out}, hb, b1);
    m.op({b_in}, {{b1, kRead}});
    const TaskId a_out = m.out({makes_a}, a0, ha);
    const TaskId between = m.op({a_out}, {});
    const TaskId a_in = m.in({a_out, between}, ha, a1);
    m.op({a_in}, {{a1, kRead}});
    Program p = std::move(m).finish(8, 1);
    route(p, {a0, a1});
    p.layout.offset_of[row(ha)] = shift;
    p.layout.offset_of[row(hb)] = 4 * kMiB + shift;
    const Seen seen = run(p, 1.5);
    expect_right(seen, "slot at " + std::to_string(shift));
    EXPECT_EQ(seen.report.oversized.size(), 2U);
  }
}

/// Three sections. y, of the first, is copied out before the second and back within it; x, of the second, is copied out
/// within it, and where there is no pinned memory for that the second still reads y, and the third runs in chunks.
TEST(AnyLoadCases, ACopyOutThatFailsWithinAnOpenSectionLeavesItWhole) {
  for (const bool room : {true, false}) {
    HandMade m;
    const Bytes slot = 4 * kMiB;
    const ResidencyId y0 = m.on_device(0, slot), hy = m.on_host(0, slot), y1 = m.on_device(0, slot);
    const ResidencyId x0 = m.on_device(1, slot), hx = m.on_host(1, slot), x1 = m.on_device(1, slot);
    const ResidencyId e1 = m.on_device(2, slot), e2 = m.on_device(3, slot), e3 = m.on_device(4, slot);
    const TaskId makes_y = m.op({}, {{y0, kWrite}});
    const TaskId y_out = m.out({makes_y}, y0, hy);
    const TaskId end1 = m.op({}, {{e1, kWrite}});
    const TaskId makes_x = m.op({y_out}, {{x0, kWrite}});
    const TaskId x_out = m.out({makes_x}, x0, hx);
    const TaskId y_in = m.in({y_out, makes_x}, hy, y1);
    const TaskId end2 = m.op({y_in}, {{y1, kRead}, {e2, kWrite}});
    const TaskId later = m.op({x_out}, {});
    const TaskId x_in = m.in({x_out, later}, hx, x1);
    m.op({x_in}, {{x1, kRead}, {e3, kWrite}});
    const TaskId end3 = m.op({}, {{e3, kRead}});
    Program p = std::move(m).finish(64, room ? 8 : 2);
    route(p, {y0, y1, x0, x1, e1, e2, e3});
    p.section_ends = {end1, end2, end3};
    const Seen seen = run(p, 1.5);
    expect_right(seen, room ? "room for both" : "room for one");
    EXPECT_EQ(seen.report.sections.empty(), room);
  }
}

/// `back` is read three times, and its slot is the room of the second section, too, older than it. Where the group runs
/// only that in chunks, the slot has not been lent to what is too large of another site meanwhile.
TEST(AnyLoadCases, ARoomThatIsOlderThanItsSectionIsNotLent) {
  for (const bool group_wants : {false, true}) {
    HandMade m;
    // No granule of the rows stands empty when they are gone.
    const ResidencyId rows = m.on_device(0, kMiB), back = m.on_device(1, 8 * kMiB), large = m.on_device(2, 4 * kMiB);
    m.op({}, {{rows, kWrite}});
    m.op({}, {{rows, kRead}, {back, kWrite}});
    const TaskId first = m.op({}, {{back, kRead}});
    m.op({}, {{large, kWrite}}, 1);
    const TaskId second = m.op({}, {{back, kRead}});
    const TaskId end_of_large = m.op({}, {{large, kRead}}, 1);
    const TaskId third = m.op({}, {{back, kRead}});
    Program p = std::move(m).finish(0, 0);
    route(p, {rows, back, large});
    p.routed[1].rows_of = RowsOf::sent;
    p.routed[2].site = id_of<SiteId>(1);
    p.section_ends = {first, second, end_of_large, third};
    const auto agree = [&](std::int32_t, std::int32_t section, ChunkWish wish) {
      return section == 1 && group_wants ? 2 : wish.wanted ? wish.chunks : 1;
    };
    // Next to nothing is sent, so that all but a little of the slot is free.
    const auto load = [](SiteId site) { return row(site) == 0 ? SiteLoad(1, 0.1) : SiteLoad(1.5, 1); };
    const Seen seen = run(p, load, agree);
    expect_right(seen, group_wants ? "in chunks" : "whole");
    std::vector<std::int32_t> in_chunks;
    for (const SectionRecord& section : seen.report.sections) in_chunks.push_back(section.section);
    EXPECT_EQ(in_chunks, group_wants ? (std::vector{2, 1, 3}) : std::vector{2}) << "the large one found no room";
  }
}

/// Nothing but room: what finds none is refused by name before it is written.
TEST(AnyLoadCases, WithoutSectionsRoomIsAllThereIs) {
  PlannedStep step = StepGenerator(29).next_routed(1.1, 90);
  for (plan::RankPlan& rank : step.outcome.ranks) rank.program.section_ends.clear();
  run::SimRunRequest request = testing::run_of(step);
  request.verify = true;
  for (const double load : {0.0, 0.5, 1.1}) {
    request.load = [load](std::int32_t, SiteId) { return load; };
    const Result<run::SimRun> run = run::run_on_sim(request);
    ASSERT_TRUE(run.ok()) << load << ": " << run.error().message;
    testing::expect_clean(step, run.value(), "load " + std::to_string(load));
    for (const run::SimRankRun& rank : run.value().ranks) EXPECT_TRUE(rank.report.sections.empty());
  }
  request.load = [](std::int32_t, SiteId) { return 64.0; };
  const Result<run::SimRun> run = run::run_on_sim(request);
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code, Error::Code::infeasible);
  for (const char* word : {"rank ", "layer ", "expert load 64", "does not fit", "the plan has no chunks for it"})
    EXPECT_NE(run.error().message.find(word), std::string::npos) << run.error().message;
}

}  // namespace
}  // namespace tidemark::swap
