#include "planner/decide/flat/exact.h"

#include <algorithm>
#include <bit>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

namespace tidemark::decide::flat {
namespace {

using Mask = std::uint64_t;

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}
Mask bit(std::int32_t i) {
  return Mask{1} << i;
}

struct Place {
  std::int32_t next = 0;  ///< op that runs for the first time next
  Mask resident = 0;
  Mask outside = 0;  ///< a copy is outside that is still good
  friend auto operator<=>(const Place&, const Place&) = default;
};

/// How a place was reached at its least cost so far.
struct Step {
  std::int64_t cost = 0;
  const Place* from = nullptr;
  std::int32_t op = -1;
  Mask paged_in = 0;
  bool done = false;
};

class Exact {
 public:
  Exact(const Problem& problem, Bytes budget, std::int64_t most_added, std::int64_t most_work)
      : p_(problem), budget_(budget), most_added_(most_added), most_work_(most_work) {
    for (std::int32_t v = 0; v < p_.op_count; ++v) {
      reads_.push_back(mask_of(p_.reads[v]));
      writes_.push_back(mask_of(p_.writes[v]));
      must_.push_back(reads_.back());
    }
    for (std::int32_t s = 0; s < p_.storage_count; ++s) {
      last_use_.push_back(p_.uses[at(s)].empty() ? 0 : stage_of(p_.uses[at(s)].back()));
      for (const Key use : p_.uses[at(s)]) {
        const std::int32_t v = stage_of(use);
        if ((writes_[at(v)] & bit(s)) == 0) must_[at(v)] |= bit(s);  // a read, or a pin
      }
      // Changed in place and not resident from the start: there from its first write on.
      if (p_.producer[at(s)] < 0) fixed_ |= bit(s);
    }
  }

