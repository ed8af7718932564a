#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "integrations/ci/baseline_text.h"
#include "tests/ci/held.h"

namespace tidemark {
namespace {

using testing::holding;

std::string written(std::vector<std::string> controls) {
  ci::BaselineJob job = ci::baseline_of("pangu", {}, holding({kGiB}));
  job.controls = std::move(controls);
  ci::Baseline baseline{.tool_version = "0.1.0"};
  ci::put_job(baseline, job);
  return ci::write_baseline(baseline);
}

TEST(CiBaselineControls, AreWrittenALineEachAndReadAgain) {
  const std::string text = written({"--bf16", "--ffn-hidden-size 8192"});
  EXPECT_NE(text.find("\n\"--ffn-hidden-size 8192\""), std::string::npos) << text;
  const Result<ci::Baseline> read = ci::read_baseline(text, "b.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().jobs[0].controls, (std::vector<std::string>{"--bf16", "--ffn-hidden-size 8192"}));
  EXPECT_EQ(ci::write_baseline(read.value()), text);
}

TEST(CiBaselineControls, NeedNotBeThereAndAscend) {
  const std::string without = written({});
  EXPECT_EQ(without.find("controls"), std::string::npos);
  ASSERT_TRUE(ci::read_baseline(without, "b.json").ok());
  const Result<ci::Baseline> other = ci::read_baseline(written({"b", "a"}), "b.json");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().message,
            "b.json: /jobs/pangu/controls: must ascend; `tidemark baseline update` makes it anew");
}

}  // namespace
}  // namespace tidemark
