#include "planner/layout/cut_at_minima.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "planner/threads/parallel.h"

namespace tidemark::layout {
namespace {

constexpr std::string_view kName = "cut_at_minima";
constexpr std::size_t kFewBlocks = 250;  // of a section that is not cut again
constexpr Bytes kMostAcross = 2;         // the load over this, at most, lives across a cut

// A moment at which something begins or ends: what lives across it and from it on, and the blocks that begin before it.
struct Moment {
  std::int32_t time = 0;
  Bytes across_bytes = 0;
  Bytes live_bytes = 0;
  std::size_t begun = 0;
};

std::vector<Moment> moments_of(std::span<const PackItem> hulls) {
  std::vector<std::pair<std::int32_t, Bytes>> begins;
  std::vector<std::pair<std::int32_t, Bytes>> ends;
  for (const PackItem& hull : hulls) {
    begins.emplace_back(hull.begin, hull.bytes);
    ends.emplace_back(hull.end, hull.bytes);
  }
  std::sort(begins.begin(), begins.end());
  std::sort(ends.begin(), ends.end());
  std::vector<Moment> moments;
  Bytes live = 0;
  std::size_t b = 0;
  for (std::size_t e = 0; e < ends.size();) {
    const std::int32_t time = b < begins.size() ? std::min(begins[b].first, ends[e].first) : ends[e].first;
    for (; e < ends.size() && ends[e].first == time; ++e) live -= ends[e].second;
    Moment moment{.time = time, .across_bytes = live, .begun = b};
    for (; b < begins.size() && begins[b].first == time; ++b) live += begins[b].second;
    moment.live_bytes = live;
    moments.push_back(moment);
  }
  return moments;
}

// Cuts moments [first, last) where least lives across, a quarter of the blocks at least on either side.
void cut(std::span<const Moment> moments, std::size_t first, std::size_t last, Bytes most_across,
         std::vector<std::int32_t>& cuts) {
  const std::size_t count = moments[last].begun - moments[first].begun;
  if (count <= kFewBlocks) return;
  std::size_t best = last;
  for (std::size_t m = first + 1; m < last; ++m) {
    if (4 * (moments[m].begun - moments[first].begun) < count || 4 * (moments[last].begun - moments[m].begun) < count)
      continue;
    if (moments[m].across_bytes > most_across) continue;
    if (best == last || moments[m].across_bytes < moments[best].across_bytes) best = m;
  }
  if (best == last) return;
  cut(moments, first, best, most_across, cuts);
  cuts.push_back(moments[best].time);
  cut(moments, best, last, most_across, cuts);
}

/// Some blocks of a problem as a problem of their own.
struct Part {
  PackProblem problem;
  std::vector<std::uint32_t> blocks;
};

class Decomposition {
 public:
  Decomposition(const PackProblem& problem, const Blocks& blocks, std::span<const std::int32_t> cuts)
      : problem_(problem), blocks_(blocks), cuts_(cuts), addresses_(blocks.size(), kAnywhere) {
    sections_.resize(cuts.size() + 1);
    for (std::uint32_t b = 0; b < blocks.size(); ++b) {
      if (is_inside(b))
        sections_[section_of(blocks.hulls()[b].begin)].push_back(b);
      else
        across_.push_back(b);
    }
  }

  /// Empty where somebody asked to stop.
  std::vector<Bytes> pack(Bytes goal, const PackLimits& limits) {
    const PackAnswer across = best_order(part_of(across_).problem, {.should_stop = limits.should_stop});
    take_over(across_, across.packing);
    std::vector<Part> parts(sections_.size());
    std::vector<PackAnswer> answers(sections_.size());
    std::atomic<bool> stopped{false};
    threads::parallel_for_each(0, sections_.size(), [&](std::size_t s) {
      if (stopped.load() || (limits.should_stop && limits.should_stop())) {
        stopped.store(true);
        return;
      }
      parts[s] = part_of(with_neighbours(s));
      answers[s] = best_order(parts[s].problem, {.should_stop = limits.should_stop, .enough_bytes = goal});
    });
    if (stopped.load()) return {};
    search(goal, limits, parts, answers);
    for (std::size_t s = 0; s < parts.size(); ++s) take_over(parts[s].blocks, answers[s].packing);
    return std::move(addresses_);
  }

 private:
  [[nodiscard]] std::size_t section_of(std::int32_t moment) const {
    return static_cast<std::size_t>(std::upper_bound(cuts_.begin(), cuts_.end(), moment) - cuts_.begin());
  }
  [[nodiscard]] bool fits_between(std::uint32_t block) const {
    const PackItem& hull = blocks_.hulls()[block];
    return section_of(hull.begin) == section_of(hull.end - 1);
  }
  // Nobody in another section may depend on where it lies.
  [[nodiscard]] bool is_inside(std::uint32_t block) const {
    if (blocks_.fixed(block) != kAnywhere || !fits_between(block)) return false;
    const std::size_t section = section_of(blocks_.hulls()[block].begin);
    return std::ranges::all_of(blocks_.apart(block), [&](std::uint32_t other) {
      return !fits_between(other) || section_of(blocks_.hulls()[other].begin) == section;
    });
  }

  // The blocks of a section, then those across that they must keep clear of.
  [[nodiscard]] std::vector<std::uint32_t> with_neighbours(std::size_t section) const {
    std::vector<std::uint32_t> rows = sections_[section];
    std::vector<std::uint32_t> apart;
    for (const std::uint32_t block : rows)
      apart.insert(apart.end(), blocks_.apart(block).begin(), blocks_.apart(block).end());
    std::sort(apart.begin(), apart.end());
    for (const std::uint32_t block : across_) {
      const PackItem& hull = blocks_.hulls()[block];
      const bool meets = section_of(hull.begin) <= section && section <= section_of(hull.end - 1);
      if (meets || std::binary_search(apart.begin(), apart.end(), block)) rows.push_back(block);
    }
    return rows;
  }

