#include "planner/layout/section_walk.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "planner/layout/best_fit_placer.h"
#include "planner/layout/clock_walk.h"
#include "planner/layout/order.h"
#include "planner/layout/repair.h"
#include "planner/layout/time_tree.h"

namespace tidemark::layout {
namespace {

constexpr double kNoneLong = 1e9;  // every block passes

// The first one is the usual: what another one leaves behind is in smaller pieces mostly, so each section begins with
// it again.
constexpr std::array kVariants = {
    ClockWalk{.long_share = 0.4, .tightness = 3},
    ClockWalk{.long_share = 0.75, .tightness = 10},
    ClockWalk{.long_share = 0.15, .tightness = 10, .both_sides = true},
    ClockWalk{.long_share = 0.15, .life_weight = LifeWeight::fourth_root},
    ClockWalk{.long_share = 0.75, .life_weight = LifeWeight::root},
    ClockWalk{.long_share = kNoneLong},
    ClockWalk{.long_share = 0.03, .tightness = 30, .both_sides = true},
    ClockWalk{.long_share = 0.75, .tightness = 100},
    ClockWalk{.long_share = kNoneLong, .life_weight = LifeWeight::root},
    ClockWalk{.long_share = 0.15, .tightness = 1, .life_weight = LifeWeight::root},
    ClockWalk{.long_share = 1.5, .tightness = 10, .life_weight = LifeWeight::fourth_root},
    ClockWalk{.long_share = 0.4, .tightness = 30, .life_weight = LifeWeight::fourth_root},
    ClockWalk{.long_share = kNoneLong, .life_weight = LifeWeight::fourth_root},
    ClockWalk{.long_share = 0.75, .tightness = 1, .both_sides = true},
    ClockWalk{.long_share = 0.03, .tightness = 3},
    ClockWalk{.long_share = 1.5, .tightness = 30},
};
// After so many a section that is further above the load than this share of it, and the ceiling is not, is given up.
constexpr std::size_t kFirstLook = 4;
constexpr Bytes kFarShare = 35;

constexpr std::size_t kFewestBlocks = 500;           // of a section
constexpr std::size_t kMostSectionsBack = 4;         // sections to go back at once
constexpr int kBacks = 8;                            // of all
constexpr std::int64_t kSectionRepairWork = 20'000;  // for one section
constexpr std::int64_t kRepairTrials = 16;           // which takes about as long
constexpr std::int64_t kSpareTrials = 24;  // and one for each section: what is tried beyond the first variants

class SectionWalk {
 public:
  SectionWalk(const Blocks& blocks, bool backward, Bytes load, Bytes ceiling, const std::function<bool()>& should_stop)
      : load_(load),
        ceiling_(ceiling),
        far_(std::max(ceiling, load + load / kFarShare)),
        should_stop_(should_stop),
        alignment_(blocks.alignment(0)),
        mean_life_(mean_life(blocks.hulls())),
        items_(blocks.hulls().begin(), blocks.hulls().end()),
        addresses_(items_.size(), 0) {
    if (backward)
      for (PackItem& item : items_) item = {-item.end, -item.begin, item.bytes};
    for (const SortKey& key : rows_by_birth(items_)) by_birth_.push_back(key.row);
    cut();
    spare_trials_ = kSpareTrials + std::ssize(sections_);
  }

  std::vector<Bytes> run() {
    int backs_left = kBacks;
    for (std::size_t s = 0; s < sections_.size();) {
      Section& now = sections_[s];
      if (place(s)) {
        ++s;
        continue;
      }
      const std::size_t back = backs_left > 0 && spare_trials_ > 0 && !is_far(now) ? section_to_go_back_to(s) : s;
      if (back < s) {
        --backs_left;
        s = back;
        continue;
      }
      commit(s);
      if (is_far(now)) spare_trials_ = 0;  // no better than a walk in one go
      ceiling_ = std::max(ceiling_, now.height);
      ++s;
    }
    return std::move(addresses_);
  }

