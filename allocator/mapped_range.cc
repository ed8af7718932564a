#include "allocator/mapped_range.h"

#include <cassert>

#include "allocator/give_back.h"

namespace tidemark::allocator {

MappedRange::~MappedRange() {
  if (has_memory_.empty()) return;
  const std::size_t count = has_memory_.size();
  // Failures have nobody to go to; a lost device takes everything back.
  for (std::size_t first = 0, end = 0; first < count; first = end) {
    end = end_of_run(first, count);
    if (has_memory_[first])
      give_back([&] { return device_.unmap(address_of(first), static_cast<Bytes>(end - first) * granule_); });
  }
  give_back([&] { return device_.release(base_, static_cast<Bytes>(count) * granule_); });
}

DeviceCode MappedRange::reserve(Bytes bytes) {
  assert(has_memory_.empty());
  const Bytes space = round_up(bytes, granule_);
  if (const DeviceCode code = device_.reserve(space, base_); code != DeviceCode::ok) return code;
  has_memory_.resize(static_cast<std::size_t>(space / granule_));
  return DeviceCode::ok;
}

DeviceCode MappedRange::map(Bytes offset, Bytes bytes) {
  if (bytes == 0) return DeviceCode::ok;
  const auto last = static_cast<std::size_t>((offset + bytes + granule_ - 1) / granule_);
  assert(last <= has_memory_.size());
  for (auto first = static_cast<std::size_t>(offset / granule_), end = first; first < last; first = end) {
    end = end_of_run(first, last);
    if (has_memory_[first]) continue;
    const Bytes missing = static_cast<Bytes>(end - first) * granule_;
    if (const DeviceCode code = device_.map(address_of(first), missing); code != DeviceCode::ok) return code;
    for (std::size_t granule = first; granule < end; ++granule) has_memory_[granule] = true;
    mapped_bytes_ += missing;
  }
  return DeviceCode::ok;
}

std::size_t MappedRange::end_of_run(std::size_t first, std::size_t end) const {
  std::size_t at = first + 1;
  while (at < end && has_memory_[at] == has_memory_[first]) ++at;
  return at;
}

}  // namespace tidemark::allocator
