#include "planner/graph_build/v_schedule.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <compare>
#include <utility>

#include "planner/graph_build/pass_way.h"

namespace tidemark::graph_build {
namespace {

/// A micro-batch is six passes on a rank, so a rank that is never idle starts one every six slots.
constexpr std::int32_t kPeriod = 6;
constexpr std::size_t kWeights = kVWays.size();  ///< the lane of weight gradients, after the four ways
constexpr std::int8_t kFree = -1;

/// Slots of micro-batch 0 on one rank, by way.
using BlockSlots = std::array<std::int32_t, kVWays.size()>;

/// V-Min moves one rank a slot in all four ways. V-Half moves two where it goes up, which spreads out what ranks hold.
/// The gap before dX keeps the slots of a rank's four ways apart modulo the period where p alone does not (divisible by
/// 3, and by 2).
BlockSlots block_slots(VMemory memory, std::int32_t p, std::int32_t rank) {
  if (memory == VMemory::third) {
    const std::int32_t gap = p % 3 == 0 ? 2 : 0;
    return {rank, 2 * p - 1 - rank, 2 * p + gap + rank, 4 * p + gap - 1 - rank};
  }
  const std::int32_t gap = p % 2 == 0 ? 3 : 0;
  return {2 * rank, 3 * p - 2 - rank, 3 * p - 1 + gap + 2 * rank, 6 * p + gap - 2 - rank};
}

/// One rank's passes in slots of equal length. Passes of a way are in the order of micro-batches, so what runs in each
/// slot says everything.
class Timetable {
 public:
  [[nodiscard]] std::int32_t slot(std::size_t lane, std::int32_t n) const {
    return slots_[lane][static_cast<std::size_t>(n)];
  }
  [[nodiscard]] std::int32_t count(std::size_t lane) const { return static_cast<std::int32_t>(slots_[lane].size()); }
  [[nodiscard]] bool is_free(std::int32_t slot) const { return line_[static_cast<std::size_t>(slot)] == kFree; }
  [[nodiscard]] const std::vector<std::int8_t>& line() const { return line_; }

  /// The next of its lane. REQUIRES: the slot is free and after the lane's last.
  void append(std::size_t lane, std::int32_t slot);
  /// REQUIRES: `to` is free and between the lane's passes before and after.
  void move(std::size_t lane, std::int32_t n, std::int32_t to);
  /// Weight gradients into free slots, each as soon as there is one to run.
  void add_weights();
  void drop_weights();
  /// The slot in which the n-th dX of either chunk runs.
  [[nodiscard]] std::int32_t input_grad_slot(std::int32_t n) const;
  /// Most chunk passes held; where weight gradients have no slots, as if they took free ones as soon as they can.
  [[nodiscard]] std::int32_t peak() const;

