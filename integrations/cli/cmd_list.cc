#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "integrations/cli/console.h"
#include "integrations/cli/locations.h"
#include "integrations/cli/options.h"
#include "integrations/cli/verb.h"
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
    entries.push_back({d.name, d.path.string()});
  return entries;
}

template <class Row>
std::vector<Entry> from_table(std::span<const Row> table, std::string_view Row::*about) {
  std::vector<Entry> entries;
  for (const Row& row : table) entries.push_back({std::string(row.name), std::string(row.*about)});
  return entries;
}

struct Kind {
  std::string_view name;
  std::vector<Entry> (*list)();
};
constexpr std::array kKinds = {
    Kind{"policies", [] { return from_table(policies::policies(), &plan::Policy::help); }},
    Kind{"models", [] { return shipped("models"); }},
    Kind{"devices", [] { return shipped("devices"); }},
    Kind{"packers", [] { return from_table(layout::packers(), &layout::Packer::help); }},
    Kind{"verbs", [] { return from_table(verbs(), &Verb::summary); }},
};

class ListCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    std::vector<std::string> names;
    for (const Kind& kind : kKinds) names.emplace_back(kind.name);
    add_word(app, "KIND", kind_, "kind", names, "what to list: " + join_words(names));
    app.get_option("KIND")->required();
    add_format(app, format_);
  }

  Result<ExitStatus> run(Console& console) override {
    const std::vector<Entry> entries = std::ranges::find(kKinds, kind_, &Kind::name)->list();
    std::string text;
    std::size_t width = 0;
    for (const Entry& entry : entries) width = std::max(width, entry.name.size());
    auto json = nlohmann::ordered_json::array();
    for (const Entry& entry : entries) {
      text += fmt::format("{:<{}}  {}\n", entry.name, width, entry.about);
      json.push_back({{"name", entry.name}, {"about", entry.about}});
    }
    const Status status = console.print(format_ == Format::json ? json.dump(2) + "\n" : text);
    if (!status) return status.error();
    return ExitStatus::done;
  }

 private:
  std::string kind_;
  Format format_ = Format::text;
};

}  // namespace

extern const Verb kCmdList;
const Verb kCmdList = {.name = "list",
                       .summary = "List policies, models, devices, packers or verbs",
                       .examples =
                           "  tidemark list policies\n"
                           "  tidemark list devices --format json\n",
                       .statuses =
                           "  0  listed\n"
                           "  2  bad usage; one line on stderr\n"
                           "  3  a fault in Tidemark\n",
                       .make = make_command<ListCommand>};

}  // namespace tidemark::cli
