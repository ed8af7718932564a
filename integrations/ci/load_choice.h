#pragma once
// The expert load that a job of a budget file is held against: a number, or a quantile of what is expected.

#include <optional>
#include <string>

#include "integrations/formats/yaml_fields.h"

namespace tidemark::ci {

struct LoadChoice {
  std::optional<double> load;      ///< f of every layer and micro-batch; above 0, at most 65536
  std::optional<double> quantile;  ///< in (0, 0.999]; of the trace where one is named, else of the job's distribution
  std::string trace;               ///< file of expert counts, relative to the budget file; empty: none
  friend bool operator==(const LoadChoice&, const LoadChoice&) = default;
};

inline constexpr double kMostLoadQuantile = 0.999;

/// `load: p99`, `load: 1.5` or `load: {trace: FILE, quantile: p99}`. Mistakes go to the document.
void read_load(formats::YamlMap& map, std::optional<LoadChoice>& out);

}  // namespace tidemark::ci
