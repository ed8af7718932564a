#include "allocator/planned_arena.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <map>
#include <numeric>
#include <utility>

#include "allocator/size_matching.h"
#include "allocator/small_places.h"

namespace tidemark::allocator {
namespace {

constexpr std::int32_t kNoBlock = -1;
constexpr std::int32_t kNoMatching = -1;

/// Blocks of the plan that a guest is kept out of the way of.
constexpr std::int32_t kLookForWants = 1024;

/// Of routed blocks.
constexpr std::int32_t kEmptyInARow = 8;

/// The bytes [begin, end) as the plan passes over them: who held each last. Pieces abut and never overlap.
class LastHolders {
 public:
  /// `block` takes [begin, end). Calls `visit(holder)` for whoever held some of it, perhaps repeatedly.
  template <class Visit>
  void take(Bytes begin, Bytes end, std::int32_t block, const Visit& visit) {
    split_at(begin);
    split_at(end);
    auto piece = pieces_.lower_bound(begin);
    while (piece != pieces_.end() && piece->first < end) {
      visit(piece->second.holder);
      piece = pieces_.erase(piece);
    }
    pieces_.emplace_hint(piece, begin, Piece{.end = end, .holder = block});
  }

 private:
  struct Piece {
    Bytes end = 0;
    std::int32_t holder = kNoBlock;
  };

  void split_at(Bytes at) {
    auto piece = pieces_.lower_bound(at);
    if (piece == pieces_.begin()) return;
    --piece;
    if (piece->first >= at || piece->second.end <= at) return;
    pieces_.emplace(at, piece->second);
    piece->second.end = at;
  }

  std::map<Bytes, Piece> pieces_;  // by begin
};

/// Offsets as keys, fixed once built: open addressing at most half full.
class OffsetIndex {
 public:
  /// `keys` are distinct and >= 0; key i is found as i.
  explicit OffsetIndex(std::span<const Bytes> keys) : table_(std::bit_ceil(2 * keys.size() + 1)) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::size_t at = home(keys[i]);
      while (table_[at].row != kNoBlock) at = next(at);
      table_[at] = {.key = keys[i], .row = static_cast<std::int32_t>(i)};
    }
  }

  [[nodiscard]] std::int32_t find(Bytes key) const {
    std::size_t at = home(key);
    while (table_[at].row != kNoBlock && table_[at].key != key) at = next(at);
    return table_[at].row;
  }

 private:
  struct Entry {
    Bytes key = 0;
    std::int32_t row = kNoBlock;
  };

  [[nodiscard]] std::size_t home(Bytes key) const {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15U;  // 2^64 over the golden ratio: spreads neighbours
    const std::uint64_t mixed = static_cast<std::uint64_t>(key) * kGolden;
    return static_cast<std::size_t>(mixed >> 32) & (table_.size() - 1);
  }
  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & (table_.size() - 1); }

  std::vector<Entry> table_;
};

std::vector<Bytes> distinct_offsets(std::span<const PlannedBlock> blocks) {
  std::vector<Bytes> offsets;
  offsets.reserve(blocks.size());
  for (const PlannedBlock& block : blocks)
    if (!block.unordered) offsets.push_back(block.offset);
  std::ranges::sort(offsets);
  offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
  return offsets;
}

}  // namespace

struct PlannedArena::State {
  /// A planned block with everything the request needs.
  struct Slot {
    Bytes offset = 0;
    Bytes span = 0;          // bytes it takes: rounded, pad included
    Bytes least_span = 0;    // of a request that fits
    Bytes used_bytes = 0;    // as requested; 0: not in use
    std::int32_t place = 0;  // row in holder_at
    std::int32_t first_predecessor = 0;
    std::int32_t predecessor_count = 0;
    std::int32_t due = 0;
    std::int32_t matching = kNoMatching;  // row in matchings
    bool elsewhere = false;
    bool persistent = false;
    bool straggler = false;

    [[nodiscard]] bool in_use() const { return used_bytes > 0; }
    [[nodiscard]] bool fits(Bytes request_span) const { return least_span <= request_span && request_span <= span; }
    [[nodiscard]] bool is_routed() const { return least_span < span; }
    [[nodiscard]] bool overlaps(const Slot& other) const {
      return offset < other.offset + other.span && other.offset < offset + span;
    }
  };

