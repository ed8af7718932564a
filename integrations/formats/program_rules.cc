#include "integrations/formats/program_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/fingerprint.h"
#include "integrations/formats/field_ranges.h"
#include "planner/graph_build/static_memory.h"

namespace tidemark::formats {
namespace {

/// A rank is looked up by its number, and ranks that are all there stand at their number.
void check_ranks(const JsonNode& root, const PlanFile& file) {
  if (!root.clean()) return;
  std::int32_t last = -1;
  for (std::size_t i = 0; i < file.ranks.size(); ++i) {
    const std::int32_t rank = file.ranks[i].figures.rank;
    const JsonNode node = root.at("ranks").item(i);
    if (rank == last) node.wrong(fmt::format("rank {} is given twice", rank));
    if (rank < last) node.wrong(fmt::format("rank {} stands behind rank {}; ranks must ascend", rank, last));
    if (rank >= file.job.parallel.pipeline)
      node.wrong(
          fmt::format("is rank {}, but the job has pipeline ranks 0 to {}", rank, file.job.parallel.pipeline - 1));
    if (file.ranks[i].program.schedule.rank != rank)
      node.at("program").at("rank").wrong(
          fmt::format("is {} where the figures have {}", file.ranks[i].program.schedule.rank, rank));
    last = rank;
  }
}

/// The tasks of all ranks one after the other, which no order of the step exceeds, must still be a time.
void check_times(const JsonNode& root, const std::vector<PlanFile::Rank>& ranks) {
  if (!root.clean()) return;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    for (const std::int64_t ns : ranks[i].program.estimate_ns) {
      all += ns;
      if (all <= kMostStepNs) continue;
      root.at("ranks")
          .item(i)
          .at("program")
          .at("estimate_ns")
          .wrong(fmt::format("adds up to more than {} ns over the ranks so far", kMostStepNs));
      return;
    }
}

/// A job from a file must obey the rules a job from YAML obeys, or building its graph would not be safe.
void check_job(const JsonNode& root, const graph_build::JobSpec& job) {
  if (!root.clean()) return;
  const std::vector<graph_build::SpecProblem> problems = graph_build::find_problems(job);
  if (!problems.empty()) root.at("job").wrong(problems.front().key + ": " + problems.front().message);
}

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

/// What host memory may be taken.
Bytes host_bytes(const Layout& layout) {
  Bytes bytes = 0;
  for (const Arena& arena : layout.arenas)
    if (arena.space == MemorySpace::host && bytes <= kMostPlanBytes) bytes += arena.height_bytes + arena.dynamic_bytes;
  return bytes;
}

/// What rests in host memory between steps.
Bytes offloaded_bytes(const Schedule& schedule) {
  Bytes bytes = 0;
  for (const Residency& residency : schedule.residencies)
    if (residency.space == MemorySpace::host && residency.full_before && bytes <= kMostPlanBytes)
      bytes += residency.bytes;
  return bytes;
}

/// A file can have been edited: what must follow from the program, the job and the machine does. Empty: all of it;
/// otherwise the first figure that does not.
std::string_view wrong_figure(const PlanFile& file, const PlanFile::Rank& rank) {
  const plan::RankFigures& f = rank.figures;
  const Layout& layout = rank.program.layout;
  if (layout.arenas.empty() || device_height(rank.program) > layout.arenas.front().height_bytes) return "height_bytes";
  const graph_build::ReserveMemory reserve = file.graph != nullptr
                                                 ? graph_build::reserve_memory(file.machine)
                                                 : graph_build::reserve_memory(file.machine, file.job.parallel);
  if (f.reserve_bytes != reserve.total()) return "reserve_bytes";
  if (f.peak_bytes != f.reserve_bytes + layout.arenas.front().height_bytes) return "peak_bytes";
  if (f.budget_bytes != file.budget_bytes.value_or(file.machine.visible_bytes)) return "budget_bytes";
  // `check` answers from it where a host budget is given.
  if (f.host_bytes != host_bytes(layout)) return "host_bytes";
  if (f.offloaded_bytes != offloaded_bytes(rank.program.schedule)) return "offloaded_bytes";
  if (f.static_bytes + f.activation_peak_bytes != f.peak_bytes - f.reserve_bytes) return "static_bytes";
  const Bytes host = file.host_budget_bytes.value_or(file.machine.host_bytes_per_device);
  if (f.fits != (f.peak_bytes <= f.budget_bytes && f.host_bytes <= host)) return "fits";
  if (!f.fits) return {};
  // What may be taken of device and host, the dynamic region included, is what the budgets leave.
  for (const Arena& arena : layout.arenas)
    if (arena.capacity_bytes > (arena.space == MemorySpace::device ? f.budget_bytes - f.reserve_bytes : host))
      return "capacity_bytes";
  return {};
}

}  // namespace

void check_rules(const JsonNode& root, const PlanFile& file) {
  if (file.graph == nullptr) check_job(root, file.job);
  check_ranks(root, file);
  check_times(root, file.ranks);
}

void check_figures(const JsonNode& root, const PlanFile& file) {
  const std::uint64_t machine = fingerprint(file.machine);
  for (std::size_t i = 0; i < file.ranks.size() && root.clean(); ++i) {
    const PlanFile::Rank& rank = file.ranks[i];
    const JsonNode node = root.at("ranks").item(i);
    if (rank.program.machine_fingerprint != machine)
      node.wrong(
          fmt::format("rank {} was planned for another machine than the file describes; was the file edited? "
                      "plan again",
                      rank.figures.rank));
    if (const std::string_view wrong = wrong_figure(file, rank); !wrong.empty())
      node.at("figures").wrong(
          fmt::format("the figures of rank {} do not follow from its program ({}); was the file edited? plan again",
                      rank.figures.rank, wrong));
  }
}

}  // namespace tidemark::formats
