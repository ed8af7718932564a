#pragma once
// What a Schedule does with the idle gaps of storages, for people and for export: per template, chunk, layer and gap (a
// *gap class*), with exceptions per micro-batch. Derived from the Schedule; nothing plans or runs by it.

#include <compare>
#include <cstdint>
#include <vector>

#include "core/graph.h"
#include "core/ids.h"
#include "core/schedule.h"

namespace tidemark {

enum class Action : std::uint8_t { keep, recompute, swap };

struct GapKey {
  StorageTemplateId storage_template = kNone<StorageTemplateId>;
  std::int32_t chunk = 0;
  std::int32_t layer = -1;
  std::int32_t gap = 0;  ///< number of ops that touch the storage before the gap, less one; -1: since the step before
  friend auto operator<=>(const GapKey&, const GapKey&) = default;
};

struct Decision {
  GapKey key;
  Action action = Action::keep;       ///< for every micro-batch without an exception
  RecipeId recipe = kNone<RecipeId>;  ///< the recipe used wherever this gap is recomputed
  struct Exception {
    std::int32_t micro_batch = 0;
    Action action = Action::keep;
    friend bool operator==(const Exception&, const Exception&) = default;
  };
  std::vector<Exception> exceptions;  ///< ascending micro-batch
  friend bool operator==(const Decision&, const Decision&) = default;
};

struct Decisions {
  std::vector<Decision> rows;  ///< ascending by key, unique; what is not listed is kept

  /// The decision of a gap class, or nullptr (keep). O(log n).
  [[nodiscard]] const Decision* find(const GapKey& key) const;
  [[nodiscard]] Action action_of(const GapKey& key, std::int32_t micro_batch) const;
  friend bool operator==(const Decisions&, const Decisions&) = default;
};

/// REQUIRES: the schedule runs the graph (core/verify.h). A gap that is left more than once, by a recompute of an op
/// between, counts by its last way back. O(n log n).
[[nodiscard]] Decisions decisions_of(const Graph& graph, const Schedule& schedule);

}  // namespace tidemark
