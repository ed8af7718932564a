#pragma once
// A partial packing built from the floor up, and what follows from it.

#include <cstdint>
#include <vector>

#include "planner/layout/exact_sections.h"

namespace tidemark::layout {

/// Blocks are placed in ascending order of address, each as low as what is placed below it allows; `low` is how low
/// that is now. A block that does not lie there rests on one yet to be placed. All that is known of a section is its
/// floor, the lowest `low` of its blocks yet to be placed, and the rest, their bytes.
class ExactState {
 public:
  using Member = ExactSections::Member;
  static constexpr Bytes kPlaced = Bytes{1} << 62;

  struct Mark {
    std::size_t lows = 0;
    std::size_t floors = 0;
  };

  /// Keeps a reference to `sections`. REQUIRES: capacity and heights below 2^60.
  ExactState(const ExactSections& sections, Bytes capacity);

  /// False: no packing is as low as the capacity.
  [[nodiscard]] bool start();
  /// The block lies at its `low`. False: then nothing else fits; undo.
  [[nodiscard]] bool place(std::uint32_t block);
  /// It does not. False: it must.
  [[nodiscard]] bool postpone(std::uint32_t block);
  [[nodiscard]] Mark mark() const { return {lows_.size(), floors_.size()}; }
  void undo(Mark mark);

  [[nodiscard]] const ExactSections& sections() const { return sections_; }
  [[nodiscard]] Bytes capacity() const { return capacity_; }
  [[nodiscard]] Bytes low(std::uint32_t block) const { return low_[block] >> 1; }
  /// A placed block, or the floor, is right below `low`.
  [[nodiscard]] bool held(std::uint32_t block) const { return (low_[block] & 1) != 0; }
  [[nodiscard]] bool placed(std::uint32_t block) const { return low_[block] == kPlaced; }
  [[nodiscard]] const std::vector<Bytes>& addresses() const { return address_; }

  /// kPlaced where all are placed.
  [[nodiscard]] Bytes floor(std::uint32_t section) const { return floor_[section]; }
  [[nodiscard]] Bytes slack(std::uint32_t section) const { return capacity_ - floor_[section] - rest_[section]; }
  [[nodiscard]] std::span<const Member> unplaced(std::uint32_t section) const {
    return {order_.data() + first_[section], unplaced_[section]};
  }
  /// No block yet to be placed lives both in the section and in the one before it.
  [[nodiscard]] bool cut_before(std::uint32_t section) const { return crossing_[section] == 0; }

  /// Who stood in the way, and how often.
  struct Blame {
    std::vector<double> sections, blocks;
  };
  Blame blame;
  /// Elementary steps so far.
  [[nodiscard]] std::int64_t steps() const { return steps_; }

 private:
  [[nodiscard]] bool raise(std::uint32_t block, Bytes low);
  void touch(std::uint32_t block);
  [[nodiscard]] bool settle(bool fits);
  [[nodiscard]] bool settle_section(std::uint32_t section);
  void take_out(std::uint32_t block);
  void put_back(std::uint32_t block);

  struct OldLow {
    std::uint32_t block = 0;
    Bytes low = 0;
  };
  struct OldFloor {
    std::uint32_t section = 0;
    Bytes floor = 0;
  };

  const ExactSections& sections_;
  Bytes capacity_ = 0;
  bool rounds_ = false;         // some alignment is wider than the unit
  std::vector<Bytes> low_;      // twice the address, and one more where held: comparing does both at once
  std::vector<Bytes> ceiling_;  // highest address
  std::vector<Bytes> address_;
  std::vector<Bytes> floor_, rest_;
  std::vector<std::uint32_t> crossing_;
  // Members of each section: first those yet to be placed, about in order of `low`, then the others, last placed first.
  std::vector<Member> order_;
  std::vector<std::uint32_t> first_, unplaced_;
  std::vector<std::uint64_t> mask_;     // per block, of its sections
  std::vector<std::uint64_t> touched_;  // sections to look at
  std::size_t words_ = 0;
  std::vector<OldLow> lows_;
  std::vector<OldFloor> floors_;
  std::int64_t steps_ = 0;
};

}  // namespace tidemark::layout
