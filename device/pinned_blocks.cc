#include "device/pinned_blocks.h"

#include <fmt/format.h>

#include <utility>

namespace tidemark {

std::string PinnedBlocks::no_room(const HostPagesOptions& wish) {
  const Bytes available = available_host_bytes();
  if (wish.bytes <= available - wish.keep_free_bytes) return "";
  return fmt::format("{} of pinned memory asked for, {} available, of which {} are to stay free",
                     format_bytes(wish.bytes), format_bytes(available), format_bytes(wish.keep_free_bytes));
}

/// False: `block` has no pages and its facts say why.
bool PinnedBlocks::register_own(HostPages pages, Block& block) const {
  const int code = calls_.register_pages(pages.data(), static_cast<std::size_t>(pages.bytes()));
  if (code != 0) {
    block.facts.explanation = fmt::format("the driver refused to register pages with code {}", code);
    return false;
  }
  block.pages = std::move(pages);
  block.facts = block.pages.facts();
  return true;
}

int PinnedBlocks::allocate(const HostPagesOptions& wish, bool use_register, Address& address) {
  Block block;
  bool registered = false;
  if (use_register) {
    Result<HostPages> pages = HostPages::allocate(wish);
    if (!pages) return calls_.no_memory;
    registered = register_own(std::move(pages).value(), block);
  }
  if (registered) {
    address = block.pages.address();
  } else {
    void* pages = nullptr;
    if (const int code = calls_.allocate(&pages, static_cast<std::size_t>(wish.bytes)); code != 0) return code;
    block.facts.numa_bound = wish.numa_node < 0;
    address = reinterpret_cast<Address>(pages);
  }
  const std::lock_guard lock(mutex_);
  blocks_.insert_or_assign(address, std::move(block));
  return 0;
}

bool PinnedBlocks::has(Address address) const {
  const std::lock_guard lock(mutex_);
  return blocks_.count(address) > 0;
}

PinnedFacts PinnedBlocks::facts(Address address) const {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  return found == blocks_.end() ? PinnedFacts{} : found->second.facts;
}

int PinnedBlocks::give_back(Address address, Block block) const {
  void* const pages = reinterpret_cast<void*>(address);
  return block.pages.data() != nullptr ? calls_.unregister_pages(pages) : calls_.free(pages);
}

int PinnedBlocks::free(Address address) {
  std::unique_lock lock(mutex_);
  auto node = blocks_.extract(address);
  lock.unlock();
  return give_back(address, std::move(node.mapped()));
}

void PinnedBlocks::clear() {
  std::unique_lock lock(mutex_);
  std::map<Address, Block> blocks = std::exchange(blocks_, {});
  lock.unlock();
  for (auto& [address, block] : blocks) (void)give_back(address, std::move(block));
}

}  // namespace tidemark
