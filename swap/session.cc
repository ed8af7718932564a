#include "swap/session.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "swap/device_error.h"
#include "swap/session_recorder.h"

namespace tidemark::swap {

using Kind = SessionEvent::Kind;
using Note = SessionEvent::Note;

namespace {

/// Of the host arenas, beside them.
constexpr Bytes kPoolShare = 16;
/// More than any device has.
constexpr Bytes kNoBound = Bytes{1} << 60;

std::vector<Bytes> host_arenas_of(const Layout& layout) {
  std::vector<Bytes> bytes;
  for (const Arena& arena : layout.arenas) bytes.push_back(arena.space == MemorySpace::host ? arena.height_bytes : 0);
  return bytes;
}

bool has_copies(const FollowedProgram& program, const FollowedLoop& loop) {
  return !loop.may_spill.empty() || std::ranges::any_of(program.actions, [](const FollowedAction& action) {
    return action.kind == FollowedAction::Kind::copy_out || action.kind == FollowedAction::Kind::copy_in;
  });
}

/// Of what may be spilled, all at once.
Bytes spilled_bytes(const FollowedProgram& program, const FollowedLoop& loop) {
  if (loop.may_spill.empty()) return 0;
  Bytes bytes = 0;
  for (const FollowedStorage& one : program.storages) bytes += one.bytes;
  return bytes;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const Program& program, Device& device, SessionOptions options,
                                               FrameworkCalls calls) {
  Result<FollowedProgram> bound = bind_followed(program, options.loop);
  if (!bound) return bound.error();
  auto parts = std::make_shared<FollowedParts>(device);
  parts->program = std::move(bound).value();
  if (options.log) parts->recorder = std::make_unique<SessionRecorder>(std::move(options.log));
  parts->calls = parts->recorder ? parts->recorder->logged(std::move(calls)) : std::move(calls);
  parts->reached = std::move(options.reached);
  if (has_copies(parts->program, options.loop)) {
    const std::vector<Bytes> arenas = host_arenas_of(program.layout);
    const Bytes planned = HostMemory::bytes_for(arenas);
    const Bytes foreseen = planned + planned / kPoolShare + spilled_bytes(parts->program, options.loop);
    const Bytes most = options.host_bytes > 0           ? options.host_bytes
                       : options.loop.may_spill.empty() ? foreseen
                                                        : kNoBound;
    parts->copies = std::make_unique<FollowedCopies>(parts->recorder ? parts->recorder->logged(device) : device);
    if (const DeviceCode code = parts->copies->open(arenas, most, std::min(most, foreseen)); code != DeviceCode::ok)
      return device_error(device, code, "streams of the session");
  }
  return std::unique_ptr<Session>(new Session(std::move(parts)));
}

Session::~Session() {
  try {
    if (recorder() != nullptr) recorder()->call({.kind = Kind::close});
  } catch (const std::bad_alloc&) {  // there is none to tell
  }
}

void Session::begin_step(FrameworkStream stream) {
  if (recorder() != nullptr) recorder()->call({.kind = Kind::begin_step}, stream);
  end(stream);
  static_cast<void>(parts_->streams.enter(stream));  // if not, the next call that can fail says so
  step_ = std::make_shared<FollowedStep>(parts_, parts_->counts.steps + 1);
  std::erase_if(open_, [](const auto& step) { return step.expired(); });
  open_.push_back(step_);
  ++parts_->counts.steps;
}

void Session::end_step(FrameworkStream stream) {
  if (recorder() != nullptr) recorder()->call({.kind = Kind::end_step}, stream);
  end(stream);
}

void Session::end(FrameworkStream stream) {
  if (step_ == nullptr) return;
  static_cast<void>(parts_->streams.enter(stream));
  step_->end(stream);
  step_.reset();
}

Status Session::tell(OpId op, FrameworkStream stream) {
  if (recorder() == nullptr) return carry_out(op, stream);
  recorder()->call({.kind = Kind::op, .op = op}, stream);
  return recorder()->ended(carry_out(op, stream));
}

Status Session::carry_out(OpId op, FrameworkStream stream) {
  if (Status s = step_->enter(stream); !s) return s;
  return step_->tell(op, stream);
}

void Session::take(StorageId storage, FrameworkBlock block, FrameworkStream stream) {
  if (recorder() != nullptr) recorder()->take(storage, block, stream);
  static_cast<void>(parts_->streams.enter(stream));
  step_->take(number_of(storage), block, stream);
}

StorageId Session::adopt(FrameworkBlock block, FrameworkStream stream) {
  const std::int32_t known = step_->find(block.handle);
  const StorageId storage = step_->name_of(known < 0 ? step_->next_adopted() : known);
  if (recorder() != nullptr) recorder()->adopt(storage, block, stream);
  static_cast<void>(parts_->streams.enter(stream));
  if (known < 0) {
    static_cast<void>(step_->adopt(block));
  } else {
    parts_->calls.release(block, stream);
  }
  return storage;
}

void Session::keep(OpId op) {
  if (recorder() != nullptr) recorder()->call({.kind = Kind::keep, .op = op});
  step_->keep(op);
}

SavedStorage Session::save(StorageId storage, SavedUse use) {
  const std::int32_t number = step_->number_of(storage);
  step_->add_saved(number, use.op);
  SavedStorage saved{.step = step_, .storage = number, .use = use, .is_counted = number >= 0};
  if (recorder() != nullptr) saved.number = recorder()->save(storage, use.op, use.until);
  return saved;
}

Result<UsedStorage> Session::use(SavedStorage& saved, bool again, FrameworkStream stream) {
  SessionRecorder* const recorder = saved.step->recorder();
  if (recorder == nullptr) return find_content(saved, again, stream);
  recorder->call({.kind = Kind::use, .saved = saved.number, .note = again ? Note::again : Note::none}, stream);
  Result<UsedStorage> used = find_content(saved, again, stream);
  if (used) {
    recorder->used(used.value().block, used.value().is_handed_over);
  } else {
    recorder->call({.kind = Kind::failed});
  }
  return used;
}

Result<UsedStorage> Session::find_content(SavedStorage& saved, bool again, FrameworkStream stream) {
  FollowedStep& step = *saved.step;
  if (Status s = step.enter(stream); !s) return s.error();
  if (saved.use.op != kNone<OpId>)
    if (Status s = step.tell(saved.use.op, stream); !s) return s.error();
  if (saved.storage < 0) return UsedStorage{};
  const Result<FrameworkBlock> block = step.use(saved.storage, stream);
  if (!block) return block.error();
  if (!again) static_cast<void>(drop(saved));
  return UsedStorage{.block = block.value(),
                     .is_handed_over = !again && step.hand_over(saved.storage, saved.use, stream)};
}

void Session::free(SavedStorage& saved) {
  if (saved.step == nullptr) return;
  if (SessionRecorder* const recorder = saved.step->recorder(); recorder != nullptr)
    recorder->call({.kind = Kind::free, .saved = saved.number});
  if (drop(saved)) saved.step->release_unneeded(saved.storage, {});
  saved.step.reset();
}

bool Session::drop(SavedStorage& saved) {
  if (!std::exchange(saved.is_counted, false)) return false;
  saved.step->drop_saved(saved.storage, saved.use.op);
  return true;
}

Status Session::change(void* handle, bool planned, FrameworkStream stream) {
  if (recorder() == nullptr) return change_content(handle, planned, stream);
  recorder()->change(handle, planned, stream);
  return recorder()->ended(change_content(handle, planned, stream));
}

Status Session::change_content(void* handle, bool planned, FrameworkStream stream) {
  for (const auto& each : open_) {
    const std::shared_ptr<FollowedStep> step = each.lock();
    if (step == nullptr || step->find(handle) < 0) continue;
    if (Status s = step->enter(stream); !s) return s;
    if (Status s = step->change(handle, planned && step == step_, stream); !s) return s;
  }
  return {};
}

Result<Bytes> Session::make_room(Bytes bytes, FrameworkStream stream) {
  if (recorder() == nullptr) return spill(bytes, stream);
  recorder()->call({.kind = Kind::make_room, .bytes = bytes}, stream);
  Result<Bytes> given_up = spill(bytes, stream);
  if (!given_up) recorder()->call({.kind = Kind::failed});
  return given_up;
}

Result<Bytes> Session::spill(Bytes bytes, FrameworkStream stream) {
  if (!parts_->calls.is_idle) return Bytes{0};
  struct Candidate {
    std::shared_ptr<FollowedStep> step;
    FollowedStep::Spillable of;
  };
  std::vector<Candidate> candidates;
  std::vector<FollowedStep::Spillable> listed;
  for (const auto& each : open_) {
    const std::shared_ptr<FollowedStep> step = each.lock();
    if (step == nullptr) continue;
    if (Status s = step->enter(stream); !s) return s.error();
    listed.clear();
    step->list_spillable(listed);
    for (const FollowedStep::Spillable& one : listed) candidates.push_back({.step = step, .of = one});
  }
  std::ranges::stable_sort(candidates, std::greater{},
                           [](const Candidate& one) { return std::pair(one.of.next_use, one.of.rank); });
  Bytes given_up = 0;
  for (const Candidate& one : candidates) {
    if (given_up >= bytes) break;
    if (!parts_->calls.is_idle(one.of.handle)) continue;
    const Result<bool> left = one.step->spill(one.of.storage, stream);
    if (!left && given_up == 0) return left.error();
    if (!left) break;  // what has been given up is free all the same
    if (left.value()) given_up += one.of.bytes;
  }
  return given_up;
}

StorageId Session::find(void* handle) const {
  const std::int32_t number = step_ ? step_->find(handle) : -1;
  return number < 0 ? kNone<StorageId> : step_->name_of(number);
}

SessionReport Session::report() const {
  SessionReport r{.counts = parts_->counts, .out = {}, .in = {}, .waits = {}, .pinned_reports = {}};
  r.steps_open = std::ranges::count_if(open_, [](const auto& step) { return !step.expired(); });
  const FollowedCopies* copies = parts_->copies.get();
  if (copies == nullptr) return r;
  r.out = copies->out();
  r.in = copies->in();
  r.waits = copies->waits();
  r.copy_streams = copies->streams();
  const allocator::PinnedPoolStatistics pinned = copies->pinned();
  r.pinned_peak_bytes = pinned.peak_used_bytes;
  r.pinned_held_bytes = pinned.held_bytes;
  r.pinned_reports = copies->pinned_reports();
  return r;
}

}  // namespace tidemark::swap
