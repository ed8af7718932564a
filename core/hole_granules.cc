#include "core/hole_granules.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <utility>

#include "core/dispatch_section.h"

namespace tidemark {
namespace {

/// Granules that a residency touches, whole or in part.
GranuleRange granules_touched(Bytes offset, Bytes bytes) {
  const std::int64_t first = offset / kPlanGranule;
  return {.first = first, .count = (offset + bytes + kPlanGranule - 1) / kPlanGranule - first};
}

/// Small numbers, of which the neighbours of another are found in a few words.
class NumberSet {
 public:
  explicit NumberSet(std::size_t size) : words_(size / 64 + 1), groups_(words_.size() / 64 + 1) {}
  void insert(std::size_t i) {
    words_[i / 64] |= std::uint64_t{1} << i % 64;
    groups_[i / 4096] |= std::uint64_t{1} << i / 64 % 64;
  }
  void erase(std::size_t i) {
    words_[i / 64] &= ~(std::uint64_t{1} << i % 64);
    if (words_[i / 64] == 0) groups_[i / 4096] &= ~(std::uint64_t{1} << i / 64 % 64);
  }
  /// kNowhere: none.
  [[nodiscard]] std::size_t first_from(std::size_t i) const {
    if (i / 64 >= words_.size()) return kNowhere;
    if (const std::uint64_t word = words_[i / 64] >> i % 64; word != 0)
      return i + static_cast<std::size_t>(std::countr_zero(word));
    const std::size_t next = i / 64 + 1;
    std::size_t group = next / 64;
    if (group >= groups_.size()) return kNowhere;
    std::uint64_t bits = groups_[group] >> next % 64 << next % 64;
    while (bits == 0) {
      if (++group == groups_.size()) return kNowhere;
      bits = groups_[group];
    }
    const std::size_t word = group * 64 + static_cast<std::size_t>(std::countr_zero(bits));
    return word * 64 + static_cast<std::size_t>(std::countr_zero(words_[word]));
  }
  /// REQUIRES: there is one.
  [[nodiscard]] std::size_t last_to(std::size_t i) const {
    if (const std::uint64_t word = words_[i / 64] << (63 - i % 64); word != 0)
      return i - static_cast<std::size_t>(std::countl_zero(word));
    std::size_t word = i / 64 - 1;
    while (words_[word] == 0) --word;
    return word * 64 + 63 - static_cast<std::size_t>(std::countl_zero(words_[word]));
  }
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

 private:
  std::vector<std::uint64_t> words_, groups_;
};

/// Granules [0, end) in cells: one each, or where that would be many more than edges, what lies between neighbouring
/// edges.
class Cells {
 public:
  Cells(std::int64_t end, std::vector<std::int64_t> edges) : end_(end) {
    if (end / 16 <= std::ssize(edges)) return;
    edges.insert(edges.end(), {0, end});
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    edges.erase(std::upper_bound(edges.begin(), edges.end(), end), edges.end());
    edges_ = std::move(edges);
  }
  [[nodiscard]] std::size_t count() const {
    return edges_.empty() ? static_cast<std::size_t>(end_) : edges_.size() - 1;
  }
  /// Of the granule that is an edge, or beyond the last cell.
  [[nodiscard]] std::size_t of(std::int64_t granule) const {
    granule = std::min(granule, end_);
    if (edges_.empty()) return static_cast<std::size_t>(granule);
    return static_cast<std::size_t>(std::lower_bound(edges_.begin(), edges_.end(), granule) - edges_.begin());
  }
  [[nodiscard]] std::int64_t first_granule(std::size_t cell) const {
    return edges_.empty() ? static_cast<std::int64_t>(cell) : edges_[cell];
  }

 private:
  std::int64_t end_ = 0;
  std::vector<std::int64_t> edges_;
};

/// A half-step per cell, 0 at first, in runs of the same.
class HalfStepRuns {
 public:
  explicit HalfStepRuns(std::size_t cells) : starts_(cells), value_(cells + 1, 0) { starts_.insert(0); }

