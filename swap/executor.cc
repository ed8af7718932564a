#include "swap/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>
#include <vector>

#include "core/spare_host.h"
#include "swap/arena_memory.h"
#include "swap/bound_program.h"
#include "swap/contingency.h"
#include "swap/device_error.h"
#include "swap/dispatch_chunks.h"
#include "swap/dynamic_region.h"
#include "swap/storage_versions.h"
#include "swap/stream_set.h"
#include "swap/transfer_engine.h"

namespace tidemark {

/// Members are destroyed last to first: streams wait for their work before windows and memory go.
struct Executor::State {
  State(const Program& p, Device& d, RunOptions o)
      : program(p),
        schedule(p.schedule),
        device(d),
        options(std::move(o)),
        memory(d),
        streams(d),
        transfers(streams, memory),
        versions(p.schedule.rank) {}
  ~State() {
    // Nothing may be in flight when memory goes. A failure changes nothing: everything is given back all the same.
    if (submitted) (void)device.synchronize_device();
  }

  [[nodiscard]] Status open();
  [[nodiscard]] Status take_memory();
  void make_contingencies();
  [[nodiscard]] Status issue();
  [[nodiscard]] Status issue_task(TaskId task);
  [[nodiscard]] Status begin_section(TaskId task);
  [[nodiscard]] Status run_chunk_in_front(std::int32_t section, std::int32_t chunk);
  [[nodiscard]] DeviceCode submit_task(TaskId task, StreamRole role);
  [[nodiscard]] DeviceCode submit_work(TaskId task, StreamRole role);
  [[nodiscard]] DeviceCode submit_copy(TaskId task);
  [[nodiscard]] DeviceCode launch(StreamRole role, std::span<const Schedule::Touch> accesses, Work work, bool restores,
                                  std::int32_t section = -1);
  [[nodiscard]] DeviceCode fill(StreamRole role, ResidencyId residency);
  [[nodiscard]] DeviceCode fill_first();
  [[nodiscard]] DeviceCode fill_late(TaskId task, StreamRole role);
  [[nodiscard]] DeviceCode check_copy_in(ResidencyId residency, std::int64_t id);
  [[nodiscard]] DeviceCode run_step(const ContingencyStep& step, std::int64_t id);
  [[nodiscard]] Result<RunReport> finish();
  [[nodiscard]] Result<RunReport> report();
  void add_warnings(RunReport& r) const;
  [[nodiscard]] const BoundMessage* message_of(TaskId task);
  [[nodiscard]] std::string name_of_task(TaskId task) const;
  [[nodiscard]] std::string who() const { return fmt::format("rank {}", schedule.rank); }
  /// `section`: whose chunk is touched; -1: all of it.
  [[nodiscard]] Touch touch_of(ResidencyId residency, AccessKind kind, std::int32_t section = -1) {
    DispatchChunks::Part part{.bytes = bytes[row(residency)]};
    if (section >= 0) part = chunks->part_of(section, residency, part.bytes);
    return {.address = addresses[row(residency)] + static_cast<Address>(part.offset),
            .bytes = part.bytes,
            .kind = kind,
            .seed = versions.seed(schedule.residencies[row(residency)].storage) ^ part.mark,
            .place = part.place};
  }

  const Program& program;
  const Schedule& schedule;
  Device& device;
  RunOptions options;
  BoundProgram bound;
  std::vector<Address> addresses;  ///< per residency, now
  std::vector<Bytes> bytes;        ///< per residency, scaled, now
  ArenaMemory memory;
  std::optional<DynamicRegion> region;
  ArenaId region_arena = kNone<ArenaId>;
  ArenaId spare_host = kNone<ArenaId>;
  std::int64_t spare_pieces = 0;
  StreamSet streams;
  TransferEngine transfers;
  StorageVersions versions;
  std::optional<ContingencyEngine> contingencies;
  std::optional<DispatchChunks> chunks;
  std::vector<Bytes> true_bytes;  ///< per residency, of storages in chunks
  std::vector<char> filled;       ///< per residency: late fills done this step
  std::vector<Touch> touches;
  std::size_t next_message = 0;
  std::int64_t verified_reads = 0;
  std::int64_t started_ns = 0;
  bool submitted = false;
  bool failed = false;
};

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
  make_contingencies();
  chunks.emplace(bound);
  return {};
}

