#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "integrations/cli/console.h"
#include "integrations/cli/graph_job.h"
#include "integrations/cli/interrupt.h"
#include "integrations/cli/job_request.h"
#include "integrations/cli/output_set.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/captured_report.h"
#include "integrations/formats/export_perfetto.h"
#include "integrations/formats/frontier_report.h"
#include "integrations/formats/outcome_json.h"
#include "integrations/formats/policy_comparison.h"
#include "integrations/formats/program_file.h"
#include "integrations/formats/report_html.h"
#include "integrations/formats/summary_text.h"
#include "policies/policies.h"

namespace tidemark::cli {
namespace {

/// Packs for minutes; beyond it nothing is found any more.
constexpr double kMostPackEffort = 10'000;

class PlanCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    add_job_options(app, job_);
    add_file(app, "--out", out_, "write the plan with every rank's program, JSON (docs/formats.md)");
    add_file(app, "--report", report_, "write a self-contained HTML report");
    add_file(app, "--trace", trace_, "write the modelled step for ui.perfetto.dev, JSON");
    add_positive(app, "--pack-effort", pack_effort_, kMostPackEffort,
                 "work for looking for lower addresses than the quick orders find; more fits tighter, the result never "
                 "depends on the machine's speed; default 1: the quick orders alone");
    app.add_flag("--compare", compare_, "plan with every policy and print them side by side");
    add_graph_options(app, graph_);
  }

  Result<ExitStatus> run(Console& console) override {
    Result<plan::PlanRequest> request =
        graph_.graph.empty() ? read_request(job_, &console) : read_graph_request(graph_, job_);
    if (!request) return request.error();
    request.value().pack_effort = pack_effort_.value_or(1);
    Material made;  // filled before the outputs are written
    OutputSet outputs(job_.format);
    if (Status status = add_outputs(request.value(), made, outputs); !status) return status.error();
    if (Status status = plan(request.value(), console, made); !status) return status.error();

    const bool fits = made.planned.outcome.fits();
    if (made.planned.outcome.stopped)
      console.note(fmt::format("{} ended the search: {}", InterruptListener::heard() ? "an interrupt" : "--time-limit",
                               fits ? "the plan is the best found by then" : "no plan that fits was found by then"));
    if (!fits && !graph_.schedule_out.empty()) {
      outputs.drop(graph_.schedule_out);
      console.note(fmt::format("{} is not written, since none was found that fits", graph_.schedule_out.string()));
    }
    if (Status status = outputs.write(console, text(request.value(), made)); !status) return status.error();
    return fits ? ExitStatus::done : ExitStatus::answer_is_no;
  }

 private:
  [[nodiscard]] const std::filesystem::path& subject() const {
    return graph_.graph.empty() ? subject_of(job_) : graph_.graph;
  }

  /// The plan asked for, and figures of every policy where they are compared.
  struct Material {
    Planned planned;
    std::vector<formats::PolicyResult> results;
    std::vector<plan::BudgetPoint> frontier;
  };

  Status add_outputs(const plan::PlanRequest& request, const Material& made, OutputSet& outputs) {
    std::vector<std::filesystem::path> inputs = inputs_of(job_);
    if (request.step) inputs.push_back(graph_.graph);
    Status status = outputs.add(out_, inputs, [&](std::ostream& stream) -> Status {
      stream << formats::write_plan_file(request, made.planned.outcome);
      return {};
    });
    if (!status) return status;
    status = outputs.add(report_, inputs, [&](std::ostream& stream) -> Status {
      stream << formats::report_html(request, made.planned.outcome, made.results, made.frontier);
      return {};
    });
    if (!status) return status;
    status = outputs.add(graph_.schedule_out, inputs, [&](std::ostream& stream) -> Status {
      stream << formats::order_text(formats::run_list_of(made.planned.outcome.ranks.front()));
      return {};
    });
    if (!status) return status;
    return outputs.add(trace_, inputs,
                       [&](std::ostream& stream) { return formats::write_perfetto(stream, made.planned.outcome); });
  }

