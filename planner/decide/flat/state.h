#pragma once
// A schedule under change: which ops run again in which stage, which uses are paged in for, and from that, kept up to
// date with every change, the memory profile and the cost. Every change can be taken back.
//
// A storage has *starts* (runs of its writer, pages in, or its one begin) and *uses* (runs that read it, pins). It is
// resident from each start to the last use before the next start; where pages take time, also while they are copied.

#include <cstdint>
#include <vector>

#include "planner/decide/flat/problem.h"
#include "planner/decide/flat/profile.h"
#include "planner/decide/flat/run_order.h"

namespace tidemark::decide::flat {

struct Swap {
  std::int32_t storage = 0;
  Key use = 0;  ///< back when this run needs it
  friend bool operator==(const Swap&, const Swap&) = default;
};

/// A schedule in brief: everything else follows.
struct Solution {
  std::vector<Key> reruns;  ///< ascending
  std::vector<Swap> swaps;  ///< by storage, then use
  Bytes peak_bytes = 0;
  std::int64_t added_cost = 0;
};

class State {
 public:
  explicit State(const Problem& problem, Bytes budget);

  [[nodiscard]] const Problem& problem() const { return *problem_; }
  [[nodiscard]] const Profile& profile() const { return profile_; }
  void set_budget(Bytes budget) { profile_.set_budget(budget); }
  [[nodiscard]] std::int64_t added_cost() const { return added_cost_; }
  [[nodiscard]] const std::vector<Key>& reruns() const { return reruns_; }
  [[nodiscard]] const std::vector<Swap>& swaps() const { return swaps_; }
  [[nodiscard]] bool runs_at(Key key) const;
  [[nodiscard]] const std::vector<Key>& starts(std::int32_t storage) const { return starts_[index(storage)]; }
  [[nodiscard]] const std::vector<Key>& uses(std::int32_t storage) const { return uses_[index(storage)]; }

  /// REQUIRES: the problem allows it and there is no such run.
  void insert_rerun(Key key);
  /// Pages in for its reads go with it. REQUIRES: there is such a rerun.
  void erase_rerun(Key key);
  /// REQUIRES: the run at swap.use reads the storage, may swap it, and does not page it in yet.
  void insert_swap(const Swap& swap);
  void erase_swap(const Swap& swap);
  [[nodiscard]] bool may_swap(const Swap& swap) const;

  /// Nothing is served by this rerun: nothing reads what it makes, and no page comes in with it, which others may read.
  /// REQUIRES: there is such a rerun.
  [[nodiscard]] bool is_useless(Key rerun) const;
  /// Last use or start of a storage before a key, and the next use from it on (0: none).
  struct Gap {
    Key from = 0, until = 0;
  };
  [[nodiscard]] Gap gap_around(std::int32_t storage, Key key) const;

  /// Changes since the last mark are kept, or those behind the first `size` of them taken back.
  void mark() { log_.clear(); }
  [[nodiscard]] std::size_t changes() const { return log_.size(); }
  void roll_back(std::size_t size = 0);

  [[nodiscard]] Solution solution() const;
  /// Becomes that schedule.
  void load(const Solution& solution);

 private:
  struct Change {
    bool inserted = false;
    bool is_swap = false;
    std::int32_t storage = 0;
    Key key = 0;
  };
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  /// A storage is not in memory at lo <= key < hi; lo >= hi: it is there all the time.
  struct Absence {
    Key lo = 0, hi = 0;
  };
  [[nodiscard]] Absence absence(std::int32_t storage, Key last_touch, Key next_start) const;
  void add(const Absence& absence, Bytes delta);
  void add_for_start(std::int32_t storage, Key key, Key previous, Key limit, Bytes bytes);
  void add_for_use(std::int32_t storage, Key key, Bytes bytes);
  void rebuild(const Solution& solution, Bytes budget);
  void rebuild_profile(Bytes budget);
  void do_insert_rerun(Key key);
  void do_erase_rerun(Key key);
  void do_insert_swap(const Swap& swap);
  void do_erase_swap(const Swap& swap);
  void insert_start(std::int32_t storage, Key key);
  void erase_start(std::int32_t storage, Key key);
  void insert_use(std::int32_t storage, Key key);
  void erase_use(std::int32_t storage, Key key);
  [[nodiscard]] Bytes bytes_between(Key key) const;
  /// A storage that the run reads is swapped in for it.
  [[nodiscard]] bool carries_page(Key run) const;

  const Problem* problem_;
  Profile profile_;
  std::vector<std::vector<Key>> starts_, uses_;
  std::vector<std::int32_t> swaps_of_;  ///< per storage
  std::vector<Key> reruns_;
  std::vector<Swap> swaps_;
  std::int64_t added_cost_ = 0;
  std::vector<Change> log_;
};

/// The schedule in full, for the checker and for people.
[[nodiscard]] RunOrder schedule_of(const State& state);
[[nodiscard]] RunOrder schedule_of(const Problem& problem, const Solution& solution);

}  // namespace tidemark::decide::flat
