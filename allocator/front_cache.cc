#include "allocator/front_cache.h"

#include <bit>
#include <utility>

namespace tidemark {

BlockHeader* StreamLists::take_all(BlockHeader* tail) {
  for (std::size_t word = 0; word < filled_.size(); ++word) {
    for (; filled_[word] != 0; filled_[word] &= filled_[word] - 1) {
      const std::size_t size_class = word * 64 + static_cast<std::size_t>(std::countr_zero(filled_[word]));
      for (BlockHeader* block = heads_[size_class]; block != nullptr;) {
        BlockHeader* next = block->next;
        block->next = tail;
        tail = block;
        block = next;
      }
      heads_[size_class] = nullptr;
    }
  }
  return tail;
}

StreamLists& Shard::lists_of(StreamHandle stream, StreamOrder& order) {
  if (generation_ != order.generation()) {
    generation_ = order.generation();
    for (const auto& lists : lists_) homeless_ = lists->take_all(homeless_);  // a handle may mean another stream now
    lists_.clear();
    last_ = nullptr;
  }
  if (last_ != nullptr && last_->handle() == stream) return *last_;
  for (const auto& lists : lists_) {
    if (lists->handle() == stream) return *(last_ = lists.get());
  }
  const StreamSlot slot = order.slot_of(stream);
  lists_.push_back(std::make_unique<StreamLists>(stream, slot, order.epoch_cell(slot)));
  return *(last_ = lists_.back().get());
}

StreamLists* Shard::find_lists(StreamSlot slot) {
  if (last_ != nullptr && last_->slot() == slot) return last_;
  for (const auto& lists : lists_) {
    if (lists->slot() == slot) return lists.get();
  }
  return nullptr;
}

void Shard::drain_remote(Bytes unit) {
  for (BlockHeader* block = remote_.exchange(nullptr, std::memory_order_acquire); block != nullptr;) {
    BlockHeader* next = block->next;
    if (StreamLists* lists = find_lists(block->stream); lists != nullptr) {
      keep(*lists, static_cast<std::size_t>(block->bytes / unit), block);
    } else {
      block->next = homeless_;
      homeless_ = block;
      cached_bytes_ += block->bytes;
    }
    block = next;
  }
}

BlockHeader* Shard::take_all() {
  BlockHeader* all = remote_.exchange(nullptr, std::memory_order_acquire);
  for (BlockHeader* block = std::exchange(homeless_, nullptr); block != nullptr;) {
    BlockHeader* next = block->next;
    block->next = all;
    all = block;
    block = next;
  }
  if (BlockHeader* block = std::exchange(held_, nullptr); block != nullptr) {
    block->next = all;
    all = block;
  }
  for (const auto& lists : lists_) all = lists->take_all(all);
  cached_bytes_ = 0;
  return all;
}

}  // namespace tidemark
