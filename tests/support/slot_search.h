#pragma once
// The shortest step of a small pipeline with passes of one slot each and no latency, over all orders that take
// micro-batches in turn: breadth first over what has run on every rank, slot by slot.

#include <cstdint>
#include <set>
#include <vector>

namespace tidemark::testing {

class SlotSearch {
 public:
  /// chunks: 1, or 2 as a V. held_limit: chunk passes a rank may hold.
  SlotSearch(std::int32_t ranks, std::int32_t chunks, std::int32_t micro_batches, std::int32_t held_limit)
      : ranks_(ranks), chunks_(chunks), micro_batches_(micro_batches), held_limit_(held_limit) {}

  [[nodiscard]] std::int32_t shortest_slots() const {
    std::set<State> states{State(static_cast<std::size_t>(ranks_ * lanes()), 0)};
    const State complete = finished();
    for (std::int32_t slot = 0;; ++slot) {
      if (states.contains(complete)) return slot;
      std::set<State> next;
      for (const State& state : states) spread(state, state, 0, next);
      states = std::move(next);
    }
  }

 private:
  /// [rank][lane] passes run. Lanes: forwards and dX in the order a micro-batch needs them, then dW of each chunk.
  using State = std::vector<std::int8_t>;

  [[nodiscard]] std::int32_t ways() const { return 2 * chunks_; }
  [[nodiscard]] std::int32_t lanes() const { return 3 * chunks_; }
  [[nodiscard]] State finished() const {
    return State(static_cast<std::size_t>(ranks_ * lanes()), static_cast<std::int8_t>(micro_batches_));
  }
  [[nodiscard]] std::int32_t count(const State& state, std::int32_t rank, std::int32_t lane) const {
    return state[static_cast<std::size_t>(rank * lanes() + lane)];
  }

  [[nodiscard]] std::int32_t held(const State& state, std::int32_t rank) const {
    std::int32_t held = 0;
    for (std::int32_t lane = 0; lane < chunks_; ++lane) held += count(state, rank, lane);
    for (std::int32_t lane = ways(); lane < lanes(); ++lane) held -= count(state, rank, lane);
    return held;
  }

  [[nodiscard]] bool can_run(const State& state, std::int32_t rank, std::int32_t lane) const {
    const std::int32_t n = count(state, rank, lane);
    if (n == micro_batches_) return false;
    if (lane >= ways()) return count(state, rank, lane - chunks_) > n;  // dW after its dX
    if (lane < chunks_ && held(state, rank) == held_limit_) return false;
    if (lane > 0 && count(state, rank, lane - 1) <= n) return false;
    // One chunk: forward up the ranks, dX down. V: up, down, up, down.
    const std::int32_t from = lane % 2 == 0 ? rank - 1 : rank + 1;
    return from < 0 || from >= ranks_ || count(state, from, lane) > n;
  }

  /// All ways in which ranks from `rank` on may use one slot that begins with `before`.
  void spread(const State& before, const State& after, std::int32_t rank, std::set<State>& out) const {
    if (rank == ranks_) {
      out.insert(after);
      return;
    }
    for (std::int32_t lane = 0; lane < lanes(); ++lane) {
      if (!can_run(before, rank, lane)) continue;
      State next = after;
      ++next[static_cast<std::size_t>(rank * lanes() + lane)];
      spread(before, next, rank + 1, out);
    }
    spread(before, after, rank + 1, out);
  }

  std::int32_t ranks_, chunks_, micro_batches_, held_limit_;
};

}  // namespace tidemark::testing
