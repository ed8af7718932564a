#pragma once
// The race checker's shadow: for every allocated byte the last write and the reads since, as segments of equal state.
// Internal to the checker. A segment touched again as a whole is found through a direct-mapped cache of iterators, so
// that a planned program, which touches the same ranges over and over, rarely searches the tree.

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "device/device.h"

namespace tidemark {

/// One access as the shadow remembers it. `clock` is the actor's own component at that time; 0: no access.
struct RaceTouch {
  std::int64_t id = -1;
  std::int64_t view = 0;
  std::uint32_t clock = 0;
  std::int16_t actor = 0;
  std::uint16_t what = 0;
};

/// Reads that no kept read is ordered after: nearly always one or two.
class RaceReads {
 public:
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] const RaceTouch& operator[](std::size_t i) const {
    return i < kInline ? inline_[i] : more_[i - kInline];
  }
  void push(const RaceTouch& touch) {
    if (count_ < kInline) {
      inline_[count_] = touch;
    } else {
      more_.push_back(touch);
    }
    ++count_;
  }
  /// Removes every read for which `drop` holds; order is not kept.
  template <class Drop>
  void drop_if(const Drop& drop) {
    for (std::size_t i = 0; i < count_;) {
      if (!drop((*this)[i])) {
        ++i;
        continue;
      }
      at(i) = at(count_ - 1);
      if (count_ > kInline) more_.pop_back();
      --count_;
    }
  }

 private:
  static constexpr std::size_t kInline = 3;
  RaceTouch& at(std::size_t i) { return i < kInline ? inline_[i] : more_[i - kInline]; }
  std::array<RaceTouch, kInline> inline_{};
  std::uint32_t count_ = 0;
  std::vector<RaceTouch> more_;
};

struct RaceSegment {
  Address end = 0;
  RaceTouch write;  ///< the last one
  RaceReads reads;  ///< since; also earlier accesses through another view that the host does not know yet
};

class RaceShadow {
 public:
  using Map = std::map<Address, RaceSegment>;
  using Iterator = Map::iterator;

  RaceShadow();
  [[nodiscard]] Iterator end() { return segments_.end(); }
  [[nodiscard]] std::size_t size() const { return segments_.size(); }
  /// The segment that holds `begin`, or the first one behind it.
  [[nodiscard]] Iterator find(Address begin);
  /// Cuts a segment in two at `at` and gives the second. REQUIRES: it holds `at`, not as its first byte.
  Iterator split(Iterator segment, Address at);
  Iterator insert(Address begin, RaceSegment segment);
  Iterator erase(Iterator segment);

 private:
  struct Cached {
    Address begin = 0;
    Iterator segment;
    bool valid = false;
  };
  [[nodiscard]] Cached& cached(Address begin);
  Map segments_;
  std::vector<Cached> cache_;
};

}  // namespace tidemark
