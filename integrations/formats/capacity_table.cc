#include "integrations/formats/capacity_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "integrations/formats/job_text.h"
#include "integrations/formats/spec_fields.h"
#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;

bool pads(const std::vector<plan::CapacityLine>& lines) {
  return lines.back().choice.pads;
}

std::string_view level_of(const plan::CapacityLine& line) {
  return kCapacityWords[static_cast<std::size_t>(line.choice.level)];
}

std::string planned_load_text(const plan::CapacityLine& line) {
  const std::string least = fmt::format("{:.3f}", line.least_load), most = fmt::format("{:.3f}", line.most_load);
  return least == most ? least : least + " to " + most;
}

std::string dropped_text(const DroppedShare& dropped) {
  if (dropped.share > 0 && dropped.share < 5e-6) return "< 0.001";
  return fmt::format("{}{:.3f}", dropped.is_bound ? "at least " : "", 100 * dropped.share);
}

}  // namespace

std::string capacity_text(const plan::PlanRequest& request, const std::vector<plan::CapacityLine>& lines,
                          const CapacityDrops& drops) {
  TextTable table({"capacity", "level", "load f", "kept GiB", "planned GiB", "fit", "step s", "dropped %"}, {1});
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const plan::CapacityLine& line = lines[i];
    const bool is_dropless = line.choice.factor <= 0;
    table.add({is_dropless ? "none" : fmt::format("{:.1f}", line.choice.factor),
               is_dropless ? "" : std::string(level_of(line)), planned_load_text(line), gib_text(line.kept_bytes),
               gib_text(line.peak_bytes), fmt::format("{} of {}", line.fitting, line.ranks),
               fmt::format("{:.3f}", static_cast<double>(line.step.step_ns) / 1e9), dropped_text(drops.shares[i])});
  }
  std::string text = fmt::format(
      "{} on {}: {}\n{}\ndropless beside {}; {} {}\n\n{}\n"
      "load f: that memory is planned for, by rank; kept: the highest peak with everything kept; planned: the highest "
      "of "
      "the plan\npeaks and steps are modelled, the share dropped is {}\n",
      step_name_of(request), request.machine.name, layout_text(request),
      fmt::format("budget {}, policy {}", format_bytes(device_budget_of(request)), request.policy->name),
      pads(lines) ? "drop-and-pad" : "drops without padding", drops.is_counted ? "counts of" : "loads of", drops.loads,
      table.text(), drops.is_counted ? "counted" : "modelled");
  for (const std::string& note : drops.notes) text += note + "\n";
  return text;
}

std::string capacity_json(const plan::PlanRequest& request, const std::vector<plan::CapacityLine>& lines,
                          const CapacityDrops& drops) {
  Json object = {{"model", step_name_of(request)},
                 {"device", request.machine.name},
                 {"policy", request.policy->name},
                 {"budget_bytes", device_budget_of(request)},
                 {"pads", pads(lines)},
                 {"loads", drops.loads},
                 {"dropped_is", drops.is_counted ? "counted" : "modelled"},
                 {"times_are", "modelled"},
                 {"lines", Json::array()},
                 {"notes", drops.notes}};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const plan::CapacityLine& line = lines[i];
    const bool is_dropless = line.choice.factor <= 0;
    object["lines"].push_back({{"capacity_factor", is_dropless ? Json() : Json(line.choice.factor)},
                               {"capacity_level", is_dropless ? Json() : Json(level_of(line))},
                               {"least_load", line.least_load},
                               {"most_load", line.most_load},
                               {"kept_bytes", line.kept_bytes},
                               {"peak_bytes", line.peak_bytes},
                               {"ranks", line.ranks},
                               {"ranks_that_fit", line.fitting},
                               {"step_ms", static_cast<double>(line.step.step_ns) / 1e6},
                               {"dropped_percent", 100 * drops.shares[i].share},
                               {"dropped_is_bound", drops.shares[i].is_bound}});
  }
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tidemark::formats
