#pragma once
// Every section of a program that could run in chunks (core/dispatch_section.h), before it is decided which are worth
// it.
//
// A section starts as all routed storages of one site and pass that only ops on rows touch, as far as tasks connect
// them. Where the chunks in front could not run - a task would overtake one it depends on, a kept storage would come
// into bytes still in use, a buffer finds no place -, the storages that are in the way are taken out: they are kept
// ones then, and what is left may fall apart into smaller sections.

#include <cstdint>
#include <vector>

#include "core/dispatch_section.h"
#include "core/graph.h"
#include "core/program.h"

namespace tidemark::ladder {

/// Sections are split into so many chunks: beyond it, only kept storages bind.
inline constexpr std::int32_t kPlannedChunks = 4;

struct SectionDraft {
  SectionParts parts;
  std::vector<ChunkBuffer> buffers;  ///< as parts.inside
};

/// Routed storages that may be inside a section, per residency.
[[nodiscard]] std::vector<char> inside_candidates(const Graph& graph, const Program& program);

/// Sections made of these storages, ascending first task; any of them may run in chunks with any others. Buffers are
/// placed in bytes of the arena that the plan leaves free at the time, with room for `load`.
[[nodiscard]] std::vector<SectionDraft> draft_sections(const Graph& graph, const Program& program,
                                                       const std::vector<char>& candidates, double load);

}  // namespace tidemark::ladder
