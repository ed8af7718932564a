#include "swap/verify_fixed_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

namespace tidemark::swap {
namespace {

/// The first may find waits needless that the ones behind it need.
constexpr int kStepsJudged = 4;

constexpr std::int32_t kNoContent = -1;

/// How many operations of each lane are known to be over.
using Clock = std::array<std::int64_t, kFixedLaneCount>;

constexpr std::size_t index_of(FixedLane lane) {
  return static_cast<std::size_t>(lane);
}

void join(Clock& clock, const Clock& other) {
  for (std::size_t lane = 0; lane < clock.size(); ++lane) clock[lane] = std::max(clock[lane], other[lane]);
}

/// What was done to some bytes: the latest of each lane.
struct Uses {
  Clock reads{}, writes{};

  [[nodiscard]] bool all_known(const Clock& clock, bool reads_too) const {
    for (std::size_t lane = 0; lane < clock.size(); ++lane)
      if (writes[lane] > clock[lane] || (reads_too && reads[lane] > clock[lane])) return false;
    return true;
  }
};

/// Which version of which storage some bytes hold.
using Content = std::map<std::size_t, std::int32_t>;

struct Granule {
  bool mapped = false;
  Content content;
  Uses uses;
};

struct HostCopy {
  std::vector<Content> content;  ///< by granule of the range
  Uses uses;
};

class Judge {
 public:
  Judge(const CapturedPieces& step, const FixedLayout& layout) : step_(step), layout_(layout) {}

  Status judge() {
    if (!well_formed() || !addresses_hold() || !peak_holds()) return fault();
    begin();
    const std::vector<bool> opening = mapped();
    for (int steps = 0; steps < kStepsJudged; ++steps) {
      if (!play_step()) return fault();
      if (mapped() != opening && !wrong("a step ends with other granules than it began with")) return fault();
    }
    return {};
  }

