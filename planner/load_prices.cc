#include "planner/load_prices.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/row_sections.h"
#include "planner/cost/op_prices.h"

namespace tidemark::plan {
namespace {

/// What all sections take more in chunks at the planned load: their ops again, one behind the other, instead of those
/// in front of their ends, of which communication is hidden. As many chunks as their rooms need: each pays launches and
/// latencies. 0: not known.
double chunks_ns(const RankPlan& plan, const PlanRequest& request) {
  const Program& program = plan.program;
  const cost::OpPrices prices(plan.graph, request.machine);
  double more = 0;
  const auto ns = [&](TaskId task) { return static_cast<double>(program.estimate_ns[row(task)]); };
  for (const RowSection& section : row_sections(program)) {
    if (!section.fault.empty()) return 0;
    const Site& site = plan.graph.sites[row(section.site)];
    const Bytes room = program.schedule.residencies[row(section.room)].bytes;
    const std::int32_t chunks = least_chunks(program, section, site.loads(), room);
    if (chunks == 0) return 0;
    for (const TaskId task : section.once) more += ns(task);
    for (const TaskId task : section.loop) {
      const OpTemplateId op = program.schedule.tasks[row(task)].op_template;
      const auto load = static_cast<double>(site.fullest_load);
      const double scale = program.schedule.tasks[row(task)].lane == Lane::compute ? request.time_scale : 1;
      // What the estimate has besides, such as issuing copies, is there once.
      more += ns(task) + scale * (chunks * prices.chunk_ns(op, load, chunks) - prices.chunk_ns(op, load, 1));
    }
    for (const TaskId task : section.tasks)
      if (program.schedule.tasks[row(task)].lane == Lane::compute) more -= ns(task);
  }
  return std::max(0.0, more);
}

}  // namespace

LoadPrices load_prices(const RankPlan& plan, const PlanRequest& request, double bytes_per_load) {
  const auto ranks = static_cast<double>(request.job.parallel.pipeline);
  return {.held_ns = plan.ns_per_byte * bytes_per_load,
          .short_ns = std::sqrt(ranks) * chunks_ns(plan, request) / plan.figures.load};
}

double best_quantile(const LoadPrices& prices, std::int64_t devices) {
  const auto group = static_cast<double>(devices);
  if (prices.short_ns <= 0) return 0;
  return std::pow(std::max(0.0, 1 - prices.held_ns / (prices.short_ns * group)), group);
}

}  // namespace tidemark::plan
