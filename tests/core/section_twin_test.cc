// The checker of sections against a twin that runs small programs in chunks, some with contingencies in force: every
// task, chunk and copy a node, who is certain to run before whom by transitive closure, and every read looked up in a
// memory of words. And the two limits against a count of the granules taken, site by site and half-step by half-step.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/dispatch_section.h"
#include "core/dynamic_region.h"
#include "core/hole_granules.h"
#include "core/verify.h"
#include "tests/support/tiny_graph.h"
#include "tests/support/tiny_schedule.h"

namespace tidemark {
namespace {

/// A row is a granule, so that one row too many takes of the dynamic region.
constexpr Bytes kWord = kPlanGranule;
constexpr std::int64_t kRows = 5;
constexpr Bytes kSlot = kRows * kWord;

class ChunkTwin {
 public:
  /// `in_force`: per contingency.
  ChunkTwin(const Graph& graph, const Program& program, std::vector<char> in_force)
      : graph_(graph), program_(program), s_(program.schedule), in_force_(std::move(in_force)) {
    copies_.resize(in_force_.size());
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
      join(task, after);
      const std::int32_t section = section_of(task);
      node_of_[t] = submit(task, section, section < 0 ? 0 : chunks_of(section) - 1, after);
      copy(task, node_of_[t]);
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
    std::int32_t version = 0, part = -1;  // part: the chunk that wrote it, of inside storages and of what is no rows
    friend bool operator==(const Word&, const Word&) = default;
  };

  /// Of a contingency in force: its copies out and in.
  struct Copies {
    std::int32_t out = -1, in = -1;
    bool released = false, joined = false;
    std::vector<Word> saved;
  };

  /// What the task waits for on behalf of contingencies, once; a chunk in front stands for its task.
  void join(TaskId task, std::set<std::int32_t>& after) {
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const Contingency& c = program_.contingencies[i];
      Copies& copies = copies_[i];
      if (copies.out < 0) continue;
      if (c.release_at == task && !std::exchange(copies.released, true)) after.insert(copies.out);
      if (c.needed_at == task && !std::exchange(copies.joined, true)) after.insert(copies.in);
    }
  }

  /// What follows the task on behalf of contingencies. Between release and prefetch others have the bytes.
  void copy(TaskId task, std::int32_t node) {
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const Contingency& c = program_.contingencies[i];
      if (in_force_[i] == 0) continue;
      Access access = slot(c.residency);
      Copies& copies = copies_[i];
      if (c.trigger == task) {
        copies.out = add_node(Lane::d2h, {node}, {access});
        copies.saved.assign(memory_.begin() + access.first, memory_.begin() + access.last);
      }
      access.write = true;
      if (c.release_at == task || c.prefetch_at == task) {
        add_accesses(node, {access});
        put(access, {});
      }
      if (c.prefetch_at == task) {
        copies.in = add_node(Lane::h2d, {node}, {access});
        std::copy(copies.saved.begin(), copies.saved.end(), memory_.begin() + access.first);
      }
    }
  }

  void submit_in_front(std::size_t i) {
    const SectionParts& parts = parts_[i];
    std::set<std::int32_t> after;
    for (const Lane lane : parts.follows) after.insert(last_[static_cast<std::size_t>(lane)]);
    std::int32_t node = -1;
    for (std::int32_t chunk = 0; chunk + 1 < chunks_of(static_cast<std::int32_t>(i)); ++chunk)
      for (const TaskId task : parts.tasks) {
        join(task, after);
        node = submit(task, static_cast<std::int32_t>(i), chunk, after);
        after = {node};
      }
    for (const TaskId task : parts.tasks) behind_[static_cast<std::size_t>(s_.tasks[row(task)].lane)] = node;
  }

  std::int32_t submit(TaskId task, std::int32_t section, std::int32_t chunk, const std::set<std::int32_t>& after) {
    Node node;
    for (const bool writes : {false, true})
      for (const Schedule::Touch& touch : s_.touches_of(task))
        if ((touch.kind == AccessKind::write) == writes) enter(node, task, section, chunk, touch);
    return add_node(s_.tasks[row(task)].lane, after, std::move(node.accesses));
  }

