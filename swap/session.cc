#include "swap/session.h"

#include <algorithm>
#include <utility>

#include "swap/device_error.h"

namespace tidemark::swap {
namespace {

constexpr Bytes kPoolShare = 16;

Bytes host_bytes_of(const Program& program) {
  Bytes bytes = 0;
  for (const Arena& arena : program.layout.arenas)
    if (arena.space == MemorySpace::host) bytes += arena.height_bytes;
  return bytes + bytes / kPoolShare;
}

bool has_copies(const FollowedProgram& program) {
  return std::ranges::any_of(program.actions, [](const FollowedAction& action) {
    return action.kind == FollowedAction::Kind::copy_out || action.kind == FollowedAction::Kind::copy_in;
  });
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const Program& program, Device& device, SessionOptions options,
                                               FrameworkCalls calls) {
  Result<FollowedProgram> bound = bind_followed(program, options.loop);
  if (!bound) return bound.error();
  auto parts = std::make_shared<FollowedParts>();
  parts->program = std::move(bound).value();
  parts->calls = std::move(calls);
  if (has_copies(parts->program)) {
    const Bytes host = options.host_bytes > 0 ? options.host_bytes : host_bytes_of(program);
    parts->copies = std::make_unique<FollowedCopies>(device, host);
    if (const DeviceCode code = parts->copies->open(program.layout); code != DeviceCode::ok)
      return device_error(device, code, "streams of the session");
  }
  return std::unique_ptr<Session>(new Session(std::move(parts)));
}

Session::~Session() = default;

void Session::begin_step(FrameworkStream stream) {
  end_step(stream);
  step_ = std::make_shared<FollowedStep>(parts_);
  std::erase_if(open_, [](const auto& step) { return step.expired(); });
  open_.push_back(step_);
  ++parts_->counts.steps;
}

void Session::end_step(FrameworkStream stream) {
  if (step_ == nullptr) return;
  step_->end(stream);
  step_.reset();
}

void Session::take(StorageId storage, FrameworkBlock block, FrameworkStream stream) {
  step_->take(number_of(storage), block, stream);
}

SavedStorage Session::save(StorageId storage, SavedUse use) {
  const std::int32_t number = number_of(storage);
  step_->add_saved(number, use.op);
  return {.step = step_, .storage = number, .use = use, .is_counted = true};
}

Result<UsedStorage> Session::use(SavedStorage& saved, bool again, FrameworkStream stream) {
  FollowedStep& step = *saved.step;
  if (!again) free(saved);
  if (saved.use.op != kNone<OpId>)
    if (Status s = step.tell(saved.use.op, stream); !s) return s.error();
  const Result<FrameworkBlock> block = step.use(saved.storage, stream);
  if (!block) return block.error();
  return UsedStorage{.block = block.value(),
                     .is_handed_over = !again && step.hand_over(saved.storage, saved.use, stream)};
}

void Session::free(SavedStorage& saved) {
  if (std::exchange(saved.is_counted, false)) saved.step->drop_saved(saved.storage, saved.use.op);
}

Status Session::change(void* handle, bool planned, FrameworkStream stream) {
  for (const auto& each : open_) {
    const std::shared_ptr<FollowedStep> step = each.lock();
    const std::int32_t storage = step ? step->find(handle) : -1;
    if (storage < 0) continue;
    if (Status s = step->change(storage, planned && step == step_, stream); !s) return s;
  }
  return {};
}

StorageId Session::find(void* handle) const {
  const std::int32_t number = step_ ? step_->find(handle) : -1;
  return number < 0 ? kNone<StorageId> : parts_->program.storages[static_cast<std::size_t>(number)].storage;
}

SessionReport Session::report() const {
  SessionReport r{.counts = parts_->counts, .out = {}, .in = {}, .waits = {}};
  r.steps_open = std::ranges::count_if(open_, [](const auto& step) { return !step.expired(); });
  const FollowedCopies* copies = parts_->copies.get();
  if (copies == nullptr) return r;
  r.out = copies->out();
  r.in = copies->in();
  r.waits = copies->waits();
  const allocator::PinnedPoolStatistics pinned = copies->pinned();
  r.pinned_peak_bytes = pinned.peak_used_bytes;
  r.pinned_held_bytes = pinned.held_bytes;
  return r;
}

}  // namespace tidemark::swap
