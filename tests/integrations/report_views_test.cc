// The report's views of time: what each rank does when, and address over time. Columns are read back by a reader of
// their own and, where node is there, by the page's script itself.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "integrations/formats/address_columns.h"
#include "integrations/formats/lane_columns.h"
#include "integrations/formats/memory_series.h"
#include "integrations/formats/packed_column.h"
#include "integrations/formats/report_data.h"
#include "integrations/formats/report_html.h"
#include "planner/held_span.h"
#include "planner/layout/lay_out.h"
#include "tests/support/data.h"
#include "tests/support/json_text.h"
#include "tests/support/tiny_outcome.h"
#include "tests/support/unpacked_column.h"

namespace tidemark {
namespace {

using formats::Packing;
using nlohmann::json;
using nlohmann::ordered_json;
using Column = std::vector<std::int64_t>;
using testing::TinyRank;
using testing::UnpackedColumn;

Column column_of(const ordered_json& columns, const char* name, Packing packing = Packing::plain) {
  return UnpackedColumn::read(columns.at(name).get<std::string>(), packing);
}

/// Ranks with addresses, and storages of many MiB so that rounding to MiB shows what is held.
plan::PlanOutcome placed_outcome(std::int32_t ranks, std::int32_t micro_batches = 4) {
  const testing::ChainShape shape{.layers = 3,
                                  .micro_batches = micro_batches,
                                  .warm_up = 1,
                                  .chunks = 2,
                                  .in_bytes = 40 * kMiB,
                                  .key_bytes = 20 * kMiB,
                                  .value_bytes = 12 * kMiB,
                                  .temporary_bytes = 3 * kMiB,
                                  .parameter_bytes = 16 * kMiB,
                                  .op_ns = 1e6,  // as long as copies take, so that a pointer meets either
                                  .communication = true};
  plan::PlanOutcome outcome;
  for (std::int32_t r = 0; r < ranks; ++r) {
    plan::RankPlan rank = TinyRank(r, shape).finish();
    rank.program.layout = layout::lay_out(rank.program.schedule, 64 * kGiB, 64 * kGiB, 512);
    outcome.step.step_ns = std::max(outcome.step.step_ns, rank.timeline.finish_ns);
    outcome.ranks.push_back(std::move(rank));
  }
  outcome.step.step_ns += 5'000;  // the step ends behind the ranks, as a step of several pipeline ranks does
  return outcome;
}

void expect_round_trip(const Column& values) {
  for (const Packing packing : {Packing::plain, Packing::delta})
    EXPECT_EQ(UnpackedColumn::read(formats::packed_column(values, packing), packing), values);
}

TEST(PackedColumn, ReadsBackWhatItPacked) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 51) - 1;
  for (const Column& values :
       {Column{}, Column{0}, Column{7}, Column{-7}, Column{0, 0, 0, 0, 0, 0}, Column{kMost, -kMost, 0, kMost},
        Column{512, 1024, -4096, 0}, Column{15, 16, -16, -17, 511, 512, -512}})
    expect_round_trip(values);
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    Column values;
    const auto kinds = 1 + random() % 9, period = 1 + random() % 40;
    for (std::size_t i = 0; i < 400; ++i) {
      const bool repeats = i >= period && random() % 12 != 0;
      values.push_back(repeats ? values[i - period] : static_cast<std::int64_t>(random() % (kinds * 1000)) - 2000);
    }
    expect_round_trip(values);
  }
}

