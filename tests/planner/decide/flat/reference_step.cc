#include "tests/planner/decide/flat/reference_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tidemark::testing {
namespace {

using decide::flat::RunOrder;

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

bool may_recompute(ReferenceStep::Recompute kind, const decide::flat::RecomputeRules& rules) {
  using Kind = ReferenceStep::Recompute;
  return kind == Kind::pure || (kind == Kind::random && rules.random) || (kind == Kind::collective && rules.collective);
}

/// [begin, end]: positions, both included.
struct Interval {
  std::int32_t storage = 0;
  std::int32_t begin = 0, end = 0;
};

/// What the step alone says of a storage.
struct StorageFacts {
  std::vector<std::int32_t> writers;  ///< ops, ascending
  bool from_start = false;
  bool touched = false;
  [[nodiscard]] bool is_result() const { return !from_start && writers.size() == 1; }
  [[nodiscard]] bool has_versions() const { return writers.size() + (from_start ? 1 : 0) > 1; }
};

std::vector<StorageFacts> facts_of(const ReferenceStep& step) {
  std::vector<StorageFacts> facts(step.storages.size());
  for (std::size_t v = 0; v < step.ops.size(); ++v) {
    for (const std::int32_t s : step.ops[v].reads) {
      if (!facts[at(s)].touched) facts[at(s)].from_start = true;
      facts[at(s)].touched = true;
    }
    for (const std::int32_t s : step.ops[v].writes) {
      facts[at(s)].writers.push_back(static_cast<std::int32_t>(v));
      facts[at(s)].touched = true;
    }
  }
  return facts;
}

/// The rules but for the time of copies.
class Replayer {
 public:
  Replayer(const ReferenceStep& step, const RunOrder& order, decide::flat::RecomputeRules rules)
      : step_(step), order_(order), rules_(rules), facts_(facts_of(step)), touches_(step.storages.size()) {}

  std::string check() {
    if (std::string fault = check_first_runs(); !fault.empty()) return fault;
    for (std::size_t p = 0; p < order_.order.size(); ++p) {
      const auto position = static_cast<std::int32_t>(p);
      if (std::string fault = check_run(position); !fault.empty()) return fault;
      const ReferenceStep::Op& op = step_.ops[at(order_.order[p])];
      for (const auto* touched : {&op.reads, &op.writes})
        for (const std::int32_t s : *touched)
          if (touches_[at(s)].empty() || touches_[at(s)].back() != position) touches_[at(s)].push_back(position);
    }
    return check_swaps();
  }

  /// As if nothing were swapped. REQUIRES: check found no fault.
  [[nodiscard]] std::vector<Interval> intervals() const {
    std::vector<Interval> intervals;
    const auto last = static_cast<std::int32_t>(order_.order.size()) - 1;
    for (std::size_t s = 0; s < step_.storages.size(); ++s) {
      const auto storage = static_cast<std::int32_t>(s);
      const std::int32_t held = held_until(storage);
      const std::int32_t until = step_.storages[s].lasting ? last : held;
      if (touches_[s].empty()) {
        if (until >= 0) intervals.push_back({.storage = storage, .begin = 0, .end = until});
        continue;
      }
      std::int32_t begin = facts_[s].from_start ? 0 : touches_[s].front();
      std::int32_t end = begin;
      for (const std::int32_t p : touches_[s]) {
        if (p > begin && is_made_at(storage, p)) {
          // A hold keeps whatever run made it: an earlier run is gone only once the hold is over (check_run).
          intervals.push_back({.storage = storage, .begin = begin, .end = std::max(end, std::min(held, p - 1))});
          begin = p;
        }
        end = p;
      }
      intervals.push_back({.storage = storage, .begin = begin, .end = std::max(end, until)});
    }
    return intervals;
  }

