#include "planner/layout/pack_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "planner/layout/check_packing.h"

namespace tidemark::layout {
namespace {

using Found = std::optional<std::string>;

constexpr Bytes kMostBytes = std::int64_t{1} << 60;
constexpr Bytes kMostAlignment = std::int64_t{1} << 40;

Found check_shape(const PackProblem& problem) {
  const std::size_t count = problem.items.size();
  if (count >= std::size_t{1} << 31) return fmt::format("{} items, at most 2^31 - 1 are packed", count);
  if (problem.alignment <= 0 || problem.alignment > kMostAlignment)
    return fmt::format("alignment {}, it must be from 1 to 2^40", problem.alignment);
  for (const std::size_t size : {problem.block_of.size(), problem.shift.size(), problem.own_alignment.size(),
                                 problem.fixed_offset.size(), problem.hint.size()}) {
    if (size != 0 && size != count) return fmt::format("{} entries for {} items", size, count);
  }
  for (const auto& [a, b] : problem.apart) {
    if (a < 0 || b < 0 || static_cast<std::size_t>(std::max(a, b)) >= count)
      return fmt::format("items {} and {} are to be apart, there are {} items", a, b, count);
  }
  return {};
}

Found check_sizes(const PackProblem& problem) {
  Bytes sum = 0;
  Bytes highest = 0;
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    const Bytes bytes = problem.items[i].bytes;
    const Bytes shift = problem.shift_in_block(i);
    const Bytes own = problem.block_alignment(i);
    const Bytes fixed = problem.fixed(i);
    if (bytes < 0) return fmt::format("item {} has {} bytes", i, bytes);
    if (own <= 0 || own > kMostAlignment) return fmt::format("item {} is aligned to {}, it must be 1 to 2^40", i, own);
    if (shift < 0 || shift > kMostBytes || shift % problem.alignment != 0)
      return fmt::format("item {} begins {} bytes into its block, it must be a multiple of {}", i, shift,
                         problem.alignment);
    if (fixed != kAnywhere && (fixed < shift || fixed > kMostBytes))
      return fmt::format("item {} is fixed to offset {}, it must be {} to 2^60", i, fixed, shift);
    if (bytes > kMostBytes || sum > kMostBytes) return std::string("the sizes add up to more than 2^60 bytes");
    // An alignment of its own may cost an item that much room once more.
    sum += round_up(bytes, problem.alignment) + own + shift;
    highest = std::max(highest, fixed);
    if (sum > kMostBytes) return std::string("the sizes add up to more than 2^60 bytes");
  }
  if (sum + highest > kMostBytes) return std::string("sizes above the highest fixed address exceed 2^60 bytes");
  return {};
}

struct BlockFacts {
  std::int32_t item = 0;  // that fixed it
  Bytes fixed = kAnywhere;
  Bytes alignment = 1;
};

// The least common multiple, or something above the most alignment: numbers without common factors overflow soon.
Bytes common_alignment(Bytes a, Bytes b) {
  const Bytes step = b / std::gcd(a, b);
  return a > kMostAlignment / step ? kMostAlignment + 1 : a * step;
}

// Items of a block that are fixed, or aligned, in ways that contradict each other.
Found check_blocks(const PackProblem& problem) {
  std::map<std::int32_t, BlockFacts> blocks;
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    if (!problem.items[i].takes_part()) continue;
    BlockFacts& facts = blocks[problem.block(i)];
    if (!problem.own_alignment.empty()) {
      facts.alignment =
          common_alignment(common_alignment(facts.alignment, problem.alignment), problem.own_alignment[i]);
      if (facts.alignment > kMostAlignment)
        return fmt::format("item {} is in a block aligned to {} bytes, the most is 2^40", i, facts.alignment);
    }
    if (problem.fixed(i) == kAnywhere) continue;
    const Bytes address = problem.fixed(i) - problem.shift_in_block(i);
    if (facts.fixed != kAnywhere && facts.fixed != address)
      return fmt::format("items {} and {} are fixed to different addresses of one block", facts.item, i);
    facts.fixed = address;
    facts.item = static_cast<std::int32_t>(i);
  }
  Bytes sum = 0;
  for (const auto& [number, facts] : blocks) {
    const Bytes alignment = common_alignment(problem.alignment, facts.alignment);
    // As much may be lost in front of every block, and addresses are to stay in range.
    sum += problem.own_alignment.empty() ? 0 : alignment;
    if (sum > kMostBytes) return std::string("the alignments add up to more than 2^60 bytes");
    if (facts.fixed != kAnywhere && facts.fixed % alignment != 0)
      return fmt::format("item {} is fixed to an address that is no multiple of {}", facts.item, alignment);
  }
  return {};
}

// Of items of blocks that are fixed; kAnywhere: free to move.
std::vector<Bytes> fixed_offsets(const PackProblem& problem) {
  std::map<std::int32_t, Bytes> address;
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    if (problem.items[i].takes_part() && problem.fixed(i) != kAnywhere)
      address[problem.block(i)] = problem.fixed(i) - problem.shift_in_block(i);
  }
  std::vector<Bytes> offsets(problem.items.size(), kAnywhere);
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    if (const auto at = address.find(problem.block(i)); at != address.end())
      offsets[i] = at->second + problem.shift_in_block(i);
  }
  return offsets;
}

// Fixed items that lie on shared bytes, and pairs kept apart that lie in one block or do.
Found check_places(const PackProblem& problem) {
  const std::vector<Bytes> offsets = fixed_offsets(problem);
  if (const auto found = find_shared(problem, offsets))
    return fmt::format("items {} and {} are fixed to bytes that they would share", found->first, found->second);
  for (const auto& [a, b] : problem.apart) {
    const auto i = static_cast<std::size_t>(a);
    const auto j = static_cast<std::size_t>(b);
    if (a == b) return fmt::format("item {} is to be apart from itself", a);
    if (problem.items[i].takes_part() && problem.items[j].takes_part() && problem.block(i) == problem.block(j))
      return fmt::format("items {} and {} are to be apart and in one block", a, b);
  }
  if (const auto found = find_shared_apart(problem, offsets))
    return fmt::format("items {} and {} are to be apart and fixed to bytes that they would share", found->first,
                       found->second);
  return {};
}

}  // namespace

std::optional<std::string> find_contradiction(const PackProblem& problem) {
  if (Found found = check_shape(problem)) return found;
  if (Found found = check_sizes(problem)) return found;
  if (problem.plain()) return {};
  if (Found found = check_blocks(problem)) return found;
  return check_places(problem);
}

}  // namespace tidemark::layout
