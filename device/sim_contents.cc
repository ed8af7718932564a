#include "device/sim_contents.h"

#include <algorithm>
#include <iterator>

namespace tidemark {

void SimContents::cut(Address at) {
  auto part = parts_.upper_bound(at);
  if (part == parts_.begin()) return;
  --part;
  if (part->first == at || part->second.end <= at) return;
  Part tail = part->second;
  tail.place += static_cast<Bytes>(at - part->first);
  part->second.end = at;
  parts_.emplace_hint(std::next(part), at, tail);
}

void SimContents::forget(Address begin, Bytes bytes) {
  if (bytes <= 0) return;
  const Address end = begin + static_cast<Address>(bytes);
  cut(begin);
  cut(end);
  parts_.erase(parts_.lower_bound(begin), parts_.lower_bound(end));
}

void SimContents::set(Address begin, Bytes bytes, std::uint64_t seed, Bytes place) {
  if (bytes <= 0) return;
  forget(begin, bytes);
  parts_[begin] = {begin + static_cast<Address>(bytes), seed, place};
}

SimContents::Parts::const_iterator SimContents::first_in(Address begin) const {
  auto part = parts_.upper_bound(begin);
  if (part != parts_.begin() && std::prev(part)->second.end > begin) --part;
  return part;
}

void SimContents::read(Address begin, Bytes bytes, Bytes base, std::vector<SimContent>& parts) const {
  const Address end = begin + static_cast<Address>(bytes);
  for (auto part = first_in(begin); part != parts_.end() && part->first < end; ++part) {
    const Address from = std::max(begin, part->first), to = std::min(end, part->second.end);
    parts.push_back({.offset = base + static_cast<Bytes>(from - begin),
                     .bytes = static_cast<Bytes>(to - from),
                     .seed = part->second.seed,
                     .place = part->second.place + static_cast<Bytes>(from - part->first)});
  }
}

bool SimContents::holds(Address begin, Bytes bytes, std::uint64_t seed, Bytes place) const {
  const Address end = begin + static_cast<Address>(bytes);
  Address cursor = begin;
  for (auto part = first_in(begin); cursor < end; ++part) {
    if (part == parts_.end() || part->first > cursor || part->second.seed != seed) return false;
    const Bytes here = part->second.place + static_cast<Bytes>(cursor - part->first);
    if (here != place + static_cast<Bytes>(cursor - begin)) return false;
    cursor = part->second.end;
  }
  return true;
}

}  // namespace tidemark
