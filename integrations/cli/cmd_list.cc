#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/ci/budget_file.h"
#include "integrations/cli/budget_location.h"
#include "integrations/cli/console.h"
#include "integrations/cli/locations.h"
#include "integrations/cli/options.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/unit_text.h"
#include "integrations/formats/utf8.h"
#include "planner/graph_build/parameter_count.h"
#include "planner/layout/packer.h"
#include "policies/policies.h"

namespace tidemark::cli {
namespace {

/// A name and one line about it.
struct Entry {
  std::string name, about;
};

std::vector<Entry> shipped(std::string_view kind) {
  std::vector<Entry> entries;
  for (const Description& d : list_descriptions(kind, share_directories()))
    entries.push_back({formats::utf8_text(d.name), formats::utf8_text(d.path.native())});
  return entries;
}

/// The shipped models with their parameters, as far as their files are read.
std::vector<Entry> shipped_models() {
  std::vector<Entry> entries = shipped("models");
  for (Entry& entry : entries) {
    const Result<std::string> text = formats::read_file(entry.about, formats::kMostDescriptionBytes);
    if (!text) continue;
    const Result<graph_build::JobSpec> job = formats::read_described_job(text.value(), entry.about);
    if (!job) continue;
    const graph_build::ParameterCount count = graph_build::count_parameters(job.value().model);
    entry.about = fmt::format("{} ({} parameters, {} active per token)", entry.about,
                              formats::count_text(count.total_both), formats::count_text(count.active));
  }
  return entries;
}

template <class Row>
std::vector<Entry> from_table(std::span<const Row> table, std::string_view Row::*about) {
  std::vector<Entry> entries;
  for (const Row& row : table) entries.push_back({std::string(row.name), std::string(row.*about)});
  return entries;
}

/// The jobs of a budget file, each with its kind and its file.
Result<std::vector<Entry>> jobs_of(std::filesystem::path budget_file) {
  if (budget_file.empty()) {
    const std::optional<std::filesystem::path> found = find_budget_file(".");
    if (!found)
      return bad_input(fmt::format("{}: not found here or in a folder above; name a budget file", ci::kBudgetFileName));
    budget_file = *found;
  }
  const Result<ci::BudgetFile> read = read_budget(budget_file);
  if (!read) return read.error();
  std::vector<Entry> entries;
  for (const ci::BudgetJob& job : read.value().jobs)
    entries.push_back(
        {formats::printable(job.name), formats::printable(fmt::format("{} {}", word_of(job.kind), job.file))});
  return entries;
}

struct Kind {
  std::string_view name;
  std::vector<Entry> (*list)();
};
constexpr std::string_view kJobs = "jobs";  // the one that a file of the user decides
constexpr std::array kKinds = {
    Kind{"policies", [] { return from_table(policies::policies(), &plan::Policy::help); }},
    Kind{"models", shipped_models},
    Kind{"devices", [] { return shipped("devices"); }},
    Kind{"packers", [] { return from_table(layout::packers(), &layout::Packer::help); }},
    Kind{"verbs", [] { return from_table(verbs(), &Verb::summary); }},
};

class ListCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    std::vector<std::string> names;
    for (const Kind& kind : kKinds) names.emplace_back(kind.name);
    names.emplace_back(kJobs);
    add_word(app, "KIND", kind_, "kind", names, "what to list: " + join_words(names));
    app.get_option("KIND")->required();
    app.add_option("FILE", budget_file_,
                   "of jobs: the budget file; default: tidemark-budget.yaml here or in a folder above")
        ->type_name("FILE");
    add_format(app, format_);
    app.add_flag("--names", names_, "the names alone, one a line")->excludes("--format");
  }

  Result<ExitStatus> run(Console& console) override {
    const Result<std::vector<Entry>> listed = list();
    if (!listed) return listed.error();
    const Status status = console.print(names_                    ? names_text(listed.value())
                                        : format_ == Format::json ? json_text(listed.value())
                                                                  : table_text(listed.value()));
    if (!status) return status.error();
    return ExitStatus::done;
  }

 private:
  [[nodiscard]] Result<std::vector<Entry>> list() const {
    if (kind_ == kJobs) return jobs_of(budget_file_);
    if (!budget_file_.empty()) return bad_input("FILE: belongs to `list jobs`; drop it");
    return std::ranges::find(kKinds, kind_, &Kind::name)->list();
  }

  static std::string names_text(const std::vector<Entry>& entries) {
    std::string text;
    for (const Entry& entry : entries) text += entry.name + "\n";
    return text;
  }

  static std::string table_text(const std::vector<Entry>& entries) {
    std::string text;
    std::size_t width = 0;
    for (const Entry& entry : entries) width = std::max(width, entry.name.size());
    for (const Entry& entry : entries) text += fmt::format("{:<{}}  {}\n", entry.name, width, entry.about);
    return text;
  }

  static std::string json_text(const std::vector<Entry>& entries) {
    auto json = nlohmann::ordered_json::array();
    for (const Entry& entry : entries) json.push_back({{"name", entry.name}, {"about", entry.about}});
    return json.dump(2) + "\n";
  }

  std::string kind_;
  std::filesystem::path budget_file_;
  bool names_ = false;
  Format format_ = Format::text;
};

}  // namespace

extern const Verb kCmdList;
const Verb kCmdList = {.name = "list",
                       .summary = "List policies, models, devices, packers, verbs or the jobs of a budget file",
                       .examples =
                           "  tidemark list policies\n"
                           "  tidemark list devices --format json\n"
                           "  tidemark list jobs ci/tidemark-budget.yaml --names\n",
                       .statuses =
                           "  0  listed\n"
                           "  2  bad usage, or a budget file that cannot be read; one line on stderr\n"
                           "  3  a fault in Tidemark\n",
                       .make = make_command<ListCommand>};

}  // namespace tidemark::cli