  State(std::span<const PlannedBlock> blocks, const Options& given)
      : options(given),
        offsets(distinct_offsets(blocks)),
        index(offsets),
        holder_at(offsets.size(), kNoBlock),
        extent_bytes(extent_of_sequence(blocks, given)),
        unordered(unordered_places(blocks, given)) {
    slots.reserve(blocks.size());
    std::vector<SizeRange> before;  // unordered blocks between the slot before and the next one
    for (const PlannedBlock& block : blocks) {
      assert(block.least_bytes >= 0 && block.least_bytes <= block.bytes);
      const Bytes least = block.least_bytes > 0 ? block.least_bytes : block.bytes;
      if (block.unordered) {
        assert(block.bytes <= kUnorderedBytes);
        before.push_back({.least = least, .most = block.bytes});
        continue;
      }
      assert(block.bytes > 0 && block.offset >= 0 && block.offset % options.alignment_bytes == 0);
      slots.push_back({.offset = block.offset,
                       .span = span_of(block.bytes),
                       .least_span = span_of(least),
                       .place = index.find(block.offset),
                       .due = block.due,
                       .elsewhere = block.elsewhere,
                       .persistent = block.persistent});
      if (slots.back().is_routed() && !before.empty()) {
        slots.back().matching = static_cast<std::int32_t>(matchings.size());
        matchings.emplace_back(std::move(before));
      }
      before.clear();
    }
    find_predecessors();
  }

  [[nodiscard]] static Bytes extent_of_sequence(std::span<const PlannedBlock> blocks, const Options& options) {
    Bytes extent = 0;
    for (const PlannedBlock& block : blocks)
      if (!block.elsewhere && !block.unordered) extent = std::max(extent, block.offset + span_of(block.bytes, options));
    return extent;
  }

  [[nodiscard]] static SmallPlaces unordered_places(std::span<const PlannedBlock> blocks, const Options& options) {
    const auto count = static_cast<std::size_t>(std::ranges::count(blocks, true, &PlannedBlock::unordered));
    return {extent_of_sequence(blocks, options) + options.spare_bytes, span_of(kUnorderedBytes, options),
            std::min(count, kMostUnordered)};
  }

  [[nodiscard]] static Bytes span_of(Bytes bytes, const Options& options) {
    return round_up(bytes + options.tail_pad_bytes, options.alignment_bytes);
  }
  [[nodiscard]] Bytes span_of(Bytes bytes) const { return span_of(bytes, options); }

  /// Twice around the circle: the first round only tells who is last in a step.
  void find_predecessors() {
    LastHolders holders;
    const auto count = static_cast<std::int32_t>(slots.size());
    for (std::int32_t block = 0; block < count; ++block) {
      const Slot& slot = at(block);
      if (!slot.elsewhere) holders.take(slot.offset, slot.offset + slot.span, block, [](std::int32_t) {});
    }
    std::vector<std::int32_t> found;
    for (std::int32_t block = 0; block < count; ++block) {
      Slot& slot = at(block);
      if (slot.elsewhere) continue;
      found.clear();
      holders.take(slot.offset, slot.offset + slot.span, block, [&](std::int32_t holder) { found.push_back(holder); });
      std::ranges::sort(found);
      found.erase(std::unique(found.begin(), found.end()), found.end());
      slot.first_predecessor = static_cast<std::int32_t>(predecessors.size());
      slot.predecessor_count = static_cast<std::int32_t>(found.size());
      predecessors.insert(predecessors.end(), found.begin(), found.end());
    }
  }

  Slot& at(std::int32_t block) { return slots[static_cast<std::size_t>(block)]; }
  [[nodiscard]] bool at_end() const { return static_cast<std::size_t>(cursor) == slots.size(); }
  [[nodiscard]] std::span<const std::int32_t> predecessors_of(const Slot& slot) const {
    return std::span(predecessors)
        .subspan(static_cast<std::size_t>(slot.first_predecessor), static_cast<std::size_t>(slot.predecessor_count));
  }

  /// By the invariant of the header this looks at every block that can be in the way.
  [[nodiscard]] bool is_free(const Slot& slot) {
    if (slot.in_use()) return false;
    for (const std::int32_t holder : predecessors_of(slot))
      if (at(holder).in_use()) return false;
    return std::ranges::none_of(stragglers, [&](std::int32_t straggler) { return at(straggler).overlaps(slot); }) &&
           std::ranges::none_of(guests, [&](const Slot& guest) { return guest.overlaps(slot); }) &&
           std::ranges::none_of(aside, [&](const Slot& piece) { return piece.overlaps(slot); });
  }

