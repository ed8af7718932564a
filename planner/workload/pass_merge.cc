#include "planner/workload/pass_merge.h"

#include <algorithm>
#include <array>

namespace tidemark {
namespace {

/// One pass on its way through the merge.
struct Cursor {
  std::span<const TimedOp> ops;
  std::vector<std::int64_t> end;  ///< per op placed
  std::int64_t total_ns = 0;      ///< of all ops
  std::int64_t placed_ns = 0;

  explicit Cursor(std::span<const TimedOp> pass) : ops(pass) {
    end.reserve(pass.size());
    for (const TimedOp& op : pass) total_ns += op.ns;
  }
  [[nodiscard]] bool done() const { return end.size() == ops.size(); }
  [[nodiscard]] const TimedOp& next_op() const { return ops[end.size()]; }
};

using LaneClocks = std::array<std::int64_t, kLaneCount>;

std::int64_t start_of(const Cursor& cursor, const LaneClocks& free_at) {
  const TimedOp& op = cursor.next_op();
  std::int64_t start = free_at[static_cast<std::size_t>(op.lane)];
  for (const std::int32_t before : op.after) start = std::max(start, cursor.end[static_cast<std::size_t>(before)]);
  return start;
}

void place(Cursor& cursor, LaneClocks& free_at) {
  const TimedOp& op = cursor.next_op();
  const std::int64_t end = start_of(cursor, free_at) + op.ns;
  free_at[static_cast<std::size_t>(op.lane)] = end;
  cursor.end.push_back(end);
  cursor.placed_ns += op.ns;
}

/// Ties go to the pass with the smaller share of its work done, then to the backward pass.
bool takes_forward(const Cursor& forward, const Cursor& backward, const LaneClocks& free_at) {
  if (forward.done() || backward.done()) return backward.done();
  const std::int64_t f = start_of(forward, free_at);
  const std::int64_t b = start_of(backward, free_at);
  if (f != b) return f < b;
  const double f_share =
      static_cast<double>(forward.placed_ns) / static_cast<double>(std::max<std::int64_t>(1, forward.total_ns));
  const double b_share =
      static_cast<double>(backward.placed_ns) / static_cast<double>(std::max<std::int64_t>(1, backward.total_ns));
  return f_share < b_share;
}

}  // namespace

std::vector<bool> merge_passes(std::span<const TimedOp> forward, std::span<const TimedOp> backward) {
  Cursor f(forward), b(backward);
  LaneClocks free_at{};
  std::vector<bool> order;
  order.reserve(forward.size() + backward.size());
  while (!f.done() || !b.done()) {
    order.push_back(takes_forward(f, b, free_at));
    place(order.back() ? f : b, free_at);
  }
  return order;
}

}  // namespace tidemark
