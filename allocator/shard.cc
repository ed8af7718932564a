#include "allocator/shard.h"

#include <bit>

namespace tidemark::allocator {

BlockHeader* StreamLists::take_all() {
  BlockHeader* all = nullptr;
  for (std::size_t word = 0; word < filled_.size(); ++word) {
    for (; filled_[word] != 0; filled_[word] &= filled_[word] - 1) {
      const std::size_t size_class = word * 64 + static_cast<std::size_t>(std::countr_zero(filled_[word]));
      for (BlockHeader* block = std::exchange(heads_[size_class], nullptr); block != nullptr;) {
        BlockHeader* next = std::exchange(block->next, all);
        all = block;
        block = next;
      }
    }
  }
  return all;
}

/// Made at the first mention of a stream. A handle may mean another stream once streams were destroyed.
StreamLists& Shard::lists_of(StreamHandle stream) {
  if (generation_ != shared_.order.generation()) {
    generation_ = shared_.order.generation();
    for (const auto& lists : lists_) release_list(lists->take_all());
    kept_bytes_ = 0;
    lists_.clear();
    last_ = nullptr;
  }
  if (last_ != nullptr && last_->handle() == stream) return *last_;
  for (const auto& lists : lists_) {
    if (lists->handle() == stream) return *(last_ = lists.get());
  }
  const StreamSlot slot = shared_.order.slot_of(stream);
  pool_->prepare(slot);
  lists_.push_back(std::make_unique<StreamLists>(stream, slot, shared_.order.epoch_cell(slot)));
  return *(last_ = lists_.back().get());
}

StreamLists* Shard::find_lists(StreamSlot slot) {
  if (last_ != nullptr && last_->slot() == slot) return last_;
  for (const auto& lists : lists_) {
    if (lists->slot() == slot) return lists.get();
  }
  return nullptr;
}

BlockHeader* Shard::allocate(const BlockRequest& request) {
  if (pool_->is_suspended()) return nullptr;
  StreamLists& lists = lists_of(request.stream);
  if (remote_.load(std::memory_order_relaxed) != nullptr) drain_remote();
  if (BlockHeader* block = reuse(lists, request); block != nullptr) return block;
  release_held();
  auto range = pool_->take(request.rounded, lists.slot(), OffsetAllocator::Search::fast);
  if (!range && kept_bytes_ > 0) {
    flush();
    range = pool_->take(request.rounded, lists.slot(), OffsetAllocator::Search::thorough);
  }
  return range ? make_block(request, lists.slot(), *range) : nullptr;
}

BlockHeader* Shard::reuse(StreamLists& lists, const BlockRequest& request) {
  BlockHeader* block = nullptr;
  if (request.rounded <= StreamLists::kMostBytes) {
    block = lists.pop(size_class(request.rounded));
    if (block == nullptr) return nullptr;
    kept_bytes_ -= block->bytes;
  } else {
    if (held_ == nullptr || held_->bytes != request.rounded || held_->stream != lists.slot()) return nullptr;
    block = std::exchange(held_, nullptr);
  }
  ++front_hits_;
  block->requested_bytes = request.bytes;
  block->owner = request.owner;
  block->is_lent = request.is_lent;
  block->become(BlockState::live);
  return block;
}

BlockHeader* Shard::search(const BlockRequest& request, StreamSlot stream) {
  flush();
  pool_->prepare(stream);
  const auto range = pool_->take(request.rounded, stream, OffsetAllocator::Search::thorough);
  return range ? make_block(request, stream, *range) : nullptr;
}

BlockHeader* Shard::make_block(const BlockRequest& request, StreamSlot stream, const RangeInfo& range) {
  const Address address = pool_->start_of(range);
  BlockHeader* block = nullptr;
  if (!covers(address)) note_reserved(address);
  try {
    block = table_.take();
    map_.set(address, block);
  } catch (...) {
    if (block != nullptr) table_.put(block);
    pool_->give(range.id, stream, shared_.order.death_epoch(stream));
    throw;
  }
  block->bytes = pool_->size_of(range);
  block->requested_bytes = request.bytes;
  block->range = range.id;
  block->stream = stream;
  block->owner = request.owner;
  block->is_lent = request.is_lent;
  block->shard = index_;
  block->has_uses.store(false, std::memory_order_relaxed);
  block->become(address, BlockState::live);
  return block;
}

/// Once for each of the two. A range without bytes covers nothing, whatever its base.
void Shard::note_reserved(Address address) {
  const auto [base, bytes] = pool_->reserved_around(address);
  for (Reserved& range : reserved_) {
    if (range.bytes.load() != 0 || bytes == 0) continue;
    range.base.store(static_cast<Address>(base));
    range.bytes.store(static_cast<Address>(bytes), std::memory_order_release);
    return;
  }
}

void Shard::keep(BlockHeader* block) {
  if (block->bytes <= StreamLists::kMostBytes) {
    StreamLists* lists = find_lists(block->stream);
    if (lists == nullptr) return release(block, block->stream, shared_.order.death_epoch(block->stream));
    block->death = lists->death_epoch();
    return keep_small(*lists, block);
  }
  release_held();
  block->death = shared_.order.death_epoch(block->stream);
  held_ = block;
  if (block->is_lent) release_held();  // parts of it may have no memory
}

void Shard::release_held() {
  if (BlockHeader* block = std::exchange(held_, nullptr); block != nullptr) release(block, block->stream, block->death);
}

void Shard::keep_small(StreamLists& lists, BlockHeader* block) {
  lists.push(size_class(block->bytes), block);
  kept_bytes_ += block->bytes;
  if (kept_bytes_ > shared_.front_bytes) flush();
}

void Shard::drain_remote() {
  for (BlockHeader* block = remote_.exchange(nullptr, std::memory_order_acquire); block != nullptr;) {
    BlockHeader* next = block->next;
    StreamLists* lists = block->bytes <= StreamLists::kMostBytes ? find_lists(block->stream) : nullptr;
    if (lists != nullptr) {
      keep_small(*lists, block);
    } else {
      release(block, block->stream, block->death);
    }
    block = next;
  }
}

void Shard::release(BlockHeader* block, StreamSlot stream, Epoch stamp) {
  map_.erase(block->address());
  pool_->give(block->range, stream, stamp);
  table_.put(block);
}

void Shard::release_list(BlockHeader* block) {
  while (block != nullptr) {
    BlockHeader* next = block->next;
    release(block, block->stream, block->death);
    block = next;
  }
}

void Shard::flush() {
  release_list(remote_.exchange(nullptr, std::memory_order_acquire));
  release_held();
  for (const auto& lists : lists_) release_list(lists->take_all());
  kept_bytes_ = 0;
}

}  // namespace tidemark::allocator
