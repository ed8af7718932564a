#include "planner/ladder/chunk_search.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "core/dynamic_region.h"
#include "core/hole_granules.h"
#include "core/verify.h"
#include "planner/ladder/dynamic_bound.h"
#include "planner/ladder/section_drafts.h"

namespace tidemark::ladder {
namespace {

/// Less than this above the first limit is not worth agreeing on.
constexpr double kLeastGain = 1.0 / 128;
/// No farther beyond the first limit is looked: buffers are sized for the load that is looked for.
constexpr double kMostGain = 1.5;
constexpr int kHalvings = 8;

using Granules = std::vector<std::int64_t>;

/// Granules of the dynamic region that a load takes of each routed storage from its acquire on, per residency.
Granules extras(const Program& program, const HoleGranules& holes, double load) {
  Granules extra(program.schedule.residencies.size(), 0);
  for (std::size_t i = 0; i < program.routed.size(); ++i) {
    const RoutedResidency& routed = program.routed[i];
    const Residency& r = program.schedule.residencies[row(routed.residency)];
    const std::int32_t stay = holes.find(static_cast<std::int32_t>(i), r.acquire);
    const std::int64_t wanted = extra_granules(program.layout.offset_of[row(routed.residency)], r.bytes,
                                               routed_bytes(routed, load), kPlanGranule);
    const std::int64_t in_holes = stay < 0 ? 0 : holes.count(static_cast<std::size_t>(stay));
    extra[row(routed.residency)] = std::max<std::int64_t>(0, wanted - in_holes);
  }
  return extra;
}

class ChunkSearch {
 public:
  ChunkSearch(const Program& program, const HoleGranules& holes, std::span<const SectionDraft> drafts)
      : program_(program),
        holes_(holes),
        drafts_(drafts),
        region_(dynamic_region(program.layout.arenas.front(), kPlanGranule).count),
        local_extra_(extras(program, holes, program.contingency_limit_f)),
        local_(collective_demand(program, holes, program.contingency_limit_f)) {}

  /// The sections needed for `load`; nothing if all of them do not help. At each half-step with too little room, the
  /// section that takes most there whole is taken.
  [[nodiscard]] std::optional<std::vector<std::size_t>> needed(double load) const {
    Granules demand = collective_demand(program_, holes_, load), local = local_;
    const Granules extra = extras(program_, holes_, load);
    std::vector<std::int32_t> from(extra.size());
    for (std::size_t r = 0; r < from.size(); ++r) from[r] = program_.schedule.residencies[r].acquire;
    std::vector<char> tried(drafts_.size(), 0);
    std::vector<std::size_t> taken;
    for (std::size_t at = 0; at < demand.size();) {
      if (demand[at] <= region_) {
        ++at;
        continue;
      }
      const std::optional<std::size_t> best = most_inside(static_cast<std::int32_t>(at), extra, tried);
      if (!best) return std::nullopt;
      tried[*best] = 1;
      const SectionParts& parts = drafts_[*best].parts;
      if (!keeps_first_limit(parts, local)) continue;
      take(parts, extra, demand, from);
      taken.push_back(*best);
      at = std::min(at, static_cast<std::size_t>(parts.begin));
    }
    std::sort(taken.begin(), taken.end());
    return taken;
  }

 private:
  [[nodiscard]] const Residency& stay(ResidencyId r) const { return program_.schedule.residencies[row(r)]; }
  [[nodiscard]] bool lives(ResidencyId r, std::int32_t at) const {
    return stay(r).acquire <= at && at < stay(r).release;
  }

  [[nodiscard]] std::optional<std::size_t> most_inside(std::int32_t at, const Granules& extra,
                                                       const std::vector<char>& tried) const {
    std::optional<std::size_t> best;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < drafts_.size() && drafts_[i].parts.begin <= at; ++i) {
      if (tried[i] != 0) continue;
      std::int64_t granules = 0;
      for (const ResidencyId r : drafts_[i].parts.inside) granules += lives(r, at) ? extra[row(r)] : 0;
      if (granules <= most) continue;
      most = granules;
      best = i;
    }
    return best;
  }

  /// Adds to `local` what the section keeps early, at the first limit; that must stay within the region, whatever the
  /// groups say. False: it does not, and `local` is as it was.
  [[nodiscard]] bool keeps_first_limit(const SectionParts& parts, Granules& local) const {
    std::int32_t end = parts.begin;
    for (const ResidencyId r : parts.kept)
      if (local_extra_[row(r)] > 0) end = std::max(end, stay(r).acquire);
    Granules more;
    for (std::int32_t at = parts.begin; at < end; ++at) {
      std::int64_t granules = 0;
      for (const ResidencyId r : parts.kept) granules += at < stay(r).acquire ? local_extra_[row(r)] : 0;
      more.push_back(granules);
      if (local[static_cast<std::size_t>(at)] + more.back() > region_) return false;
    }
    for (std::size_t i = 0; i < more.size(); ++i) local[static_cast<std::size_t>(parts.begin) + i] += more[i];
    return true;
  }