  /// Raises cells [first, last) to at least `least`; tells visit(first, last, value) what each run there was.
  template <class Visit>
  void raise(std::size_t first, std::size_t last, std::int32_t least, const Visit& visit) {
    if (first >= last) return;
    std::int32_t old = value_[starts_.last_to(first)], before = -1;
    for (std::size_t cell = first, next = first; cell < last; cell = next) {
      if (cell > first) old = value_[cell];
      next = std::min(last, starts_.first_from(cell + 1));
      visit(cell, next, old);
      value_[cell] = std::max(old, least);
      (cell > first && value_[cell] == before) ? starts_.erase(cell) : starts_.insert(cell);
      before = value_[cell];
    }
    if (last == value_.size() - 1 || starts_.first_from(last) == last) return;
    starts_.insert(last);
    value_[last] = old;
  }

 private:
  NumberSet starts_;
  std::vector<std::int32_t> value_;  // where a run starts
};

}  // namespace

std::vector<RoutedStay> routed_stays(const Program& program) {
  const Schedule& schedule = program.schedule;
  std::vector<std::int32_t> routed_of(schedule.residencies.size(), -1);
  for (std::size_t i = 0; i < program.routed.size(); ++i)
    routed_of[row(program.routed[i].residency)] = static_cast<std::int32_t>(i);
  const std::vector<std::int32_t> clock = compute_clock(schedule);
  struct Window {
    std::int32_t from, until;
    bool usual;
  };
  std::multimap<std::int32_t, Window> windows;  // per routed, in the order of the list: of triggers
  for (const Contingency& c : program.contingencies) {
    const bool usual = c.trigger_bytes <= schedule.residencies[row(c.residency)].bytes;
    windows.emplace(routed_of[row(c.residency)],
                    Window{2 * clock[row(c.release_at)], 2 * clock[row(c.prefetch_at)] + 1, usual});
  }
  const std::vector<std::int32_t> from = in_use_from(program);
  std::vector<RoutedStay> stays;
  stays.reserve(program.routed.size() + windows.size());
  for (std::size_t i = 0; i < program.routed.size(); ++i) {
    const Residency& r = schedule.residencies[row(program.routed[i].residency)];
    RoutedStay stay{
        .routed = static_cast<std::int32_t>(i), .begin = from[row(program.routed[i].residency)], .end = r.release};
    const auto [first, last] = windows.equal_range(stay.routed);
    for (auto it = first; it != last; ++it) stay.takes_holes = stay.takes_holes && it->second.usual;
    for (auto it = first; it != last && stay.takes_holes; ++it) {
      stay.end = it->second.from;
      stays.push_back(stay);
      stay.begin = it->second.until;
      stay.end = r.release;
    }
    stays.push_back(stay);
  }
  return stays;
}

HoleGranules::HoleGranules(const Program& program, std::vector<RoutedStay> stays)
    : program_(program),
      stays_(std::move(stays)),
      clock_end_(2 * program.schedule.compute_tasks + 1),
      region_(dynamic_region(program.layout.arenas.front(), kPlanGranule).count),
      first_stay_(program.routed.size() + 1, 0),
      taken_(stays_.size(), 0),
      first_run_(stays_.size() + 1, 0) {
  for (const RoutedStay& stay : stays_) ++first_stay_[static_cast<std::size_t>(stay.routed) + 1];
  for (std::size_t i = 1; i < first_stay_.size(); ++i) first_stay_[i] += first_stay_[i - 1];
  for (std::size_t s = 0; s < stays_.size(); ++s) {
    if (stays_[s].takes_holes && stays_[s].begin < stays_[s].end) order_.push_back(static_cast<std::int32_t>(s));
  }
  std::stable_sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
    return stays_[static_cast<std::size_t>(a)].begin < stays_[static_cast<std::size_t>(b)].begin;
  });
}

