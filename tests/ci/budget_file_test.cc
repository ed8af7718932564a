#include "integrations/ci/budget_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tidemark {
namespace {

using Kind = budget::RankChoice::Kind;

constexpr const char* kWhole = R"(# what the team agreed to
schema: tidemark-budget/1
capacity: 64GiB
reserve: 3GiB
host: 128GiB
near: 3%
growth: {percent: 2, bytes: 512MiB}
load: p99
baseline: ci/baseline.json
jobs:
  - name: pangu
    model: models/pangu.yaml
    policy: optimal
    device: ascend-910b
    calibration: cal.json
    limits:
      - {ranks: first, phase: backward, at_most: 50GiB, near: 1GiB}
      - ranks: 0-3,15
        category: activations
        at_most: 20GiB
      - {host: true, at_most: 60GiB}
    waivers:
      - owner: a@b.c
        reason: the new kernel
        expires: 2026-12-31
        ranks: last
        at_most: 62GiB
      - {owner: a@b.c, reason: r, expires: 2026-01-01, growth: true, at_most: 63GiB}
  - name: llama
    script: run/llama.sh
    capacity: 80GiB
    world_size: 64
    accelerator: h100
    near: 1GiB
  - name: measured
    measured: runs/3
    predicted_by: pangu
)";

std::string error_of(const std::string& text) {
  const Result<ci::BudgetFile> file = ci::read_budget_file(text, "b.yaml");
  return file ? "(none)" : file.error().message;
}

std::string with_job(const std::string& lines) {
  return "schema: tidemark-budget/1\njobs:\n  - name: a\n    model: a.yaml\n" + lines;
}

TEST(CiBudgetFile, HasJobsWithTheDefaultsOfTheFile) {
  const ci::BudgetFile file = ci::read_budget_file(kWhole, "b.yaml").value();
  EXPECT_EQ(file.baseline, "ci/baseline.json");
  EXPECT_EQ(file.baseline_line, 9);
  ASSERT_EQ(file.jobs.size(), 3U);
  const ci::BudgetJob& pangu = file.jobs[0];
  EXPECT_EQ(pangu.kind, ci::JobKind::model);
  EXPECT_EQ(pangu.file, "models/pangu.yaml");
  EXPECT_EQ(pangu.policy + pangu.device + pangu.calibration, "optimalascend-910bcal.json");
  EXPECT_EQ(pangu.capacity_bytes, 64 * kGiB);
  EXPECT_EQ(pangu.reserve_bytes, 3 * kGiB);
  EXPECT_EQ(pangu.host_bytes, 128 * kGiB);
  EXPECT_EQ(pangu.near, (budget::Tolerance{.percent = 3}));
  EXPECT_EQ(pangu.growth, (budget::Tolerance{.percent = 2, .bytes = 512 * kMiB}));
  EXPECT_EQ(pangu.load, (ci::LoadChoice{.quantile = 0.99}));
  EXPECT_EQ(pangu.line, 11);
  EXPECT_EQ(pangu.line_of("capacity"), 3);
  EXPECT_EQ(pangu.line_of("model"), 12);
  const ci::BudgetJob& llama = file.jobs[1];
  EXPECT_EQ(llama.capacity_bytes, 80 * kGiB);
  EXPECT_EQ(llama.line_of("capacity"), 31);
  EXPECT_EQ(llama.world_size, 64);
  EXPECT_EQ(llama.near, (budget::Tolerance{.bytes = kGiB}));
  EXPECT_EQ(file.jobs[2].predicted_by, "pangu");
  EXPECT_FALSE(file.jobs[2].load.has_value());
}

