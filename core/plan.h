#pragma once
// What to do with each idle gap of each storage. Decided per template, chunk, layer and gap (a *gap class*), with
// exceptions per micro-batch. What is not listed is kept. Says nothing of when copies run.

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.h"

namespace tidemark {

enum class Action : std::uint8_t { keep, recompute, swap };

struct GapKey {
  StorageTemplateId storage_template = kNone<StorageTemplateId>;
  std::int32_t chunk = 0;
  std::int32_t layer = -1;
  std::int32_t gap = 0;
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

struct Plan {
  std::string policy;
  std::vector<Decision> decisions;  ///< ascending by key, unique

  /// The decision of a gap class, or nullptr (keep). O(log n).
  [[nodiscard]] const Decision* find(const GapKey& key) const;
  [[nodiscard]] Action action_of(const GapKey& key, std::int32_t micro_batch) const;
  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace tidemark
