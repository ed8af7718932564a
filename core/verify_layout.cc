// Addresses hold under every interleaving the task order allows: of two residencies that share a byte, every touch of
// one has completed before any touch of the other starts.
//
// The sweep goes through residencies in the issue order of their first task and keeps, as intervals of each arena, who
// was there last. It is enough to compare a newcomer with the last occupant of each byte: "wholly before" is
// transitive, and a residency wholly before another has the earlier first task because waits name earlier tasks.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory_resource>
#include <vector>

#include "core/verify_parts.h"

namespace tidemark {
namespace verify {
namespace {

// What a residency's touches leave behind and what they find.
struct Stay {
  LaneClock done{};   // per lane: 1 + position of its last touch
  LaneClock known{};  // per lane: completed at the start of every touch (the least over touches)
  bool touched = false;
};

class OverlapCheck {
 public:
  OverlapCheck(const Graph* graph, const Schedule& schedule, const Layout& layout, const TaskOrder& order)
      : graph_(graph), schedule_(schedule), layout_(layout), order_(order), stays_(schedule.residencies.size()) {
    for (std::size_t a = 0; a < layout.arenas.size(); ++a) occupants_.emplace_back(&pool_);
  }

  Found run() {
    measure();
    for (const ResidencyId residency : by_first_task()) {
      if (Found found = enter(residency)) return found;
    }
    return {};
  }

 private:
  // From its key to `end`, `by` was the last to use these bytes.
  struct Occupant {
    Bytes end = 0;
    ResidencyId by = kNone<ResidencyId>;
  };
  using Occupants = std::pmr::map<Bytes, Occupant>;

  void measure() {
    for (std::size_t t = 0; t < schedule_.tasks.size(); ++t) {
      for (const Schedule::Touch& touch : schedule_.touches_of(id_of<TaskId>(t)))
        touched(touch.residency, id_of<TaskId>(t));
    }
    // A stay may reach beyond its touches: parameters are there before the first op that reads them.
    for (std::size_t r = 0; r < stays_.size(); ++r) {
      const Residency& residency = schedule_.residencies[r];
      if (residency.first_task == kNone<TaskId>) continue;
      touched(id_of<ResidencyId>(r), residency.first_task);
      touched(id_of<ResidencyId>(r), residency.last_task);
    }
  }

  void touched(ResidencyId residency, TaskId task) {
    Stay& stay = stays_[row(residency)];
    const LaneClock& start = order_.at_start(task);
    if (!stay.touched) stay.known = start;
    for (std::size_t l = 0; l < kLaneCount; ++l) stay.known[l] = std::min(stay.known[l], start[l]);
    std::int32_t& done = stay.done[order_.lane(task)];
    done = std::max(done, order_.position(task) + 1);
    stay.touched = true;
  }

  [[nodiscard]] std::vector<ResidencyId> by_first_task() const {
    std::vector<std::int32_t> first(schedule_.tasks.size() + 1, 0);
    for (const Residency& r : schedule_.residencies) {
      if (r.first_task != kNone<TaskId>) ++first[row(r.first_task) + 1];
    }
    for (std::size_t t = 1; t < first.size(); ++t) first[t] += first[t - 1];
    std::vector<ResidencyId> order(static_cast<std::size_t>(first.back()));
    for (std::size_t r = 0; r < schedule_.residencies.size(); ++r) {
      const TaskId task = schedule_.residencies[r].first_task;
      if (task != kNone<TaskId>) order[static_cast<std::size_t>(first[row(task)]++)] = id_of<ResidencyId>(r);
    }
    return order;
  }

  [[nodiscard]] bool wholly_before(ResidencyId a, ResidencyId b) const {
    const LaneClock& done = stays_[row(a)].done;
    const LaneClock& known = stays_[row(b)].known;
    for (std::size_t l = 0; l < kLaneCount; ++l) {
      if (done[l] > known[l]) return false;
    }
    return true;
  }

  // Compares a residency with the last occupants of its bytes, then takes their place.
  Found enter(ResidencyId id) {
    const Bytes bytes = schedule_.residencies[row(id)].bytes;
    if (bytes == 0) return {};
    const Bytes begin = layout_.offset_of[row(id)];
    const Bytes end = begin + bytes;
    Occupants& occupants = occupants_[row(layout_.arena_of[row(id)])];
    auto at = occupants.lower_bound(begin);
    if (at != occupants.begin() && std::prev(at)->second.end > begin) --at;
    while (at != occupants.end() && at->first < end) {
      const Occupant occupant = at->second;
      if (!wholly_before(occupant.by, id)) return describe(occupant.by, id);
      if (at->first < begin) {
        at->second.end = begin;
        ++at;
      } else {
        at = occupants.erase(at);
      }
      if (occupant.end > end) at = occupants.emplace_hint(at, end, occupant);
    }
    occupants.emplace_hint(at, begin, Occupant{.end = end, .by = id});
    return {};
  }

