#pragma once
// The exact search's view of blocks that meet: the moments that matter, and who keeps away from whom by how much.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/layout/blocks.h"

namespace tidemark::layout {

/// Sections: moments of the clock at which as many blocks live as ever do together, in order of time, and behind them
/// one for every pair kept apart by name. Two blocks conflict if and only if they share a section.
class ExactSections {
 public:
  /// Neighbouring sections in which the block needs the same bytes.
  struct Run {
    std::uint32_t first = 0;
    std::uint32_t last = 0;  ///< past the end
    Bytes bytes = 0;
  };
  struct Member {
    std::uint32_t block = 0;
    Bytes bytes = 0;
  };
  /// How far the addresses of a block and the other lie apart, whichever is above.
  struct Conflict {
    std::uint32_t other = 0;
    Bytes other_above = 0;
    Bytes other_below = 0;
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// `rows` of `blocks` from now on are blocks 0, 1, ...
  ExactSections(const Blocks& blocks, std::span<const std::uint32_t> rows);

  [[nodiscard]] std::size_t blocks() const { return height_.size(); }
  [[nodiscard]] std::size_t sections() const { return first_member_.size() - 1; }
  [[nodiscard]] std::span<const Run> runs(std::size_t block) const { return slice(runs_, first_run_, block); }
  [[nodiscard]] std::span<const Member> members(std::size_t s) const { return slice(members_, first_member_, s); }
  [[nodiscard]] std::span<const Conflict> conflicts(std::size_t block) const {
    return slice(conflicts_, first_conflict_, block);
  }
  /// From the block's address to the highest byte it ever needs.
  [[nodiscard]] Bytes height(std::size_t block) const { return height_[block]; }
  [[nodiscard]] Bytes alignment(std::size_t block) const { return alignment_[block]; }
  [[nodiscard]] Bytes fixed(std::size_t block) const { return fixed_[block]; }
  /// The nearest block before this one that differs from it in nothing, or kNone.
  [[nodiscard]] std::uint32_t twin_before(std::size_t block) const { return twin_before_[block]; }
  [[nodiscard]] std::uint32_t twin_behind(std::size_t block) const { return twin_behind_[block]; }
  /// Addresses and heights that matter are multiples of it.
  [[nodiscard]] Bytes unit() const { return unit_; }
  /// Members of the worst section, in bytes: no packing is lower.
  [[nodiscard]] Bytes load() const;
  /// What cannot be placed as sections see it might still be placed otherwise: some parts begin within their block.
  [[nodiscard]] bool complete() const { return complete_; }

 private:
  template <class T>
  [[nodiscard]] static std::span<const T> slice(const std::vector<T>& all, const std::vector<std::uint32_t>& first,
                                                std::size_t i) {
    return {all.data() + first[i], all.data() + first[i + 1]};
  }
  void add_sections(const Blocks& blocks, std::span<const std::uint32_t> rows);
  void add_section(std::vector<Member> members);
  void add_pairs(const Blocks& blocks, std::span<const std::uint32_t> rows);
  void add_runs();
  void add_conflicts();
  void add_twins();

  std::vector<Member> members_;
  std::vector<Run> runs_;
  std::vector<Conflict> conflicts_;
  std::vector<std::uint32_t> first_member_{0}, first_run_{0}, first_conflict_{0};
  std::vector<Bytes> height_, alignment_, fixed_;
  std::vector<std::uint32_t> twin_before_, twin_behind_;
  Bytes unit_ = 0;
  bool complete_ = true;
};

}  // namespace tidemark::layout
