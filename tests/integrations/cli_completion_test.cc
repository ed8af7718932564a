// Completion as a shell does it: bash itself loads the script and is asked.

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

using Set = std::set<std::string>;

class BashCompletion : public ::testing::Test {
 protected:
  void SetUp() override {
    const Ran ran = place.run({"completion", "bash"});
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    place.write("script.bash", ran.out);
    place.write("model one.yaml", "");
    place.write("model*two.yaml", "");
  }

  /// What bash offers for the last of the words, each as bash itself would have cut the line. The program is named as a
  /// person does whose PATH does not have it.
  [[nodiscard]] Set offers(const std::vector<std::string>& words) const {
    std::string line = " '" + program_path() + "'";
    for (const std::string& word : words) line += " '" + word + "'";
    place.write("ask.bash",
                "set -u\nsource ./script.bash\n[[ $(complete -p tidemark) == *_tidemark* ]] || exit 9\nCOMP_WORDS=(" +
                    line + ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_tidemark\n" +
                    "((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"\n");
    const Ran ran = place.finish(place.start({"/bin/bash", "--norc", "./ask.bash"}, ""), "");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    Set found;
    std::istringstream lines(ran.out);
    for (std::string offer; std::getline(lines, offer);) found.insert(offer);
    return found;
  }

  Workplace place;
};

/// The verbs of `tidemark list verbs` are those that are completed, whichever are added.
TEST_F(BashCompletion, OffersEveryVerb) {
  Set verbs = {"help", "--help", "--version"};
  std::istringstream list(place.run({"list", "verbs"}).out);
  for (std::string line; std::getline(list, line);) verbs.insert(line.substr(0, line.find(' ')));
  EXPECT_GE(verbs.size(), 10U);
  EXPECT_EQ(offers({""}), verbs);
  EXPECT_EQ(offers({"che"}), Set{"check"});
  EXPECT_EQ(offers({"help", "est"}), Set{"estimate"});
}

/// Options of a verb are those of its help.
TEST_F(BashCompletion, OffersEveryOptionOfTheHelp) {
  std::istringstream list(place.run({"list", "verbs"}).out);
  for (std::string line; std::getline(list, line);) {
    const std::string verb = line.substr(0, line.find(' '));
    const std::string help = place.run({verb, "--help"}).out;
    const Set offered = offers({verb, "-"});
    EXPECT_TRUE(offered.contains("--help") && offered.contains("--quiet") && offered.contains("-q")) << verb;
    for (const std::string& option : offered) EXPECT_NE(help.find(option), std::string::npos) << verb << " " << option;
    std::istringstream words(help.substr(help.find("Options:")));
    for (std::string word; words >> word;) {
      if (!word.starts_with("--") || word.size() < 3) continue;
      const std::string name = word.substr(0, word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"));
      EXPECT_TRUE(offered.contains(name)) << verb << " " << word;
    }
  }
}

TEST_F(BashCompletion, OffersTheWordsOfAnOption) {
  const Set policies = offers({"plan", "--policy", ""});
  EXPECT_TRUE(policies.contains("optimal") && policies.contains("keep-all") && policies.contains("greedy"));
  EXPECT_EQ(offers({"plan", "x.yaml", "--policy", "opt"}), Set{"optimal"});
  // Bash cuts `--format=js` into three words.
  EXPECT_EQ(offers({"plan", "--format", "=", "js"}), Set{"json"});
  EXPECT_EQ(offers({"plan", "--format", "="}), (Set{"json", "text"}));
  EXPECT_EQ(offers({"export", "--to", "mega"}), Set{"megatron"});
  EXPECT_EQ(offers({"completion", ""}), (Set{"bash", "zsh"}));
  EXPECT_TRUE(offers({"list", ""}).contains("policies"));
  EXPECT_EQ(offers({"no-such-verb", ""}), Set{});
}

// To bash, `--output json=a.json` is four words.
TEST_F(BashCompletion, OffersTheFormatsOfAReportAndThenFiles) {
  for (const char* verb : {"check", "diff"}) {
    EXPECT_EQ(offers({verb, "--output", ""}),
              (Set{"text=", "json=", "junit=", "sarif=", "github=", "markdown=", "html="}));
    EXPECT_EQ(offers({verb, "--output", "j"}), (Set{"json=", "junit="}));
    EXPECT_EQ(offers({verb, "--output", "=", "mark"}), Set{"markdown="});
    const Set models = {"model one.yaml", "model*two.yaml"};
    EXPECT_EQ(offers({verb, "--output", "json", "=", "model"}), models);
    EXPECT_EQ(offers({verb, "--output", "=", "json", "=", "model"}), models);
    EXPECT_TRUE(offers({verb, "--output", "json", "="}).contains("model one.yaml"));
    EXPECT_EQ(offers({verb, "--output", "json", "=", "a.json", "--output", "sa"}), Set{"sarif="});
  }
}

TEST_F(BashCompletion, OffersFilesWhereAFileBelongs) {
  const Set models = {"model one.yaml", "model*two.yaml"};
  EXPECT_EQ(offers({"plan", "mod"}), models);
  EXPECT_EQ(offers({"check", "mod"}), models);
  EXPECT_EQ(offers({"plan", "--out", "model o"}), Set{"model one.yaml"});
  EXPECT_EQ(offers({"plan", "--budget", "mod"}), Set{}) << "a size";
  EXPECT_EQ(offers({"plan", "--compare", "mod"}), models) << "a flag takes no value";
}

TEST_F(BashCompletion, OffersTheDevicesThatAreShipped) {
  Set devices;
  std::istringstream list(place.run({"list", "devices", "--names"}).out);
  for (std::string name; std::getline(list, name);) devices.insert(name);
  EXPECT_TRUE(devices.contains("ascend-910b-64g") && devices.contains("h100-80g"));
  for (const char* verb : {"plan", "check", "loads", "search"}) {
    const Set offered = offers({verb, "--device", ""});
    for (const std::string& device : devices) EXPECT_TRUE(offered.contains(device)) << verb << " " << device;
    EXPECT_TRUE(offered.contains("model one.yaml")) << verb << ": a device may be a file";
  }
  EXPECT_EQ(offers({"plan", "--device", "h100"}), Set{"h100-80g"});
  EXPECT_EQ(offers({"plan", "--device", "=", "h200"}), Set{"h200-141g"});
  EXPECT_EQ(offers({"run", "--device", "si"}), Set{"sim"}) << "of what a run is on";
}

TEST_F(BashCompletion, OffersTheJobsOfTheBudgetFile) {
  EXPECT_EQ(offers({"check", "--job", ""}), Set{}) << "no budget file";
  const std::string head = "schema: tidemark-budget/1\ncapacity: 64GiB\njobs:\n";
  place.write("tidemark-budget.yaml", head + "  - {name: pangu, model: a.yaml}\n  - {name: night run, script: b.sh}\n");
  place.write("other.yaml", head + "  - {name: small, model: a.yaml}\n");
  for (const char* verb : {"check", "baseline", "diff"})
    EXPECT_EQ(offers({verb, "--job", ""}), (Set{"night run", "pangu"})) << verb;
  EXPECT_EQ(offers({"baseline", "update", "--job", "=", "pa"}), Set{"pangu"});
  EXPECT_EQ(offers({"check", "other.yaml", "--job", ""}), Set{"small"}) << "the file that is on the line";
  EXPECT_EQ(offers({"check", "model one.yaml", "--job", ""}), (Set{"night run", "pangu"})) << "which is no budget file";
  place.write("tidemark-budget.yaml", "schema: [\n");
  EXPECT_EQ(offers({"check", "--job", ""}), Set{}) << "one that cannot be read is no noise on the terminal";
}

TEST(ListJobs, NamesThoseOfABudgetFile) {
  const Workplace place;
  place.write("ci/tidemark-budget.yaml", "schema: tidemark-budget/1\njobs:\n  - {name: pangu, model: a.yaml}\n");
  const Ran ran = place.run({"list", "jobs", "ci/tidemark-budget.yaml"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "pangu  model a.yaml\n");
  EXPECT_EQ(place.run({"list", "jobs", "ci/tidemark-budget.yaml", "--names"}).out, "pangu\n");
  expect_refused(place, {"list", "jobs", "none.yaml"}, "^none\\.yaml");
  expect_refused(place, {"list", "devices", "ci/tidemark-budget.yaml"}, "FILE: belongs to `list jobs`");
}

TEST(ZshCompletion, IsAScriptThatZshReads) {
  const Workplace place;
  const Ran ran = place.run({"completion", "zsh"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("#compdef tidemark\n"));
  for (const char* part :
       {"'plan:", "'--policy[", ":(bash zsh)'", "_files'", "'*--output[",
        "compadd -S \"\" -- text= json=", ":{ _tidemark_names devices; _files }'", ":{ _tidemark_names jobs }'"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part;
  place.write("_tidemark", ran.out);
  if (std::system("command -v zsh >/dev/null 2>&1") != 0) GTEST_SKIP() << "zsh is not installed here";
  const Ran checked = place.finish(place.start({"/usr/bin/env", "zsh", "-n", "./_tidemark"}, ""), "");
  EXPECT_EQ(checked.status, 0) << checked.err;
}

TEST(Completion, NamesTheShellsItKnows) {
  const Workplace place;
  expect_refused(place, {"completion", "fish"}, "unknown shell 'fish'; known: bash or zsh");
  expect_refused(place, {"completion"}, "SHELL is required");
}

}  // namespace
}  // namespace tidemark::testing
