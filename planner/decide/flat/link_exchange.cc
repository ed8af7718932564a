#include "planner/decide/flat/link_exchange.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "planner/decide/flat/recompute.h"

namespace tidemark::decide::flat {
namespace {

constexpr int kSweeps = 3;
constexpr std::size_t kMostNewSwaps = 100;  // tried in one sweep, besides those that are there

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

class Exchange {
 public:
  Exchange(const Problem& problem, const LinkExchange& how, Solution start, std::int64_t cost)
      : p_(problem), how_(how), state_(problem, how.budget), left_(how.tries), cost_(cost) {
    state_.load(std::move(start));
    state_.mark();
  }

  Solution run() {
    for (int sweep = 0; sweep < kSweeps && has_work(); ++sweep) {
      const std::int64_t before = cost_;
      swaps_for_recomputes();
      recomputes_for_swaps();
      more_swaps();
      if (cost_ == before) break;
    }
    return state_.solution();
  }

 private:
  [[nodiscard]] bool has_work() const { return left_ > 0 && cost_ > 0 && (!how_.should_stop || !how_.should_stop()); }

  /// Keeps the change since the last mark if it costs less.
  bool keep_if_better() {
    if (state_.changes() == 0) return false;
    if (state_.profile().overflow() == 0 && state_.added_cost() < cost_) {
      --left_;
      const std::int64_t cost = how_.cost_of(state_);
      if (cost >= 0 && cost < cost_) {
        cost_ = cost;
        state_.mark();
        return true;
      }
    }
    state_.roll_back();
    return false;
  }

  [[nodiscard]] std::int64_t link_time(std::int32_t s) const {
    return p_.copy_out[at(s)].link_ns + p_.copy_in[at(s)].link_ns + 1;
  }

  void swaps_for_recomputes() {
    std::vector<std::pair<double, Key>> recomputes;
    for (const Key key : state_.reruns()) {
      std::int64_t time = 0;
      for (const std::int32_t s : p_.writes[op_of(key)]) time += link_time(s);
      recomputes.emplace_back(-static_cast<double>(p_.cost[at(op_of(key))]) / static_cast<double>(time), key);
    }
    std::ranges::sort(recomputes);
    for (const auto& [worth, key] : recomputes) {
      if (!has_work()) return;
      if (!state_.runs_at(key)) continue;
      std::vector<Swap> swaps;
      for (const std::int32_t s : p_.writes[op_of(key)])
        if (const Key until = state_.gap_around(s, key + 1).until; until != 0)
          swaps.push_back({.storage = s, .use = until});
      erase_with_idle(state_, key);
      for (const Swap& swap : swaps)
        if (state_.may_swap(swap)) state_.insert_swap(swap);
      keep_if_better();
    }
  }

  void recomputes_for_swaps() {
    const std::vector<Swap> swaps = state_.swaps();
    for (const Swap& swap : swaps) {
      if (!has_work()) return;
      if (std::ranges::find(state_.swaps(), swap) == state_.swaps().end()) continue;
      state_.erase_swap(swap);
      if (keep_if_better()) continue;
      const std::int32_t v = p_.producer[at(swap.storage)], stage = stage_of(swap.use);
      if (v < 0 || v >= stage || !p_.may_recompute(v, stage) || key_of(stage, v) >= swap.use) continue;
      state_.erase_swap(swap);
      const auto lives_on = [](std::int32_t, bool) { return Input::lives_on; };
      static_cast<void>(recompute_with_inputs(state_, key_of(stage, v), lives_on, [] { return false; }));
      keep_if_better();
    }
  }

  /// Where everything kept leaves the most room idle for the time on the link.
  void more_swaps() {
    std::vector<std::pair<double, Swap>> swaps;
    for (std::int32_t s = 0; s < p_.storage_count; ++s) {
      if (p_.swappable[at(s)] == 0 || p_.bytes[at(s)] == 0) continue;
      Key from = p_.begin[at(s)];
      for (const Key use : p_.uses[at(s)]) {
        const Swap swap{.storage = s, .use = use};
        const double length =
            static_cast<double>(p_.bytes[at(s)]) * (stage_of(use) - stage_of(std::exchange(from, use)));
        if (state_.may_swap(swap)) swaps.emplace_back(-length / static_cast<double>(link_time(s)), swap);
      }
    }
    std::ranges::stable_sort(swaps, {}, [](const auto& swap) { return swap.first; });
    if (swaps.size() > kMostNewSwaps) swaps.resize(kMostNewSwaps);
    for (const auto& [worth, swap] : swaps) {
      if (!has_work()) return;
      if (!state_.may_swap(swap)) continue;
      state_.insert_swap(swap);
      if (undo_recomputes())
        keep_if_better();
      else
        state_.roll_back();
    }
  }

  /// The dearest first, as far as that fits. False: none.
  bool undo_recomputes() {
    std::vector<Key> recomputes = state_.reruns();
    std::ranges::stable_sort(recomputes, std::greater<>(), [&](Key key) { return p_.cost[at(op_of(key))]; });
    bool any = false;
    for (const Key key : recomputes) {
      if (!state_.runs_at(key)) continue;
      const std::size_t mark = state_.changes();
      erase_with_idle(state_, key);
      if (state_.profile().overflow() > 0)
        state_.roll_back(mark);
      else
        any = true;
    }
    return any;
  }

  const Problem& p_;
  const LinkExchange& how_;
  State state_;
  int left_;
  std::int64_t cost_;
};

}  // namespace

Solution exchange_swaps(const Problem& problem, const LinkExchange& how, Solution start, std::int64_t cost) {
  return Exchange(problem, how, std::move(start), cost).run();
}

}  // namespace tidemark::decide::flat