Status Executor::State::take_memory() {
  const bool may_exceed = static_cast<bool>(options.load);
  std::vector<ArenaNeed> needs;
  for (std::size_t a = 0; a < program.layout.arenas.size(); ++a) {
    const Arena& arena = program.layout.arenas[a];
    ArenaNeed& need = needs.emplace_back();
    need.on_host = arena.space == MemorySpace::host;
    need.mapped = arena.kind == Arena::Kind::mapped;
    need.bytes = bound.arena_bytes[a];
    if (!need.on_host) need.bytes += device.traits().tail_pad_bytes;
    if (!may_exceed) continue;
    if (need.on_host) {
      need.bytes = bound.scaled(arena.height_bytes + arena.dynamic_bytes);
    } else if (arena.dynamic_bytes > 0 && region_arena == kNone<ArenaId>) {
      region_arena = id_of<ArenaId>(a);
      need.region_begin = need.bytes;
      need.region_end = bound.scaled(arena.height_bytes + arena.dynamic_bytes) + device.traits().tail_pad_bytes;
    }
  }
  if (may_exceed)
    spare_pieces = std::min(spare_host_demand(program, program.collective_limit_f), spare_host_room(program.layout));
  if (spare_pieces > 0) {
    spare_host = id_of<ArenaId>(needs.size());
    needs.push_back({.on_host = true, .bytes = spare_pieces * kHostPiece / options.scale});
  }
  if (Status s = memory.take(needs, who()); !s) return s;
  if (region_arena != kNone<ArenaId>)
    region.emplace(device, memory, program.layout.arenas[row(region_arena)], region_arena, options.scale);
  return {};
}

void Executor::State::make_contingencies() {
  contingencies.emplace(
      ContingencyEngine::Parts{.bound = bound,
                               .options = options,
                               .memory = memory,
                               .streams = streams,
                               .transfers = transfers,
                               .region = region ? &*region : nullptr,
                               .region_arena = region_arena,
                               .spare_host = spare_host,
                               .spare_host_pieces = spare_pieces,
                               .addresses = addresses,
                               .bytes = bytes},
      ContingencyEngine::Hooks{
          .check_copy_in = [this](ResidencyId residency, std::int64_t id) { return check_copy_in(residency, id); },
          .run_step = [this](const ContingencyStep& step, std::int64_t id) { return run_step(step, id); }});
}

// --- submitting
// -------------------------------------------------------------------------------------------------------

Status Executor::State::issue() {
  addresses.clear();
  bytes.clear();
  for (const Place& place : bound.places) {
    const bool on_host = program.layout.arenas[row(place.arena)].space == MemorySpace::host;
    addresses.push_back(on_host ? 0 : memory.at(place.arena, place.offset));
    bytes.push_back(place.bytes);
  }
  versions.restart();
  streams.begin_step(schedule.tasks.size());
  transfers.restart();
  contingencies->restart();
  chunks->restart();
  filled.assign(schedule.residencies.size(), 0);
  next_message = 0;
  verified_reads = 0;
  submitted = true;
  DeviceCode code = fill_first();
  // What the step starts with is there before its time begins.
  if (code == DeviceCode::ok && !device.traits().simulated) code = device.synchronize_device();
  if (code != DeviceCode::ok) return device_error(device, code, who() + ": filling what the step starts with");
  started_ns = device.now_ns();
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    if (Status s = begin_section(id_of<TaskId>(t)); !s) return s;
    if (Status s = issue_task(id_of<TaskId>(t)); !s) return s;
  }
  return {};
}

/// If the section that starts here is to run in chunks: all of them but the last, which the tasks at their own places
/// are.
Status Executor::State::begin_section(TaskId task) {
  const std::int32_t section = chunks->starting_at(task);
  if (section < 0) return {};
  const SectionParts& parts = chunks->parts(section);
  const Result<bool> in_chunks = contingencies->enter(section, parts);
  if (!in_chunks) return in_chunks.error();
  if (!in_chunks.value()) return {};
  true_bytes.resize(schedule.residencies.size());
  for (const auto* list : {&parts.inside, &parts.kept})
    for (const ResidencyId r : *list) true_bytes[row(r)] = contingencies->true_bytes(r);
  const StreamRole first = bound.streams.stream[row(parts.first)];
  const StreamRole last = bound.streams.stream[row(parts.tasks.back())];
  DeviceCode code = DeviceCode::ok;
  for (const Lane lane : parts.follows)
    if (code == DeviceCode::ok) code = streams.order(stream_of_lane(lane), first);
  if (code != DeviceCode::ok) return device_error(device, code, name_of_task(task));
  const std::int32_t count = chunks->chunks(section);
  for (std::int32_t chunk = 0; chunk + 1 < count; ++chunk)
    if (Status s = run_chunk_in_front(section, chunk); !s) return s;
  for (const TaskId member : parts.tasks)
    if (code == DeviceCode::ok) code = streams.order(last, bound.streams.stream[row(member)]);
  if (code != DeviceCode::ok) return device_error(device, code, name_of_task(task));
  chunks->begin(section, count - 1, true_bytes, versions);
  return {};
}

