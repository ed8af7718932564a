#pragma once
// The books of the baseline allocator: its segments cut into pieces, and which of them are idle. What to take, to split
// and to give back is decided in baseline_allocator.cc.
//
// Neighbours within a segment are linked; address space without memory (expandable segments) is a piece too.
// Threads: the caller serialises.

#include <array>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>

#include "core/bytes.h"
#include "device/device.h"

namespace tidemark::allocator {

struct BaselinePool;

struct BaselinePiece {
  BaselinePool* pool = nullptr;
  StreamHandle stream{};
  Address address = 0;
  Bytes size = 0;
  bool in_use = false;  ///< in the caller's hands
  bool mapped = true;
  Address segment = 0;  ///< start of its segment
  BaselinePiece* previous = nullptr;
  BaselinePiece* next = nullptr;
  std::set<StreamHandle> uses;  ///< by record_stream
  int events = 0;               ///< not complete yet

  [[nodiscard]] bool is_idle() const { return !in_use && events == 0 && uses.empty(); }
};

struct BaselinePool {
  struct BySize {
    static auto key(const BaselinePiece* piece) { return std::tuple(piece->stream, piece->size, piece->address); }
    bool operator()(const BaselinePiece* a, const BaselinePiece* b) const { return key(a) < key(b); }
  };
  using Pieces = std::set<BaselinePiece*, BySize>;
  static constexpr Bytes kSmallSegment = 2 * kMiB;   // also the granule of the small pool's expandable segments
  static constexpr Bytes kLargeSegment = 20 * kMiB;  // of the large pool

  bool small = false;
  Pieces idle;      ///< with memory
  Pieces unmapped;  ///< expandable only

  [[nodiscard]] Bytes granule() const { return small ? kSmallSegment : kLargeSegment; }
  /// Least element a search by size may answer with.
  [[nodiscard]] static BaselinePiece probe(StreamHandle stream, Bytes size);
};

class BaselinePieces {
 public:
  BaselinePieces() { pools[0].small = true; }

  /// A segment of one piece, in no set of its pool.
  BaselinePiece& add(BaselinePool& pool, StreamHandle stream, Address address, Bytes size);
  void erase(Address address) { pieces_.erase(address); }
  /// REQUIRES: there is one.
  [[nodiscard]] BaselinePiece& get(Address address);

  /// Cuts the piece to `size`; the rest becomes an idle piece behind it.
  void split(BaselinePiece& piece, Bytes size);
  /// The same, but the rest is in no set of its pool.
  BaselinePiece& insert_behind(BaselinePiece& piece, Bytes size);
  /// Idle neighbours of its kind, with memory or without, become part of the piece. REQUIRES: it is in no set.
  void join_neighbours(BaselinePiece& piece);
  /// Where the piece is while it is idle.
  static BaselinePool::Pieces& set_of(const BaselinePiece& piece) {
    return piece.mapped ? piece.pool->idle : piece.pool->unmapped;
  }

  std::array<BaselinePool, 2> pools;  ///< small, large

 private:
  void absorb(BaselinePiece& piece, BaselinePiece& other);

  std::unordered_map<Address, std::unique_ptr<BaselinePiece>> pieces_;
};

}  // namespace tidemark::allocator
