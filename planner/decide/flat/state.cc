#include "planner/decide/flat/state.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <limits>
#include <tuple>

namespace tidemark::decide::flat {
namespace {

constexpr Key kNever = std::numeric_limits<Key>::max();

void insert_sorted(std::vector<Key>& keys, Key key) {
  keys.insert(std::ranges::lower_bound(keys, key), key);
}

void erase_sorted(std::vector<Key>& keys, Key key) {
  const auto place = std::ranges::lower_bound(keys, key);
  assert(place != keys.end() && *place == key);
  keys.erase(place);
}

/// The last use below `limit`, but not before `start`.
Key last_use(const std::vector<Key>& uses, Key start, Key limit) {
  const auto after = std::ranges::lower_bound(uses, limit);
  return after == uses.begin() ? start : std::max(start, *(after - 1));
}

bool before(const Swap& a, const Swap& b) {
  return std::tie(a.storage, a.use) < std::tie(b.storage, b.use);
}

}  // namespace

State::State(const Problem& problem, Bytes budget) : problem_(&problem) {
  rebuild({}, budget);
}

/// From nothing, in time linear in the schedule but for sorting.
void State::rebuild(const Solution& solution, Bytes budget) {
  const Problem& p = *problem_;
  log_.clear();
  reruns_ = solution.reruns;
  swaps_ = solution.swaps;
  uses_ = p.uses;
  starts_.resize(index(p.storage_count));
  for (std::int32_t s = 0; s < p.storage_count; ++s) starts_[index(s)].assign(1, p.begin[index(s)]);
  swaps_of_.assign(index(p.storage_count), 0);
  added_cost_ = 0;
  for (const Key key : reruns_) {
    for (const std::int32_t s : p.writes[op_of(key)]) starts_[index(s)].push_back(key);
    for (const std::int32_t s : p.reads[op_of(key)]) uses_[index(s)].push_back(key);
    added_cost_ += p.cost[index(op_of(key))];
  }
  for (const Swap& swap : swaps_) {
    const std::size_t s = index(swap.storage);
    starts_[s].push_back(swap.use);
    if (swaps_of_[s]++ == 0 || p.changed[s] != 0) added_cost_ += p.page_out[s];
    added_cost_ += p.page_in[s];
  }
  if (!reruns_.empty() || !swaps_.empty())
    for (std::int32_t s = 0; s < p.storage_count; ++s) {
      std::ranges::sort(starts_[index(s)]);
      std::ranges::sort(uses_[index(s)]);
    }
  rebuild_profile(budget);
}

void State::rebuild_profile(Bytes budget) {
  const Problem& p = *problem_;
  std::vector<Key> first, keys;
  for (std::int32_t v = 0; v < p.op_count; ++v) first.push_back(key_of(v, v));
  std::ranges::merge(first, reruns_, std::back_inserter(keys));
  const auto position = [&](Key key) {
    return static_cast<std::size_t>(std::ranges::lower_bound(keys, key) - keys.begin());
  };
  std::vector<Bytes> bytes(keys.size() + 1);
  for (std::int32_t s = 0; s < p.storage_count; ++s) {
    const std::vector<Key>& starts = starts_[index(s)];
    bytes[position(starts.front())] += p.bytes[index(s)];
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const Key next = i + 1 < starts.size() ? starts[i + 1] : kNever;
      const Absence gone = absence(s, last_use(uses_[index(s)], starts[i], next), next);
      if (gone.lo >= gone.hi) continue;
      bytes[position(gone.lo)] -= p.bytes[index(s)];
      if (next != kNever) bytes[position(gone.hi)] += p.bytes[index(s)];
    }
  }
  Bytes sum = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    sum += bytes[i];
    bytes[i] = sum + p.transient[index(op_of(keys[i]))];
  }
  bytes.pop_back();
  profile_.assign(keys, bytes, budget);
}

bool State::runs_at(Key key) const {
  return is_first_run(key) || std::ranges::binary_search(reruns_, key);
}

/// Between two starts, once it has been touched for the last time.
State::Absence State::absence(std::int32_t storage, Key last_touch, Key next_start) const {
  const Problem& p = *problem_;
  const bool is_page = p.has_windows() && next_start != kNever && op_of(next_start) != p.producer[index(storage)];
  if (!is_page) return {.lo = last_touch + 1, .hi = next_start};
  return {.lo = p.gone_from(storage, last_touch), .hi = p.back_from(storage, next_start)};
}

void State::add(const Absence& absence, Bytes delta) {
  if (absence.lo < absence.hi) profile_.add(absence.lo, absence.hi, delta);
}

