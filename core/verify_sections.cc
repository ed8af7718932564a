// Sections that may run in chunks. What the plan orders is checked elsewhere and holds for the last chunk; here is what
// changes: the chunks in front, which stand where the section's first task does. They must not overtake a task that
// they depend on, find complete what is older, and share no byte with anything in use from `begin` on.

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/dispatch_section.h"
#include "core/dynamic_region.h"
#include "core/hole_granules.h"
#include "core/verify_parts.h"

namespace tidemark::verify {
namespace {

bool within(std::int32_t value, std::size_t size) {
  return value >= 0 && static_cast<std::size_t>(value) < size;
}

bool contains(const std::vector<ResidencyId>& ids, ResidencyId id) {
  return std::ranges::find(ids, id) != ids.end();
}

class SectionCheck {
 public:
  SectionCheck(const Graph& graph, const Program& program, const TaskOrder& order)
      : graph_(graph),
        program_(program),
        schedule_(program.schedule),
        order_(order),
        clock_(compute_clock(program.schedule)),
        routed_(schedule_.residencies.size(), nullptr),
        section_of_task_(schedule_.tasks.size(), -1),
        touching_(schedule_.residencies.size()),
        in_use_from_(schedule_.residencies.size(), 0) {}

  Found run_lists() {
    index();
    for (std::size_t i = 0; i < program_.sections.size(); ++i) {
      if (std::string why = enter(i); !why.empty()) return broken(i, why);
    }
    return {};
  }

  Found run() {
    if (Found found = run_lists()) return found;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      for (const auto rule : {&SectionCheck::check_tasks, &SectionCheck::check_inside, &SectionCheck::check_overtaken,
                              &SectionCheck::check_older, &SectionCheck::check_contingencies}) {
        if (std::string why = (this->*rule)(parts_[i]); !why.empty()) return broken(i, why);
      }
      if (std::string why = check_bytes(i); !why.empty()) return broken(i, why);
    }
    return check_limit();
  }

 private:
  struct Touching {
    TaskId task = kNone<TaskId>;
    AccessKind kind = AccessKind::read;
  };
  void index();
  [[nodiscard]] std::string enter(std::size_t i);
  [[nodiscard]] std::string check_tasks(const SectionParts& parts) const;
  [[nodiscard]] std::string check_inside(const SectionParts& parts) const;
  [[nodiscard]] std::string check_overtaken(const SectionParts& parts) const;
  [[nodiscard]] std::string check_older(const SectionParts& parts) const;
  [[nodiscard]] std::string check_contingencies(const SectionParts& parts) const;
  [[nodiscard]] std::string check_bytes(std::size_t i) const;
  [[nodiscard]] std::vector<ByteUse> in_use_between(std::size_t i, std::int32_t until) const;
  [[nodiscard]] Found check_limit() const;

