#include "device/race_shadow.h"

#include <iterator>
#include <utility>

namespace tidemark {
namespace {

constexpr unsigned kCacheBits = 10;

}  // namespace

RaceShadow::RaceShadow() : cache_(std::size_t{1} << kCacheBits) {}

RaceShadow::Cached& RaceShadow::cached(Address begin) {
  return cache_[(begin * 0x9E3779B97F4A7C15ULL) >> (64 - kCacheBits)];
}

RaceShadow::Iterator RaceShadow::find(Address begin) {
  Cached& slot = cached(begin);
  if (slot.valid && slot.begin == begin) return slot.segment;
  Iterator segment = segments_.upper_bound(begin);
  if (segment != segments_.begin()) {
    const Iterator before = std::prev(segment);
    if (before->second.end > begin) segment = before;
  }
  if (segment != segments_.end() && segment->first == begin) slot = {begin, segment, true};
  return segment;
}

RaceShadow::Iterator RaceShadow::split(Iterator segment, Address at) {
  RaceSegment tail = segment->second;
  segment->second.end = at;
  return segments_.emplace_hint(std::next(segment), at, std::move(tail));
}

RaceShadow::Iterator RaceShadow::insert(Address begin, RaceSegment segment) {
  return segments_.emplace(begin, std::move(segment)).first;
}

RaceShadow::Iterator RaceShadow::erase(Iterator segment) {
  Cached& slot = cached(segment->first);
  if (slot.begin == segment->first) slot.valid = false;
  return segments_.erase(segment);
}

}  // namespace tidemark
