// Question: how much shorter is the planned step when rows go to experts in parts, one travelling while another is
// computed (parallel.expert_exchange_parts)?
//
//   exchange_parts_bench [MODEL FILE]     default: models/pangu-ultra-moe-718b.yaml
//
// Modelled: all ranks planned anew for each number of parts, with the memory that takes. Matmuls of fewer rows are
// taken to be as efficient; each part pays its own launches and latencies and reads the weights.
//
//   kept     the step with everything kept, memory left out
//   peak     of the rank that needs most, reserves in it

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "bench/job_request.h"
#include "planner/planner.h"
#include "policies/policies.h"

namespace tidemark {
namespace {

using bench::must;

void run_bench(const std::string& model) {
  plan::PlanRequest request = bench::job_request(model);
  fmt::print("{} on {}, modelled\n", request.job.model.name, request.machine.name);
  fmt::print("{:>6} {:>9} {:>8} {:>9} {:>9} {:>17}\n", "parts", "step s", "%", "kept s", "peak GiB", "any load up to");
  std::int64_t whole_ns = 0;
  for (const std::int32_t parts : {1, 2, 4, 8}) {
    request.job.parallel.expert_exchange_parts = parts;
    for (const graph_build::SpecProblem& problem : graph_build::find_problems(request.job)) {
      fmt::print(stderr, "exchange_parts_bench: {}\n", problem.message);
      std::exit(2);
    }
    const plan::PlanOutcome plan = must(plan::plan_step(request));
    if (parts == 1) whole_ns = plan.step.step_ns;
    Bytes peak = 0;
    double worst = 1;  // of ranks without experts
    bool is_promised = true;
    for (const plan::RankPlan& rank : plan.ranks) {
      peak = std::max(peak, rank.figures.peak_bytes);
      worst = std::max(worst, rank.figures.worst_load_f);
      is_promised = is_promised && rank.figures.worst_load_f > 0;
    }
    fmt::print("{:>6} {:>9.3f} {:>+8.2f} {:>9.3f} {:>9.2f} {:>17}\n", parts,
               1e-9 * static_cast<double>(plan.step.step_ns),
               100.0 * static_cast<double>(plan.step.step_ns - whole_ns) / static_cast<double>(whole_ns),
               1e-9 * static_cast<double>(plan.step.keep_all_step_ns),
               static_cast<double>(peak) / static_cast<double>(kGiB), is_promised ? worst : 0);
  }
}

}  // namespace
}  // namespace tidemark

int main(int argc, char** argv) {
  tidemark::run_bench(argc > 1 ? argv[1] : std::string(TIDEMARK_SOURCE_DIR) + "/models/pangu-ultra-moe-718b.yaml");
}
