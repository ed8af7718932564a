// Where a routed storage stands in this step, and storages that leave device memory in between.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/dynamic_region.h"
#include "swap/device_error.h"
#include "swap/load_ladder.h"

namespace tidemark::swap {
// --- loads and sizes
// --------------------------------------------------------------------------------------------------

Result<SiteLoad> LoadLadder::load_of(SiteId site) {
  std::optional<SiteLoad>& load = loads_[row(site)];
  if (load) return *load;
  if (!p_.options.load) return *(load = planned_[row(site)]);
  const SiteLoad given = p_.options.load(site);
  const auto possible = [](double rows) { return rows >= 0 && rows <= kMostSiteLoad; };
  if (!possible(given.received) || !possible(given.sent))
    return bad_input(fmt::format("{}: loads are from 0 to {:.0f}", who(site, given), kMostSiteLoad));
  return *(load = given);
}

double LoadLadder::load_of_rows(ResidencyId routed, const SiteLoad& load) const {
  return load.of(p_.bound.program->routed[static_cast<std::size_t>(p_.bound.routed[row(routed)])].rows_of);
}

Bytes LoadLadder::actual_bytes(ResidencyId residency, const SiteLoad& load) const {
  if (!p_.options.load) return p_.bound.program->schedule.residencies[row(residency)].bytes;
  return routed_bytes(p_.bound.program->routed[static_cast<std::size_t>(p_.bound.routed[row(residency)])], load);
}

SiteId LoadLadder::site_of(ResidencyId routed) const {
  return p_.bound.program->routed[static_cast<std::size_t>(p_.bound.routed[row(routed)])].site;
}

std::string LoadLadder::who(SiteId site, const SiteLoad& load) const {
  const std::string name =
      p_.options.names.site ? p_.options.names.site(site) : fmt::format("site {}", static_cast<std::int32_t>(site));
  return fmt::format("rank {}: {} at expert load {:.4g}{}", p_.bound.program->schedule.rank, name, load.received,
                     load.sent == 1 ? "" : fmt::format(", sending {:.4g} times the mean", load.sent));
}

DynamicRegion::Slot LoadLadder::slot_of(ResidencyId residency) const {
  const Residency& r = p_.bound.program->schedule.residencies[row(residency)];
  return {.offset = p_.bound.program->layout.offset_of[row(residency)],
          .bytes = r.bytes,
          .acquire = r.acquire,
          .release = r.release};
}

bool LoadLadder::is_served(ResidencyId residency) const {
  return p_.region != nullptr && p_.bound.program->layout.arena_of[row(residency)] == p_.region_arena;
}

std::int32_t LoadLadder::half_step(TaskId task) const {
  const std::int32_t clock = p_.bound.clock[row(task)];
  return p_.bound.program->schedule.tasks[row(task)].lane == Lane::compute ? 2 * clock : std::max(0, 2 * clock - 1);
}

// --- places
// -----------------------------------------------------------------------------------------------------------

/// False: there is no room, and nothing has changed.
Result<bool> LoadLadder::find_place(ResidencyId residency, const SiteLoad& load, std::int32_t from, Placing& placing) {
  placing = {.residency = residency, .actual = actual_bytes(residency, load)};
  const DynamicRegion::Slot slot = slot_of(residency);
  placing.in_slot = placing.actual <= slot.bytes;
  if (placing.in_slot) return true;
  if (!is_served(residency)) return false;
  const Result<bool> whole = find_place_until(slot, from, placing);
  if (!whole || whole.value()) return whole;
  const std::optional<Spill>& spill = may_spill_[static_cast<std::size_t>(p_.bound.routed[row(residency)])];
  if (!spill) return false;
  DynamicRegion::Slot first = slot;
  first.release = 2 * p_.bound.clock[row(spill->release_at)];
  const Result<bool> part = find_place_until(first, from, placing);
  if (!part || !part.value()) return part;
  placing.spilled_to = pieces_.take(placing.actual, from, 2 * p_.bound.clock[row(spill->needed_at)]);
  if (placing.spilled_to) return true;
  p_.region->give_back(placing.window, from);
  return false;
}

Result<bool> LoadLadder::find_place_until(DynamicRegion::Slot slot, std::int32_t from, Placing& placing) {
  const DynamicRegion::Taken taken = p_.region->take(slot, placing.actual, from, placing.window);
  if (taken == DynamicRegion::Taken::device_failed)
    return device_error(p_.streams.device(), p_.region->code(),
                        fmt::format("rank {}: memory for an oversized storage", p_.bound.program->schedule.rank));
  return taken == DynamicRegion::Taken::ok;
}

/// The place is taken: the address that tasks see from now on, and what others may have.
void LoadLadder::settle(const Placing& placing, const SiteLoad& load) {
  const ResidencyId residency = placing.residency;
  const DynamicRegion::Slot slot = slot_of(residency);
  p_.bytes[row(residency)] = p_.bound.scaled(placing.actual);
  standing_[row(residency)] = placing.in_slot ? Standing::in_slot : Standing::in_window;
  if (placing.in_slot) {
    lend(residency, placing.actual);
    return;
  }
  p_.addresses[row(residency)] = placing.window.address;
  if (!placing.spilled_to) {
    p_.region->give_back(placing.window, slot.release);
  } else {
    const Spill& spill = *may_spill_[static_cast<std::size_t>(p_.bound.routed[row(residency)])];
    const std::int32_t release = 2 * p_.bound.clock[row(spill.release_at)];
    p_.region->give_back(placing.window, release);
    p_.region->lend({.offset = slot.offset,
                     .bytes = slot.bytes,
                     .acquire = release,
                     .release = 2 * p_.bound.clock[row(spill.return_at)] + 1},
                    0);
    for (const TaskId at : {spill.trigger, spill.release_at, spill.return_at, spill.needed_at})
      due_.emplace(at, active_.size());
    pieces_.give_back(*placing.spilled_to, 2 * p_.bound.clock[row(spill.needed_at)]);
    active_.push_back({.residency = residency, .times = spill, .pieces = placing.spilled_to->pieces});
    spilled_.push_back({.residency = residency,
                        .site = site_of(residency),
                        .load = load_of_rows(residency, load),
                        .bytes = placing.actual});
  }
  oversized_.push_back({.residency = residency,
                        .site = site_of(residency),
                        .load = load_of_rows(residency, load),
                        .planned_bytes = slot.bytes,
                        .actual_bytes = placing.actual,
                        .extra_bytes = placing.window.extra_granules() * p_.region->granule()});
}

Status LoadLadder::check(DeviceCode code, ResidencyId residency, const char* what) {
  if (code == DeviceCode::ok) return {};
  return device_error(
      p_.streams.device(), code,
      fmt::format("{}: spilling a storage: {}", who(site_of(residency), told(site_of(residency))), what));
}

Status LoadLadder::spill_out(Spilled& spilled) {
  const std::int64_t id = static_cast<std::int64_t>(spilled.times.trigger);
  DeviceCode code = p_.streams.order(StreamRole::compute, StreamRole::d2h);
  if (code == DeviceCode::ok)
    code = p_.transfers.copy_out(p_.host.ranges_of(spilled.pieces), p_.addresses[row(spilled.residency)], id,
                                 TransferEngine::Cause::step);
  if (code == DeviceCode::ok) code = p_.streams.make_mark(StreamRole::d2h, spilled.copied_out);
  return check(code, spilled.residency, "copying out");
}

/// Into its slot and what is beside it, from half-step `from` on; where there is no room it is lost, and its site goes
/// on in chunks.
Status LoadLadder::bring_back(Spilled& spilled, std::int32_t from) {
  const ResidencyId residency = spilled.residency;
  const SiteId site = site_of(residency);
  DynamicRegion::Slot slot = slot_of(residency);
  Placing placing{.residency = residency, .actual = actual_bytes(residency, told(site))};
  Result<bool> found = false;
  if (in_chunks_[row(site)] == 0) {
    found = find_place_until(slot, from, placing);
    if (!found) return found.error();
  }
  if (!found.value()) {
    in_chunks_[row(site)] = 1;
    standing_[row(residency)] = Standing::absent;
    slot.acquire = 2 * p_.bound.clock[row(spilled.times.return_at)] + 1;
    p_.region->lend(slot, 0);
    return {};
  }
  p_.addresses[row(residency)] = placing.window.address;
  p_.region->give_back(placing.window, slot.release);
  const std::int64_t id = static_cast<std::int64_t>(spilled.times.needed_at);
  DeviceCode code = p_.streams.order(StreamRole::compute, StreamRole::h2d);
  if (code == DeviceCode::ok)
    code = p_.transfers.copy_in(p_.addresses[row(residency)], p_.host.ranges_of(spilled.pieces), id,
                                TransferEngine::Cause::step);
  if (code == DeviceCode::ok) code = p_.check_copy_in(residency, id);
  if (code == DeviceCode::ok) code = p_.streams.make_mark(StreamRole::h2d, spilled.copied_in);
  return check(code, residency, "copying in");
}

/// Nothing stands there this step, and others may have the slot.
void LoadLadder::stand_absent(ResidencyId residency) {
  if (standing_[row(residency)] != Standing::not_yet) return;
  standing_[row(residency)] = Standing::absent;
  lend(residency, 0);
}

/// What the residency does not need of its slot.
void LoadLadder::lend(ResidencyId residency, Bytes actual) {
  if (is_served(residency) && keeps_slot_[row(residency)] == 0) p_.region->lend(slot_of(residency), actual);
}

}  // namespace tidemark::swap
