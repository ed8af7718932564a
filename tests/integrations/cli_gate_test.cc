// The memory-budget gate as teams run it: check on a budget file, baseline and diff, with the real program.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "tests/configs/config_text.h"
#include "tests/support/gate_answer.h"
#include "tests/support/json_text.h"
#include "tests/support/program_run.h"
#include "tests/support/sanitized.h"

namespace tidemark::testing {
namespace {

/// Of a processor, by all programs that this one has waited for.
double seconds_of_children() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// A repository with a model, a launch script and a budget file.
class Gate : public ::testing::Test {
 protected:
  void SetUp() override {
    place.write("models/small.yaml", text_of(small_model()));
    place.write("pretrain.sh", kGptScript);
    write_budget("60GiB", "70GiB");
  }

  void write_budget(const std::string& of_model, const std::string& of_script, const std::string& more = "") const {
    place.write("tidemark-budget.yaml",
                "schema: tidemark-budget/1  # what CI holds our jobs against\n"
                "jobs:\n"
                "  - name: small\n"
                "    model: models/small.yaml\n"
                "    capacity: " +
                    of_model + "\n" + more +
                    "  - name: gpt\n"
                    "    script: pretrain.sh\n"
                    "    capacity: " +
                    of_script + "\n");
  }

  [[nodiscard]] Json answer(Words words, int status = 0) const { return gate_answer(place, std::move(words), status); }

  /// Results that a SARIF file shows as errors, beside notes.
  static Json errors_of(const Json& sarif) {
    Json errors = Json::array();
    for (const Json& result : sarif.at("runs").at(0).at("results"))
      if (result.at("level") == "error") errors.push_back(result);
    return errors;
  }

  void put_into_script(const Json& remedy) const {
    std::string script = kGptScript;
    script.pop_back();
    for (const Json& edit : remedy["edits"])
      for (const Json& flag : edit["flags"]) script += " \\\n  " + flag.get<std::string>();
    place.write("pretrain.sh", script + "\n");
  }

  static std::string bytes(Bytes size) { return std::to_string(size) + "B"; }

