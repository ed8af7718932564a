#include "swap/contingency.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/dynamic_region.h"
#include "core/spare_host.h"
#include "swap/device_error.h"

namespace tidemark::swap {
namespace {

/// No router sends more; above it sizes would leave what integers hold.
constexpr double kMostLoad = 1000;

}  // namespace

ContingencyEngine::ContingencyEngine(const Parts& parts, Hooks hooks) : p_(parts), hooks_(std::move(hooks)) {
  const Program& program = *p_.bound.program;
  for (std::size_t i = 0; i < program.routed.size(); ++i) {
    const Residency& r = program.schedule.residencies[row(program.routed[i].residency)];
    if (r.space == MemorySpace::device && r.first_task != kNone<TaskId>)
      entries_.push_back({.first = r.first_task, .routed = static_cast<std::int32_t>(i)});
  }
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.first < b.first; });
  in_use_from_ = in_use_from(program);
  contingencies_of_.resize(program.routed.size());
  for (std::size_t c = 0; c < program.contingencies.size(); ++c) {
    const std::int32_t routed = p_.bound.routed[row(program.contingencies[c].residency)];
    if (routed >= 0) contingencies_of_[static_cast<std::size_t>(routed)].push_back(static_cast<std::int32_t>(c));
  }
  restart();
}

void ContingencyEngine::restart() {
  next_entry_ = 0;
  loads_.clear();
  actual_.assign(p_.bound.program->routed.size(), 0);
  placed_.assign(p_.bound.program->routed.size(), 0);
  active_.clear();
  before_.clear();
  joins_.clear();
  after_.clear();
  host_.clear();
  oversized_.clear();
  records_.clear();
  sections_.clear();
  order_first_touch_ = false;
  declined_ = false;
  if (p_.region != nullptr) p_.region->restart();
  if (p_.spare_host != kNone<ArenaId>) spare_.emplace(0, p_.spare_host_pieces);
}

Result<double> ContingencyEngine::load_of(SiteId site) {
  if (row(site) >= loads_.size()) loads_.resize(row(site) + 1, -1);
  double& load = loads_[row(site)];
  if (load >= 0) return load;
  const double told = p_.options.load(site);
  if (!(told >= 0 && told <= kMostLoad))
    return bad_input(fmt::format("{}: loads are from 0 to {:.4g}", who(site, told), kMostLoad));
  load = told;
  return told;
}

std::string ContingencyEngine::who(SiteId site, double load) const {
  const std::string name =
      p_.options.names.site ? p_.options.names.site(site) : fmt::format("site {}", static_cast<std::int32_t>(site));
  return fmt::format("rank {}: {} at expert load {:.4g}", p_.bound.program->schedule.rank, name, load);
}

Status ContingencyEngine::before_task(TaskId task) {
  if (!p_.options.load) return {};
  for (; next_entry_ < entries_.size() && entries_[next_entry_].first <= task; ++next_entry_)
    if (Status s = place(entries_[next_entry_], task); !s) return s;
  if (p_.bound.program->schedule.tasks[row(task)].kind == TaskKind::swap_out) return enlarge_host(task);
  return {};
}

Status ContingencyEngine::place(const Entry& entry, TaskId task) {
  const Program& program = *p_.bound.program;
  const RoutedResidency& routed = program.routed[static_cast<std::size_t>(entry.routed)];
  const Residency& r = program.schedule.residencies[row(routed.residency)];
  if (placed_[static_cast<std::size_t>(entry.routed)] != 0) return {};
  placed_[static_cast<std::size_t>(entry.routed)] = 1;
  const Result<double> told = load_of(routed.site);
  if (!told) return told.error();
  const double load = told.value();
  const Bytes actual = routed_bytes(routed, load);
  if (actual <= r.bytes) return {};
  actual_[static_cast<std::size_t>(entry.routed)] = actual;
  OversizedStay stay;
  if (Status s =
          take(routed.residency, actual, in_use_from_[row(routed.residency)], half_step(task), load, routed.site, stay);
      !s)
    return s;
  const bool on_compute = program.schedule.tasks[row(task)].lane == Lane::compute;
  order_first_touch_ = order_first_touch_ || (!on_compute && p_.bound.clock[row(task)] > 0);
  oversized_.push_back({.residency = routed.residency,
                        .site = routed.site,
                        .load = load,
                        .planned_bytes = r.bytes,
                        .actual_bytes = actual,
                        .extra_bytes = stay.extra_bytes});
  follow(routed.residency, actual, load, routed.site, kNone<TaskId>, stay);
  return {};
}

