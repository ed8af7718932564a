// CachingAllocator without memory: suspend() and resume().

#include <fmt/format.h>

#include "allocator/caching_allocator_impl.h"
#include "allocator/kept_contents.h"

namespace tidemark::allocator {

const char* suspended_text() {
  return "the allocator is suspended: its memory is given back until resume()";
}

namespace {

DeviceCode answer_failure(DeviceCode code, std::string text) {
  last_error_text() = std::move(text);
  return code;
}

}  // namespace

/// The pools of all shards but the plain one. Under all shards' locks, on a device that maps.
template <class Do>
void CachingAllocator::Impl::for_each_mapped(const Do& act) {
  for (std::size_t i = kPlainShard + 1; i < locked_shards; ++i) act(static_cast<MappedPool&>(shards[i]->pool()));
}

/// All or none. Under all locks.
DeviceCode CachingAllocator::Impl::save_contents() {
  DeviceCode code = DeviceCode::ok;
  std::vector<std::unique_ptr<KeptContents>> saved;
  for_each_mapped([&](const MappedPool& pool) {
    if (code != DeviceCode::ok) return;
    saved.push_back(std::make_unique<KeptContents>(device));
    code = saved.back()->save(pool);
  });
  if (code == DeviceCode::ok) kept = std::move(saved);
  return code;
}

void CachingAllocator::Impl::unmap_all() {
  is_suspended = true;
  try {
    for_each_mapped([](MappedPool& pool) { pool.suspend(); });
  } catch (...) {
    is_suspended = map_again() != DeviceCode::ok;
    if (!is_suspended) kept.clear();
    throw;
  }
}

DeviceCode CachingAllocator::Impl::suspend(Contents contents) {
  if (!judged) return answer_failure(DeviceCode::invalid, judged.error().message);
  if (!device.traits().mapping)
    return answer_failure(DeviceCode::unsupported,
                          "a device without mapping cannot map memory at the same addresses again");
  if (const DeviceCode code = order.synchronize(device); code != DeviceCode::ok)
    return answer_failure(code, fmt::format("{}: {}", name_of(code), device.last_error()));
  const std::lock_guard lock(core);
  if (is_suspended) return DeviceCode::ok;
  flush_all();
  release_known({});
  DeviceCode code = DeviceCode::ok;
  with_shards_locked([&] {
    for (std::size_t i = 0; i < locked_shards; ++i) shards[i]->flush();  // what other threads freed since
    for_each_mapped([](MappedPool& pool) { (void)pool.trim(0); });
    if (contents == Contents::keep) code = save_contents();
    if (code == DeviceCode::ok) unmap_all();
  });
  if (code == DeviceCode::ok) return code;
  return answer_failure(
      code, fmt::format("the contents of live blocks cannot be kept: {}: {}", name_of(code), device.last_error()));
}

/// All pools or none. Under all locks.
DeviceCode CachingAllocator::Impl::map_again() {
  try {
    const DeviceCode code = map_pools();
    if (code == DeviceCode::ok) return code;
    for_each_mapped([](MappedPool& pool) { pool.suspend(); });
    return code;
  } catch (...) {
    for_each_mapped([](MappedPool& pool) { pool.suspend(); });
    throw;
  }
}

DeviceCode CachingAllocator::Impl::map_pools() {
  DeviceCode code = DeviceCode::ok;
  std::size_t restored = 0;
  for_each_mapped([&](MappedPool& pool) {
    if (code == DeviceCode::ok) code = pool.resume(limit_bytes - reserved_bytes() + pool.reserved_bytes());
  });
  for_each_mapped([&](const MappedPool& pool) {
    if (code == DeviceCode::ok && restored < kept.size()) code = kept[restored++]->restore(pool);
  });
  return code;
}

DeviceCode CachingAllocator::Impl::resume() {
  const std::lock_guard lock(core);
  if (!is_suspended) return DeviceCode::ok;
  flush_all();
  release_known({});
  DeviceCode code = DeviceCode::ok;
  with_shards_locked([&] { code = map_again(); });
  if (code != DeviceCode::ok)
    return answer_failure(code,
                          fmt::format("the allocator stays suspended: {}: {}", name_of(code), device.last_error()));
  kept.clear();
  is_suspended = false;
  return code;
}

DeviceCode CachingAllocator::suspend(Contents contents) {
  try {
    return impl_->suspend(contents);
  } catch (const std::bad_alloc&) {
    return answer_failure(DeviceCode::no_resource, "no host memory");
  }
}

DeviceCode CachingAllocator::resume() {
  try {
    return impl_->resume();
  } catch (const std::bad_alloc&) {
    return answer_failure(DeviceCode::no_resource, "no host memory");
  }
}

bool CachingAllocator::suspended() const {
  const std::lock_guard lock(impl_->core);
  return impl_->is_suspended;
}

Bytes CachingAllocator::kept_bytes() const {
  const std::lock_guard lock(impl_->core);
  Bytes bytes = 0;
  for (const auto& contents : impl_->kept) bytes += contents->bytes();
  return bytes;
}

}  // namespace tidemark::allocator
