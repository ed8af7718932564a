// Where reports of the gate point, and with which figures: of a repository of many jobs, with the real program.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "tests/support/gate_answer.h"
#include "tests/support/json_text.h"
#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

/// ci/tidemark-budget.yaml holds jobs/lm/lm.yaml to a budget.
class GatePlaces : public ::testing::Test {
 protected:
  void SetUp() override {
    place.write(".git/HEAD", "ref: refs/heads/main\n");
    place.write("jobs/lm/lm.yaml", text_of(small_model()));
    write_budget("60GiB");
  }

  void write_budget(const std::string& capacity, const std::string& more = "") const {
    place.write("ci/tidemark-budget.yaml",
                "schema: tidemark-budget/1\njobs:\n  - name: lm\n    model: ../jobs/lm/lm.yaml\n    capacity: " +
                    capacity + "\n" + more);
  }

  /// In a folder of the repository.
  [[nodiscard]] Ran ran_in(const std::string& folder, const std::string& arguments) const {
    return place.finish(
        place.start({"/bin/sh", "-c", "cd " + folder + " && exec " + program_path() + " " + arguments}, ""), "");
  }

  [[nodiscard]] Json job() const {
    const Ran ran = ran_in("ci", "check --format json --quiet");
    return parsed(ran.out).at("jobs").at(0);
  }

  /// Line of the first that holds a text, from 1.
  static int line_with(const std::string& text, const std::string& part) {
    const std::size_t at = text.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  }

  Workplace place;
};

TEST_F(GatePlaces, BeginAtTheRootOfTheRepositoryWhereverItRuns) {
  write_budget("1GiB");
  const Ran at_root =
      ran_in(".", "check ci/tidemark-budget.yaml --quiet --output sarif=root.sarif --output github=root.gh");
  const Ran in_ci = ran_in("ci", "check --quiet --output sarif=../ci.sarif --output github=../ci.gh");
  ASSERT_EQ(at_root.status, 1) << at_root.err;
  ASSERT_EQ(in_ci.status, 1) << in_ci.err;
  for (const char* file : {"root.sarif", "ci.sarif"}) {
    const Json result = parsed(place.read(file))["runs"][0]["results"][0];
    EXPECT_EQ(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "jobs/lm/lm.yaml") << file;
  }
  EXPECT_EQ(place.read("root.gh"), place.read("ci.gh"));
  EXPECT_TRUE(place.read("ci.gh").starts_with("::error file=jobs/lm/lm.yaml,line=")) << place.read("ci.gh");
  EXPECT_EQ(at_root.out.find("ci/../"), std::string::npos) << at_root.out;
  EXPECT_NE(in_ci.out.find("../jobs/lm/lm.yaml:"), std::string::npos) << "text names files as who ran it does";
}

TEST_F(GatePlaces, WithoutARepositoryTheyBeginInTheWorkingFolder) {
  write_budget("1GiB");
  std::filesystem::remove_all(place.path(".git"));
  ASSERT_EQ(ran_in("ci", "check --quiet --output github=../ci.gh").status, 1);
  EXPECT_TRUE(place.read("ci.gh").starts_with("::error file=../jobs/lm/lm.yaml,line=")) << place.read("ci.gh");
}

TEST_F(GatePlaces, GrowthIsAtTheLineThatWasChanged) {
  ASSERT_EQ(ran_in("ci", "baseline update --quiet").status, 0);
  std::string model = place.read("jobs/lm/lm.yaml");
  const std::size_t begin = model.find("vocabulary: "), end = model.find_first_of(" \n", begin + 12);
  ASSERT_NE(begin, std::string::npos);
  model.replace(begin, end - begin, "vocabulary: 512000");
  place.write("jobs/lm/lm.yaml", model);
  const Json grown = job();
  ASSERT_EQ(grown["verdict"], "FAIL");
  const Json& where = grown["findings"].back()["where"];
  EXPECT_EQ(where["line"], line_with(model, "vocabulary: 512000")) << where;
  EXPECT_EQ(where["file"], "../jobs/lm/lm.yaml");
}

TEST_F(GatePlaces, EveryFigureOfAJobIsWithTheSameReserve) {
  ASSERT_EQ(ran_in("ci", "baseline update --quiet").status, 0);
  const auto with_reserve = job()["findings"][0]["bytes"].get<Bytes>();
  write_budget("60GiB", "    reserve: 0B\n");
  const Json kept = job();
  const auto peak = kept["findings"][0]["bytes"].get<Bytes>();
  EXPECT_LT(peak, with_reserve);
  const Json& growth = kept["findings"].back();
  EXPECT_EQ(growth["kind"], "growth");
  for (const Json& rank : kept["ranks"]) {
    if (rank["rank"] != growth["rank"]) continue;
    EXPECT_EQ(growth["bytes"], rank["peak_bytes"]);
  }
  EXPECT_EQ(growth["before_bytes"], growth["bytes"]);
  EXPECT_LE(growth["bytes"].get<Bytes>(), peak) << "the highest is the one that the budget is held against";
  write_budget(std::to_string(peak - 1) + "B", "    reserve: 0B\n");
  const Json remedy = job()["remedy"];
  ASSERT_TRUE(remedy["clears"].get<bool>()) << remedy;
  EXPECT_LT(remedy["peak_bytes"].get<Bytes>(), peak) << "a peak with the reserve is above what the job holds now";
  write_budget("1MiB", "    reserve: 0B\n");
  const Json none = job()["remedy"];
  ASSERT_FALSE(none["clears"].get<bool>()) << none;
  const std::string reason = none["reason"];
  EXPECT_NE(reason.find(": " + format_bytes_up(none["peak_bytes"].get<Bytes>())), std::string::npos) << none;
  EXPECT_EQ(reason.find("with the device's reserve"), std::string::npos) << reason;
  const std::string shown = ran_in("ci", "baseline show").out;
  EXPECT_NE(shown.find("highest " + format_bytes(peak)), std::string::npos) << shown;
}

}  // namespace
}  // namespace tidemark::testing
