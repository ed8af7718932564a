#include "integrations/formats/summary_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "integrations/formats/balance_text.h"
#include "integrations/formats/captured_report.h"
#include "integrations/formats/decision_table.h"
#include "integrations/formats/estimate_table.h"
#include "integrations/formats/job_text.h"
#include "integrations/formats/rank_words.h"
#include "integrations/formats/step_band.h"
#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

std::string head(const plan::PlanRequest& request, const plan::PlanOutcome& outcome, std::string_view verdict) {
  return fmt::format("{}  {}\n{} on {}, {}\n{}\n", verdict, verdict_text(request, outcome), step_name_of(request),
                     request.machine.name, layout_text(request), limits_text(request, outcome));
}

std::string parameters_line(const plan::PlanOutcome& outcome) {
  const graph_build::ParameterCount& count = outcome.parameters;
  if (count.total_both == count.total)
    return fmt::format("{} parameters, {} active per token\n", count_text(count.total), count_text(count.active));
  return fmt::format("{} parameters; without the input embedding {}, of which {} active per token\n",
                     count_text(count.total_both), count_text(count.total), count_text(count.active));
}

std::string rank_table(const plan::PlanOutcome& outcome) {
  TextTable table(
      {"rank",     "f",        "peak",           "spare",     "static", "activations", "reserve",      "host",
       "swap",     "added ms", "paid ms",        "recompute", "hidden", "comm",        "exposed copy", "copy cost",
       "bound ms", "bound %",  "any load up to", ""},
      {19});
  for (const plan::RankPlan& rank : outcome.ranks) {
    const plan::RankFigures& f = rank.figures;
    table.add({fmt::format("{}", f.rank),
               fmt::format("{:.2f}", f.load),
               gib_text(f.peak_bytes),
               gib_text(f.budget_bytes - f.peak_bytes),
               gib_text(f.static_bytes),
               gib_text(f.activation_peak_bytes),
               gib_text(f.reserve_bytes),
               gib_text(f.host_bytes),
               gib_text(f.swapped_bytes_per_step),
               ms_text(f.added_ns),
               ms_text(f.paid_ns),
               ms_text(f.recompute_ns),
               ms_text(f.hidden_recompute_ns),
               ms_text(f.exposed_communication_ns),
               ms_text(f.exposed_copy_ns),
               ms_text(f.copy_overhead_ns),
               ms_text(f.lower_bound_ns),
               fmt::format("{:.3f}", f.lower_bound_percent),
               any_load_text(f.worst_load_f),
               f.fits ? "fits" : "OVER"});
  }
  return "\nRanks (sizes in GiB; times in ms per step, modelled)\n" + table.text();
}

/// What rests in host memory between steps, and what the device holds then: initialisation and checkpoints meet no
/// more.
std::string offload_table(const plan::PlanOutcome& outcome) {
  TextTable table({"rank", "freed", "added ms", "ms per GiB", "between steps"});
  bool any = false;
  for (const plan::RankPlan& rank : outcome.ranks) {
    const plan::RankFigures& f = rank.figures;
    if (f.offloaded_bytes == 0) continue;
    any = true;
    table.add({fmt::format("{}", f.rank), gib_text(f.offloaded_bytes), ms_text(f.offload_ns),
               ms_per_gib_text(f.offload_ns, f.offloaded_bytes), gib_text(f.reserve_bytes + f.static_bytes)});
  }
  if (!any) return {};
  return "\nOffloaded state: in host memory but for the ops that touch it (freed of and held by the device between "
         "steps "
         "in GiB; times per step, modelled)\n" +
         table.text();
}

