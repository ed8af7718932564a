#pragma once
// Lowers a packing piece by piece: takes out one block that stands too high and those around it, leaves all others
// where they are, and packs the few again in many orders, until fewer bytes stand above a ceiling. A step costs a
// millisecond or so where packing everything again costs tens.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planner/layout/blocks.h"
#include "planner/layout/effort.h"
#include "planner/layout/standing.h"

namespace tidemark::layout {

class Repair {
 public:
  /// Keeps a reference to `blocks`. `addresses`: a valid packing. Equal seeds walk equal ways.
  Repair(const Blocks& blocks, std::span<const Bytes> addresses, std::uint64_t seed);

  /// Goes on where it stopped towards `target`, for as long as the effort lasts or until the height is `enough`
  /// (>= target), which changes nothing about the way.
  void lower_to(Bytes target, Bytes enough, Effort& effort);
  /// The lowest packing so far.
  [[nodiscard]] std::span<const Bytes> addresses() const { return best_; }
  [[nodiscard]] Bytes height() const { return height_; }

 private:
  // Addresses of a free block in (other's + from, other's + to) collide with another free block.
  struct Meeting {
    std::uint32_t other = 0;
    Bytes from = 0;
    Bytes to = 0;
  };
  // How to begin ordering the free blocks.
  enum class Start : std::uint8_t { life, address, bytes, area };

  bool step(Bytes ceiling, Effort& effort);
  void find_high(Bytes ceiling);
  void choose_free(std::uint32_t block, std::size_t count, Bytes ceiling);
  void free_block(std::uint32_t block);
  void free_blockers(std::uint32_t block, Bytes ceiling);
  void find_collisions();
  void collide(std::vector<ByteRange>& list, ByteRange other, Bytes shift, Bytes bytes) const;
  void find_meetings();
  void meet(std::uint32_t one, std::uint32_t other);
  bool repack(Bytes ceiling, Effort& effort);
  void order_by(Start start);
  void bring_forward(Bytes ceiling);
  [[nodiscard]] Bytes place_all(Bytes ceiling, Bytes most);
  [[nodiscard]] Bytes lowest_fit(std::size_t free) const;
  [[nodiscard]] const PackItem& hull(std::size_t free) const { return blocks_.hulls()[free_[free]]; }
  void commit();
  void keep_best();
  std::uint64_t random(std::uint64_t below);

  const Blocks& blocks_;
  Standing standing_;
  std::vector<Bytes> best_;
  Bytes height_ = 0;
  std::uint64_t state_ = 0;

  // Where the search is: it may be interrupted anywhere between two steps.
  Bytes ceiling_ = 0;
  Bytes share_ = 2;  // the ceiling is this share of the way below the height
  int failed_ = 0;
  std::vector<std::uint32_t> high_;  // blocks above the ceiling

  std::vector<std::pair<std::int32_t, std::uint32_t>> ends_;  // begins and ends of hulls, ascending, with the block
  std::vector<std::uint32_t> free_;                           // blocks of the step; the first stands too high
  std::vector<char> is_free_;                                 // per block
  std::vector<std::vector<ByteRange>> collisions_;            // per free block, ascending: addresses in between collide
  std::vector<std::vector<Meeting>> meetings_;                // per free block
  std::vector<std::uint32_t> order_;
  std::vector<double> priority_;
  std::vector<Bytes> trial_, best_trial_;  // per free block
};

}  // namespace tidemark::layout