std::int32_t ContingencyEngine::half_step(TaskId task) const {
  const std::int32_t clock = p_.bound.clock[row(task)];
  return p_.bound.program->schedule.tasks[row(task)].lane == Lane::compute ? 2 * clock : std::max(0, 2 * clock - 1);
}

/// Room for a stay, and the address that tasks see from now on.
Status ContingencyEngine::take(ResidencyId residency, Bytes actual, std::int32_t begin, std::int32_t acquire,
                               double load, SiteId site, OversizedStay& stay) {
  const Program& program = *p_.bound.program;
  const Residency& r = program.schedule.residencies[row(residency)];
  const Bytes offset = program.layout.offset_of[row(residency)];
  const bool served = p_.region != nullptr && program.layout.arena_of[row(residency)] == p_.region_arena;
  const DynamicRegion::Taken taken =
      served ? p_.region->take(offset, r.bytes, actual, acquire, holes_of(residency, begin), stay)
             : DynamicRegion::Taken::no_room;
  if (taken == DynamicRegion::Taken::device_failed)
    return device_error(p_.streams.device(), p_.region->code(), who(site, load) + ": memory for an oversized storage");
  if (taken == DynamicRegion::Taken::no_room) {
    const Bytes free = served ? p_.region->capacity_bytes() - p_.region->used_bytes() : 0;
    return infeasible(fmt::format(
        "{}: a storage of {} instead of {} does not fit, {} of the dynamic region are free; the plan holds {}",
        who(site, load), format_bytes(actual), format_bytes(r.bytes), format_bytes(free), promise()));
  }
  p_.addresses[row(residency)] = stay.address;
  p_.bytes[row(residency)] = p_.bound.scaled(actual);
  return {};
}

std::span<const GranuleRange> ContingencyEngine::holes_of(ResidencyId residency, std::int32_t begin) {
  if (p_.region_arena != id_of<ArenaId>(0) || !p_.region->promises_limit()) return {};
  if (!holes_) {
    holes_.emplace(*p_.bound.program);
    // What the checker found: false is a plan that promises too much, and the region says so when it is empty.
    (void)holes_->assign(p_.bound.program->contingency_limit_f);
  }
  const std::int32_t stay = holes_->find(p_.bound.routed[row(residency)], begin);
  return stay < 0 ? std::span<const GranuleRange>{} : holes_->of(static_cast<std::size_t>(stay));
}

std::optional<std::int32_t> ContingencyEngine::contingency_of(ResidencyId residency, TaskId after, Bytes actual) const {
  const Program& program = *p_.bound.program;
  const auto routed = static_cast<std::size_t>(p_.bound.routed[row(residency)]);
  for (const std::int32_t index : contingencies_of_[routed]) {
    const Contingency& c = program.contingencies[static_cast<std::size_t>(index)];
    if (c.trigger >= after && actual > c.trigger_bytes) return index;
  }
  return std::nullopt;
}

/// The stay ends at the next contingency of its residency, or with it.
void ContingencyEngine::follow(ResidencyId residency, Bytes actual, double load, SiteId site, TaskId after,
                               const OversizedStay& stay) {
  const Program& program = *p_.bound.program;
  const Residency& r = program.schedule.residencies[row(residency)];
  const std::optional<std::int32_t> index = contingency_of(residency, after, actual);
  if (!index) {
    p_.region->give_back(stay, r.release);
    return;
  }
  const Contingency& c = program.contingencies[static_cast<std::size_t>(*index)];
  const auto active = static_cast<std::int32_t>(active_.size());
  active_.push_back({.index = *index, .stay = stay, .record = records_.size()});
  records_.push_back({.contingency = *index,
                      .kind = c.kind,
                      .site = site,
                      .storage = r.storage,
                      .load = load,
                      .actual_bytes = actual,
                      .freed_bytes = stay.extra_bytes});
  after_.emplace(c.trigger, Due{.point = Point::trigger, .active = active});
}

Status ContingencyEngine::join_before(TaskId task) {
  if (order_first_touch_) {
    order_first_touch_ = false;
    if (const DeviceCode code = p_.streams.order(StreamRole::compute, p_.bound.streams.stream[row(task)]);
        code != DeviceCode::ok)
      return device_error(p_.streams.device(), code,
                          fmt::format("rank {}: task {}: ordering the first touch of an oversized storage",
                                      p_.bound.program->schedule.rank, static_cast<std::int32_t>(task)));
  }
  return perform_due(joins_, task);
}

