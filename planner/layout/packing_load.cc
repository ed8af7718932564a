#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "planner/layout/blocks.h"
#include "planner/layout/order.h"

namespace tidemark::layout {
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

// Most steps have about as many moments as items: then what comes and goes at each is added up without sorting.
constexpr std::int64_t kMomentsPerItem = 8;

struct Clock {
  std::int32_t begin = std::numeric_limits<std::int32_t>::max();
  std::int32_t end = std::numeric_limits<std::int32_t>::min();
  [[nodiscard]] std::int64_t moments() const { return std::int64_t{end} - begin; }
};

Clock clock_of(std::span<const PackItem> items) {
  Clock clock;
  for (const PackItem& item : items) {
    if (!item.takes_part()) continue;
    clock.begin = std::min(clock.begin, item.begin);
    clock.end = std::max(clock.end, item.end);
  }
  return clock;
}

Bytes load_by_moment(std::span<const PackItem> items, Bytes alignment, const Clock& clock) {
  std::vector<Bytes> change(static_cast<std::size_t>(clock.moments()) + 1, 0);
  for (const PackItem& item : items) {
    if (!item.takes_part()) continue;
    const Bytes bytes = round_up(item.bytes, alignment);
    change[static_cast<std::size_t>(std::int64_t{item.begin} - clock.begin)] += bytes;
    change[static_cast<std::size_t>(std::int64_t{item.end} - clock.begin)] -= bytes;
  }
  Bytes load = 0;
  Bytes live = 0;
  for (const Bytes bytes : change) load = std::max(load, live += bytes);
  return load;
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
  if (problem.plain()) {
    const Clock clock = clock_of(problem.items);
    if (clock.moments() <= 0) return 0;
    if (clock.moments() <= kMomentsPerItem * std::ssize(problem.items))
      return load_by_moment(problem.items, problem.alignment, clock);
  }
  const Blocks blocks(problem);
  if (blocks.plain()) return load_of(blocks.hulls());
  Bytes load = load_of(separate_parts(blocks));
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    if (blocks.fixed(block) != kAnywhere) load = std::max(load, blocks.fixed(block) + blocks.hulls()[block].bytes);
  }
  return load;
}

PackAnswer answer_of(Bytes load_bytes, Packing packing, std::string_view packer) {
  PackAnswer answer{.packing = std::move(packing), .bound_bytes = load_bytes, .packer = packer};
  if (answer.packing.height_bytes == answer.bound_bytes) answer.status = PackStatus::optimal;
  return answer;
}

PackAnswer answer_of(const PackProblem& problem, Packing packing, std::string_view packer) {
  return answer_of(packing_load(problem), std::move(packing), packer);
}

}  // namespace tidemark::layout
