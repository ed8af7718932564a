#pragma once
// A step of any framework as a list of ops over storages, for planning what to recompute and what to page out. Ops run
// in list order; an op touches the storages it reads and writes. Unlike core/graph.h it knows nothing of layers, ranks
// or lanes: it is what graphs captured elsewhere come down to (docs/design/step_graph.md).
//
// A storage is resident from the start if the first op that touches it reads it; otherwise from its first write. A
// storage with one writer and not resident from the start is a *result*: running its writer again brings it back. Any
// other storage is changed in place, and no op brings an older version of it back.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"

namespace tidemark {

struct OpList {
  /// What costs count. A cost is a whole number of `cost_quantum` of these.
  enum class CostUnit : std::uint8_t { one, ns, joule };
  /// Whether a second run of an op gives the same bytes.
  enum class Recompute : std::uint8_t {
    pure,
    random,      ///< if the runtime restores the random state
    routing,     ///< recorded, never run again
    collective,  ///< if every device of the group runs it again
    never,
  };
  enum class Phase : std::uint8_t { forward, backward, optimizer };

  struct Storage {
    std::string name;
    std::string module;
    Bytes bytes = 0;                 ///< counted; >= 0
    std::int32_t pinned_until = -1;  ///< the framework holds it until that op has run; -1: no
    bool until_end = false;          ///< resident to the end of the step
    bool swappable = false;
    std::int64_t page_out_cost = 0, page_in_cost = 0;  ///< what ops lose to a copy, in cost quanta
    std::int64_t page_out_time = 0, page_in_time = 0;  ///< on the link, in cost quanta; 0 without one
  };
  /// Carries pages beside the ops, in each direction one copy at a time.
  struct Link {
    Bytes host_bytes = std::numeric_limits<Bytes>::max();  ///< for what is paged out, at any time
  };
  struct Op {
    std::string name;
    std::string module;
    std::int64_t cost = 0;  ///< in cost quanta; >= 0
    Bytes transient_bytes = 0;
    Phase phase = Phase::forward;
    Recompute recompute = Recompute::pure;
    std::vector<std::int32_t> reads, writes;  ///< storages; ascending, each once
  };

  std::string name;
  CostUnit cost_unit = CostUnit::one;
  double cost_quantum = 1;  ///< > 0
  /// None: a page costs what it costs, wherever it is. REQUIRES: costs are times.
  std::optional<Link> link;
  std::vector<Storage> storages;
  std::vector<Op> ops;

  [[nodiscard]] double to_units(std::int64_t cost) const { return static_cast<double>(cost) * cost_quantum; }
};

/// Per storage: whether more than one version of it is ever there, so that a copy made of it may be of an older one.
[[nodiscard]] std::vector<std::uint8_t> changed_storages(const OpList& list);

/// What a runtime can do beyond running pure ops again.
struct RecomputeRules {
  bool random = true;       ///< restores random state
  bool collective = false;  ///< all devices of a group carry out the same schedule
  [[nodiscard]] bool allow(OpList::Recompute kind) const {
    switch (kind) {
      case OpList::Recompute::pure:
        return true;
      case OpList::Recompute::random:
        return random;
      case OpList::Recompute::collective:
        return collective;
      case OpList::Recompute::routing:
      case OpList::Recompute::never:
        break;
    }
    return false;
  }
};

}  // namespace tidemark
