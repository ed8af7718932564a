#pragma once
// A baseline as text: JSON of schema `tidemark-baseline/1`, one storage a line, so that a change of one storage is a
// change of one line (docs/schemas/baseline.schema.json).

#include <cstddef>
#include <string>
#include <string_view>

#include "core/result.h"
#include "integrations/ci/baseline.h"

namespace tidemark::ci {

inline constexpr std::string_view kBaselineSchema = "tidemark-baseline/1";
inline constexpr std::size_t kMostBaselineBytes = std::size_t{256} << 20;
inline constexpr std::size_t kMostBaselineRanks = 65536;  ///< of one job

/// The same baseline gives the same bytes; they end in a newline. Bytes of names that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string write_baseline(const Baseline& baseline);

/// Errors (bad_input): `file: what, and what would be right`, of another schema, a text that is cut short or edited.
/// A file that this refuses must not be overwritten.
[[nodiscard]] Result<Baseline> read_baseline(std::string_view text, std::string_view file_name);

}  // namespace tidemark::ci
