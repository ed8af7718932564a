// A step's tasks in issue order: what each touches now, its waits, and the chunks of sections that run in chunks.

#include <algorithm>

#include "swap/device_error.h"
#include "swap/executor_state.h"

namespace tidemark::swap {

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
  ladder->restart();
  next_message = 0;
  verified_reads = 0;
  submitted = true;
  DeviceCode code = fill_first();
  // What the step starts with is there before its time begins.
  if (code == DeviceCode::ok && !device.traits().simulated) code = device.synchronize_device();
  if (code != DeviceCode::ok) return device_error(device, code, who() + ": filling what the step starts with");
  started_ns = device.now_ns();
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t)
    if (Status s = issue_task(id_of<TaskId>(t)); !s) return s;
  code = check_last();
  if (code != DeviceCode::ok) return device_error(device, code, who() + ": checking what outlives the step");
  return {};
}

Status Executor::State::issue_task(TaskId task) {
  const StreamRole role = bound.streams.stream[row(task)];
  if (Status s = ladder->before_task(task); !s) return s;
  DeviceCode code = DeviceCode::ok;
  for (const TaskId wait : bound.streams.waits_of(task)) {
    code = streams.wait_task(role, wait);
    if (code != DeviceCode::ok) return device_error(device, code, name_of_task(task));
  }
  if (Status s = ladder->join_before(task); !s) return s;
  if (const std::optional<LoadLadder::Chunks> chunks = ladder->chunks_at(task))
    code = run_chunks(task, *chunks);
  else if (!ladder->skips(task))
    code = submit_task(task, role);
  // What is skipped passes on what it has waited for.
  if (code == DeviceCode::ok && bound.streams.waiters[row(task)] > 0)
    code = streams.record_task(task, role, bound.streams.waiters[row(task)]);
  if (code != DeviceCode::ok) return device_error(device, code, name_of_task(task));
  return ladder->after_task(task);
}

/// One op behind the other across lanes, between the compute task issued before and the next one.
DeviceCode Executor::State::run_chunks(TaskId end, const LoadLadder::Chunks& chunks) {
  const StreamRole role = bound.streams.stream[row(end)];
  ChunkStand stand(bound, chunks);
  DeviceCode code = streams.order(StreamRole::compute, role);
  StreamRole before = role;
  const auto run = [&](TaskId task, std::int32_t of) {
    if (code != DeviceCode::ok) return;
    const StreamRole now = bound.streams.stream[row(task)];
    code = streams.order(before, now);
    before = now;
    if (code == DeviceCode::ok)
      code = launch(now, schedule.touches_of(task), bound.versions.of_task(schedule, task),
                    {.id = static_cast<std::int64_t>(task), .estimate_ns = work_ns(task, of)}, &stand);
  };
  for (const TaskId task : chunks.section->once) run(task, 1);
  for (std::int32_t chunk = 0; chunk < chunks.count; ++chunk) {
    stand.begin(chunk);
    for (const TaskId task : chunks.section->loop) run(task, chunks.count);
  }
  if (code == DeviceCode::ok) code = streams.order(before, role);
  return code == DeviceCode::ok ? streams.order(role, StreamRole::compute) : code;
}

std::int64_t Executor::State::work_ns(TaskId task, std::int32_t chunks) const {
  if (options.work_ns) return options.work_ns(task, chunks);
  return program.estimate_ns.empty() ? 0 : program.estimate_ns[row(task)] / chunks;
}

DeviceCode Executor::State::submit_task(TaskId task, StreamRole role) {
  const TaskKind kind = schedule.tasks[row(task)].kind;
  if (kind == TaskKind::swap_out || kind == TaskKind::swap_in) return submit_copy(task);
  return submit_work(task, role);
}

DeviceCode Executor::State::submit_work(TaskId task, StreamRole role) {
  Work work{.id = static_cast<std::int64_t>(task), .estimate_ns = work_ns(task, 1)};
  if (role == StreamRole::receive) work.estimate_ns = 0;
  if (const BoundMessage* message = message_of(task); message != nullptr && options.match_messages)
    work.message = {.peer_rank = message->peer_rank, .tag = message->tag, .is_send = message->is_send};
  return launch(role, schedule.touches_of(task), bound.versions.of_task(schedule, task), work);
}

