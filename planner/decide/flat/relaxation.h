#pragma once
// A bound from below on what any schedule within a budget adds, that counts the inputs of recomputations; and what a
// schedule that has come to some stage adds at least from there on.
//
// What is relaxed. Stage t begins behind the first run of op t - 1 and ends with that of op t. Of a schedule only this
// is looked at: is a storage resident at the begin of a stage, and is it recomputed or swapped in within it. Any
// schedule, whatever its order of recomputations and however many, satisfies
//   (1) what is there at the begin of a stage was there at the begin of the one before, or came in it;
//   (2) what the first run of a stage needs was there at its begin, or comes in it;
//   (3) what a recomputation reads was there at the begin of its stage, or comes in it;
//   (4) what is there at the begin of stage t + 1 fits the budget together with what the first run of op t touches;
//   (5) where a storage is recomputed for the last time before a first run of stage t needs it, in stage a or later,
//       what its writer reads was there at the begin of stage a, or is recomputed in stages a to t;
//   (6) where a storage and an input of its writer are both gone at the begin of a stage, the input is recomputed
//       before the next first run that needs the storage. Only of pairs that are not swapped.
// (5) follows from (3), but not for fractions: without it a linear program makes a fifteenth of a storage in each of
// fifteen stages, from a fifteenth of what that reads. (6) follows from (5), but not once what fits the room of a stage
// is chosen apart from the paths.
//
// With prices per read and stage for (3), per read, use and stage for (5), and for (4) per byte and stage, the rest
// falls apart into one shortest path for each storage: the Lagrangian of that relaxation. Its value is a bound for any
// prices >= 0 (weak duality); subgradient ascent raises it. With a price per storage and stage for (4) instead, each
// stage leaves a knapsack as well: the set of whole storages within its room that is worth most, less the price of
// every pair of (6) that is left out as a whole.
//
// From stage t on the same paths give a bound for what is left of a schedule, by what is resident there: also within a
// stage, since what is left of a schedule satisfies all of this with the stage begun anew. Of (5) the begins of earlier
// stages are past: there the begin of this one stands for them.

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/decide/flat/problem.h"

namespace tidemark::decide::flat {

/// Of what is there over the first run of a stage.
enum class MemoryPrices : std::uint8_t {
  per_byte,     ///< one for each stage
  per_storage,  ///< one for each storage and stage: what fits the room of the stage is then a set of whole storages
};

class Relaxation {
 public:
  /// Borrowed; must outlive this. Prices are 0. REQUIRES: at least one op.
  Relaxation(const Problem& problem, Bytes budget);

  struct Ascent {
    double target = 0;                             ///< about what the best schedule adds: steps are that long
    int iterations = 0;                            ///< at most
    double step = 1;                               ///< share of the way to the target that the first steps look for
    MemoryPrices prices = MemoryPrices::per_byte;  ///< per_byte only before the first ascent per storage
    std::function<bool()> should_stop;
  };
  /// Raises the bound. O(iterations * size()).
  void ascend(const Ascent& ascent);
  /// Rules out recomputations, each in the stages in which any schedule that makes it adds more than that: by the
  /// prices of bound(), from then on. What is left is less to look at, and the bound can be raised further.
  void rule_out(double most_added);
  /// Not ruled out.
  [[nodiscard]] bool may_recompute(std::int32_t op, std::int32_t stage) const {
    return allowed_[static_cast<std::size_t>(stage) * static_cast<std::size_t>(p_.op_count) +
                    static_cast<std::size_t>(op)] != 0;
  }
  /// Prices and storage states that one iteration looks at.
  [[nodiscard]] std::int64_t size() const { return size_; }

  /// No schedule within the budget adds less, in cost quanta; up to rounding in floating point.
  [[nodiscard]] double bound() const { return best_; }

