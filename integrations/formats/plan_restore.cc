#include "integrations/formats/plan_restore.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/fingerprint.h"
#include "planner/liveness.h"
#include "planner/workload/step_graph.h"

namespace tidemark {
namespace {

/// Highest byte of any stay in device memory.
Bytes device_height(const Program& program) {
  Bytes height = 0;
  for (std::size_t r = 0; r < program.schedule.residencies.size(); ++r) {
    const Residency& residency = program.schedule.residencies[r];
    if (residency.space == MemorySpace::device)
      height = std::max(height, program.layout.offset_of[r] + residency.bytes);
  }
  return height;
}

/// A file can have been edited: what must follow from the program, the job and the machine does. Empty: all of it;
/// otherwise the first figure that does not.
std::string_view wrong_figure(const PlanFile& file, const PlanFile::Rank& rank) {
  const RankFigures& f = rank.figures;
  const Layout& layout = rank.program.layout;
  if (layout.arenas.empty() || device_height(rank.program) > layout.arenas.front().height_bytes) return "height_bytes";
  if (f.reserve_bytes != reserve_memory(file.machine, file.job.parallel).total()) return "reserve_bytes";
  if (f.peak_bytes != f.reserve_bytes + layout.arenas.front().height_bytes) return "peak_bytes";
  if (f.budget_bytes != file.budget_bytes.value_or(file.machine.visible_bytes)) return "budget_bytes";
  if (f.contingency_limit_f != rank.program.contingency_limit_f) return "contingency_limit_f";
  if (!f.fits) return {};
  if (f.peak_bytes > f.budget_bytes) return "fits";
  // What may be taken of device and host, the dynamic region included, is what the budgets leave.
  const Bytes host = file.host_budget_bytes.value_or(file.machine.host_bytes_per_device);
  for (const Arena& arena : layout.arenas)
    if (arena.capacity_bytes > (arena.space == MemorySpace::device ? f.budget_bytes - f.reserve_bytes : host))
      return "capacity_bytes";
  return {};
}

Result<RankPlan> restore_rank(const PlanFile& file, const PlanFile::Rank& rank, std::string_view file_name) {
  Result<Graph> graph = build_step_graph(file.job, file.machine, rank.figures.rank, rank.figures.load);
  if (!graph) return graph.error();
  if (fingerprint(graph.value()) != rank.program.graph_fingerprint)
    return bad_input(
        fmt::format("{}: rank {} was planned for another step than this version of Tidemark builds; plan again",
                    file_name, rank.figures.rank));
  if (fingerprint(file.machine) != rank.program.machine_fingerprint)
    return bad_input(
        fmt::format("{}: rank {} was planned for another machine than the file describes; was the file edited? plan "
                    "again",
                    file_name, rank.figures.rank));
  if (outline_of(graph.value()) != rank.outline)
    return bad_input(
        fmt::format("{}: names, sites or loads of rank {} are not those of its job; was the file edited? plan again",
                    file_name, rank.figures.rank));
  if (const std::string_view wrong = wrong_figure(file, rank); !wrong.empty())
    return bad_input(
        fmt::format("{}: the figures of rank {} do not follow from its program ({}); was the file edited? plan again",
                    file_name, rank.figures.rank, wrong));
  RankPlan plan{.graph = std::move(graph).value()};
  plan.liveness = analyse_liveness(plan.graph);
  plan.plan = rank.plan;
  plan.program = rank.program;
  plan.task_ns = rank.program.estimate_ns;
  plan.figures = rank.figures;
  plan.attempts = rank.attempts;
  return plan;
}

}  // namespace

PlanRequest request_of(const PlanFile& file) {
  PlanRequest request{.job = file.job,
                      .machine = file.machine,
                      .budget_bytes = file.budget_bytes,
                      .host_budget_bytes = file.host_budget_bytes,
                      .load = file.load,
                      .time_scale = file.time_scale};
  for (const PlanFile::Rank& rank : file.ranks) request.ranks.push_back(rank.figures.rank);
  return request;
}

Result<PlanOutcome> restore_outcome(const PlanFile& file, const std::vector<std::int32_t>& ranks,
                                    std::string_view file_name) {
  PlanOutcome outcome{.step = file.step, .parameters = file.parameters};
  const auto wanted = [&](std::int32_t rank) { return ranks.empty() || std::ranges::find(ranks, rank) != ranks.end(); };
  for (const std::int32_t rank : ranks)
    if (std::ranges::find(file.ranks, rank, [](const PlanFile::Rank& r) { return r.figures.rank; }) == file.ranks.end())
      return bad_input(fmt::format("{}: rank {} is not in this plan", file_name, rank));
  for (const PlanFile::Rank& rank : file.ranks) {
    if (!wanted(rank.figures.rank)) continue;
    Result<RankPlan> plan = restore_rank(file, rank, file_name);
    if (!plan) return plan.error();
    outcome.ranks.push_back(std::move(plan).value());
  }
  return outcome;
}

}  // namespace tidemark
