#include "device/host_copy.h"

#include <algorithm>
#include <cstring>

namespace tidemark {
namespace {

constexpr Bytes kShared = 4 * kMiB;      ///< copies from here on are worth several threads
constexpr Bytes kShareUnit = 64 * kKiB;  ///< shares start at multiples of this
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

HostCopyEngine::HostCopyEngine(int threads, Bytes bytes_per_s) : link_(bytes_per_s) {
  for (int i = 1; i < threads; ++i) {
    helpers_.emplace_back([this, index = static_cast<std::size_t>(i)] { help(index); });
  }
}

HostCopyEngine::~HostCopyEngine() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  for (std::thread& helper : helpers_) helper.join();
}

void HostCopyEngine::copy(void* to, const void* from, Bytes bytes) {
  const Share whole{.to = static_cast<char*>(to), .from = static_cast<const char*>(from), .bytes = bytes};
  std::unique_lock crew(crew_, std::defer_lock);
  if (helpers_.empty() || bytes < kShared || !crew.try_lock()) return copy_share(whole);
  copy_together(whole);
}

HostCopyEngine::Share HostCopyEngine::share_of(const Share& whole, std::size_t index, std::size_t count) {
  const auto parts = static_cast<Bytes>(count), part = static_cast<Bytes>(index);
  const Bytes units = whole.bytes / kShareUnit;
  const Bytes begin = units * part / parts * kShareUnit;
  const Bytes end = part + 1 == parts ? whole.bytes : units * (part + 1) / parts * kShareUnit;
  return {.to = whole.to + begin, .from = whole.from + begin, .bytes = end - begin};
}

void HostCopyEngine::copy_share(const Share& share) {
  if (!link_.limited()) {
    std::memcpy(share.to, share.from, static_cast<std::size_t>(share.bytes));
    return;
  }
  for (Bytes at = 0, piece = 0; at < share.bytes; at += piece) {
    piece = std::min(link_.piece_bytes(), share.bytes - at);
    const HostLink::Clock::time_point end = link_.book(piece, HostLink::Clock::now());
    std::memcpy(share.to + at, share.from + at, static_cast<std::size_t>(piece));
    std::this_thread::sleep_until(end);
  }
}

/// REQUIRES: crew_ is held.
void HostCopyEngine::copy_together(const Share& whole) {
  {
    const std::lock_guard lock(mutex_);
    whole_ = whole;
    busy_ = helpers_.size();
    ++turn_;
    changed_.notify_all();
  }
  copy_share(share_of(whole, 0, helpers_.size() + 1));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return busy_ == 0; });
}

void HostCopyEngine::help(std::size_t index) {
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = 0;;) {
    changed_.wait(lock, [&] { return ending_ || turn_ != seen; });
    if (turn_ == seen) return;
    seen = turn_;
    const Share share = share_of(whole_, index, helpers_.size() + 1);
    lock.unlock();
    copy_share(share);
    lock.lock();
    if (--busy_ == 0) changed_.notify_all();
  }
}

}  // namespace tidemark
