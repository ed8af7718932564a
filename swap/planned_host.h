#pragma once
// Pinned memory where the Program says: one piece, and which parts of it are taken. Parts are given back behind an
// event; who takes them next has a stream wait for it, and no thread does.
//
// A part that is not free is refused: what departs from the plan goes elsewhere. Threads: none. Cost: O(parts in use).

#include <span>
#include <vector>

#include "core/bytes.h"
#include "device/device.h"

namespace tidemark::swap {

class PlannedHost {
 public:
  struct Part {
    Bytes offset = 0, bytes = 0;
    friend bool operator==(const Part&, const Part&) = default;
  };

  /// False: some of it is in use. Otherwise `behind` gains what a stream must wait for first; these events stay the
  /// object's.
  [[nodiscard]] bool take(Part part, std::vector<EventHandle>& behind);
  /// REQUIRES: taken. The event is the object's until forget_passed() hands it back.
  void give_back(Part part, EventHandle behind);
  /// Events that nobody needs any more: complete ones.
  [[nodiscard]] std::vector<EventHandle> forget_passed(Device& device);

 private:
  struct Passing {
    Part part;
    EventHandle behind{};
  };
  [[nodiscard]] static bool overlaps(Part a, Part b) {
    return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  }
  std::vector<Part> taken_;
  std::vector<Passing> passing_;
};

}  // namespace tidemark::swap
