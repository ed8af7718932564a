#pragma once
// A chip without latencies, launches and edges: times are work over rates.

#include "core/chip.h"

namespace tidemark::testing {

/// Products of `flops_per_s` in tiles of one element, all of `memory_bytes_per_s` and of both links; 8 devices a node.
[[nodiscard]] inline Chip plain_chip(double flops_per_s, double memory_bytes_per_s, double link_bytes_per_s) {
  return {.sheet = {.flops_per_s = {flops_per_s, flops_per_s, flops_per_s},
                    .memory_bytes_per_s = memory_bytes_per_s,
                    .cores = 1,
                    .tiles = {{.rows = 1, .columns = 1}},
                    .intra_bytes_per_s = link_bytes_per_s,
                    .inter_bytes_per_s = link_bytes_per_s,
                    .host_bytes_per_s = link_bytes_per_s,
                    .devices_per_node = 8},
          .rates = {.matmul = 1,
                    .tile_start = 0,
                    .memory = 1,
                    .launch_s = 0,
                    .intra_link = 1,
                    .inter_link = 1,
                    .hop_s = 0,
                    .attention = 1,
                    .grouped_matmul = 1,
                    .fp8 = 1}};
}

}  // namespace tidemark::testing