  Status plan(const plan::PlanRequest& request, const Console& console, Material& made) const {
    Result<Planned> planned = plan_with_progress(request, subject(), console);
    if (!planned) return planned.error();
    made.planned = std::move(planned).value();
    return compare_ || graph_.frontier ? compare(request, console, made) : Status{};
  }

  /// The plan asked for, whose ranks may each have a load of their own, beside others: all at the highest of those.
  Status compare(plan::PlanRequest request, const Console& console, Material& made) const {
    const auto plan = [&](const plan::PlanRequest& other) -> Result<plan::PlanOutcome> {
      Result<Planned> planned = plan_with_progress(other, subject(), console);
      if (!planned) return planned.error();
      return std::move(planned).value().outcome;
    };
    std::optional<plan::PlanOutcome> at_load;
    const bool varies = !request.step && !request.load && request.job.expert_load.coefficient_of_variation > 0;
    if (varies) {
      request.load = made.planned.outcome.highest_load();
      Result<plan::PlanOutcome> again = plan(request);
      if (!again) return again.error();
      at_load = std::move(again).value();
    }
    const plan::PlanOutcome& asked = at_load ? *at_load : made.planned.outcome;
    for (const plan::Policy& policy : policies::policies()) {
      if (!compare_) break;
      if (&policy == request.policy) {
        made.results.push_back(formats::result_of(policy.name, asked));
        continue;
      }
      plan::PlanRequest other = request;
      other.policy = &policy;
      const Result<plan::PlanOutcome> outcome = plan(other);
      if (!outcome) return outcome.error();
      made.results.push_back(formats::result_of(policy.name, outcome.value()));
    }
    if (!graph_.frontier || request.step) return {};
    Result<std::vector<plan::BudgetPoint>> frontier = plan::budget_frontier(request, asked, plan);
    if (!frontier) return frontier.error();
    made.frontier = std::move(frontier).value();
    return {};
  }

  [[nodiscard]] std::string text(const plan::PlanRequest& request, const Material& made) const {
    const auto& [outcome, seconds] = made.planned;
    if (job_.format == Format::json) {
      std::string json = formats::plan_json(request, outcome, seconds);
      if (compare_) json = formats::with_comparison(json, request, made.results);
      return graph_.frontier && !request.step ? formats::with_frontier(json, made.frontier) : json;
    }
    std::string summary = formats::plan_summary(request, outcome);
    if (compare_) summary += formats::comparison_text(made.results);
    return graph_.frontier && !request.step ? summary + formats::frontier_text(made.frontier, plan::budget_of(request))
                                            : summary;
  }

  JobOptions job_;
  GraphJob graph_;
  std::filesystem::path out_, report_, trace_;
  std::optional<double> pack_effort_;
  bool compare_ = false;
};

}  // namespace

extern const Verb kCmdPlan;
const Verb kCmdPlan = {
    .name = "plan",
    .summary = "Plan every rank's step: what to keep, recompute and swap, with addresses, checked",
    .examples =
        "  tidemark plan models/pangu-ultra-moe-718b.yaml\n"
        "  tidemark plan models/pangu-ultra-moe-718b.yaml --out plan.json --report plan.html --trace plan.trace.json\n"
        "  tidemark plan models/pangu-ultra-moe-718b.yaml --imbalance 1.5 --host-budget 32GiB --compare\n"
        "  tidemark plan models/small-mla-moe.yaml --budget 3GiB --ranks 0 --format json\n"
        "  tidemark plan --megatron-args pretrain_llama.sh --device ascend-910b-64g --strict\n"
        "  tidemark plan --graph resnet50.graph --budget 18MiB --schedule-out order.txt\n",
    .statuses =
        "  0  every rank fits its budget\n"
        "  1  some rank does not fit; the output says why and the smallest budget that would do\n"
        "  2  bad usage or input; one line on stderr, nothing written\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<PlanCommand>};

}  // namespace tidemark::cli
