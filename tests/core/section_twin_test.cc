// The checker of sections against a twin that runs small programs in chunks: every task and chunk a node, who is
// certain to run before whom by transitive closure, and every read looked up in a memory of words.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "core/dispatch_section.h"
#include "core/dynamic_region.h"
#include "core/verify.h"
#include "tests/support/tiny_graph.h"
#include "tests/support/tiny_schedule.h"

namespace tidemark {
namespace {

constexpr Bytes kWord = 512, kSlot = 4 * kWord;
constexpr std::int32_t kChunks = 2;

class ChunkTwin {
 public:
  ChunkTwin(const Graph& graph, const Program& program) : graph_(graph), program_(program), s_(program.schedule) {
    const std::vector<std::int32_t> clock = compute_clock(s_);
    for (const DispatchSection& section : program.sections)
      parts_.push_back(parts_of(s_, buffers_of(program, section), clock));
    last_.fill(-1);
    node_of_.assign(s_.tasks.size(), -1);
    // What nobody writes is there from the beginning.
    for (std::size_t r = 0; r < s_.residencies.size(); ++r)
      if (graph.template_of(s_.residencies[r].storage).role != StorageRole::activation)
        put(slot(id_of<ResidencyId>(r)), {.residency = id_of<ResidencyId>(r)});
  }

  /// What goes wrong; empty: nothing.
  std::string run() {
    for (std::size_t t = 0; t < s_.tasks.size(); ++t) {
      const auto task = id_of<TaskId>(t);
      for (std::size_t i = 0; i < parts_.size(); ++i)
        if (parts_[i].first == task) submit_in_front(i);
      std::set<std::int32_t> after;
      for (const TaskId wait : s_.waits_of(task)) after.insert(node_of_[row(wait)]);
      node_of_[t] = submit(task, section_of(task), kChunks - 1, after);
    }
    return wrong_;
  }

 private:
  /// What a node does to a range of words.
  struct Access {
    ResidencyId residency = kNone<ResidencyId>;
    std::int64_t first = 0, last = 0;
    bool write = false;
  };
  struct Node {
    std::vector<char> before;  // per earlier node: certain to have completed
    std::vector<Access> accesses;
  };
  struct Word {
    ResidencyId residency = kNone<ResidencyId>;
    std::int32_t version = 0, part = -1;  // part: the chunk that wrote it, of inside storages
    friend bool operator==(const Word&, const Word&) = default;
  };

  void submit_in_front(std::size_t i) {
    const SectionParts& parts = parts_[i];
    std::set<std::int32_t> after;
    for (const Lane lane : parts.follows) after.insert(last_[static_cast<std::size_t>(lane)]);
    std::int32_t node = -1;
    for (std::int32_t chunk = 0; chunk + 1 < kChunks; ++chunk)
      for (const TaskId task : parts.tasks) {
        node = submit(task, static_cast<std::int32_t>(i), chunk, after);
        after = {node};
      }
    for (const TaskId task : parts.tasks) behind_[static_cast<std::size_t>(s_.tasks[row(task)].lane)] = node;
  }

  std::int32_t submit(TaskId task, std::int32_t section, std::int32_t chunk, std::set<std::int32_t> after) {
    const auto lane = static_cast<std::size_t>(s_.tasks[row(task)].lane);
    after.insert({last_[lane], behind_[lane]});
    Node node{.before = std::vector<char>(nodes_.size(), 0), .accesses = {}};
    for (const std::int32_t a : after) {
      if (a < 0) continue;
      node.before[static_cast<std::size_t>(a)] = 1;
      const std::vector<char>& earlier = nodes_[static_cast<std::size_t>(a)].before;
      for (std::size_t n = 0; n < earlier.size(); ++n) node.before[n] = node.before[n] | earlier[n];
    }
    for (const bool writes : {false, true})
      for (const Schedule::Touch& touch : s_.touches_of(task))
        if ((touch.kind == AccessKind::write) == writes) enter(node, task, section, chunk, touch);
    expect_ordered(node);
    nodes_.push_back(std::move(node));
    last_[lane] = static_cast<std::int32_t>(nodes_.size()) - 1;
    return last_[lane];
  }

