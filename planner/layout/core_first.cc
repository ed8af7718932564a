#include "planner/layout/core_first.h"

#include <algorithm>
#include <array>

#include "planner/layout/exact_search.h"
#include "planner/layout/load_profile.h"
#include "planner/layout/order.h"
#include "planner/layout/placer.h"

namespace tidemark::layout {
namespace {

constexpr std::array kShares = {0.999, 0.99, 0.98, 0.97, 0.95, 0.93, 0.9};
// A core beyond this is beyond the exact search; where even this share of the peak is that crowded there is no core.
constexpr std::size_t kMostBlocks = 1500;
constexpr double kCrowdedShare = 0.97;
constexpr std::int64_t kMostWork = 100'000;

using Rows = std::vector<std::uint32_t>;

Rows busier_than(const std::vector<Bytes>& peaks, double share, Bytes capacity) {
  Rows rows;
  for (std::uint32_t block = 0; block < peaks.size(); ++block) {
    if (static_cast<double>(peaks[block]) >= share * static_cast<double>(capacity)) rows.push_back(block);
  }
  return rows;
}

FitAnswer fit_core(const Blocks& blocks, const Rows& core, Bytes capacity, const FitLimits& limits) {
  PackProblem problem{.alignment = blocks.alignment(0)};
  for (const std::uint32_t block : core) problem.items.push_back(blocks.hulls()[block]);
  return fit(Blocks(problem), capacity, limits);
}

std::vector<Bytes> place_rest(const Blocks& blocks, Rows core, const std::vector<Bytes>& at, bool by_life,
                              const std::function<bool()>& should_stop) {
  std::vector<PackItem> rest(blocks.hulls().begin(), blocks.hulls().end());
  Placer placer(blocks);
  std::vector<Bytes> address(blocks.size(), 0);
  for (std::size_t c = 0; c < core.size(); ++c) {
    address[core[c]] = at[c];
    rest[core[c]].bytes = 0;
  }
  // Lowest first, so that none ends higher than the search put it.
  std::stable_sort(core.begin(), core.end(), [&](auto a, auto b) { return address[a] < address[b]; });
  for (const std::uint32_t block : core) placer.place(block, placer.lowest_fit(block));
  const auto order = sorted_rows(rest, [&](const PackItem& item) {
    return by_life ? SortKey{.first = -item.life(), .second = -item.bytes}
                   : SortKey{.first = -item.bytes, .second = -item.life()};
  });
  placer.place_all(order, should_stop);
  return {placer.addresses().begin(), placer.addresses().end()};
}

}  // namespace

bool pack_core_first(const Blocks& blocks, Bytes capacity, Effort& effort, const std::function<bool()>& should_stop,
                     std::vector<Bytes>& addresses) {
  const LoadProfile profile(blocks.parts());
  std::vector<Bytes> peaks;
  for (const PackItem& hull : blocks.hulls()) peaks.push_back(profile.peak_during(hull.begin, hull.end));
  if (busier_than(peaks, kCrowdedShare, capacity).size() > kMostBlocks) return false;
  const auto pass_cost = static_cast<std::int64_t>(blocks.size());
  effort.spend(pass_cost / 4);
  Bytes height = blocks.height(addresses);
  bool lower = false;
  std::size_t last_size = 0;
  for (const double share : kShares) {
    const Rows core = busier_than(peaks, share, capacity);
    if (core.size() == last_size) continue;
    if (core.size() > kMostBlocks || height <= capacity || effort.over()) break;
    last_size = core.size();
    const FitAnswer fitted =
        fit_core(blocks, core, capacity, {.work = std::min(effort.left(), kMostWork), .should_stop = should_stop});
    effort.spend(fitted.work);
    if (fitted.status != FitStatus::placed) break;
    for (const bool by_life : {false, true}) {
      if (height <= capacity || effort.over()) break;
      std::vector<Bytes> found = place_rest(blocks, core, fitted.addresses, by_life, should_stop);
      effort.spend(pass_cost);
      const Bytes found_height = blocks.height(found);
      if (found_height >= height) continue;
      height = found_height;
      addresses = std::move(found);
      lower = true;
    }
  }
  return lower;
}

}  // namespace tidemark::layout