 private:
  struct Section {
    std::size_t first = 0, last = 0;      // of by_birth_
    std::vector<std::uint32_t> before{};  // blocks placed earlier that live on into it, by address
    std::size_t tried = 0;                // variants, since what is before it was placed last
    Bytes height = 0;                     // of the lowest trial
    std::vector<Bytes> addresses{};       // of that
  };

  [[nodiscard]] bool is_stopped() const { return should_stop_ && should_stop_(); }
  [[nodiscard]] bool is_far(const Section& section) const { return section.height > far_; }
  [[nodiscard]] const PackItem& born(std::size_t k) const { return items_[by_birth_[k]]; }
  [[nodiscard]] std::span<const std::uint32_t> blocks_of(const Section& section) const {
    return {by_birth_.data() + section.first, section.last - section.first};
  }

  // As many blocks to a section as live at one moment at most: what lives on into it is no more than what it holds.
  void cut() {
    std::vector<std::int32_t> ends;
    for (const std::uint32_t block : by_birth_) ends.push_back(items_[block].end);
    std::sort(ends.begin(), ends.end());
    std::size_t most = kFewestBlocks, ended = 0;
    for (std::size_t k = 0; k < by_birth_.size(); ++k) {
      while (ends[ended] <= born(k).begin) ++ended;
      most = std::max(most, k + 1 - ended);
    }
    for (std::size_t first = 0; first < by_birth_.size();) {
      std::size_t last = std::min(first + most, by_birth_.size());
      while (last < by_birth_.size() && born(last).begin == born(last - 1).begin) ++last;
      sections_.push_back({.first = first, .last = last});
      first = last;
    }
  }

  // By the first variant that keeps to the ceiling, of those not tried yet, or by repair of the lowest. False: neither
  // does, and nothing is committed.
  bool place(std::size_t s) {
    Section& section = sections_[s];
    if (section.tried == 0) enter(s);
    bool is_low = false;
    while (!is_low && may_try(section)) {
      spare_trials_ -= section.tried > 0 ? 1 : 0;
      is_low = offer(section, walk(section, kVariants[section.tried++]));
    }
    if (!is_low && section.height > ceiling_ && !is_far(section) && spare_trials_ > 0) is_low = repair(section);
    if (is_low) commit(s);
    return is_low;
  }

  [[nodiscard]] bool may_try(const Section& section) const {
    if (section.tried == 0) return true;
    if (section.tried >= kFirstLook && is_far(section)) return false;
    return section.tried < kVariants.size() && spare_trials_ > 0 && !is_stopped();
  }

  void enter(std::size_t s) {
    Section& section = sections_[s];
    section.height = std::numeric_limits<Bytes>::max();
    section.before.clear();
    if (s == 0) return;
    const std::int32_t now = born(section.first).begin;
    const auto take = [&](std::span<const std::uint32_t> blocks) {
      std::ranges::copy_if(blocks, std::back_inserter(section.before),
                           [&](std::uint32_t block) { return items_[block].end > now; });
    };
    take(sections_[s - 1].before);
    take(blocks_of(sections_[s - 1]));
    std::ranges::sort(section.before, {}, [&](std::uint32_t block) { return addresses_[block]; });
  }

  // Takes over what keeps to the ceiling, or else is lower than what there is. Whether it keeps to it.
  bool offer(Section& section, std::vector<Bytes> addresses) const {
    Bytes height = 0;
    for (std::size_t k = 0; k < addresses.size(); ++k)
      height = std::max(height, addresses[k] + born(section.first + k).bytes);
    if (height > ceiling_ && height >= section.height) return false;
    section.height = height;
    section.addresses = std::move(addresses);
    return height <= ceiling_;
  }

  void commit(std::size_t s) {
    const auto blocks = blocks_of(sections_[s]);
    for (std::size_t k = 0; k < blocks.size(); ++k) addresses_[blocks[k]] = sections_[s].addresses[k];
    if (s + 1 < sections_.size()) sections_[s + 1].tried = 0;
  }

