#include "allocator/pending_blocks.h"

#include <algorithm>

#include "allocator/give_back.h"

namespace tidemark::allocator {

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
  if (!watch.under_way || watch.waited_for || device_->query_event(watch.event) != DeviceCode::ok) return false;
  watch.under_way = false;
  order_->note_synchronized(watch.event);
  return true;
}

bool PendingBlocks::start(std::size_t slot) {
  Watch& watch = watches_[slot];
  if (!watch.made && device_->create_event(watch.event) != DeviceCode::ok) return false;
  watch.made = true;
  const StreamHandle stream = order_->handle_of(static_cast<StreamSlot>(slot));
  if (order_->record(*device_, watch.event, stream) != DeviceCode::ok) return false;
  watch.under_way = true;
  watch.sequence = ++sequence_;
  ++statistics_->events_recorded;
  return true;
}

bool PendingBlocks::poll() {
  bool progress = false;
  for (std::size_t slot = 0; slot < watches_.size(); ++slot) {
    if (!unfinished(slot)) continue;
    progress |= ask(watches_[slot]);
    if (!watches_[slot].under_way && unfinished(slot) && start(slot)) progress |= ask(watches_[slot]);
  }
  return progress;
}

DeviceCode PendingBlocks::wait_one(std::unique_lock<std::mutex>& core) {
  Watch* oldest = nullptr;
  bool others_wait = false;
  for (Watch& watch : watches_) {
    if (!watch.under_way) continue;
    others_wait |= watch.waited_for;
    if (!watch.waited_for && (oldest == nullptr || watch.sequence < oldest->sequence)) oldest = &watch;
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
  oldest->waited_for = true;
  ++statistics_->host_waits;
  const EventHandle event = oldest->event;
  core.unlock();
  const DeviceCode code = device_->synchronize_event(event);
  core.lock();
  watches_[slot].waited_for = watches_[slot].under_way = false;
  if (code == DeviceCode::ok) order_->note_synchronized(event);
  waits_over_.fetch_add(1);
  waits_over_.notify_all();
  return code;
}

bool PendingBlocks::order_behind(StreamSlot stream) {
  bool any = false;
  for (std::size_t slot = 0; slot < watches_.size(); ++slot) {
    const Watch& watch = watches_[slot];
    const Death latest{.stream = static_cast<StreamSlot>(slot), .epoch = watch.latest_death};
    if (!watch.under_way || watch.waited_for || order_->dominated(latest, stream)) continue;
    if (order_->wait(*device_, order_->handle_of(stream), watch.event) != DeviceCode::ok) continue;
    ++statistics_->stream_waits;
    any = true;
  }
  return any;
}

void PendingBlocks::forget_waits() {
  for (Watch& watch : watches_) watch.waited_for = false;
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
