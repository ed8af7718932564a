#include "allocator/baseline_pieces.h"

#include <cassert>
#include <utility>

namespace tidemark::allocator {

BaselinePiece BaselinePool::probe(StreamHandle stream, Bytes size) {
  BaselinePiece piece;
  piece.stream = stream;
  piece.size = size;
  return piece;
}

BaselinePiece& BaselinePieces::get(Address address) {
  const auto found = pieces_.find(address);
  assert(found != pieces_.end());
  return *found->second;
}

BaselinePiece& BaselinePieces::add(BaselinePool& pool, StreamHandle stream, Address address, Bytes size) {
  auto piece = std::make_unique<BaselinePiece>();
  piece->pool = &pool;
  piece->stream = stream;
  piece->address = piece->segment = address;
  piece->size = size;
  BaselinePiece& added = *piece;
  pieces_.emplace(address, std::move(piece));
  return added;
}

void BaselinePieces::split(BaselinePiece& piece, Bytes size) {
  BaselinePiece& rest = insert_behind(piece, size);
  set_of(rest).insert(&rest);
}

BaselinePiece& BaselinePieces::insert_behind(BaselinePiece& piece, Bytes size) {
  BaselinePiece& rest = add(*piece.pool, piece.stream, piece.address + static_cast<Address>(size), piece.size - size);
  rest.segment = piece.segment;
  rest.mapped = piece.mapped;
  rest.previous = &piece;
  rest.next = piece.next;
  if (rest.next != nullptr) rest.next->previous = &rest;
  piece.next = &rest;
  piece.size = size;
  return rest;
}

void BaselinePieces::join_neighbours(BaselinePiece& piece) {
  for (BaselinePiece* neighbour : {piece.previous, piece.next})
    if (neighbour != nullptr && neighbour->is_idle() && neighbour->mapped == piece.mapped) absorb(piece, *neighbour);
}

/// `other`, idle and beside it, becomes part of the piece.
void BaselinePieces::absorb(BaselinePiece& piece, BaselinePiece& other) {
  set_of(other).erase(&other);
  BaselinePiece& left = &other == piece.previous ? other : piece;
  BaselinePiece& right = &other == piece.previous ? piece : other;
  const Address start = left.address;
  BaselinePiece* const previous = left.previous;
  BaselinePiece* const next = right.next;
  const Bytes size = left.size + right.size;
  auto kept = pieces_.extract(piece.address);
  pieces_.erase(other.address);
  piece.address = start;
  piece.size = size;
  piece.previous = previous;
  piece.next = next;
  if (previous != nullptr) previous->next = &piece;
  if (next != nullptr) next->previous = &piece;
  kept.key() = start;
  pieces_.insert(std::move(kept));
}

}  // namespace tidemark::allocator
