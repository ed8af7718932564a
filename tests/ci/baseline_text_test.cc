#include "integrations/ci/baseline_text.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/ci/held.h"
#include "tests/ci/nasty_text.h"

namespace tidemark {
namespace {

using testing::holding;

ci::Baseline small() {
  ci::Baseline baseline{.tool_version = "0.1.0"};
  ci::put_job(baseline, ci::baseline_of("pangu", {{"model", 1}}, holding({3 * kGiB, 5 * kGiB})));
  ci::put_job(baseline, ci::baseline_of("measured", {}, holding({kGiB}, budget::Basis::measured)));
  return baseline;
}

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return at == std::string::npos ? text : text.replace(at, part.size(), by);
}

std::string error_of(const std::string& text) {
  const Result<ci::Baseline> baseline = ci::read_baseline(text, "b.json");
  return baseline ? "(none)" : baseline.error().message;
}

TEST(CiBaselineText, HasAStorageALine) {
  ci::Baseline baseline{.tool_version = "0.1.0"};
  ci::put_job(baseline, ci::baseline_of("pangu", {{"model", 1}}, holding({3 * kGiB})));
  EXPECT_EQ(ci::write_baseline(baseline), R"({
"schema":"tidemark-baseline/1",
"tool_version":"0.1.0",
"jobs":{
"pangu":{
"basis":"planned",
"inputs":[
{"role":"model","fnv1a64":"0000000000000001"}],
"runs":[],
"ranks":[
{"rank":0,"peak_bytes":3221225472,"host_bytes":null,"by_category":{"activations":3221225472},"storages":[
{"name":"layers.mlp.out","category":"activations","count":1,"bytes":3221225472}]}]}}
}
)");
}

// Of an estimate alone: what measured ranks have there is the name of a file.
TEST(CiBaselineText, AStageOfAnEstimateIsWrittenDown) {
  for (const budget::Basis basis : {budget::Basis::estimated, budget::Basis::measured, budget::Basis::planned}) {
    budget::Holdings holdings = holding({3 * kGiB}, basis);
    holdings.ranks[0].place = "pp0";
    ci::Baseline baseline{.tool_version = "0.1.0"};
    ci::put_job(baseline, ci::baseline_of("pangu", {}, holdings));
    const std::string text = ci::write_baseline(baseline);
    const bool is_written = text.find(R"({"rank":0,"place":"pp0","peak_bytes")") != std::string::npos;
    EXPECT_EQ(is_written, basis == budget::Basis::estimated) << budget::word_of(basis);
    const Result<ci::Baseline> read = ci::read_baseline(text, "b.json");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read.value(), baseline);
  }
}

TEST(CiBaselineText, IsReadAsItWasWritten) {
  const ci::Baseline baseline = small();
  const std::string text = ci::write_baseline(baseline);
  const Result<ci::Baseline> read = ci::read_baseline(text, "b.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value(), baseline);
  EXPECT_EQ(ci::write_baseline(read.value()), text);
}

ci::BaselineRank random_rank(std::int64_t rank, std::mt19937& random) {
  budget::RankHoldings row{.rank = rank, .peak_bytes = static_cast<Bytes>(random() % 1000) * kGiB};
  if (random() % 2 == 0) row.host_bytes = static_cast<Bytes>(random());
  for (std::size_t i = random() % 5; i > 0; --i) {
    const auto category = static_cast<budget::Category>(random() % budget::kCategoryCount);
    budget::HeldStorage storage =
        testing::held(testing::nasty_text(random), category, static_cast<Bytes>(random()) - kGiB);
    storage.count = static_cast<std::int64_t>(random() % 100);
    row.storages.push_back(storage);
  }
  budget::settle(row, budget::Category::other);
  return ci::baseline_of("x", {}, {.ranks = {row}}).ranks.front();
}

// Names that are not UTF-8 are so once they are in a baseline, and what is in it is read back bit by bit.
TEST(CiBaselineText, RandomBaselinesGoRound) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    ci::Baseline baseline{.tool_version = "v"};
    for (std::size_t i = random() % 4; i > 0; --i) {
      const auto basis = static_cast<budget::Basis>(random() % 3);
      ci::BaselineJob job = ci::baseline_of(testing::nasty_text(random), {}, {.basis = basis});
      if (basis == budget::Basis::measured)
        job.runs.assign(1 + random() % 3, {{0, static_cast<Bytes>(random())}, {7, static_cast<Bytes>(random())}});
      job.inputs.assign(random() % 3, {"model", random()});
      for (std::int64_t rank = 0; rank <= static_cast<std::int64_t>(random() % 3); ++rank)
        job.ranks.push_back(random_rank(rank * 5, random));
      ci::put_job(baseline, std::move(job));
    }
    const std::string text = ci::write_baseline(baseline);
    const Result<ci::Baseline> read = ci::read_baseline(text, "b.json");
    ASSERT_TRUE(read.ok()) << read.error().message << "\n" << text;
    ASSERT_EQ(read.value(), baseline) << text;
    ASSERT_EQ(ci::write_baseline(read.value()), text);
  }
}

