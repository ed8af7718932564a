#include "integrations/ci/gate_result.h"

#include <gtest/gtest.h>

#include "integrations/ci/judgement.h"
#include "tests/ci/held.h"

namespace tidemark {
namespace {

using ci::GateVerdict;
using testing::holding;
using testing::input_of;

ci::JobResult job_at(Bytes bytes) {
  ci::JobInput input = input_of(holding({bytes}));
  input.job.near = {.percent = 3};
  return ci::judge(input);
}

TEST(CiGateResult, StatusIsThatOfTheWorstJob) {
  const ci::JobResult pass = job_at(kGiB), near = job_at(59 * kGiB), fail = job_at(61 * kGiB);
  const ci::JobResult error = ci::unreadable({.name = "x"}, "x.yaml:1: wrong");
  const auto status = [](std::vector<ci::JobResult> jobs, bool is_strict, bool is_exit_zero) {
    return ci::exit_status({.is_strict = is_strict, .jobs = std::move(jobs)}, is_exit_zero);
  };
  EXPECT_EQ(status({pass, pass}, false, false), 0);
  EXPECT_EQ(status({pass, near}, false, false), 0);
  EXPECT_EQ(status({pass, near}, true, false), 1);
  EXPECT_EQ(status({pass, fail, near}, false, false), 1);
  EXPECT_EQ(status({pass, fail, near}, false, true), 0);
  EXPECT_EQ(status({near}, true, true), 0);
  EXPECT_EQ(status({error, fail, pass}, false, false), 2);
  EXPECT_EQ(status({error, fail, pass}, true, true), 2);
}

TEST(CiGateResult, CountsJobs) {
  const ci::GateResult result{
      .jobs = {job_at(kGiB), job_at(59 * kGiB), job_at(61 * kGiB), ci::unreadable({}, "wrong"), job_at(kGiB)}};
  const ci::GateCounts counts = ci::counts_of(result);
  EXPECT_EQ(counts.pass, 2U);
  EXPECT_EQ(counts.near, 1U);
  EXPECT_EQ(counts.fail, 1U);
  EXPECT_EQ(counts.error, 1U);
  EXPECT_EQ(ci::verdict_of(result), GateVerdict::error);
  EXPECT_EQ(ci::verdict_of(ci::GateResult{}), GateVerdict::pass);
}

}  // namespace
}  // namespace tidemark