  [[nodiscard]] std::size_t section_to_go_back_to(std::size_t s) const {
    for (std::size_t back = 1; back <= std::min(s, kMostSectionsBack); ++back)
      if (sections_[s - back].tried < kVariants.size()) return s - back;
    return s;
  }

  [[nodiscard]] std::vector<Bytes> walk(const Section& section, const ClockWalk& walk) const {
    const auto blocks = blocks_of(section);
    const double shortest = mean_life_ * walk.long_share;
    const auto is_long = [&](std::uint32_t block) { return static_cast<double>(items_[block].life()) >= shortest; };
    std::vector<BlockPart> parts;
    double sum = 0, count = 0;
    for (const std::uint32_t block : section.before) parts.push_back(part_of(block));
    for (const std::uint32_t block : blocks) {
      parts.push_back(part_of(block));
      if (!is_long(block)) continue;
      sum += static_cast<double>(items_[block].life());
      ++count;
    }
    TimeTree tree(parts);
    BestFitPlacer best_fit({.both_sides = walk.both_sides,
                            .per_tick = count > 0 ? count / sum : 1,
                            .per_byte = walk.tightness / static_cast<double>(load_)},
                           {}, load_);
    for (const std::uint32_t block : section.before) {
      tree.place(part_of(block), addresses_[block]);
      best_fit.stand(items_[block], addresses_[block]);
    }
    std::vector<Bytes> addresses(blocks.size(), 0);
    std::vector<PackItem> passing(blocks.size());
    for (std::size_t k = 0; k < blocks.size(); ++k) {
      if (!is_long(blocks[k])) {
        passing[k] = items_[blocks[k]];
        continue;
      }
      addresses[k] = best_fit.place(items_[blocks[k]]);
      tree.place(part_of(blocks[k]), addresses[k]);
    }
    for (const SortKey& key : sorted_rows(passing, [&](const PackItem& item) {
           return SortKey{.first = largest_first(item, walk.life_weight), .second = item.begin};
         })) {
      const BlockPart part = part_of(blocks[key.row]);
      addresses[key.row] = tree.lowest_fit(part, 0);
      tree.place(part, addresses[key.row]);
    }
    return addresses;
  }

  [[nodiscard]] BlockPart part_of(std::uint32_t block) const {
    const PackItem& item = items_[block];
    return {.begin = item.begin, .end = item.end, .shift = 0, .bytes = item.bytes};
  }

  // From the lowest trial, with all before as it is.
  bool repair(Section& section) {
    spare_trials_ -= kRepairTrials;
    PackProblem problem;
    problem.alignment = alignment_;
    std::vector<Bytes> addresses = section.addresses;
    for (const std::uint32_t block : blocks_of(section)) {
      problem.items.push_back(items_[block]);
      problem.fixed_offset.push_back(kAnywhere);
    }
    for (const std::uint32_t block : section.before) {
      problem.items.push_back(items_[block]);
      problem.fixed_offset.push_back(addresses_[block]);
      addresses.push_back(addresses_[block]);
    }
    const Blocks blocks(problem);
    Repair repair(blocks, addresses, 0);
    Effort effort(kSectionRepairWork, should_stop_);
    repair.lower_to(load_, ceiling_, effort);
    const auto found = repair.addresses().first(section.addresses.size());
    return offer(section, {found.begin(), found.end()});
  }

  Bytes load_, ceiling_, far_;
  const std::function<bool()>& should_stop_;
  Bytes alignment_;
  double mean_life_;
  std::vector<PackItem> items_;  // per block, on the clock as it is walked
  std::vector<std::uint32_t> by_birth_;
  std::vector<Bytes> addresses_;  // per block
  std::vector<Section> sections_;
  std::int64_t spare_trials_ = 0;
};

}  // namespace

std::vector<Bytes> walk_in_sections(const Blocks& blocks, bool backward, Bytes load, Bytes ceiling,
                                    const std::function<bool()>& should_stop) {
  return SectionWalk(blocks, backward, load, ceiling, should_stop).run();
}

}  // namespace tidemark::layout