  void enter(Node& node, TaskId task, std::int32_t section, std::int32_t chunk, const Schedule::Touch& touch) {
    const ResidencyId r = touch.residency;
    Access access = slot(r);
    Word word{.residency = r, .version = version_at(task, r), .part = -1};
    if (section >= 0) narrow(section, chunk, access, word);
    access.write = touch.kind == AccessKind::write;
    if (sums(r)) {
      count(task, access);
    } else if (access.write) {
      ++word.version;
      put(access, word);
    } else {
      for (std::int64_t w = access.first; w < access.last; ++w)
        if (memory_[static_cast<std::size_t>(w)] != word) fail(task, "reads what is not there");
    }
    node.accesses.push_back(access);
  }

  /// A sum holds how often it was added to: as often as tasks before a reader, in chunks or not, are to do so.
  void count(TaskId task, const Access& access) {
    Word& sum = memory_[static_cast<std::size_t>(access.first)];
    if (access.write) {
      ++sum.version;
    } else if (!writes(task, access.residency)) {
      std::int32_t wanted = 0;
      for (std::size_t t = 0; t < row(task); ++t)
        if (writes(id_of<TaskId>(t), access.residency)) wanted += section_of(id_of<TaskId>(t)) < 0 ? 1 : kChunks;
      if (sum.version != wanted) fail(task, "reads a sum that is not complete");
    }
  }

  /// The chunk's part of what a task of a section touches.
  void narrow(std::int32_t section, std::int32_t chunk, Access& access, Word& word) const {
    const ResidencyId r = access.residency;
    const bool rows = graph_.template_of(s_.residencies[row(r)].storage).routed_rows > 0;
    const RowRange range = rows_of_chunk(kSlot / kWord, kChunks, chunk);
    for (const ChunkBuffer& b : buffers_of(program_, program_.sections[static_cast<std::size_t>(section)])) {
      if (b.residency != r) continue;
      access.first = b.offset / kWord;
      access.last = access.first + range.end - range.begin;
      word.part = chunk;
      return;
    }
    if (!rows) return;
    access.last = access.first + range.end;
    access.first += range.begin;
  }

  void expect_ordered(const Node& node) {
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (node.before[n] != 0) continue;
      for (const Access& a : nodes_[n].accesses)
        for (const Access& b : node.accesses)
          if ((a.write || b.write) && a.first < b.last && b.first < a.last)
            wrong_ += " residencies " + std::to_string(row(a.residency)) + " and " + std::to_string(row(b.residency)) +
                      " race;";
    }
  }

  [[nodiscard]] Access slot(ResidencyId r) const {
    const std::int64_t first = program_.layout.offset_of[row(r)] / kWord;
    return {.residency = r, .first = first, .last = first + kSlot / kWord, .write = false};
  }
  void put(const Access& access, const Word& word) {
    for (std::int64_t w = access.first; w < access.last; ++w) memory_[static_cast<std::size_t>(w)] = word;
  }
  void fail(TaskId task, const char* what) { wrong_ += " task " + std::to_string(row(task)) + " " + what + ";"; }
  [[nodiscard]] bool sums(ResidencyId r) const {
    return graph_.template_of(s_.residencies[row(r)].storage).role == StorageRole::gradient;
  }
  [[nodiscard]] bool writes(TaskId task, ResidencyId r) const {
    const auto of = s_.touches_of(task);
    return std::ranges::count(of, Schedule::Touch{r, AccessKind::write}) > 0;
  }
  [[nodiscard]] std::int32_t version_at(TaskId task, ResidencyId r) const {
    std::int32_t version = 0;
    for (std::size_t t = 0; t < row(task); ++t) version += writes(id_of<TaskId>(t), r) ? 1 : 0;
    return version;
  }
  [[nodiscard]] std::int32_t section_of(TaskId task) const {
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (std::ranges::binary_search(parts_[i].tasks, task)) return static_cast<std::int32_t>(i);
    return -1;
  }

  const Graph& graph_;
  const Program& program_;
  const Schedule& s_;
  std::vector<SectionParts> parts_;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> node_of_;
  std::array<std::int32_t, kLaneCount> last_{}, behind_ = [] {
    std::array<std::int32_t, kLaneCount> none{};
    none.fill(-1);
    return none;
  }();
  std::vector<Word> memory_ = std::vector<Word>(4096);
  std::string wrong_;
};

/// Two layers' worth of random ops on rows and others, interleaved, and residencies wherever the lanes' order allows.
class RandomSections {
 public:
  explicit RandomSections(std::uint32_t seed) : random_(seed) {}

