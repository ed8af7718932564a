#include "swap/session_recorder.h"

#include <utility>

#include "device/forwarding_device.h"

namespace tidemark::swap {

using Kind = SessionEvent::Kind;
using Note = SessionEvent::Note;

/// Passes every call on and logs the copies.
class SessionRecorder::Copies final : public ForwardingDevice {
 public:
  Copies(Device& device, const SessionSink& sink) : ForwardingDevice(device), sink_(sink) {}
  [[nodiscard]] DeviceCode copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind,
                                std::int64_t id) override {
    const bool is_out = kind == CopyKind::device_to_host;
    sink_({.kind = is_out ? Kind::copy_out : Kind::copy_in,
           .storage = static_cast<StorageId>(id),
           .address = is_out ? from : to,
           .bytes = bytes});
    return ForwardingDevice::copy(stream, to, from, bytes, kind, id);
  }

 private:
  const SessionSink& sink_;
};

SessionRecorder::SessionRecorder(SessionSink sink) : sink_(std::move(sink)) {}

SessionRecorder::~SessionRecorder() = default;

FrameworkCalls SessionRecorder::logged(FrameworkCalls calls) {
  const auto inner = std::make_shared<const FrameworkCalls>(std::move(calls));
  return {.rebuild = [this, inner](const Rebuild& again) { return rebuild(again, *inner); },
          .take_block =
              [this, inner](StorageId storage, Bytes bytes, FrameworkStream stream) {
                const FrameworkBlock block = inner->take_block(storage, bytes, stream);
                sink_({.kind = Kind::room,
                       .storage = storage,
                       .block = block.handle == nullptr ? SessionEvent::kNoNumber : add(block.handle),
                       .address = block.address,
                       .bytes = bytes,
                       .stream = number_of(stream)});
                return block;
              },
          .release =
              [this, inner](FrameworkBlock block, FrameworkStream stream) {
                sink_({.kind = Kind::release, .block = find(block.handle), .stream = number_of(stream)});
                drop(block.handle);  // before another may get the handle
                inner->release(block, stream);
              },
          .is_idle = inner->is_idle};
}

Device& SessionRecorder::logged(Device& device) {
  copies_ = std::make_unique<Copies>(device, sink_);
  return *copies_;
}

Status SessionRecorder::rebuild(const Rebuild& again, const FrameworkCalls& calls) {
  call({.kind = Kind::rebuild, .step = again.step, .op = again.op, .note = again.is_last ? Note::last : Note::none},
       again.stream);
  for (const Rebuild::Source& source : again.sources)
    sink_({.kind = Kind::source,
           .storage = source.storage,
           .block = find(source.block.handle),
           .address = source.block.address});
  Status status = calls.rebuild(again);
  for (std::size_t i = 0; i < again.made.size(); ++i)
    if (const FrameworkBlock made = again.made[i]; made.handle != nullptr)
      sink_({.kind = Kind::made,
             .storage = again.wanted[i],
             .block = add(made.handle),
             .address = made.address,
             .bytes = made.bytes});
  return ended(std::move(status));
}

void SessionRecorder::call(SessionEvent event, FrameworkStream stream) {
  event.stream = number_of(stream);
  sink_(event);
}

void SessionRecorder::take(StorageId storage, FrameworkBlock block, FrameworkStream stream) {
  handed(Kind::take, storage, block, stream);
}

void SessionRecorder::adopt(StorageId storage, FrameworkBlock block, FrameworkStream stream) {
  handed(Kind::adopt, storage, block, stream);
}

void SessionRecorder::handed(Kind kind, StorageId storage, FrameworkBlock block, FrameworkStream stream) {
  call({.kind = kind, .storage = storage, .block = add(block.handle), .address = block.address, .bytes = block.bytes},
       stream);
}

std::int32_t SessionRecorder::save(StorageId storage, OpId op, OpId until) {
  sink_({.kind = Kind::save, .op = op, .until = until, .storage = storage, .saved = saved_});
  return saved_++;
}

void SessionRecorder::change(void* handle, bool planned, FrameworkStream stream) {
  const std::int32_t block = find(handle);
  if (block == SessionEvent::kNoNumber) return;
  call({.kind = Kind::change, .block = block, .note = planned ? Note::planned : Note::none}, stream);
}

void SessionRecorder::used(FrameworkBlock block, bool is_handed_over) {
  sink_({.kind = Kind::used,
         .block = find(block.handle),
         .address = block.address,
         .note = is_handed_over ? Note::handed_over : Note::none});
  if (is_handed_over) drop(block.handle);
}

Status SessionRecorder::ended(Status status) {
  if (!status) sink_({.kind = Kind::failed});
  return status;
}

std::int32_t SessionRecorder::number_of(FrameworkStream stream) {
  if (!stream) return SessionEvent::kNoNumber;
  return streams_.try_emplace(static_cast<std::uint64_t>(*stream), static_cast<std::int32_t>(streams_.size()))
      .first->second;
}

std::int32_t SessionRecorder::find(void* handle) const {
  const auto found = blocks_.find(handle);
  return found == blocks_.end() ? SessionEvent::kNoNumber : found->second.number;
}

std::int32_t SessionRecorder::add(void* handle) {
  const auto [known, is_new] = blocks_.try_emplace(handle);
  if (is_new) known->second.number = blocks_seen_++;
  ++known->second.held;
  return known->second.number;
}

void SessionRecorder::drop(void* handle) {
  const auto known = blocks_.find(handle);
  if (known != blocks_.end() && --known->second.held == 0) blocks_.erase(known);
}

}  // namespace tidemark::swap