/// What stands in the arena in order of its begin; per cell, until when the last ones stay.
void HoleGranules::find_holes() {
  struct Use {
    std::int32_t from = 0, until = 0;
    GranuleRange granules;
  };
  const auto& residencies = program_.schedule.residencies;
  std::vector<Use> uses;
  std::vector<std::int64_t> edges;
  const auto use = [&](std::int32_t first, std::int32_t until, Bytes offset, Bytes bytes) {
    const GranuleRange range = granules_touched(offset, bytes);
    uses.push_back({.from = first, .until = until, .granules = range});
    edges.push_back(range.first);
    edges.push_back(range.first + range.count);
  };
  const std::vector<std::int32_t> in_use = in_use_from(program_);
  for (std::size_t r = 0; r < residencies.size(); ++r) {
    if (program_.layout.arena_of[r] != id_of<ArenaId>(0) || residencies[r].bytes <= 0) continue;
    use(in_use[r], residencies[r].release, program_.layout.offset_of[r], residencies[r].bytes);
  }
  for (const BufferUse& buffer : buffer_uses(program_)) use(buffer.from, buffer.until, buffer.offset, buffer.bytes);
  std::stable_sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.from < b.from; });
  const Cells cells(program_.layout.arenas.front().height_bytes / kPlanGranule, std::move(edges));
  const std::vector<std::int32_t> ends = earliest_ends();
  HalfStepRuns until(cells.count());
  const auto keep = [&](const Hole& hole) {
    if (hole.granules.count > 0 && ends[static_cast<std::size_t>(hole.from)] <= hole.until) holes_.push_back(hole);
  };
  const auto occupy = [&](std::size_t first, std::size_t last, std::int32_t from, std::int32_t release) {
    Hole hole{.from = 0, .until = from, .granules = {}};
    until.raise(first, last, release, [&](std::size_t begin, std::size_t end, std::int32_t free_from) {
      const bool is_free = free_from < from;
      if (!is_free || hole.from != free_from || hole.granules.count == 0) {
        keep(hole);
        hole.from = free_from;
        hole.granules = {.first = cells.first_granule(begin), .count = 0};
      }
      if (is_free) hole.granules.count += cells.first_granule(end) - cells.first_granule(begin);
    });
    keep(hole);
  };
  for (const Use& u : uses)
    occupy(cells.of(u.granules.first), cells.of(u.granules.first + u.granules.count), u.from, u.until);
  occupy(0, cells.count(), clock_end_, clock_end_);
  std::stable_sort(holes_.begin(), holes_.end(), [](const Hole& a, const Hole& b) { return a.from < b.from; });
}

/// Per half-step: the earliest end of a stay that begins at it or later. A hole that is over before is of no use.
std::vector<std::int32_t> HoleGranules::earliest_ends() const {
  std::vector<std::int32_t> ends(static_cast<std::size_t>(clock_end_) + 1, std::numeric_limits<std::int32_t>::max());
  for (const std::int32_t s : order_) {
    const RoutedStay& stay = stays_[static_cast<std::size_t>(s)];
    std::int32_t& least = ends[static_cast<std::size_t>(stay.begin)];
    least = std::min(least, stay.end);
  }
  for (std::size_t t = ends.size() - 1; t-- > 0;) ends[t] = std::min(ends[t], ends[t + 1]);
  return ends;
}

/// One pass over the compute clock: holes open, stays take and give back.
class HoleGranules::Sweep {
 public:
  Sweep(const std::vector<Hole>& holes, std::int32_t clock_end)
      : holes_(holes), open_(static_cast<std::size_t>(clock_end) + 1) {
    open_head_.assign(static_cast<std::size_t>(clock_end) + 1, -1);
    back_head_.assign(static_cast<std::size_t>(clock_end) + 1, -1);
    pieces_.reserve(2 * holes.size());
  }