  [[nodiscard]] Violation describe(ResidencyId a, ResidencyId b) const {
    const auto stay = [&](ResidencyId id) {
      const Residency& r = schedule_.residencies[row(id)];
      return fmt::format("{} at offset {} ({} to {})", name_of(graph_, r.storage), layout_.offset_of[row(id)],
                         name_of(graph_, schedule_, r.first_task), name_of(graph_, schedule_, r.last_task));
    };
    return {.rule = Violation::Rule::overlap,
            .detail = fmt::format("residencies {} and {} share bytes and nothing orders them: {}; {}", row(a), row(b),
                                  stay(a), stay(b))};
  }

  const Graph* graph_;
  const Schedule& schedule_;
  const Layout& layout_;
  const TaskOrder& order_;
  std::vector<Stay> stays_;
  std::pmr::unsynchronized_pool_resource pool_;
  std::vector<Occupants> occupants_;  // per arena
};

Violation outside(std::string detail) {
  return {.rule = Violation::Rule::out_of_arena, .detail = std::move(detail)};
}

Found check_place(const Schedule& schedule, const Layout& layout, std::size_t r) {
  const auto arena_id = static_cast<std::int32_t>(layout.arena_of[r]);
  if (arena_id < 0 || row(layout.arena_of[r]) >= layout.arenas.size()) {
    return outside(fmt::format("residency {} lies in arena {}, which does not exist", r, arena_id));
  }
  const Arena& arena = layout.arenas[row(layout.arena_of[r])];
  const Residency& residency = schedule.residencies[r];
  const Bytes offset = layout.offset_of[r];
  if (residency.space != arena.space) {
    return outside(fmt::format("residency {} lies in arena {} of the other memory space", r, arena_id));
  }
  if (offset < 0 || offset % arena.alignment_bytes != 0) {
    return outside(
        fmt::format("residency {} lies at offset {}, not a multiple of {}", r, offset, arena.alignment_bytes));
  }
  if (offset > arena.height_bytes || residency.bytes > arena.height_bytes - offset) {
    return outside(fmt::format("residency {} has {} bytes at offset {} of arena {}, which is {} high", r,
                               residency.bytes, offset, arena_id, arena.height_bytes));
  }
  return {};
}

}  // namespace

Found check_arenas(const Schedule& schedule, const Layout& layout) {
  const std::size_t count = schedule.residencies.size();
  if (layout.arena_of.size() != count || layout.offset_of.size() != count) {
    return outside(fmt::format("the layout places {} residencies at {} offsets, the schedule has {}",
                               layout.arena_of.size(), layout.offset_of.size(), count));
  }
  for (std::size_t a = 0; a < layout.arenas.size(); ++a) {
    const Arena& arena = layout.arenas[a];
    if (arena.alignment_bytes <= 0 || arena.height_bytes < 0 || arena.dynamic_bytes < 0 ||
        arena.height_bytes > arena.capacity_bytes || arena.dynamic_bytes > arena.capacity_bytes - arena.height_bytes) {
      return outside(fmt::format("arena {} needs {} + {} bytes of its {}, aligned to {}", a, arena.height_bytes,
                                 arena.dynamic_bytes, arena.capacity_bytes, arena.alignment_bytes));
    }
  }
  for (std::size_t r = 0; r < count; ++r) {
    if (Found found = check_place(schedule, layout, r)) return found;
  }
  return {};
}

Found check_overlap(const Graph* graph, const Schedule& schedule, const Layout& layout, const TaskOrder& order) {
  return OverlapCheck(graph, schedule, layout, order).run();
}

}  // namespace verify

std::optional<Violation> verify_layout(const Schedule& schedule, const Layout& layout) {
  if (verify::Found found = verify::check_shape(schedule)) return found;
  if (verify::Found found = verify::check_arenas(schedule, layout)) return found;
  return verify::check_overlap(nullptr, schedule, layout, TaskOrder(schedule));
}

}  // namespace tidemark