 private:
  bool wrong(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  [[nodiscard]] Status fault() const { return internal_fault("fixed layout: " + problem_); }

  [[nodiscard]] const FixedRange& range_of(std::size_t storage) const {
    return layout_.ranges[row(layout_.range_of[storage])];
  }
  /// Granules of the address space that a storage and so many bytes behind it lie in.
  [[nodiscard]] std::pair<std::size_t, std::size_t> granules_of(std::size_t storage, Bytes pad = 0) const {
    const Bytes begin = layout_.offset_of[storage], granule = layout_.units.granule_bytes;
    const Bytes end = begin + step_.storages[storage].bytes + pad;
    return {static_cast<std::size_t>(begin / granule), static_cast<std::size_t>((end + granule - 1) / granule)};
  }
  [[nodiscard]] std::vector<bool> mapped() const {
    std::vector<bool> is_mapped;
    for (const Granule& granule : granules_) is_mapped.push_back(granule.mapped);
    return is_mapped;
  }

  bool well_formed() {
    const std::size_t storages = step_.storages.size();
    if (layout_.pieces != step_.pieces || layout_.before.size() != static_cast<std::size_t>(step_.pieces) + 1)
      return wrong("it is that of another number of pieces");
    if (layout_.range_of.size() != storages || layout_.offset_of.size() != storages)
      return wrong("it is that of another number of storages");
    for (const RangeId range : layout_.range_of)
      if (range < RangeId{0} || row(range) >= layout_.ranges.size()) return wrong("a storage has no range");
    return true;
  }

  bool addresses_hold() {
    const Bytes granule = layout_.units.granule_bytes;
    std::int64_t free_from = 0;
    for (std::size_t r = 0; r < layout_.ranges.size(); ++r) {
      const FixedRange& range = layout_.ranges[r];
      if (range.first_granule < free_from) return wrong(fmt::format("range {} overlaps the one before", r));
      free_from = range.first_granule + range.granules;
    }
    if (free_from > layout_.space_granules) return wrong("a range lies outside the address space");
    std::vector<std::pair<Bytes, std::size_t>> by_offset;
    for (std::size_t s = 0; s < step_.storages.size(); ++s) {
      const FixedRange& range = range_of(s);
      const Bytes begin = layout_.offset_of[s], end = begin + step_.storages[s].bytes;
      const Bytes base = range.first_granule * granule;
      if (begin % layout_.units.alignment_bytes != 0) return wrong(fmt::format("storage {} is not aligned", s));
      if (begin < base || end > base + range.bytes ||
          end + layout_.units.tail_pad_bytes > base + range.granules * granule)
        return wrong(fmt::format("storage {} lies outside its range", s));
      by_offset.emplace_back(begin, s);
    }
    std::ranges::sort(by_offset);
    for (std::size_t i = 1; i < by_offset.size(); ++i) {
      const auto [begin, before] = by_offset[i - 1];
      if (begin + step_.storages[before].bytes + layout_.units.tail_pad_bytes > by_offset[i].first)
        return wrong(fmt::format("storages {} and {} overlap", before, by_offset[i].second));
    }
    return true;
  }

  [[nodiscard]] static bool has_memory(const PieceStorage& storage, PieceId piece) {
    const bool lives = storage.between != BetweenSteps::nowhere ||
                       (storage.touches.front().piece <= piece && piece <= storage.touches.back().piece);
    return lives && std::ranges::none_of(storage.away,
                                         [piece](PieceSpan gap) { return gap.first <= piece && piece <= gap.last; });
  }

  bool peak_holds() {
    std::int64_t peak = 0;
    for (std::int32_t piece = 0; piece < step_.pieces; ++piece) {
      std::vector<bool> in_use(layout_.ranges.size());
      for (std::size_t s = 0; s < step_.storages.size(); ++s)
        if (has_memory(step_.storages[s], PieceId{piece})) in_use[row(layout_.range_of[s])] = true;
      std::int64_t granules = 0;
      for (std::size_t r = 0; r < in_use.size(); ++r) granules += in_use[r] ? layout_.ranges[r].granules : 0;
      peak = std::max(peak, granules);
    }
    std::vector<std::int64_t> opening = layout_.opening;
    std::ranges::sort(opening);
    if (std::ranges::adjacent_find(opening) != opening.end()) return wrong("a granule is opened twice");
    if (!opening.empty() && (opening.front() < 0 || opening.back() >= layout_.space_granules))
      return wrong("a granule is opened outside the address space");
    const std::int64_t most = std::min(peak + layout_.spare_granules, layout_.space_granules);
    if (layout_.spare_granules < 0 || layout_.peak_granules != most || std::ssize(opening) != most)
      return wrong(fmt::format("the fullest piece needs {} granules, {} are to spare, it takes {}", peak,
                               layout_.spare_granules, opening.size()));
    return true;
  }

  /// Everything as it is before the first step: what has content has its version 0.
  void begin() {
    granules_.resize(static_cast<std::size_t>(layout_.space_granules));
    for (const std::int64_t at : layout_.opening) granules_[static_cast<std::size_t>(at)].mapped = true;
    hosts_.resize(layout_.ranges.size());
    for (std::size_t r = 0; r < hosts_.size(); ++r)
      hosts_[r].content.resize(static_cast<std::size_t>(layout_.ranges[r].granules));
    versions_.assign(step_.storages.size(), kNoContent);
    for (std::size_t s = 0; s < step_.storages.size(); ++s) {
      const BetweenSteps between = step_.storages[s].between;
      if (between == BetweenSteps::nowhere) continue;
      versions_[s] = 0;
      const auto [first, end] = granules_of(s);
      for (std::size_t at = first; at < end; ++at)
        (between == BetweenSteps::on_device ? granules_[at].content : host_content(s, at))[s] = 0;
    }
  }

  Content& host_content(std::size_t storage, std::size_t granule) {
    const auto first = static_cast<std::size_t>(range_of(storage).first_granule);
    return hosts_[row(layout_.range_of[storage])].content[granule - first];
  }

  bool play_step() {
    for (std::size_t s = 0; s < versions_.size(); ++s)
      if (step_.storages[s].between == BetweenSteps::nowhere) versions_[s] = kNoContent;
    for (boundary_ = 0; boundary_ <= step_.pieces; ++boundary_) {
      for (const FixedAction& action : layout_.before[static_cast<std::size_t>(boundary_)])
        if (!std::visit([this](const auto& what) { return carry_out(what); }, action)) return false;
      if (boundary_ < step_.pieces && !launch(PieceId{boundary_})) return false;
    }
    return content_is_kept();
  }

  Clock& clock(FixedLane lane) { return clocks_[index_of(lane)]; }

  /// The host submits an operation: it comes behind what the host knows.
  void submit(FixedLane lane) {
    join(clock(lane), clock(FixedLane::host));
    clock(lane)[index_of(lane)] = ++operations_[index_of(lane)];
  }

  bool use(Uses& uses, FixedLane lane, bool writes) {
    if (!uses.all_known(clock(lane), writes)) return false;
    (writes ? uses.writes : uses.reads)[index_of(lane)] = operations_[index_of(lane)];
    return true;
  }

  bool carry_out(const LaneWait& wait) {
    const auto found = points_.find({wait.point.what, wait.point.index});
    if (found != points_.end()) join(clock(wait.lane), found->second);
    return true;
  }

  bool carry_out(const GranuleMove& move) {
    for (std::int64_t i = 0; i < move.granules; ++i) {
      const std::int64_t from = move.from + i, to = move.to + i;
      if (from < 0 || to < 0 || from >= layout_.space_granules || to >= layout_.space_granules)
        return wrong(fmt::format("before piece {}: a move outside the address space", boundary_));
      Granule& source = granules_[static_cast<std::size_t>(from)];
      Granule& target = granules_[static_cast<std::size_t>(to)];
      if (!source.mapped) return wrong(fmt::format("before piece {}: no memory at granule {}", boundary_, from));
      if (target.mapped) return wrong(fmt::format("before piece {}: granule {} has memory", boundary_, to));
      if (!source.uses.all_known(clock(FixedLane::host), true))
        return wrong(fmt::format("before piece {}: granule {} moves while it may be in use", boundary_, from));
      target = {.mapped = true, .content = {}, .uses = source.uses};
      source = {};
    }
    return true;
  }

  bool carry_out(const RangeCopy& copy) {
    if (copy.range < RangeId{0} || row(copy.range) >= layout_.ranges.size())
      return wrong(fmt::format("before piece {}: a copy of no range", boundary_));
    const FixedLane lane = copy.out ? FixedLane::d2h : FixedLane::h2d;
    const FixedRange& range = layout_.ranges[row(copy.range)];
    HostCopy& host = hosts_[row(copy.range)];
    const Bytes granule = layout_.units.granule_bytes;
    const std::string where =
        fmt::format("before piece {}: range {} is copied {}", boundary_, row(copy.range), copy.out ? "out" : "in");
    submit(lane);
    if (!use(host.uses, lane, copy.out)) return wrong(where + " while its host memory may be in use");
    for (std::int64_t i = 0; i < (range.bytes + granule - 1) / granule; ++i) {
      Granule& device = granules_[static_cast<std::size_t>(range.first_granule + i)];
      if (!device.mapped) return wrong(where + " where it has no memory");
      if (!use(device.uses, lane, !copy.out)) return wrong(where + " while its memory may be in use");
      Content& kept = host.content[static_cast<std::size_t>(i)];
      (copy.out ? kept : device.content) = copy.out ? device.content : kept;
    }
    const auto what = copy.out ? FixedPoint::What::copy_out : FixedPoint::What::copy_in;
    points_[{what, static_cast<std::int32_t>(copy.range)}] = clock(lane);
    return true;
  }

  bool launch(PieceId piece) {
    submit(FixedLane::pieces);
    for (std::size_t s = 0; s < step_.storages.size(); ++s)
      for (const PieceTouch& touch : step_.storages[s].touches)
        if (touch.piece == piece && !touch_storage(s, touch)) return false;
    points_[{FixedPoint::What::piece, static_cast<std::int32_t>(piece)}] = clock(FixedLane::pieces);
    return true;
  }

  bool touch_storage(std::size_t s, const PieceTouch& touch) {
    const std::int32_t expected = versions_[s];
    if (touch.writes) versions_[s] = ++newest_;
    const auto say = [&](const char* what) {
      return wrong(fmt::format("piece {} touches storage {} {}", row(touch.piece), s, what));
    };
    const auto [first, end] = granules_of(s);
    for (std::size_t at = first; at < granules_of(s, layout_.units.tail_pad_bytes).second; ++at)
      if (!granules_[at].mapped) return say("where it has no memory");
    for (std::size_t at = first; at < end; ++at) {
      Granule& granule = granules_[at];
      if (touch.reads && !use(granule.uses, FixedLane::pieces, false)) return say("while it may be written");
      if (touch.writes && !use(granule.uses, FixedLane::pieces, true)) return say("while it may be in use");
      if (touch.reads && !holds(granule.content, s, expected)) return say("without its content");
      if (touch.writes) granule.content[s] = versions_[s];
    }
    return true;
  }

  [[nodiscard]] static bool holds(const Content& content, std::size_t storage, std::int32_t version) {
    const auto found = content.find(storage);
    return found != content.end() && version != kNoContent && found->second == version;
  }

  bool content_is_kept() {
    for (std::size_t s = 0; s < step_.storages.size(); ++s) {
      const BetweenSteps between = step_.storages[s].between;
      if (between == BetweenSteps::nowhere) continue;
      const auto [first, end] = granules_of(s);
      for (std::size_t at = first; at < end; ++at) {
        const bool on_device = between == BetweenSteps::on_device;
        if (on_device && !granules_[at].mapped) return wrong(fmt::format("storage {} ends without memory", s));
        if (!holds(on_device ? granules_[at].content : host_content(s, at), s, versions_[s]))
          return wrong(fmt::format("storage {} ends without its content", s));
      }
    }
    return true;
  }

  const CapturedPieces& step_;
  const FixedLayout& layout_;
  std::string problem_;
  std::vector<Granule> granules_;  ///< by granule of the address space; what is mapped moves with its memory
  std::vector<HostCopy> hosts_;    ///< by RangeId
  std::vector<std::int32_t> versions_;
  std::int32_t newest_ = 0;
  std::array<Clock, kFixedLaneCount> clocks_{};
  Clock operations_{};
  std::map<std::pair<FixedPoint::What, std::int32_t>, Clock> points_;
  std::int32_t boundary_ = 0;
};

}  // namespace

Status verify_fixed_layout(const CapturedPieces& step, const FixedLayout& layout) {
  return Judge(step, layout).judge();
}

}  // namespace tidemark::swap
