#pragma once
// The parts of one rank's step before any op is placed: blocks, static sites, chunks with their sites and storages.

#include <cstdint>
#include <deque>
#include <vector>

#include "core/graph.h"
#include "core/machine.h"
#include "planner/graph_build/chunk_line.h"
#include "planner/graph_build/job_spec.h"
#include "planner/graph_build/step_block.h"

namespace tidemark::graph_build {

/// Op templates of messages between pipeline ranks.
struct MessageOps {
  OpTemplateId receive_activation, receive_gradient, send_activation, send_gradient;
};

struct StepParts {
  Graph graph;                   ///< everything but ops, accesses and messages, for which room is reserved
  std::deque<StepBlock> blocks;  ///< what chunks point into
  ChunkLines chunks{{}, false};
  MessageOps messages{};
  double fullest_load = 1;  ///< Site::fullest_load of every site with experts

  struct Static {
    StepBlock block;
    StorageId first_storage = kNone<StorageId>;
  };
  std::vector<Static> statics;      ///< static sites, which come first: site i is statics[i]
  std::size_t static_storages = 0;  ///< storages of static sites, which come first
};

/// REQUIRES: as build_step_graph.
[[nodiscard]] StepParts make_step_parts(const JobSpec& job, const Machine& machine, std::int32_t rank, double load);

}  // namespace tidemark::graph_build