TEST(PackedColumn, FoldsPeriodsAndNeedsNoEscape) {
  Column values;
  for (int period = 0; period < 1000; ++period)
    for (const std::int64_t word : {123'456, 7, 99'999, -5, 31'415}) values.push_back(word);
  values[2500] = 1;
  const std::string text = formats::packed_column(values, Packing::plain);
  EXPECT_LT(text.size(), 60U);
  EXPECT_EQ(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_*"),
            std::string::npos);
  expect_round_trip(values);
}

/// Tasks of a lane as the pipeline view has them.
std::vector<std::size_t> drawn_tasks(const plan::RankPlan& rank, std::size_t lane) {
  std::vector<std::size_t> drawn;
  for (std::size_t t = 0; t < rank.program.schedule.tasks.size(); ++t) {
    if (static_cast<std::size_t>(rank.program.schedule.tasks[t].lane) != lane) continue;
    if (lane == 0 || rank.timeline.end_ns[t] > rank.timeline.start_ns[t]) drawn.push_back(t);
  }
  return drawn;
}

void expect_lane(const plan::RankPlan& rank, const ordered_json& columns) {
  const auto tasks = drawn_tasks(rank, columns.at("lane").get<std::size_t>());
  const Column gap = column_of(columns, "gap"), ns = column_of(columns, "ns"), what = column_of(columns, "what");
  const Column site = column_of(columns, "site", Packing::delta), again = column_of(columns, "again");
  ASSERT_EQ(columns.at("count"), tasks.size());
  for (const Column* column : {&gap, &ns, &what, &site, &again}) ASSERT_EQ(column->size(), tasks.size());
  std::int64_t now = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Task& task = rank.program.schedule.tasks[tasks[i]];
    const bool copies = task.kind == TaskKind::swap_out || task.kind == TaskKind::swap_in;
    now += gap[i];
    ASSERT_EQ(now, rank.timeline.start_ns[tasks[i]]);
    now += ns[i];
    ASSERT_EQ(now, rank.timeline.end_ns[tasks[i]]);
    ASSERT_EQ(again[i], task.kind == TaskKind::recompute);
    const Storage* storage = copies ? &rank.graph.storages[row(task.storage)] : nullptr;
    ASSERT_EQ(what[i], copies ? static_cast<std::int64_t>(row(storage->storage_template))
                              : static_cast<std::int64_t>(row(task.op_template)));
    ASSERT_EQ(site[i], static_cast<std::int64_t>(copies ? storage->site : task.site));
  }
}

TEST(LaneColumns, DecodedEqualTheSchedule) {
  const plan::PlanOutcome outcome = placed_outcome(2, 12);
  for (const plan::RankPlan& rank : outcome.ranks) {
    const ordered_json columns = formats::lane_columns(rank);
    std::size_t tasks = 0;
    for (const ordered_json& lane : columns.at("lanes")) {
      expect_lane(rank, lane);
      tasks += lane.at("count").get<std::size_t>();
    }
    EXPECT_EQ(columns.at("lanes").size(), 4U) << "compute, communication, both copies";
    EXPECT_EQ(tasks, rank.program.schedule.tasks.size()) << "every task takes time here";
    EXPECT_EQ(columns.at("finish"), rank.timeline.finish_ns);
    const ordered_json& sites = columns.at("sites");
    const Column batch = column_of(sites, "batch", Packing::delta), chunk = column_of(sites, "chunk", Packing::delta);
    const Column layer = column_of(sites, "layer", Packing::delta);
    ASSERT_EQ(batch.size(), rank.graph.sites.size());
    for (std::size_t s = 0; s < batch.size(); ++s) {
      EXPECT_EQ(batch[s], rank.graph.sites[s].micro_batch);
      EXPECT_EQ(chunk[s], rank.graph.sites[s].chunk);
      EXPECT_EQ(layer[s], rank.graph.sites[s].layer);
    }
  }
}

TEST(AddressColumns, DecodedEqualTheLayout) {
  const plan::PlanOutcome outcome = placed_outcome(1, 12);
  const plan::RankPlan& rank = outcome.ranks[0];
  const Schedule& schedule = rank.program.schedule;
  const ordered_json columns = formats::address_columns(rank);
  const Column from = column_of(columns, "from", Packing::delta), span = column_of(columns, "span");
  const Column at = column_of(columns, "at", Packing::delta), bytes = column_of(columns, "bytes");
  const Column what = column_of(columns, "what"), site = column_of(columns, "site", Packing::delta);
  std::vector<std::array<std::int64_t, 6>> found, expected;
  for (std::size_t i = 0; i < from.size(); ++i)
    found.push_back({from[i], from[i] + span[i], at[i], bytes[i], what[i], site[i]});
  for (std::size_t r = 0; r < schedule.residencies.size(); ++r) {
    const Residency& residency = schedule.residencies[r];
    if (residency.space != MemorySpace::device) continue;
    const Storage& storage = rank.graph.storages[row(residency.storage)];
    const bool lasts = rank.graph.template_of(residency.storage).persists();
    expected.push_back({lasts ? 0 : residency.acquire, lasts ? 2 * schedule.compute_tasks + 1 : residency.release,
                        rank.program.layout.offset_of[r], residency.bytes,
                        static_cast<std::int64_t>(row(storage.storage_template)),
                        static_cast<std::int64_t>(row(storage.site))});
  }
  EXPECT_TRUE(std::ranges::is_sorted(from));
  std::ranges::sort(found);
  std::ranges::sort(expected);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(columns.at("arenas").size(), 1U);
  EXPECT_EQ(columns.at("arenas")[0].at("height"), rank.program.layout.arenas[0].height_bytes);
}

TEST(AddressColumns, ArenasStandOnOneAnother) {
  plan::PlanOutcome outcome = placed_outcome(1);
  Layout& layout = outcome.ranks[0].program.layout;
  const Arena device = layout.arenas[0];
  layout.arenas.push_back(device);
  const auto second = id_of<ArenaId>(layout.arenas.size() - 1);
  std::size_t moved = 0;
  while (outcome.ranks[0].program.schedule.residencies[moved].space != MemorySpace::device) ++moved;
  layout.arena_of[moved] = second;
  layout.offset_of[moved] = 1024;
  const ordered_json columns = formats::address_columns(outcome.ranks[0]);
  ASSERT_EQ(columns.at("arenas").size(), 2U);
  EXPECT_EQ(columns.at("arenas")[1].at("base"), device.height_bytes);
  const Column at = column_of(columns, "at", Packing::delta);
  EXPECT_EQ(std::ranges::count(at, device.height_bytes + 1024), 1);
}

TEST(ReportData, StaticMemoryLastsTheStep) {
  const plan::PlanOutcome outcome = placed_outcome(1);
  const json data = testing::parsed(formats::report_data(outcome));
  const json& rank = data.at("ranks").at(0);
  EXPECT_EQ(rank["t"].front(), 0);
  const std::array<int, 3> mib = {16, 32, 64};  // parameters, gradients, optimizer state
  for (std::size_t role = 0; role < mib.size(); ++role) {
    ASSERT_EQ(rank["b"][role].size(), 1U) << "the same at every moment, the last one included: " << rank["b"][role];
    EXPECT_EQ(rank["b"][role][0], mib[role]);
  }
  EXPECT_EQ(rank["b"][static_cast<std::size_t>(StorageRole::activation)].back(), 0) << "activations end with the step";
}

TEST(ReportData, OfAPlanWithoutTimesOrAddressesHasNoViews) {
  plan::PlanOutcome outcome = placed_outcome(1);
  outcome.ranks[0].program.layout = {};
  EXPECT_TRUE(testing::parsed(formats::report_data(outcome))["ranks"][0]["addresses"].is_null());
  EXPECT_TRUE(formats::lane_columns(plan::RankPlan{}).is_null());
}

/// The page's size row: what a task and a residency take, all columns together.
TEST(ReportData, ViewsTakeFewBytesATask) {
  const plan::PlanOutcome outcome = placed_outcome(1, 256);
  const plan::RankPlan& rank = outcome.ranks[0];
  const auto tasks = static_cast<double>(rank.program.schedule.tasks.size());
  const auto rows = static_cast<double>(rank.program.schedule.residencies.size());
  ASSERT_GT(tasks, 6'000);
  EXPECT_LT(static_cast<double>(formats::lane_columns(rank).dump().size()) / tasks, 2.0);
  EXPECT_LT(static_cast<double>(formats::address_columns(rank).dump().size()) / rows, 3.0);
}

/// What tests/integrations/report_page_check.js prints of a page; what node says where it fails.
std::string checked_by_node(const std::string& page) {
  const std::string path = ::testing::TempDir() + "tidemark-report-" + std::to_string(::getpid()) + ".html";
  std::ofstream(path, std::ios::binary) << page;
  const std::string command =
      "node " + testing::source_path("tests/integrations/report_page_check.js").string() + " " + path + " 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string output;
  std::array<char, 4096> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe.get()))
    output.append(buffer.data(), got);
  std::remove(path.c_str());
  return output;
}

