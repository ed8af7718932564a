#include "core/op_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "core/link_replay.h"

namespace tidemark {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// [begin, end]: positions, both included.
struct Stay {
  std::int32_t storage = 0;
  std::int32_t begin = 0, end = 0;
};

/// What the list alone says of a storage.
struct StorageFacts {
  std::vector<std::int32_t> writers;  ///< op indices, ascending
  bool from_start = false;
  bool touched = false;
  [[nodiscard]] bool is_result() const { return !from_start && writers.size() == 1; }
};

std::vector<StorageFacts> facts_of(const OpList& list) {
  std::vector<StorageFacts> facts(list.storages.size());
  for (std::size_t v = 0; v < list.ops.size(); ++v) {
    for (const std::int32_t s : list.ops[v].reads) {
      if (!facts[at(s)].touched) facts[at(s)].from_start = true;
      facts[at(s)].touched = true;
    }
    for (const std::int32_t s : list.ops[v].writes) {
      facts[at(s)].writers.push_back(static_cast<std::int32_t>(v));
      facts[at(s)].touched = true;
    }
  }
  return facts;
}

class Replayer {
 public:
  Replayer(const OpList& list, const OpSchedule& schedule, RecomputeRules rules)
      : list_(list), schedule_(schedule), rules_(rules), facts_(facts_of(list)), touches_(list.storages.size()) {}

  std::string check() {
    if (std::string fault = check_first_runs(); !fault.empty()) return fault;
    for (std::size_t p = 0; p < schedule_.order.size(); ++p) {
      if (std::string fault = check_run(static_cast<std::int32_t>(p)); !fault.empty()) return fault;
      const OpList::Op& op = list_.ops[at(schedule_.order[p])];
      for (const auto* touched : {&op.reads, &op.writes})
        for (const std::int32_t s : *touched) {
          auto& touches = touches_[at(s)];
          if (touches.empty() || touches.back() != static_cast<std::int32_t>(p))
            touches.push_back(static_cast<std::int32_t>(p));
        }
    }
    return check_swaps();
  }

  /// REQUIRES: check found no fault.
  [[nodiscard]] std::vector<Stay> stays() const {
    std::vector<Stay> stays;
    const auto last = static_cast<std::int32_t>(schedule_.order.size()) - 1;
    for (std::size_t s = 0; s < list_.storages.size(); ++s) {
      const auto storage = static_cast<std::int32_t>(s);
      const OpList::Storage& row = list_.storages[s];
      const std::int32_t held = row.pinned_until >= 0 ? first_run_[at(row.pinned_until)] : -1;
      const std::int32_t pin = row.until_end ? last : held;
      if (touches_[s].empty()) {
        if (pin >= 0) stays.push_back({.storage = storage, .begin = 0, .end = pin});
        continue;
      }
      std::int32_t begin = facts_[s].from_start ? 0 : touches_[s].front();
      std::int32_t end = begin;
      for (const std::int32_t p : touches_[s]) {
        if (facts_[s].is_result() && p > begin && schedule_.order[at(p)] == facts_[s].writers.front()) {
          // A pin holds whatever run made it: an earlier run is gone only once the pin is over (check_run).
          stays.push_back({.storage = storage, .begin = begin, .end = std::max(end, std::min(held, p - 1))});
          begin = p;
        }
        end = p;
      }
      stays.push_back({.storage = storage, .begin = begin, .end = std::max(end, pin)});
    }
    return stays;
  }

