#pragma once
// The independent judge of the flat search (planner/decide/flat): a small step in a form of its own, and what an order
// of its runs comes to, worked out anew from the definition below. Tests only. It takes the nouns of the planner (the
// rows of a captured graph, RunOrder) and shares no code with the search, the scheduler, the simulator or the verifier.
//
// A storage is resident from the start if the first op that touches it reads it; otherwise from its first write. A
// storage with one writer and not resident from the start is a *result*: its writer recomputes it. Any other storage is
// changed in place, and no op restores an older version of it.
//
// Rules. No op runs again right before the first run of one that is not told. First runs come in program order, and the
// last run is the first of the last op: the step is over then. Reads are served by the latest run of the writer. A
// result is resident from a run of its writer to the last read before the next run of it; other storages from their
// first touch (or the start) to their last. Holds extend that. A swap leaves a gap strictly between two touches. While
// an op runs, what it reads and writes, its transient bytes and everything else resident count together.
//
// Copies that take time. Ops run one after the other, and what a copy takes from them makes the run before it longer.
// Copying out begins when the content is there (other ops may read it meanwhile), copying in when the run at Swap::back
// is the next. Each direction carries one copy at a time: out by Swap::after, in by Swap::back; among those that may
// begin at once the one that is needed first, then the storage with the lower number. Nothing is copied in before it is
// copied out. The run at Swap::gone waits for the copy out, the one at Swap::before for the copy in. A storage of which
// there is one version is copied out once: the copy stays in host memory until its last prefetch.

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "planner/decide/flat/run_order.h"
#include "planner/graph_build/captured_graph.h"

namespace tidemark::testing {

struct ReferenceStep {
  using Op = graph_build::CapturedGraphBuilder::OpRow;
  using Recompute = graph_build::CapturedGraphBuilder::Recompute;
  struct Storage {
    std::string name;
    Bytes bytes = 0;
    std::int32_t held_until = -1;  ///< op; -1: no hold
    bool lasting = false;
    bool swappable = false;
    GivenCopies copies;
  };
  std::string name;
  std::vector<Storage> storages;
  std::vector<Op> ops;
  /// For what is swapped out, at any time; a limit only where copies take time.
  Bytes host_bytes = std::numeric_limits<Bytes>::max();

  [[nodiscard]] bool copies_take_time() const;
};

/// The same step as the planner takes it.
[[nodiscard]] Graph graph_of(const ReferenceStep& step);

struct ReferenceReplay {
  std::string fault;  ///< the first broken rule; empty: none, and only then the rest counts
  Bytes peak_bytes = 0;
  std::int32_t peak_position = 0;  ///< the first at the peak
  std::int64_t cost = 0;           ///< of all runs and copies, and what runs waited for copies
  std::int64_t waited = 0;         ///< of that, waiting
  Bytes host_peak_bytes = 0;       ///< of what is swapped out
  std::int64_t added_cost = 0;     ///< above one run of every op
  std::vector<Bytes> profile;      ///< per position of the order
};

/// Every op once.
[[nodiscard]] decide::flat::RunOrder keep_all(const ReferenceStep& step);
[[nodiscard]] Bytes keep_all_peak(const ReferenceStep& step);
[[nodiscard]] ReferenceReplay replay(const ReferenceStep& step, const decide::flat::RunOrder& order,
                                     decide::flat::RecomputeRules rules = {});

/// A storage that left device memory behind the touch at one position and is back for the touch at another.
struct ReferenceAbsence {
  std::int32_t storage = 0;
  std::int32_t after = 0, before = 0;  ///< positions of the order
  bool swapped = false;                ///< otherwise the run at `before` recomputes it
  friend bool operator==(const ReferenceAbsence&, const ReferenceAbsence&) = default;
};
/// By storage, then position. REQUIRES: replays without fault.
[[nodiscard]] std::vector<ReferenceAbsence> absences_of(const ReferenceStep& step, const decide::flat::RunOrder& order);

}  // namespace tidemark::testing