  Workplace place;
};

TEST_F(Gate, FindsTheBudgetFileAndChecksEveryJob) {
  const Json result = answer({"check"});
  EXPECT_EQ(result["verdict"], "PASS");
  EXPECT_EQ(result["budget_file"], "tidemark-budget.yaml");
  ASSERT_EQ(result["jobs"].size(), 2U);
  EXPECT_EQ(job_named(result, "small")["basis"], "planned");
  EXPECT_EQ(job_named(result, "gpt")["basis"], "estimated");
  EXPECT_EQ(answer({"check", "--job", "gpt"})["jobs"].size(), 1U);
  expect_refused(place, {"check", "--job", "gtp"}, "--job: .*no job 'gtp'.*did you mean 'gpt'");
}

TEST_F(Gate, LooksInFoldersAboveUpToTheRepository) {
  place.write("deep/er/file", "");
  const auto checked_in = [&](const char* folder) {
    return place.finish(
        place.start(
            {"/bin/sh", "-c", std::string("cd ") + folder + " && exec " + program_path() + " check --job gpt --quiet"},
            ""),
        "");
  };
  EXPECT_EQ(checked_in("deep/er").status, 0);
  place.write("deep/.git/HEAD", "");
  const Ran outside = checked_in("deep/er");
  EXPECT_EQ(outside.status, 2);
  EXPECT_NE(outside.err.find("tidemark-budget.yaml: not found here or in a folder above"), std::string::npos)
      << outside.err;
}

TEST_F(Gate, TheStatusIsTheWorstOfAllJobs) {
  const Bytes peak = highest_peak(job_named(answer({"check"}), "gpt"));
  write_budget("60GiB", bytes(peak - 1));
  EXPECT_EQ(answer({"check"}, 1)["verdict"], "FAIL");
  EXPECT_EQ(answer({"check", "--exit-zero"}, 0)["verdict"], "FAIL");
  write_budget("60GiB", bytes(peak + 1));  // without the error band
  EXPECT_EQ(answer({"check"}, 0)["verdict"], "NEAR");
  EXPECT_EQ(answer({"check", "--strict"}, 1)["verdict"], "NEAR");
  place.write("pretrain.sh", "echo nothing\n");
  const Json broken = answer({"check", "--exit-zero"}, 2);
  EXPECT_EQ(broken["verdict"], "ERROR");
  EXPECT_EQ(job_named(broken, "small")["verdict"], "PASS");  // judged all the same
  EXPECT_TRUE(job_named(broken, "gpt")["error"].get<std::string>().starts_with("pretrain.sh:")) << broken;
}

TEST_F(Gate, AFailureSaysWhyAndWhatToDo) {
  const Bytes peak = highest_peak(job_named(answer({"check"}), "gpt"));
  write_budget("60GiB", bytes(peak / 2));
  const Json failed = job_named(answer({"check"}, 1), "gpt");
  bool is_placed = false;
  for (const Json& row : failed["contributors"])
    for (const Json& control : row["controls"])
      is_placed = is_placed || (control["file"] == "pretrain.sh" && control["line"].get<int>() > 0);
  EXPECT_TRUE(is_placed) << failed["contributors"];
  ASSERT_FALSE(failed["remedy"].is_null());
  const Ran text = place.run({"check", "--quiet"});
  EXPECT_NE(text.out.find("FAIL gpt rank "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("what to do"), std::string::npos) << text.out;
}

/// The flags that a remedy names, put into the script, keep the budget.
TEST_F(Gate, TheFlagsOfARemedyClearTheBudget) {
  const Bytes peak = highest_peak(job_named(answer({"check"}), "gpt"));
  write_budget("60GiB", bytes(peak * 8 / 10));
  const Json failed = job_named(answer({"check"}, 1), "gpt");
  ASSERT_TRUE(failed["remedy"]["clears"].get<bool>()) << failed["remedy"];
  put_into_script(failed["remedy"]);
  EXPECT_NE(job_named(answer({"check"}), "gpt")["verdict"], "FAIL") << place.read("pretrain.sh");
}

/// Two limits are exceeded, each by something else: the flags that are named keep both.
TEST_F(Gate, ARemedyKeepsEveryLimitThatIsExceeded) {
  const Json before = job_named(answer({"check"}), "gpt");
  const Json& by_category = before["ranks"][0]["by_category"];
  const Bytes activations = by_category["activations"].get<Bytes>(),
              state = by_category["optimizer_state"].get<Bytes>();
  place.write("tidemark-budget.yaml",
              "schema: tidemark-budget/1\njobs:\n  - name: gpt\n    script: pretrain.sh\n" +
                  std::string("    limits:\n      - {category: activations, at_most: ") + bytes(activations / 2) +
                  "}\n      - {category: optimizer_state, at_most: " + bytes(state / 2) + "}\n");
  const Json failed = job_named(answer({"check"}, 1), "gpt");
  ASSERT_EQ(failed["findings"].size(), 2U);
  for (const Json& finding : failed["findings"]) EXPECT_EQ(finding["verdict"], "FAIL") << finding;
  ASSERT_TRUE(failed["remedy"]["clears"].get<bool>()) << failed["remedy"];
  EXPECT_GE(failed["remedy"]["edits"].size(), 2U) << failed["remedy"];
  put_into_script(failed["remedy"]);
  const Json kept = job_named(answer({"check"}), "gpt");
  for (const Json& finding : kept["findings"]) EXPECT_NE(finding["verdict"], "FAIL") << finding;
}

TEST_F(Gate, EditsOfAScriptHaveTheLineToChange) {
  const Bytes peak = highest_peak(job_named(answer({"check"}), "gpt"));
  write_budget("60GiB", bytes(peak * 8 / 10));
  const Json failed = job_named(answer({"check", "--output", "sarif=a.sarif"}, 1), "gpt");
  ASSERT_FALSE(failed["remedy"]["edits"].empty());
  for (const Json& edit : failed["remedy"]["edits"]) {
    EXPECT_EQ(edit["where"]["file"], "pretrain.sh");
    EXPECT_GE(edit["where"]["line"].get<int>(), 2) << edit;
  }
  const Json results = errors_of(parsed(place.read("a.sarif")));
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0]["relatedLocations"].size(), failed["remedy"]["edits"].size());
}

/// No plan of the job as it is fits, and a smaller micro-batch does: the line that says it is named.
TEST_F(Gate, EditsOfAModelHaveTheLineToChange) {
  std::string model = text_of(small_model());
  const auto put = [&model](const std::string& key, const std::string& line) {
    const std::size_t at = model.find("  " + key + ":");
    ASSERT_NE(at, std::string::npos) << key;
    model.replace(at, model.find('\n', at) - at, "  " + line);
  };
  put("layers", "layers: {dense: 1, moe: 1}");
  put("mtp_layers", "mtp_layers: 0");
  put("pipeline", "pipeline: 1");
  put("virtual_pipeline", "virtual_pipeline: 1");
  put("micro_batch", "micro_batch: 8");
  put("global_batch", "global_batch: 32");
  put("overlap_forward_backward", "overlap_forward_backward: false");
  place.write("models/small.yaml", model);
  write_budget("5.5GiB", "70GiB", "    host: 1MiB\n");
  const Json failed = job_named(answer({"check", "--job", "small"}, 1), "small");
  ASSERT_FALSE(failed["remedy"]["edits"].empty()) << failed["remedy"];
  const Json& edit = failed["remedy"]["edits"][0];
  ASSERT_TRUE(edit["text"].get<std::string>().starts_with("parallel.micro_batch: ")) << edit;
  EXPECT_EQ(edit["where"]["file"], "models/small.yaml");
  EXPECT_EQ(edit["where"]["text"], "parallel.micro_batch: 8");
  const auto end = model.begin() + static_cast<std::ptrdiff_t>(model.find("  micro_batch: 8"));
  EXPECT_EQ(edit["where"]["line"].get<std::ptrdiff_t>(), 1 + std::count(model.begin(), end, '\n'));
}

/// What cannot be read is found where the budget file names it; the message has the place in the file itself.
TEST_F(Gate, AJobThatCannotBeReadHasItsPlaceInTheBudgetFile) {
  place.write("pretrain.sh", "echo nothing\n");
  const Ran ran = place.run({"check", "--quiet", "--output", "sarif=a.sarif", "--output", "github=a.github"});
  EXPECT_EQ(ran.status, 2);
  const Json results = errors_of(parsed(place.read("a.sarif")));
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0]["ruleId"], "unreadable-job");
  const Json& where = results[0]["locations"][0]["physicalLocation"];
  EXPECT_EQ(where["artifactLocation"]["uri"], "tidemark-budget.yaml");
  EXPECT_EQ(where["region"]["startLine"], 6);
  EXPECT_NE(place.read("a.github")
                .find("::error file=tidemark-budget.yaml,line=6,title=Memory budget%3A gpt::ERROR gpt: "
                      "pretrain.sh: no command starts"),
            std::string::npos)
      << place.read("a.github");
}

