// Sections of small programs: what their chunks run and where, and what the checker says of those that would not mean
// the same.

#include "core/row_sections.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/verify.h"
#include "tests/support/tiny_graph.h"
#include "tests/support/tiny_schedule.h"

namespace tidemark {
namespace {

constexpr Bytes kRow = 1024;

std::int64_t routed_rows(double load) {
  return static_cast<std::int64_t>(std::ceil(load * 64));
}

/// What of the layer is changed by a test.
struct Layer {
  bool end_reads_source = true;
  bool overwrites_source = false;  ///< an op between writes the source again
  bool sums_on_the_way = false;    ///< the sum of the expert op is read before the end
  bool message = false;            ///< rows go to another pipeline rank on the way
  Bytes gathered = 0;              ///< tokens of several devices are gathered, and rows picked from them
};

/// One site, forward and backward:
///   token | send = pick(token) | rows = go(send) | out, sum = expert(rows) | back = go(out) | total = add_up(back,
///   token) d = loss(total, sum) | d_back = spread(d) | g = go(d_back) | w += dw(rows, g) | dx = expert(g) | d_send =
///   go(dx) | d_token = add_up(d_send, token, d)
/// Sections end with add_up.
class RowSections : public ::testing::Test {
 protected:
  enum Local : std::int32_t { token, send, rows, out, back, total, d, d_back, g, dx, d_send, d_token, w, sum, tokens };

  void make(const Layer& layer = {}) {
    testing::GraphBuilder b;
    const OpTemplateId work = b.timed_op("work", 1), pick = b.timed_op("pick", 1), expert = b.timed_op("expert", 1);
    const OpTemplateId go = b.timed_op("go", 1, Lane::intra_comm), other = b.timed_op("other", 1);
    const OpTemplateId add = b.timed_op("add", 1, Lane::compute, OpPhase::weight_gradient);
    const OpTemplateId spread = b.timed_op("spread", 1);
    const OpTemplateId add_up =
        b.op_template({.name = "add_up", .cost = {.kind = WorkKind::given, .given = 1}, .ends_rows = true});
    const auto routed = [](std::string name, RowsOf of) {
      return StorageTemplate{.name = std::move(name), .routed_rows = 64, .routed_row_bytes = kRow, .rows_of = of};
    };
    const auto plain = [](std::string name) { return StorageTemplate{.name = std::move(name), .fixed_bytes = 4096}; };
    StorageTemplate gradient{.name = "w", .role = StorageRole::gradient, .fixed_bytes = 8192};
    gradient.initial = gradient.lasting = true;
    std::vector<StorageTemplate> storages{plain("token"),
                                          routed("send", RowsOf::sent),
                                          routed("rows", RowsOf::received),
                                          routed("out", RowsOf::received),
                                          routed("back", RowsOf::sent),
                                          plain("total"),
                                          plain("d"),
                                          routed("d_back", RowsOf::sent),
                                          routed("g", RowsOf::received),
                                          routed("dx", RowsOf::received),
                                          routed("d_send", RowsOf::sent),
                                          plain("d_token"),
                                          gradient,
                                          plain("sum")};
    if (layer.gathered > 0) storages.push_back({.name = "tokens", .fixed_bytes = layer.gathered});
    site_ = b.site(b.block("layer", std::move(storages)), {.layer = 0, .micro_batch = 0});
    const auto at = [&](Local local) { return b.at(site_, local); };
    const auto with = [&](std::vector<StorageId> ids, bool more, Local local) {
      if (more) ids.push_back(at(local));
      return ids;
    };
    b.run(work, site_, {}, {at(token)});
    if (layer.gathered > 0) b.run(b.timed_op("gather", 1, Lane::inter_comm), site_, {at(token)}, {at(tokens)});
    b.run(pick, site_, {at(layer.gathered > 0 ? tokens : token)}, {at(send)});
    b.run(go, site_, {at(send)}, {at(rows)});
    b.run(expert, site_, {at(rows)}, {at(out), at(sum)});
    if (layer.overwrites_source) b.run(other, site_, {}, {at(token)});
    if (layer.sums_on_the_way) b.run(other, site_, {at(sum)}, {});
    if (layer.message) {
      b.run(b.timed_op("tell", 1, Lane::send, OpPhase::send), site_, {at(out)}, {});
      b.message(1, 1, true, 8);
    }
    b.run(go, site_, {at(out)}, {at(back)});
    b.run(add_up, site_, with({at(back)}, layer.end_reads_source, token), {at(total)});
    b.run(work, site_, with({at(total)}, !layer.sums_on_the_way, sum), {at(d)});
    b.run(spread, site_, {at(d)}, {at(d_back)});
    b.run(go, site_, {at(d_back)}, {at(g)});
    b.run(add, site_, {at(rows), at(g)}, {at(w)});
    b.run(expert, site_, {at(g)}, {at(dx)});
    b.run(go, site_, {at(dx)}, {at(d_send)});
    b.run(add_up, site_, {at(d_send), at(token), at(d)}, {at(d_token)});
    b.run(work, site_, {at(d_token)}, {});
    graph_ = std::move(b).finish();
    program_ = {};
    program_.schedule = testing::keep_all_schedule(graph_);
    program_.layout = testing::side_by_side(program_.schedule);
    for (std::size_t r = 0; r < program_.schedule.residencies.size(); ++r) {
      const StorageTemplate& t = graph_.template_of(program_.schedule.residencies[r].storage);
      if (t.routed_rows == 0) continue;
      program_.routed.push_back(
          {.residency = id_of<ResidencyId>(r), .site = site_, .rows = 64, .row_bytes = kRow, .rows_of = t.rows_of});
    }
    for (std::size_t t = 0; t < program_.schedule.tasks.size(); ++t)
      if (graph_.op_templates[row(program_.schedule.tasks[t].op_template)].ends_rows)
        program_.section_ends.push_back(id_of<TaskId>(t));
    if (layer.message) program_.sends = {{.task = id_of<TaskId>(4), .peer_rank = 1, .tag = 1}};
  }

