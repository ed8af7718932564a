#include "planner/ladder/section_drafts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "core/dynamic_region.h"
#include "core/task_order.h"
#include "planner/schedule/touch_table.h"

namespace tidemark::ladder {
namespace {

bool on_rows(const Graph& graph, const Task& task) {
  const bool op = task.kind == TaskKind::op || task.kind == TaskKind::recompute;
  const bool message = task.lane == Lane::send || task.lane == Lane::receive;
  return op && !message && graph.op_templates[row(task.op_template)].routed;
}

/// Forward, or anything behind it; a recompute belongs to the op it is placed before.
bool is_forward(const Graph& graph, const Task& task) {
  return graph.template_of(task.op).phase == OpPhase::forward;
}

/// Stays of the first arena, found by time.
class StayTable {
 public:
  explicit StayTable(const Program& program) : schedule_(program.schedule) {
    pages_.resize(static_cast<std::size_t>(2 * schedule_.compute_tasks / kPage + 1));
    for (std::size_t i = 0; i < schedule_.residencies.size(); ++i) {
      const Residency& r = schedule_.residencies[i];
      if (program.layout.arena_of[i] != id_of<ArenaId>(0) || r.bytes == 0) continue;
      for (std::int32_t page = r.acquire / kPage; page <= (end_of(r) - 1) / kPage; ++page)
        pages_[static_cast<std::size_t>(page)].push_back(id_of<ResidencyId>(i));
    }
  }
  /// Stays that meet [from, until), once each.
  [[nodiscard]] std::vector<ResidencyId> between(std::int32_t from, std::int32_t until) const {
    std::vector<ResidencyId> found;
    if (from >= until) return found;
    const std::int32_t last = std::min((until - 1) / kPage, static_cast<std::int32_t>(pages_.size()) - 1);
    for (std::int32_t page = from / kPage; page <= last; ++page)
      for (const ResidencyId id : pages_[static_cast<std::size_t>(page)]) {
        const Residency& r = schedule_.residencies[row(id)];
        if (r.acquire < until && end_of(r) > from && std::max(r.acquire, from) / kPage == page) found.push_back(id);
      }
    return found;
  }

 private:
  static constexpr std::int32_t kPage = 64;
  static std::int32_t end_of(const Residency& r) { return std::max(r.release, r.acquire + 1); }
  const Schedule& schedule_;
  std::vector<std::vector<ResidencyId>> pages_;
};

class SectionDrafter {
 public:
  SectionDrafter(const Graph& graph, const Program& program, double load)
      : graph_(graph),
        program_(program),
        schedule_(program.schedule),
        load_(load),
        touches_(program.schedule),
        clock_(compute_clock(program.schedule)),
        order_(program.schedule),
        stays_(program),
        routed_(schedule_.residencies.size(), nullptr),
        contingency_of_(schedule_.residencies.size()) {
    for (const RoutedResidency& routed : program.routed) routed_[row(routed.residency)] = &routed;
    for (const Contingency& c : program.contingencies) contingency_of_[row(c.residency)].push_back(&c);
  }

  std::vector<SectionDraft> run(const std::vector<char>& candidates) {
    std::vector<ResidencyId> all;
    for (std::size_t r = 0; r < candidates.size(); ++r)
      if (candidates[r] != 0) all.push_back(id_of<ResidencyId>(r));
    std::vector<std::vector<ResidencyId>> open = connected(all);
    std::vector<SectionDraft> drafts;
    while (!open.empty()) {
      const std::vector<ResidencyId> inside = std::move(open.back());
      open.pop_back();
      const std::set<ResidencyId> in_the_way = try_section(inside, drafts);
      if (in_the_way.empty()) continue;
      std::vector<ResidencyId> rest;
      for (const ResidencyId r : inside)
        if (!in_the_way.contains(r)) rest.push_back(r);
      for (std::vector<ResidencyId>& part : connected(rest)) open.push_back(std::move(part));
    }
    std::sort(drafts.begin(), drafts.end(),
              [](const SectionDraft& a, const SectionDraft& b) { return a.parts.first < b.parts.first; });
    return drafts;
  }

 private:
  /// Adds the section to the drafts and answers nothing, or answers the storages that are in the way.
  std::set<ResidencyId> try_section(const std::vector<ResidencyId>& inside, std::vector<SectionDraft>& drafts);
  [[nodiscard]] std::vector<std::vector<ResidencyId>> connected(const std::vector<ResidencyId>& inside) const;

