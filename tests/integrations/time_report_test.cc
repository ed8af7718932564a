// The score of predicted step times as people and scripts read it.

#include "integrations/formats/time_report.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/json_text.h"

namespace tidemark::testing {
namespace {

using formats::TimePrediction;
using formats::TimeReport;
using nlohmann::json;
using step_time::TimeRow;

/// Rows and predictions of a report, kept together: the report only looks at them.
struct TimedRows {
  std::vector<TimeRow> rows;
  std::vector<TimePrediction> predictions;

  TimeRow& add(const std::string& id, const std::string& track, std::optional<double> measured_s,
               TimePrediction prediction) {
    TimeRow& row = rows.emplace_back();
    row.id = id;
    row.track = track;
    row.split_key = id.substr(0, id.find('/'));
    row.group = row.split_key;
    row.measured_s = measured_s;
    predictions.push_back(std::move(prediction));
    return row;
  }

  [[nodiscard]] TimeReport report() const {
    return {.what = "times.json", .rows = rows, .predictions = predictions, .factors = {}, .notes = {}};
  }
};

TimePrediction scored(double predicted_s, std::optional<double> band_percent = std::nullopt) {
  return {.predicted_s = predicted_s, .band_percent = band_percent, .refused = "", .is_scored = true};
}

TimePrediction refusal(std::string why) {
  return {.predicted_s = std::nullopt, .band_percent = std::nullopt, .refused = std::move(why), .is_scored = true};
}

/// Two tracks: one of a job in two layouts and another key, one with a refusal only; and what is in none.
TimedRows small_rows() {
  TimedRows rows;
  rows.add("gpt/tp2", "dense", 2.0, scored(2.2, 20)).model_flops_per_s = 3e14;
  rows.add("gpt/tp4", "dense", 4.0, scored(5.0, 20)).model_flops_per_s = 3e14;
  rows.add("llama/tp1", "dense", 10.0, scored(9.5, 5)).model_flops_per_s = 2e14;
  rows.add("mixtral/ep8", "moe", 3.0, refusal("micro batch size is absent"));
  rows.add("recalled", "dense", 1.0, {.predicted_s = 1.5, .band_percent = 15, .refused = "", .is_scored = false});
  rows.add("plan/pp8", "dense", std::nullopt, scored(7, 15)).notes = {"alternating windows"};
  return rows;
}

const json& track_named(const json& report, const std::string& name) {
  for (const json& track : report.at("tracks"))
    if (track.at("track") == name) return track;
  throw std::out_of_range("no track " + name);
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TimeReport, TextIsTracksThenWorstThenTheRest) {
  const TimedRows rows = small_rows();
  TimeReport report = rows.report();
  report.factors = {{"h100 nemo", 1.1}};
  report.notes = {"device h100: fitted"};
  EXPECT_EQ("\n" + formats::time_text(report), R"TEXT(
times.json: seconds of a step; predicted ones are modelled, measured ones are as published
device h100: fitted
factor of source h100 nemo, fitted: 1.100
by track: absolute errors over rows (MAPE, p90) and over keys, of medians inside a key (median, p90); regret: its p90
  track  rows  keys  MAPE %  p90 %  median %  p90 %    tau  regret %  band %  covered %  constant MFU %  p90 %  refused
  dense     3     2    13.3   22.0      11.3   16.3  1.000       0.0    20.0       33.3            41.7   48.3        0
  moe       0     0       -      -         -      -      -         -       -          -               -      -        1
worst rows, 3 of 3
  predicted s  measured s  error %  band %  track  row
        5.000       4.000    +25.0    20.0  dense  gpt/tp4
        2.200       2.000    +10.0    20.0  dense  gpt/tp2
        9.500      10.000     -5.0     5.0  dense  llama/tp1
predicted, in no track, 2 of 2
  predicted s  measured s  error %  band %  track  row
        1.500       1.000    +50.0    15.0  dense  recalled
        7.000           -        -    15.0  dense  plan/pp8
refused 1 row: micro batch size is absent (as mixtral/ep8)
noted for 1 row: alternating windows (as plan/pp8)
)TEXT");
}

TEST(TimeReport, RowsOfJsonSayWhatIsKnown) {
  const TimedRows rows = small_rows();
  const std::string text = formats::time_json(rows.report());
  EXPECT_EQ(text.back(), '\n');
  const json report = parsed(text);
  ASSERT_EQ(report.at("rows").size(), 6U);
  EXPECT_EQ(report.at("rows").at(0), json({{"id", "gpt/tp2"},
                                           {"track", "dense"},
                                           {"predicted_s", 2.2},
                                           {"measured_s", 2.0},
                                           {"band_percent", 20.0},
                                           {"refused", nullptr},
                                           {"scored", true},
                                           {"notes", json::array()}}));
  const json& refused = report.at("rows").at(3);
  EXPECT_TRUE(refused.at("predicted_s").is_null());
  EXPECT_TRUE(refused.at("band_percent").is_null());
  EXPECT_EQ(refused.at("measured_s"), 3.0);
  EXPECT_EQ(refused.at("refused"), "micro batch size is absent");
  EXPECT_EQ(refused.at("scored"), false);
  EXPECT_EQ(report.at("rows").at(4).at("scored"), false);
  const json& unmeasured = report.at("rows").at(5);
  EXPECT_TRUE(unmeasured.at("measured_s").is_null());
  EXPECT_EQ(unmeasured.at("predicted_s"), 7.0);
  EXPECT_EQ(unmeasured.at("scored"), false);
  EXPECT_EQ(unmeasured.at("notes"), json({"alternating windows"}));
}

TEST(TimeReport, TracksOfJsonHoldScoredRowsOnly) {
  const TimedRows rows = small_rows();
  const json report = parsed(formats::time_json(rows.report()));
  ASSERT_EQ(report.at("tracks").size(), 2U);
  const json& dense = report.at("tracks").at(0);
  EXPECT_EQ(dense.at("track"), "dense");
  EXPECT_EQ(dense.at("rows"), 3);
  EXPECT_EQ(dense.at("keys"), 2);
  const auto near = [](const json& object, const std::string& member, double value) {
    EXPECT_NEAR(object.at(member).get<double>(), value, 1e-9) << member;
  };
  near(dense, "mape_percent", 40.0 / 3);  // 10, 25 and 5
  near(dense, "row_p90_percent", 22);     // 0.8 of the way from 10 to 25
  near(dense, "worst_percent", 25);
  near(dense, "median_percent", 11.25);  // of 17.5 and 5
  near(dense, "p90_percent", 16.25);
  near(dense, "kendall_tau", 1);
  near(dense, "pairs", 1);
  near(dense, "groups", 1);
  near(dense, "regret_p90_percent", 0);
  near(dense, "regret_worst_percent", 0);
  near(dense, "band_percent", 20);
  near(dense, "covered_percent", 100.0 / 3);  // 25 is outside 20, and 9.5 for 10 is 5.3 outside 5
  EXPECT_EQ(dense.at("refused"), 0);
  // Keys in different folds: 3e14 is predicted by 2e14 and the other way round, 1.5 and 2/3 of the measured time.
  const json& rival = dense.at("constant_mfu");
  EXPECT_EQ(rival.at("rows"), 3);
  EXPECT_EQ(rival.at("keys"), 2);
  near(rival, "worst_percent", 50);
  near(rival, "mape_percent", (50 + 50 + 100.0 / 3) / 3);
  near(rival, "median_percent", (50 + 100.0 / 3) / 2);
  near(rival, "p90_percent", 100.0 / 3 + 0.9 * (50 - 100.0 / 3));
}

TEST(TimeReport, ATrackThatRefusesAllIsListedWithoutFigures) {
  const TimedRows rows = small_rows();
  const json report = parsed(formats::time_json(rows.report()));
  const json& moe = track_named(report, "moe");
  EXPECT_EQ(moe.at("rows"), 0);
  EXPECT_EQ(moe.at("keys"), 0);
  EXPECT_EQ(moe.at("refused"), 1);
  EXPECT_EQ(moe.at("pairs"), 0);
  for (const char* member :
       {"mape_percent", "row_p90_percent", "worst_percent", "median_percent", "p90_percent", "kendall_tau",
        "regret_p90_percent", "regret_worst_percent", "band_percent", "covered_percent", "constant_mfu"})
    EXPECT_TRUE(moe.at(member).is_null()) << member;
}

TEST(TimeReport, SourcesAndNotesAreInJson) {
  const TimedRows rows = small_rows();
  TimeReport report = rows.report();
  report.factors = {{"nemo", 1.1}, {"foundry", 0.95}};
  report.notes = {"one", "two"};
  const json written = parsed(formats::time_json(report));
  EXPECT_EQ(written.at("sources"),
            json({{{"name", "nemo"}, {"factor", 1.1}}, {{"name", "foundry"}, {"factor", 0.95}}}));
  EXPECT_EQ(written.at("notes"), json({"one", "two"}));
}

TEST(TimeReport, BandsThatAreNotGivenComeFromTheOtherFolds) {
  TimedRows rows;
  rows.add("a", "dense", 10.0, scored(11));  // "a" and "b" are in different folds
  rows.add("b", "dense", 10.0, scored(13));
  rows.add("e", "dense", 10.0, {.predicted_s = 12, .band_percent = std::nullopt, .refused = "", .is_scored = false});
  const json report = parsed(formats::time_json(rows.report()));
  EXPECT_NEAR(report.at("rows").at(0).at("band_percent").get<double>(), 30, 1e-9);
  EXPECT_NEAR(report.at("rows").at(1).at("band_percent").get<double>(), 10, 1e-9);
  EXPECT_TRUE(report.at("rows").at(2).at("band_percent").is_null());
  EXPECT_EQ(track_named(report, "dense").at("covered_percent"), 50.0);
}

TEST(TimeReport, TextsOfTheFileCannotBreakALineOrTheJson) {
  const std::string hostile = "a\"b\\c\n\x1b[31m\xff{}</script>";
  TimedRows rows;
  rows.add(hostile, "tr\tack", 1.0, scored(2)).notes = {"note\nof " + hostile};
  rows.add(hostile, "tr\tack", 1.0, refusal("refused\r" + hostile));
  TimeReport report = rows.report();
  report.what = hostile;
  report.factors = {{hostile, 1}};
  report.notes = {hostile};
  const json written = parsed(formats::time_json(report));
  const std::string replaced = "a\"b\\c\n\x1b[31m\xef\xbf\xbd{}</script>";  // what is no character, as U+FFFD
  EXPECT_EQ(written.at("rows").at(0).at("id"), replaced);
  EXPECT_EQ(written.at("rows").at(0).at("track"), "tr\tack");
  EXPECT_EQ(written.at("rows").at(1).at("refused"), "refused\r" + replaced);
  EXPECT_EQ(written.at("sources").at(0).at("name"), replaced);
  const std::string text = formats::time_text(report);
  for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << static_cast<int>(c);
  // Title, note, factor, two lines of a head and a track, three of the worst row, a refusal, a note on a row.
  EXPECT_EQ(count_of(text, "\n"), 11U) << text;
  EXPECT_NE(text.find("a\"b\\c??[31m\\xff{}</script>"), std::string::npos) << text;
}

TEST(TimeReport, RefusalsAreGroupedByReason) {
  TimedRows rows;
  for (int i = 0; i < 3; ++i) rows.add("x" + std::to_string(i), "dense", 1.0, refusal("no layers"));
  rows.add("y", "dense", 1.0, refusal("another")).refused = "the row's own, not shown beside";
  rows.add("z", "dense", 1.0, refusal("")).refused = "unknown device";
  rows.add("w", "dense", 1.0, refusal("unknown device"));
  const std::string text = formats::time_text(rows.report());
  const std::size_t most = text.find("refused 3 rows: no layers (as x0)\n");
  const std::size_t next = text.find("refused 2 rows: unknown device (as z)\n");
  const std::size_t last = text.find("refused 1 row: another (as y)\n");
  ASSERT_NE(last, std::string::npos) << text;
  EXPECT_LT(most, next);
  EXPECT_LT(next, last);
  EXPECT_EQ(text.find("the row's own"), std::string::npos);
  EXPECT_EQ(parsed(formats::time_json(rows.report())).at("rows").at(4).at("refused"), "unknown device");
}

TEST(TimeReport, TheWorstTwentyRowsAreShownWorstFirst) {
  TimedRows rows;
  for (int i = 0; i < 30; ++i) {
    const double sign = i % 2 == 0 ? 1 : -1;
    rows.add("row" + std::to_string(i) + ".", "dense", 100.0, scored(100 + sign * i));
  }
  const std::string text = formats::time_text(rows.report());
  EXPECT_NE(text.find("worst rows, 20 of 30\n"), std::string::npos) << text;
  EXPECT_LT(text.find("-29.0"), text.find("+28.0"));
  EXPECT_NE(text.find("row10."), std::string::npos);
  EXPECT_EQ(text.find("row9."), std::string::npos);
  EXPECT_EQ(text.find("in no track"), std::string::npos);
}

TEST(TimeReport, OfNoRowsSaysSo) {
  const TimedRows rows;
  EXPECT_NE(formats::time_text(rows.report()).find("no row is scored\n"), std::string::npos);
  const json report = parsed(formats::time_json(rows.report()));
  EXPECT_TRUE(report.at("rows").empty());
  EXPECT_TRUE(report.at("tracks").empty());
}

}  // namespace
}  // namespace tidemark::testing
