#include "planner/graph_build/pass_merge.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tidemark::graph_build {
namespace {

constexpr std::size_t kCompute = static_cast<std::size_t>(Lane::compute);

/// A pass whose ops remember only end times that an op of another lane still needs: within a lane order is enough. Each
/// such time has a slot, taken over once its last reader is placed, so that states stay small.
struct SlottedPass {
  struct Entry {
    std::size_t lane = 0;
    std::int64_t ns = 0;
    std::vector<std::size_t> waits;  ///< slots
    std::size_t slot = kNoSlot;      ///< where its own end is kept
  };
  static constexpr std::size_t kNoSlot = static_cast<std::size_t>(-1);
  std::vector<Entry> ops;
  std::size_t slots = 0;
};

/// Per op: the last op of another lane that needs its end; 0 where there is none.
std::vector<std::size_t> last_readers(std::span<const TimedOp> pass) {
  std::vector<std::size_t> last(pass.size(), 0);
  for (std::size_t i = 0; i < pass.size(); ++i) {
    for (const std::int32_t before : pass[i].after) {
      const auto p = static_cast<std::size_t>(before);
      if (pass[p].lane != pass[i].lane) last[p] = i;
    }
  }
  return last;
}

/// Slots are numbered from `first_slot`.
SlottedPass assign_slots(std::span<const TimedOp> pass, std::size_t first_slot) {
  SlottedPass slotted;
  const std::vector<std::size_t> last = last_readers(pass);
  std::vector<std::size_t> free_slots;
  std::vector<std::vector<std::size_t>> freed_after(pass.size());
  for (std::size_t i = 0; i < pass.size(); ++i) {
    SlottedPass::Entry entry{.lane = static_cast<std::size_t>(pass[i].lane), .ns = pass[i].ns};
    for (const std::int32_t before : pass[i].after) {
      const auto p = static_cast<std::size_t>(before);
      if (pass[p].lane != pass[i].lane) entry.waits.push_back(slotted.ops[p].slot);
    }
    free_slots.insert(free_slots.end(), freed_after[i].begin(), freed_after[i].end());
    if (last[i] > 0) {
      if (free_slots.empty()) free_slots.push_back(first_slot + slotted.slots++);
      entry.slot = free_slots.back();
      free_slots.pop_back();
      freed_after[last[i]].push_back(entry.slot);
    }
    slotted.ops.push_back(std::move(entry));
  }
  return slotted;
}

/// Lane clocks first, then slots. One row of the table holds the states of all backward positions.
class StateRow {
 public:
  StateRow(std::size_t states, std::size_t width) : width_(width), values_(states * width) {}
  [[nodiscard]] std::int64_t* at(std::size_t state) { return values_.data() + state * width_; }

 private:
  std::size_t width_;
  std::vector<std::int64_t> values_;
};

std::int64_t end_of(const SlottedPass::Entry& op, const std::int64_t* state) {
  std::int64_t start = state[op.lane];
  for (const std::size_t slot : op.waits) start = std::max(start, state[slot]);
  return start + op.ns;
}

/// Smaller is better: when the compute lane is free after `op`, then how far all lanes have run.
std::pair<std::int64_t, std::int64_t> key_of(const SlottedPass::Entry& op, const std::int64_t* state) {
  const std::int64_t end = end_of(op, state);
  std::int64_t sum = end - state[op.lane];
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) sum += state[lane];
  return {op.lane == kCompute ? end : state[kCompute], sum};
}

void extend(const SlottedPass::Entry& op, const std::int64_t* from, std::int64_t* to, std::size_t width) {
  const std::int64_t end = end_of(op, from);
  std::copy_n(from, width, to);
  to[op.lane] = end;
  if (op.slot != SlottedPass::kNoSlot) to[op.slot] = end;
}

/// The cells filled: for each forward position a run of backward positions around the diagonal. Neighbouring runs
/// overlap.
class Band {
 public:
  Band(std::size_t forward, std::size_t backward) : forward_(forward), backward_(backward) {
    // About two layers, less with expert exchange in many parts: further apart the passes do not meet.
    constexpr std::size_t kReach = 128;
    reach_ = std::max(kReach, backward / std::max<std::size_t>(1, forward) + 1);
  }
  [[nodiscard]] std::size_t first(std::size_t f) const { return centre(f) > reach_ ? centre(f) - reach_ : 0; }
  [[nodiscard]] std::size_t last(std::size_t f) const { return std::min(backward_, centre(f) + reach_); }
  [[nodiscard]] bool has(std::size_t f, std::size_t b) const { return b >= first(f) && b <= last(f); }
  /// Position of a cell in a table of the band.
  [[nodiscard]] std::size_t cell(std::size_t f, std::size_t b) const { return f * (2 * reach_ + 1) + b - first(f); }
  [[nodiscard]] std::size_t cells() const { return (forward_ + 1) * (2 * reach_ + 1); }

 private:
  [[nodiscard]] std::size_t centre(std::size_t f) const { return forward_ == 0 ? 0 : f * backward_ / forward_; }
  std::size_t forward_, backward_, reach_;
};

std::vector<bool> trace_back(const Band& band, const std::vector<bool>& takes_forward, std::size_t f, std::size_t b) {
  std::vector<bool> order;
  order.reserve(f + b);
  while (f + b > 0) {
    order.push_back(takes_forward[band.cell(f, b)]);
    --(order.back() ? f : b);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

std::vector<bool> merge_passes(std::span<const TimedOp> forward, std::span<const TimedOp> backward) {
  if (forward.empty() || backward.empty()) return std::vector<bool>(forward.size() + backward.size(), !forward.empty());
  const SlottedPass f_pass = assign_slots(forward, kLaneCount);
  const SlottedPass b_pass = assign_slots(backward, kLaneCount + f_pass.slots);
  const std::size_t width = kLaneCount + f_pass.slots + b_pass.slots;
  const Band band(forward.size(), backward.size());
  std::vector<bool> takes_forward(band.cells());
  StateRow row(backward.size() + 1, width), previous(backward.size() + 1, width);
  for (std::size_t f = 0; f <= forward.size(); ++f) {
    for (std::size_t b = band.first(f); b <= band.last(f); ++b) {
      if (f == 0 && b == 0) continue;
      const bool can_forward = f > 0 && band.has(f - 1, b);
      const bool can_backward = b > band.first(f);
      const bool take = !can_backward || (can_forward && key_of(f_pass.ops[f - 1], previous.at(b)) <
                                                             key_of(b_pass.ops[b - 1], row.at(b - 1)));
      takes_forward[band.cell(f, b)] = take;
      extend(take ? f_pass.ops[f - 1] : b_pass.ops[b - 1], take ? previous.at(b) : row.at(b - 1), row.at(b), width);
    }
    std::swap(row, previous);
  }
  return trace_back(band, takes_forward, forward.size(), backward.size());
}

}  // namespace tidemark::graph_build
