// The exact path against an integer program of the same problem, solved by another solver. Skipped where COIN-OR CBC is
// not there.

#include "tests/planner/decide/flat/milp.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "planner/decide/flat/exact.h"
#include "tests/planner/decide/flat/flat_step.h"
#include "tests/planner/decide/flat/random_steps.h"

namespace tidemark::decide::flat {
namespace {

using testing::FlatStep;
using testing::ReferenceStep;

ReferenceStep small_step(int shape, std::uint64_t seed, bool swaps) {
  ReferenceStep step = shape == 0   ? testing::random_step(seed, {.ops = 8, .swaps = swaps, .awkward = false})
                       : shape == 1 ? testing::forward_and_back(seed, 4, swaps)
                                    : testing::layered_step(seed, {.layers = 3, .degree = 2, .swaps = swaps});
  std::mt19937_64 random(seed);
  for (ReferenceStep::Op& op : step.ops) {
    if (testing::draw(random, 8) == 0) op.recompute = ReferenceStep::Recompute::never;
    if (testing::draw(random, 6) == 0) op.transient_bytes = 1 + testing::draw(random, 4);
  }
  return step;
}

class Oracle {
 public:
  explicit Oracle(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void compare(const FlatStep& flat, Bytes budget, const std::string& what) {
    const ExactAnswer exact =
        solve_exactly(flat.problem, budget, {.most_work = 1'000'000, .ascents = 200, .should_stop = {}});
    if (exact.status == ExactStatus::open) return;
    expect_nothing_cheaper(flat, budget, exact, what);
    const bool is_feasible = exact.status == ExactStatus::found;
    // One run more than the best has, so that neither side may be better; or some more than once each.
    const std::size_t positions = is_feasible ? exact.schedule.order.size() + 1 : flat.step.ops.size() + 3;
    const testing::Milp milp(flat.step, budget, static_cast<std::int32_t>(positions));
    const testing::MilpAnswer answer = testing::solve_with_cbc(milp.text(), folder_);
    if (!answer.solved) return;
    ++(is_feasible ? feasible : infeasible);
    ASSERT_EQ(answer.cost.has_value(), is_feasible) << what;
    if (is_feasible) {
      EXPECT_EQ(*answer.cost - flat.problem.total_cost(), exact.added_cost) << what;
      swapped += exact.schedule.swaps.empty() ? 0 : 1;
    }
  }

  int feasible = 0, infeasible = 0, swapped = 0;

 private:
  /// By prices of memory for every storage as well: found where it is looked for, and nothing below.
  static void expect_nothing_cheaper(const FlatStep& flat, Bytes budget, const ExactAnswer& exact,
                                     const std::string& what) {
    if (exact.status != ExactStatus::found) return;
    for (const std::int64_t below : {0, 1}) {
      const ExactAnswer again = solve_exactly(flat.problem, budget,
                                              {.most_added = exact.added_cost - below,
                                               .most_work = 1'000'000,
                                               .likely_added = exact.added_cost,
                                               .ascents = 200,
                                               .first_work = 0,
                                               .storage_ascents = 300,
                                               .should_stop = {}});
      EXPECT_EQ(again.status, below == 0 ? ExactStatus::found : ExactStatus::none) << what;
      EXPECT_EQ(again.added_cost, below == 0 ? exact.added_cost : 0) << what;
    }
  }

  std::filesystem::path folder_;
};

TEST(RematMilp, TheExactPathAndCbcAgree) {
  if (!testing::has_cbc()) GTEST_SKIP() << "COIN-OR CBC (coinor-cbc) is not there";
  const std::filesystem::path folder = ::testing::TempDir() + "tidemark_milp_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  Oracle oracle(folder);
  for (std::uint64_t seed = 500; seed < 522; ++seed)
    for (const bool swaps : {false, true})
      for (const int shape : {0, 1, 2}) {
        const FlatStep flat(small_step(shape, seed, swaps));
        const Bytes keep = keep_all_peak(flat.step);
        for (const Bytes percent : {95, 85}) {
          oracle.compare(flat, keep * percent / 100,
                         fmt::format("seed {} shape {} swaps {} at {} %", seed, shape, swaps, percent));
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
  std::filesystem::remove_all(folder);
  RecordProperty("feasible", oracle.feasible);
  RecordProperty("infeasible", oracle.infeasible);
  RecordProperty("swapped", oracle.swapped);
  EXPECT_GE(oracle.feasible + oracle.infeasible, 200);
  EXPECT_GE(oracle.feasible, 100);
  EXPECT_GE(oracle.swapped, 30);
}

}  // namespace
}  // namespace tidemark::decide::flat
