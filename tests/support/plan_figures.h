#pragma once
// Figures for programs made by hand, as a planner would have given them.

#include "core/program.h"
#include "planner/planner.h"

namespace tidemark::testing {

/// REQUIRES: arena 0 is the device's, arena 1 the host's.
inline void set_figures(const Program& program, Bytes reserve_bytes, Bytes budget_bytes, plan::RankFigures& figures) {
  const std::vector<Arena>& arenas = program.layout.arenas;
  figures.reserve_bytes = reserve_bytes;
  figures.budget_bytes = budget_bytes;
  figures.peak_bytes = reserve_bytes + arenas[0].height_bytes;
  figures.static_bytes = arenas[0].height_bytes / 3;
  figures.activation_peak_bytes = arenas[0].height_bytes - figures.static_bytes;
  figures.host_bytes = arenas[1].height_bytes + arenas[1].dynamic_bytes;
  figures.worst_load_f = program.routed.empty() ? 1 : 0;  // no op made by hand sums rows up
  figures.fits = true;
}

}  // namespace tidemark::testing
