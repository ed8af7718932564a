#include "planner/graph_build/liveness.h"

#include <algorithm>
#include <array>

namespace tidemark::graph_build {
namespace {

/// Per storage template: may a plan end the residency of its storages inside their live range?
std::vector<bool> find_movable(const Graph& graph) {
  std::vector<bool> movable;
  movable.reserve(graph.storage_templates.size());
  for (const StorageTemplate& storage : graph.storage_templates) movable.push_back(storage.swappable);
  for (std::size_t b = 0; b < graph.blocks.size(); ++b) {
    const std::size_t first = row(graph.blocks[b].first_storage_template);
    for (const Recipe& recipe : graph.recipes_of(id_of<BlockId>(b))) {
      if (!recipe.pure) continue;
      for (std::int32_t local : recipe.outputs) movable[first + static_cast<std::size_t>(local)] = true;
    }
  }
  return movable;
}

/// Calls visit(op row, storage) once for each op and storage it touches, ops ascending.
template <class Visit>
void for_each_touch(const Graph& graph, std::vector<std::int32_t>& last_op, Visit visit) {
  last_op.assign(graph.storages.size(), -1);
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    for (const Access& access : graph.accesses_of(id_of<OpId>(op))) {
      std::int32_t& last = last_op[row(access.storage)];
      if (last == static_cast<std::int32_t>(op)) continue;
      last = static_cast<std::int32_t>(op);
      visit(op, access.storage);
    }
  }
}

void collect_touches(const Graph& graph, Liveness& liveness) {
  std::vector<std::int32_t> last_op;
  liveness.first_touch.assign(graph.storages.size() + 1, 0);
  for_each_touch(graph, last_op, [&](std::size_t, StorageId s) { ++liveness.first_touch[row(s) + 1]; });
  for (std::size_t s = 0; s < graph.storages.size(); ++s) liveness.first_touch[s + 1] += liveness.first_touch[s];
  liveness.touches.resize(static_cast<std::size_t>(liveness.first_touch.back()));
  std::vector<std::int32_t> fill(liveness.first_touch.begin(), liveness.first_touch.end() - 1);
  for_each_touch(graph, last_op, [&](std::size_t op, StorageId s) {
    liveness.touches[static_cast<std::size_t>(fill[row(s)]++)] = id_of<OpId>(op);
  });
}

void collect_ranges(const Graph& graph, Liveness& liveness) {
  liveness.ranges.resize(graph.storages.size());
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    const auto id = id_of<StorageId>(s);
    const std::span<const OpId> touches = liveness.touches_of(id);
    const StorageTemplate& of = graph.template_of(id);
    const OpId held = graph.storages[s].held_until;
    const bool there = of.initial && (of.lasting || held != kNone<OpId>);
    if (touches.empty() && !there) continue;
    LiveRange& range = liveness.ranges[s];
    range.begin = of.initial ? 0 : static_cast<std::int32_t>(touches.front());
    range.end = touches.empty() ? 0 : static_cast<std::int32_t>(touches.back()) + 1;
    if (held != kNone<OpId>) range.end = std::max(range.end, static_cast<std::int32_t>(held) + 1);
    if (of.lasting) range.end = static_cast<std::int32_t>(graph.ops.size());
  }
}

/// Bytes live at each op, of the storages that `counts` selects: one prefix sum over begins and ends.
template <class Counts>
std::vector<Bytes> sum_live(const Graph& graph, const std::vector<LiveRange>& ranges, Counts counts) {
  std::vector<Bytes> bytes(graph.ops.size() + 1, 0);
  for (std::size_t s = 0; s < ranges.size(); ++s) {
    if (!counts(graph.storages[s])) continue;
    bytes[static_cast<std::size_t>(ranges[s].begin)] += graph.storages[s].bytes;
    bytes[static_cast<std::size_t>(ranges[s].end)] -= graph.storages[s].bytes;
  }
  for (std::size_t op = 1; op < bytes.size(); ++op) bytes[op] += bytes[op - 1];
  bytes.pop_back();
  return bytes;
}

