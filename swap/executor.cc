#include "swap/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "core/spare_host.h"
#include "swap/device_error.h"
#include "swap/executor_state.h"

namespace tidemark::swap {
namespace {

std::optional<RunWarning::Kind> warning_of(allocator::PinnedReport::Kind kind) {
  switch (kind) {
    case allocator::PinnedReport::Kind::pageable:
      return RunWarning::Kind::host_memory_pageable;
    case allocator::PinnedReport::Kind::numa_unbound:
      return RunWarning::Kind::host_memory_not_local;
    case allocator::PinnedReport::Kind::not_locked:
      return RunWarning::Kind::host_memory_not_locked;
    case allocator::PinnedReport::Kind::refused:  // an error of open()
    case allocator::PinnedReport::Kind::no_huge_pages:
      break;
  }
  return std::nullopt;
}

}  // namespace

// --- taking
// -----------------------------------------------------------------------------------------------------------

Status Executor::State::open() {
  Result<BoundProgram> made = bind_program(program, options.scale);
  if (!made) return Error{made.error().code, who() + ": " + made.error().message};
  bound = std::move(made).value();
  if (options.match_messages && !device.traits().messages)
    return bad_input(fmt::format("{}: device {} cannot match messages between ranks", who(), device.traits().name));
  if (Status s = take_memory(); !s) return s;
  if (const DeviceCode code = streams.open(); code != DeviceCode::ok)
    return device_error(device, code, who() + ": streams");
  make_ladder();
  return {};
}

Status Executor::State::take_memory() {
  const bool may_exceed = static_cast<bool>(options.load);
  std::vector<ArenaNeed> needs(program.layout.arenas.size());
  std::vector<Bytes> pinned(needs.size());
  for (std::size_t a = 0; a < needs.size(); ++a) {
    const Arena& arena = program.layout.arenas[a];
    if (arena.space == MemorySpace::host) {
      pinned[a] = bound.arena_bytes[a];
      continue;
    }
    ArenaNeed& need = needs[a];
    need.mapped = arena.kind == Arena::Kind::mapped;
    need.bytes = bound.arena_bytes[a] + device.traits().tail_pad_bytes;
    if (may_exceed && region_arena == kNone<ArenaId>) {
      region_arena = id_of<ArenaId>(a);
      need.region_begin = need.bytes;
      need.region_end = bound.scaled(arena.height_bytes + arena.dynamic_bytes) + device.traits().tail_pad_bytes;
    }
  }
  if (may_exceed && !program.routed.empty()) spare_pieces = spare_host_room(program.layout);
  if (spare_pieces > 0) {
    spare_host = id_of<ArenaId>(pinned.size());
    pinned.push_back(spare_pieces * kHostPiece / options.scale);
  }
  if (Status s = memory.take(needs, who()); !s) return s;
  const Bytes pinned_bytes = HostMemory::bytes_for(pinned);
  if (const DeviceCode code = host.open(pinned, pinned_bytes); code != DeviceCode::ok)
    return device_error(device, code,
                        fmt::format("{}: {} of pinned host memory refused", who(), format_bytes(pinned_bytes)));
  if (region_arena != kNone<ArenaId>) region.emplace(device, memory, program, region_arena, options.scale);
  return {};
}

void Executor::State::make_ladder() {
  ladder.emplace(LoadLadder::Parts{
      .bound = bound,
      .options = options,
      .streams = streams,
      .transfers = transfers,
      .host = host,
      .region = region ? &*region : nullptr,
      .region_arena = region_arena,
      .spare_host = spare_host,
      .spare_host_pieces = spare_pieces,
      .addresses = addresses,
      .bytes = bytes,
      .check_copy_in = [this](ResidencyId residency, std::int64_t id) { return check_copy_in(residency, id); }});
}

// --- finishing
// --------------------------------------------------------------------------------------------------------

Result<RunReport> Executor::State::finish() {
  if (const DeviceCode code = device.synchronize_device(); code != DeviceCode::ok)
    return device_error(device, code, who() + ": the step failed");
  submitted = false;
  return report();
}

Result<RunReport> Executor::State::report() {
  RunReport r{.rank = schedule.rank,
              .device = device.traits().name,
              .simulated = device.traits().simulated,
              .scale = options.scale,
              .tasks = static_cast<std::int64_t>(schedule.tasks.size()),
              .step_ns = device.now_ns() - started_ns,
              .mapped_bytes = memory.device_bytes(),
              .extra_peak_bytes = region ? bound.scaled(region->peak_bytes()) : 0,
              .pinned_bytes = host.statistics().held_bytes,
              .out = transfers.out(),
              .in = transfers.in(),
              .events_peak = streams.events_peak(),
              .records = streams.records(),
              .waits = streams.waits(),
              .waits_implied = bound.streams.implied,
              .verified_reads = verified_reads,
              .oversized = ladder->oversized(),
              .spills = ladder->spills(),
              .sections = ladder->sections()};
  for (std::size_t a = 0; a < bound.arena_bytes.size(); ++a) {
    const bool on_host = program.layout.arenas[a].space == MemorySpace::host;
    (on_host ? r.planned_host_bytes : r.planned_bytes) += bound.arena_bytes[a];
    (on_host ? r.host_peak_bytes : r.peak_bytes) += bound.touched_bytes[a];
  }
  r.peak_bytes += r.extra_peak_bytes;
  Mismatch first;
  r.mismatches = device.mismatches(first);
  if (r.mismatches > 0) {
    const auto task = first.work_id;
    const bool known = task >= 0 && task < r.tasks;
    r.first_mismatch = fmt::format("{}: {} bytes at {:#x} do not hold what was written there",
                                   known      ? name_of_task(static_cast<TaskId>(task))
                                   : task < 0 ? who() + ": what outlives the step"
                                              : fmt::format("{}: work {}", who(), task),
                                   first.bytes, first.address);
  }
  add_warnings(r);
  return r;
}

void Executor::State::add_warnings(RunReport& r) const {
  const auto warn = [&](RunWarning::Kind kind, std::string text) {
    r.warnings.push_back({.kind = kind, .text = std::move(text)});
  };
  for (const allocator::PinnedReport& report : host.reports())
    if (const std::optional<RunWarning::Kind> kind = warning_of(report.kind)) warn(*kind, report.text);
  if (region && !region->has_windows() && !program.routed.empty())
    warn(RunWarning::Kind::no_windows,
         "the device does not show granules of the plan's size at other addresses: rows that exceed their slots run in "
         "chunks");
  for (std::size_t a = 0; a < program.layout.arenas.size(); ++a)
    if (program.layout.arenas[a].kind == Arena::Kind::mapped && !memory.is_mapped(id_of<ArenaId>(a)) &&
        bound.arena_bytes[a] > 0)
      warn(RunWarning::Kind::no_mapping, "no virtual memory management: the arena is one plain allocation");
  if (!options.match_messages && !bound.messages.empty())
    warn(RunWarning::Kind::messages_not_matched, "one rank alone: receives complete at once");
  if (streams.host_waits() > 0)
    warn(RunWarning::Kind::host_waited_for_events,
         fmt::format("out of events or stream slots: the host waited {} times", streams.host_waits()));
}

// --- the class
// --------------------------------------------------------------------------------------------------------

Executor::Executor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::open(const Program& program, Device& device, RunOptions options) {
  auto state = std::make_unique<State>(program, device, std::move(options));
  if (Status s = state->open(); !s) return s.error();
  return std::unique_ptr<Executor>(new Executor(std::move(state)));
}

Status Executor::issue() {
  assert(!state_->failed && "after an error only destruction is meaningful");
  Status status = state_->issue();
  if (!status) state_->fail();
  return status;
}

Result<RunReport> Executor::finish() {
  Result<RunReport> report = state_->finish();
  if (!report) state_->fail();
  return report;
}

}  // namespace tidemark::swap