Status ContingencyEngine::after_task(TaskId task) {
  return perform_due(after_, task);
}

Status ContingencyEngine::perform_due(std::multimap<TaskId, Due>& due, TaskId task) {
  // Not the earliest due: a section's tasks in front are joined ahead of their turn.
  for (auto next = due.lower_bound(task); next != due.end() && next->first == task; next = due.lower_bound(task)) {
    const Due now = next->second;
    due.erase(next);
    // By value: following a stay may add to active_.
    Active active = active_[static_cast<std::size_t>(now.active)];
    const Status status = perform(active, now.point, task);
    active_[static_cast<std::size_t>(now.active)] = active;
    if (!status) return status;
    const Contingency& c = p_.bound.program->contingencies[static_cast<std::size_t>(active.index)];
    if (now.point == Point::trigger) {
      joins_.emplace(c.release_at, Due{.point = Point::release, .active = now.active});
      after_.emplace(c.prefetch_at, Due{.point = Point::prefetch, .active = now.active});
      joins_.emplace(c.needed_at, Due{.point = Point::need, .active = now.active});
    }
  }
  return {};
}

Status ContingencyEngine::perform(Active& active, Point point, TaskId task) {
  switch (point) {
    case Point::trigger:
      return trigger(active);
    case Point::release:
      return release(active);
    case Point::prefetch:
      return prefetch(active);
    case Point::need:
      return need(active, task);
  }
  return {};
}

Status ContingencyEngine::check(DeviceCode code, const Active& active, const char* what) {
  if (code == DeviceCode::ok) return {};
  const ContingencyRecord& record = records_[active.record];
  return device_error(p_.streams.device(), code,
                      fmt::format("{}: contingency {}: {}", who(record.site, record.load), active.index, what));
}

std::vector<HostPiece> ContingencyEngine::contingency_pieces(const Contingency& c, Bytes actual) const {
  const auto& arenas = p_.bound.program->layout.arenas;
  const auto host =
      std::find_if(arenas.begin(), arenas.end(), [](const Arena& arena) { return arena.space == MemorySpace::host; });
  return {{.arena = id_of<ArenaId>(static_cast<std::size_t>(host - arenas.begin())),
           .offset = c.host_offset / p_.bound.scale,
           .bytes = p_.bound.scaled(actual)}};
}

Status ContingencyEngine::trigger(Active& active) {
  const Program& program = *p_.bound.program;
  const Contingency& c = program.contingencies[static_cast<std::size_t>(active.index)];
  const ContingencyRecord& record = records_[active.record];
  if (c.kind == Contingency::Kind::swap) {
    const auto routed = static_cast<std::size_t>(p_.bound.routed[row(c.residency)]);
    if (record.actual_bytes > routed_bytes(program.routed[routed], program.collective_limit_f))
      return infeasible(fmt::format("{}: host memory for contingency {} is planned up to load {:.4g}",
                                    who(record.site, record.load), active.index, program.collective_limit_f));
    const std::int64_t id = static_cast<std::int64_t>(program.schedule.tasks.size()) + active.index;
    DeviceCode code = p_.streams.order(p_.bound.streams.stream[row(c.trigger)], StreamRole::d2h);
    if (code == DeviceCode::ok)
      code = p_.transfers.copy_out(p_.host.ranges_of(contingency_pieces(c, record.actual_bytes)),
                                   p_.addresses[row(c.residency)], id, TransferEngine::Cause::contingency);
    if (code == DeviceCode::ok) code = p_.streams.make_mark(StreamRole::d2h, active.copied_out);
    if (Status s = check(code, active, "copying out"); !s) return s;
  }
  p_.region->give_back(active.stay, 2 * p_.bound.clock[row(c.release_at)]);
  return {};
}

Status ContingencyEngine::release(Active& active) {
  if (!active.copied_out) return {};
  return check(p_.streams.wait_mark(StreamRole::compute, active.copied_out), active, "waiting for the copy out");
}