  /// Moves on without handing the block at the cursor out, and keeps the invariant.
  void pass_over() {
    const Slot& slot = at(cursor);
    for (const std::int32_t holder : predecessors_of(slot)) {
      Slot& in_the_way = at(holder);
      if (!in_the_way.in_use() || in_the_way.straggler) continue;
      in_the_way.straggler = true;
      stragglers.push_back(holder);
    }
    if (!(slot.persistent && slot.in_use())) ++counts.passed_over;
    move_to(cursor + 1);
  }

  void move_to(std::int32_t block) {
    if (SizeMatching* const due = unordered_due(); due != nullptr && std::exchange(has_unordered_seen, false))
      due->clear();
    cursor = block;
  }

  /// Of the unordered blocks right before the cursor, where that is at a routed block that may be mistaken for them.
  [[nodiscard]] SizeMatching* unordered_due() {
    if (at_end() || at(cursor).matching == kNoMatching) return nullptr;
    return &matchings[static_cast<std::size_t>(at(cursor).matching)];
  }

  /// Persistent blocks that are there already are not asked for again.
  void skip_persistent() {
    while (!at_end() && at(cursor).persistent && at(cursor).in_use()) pass_over();
  }

  /// How many blocks further the plan fits the requests again, or nothing.
  [[nodiscard]] std::optional<std::int32_t> find_distance(Bytes span) {
    const auto count = static_cast<std::int32_t>(slots.size());
    const std::int32_t last = std::min(count - 1, cursor + options.look_ahead);
    const std::int64_t missed = departed + mistakable;
    for (std::int32_t place = cursor + 1; place <= last; ++place) {
      if (!at(place).fits(span)) continue;
      const std::int32_t distance = place - cursor;
      const bool replaced = distance <= missed;
      const bool skipped =
          departed >= 2 && distance >= 2 && at(place - 1).fits(recent[0]) && at(place - 2).fits(recent[1]);
      if (replaced || skipped) return distance;
    }
    return std::nullopt;
  }

  /// A routed block at the cursor that has become larger than planned: this is its request.
  [[nodiscard]] bool outgrows_cursor(Bytes span) {
    return !at_end() && at(cursor).is_routed() && span > at(cursor).span;
  }

  /// Routed blocks that hold nothing are not asked for. A request that would do for the one at the cursor, and is just
  /// as large as a fixed block behind it and few more of its kind, is of that one: 0, or how far that is.
  [[nodiscard]] std::int32_t distance_behind_empty(Bytes span) {
    if (!has_outgrown) return 0;
    const auto count = static_cast<std::int32_t>(slots.size());
    const std::int32_t last = std::min(count - 1, cursor + kEmptyInARow);
    std::int32_t place = cursor;
    while (place <= last && at(place).is_routed()) ++place;
    return place > cursor && place <= last && at(place).span == span ? place - cursor : 0;
  }

  std::optional<Address> depart(Bytes span) {
    ++counts.unplanned;
    ++departed;
    recent = {span, recent[0]};
    return std::nullopt;
  }

  /// A routed block takes any small request, also that of an unordered block which the plan has before it. It is one of
  /// those if they account for it besides the ones that have come.
  std::optional<Address> serve_unordered_due(Bytes bytes, Bytes span) {
    if (bytes > kUnorderedBytes) return std::nullopt;
    const SizeMatching* const due = unordered_due();
    if (due == nullptr || !due->takes(bytes)) return std::nullopt;
    const std::optional<Address> address = serve_unordered(bytes, span);
    if (address) ++mistakable;
    return address;
  }

  /// A place of an unordered block, or nothing.
  std::optional<Address> serve_unordered(Bytes bytes, Bytes span) {
    const std::optional<Bytes> offset = unordered.take(bytes, span);
    if (!offset) return std::nullopt;
    if (SizeMatching* const due = unordered_due(); due != nullptr) {
      due->add(bytes);
      has_unordered_seen = true;
    }
    ++counts.unordered;
    note_live(bytes);
    return options.base + static_cast<Address>(*offset);
  }

  /// The block at the cursor fits the request.
  std::optional<Address> serve(Bytes bytes) {
    Slot& slot = at(cursor);
    departed = 0;
    if (!slot.is_routed()) mistakable = 0;
    if (slot.elsewhere) {
      move_to(cursor + 1);
      ++counts.unplanned;
      return std::nullopt;
    }
    if (!is_free(slot)) {
      pass_over();
      ++counts.blocked;
      ++counts.unplanned;
      return std::nullopt;
    }
    slot.used_bytes = bytes;
    holder_at[static_cast<std::size_t>(slot.place)] = cursor;
    move_to(cursor + 1);
    ++in_use;
    ++counts.served;
    note_live(bytes);
    return options.base + static_cast<Address>(slot.offset);
  }

