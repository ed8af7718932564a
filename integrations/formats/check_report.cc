#include "integrations/formats/check_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "integrations/formats/decision_table.h"
#include "integrations/formats/job_text.h"
#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::array<std::string_view, 3> kVerdicts = {"PASS", "NEAR", "FAIL"};

std::string_view verdict_text(plan::BudgetVerdict verdict) {
  return kVerdicts[static_cast<std::size_t>(verdict)];
}

double share(Bytes part, Bytes whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// Peak of device or host, whichever the verdict is about.
Bytes peak_of(const CheckReport& report, const plan::RankFigures& rank) {
  return report.check.host ? rank.host_bytes : rank.peak_bytes;
}

std::string contributor_lines(const CheckReport& report, std::size_t most) {
  if (most == 0 || report.contributors.empty()) return "";
  const Bytes peak = report.ranks[report.check.worst].peak_bytes;
  TextTable table({"GiB", "share", "count", "each", "chunk", "layer", "storage"}, {6});
  for (std::size_t i = 0; i < std::min(most, report.contributors.size()); ++i) {
    const plan::Contributor& c = report.contributors[i];
    table.add({gib_text(c.bytes), fmt::format("{:.1f} %", share(c.bytes, peak)), fmt::format("{}", c.count),
               format_bytes(c.bytes / std::max<std::int64_t>(c.count, 1)), fmt::format("{}", c.chunk),
               c.layer < 0 ? "-" : fmt::format("{}", c.layer), c.name});
  }
  std::string text = "contributors at the peak (count in flight x size of one)\n" + table.text(2);
  if (report.contributors.size() > most) text += fmt::format("  [{} others]\n", report.contributors.size() - most);
  return text;
}

/// The remedy's plan of the rank that failed.
const plan::RankPlan& worst_of(const CheckReport& report) {
  const std::int32_t rank = report.ranks[report.check.worst].rank;
  return *std::ranges::find(report.remedy->outcome.ranks, rank, [](const plan::RankPlan& r) { return r.figures.rank; });
}

/// The table has what each copy takes of the compute lane; what the step waits for them is known of all together.
std::string offload_line(const plan::RankFigures& f) {
  if (f.offloaded_bytes == 0) return {};
  return fmt::format("offloaded state rests in host memory between steps: frees {} there, adds {} in all (modelled)\n",
                     format_bytes(f.offloaded_bytes), duration_text(f.offload_ns));
}

std::string clearing_lines(const CheckReport& report) {
  const auto& [request, outcome] = *report.remedy;
  const plan::RankPlan& worst = worst_of(report);
  const std::int64_t added = worst.figures.added_ns - report.ranks[report.check.worst].added_ns;
  std::string text = fmt::format(
      "cheapest change: policy {} at this budget peaks at {} on rank {}; added time there {} -> {} per step; step {} "
      "-> "
      "{} (modelled)\n",
      request.policy->name, format_bytes(worst.figures.peak_bytes), worst.figures.rank,
      duration_text(worst.figures.added_ns - added), duration_text(worst.figures.added_ns),
      duration_text(report.step.step_ns), duration_text(outcome.step.step_ns));
  TextTable table({"", "storage", "how", "frees GiB", "costs ms"}, {1, 2});
  for (const DecisionRow& row : decision_rows(request, outcome)) {
    std::int32_t recomputed = 0, swapped = 0, kept = 0;
    Bytes freed = 0;
    std::int64_t cost = 0;
    for (const DecisionCell& cell : row.cells) {
      if (cell.rank != worst.figures.rank || cell.moved() == 0) continue;
      recomputed += cell.recomputed;
      swapped += cell.swapped;
      kept += cell.kept;
      freed += cell.freed_at_peak_bytes;
      cost += cell.added_ns;
    }
    if (recomputed + swapped == 0) continue;
    std::string how;
    if (recomputed > 0) how = fmt::format("recompute {}", recomputed);
    if (swapped > 0) how += fmt::format("{}{} {}", how.empty() ? "" : ", ", row.offloads ? "offload" : "swap", swapped);
    if (kept > 0) how += fmt::format(", keep {}", kept);
    table.add({"", row.storage, how, gib_text(freed), ms_text(cost)});
  }
  return text +
         fmt::format(
             "on rank {} (counts are layers x micro-batches, of offloaded state layers; frees at the peak with "
             "everything kept)\n",
             worst.figures.rank) +
         table.text() + offload_line(worst.figures);
}

std::string hopeless_lines(const CheckReport& report) {
  std::string text;
  for (const plan::RankPlan& rank : report.remedy->outcome.ranks) {
    const plan::RankFigures& f = rank.figures;
    if (f.fits) continue;
    text += fmt::format("no change clears rank {}: {}", f.rank, f.reason);
    if (const std::string enough = enough_text(f); !enough.empty()) text += "; " + enough;
    const Bytes floor = plan::proven_least_bytes(rank) + f.reserve_bytes;
    text += fmt::format("; proven: no plan needs less than {}\n", format_bytes(floor));
  }
  return text;
}

std::string margin_line(const CheckReport& report) {
  const std::string budget = format_bytes(report.check.budget_bytes);
  if (report.check.host) return fmt::format("{}: host budget {}; plans may fill it\n", report.what, budget);
  return fmt::format("{}: budget {}, margin {} ({}); NEAR is a peak within the margin below the budget\n", report.what,
                     budget, format_bytes(report.check.margin_bytes), report.margin);
}

Json remedy_json(const CheckReport& report) {
  if (!report.remedy) return nullptr;
  const auto& [request, outcome] = *report.remedy;
  Json json = {{"policy", request.policy->name}, {"fits", outcome.fits()}, {"ranks", Json::array()}};
  for (const plan::RankPlan& rank : outcome.ranks) {
    const plan::RankFigures& f = rank.figures;
    json["ranks"].push_back({{"rank", f.rank},
                             {"peak_bytes", f.peak_bytes},
                             {"host_bytes", f.host_bytes},
                             {"offloaded_bytes", f.offloaded_bytes},
                             {"offload_ms", static_cast<double>(f.offload_ns) / 1e6},
                             {"added_ms", static_cast<double>(f.added_ns) / 1e6},
                             {"fits", f.fits},
                             {"reason", f.reason},
                             {"smallest_budget_bytes", f.smallest_budget_bytes},
                             {"smallest_host_budget_bytes", f.smallest_host_budget_bytes},
                             {"proven_least_bytes", plan::proven_least_bytes(rank) + f.reserve_bytes}});
  }
  json["step_ms"] = static_cast<double>(outcome.step.step_ns) / 1e6;
  return json;
}

}  // namespace

