#pragma once
// 64-bit fingerprints of what a Program was planned for, so that a runtime can refuse a Program of another graph or
// device, and of what it does, so that ranks that must do the same can tell. Over values in a fixed order, never over
// padding or pointers: the same on every platform. Not cryptographic.

#include <cstdint>

#include "core/graph.h"
#include "core/machine.h"
#include "core/schedule.h"

namespace tidemark {

/// Every template, block, recipe, site, storage, op, access and message. O(size of the graph).
[[nodiscard]] std::uint64_t fingerprint(const Graph& graph);

/// Every task, wait and residency: what a rank does and in which order. O(size of the schedule).
[[nodiscard]] std::uint64_t fingerprint(const Schedule& schedule);

/// Every field but the name: a renamed device is the same device.
[[nodiscard]] std::uint64_t fingerprint(const Machine& machine);

}  // namespace tidemark
