#include "core/graph.h"

#include <cmath>

namespace tidemark {

Bytes storage_bytes(const StorageTemplate& storage, const SiteLoad& load) {
  const double rows = std::ceil(load.of(storage.rows_of) * static_cast<double>(storage.routed_rows) - 1e-9);
  // Saturates: no load makes a storage small again, and sums of several still do not overflow.
  constexpr Bytes kMost = Bytes{1} << 60;
  if (storage.routed_rows == 0 || storage.routed_row_bytes == 0 || rows <= 0) return storage.fixed_bytes;
  const double bytes = rows * static_cast<double>(storage.routed_row_bytes);
  if (!(bytes < static_cast<double>(kMost))) return kMost;  // no number, too
  return storage.fixed_bytes + static_cast<std::int64_t>(rows) * storage.routed_row_bytes;
}

std::span<const Access> Graph::accesses_of(OpId op) const {
  const std::size_t index = row(op);
  const auto begin = static_cast<std::size_t>(ops[index].first_access);
  const std::size_t end =
      index + 1 < ops.size() ? static_cast<std::size_t>(ops[index + 1].first_access) : accesses.size();
  return {accesses.data() + begin, end - begin};
}

std::span<const Recipe> Graph::recipes_of(BlockId block) const {
  const Block& b = blocks[row(block)];
  if (b.recipe_count == 0) return {};
  return {recipes.data() + row(b.first_recipe), static_cast<std::size_t>(b.recipe_count)};
}

}  // namespace tidemark
