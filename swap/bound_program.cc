#include "swap/bound_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/dynamic_region.h"

namespace tidemark::swap {
namespace {

/// Verifying launches work on words of 8 bytes.
constexpr Bytes kWord = 8;

Status check_scale(const Program& program, std::int64_t scale) {
  if (scale < 1 || (scale & (scale - 1)) != 0)
    return bad_input(fmt::format("scale 1/{}: the divisor must be a power of two", scale));
  if (scale == 1) return {};
  for (const Arena& arena : program.layout.arenas) {
    if (arena.alignment_bytes % (kWord * scale) == 0) continue;
    const Bytes most = std::max<Bytes>(1, (arena.alignment_bytes & -arena.alignment_bytes) / kWord);
    return bad_input(
        fmt::format("scale 1/{}: the plan's addresses are multiples of {} bytes, so at most 1/{} keeps them at "
                    "words",
                    scale, arena.alignment_bytes, most));
  }
  return {};
}

void place_residencies(BoundProgram& bound) {
  const Program& program = *bound.program;
  bound.touched_bytes.assign(program.layout.arenas.size(), 0);
  for (std::size_t i = 0; i < program.schedule.residencies.size(); ++i) {
    const Residency& r = program.schedule.residencies[i];
    const Place place{.arena = program.layout.arena_of[i],
                      .offset = program.layout.offset_of[i] / bound.scale,
                      .bytes = bound.scaled(r.bytes)};
    if (r.first_task != kNone<TaskId> && r.bytes > 0) {
      Bytes& touched = bound.touched_bytes[row(place.arena)];
      touched = std::max(touched, place.offset + place.bytes);
    }
    bound.places.push_back(place);
  }
  for (const Arena& arena : program.layout.arenas) bound.arena_bytes.push_back(bound.scaled(arena.height_bytes));
}

bool share_bytes(const Place& a, const Place& b) {
  return a.arena == b.arena && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

/// Nothing orders what one task does: it may change a residency in place, not write one over another that it touches.
/// No device can tell the two apart, both are ranges.
Status check_tasks(const BoundProgram& bound) {
  const Schedule& schedule = bound.program->schedule;
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    const auto touches = schedule.touches_of(id_of<TaskId>(t));
    const TaskKind kind = schedule.tasks[t].kind;
    if ((kind == TaskKind::swap_out || kind == TaskKind::swap_in) && touches.size() == 2) {
      const Bytes from = schedule.residencies[row(touches[0].residency)].bytes;
      const Bytes to = schedule.residencies[row(touches[1].residency)].bytes;
      if (from != to) return bad_input(fmt::format("task {} copies {} bytes over {}", t, from, to));
    }
    for (const Schedule::Touch& write : touches) {
      if (write.kind != AccessKind::write) continue;
      for (const Schedule::Touch& other : touches)
        if (other.residency != write.residency &&
            share_bytes(bound.places[row(write.residency)], bound.places[row(other.residency)]))
          return bad_input(fmt::format("task {} writes residency {} over residency {}, which it touches, too", t,
                                       row(write.residency), row(other.residency)));
    }
  }
  return {};
}

/// What holds content before the step and behind it; in host memory with the device bytes that it comes and goes by.
void find_full(BoundProgram& bound) {
  const Schedule& schedule = bound.program->schedule;
  std::vector<ResidencyId> other_side(schedule.residencies.size(), kNone<ResidencyId>);
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    const TaskKind kind = schedule.tasks[t].kind;
    const auto touches = schedule.touches_of(id_of<TaskId>(t));
    if ((kind != TaskKind::swap_out && kind != TaskKind::swap_in) || touches.size() != 2) continue;
    const bool out = kind == TaskKind::swap_out;
    other_side[row(touches[out ? 1 : 0].residency)] = touches[out ? 0 : 1].residency;
  }
  for (std::size_t i = 0; i < schedule.residencies.size(); ++i) {
    const Residency& r = schedule.residencies[i];
    if (r.bytes == 0) continue;
    const auto id = id_of<ResidencyId>(i);
    const FullResidency full{.residency = id, .on_device = r.space == MemorySpace::device ? id : other_side[i]};
    if (full.on_device == kNone<ResidencyId>) continue;  // rests in host memory and is never used
    if (r.full_before) bound.full_before.push_back(full);
    if (r.full_behind) bound.full_behind.push_back(full);
  }
}

void list_messages(BoundProgram& bound) {
  for (const SendEvent& send : bound.program->sends)
    bound.messages.push_back({.task = send.task, .peer_rank = send.peer_rank, .tag = send.tag, .is_send = true});
  for (const ReceiveEvent& receive : bound.program->receives)
    bound.messages.push_back({.task = receive.task, .peer_rank = receive.peer_rank, .tag = receive.tag});
  std::sort(bound.messages.begin(), bound.messages.end(),
            [](const BoundMessage& a, const BoundMessage& b) { return a.task < b.task; });
}

}  // namespace

Result<BoundProgram> bind_program(const Program& program, std::int64_t scale) {
  if (Status s = check_scale(program, scale); !s) return s.error();
  BoundProgram bound{.program = &program, .scale = scale};
  place_residencies(bound);
  if (Status s = check_tasks(bound); !s) return s.error();
  find_full(bound);
  bound.versions = versions_of(program.schedule);
  bound.streams = bind_streams(program.schedule);
  list_messages(bound);
  bound.routed.assign(program.schedule.residencies.size(), -1);
  for (std::size_t i = 0; i < program.routed.size(); ++i)
    bound.routed[row(program.routed[i].residency)] = static_cast<std::int32_t>(i);
  bound.clock = compute_clock(program.schedule);
  return bound;
}

}  // namespace tidemark::swap
