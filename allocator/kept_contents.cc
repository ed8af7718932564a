#include "allocator/kept_contents.h"

#include <algorithm>

#include "allocator/give_back.h"
#include "allocator/mapped_pool_suspend.h"

namespace tidemark::allocator {

KeptContents::~KeptContents() {
  release();
}

void KeptContents::release() {
  for (const Address address : pinned_) give_back([&] { return device_.free_pinned(address); });
  pinned_.clear();
  pieces_.clear();
  bytes_ = 0;
}

/// Pinned memory for every used range with memory of its own, in pieces.
DeviceCode KeptContents::take_pinned(const MappedPool& pool) {
  const OffsetAllocator& space = pool.space();
  const Bytes largest = device_.traits().largest_pinned_bytes;
  const Bytes most = largest > 0 ? std::min(largest, kPieceBytes) : kPieceBytes;
  MetadataVector<Stretch> held;
  for (RangeId id = space.first(); id != kNoRange; id = space.next(id)) {
    const RangeInfo range = space.info(id);
    if (range.state == RangeState::used)
      visit_without({.offset = range.offset, .bytes = range.bytes}, pool.unmapped_parts(),
                    [&](const Stretch& part) { held.push_back(part); });
  }
  for (const Stretch& part : held) bytes_ += part.bytes;
  Bytes left = bytes_, room = 0;
  Address host = 0;
  for (const Stretch& range : held) {
    for (Bytes done = 0; done < range.bytes;) {
      if (room == 0) {
        room = std::min(most, left);
        pinned_.reserve(pinned_.size() + 1);
        if (const DeviceCode code = device_.allocate_pinned(room, host); code != DeviceCode::ok) return code;
        pinned_.push_back(host);
      }
      const Bytes bytes = std::min(room, range.bytes - done);
      pieces_.push_back({.offset = range.offset + done, .bytes = bytes, .host = host});
      host += static_cast<Address>(bytes);
      room -= bytes;
      left -= bytes;
      done += bytes;
    }
  }
  return DeviceCode::ok;
}

/// `copy` submits to the stream that it is given. Nothing that it submitted runs on afterwards, also where it throws.
template <class Copy>
DeviceCode KeptContents::copy_all(StreamRole role, const Copy& copy) const {
  StreamHandle stream = {};
  if (const DeviceCode code = device_.create_stream(role, stream); code != DeviceCode::ok) return code;
  const auto finish = [&] {
    const DeviceCode waited = device_.synchronize_stream(stream);
    (void)device_.destroy_stream(stream);
    return waited;
  };
  try {
    const DeviceCode code = copy(stream);
    const DeviceCode waited = finish();
    return code != DeviceCode::ok ? code : waited;
  } catch (...) {
    (void)finish();
    throw;
  }
}

DeviceCode KeptContents::save(const MappedPool& pool) {
  const auto copy_out = [&](StreamHandle stream) {
    DeviceCode copied = DeviceCode::ok;
    for (const Piece& piece : pieces_) {
      if (copied != DeviceCode::ok) break;
      copied = device_.copy(stream, piece.host, pool.address_of(piece.offset), piece.bytes, CopyKind::device_to_host);
    }
    return copied;
  };
  try {
    DeviceCode code = take_pinned(pool);
    if (code == DeviceCode::ok) code = copy_all(StreamRole::d2h, copy_out);
    if (code != DeviceCode::ok) release();
    return code;
  } catch (...) {
    release();
    throw;
  }
}

/// Nothing is allocated while a pool is suspended, so what is used now was used then.
DeviceCode KeptContents::restore(const BlockPool& pool) const {
  const OffsetAllocator& space = pool.space();
  return copy_all(StreamRole::h2d, [&](StreamHandle stream) {
    auto piece = pieces_.begin();
    for (RangeId id = space.first(); id != kNoRange; id = space.next(id)) {
      const RangeInfo range = space.info(id);
      if (range.state != RangeState::used) continue;
      for (; piece != pieces_.end() && piece->offset < range.end(); ++piece) {
        if (piece->offset < range.offset) continue;
        const DeviceCode code =
            device_.copy(stream, pool.address_of(piece->offset), piece->host, piece->bytes, CopyKind::host_to_device);
        if (code != DeviceCode::ok) return code;
      }
    }
    return DeviceCode::ok;
  });
}

}  // namespace tidemark::allocator
