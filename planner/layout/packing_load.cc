#include <algorithm>
#include <utility>

#include "planner/layout/blocks.h"
#include "planner/layout/order.h"

namespace tidemark {
namespace {

// Bytes of one block that live together may be the same bytes: only the most of them count.
Bytes block_load(std::span<const BlockPart> parts, std::int32_t begin, std::int32_t end) {
  Bytes most = 0;
  for (const BlockPart& part : parts) {
    if (part.begin < end && begin < part.end) most = std::max(most, part.bytes);
  }
  return most;
}

// Parts such that no two of one block live at the same time, none needing more bytes than the block does there.
std::vector<PackItem> separate_parts(const Blocks& blocks) {
  std::vector<PackItem> items;
  std::vector<std::int32_t> times;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    const auto parts = blocks.parts(block);
    times.clear();
    for (const BlockPart& part : parts) times.insert(times.end(), {part.begin, part.end});
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    for (std::size_t t = 1; t < times.size(); ++t) {
      const Bytes bytes = block_load(parts, times[t - 1], times[t]);
      if (bytes > 0) items.push_back({times[t - 1], times[t], bytes});
    }
  }
  return items;
}

Bytes load_of(std::span<const PackItem> items) {
  const auto starts = sorted_rows(items, [](const PackItem& item) { return SortKey{.first = item.begin}; });
  const auto ends = sorted_rows(items, [](const PackItem& item) { return SortKey{.first = item.end}; });
  Bytes load = 0;
  Bytes live = 0;
  auto ended = ends.begin();
  for (const SortKey& start : starts) {
    for (; ended->first <= start.first; ++ended) live -= items[ended->row].bytes;
    live += items[start.row].bytes;
    load = std::max(load, live);
  }
  return load;
}

}  // namespace

Bytes packing_load(const PackProblem& problem) {
  const Blocks blocks(problem);
  return blocks.plain() ? load_of(blocks.hulls()) : load_of(separate_parts(blocks));
}

PackAnswer answer_of(const PackProblem& problem, Packing packing, std::string_view packer) {
  PackAnswer answer{.packing = std::move(packing), .bound_bytes = packing_load(problem), .packer = packer};
  if (answer.packing.height_bytes == answer.bound_bytes) answer.status = PackStatus::optimal;
  return answer;
}

}  // namespace tidemark
