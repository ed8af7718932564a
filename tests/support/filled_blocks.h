#pragma once
// A thread's work on an allocator whose device has its memory in this process: it fills the memory until a block is
// refused, frees a few and goes on. Every block holds a pattern of its own, which must be there when the block is
// freed.

#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "allocator/caching_allocator.h"
#include "device/pattern.h"

namespace tidemark {

class FilledBlocks {
 public:
  FilledBlocks(allocator::CachingAllocator& allocator, std::span<const StreamHandle> streams, std::uint64_t seed)
      : allocator_(&allocator), streams_(streams.begin(), streams.end()), random_(seed) {}

  void step() {
    if (to_free_ == 0 && random_() % 4 != 0) return allocate();
    if (to_free_ > 0) --to_free_;
    release();
  }
  void release_all() {
    while (!blocks_.empty()) release();
  }
  /// Blocks stay with the allocator.
  void forget() { blocks_.clear(); }

  /// What was asked for and is alive.
  [[nodiscard]] Bytes requested_bytes() const {
    Bytes bytes = 0;
    for (const Block& block : blocks_) bytes += block.bytes;
    return bytes;
  }
  /// The sizes of these blocks as the allocator has them.
  [[nodiscard]] Bytes allocated_bytes() const {
    Bytes bytes = 0;
    for (const Block& block : blocks_) bytes += allocator_->block_bytes(block.address);
    return bytes;
  }
  [[nodiscard]] std::int64_t refusals() const { return refusals_; }
  /// What went wrong first; empty if nothing did.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  struct Block {
    Address address = 0;
    Bytes bytes = 0;
    std::uint64_t seed = 0;
  };

  void expect(bool right, const char* what) {
    if (!right && failure_.empty()) failure_ = what + (": " + allocator_->last_error());
  }
  [[nodiscard]] StreamHandle any_stream() { return streams_[random_() % streams_.size()]; }
  /// From single bytes to a few granules, small ones mostly.
  [[nodiscard]] Bytes any_size() {
    const int bits = std::array{9, 12, 16, 18, 20, 22}[random_() % 6];
    return 1 + static_cast<Bytes>(random_() % (std::uint64_t{1} << bits));
  }

  void allocate() {
    Block block{.bytes = any_size(), .seed = random_()};
    const bool plain = random_() % 64 == 0;
    const DeviceCode code = plain ? allocator_->allocate_plain(block.bytes, any_stream(), block.address)
                                  : allocator_->allocate(block.bytes, any_stream(), block.address);
    if (code == DeviceCode::ok) {
      fill_pattern(reinterpret_cast<void*>(block.address), block.bytes, block.seed);
      blocks_.push_back(block);
      return;
    }
    expect(code == DeviceCode::out_of_memory, "allocate");
    ++refusals_;
    to_free_ = 1 + random_() % 4;
  }

  void release() {
    if (blocks_.empty()) return;
    std::swap(blocks_[random_() % blocks_.size()], blocks_.back());
    const Block block = blocks_.back();
    blocks_.pop_back();
    expect(holds_pattern(reinterpret_cast<const void*>(block.address), block.bytes, block.seed), "bytes were lost");
    if (random_() % 8 == 0) expect(allocator_->note_use(block.address, any_stream()) == DeviceCode::ok, "note_use");
    expect(allocator_->free(block.address) == DeviceCode::ok, "free");
  }

  allocator::CachingAllocator* allocator_;
  std::vector<StreamHandle> streams_;
  std::mt19937_64 random_;
  std::vector<Block> blocks_;
  std::uint64_t to_free_ = 0;
  std::int64_t refusals_ = 0;
  std::string failure_;
};

}  // namespace tidemark
