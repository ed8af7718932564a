#pragma once
// The bytes of one moment, for packers that go along the clock: who lives there, and which gap suits the next one best.

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
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
  static constexpr std::int32_t kFloor = std::numeric_limits<std::int32_t>::min();
  struct Gap {
    Bytes begin = 0;
    Bytes end = 0;
    std::int32_t below = kFloor;  // when the neighbour there ends
    std::int32_t above = kFloor;
  };
  // What is free below the highest of the living, by address; from `top` on everything is.
  struct Gaps {
    std::vector<Gap> list;
    Bytes top = 0;
    std::int32_t below_top = kFloor;
    void clear();
    void add(const Living& one);  // in order of address
  };
  struct Clear {
    Room room;
    Bytes at = 0;
  };

  void give_back(std::int32_t now);
  void find_place(Clear& clear, std::int32_t now) const;
  [[nodiscard]] double waste(const Clear& clear, std::int32_t now) const;
  [[nodiscard]] bool keep_clear_of(const PackItem& item);
  [[nodiscard]] Bytes best_gap(const Gaps& gaps, const PackItem& item);
  void try_gap(const Gap& gap, const PackItem& item);
  [[nodiscard]] double mismatch(std::int32_t neighbour_ends, const PackItem& item) const;
  void offer(Bytes address, double cost);
  void stand(const Living& one);
  void fill(const Living& one);
  void open(std::vector<Living>::const_iterator one);

  Taste taste_;
  Bytes capacity_ = 0;
  std::vector<Living> living_;  // by address
  Gaps gaps_;                   // between them
  std::priority_queue<std::pair<std::int32_t, Bytes>, std::vector<std::pair<std::int32_t, Bytes>>, std::greater<>>
      ends_;  // of the living: when, and where they begin
  std::vector<Clear> clears_;
  std::size_t known_ = 0;                   // clears_ before it have their place
  std::size_t wanted_ = 0;                  // clears_ before it are no longer wanted
  std::vector<Living> standing_, blocked_;  // rooms as if somebody lived there, alone and among the living
  Gaps unblocked_;
  double best_ = 0;
  Bytes address_ = 0;
};

}  // namespace tidemark
