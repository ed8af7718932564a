#pragma once
// The bytes of one moment, for packers that go along the clock: who lives there, and which gap suits the next one best.

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/layout/pack_problem.h"
#include "planner/layout/rooms.h"

namespace tidemark {

class Arena {
 public:
  /// What a gap is judged by: the ends of its neighbours against the item's own, and how tight it is.
  struct Taste {
    bool both_sides = false;  ///< a gap filled exactly has two neighbours
    double per_tick = 0;
    double per_byte = 0;
  };

  /// `rooms`: ascending by time; each is kept clear below `capacity` as long as that makes nobody stand higher.
  Arena(Taste taste, std::vector<Room> rooms, Bytes capacity);

  /// An address for the item, which lives from now on. REQUIRES: items ascending by begin.
  [[nodiscard]] Bytes take(const PackItem& item);
  [[nodiscard]] std::size_t alive() const { return living_.size(); }

 private:
  struct Living {
    Bytes begin = 0;
    Bytes end = 0;
    std::int32_t ends = 0;  // on the clock
  };
  struct Gap {
    Bytes begin = 0;
    Bytes end = 0;
    const Living* below = nullptr;  // null: the floor
    const Living* above = nullptr;  // null: nothing, the gap is open
  };
  struct Clear {
    Room room;
    Bytes at = 0;
  };

  void give_back(std::int32_t now);
  void find_place(Clear& clear, std::int32_t now) const;
  [[nodiscard]] double waste(const Clear& clear, std::int32_t now) const;
  [[nodiscard]] bool keep_clear_of(const PackItem& item);
  [[nodiscard]] Bytes best_gap(const std::vector<Living>& living, const PackItem& item);
  void try_gap(const Gap& gap, const PackItem& item);
  [[nodiscard]] double mismatch(const Living* neighbour, const PackItem& item) const;
  void offer(Bytes address, double cost);

  Taste taste_;
  Bytes capacity_ = 0;
  std::vector<Living> living_;  // by address
  std::int32_t next_end_ = std::numeric_limits<std::int32_t>::max();
  std::vector<Clear> clears_;
  std::size_t known_ = 0;                   // clears_ before it have their place
  std::size_t wanted_ = 0;                  // clears_ before it are no longer wanted
  std::vector<Living> standing_, blocked_;  // rooms as if somebody lived there, alone and among the living
  double best_ = 0;
  Bytes address_ = 0;
};

}  // namespace tidemark