/// A limit on any rank is held against the stage it is in; one on a rank that is not there is refused with its line.
TEST_F(Gate, ALimitOnARankIsHeldWhereItsStageIs) {
  place.write("pp2.sh", "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --pipeline-model-parallel-size 2 " +
                            std::string(kGptScript).substr(std::string(kGptScript).find("--num-layers")));
  const auto check = [&](const std::string& job, const std::string& ranks) {
    place.write("tidemark-budget.yaml", "schema: tidemark-budget/1\njobs:\n  - name: one\n    " + job +
                                            "\n    capacity: 70GiB\n    limits:\n      - {ranks: " + ranks +
                                            ", category: activations, at_most: 1MiB}\n");
    return place.run({"check", "--quiet"});
  };
  const Ran held = check("script: pp2.sh", "9");
  EXPECT_EQ(held.status, 1) << held.out;
  EXPECT_NE(held.out.find("FAIL one rank 8 (pp1): estimated category activations"), std::string::npos) << held.out;
  const Ran beyond = check("script: pp2.sh", "99");
  EXPECT_EQ(beyond.status, 2) << beyond.out;
  EXPECT_NE(beyond.out.find("tidemark-budget.yaml:7: ranks: rank 99 is not there; the job has ranks 0 to 15"),
            std::string::npos)
      << beyond.out;
  EXPECT_EQ(check("script: pp2.sh", "middle").status, 2);
  EXPECT_NE(check("model: models/small.yaml", "99").out.find("ranks: rank 99 is not there; the job has rank"),
            std::string::npos);
}

/// A waiver for ranks that are not there is a mistake, and one device of a stage is not the stage.
TEST_F(Gate, AWaiverIsForRanksOfTheJobAndForWholeStages) {
  place.write("pp2.sh", "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --pipeline-model-parallel-size 2 " +
                            std::string(kGptScript).substr(std::string(kGptScript).find("--num-layers")));
  const auto check = [&](const std::string& ranks) {
    place.write("tidemark-budget.yaml",
                "schema: tidemark-budget/1\njobs:\n  - name: one\n    script: pp2.sh\n    capacity: 64MiB\n"
                "    reserve: 0B\n    waivers:\n"
                "      - {owner: a, reason: r, expires: 2099-01-01, at_most: 70GiB, ranks: \"" +
                    ranks + "\"}\n");
    return place.run({"check", "--quiet"});
  };
  const Ran absent = check("99");
  EXPECT_EQ(absent.status, 2) << absent.out;
  EXPECT_NE(absent.out.find("tidemark-budget.yaml:8: ranks: rank 99 is not there; the job has ranks 0 to 15"),
            std::string::npos)
      << absent.out;
  EXPECT_EQ(check("middle").status, 2);
  EXPECT_EQ(check("5,12").status, 1);
  EXPECT_EQ(check("0-7").status, 1);
  const Ran whole = check("0-15");
  EXPECT_EQ(whole.status, 0) << whole.out;
  EXPECT_NE(whole.out.find("waived by a"), std::string::npos) << whole.out;
}

