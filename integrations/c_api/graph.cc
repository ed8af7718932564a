// Steps captured elsewhere, in the C interface: the text of a graph in, the answer as JSON out.

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "integrations/c_api/handles.h"
#include "integrations/c_api/plan_watch.h"
#include "integrations/c_api/structs.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/import_captured_step.h"
#include "integrations/formats/outcome_json.h"
#include "integrations/formats/program_file.h"
#include "planner/graph_build/given_machine.h"
#include "planner/planner.h"
#include "policies/policies.h"

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
                   tidemark_buffer** answer, tidemark_buffer** plan_file) {
  Result<formats::CapturedStep> step = formats::read_captured_step(text, name);
  if (!step) return outcome_of(step.error());
  const auto begin = std::chrono::steady_clock::now();
  plan::PlanRequest request;
  request.machine =
      graph_build::given_machine(std::min(step.value().host_bytes, formats::kMostPlanBytes), formats::kMostPlanBytes);
  request.budget_bytes = options.budget_bytes;
  request.policy = policies::find_policy("optimal");
  request.step =
      plan::GivenStep{.name = name,
                      .framework = std::move(step.value().framework),
                      .graph = std::make_shared<const Graph>(std::move(step.value().graph)),
                      .rules = {.collective = options.group_recompute != 0},
                      .effort = options.effort_percent > 0 ? static_cast<double>(options.effort_percent) / 100 : 1};
  std::optional<PlanWatch> watch;
  if (options.watch != nullptr) {
    watch.emplace(options.watch, options.watch_user);
    request.step->on_progress = [&watch](double share) { watch->tell(share); };
    request.step->should_stop = [&watch] { return watch->should_stop(); };
    static_cast<void>(watch->should_stop());
  }
  const Result<plan::PlanOutcome> outcome = plan::plan_step(request);
  if (!outcome) return outcome_of(outcome.error());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  auto said = std::make_unique<tidemark_buffer>();
  said->bytes = formats::plan_json(request, outcome.value(), seconds);
  if (plan_file != nullptr)
    *plan_file = new tidemark_buffer{.bytes = formats::write_plan_file(request, outcome.value())};
  *answer = said.release();
  return {};
}

}  // namespace

tidemark_status tidemark_graph_plan(const char* text, int64_t bytes, const char* name,
                                    const tidemark_graph_options* options, tidemark_buffer** answer,
                                    tidemark_buffer** plan_file, tidemark_error** error) noexcept {
  if (answer != nullptr) *answer = nullptr;
  if (plan_file != nullptr) *plan_file = nullptr;
  return guarded(error, [&]() -> Outcome {
    if (answer == nullptr) return invalid("answer is NULL");
    if (text == nullptr || bytes < 0) return invalid("text is NULL or its size negative");
    tidemark_graph_options known;
    if (Outcome o = read_options(options, "tidemark_graph_options", known); !o.ok()) return o;
    if (Outcome o = check_options(known); !o.ok()) return o;
    if (known.budget_bytes == 0) return invalid("tidemark_graph_options: budget_bytes is 0; it must be given");
    const std::string_view view(text, static_cast<std::size_t>(bytes));
    return plan_graph(view, name != nullptr ? name : "the graph", known, answer, plan_file);
  });
}
