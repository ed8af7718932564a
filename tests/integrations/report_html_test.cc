#include "integrations/formats/report_html.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/formats/html_text.h"
#include "integrations/formats/memory_series.h"
#include "integrations/formats/report_data.h"
#include "integrations/formats/shown.h"
#include "tests/support/json_text.h"
#include "tests/support/tiny_outcome.h"
#include "tests/support/unpacked_column.h"

namespace tidemark {
namespace {

using nlohmann::json;
using tidemark::testing::tiny_outcome;
using tidemark::testing::tiny_request;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  return testing::parsed(page.substr(begin, page.find("</script>", begin) - begin));
}

/// Opened elements that are not closed in order, or an empty text. Script and style contents are skipped.
std::string first_unbalanced(const std::string& page) {
  const std::set<std::string> voids = {"meta", "br", "rect", "line", "!doctype"};
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at)) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    std::string name = page.substr(at + 1, page.find_first_of(" >/", at + 2) - at - 1);
    at = end;
    if (name[0] == '/') {
      name = name.substr(1);
      if (open.empty() || open.back() != name) return "</" + name + ">";
      open.pop_back();
    } else if (!voids.contains(name)) {
      open.push_back(name);
      if (name == "script" || name == "style") at = page.find("</" + name, at);
    }
  }
  return open.empty() ? "" : "<" + open.back() + ">";
}

TEST(Report, IsOneWellFormedFileThatLoadsNothing) {
  const std::string page = formats::report_html(tiny_request(), tiny_outcome());
  EXPECT_EQ(first_unbalanced(page), "");
  for (const char* loader : {"src=", "href=", "@import", "url(", "https://", "fetch(", "import("}) {
    EXPECT_FALSE(contains(page, loader)) << loader;
  }
  EXPECT_TRUE(contains(page, "prefers-color-scheme:dark"));
}

TEST(Report, ShowsVerdictInputsStepAndRanks) {
  const std::string page = formats::report_html(tiny_request(), tiny_outcome());
  for (const char* part : {"<b>FITS</b>", "2 of 2 ranks fit 1.00 MiB", "tiny-device", "TP1 PP2 DP1", "1.02 s",
                           "+1.55 % on keep-all", "31.50 %", "causal 27.25 %", "8.00 B", "without the input embedding",
                           "head.loss of micro-batch 1", "15.5", "modelled"}) {
    EXPECT_TRUE(contains(page, part)) << part;
  }
}

TEST(Report, SaysWhatIsOverAndWhatBudgetWouldDo) {
  plan::PlanOutcome outcome = tiny_outcome();
  outcome.ranks[1].figures.fits = false;
  outcome.ranks[1].figures.reason = "the optimizer step binds";
  outcome.ranks[1].figures.smallest_budget_bytes = 2 * kMiB;
  const std::string page = formats::report_html(tiny_request(), outcome);
  EXPECT_EQ(first_unbalanced(page), "");
  EXPECT_TRUE(contains(page, "<b>OVER BUDGET</b>"));
  EXPECT_TRUE(
      contains(page, "Rank 1: the optimizer step binds; <b>smallest budget that this policy meets: 2.00 MiB</b>"));
}

TEST(Report, NamesOffloadedStateWhereThereIsAny) {
  plan::PlanOutcome outcome = tiny_outcome();
  EXPECT_FALSE(contains(formats::report_html(tiny_request(), outcome), "Offloaded state"));
  outcome.ranks[1].figures.offloaded_bytes = kGiB;
  outcome.ranks[1].figures.offload_ns = 2'500'000;
  const std::string page = formats::report_html(tiny_request(), outcome);
  EXPECT_EQ(first_unbalanced(page), "");
  EXPECT_TRUE(contains(page, "<h2>Offloaded state</h2>"));
  EXPECT_TRUE(contains(page, "<tr><td>1</td><td>1.00</td><td>2.5</td>"));
}

TEST(Report, MapsDecisionsOverLayersWithCountsBytesAndPrice) {
  plan::PlanOutcome outcome = tiny_outcome();
  outcome.ranks[1].decisions.rows[0].exceptions = {{.micro_batch = 2, .action = Action::keep}};
  const std::string page = formats::report_html(tiny_request(), outcome);
  EXPECT_EQ(first_unbalanced(page), "");
  EXPECT_TRUE(
      contains(page,
               "attention.in, layer 0 of rank 0, chunk 0: keep 0, recompute 0, swap 4 micro-batches; 4.00 KiB each; "
               "frees 8.00 KiB at the peak for 832 ns per step"));
  EXPECT_TRUE(contains(page, "attention.key, layer 1 of rank 0, chunk 0: keep 0, recompute 4, swap 0 micro-batches"));
  EXPECT_TRUE(contains(page, "var(--recompute) 0 0%,var(--swap) 0% 75%,var(--keep) 75%")) << "rank 1 keeps one of four";
  EXPECT_TRUE(contains(page, "key_value"));
}