  Graph graph;
  Program program;

  void make() {
    make_graph();
    program = {};
    program.schedule = testing::keep_all_schedule(graph);
    place();
    for (std::size_t r = 0; r < program.schedule.residencies.size(); ++r)
      if (const StorageTemplate& t = graph.template_of(id_of<StorageId>(r)); t.routed_rows > 0)
        program.routed.push_back({.residency = id_of<ResidencyId>(r),
                                  .site = graph.storages[r].site,
                                  .rows = t.routed_rows,
                                  .row_bytes = t.routed_row_bytes});
  }

  /// False: there is no storage to put inside.
  bool add_sections() {
    for (std::int32_t site = 0; site < 2; ++site) {
      std::vector<ResidencyId> inside;
      for (const RoutedResidency& routed : program.routed)
        if (routed.site == static_cast<SiteId>(site) && may_be_inside(routed.residency) && below(3) > 0)
          inside.push_back(routed.residency);
      if (inside.empty() || below(4) == 0) continue;
      program.sections.push_back({.chunks = kChunks,
                                  .first_buffer = static_cast<std::int32_t>(program.chunk_buffers.size()),
                                  .buffer_count = static_cast<std::int32_t>(inside.size())});
      for (const ResidencyId r : inside) program.chunk_buffers.push_back({.residency = r, .offset = buffer_for(r)});
    }
    return !program.sections.empty();
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }

  void make_graph() {
    testing::GraphBuilder b;
    const std::vector<StorageTemplate> storages{
        {.name = "home", .fixed_bytes = kSlot},
        {.name = "sent", .routed_rows = 4, .routed_row_bytes = kWord},
        {.name = "rows", .routed_rows = 4, .routed_row_bytes = kWord},
        {.name = "kept", .routed_rows = 4, .routed_row_bytes = kWord, .saved_for_backward = true},
        {.name = "note", .fixed_bytes = kSlot},
        {.name = "given", .role = StorageRole::parameter, .fixed_bytes = kSlot},
        {.name = "sum", .role = StorageRole::gradient, .fixed_bytes = kSlot}};
    const BlockId layer = b.block("layer", storages);
    const std::array<SiteId, 2> sites{b.site(layer, {.layer = 0, .micro_batch = 0}),
                                      b.site(layer, {.layer = 0, .micro_batch = 1})};
    constexpr std::array<Lane, 4> kLanes{Lane::compute, Lane::compute, Lane::intra_comm, Lane::inter_comm};
    struct Step {
      OpTemplateId op;
      std::vector<std::int32_t> reads, writes;
    };
    std::vector<Step> steps;
    std::vector<char> routed;
    std::vector<std::int32_t> known{5, 6};
    for (int i = 0; i < 7; ++i) {
      const bool adds = below(4) == 0;
      Step step{b.timed_op("op" + std::to_string(i), 1, kLanes[static_cast<std::size_t>(below(4))],
                           adds ? OpPhase::weight_gradient : OpPhase::forward),
                {},
                {}};
      for (const std::int32_t s : known)
        if (below(4) == 0) step.reads.push_back(s);
      const auto written = static_cast<std::int32_t>(below(5));
      step.writes.push_back(written);
      if (adds) step.writes.push_back(6);
      for (const std::int32_t s : step.writes)
        if (std::ranges::count(known, s) == 0) known.push_back(s);
      steps.push_back(std::move(step));
      routed.push_back(below(4) > 0 ? 1 : 0);
    }
    std::array<std::size_t, 2> next{};
    std::size_t turn = 0;
    while (next[0] + next[1] < 2 * steps.size()) {
      if (below(3) == 0) turn = 1 - turn;
      const std::size_t s = next[turn] < steps.size() ? turn : 1 - turn;
      const Step& step = steps[next[s]++];
      std::vector<StorageId> reads, writes;
      for (const std::int32_t local : step.reads) reads.push_back(b.at(sites[s], local));
      for (const std::int32_t local : step.writes) writes.push_back(b.at(sites[s], local));
      b.run(step.op, sites[s], reads, writes);
    }
    graph = std::move(b).finish();
    for (std::size_t i = 0; i < steps.size(); ++i) graph.op_templates[row(steps[i].op)].routed = routed[i] != 0;
  }

