#include "planner/layout/ring_first.h"

#include <algorithm>
#include <array>

#include "planner/layout/clock_windows.h"
#include "planner/layout/packer.h"
#include "planner/layout/repair.h"
#include "planner/layout/ring.h"

namespace tidemark::layout {
namespace {

constexpr std::string_view kName = "ring_first";
// Heights to try, above the load.
constexpr double kFirstExcess = 0.0096;
constexpr double kLeastExcess = 0.0005;
constexpr double kMostExcess = 0.02;
// A ring in which more of the long lives than this, as one in so many, find their place taken is none.
constexpr std::size_t kDisplacedShare = 20;
constexpr std::int64_t kRepairWork = 60'000;
constexpr std::array kWindows = {ClockWindow{.kept = 27, .width = 107}, ClockWindow{.kept = 27, .width = 160},
                                 ClockWindow{.kept = 54, .width = 107}};

// The first look, and what follows where that was promising.
constexpr Patience kBrief = {.tries = 4, .work = 10'000, .without_place = 0};
constexpr Patience kLong = {};

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

  bool run(bool persist) {
    const Bytes before = height_;
    effort_.spend(static_cast<std::int64_t>(blocks_.size() / 4));
    long_life_ = shortest_long_life(blocks_, load_);
    if (long_life_ == 0) return false;
    const auto is_long = [&](const PackItem& hull) { return hull.life() >= long_life_; };
    most_displaced_ = static_cast<std::size_t>(std::ranges::count_if(blocks_.hulls(), is_long)) / kDisplacedShare;
    double excess = kFirstExcess;
    while (may_gain(excess / 2) && height_at(excess) >= height_) excess /= 2;
    const bool from_the_first = excess == kFirstExcess;
    excess = lower_from(excess, kBrief);
    if (persist) excess = lower_from(excess, kLong);
    if (persist && from_the_first && excess == kFirstExcess) raise_from(2 * excess);
    return height_ < before;
  }

 private:
  [[nodiscard]] bool may_gain(double excess) const {
    return excess >= kLeastExcess && height_ > goal_ && !effort_.over();
  }
  // Half as far above the load, again and again; the first excess that is out of reach.
  double lower_from(double excess, const Patience& patience) {
    while (may_gain(excess) && reach(excess, patience)) excess /= 2;
    return excess;
  }
  void raise_from(double excess) {
    while (excess <= kMostExcess && height_at(excess) < height_ && !effort_.over() && !reach(excess, kLong))
      excess *= 2;
  }
  [[nodiscard]] Bytes height_at(double excess) const {
    const Bytes unit = blocks_.alignment(0);
    const Bytes over = static_cast<Bytes>(static_cast<double>(load_) * excess);
    return std::max(goal_ / unit * unit, round_up(load_ + over, unit));
  }

  bool reach(double excess, const Patience& patience) {
    const Bytes height = height_at(excess);
    const Ring ring = lay_in_ring(blocks_, long_life_, height, most_displaced_);
    effort_.spend(static_cast<std::int64_t>(blocks_.size() / 4));
    if (ring.displaced > most_displaced_) return false;
    for (const ClockWindow& window : kWindows) {
      std::vector<Bytes> addresses = ring.addresses;
      if (place_by_windows(blocks_, height, window, patience, effort_, should_stop_, addresses)) {
        if (blocks_.height(addresses) > height) repair(addresses, height);
        const Bytes found = blocks_.height(addresses);
        if (found < height_) best_ = std::move(addresses);
        height_ = std::min(height_, found);
        if (found <= height) return true;
      }
      if (patience.without_place == 0) return false;
    }
    return false;
  }

  // The few for which no window had a place.
  void repair(std::vector<Bytes>& addresses, Bytes height) {
    Repair repair(blocks_, addresses, 0);
    Effort slice(std::min(kRepairWork, effort_.left()), should_stop_);
    repair.lower_to(load_, height, slice);
    effort_.spend(kRepairWork - slice.left());
    addresses.assign(repair.addresses().begin(), repair.addresses().end());
  }

  const Blocks& blocks_;
  Bytes load_, goal_;
  Effort& effort_;
  const std::function<bool()>& should_stop_;
  std::vector<Bytes>& best_;
  Bytes height_ = 0;
  std::int64_t long_life_ = 0;
  std::size_t most_displaced_ = 0;
};

PackAnswer pack(const PackProblem& problem, const PackLimits& limits) {
  PackAnswer answer = best_order(problem, limits);
  const Bytes goal = std::max(answer.bound_bytes, limits.enough_bytes);
  const Blocks blocks(problem);
  if (answer.packing.height_bytes <= goal || !blocks.plain()) return answer;
  std::vector<Bytes> addresses = blocks.addresses(answer.packing);
  Effort effort(limits.work, limits.should_stop);
  if (!pack_ring_first(blocks, answer.bound_bytes, goal, true, effort, limits.should_stop, addresses)) return answer;
  return answer_of(answer.bound_bytes, blocks.packing(addresses), kName);
}

}  // namespace

bool pack_ring_first(const Blocks& blocks, Bytes load, Bytes goal, bool persist, Effort& effort,
                     const std::function<bool()>& should_stop, std::vector<Bytes>& addresses) {
  return RingFirst(blocks, load, goal, effort, should_stop, addresses).run(persist);
}

extern const Packer kRingFirst;
const Packer kRingFirst = {
    .name = kName,
    .help = "what lives long in a ring, what passes window after window, repaired where orders fail",
    .pack = pack};

}  // namespace tidemark::layout
