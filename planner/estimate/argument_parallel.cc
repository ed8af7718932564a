#include <array>

#include "planner/estimate/argument_rows.h"
#include "planner/estimate/argument_value.h"

namespace tidemark::estimate {
namespace {

std::string_view set_schedule(Draft& draft, std::string_view word) {
  if (word != "dualpipev") return "only dualpipev is modelled besides the default";
  draft.run.parallel.schedule = Schedule::dualpipev;
  return {};
}

/// What the launcher is told; of `8 script.py`, as some tools cut the line, the number.
template <std::optional<std::int64_t> Draft::*kField>
std::string_view set_launch(Draft& draft, std::string_view text) {
  const std::vector<std::string> items = list_items(text);
  const std::optional<std::int64_t> number = items.empty() ? std::nullopt : whole_number(items.front());
  if (!number || *number < 1 || *number > static_cast<std::int64_t>(kMostCount))
    return "write a number from 1 to 65536";
  draft.*kField = number;
  return {};
}

constexpr std::array kRows = {
    count("tensor-model-parallel-size", 1, kMostDegree, [](Draft& d, std::int64_t n) { d.run.parallel.tensor = n; }),
    count("model-parallel-size", 1, kMostDegree, [](Draft& d, std::int64_t n) { d.run.parallel.tensor = n; }),
    on_off("sequence-parallel", [](Draft& d, bool on) { d.run.parallel.sequence_parallel = on; }),
    count("pipeline-model-parallel-size", 1, kMostCount, [](Draft& d, std::int64_t n) { d.run.parallel.pipeline = n; }),
    count("context-parallel-size", 1, kMostDegree, [](Draft& d, std::int64_t n) { d.run.parallel.context = n; }),
    count("expert-model-parallel-size", 1, kMostDegree, [](Draft& d, std::int64_t n) { d.run.parallel.expert = n; }),
    count("expert-tensor-parallel-size", 1, kMostDegree, [](Draft& d, std::int64_t n) { d.expert_tensor = n; }),
    on_off("moe-tp-extend-ep", [](Draft& d, bool on) { d.tensor_extends_expert = on; }),
    count("num-distributed-optimizer-instances", 1, kMostDegree,
          [](Draft& d, std::int64_t n) { d.run.parallel.optimizer_instances = n; }),
    count("num-layers-per-virtual-pipeline-stage", 1, 100'000,
          [](Draft& d, std::int64_t n) { d.layers_per_virtual_stage = n; }),
    count("num-virtual-stages-per-pipeline-rank", 1, kMostCount,
          [](Draft& d, std::int64_t n) { d.virtual_stages = n; }),
    count("virtual-pipeline-model-parallel-size", 1, kMostCount,
          [](Draft& d, std::int64_t n) { d.virtual_stages = n; }),
    count("microbatch-group-size-per-virtual-pipeline-stage", 1, kMostDegree,
          [](Draft& d, std::int64_t n) { d.run.parallel.micro_batch_group = n; }),
    text("pipeline-model-parallel-layout",
         [](Draft& d, std::string_view t) -> std::string_view {
           d.layout = t;
           return {};
         }),
    count("decoder-first-pipeline-num-layers", 0, 100'000, [](Draft& d, std::int64_t n) { d.first_stage_layers = n; }),
    count("decoder-last-pipeline-num-layers", 0, 100'000, [](Draft& d, std::int64_t n) { d.last_stage_layers = n; }),
    count("num-layers-in-first-pipeline-stage", 0, 100'000, [](Draft& d, std::int64_t n) { d.first_stage_layers = n; }),
    count("num-layers-in-last-pipeline-stage", 0, 100'000, [](Draft& d, std::int64_t n) { d.last_stage_layers = n; }),
    on_off("account-for-embedding-in-pipeline-split", [](Draft& d, bool on) { d.embedding_counts = on; }),
    on_off("account-for-loss-in-pipeline-split", [](Draft& d, bool on) { d.loss_counts = on; }),
    text("noop-layers",
         [](Draft& d, std::string_view t) -> std::string_view {
           d.noop_layers = t;
           return {};
         }),
    text("num-layer-list",
         [](Draft& d, std::string_view t) -> std::string_view {
           d.layer_list = t;
           return {};
         }),
    text("schedules-method", set_schedule),
    on_off("use-tp-pp-dp-mapping", [](Draft& d, bool on) { d.run.parallel.pipeline_inside_data = on; }),
    on_off("moe-fb-overlap", [](Draft& d, bool on) { d.run.parallel.overlap_forward_backward = on; }),
    on_off("overlap-moe-expert-parallel-comm",
           [](Draft& d, bool on) { d.run.parallel.overlap_expert_communication = on; }),
    text("nnodes", set_launch<&Draft::nodes>),
    text("nproc-per-node", set_launch<&Draft::devices_per_node>),
};

}  // namespace

std::span<const ArgumentRow> parallel_arguments() {
  return kRows;
}

}  // namespace tidemark::estimate
