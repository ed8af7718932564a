#include "device/host_transfers.h"

#include <algorithm>
#include <utility>

namespace tidemark {
namespace {

bool overlap(Address a, Bytes a_bytes, Address b, Bytes b_bytes) {
  return a < b + static_cast<Address>(b_bytes) && b < a + static_cast<Address>(a_bytes);
}

/// Either writes what the other one touches.
bool conflict(const HostTransfer& a, const HostTransfer& b) {
  return a.alone || b.alone || overlap(a.to, a.bytes, b.to, b.bytes) || overlap(a.to, a.bytes, b.from, b.bytes) ||
         overlap(a.from, a.bytes, b.to, b.bytes);
}

}  // namespace

/// Finished ones behind an unfinished one count as well, or a thread long away would let them pile up.
bool HostTransfers::may_begin(const HostTransfer& transfer) const {
  return under_way_ < kAhead && std::ranges::none_of(open_, [&](const Entry& entry) {
           return entry.record == nullptr && !entry.finished && conflict(entry.transfer, transfer);
         });
}

bool HostTransfers::must_wait(const HostTransfer& transfer) const {
  const std::lock_guard lock(mutex_);
  return !may_begin(transfer);
}

/// Half of the limit at a time: a wake-up for each copy took 3 % of the processor time at 4 MiB a copy.
bool HostTransfers::may_go_on() const {
  return waiting_ == nullptr ? open_.empty() : under_way_ <= kAhead / 2 && may_begin(*waiting_);
}

HostTransfers::Ticket HostTransfers::begin(const HostTransfer& transfer) {
  std::unique_lock lock(mutex_);
  if (!may_begin(transfer)) {
    waiting_ = &transfer;
    changed_.wait(lock, [this] { return may_go_on(); });
    waiting_ = nullptr;
  }
  ++under_way_;
  return &open_.emplace_back(Entry{.transfer = transfer});
}

/// Under the lock to the end: with the last finish() the owner may be gone.
void HostTransfers::finish(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  ticket->finished = true;
  retire();
  if (may_go_on()) changed_.notify_all();
}

void HostTransfers::mark(std::shared_ptr<HostRecord> record, HostFailure failure) {
  const std::lock_guard lock(mutex_);
  open_.push_back({.record = std::move(record), .failure = std::move(failure)});
  retire();
}

void HostTransfers::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return may_go_on(); });
}

void HostTransfers::retire() {
  while (!open_.empty() && (open_.front().finished || open_.front().record != nullptr)) {
    Entry& entry = open_.front();
    if (entry.record != nullptr) {
      entry.record->complete(std::move(entry.failure));
    } else {
      --under_way_;
    }
    open_.pop_front();
  }
}

}  // namespace tidemark