  /// Of a state of a storage.
  static constexpr std::int32_t kResident = 1, kOutside = 2;  // flags: in device memory; a good copy outside
  /// What is added from a stage on is at least `to_go` of the stage and `share` of every storage begun before it.
  /// Infinite: what is needed later cannot be had back. Of the prices of bound().
  [[nodiscard]] double to_go(std::int32_t stage) const { return to_go_[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] const double* shares(std::int32_t stage, std::int32_t storage) const {
    return &shares_[4 * (static_cast<std::size_t>(stage) * storages_ + static_cast<std::size_t>(storage))];
  }
  /// Storages of which one is there at the begin of a stage, or the input is made again: where both are there, the
  /// shares are together less by `price` than they might be.
  struct Pair {
    std::int32_t made = 0, input = 0;
    double price = 0;
  };
  [[nodiscard]] const std::vector<Pair>& pairs(std::int32_t stage) const {
    return pairs_[static_cast<std::size_t>(stage)];
  }
  /// The last stage in which it can be of use that the storage is there; -1: none.
  [[nodiscard]] std::int32_t useful_until(std::int32_t storage) const {
    return useful_until_[static_cast<std::size_t>(storage)];
  }
  /// The stage that ends with its first write; -1: it is there from the start.
  [[nodiscard]] std::int32_t born(std::int32_t storage) const { return born_[static_cast<std::size_t>(storage)]; }
  /// The storages of the first run of an op, but for those it only writes: read, or pinned.
  [[nodiscard]] const std::vector<std::int32_t>& needs(std::int32_t op) const {
    return needs_[static_cast<std::size_t>(op)];
  }

 private:
  /// What an op reads whenever it runs again, in stages `from` to `until`; its prices by stage.
  struct Read {
    std::int32_t op = 0, storage = 0;
    std::int32_t from = 0, until = -1;
    std::size_t first = 0;  ///< number of its first price
  };
  /// What is read where `made` runs again for the last time before stage `until` needs it; its prices by stage.
  struct Window {
    std::int32_t made = 0, storage = 0;
    std::int32_t from = 0, until = -1;
    std::size_t first = 0;
  };
  struct Prices {
    std::vector<double> memory;   ///< per stage, of a byte above the budget
    std::vector<double> held;     ///< per cell, of being there over the first run; empty: by its bytes
    std::vector<double> pairs;    ///< per cell of a storage with an input, of (6)
    std::vector<double> reads;    ///< of (3)
    std::vector<double> windows;  ///< of (5)
  };
  /// What prices come to, per stage and storage.
  struct Sums {
    std::vector<double> run;     ///< of what its writer reads
    std::vector<double> last;    ///< besides, where it is the last run before a need
    std::vector<double> there;   ///< worth of being there in the stage
    std::vector<double> begun;   ///< besides, at its begin
    std::vector<double> past;    ///< the same of the begins of earlier stages, for who starts there
    std::vector<double> remade;  ///< worth of being recomputed
  };
  /// A storage's lot from the begin of a stage on.
  enum State : std::uint8_t {
    gone,    ///< not there
    lasts,   ///< there until it is needed next
    leaves,  ///< there, and leaves before
    kStates
  };

  /// A stage in which not all fits that may be there.
  struct ShortRoom {
    std::int32_t stage = 0;
    std::int64_t room = 0;               ///< in units
    std::vector<std::int32_t> storages;  ///< that may be there
    std::vector<std::int64_t> units;     ///< of each
    std::vector<std::int32_t> input;     ///< of each: a place in `storages`, kNoInput or kIsInput
    std::vector<std::int32_t> until;     ///< of one with an input: the stage that needs it next
  };
  static constexpr std::int32_t kNoInput = -1, kIsInput = -2;  // of a pair
  static constexpr std::uint8_t kItself = 1, kInput = 2;       // flags: what of a pair is in a filling

  [[nodiscard]] std::size_t cell(std::int32_t stage, std::int32_t storage) const {
    return static_cast<std::size_t>(stage) * storages_ + static_cast<std::size_t>(storage);
  }
  [[nodiscard]] bool swaps(std::int32_t storage) const { return p_.swappable[static_cast<std::size_t>(storage)] != 0; }
  void find_touches();
  void find_lives();
  void round_rooms();
  void find_reads();
  void find_windows();
  void sum_prices(const Prices& prices);
  void find_paths(const Prices& prices);
  void find_short_rooms();
  void pair_up(ShortRoom& room) const;
  void price_storages();
  void sum_pairs(const Prices& prices);
  void fill_rooms(const Prices& prices);
  double fill_room(const ShortRoom& room, const Prices& prices);
  void unpack(const ShortRoom& room);
  void find_room_slack(const Prices& prices, Prices& slack);
  void find_path_step(std::int32_t storage, std::int32_t stage, double held);
  void find_swapping_step(std::int32_t storage, std::int32_t stage, double held);
  double value_of(const Prices& prices);
  void find_slack(const Prices& prices, Prices& slack);
  void follow_path(std::int32_t storage, const Prices& prices);
  void follow_swapping(std::int32_t storage, const Prices& prices);
  [[nodiscard]] std::vector<std::uint8_t> cheap_enough(double most_added) const;
  [[nodiscard]] double held_price(std::int32_t storage, std::int32_t stage, const Prices& prices) const;
  [[nodiscard]] double run_cost(std::int32_t storage, std::int32_t stage) const;
  [[nodiscard]] bool may_leave(std::int32_t storage, std::int32_t stage) const;
  [[nodiscard]] std::int32_t last_recompute(std::int32_t op) const;

  const Problem& p_;
  Bytes budget_;
  std::size_t storages_ = 0;
  std::int64_t size_ = 0;
  std::vector<std::vector<std::int32_t>> needs_;
  std::vector<std::int32_t> born_, useful_until_;
  std::vector<double> room_;                          ///< per stage, beside what its first run touches
  std::vector<std::uint8_t> is_needed_, is_touched_;  ///< per cell
  std::vector<std::uint8_t> allowed_;                 ///< per stage and op: it may run again there
  std::vector<Read> reads_;
  std::vector<Window> windows_;
  Sums sums_;
  std::vector<double> paths_;  ///< per cell and state: what is added from there on
  /// Of the cheapest paths, per cell: there at the begin, there in the stage, made in it, for the last time.
  std::vector<std::uint8_t> begun_, there_, made_, last_;
  std::vector<std::uint8_t> kept_;  ///< there at the end
  std::vector<ShortRoom> short_rooms_;
  std::vector<double> stage_worth_;       ///< of its room
  std::vector<std::uint8_t> packed_;      ///< per cell: in the most worthy filling
  std::vector<double> fill_;              ///< of the room that is looked at: by units, what so many are worth at most
  std::vector<std::uint8_t> taken_;       ///< of that room, per storage and units: what of its pair is in it
  std::vector<std::vector<Pair>> pairs_;  ///< per stage
  Prices best_prices_;
  double best_ = 0;
  std::vector<double> shares_, to_go_;
};

}  // namespace tidemark::decide::flat