TEST(Report, OfKeepAllHasNoMap) {
  plan::PlanOutcome outcome = tiny_outcome();
  for (plan::RankPlan& rank : outcome.ranks) rank.decisions.rows.clear();
  const std::string page = formats::report_html(tiny_request(), outcome);
  EXPECT_TRUE(contains(page, "Everything is kept on every rank."));
  EXPECT_FALSE(contains(page, "class=\"scroll map\""));
}

TEST(Report, ShowsWhatMemoryBuysWhereGiven) {
  const plan::PlanOutcome outcome = tiny_outcome();
  EXPECT_FALSE(contains(formats::report_html(tiny_request(), outcome), "What memory buys"));
  std::vector<plan::BudgetPoint> points(2);
  for (plan::BudgetPoint& point : points) {
    for (const plan::RankPlan& rank : outcome.ranks) point.ranks.push_back(rank.figures);
    point.step = outcome.step;
  }
  points[0].budget_bytes = kGiB;
  points[0].ranks[0].fits = false;
  points[1].budget_bytes = plan::budget_of(tiny_request());
  const std::string page = formats::report_html(tiny_request(), outcome, {}, points);
  EXPECT_EQ(first_unbalanced(page), "");
  EXPECT_TRUE(contains(page, "<td>1.00</td><td class=\"no\">1 of 2</td>"));
  EXPECT_TRUE(contains(page, " (asked for)</td><td class=\"yes\">2 of 2</td>"));
}

TEST(Report, ComparesPoliciesWhereGiven) {
  const plan::PlanOutcome outcome = tiny_outcome();
  EXPECT_FALSE(contains(formats::report_html(tiny_request(), outcome), "Policies side by side"));
  std::vector<formats::PolicyResult> results(2);
  for (formats::PolicyResult& result : results) {
    for (const plan::RankPlan& rank : outcome.ranks) result.ranks.push_back(rank.figures);
    result.step = outcome.step;
  }
  results[0].policy = "full-recompute";
  results[1].policy = "keep-all";
  results[1].ranks[0].fits = false;
  const std::string page = formats::report_html(tiny_request(), outcome, results);
  EXPECT_EQ(first_unbalanced(page), "");
  EXPECT_TRUE(contains(page, "<td class=\"l\">full-recompute</td><td class=\"yes\">2 of 2</td>"));
  EXPECT_TRUE(contains(page, "<td class=\"l\">keep-all</td><td class=\"no\">1 of 2</td>"));
  EXPECT_TRUE(contains(page, "<td>31.0</td>")) << "added ms of both ranks together";
}

TEST(Report, EscapesEveryName) {
  const std::string evil = "</script><img src=x onerror=\"1\">&'\u202e";
  plan::PlanRequest request = tiny_request();
  plan::PlanOutcome outcome = tiny_outcome();
  request.job.model.name = evil;
  request.machine.name = evil;
  for (plan::RankPlan& rank : outcome.ranks) {
    for (StorageTemplate& storage : rank.graph.storage_templates) storage.name += evil;
    for (OpTemplate& op : rank.graph.op_templates) op.name += evil;
    for (Recipe& recipe : rank.graph.recipes) recipe.name += evil;
    for (Block& block : rank.graph.blocks) block.name = evil;
    rank.figures.peak_op = rank.figures.reason = evil;
    for (plan::PlanAttempt& attempt : rank.attempts) attempt.packer = evil;
  }
  const std::string page = formats::report_html(request, outcome, std::vector<formats::PolicyResult>{{.policy = evil}});
  EXPECT_EQ(first_unbalanced(page), "");
  EXPECT_FALSE(contains(page, "<img"));
  EXPECT_TRUE(contains(page, formats::html_text(evil)));
  EXPECT_EQ(formats::without_turns(page), page);
  EXPECT_TRUE(contains(data_of(page)["ranks"][0]["ops"][0].get<std::string>(), formats::without_turns(evil)));
}

TEST(Report, SameInputsGiveSameBytes) {
  EXPECT_EQ(formats::report_html(tiny_request(), tiny_outcome()), formats::report_html(tiny_request(), tiny_outcome()));
}

/// A rank of a few thousand ops with storages of many MiB, so that rounding to MiB is seen.
plan::PlanOutcome long_outcome() {
  plan::PlanOutcome outcome;
  const tidemark::testing::ChainShape shape{.layers = 6,
                                            .micro_batches = 64,
                                            .warm_up = 9,
                                            .in_bytes = 40 * kMiB,
                                            .key_bytes = 20 * kMiB,
                                            .value_bytes = 12 * kMiB,
                                            .temporary_bytes = 3 * kMiB};
  outcome.ranks.push_back(tidemark::testing::TinyRank(0, shape).finish());
  outcome.step.step_ns = outcome.ranks[0].timeline.finish_ns;
  return outcome;
}