  // Whoever has an address keeps it.
  [[nodiscard]] Part part_of(std::vector<std::uint32_t> rows) const {
    Part part{.problem = {.alignment = problem_.alignment}, .blocks = std::move(rows)};
    PackProblem& to = part.problem;
    std::vector<std::pair<std::uint32_t, std::int32_t>> first_item;  // of the blocks
    for (const std::uint32_t block : part.blocks) {
      first_item.emplace_back(block, static_cast<std::int32_t>(to.items.size()));
      for (const std::int32_t row : blocks_.items(block)) {
        const auto i = static_cast<std::size_t>(row);
        const Bytes shift = problem_.shift_in_block(i);
        const Bytes address = addresses_[block] != kAnywhere ? addresses_[block] : blocks_.fixed(block);
        to.items.push_back(problem_.items[i]);
        to.block_of.push_back(static_cast<std::int32_t>(block));
        to.shift.push_back(shift);
        if (!problem_.own_alignment.empty()) to.own_alignment.push_back(problem_.own_alignment[i]);
        to.fixed_offset.push_back(address == kAnywhere ? kAnywhere : address + shift);
      }
    }
    if (problem_.plain() && std::ranges::count(to.fixed_offset, kAnywhere) == std::ssize(to.fixed_offset))
      to = {.items = std::move(to.items), .alignment = to.alignment};
    std::sort(first_item.begin(), first_item.end());
    for (const auto& [block, row] : first_item) {
      for (const std::uint32_t other : blocks_.apart(block)) {
        const auto at = std::lower_bound(first_item.begin(), first_item.end(), std::pair(other, std::int32_t{0}));
        if (other > block && at != first_item.end() && at->first == other) to.apart.emplace_back(row, at->second);
      }
    }
    return part;
  }

  void take_over(const std::vector<std::uint32_t>& rows, const Packing& packing) {
    std::size_t item = 0;
    for (const std::uint32_t block : rows) {
      const auto items = blocks_.items(block);
      addresses_[block] = packing.offsets[item] - problem_.shift_in_block(static_cast<std::size_t>(items.front()));
      item += items.size();
    }
  }

  // Sections above the goal, with equal shares of the work: as low as the goal, else as low as may be.
  static void search(Bytes goal, const PackLimits& limits, const std::vector<Part>& parts,
                     std::vector<PackAnswer>& answers) {
    std::vector<std::size_t> high;
    for (std::size_t s = 0; s < parts.size(); ++s) {
      if (answers[s].packing.height_bytes > goal) high.push_back(s);
    }
    const auto shares = static_cast<std::int64_t>(2 * high.size());
    const std::int64_t share = shares > 0 ? limits.work / shares : 0;
    if (share <= 0) return;
    threads::parallel_for_each(0, high.size(), [&](std::size_t h) {
      PackAnswer& best = answers[high[h]];
      for (const Bytes enough : {goal, Bytes{0}}) {
        if (best.packing.height_bytes <= goal) break;
        PackAnswer answer = find_packer("exact")->pack(
            parts[high[h]].problem, {.work = share, .should_stop = limits.should_stop, .enough_bytes = enough});
        if (answer.packing.height_bytes < best.packing.height_bytes) best = std::move(answer);
      }
    });
  }

  const PackProblem& problem_;
  const Blocks& blocks_;
  std::span<const std::int32_t> cuts_;
  std::vector<Bytes> addresses_;  // per block; kAnywhere: not yet
  std::vector<std::uint32_t> across_;
  std::vector<std::vector<std::uint32_t>> sections_;
};

PackAnswer pack(const PackProblem& problem, const PackLimits& limits) {
  PackAnswer answer = best_order(problem, limits);
  const Bytes goal = std::max(answer.bound_bytes, limits.enough_bytes);
  if (answer.packing.height_bytes <= goal) return answer;
  Packing packing = answer.packing;
  if (!pack_between_cuts(problem, Blocks(problem), goal, limits, packing)) return answer;
  return answer_of(answer.bound_bytes, std::move(packing), kName);
}

}  // namespace

std::vector<std::int32_t> cuts_at_minima(std::span<const PackItem> hulls) {
  std::vector<std::int32_t> cuts;
  const std::vector<Moment> moments = moments_of(hulls);
  if (moments.size() < 3) return cuts;
  Bytes load = 0;
  for (const Moment& moment : moments) load = std::max(load, moment.live_bytes);
  cut(moments, 0, moments.size() - 1, load / kMostAcross, cuts);
  return cuts;
}

bool pack_between_cuts(const PackProblem& problem, const Blocks& blocks, Bytes goal, const PackLimits& limits,
                       Packing& packing) {
  const std::vector<std::int32_t> cuts = cuts_at_minima(blocks.hulls());
  if (cuts.empty()) return false;
  const std::vector<Bytes> addresses = Decomposition(problem, blocks, cuts).pack(goal, limits);
  if (addresses.empty()) return false;
  Packing found = blocks.packing(addresses);
  if (found.height_bytes >= packing.height_bytes) return false;
  packing = std::move(found);
  return true;
}

extern const Packer kCutAtMinima;
const Packer kCutAtMinima = {
    .name = kName, .help = "cut where least is alive; what lives across first, sections on their own", .pack = pack};

}  // namespace tidemark::layout
