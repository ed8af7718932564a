// Steps captured elsewhere, in the C interface: the text of a graph in, the answer as JSON out.

#include <chrono>
#include <string>

#include "integrations/c_api/handles.h"
#include "integrations/c_api/structs.h"
#include "integrations/formats/import_op_list.h"
#include "integrations/formats/step_plan_report.h"
#include "planner/remat/plan.h"

using namespace tidemark;         // NOLINT: the functions below have the C interface's names
using namespace tidemark::c_api;  // NOLINT

namespace {

constexpr std::int64_t kMostGraphBytes = std::int64_t{1} << 50;
constexpr std::int64_t kMostEffortPercent = 1'000'000;

Outcome check_options(const tidemark_graph_options& o) {
  return check_numbers("tidemark_graph_options",
                       {{.name = "budget_bytes", .value = o.budget_bytes, .least = 1, .most = kMostGraphBytes},
                        {.name = "effort_percent", .value = o.effort_percent, .least = 1, .most = kMostEffortPercent}});
}

Outcome plan_graph(std::string_view text, const std::string& name, const tidemark_graph_options& options,
                   tidemark_buffer** answer) {
  const Result<OpList> list = read_op_list(text, name);
  if (!list) return outcome_of(list.error());
  const auto begin = std::chrono::steady_clock::now();
  const double effort = options.effort_percent > 0 ? static_cast<double>(options.effort_percent) / 100 : 1;
  const remat::StepPlan plan = remat::plan_step_within(
      list.value(), options.budget_bytes, {.collective = options.group_recompute != 0}, {.effort = effort});
  if (!plan.replay.fault.empty()) return outcome_of(internal_fault(name + ": " + plan.replay.fault));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const StepPlanReport report{.file = name, .list = &list.value(), .plan = &plan, .seconds = seconds};
  *answer = new tidemark_buffer{.bytes = step_plan_json(report)};
  return {};
}

}  // namespace

tidemark_status tidemark_graph_plan(const char* text, int64_t bytes, const char* name,
                                    const tidemark_graph_options* options, tidemark_buffer** answer,
                                    tidemark_error** error) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (answer == nullptr) return invalid("answer is NULL");
    *answer = nullptr;
    if (text == nullptr || bytes < 0) return invalid("text is NULL or its size negative");
    tidemark_graph_options known;
    if (Outcome o = read_options(options, "tidemark_graph_options", known); !o.ok()) return o;
    if (Outcome o = check_options(known); !o.ok()) return o;
    if (known.budget_bytes == 0) return invalid("tidemark_graph_options: budget_bytes is 0; it must be given");
    const std::string_view view(text, static_cast<std::size_t>(bytes));
    return plan_graph(view, name != nullptr ? name : "the graph", known, answer);
  });
}