  void note_live(Bytes bytes) {
    counts.live_bytes += bytes;
    counts.peak_live_bytes = std::max(counts.peak_live_bytes, counts.live_bytes);
  }

  struct Range {
    Bytes begin = 0, end = 0;
  };

  /// Ascending, of what the sequence has and of what is spare; unordered places are none.
  [[nodiscard]] std::vector<Range> free_pieces() const {
    std::vector<Range> used;
    for (const std::vector<Slot>* const list : {&slots, &guests})
      for (const Slot& slot : *list)
        if (slot.in_use()) used.push_back({.begin = slot.offset, .end = slot.offset + slot.span});
    for (const Slot& piece : aside) used.push_back({.begin = piece.offset, .end = piece.offset + piece.span});
    used.push_back({.begin = extent_bytes + options.spare_bytes, .end = 0});
    std::ranges::sort(used, {}, &Range::begin);
    std::vector<Range> free;
    Bytes at = 0;
    for (const auto& [begin, end] : used) {
      if (begin > at) free.push_back({.begin = at, .end = begin});
      at = std::max(at, end);
    }
    return free;
  }

  /// How soon the plan wants [begin, begin + span), in blocks from the cursor on; those that will be asked for at all.
  [[nodiscard]] std::int32_t wanted_in(Bytes begin, Bytes span) const {
    const Slot range{.offset = begin, .span = span};
    const std::int32_t count = std::min(static_cast<std::int32_t>(slots.size()), kLookForWants);
    for (std::int32_t ahead = 0; ahead < count; ++ahead) {  // behind the last the next step begins
      const Slot& slot = slots[static_cast<std::size_t>(cursor + ahead) % slots.size()];
      if (!slot.elsewhere && !slot.in_use() && slot.overlaps(range)) return ahead;
    }
    return kLookForWants;
  }

  /// The same of `count` granules from `begin` on, each looked at once however many blocks want it.
  [[nodiscard]] std::vector<std::int32_t> wanted_granules(Bytes begin, Bytes granule, Bytes count) const {
    std::vector<std::int32_t> wanted(static_cast<std::size_t>(count), kLookForWants);
    std::vector<std::size_t> unknown(wanted.size() + 1);  // the first from each on that may not be known
    std::iota(unknown.begin(), unknown.end(), std::size_t{0});
    const auto unknown_from = [&](std::size_t i) {
      while (unknown[i] != i) i = unknown[i] = unknown[unknown[i]];
      return i;
    };
    const std::int32_t blocks = std::min(static_cast<std::int32_t>(slots.size()), kLookForWants);
    for (std::int32_t ahead = 0; ahead < blocks; ++ahead) {
      const Slot& slot = slots[static_cast<std::size_t>(cursor + ahead) % slots.size()];
      if (slot.elsewhere || slot.in_use() || slot.span <= 0) continue;
      const Bytes first = std::max<Bytes>(slot.offset - begin, 0) / granule;
      const Bytes behind =
          std::min(round_up(std::max<Bytes>(slot.offset + slot.span - begin, 0), granule) / granule, count);
      for (std::size_t i = first < behind ? unknown_from(static_cast<std::size_t>(first)) : wanted.size();
           i < static_cast<std::size_t>(behind); i = unknown_from(i)) {
        wanted[i] = ahead;
        unknown[i] = i + 1;
      }
    }
    return wanted;
  }

  /// Where so much is free and the plan wants it last; of these in the smallest piece, and the lowest. Or nothing.
  [[nodiscard]] std::optional<Bytes> find_free(Bytes span) const {
    std::optional<Bytes> found;
    std::int32_t latest = -1;
    Bytes smallest = 0;
    const auto consider = [&](Bytes at, Bytes piece) {
      const std::int32_t wanted = wanted_in(at, span);
      if (wanted < latest || (wanted == latest && piece >= smallest)) return;
      found = at;
      latest = wanted;
      smallest = piece;
    };
    for (const auto& [begin, end] : free_pieces()) {
      if (end - begin < span) continue;
      consider(begin, end - begin);
      if (end - begin > span) consider(end - span, end - begin);
    }
    return found;
  }