  /// One of few slots for each, among those whose occupants are all over before it or begin after it.
  void place() {
    const Schedule& s = program.schedule;
    const TaskOrder order(s);
    const auto wholly_before = [&](std::size_t a, std::size_t b) {
      for (std::size_t t = 0; t < s.tasks.size(); ++t)
        for (std::size_t u = 0; u < s.tasks.size(); ++u)
          if (touches(t, a) && touches(u, b) && !order.before(id_of<TaskId>(t), id_of<TaskId>(u))) return false;
      return true;
    };
    slots_.clear();
    Layout& layout = program.layout;
    for (std::size_t r = 0; r < s.residencies.size(); ++r) {
      std::vector<std::size_t> free;
      for (std::size_t k = 0; k < slots_.size(); ++k)
        if (!stays(r) && std::ranges::all_of(slots_[k], [&](std::size_t other) {
              return !stays(other) && (wholly_before(other, r) || wholly_before(r, other));
            }))
          free.push_back(k);
      const std::size_t k =
          free.empty() || below(2) == 0 ? slots_.size() : free[static_cast<std::size_t>(below(int(free.size())))];
      if (k == slots_.size()) slots_.emplace_back();
      slots_[k].push_back(r);
      layout.offset_of.push_back(static_cast<Bytes>(k) * kSlot);
      layout.arena_of.push_back(id_of<ArenaId>(0));
    }
    const Bytes height = (static_cast<Bytes>(slots_.size()) + 4) * kSlot;
    layout.arenas = {
        {.space = MemorySpace::device, .capacity_bytes = height, .alignment_bytes = kWord, .height_bytes = height},
        {.space = MemorySpace::host, .kind = Arena::Kind::pinned, .alignment_bytes = kWord}};
  }
  /// Its own slot, that of something else, or one that nobody has.
  Bytes buffer_for(ResidencyId r) {
    switch (below(8)) {
      case 0:
        return program.layout.offset_of[row(r)];
      case 1:
        return below(int(slots_.size())) * kSlot + below(2) * 2 * kWord;
      default:
        return (static_cast<Bytes>(slots_.size()) + below(4)) * kSlot + below(2) * 2 * kWord;
    }
  }
  [[nodiscard]] bool touches(std::size_t task, std::size_t r) const {
    const auto of = program.schedule.touches_of(id_of<TaskId>(task));
    return std::ranges::count(of, id_of<ResidencyId>(r), &Schedule::Touch::residency) > 0;
  }
  /// Touched, and mostly by ops on rows alone.
  [[nodiscard]] bool may_be_inside(ResidencyId r) {
    const Schedule& s = program.schedule;
    bool touched = false;
    for (std::size_t t = 0; t < s.tasks.size(); ++t) {
      if (!touches(t, row(r))) continue;
      touched = true;
      if (!graph.op_templates[row(s.tasks[t].op_template)].routed && below(8) > 0) return false;
    }
    return touched;
  }
  /// All step, whoever touches it.
  [[nodiscard]] bool stays(std::size_t r) const {
    return graph.template_of(id_of<StorageId>(r)).role != StorageRole::activation;
  }

  std::mt19937 random_;
  std::vector<std::vector<std::size_t>> slots_;
};

TEST(SectionTwin, WhatTheCheckerLetsPassRunsInChunks) {
  RandomSections random(7);
  int plans = 0, clean = 0, caught = 0;
  for (int round = 0; round < 10000; ++round) {
    random.make();
    if (verify_program(random.graph, random.program)) continue;
    ASSERT_EQ(ChunkTwin(random.graph, random.program).run(), "") << "round " << round << " as planned";
    if (!random.add_sections()) continue;
    ++plans;
    const std::string wrong = ChunkTwin(random.graph, random.program).run();
    const auto found = verify_program(random.graph, random.program);
    if (!found) {
      ++clean;
      EXPECT_EQ(wrong, "") << "round " << round;
    } else {
      EXPECT_EQ(found->rule, Violation::Rule::contingency) << found->detail;
      caught += wrong.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(plans, 1500);
  EXPECT_GT(clean, 300);
  EXPECT_GT(caught, 800);
  RecordProperty("plans", plans);
  RecordProperty("clean", clean);
  RecordProperty("caught", caught);
}

}  // namespace
}  // namespace tidemark