  [[nodiscard]] std::vector<Bytes> profile() const {
    std::vector<Bytes> change(schedule_.order.size() + 1);
    for (const Stay& stay : stays()) {
      const Bytes bytes = list_.storages[at(stay.storage)].bytes;
      change[at(stay.begin)] += bytes;
      change[at(stay.end) + 1] -= bytes;
    }
    for (const OpSchedule::Swap& swap : schedule_.swaps) {
      change[at(swap.gone)] -= list_.storages[at(swap.storage)].bytes;
      change[at(swap.back)] += list_.storages[at(swap.storage)].bytes;
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    change.pop_back();
    for (std::size_t p = 0; p < change.size(); ++p) change[p] += list_.ops[at(schedule_.order[p])].transient_bytes;
    return change;
  }

  [[nodiscard]] std::int64_t cost() const {
    std::int64_t cost = 0;
    for (const std::int32_t v : schedule_.order) cost += list_.ops[at(v)].cost;
    const std::vector<std::uint8_t> changed = changed_storages(list_);
    std::int32_t copied_out = -1;
    for (const OpSchedule::Swap& swap : schedule_.swaps) {
      const OpList::Storage& row = list_.storages[at(swap.storage)];
      cost += row.page_in_cost;
      if (swap.storage != copied_out || changed[at(swap.storage)] != 0) cost += row.page_out_cost;
      copied_out = swap.storage;
    }
    return cost;
  }

 private:
  std::string check_first_runs() {
    first_run_.assign(list_.ops.size(), -1);
    std::int32_t next = 0;
    for (std::size_t p = 0; p < schedule_.order.size(); ++p) {
      const std::int32_t v = schedule_.order[p];
      if (v < 0 || at(v) >= list_.ops.size()) return fmt::format("position {}: there is no op {}", p, v);
      if (v > next) return fmt::format("position {}: op {} runs before op {}", p, v, next);
      if (v == next) first_run_[at(next++)] = static_cast<std::int32_t>(p);
    }
    if (at(next) != list_.ops.size()) return fmt::format("op {} is never run", next);
    if (!first_run_.empty() && at(first_run_.back()) + 1 != schedule_.order.size())
      return fmt::format("position {}: a run behind the last op", first_run_.back() + 1);
    return {};
  }

  /// A second run must be allowed, find what the first one found, and replace what nobody holds.
  [[nodiscard]] std::string check_run(std::int32_t p) const {
    const std::int32_t v = schedule_.order[at(p)];
    if (first_run_[at(v)] == p) return {};
    const OpList::Op& op = list_.ops[at(v)];
    const auto fault = [&](std::string_view why) {
      return fmt::format("position {}: op {} ('{}') runs again {}", p, v, op.name, why);
    };
    if (!rules_.allow(op.recompute)) return fault("and must not");
    for (const std::int32_t s : op.reads)
      for (const std::int32_t w : facts_[at(s)].writers)
        if (w >= v && first_run_[at(w)] < p) return fault(fmt::format("after op {} changed what it reads", w));
    for (const std::int32_t s : op.writes) {
      if (!facts_[at(s)].is_result()) return fault("and changes a storage in place");
      const std::int32_t pin = list_.storages[at(s)].pinned_until;
      if (pin >= 0 && first_run_[at(pin)] >= p) return fault(fmt::format("while storage {} is held", s));
    }
    return {};
  }

  [[nodiscard]] std::string check_swaps() const {
    const OpSchedule::Swap* previous = nullptr;
    for (const OpSchedule::Swap& swap : schedule_.swaps) {
      if (swap.storage < 0 || at(swap.storage) >= list_.storages.size()) return "a page-out of no storage";
      if (std::string fault = fault_of(swap); !fault.empty())
        return fmt::format("page-out of storage {} after position {}: {}", swap.storage, swap.after, fault);
      if (previous != nullptr && std::pair(previous->storage, previous->before) > std::pair(swap.storage, swap.after))
        return "page-outs are out of order or overlap";
      previous = &swap;
    }
    return {};
  }

  [[nodiscard]] std::string fault_of(const OpSchedule::Swap& swap) const {
    const OpList::Storage& row = list_.storages[at(swap.storage)];
    const StorageFacts& facts = facts_[at(swap.storage)];
    const std::vector<std::int32_t>& touches = touches_[at(swap.storage)];
    if (!row.swappable) return "it must stay";
    if (swap.after < 0 || swap.after >= swap.before || at(swap.before) >= schedule_.order.size())
      return "it does not come back later";
    if (swap.gone <= swap.after || swap.gone > swap.back || swap.back > swap.before)
      return "it is gone before it is out of use, or back before it is gone or behind its next use";
    if (row.pinned_until >= 0 && first_run_[at(row.pinned_until)] > swap.after) return "it is held";
    const auto next = std::ranges::upper_bound(touches, swap.after);
    if (next == touches.begin() && !facts.from_start) return "it is not there yet";
    if (next == touches.end() || *next != swap.before) return "the next op that touches it is another one";
    const OpList::Op& op = list_.ops[at(schedule_.order[at(swap.before)])];
    if (!std::ranges::binary_search(op.reads, swap.storage)) return "it is written, not read, when it comes back";
    return {};
  }

  const OpList& list_;
  const OpSchedule& schedule_;
  const RecomputeRules rules_;
  const std::vector<StorageFacts> facts_;
  std::vector<std::int32_t> first_run_;
  std::vector<std::vector<std::int32_t>> touches_;  ///< per storage: positions, ascending
};

}  // namespace

OpSchedule keep_all_schedule(const OpList& list) {
  OpSchedule schedule;
  schedule.order.resize(list.ops.size());
  std::iota(schedule.order.begin(), schedule.order.end(), 0);
  return schedule;
}

ScheduleReplay replay_schedule(const OpList& list, const OpSchedule& schedule, RecomputeRules rules) {
  Replayer replayer(list, schedule, rules);
  ScheduleReplay replay{.fault = replayer.check()};
  if (!replay.fault.empty()) return replay;
  replay.profile = replayer.profile();
  if (const auto peak = std::ranges::max_element(replay.profile); peak != replay.profile.end()) {
    replay.peak_bytes = *peak;
    replay.peak_position = static_cast<std::int32_t>(peak - replay.profile.begin());
  }
  replay.cost = replayer.cost();
  if (list.link) {
    const LinkReplay link = replay_link(list, schedule);
    replay.waited = link.waited;
    replay.cost += link.waited;
    replay.host_peak_bytes = link.host_peak_bytes;
    if (link.host_peak_bytes > list.link->host_bytes) {
      replay.fault = fmt::format("host memory: {} B are paged out at once, {} B may be", link.host_peak_bytes,
                                 list.link->host_bytes);
      return replay;
    }
  }
  replay.added_cost = replay.cost;
  for (const OpList::Op& op : list.ops) replay.added_cost -= op.cost;
  return replay;
}

std::vector<StepResidency> residencies_of(const OpList& list, const OpSchedule& schedule) {
  Replayer replayer(list, schedule, {.random = true, .collective = true});
  std::vector<StepResidency> residencies;
  if (!replayer.check().empty()) return residencies;
  auto swap = schedule.swaps.begin();
  for (const Stay& stay : replayer.stays()) {
    const Bytes bytes = list.storages[at(stay.storage)].bytes;
    const auto add = [&](std::int32_t begin, std::int32_t end) {
      if (begin < end) residencies.push_back({.storage = stay.storage, .begin = begin, .end = end, .bytes = bytes});
    };
    std::int32_t begin = stay.begin;
    while (swap != schedule.swaps.end() && swap->storage < stay.storage) ++swap;
    for (; swap != schedule.swaps.end() && swap->storage == stay.storage && swap->after <= stay.end; ++swap) {
      if (swap->gone == swap->back) continue;
      add(begin, swap->gone);
      begin = swap->back;
    }
    add(begin, stay.end + 1);
  }
  for (std::size_t p = 0; p < schedule.order.size(); ++p) {
    const Bytes bytes = list.ops[at(schedule.order[p])].transient_bytes;
    const auto position = static_cast<std::int32_t>(p);
    if (bytes > 0) residencies.push_back({.begin = position, .end = position + 1, .bytes = bytes});
  }
  return residencies;
}

std::vector<std::int32_t> residents_at(const OpList& list, const OpSchedule& schedule, std::int32_t position) {
  std::vector<std::int32_t> residents;
  for (const StepResidency& one : residencies_of(list, schedule))
    if (one.storage >= 0 && one.begin <= position && position < one.end) residents.push_back(one.storage);
  return residents;
}

}  // namespace tidemark
