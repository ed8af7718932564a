#include "integrations/cli/console.h"
#include "integrations/cli/options.h"
#include "integrations/cli/plan_input.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/plan_diff.h"

namespace tidemark::cli {
namespace {

constexpr int kMostTop = 1'000'000;

class DiffCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("BEFORE", before_, "plan.json")->required()->type_name("FILE");
    app.add_option("AFTER", after_, "plan.json")->required()->type_name("FILE");
    add_count(app, "--top", top_, 0, kMostTop, "decisions listed (default 30; JSON lists all)");
    add_format(app, format_);
  }

  Result<ExitStatus> run(Console& console) override {
    const Result<formats::PlanFile> before = read_plan(before_);
    if (!before) return before.error();
    const Result<formats::PlanFile> after = read_plan(after_);
    if (!after) return after.error();
    const formats::PlanDiff diff = formats::diff_plans(before.value(), after.value());
    const Status status = console.print(
        format_ == Format::json ? formats::diff_json(diff) : formats::diff_text(diff, static_cast<std::size_t>(top_)));
    if (!status) return status.error();
    return ExitStatus::done;
  }

 private:
  std::filesystem::path before_, after_;
  int top_ = 30;
  Format format_ = Format::text;
};

}  // namespace

extern const Verb kCmdDiff;
const Verb kCmdDiff = {.name = "diff",
                       .summary = "Compare two plans: added, removed, grown and shrunk, by rank and decision",
                       .examples =
                           "  tidemark diff before.json after.json\n"
                           "  tidemark diff before.json after.json --top 100 --format json\n",
                       .statuses =
                           "  0  compared, whether or not they differ\n"
                           "  2  bad usage or input; one line on stderr\n"
                           "  3  a fault in Tidemark\n",
                       .make = make_command<DiffCommand>};

}  // namespace tidemark::cli