  /// The first task of the section that cannot run in front; kNone: all can.
  [[nodiscard]] TaskId stuck(const SectionParts& parts) const;
  [[nodiscard]] bool is_stuck(const SectionParts& parts, const LaneClock& known, TaskId task,
                              const Schedule::Touch& touch) const;
  [[nodiscard]] bool is_out(const SectionParts& parts, const LaneClock& known, TaskId task, ResidencyId r) const;
  /// Kept storages whose bytes others have between the section's begin and their release; ascending.
  [[nodiscard]] std::vector<ResidencyId> too_early(const SectionParts& parts) const;
  [[nodiscard]] std::optional<Bytes> place(const SectionParts& parts, ResidencyId inside,
                                           const std::vector<ChunkBuffer>& placed) const;
  /// What others have in use between the section's begin and `until`, and what it keeps.
  [[nodiscard]] std::vector<ByteUse> in_use(const SectionParts& parts, std::int32_t until) const;
  [[nodiscard]] bool only_added_to(TaskId task, TaskId other, ResidencyId r) const;
  [[nodiscard]] bool adds(TaskId task, ResidencyId r) const;
  [[nodiscard]] bool touches(TaskId task, ResidencyId r, AccessKind kind) const;

  [[nodiscard]] const Residency& stay(ResidencyId r) const { return schedule_.residencies[row(r)]; }
  [[nodiscard]] ByteUse slot(ResidencyId r, std::int32_t from) const { return slot_use(program_, r, from); }
  [[nodiscard]] Bytes room_for(ResidencyId r) const {
    return buffer_bytes(*routed_[row(r)], stay(r).bytes, load_, kPlannedChunks);
  }
  [[nodiscard]] static bool is_inside(const SectionParts& parts, ResidencyId r) {
    return std::find(parts.inside.begin(), parts.inside.end(), r) != parts.inside.end();
  }
  [[nodiscard]] static bool is_kept(const SectionParts& parts, ResidencyId r) {
    return std::binary_search(parts.kept.begin(), parts.kept.end(), r);
  }
  [[nodiscard]] static bool is_member(const SectionParts& parts, TaskId task) {
    return std::binary_search(parts.tasks.begin(), parts.tasks.end(), task);
  }

  const Graph& graph_;
  const Program& program_;
  const Schedule& schedule_;
  double load_;
  schedule::TouchTable touches_;
  std::vector<std::int32_t> clock_;
  TaskOrder order_;
  StayTable stays_;
  std::vector<const RoutedResidency*> routed_;  // per residency
  std::vector<std::vector<const Contingency*>> contingency_of_;
  std::vector<ByteUse> taken_;  // by the sections drafted so far: buffers, and kept storages from their begin on
};

/// Storages that a common task connects, directly or through others; each part in the order of ids.
std::vector<std::vector<ResidencyId>> SectionDrafter::connected(const std::vector<ResidencyId>& inside) const {
  std::vector<std::size_t> root(inside.size());
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](std::size_t i) {
    while (root[i] != i) i = root[i] = root[root[i]];
    return i;
  };
  std::map<TaskId, std::size_t> owner;
  for (std::size_t i = 0; i < inside.size(); ++i)
    for (const schedule::TouchTable::Entry& touch : touches_.of(inside[i])) {
      const auto [at, fresh] = owner.emplace(touch.task, i);
      if (!fresh) root[find(i)] = find(at->second);
    }
  std::map<std::size_t, std::vector<ResidencyId>> parts;
  for (std::size_t i = 0; i < inside.size(); ++i) parts[find(i)].push_back(inside[i]);
  std::vector<std::vector<ResidencyId>> result;
  for (auto& [_, part] : parts) result.push_back(std::move(part));
  return result;
}

std::set<ResidencyId> SectionDrafter::try_section(const std::vector<ResidencyId>& inside,
                                                  std::vector<SectionDraft>& drafts) {
  std::vector<ChunkBuffer> unplaced;
  for (const ResidencyId r : inside) unplaced.push_back({.residency = r});
  SectionDraft draft{.parts = parts_of(schedule_, unplaced, clock_)};
  std::set<ResidencyId> in_the_way;
  // Without the storages that tie a task to earlier ones, it need not run in front.
  if (const TaskId task = stuck(draft.parts); task != kNone<TaskId>) {
    for (const Schedule::Touch& touch : schedule_.touches_of(task))
      if (is_inside(draft.parts, touch.residency) && stay(touch.residency).first_task < task)
        in_the_way.insert(touch.residency);
    if (in_the_way.empty()) in_the_way.insert(inside.begin(), inside.end());
    return in_the_way;
  }
  std::vector<ResidencyId> by_size = inside;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](ResidencyId a, ResidencyId b) { return room_for(a) > room_for(b); });
  for (const ResidencyId r : by_size) {
    if (const std::optional<Bytes> offset = place(draft.parts, r, draft.buffers))
      draft.buffers.push_back({.residency = r, .offset = *offset});
    else
      in_the_way.insert(r);
  }
  if (!in_the_way.empty()) return in_the_way;
  std::sort(draft.buffers.begin(), draft.buffers.end(),
            [](const ChunkBuffer& a, const ChunkBuffer& b) { return a.residency < b.residency; });
  draft.parts.inside.clear();
  for (const ChunkBuffer& b : draft.buffers) {
    draft.parts.inside.push_back(b.residency);
    taken_.push_back({.residency = b.residency,
                      .arena = id_of<ArenaId>(0),
                      .from = draft.parts.begin,
                      .until = stay(b.residency).release,
                      .begin = b.offset,
                      .end = b.offset + room_for(b.residency)});
  }
  for (const ResidencyId r : draft.parts.kept)
    if (draft.parts.begin < stay(r).acquire) taken_.push_back(slot(r, draft.parts.begin));
  drafts.push_back(std::move(draft));
  return {};
}

