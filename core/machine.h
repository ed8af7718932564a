#pragma once
// One device as the planner sees it: memory, accelerator, links and the host behind it. Values only; every shipped
// figure has its source in devices/*.yaml.

#include <string>

#include "core/bytes.h"
#include "core/chip.h"

namespace tidemark {

/// A one-way path. Time of a transfer = latency_ns + bytes / bytes_per_s.
struct Link {
  double bytes_per_s = 0;
  double latency_ns = 0;
  friend bool operator==(const Link&, const Link&) = default;
};

struct Machine {
  std::string name;

  // Memory. `visible_bytes` is what the framework can see; the lines below it are owned by nobody's allocator and are
  // subtracted from the budget explicitly (invariant 8).
  Bytes visible_bytes = 0;
  Bytes context_bytes = 0;
  Bytes workspace_bytes = 0;
  Bytes collective_buffer_bytes = 0;  ///< per communicator
  Bytes alignment_bytes = 512;        ///< every residency starts at a multiple of this

  Chip chip;                         ///< prices ops (planner/cost)
  double copy_launch_ns = 0;         ///< cost on the compute lane of issuing one copy and its event
  int softmax_statistics_width = 1;  ///< copies of each softmax statistic (8 on Ascend, 1 on CUDA)

  Link d2h, h2d;

  Bytes host_bytes_per_device = 0;  ///< pinned host memory one device may use by default
  Bytes host_bytes_per_node = 0;

  [[nodiscard]] std::int64_t devices_per_node() const { return chip.sheet.devices_per_node; }
  friend bool operator==(const Machine&, const Machine&) = default;
};

}  // namespace tidemark
