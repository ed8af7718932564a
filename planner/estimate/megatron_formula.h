#pragma once
// The estimate that Megatron-LM ships itself (megatron/training/theoretical_memory_usage.py), written anew from its
// published description, to be compared with. What it leaves out is left out here: expert parallelism, expert
// activations, context parallelism in the optimizer's sharding, library workspaces, and every stage but the first.

#include <optional>

#include "planner/estimate/training_run.h"

namespace tidemark::estimate {

/// Two figures of one rank.
struct MemoryFigures {
  double steady_bytes = 0;
  double peak_bytes = 0;
};

/// Weights and optimizer of the first stage, and with its activations; the same for every rank. None: the formula knows
/// decoder and encoder stacks alone (no T5, hybrid or multimodal model).
[[nodiscard]] std::optional<MemoryFigures> megatron_formula(const TrainingRun& run);

}  // namespace tidemark::estimate
