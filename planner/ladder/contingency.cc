#include "planner/ladder/contingency.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "core/hole_granules.h"
#include "core/spare_host.h"
#include "planner/ladder/chunk_search.h"
#include "planner/ladder/contingency_drafts.h"
#include "planner/ladder/dynamic_bound.h"
#include "planner/layout/lay_out.h"

namespace tidemark::ladder {
namespace {

constexpr int kMostAttempts = 16;
/// Where host memory binds, the limit is found to within this many halvings.
constexpr int kHostBisections = 8;
/// Share of the nominal step that all copies of one direction may occupy.
constexpr double kLinkShare = 0.8;
/// How far beyond the limit so far the worth of a class is looked at.
constexpr double kLookAhead = 1.25;
/// With holes, a first try is this share of the limit above it.
constexpr std::int64_t kFirstHoleStride = 64;

class LevelSearch {
 public:
  LevelSearch(const decide::sites::DecisionProblem& problem, const decide::gaps::Choice& choice, Bytes host_budget,
              double load, const Program& program)
      : classes_(draft_contingencies(problem, choice, program)),
        bound_(program),
        spare_(program),
        limit_(load),
        is_source_(program.schedule.residencies.size(), 0),
        is_out_(program.schedule.residencies.size(), 0) {
    if (program.layout.arenas.size() > 1) {
      const Arena& host = program.layout.arenas[1];
      host_alignment_ = host.alignment_bytes;
      host_base_ = round_up(host.height_bytes, host_alignment_);
      host_room_ = host_budget - host_base_;
    }
    if (!problem.clock_start_ns.empty())
      link_room_ns_ = static_cast<std::int64_t>(kLinkShare * static_cast<double>(problem.clock_start_ns.back()));
    for (std::size_t g = 0; g < choice.size(); ++g)
      if (choice[g] == Action::swap) link_room_ns_ -= problem.gaps[g].copy_in.link_ns;
    raise_limit();
  }

  void run() {
    std::vector<char> tried(classes_.size(), 0);
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      const auto binding = bound_.first_overflow(limit_ + 1.0 / DynamicBound::kSteps);
      if (!binding) break;
      const std::optional<std::size_t> best = most_to_give(*binding, tried);
      if (!best) break;
      tried[*best] = 1;
      const bool recompute_first = classes_[*best].recompute_first;
      if (!accept(classes_[*best], recompute_first)) accept(classes_[*best], !recompute_first);
    }
    drop(committed_);
  }

  [[nodiscard]] double limit() const { return limit_; }
  /// Raises the limit as far as the holes of the layout carry it on top.
  void offer_holes(Program& program);
  /// Moves what was accepted into the program.
  void write(Program& program);
  /// Whether host memory serves the load, with what was accepted.
  [[nodiscard]] bool host_fits(double load) const { return pack_host(load).has_value(); }
  /// Makes room for larger storages in what was written. REQUIRES: host_fits(limit).
  void enlarge(double limit, Program& program);

 private:
  /// The class not yet tried whose storages take most beyond the limit at a half-step inside their gaps.
  [[nodiscard]] std::optional<std::size_t> most_to_give(std::int32_t at, const std::vector<char>& tried) const {
    std::optional<std::size_t> best;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      if (tried[i] != 0) continue;
      const ContingencyClass& c = classes_[i];
      const std::int64_t given = std::max(given_at(c.swaps, at), given_at(c.recomputes, at));
      if (given <= most) continue;
      most = given;
      best = i;
    }
    return best;
  }

  [[nodiscard]] std::int64_t given_at(const std::vector<ContingencyDraft>& drafts, std::int32_t at) const {
    std::int64_t granules = 0;
    for (const ContingencyDraft& d : drafts)
      if (d.from <= at && at < d.until)
        granules +=
            bound_.extra(d.contingency.residency, limit_ * kLookAhead) - bound_.extra(d.contingency.residency, limit_);
    return granules;
  }

