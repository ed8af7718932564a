#pragma once
// Which sections of a program may run in chunks, and up to which expert load it then fits: the second limit,
// collective_limit_f. Only sections are taken that it needs, since every one costs the expert group a decision.

#include <functional>
#include <vector>

#include "core/graph.h"
#include "core/program.h"

namespace tidemark::ladder {

struct ChunkChoice {
  double limit = 1;
  std::vector<DispatchSection> sections;
  std::vector<ChunkBuffer> buffers;
};

/// REQUIRES: the program has its contingencies and contingency_limit_f. `host_fits(load)`: host memory serves the load.
/// No sections: they would not raise the limit by a hundredth.
[[nodiscard]] ChunkChoice choose_chunks(const Graph& graph, const Program& program,
                                        const std::function<bool(double)>& host_fits);

/// Takes the sections over, for the second limit that the program states already. False: the checker finds fault with
/// it then, and a plan without sections is to be kept.
[[nodiscard]] bool adopt_chunks(const Graph& graph, ChunkChoice choice, Program& program);

}  // namespace tidemark::ladder
