#pragma once
// Which parts of the host arenas are taken, where a follower puts what the Program gave a place there. Parts are given
// back behind an event; who takes them next has a stream wait for it, and no thread does.
//
// A part that is not free is refused: what departs from the plan goes elsewhere. Threads: none. Cost: O(parts in use).

#include <algorithm>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "device/device.h"
#include "swap/host_memory.h"

namespace tidemark::swap {

class PlannedHost {
 public:
  /// False: some of it is in use. Otherwise `behind` gains what a stream must wait for first; these events stay the
  /// object's.
  [[nodiscard]] bool take(HostPiece part, std::vector<EventHandle>& behind);
  /// REQUIRES: taken. The event is the object's until forget_passed() hands it back.
  void give_back(HostPiece part, EventHandle behind);
  /// The same where nothing uses it any more.
  void give_back(HostPiece part) { taken_.erase(std::ranges::find(taken_, part)); }
  /// Events that are not needed any more: complete ones.
  [[nodiscard]] std::vector<EventHandle> forget_passed(Device& device);

 private:
  struct Passing {
    HostPiece part;
    EventHandle behind{};
  };
  [[nodiscard]] static bool overlaps(HostPiece a, HostPiece b) {
    return a.arena == b.arena && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  }
  std::vector<HostPiece> taken_;
  std::vector<Passing> passing_;
};

}  // namespace tidemark::swap
