#include "integrations/ci/load_choice.h"

#include <gtest/gtest.h>

#include <string>

#include "integrations/ci/budget_file.h"

namespace tidemark {
namespace {

Result<ci::BudgetFile> with_load(const std::string& load) {
  return ci::read_budget_file("schema: tidemark-budget/1\nload: " + load + "\njobs:\n  - {name: a, model: a.yaml}\n",
                              "b.yaml");
}

TEST(CiLoadChoice, IsAQuantileANumberOrATrace) {
  EXPECT_EQ(with_load("p99").value().jobs[0].load, (ci::LoadChoice{.quantile = 0.99}));
  EXPECT_EQ(with_load("1.5").value().jobs[0].load, (ci::LoadChoice{.load = 1.5}));
  EXPECT_EQ(with_load("{trace: counts.csv, quantile: p50}").value().jobs[0].load,
            (ci::LoadChoice{.quantile = 0.5, .trace = "counts.csv"}));
  EXPECT_EQ(with_load("p99.9").value().jobs[0].load->quantile, 0.999);
}

TEST(CiLoadChoice, RefusesWhatIsNotSampled) {
  for (const char* load : {"p100", "p99.99", "p0", "p-1", "pnan", "0", "-1", "nan", "inf", "1e300", "70000", "p", "x",
                           "{trace: a.csv}", "{quantile: p99}", "{trace: a.csv, quantile: 99}", "[p99]"})
    EXPECT_FALSE(with_load(load).ok()) << load;
  EXPECT_EQ(with_load("0.5").error().message,
            "b.yaml:2: load: '0.5' is below 1; the fullest device of a group has the mean load at least, write p99, a "
            "number like 1.5 or {trace: FILE, quantile: p99}");
  EXPECT_EQ(with_load("p99.99").error().message, "b.yaml:2: load: 'p99.99' is not above p0 and at most p99.9");
}

}  // namespace
}  // namespace tidemark