/// One task after the other, across lanes too.
Status Executor::State::run_chunk_in_front(std::int32_t section, std::int32_t chunk) {
  const SectionParts& parts = chunks->parts(section);
  chunks->begin(section, chunk, true_bytes, versions);
  TaskId before = chunk > 0 ? parts.tasks.back() : parts.first;
  for (const TaskId task : parts.tasks) {
    const StreamRole role = bound.streams.stream[row(task)];
    DeviceCode code = streams.order(bound.streams.stream[row(before)], role);
    before = task;
    if (code != DeviceCode::ok) return device_error(device, code, name_of_task(task));
    // What a contingency brings for this task is needed here already.
    if (Status s = contingencies->join_before(task); !s) return s;
    code = submit_task(task, role);
    if (code != DeviceCode::ok) return device_error(device, code, name_of_task(task));
  }
  return {};
}

Status Executor::State::issue_task(TaskId task) {
  const StreamRole role = bound.streams.stream[row(task)];
  if (Status s = contingencies->before_task(task); !s) return s;
  DeviceCode code = DeviceCode::ok;
  for (const TaskId wait : bound.streams.waits_of(task)) {
    code = streams.wait_task(role, wait);
    if (code != DeviceCode::ok) return device_error(device, code, name_of_task(task));
  }
  if (Status s = contingencies->join_before(task); !s) return s;
  code = submit_task(task, role);
  if (code == DeviceCode::ok && bound.streams.waiters[row(task)] > 0)
    code = streams.record_task(task, role, bound.streams.waiters[row(task)]);
  if (code != DeviceCode::ok) return device_error(device, code, name_of_task(task));
  return contingencies->after_task(task);
}

DeviceCode Executor::State::submit_task(TaskId task, StreamRole role) {
  const TaskKind kind = schedule.tasks[row(task)].kind;
  if (kind == TaskKind::swap_out || kind == TaskKind::swap_in) return submit_copy(task);
  if (const DeviceCode code = fill_late(task, role); code != DeviceCode::ok) return code;
  return submit_work(task, role);
}

DeviceCode Executor::State::submit_work(TaskId task, StreamRole role) {
  Work work{.id = static_cast<std::int64_t>(task),
            .estimate_ns = program.estimate_ns.empty() ? 0 : program.estimate_ns[row(task)]};
  if (role == StreamRole::receive) work.estimate_ns = 0;
  const std::int32_t section = chunks->running(task);
  if (section >= 0) work.estimate_ns = chunks->share_of(section, work.estimate_ns);
  if (const BoundMessage* message = message_of(task); message != nullptr && options.match_messages)
    work.message = {.peer_rank = message->peer_rank, .tag = message->tag, .is_send = message->is_send};
  return launch(role, schedule.touches_of(task), work, schedule.tasks[row(task)].kind == TaskKind::recompute, section);
}

/// Reads first: a task that changes a storage in place reads the version before.
DeviceCode Executor::State::launch(StreamRole role, std::span<const Schedule::Touch> accesses, Work work, bool restores,
                                   std::int32_t section) {
  touches.clear();
  const auto add = [&](ResidencyId residency, AccessKind kind) {
    const Touch touch = touch_of(residency, kind, section);
    if (section < 0 || touch.bytes > 0) touches.push_back(touch);
  };
  for (const Schedule::Touch& access : accesses)
    if (access.kind == AccessKind::read) add(access.residency, AccessKind::read);
  verified_reads += options.verify ? static_cast<std::int64_t>(touches.size()) : 0;
  for (const Schedule::Touch& access : accesses) {
    if (access.kind != AccessKind::write) continue;
    const StorageId storage = schedule.residencies[row(access.residency)].storage;
    restores ? versions.restored(storage) : versions.new_write(storage);
    add(access.residency, AccessKind::write);
  }
  work.touches = touches;
  work.verify = options.verify;
  return streams.submit(role, [&](StreamHandle stream) { return device.launch(stream, work); });
}

DeviceCode Executor::State::submit_copy(TaskId task) {
  const bool out = schedule.tasks[row(task)].kind == TaskKind::swap_out;
  ResidencyId on_device = kNone<ResidencyId>, on_host = kNone<ResidencyId>;
  for (const Schedule::Touch& touch : schedule.touches_of(task))
    (schedule.residencies[row(touch.residency)].space == MemorySpace::host ? on_host : on_device) = touch.residency;
  if (on_host == kNone<ResidencyId> || on_device == kNone<ResidencyId>) return DeviceCode::invalid;
  const auto id = static_cast<std::int64_t>(task);
  const auto pieces = contingencies->host_pieces(on_host, bound.places[row(on_host)].bytes);
  const Address address = addresses[row(on_device)];
  if (out) return transfers.copy_out(pieces, address, id, TransferEngine::Cause::planned);
  const DeviceCode code = transfers.copy_in(address, pieces, id, TransferEngine::Cause::planned);
  return code == DeviceCode::ok ? check_copy_in(on_device, id) : code;
}

