#pragma once
// Random steps of captured graphs that obey find_problem()'s rules.

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "swap/captured_pieces.h"

namespace tidemark::swap {

struct PieceRanges {
  std::int32_t pieces = 8;    ///< at most
  int storages = 8;           ///< at most
  Bytes bytes = 3000;         ///< at most, of a storage
  bool reads_always = false;  ///< every touch reads, where there is content
};

class RandomPieces {
 public:
  RandomPieces(std::uint32_t seed, PieceRanges ranges) : random_(seed), ranges_(ranges) {}

  CapturedPieces make() {
    CapturedPieces step{.pieces = 1 + below(ranges_.pieces), .storages = {}};
    const int storages = 1 + below(ranges_.storages);
    for (int s = 0; s < storages; ++s) {
      // Some leave and come back with an earlier one.
      const bool twin = s > 0 && below(3) == 0;
      PieceStorage storage = twin ? step.storages[static_cast<std::size_t>(below(s))] : new_storage(step.pieces);
      storage.bytes = 1 + below(static_cast<int>(ranges_.bytes));
      step.storages.push_back(std::move(storage));
    }
    return step;
  }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<std::uint32_t>(end)); }

  PieceStorage new_storage(std::int32_t pieces) {
    PieceStorage storage{.between = static_cast<BetweenSteps>(below(3))};
    for (std::int32_t piece = 0; piece < pieces; ++piece)
      if (below(3) == 0) add_touch(storage, piece);
    if (storage.touches.empty()) add_touch(storage, below(pieces));
    std::int32_t from = 0;  // behind the last touch looked at
    for (const PieceTouch& touch : storage.touches) {
      add_gap(storage, from, static_cast<std::int32_t>(touch.piece) - 1, pieces);
      from = static_cast<std::int32_t>(touch.piece) + 1;
    }
    add_gap(storage, from, pieces - 1, pieces);
    return storage;
  }

  void add_touch(PieceStorage& storage, std::int32_t piece) {
    PieceTouch touch{.piece = PieceId{piece}, .reads = ranges_.reads_always || below(2) == 0, .writes = below(2) == 0};
    if (storage.between == BetweenSteps::nowhere && storage.touches.empty()) touch.reads = false;
    if (!touch.reads) touch.writes = true;
    storage.touches.push_back(touch);
  }

  /// Inside the pieces first .. last, which do not touch it.
  void add_gap(PieceStorage& storage, std::int32_t first, std::int32_t last, std::int32_t pieces) {
    const bool at_begin = first == 0, at_end = last == pieces - 1;
    if (first > last || below(3) == 0) return;
    if ((at_begin || at_end) && storage.between != BetweenSteps::in_host) return;
    const std::int32_t begin = at_begin ? 0 : first + below(last - first + 1);
    const std::int32_t end = at_end ? last : begin + below(last - begin + 1);
    storage.away.push_back({PieceId{begin}, PieceId{end}});
  }

  std::mt19937 random_;
  PieceRanges ranges_;
};

}  // namespace tidemark::swap
