#include "planner/decide/flat/profile.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tidemark::decide::flat {

void Profile::assign(const std::vector<Key>& keys, const std::vector<Bytes>& bytes, Bytes budget) {
  blocks_.clear();
  first_.clear();
  budget_ = budget;
  overflow_ = 0;
  size_ = std::ssize(keys);
  constexpr std::size_t kFill = kCapacity / 2;
  for (std::size_t i = 0; i < keys.size(); i += kFill) {
    auto block = std::make_unique<Block>();
    block->count = std::min(kFill, keys.size() - i);
    std::copy_n(keys.begin() + static_cast<std::ptrdiff_t>(i), block->count, block->key.begin());
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(i), block->count, block->bytes.begin());
    renew(*block);
    first_.push_back(block->key.front());
    blocks_.push_back(std::move(block));
  }
}

void Profile::set_budget(Bytes budget) {
  budget_ = budget;
  for (auto& block : blocks_) renew(*block);
}

std::size_t Profile::block_of(Key key) const {
  const auto after = std::ranges::upper_bound(first_, key);
  return after == first_.begin() ? 0 : static_cast<std::size_t>(after - first_.begin()) - 1;
}

/// The first entry with a key not below `key`.
std::size_t Profile::place_of(const Block& block, Key key) {
  const Key* const begin = block.key.data();
  return static_cast<std::size_t>(std::lower_bound(begin, begin + block.count, key) - begin);
}

/// Works out `most` and `overflow` of a block anew, and the total with them.
void Profile::renew(Block& block) {
  Bytes most = block.bytes[0], least = most;
  Bytes above = 0;
  const Bytes limit = budget_ - block.lazy;
  for (std::size_t i = 0; i < block.count; ++i) {
    const Bytes bytes = block.bytes[i];
    most = std::max(most, bytes);
    least = std::min(least, bytes);
    above += std::max<Bytes>(bytes - limit, 0);
  }
  work_ += static_cast<std::int64_t>(block.count);
  overflow_ += above - block.overflow;
  block.overflow = above;
  block.most = most + block.lazy;
  block.least = least + block.lazy;
}

void Profile::add_to_part(Block& block, std::size_t begin, std::size_t end, Bytes delta) {
  for (std::size_t i = begin; i < end; ++i) block.bytes[i] += delta;
  renew(block);
}

void Profile::add(Key lo, Key hi, Bytes delta) {
  if (lo >= hi || delta == 0) return;
  for (std::size_t b = block_of(lo); b < blocks_.size() && first_[b] < hi; ++b) {
    Block& block = *blocks_[b];
    ++work_;
    const std::size_t begin = first_[b] >= lo ? 0 : place_of(block, lo);
    const std::size_t end = b + 1 < first_.size() && first_[b + 1] <= hi ? block.count : place_of(block, hi);
    if (begin >= end) continue;
    if (begin > 0 || end < block.count) {
      add_to_part(block, begin, end, delta);
      continue;
    }
    block.lazy += delta;
    const bool below = std::max(block.most, block.most + delta) <= budget_;
    const bool above = std::min(block.least, block.least + delta) >= budget_;
    if (!below && !above) {
      renew(block);
      continue;
    }
    // All on one side, before and after: no need to look at each.
    block.most += delta;
    block.least += delta;
    if (below) continue;
    const Bytes more = delta * static_cast<Bytes>(block.count);
    block.overflow += more;
    overflow_ += more;
  }
}

