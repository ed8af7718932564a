#include "planner/layout/exact_parts.h"

#include <algorithm>
#include <numeric>

namespace tidemark::layout {
namespace {

class Sets {
 public:
  explicit Sets(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0U); }
  std::uint32_t find(std::uint32_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  // The first of all stands for them.
  void unite(std::uint32_t a, std::uint32_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::uint32_t> parent_;
};

struct Life {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  std::uint32_t block = 0;
};

}  // namespace

std::vector<std::vector<std::uint32_t>> independent_groups(const Blocks& blocks) {
  const auto count = static_cast<std::uint32_t>(blocks.size());
  Sets sets(count);
  std::vector<Life> lives;
  for (std::uint32_t block = 0; block < count; ++block) {
    for (const BlockPart& part : blocks.parts(block)) lives.push_back({part.begin, part.end, block});
    for (const std::uint32_t other : blocks.apart(block)) sets.unite(block, other);
  }
  std::ranges::sort(lives, {}, &Life::begin);
  std::int32_t end = 0;
  for (std::size_t l = 0; l < lives.size(); ++l) {
    if (l > 0 && lives[l].begin < end) sets.unite(lives[l].block, lives[l - 1].block);
    end = l == 0 ? lives[l].end : std::max(end, lives[l].end);
  }
  std::vector<std::vector<std::uint32_t>> groups;
  std::vector<std::size_t> group_of(count);
  for (std::uint32_t block = 0; block < count; ++block) {
    const std::uint32_t first = sets.find(block);
    if (first == block) {
      group_of[block] = groups.size();
      groups.emplace_back();
    }
    groups[group_of[first]].push_back(block);
  }
  return groups;
}

}  // namespace tidemark::layout
