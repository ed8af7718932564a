#pragma once
// The pinned pool's blocks that were freed under work in flight: which event each waits for, in which order to look.
//
// Lanes. Blocks freed behind one stream complete in order, and so do (at once) those behind one event of a caller: each
// of these is a lane, and only the first of a lane is worth asking the device about. So a look costs a query a stream
// and one that finds something, however many blocks wait.
//
// Tickets. Events of the pool are used again, so an event does not name a block for long; a ticket does, for ever. Who
// asks the device about an entry without the pool's lock holds it meanwhile (`users`): it then is neither taken out nor
// its event used for anything else.
//
// Cost: O(log n). Threads: the caller serialises.

#include <algorithm>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>

#include "allocator/pinned_pool.h"

namespace tidemark::allocator {

class PinnedPending {
 public:
  struct Lane {
    bool of_stream = false;  ///< else of a caller's event
    std::uint64_t handle = 0;
    auto operator<=>(const Lane&) const = default;
  };
  static Lane lane_of(StreamHandle stream) { return {.of_stream = true, .handle = static_cast<std::uint64_t>(stream)}; }
  static Lane lane_of(EventHandle event) { return {.of_stream = false, .handle = static_cast<std::uint64_t>(event)}; }

  struct Entry {
    std::uint64_t ticket = 0;
    PinnedBlock block;
    EventHandle event{};  ///< the pool's own in lanes of streams
    Lane lane;
    int users = 0;          ///< that ask the device about `event` right now
    bool complete = false;  ///< one of them was told so
  };

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] bool has(const Lane& lane) const { return lanes_.contains(lane); }
  /// REQUIRES: not empty.
  [[nodiscard]] std::uint64_t oldest() const { return entries_.begin()->first; }
  /// nullptr: it was taken out.
  [[nodiscard]] Entry* find(std::uint64_t ticket) {
    const auto found = entries_.find(ticket);
    return found == entries_.end() ? nullptr : &found->second;
  }
  /// The first of a lane; nullptr: the lane is empty.
  [[nodiscard]] Entry* first_of(const Lane& lane) {
    const auto found = lanes_.find(lane);
    return found == lanes_.end() ? nullptr : find(found->second.front());
  }
  /// The lane after this one, or the first; false: there is none.
  [[nodiscard]] bool next(const Lane* after, Lane& lane) const {
    const auto found = after == nullptr ? lanes_.begin() : lanes_.upper_bound(*after);
    if (found == lanes_.end()) return false;
    lane = found->first;
    return true;
  }

  void add(const PinnedBlock& block, EventHandle event, const Lane& lane) {
    const std::uint64_t ticket = next_ticket_++;
    entries_.emplace(ticket, Entry{.ticket = ticket, .block = block, .event = event, .lane = lane});
    lanes_[lane].push_back(ticket);
  }
  /// For the child of a fork, which has none of the threads that asked: the entries are complete when asked about anew.
  void forget_users() {
    for (auto& [ticket, entry] : entries_) entry.users = 0;
  }
  /// REQUIRES: there is such an entry, and no thread uses it.
  Entry take(std::uint64_t ticket) {
    const auto found = entries_.find(ticket);
    const Entry entry = found->second;
    const auto lane = lanes_.find(entry.lane);
    lane->second.erase(std::find(lane->second.begin(), lane->second.end(), ticket));  // nearly always the first
    if (lane->second.empty()) lanes_.erase(lane);
    entries_.erase(found);
    return entry;
  }

 private:
  std::map<std::uint64_t, Entry> entries_;
  std::map<Lane, std::deque<std::uint64_t>> lanes_;
  std::uint64_t next_ticket_ = 1;
};

}  // namespace tidemark::allocator
