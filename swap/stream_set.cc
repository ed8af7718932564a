#include "swap/stream_set.h"

#include <algorithm>

namespace tidemark::swap {

StreamSet::~StreamSet() {
  for (const StreamHandle stream : opened_) (void)device_.destroy_stream(stream);
}

DeviceCode StreamSet::open(std::span<const StreamRole> roles) {
  for (const StreamRole role : roles) {
    StreamHandle& stream = streams_[static_cast<std::size_t>(role)];
    if (const DeviceCode code = device_.create_stream(role, stream); code != DeviceCode::ok) return code;
    opened_.push_back(stream);
  }
  return DeviceCode::ok;
}

DeviceCode StreamSet::take_event(EventHandle& event) {
  for (bool drained = false;;) {
    const DeviceCode code = events_.acquire(event);
    if (code == DeviceCode::ok || !is_recoverable(code)) return code;
    if (const DeviceCode relief = relieve(drained); relief != DeviceCode::ok) return relief;
  }
}

DeviceCode StreamSet::record(StreamRole role, EventHandle& event) {
  EventHandle taken{};
  if (const DeviceCode code = take_event(taken); code != DeviceCode::ok) return code;
  const DeviceCode code = submit(role, [&](StreamHandle stream) { return device_.record_event(taken, stream); });
  if (code != DeviceCode::ok) {
    events_.release(taken);
    return code;
  }
  event = taken;
  ++records_;
  return DeviceCode::ok;
}

DeviceCode StreamSet::follow(StreamHandle earlier, StreamRole later) {
  EventHandle event{};
  if (const DeviceCode code = take_event(event); code != DeviceCode::ok) return code;
  DeviceCode code = device_.record_event(event, earlier);
  if (code == DeviceCode::ok) code = wait(later, event);
  release(event);
  return code;
}

DeviceCode StreamSet::wait(StreamRole role, EventHandle event) {
  ++waits_;
  return submit(role, [&](StreamHandle stream) { return device_.wait_event(stream, event); });
}

DeviceCode StreamSet::order(StreamRole earlier, StreamRole later) {
  if (earlier == later) return DeviceCode::ok;
  EventHandle event{};
  if (const DeviceCode code = record(earlier, event); code != DeviceCode::ok) return code;
  const DeviceCode code = wait(later, event);
  release(event);
  return code;
}

void StreamSet::begin_step(std::size_t tasks) {
  for (const std::vector<Held>* all : {&tasks_, &marks_})
    for (const Held& held : *all)
      if (held.waiters > 0) release(held.event);
  tasks_.assign(tasks, {});
  marks_.clear();
  oldest_ = newest_ = oldest_mark_ = 0;
}

DeviceCode StreamSet::record_task(TaskId task, StreamRole role, std::int32_t waiters) {
  EventHandle event{};
  if (const DeviceCode code = record(role, event); code != DeviceCode::ok) return code;
  tasks_[row(task)] = {.event = event, .waiters = waiters};
  newest_ = row(task) + 1;
  return DeviceCode::ok;
}

DeviceCode StreamSet::wait_task(StreamRole role, TaskId task) {
  return wait_held(role, tasks_[row(task)]);
}

DeviceCode StreamSet::make_mark(StreamRole role, std::optional<Mark>& mark) {
  EventHandle event{};
  if (const DeviceCode code = record(role, event); code != DeviceCode::ok) return code;
  mark = static_cast<Mark>(marks_.size());
  marks_.push_back({.event = event, .waiters = 1});
  return DeviceCode::ok;
}

DeviceCode StreamSet::wait_mark(StreamRole role, std::optional<Mark>& mark) {
  const auto index = static_cast<std::size_t>(mark.value());
  mark.reset();
  return wait_held(role, marks_[index]);
}

DeviceCode StreamSet::wait_held(StreamRole role, Held& held) {
  if (held.waiters == 0) return DeviceCode::ok;  // the host has waited for it
  // Looked up before the call: relief inside it may complete this very record.
  const DeviceCode code = wait(role, held.event);
  if (held.waiters > 0 && --held.waiters == 0) release(held.event);
  return code;
}

DeviceCode StreamSet::complete(Held& held) {
  if (const DeviceCode code = device_.synchronize_event(held.event); code != DeviceCode::ok) return code;
  held.waiters = 0;
  release(held.event);
  return DeviceCode::ok;
}

DeviceCode StreamSet::relieve(bool& drained) {
  while (oldest_ < newest_ && tasks_[oldest_].waiters == 0) ++oldest_;
  while (oldest_mark_ < marks_.size() && marks_[oldest_mark_].waiters == 0) ++oldest_mark_;
  const bool has_task = oldest_ < newest_, has_mark = oldest_mark_ < marks_.size();
  if (!has_task && !has_mark && drained) return DeviceCode::no_resource;
  ++host_waits_;
  if (has_task) return complete(tasks_[oldest_]);
  if (has_mark) return complete(marks_[oldest_mark_]);
  drained = true;
  return device_.synchronize_device();
}

}  // namespace tidemark::swap
