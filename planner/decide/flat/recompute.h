#pragma once
// The one step that seeds and search share: recompute an op in a stage, with what it needs there; and undoing that.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "planner/decide/flat/state.h"

namespace tidemark::decide::flat {

/// Undoes a recomputation, and with it those that only feed it.
inline void erase_with_idle(State& state, Key rerun) {
  const Problem& p = state.problem();
  state.erase_rerun(rerun);
  for (const std::int32_t r : p.reads[op_of(rerun)]) {
    const std::vector<Key>& starts = state.starts(r);
    const auto after = std::ranges::upper_bound(starts, rerun);
    if (after == starts.begin()) continue;
    const Key start = *(after - 1);
    const bool reran = op_of(start) == p.producer[static_cast<std::size_t>(r)] && !is_first_run(start);
    if (reran && state.is_useless(start)) erase_with_idle(state, start);
  }
}

/// What becomes of an input that is dead where it is needed again.
enum class Input : std::uint8_t { lives_on, recomputed, swapped_in };

/// Inputs that are dead there become what `choose_input(storage, can be swapped)` says where that can be, recomputed in
/// the same round, and live on otherwise. A later recomputation of the same op is undone where `drops_later()`: this
/// one may serve what it was for. False: not allowed.
template <class ChooseInput, class DropsLater>
bool recompute_with_inputs(State& state, Key key, ChooseInput&& choose_input, DropsLater&& drops_later, int depth = 0) {
  constexpr int kMostDepth = 2000;  // of the stack
  const Problem& p = state.problem();
  const std::int32_t op = op_of(key), stage = stage_of(key);
  if (state.runs_at(key)) return true;
  if (!p.may_recompute(op, stage)) return false;
  std::vector<Swap> swaps;
  for (const std::int32_t r : p.reads[op]) {
    if (state.gap_around(r, key).until != 0) continue;  // alive anyway
    const std::int32_t producer = p.producer[static_cast<std::size_t>(r)];
    const bool swappable = p.swappable[static_cast<std::size_t>(r)] != 0;
    if ((producer < 0 && !swappable) || depth >= kMostDepth) continue;
    const Input input = choose_input(r, swappable);
    if (input == Input::swapped_in && swappable)
      swaps.push_back({.storage = r, .use = key});
    else if (input == Input::recomputed && producer >= 0)
      static_cast<void>(
          recompute_with_inputs(state, key_of(stage, producer, round_of(key)), choose_input, drops_later, depth + 1));
  }
  state.insert_rerun(key);
  for (const Swap& swap : swaps)
    if (state.may_swap(swap)) state.insert_swap(swap);
  for (const std::int32_t s : p.writes[op]) {
    const std::vector<Key>& starts = state.starts(s);
    const auto later = std::ranges::upper_bound(starts, key);
    if (later != starts.end() && op_of(*later) == op && !is_first_run(*later) && drops_later())
      erase_with_idle(state, *later);
    break;
  }
  return true;
}

/// Undoes swaps and recomputations without which no op is further above the budget, the last first, while there is work
/// left for it (entries of the profile looked at).
inline void undo_idle(State& state, std::int64_t most_work) {
  const std::int64_t end = state.profile().work() + most_work;
  Bytes overflow = state.profile().overflow();
  const auto try_without = [&](auto&& erase) {
    if (state.profile().work() > end) return;
    state.mark();
    const std::int64_t cost = state.added_cost();
    erase();
    if (state.profile().overflow() > overflow || state.added_cost() > cost) state.roll_back();
    overflow = state.profile().overflow();
  };
  const std::vector<Swap> swaps = state.swaps();
  for (auto swap = swaps.rbegin(); swap != swaps.rend(); ++swap) try_without([&] { state.erase_swap(*swap); });
  const std::vector<Key> reruns = state.reruns();
  for (auto key = reruns.rbegin(); key != reruns.rend(); ++key)
    if (state.runs_at(*key)) try_without([&] { erase_with_idle(state, *key); });
  state.mark();
}

/// Undoes recomputations that serve nothing.
inline void erase_useless(State& state) {
  const std::vector<Key> keys = state.reruns();
  for (auto key = keys.rbegin(); key != keys.rend(); ++key)
    if (state.runs_at(*key) && state.is_useless(*key)) erase_with_idle(state, *key);
}

/// That schedule but for recomputations that serve nothing. They and swaps may come in any order, recomputations more
/// than once.
/// `also(state)` may change it further.
template <class Also>
Solution without_useless(const Problem& problem, Solution solution, Bytes budget, Also&& also) {
  std::vector<Key>& keys = solution.reruns;
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::ranges::sort(solution.swaps, {}, [](const Swap& swap) { return std::pair(swap.storage, swap.use); });
  State state(problem, budget);
  state.load(solution);
  erase_useless(state);
  also(state);
  return state.solution();
}

inline Solution without_useless(const Problem& problem, Solution solution) {
  constexpr Bytes kNoBudget = std::numeric_limits<Bytes>::max() / 4;  // nothing above it to keep count of
  return without_useless(problem, std::move(solution), kNoBudget, [](State&) {});
}

}  // namespace tidemark::decide::flat
