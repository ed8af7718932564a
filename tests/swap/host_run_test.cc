// Steps on real memory, with streams that are threads: the shipped small model at 1/64, every byte checked.

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <thread>

#include "integrations/formats/file.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/run/run_plan.h"
#include "planner/planner.h"
#include "policies/policies.h"
#include "tests/support/devices.h"
#include "tests/support/sanitized.h"
#include "tests/support/source_dir.h"

namespace tidemark::swap {
namespace {

plan::PlanRequest small_request(std::optional<Bytes> budget) {
  const std::string root = testing::source_dir();
  const std::string model = root + "/models/small-mla-moe.yaml", device = root + "/devices/ascend-910b-64g.yaml";
  return {
      .job = formats::read_job(formats::read_file(model).value(), model).value(),
      .machine = formats::read_machine(formats::read_file(device).value(), device, testing::shipped_chips()).value(),
      // One that searches no longer than it must, where the search is none of what is tested.
      .policy = policies::find_policy(testing::kThreadsOnly ? "greedy" : "optimal"),
      .budget_bytes = budget,
      .load = 1.1};
}

/// Under ThreadSanitizer one rank is enough, and all the time there is: the one that has to swap.
#ifdef __SANITIZE_THREAD__
constexpr std::optional<std::int32_t> kRank = 1;
#else
constexpr std::optional<std::int32_t> kRank;
#endif

void expect_right(const plan::PlanRequest& request, std::optional<run::LoadChange> load, bool copies = false) {
  const Result<plan::PlanOutcome> plan = plan::plan_step(request);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_TRUE(plan.value().fits());
  const run::RunAsk ask{.device = run::RunDevice::host, .rank = kRank, .scale = 64, .verify = true, .load = load};
  const Result<run::RunOutcome> run = run::run_plan(plan.value(), request.machine, ask);
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_TRUE(run.value().problems.empty()) << run.value().problems.front();
  EXPECT_FALSE(run.value().simulated);
  std::int64_t copied = 0;
  for (const run::RankOutcome& rank : run.value().ranks) {
    EXPECT_GT(rank.report.verified_reads, 1000);
    copied += rank.report.out.copies;
  }
  EXPECT_EQ(copied > 0, copies);
}

TEST(HostRun, EveryByteOfTheSmallModelIsRight) {
  expect_right(small_request(std::nullopt), std::nullopt);
}

TEST(HostRun, EveryByteIsRightWithCopiesUnderPressure) {
  expect_right(small_request(5300 * kMiB), std::nullopt, true);
}

TEST(HostRun, EveryByteIsRightAboveThePlannedLoad) {
  expect_right(small_request(std::nullopt), run::LoadChange{.load = 1.5, .from_op = 200});
}

/// All rows of the expert group on every rank at once.
TEST(HostRun, EveryByteIsRightAtTheWorstLoadThereIs) {
  expect_right(small_request(std::nullopt), run::LoadChange{.load = 8, .from_op = 0});
}

/// From here on mlock() is refused to this thread, as beyond `ulimit -l`. False: not possible here.
bool forbid_locking() {
  std::array<sock_filter, 4> code = {{{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                                      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_mlock},
                                      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOMEM},
                                      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Pinned memory that the system may swap out is told of, once a rank.
TEST(HostRun, MemoryThatCouldNotBeLockedIsTold) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer replaces mlock() by one that always succeeds";
#endif
  const plan::PlanRequest request = small_request(5300 * kMiB);
  const Result<plan::PlanOutcome> plan = plan::plan_step(request);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  std::thread([&] {
    if (!forbid_locking()) GTEST_SKIP() << "no system call filters here";
    const Result<run::RunOutcome> run =
        run::run_plan(plan.value(), request.machine, {.device = run::RunDevice::host, .rank = kRank, .scale = 64});
    ASSERT_TRUE(run.ok()) << run.error().message;
    int ranks = 0;
    for (const run::RankOutcome& rank : run.value().ranks) {
      if (rank.report.pinned_bytes == 0) continue;
      ++ranks;
      const auto is_told = [](const RunWarning& w) {
        return w.kind == RunWarning::Kind::host_memory_not_locked &&
               w.text.find("not locked: Cannot allocate memory") != std::string::npos;
      };
      EXPECT_EQ(std::ranges::count_if(rank.report.warnings, is_told), 1) << "rank " << rank.report.rank;
    }
    EXPECT_GT(ranks, 0);
  }).join();
}

/// Memory that the plan's figure does not cover is found by what the device gave, on every back end.
TEST(HostRun, MoreTakenThanThePlanSaysIsTold) {
  const plan::PlanRequest request = small_request(std::nullopt);
  Result<plan::PlanOutcome> plan = plan::plan_step(request);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  for (plan::RankPlan& rank : plan.value().ranks)
    for (Arena& arena : rank.program.layout.arenas)
      if (arena.space == MemorySpace::device) {
        arena.height_bytes += 256 * kMiB;
        arena.capacity_bytes += 512 * kMiB;
      }
  for (const run::RunDevice device : {run::RunDevice::sim, run::RunDevice::host}) {
    const std::int64_t scale = device == run::RunDevice::sim ? 1 : 64;
    const Result<run::RunOutcome> run =
        run::run_plan(plan.value(), request.machine, {.device = device, .rank = 0, .scale = scale});
    ASSERT_TRUE(run.ok()) << run.error().message;
    ASSERT_FALSE(run.value().problems.empty());
    EXPECT_NE(run.value().problems.front().find("the plan allows"), std::string::npos) << run.value().problems.front();
  }
}

}  // namespace
}  // namespace tidemark::swap
