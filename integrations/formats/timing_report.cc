#include "integrations/formats/timing_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "integrations/formats/balance_text.h"
#include "integrations/formats/job_text.h"
#include "integrations/formats/outcome_json.h"
#include "integrations/formats/step_band.h"
#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"
#include "planner/time_split.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;

double to_ms(double ns) {
  return ns / 1e6;
}

std::string percent_of(std::int64_t part, std::int64_t whole) {
  return fmt::format("{:.2f}", whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0);
}

std::string step_text(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  const plan::StepFigures& s = outcome.step;
  if (request.step)
    return fmt::format(
        "step {}, {} with everything kept and memory ignored (modelled)\n"
        "exposed copies {:.2f} %, recompute {:.2f} %\n",
        duration_text(s.step_ns), duration_text(s.keep_all_step_ns), s.exposed_copy_percent, s.recompute_percent);
  const auto line_of = [](const std::string& text) { return text.empty() ? "" : text + "\n"; };
  return fmt::format(
             "step {}, {} with everything kept and memory ignored (modelled)\n"
             "bubble {:.2f} %, exposed communication {:.2f} %, exposed copies {:.2f} %, recompute {:.2f} %\n"
             "MFU {:.2f} % with full-square attention, {:.2f} % causal; {} tokens/s\n",
             duration_text(s.step_ns), duration_text(s.keep_all_step_ns), s.bubble_percent,
             s.exposed_communication_percent, s.exposed_copy_percent, s.recompute_percent, s.mfu_percent,
             s.mfu_causal_percent, count_text(s.tokens_per_s)) +
         line_of(band_text(request)) + line_of(balance_text(request, outcome));
}

std::string rank_text(const plan::PlanOutcome& outcome) {
  TextTable table({"rank", "compute", "recompute", "copy cost", "exposed comm", "exposed copy", "bubble", "bubble %",
                   "comm busy", "copy busy", "copy %"});
  for (const plan::RankPlan& rank : outcome.ranks) {
    const plan::TimeSplit t = plan::split_time(rank, outcome.step.step_ns);
    table.add({fmt::format("{}", rank.figures.rank), ms_text(t.compute_ns), ms_text(t.recompute_ns),
               ms_text(t.copy_overhead_ns), ms_text(t.exposed_communication_ns), ms_text(t.exposed_copy_ns),
               ms_text(t.bubble_ns), percent_of(t.bubble_ns, t.step_ns), ms_text(t.communication_ns),
               ms_text(t.copy_ns), percent_of(t.copy_ns, t.step_ns)});
  }
  return "\nRanks (ms per step, modelled; compute to bubble add up to the step; copy busy is the busier direction and "
         "copy % its share of the window)\n" +
         table.text();
}

std::string against_text(const Against& against) {
  const plan::GapReport& gap = against.gap;
  TextTable table({"cause", "published ms", "modelled ms", "gap ms", "share %", "published side"}, {0, 5});
  const double total = gap.published_step_ns - gap.modelled_step_ns;
  const auto add = [&](std::string_view cause, double published, double modelled, std::string_view basis) {
    const double share = total == 0 ? 0 : 100.0 * (published - modelled) / total;
    table.add({std::string(cause), fmt::format("{:.1f}", to_ms(published)), fmt::format("{:.1f}", to_ms(modelled)),
               fmt::format("{:+.1f}", to_ms(published - modelled)), fmt::format("{:.1f}", share), std::string(basis)});
  };
  for (const plan::GapLine& line : gap.lines) add(line.cause, line.published_ns, line.modelled_ns, line.basis);
  add("step", gap.published_step_ns, gap.modelled_step_ns, against.published.source);
  return fmt::format(
      "\nAgainst the published step ({}; means over ranks, modelled; nothing is tuned)\n{}"
      "outside the bubble, per slot of the fullest rank and micro-batch: published {:.1f} ms, modelled {:.1f} ms\n"
      "if kernels alone explain the rest, they run at {:.0f} % of the modelled rates\n",
      against.published.source, table.text(), to_ms(gap.published_layer_ns), to_ms(gap.modelled_layer_ns),
      100.0 * gap.kernel_rate_ratio);
}

Json split_json(const plan::TimeSplit& t) {
  const auto ms = [](std::int64_t ns) { return to_ms(static_cast<double>(ns)); };
  return {{"step_ms", ms(t.step_ns)},
          {"compute_ms", ms(t.compute_ns)},
          {"recompute_ms", ms(t.recompute_ns)},
          {"copy_overhead_ms", ms(t.copy_overhead_ns)},
          {"exposed_communication_ms", ms(t.exposed_communication_ns)},
          {"exposed_copy_ms", ms(t.exposed_copy_ns)},
          {"bubble_ms", ms(t.bubble_ns)},
          {"communication_ms", ms(t.communication_ns)},
          {"copy_ms", ms(t.copy_ns)}};
}

Json against_json(const Against& against) {
  const plan::GapReport& gap = against.gap;
  Json json = {{"source", against.published.source},
               {"published_step_ms", to_ms(gap.published_step_ns)},
               {"modelled_step_ms", to_ms(gap.modelled_step_ns)},
               {"published_layer_ms", to_ms(gap.published_layer_ns)},
               {"modelled_layer_ms", to_ms(gap.modelled_layer_ns)},
               {"kernel_rate_ratio", gap.kernel_rate_ratio},
               {"causes", Json::array()}};
  for (const plan::GapLine& line : gap.lines)
    json["causes"].push_back({{"cause", line.cause},
                              {"published_ms", to_ms(line.published_ns)},
                              {"modelled_ms", to_ms(line.modelled_ns)},
                              {"gap_ms", to_ms(line.gap_ns())},
                              {"basis", line.basis}});
  return json;
}

}  // namespace

std::string timing_summary(const plan::PlanRequest& request, const plan::PlanOutcome& outcome,
                           const std::optional<Against>& against) {
  std::string text = fmt::format("{} on {}, {}\n{}\n{}\n", step_name_of(request), request.machine.name,
                                 layout_text(request), limits_text(request, outcome), verdict_text(request, outcome));
  text += "\n" + step_text(request, outcome) + rank_text(outcome);
  if (against) text += against_text(*against);
  return text;
}

std::string timing_json(const plan::PlanRequest& request, const plan::PlanOutcome& outcome, double seconds,
                        const std::optional<Against>& against) {
  Json json = Json::parse(plan_json(request, outcome, seconds));
  for (std::size_t i = 0; i < outcome.ranks.size(); ++i)
    json["ranks"][i]["time"] = split_json(plan::split_time(outcome.ranks[i], outcome.step.step_ns));
  if (against) json["against"] = against_json(*against);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tidemark::formats
