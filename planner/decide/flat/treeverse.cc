#include "planner/decide/flat/treeverse.h"

#include <algorithm>

namespace tidemark::decide::flat {

std::size_t Treeverse::at(std::int32_t length, std::int32_t stored) const {
  return static_cast<std::size_t>(stored - 1) * static_cast<std::size_t>(length_ + 1) +
         static_cast<std::size_t>(length);
}

Treeverse::Treeverse(std::int32_t steps, std::int32_t stored) : length_(steps), stored_(stored) {
  cost_.assign(at(steps, stored) + 1, 0);
  store_.assign(cost_.size(), 0);
  for (std::int32_t length = 2; length <= steps; ++length) {
    cost_[at(length, 1)] = static_cast<std::int64_t>(length) * (length - 1) / 2;
    for (std::int32_t s = 2; s <= stored; ++s) {
      // The best place moves by at most one step from one length to the next.
      const std::int32_t before = std::max<std::int32_t>(store_[at(length - 1, s)], 1);
      std::int32_t best = before;
      const auto with = [&](std::int32_t m) { return m + cost(length - m, s - 1) + cost(m, s); };
      if (before + 1 < length && with(before + 1) < with(before)) best = before + 1;
      cost_[at(length, s)] = with(best);
      store_[at(length, s)] = best;
    }
  }
}

void Treeverse::for_each_advance(const std::function<void(std::int32_t, std::int32_t, std::int32_t)>& visit) const {
  // States begin + 1 .. begin + length - 1 are still needed, the last one first; `begin` is stored. `fresh`: the first
  // run is passing here, and every state can be stored as it passes.
  struct Part {
    std::int32_t begin, length, stored;
    bool fresh;
  };
  std::vector<Part> parts{{.begin = 0, .length = length_, .stored = stored_, .fresh = true}};
  while (!parts.empty()) {
    const Part part = parts.back();
    parts.pop_back();
    if (part.length <= 1) continue;
    const std::int32_t last = part.begin + part.length - 1;
    if (part.stored == 1) {
      for (std::int32_t state = last; state > part.begin; --state)
        if (!part.fresh || state < last) visit(part.begin, state, state);
      continue;
    }
    const std::int32_t m = store_[at(part.length, part.stored)];
    if (!part.fresh) visit(part.begin, part.begin + m, last);
    parts.push_back({.begin = part.begin, .length = m, .stored = part.stored, .fresh = false});
    parts.push_back(
        {.begin = part.begin + m, .length = part.length - m, .stored = part.stored - 1, .fresh = part.fresh});
  }
}

}  // namespace tidemark::decide::flat
