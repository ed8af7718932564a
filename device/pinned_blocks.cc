#include "device/pinned_blocks.h"

#include <fmt/format.h>

#include <utility>

namespace tidemark {

/// False: `block` has no pages and its facts say why.
bool PinnedBlocks::register_own(const HostPagesOptions& wish, Block& block) const {
  Result<HostPages> pages = HostPages::allocate(wish);
  if (!pages) {
    block.facts.explanation = pages.error().message;
    return false;
  }
  const int code = calls_.register_pages(pages.value().data(), static_cast<std::size_t>(pages.value().bytes()));
  if (code != 0) {
    block.facts.explanation = fmt::format("the driver refused to register pages with code {}", code);
    return false;
  }
  block.pages = std::move(pages).value();
  block.facts = block.pages.facts();
  return true;
}

int PinnedBlocks::allocate(const HostPagesOptions& wish, bool use_register, Address& address) {
  Block block;
  if (use_register && register_own(wish, block)) {
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
