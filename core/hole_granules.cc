#include "core/hole_granules.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

#include "core/dispatch_section.h"

namespace tidemark {
namespace {

/// Granules that a residency touches, whole or in part.
GranuleRange granules_touched(Bytes offset, Bytes bytes) {
  const std::int64_t first = offset / kPlanGranule;
  return {.first = first, .count = (offset + bytes + kPlanGranule - 1) / kPlanGranule - first};
}

/// Ascending half-steps, of which the first at or after another is found in a few words.
class HalfStepSet {
 public:
  explicit HalfStepSet(std::size_t size) : words_(size / 64 + 1), groups_(words_.size() / 64 + 1) {}
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
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

 private:
  std::vector<std::uint64_t> words_, groups_;
};

// Ascending, each once, up to `end`. Marks instead of sorting where granules are not many more than edges.
void keep_distinct(std::vector<std::int64_t>& edges, std::int64_t end) {
  if (end / 4 > std::ssize(edges)) {
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    edges.erase(std::upper_bound(edges.begin(), edges.end(), end), edges.end());
    return;
  }
  std::vector<char> marked(static_cast<std::size_t>(end) + 1, 0);
  for (const std::int64_t edge : edges) {
    if (edge <= end) marked[static_cast<std::size_t>(edge)] = 1;
  }
  edges.clear();
  for (std::int64_t granule = 0; granule <= end; ++granule) {
    if (marked[static_cast<std::size_t>(granule)] != 0) edges.push_back(granule);
  }
}

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

/// Residencies in order of their acquire; per run of granules that all touch alike, until when the last ones stay.
void HoleGranules::find_holes() {
  struct Use {
    std::int32_t from = 0, until = 0;
    GranuleRange granules;
  };
  const auto& residencies = program_.schedule.residencies;
  std::vector<Use> uses;
  std::vector<std::int64_t> edges{0, program_.layout.arenas.front().height_bytes / kPlanGranule};
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
  const std::int64_t end = edges[1];
  std::stable_sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.from < b.from; });
  keep_distinct(edges, end);
  const auto cell_of = [&](std::int64_t granule) {
    return static_cast<std::size_t>(std::lower_bound(edges.begin(), edges.end(), granule) - edges.begin());
  };
  const std::size_t cells = edges.size() - 1;
  std::vector<std::int32_t> until(cells, 0);
  std::vector<Hole> holes;
  const auto occupy = [&](std::size_t first, std::size_t last, std::int32_t from, std::int32_t release) {
    Hole hole;
    for (std::size_t c = first; c < last; ++c) {
      if (until[c] < from) {
        if (hole.granules.count == 0 || hole.from != until[c]) {
          if (hole.granules.count > 0) holes.push_back(hole);
          hole = {.from = until[c], .until = from, .granules = {.first = edges[c], .count = 0}};
        }
        hole.granules.count += edges[c + 1] - edges[c];
      } else if (hole.granules.count > 0) {
        holes.push_back(hole);
        hole.granules.count = 0;
      }
      until[c] = std::max(until[c], release);
    }
    if (hole.granules.count > 0) holes.push_back(hole);
  };
  for (const Use& u : uses) {
    const std::size_t last = std::min(cells, cell_of(std::min(end, u.granules.first + u.granules.count)));
    occupy(std::min(last, cell_of(u.granules.first)), last, u.from, u.until);
  }
  occupy(0, cells, clock_end_, clock_end_);
  keep_useful_holes(std::move(holes));
}

/// In order of `from`; those in which some stay fits.
void HoleGranules::keep_useful_holes(std::vector<Hole> holes) {
  // Per half-step: the earliest end of a stay that begins at it or later.
  std::vector<std::int32_t> ends(static_cast<std::size_t>(clock_end_) + 1, std::numeric_limits<std::int32_t>::max());
  for (const std::int32_t s : order_) {
    const RoutedStay& stay = stays_[static_cast<std::size_t>(s)];
    std::int32_t& least = ends[static_cast<std::size_t>(stay.begin)];
    least = std::min(least, stay.end);
  }
  for (std::size_t t = ends.size() - 1; t-- > 0;) ends[t] = std::min(ends[t], ends[t + 1]);
  std::erase_if(holes, [&](const Hole& hole) { return ends[static_cast<std::size_t>(hole.from)] > hole.until; });
  std::stable_sort(holes.begin(), holes.end(), [](const Hole& a, const Hole& b) { return a.from < b.from; });
  holes_ = std::move(holes);
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
      if (until == HalfStepSet::kNowhere) break;
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
  HalfStepSet open_;                     // half-steps at which something open now ends
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
  std::fill(taken_.begin(), taken_.end(), 0);
  std::fill(first_run_.begin(), first_run_.end(), 0);
  runs_.clear();
  if (!find_wanted(load)) return true;
  if (order_.empty() || region_ == 0) return false;
  if (!searched_) find_holes();
  searched_ = true;

  Sweep sweep(holes_, clock_end_);
  std::vector<GranuleRange> runs;
  std::vector<std::int32_t> ends;  // per stay of the order: of its part of `runs`
  for (const std::int32_t index : order_) {
    const auto s = static_cast<std::size_t>(index);
    const auto begin = static_cast<std::size_t>(stays_[s].begin), end = static_cast<std::size_t>(stays_[s].end);
    const std::size_t before = runs.size();
    if (wanted_[s] > 0 && shortage_[end] > shortage_[begin]) taken_[s] = sweep.take(stays_[s], wanted_[s], runs);
    demand_[begin] -= taken_[s];
    demand_[end] += taken_[s];
    ends.push_back(static_cast<std::int32_t>(runs.size()));
    first_run_[s + 1] = static_cast<std::int32_t>(runs.size() - before);
  }
  for (std::size_t s = 1; s < first_run_.size(); ++s) first_run_[s] += first_run_[s - 1];
  runs_.resize(runs.size());
  for (std::size_t i = 0; i < order_.size(); ++i)
    std::copy(runs.begin() + (i == 0 ? 0 : ends[i - 1]), runs.begin() + ends[i],
              runs_.begin() + first_run_[static_cast<std::size_t>(order_[i])]);
  std::int64_t sum = 0;
  return std::all_of(demand_.begin(), demand_.end(), [&](std::int64_t change) { return (sum += change) <= region_; });
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
