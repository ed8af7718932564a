#pragma once
// Which granules of a mapped pool have memory: all that its books call present, but for those that are away while it is
// suspended, and for parts of live blocks. For mapped_pool.cc and mapped_pool_suspend.cc.

#include "allocator/block_pool.h"

namespace tidemark::allocator {

/// visit(Stretch) for the parts of `from` that lie in none of `holes`, which are in the order of their offsets.
template <class Visit>
void visit_without(const Stretch& from, const MetadataVector<Stretch>& holes, const Visit& visit) {
  Bytes at = from.offset;
  const Bytes end = from.offset + from.bytes;
  for (const Stretch& hole : holes) {
    if (hole.offset + hole.bytes <= at || hole.offset >= end) continue;
    if (hole.offset > at) visit(Stretch{.offset = at, .bytes = hole.offset - at});
    at = hole.offset + hole.bytes;
  }
  if (at < end) visit(Stretch{.offset = at, .bytes = end - at});
}

template <class Visit>
void MappedPool::visit_present(const Visit& visit) const {
  for (RangeId id = space_.first(); id != kNoRange; id = space_.next(id)) {
    if (space_.info(id).state == RangeState::absent) continue;
    Stretch run{.offset = space_.info(id).offset, .bytes = space_.info(id).bytes};
    for (; space_.next(id) != kNoRange && space_.info(space_.next(id)).state != RangeState::absent;) {
      id = space_.next(id);
      run.bytes += space_.info(id).bytes;
    }
    visit_without(run, parts_, [&](const Stretch& rest) { visit_without(rest, away_, visit); });
  }
}

}  // namespace tidemark::allocator
