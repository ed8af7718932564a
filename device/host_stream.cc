#include "device/host_stream.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tidemark {
namespace {

constexpr std::int64_t kLongestWaitNs = 1'000'000'000'000'000'000;  ///< 30 years; more would overflow the clock

}  // namespace

void HostRecord::complete(HostFailure failure) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
  complete_ = true;
  changed_.notify_all();
}

bool HostRecord::is_complete() const {
  const std::lock_guard lock(mutex_);
  return complete_;
}

bool HostRecord::await(std::int64_t timeout_ns) const {
  std::unique_lock lock(mutex_);
  const auto done = [this] { return complete_; };
  if (timeout_ns >= 0)
    return changed_.wait_for(lock, std::chrono::nanoseconds(std::min(timeout_ns, kLongestWaitNs)), done);
  changed_.wait(lock, done);
  return true;
}

HostFailure HostRecord::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

HostStream::HostStream(StreamRole role) : role_(role), thread_([this] { run(); }) {}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void HostStream::push(Item item) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(item));
  changed_.notify_one();
}

void HostStream::submit(Job job) {
  push(std::move(job));
}

void HostStream::wait(std::shared_ptr<const HostRecord> record) {
  push(std::move(record));
}

std::shared_ptr<const HostRecord> HostStream::record() {
  auto made = std::make_shared<HostRecord>();
  push(made);
  return made;
}

bool HostStream::pop(Item& item) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
  if (queue_.empty()) return false;
  item = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void HostStream::carry_out(Item& item) {
  if (const Mark* mark = std::get_if<Mark>(&item)) return (*mark)->complete(failure_);
  if (const Wait* wait = std::get_if<Wait>(&item)) {
    static_cast<void>((*wait)->await(-1));
    if (failure_.code == DeviceCode::ok) failure_ = (*wait)->failure();
    return;
  }
  if (failure_.code == DeviceCode::ok) failure_ = std::get<Job>(item)();
}

void HostStream::run() {
  Item item;
  while (pop(item)) {
    carry_out(item);
    item = Job();  // what the item holds goes now, not with the next one
  }
}

}  // namespace tidemark