std::string step_lines(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  const plan::StepFigures& step = outcome.step;
  const std::int64_t added = step.step_ns - step.keep_all_step_ns;
  const double percent =
      step.keep_all_step_ns > 0 ? 100.0 * static_cast<double>(added) / static_cast<double>(step.keep_all_step_ns) : 0;
  const std::string timed =
      step.fullest_load == 1
          ? ""
          : fmt::format("  layers with experts take the time of f {:.2f}, their group's fullest device\n",
                        step.fullest_load);
  const auto line_of = [](const std::string& text) { return text.empty() ? "" : "  " + text + "\n"; };
  return fmt::format(
      "\nStep (modelled)  {}, {} with everything kept and memory ignored ({:+.2f} %)\n"
      "  bubble {:.2f} %, exposed communication {:.2f} %, exposed copies {:.2f} %, recompute {:.2f} %\n"
      "  MFU {:.2f} % with full-square attention, {:.2f} % causal; {} tokens/s\n{}{}{}",
      duration_text(step.step_ns), duration_text(step.keep_all_step_ns), percent, step.bubble_percent,
      step.exposed_communication_percent, step.exposed_copy_percent, step.recompute_percent, step.mfu_percent,
      step.mfu_causal_percent, count_text(step.tokens_per_s), line_of(band_text(request)),
      line_of(balance_text(request, outcome)), timed);
}

/// What it costs to plan for more load than the mean. Nothing: every rank was given its load.
std::string planned_load_lines(const plan::PlanOutcome& outcome) {
  double least_load = 1e9, most_load = 0, least_quantile = 1, most_quantile = 0;
  std::int64_t held = 0, in_chunks = 0;
  for (const plan::RankPlan& rank : outcome.ranks) {
    const plan::RankFigures& f = rank.figures;
    if (f.load_quantile <= 0) continue;
    least_load = std::min(least_load, f.load);
    most_load = std::max(most_load, f.load);
    least_quantile = std::min(least_quantile, f.load_quantile);
    most_quantile = std::max(most_quantile, f.load_quantile);
    held = std::max(held, f.load_held_ns);
    in_chunks = std::max(in_chunks, f.load_short_ns);
  }
  if (most_quantile <= 0) return {};
  const auto span = [](double low, double high, int digits) {
    const std::string text = fmt::format("{:.{}f}", high, digits), less = fmt::format("{:.{}f}", low, digits);
    return text == less ? text : less + " to " + text;
  };
  std::string text = fmt::format(
      "\nExpert load (modelled)  memory for f {}; in {} % of steps no device of a rank's group needs more at its "
      "peak\n",
      span(least_load, most_load, 2), span(100 * least_quantile, 100 * most_quantile, 1));
  if (held > 0)
    text += fmt::format("  memory for more than the mean adds about {} a step to the rank where it adds most\n",
                        duration_text(held));
  if (in_chunks > 0)
    text += fmt::format(
        "  sections in chunks, in the other steps, add {} in the mean, to first order (more where memory is tight)\n",
        duration_text(in_chunks));
  return text;
}

/// `layers 3-12 on ranks 0-4`, and the blocks outside layers by name.
std::string place_text(const std::vector<const DecisionCell*>& cells) {
  std::set<std::int32_t> layers, ranks, chunks;
  std::set<std::string> outside;
  std::set<std::tuple<std::int32_t, std::int32_t, std::int32_t, std::string>> places;
  for (const DecisionCell* cell : cells) {
    places.insert({cell->rank, cell->chunk, cell->layer, cell->block});
    ranks.insert(cell->rank);
    chunks.insert(cell->chunk);
    if (cell->layer >= 0) layers.insert(cell->layer);
    if (cell->layer < 0) outside.insert(cell->block);
  }
  const auto list = [](const std::set<std::int32_t>& set) { return ranges_text({set.begin(), set.end()}); };
  std::string text;
  if (!layers.empty()) text = fmt::format("{} {}", layers.size() == 1 ? "layer" : "layers", list(layers));
  for (const std::string& block : outside) text += (text.empty() ? "" : " and ") + block;
  text += fmt::format(" on {}", ranks_text({ranks.begin(), ranks.end()}));
  text += fmt::format(" ({} {})", chunks.size() == 1 ? "chunk" : "chunks", list(chunks));
  // Names of a captured step need not differ.
  return places.size() == cells.size() ? text : text + fmt::format(", {} storages of this name", cells.size());
}

