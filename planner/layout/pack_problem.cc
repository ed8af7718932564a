#include "planner/layout/pack_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace tidemark {
namespace {

using Found = std::optional<std::string>;

constexpr Bytes kMostBytes = std::int64_t{1} << 60;
constexpr Bytes kMostAlignment = std::int64_t{1} << 40;

Bytes shift_of(const PackProblem& problem, std::size_t i) {
  return problem.shift.empty() ? 0 : problem.shift[i];
}

bool takes_part(const PackItem& item) {
  return item.bytes > 0 && item.begin < item.end;
}

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
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    const Bytes bytes = problem.items[i].bytes;
    const Bytes shift = shift_of(problem, i);
    const Bytes own = problem.own_alignment.empty() ? 1 : problem.own_alignment[i];
    const Bytes fixed = problem.fixed_offset.empty() ? kAnywhere : problem.fixed_offset[i];
    if (bytes < 0) return fmt::format("item {} has {} bytes", i, bytes);
    if (own <= 0 || own > kMostAlignment) return fmt::format("item {} is aligned to {}, it must be 1 to 2^40", i, own);
    if (shift < 0 || shift > kMostBytes || shift % problem.alignment != 0)
      return fmt::format("item {} begins {} bytes into its block, it must be a multiple of {}", i, shift,
                         problem.alignment);
    if (fixed != kAnywhere && (fixed < shift || fixed > kMostBytes))
      return fmt::format("item {} is fixed to offset {}, it must be {} to 2^60", i, fixed, shift);
    if (bytes > kMostBytes || sum > kMostBytes) return std::string("the sizes add up to more than 2^60 bytes");
    // An alignment of its own may cost an item that much room once more.
    sum += round_up(bytes, problem.alignment) + std::max(own, shift);
    if (sum > kMostBytes) return std::string("the sizes add up to more than 2^60 bytes");
  }
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
    if (!takes_part(problem.items[i])) continue;
    const auto row = static_cast<std::int32_t>(i);
    BlockFacts& facts = blocks[problem.block_of.empty() ? row : problem.block_of[i]];
    if (!problem.own_alignment.empty()) {
      facts.alignment =
          common_alignment(common_alignment(facts.alignment, problem.alignment), problem.own_alignment[i]);
      if (facts.alignment > kMostAlignment)
        return fmt::format("item {} is in a block aligned to {} bytes, the most is 2^40", i, facts.alignment);
    }
    if (problem.fixed_offset.empty() || problem.fixed_offset[i] == kAnywhere) continue;
    const Bytes address = problem.fixed_offset[i] - shift_of(problem, i);
    if (facts.fixed != kAnywhere && facts.fixed != address)
      return fmt::format("items {} and {} are fixed to different addresses of one block", facts.item, i);
    facts.fixed = address;
    facts.item = row;
  }
  for (const auto& [number, facts] : blocks) {
    const Bytes alignment = common_alignment(problem.alignment, facts.alignment);
    if (facts.fixed != kAnywhere && facts.fixed % alignment != 0)
      return fmt::format("item {} is fixed to an address that is no multiple of {}", facts.item, alignment);
  }
  return {};
}

struct Fixed {
  std::int32_t item = 0;
  PackItem life;
  Bytes begin = 0;
  [[nodiscard]] Bytes end() const { return begin + life.bytes; }
};

std::vector<Fixed> fixed_items(const PackProblem& problem) {
  std::map<std::int32_t, Bytes> address;
  const auto number = [&](std::size_t i) {
    return problem.block_of.empty() ? static_cast<std::int32_t>(i) : problem.block_of[i];
  };
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    if (takes_part(problem.items[i]) && problem.fixed_offset[i] != kAnywhere)
      address[number(i)] = problem.fixed_offset[i] - shift_of(problem, i);
  }
  std::vector<Fixed> fixed;
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    const auto at = address.find(number(i));
    if (!takes_part(problem.items[i]) || at == address.end()) continue;
    PackItem life = problem.items[i];
    life.bytes = round_up(life.bytes, problem.alignment);
    fixed.push_back({.item = static_cast<std::int32_t>(i), .life = life, .begin = at->second + shift_of(problem, i)});
  }
  return fixed;
}

// Fixed items are few, or the caller has packed them already: a sweep over their addresses by begin of life.
Found check_fixed(const PackProblem& problem) {
  if (problem.fixed_offset.empty()) return {};
  std::vector<Fixed> fixed = fixed_items(problem);
  const auto number = [&](std::int32_t item) {
    return problem.block_of.empty() ? item : problem.block_of[static_cast<std::size_t>(item)];
  };
  std::sort(fixed.begin(), fixed.end(), [](const Fixed& a, const Fixed& b) { return a.begin < b.begin; });
  std::vector<Fixed> open;
  for (const Fixed& now : fixed) {
    std::erase_if(open, [&](const Fixed& other) { return other.end() <= now.begin; });
    for (const Fixed& other : open) {
      if (other.life.end <= now.life.begin || now.life.end <= other.life.begin) continue;
      if (number(other.item) == number(now.item)) continue;
      return fmt::format("items {} and {} are fixed to bytes that they would share", std::min(other.item, now.item),
                         std::max(other.item, now.item));
    }
    open.push_back(now);
  }
  return {};
}

// Pairs kept apart that lie in one block, or are fixed, on shared bytes.
Found check_apart(const PackProblem& problem) {
  if (problem.apart.empty()) return {};
  std::map<std::int32_t, Fixed> fixed;
  if (!problem.fixed_offset.empty()) {
    for (const Fixed& f : fixed_items(problem)) fixed.emplace(f.item, f);
  }
  for (const auto& [a, b] : problem.apart) {
    const auto i = static_cast<std::size_t>(a);
    const auto j = static_cast<std::size_t>(b);
    if (a == b) return fmt::format("item {} is to be apart from itself", a);
    if (!takes_part(problem.items[i]) || !takes_part(problem.items[j])) continue;
    if (!problem.block_of.empty() && problem.block_of[i] == problem.block_of[j])
      return fmt::format("items {} and {} are to be apart and in one block", a, b);
    const auto one = fixed.find(a);
    const auto other = fixed.find(b);
    if (one == fixed.end() || other == fixed.end()) continue;
    if (one->second.begin < other->second.end() && other->second.begin < one->second.end())
      return fmt::format("items {} and {} are to be apart and fixed to bytes that they would share", a, b);
  }
  return {};
}

}  // namespace

std::optional<std::string> find_contradiction(const PackProblem& problem) {
  if (Found found = check_shape(problem)) return found;
  if (Found found = check_sizes(problem)) return found;
  if (problem.plain()) return {};
  if (Found found = check_blocks(problem)) return found;
  if (Found found = check_fixed(problem)) return found;
  return check_apart(problem);
}

}  // namespace tidemark
