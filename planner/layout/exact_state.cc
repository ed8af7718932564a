#include "planner/layout/exact_state.h"

#include <algorithm>
#include <bit>

namespace tidemark::layout {
namespace {

// Of one failure; a block or section starts with a blame of 1.
constexpr double kBlame = 0.1;

}  // namespace

ExactState::ExactState(const ExactSections& sections, Bytes capacity)
    : sections_(sections), capacity_(capacity / sections.unit() * sections.unit()) {
  const std::size_t blocks = sections.blocks();
  words_ = (sections.sections() + 63) / 64;
  mask_.assign(blocks * words_, 0);
  touched_.assign(words_, 0);
  crossing_.assign(sections.sections() + 1, 0);
  for (std::uint32_t block = 0; block < blocks; ++block) {
    const Bytes fixed = sections.fixed(block);
    low_.push_back(fixed == kAnywhere ? 1 : 2 * fixed + 1);
    ceiling_.push_back(fixed == kAnywhere ? capacity_ - sections.height(block) : fixed);
    rounds_ = rounds_ || sections.unit() % sections.alignment(block) != 0;
    const auto runs = sections.runs(block);
    for (const auto& run : runs) {
      for (std::uint32_t s = run.first; s < run.last; ++s) mask_[block * words_ + s / 64] |= std::uint64_t{1} << s % 64;
    }
    for (std::uint32_t s = runs.front().first + 1; s < runs.back().last; ++s) ++crossing_[s];
  }
  address_.assign(blocks, 0);
  floor_.assign(sections.sections(), 0);
  blame = {.sections = std::vector<double>(sections.sections(), 1.0), .blocks = std::vector<double>(blocks, 1.0)};
  for (std::uint32_t s = 0; s < sections.sections(); ++s) {
    first_.push_back(static_cast<std::uint32_t>(order_.size()));
    Bytes rest = 0;
    for (const auto& member : sections.members(s)) {
      order_.push_back(member);
      rest += member.bytes;
    }
    rest_.push_back(rest);
    unplaced_.push_back(static_cast<std::uint32_t>(sections.members(s).size()));
  }
}

bool ExactState::start() {
  for (std::uint32_t block = 0; block < low_.size(); ++block) {
    const Bytes fixed = sections_.fixed(block);
    if (fixed != kAnywhere ? fixed + sections_.height(block) > capacity_ : ceiling_[block] < 0) return false;
    touch(block);
  }
  return settle(true);
}

bool ExactState::place(std::uint32_t block) {
  const Bytes address = low(block);
  lows_.push_back({block, low_[block]});
  low_[block] = kPlaced;
  address_[block] = address;
  take_out(block);
  touch(block);
  bool fits = true;
  const auto conflicts = sections_.conflicts(block);
  steps_ += static_cast<std::int64_t>(conflicts.size());
  for (const auto& conflict : conflicts) {
    const Bytes top = 2 * (address + conflict.other_above) + 1;
    if (!rounds_ && low_[conflict.other] >= top) continue;
    if (raise(conflict.other, top)) continue;
    fits = false;
    break;
  }
  return settle(fits);
}

bool ExactState::postpone(std::uint32_t block) {
  // It rests on one yet to be placed; and one of those takes bytes from where it would lie now, else it could lie
  // there.
  const Bytes address = low(block);
  bool in_the_way = !held(block);
  Bytes lowest = kPlaced;
  const auto conflicts = sections_.conflicts(block);
  steps_ += static_cast<std::int64_t>(conflicts.size());
  for (const auto& conflict : conflicts) {
    if (placed(conflict.other)) continue;
    const Bytes other = low(conflict.other);
    lowest = std::min(lowest, other + conflict.other_below);
    in_the_way |= other < address + conflict.other_above;
  }
  if (!in_the_way || lowest == kPlaced) return false;
  bool fits = true;
  for (std::uint32_t twin = block; fits && twin != ExactSections::kNone; twin = sections_.twin_behind(twin)) {
    fits = raise(twin, 2 * lowest);
  }
  return settle(fits);
}

bool ExactState::raise(std::uint32_t block, Bytes low) {
  if (rounds_) low = 2 * round_up(low >> 1, sections_.alignment(block)) + (low & 1);
  if (low <= low_[block]) return true;
  lows_.push_back({block, low_[block]});
  low_[block] = low;
  if (low >> 1 > ceiling_[block]) {
    blame.blocks[block] += kBlame;
    return false;
  }
  touch(block);
  return true;
}

void ExactState::touch(std::uint32_t block) {
  for (std::size_t w = 0; w < words_; ++w) touched_[w] |= mask_[block * words_ + w];
}

bool ExactState::settle(bool fits) {
  for (std::size_t w = 0; w < words_; ++w) {
    for (std::uint64_t bits = touched_[w]; fits && bits != 0; bits &= bits - 1)
      fits = settle_section(static_cast<std::uint32_t>(64 * w) + static_cast<std::uint32_t>(std::countr_zero(bits)));
    touched_[w] = 0;
  }
  return fits;
}

// The bytes of a section, one after another in order of `low`: none begins before its own, so the last ends no earlier
// than this in any packing.
bool ExactState::settle_section(std::uint32_t section) {
  Member* const order = order_.data() + first_[section];
  const std::uint32_t count = unplaced_[section];
  steps_ += count;
  for (std::uint32_t i = 1; i < count; ++i) {
    const Member member = order[i];
    const Bytes low = low_[member.block];
    std::uint32_t at = i;
    for (; at > 0 && low_[order[at - 1].block] > low; --at) order[at] = order[at - 1];
    order[at] = member;
  }
  const Bytes floor = count == 0 ? kPlaced : low(order[0].block);
  if (floor != floor_[section]) {
    floors_.push_back({section, floor_[section]});
    floor_[section] = floor;
  }
  Bytes rest = rest_[section];
  for (std::uint32_t i = 0; i < count; ++i) {
    if (low(order[i].block) + rest > capacity_) {
      blame.sections[section] += kBlame;
      return false;
    }
    rest -= order[i].bytes;
  }
  return true;
}

void ExactState::take_out(std::uint32_t block) {
  const auto runs = sections_.runs(block);
  for (const auto& run : runs) {
    for (std::uint32_t s = run.first; s < run.last; ++s) {
      rest_[s] -= run.bytes;
      Member* const order = order_.data() + first_[s];
      const std::uint32_t last = --unplaced_[s];
      std::uint32_t at = 0;
      while (order[at].block != block) ++at;
      std::swap(order[at], order[last]);
    }
  }
  for (std::uint32_t s = runs.front().first + 1; s < runs.back().last; ++s) --crossing_[s];
}

void ExactState::put_back(std::uint32_t block) {
  const auto runs = sections_.runs(block);
  for (const auto& run : runs) {
    for (std::uint32_t s = run.first; s < run.last; ++s) {
      rest_[s] += run.bytes;
      ++unplaced_[s];
    }
  }
  for (std::uint32_t s = runs.front().first + 1; s < runs.back().last; ++s) ++crossing_[s];
}

void ExactState::undo(Mark mark) {
  while (lows_.size() > mark.lows) {
    const OldLow& old = lows_.back();
    if (low_[old.block] == kPlaced) put_back(old.block);
    low_[old.block] = old.low;
    lows_.pop_back();
  }
  while (floors_.size() > mark.floors) {
    floor_[floors_.back().section] = floors_.back().floor;
    floors_.pop_back();
  }
}

}  // namespace tidemark::layout