  /// One after the other within a chunk, two buffers may share bytes.
  [[nodiscard]] bool at_once(ResidencyId a, ResidencyId b) const {
    return slot(a, schedule_.residencies[row(a)].acquire).at_once(slot(b, schedule_.residencies[row(b)].acquire));
  }
  /// Sums of one lane may be added up in another order: gradients, to which backward ops that write them add.
  [[nodiscard]] bool both_add(ResidencyId r, TaskId a, TaskId b) const {
    return graph_.template_of(schedule_.residencies[row(r)].storage).role == StorageRole::gradient &&
           order_.lane(a) == order_.lane(b) && adds(a, r) && adds(b, r);
  }
  [[nodiscard]] bool adds(TaskId task, ResidencyId r) const {
    const Task& t = schedule_.tasks[row(task)];
    if (t.kind != TaskKind::op || !writes(task, r)) return false;
    const OpPhase phase = graph_.op_templates[row(t.op_template)].phase;
    return phase == OpPhase::backward || phase == OpPhase::weight_gradient;
  }
  [[nodiscard]] bool writes(TaskId task, ResidencyId r) const {
    return std::ranges::any_of(touching_[row(r)],
                               [&](const Touching& t) { return t.task == task && t.kind == AccessKind::write; });
  }
  [[nodiscard]] bool is_known(const LaneClock& known, TaskId task) const {
    return order_.position(task) < known[order_.lane(task)];
  }
  [[nodiscard]] bool in_section(const SectionParts& parts, TaskId task) const {
    return std::ranges::binary_search(parts.tasks, task);
  }
  [[nodiscard]] ByteUse slot(ResidencyId r, std::int32_t from) const { return slot_use(program_, r, from); }
  [[nodiscard]] ByteUse buffer(std::size_t section, const ChunkBuffer& b) const {
    const Residency& stay = schedule_.residencies[row(b.residency)];
    const Bytes bytes = buffer_bytes(*routed_[row(b.residency)], stay.bytes, program_.collective_limit_f,
                                     program_.sections[section].chunks);
    return {.residency = b.residency,
            .arena = id_of<ArenaId>(0),
            .from = parts_[section].begin,
            .until = stay.release,
            .begin = b.offset,
            .end = b.offset + bytes};
  }
  [[nodiscard]] std::string name(TaskId task) const { return name_of(&graph_, schedule_, task); }
  [[nodiscard]] std::string name(ResidencyId r) const {
    return name_of(&graph_, schedule_.residencies[row(r)].storage);
  }
  [[nodiscard]] static Violation broken(std::size_t i, const std::string& why) {
    return {.rule = Violation::Rule::contingency, .detail = fmt::format("section {}: {}", i, why)};
  }

  const Graph& graph_;
  const Program& program_;
  const Schedule& schedule_;
  const TaskOrder& order_;
  std::vector<std::int32_t> clock_;
  std::vector<const RoutedResidency*> routed_;  // per residency
  std::vector<std::int32_t> section_of_task_;
  std::vector<std::vector<Touching>> touching_;  // per residency, in issue order
  std::vector<std::int32_t> in_use_from_;        // per residency: acquire, or the begin of a section that keeps it
  std::vector<SectionParts> parts_;
  std::int64_t next_buffer_ = 0;
};

void SectionCheck::index() {
  for (const RoutedResidency& routed : program_.routed) routed_[row(routed.residency)] = &routed;
  for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
    for (const Schedule::Touch& touch : schedule_.touches_of(id_of<TaskId>(t)))
      touching_[row(touch.residency)].push_back({id_of<TaskId>(t), touch.kind});
  }
  for (std::size_t r = 0; r < in_use_from_.size(); ++r) in_use_from_[r] = schedule_.residencies[r].acquire;
}

// Ids in range, and no task in two sections; then the parts are known.
std::string SectionCheck::enter(std::size_t i) {
  const DispatchSection& section = program_.sections[i];
  if (section.chunks < 2 || section.chunks > kMostChunks)
    return fmt::format("{} chunks; there are 2 to {}", section.chunks, kMostChunks);
  const std::int64_t end = std::int64_t{section.first_buffer} + section.buffer_count;
  if (section.first_buffer < 0 || section.buffer_count < 1 ||
      end > static_cast<std::int64_t>(program_.chunk_buffers.size()))
    return fmt::format("its buffers {} to {} do not exist", section.first_buffer, end);
  if (section.first_buffer != next_buffer_)
    return fmt::format("its buffers begin at {}; those of the section before it end at {}", section.first_buffer,
                       next_buffer_);
  next_buffer_ = end;
  for (const ChunkBuffer& b : buffers_of(program_, section)) {
    if (!within(static_cast<std::int32_t>(b.residency), schedule_.residencies.size()))
      return "a residency of its buffers does not exist";
    if (routed_[row(b.residency)] == nullptr || touching_[row(b.residency)].empty())
      return name(b.residency) + " is not routed, or nothing touches it";
    if (program_.layout.arena_of[row(b.residency)] != id_of<ArenaId>(0))
      return name(b.residency) + " is not in the first arena";
    if (b.offset < 0 || b.offset > program_.layout.arenas.front().height_bytes)
      return fmt::format("the buffer of {} at offset {} is not within the arena, or not aligned", name(b.residency),
                         b.offset);
  }
  SectionParts parts = parts_of(schedule_, buffers_of(program_, section), clock_);
  if (i + 1 == program_.sections.size() && end != static_cast<std::int64_t>(program_.chunk_buffers.size()))
    return "buffers are listed behind its own";
  if (!parts_.empty() && parts.first <= parts_.back().first) return "it begins before the one listed before it";
  for (const TaskId task : parts.tasks) {
    std::int32_t& owner = section_of_task_[row(task)];
    if (owner >= 0) return fmt::format("{} belongs to section {} as well", name(task), owner);
    owner = static_cast<std::int32_t>(i);
  }
  for (const ResidencyId r : parts.kept) in_use_from_[row(r)] = std::min(in_use_from_[row(r)], parts.begin);
  parts_.push_back(std::move(parts));
  return {};
}

