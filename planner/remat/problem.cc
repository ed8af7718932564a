#include "planner/remat/problem.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tidemark::remat {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

void add_row(Rows& rows, const std::vector<std::int32_t>& items) {
  rows.items.insert(rows.items.end(), items.begin(), items.end());
  rows.first.push_back(static_cast<std::int32_t>(rows.items.size()));
}

/// Writers of every storage in op order, and whether the first touch of it is a read.
struct Touches {
  std::vector<std::vector<std::int32_t>> writers;
  std::vector<std::uint8_t> from_start;
};

Touches touches_of(const OpList& list) {
  Touches touches{.writers = std::vector<std::vector<std::int32_t>>(list.storages.size()),
                  .from_start = std::vector<std::uint8_t>(list.storages.size())};
  std::vector<std::uint8_t> touched(list.storages.size());
  for (std::size_t v = 0; v < list.ops.size(); ++v) {
    for (const std::int32_t s : list.ops[v].reads) {
      if (touched[at(s)] == 0) touches.from_start[at(s)] = 1;
      touched[at(s)] = 1;
    }
    for (const std::int32_t s : list.ops[v].writes) {
      touches.writers[at(s)].push_back(static_cast<std::int32_t>(v));
      touched[at(s)] = 1;
    }
  }
  // Nobody touches it: it counts only if something holds it, and is there all the time then.
  for (std::size_t s = 0; s < touched.size(); ++s)
    if (touched[s] == 0) touches.from_start[s] = 1;
  return touches;
}

void add_use(std::vector<Key>& uses, Key key) {
  if (uses.empty() || uses.back() != key) uses.push_back(key);
}

}  // namespace

Problem::Problem(const OpList& list_, RecomputeRules rules_)
    : list(&list_),
      rules(rules_),
      op_count(static_cast<std::int32_t>(list_.ops.size())),
      storage_count(static_cast<std::int32_t>(list_.storages.size())) {
  const Touches touches = touches_of(list_);
  const std::size_t count = list_.storages.size();
  producer.assign(count, -1);
  begin.assign(count, kStart);
  uses.resize(count);
  hold_until.assign(count, 0);
  changed.assign(count, 0);
  for (std::size_t s = 0; s < count; ++s) {
    const OpList::Storage& row = list_.storages[s];
    bytes.push_back(row.bytes);
    swappable.push_back(row.swappable ? 1 : 0);
    page_in.push_back(row.page_in_cost);
    page_out.push_back(row.page_out_cost);
    const std::vector<std::int32_t>& writers = touches.writers[s];
    changed[s] = writers.size() + (touches.from_start[s] != 0 ? 1 : 0) > 1 ? 1 : 0;
    if (touches.from_start[s] == 0) {
      begin[s] = key_of(writers.front(), writers.front());
      if (writers.size() == 1) producer[s] = writers.front();
    }
    if (row.pinned_until >= 0) hold_until[s] = key_of(row.pinned_until, row.pinned_until);
  }
  for (std::int32_t v = 0; v < op_count; ++v) {
    const OpList::Op& op = list_.ops[at(v)];
    add_row(reads, op.reads);
    add_row(writes, op.writes);
    cost.push_back(op.cost);
    transient.push_back(op.transient_bytes);
    for (const std::int32_t s : op.reads) add_use(uses[at(s)], key_of(v, v));
    for (const std::int32_t s : op.writes)
      if (producer[at(s)] < 0) add_use(uses[at(s)], key_of(v, v));
    const bool results =
        !op.writes.empty() && std::ranges::all_of(op.writes, [&](std::int32_t s) { return producer[at(s)] == v; });
    std::int32_t from = v + 1,
                 until = results && rules.allow(op.recompute) ? std::numeric_limits<std::int32_t>::max() : -1;
    for (const std::int32_t s : op.writes) from = std::max(from, list_.storages[at(s)].pinned_until + 1);
    for (const std::int32_t s : op.reads) {
      const auto& writers = touches.writers[at(s)];
      const auto next = std::ranges::lower_bound(writers, v);
      if (next != writers.end()) until = std::min(until, *next);
    }
    rerun_from.push_back(from);
    rerun_until.push_back(until);
  }
  const Key end = key_of(op_count - 1, op_count - 1);
  for (std::size_t s = 0; s < count; ++s) {
    const Key hold = list_.storages[s].until_end ? end : hold_until[s];
    if (uses[s].empty() && hold == 0 && producer[s] < 0) bytes[s] = 0;
    for (const Key held : {hold_until[s], hold}) {
      if (held <= begin[s]) continue;
      const auto place = std::ranges::lower_bound(uses[s], held);
      if (place == uses[s].end() || *place != held) uses[s].insert(place, held);
    }
  }
}

Key Problem::gone_from(std::int32_t storage, Key from) const {
  const std::int32_t stage = stage_of(from);
  std::int64_t over = stage_start[at(stage)] + out_time[at(storage)];
  if (is_first_run(from)) over += cost[at(stage)];
  const auto first = std::lower_bound(stage_start.begin() + stage + 1, stage_start.end(), over);
  return stage_begin(static_cast<std::int32_t>(first - stage_start.begin()));
}

Key Problem::back_from(std::int32_t storage, Key use) const {
  const std::int32_t stage = stage_of(use);
  const std::int64_t latest = stage_start[at(stage)] - in_time[at(storage)];
  const auto behind = std::upper_bound(stage_start.begin(), stage_start.begin() + stage + 1, latest);
  return stage_begin(std::max(static_cast<std::int32_t>(behind - stage_start.begin()) - 1, 0));
}

std::int64_t Problem::total_cost() const {
  return std::accumulate(cost.begin(), cost.end(), std::int64_t{0});
}

}  // namespace tidemark::remat