class ReportPage : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("node --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no node here to run the page's scripts";
  }
  /// What the scripts of the outcome's page read, and the texts they showed.
  static json used(const plan::PlanOutcome& outcome) {
    const std::string output = checked_by_node(formats::report_html(testing::tiny_request(), outcome));
    if (output.starts_with("{")) return testing::parsed(output);
    ADD_FAILURE() << output;
    return {};
  }
};

bool has_line(const json& lines, std::string_view part) {
  return std::ranges::any_of(lines,
                             [&](const json& line) { return line.get<std::string>().find(part) != std::string::npos; });
}

TEST_F(ReportPage, ScriptReadsTheTimesOfTheSchedule) {
  const plan::PlanOutcome outcome = placed_outcome(2);
  const json found = used(outcome);
  ASSERT_EQ(found["ranks"].size(), 2U);
  for (std::size_t r = 0; r < 2; ++r) {
    const plan::RankPlan& rank = outcome.ranks[r];
    for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
      const auto tasks = drawn_tasks(rank, lane);
      if (tasks.empty()) continue;
      const json& read = found["ranks"][r]["lanes"][lane];
      ASSERT_EQ(read["start"].size(), tasks.size());
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        EXPECT_EQ(read["start"][i], rank.timeline.start_ns[tasks[i]]);
        EXPECT_EQ(read["end"][i], rank.timeline.end_ns[tasks[i]]);
      }
    }
  }
}

