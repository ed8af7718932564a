#include "planner/decide/flat/exact.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/decide/flat/relaxation.h"

namespace tidemark::decide::flat {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// Of the cost of all ops. Terms of a bound come to some tens of that, and there are some 1e5 of them, each off by
/// 1e-16 of it (IEEE 754 doubles).
constexpr double kRounding = 1e-9;

/// A set of storages.
struct Mask {
  std::uint64_t low = 0, high = 0;

  [[nodiscard]] bool has(std::int32_t i) const { return ((i < 64 ? low >> i : high >> (i - 64)) & 1) != 0; }
  void add(std::int32_t i) { (i < 64 ? low : high) |= std::uint64_t{1} << (i % 64); }
  void remove(std::int32_t i) { (i < 64 ? low : high) &= ~(std::uint64_t{1} << (i % 64)); }
  [[nodiscard]] bool empty() const { return (low | high) == 0; }
  friend Mask operator|(Mask a, Mask b) { return {a.low | b.low, a.high | b.high}; }
  friend Mask operator&(Mask a, Mask b) { return {a.low & b.low, a.high & b.high}; }
  friend Mask operator-(Mask a, Mask b) { return {a.low & ~b.low, a.high & ~b.high}; }
  friend auto operator<=>(const Mask&, const Mask&) = default;

  template <class Body>
  void for_each(Body&& body) const {
    for (std::uint64_t m = low; m != 0; m &= m - 1) body(std::countr_zero(m));
    for (std::uint64_t m = high; m != 0; m &= m - 1) body(64 + std::countr_zero(m));
  }
};

struct Place {
  std::int32_t next = 0;  ///< op that runs for the first time next
  Mask resident;
  Mask outside;  ///< a copy is outside that is still good
  friend bool operator==(const Place&, const Place&) = default;
};

std::size_t hash_of(const Place& place) {
  std::uint64_t hash = static_cast<std::uint64_t>(place.next);
  for (const std::uint64_t word : {place.resident.low, place.resident.high, place.outside.low, place.outside.high}) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;  // the golden ratio: Knuth, The Art of Computer Programming 6.4
    hash ^= hash >> 29;
  }
  return static_cast<std::size_t>(hash);
}

/// A place, and how it was reached at its least cost so far.
struct Reached {
  Place place;
  std::int64_t cost = 0;
  double least = 0;  ///< of a whole schedule through it
  std::int32_t from = -1, op = -1;
  bool done = false;
  Mask fresh;  ///< made again in this stage by an op that makes nothing else, and not read since
};

/// Places by what they are.
class Places {
 public:
  std::vector<Reached> all;

  /// Its number; a new one is the last of all.
  std::int32_t find_or_add(const Place& place) {
    if (2 * (all.size() + 1) > slots_.size()) grow();
    const std::size_t hash = hash_of(place);
    std::size_t slot = hash & (slots_.size() - 1);
    for (; slots_[slot].place >= 0; slot = (slot + 1) & (slots_.size() - 1))
      if (slots_[slot].mark == mark_of(hash) && all[at(slots_[slot].place)].place == place) return slots_[slot].place;
    slots_[slot] = {.place = static_cast<std::int32_t>(all.size()), .mark = mark_of(hash)};
    all.push_back({.place = place});
    return slots_[slot].place;
  }

