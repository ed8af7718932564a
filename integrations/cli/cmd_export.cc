#include <fmt/format.h>

#include <algorithm>

#include "integrations/cli/console.h"
#include "integrations/cli/options.h"
#include "integrations/cli/output_set.h"
#include "integrations/cli/plan_input.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/export_report.h"
#include "integrations/formats/plan_restore.h"

namespace tidemark::cli {
namespace {

const std::vector<std::string>& frameworks() {
  static const std::vector<std::string> words = {"megatron", "mindspeed", "mindformers"};
  return words;
}

/// Loads the plan was made for; ranks that are not in it run at the mean.
std::vector<double> loads_of(const formats::PlanFile& plan) {
  std::vector<double> loads(static_cast<std::size_t>(plan.job.parallel.pipeline),
                            plan.load.value_or(plan.job.expert_load.mean));
  for (const formats::PlanFile::Rank& rank : plan.ranks)
    loads[static_cast<std::size_t>(rank.figures.rank)] = rank.figures.load;
  return loads;
}

class ExportCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PLAN", plan_, "plan.json")->required()->type_name("FILE");
    add_word(app, "--to", to_, "framework", frameworks(),
             "framework whose settings are wanted (required): " + join_words(frameworks()));
    app.get_option("--to")->required();
    add_file(app, "--out", out_, "write the settings alone: arguments, one option a line, or YAML");
    add_threads(app, threads_);
    add_format(app, format_);
  }

  Result<ExitStatus> run(Console& console) override {
    const Result<formats::PlanFile> plan = read_plan(plan_);
    if (!plan) return plan.error();
    if (plan.value().graph != nullptr)
      return bad_input(
          fmt::format("{}: the plan is of a captured step, which no framework's settings describe; "
                      "plan --schedule-out writes its order",
                      plan_.string()));
    if (const std::int32_t parts = plan.value().job.parallel.expert_exchange_parts; parts > 1)
      return bad_input(
          fmt::format("{}: experts exchange rows in {} parts, which the settings of {} cannot say; plan with "
                      "parallel.expert_exchange_parts 1",
                      plan_.string(), parts, to_));
    // The same refusals as elsewhere: a plan of another version's step, or an edited one.
    if (const auto restored = formats::restore_outcome(plan.value(), {}, plan_.string()); !restored)
      return restored.error();
    const auto word = std::ranges::find(frameworks(), to_) - frameworks().begin();
    const formats::ExportVocabulary vocabulary =
        formats::vocabulary_of(static_cast<formats::Framework>(word), plan.value());
    plan::PlanRequest request = formats::request_of(plan.value());
    request.threads = threads_;
    Result<search::SettingOutcome> found = Error{};
    OutputSet outputs(format_);
    Status status = outputs.add(out_, {plan_}, [&](std::ostream& stream) -> Status {
      stream << formats::settings_text(vocabulary, found.value().values, plan.value());
      return {};
    });
    if (!status) return status.error();
    found = search::search_settings({.request = request,
                                     .loads = loads_of(plan.value()),
                                     .settings = vocabulary.settings,
                                     .starts = formats::starts_of(vocabulary, plan.value())});
    if (!found) return found.error();
    const formats::ExportReport report{.plan = plan.value(), .vocabulary = vocabulary, .settings = found.value()};
    status =
        outputs.write(console, format_ == Format::json ? formats::export_json(report) : formats::export_text(report));
    if (!status) return status.error();
    return found.value().outcome.fits() ? ExitStatus::done : ExitStatus::answer_is_no;
  }

 private:
  std::filesystem::path plan_, out_;
  std::string to_;
  int threads_ = 0;
  Format format_ = Format::text;
};

}  // namespace

extern const Verb kCmdExport;
const Verb kCmdExport = {
    .name = "export",
    .summary = "Write the settings of a training framework that come closest to a plan, evaluated anew",
    .examples =
        "  tidemark export plan.json --to megatron\n"
        "  tidemark export plan.json --to mindspeed --out recompute.args\n"
        "  tidemark export plan.json --to mindformers --out recompute.yaml --format json\n",
    .statuses =
        "  0  every rank fits its budget with the settings written\n"
        "  1  no settings were found with which every rank fits; the closest are written\n"
        "  2  bad usage or input; one line on stderr, nothing written\n"
        "  3  a fault in Tidemark\n",
    .make = make_command<ExportCommand>};

}  // namespace tidemark::cli
