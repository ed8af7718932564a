#pragma once
// Model architectures that are worth a look: every combination of a few sizes, within bounds on parameters. What a
// space does not vary stays as the job's model has it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/graph_build/job_spec.h"
#include "planner/graph_build/static_memory.h"
#include "planner/search/layout_space.h"

namespace tidemark::search {

/// Values tried, each list ascending; empty: the model's own.
struct ArchitectureRanges {
  std::vector<std::int64_t> layers;        ///< decoder layers, dense and MoE together
  std::vector<std::int64_t> dense_layers;  ///< of these, the first
  std::vector<std::int64_t> hidden;
  std::vector<std::int64_t> heads;  ///< attention heads; key-value heads of gqa keep their ratio
  std::vector<std::int64_t> dense_width;
  std::vector<std::int64_t> experts;
  std::vector<std::int64_t> top_k;
  std::vector<std::int64_t> expert_width;
  std::vector<std::int64_t> shared_experts;  ///< of the experts' width each
  std::vector<std::int64_t> mtp_layers;
};

/// Inclusive; nothing: no bound.
struct ArchitectureBounds {
  std::optional<double> least_parameters, most_parameters;  ///< with output matrix and MTP modules
  std::optional<double> least_active, most_active;          ///< per token, one embedding matrix
  std::optional<double> most_step_s;                        ///< of the best layout
};

struct Architecture {
  graph_build::ModelSpec model;
  graph_build::ParameterCount parameters;
};

struct ArchitectureSpace {
  std::vector<Architecture> architectures;      ///< in the order of the lists, the last list fastest
  std::int64_t combinations = 0;                ///< of all values
  std::int64_t outside = 0;                     ///< outside the bounds on parameters
  std::map<std::string, std::int64_t> refused;  ///< against a rule of models, by its key
  std::optional<std::size_t> given;             ///< the job's own model
};

/// Combinations of a space at most.
inline constexpr std::int64_t kMostArchitectures = 200'000;

/// REQUIRES: at most kMostArchitectures combinations; find_problems(job) is empty. One thread.
[[nodiscard]] ArchitectureSpace enumerate_architectures(const graph_build::JobSpec& job,
                                                        const ArchitectureRanges& ranges,
                                                        const ArchitectureBounds& bounds);

/// How many combinations the lists have; saturates.
[[nodiscard]] std::int64_t combinations_of(const ArchitectureRanges& ranges);

/// `61 layers (3 dense), hidden 7680, 128 heads, 256 experts top-8 of 2048, 1 shared, MTP 1`.
[[nodiscard]] std::string architecture_text(const graph_build::ModelSpec& model);

}  // namespace tidemark::search
