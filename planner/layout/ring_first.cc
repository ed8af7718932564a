#include "planner/layout/ring_first.h"

#include <algorithm>

#include "planner/layout/clock_windows.h"
#include "planner/layout/packer.h"
#include "planner/layout/ring.h"

namespace tidemark::layout {
namespace {

constexpr std::string_view kName = "ring_first";
// Heights to try, above the load.
constexpr double kFirstExcess = 0.0096;
constexpr double kLeastExcess = 0.0005;
// A ring in which more of the long lives than this, as one in so many, find their place taken is none.
constexpr std::size_t kDisplacedShare = 20;

class RingFirst {
 public:
  RingFirst(const Blocks& blocks, Bytes load, Bytes goal, Effort& effort, const std::function<bool()>& should_stop,
            std::vector<Bytes>& best)
      : blocks_(blocks),
        load_(load),
        goal_(goal),
        effort_(effort),
        should_stop_(should_stop),
        best_(best),
        height_(blocks.height(best)) {}

  // Half as far above the load, again and again.
  bool run() {
    const Bytes before = height_;
    effort_.spend(static_cast<std::int64_t>(blocks_.size() / 4));
    long_life_ = shortest_long_life(blocks_);
    if (long_life_ == 0) return false;
    double excess = kFirstExcess;
    while (may_gain(excess / 2) && height_at(excess) >= height_) excess /= 2;
    while (may_gain(excess) && reach(height_at(excess))) excess /= 2;
    return height_ < before;
  }

 private:
  [[nodiscard]] bool may_gain(double excess) const {
    return excess >= kLeastExcess && height_ > goal_ && !effort_.over();
  }
  [[nodiscard]] Bytes height_at(double excess) const {
    const Bytes unit = blocks_.alignment(0);
    const Bytes over = static_cast<Bytes>(static_cast<double>(load_) * excess);
    return std::max(goal_ / unit * unit, round_up(load_ + over, unit));
  }

  bool reach(Bytes height) {
    const auto is_long = [&](const PackItem& hull) { return hull.life() >= long_life_; };
    const auto most_displaced =
        static_cast<std::size_t>(std::ranges::count_if(blocks_.hulls(), is_long)) / kDisplacedShare;
    Ring ring = lay_in_ring(blocks_, long_life_, height, most_displaced);
    effort_.spend(static_cast<std::int64_t>(blocks_.size() / 4));
    if (ring.displaced > most_displaced) return false;
    if (!place_by_windows(blocks_, height, effort_, should_stop_, ring.addresses)) return false;
    const Bytes found = blocks_.height(ring.addresses);
    if (found < height_) best_ = std::move(ring.addresses);
    height_ = std::min(height_, found);
    return found <= height;
  }

  const Blocks& blocks_;
  Bytes load_, goal_;
  Effort& effort_;
  const std::function<bool()>& should_stop_;
  std::vector<Bytes>& best_;
  Bytes height_ = 0;
  std::int64_t long_life_ = 0;
};

PackAnswer pack(const PackProblem& problem, const PackLimits& limits) {
  PackAnswer answer = best_order(problem, limits);
  const Bytes goal = std::max(answer.bound_bytes, limits.enough_bytes);
  const Blocks blocks(problem);
  if (answer.packing.height_bytes <= goal || !blocks.plain()) return answer;
  std::vector<Bytes> addresses = blocks.addresses(answer.packing);
  Effort effort(limits.work, limits.should_stop);
  if (!pack_ring_first(blocks, answer.bound_bytes, goal, effort, limits.should_stop, addresses)) return answer;
  return answer_of(answer.bound_bytes, blocks.packing(addresses), kName);
}

}  // namespace

bool pack_ring_first(const Blocks& blocks, Bytes load, Bytes goal, Effort& effort,
                     const std::function<bool()>& should_stop, std::vector<Bytes>& addresses) {
  return RingFirst(blocks, load, goal, effort, should_stop, addresses).run();
}

extern const Packer kRingFirst;
const Packer kRingFirst = {
    .name = kName,
    .help = "what lives long in a ring, what passes window after window, repaired where orders fail",
    .pack = pack};

}  // namespace tidemark::layout