TEST_F(ReportPage, ScriptPlacesWhatLastsForTheWholeStep) {
  const plan::PlanOutcome outcome = placed_outcome(1);
  const json found = used(outcome)["ranks"][0]["rectangles"];
  const plan::RankPlan& rank = outcome.ranks[0];
  int lasting = 0;
  for (std::size_t i = 0; i < found["at"].size(); ++i) {
    const std::size_t what = found["what"][i];
    EXPECT_LT(found["from"][i].get<std::int64_t>(), found["to"][i].get<std::int64_t>());
    EXPECT_LE(found["to"][i].get<std::int64_t>(), outcome.step.step_ns);
    if (!rank.graph.storage_templates[what].persists()) {
      EXPECT_LE(found["to"][i].get<std::int64_t>(), rank.timeline.finish_ns);
      continue;
    }
    ++lasting;
    EXPECT_EQ(found["from"][i], 0);
    EXPECT_EQ(found["to"][i], outcome.step.step_ns);
  }
  EXPECT_EQ(lasting, 3) << "parameters, gradients, moments";
  EXPECT_GT(found["peakNs"], 0);
}

TEST_F(ReportPage, ViewsSayWhatIsUnderThePointer) {
  const json found = used(placed_outcome(2));
  for (const char* part :
       {"attention.up", "again: attention.key", "micro-batch 1", "chunk 1, layer 2", "compute: at", "D2H: at",
        "H2D: at", "communication inside the node: at", "no communication", "rank 1 at", "simulated"})
    EXPECT_TRUE(has_line(found["tips"]["pipeline"], part)) << part;
  for (const char* part :
       {"model.parameters", "attention.in", "address 0x", "micro-batch 1", "(16777216 bytes) · ", "the whole step"})
    EXPECT_TRUE(has_line(found["tips"]["addresses"], part)) << part;
  const std::string legend = found["legend"];
  for (const char* kind : {"forward", "backward", "recompute", "optimizer", "communication", "D2H", "H2D"})
    EXPECT_NE(legend.find(kind), std::string::npos) << kind << " is not in " << legend;
  EXPECT_GT(found["painted"], 1000);
}

/// The holders at a moment as the picture of memory writes them: name, count in flight and bytes together.
TEST_F(ReportPage, MemorySaysWhatRunsAndWhoHoldsMost) {
  const plan::PlanOutcome outcome = placed_outcome(1);
  const plan::RankPlan& rank = outcome.ranks[0];
  const json lines = used(outcome)["tips"]["memory"];
  for (const char* part : {"attention.up", "again: attention.key", "micro-batch 1", "GiB at "})
    EXPECT_TRUE(has_line(lines, part)) << part << " is not in " << lines;
  const auto series = formats::largest_holders(rank, formats::memory_samples(rank, outcome.step.step_ns, 600), 7);
  std::size_t shown = 0, named = 0;
  for (const auto& shares : series.shares) {
    for (const formats::HolderSeries::Share& share : shares) {
      const formats::Holder& holder = series.holders[static_cast<std::size_t>(share.holder)];
      const StorageTemplate& storage = rank.graph.storage_templates[row(holder.storage_template)];
      const std::string line =
          fmt::format("{}.{}{}× {}{:.2f} GiB", storage.module_path, storage.name,
                      holder.layer >= 0 ? fmt::format(", layer {}", holder.layer) : "", share.count,
                      std::round(static_cast<double>(share.bytes) / static_cast<double>(kMiB)) / 1024);
      ++named;
      if (has_line(lines, line)) ++shown;
    }
  }
  ASSERT_GT(named, 50U);
  EXPECT_GT(shown, named / 2) << "a pointer that crosses the picture meets most moments: " << lines;
}

TEST_F(ReportPage, OfAPlanWithoutAddressesRuns) {
  plan::PlanOutcome outcome = placed_outcome(2);
  for (plan::RankPlan& rank : outcome.ranks) rank.program.layout = {};
  EXPECT_TRUE(used(outcome)["tips"]["addresses"].empty());
  outcome.ranks.clear();
  EXPECT_TRUE(used(outcome)["tips"]["pipeline"].empty());
}

TEST_F(ReportPage, NamesAreTextWhateverTheyHold) {
  const std::string evil = "</script><img src=x onerror=\"1\">&'";
  plan::PlanOutcome outcome = placed_outcome(1);
  for (StorageTemplate& storage : outcome.ranks[0].graph.storage_templates) storage.name += evil;
  for (OpTemplate& op : outcome.ranks[0].graph.op_templates) op.name += evil;
  const json found = used(outcome);
  EXPECT_TRUE(has_line(found["tips"]["pipeline"], "attention.up" + evil));
  EXPECT_TRUE(has_line(found["tips"]["addresses"], "model.parameters" + evil));
}

}  // namespace
}  // namespace tidemark
