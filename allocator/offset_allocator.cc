#include "allocator/offset_allocator.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdlib>
#include <limits>

#include "allocator/offset_bins.h"

namespace tidemark::allocator {
namespace {

constexpr std::uint32_t as_index(RangeId id) {
  return static_cast<std::uint32_t>(id);
}
constexpr RangeId as_id(std::uint32_t n) {
  return static_cast<RangeId>(n);
}

}  // namespace

OffsetAllocator::OffsetAllocator(Bytes capacity, Bytes unit, Initial initial)
    : unit_(unit),
      unit_shift_(std::has_single_bit(static_cast<std::uint64_t>(unit))
                      ? std::countr_zero(static_cast<std::uint64_t>(unit))
                      : -1) {
  assert(unit > 0 && capacity >= 0);
  if (capacity >= unit) grow(capacity, initial);
}
OffsetAllocator::~OffsetAllocator() = default;
OffsetAllocator::OffsetAllocator(OffsetAllocator&&) noexcept = default;
OffsetAllocator& OffsetAllocator::operator=(OffsetAllocator&&) noexcept = default;

std::uint64_t OffsetAllocator::units_of(Bytes bytes) const {
  const auto all = static_cast<std::uint64_t>(bytes);
  return unit_shift_ >= 0 ? all >> unit_shift_ : all / static_cast<std::uint64_t>(unit_);
}

OffsetAllocator::BinIndex OffsetAllocator::bin_of(Bytes bytes) const {
  const std::uint64_t units = units_of(bytes);
  if (units < kSubBins) return {.row = 0, .column = static_cast<unsigned>(units)};
  const auto power = static_cast<unsigned>(std::bit_width(units)) - 1;
  return {.row = power - kSubBits + 1, .column = static_cast<unsigned>(units >> (power - kSubBits)) & (kSubBins - 1)};
}

const OffsetAllocator::Bins* OffsetAllocator::find_bins(FreeDomain domain) const {
  return domain < bins_.size() ? bins_[domain].get() : nullptr;
}

/// Everything that can throw happens here, before anything changes.
void OffsetAllocator::reserve_books(std::size_t nodes, FreeDomain domain) {
  nodes += aside_count_;
  if (spare_count_ >= nodes && find_bins(domain) != nullptr) return;
  if (domain >= bins_.size()) bins_.resize(domain + 1);
  if (bins_[domain] == nullptr) bins_[domain] = std::make_unique<Bins>();
  if (spare_count_ >= nodes) return;
  const std::size_t wanted = nodes_.size() + nodes - spare_count_;
  if (nodes_.capacity() < wanted) nodes_.reserve(std::max(wanted, 2 * nodes_.capacity() + 16));
}

std::uint32_t OffsetAllocator::take_node() {
  if (spare_ == kNone) {
    assert(nodes_.size() < nodes_.capacity());
    nodes_.emplace_back();
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  const std::uint32_t n = spare_;
  spare_ = nodes_[n].bin_before;
  --spare_count_;
  nodes_[n] = Node{};
  return n;
}

void OffsetAllocator::drop_node(std::uint32_t n) {
  nodes_[n] = Node{.bytes = -1, .bin_before = spare_};
  spare_ = n;
  ++spare_count_;
}

void OffsetAllocator::insert(std::uint32_t n) {
  Node& node = nodes_[n];
  if (node.state != RangeState::free) return;
  Bins& bins = *bins_[node.domain];
  const auto [row, column] = bin_of(node.bytes);
  std::uint32_t& head = bins.heads[row][column];
  node.bin_before = kNone;
  node.bin_after = head;
  if (head != kNone) nodes_[head].bin_before = n;
  head = n;
  bins.columns[row] |= 1U << column;
  bins.rows |= 1ULL << row;
  ++bins.count;
  ++free_count_;
}

void OffsetAllocator::remove(std::uint32_t n) {
  Node& node = nodes_[n];
  if (node.state != RangeState::free) return;
  Bins& bins = *bins_[node.domain];
  --bins.count;
  --free_count_;
  if (node.bin_after != kNone) nodes_[node.bin_after].bin_before = node.bin_before;
  if (node.bin_before != kNone) {
    nodes_[node.bin_before].bin_after = node.bin_after;
    return;
  }
  const auto [row, column] = bin_of(node.bytes);
  bins.heads[row][column] = node.bin_after;
  if (node.bin_after != kNone) return;
  bins.columns[row] &= ~(1U << column);
  if (bins.columns[row] == 0) bins.rows &= ~(1ULL << row);
}

/// The part of n from `at` on becomes a range of its own, alike in all else; neither is in a bin afterwards.
std::uint32_t OffsetAllocator::cut(std::uint32_t n, Bytes at) {
  const std::uint32_t tail = take_node();
  Node& node = nodes_[n];
  assert(0 < at && at < node.bytes);
  nodes_[tail] = Node{.offset = node.offset + at,
                      .bytes = node.bytes - at,
                      .stamp = node.stamp,
                      .before = n,
                      .after = node.after,
                      .domain = node.domain,
                      .state = node.state};
  if (node.after != kNone) {
    nodes_[node.after].before = tail;
  } else {
    last_ = tail;
  }
  node.after = tail;
  node.bytes = at;
  return tail;
}

/// n swallows its successor; neither is in a bin.
void OffsetAllocator::absorb_after(std::uint32_t n) {
  Node& node = nodes_[n];
  const std::uint32_t gone = node.after;
  node.bytes += nodes_[gone].bytes;
  node.stamp = std::max(node.stamp, nodes_[gone].stamp);
  node.after = nodes_[gone].after;
  if (node.after != kNone) {
    nodes_[node.after].before = n;
  } else {
    last_ = n;
  }
  drop_node(gone);
}

/// Cuts [offset, offset + bytes) out of one or more neighbouring ranges, the first of which is n, into one range that
/// is in no bin. REQUIRES: two nodes reserved, all of it in one state.
std::uint32_t OffsetAllocator::isolate(std::uint32_t n, Bytes offset, Bytes bytes) {
  const Bytes end = offset + bytes;
  remove(n);
  if (nodes_[n].offset < offset) {
    const std::uint32_t tail = cut(n, offset - nodes_[n].offset);
    insert(n);
    n = tail;
  }
  std::uint32_t last = n;
  while (nodes_[last].offset + nodes_[last].bytes < end) {
    last = nodes_[last].after;
    remove(last);
  }
  if (nodes_[last].offset + nodes_[last].bytes > end) insert(cut(last, end - nodes_[last].offset));
  while (nodes_[n].bytes < bytes) absorb_after(n);
  return n;
}

bool OffsetAllocator::mergeable(std::uint32_t a, std::uint32_t b) const {
  if (a == kNone || b == kNone || nodes_[a].state != nodes_[b].state || nodes_[a].state == RangeState::used)
    return false;
  return nodes_[a].state == RangeState::absent || nodes_[a].domain == nodes_[b].domain;
}

/// Merges a range that is in no bin with its neighbours and files it.
std::uint32_t OffsetAllocator::settle(std::uint32_t n) {
  const std::uint32_t after = nodes_[n].after;
  if (mergeable(n, after)) {
    remove(after);
    absorb_after(n);
  }
  const std::uint32_t before = nodes_[n].before;
  if (mergeable(before, n)) {
    remove(before);
    absorb_after(before);
    n = before;
  }
  insert(n);
  return n;
}

/// The smallest fitting range among the first `probes` of a bin, the lowest of equals.
std::uint32_t OffsetAllocator::best_of_bin(std::uint32_t head, Bytes bytes, int probes) const {
  std::uint32_t best = kNone;
  for (std::uint32_t n = head; n != kNone && probes-- > 0; n = nodes_[n].bin_after) {
    const Node& node = nodes_[n];
    if (node.bytes < bytes) continue;
    if (best == kNone || node.bytes < nodes_[best].bytes ||
        (node.bytes == nodes_[best].bytes && node.offset < nodes_[best].offset)) {
      best = n;
    }
  }
  return best;
}

std::uint32_t OffsetAllocator::fit_in(const Bins& bins, Bytes bytes, Search search) const {
  if (bins.count == 0) return kNone;
  const int probes = search == Search::fast ? kProbes : std::numeric_limits<int>::max();
  auto [row, column] = bin_of(bytes);
  if (const std::uint32_t n = best_of_bin(bins.heads[row][column], bytes, probes); n != kNone) return n;
  ++column;
  return bins.next(row, column) ? best_of_bin(bins.heads[row][column], bytes, probes) : kNone;
}

std::uint32_t OffsetAllocator::aligned_fit_in(const Bins& bins, Bytes bytes, Bytes alignment, Search search) const {
  const std::uint32_t n = fit_in(bins, bytes, search);
  if (n == kNone || alignment <= unit_) return n;
  const Node& node = nodes_[n];
  if (round_up(node.offset, alignment) + bytes <= node.offset + node.bytes) return n;
  return fit_in(bins, bytes + alignment - unit_, search);
}

std::optional<RangeInfo> OffsetAllocator::allocate(Bytes bytes, Bytes alignment, FreeDomain domain, Search search) {
  assert(bytes > 0 && alignment % unit_ == 0);
  const Bins* bins = find_bins(domain);
  if (bins == nullptr || bytes > capacity_) return std::nullopt;
  bytes = rounded(bytes);
  std::uint32_t n = aligned_fit_in(*bins, bytes, alignment, search);
  if (n == kNone) return std::nullopt;
  return use(n, alignment > unit_ ? round_up(nodes_[n].offset, alignment) : nodes_[n].offset, bytes);
}

RangeInfo OffsetAllocator::use(std::uint32_t n, Bytes offset, Bytes bytes) {
  reserve_books(2, nodes_[n].domain);
  n = isolate(n, offset, bytes);
  nodes_[n].state = RangeState::used;
  used_bytes_ += bytes;
  return info(as_id(n));
}

RangeInfo OffsetAllocator::carve(RangeId free_range, Bytes offset, Bytes bytes) {
  [[maybe_unused]] const Node& node = nodes_[as_index(free_range)];
  assert(node.state == RangeState::free && node.offset <= offset && offset + bytes <= node.offset + node.bytes);
  return use(as_index(free_range), offset, bytes);
}

RangeId OffsetAllocator::find_fit(Bytes bytes, FreeDomain domain, Search search) const {
  const Bins* bins = find_bins(domain);
  if (bins == nullptr || bytes > capacity_) return kNoRange;
  return as_id(fit_in(*bins, rounded(bytes), search));
}

std::uint32_t OffsetAllocator::find_covered(Bytes offset, Bytes bytes, RangeState state) const {
  if (offset < 0 || bytes <= 0 || offset > capacity_ - bytes || offset % unit_ != 0) return kNone;
  const std::uint32_t start = as_index(find(offset));
  for (std::uint32_t n = start; n != kNone; n = nodes_[n].after) {
    if (nodes_[n].state != state) return kNone;
    if (nodes_[n].offset + nodes_[n].bytes >= offset + bytes) return start;
  }
  return kNone;
}

std::optional<RangeInfo> OffsetAllocator::allocate_at(Bytes offset, Bytes bytes) {
  if (bytes > capacity_) return std::nullopt;
  bytes = rounded(bytes);
  const std::uint32_t n = find_covered(offset, bytes, RangeState::free);
  if (n == kNone) return std::nullopt;
  return use(n, offset, bytes);
}

RangeId OffsetAllocator::free(RangeId used, FreeDomain domain, std::uint64_t stamp) {
  const std::uint32_t n = as_index(used);
  assert(n < nodes_.size() && nodes_[n].bytes > 0 && nodes_[n].state == RangeState::used);
  reserve_books(0, domain);
  used_bytes_ -= nodes_[n].bytes;
  nodes_[n].state = RangeState::free;
  nodes_[n].domain = domain;
  nodes_[n].stamp = stamp;
  bins_[domain]->latest_stamp = std::max(bins_[domain]->latest_stamp, stamp);
  return as_id(settle(n));
}

bool OffsetAllocator::mark_absent(Bytes offset, Bytes bytes) {
  std::uint32_t n = find_covered(offset, bytes, RangeState::free);
  if (n == kNone || bytes % unit_ != 0) return false;
  reserve_books(2, nodes_[n].domain);
  n = isolate(n, offset, bytes);
  nodes_[n].state = RangeState::absent;
  nodes_[n].stamp = 0;
  absent_bytes_ += bytes;
  settle(n);
  return true;
}

bool OffsetAllocator::mark_present(Bytes offset, Bytes bytes, FreeDomain domain, std::uint64_t stamp) {
  std::uint32_t n = find_covered(offset, bytes, RangeState::absent);
  if (n == kNone || bytes % unit_ != 0) return false;
  reserve_books(2, domain);
  n = isolate(n, offset, bytes);
  nodes_[n].state = RangeState::free;
  nodes_[n].domain = domain;
  nodes_[n].stamp = stamp;
  absent_bytes_ -= bytes;
  settle(n);
  return true;
}

void OffsetAllocator::grow(Bytes bytes, Initial initial, FreeDomain domain) {
  bytes -= bytes % unit_;
  assert(bytes > 0 && bytes <= std::numeric_limits<Bytes>::max() / 2 - capacity_);
  reserve_books(1, domain);
  const std::uint32_t n = take_node();
  nodes_[n] = Node{.offset = capacity_,
                   .bytes = bytes,
                   .before = last_,
                   .domain = domain,
                   .state = initial == Initial::free ? RangeState::free : RangeState::absent};
  (last_ == kNone ? first_ : nodes_[last_].after) = n;
  last_ = n;
  capacity_ += bytes;
  if (initial == Initial::absent) absent_bytes_ += bytes;
  settle(n);
}

bool OffsetAllocator::others_have_free(FreeDomain domain) const {
  const Bins* bins = find_bins(domain);
  return free_count_ > (bins == nullptr ? 0 : bins->count);
}

Bytes OffsetAllocator::largest_free_bound(FreeDomain domain) const {
  const Bins* bins = find_bins(domain);
  if (bins == nullptr || bins->rows == 0) return 0;
  const auto row = static_cast<unsigned>(std::bit_width(bins->rows)) - 1;
  const auto column = static_cast<unsigned>(std::bit_width(bins->columns[row])) - 1;
  return nodes_[bins->heads[row][column]].bytes;
}

RangeId OffsetAllocator::find(Bytes offset) const {
  if (offset < 0 || offset >= capacity_) return kNoRange;
  const auto distance = [&](std::uint32_t n) {
    const bool stands = n < nodes_.size() && nodes_[n].bytes > 0;
    return stands ? std::abs(nodes_[n].offset - offset) : std::numeric_limits<Bytes>::max();
  };
  // Where memory moves, two places are looked up in turn.
  const std::size_t nearer = distance(found_[0]) <= distance(found_[1]) ? 0 : 1;
  std::uint32_t n = distance(found_[nearer]) < offset ? found_[nearer] : first_;
  while (nodes_[n].offset > offset) n = nodes_[n].before;
  while (nodes_[n].offset + nodes_[n].bytes <= offset) n = nodes_[n].after;
  found_[n == found_[nearer] || distance(found_[nearer]) < capacity_ / 64 ? nearer : 1 - nearer] = n;
  return as_id(n);
}

std::uint64_t OffsetAllocator::latest_stamp(FreeDomain domain) const {
  const Bins* bins = find_bins(domain);
  return bins == nullptr ? 0 : bins->latest_stamp;
}

RangeId OffsetAllocator::find_free(FreeDomain domain, Bytes bytes,
                                   const std::function<bool(const RangeInfo&)>& visit) const {
  const Bins* bins = find_bins(domain);
  if (bins == nullptr || bins->count == 0) return kNoRange;
  auto [row, column] = bin_of(rounded(std::max<Bytes>(bytes, unit_)));
  for (; bins->next(row, column); ++column) {
    for (std::uint32_t n = bins->heads[row][column]; n != kNone; n = nodes_[n].bin_after) {
      if (nodes_[n].bytes >= bytes && visit(info(as_id(n)))) return as_id(n);
    }
  }
  return kNoRange;
}

}  // namespace tidemark::allocator