Status ContingencyEngine::prefetch(Active& active) {
  const Program& program = *p_.bound.program;
  const Contingency& c = program.contingencies[static_cast<std::size_t>(active.index)];
  const ContingencyRecord record = records_[active.record];
  const std::int32_t begin = 2 * p_.bound.clock[row(c.prefetch_at)] + 1;
  if (Status s = take(c.residency, record.actual_bytes, begin, begin, record.load, record.site, active.stay); !s)
    return s;
  follow(c.residency, record.actual_bytes, record.load, record.site, c.needed_at, active.stay);
  if (c.kind != Contingency::Kind::swap) return {};
  const std::int64_t id = static_cast<std::int64_t>(program.schedule.tasks.size()) + active.index;
  DeviceCode code = p_.streams.order(StreamRole::compute, StreamRole::h2d);
  if (code == DeviceCode::ok)
    code = p_.transfers.copy_in(p_.addresses[row(c.residency)],
                                p_.host.ranges_of(contingency_pieces(c, record.actual_bytes)), id,
                                TransferEngine::Cause::contingency);
  if (code == DeviceCode::ok) code = hooks_.check_copy_in(c.residency, id);
  if (code == DeviceCode::ok) code = p_.streams.make_mark(StreamRole::h2d, active.copied_in);
  return check(code, active, "copying in");
}

Status ContingencyEngine::need(Active& active, TaskId task) {
  const Program& program = *p_.bound.program;
  const Contingency& c = program.contingencies[static_cast<std::size_t>(active.index)];
  const StreamRole stream = p_.bound.streams.stream[row(task)];
  if (c.kind == Contingency::Kind::swap) {
    if (!active.copied_in) return {};
    return check(p_.streams.wait_mark(stream, active.copied_in), active, "waiting for the copy in");
  }
  const std::int64_t id = static_cast<std::int64_t>(program.schedule.tasks.size()) + active.index;
  DeviceCode code = DeviceCode::ok;
  for (std::int32_t i = c.first_step; code == DeviceCode::ok && i < c.first_step + c.step_count; ++i)
    code = hooks_.run_step(program.contingency_steps[static_cast<std::size_t>(i)], id);
  if (code == DeviceCode::ok) code = p_.streams.order(StreamRole::compute, stream);
  return check(code, active, "recomputing");
}

/// A planned copy out of an oversized storage: its slot in host memory, then spare pieces.
Status ContingencyEngine::enlarge_host(TaskId task) {
  const Schedule& schedule = p_.bound.program->schedule;
  ResidencyId host = kNone<ResidencyId>;
  Bytes actual = 0;
  double load = 1;
  SiteId site = kNone<SiteId>;
  for (const Schedule::Touch& touch : schedule.touches_of(task)) {
    const std::int32_t routed = p_.bound.routed[row(touch.residency)];
    if (schedule.residencies[row(touch.residency)].space == MemorySpace::host) {
      host = touch.residency;
    } else if (routed >= 0) {
      actual = actual_[static_cast<std::size_t>(routed)];
      site = p_.bound.program->routed[static_cast<std::size_t>(routed)].site;
      load = loads_[row(site)];  // asked when the storage was placed
    }
  }
  if (host == kNone<ResidencyId>) return {};
  const Residency& r = schedule.residencies[row(host)];
  if (actual <= r.bytes) return {};
  const std::int32_t clock = p_.bound.clock[row(task)];
  std::vector<std::int64_t> taken;
  if (!spare_ || !spare_->take(spare_pieces(r.bytes, actual), std::max(0, 2 * clock - 1), taken))
    return infeasible(fmt::format("{}: needs {} more pinned host memory than the plan set aside; it holds {}",
                                  who(site, load), format_bytes(actual - r.bytes), promise()));
  spare_->give_back(taken, r.release);
  order_first_touch_ = order_first_touch_ || clock > 0;
  const Place& place = p_.bound.places[row(host)];
  std::vector<HostPiece>& pieces = host_[host];
  pieces = {{.arena = place.arena, .offset = place.offset, .bytes = place.bytes}};
  Bytes left = p_.bound.scaled(actual) - place.bytes;
  const Bytes piece = kHostPiece / p_.bound.scale;
  for (const std::int64_t n : taken) {
    const Bytes bytes = std::min(left, piece);
    HostPiece& last = pieces.back();
    if (last.arena == p_.spare_host && last.offset + last.bytes == n * piece)
      last.bytes += bytes;
    else
      pieces.push_back({.arena = p_.spare_host, .offset = n * piece, .bytes = bytes});
    left -= bytes;
  }
  return {};
}

std::span<const HostPiece> ContingencyEngine::host_pieces(ResidencyId host, Bytes scaled_bytes) {
  if (!host_.empty()) {
    const auto found = host_.find(host);
    if (found != host_.end()) return found->second;
  }
  const Place& place = p_.bound.places[row(host)];
  planned_piece_ = {.arena = place.arena, .offset = place.offset, .bytes = scaled_bytes};
  return {&planned_piece_, 1};
}

}  // namespace tidemark::swap
