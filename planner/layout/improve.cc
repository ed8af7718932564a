#include "planner/layout/improve.h"

#include <algorithm>
#include <array>
#include <memory>

#include "planner/layout/clock_walk.h"
#include "planner/layout/core_first.h"
#include "planner/layout/cut_at_minima.h"
#include "planner/layout/repair.h"
#include "planner/layout/ring_first.h"
#include "planner/layout/rooms.h"
#include "planner/threads/parallel.h"

namespace tidemark::layout {
namespace {

// The exact search begins up to here, and is the first to be asked up to there.
constexpr std::size_t kMostExact = 2000;
constexpr std::size_t kExactFirst = 600;
constexpr std::int64_t kExactWork = 400'000;
// A piece with fewer blocks has no structure for the clock walks to find.
constexpr std::size_t kFewestToWalk = 500;
// With more blocks there are more windows than anybody waits for.
constexpr std::size_t kMostToGoRound = 60'000;
constexpr std::int64_t kRoundUnits = 120;  // a block
constexpr std::int64_t kCutWork = 40'000;
constexpr std::int64_t kFirstRepair = 60'000;
constexpr std::int64_t kRepairSlice = 30'000;
constexpr int kMostDoublings = 3;
constexpr std::size_t kChains = 4;

constexpr std::array kWalks = {
    ClockWalk{.long_share = 0.15, .tightness = 10, .backward = true, .both_sides = false},
    ClockWalk{.long_share = 0.75, .tightness = 10, .backward = false, .both_sides = false},
    ClockWalk{.long_share = 0.15, .tightness = 10, .backward = false, .both_sides = true},
    ClockWalk{.long_share = 0.75, .tightness = 100, .backward = true, .both_sides = false},
    ClockWalk{.long_share = 0.03, .tightness = 30, .backward = true, .both_sides = true},
    ClockWalk{.long_share = 0.15, .backward = true, .life_weight = LifeWeight::fourth_root},
    ClockWalk{.long_share = 0.15, .backward = true, .life_weight = LifeWeight::root},
    ClockWalk{.long_share = 0.75, .backward = false, .life_weight = LifeWeight::root},
};
// Where large storages pass. No share of the room they would like is best everywhere.
constexpr std::array kWalksAroundRooms = {
    ClockWalk{.backward = false, .life_weight = LifeWeight::root, .room_share = 0.7},
    ClockWalk{.backward = false, .life_weight = LifeWeight::root, .room_share = 0.85},
    ClockWalk{.backward = true, .life_weight = LifeWeight::root, .room_share = 1.4},
    ClockWalk{.backward = false, .life_weight = LifeWeight::root, .room_share = 0.5},
    ClockWalk{.backward = false, .life_weight = LifeWeight::root, .room_share = 1.0},
    ClockWalk{.backward = true, .life_weight = LifeWeight::root, .room_share = 0.7},
};

class Improvement {
 public:
  Improvement(Piece& piece, Effort& effort) : piece_(piece), effort_(effort) {}

  void run() {
    const bool small = piece_.blocks.size() <= kMostExact;
    if (piece_.blocks.size() <= kExactFirst) search(kExactWork);
    if (!over() && piece_.blocks.plain()) find_core();
    if (!over() && piece_.blocks.size() > kExactFirst) cut();
    const bool pipeline = piece_.blocks.plain() && piece_.blocks.size() >= kFewestToWalk;
    // Where large storages pass hardly anything but a ring leaves the bytes for them in one piece.
    const bool rooms = pipeline && !over() && !rooms_for_passing(piece_.blocks, piece_.bound_bytes).empty();
    if (rooms) go_round();
    if (!over()) first_repair();
    if (pipeline) walk(rooms);
    start_chains();
    for (int round = 0; !over(); ++round) {
      if (small) search(kExactWork << std::min(round, 20));
      if (!over()) run_chains(kRepairSlice << std::min(round, kMostDoublings));
    }
  }

 private:
  struct Candidate {
    std::vector<Bytes> addresses;
    Bytes height = 0;
  };

  [[nodiscard]] bool over() const { return piece_.done() || effort_.over(); }

  void search(std::int64_t work) {
    const PackAnswer answer = find_packer("exact")->pack(piece_.problem, {.work = std::min(work, effort_.left()),
                                                                          .should_stop = piece_.should_stop,
                                                                          .enough_bytes = piece_.enough_bytes});
    effort_.spend(work);
    piece_.bound_bytes = std::max(piece_.bound_bytes, answer.bound_bytes);
    piece_.cannot_fit = answer.cannot_fit;
    if (answer.packing.height_bytes >= piece_.height_bytes) return;
    adopt(piece_.blocks.addresses(answer.packing), answer.packing.height_bytes, answer.packer);
  }

  void find_core() {
    std::vector<Bytes> addresses = piece_.addresses;
    if (pack_core_first(piece_.blocks, piece_.goal(), effort_, piece_.should_stop, addresses))
      offer(std::move(addresses), "core_first");
  }

