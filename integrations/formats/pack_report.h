#pragma once
// What `tidemark pack` prints.

#include <optional>
#include <string>

#include "integrations/formats/pack_verdict.h"

namespace tidemark::formats {

/// Borrows what it points to.
struct PackReport {
  std::string file;
  const IntervalTable* table = nullptr;
  const IntervalProblem* problem = nullptr;
  const layout::PackAnswer* answer = nullptr;
  PackVerdict verdict;
  std::optional<Bytes> capacity_bytes;
  double seconds = 0;   ///< measured
  std::string picture;  ///< empty: none was asked for
};

[[nodiscard]] std::string pack_text(const PackReport& report);

/// An object with the fields of docs/cli.md, and a newline.
[[nodiscard]] std::string pack_json(const PackReport& report);

}  // namespace tidemark::formats