TaskId SectionDrafter::stuck(const SectionParts& parts) const {
  const LaneClock known = order_.behind(parts.follows, parts.first);
  const std::vector<ResidencyId> early = too_early(parts);
  for (const TaskId task : parts.tasks)
    for (const Schedule::Touch& touch : schedule_.touches_of(task)) {
      if (!is_kept(parts, touch.residency)) continue;
      if (std::binary_search(early.begin(), early.end(), touch.residency)) return task;
      if (is_stuck(parts, known, task, touch)) return task;
    }
  return kNone<TaskId>;
}

bool SectionDrafter::touches(TaskId task, ResidencyId r, AccessKind kind) const {
  const auto of = schedule_.touches_of(task);
  return std::find(of.begin(), of.end(), Schedule::Touch{r, kind}) != of.end();
}

/// Sums of one lane may be added up in another order: gradients, to which backward ops that write them add.
bool SectionDrafter::only_added_to(TaskId task, TaskId other, ResidencyId r) const {
  return graph_.template_of(stay(r).storage).role == StorageRole::gradient && order_.lane(task) == order_.lane(other) &&
         adds(task, r) && adds(other, r);
}

bool SectionDrafter::adds(TaskId task, ResidencyId r) const {
  const Task& t = schedule_.tasks[row(task)];
  if (t.kind != TaskKind::op || !touches(task, r, AccessKind::write)) return false;
  const OpPhase phase = graph_.op_templates[row(t.op_template)].phase;
  return phase == OpPhase::backward || phase == OpPhase::weight_gradient;
}

bool SectionDrafter::is_stuck(const SectionParts& parts, const LaneClock& known, TaskId task,
                              const Schedule::Touch& touch) const {
  const ResidencyId r = touch.residency;
  if (routed_[row(r)] != nullptr && routed_[row(r)]->site != schedule_.tasks[row(task)].site) return true;
  for (const schedule::TouchTable::Entry& other : touches_.of(r)) {
    const bool both_read = touch.kind == AccessKind::read && other.kind == AccessKind::read;
    if (other.task < parts.first) {
      const bool fills = stay(r).first_task == other.task;
      if ((!both_read || fills) && order_.position(other.task) >= known[order_.lane(other.task)]) return true;
    } else if (is_member(parts, other.task)) {
      // What is not rows is added up over the chunks, by one task.
      const bool written = other.kind == AccessKind::write &&
                           (touch.kind == AccessKind::read || (touch.kind == AccessKind::write && other.task != task));
      if (written && routed_[row(r)] == nullptr && !only_added_to(task, other.task, r)) return true;
    } else if (other.task < task && !only_added_to(task, other.task, r) &&
               (!both_read || stay(r).first_task == other.task)) {
      return true;
    }
  }
  return is_out(parts, known, task, r);
}

/// A contingency may have it out, or not be known to have brought it back.
bool SectionDrafter::is_out(const SectionParts& parts, const LaneClock& known, TaskId task, ResidencyId r) const {
  for (const Contingency* c : contingency_of_[row(r)]) {
    if (task <= c->trigger) continue;
    const bool back = c->needed_at < parts.first && order_.position(c->needed_at) < known[order_.lane(c->needed_at)];
    const bool brought =
        c->kind == Contingency::Kind::swap && c->prefetch_at < parts.first && is_member(parts, c->needed_at);
    if (!back && !brought) return true;
  }
  return false;
}