  /// Up to `wanted` granules that are free during the stay, appended to `runs`. REQUIRES: begins ascend.
  std::int64_t take(const RoutedStay& stay, std::int64_t wanted, std::vector<GranuleRange>& runs) {
    advance(stay.begin);
    std::int64_t taken = 0;
    while (taken < wanted) {
      const std::size_t until = open_.first_from(static_cast<std::size_t>(stay.end));
      if (until == NumberSet::kNowhere) break;
      const auto index = static_cast<std::size_t>(open_head_[until]);
      GranuleRange& granules = pieces_[index].granules;
      const GranuleRange run{.first = granules.first, .count = std::min(granules.count, wanted - taken)};
      granules = {.first = granules.first + run.count, .count = granules.count - run.count};
      if (granules.count == 0) {
        open_head_[until] = pieces_[index].next;
        if (open_head_[until] < 0) open_.erase(until);
      }
      taken += run.count;
      runs.push_back(run);
      if (static_cast<std::size_t>(stay.end) < until) give_back(stay.end, run, static_cast<std::int32_t>(until));
    }
    return taken;
  }

 private:
  struct Piece {
    GranuleRange granules;
    std::int32_t until = 0;
    std::int32_t next = -1;
  };

  void advance(std::int32_t now) {
    for (; next_hole_ < holes_.size() && holes_[next_hole_].from <= now; ++next_hole_)
      open(add(holes_[next_hole_].granules, holes_[next_hole_].until));
    for (; next_back_ <= now; ++next_back_) {
      for (std::int32_t i = back_head_[static_cast<std::size_t>(next_back_)]; i >= 0;) {
        const std::int32_t next = pieces_[static_cast<std::size_t>(i)].next;
        open(i);
        i = next;
      }
    }
  }
  std::int32_t add(GranuleRange granules, std::int32_t until) {
    pieces_.push_back({.granules = granules, .until = until});
    return static_cast<std::int32_t>(pieces_.size() - 1);
  }
  void open(std::int32_t index) {
    Piece& piece = pieces_[static_cast<std::size_t>(index)];
    const auto until = static_cast<std::size_t>(piece.until);
    piece.next = open_head_[until];
    open_head_[until] = index;
    open_.insert(until);
  }
  void give_back(std::int32_t at, GranuleRange granules, std::int32_t until) {
    const std::int32_t index = add(granules, until);
    pieces_.back().next = back_head_[static_cast<std::size_t>(at)];
    back_head_[static_cast<std::size_t>(at)] = index;
  }

  const std::vector<Hole>& holes_;
  std::size_t next_hole_ = 0;
  std::int32_t next_back_ = 0;
  std::vector<Piece> pieces_;
  NumberSet open_;                       // half-steps at which something open now ends
  std::vector<std::int32_t> open_head_;  // per such half-step: pieces, newest first
  std::vector<std::int32_t> back_head_;  // per half-step: pieces that come back
};

/// What the stays want at `load` and where the region alone cannot give it. False: nowhere.
bool HoleGranules::find_wanted(double load) {
  wanted_.assign(stays_.size(), 0);
  demand_.assign(static_cast<std::size_t>(clock_end_) + 1, 0);
  for (std::size_t s = 0; s < stays_.size(); ++s) {
    const RoutedResidency& routed = program_.routed[static_cast<std::size_t>(stays_[s].routed)];
    const std::size_t r = row(routed.residency);
    wanted_[s] = extra_granules(program_.layout.offset_of[r], program_.schedule.residencies[r].bytes,
                                routed_bytes(routed, load), kPlanGranule);
    demand_[static_cast<std::size_t>(stays_[s].begin)] += wanted_[s];
    demand_[static_cast<std::size_t>(stays_[s].end)] -= wanted_[s];
  }
  shortage_.assign(demand_.size() + 1, 0);
  std::int64_t sum = 0;
  for (std::size_t t = 0; t < demand_.size(); ++t) {
    sum += demand_[t];
    shortage_[t + 1] = shortage_[t] + (sum > region_ ? 1 : 0);
  }
  return shortage_.back() > 0;
}

bool HoleGranules::assign(double load) {
  runs_.clear();
  ends_.clear();
  std::fill(taken_.begin(), taken_.end(), 0);
  std::fill(first_run_.begin(), first_run_.end(), 0);
  if (!find_wanted(load)) return true;
  const bool suffices = !order_.empty() && region_ > 0 && serve_stays(false);
  group_runs();
  return suffices;
}