// Ops on rows of one site, none of them a message: its other end has no chunks. What is not rows is added up over the
// chunks by one task, if none reads it in between; by several, and read as well, where it is a sum of gradients.
std::string SectionCheck::check_tasks(const SectionParts& parts) const {
  const SiteId site = routed_[row(parts.inside.front())]->site;
  for (const TaskId id : parts.tasks) {
    const Task& task = schedule_.tasks[row(id)];
    const bool op = task.kind == TaskKind::op || task.kind == TaskKind::recompute;
    if (!op || !graph_.op_templates[row(task.op_template)].routed)
      return name(id) + " touches an inside storage and is no op on rows";
    if (task.site != site) return name(id) + " is of another layer or micro-batch";
    if (task.lane == Lane::send || task.lane == Lane::receive)
      return name(id) + " is a message to another rank, which is sent once";
  }
  for (const ResidencyId r : parts.inside)
    if (routed_[row(r)]->site != site) return name(r) + " is of another layer or micro-batch";
  for (const ResidencyId r : parts.kept) {
    if (routed_[row(r)] != nullptr && routed_[row(r)]->site != site)
      return name(r) + " is of another layer or micro-batch";
    if (routed_[row(r)] != nullptr) continue;
    std::vector<TaskId> reads, writes;
    for (const auto& [task, kind] : touching_[row(r)])
      if (in_section(parts, task)) (kind == AccessKind::read ? reads : writes).push_back(task);
    if (writes.empty()) continue;
    for (const TaskId task : reads)
      if (!std::ranges::binary_search(writes, task) || !both_add(r, task, task))
        return fmt::format("{} reads {}, which is written with every chunk", name(task), name(r));
    for (const TaskId task : writes)
      if (task != writes.front() && !both_add(r, task, writes.front()))
        return fmt::format("{} and {} write {}, to which one alone may add with every chunk", name(writes.front()),
                           name(task), name(r));
  }
  return {};
}

// Listed once, every chunk is written before it is read, and nobody looks for the content outside the step.
std::string SectionCheck::check_inside(const SectionParts& parts) const {
  for (const ResidencyId r : parts.inside) {
    if (std::ranges::count(parts.inside, r) > 1) return name(r) + " is listed twice";
    const std::vector<Touching>& touching = touching_[row(r)];
    for (const auto& [task, kind] : touching)
      if (task == touching.front().task && kind == AccessKind::read)
        return fmt::format("{} reads {} before a chunk of it is written", name(task), name(r));
    if (graph_.template_of(schedule_.residencies[row(r)].storage).role < StorageRole::activation)
      return name(r) + " is not made and used up by the step";
    for (const Contingency& c : program_.contingencies)
      if (c.residency == r) return name(r) + " is also given back by a contingency";
    for (const ContingencyStep& step : program_.contingency_steps)
      for (const Schedule::Touch& touch : step.touches)
        if (touch.residency == r) return name(r) + " is also a source of a contingency";
  }
  return {};
}