  /// The rows leave device memory behind task `out_after` and are back in front of the next task that reads them.
  void swap_rows(TaskId out_after) {
    const Schedule old = std::move(program_.schedule);
    const StorageId swapped = graph_.storage_at(site_, rows);
    const Bytes bytes = graph_.storages[row(swapped)].bytes;
    testing::ScheduleBuilder b;
    for (const Residency& r : old.residencies) {
      const bool all_step = r.full_before && r.full_behind;
      (all_step ? b.stay_all_step(r.storage, r.bytes) : b.stay(r.storage, r.bytes));
    }
    const auto before = static_cast<ResidencyId>(swapped);
    const ResidencyId host = b.stay(swapped, bytes, MemorySpace::host), in_again = b.stay(swapped, bytes);
    std::vector<TaskId> now(old.tasks.size(), kNone<TaskId>);
    TaskId out_task = kNone<TaskId>, in = kNone<TaskId>;
    for (std::size_t t = 0; t < old.tasks.size(); ++t) {
      std::vector<Schedule::Touch> touches;
      for (Schedule::Touch touch : old.touches_of(id_of<TaskId>(t))) {
        if (out_task != kNone<TaskId> && touch.residency == before) {
          touch.residency = in_again;
          if (in == kNone<TaskId>) in = b.copy_in(swapped, {out_task}, host, in_again);
        }
        touches.push_back(touch);
      }
      std::vector<TaskId> waits;
      for (const TaskId wait : old.waits_of(id_of<TaskId>(t))) waits.push_back(now[row(wait)]);
      if (in != kNone<TaskId>) waits.push_back(in);
      std::ranges::sort(waits);
      now[t] = b.task(old.tasks[t], waits, touches);
      if (id_of<TaskId>(t) == out_after) out_task = b.copy_out(swapped, {now[t]}, before, host);
    }
    program_.schedule = std::move(b).finish();
    program_.layout = testing::side_by_side(program_.schedule);
    program_.routed.push_back({.residency = in_again, .site = site_, .rows = 64, .row_bytes = kRow});
    for (TaskId& end : program_.section_ends) end = now[row(end)];
  }

