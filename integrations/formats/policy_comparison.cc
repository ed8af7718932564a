#include "integrations/formats/policy_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "integrations/formats/outcome_json.h"
#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

using Json = nlohmann::ordered_json;

template <class Get>
auto largest(const PolicyResult& result, Get get) {
  auto value = get(result.ranks.front());
  for (const plan::RankFigures& rank : result.ranks) value = std::max(value, get(rank));
  return value;
}

template <class Get>
auto sum(const PolicyResult& result, Get get) {
  auto value = get(result.ranks.front());
  value = {};
  for (const plan::RankFigures& rank : result.ranks) value += get(rank);
  return value;
}

std::string fit_text(const PolicyResult& result) {
  const auto over = std::ranges::count_if(result.ranks, [](const plan::RankFigures& r) { return !r.fits; });
  return over == 0 ? "fits" : fmt::format("{} OVER", over);
}

std::string overview(const std::vector<PolicyResult>& results) {
  TextTable table({"policy", "", "peak", "host", "swap", "added max", "added mean", "recompute", "comm", "copies",
                   "step s", "MFU %"},
                  {0, 1});
  for (const PolicyResult& r : results) {
    const auto ranks = static_cast<std::int64_t>(r.ranks.size());
    const auto mean_ms = [&](auto get) { return ms_text(sum(r, get) / ranks); };
    table.add({r.policy, fit_text(r), gib_text(largest(r, [](const plan::RankFigures& f) { return f.peak_bytes; })),
               gib_text(largest(r, [](const plan::RankFigures& f) { return f.host_bytes; })),
               gib_text(sum(r, [](const plan::RankFigures& f) { return f.swapped_bytes_per_step; })),
               ms_text(largest(r, [](const plan::RankFigures& f) { return f.added_ns; })),
               mean_ms([](const plan::RankFigures& f) { return f.added_ns; }),
               mean_ms([](const plan::RankFigures& f) { return f.recompute_ns; }),
               mean_ms([](const plan::RankFigures& f) { return f.exposed_communication_ns; }),
               mean_ms([](const plan::RankFigures& f) { return f.exposed_copy_ns + f.copy_overhead_ns; }),
               fmt::format("{:.3f}", static_cast<double>(r.step.step_ns) / 1e9),
               fmt::format("{:.2f}", r.step.mfu_percent)});
  }
  return fmt::format(
             "\nPolicies{} (peak and host of the worst rank, swap of all ranks one way, in GiB; times in ms per step "
             "and "
             "rank, modelled; recompute, comm and copies are means)\n",
             one_load_text(results.front().ranks.front().load)) +
         table.text();
}

/// One row a rank, one column a policy; `*` where the rank overflows.
template <class Cell>
std::string by_rank(const std::vector<PolicyResult>& results, std::string_view title, Cell cell) {
  std::vector<std::string> head = {"rank"};
  for (const PolicyResult& r : results) head.push_back(r.policy);
  TextTable table(head);
  for (std::size_t i = 0; i < results.front().ranks.size(); ++i) {
    std::vector<std::string> cells = {fmt::format("{}", results.front().ranks[i].rank)};
    for (const PolicyResult& r : results) cells.push_back(cell(r.ranks[i]) + (r.ranks[i].fits ? " " : "*"));
    table.add(std::move(cells));
  }
  return fmt::format("\n{} (* does not fit)\n{}", title, table.text());
}

}  // namespace

PolicyResult result_of(std::string_view policy, const plan::PlanOutcome& outcome) {
  PolicyResult result{.policy = std::string(policy), .step = outcome.step};
  for (const plan::RankPlan& rank : outcome.ranks) result.ranks.push_back(rank.figures);
  return result;
}

std::string comparison_text(const std::vector<PolicyResult>& results) {
  return overview(results) +
         by_rank(results, "Peak by rank, GiB", [](const plan::RankFigures& f) { return gib_text(f.peak_bytes); }) +
         by_rank(results, "Added time by rank, ms per step, modelled",
                 [](const plan::RankFigures& f) { return ms_text(f.added_ns); });
}

std::string with_comparison(const std::string& json, const plan::PlanRequest& request,
                            const std::vector<PolicyResult>& results) {
  Json object = Json::parse(json);
  object["policies"] = Json::array();
  for (const PolicyResult& r : results) {
    // The one writer of these fields is plan_json: give it figures without graphs and take what differs by policy.
    plan::PlanOutcome figures{.step = r.step};
    for (const plan::RankFigures& f : r.ranks) figures.ranks.emplace_back().figures = f;
    Json full = Json::parse(plan_json(request, figures, 0));
    Json entry = {{"policy", r.policy}};
    for (const char* key :
         {"fits", "ranks", "step_ms", "keep_all_step_ms", "bubble_percent", "mfu_percent", "mfu_causal_percent",
          "tokens_per_s", "exposed_communication_percent", "exposed_copy_percent", "recompute_percent"})
      entry[key] = full[key];
    object["policies"].push_back(std::move(entry));
  }
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tidemark::formats
