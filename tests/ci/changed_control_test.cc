#include "integrations/ci/changed_control.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "integrations/ci/diff_result.h"
#include "integrations/ci/judgement.h"
#include "integrations/ci/report_format.h"
#include "integrations/ci/setting_text.h"
#include "tests/ci/held.h"
#include "tests/support/json_text.h"

namespace tidemark {
namespace {

using budget::Category;
using testing::held;
using testing::input_of;
using testing::rank_of;

/// A job that holds these storages on rank 0.
budget::Holdings holding(std::vector<budget::HeldStorage> storages) {
  budget::Holdings holdings;
  holdings.ranks = {rank_of(0, std::move(storages))};
  return holdings;
}

/// Parallelism on line 18, the width of the dense layers on line 8.
budget::Holdings dense(int width, Bytes bytes) {
  const budget::Control parallel{"lm.yaml", 18, "parallel.data: 8"};
  const budget::Control wide{"lm.yaml", 8, "model.dense_width: " + std::to_string(width)};
  budget::Holdings holdings{.source = "lm.yaml"};
  holdings.ranks = {rank_of(
      0, {held("layers.mlp.optimizer", Category::optimizer_state, bytes, {parallel, wide}),
          held("layers.mlp.fc1_out", Category::activations, bytes / 2, {parallel, wide, {.text = "no place"}})})};
  return holdings;
}

ci::JobInput grown() {
  ci::JobInput input = input_of(dense(9216, 20 * kGiB));
  input.baseline = ci::baseline_of("pangu", {}, dense(8192, 16 * kGiB));
  return input;
}

TEST(CiChangedControl, GrowthIsAtTheLineThatChanged) {
  const ci::JobFinding growth = ci::judge(grown()).findings.back();
  ASSERT_EQ(growth.verdict, budget::Verdict::fail);
  EXPECT_EQ(growth.where.line, 8);
  EXPECT_EQ(growth.where.text, "model.dense_width: 9216");
}

TEST(CiChangedControl, GrowthNamesTheOldAndTheNewValueInEveryFormat) {
  const ci::JobResult job = ci::judge(grown());
  EXPECT_EQ(job.findings.back().changed, (ci::ChangedControl{.line = {.now = {"lm.yaml", 8, "model.dense_width: 9216"},
                                                                      .before = "model.dense_width: 8192"}}));
  const ci::GateResult gate{.tool_version = "0.1.0", .budget_file = "tidemark-budget.yaml", .jobs = {job}};
  for (const ci::ReportFormat format : {ci::ReportFormat::text, ci::ReportFormat::junit, ci::ReportFormat::html})
    EXPECT_NE(ci::write_report(format, gate, {}).find("; changed: lm.yaml:8: model.dense_width: 9216 (was 8192)"),
              std::string::npos);
  const auto json = testing::parsed(ci::write_report(ci::ReportFormat::json, gate, {}));
  const auto& changed = json["jobs"][0]["findings"].back()["changed"];
  EXPECT_EQ(changed["now"]["text"], "model.dense_width: 9216");
  EXPECT_EQ(changed["before"], "model.dense_width: 8192");
}

TEST(CiChangedControl, WhatShrinksHasNoCause) {
  ci::JobInput input = grown();
  input.holdings = dense(4096, 8 * kGiB);
  EXPECT_EQ(ci::judge(input).findings.back().changed, std::nullopt);
  EXPECT_EQ(ci::judge(input).findings.back().where.line, 8);
  EXPECT_EQ(ci::diff_of({.label = "a"}, dense(8192, 16 * kGiB), {.label = "b"}, input.holdings, std::nullopt, "0.1.0")
                .changed,
            std::nullopt);
}

TEST(CiChangedControl, SettingsAreReadAsEachKindOfFileWritesThem) {
  const auto text_of = [](const char* before, const char* now) {
    const std::vector<budget::HeldStorage> after = {held("x", Category::other, 1, {{"f", 3, now}})};
    return ci::changed_text(ci::changed_control({"--lr 1", before}, holding(after), {}, after));
  };
  EXPECT_EQ(text_of("training.seq_len = 8192", "training.seq_len = 16384"),
            "; changed: f:3: training.seq_len = 16384 (was 8192)");
  EXPECT_EQ(text_of("--num-layers 60", "--num-layers 61"), "; changed: f:3: --num-layers 61 (was 60)");
  EXPECT_EQ(text_of("A_CONFIG=:4096:8", "A_CONFIG=:16:8"), "; changed: f:3: A_CONFIG=:16:8 (was :4096:8)");
  EXPECT_EQ(text_of("--num-layers 60", "--num-layers-per 2"), "; changed: f:3: --num-layers-per 2 (not given before)");
  EXPECT_EQ(text_of("--swiglu", "--swiglu true"), "; changed: f:3: --swiglu true (was --swiglu)");
  EXPECT_EQ(ci::changed_text(std::nullopt), "");
}

TEST(CiChangedControl, WhereNoTextChangedItIsWhatControlsMost) {
  ci::JobInput input = grown();
  input.holdings = dense(8192, 20 * kGiB);
  EXPECT_EQ(ci::judge(input).findings.back().where.line, 18);
  input.holdings = dense(9216, 20 * kGiB);
  input.baseline->controls.clear();  // of a baseline that was written before there were any
  EXPECT_EQ(ci::judge(input).findings.back().where.line, 18);
}

TEST(CiChangedControl, WhatIsGoneIsNamedInEveryFormat) {
  ci::JobInput input = grown();
  input.holdings = dense(8192, 20 * kGiB);
  input.baseline->controls = {"model.dense_width: 8192", "parallel.data: 8", "recompute.granularity: full"};
  const ci::JobResult job = ci::judge(input);
  const ci::JobFinding& growth = job.findings.back();
  EXPECT_EQ(growth.where.line, 18);
  EXPECT_EQ(growth.changed, (ci::ChangedControl{.line = {.before = "recompute.granularity: full"}}));
  const ci::GateResult gate{.tool_version = "0.1.0", .budget_file = "tidemark-budget.yaml", .jobs = {job}};
  for (const ci::ReportFormat format : {ci::ReportFormat::text, ci::ReportFormat::junit, ci::ReportFormat::html})
    EXPECT_NE(ci::write_report(format, gate, {}).find("; changed: recompute.granularity: full (no longer in effect)"),
              std::string::npos);
  const auto json = testing::parsed(ci::write_report(ci::ReportFormat::json, gate, {}));
  const auto& changed = json["jobs"][0]["findings"].back()["changed"];
  EXPECT_TRUE(changed["now"].is_null());
  EXPECT_EQ(changed["before"], "recompute.granularity: full");
}

TEST(CiChangedControl, OfWhatIsGoneThreeAreNamedAndALineThatChangedComesFirst) {
  const std::vector<budget::HeldStorage> after = {held("x", Category::other, 1, {{"a.sh", 3, "--lr 2"}})};
  const std::vector<std::string> gone = {"--a 1", "--b 2", "--c 3", "--d 4"};
  EXPECT_EQ(ci::changed_control(gone, {}, {}, {}), (ci::ChangedControl{.line = {.before = "--a 1, --b 2, --c 3"}}));
  EXPECT_EQ(ci::changed_control({"--a 1", "--lr 2"}, holding(after), {}, after),
            (ci::ChangedControl{.line = {.before = "--a 1"}}));
  EXPECT_EQ(ci::changed_control({"--a 1", "--lr 1"}, holding(after), {}, after),
            (ci::ChangedControl{.line = {.now = {"a.sh", 3, "--lr 2"}, .before = "--lr 1"}}));
  EXPECT_EQ(ci::changed_control({"--lr 2"}, holding(after), {}, after), std::nullopt);
}

TEST(CiChangedControl, ALineOfWhatDidNotGrowIsTheLastChoice) {
  const budget::Control same{"a.sh", 3, "--bf16"}, changed{"a.sh", 4, "--swiglu"};
  const std::vector<budget::StorageGrowth> growth = {{.name = "x", .after_bytes = 5, .controls = {same}}};
  EXPECT_EQ(ci::changed_control({"--bf16"}, {}, growth, {held("y", Category::other, 1, {same, changed})}),
            (ci::ChangedControl{.line = {.now = changed, .before = ""}}));
  const std::vector<budget::HeldStorage> both = {held("y", Category::other, 1, {same, changed})};
  EXPECT_EQ(ci::changed_control({"--bf16", "--swiglu"}, holding(both), growth, both), std::nullopt);
}

// What controls no storage by itself: all of the job's lines that changed, and what is gone.
TEST(CiChangedControl, OtherLinesOfTheJobThatChangedAreNamed) {
  budget::Holdings after;
  after.settings = {
      {"a.sh", 1, "--nproc-per-node 4"}, {"a.sh", 2, "--seed 2"}, {"a.sh", 3, "--lr 0.10"}, {"", 0, "--no-place 1"}};
  const std::vector<std::string> before = {"--bf16", "--lr 0.1", "--nproc-per-node 8", "--seed 1"};
  const std::optional<ci::ChangedControl> changed = ci::changed_control(before, after, {}, {});
  EXPECT_EQ(ci::changed_text(changed),
            "; changed: a.sh:1: --nproc-per-node 4 (was 8), a.sh:2: --seed 2 (was 1), --bf16 (no longer in effect)");
  after.settings.clear();
  for (int i = 1; i <= 9; ++i) after.settings.push_back({"a.sh", i, "--a" + std::to_string(i) + " 1"});
  EXPECT_EQ(ci::changed_control({"--a1 2"}, after, {}, {})->others.size(), ci::kMostChangedLines - 1);
  const std::vector<std::string> gone = {"--b 1", "--c 1", "--d 1"};
  const auto few = ci::changed_control(gone, after, {}, {});
  EXPECT_EQ(few->others.size(), 2U);  // two lines, and one for the three that are gone
  EXPECT_EQ(few->others.back().before, "--b 1, --c 1, --d 1");
}

TEST(CiChangedControl, AValueThatIsWrittenInAnotherWayIsTheSame) {
  const budget::Control layers{"lm.yaml", 4, "model.layers: {moe: 7, dense: 1}"};
  const budget::Control heads{"lm.yaml", 9, "model.attention.heads: 32"};
  const std::vector<budget::HeldStorage> after = {held("q", Category::parameters, 2, {layers, heads})};
  const auto changed =
      ci::changed_control({"model.attention.heads: 16", "model.layers: {dense: 1, moe: 7}"}, holding(after), {}, after);
  EXPECT_EQ(ci::changed_text(changed), "; changed: lm.yaml:9: model.attention.heads: 32 (was 16)");
}

TEST(CiSettingText, ComparesByValue) {
  const auto same = [](const char* a, const char* b) { return ci::canonical_text(a) == ci::canonical_text(b); };
  EXPECT_TRUE(same("load: 0.10", "load: 0.1"));
  EXPECT_TRUE(same("--steps 1e3", "--steps 1000"));
  EXPECT_TRUE(same("a.b = 16.0", "a.b = 16"));
  EXPECT_TRUE(same("k: {b: [1, 2.0], a: {d: 1, c: x}}", "k: {a: {c: x, d: 1}, b: [1.0, 2]}"));
  EXPECT_TRUE(same("k: {}", "k: { }"));
  EXPECT_FALSE(same("k: [1, 2]", "k: [2, 1]"));
  EXPECT_FALSE(same("k: {a: 1, b: 2}", "k: {a: 2, b: 1}"));
  EXPECT_FALSE(same("k: 9007199254740993", "k: 9007199254740992"));
  EXPECT_FALSE(same("--bf16", "--bf16 false"));
  EXPECT_FALSE(same("k: {a: 1, b...", "k: {a: 1.0, b..."));  // cut: as it stands
  const std::string deep(200, '[');
  EXPECT_EQ(ci::canonical_text("k: " + deep), "k " + deep);
}

TEST(CiChangedControl, TextsOfABaselineAreThoseWithAPlace) {
  EXPECT_EQ(ci::baseline_of("pangu", {}, dense(8192, kGiB)).controls,
            (std::vector<std::string>{"model.dense_width: 8192", "parallel.data: 8"}));
}

TEST(CiChangedControl, ADiffIsAtTheLineThatChanged) {
  const ci::DiffResult diff = ci::diff_of({.label = "a"}, dense(8192, 16 * kGiB), {.label = "b", .file = "lm.yaml"},
                                          dense(9216, 20 * kGiB), budget::Tolerance{.percent = 2}, "0.1.0");
  const std::string text = ci::write_report(ci::ReportFormat::github, diff, {});
  EXPECT_TRUE(text.starts_with("::error file=lm.yaml,line=8,")) << text;
}

TEST(CiChangedControl, ABudgetIsExceededAtAStorageUnlessTheReserveLeavesNoRoom) {
  ci::JobInput input = input_of(dense(8192, 4 * kGiB));
  input.holdings.ranks = {
      rank_of(0, {held("reserve.context", Category::reserve, 5 * kGiB, {{"lm.yaml", 2, "device: x"}}),
                  held("out", Category::activations, kGiB, {{"lm.yaml", 30, "model.hidden: 64"}})})};
  input.job.capacity_bytes = 5 * kGiB + 1;
  EXPECT_EQ(ci::judge(input).findings[0].where.line, 30);
  input.job.capacity_bytes = 5 * kGiB;
  EXPECT_EQ(ci::judge(input).findings[0].where.line, 2);
}

TEST(CiDiff, NotesOfOneSideSayOfWhich) {
  budget::Holdings before = dense(8192, kGiB), after = dense(8192, kGiB);
  before.notes = {"load 1.2", "both"};
  after.notes = {"both", "load 1.4"};
  EXPECT_EQ(ci::diff_of({.label = "a"}, before, {.label = "b"}, after, std::nullopt, "0.1.0").notes,
            (std::vector<std::string>{"both", "before: load 1.2", "after: load 1.4"}));
}

}  // namespace
}  // namespace tidemark
