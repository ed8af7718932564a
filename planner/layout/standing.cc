#include "planner/layout/standing.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace tidemark::layout {
namespace {

constexpr std::size_t kPartsPerSlot = 256;
constexpr std::int64_t kStepsPerUnit = 256;
// Where most lives are long, every slot holds most of the parts: fewer slots then, so that memory stays in bounds.
constexpr std::size_t kMostEntries = 8'000'000;

std::size_t slot_of(const std::vector<std::int32_t>& starts, std::int32_t moment) {
  return static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), moment) - starts.begin()) - 1;
}

bool too_many_entries(std::span<const BlockPart> parts, const std::vector<std::int32_t>& starts) {
  if (parts.size() * starts.size() <= kMostEntries) return false;
  std::size_t entries = 0;
  for (const BlockPart& part : parts) entries += slot_of(starts, part.end) - slot_of(starts, part.begin) + 1;
  return entries > kMostEntries;
}

// A slot begins where a 256th part begins or ends.
std::vector<std::int32_t> cut_clock(std::span<const BlockPart> parts) {
  std::vector<std::int32_t> times;
  for (const BlockPart& part : parts) times.insert(times.end(), {part.begin, part.end});
  const std::size_t slots = std::bit_ceil(parts.size() / kPartsPerSlot + 1);
  std::vector<std::int32_t> starts{std::numeric_limits<std::int32_t>::min()};
  auto from = times.begin();
  for (std::size_t slot = 1; slot < slots; ++slot) {
    const auto at = times.begin() + static_cast<std::ptrdiff_t>(slot * times.size() / slots);
    std::nth_element(from, at, times.end());
    starts.push_back(*at);
    from = at;
  }
  while (starts.size() > 1 && too_many_entries(parts, starts)) {
    for (std::size_t slot = 0; slot < starts.size() / 2; ++slot) starts[slot] = starts[2 * slot];
    starts.resize(starts.size() / 2);
  }
  return starts;
}

void unite(std::vector<ByteRange>& ranges, ByteRange next) {
  if (!ranges.empty() && next.begin <= ranges.back().end) {
    ranges.back().end = std::max(ranges.back().end, next.end);
  } else {
    ranges.push_back(next);
  }
}

void unite(std::span<const ByteRange> a, std::span<const ByteRange> b, std::vector<ByteRange>& sum) {
  sum.clear();
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() || j < b.size())
    unite(sum, j == b.size() || (i < a.size() && a[i].begin <= b[j].begin) ? a[i++] : b[j++]);
}

bool before(const Standing::Entry& a, const Standing::Entry& b) {
  return a.bytes.begin != b.bytes.begin ? a.bytes.begin < b.bytes.begin : a.block < b.block;
}

}  // namespace

Standing::Standing(const Blocks& blocks, std::span<const Bytes> addresses)
    : blocks_(blocks),
      addresses_(addresses.begin(), addresses.end()),
      starts_(cut_clock(blocks.parts())),
      slots_(starts_.size()),
      unions_(2 * starts_.size()),
      made_(2 * starts_.size(), 0),
      is_out_(blocks.size(), 0) {
  for (std::uint32_t block = 0; block < blocks.size(); ++block) {
    for (const BlockPart& part : blocks.parts(block)) {
      const Bytes begin = addresses_[block] + part.shift;
      for (std::size_t slot = slot_at(part.begin); slot < slots_.size() && (starts_[slot] < part.end || slot == 0);
           ++slot)
        slots_[slot].push_back({{begin, begin + part.bytes}, part.begin, part.end, block});
    }
  }
  for (auto& slot : slots_) std::sort(slot.begin(), slot.end(), before);
}

Bytes Standing::height() const {
  Bytes height = 0;
  for (std::uint32_t block = 0; block < blocks_.size(); ++block) height = std::max(height, top(block));
  return height;
}