/// One phrase per action: where it is taken for all micro-batches, and where for some.
std::string action_text(const DecisionRow& decision, std::string_view verb, std::int32_t DecisionCell::*count) {
  std::vector<const DecisionCell*> whole, part;
  std::int32_t taken = 0, possible = 0;
  for (const DecisionCell& cell : decision.cells) {
    if (cell.*count == 0) continue;
    (cell.*count == cell.instances ? whole : part).push_back(&cell);
    if (cell.*count == cell.instances) continue;
    taken += cell.*count;
    possible += cell.instances;
  }
  std::string text;
  if (!whole.empty()) text = fmt::format("{} in {}", verb, place_text(whole));
  if (!part.empty()) {
    text += fmt::format("{}{} for {} of {} micro-batches in {}", text.empty() ? "" : "; ", verb, taken, possible,
                        place_text(part));
  }
  return text;
}

std::string decision_lines(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  std::string text;
  for (const DecisionRow& decision : decision_rows(request, outcome)) {
    if (!decision.decided()) continue;
    const std::string swapped = action_text(decision, decision.offloads ? "offload" : "swap", &DecisionCell::swapped);
    std::string recomputed = action_text(decision, "recompute", &DecisionCell::recomputed);
    if (!recomputed.empty() && !decision.recipe.empty()) recomputed += " by " + decision.recipe;
    text += fmt::format("  {}: {}{}{}\n    frees {} at the ranks' peaks for {} of compute time\n", decision.storage,
                        recomputed, recomputed.empty() || swapped.empty() ? "" : "; ", swapped,
                        format_bytes(decision.freed_at_peak_bytes()), duration_text(decision.added_ns()));
  }
  if (text.empty()) return "\nDecisions  everything is kept\n";
  return "\nDecisions (sums over ranks; times per step, modelled; whatever is not named is kept)\n" + text;
}

std::string attempt_lines(const plan::PlanOutcome& outcome) {
  TextTable table({"rank", "try", "target", "height", "load", "packer"}, {5});
  bool repeated = false;
  for (const plan::RankPlan& rank : outcome.ranks) {
    if (rank.attempts.size() < 2) continue;
    repeated = true;
    for (std::size_t i = 0; i < rank.attempts.size(); ++i) {
      const plan::PlanAttempt& a = rank.attempts[i];
      table.add({fmt::format("{}", rank.figures.rank), fmt::format("{}", i + 1), gib_text(a.target_bytes),
                 gib_text(a.height_bytes), gib_text(a.load_bytes), a.packer});
    }
  }
  if (!repeated) return "";
  return "\nAttempts (GiB: asked of the policy, arena height reached, and the load below which no layout can be)\n" +
         table.text();
}

std::string problem_lines(const plan::PlanOutcome& outcome) {
  std::string text;
  for (const plan::RankPlan& rank : outcome.ranks) {
    const plan::RankFigures& f = rank.figures;
    if (f.fits) continue;
    text += fmt::format("  rank {}: {}", f.rank, f.reason.empty() ? "does not fit" : f.reason);
    if (const std::string enough = enough_text(f); !enough.empty()) text += "; " + enough;
    text += "\n";
  }
  return text.empty() ? "" : "\nOver budget\n" + text;
}

/// Ranks that fit by another rule's answer than the policy's own.
std::string rule_lines(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  std::map<std::string, std::vector<std::int32_t>> ranks_of;
  for (const plan::RankPlan& rank : outcome.ranks) {
    const plan::RankFigures& f = rank.figures;
    if (f.fits && !f.rule.empty() && f.rule != request.policy->name) ranks_of[f.rule].push_back(f.rank);
  }
  std::string text;
  for (const auto& [rule, ranks] : ranks_of)
    text += fmt::format("  {} on {} {}\n", rule, ranks.size() == 1 ? "rank" : "ranks", ranges_text(ranks));
  if (text.empty()) return "";
  return "\nNot by the policy's own search: a simpler rule that adds less there or makes the step shorter, or "
         "(last-resort) as little memory as can be\n" +
         text;
}

