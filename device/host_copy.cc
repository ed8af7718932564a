#include "device/host_copy.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "device/process_binding.h"

namespace tidemark {
namespace {

constexpr Bytes kShared = 4 * kMiB;   ///< copies from here on are worth several threads
constexpr Bytes kSlice = 512 * kKiB;  ///< what a thread takes at a time: few enough wake-ups, and nobody waits long
/// A link idle for no longer was waited for by somebody who woke up late.
constexpr auto kLate = std::chrono::milliseconds(2);

}  // namespace

Bytes HostLink::piece_bytes() const {
  return std::clamp<Bytes>(bytes_per_s_ / 1000, 4 * kKiB, 32 * kMiB);
}

HostLink::Clock::time_point HostLink::book(Bytes bytes, Clock::time_point now) {
  const std::chrono::duration<double> takes(static_cast<double>(bytes) / static_cast<double>(bytes_per_s_));
  const std::lock_guard lock(mutex_);
  if (now - free_at_ > kLate) free_at_ = now;
  free_at_ += std::chrono::ceil<Clock::duration>(takes);
  return free_at_;
}

HostCopyEngine::~HostCopyEngine() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    begun_.notify_all();
  }
  for (std::thread& worker : workers_) worker.join();
}

void HostCopyEngine::begin(void* to, const void* from, Bytes bytes, std::function<void()> done) {
  const Slice whole{.to = static_cast<char*>(to), .from = static_cast<const char*>(from), .bytes = bytes};
  if (bytes < kShared || threads_ == 1 || !start_workers()) {
    copy_alone(whole);
    return done();
  }
  auto copy = std::make_shared<Copy>(Copy{.left = whole, .done = std::move(done)});
  const std::lock_guard lock(mutex_);
  copies_.push_back(std::move(copy));
  begun_.notify_all();
}

bool HostCopyEngine::start_workers() {
  const std::lock_guard lock(mutex_);
  try {
    while (std::ssize(workers_) < threads_) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // Those that started will do.
  }
  return !workers_.empty();
}

void HostCopyEngine::copy_alone(const Slice& whole) {
  if (!link_.limited()) {
    std::memcpy(whole.to, whole.from, static_cast<std::size_t>(whole.bytes));
    return;
  }
  for (Bytes at = 0, piece = 0; at < whole.bytes; at += piece) {
    piece = std::min(link_.piece_bytes(), whole.bytes - at);
    const HostLink::Clock::time_point end = link_.book(piece, HostLink::Clock::now());
    std::memcpy(whole.to + at, whole.from + at, static_cast<std::size_t>(piece));
    std::this_thread::sleep_until(end);
  }
}

HostCopyEngine::Slice HostCopyEngine::claim(const std::shared_ptr<Copy>& copy) {
  Slice& left = copy->left;
  const Slice slice{.to = left.to, .from = left.from, .bytes = std::min(kSlice, left.bytes)};
  left = {.to = left.to + slice.bytes, .from = left.from + slice.bytes, .bytes = left.bytes - slice.bytes};
  if (left.bytes == 0) std::erase(copies_, copy);
  return slice;
}

void HostCopyEngine::copy_slices(const std::shared_ptr<Copy>& copy, Lock& lock) {
  while (copy->left.bytes > 0) {
    const Slice slice = claim(copy);
    ++copy->busy;
    lock.unlock();
    copy_alone(slice);
    lock.lock();
    if (--copy->busy > 0 || copy->left.bytes > 0) continue;
    lock.unlock();
    copy->done();
    lock.lock();
  }
}

void HostCopyEngine::work() {
  begin_copy_thread("tidemark-copy", numa_node_);
  Lock lock(mutex_);
  for (;;) {
    begun_.wait(lock, [this] { return ending_ || !copies_.empty(); });
    if (copies_.empty()) return;
    const std::shared_ptr<Copy> oldest = copies_.front();
    copy_slices(oldest, lock);
  }
}

}  // namespace tidemark