  [[nodiscard]] std::vector<std::string> names(const std::vector<TaskId>& tasks) const {
    std::vector<std::string> names;
    for (const TaskId task : tasks)
      names.push_back(graph_.op_templates[row(program_.schedule.tasks[row(task)].op_template)].name);
    return names;
  }
  [[nodiscard]] std::vector<std::string> places(const RowSection& section) const {
    std::vector<std::string> names;
    for (const ChunkPlace& place : section.places) names.push_back(graph_.template_of(place.storage).name);
    return names;
  }
  void expect_broken(const std::string& says) {
    const auto found = verify_program(graph_, program_);
    ASSERT_TRUE(found.has_value()) << says;
    EXPECT_EQ(found->rule, Violation::Rule::section) << found->detail;
    EXPECT_NE(found->detail.find(says), std::string::npos) << found->detail;
  }

  Graph graph_;
  Program program_;
  SiteId site_ = kNone<SiteId>;
};

using Names = std::vector<std::string>;

TEST_F(RowSections, BackwardDispatchesAgain) {
  make();
  const auto found = verify_program(graph_, program_);
  ASSERT_FALSE(found.has_value()) << found->detail;
  const std::vector<RowSection> sections = row_sections(program_);
  ASSERT_EQ(sections.size(), 2U);
  EXPECT_EQ(sections[0].fault + sections[1].fault, "");
  EXPECT_EQ(names(sections[0].tasks), (Names{"pick", "go", "expert", "go", "add_up"}));
  EXPECT_EQ(names(sections[0].loop), names(sections[0].tasks));
  EXPECT_EQ(places(sections[0]), (Names{"send", "rows", "out", "back"}));
  EXPECT_EQ(names(sections[1].tasks), (Names{"spread", "go", "add", "expert", "go", "add_up"}));
  EXPECT_EQ(names(sections[1].loop), (Names{"pick", "go", "spread", "go", "add", "expert", "go", "add_up"}));
  EXPECT_EQ(places(sections[1]), (Names{"send", "rows", "d_back", "g", "dx", "d_send"}));
  for (const RowSection& section : sections) EXPECT_TRUE(section.once.empty());
}

/// What is neither in memory at the end nor made by the site cannot be had.
TEST_F(RowSections, SourcesAreInMemoryAtTheEnd) {
  make({.end_reads_source = false});
  EXPECT_EQ(row_sections(program_)[0].fault, "") << "the site itself makes the token again";
  EXPECT_EQ(names(row_sections(program_)[0].once), (Names{"work"}));
  program_.section_ends.clear();
  EXPECT_TRUE(row_sections(program_).empty());
  expect_broken("sums rows up and is not listed as the end of a section");
}

/// A row is one token: a chunk has no more of the tokens than rows are picked from them, and never more than all.
TEST_F(RowSections, TokensAreGatheredForTheRowsOfAChunk) {
  make({.gathered = 3 * kRow});
  const auto found = verify_program(graph_, program_);
  ASSERT_FALSE(found.has_value()) << found->detail;
  for (const RowSection& section : row_sections(program_)) {
    EXPECT_EQ(section.fault, "");
    EXPECT_TRUE(section.once.empty());
    EXPECT_EQ(names(section.loop).front(), "gather");
    const auto gathered = std::ranges::find_if(
        section.places, [&](const ChunkPlace& p) { return graph_.template_of(p.storage).name == "tokens"; });
    ASSERT_NE(gathered, section.places.end());
    for (const double load : {0.0, 1.0, 31.0}) {
      EXPECT_EQ(chunk_bytes(program_, *gathered, load, 1, 0), 3 * kRow) << "there are 3 for 64 rows";
      EXPECT_EQ(chunk_bytes(program_, *gathered, load, 32, 31), 2 * kRow);
      EXPECT_EQ(chunk_bytes(program_, *gathered, load, 64, 63), kRow);
      EXPECT_EQ(chunk_bytes(program_, *gathered, load, 128, 64), 0);
      EXPECT_EQ(chunk_bytes(program_, *gathered, {load, 2}, 64, 0), 2 * kRow) << "twice as many are sent";
    }
    // Room that all tokens would fill does.
    EXPECT_GT(least_chunks(program_, section, 31, 3 * kRow), 0);
  }
}

TEST_F(RowSections, ASourceThatChangesIsFound) {
  make({.overwrites_source = true});
  expect_broken("would read storage token");
}

TEST_F(RowSections, NobodyReadsASumBeforeItIsThere) {
  make({.sums_on_the_way = true});
  expect_broken("has not written yet in chunks");
}

TEST_F(RowSections, AMessageOnTheWayIsFound) {
  make({.message = true});
  expect_broken("is a message to another rank");
}

/// Task 2 brings the rows, task 5 ends their section, and task 9 reads them again.
TEST_F(RowSections, AStorageThatLeavesWithinItsSectionIsFound) {
  make();
  swap_rows(id_of<TaskId>(5));
  const auto found = verify_program(graph_, program_);
  EXPECT_FALSE(found.has_value()) << found->detail;
  make();
  swap_rows(id_of<TaskId>(2));
  expect_broken("leaves device memory and is read again within it");
}

/// Places that are in use at once are apart, none reaches beyond the room, and no fewer chunks would do.
TEST_F(RowSections, PlacesAreApartAndChunksAreTheFewest) {
  make();
  for (const RowSection& section : row_sections(program_))
    for (const SiteLoad load : {SiteLoad{0}, {0.5, 2}, {1}, {3, 0.5}, {31, 4}})
      for (const std::int32_t chunks : {1, 2, 3, 7, 64, 1000}) {
        const std::vector<Bytes> offsets = room_offsets(program_, section, load, chunks);
        const Bytes room = room_bytes(program_, section, load, chunks);
        for (std::size_t i = 0; i < offsets.size(); ++i) {
          const ChunkPlace& a = section.places[i];
          Bytes all = 0;
          for (std::int32_t chunk = 0; chunk < chunks; ++chunk) {
            const Bytes bytes = chunk_bytes(program_, a, load, chunks, chunk);
            all += bytes;
            EXPECT_LE(offsets[i] + bytes, room);
            for (std::size_t k = 0; k < i; ++k) {
              const ChunkPlace& b = section.places[k];
              if (a.first > b.last || b.first > a.last) continue;
              EXPECT_TRUE(offsets[k] + chunk_bytes(program_, b, load, chunks, chunk) <= offsets[i] ||
                          offsets[i] + bytes <= offsets[k]);
            }
          }
          if (a.routed >= 0) {
            const RowsOf of = program_.routed[static_cast<std::size_t>(a.routed)].rows_of;
            EXPECT_EQ(all, routed_rows(load.of(of)) * kRow) << "every row once";
          }
        }
        const std::int32_t least = least_chunks(program_, section, load, room);
        ASSERT_GT(least, 0);
        EXPECT_LE(least, std::max(kFewestChunks, chunks));
        EXPECT_LE(room_bytes(program_, section, load, least), room);
        if (least > kFewestChunks) {
          EXPECT_GT(room_bytes(program_, section, load, least - 1), room);
        }
      }
  EXPECT_EQ(least_chunks(program_, row_sections(program_)[0], 4, kRow), 0) << "two storages of one row at once";
}

}  // namespace
}  // namespace tidemark
