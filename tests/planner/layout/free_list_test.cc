#include "planner/layout/free_list.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace tidemark::layout {
namespace {

// A model that marks every byte.
class ByteMap {
 public:
  [[nodiscard]] Bytes lowest(Bytes bytes) const {
    for (Bytes at = 0;; ++at) {
      if (free(at, bytes)) return at;
    }
  }
  void mark(Bytes at, Bytes bytes, bool used) {
    if (used_.size() < static_cast<std::size_t>(at + bytes)) used_.resize(static_cast<std::size_t>(at + bytes));
    for (Bytes b = at; b < at + bytes; ++b) used_[static_cast<std::size_t>(b)] = used;
  }

 private:
  [[nodiscard]] bool free(Bytes at, Bytes bytes) const {
    for (Bytes b = at; b < at + bytes && b < static_cast<Bytes>(used_.size()); ++b) {
      if (used_[static_cast<std::size_t>(b)]) return false;
    }
    return true;
  }
  std::vector<bool> used_;
};

TEST(FreeList, TakesTheLowestBytesThatAreFreeTogether) {
  std::mt19937 random(1);
  FreeList list;
  ByteMap model;
  std::vector<std::pair<Bytes, Bytes>> taken;
  for (int step = 0; step < 6000; ++step) {
    const bool grow = step % 3000 < 1500;  // breathe, so that runs of gaps split and vanish
    if (taken.empty() || random() % 10 < (grow ? 7U : 3U)) {
      const auto bytes = static_cast<Bytes>(1 + random() % 9);
      const Bytes expected = model.lowest(bytes);
      const Bytes offset = list.take_lowest(bytes);
      ASSERT_EQ(offset, expected) << "step " << step;
      model.mark(offset, bytes, true);
      taken.emplace_back(offset, bytes);
    } else {
      const std::size_t victim = random() % taken.size();
      const auto [offset, bytes] = taken[victim];
      list.give_back(offset, bytes);
      model.mark(offset, bytes, false);
      taken[victim] = taken.back();
      taken.pop_back();
    }
  }
}

}  // namespace
}  // namespace tidemark::layout