TEST(ReportData, KeepsThePeakAndStaysSmall) {
  const plan::PlanOutcome outcome = long_outcome();
  const std::string text = formats::report_data(outcome);
  EXPECT_LT(text.size(), 180'000U);
  const json data = testing::parsed(text);
  const json& rank = data["ranks"][0];
  const std::size_t samples = rank["t"].size();
  ASSERT_GE(samples, 200U);
  ASSERT_LE(samples, 600U);
  std::int64_t highest = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    std::int64_t sum = 0;
    for (const json& series : rank["b"]) sum += series[series.size() == 1 ? 0 : i].get<std::int64_t>();
    highest = std::max(highest, sum);
  }
  Bytes peak = 0;
  for (const auto& bytes : plan::memory_profile(outcome.ranks[0].graph, outcome.ranks[0].program.schedule).bytes) {
    peak = std::max(peak, std::accumulate(bytes.begin(), bytes.end(), Bytes{0}));
  }
  EXPECT_NEAR(static_cast<double>(highest), static_cast<double>(peak) / static_cast<double>(kMiB), 3.0);
}

std::vector<std::int64_t> plain_column_of(const json& columns, const char* name) {
  return testing::UnpackedColumn::read(columns.at(name).get<std::string>(), formats::Packing::plain);
}

TEST(ReportData, EveryMomentNamesItsOp) {
  const plan::PlanOutcome outcome = long_outcome();
  const plan::RankPlan& plan = outcome.ranks[0];
  const json data = testing::parsed(formats::report_data(outcome));
  const json& moments = data["ranks"][0]["m"];
  const auto samples = formats::memory_samples(plan, outcome.step.step_ns, 600);
  const auto compute_tasks = formats::compute_tasks_of(plan.program.schedule);
  const auto op = plain_column_of(moments, "op"), layer = plain_column_of(moments, "layer"),
             batch = plain_column_of(moments, "batch");
  const auto chunk = plain_column_of(moments, "chunk"), again = plain_column_of(moments, "again");
  ASSERT_EQ(op.size(), samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto at = std::min(static_cast<std::size_t>(samples[i].clock / 2), compute_tasks.size() - 1);
    const Task& task = plan.program.schedule.tasks[row(compute_tasks[at])];
    const Site& site = plan.graph.sites[row(task.site)];
    EXPECT_EQ(op[i], static_cast<std::int64_t>(row(task.op_template)));
    EXPECT_EQ(chunk[i], site.chunk);
    EXPECT_EQ(layer[i], site.layer);
    EXPECT_EQ(batch[i], site.micro_batch);
    EXPECT_EQ(again[i], task.kind == TaskKind::recompute);
  }
}

TEST(ReportData, EveryMomentNamesItsLargestHolders) {
  const plan::PlanOutcome outcome = long_outcome();
  const plan::RankPlan& plan = outcome.ranks[0];
  const json data = testing::parsed(formats::report_data(outcome));
  const json& rank = data["ranks"][0];
  const auto series = formats::largest_holders(plan, formats::memory_samples(plan, outcome.step.step_ns, 600), 7);
  const auto named = plain_column_of(rank["h"], "named"), holder = plain_column_of(rank["h"], "holder");
  const auto count = plain_column_of(rank["h"], "count"), mib = plain_column_of(rank["h"], "mib");
  ASSERT_EQ(rank["holders"].size(), series.holders.size());
  ASSERT_EQ(named.size(), series.shares.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < named.size(); ++i) {
    ASSERT_EQ(named[i], std::ssize(series.shares[i]));
    for (const formats::HolderSeries::Share& share : series.shares[i]) {
      EXPECT_EQ(holder[at], share.holder);
      EXPECT_EQ(count[at], share.count);
      EXPECT_EQ(mib[at++], std::llround(static_cast<double>(share.bytes) / static_cast<double>(kMiB)));
    }
  }
  EXPECT_EQ(at, holder.size());
}

/// A moment without its views: what the 600 moments of a rank take beside names.
TEST(ReportData, MomentsTakeFewBytes) {
  const json data = testing::parsed(formats::report_data(long_outcome()));
  const json& rank = data["ranks"][0];
  const auto moments = static_cast<double>(rank["t"].size());
  EXPECT_LT(static_cast<double>(rank["h"].dump().size()) / moments, 30.0);
  EXPECT_LT(static_cast<double>(rank["m"].dump().size()) / moments, 8.0);
}

}  // namespace
}  // namespace tidemark