  // Where little lives across, sections are small enough for the search although all of them are not.
  void cut() {
    effort_.spend(static_cast<std::int64_t>(piece_.blocks.size() / 8));
    if (over() || cuts_at_minima(piece_.blocks.hulls()).empty()) return;
    Packing packing = piece_.blocks.packing(piece_.addresses);
    const PackLimits limits{.work = std::min(kCutWork, effort_.left()), .should_stop = piece_.should_stop};
    if (pack_between_cuts(piece_.problem, piece_.blocks, piece_.goal(), limits, packing))
      offer(piece_.blocks.addresses(packing), "cut_at_minima");
    effort_.spend(kCutWork + static_cast<std::int64_t>(4 * piece_.blocks.size()));
  }

  void go_round() {
    if (over() || piece_.blocks.size() > kMostToGoRound) return;
    const std::int64_t work = kRoundUnits * std::ssize(piece_.blocks.hulls());
    Effort slice(std::min(work, effort_.left()), piece_.should_stop);
    std::vector<Bytes> addresses = piece_.addresses;
    if (pack_ring_first(piece_.blocks, piece_.bound_bytes, piece_.goal(), slice, piece_.should_stop, addresses))
      offer(std::move(addresses), "ring_first");
    effort_.spend(work - slice.left());
  }

  // The cheapest improvement of what there is, before anything else is tried.
  void first_repair() {
    Repair repair(piece_.blocks, piece_.addresses, 0);
    effort_.spend(static_cast<std::int64_t>(piece_.blocks.size() / 8));
    Effort slice(std::min(kFirstRepair, effort_.left()), piece_.should_stop);
    repair.lower_to(piece_.bound_bytes, piece_.goal(), slice);
    effort_.spend(kFirstRepair);
    offer({repair.addresses().begin(), repair.addresses().end()}, "repair");
  }

  void walk(bool rooms) {
    for (const ClockWalk& one : kWalks) walk(one);
    for (std::size_t w = 0; rooms && w < kWalksAroundRooms.size(); ++w) walk(kWalksAroundRooms[w]);
  }
  void walk(const ClockWalk& walk) {
    if (over()) return;
    effort_.spend(static_cast<std::int64_t>(piece_.blocks.size() * 3 / 2));
    offer(walk_clock(piece_.blocks, walk, piece_.bound_bytes, piece_.should_stop), "clock_walk");
  }

  void start_chains() {
    candidates_.push_back({piece_.addresses, piece_.height_bytes});
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.height < b.height; });
  }

  // Chains go on side by side, one step of each slice after the other; what falls behind starts from the best again.
  void run_chains(std::int64_t slice) {
    while (chains_.size() < kChains) {
      const std::size_t from = std::min(chains_.size(), candidates_.size() - 1);
      chains_.push_back(std::make_unique<Repair>(piece_.blocks, candidates_[from].addresses, ++seed_));
    }
    const std::int64_t each = std::min(slice, effort_.left() / static_cast<std::int64_t>(kChains));
    const Bytes goal = piece_.goal();
    threads::parallel_for_each(0, kChains, [&](std::size_t c) {
      Effort effort(each, piece_.should_stop);
      chains_[c]->lower_to(piece_.bound_bytes, goal, effort);
    });
    effort_.spend(slice * static_cast<std::int64_t>(kChains));
    const auto lower = [](const auto& a, const auto& b) { return a->height() < b->height(); };
    const Repair& best = **std::min_element(chains_.begin(), chains_.end(), lower);
    offer({best.addresses().begin(), best.addresses().end()}, "repair");
    const auto worst = std::max_element(chains_.begin(), chains_.end(), lower);
    if (!over() && (*worst)->height() > piece_.height_bytes)
      *worst = std::make_unique<Repair>(piece_.blocks, piece_.addresses, ++seed_);
  }

  void offer(std::vector<Bytes> addresses, std::string_view packer) {
    const Bytes height = piece_.blocks.height(addresses);
    if (height < piece_.height_bytes) {
      adopt(std::move(addresses), height, packer);
    } else if (chains_.empty()) {
      candidates_.push_back({std::move(addresses), height});
    }
  }

  void adopt(std::vector<Bytes> addresses, Bytes height, std::string_view packer) {
    if (chains_.empty()) candidates_.push_back({piece_.addresses, piece_.height_bytes});
    piece_.addresses = std::move(addresses);
    piece_.height_bytes = height;
    piece_.packer = packer;
  }

  Piece& piece_;
  Effort& effort_;
  std::vector<Candidate> candidates_;
  std::vector<std::unique_ptr<Repair>> chains_;
  std::uint64_t seed_ = 0;
};

}  // namespace

void improve(Piece& piece, Effort& effort) {
  if (!piece.done() && !effort.over()) Improvement(piece, effort).run();
}

}  // namespace tidemark::layout