  /// Adds a class to the level under way; the level is complete when the limit rises. False: it cannot be had.
  bool accept(const ContingencyClass& c, bool recompute);
  /// Takes back all but the first `count` drafts accepted.
  void drop(std::size_t count);
  void mark(const ContingencyDraft& draft, int by);
  /// Raises the limit as far as the dynamic region and the host memory go with what is accepted, and completes the
  /// level if it rose. False: there is not even host memory at the limit so far.
  bool raise_limit();
  /// Host offsets and freed bytes of what was accepted, at the limit.
  void write_sizes(Program& program);
  /// Offsets of all copies accepted, with room for storages at `load`; nothing if they, and what planned copies take
  /// beyond their slots, do not fit the host memory.
  [[nodiscard]] std::optional<layout::Packing> pack_host(double load) const;

  std::vector<ContingencyClass> classes_;
  DynamicBound bound_;
  SpareHostBound spare_;
  double limit_ = 1;
  std::vector<std::int32_t> is_source_, is_out_;  // per residency: how often, of what was accepted
  Bytes host_base_ = 0, host_room_ = -1, host_alignment_ = 1;
  std::int64_t link_room_ns_ = 0;
  std::vector<ContingencyDraft> accepted_;
  std::size_t committed_ = 0;  // of accepted_: complete levels
  layout::Packing host_;       // of those
};

std::optional<layout::Packing> LevelSearch::pack_host(double load) const {
  layout::PackProblem problem{.alignment = host_alignment_};
  bool any = false;
  for (const ContingencyDraft& d : accepted_) {
    const bool swap = d.contingency.kind == Contingency::Kind::swap;
    any = any || swap;
    problem.items.push_back(
        {.begin = d.host_from, .end = d.host_until, .bytes = swap ? bound_.bytes(d.contingency.residency, load) : 0});
  }
  const std::int64_t pieces = spare_.demand(load);
  const Bytes room = std::max<Bytes>(0, host_room_) - pieces * kHostPiece;
  if (room < 0 && pieces > 0) return std::nullopt;
  layout::Packing packing{.offsets = std::vector<Bytes>(problem.items.size(), 0), .height_bytes = 0};
  if (any) packing = layout::pack_to_fit(problem, room).packing;
  if (packing.height_bytes > room) return std::nullopt;
  return packing;
}

bool LevelSearch::raise_limit() {
  double limit = bound_.limit(limit_);
  std::optional<layout::Packing> host = pack_host(limit);
  if (!host && limit > limit_) {
    double too_much = std::exchange(limit, limit_);
    host = pack_host(limit);
    for (int i = 0; host && i < kHostBisections; ++i) {
      const double middle = std::floor((limit + too_much) / 2 * DynamicBound::kSteps) / DynamicBound::kSteps;
      if (middle <= limit) break;
      std::optional<layout::Packing> packed = pack_host(middle);
      (packed ? limit : too_much) = middle;
      if (packed) host = std::move(packed);
    }
  }
  if (!host) return false;
  if (limit <= limit_) return true;
  limit_ = limit;
  host_ = std::move(*host);
  committed_ = accepted_.size();
  return true;
}

bool LevelSearch::accept(const ContingencyClass& c, bool recompute) {
  if (!recompute && (c.swap_link_ns > link_room_ns_ || host_room_ <= 0)) return false;
  const std::size_t before = accepted_.size();
  std::vector<DynamicBound::Window> windows;
  for (const ContingencyDraft& d : recompute ? c.recomputes : c.swaps) {
    const ResidencyId residency = d.contingency.residency;
    if (is_source_[row(residency)] > 0) continue;
    if (std::any_of(d.sources.begin(), d.sources.end(), [&](ResidencyId r) { return is_out_[row(r)] > 0; })) continue;
    accepted_.push_back(d);
    windows.push_back({.residency = residency, .from = d.from, .until = d.until});
  }
  if (windows.empty()) return false;
  bound_.add(windows);
  for (std::size_t i = before; i < accepted_.size(); ++i) mark(accepted_[i], 1);
  if (raise_limit()) return true;
  drop(before);
  return false;
}

void LevelSearch::mark(const ContingencyDraft& draft, int by) {
  is_out_[row(draft.contingency.residency)] += by;
  for (const ResidencyId source : draft.sources) is_source_[row(source)] += by;
  if (draft.contingency.kind == Contingency::Kind::swap) link_room_ns_ -= by * draft.link_ns;
}

void LevelSearch::drop(std::size_t count) {
  std::vector<ResidencyId> dropped;
  for (std::size_t i = count; i < accepted_.size(); ++i) {
    dropped.push_back(accepted_[i].contingency.residency);
    mark(accepted_[i], -1);
  }
  bound_.remove(dropped);
  accepted_.resize(count);
}

