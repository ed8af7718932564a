#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "planner/layout/blocks.h"
#include "planner/layout/order.h"

namespace tidemark {
namespace {

// Adds what one block needs from moment to moment: bytes of it that live together may be the same bytes, so only the
// most of them count. A sweep, since a block may have as many parts as a table has lines.
void add_block(std::span<const BlockPart> parts, std::vector<PackItem>& items) {
  struct Moment {
    std::int32_t time = 0;
    bool begins = false;
    Bytes bytes = 0;
  };
  std::vector<Moment> moments;
  for (const BlockPart& part : parts) {
    moments.push_back({.time = part.begin, .begins = true, .bytes = part.bytes});
    moments.push_back({.time = part.end, .begins = false, .bytes = part.bytes});
  }
  std::ranges::sort(moments, {}, [](const Moment& m) { return std::tuple(m.time, m.begins); });
  std::multiset<Bytes> alive;
  for (std::size_t m = 0; m < moments.size(); ++m) {
    if (m > 0 && moments[m - 1].time < moments[m].time && !alive.empty())
      items.push_back({moments[m - 1].time, moments[m].time, *alive.rbegin()});
    if (moments[m].begins) {
      alive.insert(moments[m].bytes);
    } else {
      alive.erase(alive.find(moments[m].bytes));
    }
  }
}

// Parts such that no two of one block live at the same time, none needing more bytes than the block does there.
std::vector<PackItem> separate_parts(const Blocks& blocks) {
  std::vector<PackItem> items;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    const auto parts = blocks.parts(block);
    if (parts.size() == 1) {
      items.push_back({parts.front().begin, parts.front().end, parts.front().bytes});
    } else {
      add_block(parts, items);
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
