#pragma once
// The device of a captured step of which nothing is said but the step's own costs.

#include "core/machine.h"

namespace tidemark::graph_build {

/// Memory to the limits given, byte by byte, with no reserves. Rates are those of no machine, and nothing asks for
/// them: costs of ops and copies are given (GivenCosts, GivenCopies).
[[nodiscard]] inline Machine given_machine(Bytes host_bytes, Bytes visible_bytes) {
  constexpr double kAnyRate = 1e12;
  const Link link{.bytes_per_s = kAnyRate};
  return {.name = "the device of the graph",
          .visible_bytes = visible_bytes,
          .alignment_bytes = 1,
          .chip = {.sheet = {.flops_per_s = {kAnyRate},
                             .memory_bytes_per_s = kAnyRate,
                             .cores = 1,
                             .tiles = {{.rows = 1, .columns = 1}},
                             .intra_bytes_per_s = kAnyRate,
                             .inter_bytes_per_s = kAnyRate,
                             .host_bytes_per_s = kAnyRate,
                             .devices_per_node = 1},
                   .rates = {}},
          .d2h = link,
          .h2d = link,
          .host_bytes_per_device = host_bytes,
          .host_bytes_per_node = host_bytes};
}

}  // namespace tidemark::graph_build