/// What a start between two others changes: `bytes` of its storage, or less that where it is taken back.
void State::add_for_start(std::int32_t storage, Key key, Key previous, Key limit, Bytes bytes) {
  const std::vector<Key>& uses = uses_[index(storage)];
  const Key end = last_use(uses, previous, limit);
  const Absence gap = absence(storage, last_use(uses, previous, key), key);
  if (end >= key) {
    add(gap, -bytes);
    return;
  }
  // Nothing used it behind the key: the stay is new.
  const Absence before = absence(storage, end, limit);
  const Key until = std::min(absence(storage, key, limit).lo, before.hi);
  if (gap.lo == before.lo && gap.lo < gap.hi && gap.hi <= until) {
    add({.lo = gap.hi, .hi = until}, bytes);
  } else {
    add({.lo = before.lo, .hi = until}, bytes);
    add(gap, -bytes);
  }
}

void State::insert_start(std::int32_t storage, Key key) {
  std::vector<Key>& starts = starts_[index(storage)];
  const auto next = std::ranges::lower_bound(starts, key);
  add_for_start(storage, key, *(next - 1), next == starts.end() ? kNever : *next, problem_->bytes[index(storage)]);
  starts.insert(next, key);
}

void State::erase_start(std::int32_t storage, Key key) {
  std::vector<Key>& starts = starts_[index(storage)];
  const auto place = std::ranges::lower_bound(starts, key);
  assert(place != starts.end() && *place == key && place != starts.begin());
  const Key previous = *(place - 1);
  const auto next = starts.erase(place);
  add_for_start(storage, key, previous, next == starts.end() ? kNever : *next, -problem_->bytes[index(storage)]);
}

/// What a use changes that is not in `uses_` now.
void State::add_for_use(std::int32_t storage, Key key, Bytes bytes) {
  const std::vector<Key>& starts = starts_[index(storage)];
  const auto next = std::ranges::upper_bound(starts, key);
  const Key limit = next == starts.end() ? kNever : *next;
  const Key end = last_use(uses_[index(storage)], *(next - 1), limit);
  if (key <= end) return;
  const Absence before = absence(storage, end, limit);
  add({.lo = before.lo, .hi = std::min(absence(storage, key, limit).lo, before.hi)}, bytes);
}

void State::insert_use(std::int32_t storage, Key key) {
  add_for_use(storage, key, problem_->bytes[index(storage)]);
  insert_sorted(uses_[index(storage)], key);
}

void State::erase_use(std::int32_t storage, Key key) {
  erase_sorted(uses_[index(storage)], key);
  add_for_use(storage, key, -problem_->bytes[index(storage)]);
}

/// What is in memory between two runs, just before the run behind `key`.
Bytes State::bytes_between(Key key) const {
  const Problem& p = *problem_;
  const Key next = profile_.next_after(key);
  const std::int32_t op = op_of(next);
  Bytes bytes = profile_.at(next) - p.transient[index(op)];
  const auto subtract = [&](std::int32_t s) {
    // Where pages take time, a page in begins with the stage, if not before.
    if (p.has_windows() && p.producer[index(s)] != op && p.begin[index(s)] != next) return;
    const auto& starts = starts_[index(s)];
    if (std::ranges::binary_search(starts, next)) bytes -= p.bytes[index(s)];
  };
  for (const std::int32_t s : p.writes[op]) subtract(s);
  if (!swaps_.empty() && !p.has_windows())
    for (const std::int32_t s : p.reads[op])
      if (!std::ranges::binary_search(p.writes[op], s)) subtract(s);
  return bytes;
}

void State::do_insert_rerun(Key key) {
  const Problem& p = *problem_;
  const std::int32_t v = op_of(key);
  profile_.insert(key, bytes_between(key) + p.transient[index(v)]);
  for (const std::int32_t s : p.writes[v]) insert_start(s, key);
  for (const std::int32_t s : p.reads[v]) insert_use(s, key);
  insert_sorted(reruns_, key);
  added_cost_ += p.cost[index(v)];
}

void State::do_erase_rerun(Key key) {
  const Problem& p = *problem_;
  const std::int32_t v = op_of(key);
  for (const std::int32_t s : p.reads[v]) erase_use(s, key);
  for (const std::int32_t s : p.writes[v]) erase_start(s, key);
  profile_.erase(key);
  erase_sorted(reruns_, key);
  added_cost_ -= p.cost[index(v)];
}

void State::do_insert_swap(const Swap& swap) {
  const Problem& p = *problem_;
  const std::size_t s = index(swap.storage);
  insert_start(swap.storage, swap.use);
  swaps_.insert(std::ranges::lower_bound(swaps_, swap, before), swap);
  if (swaps_of_[s]++ == 0 || p.changed[s] != 0) added_cost_ += p.page_out[s];
  added_cost_ += p.page_in[s];
}

void State::do_erase_swap(const Swap& swap) {
  const Problem& p = *problem_;
  const std::size_t s = index(swap.storage);
  erase_start(swap.storage, swap.use);
  swaps_.erase(std::ranges::lower_bound(swaps_, swap, before));
  if (--swaps_of_[s] == 0 || p.changed[s] != 0) added_cost_ -= p.page_out[s];
  added_cost_ -= p.page_in[s];
}