/// What cannot leave stays for its live range in every plan; of the rest, an op needs what it touches.
Bytes find_working_set(const Graph& graph, const std::vector<LiveRange>& ranges) {
  const std::vector<bool> movable = find_movable(graph);
  const auto is_movable = [&](const Storage& s) { return static_cast<bool>(movable[row(s.storage_template)]); };
  std::vector<Bytes> needed = sum_live(graph, ranges, [&](const Storage& s) { return !is_movable(s); });
  std::vector<std::int32_t> last_op;
  for_each_touch(graph, last_op, [&](std::size_t op, StorageId s) {
    const Storage& storage = graph.storages[row(s)];
    if (is_movable(storage)) needed[op] += storage.bytes;
  });
  return needed.empty() ? 0 : *std::max_element(needed.begin(), needed.end());
}

/// The last op, per lane, that an op is known to run after. -1: none.
using LaneClock = std::array<std::int32_t, kLaneCount>;

constexpr LaneClock kNothing = [] {
  LaneClock clock{};
  clock.fill(-1);
  return clock;
}();

void join(LaneClock& clock, const LaneClock& other) {
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) clock[lane] = std::max(clock[lane], other[lane]);
}

/// Who touched a storage since its last write, per lane. Later ops of a lane stand for the earlier ones.
struct StorageState {
  std::int32_t writer = -1;
  LaneClock readers = kNothing;
};

/// In which section of its site's row work an op is (core/row_sections.h).
class Sections {
 public:
  explicit Sections(const Graph& graph) : ends_(graph.sites.size()) {
    for (std::size_t op = 0; op < graph.ops.size(); ++op)
      if (graph.op_templates[row(graph.ops[op].op_template)].ends_rows)
        ends_[row(graph.ops[op].site)].push_back(id_of<OpId>(op));
  }
  /// What comes behind the last end is of the last section.
  [[nodiscard]] bool is_one(SiteId site, OpId a, OpId b) const {
    const std::vector<OpId>& ends = ends_[row(site)];
    if (ends.empty()) return false;
    const auto of = [&](OpId op) { return std::min(std::ranges::lower_bound(ends, op), ends.end() - 1); };
    return of(a) == of(b);
  }

 private:
  std::vector<std::vector<OpId>> ends_;  ///< per site, ascending
};

class WaitAnalysis {
 public:
  explicit WaitAnalysis(const Graph& graph) : graph_(graph), storages_(graph.storages.size()) {
    lanes_.fill(kNothing);
    lane_of_.reserve(graph.ops.size());
    for (const Op& op : graph.ops) lane_of_.push_back(graph.op_templates[row(op.op_template)].lane);
    clocks_.resize(graph.ops.size());
  }

  OpWaits run() && {
    waits_.first.reserve(graph_.ops.size() + 1);
    for (std::size_t op = 0; op < graph_.ops.size(); ++op) {
      waits_.first.push_back(static_cast<std::int32_t>(waits_.predecessors.size()));
      add_waits(op, find_needed(op));
      record(op);
    }
    waits_.first.push_back(static_cast<std::int32_t>(waits_.predecessors.size()));
    return std::move(waits_);
  }

 private:
  void need(LaneClock& needed, std::int32_t op) const {
    if (op < 0) return;
    std::int32_t& last = needed[static_cast<std::size_t>(lane_of_[static_cast<std::size_t>(op)])];
    last = std::max(last, op);
  }

  /// The last op per lane that the data of `op` depends on.
  [[nodiscard]] LaneClock find_needed(std::size_t op) const {
    LaneClock needed = kNothing;
    for (const Access& access : graph_.accesses_of(id_of<OpId>(op))) {
      const StorageState& state = storages_[row(access.storage)];
      need(needed, state.writer);
      if (access.kind == AccessKind::write) join(needed, state.readers);
    }
    return needed;
  }