// The chunks in front overtake the tasks of others between the first and the last of the section. A residency's first
// task counts as writing: where nobody writes what is read first, it is filled there.
std::string SectionCheck::check_overtaken(const SectionParts& parts) const {
  for (const ResidencyId r : parts.kept) {
    const Residency& stay = schedule_.residencies[row(r)];
    for (const auto& [other, other_kind] : touching_[row(r)]) {
      if (other < parts.first || other > parts.last || in_section(parts, other)) continue;
      for (const auto& [task, kind] : touching_[row(r)]) {
        if (task < other || !in_section(parts, task)) continue;
        if (both_add(r, task, other)) continue;
        const bool reads = kind == AccessKind::read && other_kind == AccessKind::read;
        if (!reads || stay.first_task == other)
          return fmt::format("a chunk of {} would overtake {} on {}", name(task), name(other), name(r));
      }
    }
  }
  return {};
}

// Older tasks on the same storages are over when the chunks in front begin.
std::string SectionCheck::check_older(const SectionParts& parts) const {
  const LaneClock known = order_.behind(parts.follows, parts.first);
  for (const ResidencyId r : parts.kept) {
    const bool written = std::ranges::any_of(
        touching_[row(r)], [&](const Touching& t) { return t.kind == AccessKind::write && in_section(parts, t.task); });
    for (const auto& [task, kind] : touching_[row(r)]) {
      if (task >= parts.first) break;
      const bool fills = task == schedule_.residencies[row(r)].first_task;
      if ((written || fills || kind == AccessKind::write) && !is_known(known, task))
        return fmt::format("its chunks do not wait for {}, which touches {}", name(task), name(r));
    }
  }
  return {};
}

// What a contingency has out is back, and known to be, when the chunks in front begin.
std::string SectionCheck::check_contingencies(const SectionParts& parts) const {
  const LaneClock known = order_.behind(parts.follows, parts.first);
  for (const Contingency& c : program_.contingencies) {
    if (c.trigger > parts.last || !contains(parts.kept, c.residency)) continue;
    const bool after = std::ranges::any_of(touching_[row(c.residency)], [&](const Touching& t) {
      return t.task > c.trigger && in_section(parts, t.task);
    });
    if (!after) continue;
    const bool back = c.needed_at < parts.first && is_known(known, c.needed_at);
    const bool brought =
        c.kind == Contingency::Kind::swap && c.prefetch_at < parts.first && in_section(parts, c.needed_at);
    if (!back && !brought) return fmt::format("a contingency may have {} out when its chunks begin", name(c.residency));
  }
  return {};
}

// Buffers and kept storages share no byte with anything in use from the section's begin on.
std::string SectionCheck::check_bytes(std::size_t i) const {
  const SectionParts& parts = parts_[i];
  const Arena& arena = program_.layout.arenas.front();
  std::vector<ByteUse> uses;
  for (const ChunkBuffer& b : buffers_of(program_, program_.sections[i])) {
    const ByteUse use = buffer(i, b);
    if (use.begin < 0 || use.end > arena.height_bytes || use.begin % arena.alignment_bytes != 0)
      return fmt::format("the buffer of {} at offset {} is not within the arena, or not aligned", name(b.residency),
                         use.begin);
    for (const ByteUse& other : uses)
      if (at_once(b.residency, other.residency) && use.meets(other))
        return fmt::format("the buffers of {} and {} share bytes", name(b.residency), name(other.residency));
    uses.push_back(use);
  }
  for (const ResidencyId r : parts.kept) uses.push_back(slot(r, parts.begin));
  std::int32_t until = parts.begin;
  for (const ByteUse& use : uses) until = std::max(until, use.last());
  for (const ByteUse& other : in_use_between(i, until))
    for (const ByteUse& use : uses)
      if (use.residency != other.residency && use.meets(other))
        return fmt::format("{} shares bytes with {} while it runs in chunks", name(use.residency),
                           name(other.residency));
  return {};
}

