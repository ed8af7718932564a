#pragma once
// The Graph of a step that is described op by op: a captured PyTorch step, a .graph file, our JSON. It is
// one block with one site; ops run in the order in which they are added, on the compute lane. What follows from the ops
// alone is worked out here: which storages hold content before the step, versions, and for every op that may run again
// a recipe of one step.
//
// A storage holds content before the step if the first op that touches it reads it. A storage with one writer that does
// not is a *result*: running its writer again restores it. An op has a recipe if all it writes are results.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/graph.h"

namespace tidemark::graph_build {

class CapturedGraphBuilder {
 public:
  /// Whether recomputing an op gives the same bytes.
  enum class Recompute : std::uint8_t {
    pure,
    random,      ///< if the runtime restores the random state
    routing,     ///< recorded, never run again
    collective,  ///< if every device of the group runs it again
    never,
  };
  struct StorageRow {
    std::string name;
    std::string module;
    Bytes bytes = 0;
    StorageRole role = StorageRole::activation;
    std::int32_t held_until = -1;  ///< the framework holds it until that op has run; -1: no
    bool lasting = false;
    bool swappable = false;
    std::optional<GivenCopies> copies;
  };
  struct OpRow {
    std::string name;
    std::string module;
    std::int64_t cost = 0;  ///< in quanta of the given costs
    Bytes transient_bytes = 0;
    OpPhase phase = OpPhase::forward;
    Recompute recompute = Recompute::pure;
    std::vector<std::int32_t> reads, writes;  ///< storages by number; ascending, each once
    bool told = true;                         ///< OpTemplate::told
  };

  explicit CapturedGraphBuilder(GivenCosts costs = {}) : costs_(costs) {}

  /// The storage's number: StorageId and StorageTemplateId of the graph.
  std::int32_t add(StorageRow storage);
  /// The op's number: OpId and OpTemplateId of the graph. REQUIRES: the storages it names exist when build() is called.
  std::int32_t add(OpRow op);

  [[nodiscard]] std::size_t storage_count() const { return storages_.size(); }
  [[nodiscard]] std::size_t op_count() const { return ops_.size(); }

  /// Storages as added; behind them one transient for every op that has some. O(accesses).
  [[nodiscard]] Graph build() &&;

 private:
  struct Writers {
    std::int32_t count = 0;
    bool read_first = false, touched = false;
  };
  [[nodiscard]] std::vector<Writers> count_writers() const;
  void add_storages(Graph& graph, const std::vector<Writers>& writers);
  void add_op(Graph& graph, std::size_t op, std::int32_t transient, const std::vector<Writers>& writers,
              std::vector<std::int32_t>& versions);

  GivenCosts costs_;
  std::vector<StorageRow> storages_;
  std::vector<OpRow> ops_;
};

}  // namespace tidemark::graph_build