std::size_t Standing::slot_at(std::int32_t moment) const {
  return slot_of(starts_, moment);
}

std::int32_t Standing::slot_end(std::size_t slot) const {
  return slot + 1 < starts_.size() ? starts_[slot + 1] : std::numeric_limits<std::int32_t>::max();
}

void Standing::take_out(std::span<const std::uint32_t> blocks) {
  for (const std::uint32_t block : out_) is_out_[block] = 0;
  out_.assign(blocks.begin(), blocks.end());
  for (const std::uint32_t block : out_) is_out_[block] = 1;
  ++round_;
}

std::span<const ByteRange> Standing::used(std::int32_t from, std::int32_t to) {
  sum_.clear();
  collect(1, 0, slots_.size(), from, to);
  return sum_;
}

void Standing::collect(std::size_t node, std::size_t first, std::size_t last, std::int32_t from, std::int32_t to) {
  if (to <= starts_[first] || slot_end(last - 1) <= from) return;
  if (from <= starts_[first] && slot_end(last - 1) <= to) {
    add(node_union(node));
  } else if (last - first > 1) {
    const std::size_t middle = first + (last - first) / 2;
    collect(2 * node, first, middle, from, to);
    collect(2 * node + 1, middle, last, from, to);
  } else {
    part_.clear();
    for (const Entry& entry : slots_[first]) {
      if (entry.from < to && from < entry.to && is_out_[entry.block] == 0) unite(part_, entry.bytes);
    }
    steps_ += static_cast<std::int64_t>(slots_[first].size());
    add(part_);
  }
}

const std::vector<ByteRange>& Standing::node_union(std::size_t node) {
  auto& ranges = unions_[node];
  if (made_[node] == round_) return ranges;
  made_[node] = round_;
  if (node < slots_.size()) {
    const auto& left = node_union(2 * node);
    const auto& right = node_union(2 * node + 1);
    unite(left, right, ranges);
    steps_ += static_cast<std::int64_t>(left.size() + right.size());
    return ranges;
  }
  ranges.clear();
  const auto& slot = slots_[node - slots_.size()];
  for (const Entry& entry : slot) {
    if (is_out_[entry.block] == 0) unite(ranges, entry.bytes);
  }
  steps_ += static_cast<std::int64_t>(slot.size());
  return ranges;
}

void Standing::add(std::span<const ByteRange> ranges) {
  steps_ += static_cast<std::int64_t>(sum_.size() + ranges.size());
  if (sum_.empty()) {
    sum_.assign(ranges.begin(), ranges.end());
    return;
  }
  unite(sum_, ranges, other_);
  std::swap(sum_, other_);
}

void Standing::move(std::uint32_t block, Bytes address) {
  for (const BlockPart& part : blocks_.parts(block)) {
    const Bytes begin = addresses_[block] + part.shift;
    const Entry old{{begin, begin + part.bytes}, part.begin, part.end, block};
    Entry now = old;
    now.bytes = {address + part.shift, address + part.shift + part.bytes};
    for (std::size_t slot = slot_at(part.begin); slot < slots_.size() && (starts_[slot] < part.end || slot == 0);
         ++slot) {
      auto& entries = slots_[slot];
      auto at = std::lower_bound(entries.begin(), entries.end(), old, before);
      while (at->from != part.begin || at->bytes.end != old.bytes.end) ++at;  // parts of one block may begin alike
      const auto to = std::lower_bound(entries.begin(), entries.end(), now, before);
      *at = now;
      if (to > at) {
        std::rotate(at, at + 1, to);
      } else {
        std::rotate(to, at, at + 1);
      }
      steps_ += std::abs(to - at) / 8 + 8;
    }
  }
  addresses_[block] = address;
}

std::int64_t Standing::take_cost() {
  const std::int64_t units = steps_ / kStepsPerUnit;
  steps_ %= kStepsPerUnit;
  return units;
}

}  // namespace tidemark::layout
