#include "allocator/pending_blocks.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "allocator/give_back.h"

namespace tidemark::allocator {
namespace {

/// For a thread that records an event, which takes microseconds where no framework's thread is waited for.
constexpr std::chrono::microseconds kNap{50};
constexpr int kMostNaps = 100;

}  // namespace

void PendingBlocks::prepare(StreamSlot stream) {
  const auto slot = static_cast<std::size_t>(stream);
  if (slot >= watches_.size()) watches_.resize(slot + 1);
  if (parked_.size() == parked_.capacity()) parked_.reserve(2 * parked_.size() + 16);
}

void PendingBlocks::note_death(Death death) {
  const auto slot = static_cast<std::size_t>(death.stream);
  if (slot >= watches_.size()) watches_.resize(slot + 1);
  watches_[slot].latest_death = std::max(watches_[slot].latest_death, death.epoch);
}

void PendingBlocks::park(BlockHeader* block, const Frontier& frontier) {
  parked_.push_back({.block = block, .frontier = frontier});
  block->become(BlockState::parked);
  parked_bytes_ += block->bytes;
  seen_version_ = ~std::uint64_t{0};
}

void PendingBlocks::release_known(StreamSlot requester, const Release& release) {
  seen_version_ = order_->version();
  std::erase_if(parked_, [&](const Parked& parked) {
    BlockHeader* block = parked.block;
    StreamSlot stream = block->stream;
    Epoch stamp = 0;
    if (!order_->completed(parked.frontier)) {
      if (!order_->dominated(parked.frontier, stream)) stream = requester;
      if (!order_->dominated(parked.frontier, stream)) return false;
      stamp = order_->death_epoch(stream);
    }
    parked_bytes_ -= block->bytes;
    release(block, stream, stamp);
    return true;
  });
}

void PendingBlocks::release_all(const Release& release) {
  for (const Parked& parked : parked_) release(parked.block, parked.block->stream, 0);
  parked_.clear();
  parked_bytes_ = 0;
}

bool PendingBlocks::unfinished(std::size_t slot) const {
  return !order_->completed(Death{.stream = static_cast<StreamSlot>(slot), .epoch = watches_[slot].latest_death});
}

bool PendingBlocks::unfinished() const {
  for (std::size_t slot = 0; slot < watches_.size(); ++slot) {
    if (unfinished(slot)) return true;
  }
  return false;
}

/// True if the event has completed.
bool PendingBlocks::ask(Watch& watch) {
  if (!watch.under_way || watch.held != Held::no || device_->query_event(watch.event) != DeviceCode::ok) return false;
  watch.under_way = false;
  order_->note_synchronized(watch.event);
  return true;
}

/// Makes `call` for every one in turn without the lock; whose it was is marked while it is under way. Then, with the
/// lock, `note`(watch) for those whose call the device has carried out.
template <class Call, class Note>
void PendingBlocks::submit(const MetadataVector<std::size_t>& slots, CoreLock& core, const Call& call,
                           const Note& note) {
  MetadataVector<Submission> submissions;
  submissions.reserve(slots.size());
  for (const std::size_t slot : slots) submissions.push_back({.slot = slot, .event = watches_[slot].event});
  for (const std::size_t slot : slots) watches_[slot].held = Held::submitted;
  core.unlock();
  const auto finish = [&] {
    core.lock();
    for (const Submission& one : submissions) {
      watches_[one.slot].held = Held::no;
      if (one.is_done) note(watches_[one.slot]);
    }
  };
  try {
    for (Submission& one : submissions) one.is_done = call(one) == DeviceCode::ok;
  } catch (...) {  // no host memory for the order's books
    finish();
    throw;
  }
  finish();
}

bool PendingBlocks::poll(CoreLock& core) {
  bool progress = false;
  MetadataVector<std::size_t> missing;
  for (std::size_t slot = 0; slot < watches_.size(); ++slot) {
    Watch& watch = watches_[slot];
    if (!unfinished(slot)) continue;
    progress |= ask(watch);
    if (watch.under_way || watch.held != Held::no || !unfinished(slot)) continue;
    if (!watch.made && device_->create_event(watch.event) != DeviceCode::ok) continue;
    watch.made = true;
    missing.push_back(slot);
  }
  if (missing.empty()) return progress;
  submit(
      missing, core,
      [&](const Submission& one) {
        return order_->record(*device_, one.event, order_->handle_of(static_cast<StreamSlot>(one.slot)));
      },
      [&](Watch& watch) {
        watch.under_way = true;
        watch.sequence = ++sequence_;
        ++statistics_->events_recorded;
      });
  for (const std::size_t slot : missing) (void)ask(watches_[slot]);
  return true;
}

bool PendingBlocks::wait_for_submission(CoreLock& core) {
  const auto is_under_way = [&] {
    return std::ranges::any_of(watches_, [](const Watch& watch) { return watch.held == Held::submitted; });
  };
  if (!is_under_way()) return false;
  for (int nap = 0; nap < kMostNaps; ++nap) {
    core.unlock();
    std::this_thread::sleep_for(kNap);
    core.lock();
    if (!is_under_way()) return true;
  }
  return false;
}

DeviceCode PendingBlocks::wait_one(CoreLock& core) {
  Watch* oldest = nullptr;
  bool others_wait = false;
  for (Watch& watch : watches_) {
    if (!watch.under_way) continue;
    others_wait |= watch.held == Held::waited_for;
    if (watch.held == Held::no && (oldest == nullptr || watch.sequence < oldest->sequence)) oldest = &watch;
  }
  if (oldest == nullptr && !others_wait) return DeviceCode::not_ready;
  if (oldest == nullptr) {
    const std::uint64_t seen = waits_over_.load();
    core.unlock();
    waits_over_.wait(seen);
    core.lock();
    return DeviceCode::ok;
  }
  const auto slot = static_cast<std::size_t>(oldest - watches_.data());
  oldest->held = Held::waited_for;
  ++statistics_->host_waits;
  const EventHandle event = oldest->event;
  core.unlock();
  const DeviceCode code = device_->synchronize_event(event);
  core.lock();
  watches_[slot].held = Held::no;
  watches_[slot].under_way = false;
  if (code == DeviceCode::ok) order_->note_synchronized(event);
  waits_over_.fetch_add(1);
  waits_over_.notify_all();
  return code;
}

bool PendingBlocks::order_behind(StreamSlot stream, CoreLock& core) {
  if (is_ordering_) return false;  // calls on one stream must not overlap
  MetadataVector<std::size_t> ahead;
  for (std::size_t slot = 0; slot < watches_.size(); ++slot) {
    const Watch& watch = watches_[slot];
    const Death latest{.stream = static_cast<StreamSlot>(slot), .epoch = watch.latest_death};
    if (watch.under_way && watch.held == Held::no && !order_->dominated(latest, stream)) ahead.push_back(slot);
  }
  if (ahead.empty()) return false;
  is_ordering_ = true;
  const struct Over {
    ~Over() { is_ordering = false; }
    bool& is_ordering;
  } over{is_ordering_};
  submit(
      ahead, core, [&](const Submission& one) { return order_->wait(*device_, order_->handle_of(stream), one.event); },
      [&](const Watch&) { ++statistics_->stream_waits; });
  return true;
}

void PendingBlocks::forget_waits() {
  for (Watch& watch : watches_) watch.held = Held::no;
  is_ordering_ = false;
}

void PendingBlocks::destroy_events() {
  for (Watch& watch : watches_) {
    if (!watch.made) continue;
    order_->note_event_destroyed(watch.event);
    give_back([&] { return device_->destroy_event(watch.event); });  // shutting down: nobody left to tell
    watch = Watch{};
  }
}

}  // namespace tidemark::allocator