 private:
  struct Slot {
    std::int32_t place = -1;
    std::uint32_t mark = 0;  ///< most others are told apart by it, without a look at the place
  };
  static std::uint32_t mark_of(std::size_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

  void grow() {
    slots_.assign(std::max<std::size_t>(1024, 2 * slots_.size()), {});
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t hash = hash_of(all[i].place);
      std::size_t slot = hash & (slots_.size() - 1);
      while (slots_[slot].place >= 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = {.place = static_cast<std::int32_t>(i), .mark = mark_of(hash)};
    }
  }

  std::vector<Slot> slots_;
};

class Exact {
 public:
  Exact(const Problem& problem, Bytes budget, const ExactLimits& limits)
      : p_(problem),
        budget_(budget),
        limits_(limits),
        most_added_(limits.most_added),
        rounding_(kRounding * static_cast<double>(problem.total_cost())),
        relaxed_(problem, budget) {
    for (std::int32_t v = 0; v < p_.op_count; ++v) {
      reads_.push_back(mask_of(p_.reads[v]));
      writes_.push_back(mask_of(p_.writes[v]));
      must_.push_back(mask_of(relaxed_.needs(v)));
    }
    unit_ = unit_of_costs(p_);
    if (most_added_ < kAnyAddedCost && most_added_ >= 0) most_added_ -= most_added_ % unit_;
    later_.resize(at(p_.op_count) + 1);
    begun_.resize(at(p_.op_count) + 1);
    for (std::int32_t v = p_.op_count - 1; v >= 0; --v) later_[at(v)] = later_[at(v) + 1] | must_[at(v)];
    for (std::int32_t s = 0; s < p_.storage_count; ++s) {
      if (p_.swappable[at(s)] != 0 || p_.producer[at(s)] < 0) continue;
      remade_.add(s);
      for (std::int32_t t = p_.producer[at(s)] + 1; t <= p_.op_count; ++t) begun_[at(t)].add(s);
    }
    // Changed in place and not resident from the start: there from its first write on.
    for (std::int32_t s = 0; s < p_.storage_count; ++s)
      if (p_.producer[at(s)] < 0) fixed_.add(s);
  }

  /// A short search by prices per byte first, which often do; then by prices per storage, which take longer to find.
  ExactAnswer solve() {
    guide(MemoryPrices::per_byte);
    const bool is_bounded = limits_.most_added < kAnyAddedCost && limits_.storage_ascents > 0;
    most_work_ = is_bounded ? std::min(limits_.first_work, limits_.most_work) : limits_.most_work;
    ExactAnswer first = search();
    if (first.status != ExactStatus::open || !is_bounded || is_stopped_ || work_ > limits_.most_work) return first;
    guide(MemoryPrices::per_storage);
    most_work_ = limits_.most_work;
    queue_ = {};
    places_ = {};
    is_over_ = false;
    ExactAnswer answer = search();
    answer.states += first.states;
    if (answer.status != ExactStatus::none)
      answer.least_added_cost = std::max(answer.least_added_cost, first.least_added_cost);
    if (first.schedule.order.empty() || !answer.schedule.order.empty()) return answer;
    // Nothing is cheaper than what the first search came to, or not so far.
    answer.schedule = std::move(first.schedule);
    answer.added_cost = first.added_cost;
    if (answer.status == ExactStatus::none) answer.status = ExactStatus::found;
    answer.least_added_cost = std::min(answer.least_added_cost, answer.added_cost);
    return answer;
  }

 private:
  static constexpr int kRounds = 2;          // of ascents by prices per byte
  static constexpr int kStorageRounds = 10;  // at most, by prices per storage
  static constexpr double kLeastGain = 0.1;  // of what is missing; less, and the next ascent takes shorter steps
  static constexpr double kShorter = 0.2;

  ExactAnswer search() {
    Place start;
    for (std::int32_t s = 0; s < p_.storage_count; ++s)
      if (relaxed_.born(s) < 0 && useful_[0].has(s)) start.resident.add(s);
    reach(start, {.cost = 0, .least = 0, .from = -1, .op = -1}, relaxed_to_go(start));
    ExactAnswer answer{.status = ExactStatus::none};
    std::int32_t end = -1;
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      Reached& reached = places_.all[at(entry.place)];
      if (reached.done || reached.cost != entry.cost) {
        queue_.pop();
        continue;
      }
      if (is_too_dear(entry.least)) break;  // and so is all that follows
      if (is_over()) break;                 // ways that were not looked at may have led below what comes next
      if (end < 0) answer.least_added_cost = std::max(answer.least_added_cost, whole(entry.least));
      queue_.pop();
      reached.done = true;
      if (reached.place.next < p_.op_count) {
        expand(entry.place);
        continue;
      }
      // Bounds are rounded, so what follows may still be cheaper.
      end = entry.place;
      most_added_ = entry.cost - unit_;
    }
    if (is_over_) answer.status = ExactStatus::open;
    if (end >= 0) {
      fill(answer, end);
      if (answer.status == ExactStatus::none) {
        answer.status = ExactStatus::found;
        answer.least_added_cost = answer.added_cost;
      }
    }
    if (answer.status == ExactStatus::none) answer.least_added_cost = limits_.most_added + 1;
    answer.states = std::ssize(places_.all);
    answer.work = work_;
    return answer;
  }