 private:
  std::vector<std::int8_t> line_;  ///< [slot] lane or kFree
  std::array<std::vector<std::int32_t>, kWeights + 1> slots_;
};

bool is_forward(std::int8_t lane) {
  return lane == 0 || lane == 1;
}
bool is_input_grad(std::int8_t lane) {
  return lane == 2 || lane == 3;
}

void Timetable::append(std::size_t lane, std::int32_t slot) {
  assert(slots_[lane].empty() || slot > slots_[lane].back());
  if (static_cast<std::size_t>(slot) >= line_.size()) line_.resize(static_cast<std::size_t>(slot) + 1, kFree);
  assert(is_free(slot));
  line_[static_cast<std::size_t>(slot)] = static_cast<std::int8_t>(lane);
  slots_[lane].push_back(slot);
}

void Timetable::move(std::size_t lane, std::int32_t n, std::int32_t to) {
  assert(is_free(to));
  std::int32_t& at = slots_[lane][static_cast<std::size_t>(n)];
  line_[static_cast<std::size_t>(at)] = kFree;
  line_[static_cast<std::size_t>(to)] = static_cast<std::int8_t>(lane);
  at = to;
}

void Timetable::add_weights() {
  std::int32_t waiting = 0;
  const auto end = static_cast<std::int32_t>(line_.size());
  for (std::int32_t slot = 0; slot < end || waiting > 0; ++slot) {
    if (slot < end && !is_free(slot)) {
      if (is_input_grad(line_[static_cast<std::size_t>(slot)])) ++waiting;
    } else if (waiting > 0) {
      append(kWeights, slot);
      --waiting;
    }
  }
}

void Timetable::drop_weights() {
  for (const std::int32_t slot : slots_[kWeights]) line_[static_cast<std::size_t>(slot)] = kFree;
  slots_[kWeights].clear();
  while (line_.back() == kFree) line_.pop_back();
}

std::int32_t Timetable::input_grad_slot(std::int32_t n) const {
  std::size_t slot = 0;
  for (std::int32_t left = n;; ++slot) {
    if (is_input_grad(line_[slot]) && left-- == 0) return static_cast<std::int32_t>(slot);
  }
}

std::int32_t Timetable::peak() const {
  const bool filling = slots_[kWeights].empty();
  std::int32_t held = 0, waiting = 0, peak = 0;
  for (const std::int8_t lane : line_) {
    if (is_forward(lane)) peak = std::max(peak, ++held);
    if (is_input_grad(lane)) ++waiting;
    if (lane == static_cast<std::int8_t>(kWeights)) --held;
    if (lane == kFree && filling && waiting > 0) {
      --waiting;
      --held;
    }
  }
  return peak;
}

/// A pass of a rank and its slot, in the order of slots over all ranks.
struct SlotEntry {
  std::int32_t slot = 0;
  std::int32_t rank = 0;
  std::size_t lane = 0;
  std::int32_t n = 0;  ///< of its lane: the micro-batch, but for weight gradients
  friend auto operator<=>(const SlotEntry&, const SlotEntry&) = default;
};

/// The timetables of all ranks while idle slots at both ends are squeezed out.
class SlotGrid {
 public:
  SlotGrid(VMemory memory, std::int32_t ranks, std::int32_t micro_batches);

  void add_weights() {
    for (Timetable& rank : ranks_) rank.add_weights();
  }
  void drop_weights() {
    for (Timetable& rank : ranks_) rank.drop_weights();
  }
  /// Moves passes before rank 0's first dX of chunk 0 (if `warm_up`) and after its last forward of chunk 0 to the first
  /// free slot after their inputs that leaves no rank above the highest peak there is now.
  void squeeze(bool warm_up);
  /// Every pass as early as its inputs and the order of its rank let it: leaves no slot idle on all ranks.
  void retime();

  [[nodiscard]] const std::vector<Timetable>& ranks() const { return ranks_; }

 private:
  [[nodiscard]] std::vector<SlotEntry> entries() const;
  [[nodiscard]] std::int32_t earliest_slot(const SlotEntry& entry) const;
  /// The last slot that a pass has to come after in `grid`, but for its rank's pass before it; -1: none.
  [[nodiscard]] static std::int32_t last_input(const std::vector<Timetable>& grid, const SlotEntry& entry);
  void pull_forward(const SlotEntry& entry, std::int32_t peak_limit);