void State::insert_rerun(Key key) {
  assert(problem_->may_recompute(op_of(key), stage_of(key)));
  do_insert_rerun(key);
  log_.push_back({.inserted = true, .key = key});
}

void State::erase_rerun(Key key) {
  if (!swaps_.empty())
    for (const std::int32_t s : problem_->reads[op_of(key)])
      if (swaps_of_[index(s)] > 0 && std::ranges::binary_search(starts_[index(s)], key))
        erase_swap({.storage = s, .use = key});
  do_erase_rerun(key);
  log_.push_back({.inserted = false, .key = key});
}

void State::insert_swap(const Swap& swap) {
  assert(may_swap(swap));
  do_insert_swap(swap);
  log_.push_back({.inserted = true, .is_swap = true, .storage = swap.storage, .key = swap.use});
}

void State::erase_swap(const Swap& swap) {
  do_erase_swap(swap);
  log_.push_back({.inserted = false, .is_swap = true, .storage = swap.storage, .key = swap.use});
}

bool State::may_swap(const Swap& swap) const {
  const Problem& p = *problem_;
  const std::size_t s = index(swap.storage);
  if (p.swappable[s] == 0 || swap.use <= p.begin[s] || swap.use <= p.hold_until[s]) return false;
  return std::ranges::binary_search(p.reads[op_of(swap.use)], swap.storage) &&
         !std::ranges::binary_search(starts_[s], swap.use);
}

bool State::is_useless(Key rerun) const {
  for (const std::int32_t s : problem_->writes[op_of(rerun)]) {
    const std::vector<Key>& starts = starts_[index(s)];
    const auto next = std::ranges::upper_bound(starts, rerun);
    const auto use = std::ranges::lower_bound(uses_[index(s)], rerun);
    if (use != uses_[index(s)].end() && (next == starts.end() || *use < *next)) return false;
  }
  return !carries_page(rerun);
}

bool State::carries_page(Key run) const {
  if (swaps_.empty()) return false;
  return std::ranges::any_of(problem_->reads[op_of(run)], [&](std::int32_t s) {
    return swaps_of_[index(s)] > 0 && std::ranges::binary_search(starts_[index(s)], run);
  });
}

State::Gap State::gap_around(std::int32_t storage, Key key) const {
  const std::vector<Key>& starts = starts_[index(storage)];
  const std::vector<Key>& uses = uses_[index(storage)];
  const auto start = std::ranges::upper_bound(starts, key);
  const auto use = std::ranges::lower_bound(uses, key);
  Gap gap;
  if (start != starts.begin()) gap.from = *(start - 1);
  if (use != uses.begin()) gap.from = std::max(gap.from, *(use - 1));
  if (use != uses.end() && (start == starts.end() || *use < *start)) gap.until = *use;
  return gap;
}

void State::roll_back(std::size_t size) {
  for (; log_.size() > size; log_.pop_back()) {
    const Change& change = log_.back();
    const Swap swap{.storage = change.storage, .use = change.key};
    if (change.is_swap)
      change.inserted ? do_erase_swap(swap) : do_insert_swap(swap);
    else
      change.inserted ? do_erase_rerun(change.key) : do_insert_rerun(change.key);
  }
}

Solution State::solution() const {
  return {.reruns = reruns_, .swaps = swaps_, .peak_bytes = profile_.peak(), .added_cost = added_cost_};
}

void State::load(const Solution& solution) {
  rebuild(solution, profile_.budget());
}

RunOrder schedule_of(const State& state) {
  const Problem& problem = state.problem();
  std::vector<Key> keys = state.reruns();
  for (std::int32_t v = 0; v < problem.op_count; ++v) keys.push_back(key_of(v, v));
  std::ranges::sort(keys);
  RunOrder schedule;
  for (const Key key : keys) schedule.order.push_back(op_of(key));
  const auto position = [&](Key key) {
    return static_cast<std::int32_t>(std::ranges::lower_bound(keys, key) - keys.begin());
  };
  for (const Swap& swap : state.swaps()) {
    // It leaves after the touch before, whether that is a use or a start.
    const std::vector<Key>& uses = state.uses(swap.storage);
    const std::vector<Key>& starts = state.starts(swap.storage);
    const auto use = std::ranges::lower_bound(uses, swap.use);
    const auto start = std::ranges::lower_bound(starts, swap.use);
    const Key from = std::max(*(start - 1), use == uses.begin() ? Key{0} : *(use - 1));
    RunOrder::Swap& row = schedule.swaps.emplace_back(
        RunOrder::Swap{.storage = swap.storage, .after = position(from), .before = position(swap.use)});
    if (!problem.has_windows()) continue;
    row.back = std::max(position(problem.back_from(swap.storage, swap.use)), row.after + 1);
    row.gone = std::min(position(problem.gone_from(swap.storage, from)), row.back);
  }
  return schedule;
}

RunOrder schedule_of(const Problem& problem, const Solution& solution) {
  State state(problem, 0);
  state.load(solution);
  return schedule_of(state);
}

}  // namespace tidemark::decide::flat