  std::int32_t add_node(Lane on, std::set<std::int32_t> after, std::vector<Access> accesses) {
    const auto lane = static_cast<std::size_t>(on);
    after.insert({last_[lane], behind_[lane]});
    Node node{.before = std::vector<char>(nodes_.size(), 0), .accesses = {}};
    for (const std::int32_t a : after) {
      if (a < 0) continue;
      node.before[static_cast<std::size_t>(a)] = 1;
      const std::vector<char>& earlier = nodes_[static_cast<std::size_t>(a)].before;
      for (std::size_t n = 0; n < earlier.size(); ++n) node.before[n] = node.before[n] | earlier[n];
    }
    nodes_.push_back(std::move(node));
    last_[lane] = static_cast<std::int32_t>(nodes_.size()) - 1;
    add_accesses(last_[lane], accesses);
    return last_[lane];
  }

  /// REQUIRES: the node is the newest but for copies.
  void add_accesses(std::int32_t index, const std::vector<Access>& accesses) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    expect_ordered(index, accesses);
    node.accesses.insert(node.accesses.end(), accesses.begin(), accesses.end());
  }

  void enter(Node& node, TaskId task, std::int32_t section, std::int32_t chunk, const Schedule::Touch& touch) {
    const ResidencyId r = touch.residency;
    Access access = slot(r);
    Word word{.residency = r, .version = version_at(task, r), .part = last_part(task, r)};
    if (section >= 0) narrow(section, chunk, access, word);
    access.write = touch.kind == AccessKind::write;
    if (sums(r)) {
      count(task, access);
    } else if (access.write) {
      ++word.version;
      if (section >= 0 && !is_rows(r)) add_up(task, chunk, access, word);
      if (section < 0) word.part = -1;
      put(access, word);
    } else {
      for (std::int64_t w = access.first; w < access.last; ++w)
        if (memory_[static_cast<std::size_t>(w)] != word) fail(task, "reads what is not there");
    }
    node.accesses.push_back(access);
  }

  /// What is no rows is added up over the chunks: each finds what the one before it left.
  void add_up(TaskId task, std::int32_t chunk, const Access& access, Word& word) {
    word.part = chunk - 1;
    for (std::int64_t w = access.first; chunk > 0 && w < access.last; ++w)
      if (memory_[static_cast<std::size_t>(w)] != word) fail(task, "adds to what is not there");
    word.part = chunk;
  }
  /// The part that the last writer before the task leaves.
  [[nodiscard]] std::int32_t last_part(TaskId task, ResidencyId r) const {
    std::int32_t part = -1;
    for (std::size_t t = 0; t < row(task); ++t)
      if (const std::int32_t section = section_of(id_of<TaskId>(t)); writes(id_of<TaskId>(t), r))
        part = section < 0 || is_rows(r) ? -1 : chunks_of(section) - 1;
    return part;
  }

  /// A sum holds how often it was added to: as often as tasks before a reader, in chunks or not, are to do so.
  void count(TaskId task, const Access& access) {
    Word& sum = memory_[static_cast<std::size_t>(access.first)];
    if (access.write) {
      ++sum.version;
    } else if (!writes(task, access.residency)) {
      std::int32_t wanted = 0;
      for (std::size_t t = 0; t < row(task); ++t)
        if (const std::int32_t section = section_of(id_of<TaskId>(t)); writes(id_of<TaskId>(t), access.residency))
          wanted += section < 0 ? 1 : chunks_of(section);
      if (sum.version != wanted) fail(task, "reads a sum that is not complete");
    }
  }

  /// The chunk's part of what a task of a section touches.
  void narrow(std::int32_t section, std::int32_t chunk, Access& access, Word& word) const {
    const ResidencyId r = access.residency;
    const RowRange range = rows_of_chunk(kRows, chunks_of(section), chunk);
    for (const ChunkBuffer& b : buffers_of(program_, program_.sections[static_cast<std::size_t>(section)])) {
      if (b.residency != r) continue;
      access.first = b.offset / kWord;
      access.last = access.first + range.end - range.begin;
      word.part = chunk;
      return;
    }
    if (!is_rows(r)) return;
    access.last = access.first + range.end;
    access.first += range.begin;
  }

  void expect_ordered(std::int32_t index, const std::vector<Access>& accesses) {
    const std::vector<char>& before = nodes_[static_cast<std::size_t>(index)].before;
    for (std::size_t n = 0; n < before.size(); ++n) {
      if (before[n] != 0) continue;
      for (const Access& a : nodes_[n].accesses)
        for (const Access& b : accesses)
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
  [[nodiscard]] bool is_rows(ResidencyId r) const {
    return graph_.template_of(s_.residencies[row(r)].storage).routed_rows > 0;
  }
  [[nodiscard]] std::int32_t chunks_of(std::int32_t section) const {
    return program_.sections[static_cast<std::size_t>(section)].chunks;
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
  std::vector<char> in_force_;
  std::vector<SectionParts> parts_;
  std::vector<Copies> copies_;  // per contingency
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
    std::array<double, 4> loads{1, 1, 1.2, 2};
    program.contingency_limit_f = program.collective_limit_f = loads[static_cast<std::size_t>(below(4))];
    Arena& device = program.layout.arenas.front();
    device.dynamic_bytes = below(30) * kWord;
    device.capacity_bytes = device.height_bytes + device.dynamic_bytes;
    if (below(4) > 0) add_contingencies();
  }

  /// Gives up contingencies, then the limit, until the checker has nothing against the plan without sections.
  bool settle() {
    if (!verify_program(graph, program)) return true;
    program.contingencies.clear();
    if (!verify_program(graph, program)) return true;
    program.contingency_limit_f = program.collective_limit_f = 1;
    return !verify_program(graph, program);
  }
  /// Each site its own load, some at the limit.
  std::vector<double> loads_up_to(double limit) {
    std::vector<double> loads;
    for (std::size_t s = 0; s < graph.sites.size(); ++s)
      loads.push_back(below(2) == 0 ? limit : limit * below(1001) / 1000);
    return loads;
  }
  std::vector<char> some(std::size_t count) {
    std::vector<char> chosen;
    for (std::size_t i = 0; i < count; ++i) chosen.push_back(below(2) == 0 ? 1 : 0);
    return chosen;
  }

  /// False: there is no storage to put inside.
  bool add_sections() {
    for (std::int32_t site = 0; site < 2; ++site) {
      std::vector<ResidencyId> inside;
      for (const RoutedResidency& routed : program.routed)
        if (routed.site == static_cast<SiteId>(site) && may_be_inside(routed.residency) && below(3) > 0)
          inside.push_back(routed.residency);
      if (inside.empty() || below(4) == 0) continue;
      program.sections.push_back({.chunks = 2 + below(2),
                                  .first_buffer = static_cast<std::int32_t>(program.chunk_buffers.size()),
                                  .buffer_count = static_cast<std::int32_t>(inside.size())});
      for (const ResidencyId r : inside) program.chunk_buffers.push_back({.residency = r, .offset = buffer_for(r)});
    }
    if (program.sections.empty()) return false;
    program.collective_limit_f *= 1 + 0.2 * below(4);
    free_at_the_limit();
    return true;
  }

 private:
  /// Swaps of routed storages, anywhere between two of their touches.
  void add_contingencies() {
    const Schedule& s = program.schedule;
    Arena& host = program.layout.arenas[1];
    for (const RoutedResidency& routed : program.routed) {
      std::vector<TaskId> touching, between;
      for (std::size_t t = 0; t < s.tasks.size(); ++t)
        if (touches(t, row(routed.residency))) touching.push_back(id_of<TaskId>(t));
      if (touching.size() < 2) continue;
      const auto i = static_cast<std::size_t>(below(static_cast<int>(touching.size()) - 1));
      for (std::size_t t = row(touching[i]) + 1; t < row(touching[i + 1]); ++t)
        if (s.tasks[t].lane == Lane::compute) between.push_back(id_of<TaskId>(t));
      if (between.empty()) continue;
      const auto release = static_cast<std::size_t>(below(static_cast<int>(between.size())));
      const auto prefetch = release + static_cast<std::size_t>(below(static_cast<int>(between.size() - release)));
      program.contingencies.push_back({.trigger_bytes = s.residencies[row(routed.residency)].bytes,
                                       .trigger = touching[i],
                                       .residency = routed.residency,
                                       .release_at = between[release],
                                       .prefetch_at = between[prefetch],
                                       .needed_at = touching[i + 1],
                                       .host_offset = host.dynamic_bytes});
      host.dynamic_bytes += 4 * kSlot;
    }
    host.capacity_bytes = host.dynamic_bytes;
    std::ranges::stable_sort(program.contingencies, {}, &Contingency::trigger);
    free_at_the_limit();
  }
  void free_at_the_limit() {
    for (Contingency& c : program.contingencies)
      for (const RoutedResidency& routed : program.routed)
        if (routed.residency == c.residency)
          c.freed_bytes = kWord * extra_granules(program.layout.offset_of[row(c.residency)], kSlot,
                                                 routed_bytes(routed, program.collective_limit_f), kWord);
  }

  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }

  void make_graph() {
    testing::GraphBuilder b;
    const std::vector<StorageTemplate> storages{
        {.name = "home", .fixed_bytes = kSlot},
        {.name = "sent", .routed_rows = kRows, .routed_row_bytes = kWord},
        {.name = "rows", .routed_rows = kRows, .routed_row_bytes = kWord},
        {.name = "kept", .routed_rows = kRows, .routed_row_bytes = kWord, .saved_for_backward = true},
        {.name = "note", .fixed_bytes = kSlot},
        {.name = "given", .role = StorageRole::parameter, .fixed_bytes = kSlot, .initial = true, .lasting = true},
        {.name = "sum", .role = StorageRole::gradient, .fixed_bytes = kSlot, .initial = true, .lasting = true}};
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

/// The most granules of the region taken at a half-step; `in_chunks`: per section.
std::int64_t most_taken(const Program& program, const std::vector<double>& loads, const std::vector<char>& in_chunks) {
  const Schedule& s = program.schedule;
  const std::vector<std::int32_t> clock = compute_clock(s);
  std::vector<std::int32_t> from(s.residencies.size());
  std::vector<char> inside(s.residencies.size(), 0);
  for (std::size_t r = 0; r < from.size(); ++r) from[r] = s.residencies[r].acquire;
  for (std::size_t i = 0; i < in_chunks.size(); ++i) {
    if (in_chunks[i] == 0) continue;
    const SectionParts parts = parts_of(s, buffers_of(program, program.sections[i]), clock);
    for (const ResidencyId r : parts.inside) inside[row(r)] = 1;
    for (const ResidencyId r : parts.kept) from[row(r)] = std::min(from[row(r)], parts.begin);
  }
  HoleGranules holes(program);
  (void)holes.assign(program.contingency_limit_f);
  std::int64_t most = 0;
  for (std::int32_t t = 0; t <= 2 * s.compute_tasks; ++t) {
    std::int64_t taken = 0;
    for (std::size_t i = 0; i < program.routed.size(); ++i) {
      const RoutedResidency& routed = program.routed[i];
      const std::size_t r = row(routed.residency);
      bool there = inside[r] == 0 && from[r] <= t && t < s.residencies[r].release;
      const std::int64_t rows = routed_bytes(routed, loads[row(routed.site)]) / kWord;
      for (const Contingency& c : program.contingencies)
        there = there && (c.residency != routed.residency || rows * kWord <= c.trigger_bytes ||
                          t < 2 * clock[row(c.release_at)] || t > 2 * clock[row(c.prefetch_at)]);
      if (!there) continue;
      std::int64_t lacks = rows - kRows;
      for (std::size_t h = 0; h < holes.stays().size(); ++h) {
        const RoutedStay& stay = holes.stays()[h];
        if (stay.routed == static_cast<std::int32_t>(i) && stay.begin <= t && t < stay.end) lacks -= holes.count(h);
      }
      taken += std::max<std::int64_t>(0, lacks);
    }
    most = std::max(most, taken);
  }
  return most;
}

/// Below the first limit whatever the groups say; below the second where every section that is asked for is agreed to.
void expect_limits_hold(RandomSections& random, const std::string& what) {
  const Program& program = random.program;
  const std::int64_t region = dynamic_region(program.layout.arenas.front(), kPlanGranule).count;
  for (int trial = 0; trial < 4; ++trial) {
    const std::vector<char> any = random.some(program.sections.size());
    EXPECT_LE(most_taken(program, random.loads_up_to(program.contingency_limit_f), any), region) << what;
    const std::vector<double> loads = random.loads_up_to(program.collective_limit_f);
    std::vector<char> asked = random.some(program.sections.size());
    for (std::size_t i = 0; i < asked.size(); ++i)
      for (const ChunkBuffer& b : buffers_of(program, program.sections[i]))
        for (const RoutedResidency& routed : program.routed)
          if (routed.residency == b.residency && loads[row(routed.site)] > 1) asked[i] = 1;
    EXPECT_LE(most_taken(program, loads, asked), region) << what;
  }
}

using Counts = std::map<std::string, int>;

void expect_clean(RandomSections& random, const std::string& wrong, const std::string& what, Counts& counts) {
  const Program& program = random.program;
  ++counts["clean"];
  counts["clean with contingencies"] += program.contingencies.empty() ? 0 : 1;
  counts["clean with two limits"] += program.collective_limit_f > program.contingency_limit_f ? 1 : 0;
  counts["clean above load 1"] += program.contingency_limit_f > 1 ? 1 : 0;
  for (const DispatchSection& section : program.sections) counts["in three"] += section.chunks == 3 ? 1 : 0;
  EXPECT_EQ(wrong, "") << what;
  expect_limits_hold(random, what);
}

/// What is refused may be well all the same, but for the second limit.
void expect_refused(const RandomSections& random, const Violation& found, const std::string& wrong,
                    const std::string& what, Counts& counts) {
  const Program& program = random.program;
  EXPECT_EQ(found.rule, Violation::Rule::contingency) << found.detail;
  counts["caught"] += wrong.empty() ? 0 : 1;
  counts["out when chunks begin"] += found.detail.find("may have") != std::string::npos ? 1 : 0;
  if (!found.detail.starts_with("in chunks, at expert load")) return;
  ++counts["beyond the second limit"];
  const std::vector<double> most(random.graph.sites.size(), program.collective_limit_f);
  const std::vector<char> all(program.sections.size(), 1);
  EXPECT_GT(most_taken(program, most, all), dynamic_region(program.layout.arenas.front(), kPlanGranule).count)
      << what << ": " << found.detail;
}

TEST(SectionTwin, WhatTheCheckerLetsPassRunsInChunks) {
  RandomSections random(7);
  Counts counts;
  for (int round = 0; round < 2400; ++round) {
    random.make();
    if (!random.settle()) continue;
    const Program whole = random.program;
    const std::vector<char> in_force = random.some(whole.contingencies.size());
    const std::string what = "round " + std::to_string(round);
    ASSERT_EQ(ChunkTwin(random.graph, whole, in_force).run(), "") << what << " as planned";
    for (int trial = 0; trial < 5; ++trial) {
      random.program = whole;
      if (!random.add_sections()) continue;
      ++counts["plans"];
      const std::string wrong = ChunkTwin(random.graph, random.program, in_force).run();
      if (const auto found = verify_program(random.graph, random.program))
        expect_refused(random, *found, wrong, what, counts);
      else
        expect_clean(random, wrong, what, counts);
    }
  }
  for (const auto& [what, least] : std::initializer_list<std::pair<const char*, int>>{{"plans", 1000},
                                                                                      {"clean", 150},
                                                                                      {"in three", 80},
                                                                                      {"clean with contingencies", 30},
                                                                                      {"clean with two limits", 30},
                                                                                      {"clean above load 1", 50},
                                                                                      {"caught", 500},
                                                                                      {"out when chunks begin", 5},
                                                                                      {"beyond the second limit", 10}})
    EXPECT_GT(counts[what], least) << what;
  for (const auto& [what, count] : counts) RecordProperty(what, count);
}

}  // namespace
}  // namespace tidemark
