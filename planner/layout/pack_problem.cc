#include "planner/layout/pack_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace tidemark::layout {
namespace {

using Found = std::optional<std::string>;

constexpr Bytes kMostBytes = std::int64_t{1} << 60;
constexpr Bytes kMostAlignment = std::int64_t{1} << 40;

Bytes shift_of(const PackProblem& problem, std::size_t i) {
  return problem.shift.empty() ? 0 : problem.shift[i];
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
  Bytes highest = 0;
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
    if (problem.items[i].takes_part() && problem.fixed_offset[i] != kAnywhere)
      address[number(i)] = problem.fixed_offset[i] - shift_of(problem, i);
  }
  std::vector<Fixed> fixed;
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    const auto at = address.find(number(i));
    if (!problem.items[i].takes_part() || at == address.end()) continue;
    PackItem life = problem.items[i];
    life.bytes = round_up(life.bytes, problem.alignment);
    fixed.push_back({.item = static_cast<std::int32_t>(i), .life = life, .begin = at->second + shift_of(problem, i)});
  }
  return fixed;
}

// Fixed items in use at one moment, by where they begin. Those of one block may hold the same bytes.
class FixedInUse {
 public:
  FixedInUse(const PackProblem& problem, const std::vector<Fixed>& fixed) : problem_(problem), fixed_(fixed) {
    if (problem.block_of.empty()) return;
    for (const Fixed& f : fixed) largest_ = std::max(largest_, f.life.bytes);
  }

  // The row of another block's that holds bytes of this one, or nothing.
  std::optional<std::size_t> enter(std::size_t row) {
    const Fixed& now = fixed_[row];
    // Only the one just below can reach up into this one, but for those of one block.
    auto at = by_begin_.lower_bound(now.begin);
    while (at != by_begin_.begin() &&
           (fixed_[std::prev(at)->second].end() > now.begin || std::prev(at)->first > now.begin - largest_))
      --at;
    for (; at != by_begin_.end() && at->first < now.end(); ++at) {
      const Fixed& other = fixed_[at->second];
      if (other.end() > now.begin && number(other.item) != number(now.item)) return at->second;
    }
    by_begin_.emplace(now.begin, row);
    return {};
  }
  void leave(std::size_t row) {
    auto [at, last] = by_begin_.equal_range(fixed_[row].begin);
    while (at != last && at->second != row) ++at;
    if (at != last) by_begin_.erase(at);
  }

 private:
  [[nodiscard]] std::int32_t number(std::int32_t item) const {
    return problem_.block_of.empty() ? item : problem_.block_of[static_cast<std::size_t>(item)];
  }
  const PackProblem& problem_;
  const std::vector<Fixed>& fixed_;
  Bytes largest_ = 0;
  std::multimap<Bytes, std::size_t> by_begin_;
};

// A whole table may be fixed but for one item: a sweep over the clock, not every pair.
Found check_fixed(const PackProblem& problem) {
  if (problem.fixed_offset.empty()) return {};
  const std::vector<Fixed> fixed = fixed_items(problem);
  struct Moment {
    std::int32_t time = 0;
    bool enters = false;  // what leaves comes first
    std::size_t row = 0;
    [[nodiscard]] auto key() const { return std::tuple(time, enters, row); }
  };
  std::vector<Moment> moments;
  for (std::size_t row = 0; row < fixed.size(); ++row) {
    moments.push_back({.time = fixed[row].life.begin, .enters = true, .row = row});
    moments.push_back({.time = fixed[row].life.end, .enters = false, .row = row});
  }
  std::ranges::sort(moments, {}, &Moment::key);
  FixedInUse in_use(problem, fixed);
  for (const Moment& moment : moments) {
    if (!moment.enters) {
      in_use.leave(moment.row);
    } else if (const std::optional<std::size_t> other = in_use.enter(moment.row)) {
      const auto [first, second] = std::minmax(fixed[*other].item, fixed[moment.row].item);
      return fmt::format("items {} and {} are fixed to bytes that they would share", first, second);
    }
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
    if (!problem.items[i].takes_part() || !problem.items[j].takes_part()) continue;
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

}  // namespace tidemark::layout
