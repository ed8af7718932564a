#pragma once
// 64-bit fingerprints of values: equal values give equal numbers on every platform and in every version of the file
// format that says so. Over fields, never over padding. Not cryptographic.

#include <cstdint>

#include "core/graph.h"
#include "core/machine.h"

namespace tidemark {

[[nodiscard]] std::uint64_t fingerprint(const Graph& graph);
[[nodiscard]] std::uint64_t fingerprint(const Machine& machine);

}  // namespace tidemark