  /// The free granules, what the plan wants last first; `granule` in addresses.
  [[nodiscard]] std::vector<Range> free_granules(Bytes granule) const {
    const auto base = static_cast<Bytes>(options.base);
    std::vector<std::pair<std::int32_t, Bytes>> whole;  // how far ahead it is wanted, where it begins
    for (const auto& [begin, end] : free_pieces()) {
      const Bytes from = round_up(base + begin, granule) - base, to = (base + end) / granule * granule - base;
      if (from >= to) continue;
      const std::vector<std::int32_t> wanted = wanted_granules(from, granule, (to - from) / granule);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        whole.emplace_back(wanted[i], from + static_cast<Bytes>(i) * granule);
    }
    std::ranges::sort(whole, [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    std::vector<Range> granules;
    granules.reserve(whole.size());
    for (const auto& [wanted, at] : whole) granules.push_back({.begin = at, .end = at + granule});
    return granules;
  }

  [[nodiscard]] auto find_guest(Address address) const {
    return std::ranges::find_if(
        guests, [&](const Slot& guest) { return address == options.base + static_cast<Address>(guest.offset); });
  }

  /// The planned block in use at an address, or kNoBlock.
  [[nodiscard]] std::int32_t find_block(Address address) const {
    if (address < options.base || address - options.base >= static_cast<Address>(extent_bytes)) return kNoBlock;
    const std::int32_t place = index.find(static_cast<Bytes>(address - options.base));
    return place == kNoBlock ? kNoBlock : holder_at[static_cast<std::size_t>(place)];
  }

  Options options;
  std::vector<Bytes> offsets;  // distinct, ascending
  OffsetIndex index;
  std::vector<std::int32_t> holder_at;  // per distinct offset: the block in use there
  Bytes extent_bytes = 0;               // of the sequence: what is spare lies above, and unordered blocks above that
  SmallPlaces unordered;
  std::vector<Slot> slots;  // in plan order
  std::vector<SizeMatching>
      matchings;  // of unordered blocks before routed ones, with the requests since the cursor came
  std::vector<std::int32_t> predecessors;
  std::vector<std::int32_t> stragglers;
  std::vector<Slot> guests;
  std::vector<Slot> aside;  // pieces without memory
  std::int32_t cursor = 0;
  bool has_unordered_seen = false;  // since the cursor came here
  std::int64_t departed = 0;        // requests since the last that fitted
  std::int64_t mistakable = 0;      // unordered ones that fitted a routed block, since the last fixed one
  std::array<Bytes, 2> recent{};    // spans of the last two departed ones, the latest first
  std::int64_t in_use = 0;          // blocks
  bool has_requests = false;        // in this step
  bool has_outgrown = false;        // in this step, a routed block its place
  PlannedArenaCounts counts;
};

Bytes PlannedArena::extent_of(std::span<const PlannedBlock> blocks, const Options& options) {
  return State::unordered_places(blocks, options).end();
}

PlannedArena::PlannedArena(std::span<const PlannedBlock> blocks, const Options& options)
    : state_(std::make_unique<State>(blocks, options)) {}
PlannedArena::~PlannedArena() = default;
PlannedArena::PlannedArena(PlannedArena&&) noexcept = default;
PlannedArena& PlannedArena::operator=(PlannedArena&&) noexcept = default;

std::optional<Address> PlannedArena::allocate(Bytes bytes) {
  assert(bytes > 0);
  State& state = *state_;
  state.has_requests = true;
  state.skip_persistent();
  const Bytes span = state.span_of(bytes);
  if (state.at_end() || !state.at(state.cursor).fits(span)) {
    if (const std::optional<Address> address = state.serve_unordered(bytes, span)) return address;
    if (state.at_end()) return state.depart(span);
    const std::optional<std::int32_t> distance = state.find_distance(span);
    if (!distance && state.outgrows_cursor(span)) {
      state.pass_over();
      state.has_outgrown = true;
      ++state.counts.unplanned;
      return std::nullopt;
    }
    if (!distance) return state.depart(span);
    for (std::int32_t passed = 0; passed < *distance; ++passed) state.pass_over();
    ++state.counts.resynchronised;
  } else if (const std::optional<Address> address = state.serve_unordered_due(bytes, span)) {
    return address;
  } else if (const std::int32_t distance = state.distance_behind_empty(span); distance > 0) {
    for (std::int32_t passed = 0; passed < distance; ++passed) state.pass_over();
    ++state.counts.resynchronised;
  }
  return state.serve(bytes);
}

std::optional<Address> PlannedArena::allocate_anywhere(Bytes bytes) {
  assert(bytes > 0);
  State& state = *state_;
  const Bytes span = state.span_of(bytes);
  if (const std::optional<Address> address = state.serve_unordered(bytes, span)) return address;
  const std::optional<Bytes> offset = state.find_free(span);
  if (!offset) return std::nullopt;
  state.guests.push_back({.offset = *offset, .span = span, .used_bytes = bytes});
  ++state.counts.guests;
  state.note_live(bytes);
  return state.options.base + static_cast<Address>(*offset);
}

std::vector<PlannedArena::Piece> PlannedArena::set_aside(Bytes bytes, Bytes granule_bytes) {
  State& state = *state_;
  std::vector<State::Range> taken = state.free_granules(granule_bytes);
  taken.resize(std::min(taken.size(), static_cast<std::size_t>(round_up(bytes, granule_bytes) / granule_bytes)));
  std::ranges::sort(taken, {}, &State::Range::begin);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < taken.size();) {
    const Bytes begin = taken[i].begin;
    Bytes end = begin;
    for (; i < taken.size() && taken[i].begin == end; ++i) end = taken[i].end;
    state.aside.push_back({.offset = begin, .span = end - begin});
    pieces.push_back({.address = state.options.base + static_cast<Address>(begin), .bytes = end - begin});
  }
  return pieces;
}

void PlannedArena::put_back(Address address, Bytes bytes) {
  const auto offset = static_cast<Bytes>(address - state_->options.base);
  const auto piece = std::ranges::find(state_->aside, offset, &State::Slot::offset);
  assert(piece != state_->aside.end() && bytes <= piece->span);
  piece->offset += bytes;
  piece->span -= bytes;
  if (piece->span == 0) state_->aside.erase(piece);
}

bool PlannedArena::free(Address address) {
  State& state = *state_;
  if (const auto guest = state.find_guest(address); guest != state.guests.end()) {
    state.counts.live_bytes -= guest->used_bytes;
    state.guests.erase(guest);
    return true;
  }
  const auto offset = static_cast<Bytes>(address - state.options.base);
  if (state.unordered.covers(offset)) {
    const Bytes bytes = state.unordered.requested_bytes(offset);
    if (bytes > 0) state.unordered.give_back(offset);
    state.counts.live_bytes -= bytes;
    return bytes > 0;
  }
  const std::int32_t block = state.find_block(address);
  if (block == kNoBlock) return false;
  State::Slot& slot = state.at(block);
  state.holder_at[static_cast<std::size_t>(slot.place)] = kNoBlock;
  state.counts.live_bytes -= slot.used_bytes;
  slot.used_bytes = 0;
  --state.in_use;
  if (slot.straggler) {
    slot.straggler = false;
    std::erase(state.stragglers, block);
  }
  return true;
}

void PlannedArena::advance(std::int32_t due) {
  State& state = *state_;
  const std::int32_t from = state.cursor;
  while (!state.at_end() && state.at(state.cursor).due < due) state.pass_over();
  if (state.cursor == from) return;
  state.departed = 0;
  state.mistakable = 0;
  state.has_requests = true;
}

void PlannedArena::begin_step() {
  State& state = *state_;
  ++state.counts.steps;
  const std::int64_t passed_over = state.counts.passed_over;
  if (state.has_requests || state.in_use > 0)
    while (!state.at_end()) state.pass_over();
  if (!state.has_requests) state.counts.passed_over = passed_over;  // a step that was not run departs from nothing
  state.move_to(0);
  state.departed = 0;
  state.mistakable = 0;
  state.has_requests = false;
  state.has_outgrown = false;
}

Bytes PlannedArena::requested_bytes(Address address) const {
  if (const auto guest = state_->find_guest(address); guest != state_->guests.end()) return guest->used_bytes;
  const auto offset = static_cast<Bytes>(address - state_->options.base);
  if (state_->unordered.covers(offset)) return state_->unordered.requested_bytes(offset);
  const std::int32_t block = state_->find_block(address);
  return block == kNoBlock ? 0 : state_->at(block).used_bytes;
}

Bytes PlannedArena::extent_bytes() const {
  return state_->unordered.end();
}

const PlannedArenaCounts& PlannedArena::counts() const {
  return state_->counts;
}

void PlannedArena::reset_counts() {
  const Bytes live = state_->counts.live_bytes;
  state_->counts = {.live_bytes = live, .peak_live_bytes = live};
}

}  // namespace tidemark::allocator
