// The default: orders side by side, then each independent piece that is still too high improved on its own.

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "planner/layout/check_packing.h"
#include "planner/layout/exact_cause.h"
#include "planner/layout/exact_parts.h"
#include "planner/layout/improve.h"
#include "planner/layout/packer.h"

namespace tidemark::layout {
namespace {

constexpr Bytes kMostHint = Bytes{1} << 60;  // beyond this an item could end out of range

bool low_enough(const PackAnswer& answer, const PackLimits& limits) {
  return answer.status == PackStatus::optimal || answer.packing.height_bytes <= limits.enough_bytes;
}

// Every item where its hint says, if that is a packing.
std::optional<Packing> hinted(const PackProblem& problem) {
  if (problem.hint.empty()) return std::nullopt;
  Packing packing{.offsets = problem.hint};
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    const PackItem& item = problem.items[i];
    const bool takes_part = item.takes_part();
    Bytes& offset = packing.offsets[i];
    // What is fixed needs no hint, and lies where it is fixed whatever that says.
    if (problem.fixed(i) != kAnywhere) offset = problem.fixed(i);
    if (takes_part && (offset < 0 || offset > kMostHint)) return std::nullopt;
    if (!takes_part) offset = 0;
    if (takes_part)
      packing.height_bytes = std::max(packing.height_bytes, offset + round_up(item.bytes, problem.alignment));
  }
  if (find_fault(problem, packing)) return std::nullopt;
  return packing;
}

// A piece that looks like another is packed like it.
using Shape = std::vector<std::tuple<std::int32_t, std::int32_t, Bytes>>;

class Pieces {
 public:
  Pieces(const PackProblem& problem, const PackLimits& limits, PackAnswer answer)
      : problem_(problem),
        limits_(limits),
        answer_(std::move(answer)),
        blocks_(problem),
        addresses_(blocks_.addresses(answer_.packing)),
        groups_(groups()) {}

  PackAnswer pack() {
    Effort effort(limits_.work, limits_.should_stop);
    for (const auto& group : groups_) {
      if (effort.over() || !answer_.cannot_fit.empty()) break;
      pack_group(group, effort);
    }
    Packing packing = blocks_.packing(addresses_);
    if (packing.height_bytes < answer_.packing.height_bytes) {
      answer_.packing = std::move(packing);
      answer_.packer = packer_;
    }
    if (!answer_.cannot_fit.empty()) {
      answer_.status = PackStatus::infeasible;
    } else if (answer_.packing.height_bytes <= answer_.bound_bytes) {
      answer_.status = PackStatus::optimal;
    }
    return std::move(answer_);
  }

 private:
  // Highest first. Where blocks have parts or are tied together, all is one piece.
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> groups() const {
    auto groups = independent_groups(blocks_);
    if (!blocks_.plain() && groups.size() > 1) {
      std::vector<std::uint32_t> all(blocks_.size());
      for (std::uint32_t b = 0; b < all.size(); ++b) all[b] = b;
      return {all};
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [&](const auto& a, const auto& b) { return height_of(a) > height_of(b); });
    return groups;
  }
  [[nodiscard]] Bytes height_of(const std::vector<std::uint32_t>& group) const {
    Bytes height = 0;
    for (const std::uint32_t b : group) height = std::max(height, addresses_[b] + blocks_.hulls()[b].bytes);
    return height;
  }

  void pack_group(const std::vector<std::uint32_t>& group, Effort& effort) {
    const Bytes goal = std::max(answer_.bound_bytes, limits_.enough_bytes);
    if (height_of(group) <= goal) return;
    const bool whole = groups_.size() == 1;
    const auto [known, fresh] = known_.try_emplace(whole ? Shape{} : shape_of(group));
    if (fresh) {
      Piece piece{
          .problem = whole ? problem_ : part_of(group), .blocks = Blocks({}), .should_stop = limits_.should_stop};
      piece.blocks = Blocks(piece.problem);
      for (const std::uint32_t b : group) piece.addresses.push_back(addresses_[b]);
      piece.height_bytes = height_of(group);
      piece.bound_bytes = answer_.bound_bytes;
      piece.enough_bytes = limits_.enough_bytes;
      improve(piece, effort);
      if (!piece.packer.empty()) packer_ = piece.packer;
      answer_.bound_bytes = piece.bound_bytes;
      if (!piece.cannot_fit.empty()) {
        answer_.cannot_fit = whole ? piece.cannot_fit
                                   : cannot_fit(problem_, limits_.enough_bytes,
                                                {.work = limits_.work, .should_stop = limits_.should_stop});
      }
      known->second = std::move(piece.addresses);
    }
    for (std::size_t k = 0; k < group.size(); ++k) addresses_[group[k]] = known->second[k];
  }

  [[nodiscard]] Shape shape_of(const std::vector<std::uint32_t>& group) const {
    Shape shape;
    std::int32_t first = blocks_.hulls()[group.front()].begin;
    for (const std::uint32_t b : group) first = std::min(first, blocks_.hulls()[b].begin);
    for (const std::uint32_t b : group) {
      const PackItem& hull = blocks_.hulls()[b];
      shape.emplace_back(hull.begin - first, hull.end - first, hull.bytes);
    }
    return shape;
  }
  [[nodiscard]] PackProblem part_of(const std::vector<std::uint32_t>& group) const {
    PackProblem part{.alignment = problem_.alignment};
    for (const std::uint32_t b : group) part.items.push_back(blocks_.hulls()[b]);
    return part;
  }

  const PackProblem& problem_;
  const PackLimits& limits_;
  PackAnswer answer_;
  Blocks blocks_;
  std::vector<Bytes> addresses_;
  std::vector<std::vector<std::uint32_t>> groups_;
  std::map<Shape, std::vector<Bytes>> known_;
  std::string_view packer_;
};

PackAnswer pack(const PackProblem& problem, const PackLimits& limits) {
  PackAnswer answer = best_order(problem, limits);
  if (std::optional<Packing> packing = hinted(problem); packing && packing->height_bytes < answer.packing.height_bytes)
    answer = answer_of(problem, *std::move(packing), "hint");
  if (limits.enough_bytes > 0 && answer.bound_bytes > limits.enough_bytes) {
    answer.cannot_fit =
        cannot_fit(problem, limits.enough_bytes, {.work = limits.work, .should_stop = limits.should_stop});
    if (!answer.cannot_fit.empty()) {
      answer.status = PackStatus::infeasible;
      return answer;
    }
  }
  if (low_enough(answer, limits) || limits.work <= 0 || (limits.should_stop && limits.should_stop())) return answer;
  return Pieces(problem, limits, std::move(answer)).pack();
}

}  // namespace

extern const Packer kAuto;
const Packer kAuto = {.name = "auto", .help = "orders side by side, then the best of them improved", .pack = pack};

}  // namespace tidemark::layout