  [[nodiscard]] std::vector<Bytes> profile() const {
    std::vector<Bytes> change(order_.order.size() + 1);
    for (const Interval& one : intervals()) {
      change[at(one.begin)] += step_.storages[at(one.storage)].bytes;
      change[at(one.end) + 1] -= step_.storages[at(one.storage)].bytes;
    }
    for (const RunOrder::Swap& swap : order_.swaps) {
      change[at(swap.gone)] -= step_.storages[at(swap.storage)].bytes;
      change[at(swap.back)] += step_.storages[at(swap.storage)].bytes;
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    change.pop_back();
    for (std::size_t p = 0; p < change.size(); ++p) change[p] += step_.ops[at(order_.order[p])].transient_bytes;
    return change;
  }

  [[nodiscard]] std::int64_t cost() const {
    std::int64_t cost = 0;
    for (const std::int32_t v : order_.order) cost += step_.ops[at(v)].cost;
    std::int32_t copied_out = -1;
    for (const RunOrder::Swap& swap : order_.swaps) {
      const GivenCopies& copies = step_.storages[at(swap.storage)].copies;
      cost += copies.in.compute;
      if (swap.storage != copied_out || facts_[at(swap.storage)].has_versions()) cost += copies.out.compute;
      copied_out = swap.storage;
    }
    return cost;
  }

  /// REQUIRES: check found no fault.
  [[nodiscard]] std::vector<ReferenceAbsence> absences() const {
    std::vector<ReferenceAbsence> absences;
    for (std::size_t s = 0; s < step_.storages.size(); ++s) {
      const auto storage = static_cast<std::int32_t>(s);
      for (std::size_t i = 1; i < touches_[s].size(); ++i)
        if (is_made_at(storage, touches_[s][i]))
          absences.push_back({.storage = storage, .after = touches_[s][i - 1], .before = touches_[s][i]});
    }
    for (const RunOrder::Swap& swap : order_.swaps)
      absences.push_back({.storage = swap.storage, .after = swap.after, .before = swap.before, .swapped = true});
    std::ranges::sort(absences, {}, [](const ReferenceAbsence& one) { return std::tuple(one.storage, one.after); });
    return absences;
  }

 private:
  /// Position; -1: no hold.
  [[nodiscard]] std::int32_t held_until(std::int32_t storage) const {
    const std::int32_t op = step_.storages[at(storage)].held_until;
    return op < 0 ? -1 : first_run_[at(op)];
  }

  [[nodiscard]] bool is_made_at(std::int32_t storage, std::int32_t position) const {
    const StorageFacts& facts = facts_[at(storage)];
    return facts.is_result() && order_.order[at(position)] == facts.writers.front();
  }

  std::string check_first_runs() {
    first_run_.assign(step_.ops.size(), -1);
    std::int32_t next = 0;
    for (std::size_t p = 0; p < order_.order.size(); ++p) {
      const std::int32_t v = order_.order[p];
      if (v < 0 || at(v) >= step_.ops.size()) return fmt::format("position {}: there is no op {}", p, v);
      if (v > next) return fmt::format("position {}: op {} runs before op {}", p, v, next);
      if (v == next) first_run_[at(next++)] = static_cast<std::int32_t>(p);
    }
    if (at(next) != step_.ops.size()) return fmt::format("op {} is never run", next);
    if (!first_run_.empty() && at(first_run_.back()) + 1 != order_.order.size())
      return fmt::format("position {}: a run behind the last op", first_run_.back() + 1);
    return {};
  }

  /// A recompute must be allowed, find what the first run found, and replace nothing that is held.
  [[nodiscard]] std::string check_run(std::int32_t p) const {
    const std::int32_t v = order_.order[at(p)];
    if (first_run_[at(v)] == p) return {};
    const ReferenceStep::Op& op = step_.ops[at(v)];
    const auto fault = [&](std::string_view why) {
      return fmt::format("position {}: op {} ('{}') is recomputed {}", p, v, op.name, why);
    };
    if (!may_recompute(op.recompute, rules_)) return fault("and must not be");
    for (const std::int32_t s : op.reads)
      for (const std::int32_t w : facts_[at(s)].writers)
        if (w >= v && first_run_[at(w)] < p) return fault(fmt::format("after op {} changed what it reads", w));
    for (const std::int32_t s : op.writes) {
      if (!facts_[at(s)].is_result()) return fault("and changes a storage in place");
      if (held_until(s) >= p) return fault(fmt::format("while storage {} is held", s));
    }
    const std::int32_t next = order_.order[at(p + 1)];  // the last run is a first one
    if (first_run_[at(next)] == p + 1 && !step_.ops[at(next)].told)
      return fault(fmt::format("right before op {}, which is not told", next));
    return {};
  }

  [[nodiscard]] std::string check_swaps() const {
    const RunOrder::Swap* previous = nullptr;
    for (const RunOrder::Swap& swap : order_.swaps) {
      if (swap.storage < 0 || at(swap.storage) >= step_.storages.size()) return "a swap of no storage";
      if (std::string fault = fault_of(swap); !fault.empty())
        return fmt::format("swap of storage {} after position {}: {}", swap.storage, swap.after, fault);
      if (previous != nullptr && std::pair(previous->storage, previous->before) > std::pair(swap.storage, swap.after))
        return "swaps are out of order or overlap";
      previous = &swap;
    }
    return {};
  }

  [[nodiscard]] std::string fault_of(const RunOrder::Swap& swap) const {
    const StorageFacts& facts = facts_[at(swap.storage)];
    const std::vector<std::int32_t>& touches = touches_[at(swap.storage)];
    if (!step_.storages[at(swap.storage)].swappable) return "it is not swappable";
    if (swap.after < 0 || swap.after >= swap.before || at(swap.before) >= order_.order.size())
      return "it is not back later";
    if (swap.gone <= swap.after || swap.gone > swap.back || swap.back > swap.before)
      return "it is gone before it is out of use, or back before it is gone or behind its next use";
    if (held_until(swap.storage) > swap.after) return "it is held";
    const auto next = std::ranges::upper_bound(touches, swap.after);
    if (next == touches.begin() && !facts.from_start) return "it is not there yet";
    if (next == touches.end() || *next != swap.before) return "the next op that touches it is another one";
    const ReferenceStep::Op& op = step_.ops[at(order_.order[at(swap.before)])];
    if (!std::ranges::binary_search(op.reads, swap.storage)) return "it is written, not read, when it is back";
    return {};
  }

  const ReferenceStep& step_;
  const RunOrder& order_;
  const decide::flat::RecomputeRules rules_;
  const std::vector<StorageFacts> facts_;
  std::vector<std::int32_t> first_run_;             ///< per op: position
  std::vector<std::vector<std::int32_t>> touches_;  ///< per storage: positions, ascending
};

/// The copies one by one, in the order in which they happen.
class CopyReplay {
 public:
  CopyReplay(const ReferenceStep& step, const RunOrder& order)
      : step_(step),
        order_(order),
        out_end_(order.swaps.size()),
        in_end_(order.swaps.size()),
        run_end_(order.order.size()),
        by_after_(sorted([](const RunOrder::Swap& s) { return std::tuple(s.after, s.gone, s.storage); })),
        by_gone_(sorted([](const RunOrder::Swap& s) { return std::tuple(s.gone, s.after, s.storage); })),
        by_back_(sorted([](const RunOrder::Swap& s) { return std::tuple(s.back, s.before, s.storage); })),
        by_before_(sorted([](const RunOrder::Swap& s) { return std::tuple(s.before, s.back, s.storage); })) {
    const std::vector<StorageFacts> facts = facts_of(step);
    for (std::size_t i = 0; i < order.swaps.size(); ++i) {
      const std::int32_t s = order.swaps[i].storage;
      const bool first = i == 0 || order.swaps[i - 1].storage != s;
      copies_out_.push_back(first || facts[at(s)].has_versions() ? 1 : 0);
      made_.push_back(maker_of(i));
    }
  }