std::string check_line(const CheckReport& report) {
  const plan::BudgetCheck& check = report.check;
  const plan::RankFigures& worst = report.ranks[check.worst];
  const Bytes peak = peak_of(report, worst);
  const std::string head = fmt::format("{} rank {}: {} {}", verdict_text(check.verdict), worst.rank,
                                       check.host ? "pinned host memory" : "peak", format_bytes(peak));
  // Against no budget, or one that the reserve alone exceeds, a percentage says nothing.
  const bool telling = check.budget_bytes > (check.host ? 0 : worst.reserve_bytes);
  const auto percent = [&](std::string_view sign, Bytes part) {
    return telling ? fmt::format(" ({}{:.1f} %)", sign, share(part, check.budget_bytes)) : std::string{};
  };
  const std::string at = check.host || worst.peak_op.empty() ? "" : fmt::format(" at {}", worst.peak_op);
  if (check.verdict == plan::BudgetVerdict::fail) {
    const Bytes excess = peak - check.budget_bytes;
    return fmt::format("{} exceeds budget {} by {}{}{}", head, format_bytes(check.budget_bytes), format_bytes(excess),
                       percent("+", excess), at);
  }
  const Bytes spare = check.budget_bytes - peak;
  return fmt::format("{} is below budget {} by {}{}{}", head, format_bytes(check.budget_bytes), format_bytes(spare),
                     percent("", spare), at);
}

std::string check_text(const CheckReport& report, std::size_t most) {
  std::string text = check_line(report) + "\n" + margin_line(report);
  const plan::BudgetCheck& check = report.check;
  if (check.verdict == plan::BudgetVerdict::pass) return text;
  if (!check.host) text += contributor_lines(report, most);
  if (report.remedy) text += report.remedy->outcome.fits() ? clearing_lines(report) : hopeless_lines(report);
  return text;
}

std::string check_json(const CheckReport& report, std::size_t most) {
  const plan::BudgetCheck& check = report.check;
  // Of host memory nothing is near, and what the device holds at its peak is not what is short.
  const Bytes margin = check.host ? 0 : check.margin_bytes;
  const std::size_t listed = check.host ? 0 : std::min(most, report.contributors.size());
  Json json = {{"verdict", verdict_text(check.verdict)},
               {"line", check_line(report)},
               {"rank", report.ranks[check.worst].rank},
               {"budget_bytes", check.budget_bytes},
               {"margin_bytes", margin},
               {"memory", check.host ? "host" : "device"},
               {"ranks", Json::array()},
               {"contributors", Json::array()}};
  for (const plan::RankFigures& f : report.ranks)
    json["ranks"].push_back({{"rank", f.rank},
                             {"peak_bytes", f.peak_bytes},
                             {"host_bytes", f.host_bytes},
                             {"headroom_bytes", check.budget_bytes - peak_of(report, f)},
                             {"verdict", verdict_text(plan::judge(peak_of(report, f), check.budget_bytes, margin))},
                             {"peak_op", f.peak_op}});
  for (std::size_t i = 0; i < listed; ++i) {
    const plan::Contributor& c = report.contributors[i];
    json["contributors"].push_back({{"storage", c.name},
                                    {"chunk", c.chunk},
                                    {"layer", c.layer},
                                    {"in_flight", c.count},
                                    {"bytes", c.bytes},
                                    {"category", role_text(c.role)}});
  }
  json["remedy"] = remedy_json(report);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tidemark::formats