/// A line that controls no storage by its size makes a job grow as well, and an equal value is no change.
TEST_F(Gate, GrowthNamesLoadsDevicesFormatsAndGroups) {
  const std::string script =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 512 --num-attention-heads 8 \\\n"
      "  --group-query-attention --num-query-groups 2 --seq-length 1024 --max-position-embeddings 1024 \\\n"
      "  --micro-batch-size 4 --global-batch-size 32 --use-distributed-optimizer \\\n  --bf16 --vocab-size 32000\n";
  const std::string model = place.read("models/small.yaml");
  const auto check = [&](const std::string& file, const std::string& text, const std::string& changed) {
    place.write(file, text);
    EXPECT_EQ(place.run({"baseline", "update", "--quiet"}).status, 0);
    place.write(file, changed);
    const Ran ran = place.run({"check", "--quiet"});
    EXPECT_EQ(ran.status, 1) << ran.out << ran.err;
    place.write(file, text);
    return ran.out;
  };
  const auto holds = [](const std::string& out, const std::string& said) {
    return out.find(said) != std::string::npos ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << out;
  };
  write_budget("60GiB", "70GiB");
  place.write("pretrain.sh", script);
  const std::string load = "coefficient_of_variation: 0.";
  EXPECT_TRUE(holds(check("models/small.yaml", model, with(model, load + "10", load + "90")),
                    ": expert_load.coefficient_of_variation: 0.90 (was 0.10)"));
  const std::string more = with(with(model, "{dense: 1, moe: 7}", "{moe: 7, dense: 1}"), "heads: 16", "heads: 64");
  EXPECT_TRUE(holds(check("models/small.yaml", model, more), ": model.attention.heads: 64 (was 16)"));
  EXPECT_TRUE(holds(check("pretrain.sh", script, with(script, "node 8", "node 4")),
                    "; changed: pretrain.sh:1: --nproc-per-node 4 (was 8)"));
  EXPECT_TRUE(
      holds(check("pretrain.sh", script, with(script, "  --bf16", " ")), "; changed: --bf16 (no longer in effect)"));
  EXPECT_TRUE(holds(check("pretrain.sh", script, with(script, "--group-query-attention --num-query-groups 2", "")),
                    "--group-query-attention, --num-query-groups 2 (no longer in effect)"));
}

constexpr const char* kTitan =
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 2\nseq_len = 8192\n"
    "[parallelism]\ndata_parallel_shard_degree = 8\n[activation_checkpoint]\nmode = \"selective\"\n"
    "selective_ac_option = \"op\"\n";

/// What was not understood is in the verdict, and nothing beside it says how close the estimate is.
TEST_F(Gate, WhatWasNotUnderstoodIsInEveryReport) {
  place.write("train.toml", kTitan);
  place.write("tidemark-budget.yaml",
              "schema: tidemark-budget/1\njobs:\n  - {name: tt, torchtitan: train.toml, capacity: 130GiB}\n");
  const Ran ran = place.run({"check", "--quiet", "--explain", "--output", "json=a.json", "--output", "junit=a.xml",
                             "--output", "markdown=a.md", "--output", "html=a.html"});
  for (const std::string& text :
       {ran.out, place.read("a.json"), place.read("a.xml"), place.read("a.md"), place.read("a.html")}) {
    EXPECT_NE(text.find("train.toml: the estimate of torchtitan runs was compared with published figures only"),
              std::string::npos)
        << text;
    EXPECT_EQ(text.find("expected within"), std::string::npos) << text;
    EXPECT_EQ(text.find("error band 6"), std::string::npos) << text;
  }
  EXPECT_EQ(job_named(parsed(place.read("a.json")), "tt")["band_percent"], 0);
}

