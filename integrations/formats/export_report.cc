#include "integrations/formats/export_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "integrations/formats/export_terms.h"
#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kWords = {"megatron", "mindspeed", "mindformers"};
constexpr std::array<std::string_view, 3> kTitles = {"Megatron-LM", "MindSpeed", "MindFormers"};

std::size_t index_of(const ExportReport& report) {
  return static_cast<std::size_t>(report.vocabulary.framework);
}

double percent_more(std::int64_t now, std::int64_t before) {
  return before > 0 ? 100.0 * static_cast<double>(now - before) / static_cast<double>(before) : 0;
}

std::string verdict(const ExportReport& report) {
  const std::vector<plan::RankPlan>& ranks = report.settings.outcome.ranks;
  const auto fit = std::ranges::count_if(ranks, [](const plan::RankPlan& r) { return r.figures.fits; });
  std::string text = fmt::format("{}  {} of {} ranks fit {} with these settings of {}\n",
                                 report.settings.outcome.fits() ? "FITS" : "DOES NOT FIT", fit, ranks.size(),
                                 format_bytes(ranks.front().figures.budget_bytes), kTitles[index_of(report)]);
  for (const plan::RankPlan& rank : ranks)
    if (!rank.figures.fits) text += fmt::format("  rank {}: {}\n", rank.figures.rank, rank.figures.reason);
  return text;
}

std::string rank_lines(const ExportReport& report) {
  TextTable table({"rank", "plan: peak", "added ms", "settings: peak", "spare", "host", "added ms", ""}, {7});
  for (std::size_t i = 0; i < report.plan.ranks.size(); ++i) {
    const plan::RankFigures& before = report.plan.ranks[i].figures;
    const plan::RankFigures& after = report.settings.outcome.ranks[i].figures;
    table.add({fmt::format("{}", after.rank), gib_text(before.peak_bytes), ms_text(before.added_ns),
               gib_text(after.peak_bytes), gib_text(after.budget_bytes - after.peak_bytes), gib_text(after.host_bytes),
               ms_text(after.added_ns), after.fits ? "fits" : "does not fit"});
  }
  const std::int64_t before = report.plan.step.step_ns, after = report.settings.outcome.step.step_ns;
  return "\nEvaluated anew (GiB; ms per step, modelled)\n" + table.text() +
         fmt::format("Step (modelled)  plan {}, settings {} ({:+.2f} %)\n", duration_text(before), duration_text(after),
                     percent_more(after, before));
}

std::string share_text(std::int64_t recomputed, std::int64_t swapped, std::int64_t offloaded, std::int64_t instances) {
  std::string text;
  const auto add = [&](std::string_view verb, std::int64_t times) {
    if (times == 0) return;
    text += (text.empty() ? "" : ", ") + std::string(verb);
    if (times != instances)
      text += fmt::format(" {:.0f} %", 100.0 * static_cast<double>(times) / static_cast<double>(instances));
  };
  add("recompute", recomputed);
  add("swap", swapped);
  add("offload", offloaded);
  return text.empty() ? "keep" : text;
}

std::string difference_lines(const ExportReport& report) {
  const std::vector<ExportDifference> list = differences(report.plan, report.settings.outcome);
  if (list.empty()) return "\nThe settings say all that the plan decides.\n";
  TextTable table({"storage", "plan", "settings"}, {0, 1, 2});
  for (const ExportDifference& d : list)
    table.add({d.storage, share_text(d.plan_recomputed, d.plan_swapped, d.plan_offloaded, d.instances),
               share_text(d.settings_recomputed, d.settings_swapped, 0, d.instances)});
  return "\nNot expressed as planned (shares of layers x micro-batches on the ranks planned; of state, of layers)\n" +
         table.text();
}

/// Terms of step time that the settings have and no measured run on chips of its kind had.
TimeTerms unmeasured_in(const ExportReport& report) {
  return terms_of(report.vocabulary, report.settings.values).without(report.plan.machine.chip.measured);
}

