#include <fmt/format.h>

#include "allocator/offset_allocator.h"
#include "allocator/offset_bins.h"

namespace tidemark::allocator {

std::string OffsetAllocator::validate(Check check) const {
  if (used_bytes_ < 0 || absent_bytes_ < 0 || used_bytes_ + absent_bytes_ > capacity_) {
    return fmt::format("totals: used {} absent {} capacity {}", used_bytes_, absent_bytes_, capacity_);
  }
  if (check == Check::totals) return {};
  if (std::string text = validate_links(); !text.empty()) return text;
  return check == Check::full ? validate_bins() : std::string{};
}

std::string OffsetAllocator::validate_links() const {
  Bytes at = 0, used = 0, absent = 0;
  std::uint32_t before = kNone;
  std::size_t free_ranges = 0;
  for (std::uint32_t n = first_; n != kNone; before = n, n = nodes_[n].after) {
    const Node& node = nodes_[n];
    if (node.offset != at || node.bytes <= 0 || node.bytes % unit_ != 0) {
      return fmt::format("range {} at {} of {} bytes, expected to start at {}", n, node.offset, node.bytes, at);
    }
    if (node.before != before) return fmt::format("range {} does not know its predecessor", n);
    if (mergeable(before, n)) return fmt::format("ranges {} and {} should be one", before, n);
    at += node.bytes;
    if (node.state == RangeState::used) used += node.bytes;
    if (node.state == RangeState::absent) absent += node.bytes;
    free_ranges += node.state == RangeState::free ? 1 : 0;
  }
  if (at != capacity_ || before != last_) return fmt::format("the ranges end at {} of {}", at, capacity_);
  if (used != used_bytes_ || absent != absent_bytes_) return "sums differ from the ranges";
  for (const auto& bins : bins_) free_ranges -= bins == nullptr ? 0 : bins->count;
  return free_ranges == 0 ? std::string{} : "bins and free ranges differ in number";
}

std::string OffsetAllocator::validate_bins() const {
  for (FreeDomain domain = 0; domain < bins_.size(); ++domain) {
    if (bins_[domain] == nullptr) continue;
    const Bins& bins = *bins_[domain];
    for (unsigned row = 0; row < kRows; ++row) {
      if (((bins.rows >> row) & 1) != (bins.columns[row] != 0 ? 1U : 0U))
        return fmt::format("row bit {} is wrong", row);
      for (unsigned column = 0; column < kSubBins; ++column) {
        const std::uint32_t head = bins.heads[row][column];
        if (((bins.columns[row] >> column) & 1) != (head != kNone ? 1U : 0U)) return "a column bit is wrong";
        for (std::uint32_t n = head, before = kNone; n != kNone; before = n, n = nodes_[n].bin_after) {
          const BinIndex bin = bin_of(nodes_[n].bytes);
          if (nodes_[n].state != RangeState::free || nodes_[n].domain != domain || bin.row != row ||
              bin.column != column || nodes_[n].bin_before != before) {
            return fmt::format("range {} is in the wrong bin", n);
          }
        }
      }
    }
  }
  return {};
}

}  // namespace tidemark::allocator