  void take(const SectionParts& parts, const Granules& extra, Granules& demand, std::vector<std::int32_t>& from) const {
    const auto add = [&](std::int32_t begin, std::int32_t end, std::int64_t granules) {
      for (std::int32_t at = begin; at < end; ++at) demand[static_cast<std::size_t>(at)] += granules;
    };
    for (const ResidencyId r : parts.inside) add(stay(r).acquire, stay(r).release, -extra[row(r)]);
    for (const ResidencyId r : parts.kept) {
      if (from[row(r)] <= parts.begin) continue;
      add(parts.begin, from[row(r)], extra[row(r)]);
      from[row(r)] = parts.begin;
    }
  }

  const Program& program_;
  const HoleGranules& holes_;
  std::span<const SectionDraft> drafts_;
  std::int64_t region_;
  Granules local_extra_, local_;
};

/// Whether the region would hold the load if every candidate took nothing of it.
bool could_hold(const Program& program, const HoleGranules& holes, const std::vector<char>& candidates, double load) {
  Granules demand = collective_demand(program, holes, load);
  const Granules extra = extras(program, holes, load);
  for (const RoutedResidency& routed : program.routed) {
    if (candidates[row(routed.residency)] == 0) continue;
    const Residency& r = program.schedule.residencies[row(routed.residency)];
    for (std::int32_t at = r.acquire; at < r.release; ++at)
      demand[static_cast<std::size_t>(at)] -= extra[row(routed.residency)];
  }
  const std::int64_t region = dynamic_region(program.layout.arenas.front(), kPlanGranule).count;
  return std::all_of(demand.begin(), demand.end(), [&](std::int64_t granules) { return granules <= region; });
}

/// Largest load in [least, most) that `holds`, in steps of DynamicBound; `least` is taken to hold.
template <class Holds>
double largest(double least, double most, const Holds& holds) {
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = std::floor((least + most) / 2 * DynamicBound::kSteps) / DynamicBound::kSteps;
    if (middle <= least) break;
    (holds(middle) ? least : most) = middle;
  }
  return least;
}

/// With buffers for loads up to `most`.
ChunkChoice choose_up_to(const Graph& graph, const Program& program, const HoleGranules& holes,
                         const std::vector<char>& candidates, const std::function<bool(double)>& host_fits,
                         double most) {
  const std::vector<SectionDraft> drafts = draft_sections(graph, program, candidates, most);
  const ChunkSearch search(program, holes, drafts);
  const auto holds = [&](double load) { return load <= most && search.needed(load) && host_fits(load); };
  ChunkChoice choice{.limit = holds(most) ? most : largest(program.contingency_limit_f, most, holds)};
  const std::optional<std::vector<std::size_t>> needed = search.needed(choice.limit);
  if (!needed || needed->empty()) return {.limit = program.contingency_limit_f};
  for (const std::size_t i : *needed) {
    const std::vector<ChunkBuffer>& buffers = drafts[i].buffers;
    choice.sections.push_back({.chunks = kPlannedChunks,
                               .first_buffer = static_cast<std::int32_t>(choice.buffers.size()),
                               .buffer_count = static_cast<std::int32_t>(buffers.size())});
    choice.buffers.insert(choice.buffers.end(), buffers.begin(), buffers.end());
  }
  return choice;
}

/// With the sections, other holes are left: both limits must hold all the same.
bool holds_with(const ChunkChoice& choice, const Program& program) {
  Program with = program;
  with.sections = choice.sections;
  with.chunk_buffers = choice.buffers;
  with.collective_limit_f = choice.limit;
  HoleGranules holes(with);
  if (!holes.assign(with.contingency_limit_f)) return false;
  const std::int64_t region = dynamic_region(with.layout.arenas.front(), kPlanGranule).count;
  const Granules demand = collective_demand(with, holes, choice.limit);
  return std::all_of(demand.begin(), demand.end(), [&](std::int64_t granules) { return granules <= region; });
}

}  // namespace

ChunkChoice choose_chunks(const Graph& graph, const Program& program, const std::function<bool(double)>& host_fits) {
  ChunkChoice choice{.limit = program.contingency_limit_f};
  const double least = program.contingency_limit_f, worth = least * (1 + kLeastGain);
  const std::vector<char> candidates = inside_candidates(graph, program);
  if (std::none_of(candidates.begin(), candidates.end(), [](char c) { return c != 0; })) return choice;
  HoleGranules holes(program);
  (void)holes.assign(least);
  if (!could_hold(program, holes, candidates, worth) || !host_fits(worth)) return choice;
  const double most =
      largest(worth, least * kMostGain, [&](double load) { return could_hold(program, holes, candidates, load); });
  ChunkChoice found = choose_up_to(graph, program, holes, candidates, host_fits, most);
  if (found.limit >= worth && holds_with(found, program)) choice = std::move(found);
  return choice;
}

bool adopt_chunks(const Graph& graph, ChunkChoice choice, Program& program) {
  program.sections = std::move(choice.sections);
  program.chunk_buffers = std::move(choice.buffers);
  return !verify_program(graph, program);
}

}  // namespace tidemark::ladder
