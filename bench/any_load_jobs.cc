// Question: does every job complete any expert load, or say at plan time that it cannot and what would do?
// Workload: random jobs (tests/support/any_load_job.h) at random budgets, half of them without pinned host memory, each
// played on `sim` at seven loads: no row, one site, one layer and everything at the most that routing can send, and
// loads drawn; most of them under adversarial schedules, a quarter on devices without aliasing, with the race checker
// and contents checked.
// Bound: every job, every step; goal 0 failures. Method: one run; nothing is drawn outside the seed.

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

#include "tests/support/any_load_trial.h"

namespace tidemark {
namespace {

struct Options {
  std::int64_t jobs = 1000, first = 0, seed = 1;
};

std::optional<Options> options_from(int argc, char** argv) {
  Options options;
  if (argc % 2 == 0) return std::nullopt;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i], text = argv[i + 1];
    std::int64_t* const value = name == "--jobs"    ? &options.jobs
                                : name == "--first" ? &options.first
                                : name == "--seed"  ? &options.seed
                                                    : nullptr;
    if (value == nullptr) return std::nullopt;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    if (error != std::errc() || end != text.data() + text.size() || *value < 0) return std::nullopt;
  }
  return options;
}

void print(const testing::AnyLoadCounts& counts) {
  fmt::print("{} jobs, {} with experts, {} without pinned host memory\n", counts.jobs, counts.routed,
             counts.without_host);
  fmt::print(
      "  {} complete every step: {} at the budget drawn, {} at the one that the plan names ({} of them not 2 % "
      "below), {} with the exchange whole where the plan says that parts leave too little\n",
      counts.completed(), counts.fit, counts.named_budget, counts.least_budget, counts.fewer_parts);
  fmt::print("  {} fail\n", counts.jobs - counts.completed());
  fmt::print(
      "{} steps: {} storages beside their slots, {} spilled, {} sections in chunks (at most {}); {} recomputes in"
      " the plans\n",
      counts.steps, counts.oversized, counts.spilled, counts.in_chunks, counts.most_chunks, counts.recomputes);
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  const auto options = tidemark::options_from(argc, argv);
  if (!options) {
    fmt::print(stderr, "usage: any_load_jobs [--jobs N] [--first N] [--seed N]\n");
    return 2;
  }
  tidemark::testing::AnyLoadCounts counts;
  for (std::int64_t i = options->first; i < options->first + options->jobs; ++i) {
    const std::size_t known = counts.failures.size();
    tidemark::testing::AnyLoadTrial(static_cast<std::uint64_t>(options->seed), i, counts).run();
    for (std::size_t f = known; f < counts.failures.size(); ++f) fmt::print("{}\n", counts.failures[f]);
    std::fflush(stdout);
  }
  tidemark::print(counts);
  return counts.failures.empty() ? 0 : 1;
}
