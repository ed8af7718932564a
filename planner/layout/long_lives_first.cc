// Long lives from the bottom in start order, then the rest by decreasing size. In a pipeline the activations saved
// between a forward pass and its backward pass are born and die in nearly the same order, so in start order they leave
// each other whole gaps; transients then fill what is left above and between them, largest first.

#include <algorithm>

#include "planner/layout/placer.h"

namespace tidemark::layout {
namespace {

// Long is what lives as long as the mean: with many transients and few saved storages, the mean parts the two.
PackAnswer pack(const PackProblem& problem, const PackLimits& limits) {
  const Blocks blocks(problem);
  const std::span<const PackItem> hulls = blocks.hulls();
  const auto long_life = static_cast<std::int64_t>(mean_life(hulls));
  std::vector<SortKey> order = rows_by_birth(hulls);
  const auto is_long = [&](const SortKey& key) { return hulls[key.row].life() >= long_life; };
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