void LevelSearch::offer_holes(Program& program) {
  // Only the stays go by contingencies; they are written when their sizes are known.
  for (const ContingencyDraft& d : accepted_) program.contingencies.push_back(d.contingency);
  HoleGranules holes(program);
  program.contingencies.clear();
  const auto carries = [&](std::int64_t steps) {
    const double load = static_cast<double>(steps) / DynamicBound::kSteps;
    if (!holes.suffices(load)) return false;
    std::optional<layout::Packing> host = pack_host(load);
    if (!host) return false;
    limit_ = load;
    host_ = std::move(*host);
    return true;
  };
  const auto most = static_cast<std::int64_t>(DynamicBound::kMostLoad * DynamicBound::kSteps);
  auto low = static_cast<std::int64_t>(std::floor(limit_ * DynamicBound::kSteps));
  std::int64_t stride = std::max<std::int64_t>(1, low / kFirstHoleStride);
  for (; low + stride <= most && carries(low + stride); stride *= 2) low += stride;
  std::int64_t high = std::min(most + 1, low + stride);
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (carries(middle) ? low : high) = middle;
  }
}

void LevelSearch::write_sizes(Program& program) {
  if (host_.height_bytes > 0) {
    Arena& host = program.layout.arenas[1];
    host.dynamic_bytes = host_base_ + host_.height_bytes - host.height_bytes;
  }
  for (std::size_t i = 0; i < accepted_.size(); ++i) {
    Contingency& c = accepted_[i].contingency;
    c.freed_bytes = bound_.extra(c.residency, limit_) * kPlanGranule;
    if (c.kind == Contingency::Kind::swap) c.host_offset = host_base_ + host_.offsets[i];
  }
}

void LevelSearch::enlarge(double limit, Program& program) {
  limit_ = limit;
  host_ = *pack_host(limit);
  write_sizes(program);
  for (std::size_t i = 0; i < accepted_.size(); ++i) program.contingencies[i] = accepted_[i].contingency;
  program.collective_limit_f = limit;
}

void LevelSearch::write(Program& program) {
  write_sizes(program);
  std::sort(accepted_.begin(), accepted_.end(), [](const ContingencyDraft& a, const ContingencyDraft& b) {
    return std::pair(a.contingency.trigger, a.contingency.residency) <
           std::pair(b.contingency.trigger, b.contingency.residency);
  });
  for (ContingencyDraft& d : accepted_) {
    if (d.contingency.kind == Contingency::Kind::recompute) {
      d.contingency.first_step = static_cast<std::int32_t>(program.contingency_steps.size());
      d.contingency.step_count = static_cast<std::int32_t>(d.steps.size());
      for (ContingencyStep& step : d.steps) program.contingency_steps.push_back(std::move(step));
    }
    program.contingencies.push_back(d.contingency);
  }
  program.contingency_limit_f = program.collective_limit_f = limit_;
}

}  // namespace

void add_contingencies(const decide::sites::DecisionProblem& problem, const decide::gaps::Choice& choice,
                       const ContingencyRequest& request, Program& program) {
  double load = request.load;
  program.contingency_limit_f = program.collective_limit_f = load;
  if (program.routed.empty()) return;
  // Sites keep their load as a float, which may be a hair below `load`, and planned bytes go by theirs.
  double least = load;
  for (const RoutedResidency& routed : program.routed)
    least = std::min(least, static_cast<double>(problem.graph->sites[row(routed.site)].load));
  if (DynamicBound(program).first_overflow(load) || SpareHostBound(program).demand(load) > 0) load = least;
  LevelSearch search(problem, choice, request.host_budget, load, program);
  search.run();
  search.offer_holes(program);
  search.write(program);
  if (!request.chunk_dispatch) return;
  ChunkChoice chunks = choose_chunks(*problem.graph, program, [&](double f) { return search.host_fits(f); });
  if (chunks.sections.empty()) return;
  Program chunked = program;
  search.enlarge(chunks.limit, chunked);
  if (adopt_chunks(*problem.graph, std::move(chunks), chunked)) program = std::move(chunked);
}

}  // namespace tidemark::ladder
