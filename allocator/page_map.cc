#include "allocator/page_map.h"

#include <cassert>
#include <cstdlib>
#include <new>

namespace tidemark {
namespace {

/// All-zero memory, untouched until it is used; a zero pointer is a null atomic pointer.
template <class Table>
Table* make_zeroed() {
#if TIDEMARK_PLAIN_METADATA
  void* memory = std::calloc(1, sizeof(Table));
#else
  void* memory = mi_zalloc(sizeof(Table));
#endif
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<Table*>(memory);
}

void drop(void* memory) {
#if TIDEMARK_PLAIN_METADATA
  std::free(memory);
#else
  mi_free(memory);
#endif
}

}  // namespace

PageMap::~PageMap() {
  for (auto& entry : root_) {
    Middle* middle = entry.load(std::memory_order_relaxed);
    if (middle == nullptr) continue;
    for (auto& leaf : *middle) drop(leaf.load(std::memory_order_relaxed));
    drop(middle);
  }
}

void PageMap::set(Address address, BlockHeader* block) {
  assert(address >> kAddressBits == 0);
  auto& root = root_[address >> kMiddleShift];
  Middle* middle = root.load(std::memory_order_relaxed);
  if (middle == nullptr) root.store(middle = make_zeroed<Middle>(), std::memory_order_release);
  auto& entry = (*middle)[(address >> kLeafShift) & (kMiddleSize - 1)];
  Leaf* leaf = entry.load(std::memory_order_relaxed);
  if (leaf == nullptr) entry.store(leaf = make_zeroed<Leaf>(), std::memory_order_release);
  (*leaf)[(address >> kSlotBits) & (kLeafSize - 1)].store(block, std::memory_order_release);
}

}  // namespace tidemark