DeviceCode Executor::State::check_copy_in(ResidencyId residency, std::int64_t id) {
  if (!options.verify) return DeviceCode::ok;
  ++verified_reads;
  const Touch touch = touch_of(residency, AccessKind::read);
  const Work work{.id = id, .touches = {&touch, 1}, .verify = true};
  return streams.submit(StreamRole::h2d, [&](StreamHandle stream) { return device.launch(stream, work); });
}

DeviceCode Executor::State::run_step(const ContingencyStep& step, std::int64_t id) {
  return launch(StreamRole::compute, step.touches, {.id = id, .estimate_ns = step.estimate_ns}, true);
}

/// What a storage holds that nobody wrote this step.
DeviceCode Executor::State::fill(StreamRole role, ResidencyId residency) {
  const Touch touch = touch_of(residency, AccessKind::write);
  const Work work{.touches = {&touch, 1}, .verify = options.verify};
  return streams.submit(role, [&](StreamHandle stream) { return device.launch(stream, work); });
}

DeviceCode Executor::State::fill_first() {
  for (const ResidencyId residency : bound.filled_first)
    if (const DeviceCode code = fill(StreamRole::compute, residency); code != DeviceCode::ok) return code;
  for (std::size_t s = 0; s < kStreamRoleCount; ++s)
    if (const DeviceCode code = streams.order(StreamRole::compute, static_cast<StreamRole>(s)); code != DeviceCode::ok)
      return code;
  return DeviceCode::ok;
}

DeviceCode Executor::State::fill_late(TaskId task, StreamRole role) {
  for (const Schedule::Touch& touch : schedule.touches_of(task)) {
    char& done = filled[row(touch.residency)];
    if (bound.filled_late[row(touch.residency)] == 0 || done != 0) continue;
    done = 1;
    // Somebody wrote it: what is here now was to be brought, and the read shows whether it was.
    if (!versions.unwritten(schedule.residencies[row(touch.residency)].storage)) continue;
    if (const DeviceCode code = fill(role, touch.residency); code != DeviceCode::ok) return code;
  }
  return DeviceCode::ok;
}

const BoundMessage* Executor::State::message_of(TaskId task) {
  if (next_message == bound.messages.size() || bound.messages[next_message].task != task) return nullptr;
  return &bound.messages[next_message++];
}

std::string Executor::State::name_of_task(TaskId task) const {
  const std::string name = options.names.task ? options.names.task(task) : std::string();
  return fmt::format("{}: task {}{}", who(), static_cast<std::int32_t>(task), name.empty() ? "" : " (" + name + ")");
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
              .pinned_bytes = memory.pinned_bytes(),
              .out = transfers.out(),
              .in = transfers.in(),
              .events_peak = streams.events_peak(),
              .records = streams.records(),
              .waits = streams.waits(),
              .waits_implied = bound.streams.implied,
              .waits_added = bound.streams.added,
              .verified_reads = verified_reads,
              .oversized = contingencies->oversized(),
              .contingencies = contingencies->records(),
              .sections = contingencies->sections()};
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
    r.first_mismatch =
        fmt::format("{}: {} bytes at {:#x} do not hold what was written there",
                    known ? name_of_task(static_cast<TaskId>(task)) : fmt::format("{}: work {}", who(), task),
                    first.bytes, first.address);
  }
  add_warnings(r);
  return r;
}

void Executor::State::add_warnings(RunReport& r) const {
  const auto warn = [&](RunWarning::Kind kind, std::string text) {
    r.warnings.push_back({.kind = kind, .text = std::move(text)});
  };
  const PinnedFacts facts = memory.pinned_facts();
  const std::string why = facts.explanation.empty() ? "" : ": " + facts.explanation;
  if (r.pinned_bytes > 0 && !facts.registered)
    warn(RunWarning::Kind::host_memory_pageable, "host memory is pageable, copies block and do not overlap" + why);
  if (r.pinned_bytes > 0 && !facts.numa_bound)
    warn(RunWarning::Kind::host_memory_not_local, "host memory is not on the device's NUMA node" + why);
  if (region && !region->promises_limit())
    warn(RunWarning::Kind::limit_not_promised,
         region->aliasing() ? "the device's granule is coarser than the plan's: the contingency limit is not promised"
                            : "no aliasing: oversized storages are served in one piece, the contingency limit is not "
                              "promised");
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
  state_->failed = !status.ok();
  return status;
}

Result<RunReport> Executor::finish() {
  Result<RunReport> report = state_->finish();
  state_->failed = state_->failed || !report.ok();
  return report;
}

}  // namespace tidemark