void Profile::insert(Key key, Bytes bytes) {
  std::size_t b = block_of(key);
  if (blocks_[b]->count == kCapacity) {
    split(b);
    b = block_of(key);
  }
  Block& block = *blocks_[b];
  const std::size_t place = place_of(block, key);
  assert(place == block.count || block.key[place] != key);
  std::copy_backward(block.key.begin() + static_cast<std::ptrdiff_t>(place),
                     block.key.begin() + static_cast<std::ptrdiff_t>(block.count),
                     block.key.begin() + static_cast<std::ptrdiff_t>(block.count) + 1);
  std::copy_backward(block.bytes.begin() + static_cast<std::ptrdiff_t>(place),
                     block.bytes.begin() + static_cast<std::ptrdiff_t>(block.count),
                     block.bytes.begin() + static_cast<std::ptrdiff_t>(block.count) + 1);
  block.key[place] = key;
  block.bytes[place] = bytes - block.lazy;
  ++block.count;
  ++size_;
  first_[b] = block.key.front();
  const Bytes above = std::max<Bytes>(bytes - budget_, 0);
  block.most = std::max(block.most, bytes);
  block.least = std::min(block.least, bytes);
  block.overflow += above;
  overflow_ += above;
  work_ += 8;
}

void Profile::erase(Key key) {
  const std::size_t b = block_of(key);
  Block& block = *blocks_[b];
  const std::size_t place = place_of(block, key);
  assert(place < block.count && block.key[place] == key);
  std::copy(block.key.begin() + static_cast<std::ptrdiff_t>(place) + 1,
            block.key.begin() + static_cast<std::ptrdiff_t>(block.count),
            block.key.begin() + static_cast<std::ptrdiff_t>(place));
  const Bytes above = std::max<Bytes>(block.bytes[place] + block.lazy - budget_, 0);
  std::copy(block.bytes.begin() + static_cast<std::ptrdiff_t>(place) + 1,
            block.bytes.begin() + static_cast<std::ptrdiff_t>(block.count),
            block.bytes.begin() + static_cast<std::ptrdiff_t>(place));
  --block.count;
  --size_;
  work_ += 8;
  if (block.count == 0) {
    overflow_ -= block.overflow;
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(b));
    first_.erase(first_.begin() + static_cast<std::ptrdiff_t>(b));
    return;
  }
  first_[b] = block.key.front();
  block.overflow -= above;
  overflow_ -= above;
  // `most` may now be above the truth: it serves as a bound there, and renew makes it exact.
  renew(block);
}

void Profile::split(std::size_t index) {
  Block& block = *blocks_[index];
  auto second = std::make_unique<Block>();
  const std::size_t half = block.count / 2;
  second->count = block.count - half;
  std::copy_n(block.key.begin() + static_cast<std::ptrdiff_t>(half), second->count, second->key.begin());
  std::copy_n(block.bytes.begin() + static_cast<std::ptrdiff_t>(half), second->count, second->bytes.begin());
  second->lazy = block.lazy;
  block.count = half;
  renew(block);
  renew(*second);
  const auto place = static_cast<std::ptrdiff_t>(index) + 1;
  first_.insert(first_.begin() + place, second->key.front());
  blocks_.insert(blocks_.begin() + place, std::move(second));
}

Key Profile::next_after(Key key) const {
  const std::size_t b = block_of(key);
  const std::size_t place = place_of(*blocks_[b], key + 1);
  return place < blocks_[b]->count ? blocks_[b]->key[place] : first_[b + 1];
}

Bytes Profile::at(Key key) const {
  const Block& block = *blocks_[block_of(key)];
  return block.bytes[place_of(block, key)] + block.lazy;
}

Bytes Profile::peak() const {
  Bytes peak = blocks_.front()->most;
  for (const auto& block : blocks_) peak = std::max(peak, block->most);
  return peak;
}

Key Profile::peak_key() const {
  const Bytes most = peak();
  for (const auto& block : blocks_) {
    if (block->most != most) continue;
    for (std::size_t i = 0; i < block->count; ++i)
      if (block->bytes[i] + block->lazy == most) return block->key[i];
  }
  return first_.front();
}

Key Profile::at_overflow(Bytes share) const {
  for (const auto& block : blocks_) {
    if (share >= block->overflow) {
      share -= block->overflow;
      continue;
    }
    for (std::size_t i = 0; i < block->count; ++i) {
      share -= std::max<Bytes>(block->bytes[i] + block->lazy - budget_, 0);
      if (share < 0) return block->key[i];
    }
  }
  assert(false);
  return first_.front();
}

}  // namespace tidemark::decide::flat