  [[nodiscard]] std::int64_t waited() {
    const std::vector<std::int64_t> lasts = durations();
    std::int64_t now = 0, out_free = 0, in_free = 0, waited = 0;
    std::size_t after = 0, gone = 0, back = 0, before = 0;
    for (std::int32_t p = 0; at(p) < order_.order.size(); ++p) {
      const std::int64_t ready = now;
      for (; gone < by_gone_.size() && swap(by_gone_[gone]).gone == p; ++gone)
        now = std::max(now, out_end_[by_gone_[gone]]);
      for (; back < by_back_.size() && swap(by_back_[back]).back == p; ++back) {
        const std::size_t i = by_back_[back];
        in_free = std::max({in_free, ready, out_end_[i]}) + row(i).copies.in.link;
        in_end_[i] = in_free;
      }
      for (; before < by_before_.size() && swap(by_before_[before]).before == p; ++before)
        now = std::max(now, in_end_[by_before_[before]]);
      waited += now - ready;
      run_end_[at(p)] = now += lasts[at(p)];
      for (; after < by_after_.size() && swap(by_after_[after]).after == p; ++after) {
        const std::size_t i = by_after_[after];
        if (copies_out_[i] != 0)
          out_end_[i] = out_free = std::max(out_free, made_at(i)) + row(i).copies.out.link;
        else
          out_end_[i] = out_end_[i - 1];
      }
    }
    return waited;
  }