  /// A later op may know the earlier ones, never the other way round: taking the latest first leaves no redundant wait.
  void add_waits(std::size_t op, LaneClock needed) {
    LaneClock& known = lanes_[static_cast<std::size_t>(lane_of_[op])];
    for (std::size_t round = 0; round < kLaneCount; ++round) {
      const auto latest = std::max_element(needed.begin(), needed.end());
      const std::int32_t predecessor = *latest;
      if (predecessor < 0) break;
      *latest = -1;
      if (predecessor <= known[static_cast<std::size_t>(latest - needed.begin())]) continue;
      waits_.predecessors.push_back(static_cast<OpId>(predecessor));
      join(known, clocks_[static_cast<std::size_t>(predecessor)]);
    }
    known[static_cast<std::size_t>(lane_of_[op])] = static_cast<std::int32_t>(op);
    clocks_[op] = known;
  }

  void record(std::size_t op) {
    const std::span<const Access> accesses = graph_.accesses_of(id_of<OpId>(op));
    const auto lane = static_cast<std::size_t>(lane_of_[op]);
    for (const Access& access : accesses) {
      if (access.kind == AccessKind::read) {
        storages_[row(access.storage)].readers[lane] = static_cast<std::int32_t>(op);
      }
    }
    for (const Access& access : accesses) {
      if (access.kind == AccessKind::write) {
        storages_[row(access.storage)] = {.writer = static_cast<std::int32_t>(op), .readers = kNothing};
      }
    }
  }

  const Graph& graph_;
  std::vector<StorageState> storages_;
  std::array<LaneClock, kLaneCount> lanes_;  ///< what the last op of each lane runs after, itself included
  std::vector<Lane> lane_of_;                ///< per op
  std::vector<LaneClock> clocks_;            ///< per op
  OpWaits waits_;
};

}  // namespace

Liveness analyse_liveness(const Graph& graph) {
  Liveness liveness;
  collect_touches(graph, liveness);
  collect_ranges(graph, liveness);
  liveness.live_bytes = sum_live(graph, liveness.ranges, [](const Storage&) { return true; });
  const auto peak = std::max_element(liveness.live_bytes.begin(), liveness.live_bytes.end());
  if (peak != liveness.live_bytes.end()) {
    liveness.peak_bytes = *peak;
    liveness.peak_op = id_of<OpId>(static_cast<std::size_t>(peak - liveness.live_bytes.begin()));
  }
  liveness.working_set_bytes = find_working_set(graph, liveness.ranges);
  return liveness;
}

std::vector<Gap> find_gaps(const Graph& graph, const Liveness& liveness, std::int32_t min_ops) {
  const std::vector<bool> movable = find_movable(graph);
  const Sections sections(graph);
  std::vector<Gap> gaps;
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    // Content that one step hands on to the next must end where it began: offloaded or kept, but no gap by itself.
    if (!movable[row(graph.storages[s].storage_template)] || graph.template_of(id_of<StorageId>(s)).persists())
      continue;
    const auto id = id_of<StorageId>(s);
    const std::span<const OpId> touches = liveness.touches_of(id);
    for (std::size_t i = 1; i < touches.size(); ++i) {
      const std::int32_t idle = static_cast<std::int32_t>(touches[i]) - static_cast<std::int32_t>(touches[i - 1]) - 1;
      if (idle < std::max(min_ops, 1)) continue;
      const bool is_routed = graph.template_of(id).routed_rows > 0;
      if (is_routed && sections.is_one(graph.storages[s].site, touches[i - 1], touches[i])) continue;
      gaps.push_back(
          {.storage = id, .ordinal = static_cast<std::int32_t>(i - 1), .before = touches[i - 1], .after = touches[i]});
    }
  }
  return gaps;
}

OpWaits analyse_waits(const Graph& graph) {
  return WaitAnalysis(graph).run();
}

}  // namespace tidemark::graph_build
