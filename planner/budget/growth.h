#pragma once
// What one job holds beside what it held before: by rank, by category and by storage, with totals. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "planner/budget/holdings.h"

namespace tidemark::budget {

/// One storage at the peaks of one rank; bytes and counts of the side where it is absent are 0.
struct StorageGrowth {
  enum class Kind : std::uint8_t { added, removed, grown, shrunk };
  Kind kind = Kind::grown;
  std::string name;
  Category category = Category::other;
  std::int64_t count_before = 0, count_after = 0;
  Bytes before_bytes = 0, after_bytes = 0;
  std::vector<Control> controls;  ///< of after; of before where it was removed
  [[nodiscard]] Bytes delta_bytes() const { return after_bytes - before_bytes; }
  friend bool operator==(const StorageGrowth&, const StorageGrowth&) = default;
};

/// `added`, `removed`, `grown`, `shrunk`.
[[nodiscard]] std::string_view word_of(StorageGrowth::Kind kind);

struct RankGrowth {
  std::int64_t rank = 0;  ///< its number after; of one that is gone before
  /// Nothing: the rank is not there on that side.
  std::optional<Bytes> before_bytes, after_bytes;  ///< peaks
  std::optional<Bytes> host_before_bytes, host_after_bytes;
  CategoryBytes category_before{}, category_after{};
  std::vector<StorageGrowth> storages;  ///< those that changed, largest change first, ties by name
  [[nodiscard]] Bytes delta_bytes() const { return after_bytes.value_or(0) - before_bytes.value_or(0); }
  friend bool operator==(const RankGrowth&, const RankGrowth&) = default;
};

struct Growth {
  std::vector<RankGrowth> ranks;        ///< every row of either side, ascending by rank
  std::vector<StorageGrowth> storages;  ///< summed over the rows, those that changed, largest change first
  /// Peaks of the rows together: of the whole job only where each of its ranks has one. An estimate has one a pipeline
  /// stage, a plan of a model one a pipeline rank.
  Bytes before_bytes = 0, after_bytes = 0;
  Bytes highest_before_bytes = 0, highest_after_bytes = 0;  ///< of one rank
  friend bool operator==(const Growth&, const Growth&) = default;
};

/// Ranks are the same by number. Of two estimates, whose rows are of one rank of each pipeline stage: by place, where
/// every row has one (`pp1`), else in their order where there are as many.
[[nodiscard]] Growth growth_of(const Holdings& before, const Holdings& after);

/// Percent that `after` is above `before`; 0 where both are 0, infinite from 0.
[[nodiscard]] double percent_above(Bytes before, Bytes after);

}  // namespace tidemark::budget
