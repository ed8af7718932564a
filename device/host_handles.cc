#include "device/host_handles.h"

#include <utility>

#include "device/fork_handlers.h"

namespace tidemark {

StreamHandle HostHandles::add_stream(Stream stream) {
  const std::lock_guard lock(mutex_);
  const auto handle = static_cast<StreamHandle>(next_handle_);
  streams_.emplace(next_handle_++, StreamSlot{std::move(stream)});
  return handle;
}

HostHandles::Stream HostHandles::find_stream(StreamHandle handle) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(static_cast<std::uint64_t>(handle));
  return found == streams_.end() || found->second.closing ? nullptr : found->second.stream;
}

HostHandles::Stream HostHandles::close_stream(StreamHandle handle) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(static_cast<std::uint64_t>(handle));
  return found == streams_.end() || std::exchange(found->second.closing, true) ? nullptr : found->second.stream;
}

void HostHandles::remove_stream(StreamHandle handle) {
  const std::lock_guard lock(mutex_);
  streams_.erase(static_cast<std::uint64_t>(handle));
}

std::vector<HostHandles::Record> HostHandles::record_all() {
  std::vector<Record> records;
  const std::lock_guard lock(mutex_);
  for (const auto& [handle, slot] : streams_) records.push_back(slot.stream->record());
  return records;
}

void HostHandles::finish() {
  // A stream may wait for another one's record: all of them carry on until each has come to its end.
  for (const auto& [handle, slot] : streams_) static_cast<void>(slot.stream->record()->await(-1));
  streams_.clear();
}

void HostHandles::lock() {
  mutex_.lock();  // no work is added any more but by calls that have found their stream
  for (const auto& [handle, slot] : streams_) slot.stream->lock();
}

void HostHandles::unlock() {
  for (const auto& [handle, slot] : streams_) slot.stream->unlock();
  mutex_.unlock();
}

void HostHandles::unlock_in_child() {
  std::erase_if(streams_, [](const auto& entry) { return entry.second.closing; });  // by a thread of the parent's
  for (auto& [handle, slot] : streams_) abandon(std::exchange(slot.stream, slot.stream->successor()));
  mutex_.unlock();
}

bool HostHandles::add_event(EventHandle& event) {
  const std::lock_guard lock(mutex_);
  if (event_limit_ > 0 && std::ssize(events_) >= event_limit_) return false;
  event = static_cast<EventHandle>(next_handle_);
  events_.emplace(next_handle_++, nullptr);
  return true;
}

bool HostHandles::remove_event(EventHandle event) {
  const std::lock_guard lock(mutex_);
  return events_.erase(static_cast<std::uint64_t>(event)) > 0;
}

bool HostHandles::record_event(EventHandle event, HostStream& stream) {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(static_cast<std::uint64_t>(event));
  if (found == events_.end()) return false;
  found->second = stream.record();
  return true;
}

bool HostHandles::find_record(EventHandle event, Record& record) {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(static_cast<std::uint64_t>(event));
  if (found == events_.end()) return false;
  record = found->second;
  return true;
}

}  // namespace tidemark