TEST(CiBudgetFile, HasLimitsAndWaiversOfAJob) {
  const ci::BudgetJob job = ci::read_budget_file(kWhole, "b.yaml").value().jobs[0];
  ASSERT_EQ(job.limits.size(), 3U);
  EXPECT_EQ(job.limits[0].ranks.kind, Kind::first);
  EXPECT_EQ(job.limits[0].phase, budget::Phase::backward);
  EXPECT_EQ(job.limits[0].near, (budget::Tolerance{.bytes = kGiB}));
  EXPECT_EQ(job.limits[0].line, 17);
  EXPECT_EQ(job.limits[1].ranks.listed, (std::vector<std::int64_t>{0, 1, 2, 3, 15}));
  EXPECT_EQ(job.limits[1].category, budget::Category::activations);
  EXPECT_EQ(job.limits[1].near, (budget::Tolerance{.percent = 3}));
  EXPECT_TRUE(job.limits[2].is_host);
  ASSERT_EQ(job.waivers.size(), 2U);
  EXPECT_EQ(job.waivers[0].owner, "a@b.c");
  EXPECT_EQ(job.waivers[0].ranks.kind, Kind::last);
  EXPECT_EQ(job.waivers[0].at_most_bytes, 62 * kGiB);
  EXPECT_EQ(ci::date_text(job.waivers[0].expires), "2026-12-31");
  EXPECT_FALSE(job.waivers[0].scope.is_growth);
  EXPECT_TRUE(job.waivers[1].scope.is_growth);
}

TEST(CiBudgetFile, HasDefaultsOfItsOwn) {
  const ci::BudgetFile file = ci::read_budget_file(with_job(""), "b.yaml").value();
  EXPECT_EQ(file.baseline, "tidemark-baseline.json");
  EXPECT_FALSE(file.is_baseline_named);
  EXPECT_EQ(file.jobs[0].near, ci::kDefaultNear);
  EXPECT_EQ(file.jobs[0].growth, ci::kDefaultGrowth);
  EXPECT_FALSE(file.jobs[0].capacity_bytes.has_value());
}

