#include "planner/decide/flat/relaxation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace tidemark::decide::flat {
namespace {

constexpr double kNever = 1e200;      // as a cost; sums of it are finite
constexpr int kAscentPatience = 150;  // iterations without gain
constexpr double kMomentum = 0.96;    // of the direction before
constexpr double kLeastRise = 1e-5;   // of the target
// The same of prices per storage: there are many more of them, so that ascents take longer.
constexpr int kStoragePatience = 300;
constexpr double kLeastStorageRise = 1e-3;
constexpr double kLeastScale = 0.01;  // of the target
constexpr std::size_t kMostSums = 20'000;

std::size_t ind(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

Relaxation::Relaxation(const Problem& problem, Bytes budget)
    : p_(problem), budget_(budget), storages_(ind(problem.storage_count)) {
  const std::size_t ops = ind(p_.op_count), cells = ops * storages_;
  allowed_.resize(ops * ops);
  for (std::int32_t t = 0; t < p_.op_count; ++t)
    for (std::int32_t v = 0; v < t; ++v) allowed_[ind(t) * ops + ind(v)] = p_.may_recompute(v, t) ? 1 : 0;
  find_touches();
  find_lives();
  round_rooms();
  best_prices_.memory.resize(ops);
  stage_worth_.resize(ops);
  packed_.resize(cells);
  find_reads();
  find_windows();
  for (std::vector<double>* sum : {&sums_.run, &sums_.last, &sums_.there, &sums_.begun, &sums_.past, &sums_.remade})
    sum->resize(cells);
  for (std::vector<std::uint8_t>* mark : {&begun_, &there_, &made_, &last_, &kept_}) mark->resize(cells);
  paths_.resize(kStates * (cells + storages_));
  shares_.resize(4 * (cells + storages_));
  to_go_.resize(ops + 1);
  size_ = static_cast<std::int64_t>(best_prices_.reads.size() + best_prices_.windows.size() + cells);
  find_paths(best_prices_);
  best_ = value_of(best_prices_);
}

void Relaxation::find_touches() {
  needs_.resize(ind(p_.op_count));
  is_needed_.resize(ind(p_.op_count) * storages_);
  is_touched_.resize(ind(p_.op_count) * storages_);
  for (std::int32_t v = 0; v < p_.op_count; ++v) {
    for (const std::int32_t s : p_.reads[v]) is_needed_[cell(v, s)] = 1;
    for (const std::int32_t s : p_.writes[v]) is_touched_[cell(v, s)] = 1;
  }
  for (std::int32_t s = 0; s < p_.storage_count; ++s)
    for (const Key use : p_.uses[ind(s)])
      if (is_touched_[cell(stage_of(use), s)] == 0) is_needed_[cell(stage_of(use), s)] = 1;  // a pin
  for (std::int32_t v = 0; v < p_.op_count; ++v) {
    Bytes touched = p_.transient[ind(v)];
    for (std::int32_t s = 0; s < p_.storage_count; ++s) {
      if (is_needed_[cell(v, s)] != 0) needs_[ind(v)].push_back(s);
      is_touched_[cell(v, s)] |= is_needed_[cell(v, s)];
      if (is_touched_[cell(v, s)] != 0) touched += p_.bytes[ind(s)];
    }
    room_.push_back(static_cast<double>(budget_ - touched));
  }
  for (std::int32_t s = 0; s < p_.storage_count; ++s) {
    const std::int32_t first = stage_of(p_.begin[ind(s)]);
    const bool written =
        std::ranges::binary_search(p_.writes[first], s) && !std::ranges::binary_search(p_.reads[first], s);
    born_.push_back(p_.begin[ind(s)] == kStart && !written ? -1 : first);
  }
}

/// The last stage in which the op may run again and what it makes is of use; -1: none.
std::int32_t Relaxation::last_recompute(std::int32_t v) const {
  std::int32_t until = -1;
  for (const std::int32_t s : p_.writes[v]) until = std::max(until, useful_until_[ind(s)]);
  until = std::min(until, p_.op_count - 1);
  while (until > v && !may_recompute(v, until)) --until;
  return until > v ? until : -1;
}

void Relaxation::find_lives() {
  useful_until_.clear();
  // An op may run again only to bring in what it reads, so anything may be of use.
  if (std::ranges::any_of(p_.swappable, [](std::uint8_t swappable) { return swappable != 0; })) {
    useful_until_.assign(storages_, p_.op_count - 1);
    return;
  }
  for (std::int32_t s = 0; s < p_.storage_count; ++s)
    useful_until_.push_back(p_.uses[ind(s)].empty() ? -1 : stage_of(p_.uses[ind(s)].back()));
  // What a recomputation reads is of use as long as what it makes.
  for (std::int32_t v = p_.op_count - 1; v >= 0; --v) {
    const std::int32_t until = last_recompute(v);
    for (const std::int32_t s : p_.reads[v]) useful_until_[ind(s)] = std::max(useful_until_[ind(s)], until);
  }
}

/// (4) for what whole storages can come to: the most bytes within the room of a stage that some of them have together.
void Relaxation::round_rooms() {
  std::vector<Bytes> sums, more, both;
  for (std::int32_t t = 0; t < p_.op_count; ++t) {
    const auto room = static_cast<Bytes>(room_[ind(t)]);
    if (room <= 0) continue;
    sums.assign(1, 0);
    for (std::int32_t s = 0; s < p_.storage_count && sums.size() <= kMostSums; ++s) {
      const Bytes bytes = p_.bytes[ind(s)];
      if (born_[ind(s)] >= t || useful_until_[ind(s)] <= t || is_touched_[cell(t, s)] != 0 || bytes == 0) continue;
      more.clear();
      for (const Bytes sum : sums)
        if (sum + bytes <= room) more.push_back(sum + bytes);
      both.clear();
      std::ranges::set_union(sums, more, std::back_inserter(both));
      std::swap(sums, both);
    }
    if (sums.size() <= kMostSums) room_[ind(t)] = static_cast<double>(sums.back());
  }
}

void Relaxation::find_reads() {
  std::size_t prices = 0;
  for (std::int32_t v = 0; v < p_.op_count; ++v) {
    const std::int32_t until = last_recompute(v);
    std::int32_t from = v + 1;
    while (from <= until && !may_recompute(v, from)) ++from;
    if (from > until) continue;
    for (const std::int32_t s : p_.reads[v]) {
      reads_.push_back({.op = v, .storage = s, .from = from, .until = until, .first = prices});
      prices += ind(until - from + 1);
    }
  }
  best_prices_.reads.resize(prices);
}

/// Between two needs of what may be recomputed and is not swapped.
void Relaxation::find_windows() {
  std::size_t prices = 0;
  for (std::int32_t s = 0; s < p_.storage_count; ++s) {
    const std::int32_t v = p_.producer[ind(s)];
    if (v < 0 || swaps(s)) continue;
    std::int32_t from = v + 1;
    for (std::int32_t t = v + 1; t < p_.op_count; ++t) {
      if (is_needed_[cell(t, s)] == 0) continue;
      for (const std::int32_t r : p_.reads[v]) {
        if (t == from || swaps(r) || p_.producer[ind(r)] < 0) continue;
        windows_.push_back({.made = s, .storage = r, .from = from, .until = t, .first = prices});
        prices += ind(t - from + 1);
      }
      from = t + 1;
    }
  }
  best_prices_.windows.resize(prices);
}

bool Relaxation::may_leave(std::int32_t storage, std::int32_t stage) const {
  return p_.hold_until[ind(storage)] == 0 || p_.hold_until[ind(storage)] < key_of(stage, stage);
}

/// Of what is there at the end of the stage.
double Relaxation::held_price(std::int32_t storage, std::int32_t stage, const Prices& prices) const {
  if (is_touched_[cell(stage, storage)] != 0) return 0;
  if (!prices.held.empty()) return prices.held[cell(stage, storage)];
  return prices.memory[ind(stage)] * static_cast<double>(p_.bytes[ind(storage)]);
}

/// Its share of a run of its writer, with the prices of what that reads.
double Relaxation::run_cost(std::int32_t storage, std::int32_t stage) const {
  const std::int32_t v = p_.producer[ind(storage)];
  if (v < 0 || !may_recompute(v, stage)) return kNever;
  return static_cast<double>(p_.cost[ind(v)]) / static_cast<double>(p_.writes[v].size()) +
         sums_.run[cell(stage, storage)] - sums_.remade[cell(stage, storage)];
}

void Relaxation::sum_prices(const Prices& prices) {
  for (std::vector<double>* sum : {&sums_.run, &sums_.last, &sums_.there, &sums_.begun, &sums_.past, &sums_.remade})
    std::ranges::fill(*sum, 0);
  for (const Read& read : reads_) {
    const double share = 1 / static_cast<double>(p_.writes[read.op].size());
    for (std::int32_t t = read.from; t <= read.until; ++t) {
      const double price = prices.reads[read.first + ind(t - read.from)];
      sums_.there[cell(t, read.storage)] += price;
      for (const std::int32_t made : p_.writes[read.op]) sums_.run[cell(t, made)] += share * price;
    }
  }
  sum_pairs(prices);
  for (const Window& window : windows_) {
    double sum = 0;
    for (std::int32_t t = window.from; t <= window.until; ++t) {
      const double price = prices.windows[window.first + ind(t - window.from)];
      sums_.past[cell(t, window.storage)] += sum;
      sum += price;
      sums_.last[cell(t, window.made)] += sum;
      sums_.begun[cell(t, window.storage)] += price;
      sums_.remade[cell(t, window.storage)] += sum;
    }
  }
}

/// Of a storage that is not swapped. A recomputation either keeps it until it is needed, and pays for (5), or it leaves
/// before.
void Relaxation::find_path_step(std::int32_t s, std::int32_t t, double held) {
  const std::size_t at = cell(t, s);
  double* here = &paths_[kStates * at];
  const double* next = &paths_[kStates * cell(t + 1, s)];
  const double worth = sums_.there[at], begun = worth + sums_.begun[at], run = run_cost(s, t) - worth;
  const bool may = may_leave(s, t);
  if (is_needed_[at] != 0) {
    double after = held + std::min(next[lasts], next[leaves]);
    if (may) after = std::min(after, next[gone]);
    here[lasts] = after - begun;
    here[leaves] = kNever;
    here[gone] = run + sums_.last[at] + after;
  } else {
    double left = held + next[leaves];
    if (may) left = std::min(left, next[gone]);
    here[lasts] = held + next[lasts] - begun;
    here[leaves] = left - begun;
    here[gone] = std::min(next[gone], run + std::min(left, sums_.last[at] + held + next[lasts]));
  }
  for (std::int32_t state = 0; state < kStates; ++state) here[state] = std::min(here[state], kNever);
  double* shares = &shares_[4 * at];
  shares[0] = shares[kOutside] = here[gone];
  shares[kResident] = shares[kResident | kOutside] = std::min(here[lasts], here[leaves]) - sums_.past[at];
}

void Relaxation::find_swapping_step(std::int32_t s, std::int32_t t, double held) {
  const std::size_t at = cell(t, s);
  double* here = &shares_[4 * at];
  const double* next = &shares_[4 * cell(t + 1, s)];
  const bool may = may_leave(s, t);
  const double run = run_cost(s, t), out = static_cast<double>(p_.page_out[ind(s)]);
  double there[2];
  for (const std::int32_t outside : {0, kOutside}) {
    double least = held + next[outside | kResident];
    if (may) least = std::min({least, next[outside], out + next[kOutside]});
    there[outside / kOutside] = least - sums_.there[at];
  }
  for (const std::int32_t outside : {0, kOutside}) {
    here[outside | kResident] = there[outside / kOutside];
    double least = is_needed_[at] != 0 ? kNever : next[outside];
    least = std::min(least, run + there[outside / kOutside]);
    if (outside != 0)
      least = std::min(least, static_cast<double>(p_.page_in[ind(s)]) + there[p_.changed[ind(s)] != 0 ? 0 : 1]);
    here[outside] = std::min(least, kNever);
  }
}

/// Shortest paths of all storages, from the end.
void Relaxation::find_paths(const Prices& prices) {
  sum_prices(prices);
  for (std::int32_t t = p_.op_count; t >= 0; --t)
    for (std::int32_t s = 0; s < p_.storage_count; ++s) {
      if (t == p_.op_count || t > useful_until_[ind(s)] || born_[ind(s)] >= t) {
        double* path = &paths_[kStates * cell(t, s)];
        path[gone] = path[leaves] = 0;
        path[lasts] = kNever;
        std::fill_n(&shares_[4 * cell(t, s)], 4, 0);
      } else if (swaps(s)) {
        find_swapping_step(s, t, held_price(s, t, prices));
      } else {
        find_path_step(s, t, held_price(s, t, prices));
      }
    }
}

double Relaxation::value_of(const Prices& prices) {
  fill_rooms(prices);
  to_go_[ind(p_.op_count)] = 0;
  std::vector<double> begun(ind(p_.op_count) + 1);
  double start = 0;
  for (std::int32_t s = 0; s < p_.storage_count; ++s) {
    const std::int32_t first = born_[ind(s)] + 1;
    const double* next = shares(first, s);
    const double* path = &paths_[kStates * cell(first, s)];
    double least = swaps(s) ? next[kResident] : std::min(path[lasts], path[leaves]);
    if (first == 0) {
      start += least;
      continue;
    }
    if (may_leave(s, born_[ind(s)])) {
      least = std::min(least, next[0]);
      if (swaps(s)) least = std::min(least, static_cast<double>(p_.page_out[ind(s)]) + next[kOutside]);
    }
    begun[ind(born_[ind(s)])] += least;
  }
  for (std::int32_t t = p_.op_count - 1; t >= 0; --t)
    to_go_[ind(t)] = to_go_[ind(t) + 1] + begun[ind(t)] - stage_worth_[ind(t)];
  // At the begin no pair counts: what is there then was not made.
  const double value = to_go_[0] + start;
  for (std::int32_t t = 0; t < p_.op_count; ++t)
    for (const Pair& pair : pairs_[ind(t)]) to_go_[ind(t)] += pair.price;
  return value;
}

void Relaxation::follow_path(std::int32_t s, const Prices& prices) {
  std::int32_t t = born_[ind(s)] + 1;
  const auto of = [&](std::int32_t stage) { return &paths_[kStates * cell(stage, s)]; };
  State state = of(t)[lasts] <= of(t)[leaves] ? lasts : leaves;
  if (t > 0 && may_leave(s, t - 1) && of(t)[gone] < of(t)[state]) state = gone;
  for (; t < p_.op_count && t <= useful_until_[ind(s)]; ++t) {
    const std::size_t at = cell(t, s);
    const double* next = of(t + 1);
    const double held = held_price(s, t, prices), run = run_cost(s, t) - sums_.there[at];
    const bool may = may_leave(s, t), needed = is_needed_[at] != 0;
    double left = held + next[leaves];
    State after = leaves;
    if (may && next[gone] < left) left = next[gone], after = gone;
    if (needed && held + next[lasts] <= left) after = lasts;
    begun_[at] = state != gone ? 1 : 0;
    if (state == lasts && !needed) after = lasts;
    if (state == gone && !needed) {
      const double last = sums_.last[at] + held + next[lasts];
      if (next[gone] <= run + std::min(left, last)) {
        continue;
      }
      if (last <= left) after = lasts;
    }
    there_[at] = 1;
    made_[at] = state == gone ? 1 : 0;
    last_[at] = state == gone && (needed || after == lasts) ? 1 : 0;
    kept_[at] = after != gone ? 1 : 0;
    state = after;
  }
}

void Relaxation::follow_swapping(std::int32_t s, const Prices& prices) {
  const auto leave = [&](double held, const double* next, std::int32_t outside, bool may) {
    std::int32_t to = outside | kResident;
    double least = held + next[to];
    if (may && next[outside] < least) least = next[to = outside];
    if (may && static_cast<double>(p_.page_out[ind(s)]) + next[kOutside] < least) to = kOutside;
    return to;
  };
  std::int32_t t = born_[ind(s)] + 1;
  std::int32_t state = t == 0 ? kResident : leave(0, shares(t, s), 0, may_leave(s, t - 1));
  for (; t < p_.op_count && t <= useful_until_[ind(s)]; ++t) {
    const std::size_t at = cell(t, s);
    const double *next = shares(t + 1, s), *here = shares(t, s);
    std::int32_t outside = state & kOutside;
    begun_[at] = (state & kResident) != 0 ? 1 : 0;
    if (begun_[at] == 0) {
      if (is_needed_[at] == 0 && here[state] >= next[outside]) {
        state = outside;
        continue;
      }
      const std::int32_t good = p_.changed[ind(s)] != 0 ? 0 : kOutside;
      if (outside != 0 && static_cast<double>(p_.page_in[ind(s)]) + here[kResident | good] <= here[state])
        outside = good;
      else
        made_[at] = 1;
    }
    there_[at] = 1;
    state = leave(held_price(s, t, prices), next, outside, may_leave(s, t));
    kept_[at] = (state & kResident) != 0 ? 1 : 0;
  }
}

/// How far the cheapest paths are from keeping to (3), (4) and (5).
void Relaxation::find_slack(const Prices& prices, Prices& slack) {
  for (std::vector<std::uint8_t>* mark : {&begun_, &there_, &made_, &last_, &kept_}) std::ranges::fill(*mark, 0);
  for (std::int32_t s = 0; s < p_.storage_count; ++s) swaps(s) ? follow_swapping(s, prices) : follow_path(s, prices);
  for (std::int32_t t = 0; t < p_.op_count; ++t) {
    slack.memory[ind(t)] = -room_[ind(t)];
    for (std::int32_t s = 0; s < p_.storage_count; ++s)
      if (kept_[cell(t, s)] != 0 && is_touched_[cell(t, s)] == 0)
        slack.memory[ind(t)] += static_cast<double>(p_.bytes[ind(s)]);
  }
  find_room_slack(prices, slack);
  for (const Read& read : reads_) {
    const double share = 1 / static_cast<double>(p_.writes[read.op].size());
    for (std::int32_t t = read.from; t <= read.until; ++t) {
      double runs = 0;
      for (const std::int32_t made : p_.writes[read.op]) runs += share * made_[cell(t, made)];
      slack.reads[read.first + ind(t - read.from)] = runs - there_[cell(t, read.storage)];
    }
  }
  for (const Window& window : windows_) {
    double runs = 0;
    for (std::int32_t t = window.until; t >= window.from; --t) {
      runs += last_[cell(t, window.made)] - made_[cell(t, window.storage)];
      slack.windows[window.first + ind(t - window.from)] = runs - begun_[cell(t, window.storage)];
    }
  }
}

void Relaxation::ascend(const Ascent& ascent) {
  const bool per_storage = ascent.prices == MemoryPrices::per_storage;
  const int patience = per_storage ? kStoragePatience : kAscentPatience;
  const double least_rise = (per_storage ? kLeastStorageRise : kLeastRise) * ascent.step * ascent.target;
  if (per_storage) {
    price_storages();
    find_paths(best_prices_);
    best_ = value_of(best_prices_);
  }
  // What a price is worth at most, about: so steps are alike in all of them.
  Prices scale = best_prices_, prices = best_prices_, slack = best_prices_, way = best_prices_;
  std::ranges::fill(scale.memory, ascent.target / static_cast<double>(std::max<Bytes>(budget_, 1)));
  const auto scale_of = [&](std::int32_t storage) {
    const std::int32_t v = p_.producer[ind(storage)];
    const double cost = v < 0 ? ascent.target : static_cast<double>(p_.cost[ind(v)]);
    return std::clamp(cost, kLeastScale * ascent.target, ascent.target);
  };
  // Between what its writer costs and all that is added: what that reads may have to be made again as well.
  for (std::size_t at = 0; at < scale.held.size(); ++at)
    scale.held[at] = scale.pairs[at] = std::sqrt(scale_of(static_cast<std::int32_t>(at % storages_)) * ascent.target);
  for (const Read& read : reads_)
    std::fill_n(&scale.reads[read.first], read.until - read.from + 1, scale_of(read.storage));
  for (const Window& window : windows_)
    std::fill_n(&scale.windows[window.first], window.until - window.from + 1, scale_of(window.storage));
  const auto each = [&](auto&& body) {
    if (!per_storage) body(&Prices::memory);
    body(&Prices::held);
    body(&Prices::pairs);
    body(&Prices::reads);
    body(&Prices::windows);
  };
  const auto stand = [&] { each([&](auto part) { std::ranges::fill(way.*part, 0); }); };
  stand();
  double rise = ascent.step * (ascent.target - best_);  // how far above the best known the next bound is looked for
  double before = best_;
  int idle = 0;
  for (int i = 0; i < ascent.iterations && rise > least_rise; ++i) {
    if (i % 16 == 15 && ascent.should_stop && ascent.should_stop()) break;
    find_paths(prices);
    double value = value_of(prices);
    if (value > best_) {
      best_ = value;
      best_prices_ = prices;
    }
    if (best_ >= ascent.target) break;
    if (best_ > before + rise / 2) {
      before = best_;
      idle = 0;
    } else if (++idle > patience) {
      rise /= 2;
      before = best_;
      idle = 0;
      if (!per_storage) {
        prices = best_prices_;
        stand();
        find_paths(prices);
        value = value_of(prices);
      }
    }
    find_slack(prices, slack);
    double norm = 0;
    each([&](auto part) {
      for (std::size_t k = 0; k < (way.*part).size(); ++k) {
        double& along = (way.*part)[k];
        along = kMomentum * along + (slack.*part)[k] * (scale.*part)[k];
        if ((prices.*part)[k] <= 0 && along < 0) along = 0;
        norm += along * along;
      }
    });
    if (norm <= 0) break;
    const double length = (best_ + rise - value) / norm;
    each([&](auto part) {
      for (std::size_t k = 0; k < (way.*part).size(); ++k) {
        double& price = (prices.*part)[k];
        price = std::max(0.0, price + length * (way.*part)[k] * (scale.*part)[k]);
      }
    });
  }
  find_paths(best_prices_);
  best_ = value_of(best_prices_);
}

/// Per stage and op: a schedule that runs it again there may be that cheap. What is swapped counts as cheap.
std::vector<std::uint8_t> Relaxation::cheap_enough(double most_added) const {
  std::vector<std::uint8_t> cheap(allowed_.size());
  const std::size_t ops = ind(p_.op_count);
  // What makes nothing may bring in what it reads.
  for (std::int32_t v = 0; v < p_.op_count; ++v)
    for (std::size_t t = 0; t < ops && p_.writes[v].empty(); ++t) cheap[t * ops + ind(v)] = 1;
  for (std::int32_t s = 0; s < p_.storage_count; ++s) {
    const std::int32_t v = p_.producer[ind(s)];
    if (v < 0) continue;
    if (swaps(s)) {
      for (std::size_t t = 0; t < ops; ++t) cheap[t * ops + ind(v)] = 1;
      continue;
    }
    double so_far[kStates] = {may_leave(s, v) ? 0 : kNever, 0, 0};  // of the cheapest path to a state
    const double* next = &paths_[kStates * cell(v + 1, s)];
    const double whole = std::min({so_far[gone] + next[gone], next[lasts], next[leaves]});
    for (std::int32_t t = v + 1; t <= useful_until_[ind(s)] && t < p_.op_count; ++t) {
      const std::size_t at = cell(t, s);
      next = &paths_[kStates * cell(t + 1, s)];
      const double held = held_price(s, t, best_prices_), worth = sums_.there[at];
      const double run = run_cost(s, t) - worth, last = sums_.last[at];
      const bool may = may_leave(s, t), needed = is_needed_[at] != 0;
      const double go = may ? next[gone] : kNever, left = std::min(held + next[leaves], go);
      const double gone_before = so_far[gone], lasted = so_far[lasts] - worth - sums_.begun[at],
                   leaving = so_far[leaves] - worth - sums_.begun[at];
      // A storage that was there may have left within the stage before it was made again.
      const double after =
          needed ? std::min(last + held + next[lasts], last + left) : std::min(left, last + held + next[lasts]);
      const double anyway = std::min(left, held + next[lasts]);
      const double there = needed ? lasted : std::min(lasted, leaving);
      const double run_again = run + worth;  // its worth was counted
      const double through = std::min(gone_before + run + after, there + run_again + anyway);
      if (best_ + through - whole <= most_added) cheap[ind(t) * ops + ind(v)] = 1;
      double now[kStates] = {kNever, kNever, kNever};
      if (needed) {
        const double is_there = std::min(lasted, gone_before + run + last);
        now[lasts] = now[leaves] = is_there + held;
        if (may) now[gone] = is_there;
      } else {
        now[lasts] = held + std::min(lasted, gone_before + run + last);
        const double is_there = std::min(leaving, gone_before + run);
        now[leaves] = held + is_there;
        now[gone] = std::min(gone_before, may ? is_there : kNever);
      }
      std::copy(now, now + kStates, so_far);
    }
  }
  return cheap;
}

void Relaxation::rule_out(double most_added) {
  const std::vector<std::uint8_t> cheap = cheap_enough(most_added + 1e-6 * std::abs(most_added) + 1e-6);
  for (std::size_t i = 0; i < allowed_.size(); ++i) allowed_[i] &= cheap[i];
  find_lives();
  round_rooms();
  if (!best_prices_.held.empty()) price_storages();
  find_paths(best_prices_);
  best_ = value_of(best_prices_);
}

}  // namespace tidemark::decide::flat
