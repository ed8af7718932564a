#include "integrations/formats/shown_plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/picture.h"
#include "integrations/formats/outcome_json.h"
#include "integrations/formats/summary_text.h"
#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kColumns = 120, kRows = 32;

std::string decision_table(const std::vector<NamedDecision>& decisions) {
  if (decisions.empty()) return "\nDecisions  everything is kept\n";
  TextTable table({"rank", "storage", "where", "gap", "micro-batches", "GiB/step", "recipe"}, {1, 2, 4, 6});
  for (const NamedDecision& d : decisions)
    table.add({fmt::format("{}", d.rank), d.storage, place_text(d), fmt::format("{}", d.gap), action_text(d),
               gib_text(d.moved_bytes()), d.recipe});
  return "\nEvery decision (bytes taken off the device per step, one way)\n" + table.text();
}

std::string picture_of(const plan::RankPlan& rank) {
  return picture(rank.program.schedule, rank.program.layout, kColumns, kRows);
}

}  // namespace

std::string shown_text(const ShownPlan& plan, const ShownParts& parts) {
  std::string text = plan_summary(plan.request, plan.outcome);
  if (parts.decisions) text += decision_table(plan.decisions);
  if (parts.picture)
    for (const plan::RankPlan& rank : plan.outcome.ranks)
      text += fmt::format("\nRank {}: time (compute clock) x addresses\n{}", rank.figures.rank, picture_of(rank));
  return text;
}

std::string shown_json(const ShownPlan& plan, const ShownParts& parts) {
  Json json = Json::parse(plan_json(plan.request, plan.outcome, 0));
  json.erase("seconds");
  if (parts.decisions) {
    json["decisions"] = Json::array();
    for (const NamedDecision& d : plan.decisions)
      json["decisions"].push_back({{"rank", d.rank},
                                   {"storage", d.storage},
                                   {"block", d.block},
                                   {"chunk", d.chunk},
                                   {"layer", d.layer},
                                   {"gap", d.gap},
                                   {"keep", d.kept},
                                   {"recompute", d.recomputed},
                                   {"swap", d.swapped},
                                   {"recipe", d.recipe},
                                   {"bytes", d.instance_bytes}});
  }
  if (parts.picture) {
    json["pictures"] = Json::array();
    for (const plan::RankPlan& rank : plan.outcome.ranks)
      json["pictures"].push_back({{"rank", rank.figures.rank}, {"text", picture_of(rank)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tidemark::formats