// What the plan has in use by the section's begin is apart from all others already: packers go by half-steps.
std::vector<ResidencyId> SectionDrafter::too_early(const SectionParts& parts) const {
  std::vector<ResidencyId> early, found;
  std::int32_t until = parts.begin;
  for (const ResidencyId r : parts.kept) {
    if (stay(r).acquire <= parts.begin) continue;
    early.push_back(r);
    until = std::max(until, slot(r, parts.begin).last());
  }
  if (early.empty()) return found;
  const std::vector<ByteUse> others = in_use(parts, until);
  for (const ResidencyId r : early) {
    const ByteUse use = slot(r, parts.begin);
    // Of other arenas it is not known here who has what when.
    if (use.arena != id_of<ArenaId>(0) || std::any_of(others.begin(), others.end(), [&](const ByteUse& other) {
          return other.residency != r && other.meets(use);
        }))
      found.push_back(r);
  }
  return found;
}

std::vector<ByteUse> SectionDrafter::in_use(const SectionParts& parts, std::int32_t until) const {
  std::vector<ByteUse> uses;
  for (const ResidencyId r : stays_.between(parts.begin, until))
    if (!is_inside(parts, r) && !is_kept(parts, r)) uses.push_back(slot(r, stay(r).acquire));
  for (const ResidencyId r : parts.kept)
    if (program_.layout.arena_of[row(r)] == id_of<ArenaId>(0))
      uses.push_back(slot(r, std::min(parts.begin, stay(r).acquire)));
  for (const ByteUse& use : taken_)
    if (use.from < until && use.last() > parts.begin) uses.push_back(use);
  return uses;
}

/// Its own slot first, then the lowest gap.
std::optional<Bytes> SectionDrafter::place(const SectionParts& parts, ResidencyId inside,
                                           const std::vector<ChunkBuffer>& placed) const {
  const Arena& arena = program_.layout.arenas.front();
  ByteUse use{.residency = inside, .arena = id_of<ArenaId>(0), .from = parts.begin, .until = stay(inside).release};
  std::vector<ByteUse> busy;
  for (const ByteUse& other : in_use(parts, use.until))
    if (other.from < use.last() && other.last() > use.from) busy.push_back(other);
  for (const ChunkBuffer& b : placed)
    if (slot(b.residency, stay(b.residency).acquire).at_once(slot(inside, stay(inside).acquire)))
      busy.push_back({.residency = b.residency,
                      .arena = id_of<ArenaId>(0),
                      .from = use.from,
                      .until = use.until,
                      .begin = b.offset,
                      .end = b.offset + room_for(b.residency)});
  std::sort(busy.begin(), busy.end(), [](const ByteUse& a, const ByteUse& b) { return a.begin < b.begin; });
  const auto fits = [&](Bytes offset) {
    use.begin = offset;
    use.end = offset + room_for(inside);
    return use.end <= arena.height_bytes &&
           std::none_of(busy.begin(), busy.end(), [&](const ByteUse& other) { return use.meets(other); });
  };
  const Bytes own = program_.layout.offset_of[row(inside)];
  if (fits(own)) return own;
  Bytes lowest = 0;
  for (const ByteUse& other : busy) {
    if (other.begin >= lowest + room_for(inside)) break;
    lowest = std::max(lowest, round_up(other.end, arena.alignment_bytes));
  }
  if (fits(lowest)) return lowest;
  return std::nullopt;
}

}  // namespace

std::vector<char> inside_candidates(const Graph& graph, const Program& program) {
  const Schedule& schedule = program.schedule;
  const schedule::TouchTable touches(schedule);
  std::vector<char> candidates(schedule.residencies.size(), 0);
  for (const RoutedResidency& routed : program.routed) {
    const auto of = touches.of(routed.residency);
    if (of.empty() || program.layout.arena_of[row(routed.residency)] != id_of<ArenaId>(0)) continue;
    const bool forward = is_forward(graph, schedule.tasks[row(of.front().task)]);
    const bool read_first = std::any_of(of.begin(), of.end(), [&](const schedule::TouchTable::Entry& touch) {
      return touch.task == of.front().task && touch.kind == AccessKind::read;
    });
    if (read_first) continue;
    candidates[row(routed.residency)] =
        std::all_of(of.begin(), of.end(), [&](const schedule::TouchTable::Entry& touch) {
          const Task& task = schedule.tasks[row(touch.task)];
          return on_rows(graph, task) && task.site == routed.site && is_forward(graph, task) == forward;
        });
  }
  for (const Contingency& c : program.contingencies) candidates[row(c.residency)] = 0;
  for (const ContingencyStep& step : program.contingency_steps)
    for (const Schedule::Touch& touch : step.touches) candidates[row(touch.residency)] = 0;
  return candidates;
}

std::vector<SectionDraft> draft_sections(const Graph& graph, const Program& program,
                                         const std::vector<char>& candidates, double load) {
  return SectionDrafter(graph, program, load).run(candidates);
}

}  // namespace tidemark::ladder
