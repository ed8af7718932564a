#include "swap/load_ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/dynamic_region.h"
#include "swap/device_error.h"

namespace tidemark::swap {
namespace {

/// The two sides of a copy.
struct CopySides {
  ResidencyId on_device = kNone<ResidencyId>, on_host = kNone<ResidencyId>;
};

CopySides sides_of(const Schedule& schedule, TaskId copy) {
  CopySides sides;
  for (const Schedule::Touch& touch : schedule.touches_of(copy))
    (schedule.residencies[row(touch.residency)].space == MemorySpace::device ? sides.on_device : sides.on_host) =
        touch.residency;
  return sides;
}

}  // namespace

LoadLadder::LoadLadder(const Parts& parts)
    : p_(parts), pieces_(parts.bound, parts.spare_host, parts.spare_host_pieces) {
  if (!is_active()) return;
  const Program& program = *p_.bound.program;
  planned_ = planned_loads(program);
  sections_ = row_sections(program);
  section_of_task_.assign(program.schedule.tasks.size(), -1);
  for (std::size_t s = 0; s < sections_.size(); ++s)
    for (const TaskId task : sections_[s].tasks) section_of_task_[row(task)] = static_cast<std::int32_t>(s);
  may_spill_.resize(program.routed.size());
  if (!sections_.empty()) may_spill_ = spills_of(p_.bound, sections_);
  keeps_slot_.assign(program.schedule.residencies.size(), 0);
  for (const RowSection& section : sections_) {
    if (section.room == kNone<ResidencyId>) continue;
    if (!has_older_room(section)) continue;
    keeps_slot_[row(section.room)] = 1;
    may_spill_[static_cast<std::size_t>(p_.bound.routed[row(section.room)])].reset();
  }
}

void LoadLadder::restart() {
  oversized_.clear();
  records_.clear();
  spilled_.clear();
  if (!is_active()) return;
  const Schedule& schedule = p_.bound.program->schedule;
  states_.assign(sections_.size(), {});
  loads_.assign(planned_.size(), std::nullopt);
  in_chunks_.assign(planned_.size(), 0);
  standing_.assign(schedule.residencies.size(), Standing::not_yet);
  skipped_copy_.assign(schedule.tasks.size(), 0);
  host_.clear();
  active_.clear();
  due_.clear();
  pieces_.restart();
  if (p_.region != nullptr) p_.region->restart();
}

// --- sections
// ---------------------------------------------------------------------------------------------------------

Result<bool> LoadLadder::place_all(const RowSection& section, const SiteLoad& load, std::vector<Placing>& placed) {
  for (const ResidencyId residency : section.rows) {
    if (standing_[row(residency)] != Standing::not_yet) continue;
    Placing placing;
    const Result<bool> found = find_place(residency, load, half_step(section.begin), placing);
    if (!found || !found.value()) return found;
    placed.push_back(std::move(placing));
  }
  return true;
}

bool LoadLadder::has_older_room(const RowSection& section) const {
  return p_.bound.program->schedule.residencies[row(section.room)].first_task < section.begin;
}

/// The half-step behind the section.
std::int32_t LoadLadder::end_of_room(const RowSection& section) const {
  return std::min(slot_of(section.room).release, half_step(section.end) + 1);
}

Bytes LoadLadder::room_of(const RowSection& section, const std::vector<Placing>& placed) const {
  if (section.room == kNone<ResidencyId>) return 0;
  const auto found = std::ranges::find(placed, section.room, &Placing::residency);
  if (found != placed.end() && !found->in_slot) return found->window.bytes;
  return p_.bound.program->schedule.residencies[row(section.room)].bytes;
}

/// The slot of a storage that the end touches, and what is free beside it until then.
Result<LoadLadder::Placing> LoadLadder::find_room(const RowSection& section, const SiteLoad& load) {
  Placing room{.residency = section.room};
  if (section.room == kNone<ResidencyId> || !is_served(section.room) || has_older_room(section)) return room;
  const Bytes most = room_bytes(*p_.bound.program, section, load, kFewestChunks);
  DynamicRegion::Slot slot = slot_of(section.room);
  slot.release = end_of_room(section);
  if (most <= slot.bytes) return room;
  const DynamicRegion::Taken taken = p_.region->take_most(slot, most, half_step(section.begin), room.window);
  if (taken == DynamicRegion::Taken::device_failed)
    return device_error(p_.streams.device(), p_.region->code(), who(section.site, load) + ": room for chunks");
  room.in_slot = taken != DynamicRegion::Taken::ok;
  return room;
}

Status LoadLadder::enter(std::int32_t index) {
  const RowSection& section = sections_[static_cast<std::size_t>(index)];
  const Program& program = *p_.bound.program;
  const Result<SiteLoad> known = load_of(section.site);
  if (!known) return known.error();
  const SiteLoad load = known.value();
  std::vector<Placing> placed;
  bool wanted = in_chunks_[row(section.site)] != 0;
  if (!wanted) {
    const Result<bool> all = place_all(section, load, placed);
    if (!all) return all.error();
    wanted = !all.value();
  }
  const std::int32_t from = half_step(section.begin);
  const auto undo = [&] {
    for (const Placing& placing : placed) {
      if (!placing.in_slot) p_.region->give_back(placing.window, from);
      if (placing.spilled_to) pieces_.give_back(*placing.spilled_to, from);
    }
    placed.clear();
  };
  Placing room{.residency = section.room};
  Bytes bytes = room_of(section, placed);
  if (wanted) {
    undo();
    const Result<Placing> found = find_room(section, load);
    if (!found) return found.error();
    room = found.value();
    if (!room.in_slot) bytes = room.window.bytes;
  }
  const std::int32_t fewest = least_chunks(program, section, load, bytes);
  std::int32_t chunks = wanted ? fewest : 1;
  if (p_.options.agree) {
    const Result<std::int32_t> agreed =
        p_.options.agree(program.schedule.rank, index, {.wanted = wanted, .chunks = fewest});
    if (!agreed)
      return Error{agreed.error().code,
                   fmt::format("{}: section {}: {}", who(section.site, load), index, agreed.error().message)};
    chunks = agreed.value();
  }
  if (wanted || chunks > 1)
    records_.push_back({.section = index, .site = section.site, .load = load, .chunks = chunks, .wanted = wanted});
  if (chunks <= 1 && !wanted) {
    for (const Placing& placing : placed) settle(placing, load);
    list_joining(index);
    return {};
  }
  if (chunks <= 1 || fewest == 0 || chunks < fewest || chunks > kMostChunks)
    return infeasible(fmt::format("{}: section {} does not fit and cannot run in chunks{}", who(section.site, load),
                                  index,
                                  !section.fault.empty() ? ": " + section.fault
                                  : fewest == 0          ? ": not one row fits the room of " + format_bytes(bytes)
                                                         : ": the group did not agree to it"));
  if (!wanted) {  // the group wants it; what was found for the room is kept
    const auto found = std::ranges::find(placed, section.room, &Placing::residency);
    if (found != placed.end() && !found->in_slot) {
      room = *found;
      placed.erase(found);
    }
    undo();
  }
  return enter_in_chunks(index, load, chunks, fewest, room);
}

Status LoadLadder::enter_in_chunks(std::int32_t index, const SiteLoad& load, std::int32_t chunks, std::int32_t fewest,
                                   const Placing& room) {
  const RowSection& section = sections_[static_cast<std::size_t>(index)];
  SectionState& state = states_[static_cast<std::size_t>(index)];
  in_chunks_[row(section.site)] = 1;
  state.chunks = chunks;
  state.fewest = fewest;
  const std::int32_t end = end_of_room(section);
  state.room = room.in_slot ? p_.addresses[row(section.room)] : room.window.address;
  if (!room.in_slot) {
    p_.region->give_back(room.window, end);
    oversized_.push_back({.residency = section.room,
                          .site = section.site,
                          .load = load_of_rows(section.room, load),
                          .planned_bytes = slot_of(section.room).bytes,
                          .actual_bytes = room.window.bytes,
                          .extra_bytes = room.window.extra_granules() * p_.region->granule()});
  }
  standing_[row(section.room)] = Standing::room;
  if (is_served(section.room) && keeps_slot_[row(section.room)] == 0) {  // nothing of the site is kept behind it
    DynamicRegion::Slot rest = slot_of(section.room);
    rest.acquire = end;
    p_.region->lend(rest, 0);
  }
  for (const ResidencyId residency : section.rows) stand_absent(residency);
  return {};
}

// --- tasks
// ------------------------------------------------------------------------------------------------------------

Status LoadLadder::before_task(TaskId task) {
  if (!is_active()) return {};
  const std::int32_t section = section_of_task_[row(task)];
  if (section >= 0) return sections_[static_cast<std::size_t>(section)].begin == task ? enter(section) : Status{};
  switch (p_.bound.program->schedule.tasks[row(task)].kind) {
    case TaskKind::swap_out:
      return size_copy_out(task);
    case TaskKind::swap_in:
      return place_copy_in(task);
    case TaskKind::op:
    case TaskKind::recompute:
      return place_outside_sections(task);
  }
  return {};
}

/// A planned copy out takes what its storage holds. Where there is nothing to copy, or no memory to copy it to, it is
/// left out.
Status LoadLadder::size_copy_out(TaskId task) {
  const CopySides sides = sides_of(p_.bound.program->schedule, task);
  if (sides.on_device == kNone<ResidencyId> || p_.bound.routed[row(sides.on_device)] < 0) return {};
  const SiteId site = site_of(sides.on_device);
  if (standing_[row(sides.on_device)] != Standing::absent && in_chunks_[row(site)] == 0) {
    const Bytes actual = actual_bytes(sides.on_device, told(site));
    std::optional<std::vector<HostPiece>> pieces = pieces_.place(sides.on_host, actual, half_step(task));
    if (pieces) {
      const Bytes planned = p_.bound.program->schedule.residencies[row(sides.on_host)].bytes;
      standing_[row(sides.on_host)] = actual > planned ? Standing::in_window : Standing::in_slot;
      host_[sides.on_host] = std::move(*pieces);
      return {};
    }
  }
  in_chunks_[row(site)] = 1;
  skipped_copy_[row(task)] = 1;
  standing_[row(sides.on_host)] = Standing::absent;
  pieces_.vacate(sides.on_host);
  return {};
}

Status LoadLadder::place_copy_in(TaskId task) {
  const CopySides sides = sides_of(p_.bound.program->schedule, task);
  if (sides.on_device == kNone<ResidencyId> || p_.bound.routed[row(sides.on_device)] < 0) return {};
  const SiteId site = site_of(sides.on_device);
  const Standing standing = standing_[row(sides.on_device)];
  if (standing == Standing::in_slot || standing == Standing::in_window) {  // of a section that runs whole
    if (standing_[row(sides.on_host)] != Standing::absent) return {};
    return infeasible(
        fmt::format("{}: no pinned memory for a storage that the layer reads again at once", who(site, told(site))));
  }
  if (in_chunks_[row(site)] != 0 || standing != Standing::not_yet) {
    stand_absent(sides.on_device);
    skipped_copy_[row(task)] = 1;
    return {};
  }
  const SiteLoad load = told(site);
  Placing placing;
  const Result<bool> found = find_place(sides.on_device, load, half_step(task), placing);
  if (!found) return found.error();
  if (found.value()) {
    settle(placing, load);
    return {};
  }
  in_chunks_[row(site)] = 1;
  skipped_copy_[row(task)] = 1;
  stand_absent(sides.on_device);
  return {};
}

/// Rows of a program that says nothing of sections: room is all there is.
Status LoadLadder::place_outside_sections(TaskId task) {
  if (!p_.options.load) return {};
  for (const Schedule::Touch& touch : p_.bound.program->schedule.touches_of(task)) {
    if (p_.bound.routed[row(touch.residency)] < 0) continue;
    if (standing_[row(touch.residency)] == Standing::absent)
      return infeasible(fmt::format("{}: a storage could not be kept, and the plan has no chunks for its layer",
                                    who(site_of(touch.residency), told(site_of(touch.residency)))));
    if (standing_[row(touch.residency)] != Standing::not_yet) continue;
    const Result<SiteLoad> load = load_of(site_of(touch.residency));
    if (!load) return load.error();
    Placing placing;
    const Result<bool> found = find_place(touch.residency, load.value(), half_step(task), placing);
    if (!found) return found.error();
    if (!found.value())
      return infeasible(fmt::format("{}: a storage of {} instead of {} does not fit, and the plan has no chunks for it",
                                    who(site_of(touch.residency), load.value()), format_bytes(placing.actual),
                                    format_bytes(slot_of(touch.residency).bytes)));
    settle(placing, load.value());
  }
  return {};
}

bool LoadLadder::touches_window_first(TaskId task) const {
  const Schedule& schedule = p_.bound.program->schedule;
  if (schedule.tasks[row(task)].lane == Lane::compute || p_.bound.clock[row(task)] == 0) return false;
  return std::ranges::any_of(schedule.touches_of(task), [&](const Schedule::Touch& touch) {
    return schedule.residencies[row(touch.residency)].first_task == task &&
           standing_[row(touch.residency)] == Standing::in_window;
  });
}

void LoadLadder::list_joining(std::int32_t index) {
  std::vector<JoiningStream>& joining = states_[static_cast<std::size_t>(index)].joining;
  for (const TaskId task : sections_[static_cast<std::size_t>(index)].tasks) {
    const StreamRole role = p_.bound.streams.stream[row(task)];
    if (touches_window_first(task) && std::ranges::find(joining, role, &JoiningStream::role) == joining.end())
      joining.push_back({.role = role});
  }
}

DeviceCode LoadLadder::mark_begin(std::int32_t index) {
  for (JoiningStream& joining : states_[static_cast<std::size_t>(index)].joining)
    if (const DeviceCode code = p_.streams.make_mark(StreamRole::compute, joining.behind); code != DeviceCode::ok)
      return code;
  return DeviceCode::ok;
}

/// Extra granules were taken in the order of the compute clock, those of a section where it begins: a first touch off
/// the compute lane is ordered behind it.
DeviceCode LoadLadder::join_window(TaskId task) {
  if (!touches_window_first(task)) return DeviceCode::ok;
  const StreamRole role = p_.bound.streams.stream[row(task)];
  const std::int32_t section = section_of_task_[row(task)];
  if (section < 0) return p_.streams.order(StreamRole::compute, role);
  for (JoiningStream& joining : states_[static_cast<std::size_t>(section)].joining)
    if (joining.role == role && joining.behind) return p_.streams.wait_mark(role, joining.behind);
  return DeviceCode::ok;  // the stream is behind it already
}

Status LoadLadder::join_before(TaskId task) {
  if (!is_active()) return {};
  for (auto [at, end] = due_.equal_range(task); at != end; ++at) {
    Spilled& spilled = active_[at->second];
    std::optional<StreamSet::Mark>* const mark = task == spilled.times.release_at  ? &spilled.copied_out
                                                 : task == spilled.times.needed_at ? &spilled.copied_in
                                                                                   : nullptr;
    if (mark == nullptr || !*mark) continue;
    if (Status s = check(p_.streams.wait_mark(StreamRole::compute, *mark), spilled.residency, "waiting for a copy"); !s)
      return s;
  }
  const std::int32_t section = section_of_task_[row(task)];
  DeviceCode code = DeviceCode::ok;
  if (section >= 0 && sections_[static_cast<std::size_t>(section)].begin == task) code = mark_begin(section);
  if (code == DeviceCode::ok) code = join_window(task);
  if (code == DeviceCode::ok) return {};
  return device_error(p_.streams.device(), code,
                      fmt::format("rank {}: task {}: ordering the first touch of an oversized storage",
                                  p_.bound.program->schedule.rank, static_cast<std::int32_t>(task)));
}

Status LoadLadder::after_task(TaskId task) {
  if (due_.empty()) return {};
  for (auto [at, end] = due_.equal_range(task); at != end; ++at) {
    Spilled& spilled = active_[at->second];
    Status s;
    if (task == spilled.times.trigger && in_chunks_[row(site_of(spilled.residency))] == 0) s = spill_out(spilled);
    if (task == spilled.times.return_at) s = bring_back(spilled, 2 * p_.bound.clock[row(task)] + 1);
    if (!s) return s;
  }
  return {};
}

bool LoadLadder::skips(TaskId task) const {
  if (!is_active()) return false;
  if (skipped_copy_[row(task)] != 0) return true;
  const std::int32_t section = section_of_task_[row(task)];
  return section >= 0 && states_[static_cast<std::size_t>(section)].chunks > 1;
}

std::optional<LoadLadder::Chunks> LoadLadder::chunks_at(TaskId end) const {
  if (!skips(end)) return std::nullopt;
  const std::int32_t index = section_of_task_[row(end)];
  if (index < 0 || sections_[static_cast<std::size_t>(index)].end != end) return std::nullopt;
  const RowSection& section = sections_[static_cast<std::size_t>(index)];
  const SectionState& state = states_[static_cast<std::size_t>(index)];
  return Chunks{.section = &section,
                .count = state.chunks,
                .fewest = state.fewest,
                .load = told(section.site),
                .room = state.room};
}

std::span<const HostPiece> LoadLadder::host_pieces(ResidencyId host, Bytes scaled_bytes) {
  if (!host_.empty()) {
    const auto found = host_.find(host);
    if (found != host_.end()) return found->second;
  }
  const Place& place = p_.bound.places[row(host)];
  planned_piece_ = {.arena = place.arena, .offset = place.offset, .bytes = scaled_bytes};
  return {&planned_piece_, 1};
}

}  // namespace tidemark::swap
