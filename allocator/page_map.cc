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

/// The table behind an entry; made by the first thread that needs it.
template <class Table>
Table& ensure(std::atomic<Table*>& entry) {
  Table* table = entry.load(std::memory_order_acquire);
  if (table != nullptr) return *table;
  Table* made = make_zeroed<Table>();
  if (entry.compare_exchange_strong(table, made, std::memory_order_acq_rel)) return *made;
  drop(made);
  return *table;
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
  Middle& middle = ensure(root_[address >> kMiddleShift]);
  Leaf& leaf = ensure(middle[(address >> kLeafShift) & (kMiddleSize - 1)]);
  leaf[(address >> kSlotBits) & (kLeafSize - 1)].store(block, std::memory_order_release);
}

}  // namespace tidemark
