// Files of the gate: no report replaces what the command reads, and no update of a baseline is lost.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/gate_answer.h"
#include "tests/support/json_text.h"
#include "tests/support/program_path.h"
#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

const std::string kSample = device_sample(5000);
constexpr const char* kRead = "cannot write: it is read by this command";

TEST(GateFiles, AReportReplacesNoFileOfAFolderOfRanks) {
  const Workplace place;
  for (const char* rank : {"0", "2"}) place.write("r/device_sample_rank" + std::string(rank) + ".jsonl", kSample);
  const std::string output = "json=r/device_sample_rank2.jsonl";
  expect_refused(place, {"check", "r", "--budget", "76GiB", "--output", output}, kRead);
  expect_refused(place, {"diff", "r", "r", "--output", output}, kRead);
  EXPECT_EQ(place.read("r/device_sample_rank2.jsonl"), kSample);
  for (int i = 0; i < 2; ++i)  // a report may lie there, and be written anew
    EXPECT_EQ(place.run({"check", "r", "--budget", "76GiB", "--output", "json=r/report.json"}).status, 0);
}

TEST(GateFiles, AReportReplacesNoDeviceFileOfAModel) {
  const Workplace place;
  std::string model = text_of(small_model());
  const std::string shipped = "device: ascend-910b-64g";
  model.replace(model.find(shipped), shipped.size(), "device: mydev.yaml");
  place.write("mm.yaml", model);
  place.write("mydev.yaml", text_of(source_path("devices/ascend-910b-64g.yaml").string()));
  expect_refused(place, {"check", "mm.yaml", "--output", "json=mydev.yaml"}, kRead);
  expect_refused(place, {"diff", "mm.yaml", "mm.yaml", "--output", "json=mydev.yaml"}, kRead);
  EXPECT_EQ(place.run({"check", "mm.yaml", "--quiet", "--output", "json=other.yaml"}).status, 0);
}

TEST(GateFiles, AReportReplacesNoFileOfAnotherJob) {
  const Workplace place;
  place.write("a.jsonl", kSample);
  place.write("b.jsonl", kSample);
  place.write("c.yaml",
              "schema: tidemark-budget/1\ncapacity: 1GiB\njobs:\n  - {name: a, measured: a.jsonl}\n"
              "  - {name: b, measured: b.jsonl}\n");
  expect_refused(place, {"check", "c.yaml", "--job", "a", "--output", "json=b.jsonl"}, kRead);
  EXPECT_EQ(place.read("b.jsonl"), kSample);
}

TEST(GateFiles, AnOutputReplacesNoScriptThatALaunchScriptSources) {
  const Workplace place;
  std::string script = kGptScript;
  script.replace(script.find("--micro-batch-size 4"), 20, "--micro-batch-size $MB");
  const std::string sizes = "export MB=2\n", followed_in_part = "if true; then MB=2; fi\n";
  place.write("jobs/pretrain.sh", "source ./sizes.sh\n" + script);
  place.write("jobs/sizes.sh", sizes);
  place.write("other.sh", std::string("source more.sh\n") + kGptScript);
  place.write("more.sh", followed_in_part);
  place.write("tidemark-budget.yaml",
              "schema: tidemark-budget/1\ncapacity: 70GiB\njobs:\n  - {name: gpt, script: jobs/pretrain.sh}\n"
              "  - {name: other, script: other.sh}\n");
  expect_refused(place, {"check", "--output", "json=jobs/sizes.sh"}, kRead);
  expect_refused(place, {"check", "--job", "gpt", "--output", "json=more.sh"}, kRead);
  expect_refused(place, {"check", "jobs/pretrain.sh", "--budget", "70GiB", "--output", "json=jobs/./sizes.sh"}, kRead);
  expect_refused(place, {"diff", "other.sh", "jobs/pretrain.sh", "--output", "json=jobs/sizes.sh"}, kRead);
  expect_refused(
      place,
      {"check", "other.sh", "--budget", "70GiB", "--baseline", "jobs/pretrain.sh", "--output", "json=jobs/sizes.sh"},
      kRead);
  // A plan describes no attention that keeps its scores.
  place.write("flash.sh", with_matches_as(place.read("other.sh"), "backend unfused", "backend flash"));
  expect_refused(place, {"plan", "--megatron-args", "flash.sh", "--device", "h100-80g", "--quiet", "--out", "more.sh"},
                 kRead);
  EXPECT_EQ(place.read("jobs/sizes.sh"), sizes);
  EXPECT_EQ(place.read("more.sh"), followed_in_part);
  EXPECT_EQ(place.run({"check", "--job", "gpt", "--quiet", "--output", "json=sizes.sh"}).status, 0)
      << "another file of that name is none of them";
}

TEST(GateFiles, ANameOfAShippedDeviceIsNoInput) {
  const Workplace place;
  place.write("a.jsonl", kSample);
  const Ran ran = place.run({"check", "a.jsonl", "--device", "h100-80g", "--quiet", "--output", "json=h100-80g"});
  EXPECT_EQ(ran.status, 0) << ran.err;
}

TEST(GateFiles, UpdatesAtOneTimeLoseNoJob) {
  const Workplace place;
  std::string text = "schema: tidemark-budget/1\ncapacity: 1GiB\njobs:\n";
  constexpr int kJobs = 8;
  for (int i = 0; i < kJobs; ++i) {
    const std::string name = "j" + std::to_string(i);
    place.write(name + ".jsonl", kSample);
    text += "  - {name: " + name + ", measured: " + name + ".jsonl}\n";
  }
  place.write("tidemark-budget.yaml", text);
  std::vector<pid_t> children;
  for (int i = 0; i < kJobs; ++i)
    children.push_back(place.start({program_path(), "baseline", "update", "--job", "j" + std::to_string(i), "--quiet"},
                                   "out" + std::to_string(i)));
  for (int i = 0; i < kJobs; ++i)
    EXPECT_EQ(place.finish(children[static_cast<std::size_t>(i)], "out" + std::to_string(i)).status, 0);
  EXPECT_EQ(parsed(place.read("tidemark-baseline.json")).at("jobs").size(), static_cast<std::size_t>(kJobs));
}

TEST(GateFiles, AnEstimateTellsNoCacheAndNoReserve) {
  const Workplace place;
  place.write("pretrain.sh", kGptScript);
  place.write("tidemark-budget.yaml",
              "schema: tidemark-budget/1\njobs:\n  - name: gpt\n    script: pretrain.sh\n    limits:\n"
              "      - {category: cached, at_most: 1GiB}\n      - {category: reserve, at_most: 0B}\n");
  const Json found = gate_answer(place, {"check"}).at("jobs").at(0).at("findings");
  ASSERT_EQ(found.size(), 2U);
  for (const Json& one : found) EXPECT_EQ(one.at("verdict"), "NEAR") << one;
}

TEST(GateFiles, ABaselineMayGoToStdout) {
  const Workplace place;
  place.write("a.jsonl", kSample);
  place.write("tidemark-budget.yaml",
              "schema: tidemark-budget/1\ncapacity: 1GiB\njobs:\n  - {name: a, measured: a.jsonl}\n");
  const std::set<std::string> before = place.files();
  const Ran ran = place.run({"baseline", "update", "--baseline", "-", "--quiet"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(parsed(ran.out).at("schema"), "tidemark-baseline/1");
  EXPECT_EQ(place.files(), before);
}

}  // namespace
}  // namespace tidemark::testing
