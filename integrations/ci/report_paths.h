#pragma once
// Paths of a report as who shows it beside the code knows them: from the root of the repository, wherever the gate ran.

#include <string>
#include <string_view>

#include "integrations/ci/diff_result.h"
#include "integrations/ci/gate_result.h"

namespace tidemark::ci {

struct ReportPaths {
  std::string working;  ///< absolute folder that relative paths begin in; empty: paths are left as they are
  std::string root;     ///< absolute folder that they shall begin in: that of the repository, else `working`
  [[nodiscard]] bool are_kept() const { return working.empty(); }
};

/// `ci/../jobs/lm.yaml` -> `jobs/lm.yaml`. A file outside the root keeps its place, without needless parts; no text
/// gives none. Pure: links are not followed.
[[nodiscard]] std::string report_path(const ReportPaths& paths, std::string_view file);

/// With every place of a file that they point at so named.
[[nodiscard]] GateResult with_paths(GateResult result, const ReportPaths& paths);
[[nodiscard]] DiffResult with_paths(DiffResult result, const ReportPaths& paths);

}  // namespace tidemark::ci