  std::vector<Timetable> ranks_;
};

SlotGrid::SlotGrid(VMemory memory, std::int32_t ranks, std::int32_t micro_batches)
    : ranks_(static_cast<std::size_t>(ranks)) {
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    const BlockSlots block = block_slots(memory, ranks, rank);
    for (std::size_t lane = 0; lane < block.size(); ++lane) {
      for (std::int32_t n = 0; n < micro_batches; ++n) {
        ranks_[static_cast<std::size_t>(rank)].append(lane, block[lane] + n * kPeriod);
      }
    }
  }
}

std::vector<SlotEntry> SlotGrid::entries() const {
  std::vector<SlotEntry> entries;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    for (std::size_t lane = 0; lane <= kWeights; ++lane) {
      for (std::int32_t n = 0; n < ranks_[rank].count(lane); ++n) {
        entries.push_back(
            {.slot = ranks_[rank].slot(lane, n), .rank = static_cast<std::int32_t>(rank), .lane = lane, .n = n});
      }
    }
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::int32_t SlotGrid::last_input(const std::vector<Timetable>& grid, const SlotEntry& entry) {
  if (entry.lane == kWeights) return -1;
  std::int32_t last = -1;
  const auto from = source_rank(kVWays[entry.lane], entry.rank, static_cast<std::int32_t>(grid.size()));
  if (from) last = grid[static_cast<std::size_t>(*from)].slot(entry.lane, entry.n);
  if (entry.lane > 0) last = std::max(last, grid[static_cast<std::size_t>(entry.rank)].slot(entry.lane - 1, entry.n));
  return last;
}

std::int32_t SlotGrid::earliest_slot(const SlotEntry& entry) const {
  const Timetable& rank = ranks_[static_cast<std::size_t>(entry.rank)];
  std::int32_t last = last_input(ranks_, entry);
  if (entry.lane == kWeights) last = rank.input_grad_slot(entry.n);
  if (entry.n > 0) last = std::max(last, rank.slot(entry.lane, entry.n - 1));
  return last + 1;
}

void SlotGrid::pull_forward(const SlotEntry& entry, std::int32_t peak_limit) {
  Timetable& rank = ranks_[static_cast<std::size_t>(entry.rank)];
  for (std::int32_t slot = earliest_slot(entry); slot < entry.slot; ++slot) {
    if (!rank.is_free(slot)) continue;
    rank.move(entry.lane, entry.n, slot);
    if (rank.peak() <= peak_limit) return;
    rank.move(entry.lane, entry.n, entry.slot);
  }
}

void SlotGrid::squeeze(bool warm_up) {
  std::int32_t peak_limit = 0;
  for (const Timetable& rank : ranks_) peak_limit = std::max(peak_limit, rank.peak());
  const std::int32_t last_forward = ranks_[0].slot(0, ranks_[0].count(0) - 1);
  const std::int32_t first_backward = ranks_[0].slot(3, 0);
  // In the order of slots, whatever a pass waits for has its place before it is looked at itself. Rank 0 comes first
  // among the passes of a slot.
  for (const SlotEntry& entry : entries()) {
    const bool is_before = entry.slot < first_backward;
    const bool is_after = std::pair{entry.slot, entry.rank} > std::pair{last_forward, 0};
    if ((warm_up && is_before) || is_after) pull_forward(entry, peak_limit);
  }
}

void SlotGrid::retime() {
  std::vector<Timetable> next(ranks_.size());
  std::vector<std::int32_t> free_from(ranks_.size(), 0);
  for (const SlotEntry& entry : entries()) {
    std::int32_t& slot = free_from[static_cast<std::size_t>(entry.rank)];
    slot = std::max(slot, last_input(next, entry) + 1);
    next[static_cast<std::size_t>(entry.rank)].append(entry.lane, slot++);
  }
  ranks_ = std::move(next);
}

/// The passes of one rank, with weight gradients in free slots: of chunk 1 as long as there are, since its dX comes
/// first.
std::vector<SplitPass> passes_with_weights(const Timetable& rank) {
  std::vector<SplitPass> passes;
  std::array<std::int32_t, kVWays.size()> done{};
  std::array<std::int32_t, 2> weights_done{};  // by chunk
  const auto run_weight = [&] {
    for (const std::size_t chunk : {std::size_t{1}, std::size_t{0}}) {
      if (weights_done[chunk] == done[chunk == 1 ? 2 : 3]) continue;
      passes.push_back({PassKind::weight_grad, static_cast<std::int32_t>(chunk), weights_done[chunk]++});
      return true;
    }
    return false;
  };
  for (const std::int8_t lane : rank.line()) {
    if (lane == kFree) {
      run_weight();
      continue;
    }
    const PassWay& way = kVWays[static_cast<std::size_t>(lane)];
    passes.push_back({way.kind, way.chunk, done[static_cast<std::size_t>(lane)]++});
  }
  while (run_weight()) {
  }
  return passes;
}

}  // namespace

Result<SplitSchedule> v_schedule(VMemory memory, std::int32_t ranks, std::int32_t micro_batches) {
  if (const Status status = check_split_counts(ranks, micro_batches); !status) return status.error();
  SlotGrid grid(memory, ranks, micro_batches);
  grid.add_weights();
  grid.squeeze(true);
  grid.retime();
  // Once more at the end with weight gradients out of the way: they come after what other ranks wait for.
  grid.drop_weights();
  grid.squeeze(false);
  grid.add_weights();
  grid.retime();
  grid.drop_weights();
  SplitSchedule schedule{
      .ranks = ranks, .chunks = 2, .micro_batches = micro_batches, .placement = StagePlacement::zigzag};
  for (const Timetable& rank : grid.ranks()) schedule.passes.push_back(passes_with_weights(rank));
  return schedule;
}

}  // namespace tidemark::graph_build
