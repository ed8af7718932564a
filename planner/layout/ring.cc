#include "planner/layout/ring.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <utility>

#include "planner/layout/order.h"

namespace tidemark::layout {
namespace {

constexpr double kLeastRatio = 2;
constexpr Bytes kSeamShare = 20;  // of the ring, over this: from here on a seam is left behind
constexpr std::size_t kMostLeft = 64;

// Who lives, by address.
class Living {
 public:
  /// Forgets who ended.
  void go_to(std::int32_t now) {
    for (; !ends_.empty() && ends_.top().first <= now; ends_.pop()) end_of_.erase(ends_.top().second);
  }
  void add(Bytes address, const PackItem& item) {
    end_of_[address] = address + item.bytes;
    ends_.emplace(item.end, address);
  }

  /// The lowest address from `from` on with the bytes free below `most`, or kAnywhere.
  [[nodiscard]] Bytes next_fit(Bytes from, Bytes bytes, Bytes most) const {
    auto next = end_of_.upper_bound(from);
    if (next != end_of_.begin()) from = std::max(from, std::prev(next)->second);
    for (; next != end_of_.end() && next->first < from + bytes && from + bytes <= most; ++next)
      from = std::max(from, next->second);
    return from + bytes <= most ? from : kAnywhere;
  }

 private:
  using Ends = std::pair<std::int32_t, Bytes>;  // on the clock; its address
  std::map<Bytes, Bytes> end_of_;
  std::priority_queue<Ends, std::vector<Ends>, std::greater<>> ends_;
};

// Where the next long life goes. At the top of the ring both sides of the seam are filled for a while, so that what is
// too large for the rest of the top leaves it to smaller ones. Where somebody of the lap before still lives, the next
// ones go on behind it, and what is small enough fills the bytes left in front.
class Cursor {
 public:
  explicit Cursor(Bytes height) : height_(height) {}

  /// An address for an item that lives from now on; `displaced` is counted up where its place is taken.
  [[nodiscard]] Bytes take(const PackItem& item, const Living& living, std::size_t& displaced) {
    for (Stretch& stretch : left_) {
      const Bytes at = living.next_fit(stretch.begin, item.bytes, stretch.end);
      if (at == kAnywhere) continue;
      if (at == stretch.begin) stretch.begin += item.bytes;
      return at;
    }
    for (Bytes* cursor : {&upper_, &lower_}) {
      const Bytes at = living.next_fit(*cursor, item.bytes, height_);
      if (at == kAnywhere) continue;
      displaced += at != *cursor ? 1 : 0;
      advance(*cursor, at, at + item.bytes);
      return at;
    }
    ++displaced;
    return living.next_fit(height_, item.bytes, std::numeric_limits<Bytes>::max());
  }

 private:
  struct Stretch {
    Bytes begin = 0;
    Bytes end = 0;
  };

  void advance(Bytes& cursor, Bytes at, Bytes end) {
    std::erase_if(left_, [&](const Stretch& stretch) {
      return stretch.begin >= stretch.end || (cursor <= stretch.begin && stretch.begin < end);
    });
    if (at > cursor) leave({cursor, at});
    cursor = end;
    if (lower_ <= height_ / kSeamShare) return;
    leave({upper_, height_});
    upper_ = lower_;
    lower_ = 0;
  }

  // The oldest are the first that the ring comes to again.
  void leave(const Stretch& stretch) {
    if (left_.size() == kMostLeft) left_.erase(left_.begin());
    left_.push_back(stretch);
  }

  Bytes height_;
  Bytes upper_ = 0, lower_ = 0;
  std::vector<Stretch> left_;
};

}  // namespace

std::int64_t shortest_long_life(const Blocks& blocks) {
  std::vector<std::int64_t> lives;
  for (const PackItem& hull : blocks.hulls()) lives.push_back(hull.life());
  std::sort(lives.begin(), lives.end());
  lives.erase(std::unique(lives.begin(), lives.end()), lives.end());
  std::int64_t widest = 0;
  double widest_ratio = 0;
  for (std::size_t i = 1; i < lives.size(); ++i) {
    const double ratio = static_cast<double>(lives[i]) / static_cast<double>(lives[i - 1]);
    if (ratio < kLeastRatio || ratio <= widest_ratio) continue;
    widest = lives[i];
    widest_ratio = ratio;
  }
  return widest;
}

Ring lay_in_ring(const Blocks& blocks, std::int64_t shortest_long_life, Bytes height, std::size_t most_displaced) {
  Ring ring{.addresses = std::vector<Bytes>(blocks.size(), kAnywhere)};
  std::vector<PackItem> turning(blocks.hulls().begin(), blocks.hulls().end());
  for (PackItem& item : turning) {
    if (item.life() < shortest_long_life) item.bytes = 0;
  }
  Living living;
  Cursor cursor(height);
  for (const SortKey& key : rows_by_birth(turning)) {
    const PackItem& item = turning[key.row];
    living.go_to(item.begin);
    ring.addresses[key.row] = cursor.take(item, living, ring.displaced);
    living.add(ring.addresses[key.row], item);
    if (ring.displaced > most_displaced) break;
  }
  return ring;
}

}  // namespace tidemark::layout
