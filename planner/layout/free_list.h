#pragma once
// Free gaps of [0, infinity) in address order, for packers that walk the clock. No memory is touched.
//
// Gaps sit in short runs, each of which knows its largest gap, so that first fit skips whole runs:
// O(gaps / run length + run length) per call instead of O(gaps).

#include <vector>

#include "core/bytes.h"

namespace tidemark::layout {

class FreeList {
 public:
  /// Takes the lowest `bytes` that are free together and returns their offset. REQUIRES: bytes > 0.
  [[nodiscard]] Bytes take_lowest(Bytes bytes);
  /// Returns [offset, offset + bytes). REQUIRES: taken before and not returned since.
  void give_back(Bytes offset, Bytes bytes);

 private:
  struct Gap {
    Bytes begin = 0;
    Bytes end = 0;
    [[nodiscard]] Bytes bytes() const { return end - begin; }
  };
  struct Run {
    Bytes largest = 0;
    std::vector<Gap> gaps;
  };
  static constexpr std::size_t kRunGaps = 64;

  void shrink(std::size_t run, std::size_t gap, Bytes bytes);
  [[nodiscard]] std::size_t run_for(Bytes offset) const;
  void insert(Gap gap);
  void merge_into_frontier();
  void split_if_full(std::size_t run);
  static void measure(Run& run);

  std::vector<Run> runs_;  // ascending; no empty run
  Bytes frontier_ = 0;     // everything from here on is free; no gap touches it
};

}  // namespace tidemark::layout
