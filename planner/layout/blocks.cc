#include "planner/layout/blocks.h"

#include <algorithm>
#include <numeric>

namespace tidemark::layout {

Blocks::Blocks(const PackProblem& problem) : plain_(problem.plain()), items_(problem.items.size()) {
  if (plain_) {
    alignment_ = {problem.alignment};
    first_part_.push_back(0);
    for (std::size_t i = 0; i < items_; ++i) {
      const PackItem& item = problem.items[i];
      if (!item.takes_part()) continue;
      const Bytes bytes = round_up(item.bytes, problem.alignment);
      hulls_.push_back({item.begin, item.end, bytes});
      parts_.push_back({.begin = item.begin, .end = item.end, .shift = 0, .bytes = bytes});
      item_of_part_.push_back(static_cast<std::int32_t>(i));
      first_part_.push_back(static_cast<std::uint32_t>(parts_.size()));
    }
    return;
  }
  join(problem);
  keep_apart(problem);
}

void Blocks::join(const PackProblem& problem) {
  // Blocks in the order of their first items: a stable sort by number, then numbers by first item.
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < items_; ++i) {
    if (problem.items[i].takes_part()) rows.push_back(static_cast<std::int32_t>(i));
  }
  const auto number = [&](std::int32_t row) { return problem.block(static_cast<std::size_t>(row)); };
  std::stable_sort(rows.begin(), rows.end(), [&](std::int32_t a, std::int32_t b) { return number(a) < number(b); });
  std::vector<std::span<const std::int32_t>> groups;
  for (std::size_t from = 0, to = 0; from < rows.size(); from = to) {
    while (to < rows.size() && number(rows[to]) == number(rows[from])) ++to;
    groups.push_back(std::span(rows).subspan(from, to - from));
  }
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.front() < b.front(); });

  first_part_.push_back(0);
  for (const auto& group : groups) {
    PackItem hull{.begin = problem.items[static_cast<std::size_t>(group.front())].begin,
                  .end = problem.items[static_cast<std::size_t>(group.front())].end,
                  .bytes = 0};
    Bytes alignment = problem.alignment;
    Bytes fixed = kAnywhere;
    for (const std::int32_t row : group) {
      const auto i = static_cast<std::size_t>(row);
      const PackItem& item = problem.items[i];
      const Bytes shift = problem.shift_in_block(i);
      const Bytes bytes = round_up(item.bytes, problem.alignment);
      parts_.push_back({.begin = item.begin, .end = item.end, .shift = shift, .bytes = bytes});
      item_of_part_.push_back(row);
      hull = {std::min(hull.begin, item.begin), std::max(hull.end, item.end), std::max(hull.bytes, shift + bytes)};
      alignment = std::lcm(alignment, problem.block_alignment(i));
      if (problem.fixed(i) != kAnywhere) fixed = problem.fixed(i) - shift;
    }
    hulls_.push_back(hull);
    alignment_.push_back(alignment);
    fixed_.push_back(fixed);
    first_part_.push_back(static_cast<std::uint32_t>(parts_.size()));
  }
}

void Blocks::keep_apart(const PackProblem& problem) {
  if (problem.apart.empty()) return;
  constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  std::vector<std::uint32_t> block_of(items_, kNobody);
  for (std::size_t block = 0; block < size(); ++block) {
    for (std::uint32_t part = first_part_[block]; part < first_part_[block + 1]; ++part)
      block_of[static_cast<std::size_t>(item_of_part_[part])] = static_cast<std::uint32_t>(block);
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (const auto& [one, other] : problem.apart) {
    const std::uint32_t a = block_of[static_cast<std::size_t>(one)];
    const std::uint32_t b = block_of[static_cast<std::size_t>(other)];
    if (a == kNobody || b == kNobody || a == b) continue;
    pairs.emplace_back(a, b);
    pairs.emplace_back(b, a);
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  first_apart_.assign(size() + 1, 0);
  for (const auto& [a, b] : pairs) {
    ++first_apart_[a + 1];
    apart_.push_back(b);
  }
  std::partial_sum(first_apart_.begin(), first_apart_.end(), first_apart_.begin());
}

Packing Blocks::packing(std::span<const Bytes> addresses) const {
  Packing packing;
  packing.offsets.assign(items_, 0);
  for (std::size_t block = 0; block < size(); ++block) {
    packing.height_bytes = std::max(packing.height_bytes, addresses[block] + hulls_[block].bytes);
    for (std::uint32_t part = first_part_[block]; part < first_part_[block + 1]; ++part)
      packing.offsets[static_cast<std::size_t>(item_of_part_[part])] = addresses[block] + parts_[part].shift;
  }
  return packing;
}

Bytes Blocks::height(std::span<const Bytes> addresses) const {
  Bytes height = 0;
  for (std::size_t b = 0; b < addresses.size(); ++b) height = std::max(height, addresses[b] + hulls_[b].bytes);
  return height;
}

std::vector<Bytes> Blocks::addresses(const Packing& packing) const {
  std::vector<Bytes> addresses;
  for (std::size_t block = 0; block < size(); ++block) {
    const std::uint32_t part = first_part_[block];
    addresses.push_back(packing.offsets[static_cast<std::size_t>(item_of_part_[part])] - parts_[part].shift);
  }
  return addresses;
}

}  // namespace tidemark::layout
