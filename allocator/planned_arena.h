#pragma once
// Serves the offsets a planner chose, request by request, to a framework that does not know it is being planned for.
//
// What it is given: the blocks of one step in the order in which they will be asked for, each with the offset that the
// packer gave it. What it does: a cursor walks along that sequence. A request that fits the block at the cursor gets
// its offset; any other request is answered "not planned", and the caller serves it from somewhere else (the caching
// allocator). Nothing is lost by departing from the plan but the packing.
//
// Why not by address alone: reuse is only safe if the bytes are free *now*. Frameworks free later than planned, ask for
// other sizes, skip, insert and repeat. So a planned offset is handed out only if all its bytes are free right now.
//
// How that stays O(1). Let "predecessors of j" be the blocks that hold some byte of j's range last before j in plan
// order, the order taken as a circle (what was last in a step comes before what is first in the next).
//   Invariant: if a live block overlaps the block at the cursor, it is that block itself (from an earlier step), one of
//   its predecessors, or a *straggler*: a block that was live while one of its successors was passed over.
//   Proof: take a byte that both hold, and its holders p = c0, c1, ..., ck = j from p's birth up to the cursor. k = 1:
//   p is a predecessor. k > 1: c1 was passed over without being handed out, since p held the byte; p became a
//   straggler.
// So a request costs the predecessors of one block plus the stragglers, which are none while the plan is followed.
//
// Getting back in step. Requests that fit nothing leave the cursor where it is. Further on, up to `look_ahead` blocks,
// a place is accepted if the requests seen up to now fit the plan there:
//   at the cursor                                        this request alone (what was inserted is over)
//   at most as many blocks on as requests were departed  this request alone (other sizes in place of planned ones)
//   further                                              this and the two before it (the framework skipped blocks)
// Routed blocks take many sizes, so they are told apart by what is around them: a request too large for the one at the
// cursor is taken for it, served elsewhere, and not waited for; from then on in the step, one
// just as large as the next fixed block is taken for that, as where one has too much others hold nothing, and are not
// asked for.
//
// Where the caller knows how far the step is, advance() says so: what was due before is passed over, however much it
// is, as where a whole module runs otherwise than planned. begin_step() puts the cursor back to the start. A wrong
// guess costs planned offsets, never safety.
//
// Guests. Where there is no other memory, allocate_anywhere() serves a request without a plan from bytes that are free
// now, as a step of other shapes or an evaluation needs: where the plan wants them last, looking at either end of each
// free piece, and of these in the smallest, so that large ones are kept whole. Planned blocks that a guest is in the
// way of are not planned meanwhile; a guest stands in everybody's way, as a straggler does.
//
// Unordered blocks. Numbers that a kernel wraps come or not, and autograd may keep them for long: in the sequence they
// would put others out of step, and at reused bytes in the way of large ones. A request as small as they are that the
// cursor does not expect has one of their places (small_places.h), above everything else: as many as there are
// unordered blocks, kMostUnordered at most. So has one that would do for a routed block at the cursor, where the plan
// has an unordered block for it between that block and the one before, besides those that have come. Was it the routed
// one after all, then the requests are one ahead, as if it had departed.
//
// Pieces set aside. Where neither guests nor others find room, set_aside() takes pieces out of use, whole granules that
// the plan wants last, so that their memory can serve elsewhere. They stand in everybody's way until put_back().
//
// Order between streams is not looked at: an arena serves one stream, or callers that wait for whoever held the bytes
// before. free() means that whatever is submitted from now on may have
// the bytes.
//
// Cost: allocate and free are O(predecessors of the block + stragglers + guests), with no memory allocation and no
// device call; a departure O(look_ahead), a guest O(free pieces * blocks). A request of up to kUnorderedBytes adds the
// unordered places tried (small_places.h: all of them at worst) and, at a routed block, the kinds of unordered blocks
// right before it (size_matching.h). Metadata: about 100 bytes a planned block.
// Threads: calls must not overlap.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "device/device.h"