/// Ranks that fit and yet may fail for the loads of a step.
std::string load_lines(const plan::PlanOutcome& outcome) {
  std::string text;
  for (const plan::RankPlan& rank : outcome.ranks)
    if (rank.figures.fits && !rank.figures.reason.empty())
      text += fmt::format("  rank {}: {}\n", rank.figures.rank, rank.figures.reason);
  return text.empty() ? "" : "\nNot at every expert load\n" + text;
}

std::string estimate_table(const std::vector<RankEstimate>& estimates) {
  TextTable table(
      {"rank", "f", "parameters", "gradients", "optimizer", "activations", "in flight", "transients", "communication",
       "context", "workspace", "collectives", "framework", "gaps", "peak", "budget", "", "at"},
      {16, 17});
  for (const RankEstimate& e : estimates) {
    const auto at = [&](StorageRole role) { return gib_text(e.bytes[static_cast<std::size_t>(role)]); };
    table.add({fmt::format("{}", e.rank), fmt::format("{:.2f}", e.load), at(StorageRole::parameter),
               at(StorageRole::gradient), at(StorageRole::optimizer_state), at(StorageRole::activation),
               fmt::format("{}", e.passes_in_flight), at(StorageRole::temporary), at(StorageRole::communication),
               gib_text(e.reserve.context_bytes), gib_text(e.reserve.workspace_bytes),
               gib_text(e.reserve.collective_bytes), gib_text(e.reserve.framework_bytes), gib_text(e.unused_bytes),
               gib_text(e.peak_bytes), gib_text(e.budget_bytes), e.fits ? "fits" : "OVER", e.peak_op});
  }
  return "\nHeld at the peak of each rank (GiB)\n" + table.text();
}

std::string contributor_lines(const std::vector<RankEstimate>& estimates, std::size_t most) {
  std::string text = "\nLargest contributors at the peak (static storages left out; count in flight x size of one)\n";
  for (const RankEstimate& e : estimates) {
    text += fmt::format("  rank {} at {}\n", e.rank, e.peak_op);
    TextTable table({"GiB", "share", "count", "each", "chunk", "layer", "storage"}, {6});
    for (std::size_t i = 0; i < std::min(most, e.contributors.size()); ++i) {
      const plan::Contributor& c = e.contributors[i];
      table.add({gib_text(c.bytes),
                 fmt::format("{:.1f} %", 100.0 * static_cast<double>(c.bytes) / static_cast<double>(e.peak_bytes)),
                 fmt::format("{}", c.count), format_bytes(c.bytes / std::max<std::int64_t>(c.count, 1)),
                 fmt::format("{}", c.chunk), c.layer < 0 ? "-" : fmt::format("{}", c.layer), c.name});
    }
    text += table.text(4);
  }
  return text;
}

}  // namespace

std::string plan_summary(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  const std::string verdict = head(request, outcome, outcome.fits() ? "FITS" : "OVER BUDGET");
  if (request.step)
    return verdict + problem_lines(outcome) + rank_table(outcome) + captured_text(request, outcome) +
           decision_lines(request, outcome) + attempt_lines(outcome);
  return verdict + parameters_line(outcome) + problem_lines(outcome) + load_lines(outcome) + rank_table(outcome) +
         offload_table(outcome) + rule_lines(request, outcome) + step_lines(request, outcome) +
         planned_load_lines(outcome) + decision_lines(request, outcome) + attempt_lines(outcome);
}

std::string estimate_summary(const plan::PlanRequest& request, const plan::PlanOutcome& outcome, std::size_t most) {
  const std::vector<RankEstimate> estimates = estimate_ranks(request, outcome);
  return head(request, outcome, outcome.fits() ? "FITS" : "OVER BUDGET") + parameters_line(outcome) +
         estimate_table(estimates) + step_lines(request, outcome) + contributor_lines(estimates, most);
}

}  // namespace tidemark::formats