  [[nodiscard]] Bytes host_peak() const {
    std::vector<Bytes> change(order_.order.size() + 1);
    std::int32_t begin = 0;  // of a copy out: not before those ahead of it
    for (const std::size_t i : by_after_) {
      if (copies_out_[i] == 0) continue;
      begin = std::max(begin, made_[i].by_copy ? swap(i - 1).back - 1 : made_[i].position);
      change[at(begin)] += row(i).bytes;
    }
    std::int32_t over =
        static_cast<std::int32_t>(order_.order.size());  // a run waits for this copy in, or one behind it
    for (auto place = by_back_.rbegin(); place != by_back_.rend(); ++place) {
      const std::size_t i = *place;
      over = std::min(over, swap(i).before);
      const bool held_on =
          i + 1 < order_.swaps.size() && swap(i + 1).storage == swap(i).storage && copies_out_[i + 1] == 0;
      if (!held_on) change[at(over)] -= row(i).bytes;
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    return std::ranges::max(change);
  }

 private:
  template <class Key>
  [[nodiscard]] std::vector<std::size_t> sorted(Key key) const {
    std::vector<std::size_t> rows(order_.swaps.size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    std::ranges::sort(rows, {}, [&](std::size_t i) { return key(order_.swaps[i]); });
    return rows;
  }
  /// Of runs, with what copies take from them: from the last run before each copy begins.
  [[nodiscard]] std::vector<std::int64_t> durations() const {
    std::vector<std::int64_t> durations;
    for (const std::int32_t v : order_.order) durations.push_back(step_.ops[at(v)].cost);
    for (std::size_t i = 0; i < order_.swaps.size(); ++i) {
      if (copies_out_[i] != 0) durations[at(swap(i).after)] += row(i).copies.out.compute;
      durations[at(swap(i).back - 1)] += row(i).copies.in.compute;
    }
    return durations;
  }

  /// What made the content that a swap takes away: a run, the copy in of the swap before, or nothing (-1) within the
  /// step.
  struct Maker {
    std::int32_t position = -1;
    bool by_copy = false;
  };
  [[nodiscard]] Maker maker_of(std::size_t i) const {
    Maker maker;
    for (std::int32_t p = 0; p <= swap(i).after; ++p)
      if (std::ranges::binary_search(step_.ops[at(order_.order[at(p)])].writes, swap(i).storage)) maker.position = p;
    maker.by_copy = i > 0 && swap(i - 1).storage == swap(i).storage && swap(i - 1).before > maker.position;
    return maker;
  }
  [[nodiscard]] std::int64_t made_at(std::size_t i) const {
    if (made_[i].by_copy) return in_end_[i - 1];
    return made_[i].position < 0 ? 0 : run_end_[at(made_[i].position)];
  }

  [[nodiscard]] const RunOrder::Swap& swap(std::size_t i) const { return order_.swaps[i]; }
  [[nodiscard]] const ReferenceStep::Storage& row(std::size_t i) const { return step_.storages[at(swap(i).storage)]; }

  const ReferenceStep& step_;
  const RunOrder& order_;
  std::vector<std::int64_t> out_end_, in_end_;  ///< per swap
  std::vector<std::int64_t> run_end_;           ///< per position
  std::vector<Maker> made_;                     ///< per swap
  std::vector<std::size_t> by_after_, by_gone_, by_back_, by_before_;
  std::vector<std::uint8_t> copies_out_;  ///< per swap; otherwise the copy is in host memory already
};

}  // namespace

bool ReferenceStep::copies_take_time() const {
  return std::ranges::any_of(storages, [](const Storage& row) {
    return row.swappable && (row.copies.out.link > 0 || row.copies.in.link > 0);
  });
}

Graph graph_of(const ReferenceStep& step) {
  graph_build::CapturedGraphBuilder builder;
  for (const ReferenceStep::Storage& row : step.storages)
    builder.add(graph_build::CapturedGraphBuilder::StorageRow{.name = row.name,
                                                              .bytes = row.bytes,
                                                              .held_until = row.held_until,
                                                              .lasting = row.lasting,
                                                              .swappable = row.swappable,
                                                              .copies = row.copies});
  for (const ReferenceStep::Op& op : step.ops) builder.add(op);
  return std::move(builder).build();
}

RunOrder keep_all(const ReferenceStep& step) {
  RunOrder order;
  order.order.resize(step.ops.size());
  std::iota(order.order.begin(), order.order.end(), 0);
  return order;
}

Bytes keep_all_peak(const ReferenceStep& step) {
  return replay(step, keep_all(step)).peak_bytes;
}

ReferenceReplay replay(const ReferenceStep& step, const RunOrder& order, decide::flat::RecomputeRules rules) {
  Replayer replayer(step, order, rules);
  ReferenceReplay replay{.fault = replayer.check()};
  if (!replay.fault.empty()) return replay;
  replay.profile = replayer.profile();
  if (const auto peak = std::ranges::max_element(replay.profile); peak != replay.profile.end()) {
    replay.peak_bytes = *peak;
    replay.peak_position = static_cast<std::int32_t>(peak - replay.profile.begin());
  }
  CopyReplay copies(step, order);
  replay.host_peak_bytes = copies.host_peak();
  replay.cost = replayer.cost();
  if (step.copies_take_time()) {
    replay.waited = copies.waited();
    replay.cost += replay.waited;
    if (replay.host_peak_bytes > step.host_bytes) {
      replay.fault = fmt::format("host memory: {} B are swapped out at once, {} B may be", replay.host_peak_bytes,
                                 step.host_bytes);
      return replay;
    }
  }
  replay.added_cost = replay.cost;
  for (const ReferenceStep::Op& op : step.ops) replay.added_cost -= op.cost;
  return replay;
}

std::vector<ReferenceAbsence> absences_of(const ReferenceStep& step, const RunOrder& order) {
  Replayer replayer(step, order, {.random = true, .collective = true});
  if (!replayer.check().empty()) return {};
  return replayer.absences();
}

}  // namespace tidemark::testing