TEST(CiBudgetFile, EveryMistakeHasALineAndWhatWouldBeRight) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "b.yaml:1: the file is empty; begin with `schema: tidemark-budget/1`, then `jobs:`"},
      {"- a\n",
       "b.yaml:1: the file is not a list of `key: value` lines; begin with `schema: tidemark-budget/1`, then `jobs:`"},
      {"jobs: []\n", "b.yaml:1: the file lacks the key 'schema'; begin with `schema: tidemark-budget/1`"},
      {"# x\nschema: tidemark-budget/2\nzzz: 1\n",
       "b.yaml:2: schema is 'tidemark-budget/2'; this version of Tidemark reads tidemark-budget/1"},
      {"schema: tidemark-budget/1\n",
       "b.yaml:1: the file lacks the key 'jobs'; add `jobs: [{name: small, model: models/small.yaml}]`"},
      {"schema: tidemark-budget/1\njobs: []\n",
       "b.yaml:2: jobs is an empty list; add `- name: small` and `  model: FILE`"},
      {"schema: tidemark-budget/1\ncapcity: 64GiB\njobs:\n  - {name: a, model: a.yaml}\n",
       "b.yaml:2: unknown key 'capcity' in the file; did you mean 'capacity'?"},
      {"schema: tidemark-budget/1\ncapacity: 64\njobs:\n  - {name: a, model: a.yaml}\n",
       "b.yaml:2: capacity: '64' is not a size: a bare number has no unit; append one of B, KiB, MiB, GiB, TiB (1024s) "
       "or KB, MB, GB, TB (1000s)"},
      {"schema: tidemark-budget/1\njobs:\n  - name: a\n    modle: a.yaml\n",
       "b.yaml:4: unknown key 'modle' in section jobs[0]; did you mean 'model'?"},
      {"schema: tidemark-budget/1\njobs:\n  - name: a\n",
       "b.yaml:3: job 'a' names no file; add one of `model:`, `plan:`, `script:`, `bridge:`, `torchtitan:`, "
       "`mindformers:`, `measured:`"},
      {with_job("    plan: a.json\n"),
       "b.yaml:5: a job has one file, and this one has model and plan; make it two jobs"},
      {with_job("  - name: a\n    model: b.yaml\n"),
       "b.yaml:5: job 'a' is there twice (first on line 3); give each its own name"},
      {with_job("    world_size: 8\n"),
       "b.yaml:5: world_size has no meaning here: this is a model; it is for script, bridge, torchtitan and "
       "mindformers"},
      {with_job("    capacity: 4GiB\n    reserve: 4GiB\n"),
       "b.yaml:6: reserve 4.00 GiB leaves nothing of capacity 4.00 GiB"},
      {with_job("    near: 100%\n"), "b.yaml:5: near must be below 100 %"},
      {with_job("    near: {}\n"),
       "b.yaml:5: a tolerance says neither percent nor bytes; write {percent: 2, bytes: 512MiB}"},
      {with_job("    limits:\n      - {phase: backwrd, at_most: 1GiB}\n"),
       "b.yaml:6: phase is 'backwrd'; did you mean 'backward'? write one of between_steps, forward, backward, "
       "optimizer"},
      {with_job("    limits:\n      - {phase: backward}\n"),
       "b.yaml:6: section jobs[0].limits[0] lacks the key 'at_most'; add `at_most: 50GiB`"},
      {with_job("    limits:\n      - {phase: backward, category: cached, at_most: 1GiB}\n"),
       "b.yaml:6: phase and category are not told together; keep one of them"},
      {with_job("    waivers:\n      - {owner: a, reason: b, expires: soon, at_most: 1GiB}\n"),
       "b.yaml:6: expires: 'soon' is not a day; write it like 2026-12-31"},
      {with_job("    waivers:\n      - {owner: a, reason: b, expires: 2026-12-31}\n"),
       "b.yaml:6: section jobs[0].waivers[0] lacks the key 'at_most'; add `at_most: 50GiB`"},
      {with_job("  - {name: m, measured: x, capacity: 1GiB, predicted_by: other}\n"),
       "b.yaml:5: predicted_by is 'other', which is no planned or estimated job of this file; name one of them"},
      {with_job("  - {name: m, measured: x}\n"),
       "b.yaml:5: a measured says no capacity; add `capacity: 64GiB` here or at the top"},
      {with_job("  - {name: m, plan: x, load: p99}\n"),
       "b.yaml:5: load has no meaning here: a plan has the load that it was made at"},
      {with_job("    capacity: 2000TiB\n"), "b.yaml:5: capacity is 2000.00 TiB; it is at most 1024.00 TiB"},
      {"schema: tidemark-budget/1\njobs: {a: b}\n",
       "b.yaml:2: jobs is a section; write a list like `jobs: [{name: small, model: models/small.yaml}]`"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(error_of(text), message) << text;
}

TEST(CiBudgetFile, HasAtMostAThousandOfEach) {
  std::string jobs = "schema: tidemark-budget/1\njobs:\n";
  for (int i = 0; i < 1000; ++i) jobs += fmt::format("  - {{name: j{}, model: a.yaml}}\n", i);
  EXPECT_EQ(ci::read_budget_file(jobs, "b.yaml").value().jobs.size(), 1000U);
  EXPECT_EQ(error_of(jobs + "  - {name: k, model: a.yaml}\n"), "b.yaml:2: 1001 jobs; a budget file has at most 1000");
  std::string limits = with_job("    limits:\n");
  for (int i = 0; i < 1001; ++i) limits += "      - {at_most: 1GiB}\n";
  EXPECT_EQ(error_of(limits), "b.yaml:3: 1001 limits; a budget file has at most 1000");
  EXPECT_NE(error_of("schema: tidemark-budget/1\n#" + std::string(1 << 20, 'x')).find("at most 1048576"),
            std::string::npos);
}

TEST(CiBudgetFile, NamesAreOneLine) {
  EXPECT_EQ(error_of("schema: tidemark-budget/1\njobs:\n  - {name: \"a\\nb\", model: x}\n"),
            "b.yaml:3: name 'a?b' has control characters; write it on one line");
  EXPECT_EQ(error_of("schema: tidemark-budget/1\njobs:\n  - {name: " + std::string(101, 'n') + ", model: x}\n"),
            "b.yaml:3: name has 101 bytes; it has at most 100");
}

}  // namespace
}  // namespace tidemark