// What others have in use from the section's begin until a half-step, in chunks or not. Its own inside storages are in
// their buffers then.
std::vector<ByteUse> SectionCheck::in_use_between(std::size_t i, std::int32_t until) const {
  const SectionParts& parts = parts_[i];
  std::vector<ByteUse> found;
  for (std::size_t r = 0; r < schedule_.residencies.size(); ++r) {
    const auto id = id_of<ResidencyId>(r);
    const ByteUse use = slot(id, in_use_from_[r]);
    if (use.last() <= parts.begin || use.from >= until) continue;
    if (schedule_.residencies[r].space == MemorySpace::device && !contains(parts.inside, id)) found.push_back(use);
  }
  for (std::size_t other = 0; other < parts_.size(); ++other)
    if (other != i)
      for (const ChunkBuffer& b : buffers_of(program_, program_.sections[other])) found.push_back(buffer(other, b));
  return found;
}

// At the second limit nothing inside takes of the region, whatever is kept takes from the section's begin on, and holes
// are those of the first limit. Counted storage by storage from the rule in core/dynamic_region.h.
Found SectionCheck::check_limit() const {
  const std::int64_t region = dynamic_region(program_.layout.arenas.front(), kPlanGranule).count;
  std::vector<std::int64_t> taken(2 * static_cast<std::size_t>(schedule_.compute_tasks) + 2, 0);
  const auto add = [&](std::int32_t from, std::int32_t until, std::int64_t granules) {
    for (std::int32_t t = from; t < until; ++t) taken[static_cast<std::size_t>(t)] += granules;
  };
  const auto lacks = [&](ResidencyId r, Bytes bytes) {
    return extra_granules(program_.layout.offset_of[row(r)], schedule_.residencies[row(r)].bytes, bytes, kPlanGranule);
  };
  const auto is_inside = [&](ResidencyId r) {
    return std::ranges::any_of(parts_, [&](const SectionParts& parts) { return contains(parts.inside, r); });
  };
  std::vector<char> inside(schedule_.residencies.size(), 0);
  for (const RoutedResidency& routed : program_.routed) {
    inside[row(routed.residency)] = is_inside(routed.residency) ? 1 : 0;
    if (inside[row(routed.residency)] != 0) continue;
    add(in_use_from_[row(routed.residency)], schedule_.residencies[row(routed.residency)].release,
        lacks(routed.residency, routed_bytes(routed, program_.collective_limit_f)));
  }
  for (const Contingency& c : program_.contingencies) {
    if (inside[row(c.residency)] != 0) continue;
    const std::int64_t whole =
        lacks(c.residency, routed_bytes(*routed_[row(c.residency)], program_.collective_limit_f));
    add(2 * clock_[row(c.release_at)], 2 * clock_[row(c.prefetch_at)] + 1,
        std::min(whole, lacks(c.residency, c.trigger_bytes)) - whole);
  }
  HoleGranules holes(program_);
  (void)holes.assign(program_.contingency_limit_f);
  for (std::size_t s = 0; s < holes.stays().size(); ++s) {
    const RoutedStay& stay = holes.stays()[s];
    const ResidencyId r = program_.routed[static_cast<std::size_t>(stay.routed)].residency;
    if (inside[row(r)] != 0) continue;
    for (const GranuleRange& run : holes.of(s)) add(stay.begin, stay.end, -run.count);
  }
  const auto most = std::ranges::max_element(taken);
  if (*most <= region) return {};
  return Violation{
      .rule = Violation::Rule::contingency,
      .detail = fmt::format("in chunks, at expert load {} up to {} granules of the dynamic region are taken "
                            "at half-step {}, which has {}",
                            program_.collective_limit_f, *most, most - taken.begin(), region)};
}

}  // namespace

Found check_section_lists(const Graph& graph, const Program& program, const TaskOrder& order) {
  if (!program.sections.empty()) return SectionCheck(graph, program, order).run_lists();
  if (program.chunk_buffers.empty() && program.collective_limit_f == program.contingency_limit_f) return {};
  return Violation{.rule = Violation::Rule::contingency,
                   .detail = "without sections there are no chunk buffers and no second limit"};
}

Found check_sections(const Graph& graph, const Program& program, const TaskOrder& order) {
  if (program.sections.empty()) return {};
  return SectionCheck(graph, program, order).run();
}

}  // namespace tidemark::verify