  std::optional<ExactAnswer> solve() {
    Place start;
    for (std::int32_t s = 0; s < p_.storage_count; ++s)
      if (p_.begin[at(s)] == kStart && p_.producer[at(s)] < 0 && !written_first(s)) start.resident |= bit(s);
    reach(start, {});
    while (!queue_.empty()) {
      const auto [cost, place] = queue_.top();
      queue_.pop();
      Step& step = steps_.find(*place)->second;
      if (step.done || step.cost != cost) continue;
      if (place->next == p_.op_count) return answer(*place, cost);
      step.done = true;
      if (work_ > most_work_) return std::nullopt;
      expand(*place, cost);
    }
    return ExactAnswer{};
  }

  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  using Entry = std::pair<std::int64_t, const Place*>;
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return std::tie(a.first, *b.second) > std::tie(b.first, *a.second);  // of equal cost the furthest
    }
  };

  static Mask mask_of(std::span<const std::int32_t> storages) {
    Mask mask = 0;
    for (const std::int32_t s : storages) mask |= bit(s);
    return mask;
  }
  [[nodiscard]] bool written_first(std::int32_t s) const {
    return p_.op_count > 0 && (writes_[0] & bit(s)) != 0 && (reads_[0] & bit(s)) == 0;
  }
  [[nodiscard]] Bytes bytes_of(Mask mask) const {
    Bytes bytes = 0;
    for (; mask != 0; mask &= mask - 1) bytes += p_.bytes[at(std::countr_zero(mask))];
    return bytes;
  }

  void reach(const Place& place, const Step& step) {
    if (step.cost > most_added_) return;
    const auto [found, is_new] = steps_.try_emplace(place, step);
    if (!is_new) {
      if (found->second.done || found->second.cost <= step.cost) return;
      found->second = step;
    }
    queue_.push({step.cost, &found->first});
  }

  void expand(const Place& place, std::int64_t cost) {
    run(place, cost, place.next);
    for (std::int32_t v = 0; v < place.next; ++v)
      if ((writes_[at(v)] & ~place.resident) != 0 && p_.may_rerun(v, place.next)) run(place, cost + p_.cost[at(v)], v);
  }

  /// Runs an op, in every way that makes the room it needs.
  void run(const Place& place, std::int64_t cost, std::int32_t v) {
    const bool first = v == place.next;
    const Mask needed = first ? must_[at(v)] : reads_[at(v)];
    const Mask missing = needed & ~place.resident;
    // Only what the op reads itself may be paged in for it.
    if ((missing & ~(place.outside & reads_[at(v)])) != 0) return;
    // What is changed in place is there between its touches, or paged in for a read.
    for (Mask m = writes_[at(v)] & ~reads_[at(v)] & ~place.resident & fixed_; m != 0; m &= m - 1)
      if (p_.begin[at(std::countr_zero(m))] < key_of(place.next, v)) return;
    Mask outside = place.outside;
    for (Mask m = missing; m != 0; m &= m - 1) {
      const auto s = std::countr_zero(m);
      cost += p_.page_in[at(s)];
      if (p_.changed[at(s)] != 0) outside &= ~bit(s);
    }
    const Place with{.next = place.next, .resident = place.resident | needed | writes_[at(v)], .outside = outside};
    Mask droppable = 0;
    for (Mask m = place.resident & ~needed & ~writes_[at(v)]; m != 0; m &= m - 1)
      if (may_drop(std::countr_zero(m), place.next)) droppable |= m & -m;
    make_room(with, bytes_of(with.resident) + p_.transient[at(v)] - budget_, droppable,
              {.cost = cost, .from = &steps_.find(place)->first, .op = v, .paged_in = missing});
  }

  [[nodiscard]] bool may_drop(std::int32_t s, std::int32_t next) const {
    if (p_.hold_until[at(s)] >= key_of(next, next) && p_.hold_until[at(s)] > 0) return false;
    return p_.producer[at(s)] >= 0 || last_use_[at(s)] < next || p_.swappable[at(s)] != 0;
  }

  /// Drops droppable storages until nothing is above the budget. Any order of drops comes to the same place, so each is
  /// tried in ascending order only.
  void make_room(const Place& place, Bytes above, Mask droppable, const Step& step) {
    if (++work_ > most_work_) return;
    if (above <= 0) {
      Place after = place;
      if (step.op == place.next) ++after.next;
      for (Mask m = writes_[at(step.op)]; m != 0; m &= m - 1)
        if (p_.changed[at(std::countr_zero(m))] != 0) after.outside &= ~(m & -m);
      reach(after, step);
      return;
    }
    if (bytes_of(droppable) < above) return;
    for (Mask m = droppable; m != 0; m &= m - 1) {
      const auto s = std::countr_zero(m);
      const Mask rest = m & (m - 1);
      Place without = place;
      without.resident &= ~bit(s);
      const bool lost_for_good = (fixed_ & bit(s)) != 0 && last_use_[at(s)] >= place.next;
      if (!lost_for_good || (place.outside & bit(s)) != 0) make_room(without, above - p_.bytes[at(s)], rest, step);
      if (p_.swappable[at(s)] == 0 || (place.outside & bit(s)) != 0) continue;
      Step paged = step;
      paged.cost += p_.page_out[at(s)];
      without.outside |= bit(s);
      make_room(without, above - p_.bytes[at(s)], rest, paged);
    }
  }

  [[nodiscard]] ExactAnswer answer(const Place& end, std::int64_t cost) const {
    std::vector<const Step*> path;
    for (const Step* step = &steps_.at(end); step->from != nullptr; step = &steps_.at(*step->from))
      path.push_back(step);
    std::ranges::reverse(path);
    ExactAnswer answer{.feasible = true, .added_cost = cost};
    std::vector<std::int32_t> touched(at(p_.storage_count), 0);
    for (const Step* step : path) {
      const auto position = static_cast<std::int32_t>(answer.schedule.order.size());
      answer.schedule.order.push_back(step->op);
      for (Mask m = step->paged_in; m != 0; m &= m - 1) {
        const auto s = std::countr_zero(m);
        answer.schedule.swaps.push_back({.storage = s, .after = touched[at(s)], .before = position});
      }
      // A pin counts as a touch of the run that ends it.
      const Mask needed = step->from->next == step->op ? must_[at(step->op)] : reads_[at(step->op)];
      const Mask touches = needed | writes_[at(step->op)];
      for (Mask m = touches; m != 0; m &= m - 1) touched[at(std::countr_zero(m))] = position;
    }
    std::ranges::sort(answer.schedule.swaps, {}, [](const RunOrder::Swap& s) { return std::pair(s.storage, s.after); });
    return answer;
  }

  const Problem& p_;
  Bytes budget_;
  std::int64_t most_added_, most_work_, work_ = 0;
  std::vector<Mask> reads_, writes_, must_;
  std::vector<std::int32_t> last_use_;
  Mask fixed_ = 0;
  std::map<Place, Step> steps_;  // nodes stay where they are
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_;
};

}  // namespace

std::optional<ExactAnswer> solve_exactly(const Problem& problem, Bytes budget, std::int64_t most_added,
                                         std::int64_t most_work, std::int64_t* work) {
  if (problem.storage_count > 64) return std::nullopt;
  Exact exact(problem, budget, most_added, most_work);
  std::optional<ExactAnswer> answer = exact.solve();
  if (work != nullptr) *work += exact.work();
  return answer;
}

}  // namespace tidemark::decide::flat
