#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/picture.h"
#include "integrations/cli/console.h"
#include "integrations/cli/options.h"
#include "integrations/cli/plan_input.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/named_decision.h"
#include "integrations/formats/plan_restore.h"
#include "integrations/formats/shown_plan.h"

namespace tidemark::cli {
namespace {

class ShowCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("PLAN", plan_, "plan.json")->required()->type_name("FILE");
    add_ranks(app, "--rank", ranks_, "only these ranks, such as 3 or 0-3");
    app.add_flag("--picture", picture_, "draw time x addresses of each rank as text");
    app.add_flag("--decisions", decisions_, "list every decision by storage, layer and gap");
    add_format(app, format_);
  }

  Result<ExitStatus> run(Console& console) override {
    const Result<formats::PlanFile> file = read_plan(plan_);
    if (!file) return file.error();
    const Result<plan::PlanOutcome> outcome = formats::restore_outcome(file.value(), ranks_, plan_.string());
    if (!outcome) return outcome.error();
    const plan::PlanRequest request = formats::request_of(file.value());
    const formats::ShownPlan shown{
        .request = request, .outcome = outcome.value(), .decisions = decisions_of(file.value())};
    const formats::ShownParts parts{.decisions = decisions_, .picture = picture_};
    const Status status =
        console.print(format_ == Format::json ? formats::shown_json(shown, parts) : formats::shown_text(shown, parts));
    if (!status) return status.error();
    return ExitStatus::done;
  }

 private:
  [[nodiscard]] std::vector<formats::NamedDecision> decisions_of(const formats::PlanFile& file) const {
    std::vector<formats::NamedDecision> list;
    for (const formats::PlanFile::Rank& rank : file.ranks)
      if (ranks_.empty() || std::ranges::find(ranks_, rank.figures.rank) != ranks_.end())
        std::ranges::move(formats::named_decisions(rank), std::back_inserter(list));
    return list;
  }

  std::filesystem::path plan_;
  std::vector<std::int32_t> ranks_;
  bool picture_ = false, decisions_ = false;
  Format format_ = Format::text;
};

}  // namespace

extern const Verb kCmdShow;
const Verb kCmdShow = {.name = "show",
                       .summary = "Show a plan file: summary, decisions, and a picture of time x addresses",
                       .examples =
                           "  tidemark show plan.json\n"
                           "  tidemark show plan.json --rank 0 --picture\n"
                           "  tidemark show plan.json --decisions --format json\n",
                       .statuses =
                           "  0  shown\n"
                           "  2  bad usage or input; one line on stderr\n"
                           "  3  a fault in Tidemark\n",
                       .make = make_command<ShowCommand>};

}  // namespace tidemark::cli
