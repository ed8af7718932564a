#include "device/cuda_pinned.h"

#include <utility>

namespace tidemark::cuda {

Code PinnedMemory::allocate(const Wish& wish, Address& address) {
  void* pointer = nullptr;
  const Code code = driver_.host_allocate(&pointer, static_cast<std::size_t>(wish.bytes), kHostPortable);
  if (code != kSuccess) return code;
  address = reinterpret_cast<Address>(pointer);
  const std::lock_guard lock(mutex_);
  blocks_.emplace(address, Block{});
  return code;
}

bool PinnedMemory::has(Address address) const {
  const std::lock_guard lock(mutex_);
  return blocks_.count(address) > 0;
}

Code PinnedMemory::give_back(Address address, Block block) {
  void* const pointer = reinterpret_cast<void*>(address);
  return block.registered ? driver_.host_unregister(pointer) : driver_.host_free(pointer);
}

Code PinnedMemory::free(Address address) {
  std::unique_lock lock(mutex_);
  auto node = blocks_.extract(address);
  lock.unlock();
  return node.empty() ? kInvalidValue : give_back(address, std::move(node.mapped()));
}

void PinnedMemory::clear() {
  std::map<Address, Block> blocks;
  {
    const std::lock_guard lock(mutex_);
    blocks.swap(blocks_);
  }
  for (auto& [address, block] : blocks) (void)give_back(address, std::move(block));
}

}  // namespace tidemark::cuda