/// Controls are the keys of the job's own file, each once, and a failure says why there is no remedy.
TEST_F(Gate, AConfigurationIsToldInItsOwnWords) {
  place.write("train.toml", kTitan);
  place.write("tidemark-budget.yaml",
              "schema: tidemark-budget/1\njobs:\n  - {name: tt, torchtitan: train.toml, capacity: 20GiB}\n");
  const Ran text = place.run({"check", "--quiet"});
  EXPECT_EQ(text.out.find("not given"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("activation_checkpoint.mode"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("no change is looked for in configuration files"), std::string::npos) << text.out;
  const Json failed = job_named(answer({"check"}, 1), "tt");
  for (const Json& row : failed["contributors"]) {
    std::vector<std::string> seen;
    for (const Json& control : row["controls"]) seen.push_back(control.dump());
    std::ranges::sort(seen);
    EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end()) << row;
  }
}

/// Growth names the line of a configuration that changed, with what it said and says, whatever the file's words are.
TEST_F(Gate, GrowthOfAConfigurationNamesTheLineThatChanged) {
  struct Change {
    std::string kind, file;
    std::string_view text;
    std::string from, to, said;
  };
  const std::vector<Change> changes = {
      {"torchtitan", "train.toml", kTitanText, "seq_len = 8192", "seq_len = 32768",
       "training.seq_len = 32768 (was 8192)"},
      {"mindformers", "train.yaml", kMindformersText, "hidden_size: 2048", "hidden_size: 4096",
       "model.model_config.hidden_size: 4096 (was 2048)"},
      {"bridge", "dump.yaml", kBridgeText, "num_layers: 32", "num_layers: 64", "model.num_layers: 64 (was 32)"}};
  for (const Change& change : changes) {
    place.write(change.file, change.text);
    place.write("tidemark-budget.yaml", "schema: tidemark-budget/1\njobs:\n  - {name: job, " + change.kind + ": " +
                                            change.file + ", capacity: 900GiB" +
                                            (change.kind == "bridge" ? ", world_size: 64" : "") + "}\n");
    ASSERT_EQ(place.run({"baseline", "update", "--quiet"}).status, 0) << change.kind;
    const std::string changed = with(change.text, change.from, change.to);
    place.write(change.file, changed);
    const Ran ran = place.run({"check", "--quiet"});
    EXPECT_EQ(ran.status, 1) << ran.err;
    const std::size_t at = changed.find(change.to);
    const auto line = 1 + std::count(changed.begin(), changed.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    const std::string said = "; changed: " + change.file + ":" + std::to_string(line) + ": " + change.said;
    EXPECT_NE(ran.out.find(said), std::string::npos) << said << " is not in\n" << ran.out;
    std::filesystem::remove(place.path("tidemark-baseline.json"));
  }
}

TEST_F(Gate, GrowthAloneSaysWhyThereIsNoRemedy) {
  ASSERT_EQ(place.run({"baseline", "update", "--quiet"}).status, 0);
  place.write("pretrain.sh",
              std::regex_replace(std::string(kGptScript), std::regex("--num-layers 12"), "--num-layers 24"));
  const Ran ran = place.run({"check", "--quiet"});
  EXPECT_EQ(ran.status, 1) << ran.out;
  EXPECT_NE(ran.out.find("growth above the baseline is mended by what made it grow"), std::string::npos) << ran.out;
}

/// The job that a check must never pass: a line that is not followed may have raised its micro-batch.
TEST_F(Gate, AScriptWhoseValueIsNotKnownIsRefused) {
  std::string script = kGptScript;
  script.replace(script.find("--micro-batch-size 4"), 20, "--micro-batch-size $M");
  place.write("pretrain.sh", "M=1\nread M\n" + script);
  const Ran ran = place.run({"check", "--quiet"});
  EXPECT_EQ(ran.status, 2) << ran.out;
  EXPECT_NE(ran.out.find("pretrain.sh:6: --micro-batch-size needs '$M', which line 2 may set"), std::string::npos)
      << ran.out;
}

/// Whatever of a script cannot be followed, the verdict is never PASS; with what it is taken for known, it is.
TEST_F(Gate, AScriptWithWordsThatCannotBeFollowedIsNearAtBest) {
  const auto verdict = [&](const std::string& before, const std::string& behind) {
    std::string script = kGptScript;
    script.pop_back();
    place.write("pretrain.sh", before + script + " " + behind + "\n");
    const Json answered = answer({"check", "--job", "gpt"});
    return answered.at("jobs")[0].at("verdict").get<std::string>();
  };
  EXPECT_EQ(verdict("", ""), "PASS");
  EXPECT_EQ(verdict("EXTRA_ARGS=--swiglu\n", "$EXTRA_ARGS"), "PASS");
  EXPECT_EQ(verdict("set -- --swiglu\n", "\"$@\""), "PASS");
  for (const char* words : {"--swiglu --no-swiglu", "--use-distributed-optimizer --no-use-distributed-optimizer",
                            "$EXTRA_ARGS", "@args.txt", "$1", "\"$@\"", "$(cat f)", "--use-checkpoint-args"})
    EXPECT_EQ(verdict("", words), "NEAR") << words;
  EXPECT_EQ(verdict("set -- \"$@\" --swiglu\n", "\"$@\""), "NEAR");
  EXPECT_EQ(verdict(kGptScript, "--swiglu"), "NEAR");
  place.write("pretrain.sh", std::string(kGptScript) + kGptScript);
  const Ran two = place.run({"check", "--job", "gpt", "--quiet"});
  EXPECT_NE(two.out.find("pretrain.sh:1: 'pretrain_gpt.py' is started here, too; only what line 6 starts is judged"),
            std::string::npos)
      << two.out;
}

TEST_F(Gate, ASourcedScriptBesideIsFollowedAndHashed) {
  std::string script = kGptScript;
  script.replace(script.find("--micro-batch-size 4"), 20, "--micro-batch-size ${MB:-4}");
  place.write("jobs/pretrain.sh", "source ./sizes.sh\n" + script);
  const auto checked = [&] {
    return answer({"check", "jobs/pretrain.sh", "--kind", "script", "--budget", "70GiB"}).at("jobs")[0];
  };
  const Json without = checked();
  EXPECT_EQ(without.at("verdict"), "NEAR");
  place.write("jobs/sizes.sh", "export MB=2\n");
  const Json with = checked();
  EXPECT_EQ(with.at("verdict"), "PASS");
  EXPECT_LT(highest_peak(with), highest_peak(without));
  place.write("jobs/sizes.sh", "if true; then MB=2; fi\n");
  EXPECT_EQ(checked().at("verdict"), "NEAR");
  EXPECT_EQ(highest_peak(checked()), highest_peak(without));

  place.write("jobs/sizes.sh", "export MB=2\n");
  place.write("tidemark-budget.yaml",
              "schema: tidemark-budget/1\nbaseline: base.json\njobs:\n  - name: gpt\n    script: jobs/pretrain.sh\n"
              "    capacity: 70GiB\n");
  ASSERT_EQ(place.run({"baseline", "update", "--quiet"}).status, 0);
  const std::string before = place.read("base.json");
  EXPECT_NE(before.find("\"sourced\""), std::string::npos) << before;
  place.write("jobs/sizes.sh", "export MB=2 # the same\n");
  ASSERT_EQ(place.run({"baseline", "update", "--quiet"}).status, 0);
  EXPECT_NE(place.read("base.json"), before);
}

TEST_F(Gate, EveryFormatComesFromOneRun) {
  const Ran ran = place.run({"check", "--quiet", "--output", "text=a.txt", "--output", "json=a.json", "--output",
                             "junit=a.xml", "--output", "sarif=a.sarif", "--output", "github=a.github", "--output",
                             "markdown=a.md", "--output", "html=a.html"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(place.read("a.txt"), ran.out);
  EXPECT_EQ(parsed(place.read("a.json"))["schema"], "tidemark-check/1");
  EXPECT_EQ(parsed(place.read("a.sarif"))["version"], "2.1.0");
  for (const char* file : {"a.xml", "a.md", "a.html"}) EXPECT_FALSE(place.read(file).empty()) << file;
  const Ran to_stdout = place.run({"check", "--quiet", "--output", "json=-"});
  EXPECT_EQ(to_stdout.out, place.read("a.json"));
  expect_refused(place, {"check", "--output", "jnuit=a"}, "--output: 'jnuit' is no format.*did you mean 'junit'");
  expect_refused(place, {"check", "--output", "junit"}, "names no file");
  expect_refused(place, {"check", "--output", "junit=tidemark-budget.yaml"}, "it is read by this command");
}

TEST_F(Gate, TheSameJobsGiveTheSameBytes) {
  const std::string once = place.run({"check", "--format", "json", "--quiet"}).out;
  EXPECT_EQ(place.run({"check", "--format", "json", "--quiet", "--threads", "1"}).out, once);
}

TEST_F(Gate, OptionsThatTheFileSaysAreRefused) {
  expect_refused(place, {"check", "--budget", "1GiB"}, "--budget: the jobs of tidemark-budget.yaml say it");
  expect_refused(place, {"check", "--policy", "optimal"}, "--policy: the jobs of tidemark-budget.yaml say it");
  expect_refused(place, {"check", "pretrain.sh"}, "--budget: needed, the memory the framework may fill");
  expect_refused(place, {"check", "pretrain.sh", "--budget", "1GiB", "--job", "x"}, "--job: names a job");
}

TEST_F(Gate, MistakesOfTheBudgetFileHaveTheirLine) {
  place.write("tidemark-budget.yaml", "schema: tidemark-budget/1\njobs:\n  - name: small\n    modle: x.yaml\n");
  expect_refused(place, {"check"}, "^tidemark-budget\\.yaml:4: .*modle");
  place.write("tidemark-budget.yaml", "schema: tidemark-budget/2\njobs: []\n");
  expect_refused(place, {"check"}, "^tidemark-budget\\.yaml:1: ");
}

// ---- waivers --------------------------------------------------------------------------------------------------------

TEST_F(Gate, AWaiverHoldsThroughItsLastDay) {
  const Bytes peak = highest_peak(job_named(answer({"check"}), "small"));
  write_budget(bytes(peak - kMiB), "70GiB",
               "    waivers:\n      - {owner: ana@example.org, reason: new expert, expires: 2026-12-31, at_most: " +
                   bytes(peak + kMiB) + "}\n");
  const Json waived = job_named(answer({"check", "--today", "2026-12-31"}), "small");
  EXPECT_EQ(waived["verdict"], "NEAR");
  EXPECT_EQ(waived["findings"][0]["waiver"]["effect"], "waived");
  const Json expired = job_named(answer({"check", "--today", "2027-01-01"}, 1), "small");
  EXPECT_EQ(expired["findings"][0]["waiver"]["effect"], "expired");
  expect_refused(place, {"check", "--today", "2026-02-30"}, "--today: ");
}

// ---- baselines ------------------------------------------------------------------------------------------------------

TEST_F(Gate, ABaselineIsWrittenOnceAndTheSameBytes) {
  const Ran first = place.run({"baseline", "update", "--quiet"});
  ASSERT_EQ(first.status, 0) << first.err;
  const std::string written = place.read("tidemark-baseline.json");
  EXPECT_EQ(parsed(written)["schema"], "tidemark-baseline/1");
  ASSERT_EQ(place.run({"baseline", "update", "--quiet"}).status, 0);
  EXPECT_EQ(place.read("tidemark-baseline.json"), written);
  EXPECT_EQ(place.run({"baseline", "show", "--format", "json", "--quiet"}).out, written);
  EXPECT_NE(place.run({"baseline", "show"}).out.find("small: 2 ranks, planned, highest "), std::string::npos);
  const Json unchanged = answer({"check"});
  EXPECT_EQ(unchanged["verdict"], "PASS");
}

TEST_F(Gate, GrowthAboveTheBaselineFailsAndSaysWhatGrew) {
  ASSERT_EQ(place.run({"baseline", "update", "--quiet"}).status, 0);
  std::string script = kGptScript;
  script.replace(script.find("--micro-batch-size 4"), 20, "--micro-batch-size 8");
  place.write("pretrain.sh", script);
  const Json grown = job_named(answer({"check"}, 1), "gpt");
  EXPECT_EQ(grown["verdict"], "FAIL");
  ASSERT_FALSE(grown["growth"]["storages"].empty());
  EXPECT_EQ(grown["growth"]["storages"][0]["storage"], "activations");
  EXPECT_EQ(answer({"check", "--fail-on", "growth=500%"})["verdict"], "PASS");
  script.replace(script.find("--micro-batch-size 8"), 20, "--micro-batch-size 2");
  place.write("pretrain.sh", script);
  const Json improved = job_named(answer({"check"}), "gpt");
  EXPECT_NE(improved["notices"].dump().find("can be lowered to"), std::string::npos) << improved["notices"];
}

/// A rename changes nothing: inputs are known by what they hold.
TEST_F(Gate, ARenameChangesNothing) {
  ASSERT_EQ(place.run({"baseline", "update", "--quiet"}).status, 0);
  const std::string written = place.read("tidemark-baseline.json");
  std::filesystem::rename(place.path("models/small.yaml"), place.path("models/little.yaml"));
  std::string budget = place.read("tidemark-budget.yaml");
  budget.replace(budget.find("models/small.yaml"), 17, "models/little.yaml");
  place.write("tidemark-budget.yaml", budget);
  EXPECT_EQ(answer({"check"})["verdict"], "PASS");
  ASSERT_EQ(place.run({"baseline", "update", "--quiet"}).status, 0);
  EXPECT_EQ(place.read("tidemark-baseline.json"), written);
}

TEST_F(Gate, AnotherSchemaIsNeverOverwritten) {
  for (const char* text :
       {R"({"schema": "tidemark-baseline/9", "tool_version": "9", "jobs": {}})", "{\"sch", "hello"}) {
    place.write("tidemark-baseline.json", text);
    expect_refused(place, {"baseline", "update"}, "^tidemark-baseline\\.json");
    expect_refused(place, {"check"}, "^tidemark-baseline\\.json");
    EXPECT_EQ(place.read("tidemark-baseline.json"), text);
  }
}

TEST_F(Gate, ABaselineOfTheBaseBranchMayBeAnyJob) {
  place.write("base.sh", kGptScript);
  const Words check = {"check", "pretrain.sh", "--budget", "70GiB", "--baseline", "base.sh"};
  EXPECT_EQ(answer(check)["verdict"], "PASS");
  std::string script = kGptScript;
  script.replace(script.find("--micro-batch-size 4"), 20, "--micro-batch-size 8");
  place.write("pretrain.sh", script);
  EXPECT_EQ(answer(check, 1)["verdict"], "FAIL");
}

// ---- diff -----------------------------------------------------------------------------------------------------------

TEST_F(Gate, DiffSaysWhatGrewByStorageAndRank) {
  place.write("base.sh", kGptScript);
  std::string script = kGptScript;
  script.replace(script.find("--num-layers 12"), 15, "--num-layers 13");
  place.write("pretrain.sh", script);
  const Json diff = answer({"diff", "base.sh", "pretrain.sh"});
  EXPECT_EQ(diff["schema"], "tidemark-diff/1");
  Bytes sum = 0;
  for (const Json& storage : diff["growth"]["storages"])
    sum += storage["after_bytes"].get<Bytes>() - storage["before_bytes"].get<Bytes>();
  EXPECT_EQ(sum, diff["growth"]["after_bytes"].get<Bytes>() - diff["growth"]["before_bytes"].get<Bytes>());
  EXPECT_GT(sum, 0);
  EXPECT_EQ(answer({"diff", "base.sh", "pretrain.sh", "--fail-on", "growth=1%"}, 1)["verdict"], "FAIL");
  EXPECT_EQ(answer({"diff", "base.sh", "pretrain.sh", "--fail-on", "growth=1%", "--exit-zero"})["verdict"], "FAIL");
  EXPECT_EQ(answer({"diff", "base.sh", "base.sh", "--fail-on", "growth=0%"})["verdict"], "PASS");
  expect_refused(place, {"diff", "base.sh", "models/small.yaml", "--quiet"}, "they are not compared");
}

TEST_F(Gate, DiffAgainstABaseline) {
  ASSERT_EQ(place.run({"baseline", "update", "--quiet"}).status, 0);
  const Json same = answer({"diff", "tidemark-baseline.json", "pretrain.sh", "--job", "gpt"});
  EXPECT_TRUE(same["growth"]["storages"].empty()) << same["growth"];
  expect_refused(place, {"diff", "tidemark-baseline.json", "pretrain.sh"},
                 "--job: .*holds gpt or small; say which one");
}

// ---- kinds ----------------------------------------------------------------------------------------------------------

TEST_F(Gate, AFileSaysWhatItIs) {
  const auto kind = [&](const Words& words) {
    Words all = {"check"};
    all.insert(all.end(), words.begin(), words.end());
    all.insert(all.end(), {"--budget", "1TiB"});
    return answer(all)["jobs"][0]["kind"].get<std::string>();
  };
  EXPECT_EQ(kind({"pretrain.sh"}), "script");
  EXPECT_EQ(kind({"models/small.yaml"}), "model");
  place.write("arguments", kGptScript);
  expect_refused(place, {"check", "arguments", "--budget", "1TiB"}, "nothing tells what kind of job this is.*--kind");
  EXPECT_EQ(kind({"arguments", "--kind", "script"}), "script");
  expect_refused(place, {"check", "none.sh", "--budget", "1TiB"}, "^none\\.sh: ");
}

TEST_F(Gate, TimeIsSaidOnStderr) {
  const Ran plain = place.run({"check"});
  const Ran timed = place.run({"check", "--time"});
  EXPECT_EQ(timed.status, 0) << timed.err;
  EXPECT_EQ(timed.out, plain.out);
  EXPECT_TRUE(std::regex_search(timed.err, std::regex("checked in [0-9]+\\.[0-9]{2} s\n"))) << timed.err;
  EXPECT_EQ(plain.err.find("checked in"), std::string::npos) << plain.err;
}

/// What a script takes of a processor, with all of the program's start. The goal of the optimized program is 0.1 s
/// (docs/PERFORMANCE.md); ten times that is left to builds that are not, and a hundred to sanitizers.
TEST_F(Gate, AScriptTakesLittleOfAProcessor) {
  const double most_seconds = kSanitized ? 10 : 1;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const double before = seconds_of_children();
    ASSERT_EQ(place.run({"check", "pretrain.sh", "--budget", "70GiB", "--quiet"}).status, 0);
    least = std::min(least, seconds_of_children() - before);
  }
  EXPECT_LT(least, most_seconds);
}

TEST_F(Gate, NoBudgetFileIsSaidSo) {
  std::filesystem::remove(place.path("tidemark-budget.yaml"));
  place.write(".git/HEAD", "");
  expect_refused(place, {"check"}, "^tidemark-budget\\.yaml: not found here.*docs/ci\\.md");
}

}  // namespace
}  // namespace tidemark::testing
