// Long lives from the bottom in start order, then the rest by decreasing size. In a pipeline the activations saved
// between a forward pass and its backward pass are born and die in nearly the same order, so in start order they leave
// each other whole gaps; transients then fill what is left above and between them, largest first.

#include <algorithm>

#include "planner/layout/placer.h"

namespace tidemark::layout {
namespace {

// Lives at least as long as the mean: with many transients and few saved storages, the mean parts the two.
std::int64_t mean_life(std::span<const PackItem> items) {
  std::int64_t total = 0;
  for (const PackItem& item : items) total += std::int64_t{item.end} - item.begin;
  return items.empty() ? 0 : total / static_cast<std::int64_t>(items.size());
}

PackAnswer pack(const PackProblem& problem, const PackLimits& limits) {
  const Blocks blocks(problem);
  const std::span<const PackItem> hulls = blocks.hulls();
  const std::int64_t long_life = mean_life(hulls);
  std::vector<SortKey> order = sorted_rows(
      hulls, [](const PackItem& block) { return SortKey{.first = block.begin, .second = -std::int64_t{block.end}}; });
  const auto is_long = [&](const SortKey& key) {
    return std::int64_t{hulls[key.row].end} - hulls[key.row].begin >= long_life;
  };
  const auto rest = std::stable_partition(order.begin(), order.end(), is_long);
  std::stable_sort(rest, order.end(),
                   [&](const SortKey& a, const SortKey& b) { return hulls[a.row].bytes > hulls[b.row].bytes; });
  return answer_of(problem, place_in_order(blocks, order, limits), "long_lives_first");
}

}  // namespace

extern const Packer kLongLivesFirst;
const Packer kLongLivesFirst = {.name = "long_lives_first",
                                .help = "long lives in start order from the bottom, then the rest, largest first",
                                .is_order = true,
                                .pack = pack};

}  // namespace tidemark::layout
