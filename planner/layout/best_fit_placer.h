#pragma once
// Best fit in the order of the clock. Holds the items alive at one moment and the free ranges between them; each item
// goes into the free range that scores best.

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "planner/layout/pack_problem.h"
#include "planner/layout/rooms.h"

namespace tidemark::layout {

class BestFitPlacer {
 public:
  /// A free range scores by how far the ends of its neighbours are from the item's own, and by the bytes left over.
  struct Weights {
    bool both_sides = false;  ///< a range filled exactly has two neighbours
    double per_tick = 0;
    double per_byte = 0;
  };

  /// `rooms`: ascending by time; each is reserved below `capacity` as long as no item ends higher for it.
  BestFitPlacer(Weights weights, std::vector<Room> rooms, Bytes capacity);

  /// An address for the item, which lives from now on. REQUIRES: items ascending by begin.
  [[nodiscard]] Bytes place(const PackItem& item);
  /// What lives on from before the walk. REQUIRES: bytes that are free, before anything is placed.
  void stand(const PackItem& item, Bytes address) { insert({address, address + item.bytes, item.end}); }
  [[nodiscard]] std::size_t alive() const { return live_.size(); }

 private:
  struct LiveItem {
    Bytes begin = 0;
    Bytes end = 0;
    std::int32_t ends = 0;  // on the clock
  };
  static constexpr std::int32_t kFloor = std::numeric_limits<std::int32_t>::min();
  struct FreeRange {
    Bytes begin = 0;
    Bytes end = 0;
    std::int32_t below = kFloor;  // when the neighbour there ends
    std::int32_t above = kFloor;
  };
  // The free ranges below the highest live item, by address; all bytes from `top` on are free.
  struct FreeRanges {
    std::vector<FreeRange> list;
    Bytes top = 0;
    std::int32_t below_top = kFloor;
    void clear();
    void add(const LiveItem& one);  // REQUIRES: ascending by address
  };
  struct Reserved {
    Room room;
    Bytes at = 0;
  };

  void release_ended(std::int32_t now);
  void find_place(Reserved& reserved, std::int32_t now) const;
  [[nodiscard]] double waste(const Reserved& reserved, std::int32_t now) const;
  [[nodiscard]] bool keep_clear_of(const PackItem& item);
  [[nodiscard]] Bytes best_range(const FreeRanges& ranges, const PackItem& item);
  void try_range(const FreeRange& range, const PackItem& item);
  [[nodiscard]] double mismatch(std::int32_t neighbour_ends, const PackItem& item) const;
  void offer(Bytes address, double cost);
  void insert(const LiveItem& one);
  void fill(const LiveItem& one);
  void open(std::vector<LiveItem>::const_iterator one);

  Weights weights_;
  Bytes capacity_ = 0;
  std::vector<LiveItem> live_;  // by address
  FreeRanges free_;             // between them
  std::priority_queue<std::pair<std::int32_t, Bytes>, std::vector<std::pair<std::int32_t, Bytes>>, std::greater<>>
      ends_;  // of live items: when on the clock, and their address
  std::vector<Reserved> reserved_;
  std::size_t known_ = 0;                       // reserved_ before it have their place
  std::size_t wanted_ = 0;                      // reserved_ before it are no longer wanted
  std::vector<LiveItem> kept_clear_, blocked_;  // rooms as if they were live items: alone, and with live_
  FreeRanges unreserved_;
  double best_ = 0;
  Bytes address_ = 0;
};

}  // namespace tidemark::layout
