#include "device/pinned_blocks.h"

#include <fmt/format.h>

#include <utility>

#include "device/page_nodes.h"
#include "device/process_binding.h"

namespace tidemark {

std::string PinnedBlocks::no_room(const HostPagesOptions& wish) {
  const AvailableMemory available = available_host_memory();
  if (wish.bytes <= available.bytes - wish.keep_free_bytes) return "";
  return fmt::format("{} of pinned memory asked for, {}, of which {} are to stay free", format_bytes(wish.bytes),
                     available.text(), format_bytes(wish.keep_free_bytes));
}

/// False: `block` has no pages, and its facts say what it lacks for that reason.
bool PinnedBlocks::register_own(HostPages pages, Block& block) const {
  const int code = calls_.register_pages(pages.data(), static_cast<std::size_t>(pages.bytes()));
  if (code != 0) {
    block.facts.huge_pages = false;
    block.facts.explanation = fmt::format(
        "the driver refused to register huge pages with code {} and gave pages of its own, of unknown size", code);
    return false;
  }
  block.pages = std::move(pages);
  block.facts = block.pages.facts();
  return true;
}

/// They are pinned; where they lie is up to the vendor, who is asked for the node and looked at afterwards.
int PinnedBlocks::use_vendors(const HostPagesOptions& wish, Block& block, Address& address) const {
  void* pages = nullptr;
  const PreferNode prefer(wish.numa_node);  // a driver takes pages as the calling thread would
  if (const int code = calls_.allocate(&pages, static_cast<std::size_t>(wish.bytes)); code != 0) return code;
  address = reinterpret_cast<Address>(pages);
  if (wish.numa_node < 0 || numa_node_count() == 1) return 0;
  const PageNodes found = find_page_nodes(pages, wish.bytes);
  const std::string away = found.misplaced(wish.numa_node);
  if (found.known() > 0 && away.empty()) return 0;
  block.facts.numa_bound = false;
  block.facts.explanation += block.facts.explanation.empty() ? "" : "; ";
  block.facts.explanation +=
      away.empty() ? fmt::format("the driver places its own pages, maybe not on NUMA node {}", wish.numa_node)
                   : fmt::format("of the driver's own pages {} instead of {}", away, wish.numa_node);
  return 0;
}

int PinnedBlocks::allocate(const HostPagesOptions& wish, bool use_register, Address& address) {
  Block block{.bytes = wish.bytes};
  bool registered = false;
  if (use_register) {
    Result<HostPages> pages = HostPages::allocate(wish);
    if (!pages) return calls_.no_memory;
    registered = register_own(std::move(pages).value(), block);
  }
  Address at = block.pages.address();
  if (!registered) {
    if (const int code = use_vendors(wish, block, at); code != 0) return code;
  }
  const std::lock_guard lock(mutex_);
  blocks_.insert_or_assign(at, std::move(block));
  address = at;
  return 0;
}

bool PinnedBlocks::covers(Address at, Bytes bytes) const {
  const std::lock_guard lock(mutex_);
  auto found = blocks_.upper_bound(at);
  if (found == blocks_.begin()) return false;
  --found;
  const Address offset = at - found->first, size = static_cast<Address>(found->second.bytes);
  return offset <= size && static_cast<Address>(bytes) <= size - offset;
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

int PinnedBlocks::give_back(Address address, const Block& block) const {
  void* const pages = reinterpret_cast<void*>(address);
  return block.pages.data() != nullptr ? calls_.unregister_pages(pages) : calls_.free(pages);
}

int PinnedBlocks::free(Address address, bool lost) {
  std::unique_lock lock(mutex_);
  auto node = blocks_.extract(address);
  lock.unlock();
  // Out of the books meanwhile: the vendor may hand the address out again before this returns.
  const int code = give_back(address, node.mapped());
  if (code == 0 || lost) return code;
  lock.lock();
  blocks_.insert(std::move(node));
  return code;
}

void PinnedBlocks::clear() {
  std::unique_lock lock(mutex_);
  std::map<Address, Block> blocks = std::exchange(blocks_, {});
  lock.unlock();
  for (const auto& [address, block] : blocks) (void)give_back(address, block);
}

}  // namespace tidemark
