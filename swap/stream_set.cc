#include "swap/stream_set.h"

#include <algorithm>

namespace tidemark {

StreamSet::~StreamSet() {
  for (std::size_t s = 0; s < opened_; ++s) (void)device_.destroy_stream(streams_[s]);
}

DeviceCode StreamSet::open() {
  for (; opened_ < kStreamRoleCount; ++opened_) {
    const DeviceCode code = device_.create_stream(static_cast<StreamRole>(opened_), streams_[opened_]);
    if (code != DeviceCode::ok) return code;
  }
  return DeviceCode::ok;
}

DeviceCode StreamSet::record(StreamRole role, EventHandle& event) {
  EventHandle taken{};
  for (bool drained = false;;) {
    const DeviceCode code = events_.acquire(taken);
    if (code == DeviceCode::ok) break;
    if (!is_recoverable(code)) return code;
    if (const DeviceCode relief = relieve(drained); relief != DeviceCode::ok) return relief;
  }
  const DeviceCode code = submit(role, [&](StreamHandle stream) { return device_.record_event(taken, stream); });
  if (code != DeviceCode::ok) {
    events_.release(taken);
    return code;
  }
  event = taken;
  ++records_;
  return DeviceCode::ok;
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
  for (const TaskRecord& record : tasks_)
    if (record.waiters > 0) release(record.event);
  tasks_.assign(tasks, {});
  oldest_ = newest_ = 0;
}

DeviceCode StreamSet::record_task(TaskId task, StreamRole role, std::int32_t waiters) {
  EventHandle event{};
  if (const DeviceCode code = record(role, event); code != DeviceCode::ok) return code;
  tasks_[row(task)] = {.event = event, .waiters = waiters};
  newest_ = row(task) + 1;
  return DeviceCode::ok;
}

DeviceCode StreamSet::wait_task(StreamRole role, TaskId task) {
  TaskRecord& record = tasks_[row(task)];
  if (record.waiters == 0) return DeviceCode::ok;  // the host has waited for it
  // Looked up before the call: relief inside it may complete this very record.
  const DeviceCode code = wait(role, record.event);
  if (record.waiters > 0 && --record.waiters == 0) release(record.event);
  return code;
}

DeviceCode StreamSet::relieve(bool& drained) {
  while (oldest_ < newest_ && tasks_[oldest_].waiters == 0) ++oldest_;
  if (oldest_ == newest_ && drained) return DeviceCode::no_resource;
  ++host_waits_;
  if (oldest_ == newest_) {
    drained = true;
    return device_.synchronize_device();
  }
  TaskRecord& record = tasks_[oldest_];
  if (const DeviceCode code = device_.synchronize_event(record.event); code != DeviceCode::ok) return code;
  record.waiters = 0;
  release(record.event);
  return DeviceCode::ok;
}

}  // namespace tidemark
