#pragma once
// Reports for programs, by published schemas: docs/schemas/check.schema.json and diff.schema.json.

#include <string>
#include <string_view>

#include "integrations/ci/diff_result.h"
#include "integrations/ci/gate_result.h"

namespace tidemark::ci {

inline constexpr std::string_view kCheckSchema = "tidemark-check/1";
inline constexpr std::string_view kDiffSchema = "tidemark-diff/1";

/// Everything of the result: contributors of the rank that the worst finding is about, all of them.
[[nodiscard]] std::string json_report(const GateResult& result);
[[nodiscard]] std::string json_report(const DiffResult& result);

}  // namespace tidemark::ci