TEST(CiBaselineText, RefusesAnotherSchema) {
  const std::string text = ci::write_baseline(small());
  EXPECT_EQ(error_of(replaced(text, "tidemark-baseline/1", "tidemark-baseline/2")),
            "b.json: schema 'tidemark-baseline/2'; this version of Tidemark reads tidemark-baseline/1");
  for (const char* other : {"{}", "[]", "1", "{\"schema\": 3}", "{\"version\": 7}"})
    EXPECT_EQ(error_of(other),
              "b.json: this is no baseline: it has no \"schema\": \"tidemark-baseline/1\"; name another file");
}

TEST(CiBaselineText, ARankIsAtMostWhatALauncherHas) {
  const std::string text = ci::write_baseline(small());
  for (const char* job : {"pangu", "measured"}) {
    const std::string part = std::string("\"") + job + "\":";
    const std::size_t begin = text.find(part);
    ASSERT_NE(begin, std::string::npos);
    const auto with_rank = [&](const std::string& rank) {
      // The last rank of the job, which everything before it is below.
      const std::size_t at =
          std::string(job) == "pangu" ? text.find("{\"rank\":1,", begin) : text.find("{\"rank\":0,", begin);
      return text.substr(0, at) + "{\"rank\":" + rank + "," + text.substr(at + 10);
    };
    EXPECT_EQ(error_of(with_rank("2147483647")), "(none)") << job;
    const std::string place = std::string(job) == "pangu" ? "/ranks/1/rank" : "/runs/0/0/rank";
    EXPECT_EQ(error_of(with_rank("2147483648")),
              "b.json: /jobs/" + std::string(job) + place + ": must be a whole number from 0 to 2147483647");
  }
}

TEST(CiBaselineText, RefusesWhatWasCutOrEdited) {
  const std::string text = ci::write_baseline(small());
  for (std::size_t size = 0; size + 2 < text.size(); size += 7)
    EXPECT_NE(error_of(text.substr(0, size)), "(none)") << size;
  EXPECT_EQ(error_of(replaced(text, "\"peak_bytes\":3221225472,\"host", "\"peak_bytes\":5,\"host")),
            "b.json: /jobs/pangu/ranks/0/by_category: adds up to 3221225472 bytes, not to the peak of 5; was the file "
            "edited? `tidemark baseline update` makes it anew");
  EXPECT_EQ(error_of(replaced(text, "\"rank\":1,", "\"rank\":0,")),
            "b.json: /jobs/pangu/ranks/1: rank 0 follows rank 0; each belongs once, ascending");
  EXPECT_EQ(error_of(replaced(text, "0000000000000001", "1")),
            "b.json: /jobs/pangu/inputs/0/fnv1a64: must be 16 hexadecimal digits in lower case");
  EXPECT_EQ(error_of(replaced(text, "\"basis\":\"planned\"", "\"basis\":\"measured\"")),
            "b.json: /jobs/pangu/runs: has 0 runs; a measured job has 1 to 100");
  EXPECT_EQ(error_of(replaced(text, "\"tool_version\"", "\"toolversion\"")),
            "b.json: /: has an unknown member 'toolversion'; did you mean 'tool_version'?");
  EXPECT_NE(error_of(replaced(text, "\"pangu\":", "\"measured\":")).find("twice"), std::string::npos);
  EXPECT_NE(error_of(replaced(text, "\"count\":1", "\"count\":-1")), "(none)");
  EXPECT_NE(error_of(replaced(text, "\"count\":1", "\"count\":1e3")), "(none)");
  EXPECT_NE(error_of("<<<<<<< HEAD\n" + text), "(none)");
}

}  // namespace
}  // namespace tidemark
