#include "planner/graph_build/unplanned.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace tidemark::graph_build {
namespace {

void check_mixers(const ModelSpec& model, std::vector<SpecProblem>& problems) {
  const auto other =
      std::ranges::find_if(model.layers, [](LayerKind kind) { return mixer_of(kind) != Mixer::attention; });
  if (other == model.layers.end()) return;
  const bool mamba = mixer_of(*other) == Mixer::mamba;
  problems.push_back(
      {"model.layers",
       fmt::format("layer {} has {}, which is described and counted but not planned; plan a model whose layers are "
                   "dense or moe",
                   other - model.layers.begin(),
                   mamba ? "a state-space mixer (mamba)" : "a mixer of linear attention")});
}

void check_context(const ParallelSpec& parallel, std::vector<SpecProblem>& problems) {
  using Kind = ParallelSpec::ContextKind;
  if (parallel.context == 1 || parallel.context_kind == Kind::all_gather) return;
  problems.push_back({"parallel.context_kind",
                      fmt::format("context_kind {} is not planned; plan with all_gather, which holds the keys and "
                                  "values of all context ranks",
                                  parallel.context_kind == Kind::ring ? "ring" : "ulysses")});
}

/// The job does not keep which of two keys said it: the message names both.
void check_sharded(const JobSpec& job, std::vector<SpecProblem>& problems) {
  const ParallelSpec& parallel = job.parallel;
  const auto refuse = [&](const std::string& what) {
    const std::string_view said =
        parallel.sharded_parameters ? "`parallel.zero: 3`, or `parallel.fsdp2: true`," : "`parallel.zero: 2`";
    problems.push_back({"parallel.zero", fmt::format("{} {}", said, what)});
  };
  if (parallel.sharded_parameters && parallel.pipeline > 1)
    refuse(
        fmt::format("with pipeline {} is not planned, where every micro-batch would gather all layers again; use "
                    "pipeline 1, or zero 2",
                    parallel.pipeline));
  if (parallel.sharded_gradients && parallel.overlap_forward_backward)
    refuse("with overlap_forward_backward is not planned; use overlap_forward_backward: false, or zero 1");
  if (parallel.sharded_gradients && parallel.compute == ParallelSpec::Compute::fp8)
    refuse(
        "with products in fp8 is not planned, whose 8-bit weights would be gathered; use precision.compute: bf16, "
        "or zero 1");
  if (parallel.sharded_gradients && parallel.reuse_fp32_parameter)
    refuse("with reuse_fp32_parameter is not planned; use reuse_fp32_parameter: false, or zero 1");
}

}  // namespace

std::vector<SpecProblem> find_unplanned(const JobSpec& job) {
  std::vector<SpecProblem> problems;
  check_mixers(job.model, problems);
  check_context(job.parallel, problems);
  check_sharded(job, problems);
  return problems;
}

}  // namespace tidemark::graph_build