/// What to mind: of the framework's settings, of state that the plan offloads, and of a head apart.
std::vector<std::string> remarks_of(const ExportReport& report) {
  std::vector<std::string> remarks = report.vocabulary.remarks;
  std::string ranks;
  for (const PlanFile::Rank& rank : report.plan.ranks)
    if (rank.figures.offloaded_bytes > 0)
      ranks += fmt::format("{}{} on rank {} for {} per step", ranks.empty() ? "" : ", ",
                           format_bytes(rank.figures.offloaded_bytes), rank.figures.rank,
                           duration_text(rank.figures.offload_ns));
  if (!ranks.empty())
    remarks.push_back(
        fmt::format("the plan keeps optimizer state in host memory between steps, which these settings do "
                    "not say and their evaluation has on the device: {} (modelled)",
                    ranks));
  const graph_build::ParallelSpec& parallel = report.plan.job.parallel;
  if (report.plan.graph == nullptr && parallel.is_head_apart())
    remarks.push_back(fmt::format(
        "the plan has the main output head on stage {}, before the last; these settings say nothing of where "
        "heads sit: place it so, or drop head_stage and plan again",
        parallel.head_stage));
  const TimeTerms unmeasured = unmeasured_in(report);
  if (!unmeasured.empty())
    remarks.push_back(
        fmt::format("no measured run on chips of this kind had what these settings rest on: {}", unmeasured.text()));
  return remarks;
}

/// Where the options written are defined.
std::vector<std::string> sources_of(const ExportReport& report) {
  std::set<std::string> sources;
  for (std::size_t w = 0; w < report.vocabulary.words.size(); ++w)
    if (report.settings.values[w] > 0) sources.insert(report.vocabulary.words[w].source);
  return {sources.begin(), sources.end()};
}

Json rank_json(const plan::RankFigures& before, const plan::RankPlan& plan) {
  const plan::RankFigures& after = plan.figures;
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) / 1e6; };
  return {{"rank", after.rank},
          {"plan", {{"peak_bytes", before.peak_bytes}, {"added_ms", ms(before.added_ns)}}},
          {"peak_bytes", after.peak_bytes},
          {"budget_bytes", after.budget_bytes},
          {"host_bytes", after.host_bytes},
          {"swapped_bytes_per_step", after.swapped_bytes_per_step},
          {"added_ms", ms(after.added_ns)},
          {"fits", after.fits},
          {"reason", after.reason}};
}

}  // namespace

std::string export_text(const ExportReport& report) {
  std::string text = verdict(report) + "\n";
  text += settings_text(report.vocabulary, report.settings.values, report.plan);
  text += rank_lines(report) + difference_lines(report) + "\nMind\n";
  for (const std::string& remark : remarks_of(report)) text += "  " + remark + "\n";
  for (const std::string& source : sources_of(report)) text += "  source: " + source + "\n";
  return text;
}

std::string export_json(const ExportReport& report) {
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) / 1e6; };
  Json json = {{"to", kWords[index_of(report)]},
               {"fits", report.settings.outcome.fits()},
               {"settings", settings_text(report.vocabulary, report.settings.values, report.plan)},
               {"step_ms", ms(report.settings.outcome.step.step_ns)},
               {"plan_step_ms", ms(report.plan.step.step_ns)},
               {"ranks", Json::array()},
               {"not_expressed", Json::array()},
               {"remarks", remarks_of(report)},
               {"unmeasured_terms", unmeasured_in(report).names()},
               {"sources", sources_of(report)}};
  for (std::size_t i = 0; i < report.plan.ranks.size(); ++i)
    json["ranks"].push_back(rank_json(report.plan.ranks[i].figures, report.settings.outcome.ranks[i]));
  for (const ExportDifference& d : differences(report.plan, report.settings.outcome))
    json["not_expressed"].push_back(
        {{"storage", d.storage},
         {"instances", d.instances},
         {"plan", {{"recompute", d.plan_recomputed}, {"swap", d.plan_swapped}, {"offload", d.plan_offloaded}}},
         {"settings", {{"recompute", d.settings_recomputed}, {"swap", d.settings_swapped}, {"offload", 0}}}});
  return json.dump(2) + "\n";
}

}  // namespace tidemark::formats
