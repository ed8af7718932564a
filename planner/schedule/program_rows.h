#pragma once
// Columns of a Program that say what the graph has to do with its schedule: messages, routed storages, routing slots,
// and where layers can run in chunks.

#include "core/graph.h"
#include "core/program.h"

namespace tidemark::schedule {

/// Fills sends, receives (without arrival estimates), routed, routing_slots and section_ends. REQUIRES: the
/// schedule runs the graph.
void add_program_rows(const Graph& graph, Program& program);

}  // namespace tidemark::schedule
