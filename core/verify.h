#pragma once
// The independent checker (invariant 6). Shares only the nouns with the planner: no clock of the scheduler, no
// packing structure. Two versions of the address check exist, a sweep in O(n log n) and an obvious quadratic one; tests
// hold them against each other.

#include <cstdint>
#include <optional>
#include <string>

#include "core/bytes.h"
#include "core/graph.h"
#include "core/layout.h"
#include "core/program.h"
#include "core/schedule.h"

namespace tidemark {

/// The first broken rule, in words a user can act on.
struct Violation {
  enum class Rule : std::uint8_t {
    schedule_shape,  ///< ids out of range, a wait on a later task, lanes out of step
    missing_op,      ///< an op of the graph is not run exactly once, or out of program order on its lane
    data_order,      ///< a read is not ordered after the write of its version, or a write before its readers are done
    not_resident,    ///< a task touches a storage that is not in memory at that point
    lost_data,       ///< a storage comes back without a copy or a recipe that restores it
    recipe_unsafe,   ///< an impure recipe is used, a recipe runs without its sources, or before an op that is not told
    clock,           ///< a residency is touched before its acquire or after its release on the compute clock
    overlap,         ///< two residencies share bytes and no task order separates them
    out_of_arena,    ///< an offset is negative, misaligned or beyond the capacity
    section,         ///< a section is not listed, or would not mean the same in chunks
  };
  Rule rule = Rule::schedule_shape;
  std::string detail;
};

/// Does the schedule run the graph: every op once, in order, every datum ordered, resident and restored?
[[nodiscard]] std::optional<Violation> verify_schedule(const Graph& graph, const Schedule& schedule);

/// Do the addresses hold under every interleaving the task order allows? O(n log n).
[[nodiscard]] std::optional<Violation> verify_layout(const Schedule& schedule, const Layout& layout);
/// The same by comparing all pairs. O(n^2): tests only.
[[nodiscard]] std::optional<Violation> verify_layout_quadratic(const Schedule& schedule, const Layout& layout);

/// Everything above, the messages and routed storages listed, and every section that may run in chunks.
[[nodiscard]] std::optional<Violation> verify_program(const Graph& graph, const Program& program);

}  // namespace tidemark