namespace tidemark::allocator {

/// One allocation of the step that was planned. Its place in the sequence is its acquire order.
struct PlannedBlock {
  Bytes bytes = 0;          ///< as it will be requested, > 0
  Bytes offset = 0;         ///< in the arena, a multiple of the alignment
  Bytes least_bytes = 0;    ///< 0: requests of exactly `bytes`; else any in [least_bytes, bytes] (routed storages)
  bool elsewhere = false;   ///< will be requested, and has no place here: always answered "not planned"
  bool unordered = false;   ///< at most kUnorderedBytes, asked for at any time: not part of the sequence, see above
  bool persistent = false;  ///< once handed out it stays over steps: not expected again while it is live
  std::int32_t due = 0;     ///< ascending: not asked for once advance() has come past it
  friend bool operator==(const PlannedBlock&, const PlannedBlock&) = default;
};

constexpr Bytes kUnorderedBytes = 512;
constexpr std::size_t kMostUnordered = 1024;  ///< half a megabyte of places

/// Counts since construction. served + unordered + unplanned = requests.
struct PlannedArenaCounts {
  std::int64_t steps = 0;        ///< begin_step() calls
  std::int64_t served = 0;       ///< requests that got their planned offset
  std::int64_t unordered = 0;    ///< that got an unordered block's place, whether or not the plan has one like them
  std::int64_t unplanned = 0;    ///< requests answered "not planned", for whatever reason
  std::int64_t blocked = 0;      ///< of these: the request fitted, but a byte was still in use
  std::int64_t passed_over = 0;  ///< planned blocks that no request got: skipped, blocked, or left at the end of a step
  std::int64_t resynchronised = 0;  ///< times the cursor moved on to meet the requests again
  std::int64_t guests = 0;          ///< requests served by allocate_anywhere()
  Bytes live_bytes = 0;             ///< requested bytes of blocks in use, guests included
  Bytes peak_live_bytes = 0;
  friend bool operator==(const PlannedArenaCounts&, const PlannedArenaCounts&) = default;
};

class PlannedArena {
 public:
  struct Options {
    Address base = 0;  ///< where offset 0 lies; the caller has memory behind [base, base + extent_bytes())
    Bytes alignment_bytes = 512;
    Bytes tail_pad_bytes = 0;  ///< DeviceTraits::tail_pad_bytes: bytes behind every block that are its own as well
    Bytes spare_bytes = 0;     ///< right above the sequence, for guests: a multiple of the alignment
    std::int32_t look_ahead = 64;
  };

  /// What the plan needs behind its base, wherever that will be.
  [[nodiscard]] static Bytes extent_of(std::span<const PlannedBlock> blocks, const Options& options);

  /// `blocks` in acquire order. REQUIRES: positive bytes; offsets >= 0 and multiples of the alignment. Blocks that are
  /// in use together should not overlap; where they do, the second one is answered "not planned". O(n log n).
  PlannedArena(std::span<const PlannedBlock> blocks, const Options& options);
  ~PlannedArena();
  PlannedArena(PlannedArena&&) noexcept;
  PlannedArena& operator=(PlannedArena&&) noexcept;

  /// The address the plan has for this request, or nothing: not planned, serve it elsewhere. REQUIRES: bytes > 0.
  [[nodiscard]] std::optional<Address> allocate(Bytes bytes);

  /// The free bytes that the plan wants last, where an unordered block's place does not do; nothing: no piece is as
  /// large. REQUIRES: bytes > 0.
  [[nodiscard]] std::optional<Address> allocate_anywhere(Bytes bytes);

  struct Piece {
    Address address = 0;
    Bytes bytes = 0;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  /// Takes free granules out of use, what the plan wants last first, until they are `bytes` or no more are free;
  /// `granule_bytes`: a power of two, pieces begin and end at multiples of it. O(free pieces * blocks +
  /// free granules).
  [[nodiscard]] std::vector<Piece> set_aside(Bytes bytes, Bytes granule_bytes);
  /// The first `bytes` of the piece that was set aside there are free again; the rest is a piece that begins behind
  /// them. REQUIRES: one was, as large at least, and of granules both.
  void put_back(Address address, Bytes bytes);

  /// false: no block of the arena is in use at this address, it is another's.
  bool free(Address address);

  /// The step has come as far as `due`: blocks before it, from the cursor on, are asked for no more.
  void advance(std::int32_t due);

  /// The sequence starts again. Blocks in use stay in use; where they are in the way, requests are not planned.
  void begin_step();

  /// Is this address one where a block of the arena is in use?
  [[nodiscard]] bool owns(Address address) const { return requested_bytes(address) > 0; }
  /// Of the block in use there, as requested; 0: there is none.
  [[nodiscard]] Bytes requested_bytes(Address address) const;
  /// Highest planned byte and what is spare: what the arena needs behind `base`.
  [[nodiscard]] Bytes extent_bytes() const;
  [[nodiscard]] const PlannedArenaCounts& counts() const;
  /// Counts begin anew, with what is live.
  void reset_counts();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tidemark::allocator