/// Reads first: a task that changes a storage in place reads the version before.
DeviceCode Executor::State::launch(StreamRole role, std::span<const Schedule::Touch> accesses,
                                   std::span<const std::int32_t> wanted, Work work, const ChunkStand* chunk) {
  touches.clear();
  for (const AccessKind kind : {AccessKind::read, AccessKind::write}) {
    for (std::size_t k = 0; k < accesses.size(); ++k) {
      if (accesses[k].kind != kind) continue;
      const ResidencyId residency = accesses[k].residency;
      const StorageId storage = schedule.residencies[row(residency)].storage;
      if (!wanted.empty())
        versions.set(storage, wanted[k]);
      else if (kind == AccessKind::write)
        versions.restored(storage);
      const Touch touch = touch_of(residency, kind, chunk);
      if (touch.bytes > 0 || chunk == nullptr) touches.push_back(touch);
    }
    if (kind == AccessKind::read) verified_reads += options.verify ? static_cast<std::int64_t>(touches.size()) : 0;
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
  const auto pieces = ladder->host_pieces(on_host, bound.places[row(on_host)].bytes);
  const Address address = addresses[row(on_device)];
  if (out) return transfers.copy_out(host.ranges_of(pieces), address, id, TransferEngine::Cause::step);
  const DeviceCode code = transfers.copy_in(address, host.ranges_of(pieces), id, TransferEngine::Cause::step);
  return code == DeviceCode::ok ? check_copy_in(on_device, id) : code;
}

DeviceCode Executor::State::check_copy_in(ResidencyId residency, std::int64_t id) {
  if (!options.verify) return DeviceCode::ok;
  ++verified_reads;
  const Touch touch = touch_of(residency, AccessKind::read);
  const Work work{.id = id, .touches = {&touch, 1}, .verify = true};
  return streams.submit(StreamRole::h2d, [&](StreamHandle stream) { return device.launch(stream, work); });
}

DeviceCode Executor::State::touch_whole(ResidencyId residency, AccessKind kind) {
  const Touch touch = touch_of(residency, kind);
  const Work work{.touches = {&touch, 1}, .verify = options.verify};
  return streams.submit(StreamRole::compute, [&](StreamHandle stream) { return device.launch(stream, work); });
}

/// What the step starts with. Nothing else is filled: a read of what no task has written must be found. What rests in
/// host memory goes first, through device bytes that others may start with.
DeviceCode Executor::State::fill_first() {
  for (const bool rests : {true, false})
    for (const FullResidency& full : bound.full_before) {
      if ((full.residency != full.on_device) != rests) continue;
      DeviceCode code = touch_whole(full.on_device, AccessKind::write);
      if (code == DeviceCode::ok && rests) code = copy_rest(full, StreamRole::d2h);
      if (code != DeviceCode::ok) return code;
    }
  for (std::size_t s = 0; s < kStreamRoleCount; ++s)
    if (const DeviceCode code = streams.order(StreamRole::compute, static_cast<StreamRole>(s)); code != DeviceCode::ok)
      return code;
  return DeviceCode::ok;
}

/// Between work on the compute stream: what rests in host memory to its place, or back for a look at it.
DeviceCode Executor::State::copy_rest(const FullResidency& full, StreamRole role) {
  const auto pieces = ladder->host_pieces(full.residency, bound.places[row(full.residency)].bytes);
  const Address address = addresses[row(full.on_device)];
  DeviceCode code = streams.order(StreamRole::compute, role);
  if (code == DeviceCode::ok)
    code = role == StreamRole::d2h
               ? transfers.copy_out(host.ranges_of(pieces), address, kOutsideStep, TransferEngine::Cause::outside_step)
               : transfers.copy_in(address, host.ranges_of(pieces), kOutsideStep, TransferEngine::Cause::outside_step);
  return code == DeviceCode::ok ? streams.order(role, StreamRole::compute) : code;
}

/// What outlives the step holds its last version: no later task reads it, so that only this finds other bytes there.
/// What is in device memory goes first: looking at the rest takes bytes of it.
DeviceCode Executor::State::check_last() {
  if (!options.verify) return DeviceCode::ok;
  for (std::size_t s = 0; s < kStreamRoleCount; ++s)
    if (const DeviceCode code = streams.order(static_cast<StreamRole>(s), StreamRole::compute); code != DeviceCode::ok)
      return code;
  for (const bool rests : {false, true})
    for (const FullResidency& full : bound.full_behind) {
      if ((full.residency != full.on_device) != rests) continue;
      if (rests)
        if (const DeviceCode code = copy_rest(full, StreamRole::h2d); code != DeviceCode::ok) return code;
      const StorageId storage = schedule.residencies[row(full.residency)].storage;
      versions.set(storage, bound.versions.at_end[row(storage)]);
      if (const DeviceCode code = touch_whole(full.on_device, AccessKind::read); code != DeviceCode::ok) return code;
    }
  verified_reads += static_cast<std::int64_t>(bound.full_behind.size());
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

}  // namespace tidemark::swap