bool HoleGranules::suffices(double load) {
  runs_.clear();
  ends_.clear();
  return !find_wanted(load) || (!order_.empty() && region_ > 0 && serve_stays(true));
}

/// Lets the stays take in the order of the clock. True: the region does for what they lack. Up to the begin of a stay
/// what the region serves is settled once those before it have taken: there a first shortage may end it.
bool HoleGranules::serve_stays(bool stop_when_short) {
  if (!searched_) find_holes();
  searched_ = true;
  Sweep sweep(holes_, clock_end_);
  std::int64_t used = 0;
  std::size_t now = 0;
  bool is_short = false;
  const auto settle = [&](std::size_t until) {
    for (; now < until; ++now) is_short = (used += demand_[now]) > region_ || is_short;
  };
  for (const std::int32_t index : order_) {
    const auto s = static_cast<std::size_t>(index);
    const auto begin = static_cast<std::size_t>(stays_[s].begin), end = static_cast<std::size_t>(stays_[s].end);
    settle(begin);
    if (is_short && stop_when_short) return false;
    std::int64_t taken = 0;
    if (wanted_[s] > 0 && shortage_[end] > shortage_[begin]) taken = sweep.take(stays_[s], wanted_[s], runs_);
    demand_[begin] -= taken;
    demand_[end] += taken;
    taken_[s] = taken;
    ends_.push_back(static_cast<std::int32_t>(runs_.size()));
  }
  settle(demand_.size());
  return !is_short;
}

/// Runs in the order in which they were taken become runs by stay.
void HoleGranules::group_runs() {
  const auto first_of = [&](std::size_t i) { return i == 0 ? 0 : ends_[i - 1]; };
  for (std::size_t i = 0; i < ends_.size(); ++i)
    first_run_[static_cast<std::size_t>(order_[i]) + 1] = ends_[i] - first_of(i);
  for (std::size_t s = 1; s < first_run_.size(); ++s) first_run_[s] += first_run_[s - 1];
  const std::vector<GranuleRange> taken = std::exchange(runs_, std::vector<GranuleRange>(runs_.size()));
  for (std::size_t i = 0; i < ends_.size(); ++i)
    std::copy(taken.begin() + first_of(i), taken.begin() + ends_[i],
              runs_.begin() + first_run_[static_cast<std::size_t>(order_[i])]);
}

std::span<const GranuleRange> HoleGranules::of(std::size_t stay) const {
  return {runs_.data() + first_run_[stay], static_cast<std::size_t>(first_run_[stay + 1] - first_run_[stay])};
}

std::int32_t HoleGranules::find(std::int32_t routed, std::int32_t begin) const {
  for (std::int32_t s = first_stay_[static_cast<std::size_t>(routed)];
       s < first_stay_[static_cast<std::size_t>(routed) + 1]; ++s)
    if (stays_[static_cast<std::size_t>(s)].begin == begin) return s;
  return -1;
}

std::vector<std::int64_t> collective_demand(const Program& program, const HoleGranules& holes, double load) {
  const std::vector<char> inside = inside_sections(program);
  std::vector<std::int64_t> demand(static_cast<std::size_t>(program.schedule.compute_tasks) * 2 + 2, 0);
  for (std::size_t s = 0; s < holes.stays().size(); ++s) {
    const RoutedStay& stay = holes.stays()[s];
    const RoutedResidency& routed = program.routed[static_cast<std::size_t>(stay.routed)];
    const std::size_t r = row(routed.residency);
    if (inside[r] != 0) continue;
    const std::int64_t extra = extra_granules(program.layout.offset_of[r], program.schedule.residencies[r].bytes,
                                              routed_bytes(routed, load), kPlanGranule);
    const std::int64_t taken = std::max<std::int64_t>(0, extra - holes.count(s));
    demand[static_cast<std::size_t>(stay.begin)] += taken;
    demand[static_cast<std::size_t>(stay.end)] -= taken;
  }
  for (std::size_t t = 1; t < demand.size(); ++t) demand[t] += demand[t - 1];
  demand.pop_back();
  return demand;
}

}  // namespace tidemark
