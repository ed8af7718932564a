// Parts of lent blocks that give their memory back to the device for a while.

#include "allocator/caching_allocator_impl.h"

namespace tidemark::allocator {

template <class Act>
auto CachingAllocator::Impl::on_lent(Address block, const Act& act)
    -> std::optional<std::invoke_result_t<Act, MappedPool&, Bytes, StreamSlot>> {
  const BlockHeader* header = find(block);
  if (header == nullptr || header->shard == kPlainShard || !device.traits().mapping) return std::nullopt;
  Shard& home = *shards[header->shard];
  const std::lock_guard lock(home.lock);
  if (!header->is_live_at(block) || !header->is_lent || home.pool().is_stitched(header->range)) return std::nullopt;
  auto& pool = static_cast<MappedPool&>(home.pool());
  return act(pool, pool.space().info(header->range).offset, header->stream);
}

Bytes CachingAllocator::Impl::unmap_part(Address block, Bytes offset, Bytes bytes) {
  const std::lock_guard lock(core);
  return on_lent(block,
                 [&](MappedPool& pool, Bytes begin, StreamSlot) { return pool.unmap_part(begin + offset, bytes); })
      .value_or(0);
}

DeviceCode CachingAllocator::Impl::map_within_limit(Address block, Bytes offset, Bytes bytes, Bytes& mapped) {
  if (is_suspended) return DeviceCode::invalid;
  const Bytes granule = device.traits().granule_bytes;
  for (Bytes part = std::min(bytes - mapped, limit_bytes - reserved_bytes()); (part = part / granule * granule) > 0;) {
    const DeviceCode code = on_lent(block, [&](MappedPool& pool, Bytes begin, StreamSlot stream) {
                              return pool.map_part(begin + offset + mapped, part, stream);
                            }).value_or(DeviceCode::invalid);
    if (code == DeviceCode::ok) mapped += part;
    if (code == DeviceCode::out_of_memory)
      part /= 2;  // others hold the device's memory: half of it may be there
    else if (code != DeviceCode::ok)
      return code;
    part = std::min({part, bytes - mapped, limit_bytes - reserved_bytes()});
  }
  return mapped == bytes ? DeviceCode::ok : DeviceCode::out_of_memory;
}

Bytes CachingAllocator::Impl::idle_bytes() {
  Bytes idle = parked.of[BlockSums::bytes];
  for_each_shard([&](const Shard& shard) { idle += shard.pool().space().free_bytes() - shard.pool().split_bytes(); });
  return idle;
}

DeviceCode CachingAllocator::Impl::map_part(Address block, Bytes offset, Bytes bytes, Bytes& mapped) {
  CoreLock lock(core);
  mapped = 0;
  const auto map_rest = [&] { return map_within_limit(block, offset, bytes, mapped); };
  const auto release_and_map = [&] {
    flush_all();
    static_cast<void>(poll(lock));
    release_known({});
    (void)trim(std::max<Bytes>(std::min(limit_bytes, reserved_bytes()) - (bytes - mapped), 0));
    return map_rest();
  };
  DeviceCode code = map_rest();
  if (code == DeviceCode::out_of_memory) code = release_and_map();
  if (code != DeviceCode::out_of_memory || idle_bytes() <= 0) return code;
  if (const DeviceCode waited = wait_for_device(lock); waited != DeviceCode::ok) return waited;
  return release_and_map();
}

Bytes CachingAllocator::unmap_part(Address block, Bytes offset, Bytes bytes) {
  try {
    return impl_->unmap_part(block, offset, bytes);
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

DeviceCode CachingAllocator::map_part(Address block, Bytes offset, Bytes bytes, Bytes& mapped) {
  try {
    return impl_->map_part(block, offset, bytes, mapped);
  } catch (const std::bad_alloc&) {
    last_error_text() = "no host memory";
    return DeviceCode::no_resource;
  }
}

}  // namespace tidemark::allocator
