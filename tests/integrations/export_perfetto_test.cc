#include "integrations/formats/export_perfetto.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <streambuf>

#include "integrations/formats/memory_series.h"
#include "tests/support/json_text.h"
#include "tests/support/tiny_outcome.h"

namespace tidemark {
namespace {

using nlohmann::json;
using tidemark::testing::tiny_outcome;

json trace_of(const plan::PlanOutcome& outcome, const formats::PerfettoOptions& options = {}) {
  std::ostringstream out;
  EXPECT_TRUE(formats::write_perfetto(out, outcome, options).ok());
  return testing::parsed(out.str());
}

TEST(Perfetto, HasOneSliceForEveryTaskThatTakesTime) {
  const plan::PlanOutcome outcome = tiny_outcome();
  const json trace = trace_of(outcome);
  std::map<int, std::size_t> slices;
  std::map<std::pair<int, int>, double> busy_us;
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] != "X") continue;
    ++slices[e["pid"]];
    busy_us[{e["pid"], e["tid"]}] += e["dur"].get<double>();
  }
  for (const plan::RankPlan& rank : outcome.ranks) {
    std::size_t expected = 0;
    for (const std::int64_t ns : rank.task_ns) expected += ns > 0 ? 1 : 0;
    EXPECT_EQ(slices[rank.figures.rank], expected);
    EXPECT_NEAR((busy_us[{rank.figures.rank, 0}]), static_cast<double>(rank.timeline.busy_ns[0]) / 1e3, 1e-6);
  }
}

TEST(Perfetto, NamesRanksLanesOpsAndCopies) {
  const json trace = trace_of(tiny_outcome());
  std::set<std::string> names, threads;
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] == "X") names.insert(e["name"]);
    if (e["name"] == "thread_name") threads.insert(e["args"]["name"]);
  }
  for (const char* name : {"attention.up", "again: attention.key", "in", "optimizer"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_TRUE(threads.contains("compute"));
  EXPECT_TRUE(threads.contains("copy out (D2H)"));
  EXPECT_EQ(trace["otherData"]["times"], "modelled");
}

TEST(Perfetto, SlicesOfALaneDoNotOverlap) {
  const json trace = trace_of(tiny_outcome());
  std::map<std::pair<int, int>, double> end;
  for (const json& e : trace["traceEvents"]) {
    if (e["ph"] != "X") continue;
    double& last = end[{e["pid"], e["tid"]}];
    EXPECT_GE(e["ts"].get<double>(), last - 1e-6);
    last = e["ts"].get<double>() + e["dur"].get<double>();
  }
  EXPECT_GE(end.size(), 6U);
}

TEST(Perfetto, CountersReachThePeakOfTheProfile) {
  const plan::PlanOutcome outcome = tiny_outcome(1);
  Bytes peak = 0;
  for (const auto& bytes : plan::memory_profile(outcome.ranks[0].graph, outcome.ranks[0].program.schedule).bytes) {
    Bytes sum = 0;
    for (const Bytes b : bytes) sum += b;
    peak = std::max(peak, sum);
  }
  for (const std::int32_t points : {2, 7, 1000}) {
    Bytes highest = 0;
    const auto samples = formats::memory_samples(outcome.ranks[0], outcome.ranks[0].timeline.finish_ns, points);
    for (const formats::MemorySample& sample : samples) highest = std::max(highest, sample.total());
    EXPECT_EQ(highest, peak) << points;
    EXPECT_LE(samples.size(), static_cast<std::size_t>(points));
    for (std::size_t i = 1; i < samples.size(); ++i) EXPECT_LE(samples[i - 1].time_ns, samples[i].time_ns);
  }
  int counters = 0;
  const json trace = trace_of(outcome, {.memory_points = 10});
  for (const json& e : trace["traceEvents"]) counters += e["ph"] == "C" ? 1 : 0;
  EXPECT_GE(counters, 2);
  EXPECT_LE(counters, 10);
}

TEST(Perfetto, LimitsToRanksAndRefusesOnesThatWereNotPlanned) {
  const plan::PlanOutcome outcome = tiny_outcome();
  const json trace = trace_of(outcome, {.ranks = {1}});
  EXPECT_GT(trace["traceEvents"].size(), outcome.ranks[1].graph.ops.size());
  for (const json& e : trace["traceEvents"]) EXPECT_EQ(e["pid"], 1);
  std::ostringstream out;
  const Status status = formats::write_perfetto(out, outcome, {.ranks = {7}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "rank 7 was not planned");
}

TEST(Perfetto, EscapesNames) {
  plan::PlanOutcome outcome = tiny_outcome(1);
  outcome.ranks[0].graph.op_templates[0].name = "a \"quoted\"\n\xff name";
  std::set<std::string> names;
  const json trace = trace_of(outcome);
  for (const json& e : trace["traceEvents"]) names.insert(e["name"]);
  EXPECT_TRUE(names.contains("a \"quoted\"\n\xef\xbf\xbd name"));
}

TEST(Perfetto, ReportsAStreamThatStopsTakingBytes) {
  struct Full : std::streambuf {};  // takes nothing
  Full full;
  std::ostream out(&full);
  EXPECT_FALSE(formats::write_perfetto(out, tiny_outcome(1)).ok());
}

TEST(MemorySeries, HoldersAddUpAtEverySample) {
  const plan::PlanOutcome outcome = tiny_outcome(1);
  const auto samples = formats::memory_samples(outcome.ranks[0], outcome.ranks[0].timeline.finish_ns, 100);
  const formats::HolderSeries series = formats::largest_holders(outcome.ranks[0], samples, 1000);
  ASSERT_EQ(series.shares.size(), samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    Bytes held = 0, expected = 0;
    for (const auto& share : series.shares[i]) held += share.bytes;
    for (std::size_t role = 3; role < kStorageRoleCount; ++role) expected += samples[i].bytes[role];
    EXPECT_EQ(held, expected);
    const auto reference =
        plan::contributors_at(outcome.ranks[0].graph, outcome.ranks[0].program.schedule, samples[i].clock);
    std::vector<Bytes> moving;
    for (const plan::Contributor& c : reference) {
      if (c.role >= StorageRole::activation) moving.push_back(c.bytes);
    }
    ASSERT_EQ(series.shares[i].size(), moving.size());
    for (std::size_t k = 0; k < moving.size(); ++k) EXPECT_EQ(series.shares[i][k].bytes, moving[k]);
  }
  for (const auto& shares : formats::largest_holders(outcome.ranks[0], samples, 2).shares) EXPECT_LE(shares.size(), 2U);
}

}  // namespace
}  // namespace tidemark
