#include "device/host_stream.h"

#include <utility>

#include "device/process_binding.h"

namespace tidemark {

HostStream::~HostStream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void HostStream::start() {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void HostStream::lock() {
  for (;; std::this_thread::yield()) {
    static_cast<void>(record()->await(-1));
    mutex_.lock();
    if (queue_.empty() && rests_) return;
    mutex_.unlock();
  }
}

/// REQUIRES: mutex_ is held, the thread was started.
void HostStream::push(Item item) {
  queue_.push_back(std::move(item));
  changed_.notify_one();
}

void HostStream::submit(Job job) {
  const std::lock_guard lock(mutex_);
  push(std::move(job));
}

void HostStream::copy(const HostTransfer& transfer, Begin begin) {
  const std::lock_guard lock(mutex_);
  push(Copy{.transfer = transfer, .begin = std::move(begin)});
}

void HostStream::wait(std::shared_ptr<const HostRecord> record) {
  const std::lock_guard lock(mutex_);
  push(std::move(record));
}

bool HostStream::follow(const HostRecord& record) {
  const std::lock_guard lock(mutex_);
  if (thread_.joinable() || !record.is_complete()) return false;
  if (failure_.code == DeviceCode::ok) failure_ = record.failure();
  return true;
}

std::shared_ptr<const HostRecord> HostStream::record() {
  auto made = std::make_shared<HostRecord>();
  const std::lock_guard lock(mutex_);
  if (thread_.joinable()) {
    push(made);
  } else {
    made->complete(failure_);
  }
  return made;
}

bool HostStream::pop(Item& item) {
  std::unique_lock lock(mutex_);
  rests_ = true;
  changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
  rests_ = false;
  if (queue_.empty()) return false;
  item = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void HostStream::begin(Copy& copy) {
  const HostTransfers::Ticket ticket = transfers_.begin(copy.transfer);
  failure_ = copy.begin([this, ticket] { transfers_.finish(ticket); });
  if (failure_.code != DeviceCode::ok) transfers_.finish(ticket);
}

/// Waits hold nothing up but what is queued behind them: copies under way end without this thread.
void HostStream::carry_out(Item& item) {
  if (const Mark* mark = std::get_if<Mark>(&item)) return transfers_.mark(*mark, failure_);
  if (const Wait* wait = std::get_if<Wait>(&item)) {
    static_cast<void>((*wait)->await(-1));
    if (failure_.code == DeviceCode::ok) failure_ = (*wait)->failure();
    return;
  }
  if (failure_.code != DeviceCode::ok) return;
  if (Copy* copy = std::get_if<Copy>(&item)) return begin(*copy);
  transfers_.settle();
  failure_ = std::get<Job>(item)();
}

void HostStream::run() {
  if (role_ == StreamRole::d2h || role_ == StreamRole::h2d) begin_copy_thread("tidemark-stream", numa_node_);
  Item item;
  while (pop(item)) {
    carry_out(item);
    item = Job();  // what the item holds goes now, not with the next one
  }
}

}  // namespace tidemark
