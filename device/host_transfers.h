#pragma once
// The copies of one stream that are under way, and the records behind them.
//
// Copies that touch different bytes may be under way together: a thread of the copy engine that is through with its
// part of one goes on with the next instead of waiting for the others (with more threads than cores, one of them may
// be away from its core for several copies). It cannot be told: a copy waits for those it shares bytes with, and
// records complete in order, each after everything before it. At most kAhead copies are under way.
//
// Threads: begin, mark and settle belong to the stream's thread, finish to any.

#include <condition_variable>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include "core/bytes.h"
#include "device/host_record.h"

namespace tidemark {

/// What a copy reads and writes.
struct HostTransfer {
  Address to = 0;
  Address from = 0;
  Bytes bytes = 0;
  bool alone = false;  ///< its addresses do not say which bytes they are: it goes beside no other
};

class HostTransfers {
  struct Entry;

 public:
  static constexpr std::size_t kAhead = 8;
  using Ticket = Entry*;

  HostTransfers() = default;
  ~HostTransfers() { settle(); }
  HostTransfers(const HostTransfers&) = delete;
  HostTransfers& operator=(const HostTransfers&) = delete;

  [[nodiscard]] bool must_wait(const HostTransfer& transfer) const;
  /// Blocks while the transfer must wait. The ticket is good until finish().
  [[nodiscard]] Ticket begin(const HostTransfer& transfer);
  void finish(Ticket ticket);
  /// The record completes with `failure` once all transfers begun before have finished.
  void mark(std::shared_ptr<HostRecord> record, HostFailure failure);
  /// Blocks until nothing is under way.
  void settle();

 private:
  struct Entry {
    HostTransfer transfer;
    bool finished = false;
    std::shared_ptr<HostRecord> record;  ///< null: a transfer
    HostFailure failure;                 ///< of the record
  };

  [[nodiscard]] bool may_begin(const HostTransfer& transfer) const;
  [[nodiscard]] bool may_go_on() const;
  void retire();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> open_;                  ///< in order; the first is an unfinished transfer
  std::size_t under_way_ = 0;              ///< transfers in open_
  const HostTransfer* waiting_ = nullptr;  ///< the one that begin() is at; null also while settle() waits
};

}  // namespace tidemark