  struct Entry {
    double least = 0;
    std::int64_t cost = 0;
    std::int32_t next = 0, place = 0;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {  // of equal bound the furthest
      return std::tuple(a.least, -a.next, -a.place) > std::tuple(b.least, -b.next, -b.place);
    }
  };

  static Mask mask_of(std::span<const std::int32_t> storages) {
    Mask mask;
    for (const std::int32_t s : storages) mask.add(s);
    return mask;
  }
  /// Prices for the relaxation, and what is too dear for any schedule that is looked for.
  void guide(MemoryPrices prices) {
    const bool per_storage = prices == MemoryPrices::per_storage;
    const bool is_bounded = limits_.most_added < kAnyAddedCost;
    double target = static_cast<double>(limits_.likely_added < 0 ? p_.total_cost() : limits_.likely_added) + 0.5;
    const auto most = static_cast<double>(most_added_);
    // A bound that rules out all that is looked for is enough.
    if (is_bounded) target = std::min(target, most + 1 + 2e-6 * std::abs(most) + 2 * rounding_);
    double step = 1;
    for (int round = 0; round < (per_storage ? kStorageRounds : kRounds); ++round) {
      const double before = relaxed_.bound();
      relaxed_.ascend({.target = target,
                       .iterations = per_storage ? limits_.storage_ascents : limits_.ascents,
                       .step = step,
                       .prices = prices,
                       .should_stop = limits_.should_stop});
      if (!is_bounded || is_too_dear(relaxed_.bound())) break;
      // The same steps once more would end where these did.
      if (per_storage && relaxed_.bound() - before < kLeastGain * (target - before)) step *= kShorter;
      relaxed_.rule_out(most + rounding_);
    }
    useful_.assign(at(p_.op_count) + 1, Mask{});
    for (std::int32_t s = 0; s < p_.storage_count; ++s)
      for (std::int32_t t = 0; t <= relaxed_.useful_until(s); ++t) useful_[at(t)].add(s);
  }
  /// All schedules cost multiples of it.
  [[nodiscard]] static std::int64_t unit_of_costs(const Problem& p) {
    std::int64_t unit = 0;
    for (const std::vector<std::int64_t>* costs : {&p.cost, &p.page_in, &p.page_out})
      for (const std::int64_t cost : *costs) unit = std::gcd(unit, cost);
    return std::max<std::int64_t>(unit, 1);
  }
  [[nodiscard]] Bytes bytes_of(Mask mask) const {
    Bytes bytes = 0;
    mask.for_each([&](std::int32_t s) { bytes += p_.bytes[at(s)]; });
    return bytes;
  }
  /// The bound less what rounding may have added to it.
  [[nodiscard]] double surely(double bound) const { return bound - 1e-6 * std::abs(bound) - 1e-6 - rounding_; }
  /// The least cost of a schedule that is not below.
  [[nodiscard]] std::int64_t whole(double bound) const {
    constexpr double kMost = 4e18;
    if (bound >= kMost) return std::numeric_limits<std::int64_t>::max();
    const auto cost = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(surely(bound))));
    return (cost + unit_ - 1) / unit_ * unit_;
  }
  [[nodiscard]] bool is_too_dear(double bound) const { return surely(bound) > static_cast<double>(most_added_); }
  [[nodiscard]] bool is_over() {
    if (std::ssize(places_.all) > limits_.most_states) is_over_ = true;
    if (++asked_ % 256 == 0 && limits_.should_stop && limits_.should_stop()) is_over_ = is_stopped_ = true;
    return is_over_;
  }

  /// What is added from there on, at least: by the relaxation.
  [[nodiscard]] double relaxed_to_go(const Place& place) const {
    double sum = relaxed_.to_go(place.next);
    for (std::int32_t s = 0; s < p_.storage_count; ++s)
      if (relaxed_.born(s) < place.next) sum += relaxed_.shares(place.next, s)[state_of(place, s)];
    return sum;
  }
  /// What the shares of pairs of storages take off too much.
  [[nodiscard]] double both_there(const Place& place) const {
    double sum = 0;
    for (const Relaxation::Pair& pair : relaxed_.pairs(place.next))
      if (place.resident.has(pair.made) && place.resident.has(pair.input)) sum += pair.price;
    return sum;
  }
  /// What is needed later and gone is made again at least once, and so is what that takes and is gone.
  [[nodiscard]] std::int64_t must_be_remade(const Place& place) const {
    Mask gone = (later_[at(place.next)] & remade_ & begun_[at(place.next)]) - place.resident;
    std::int64_t cost = 0;
    for (std::int32_t v = place.next - 1; v >= 0 && !gone.empty(); --v) {
      if ((writes_[at(v)] & gone).empty()) continue;
      cost += p_.cost[at(v)];
      gone = (gone | ((reads_[at(v)] & remade_) - place.resident)) - writes_[at(v)];
    }
    return cost;
  }
  static std::int32_t state_of(const Place& place, std::int32_t s) {
    return (place.resident.has(s) ? Relaxation::kResident : 0) | (place.outside.has(s) ? Relaxation::kOutside : 0);
  }

  /// `least` is added at least by any schedule that goes on from there, what it has cost included.
  void reach(const Place& place, Reached by, double least) {
    by.least = std::max(by.least, least);
    if (by.cost > most_added_ || is_too_dear(by.least)) return;
    const std::int32_t number = places_.find_or_add(place);
    Reached& reached = places_.all[at(number)];
    if (reached.op >= 0 && reached.cost == by.cost) {
      // What holds for some way here only must not rule out what others go on to.
      const Mask fresh = reached.fresh & by.fresh;
      if (fresh == reached.fresh) return;
      by = reached;
      by.fresh = fresh;
      by.done = false;
    }
    if (reached.op >= 0 && reached.cost < by.cost) return;
    by.place = place;
    reached = by;
    queue_.push({.least = by.least, .cost = by.cost, .next = place.next, .place = number});
  }

  void expand(std::int32_t number) {
    const Reached from = places_.all[at(number)];
    run(number, from, from.place.next);
    for (std::int32_t v = 0; v < from.place.next; ++v) {
      if (!relaxed_.may_recompute(v, from.place.next)) continue;
      const Mask made = (writes_[at(v)] - from.place.resident) & useful_[at(from.place.next)];
      const Mask brought = (reads_[at(v)] & from.place.outside) - from.place.resident;  // only a read swaps in
      if (!made.empty() || !brought.empty()) run(number, from, v);
    }
  }

  /// Runs an op, in every way that makes the room it needs.
  void run(std::int32_t number, const Reached& from, std::int32_t v) {
    const Place& place = from.place;
    const bool first = v == place.next;
    const Mask needed = first ? must_[at(v)] : reads_[at(v)];
    const Mask missing = needed - place.resident;
    // Only what the op reads itself may be swapped in for it.
    if (!(missing - (place.outside & reads_[at(v)])).empty()) return;
    // What is changed in place is there between its touches, or swapped in for a read.
    bool broken = false;
    (((writes_[at(v)] - reads_[at(v)]) - place.resident) & fixed_).for_each([&](std::int32_t s) {
      broken |= p_.begin[at(s)] < key_of(place.next, v);
    });
    if (broken) return;
    Reached by{.cost = from.cost + (first ? 0 : p_.cost[at(v)]), .least = from.least, .from = number, .op = v};
    Place with{.next = place.next, .outside = place.outside};
    missing.for_each([&](std::int32_t s) {
      by.cost += p_.page_in[at(s)];
      if (p_.changed[at(s)] != 0) with.outside.remove(s);
    });
    const Mask touched = needed | writes_[at(v)];
    with.resident = (place.resident & useful_[at(place.next + (first ? 1 : 0))]) | touched;
    const Bytes above = bytes_of(with.resident) + p_.transient[at(v)] - budget_;
    if (first) ++with.next;
    writes_[at(v)].for_each([&](std::int32_t s) {
      if (p_.changed[at(s)] != 0) with.outside.remove(s);
    });
    with.resident = with.resident & useful_[at(with.next)];
    const Mask unread = from.fresh - needed;
    if (!first) by.fresh = p_.writes[v].size() == 1 ? unread | writes_[at(v)] : unread;
    unread_ = first ? unread : Mask{};
    droppable_.clear();
    Bytes most = 0;
    ((with.resident - touched) - (swaps_ ? Mask{} : unread)).for_each([&](std::int32_t s) {
      if (p_.bytes[at(s)] == 0 || !may_drop(s, place.next)) return;
      const double* shares = relaxed_.shares(with.next, s);
      const std::int32_t outside = with.outside.has(s) ? Relaxation::kOutside : 0;
      const double there = shares[outside | Relaxation::kResident];
      Drop drop{.storage = s, .bytes = p_.bytes[at(s)], .loss = shares[outside] - there};
      drop.least_loss = drop.loss;
      if (p_.swappable[at(s)] != 0 && outside == 0) {
        drop.copied_loss = static_cast<double>(p_.page_out[at(s)]) + shares[Relaxation::kOutside] - there;
        drop.least_loss = std::min(drop.loss, drop.copied_loss);
      }
      droppable_.push_back(drop);
      most += p_.bytes[at(s)];
    });
    if (most < above) return;
    // The largest first: whenever the last one is what it takes, none was in vain.
    std::ranges::sort(droppable_, [](const Drop& a, const Drop& b) {
      return std::tuple(-a.bytes, a.least_loss, a.storage) < std::tuple(-b.bytes, b.least_loss, b.storage);
    });
    for (std::size_t i = droppable_.size(); i-- > 0;)
      droppable_[i].from_here = droppable_[i].bytes + (i + 1 < droppable_.size() ? droppable_[i + 1].from_here : 0);
    // What loses least for its bytes first.
    cheapest_.resize(droppable_.size());
    std::iota(cheapest_.begin(), cheapest_.end(), std::size_t{0});
    std::ranges::stable_sort(cheapest_, [&](std::size_t a, std::size_t b) {
      return droppable_[a].least_loss * static_cast<double>(droppable_[b].bytes) <
             droppable_[b].least_loss * static_cast<double>(droppable_[a].bytes);
    });
    make_room(with, 0, above, by, static_cast<double>(by.cost) + relaxed_to_go(with));
  }

  [[nodiscard]] bool may_drop(std::int32_t s, std::int32_t next) const {
    return p_.hold_until[at(s)] == 0 || p_.hold_until[at(s)] < key_of(next, next);
  }

  /// The place is behind a first run. Something was made again before it that nothing has read, and what that took is
  /// still there: it can be made behind it just as well, where it takes no room before.
  [[nodiscard]] bool recomputes_too_early(const Place& place) const {
    bool early = false;
    if (swaps_) return false;  // it may have been made again for what came in with it
    unread_.for_each([&](std::int32_t s) {
      const std::int32_t v = p_.producer[at(s)];
      if (early || place.next >= p_.op_count || !relaxed_.may_recompute(v, place.next)) return;
      if (!(reads_[at(v)] - place.resident).empty()) return;
      early = bytes_of(place.resident | writes_[at(v)]) + p_.transient[at(v)] <= budget_;
    });
    return early;
  }

  /// The least loss of dropping so many bytes of what is droppable from `first` on, one of them in part.
  [[nodiscard]] double loss_in_parts(std::size_t first, Bytes above) const {
    double loss = 0;
    for (const std::size_t i : cheapest_) {
      if (above <= 0) break;
      if (i < first) continue;
      const Drop& drop = droppable_[i];
      loss += drop.bytes <= above ? drop.least_loss
                                  : drop.least_loss * static_cast<double>(above) / static_cast<double>(drop.bytes);
      above -= drop.bytes;
    }
    return loss;
  }

  /// Drops droppable storages until nothing is above the budget, none of them in vain. Any order of drops comes to the
  /// same place, so each is tried in ascending order only.
  void make_room(const Place& place, std::size_t first, Bytes above, const Reached& by, double least) {
    if (++work_ > most_work_) is_over_ = true;
    if (is_over_ || is_too_dear(least + loss_in_parts(first, above))) return;
    const std::int64_t remade = by.cost + must_be_remade(place);
    if (remade > most_added_) return;
    if (above <= 0) {
      if (!recomputes_too_early(place))
        reach(place, by, std::max(least + both_there(place), static_cast<double>(remade)));
      return;
    }
    for (std::size_t i = first; i < droppable_.size() && droppable_[i].from_here >= above; ++i) {
      if (is_too_dear(least + loss_in_parts(i, above))) return;  // nor is there more to choose from behind it
      const Drop& drop = droppable_[i];
      const std::int32_t s = drop.storage;
      Place without = place;
      without.resident.remove(s);
      const Bytes left = above - drop.bytes;
      const bool is_outside = place.outside.has(s);
      make_room(without, i + 1, left, by, least + drop.loss);
      if (p_.swappable[at(s)] == 0 || is_outside) continue;
      Reached copied = by;
      copied.cost += p_.page_out[at(s)];
      without.outside.add(s);
      make_room(without, i + 1, left, copied, least + drop.copied_loss);
    }
  }

  void fill(ExactAnswer& answer, std::int32_t end) const {
    answer.added_cost = places_.all[at(end)].cost;
    std::vector<std::int32_t> path;
    for (std::int32_t i = end; places_.all[at(i)].from >= 0; i = places_.all[at(i)].from) path.push_back(i);
    std::ranges::reverse(path);
    std::vector<std::int32_t> touched(at(p_.storage_count), 0);
    for (const std::int32_t i : path) {
      const Reached& step = places_.all[at(i)];
      const Place& before = places_.all[at(step.from)].place;
      const auto position = static_cast<std::int32_t>(answer.schedule.order.size());
      answer.schedule.order.push_back(step.op);
      // A pin counts as a touch of the run that ends it.
      const Mask needed = before.next == step.op ? must_[at(step.op)] : reads_[at(step.op)];
      (needed - before.resident).for_each([&](std::int32_t s) {
        answer.schedule.swaps.push_back(
            {.storage = s, .after = touched[at(s)], .before = position, .gone = touched[at(s)] + 1, .back = position});
      });
      (needed | writes_[at(step.op)]).for_each([&](std::int32_t s) { touched[at(s)] = position; });
    }
    std::ranges::sort(answer.schedule.swaps, {}, [](const RunOrder::Swap& s) { return std::pair(s.storage, s.after); });
  }

  struct Drop {
    std::int32_t storage = 0;
    Bytes bytes = 0;
    double loss = 0;         ///< of the bound
    double copied_loss = 0;  ///< the same where it is copied out
    double least_loss = 0;   ///< of both
    Bytes from_here = 0;     ///< of this and all that follow
  };

  const Problem& p_;
  Bytes budget_;
  const ExactLimits& limits_;
  std::int64_t most_added_;  ///< less once a schedule is found
  double rounding_;          ///< sums of prices and their products are off by less
  Relaxation relaxed_;
  std::vector<Mask> reads_, writes_, must_;
  std::vector<Mask> useful_;  ///< per stage
  std::vector<Mask> later_;   ///< per stage: what first runs from there on need
  std::vector<Mask> begun_;   ///< per stage: of remade_, what was made before
  Mask remade_;               ///< comes back by a run of its writer only
  Mask fixed_;
  const bool swaps_ = std::ranges::any_of(p_.swappable, [](std::uint8_t swappable) { return swappable != 0; });
  std::int64_t work_ = 0, asked_ = 0, most_work_ = 0;
  std::int64_t unit_ = 1;
  bool is_over_ = false, is_stopped_ = false;
  std::vector<Drop> droppable_;        ///< by the run under way
  std::vector<std::size_t> cheapest_;  ///< of droppable_
  Mask unread_;                        ///< by the first run under way, and before
  Places places_;
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_;
};

}  // namespace

ExactAnswer solve_exactly(const Problem& problem, Bytes budget, const ExactLimits& limits) {
  if (problem.storage_count > kMostExactStorages) return {};
  if (limits.most_added < 0) return {.status = ExactStatus::none};  // no schedule takes anything off
  return Exact(problem, budget, limits).solve();
}

}  // namespace tidemark::decide::flat
