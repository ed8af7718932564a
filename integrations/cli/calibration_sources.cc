#include "integrations/cli/calibration_sources.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <utility>

#include "integrations/formats/file.h"
#include "integrations/formats/import_measured_memory.h"
#include "integrations/formats/import_operator_memory.h"
#include "integrations/formats/import_snapshot.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/truth_file.h"
#include "integrations/formats/unit_text.h"
#include "planner/estimate/rank_memory.h"

namespace tidemark::cli {
namespace {

using estimate::MeasuredRank;
using estimate::MeasuredRun;
using Ranks = std::vector<MeasuredRank>;

constexpr int kMostRankNumber = 1 << 24;

/// What was live at the start of a recording that began between two steps; of one that began with the process, at its
/// end.
Ranks ranks_of(const formats::AllocationTrace& trace, std::int64_t rank) {
  const formats::TraceFigures figures = formats::figures_of(trace);
  const bool began_later = figures.start_bytes > 0;
  return {{.rank = rank,
           .steady_bytes = static_cast<double>(began_later ? figures.start_bytes : figures.end_bytes),
           .peak_bytes = static_cast<double>(figures.peak_bytes),
           .is_later_step = began_later}};
}

Result<Ranks> read_ranks(const MemorySources& sources, std::int64_t rank) {
  const bool is_profile = sources.measured.empty();
  const std::filesystem::path& file = !is_profile                       ? sources.measured
                                      : sources.operator_memory.empty() ? sources.snapshot
                                                                        : sources.operator_memory;
  const Result<std::string> text =
      formats::read_file(file, is_profile ? formats::kMostFileBytes : formats::kMostMeasurementBytes);
  if (!text) return text.error();
  if (!is_profile) return formats::read_measured_memory(text.value(), file.string());
  const Result<formats::AllocationTrace> trace = sources.operator_memory.empty()
                                                     ? formats::read_snapshot(text.value(), file.string())
                                                     : formats::read_operator_memory(text.value(), file.string());
  if (!trace) return trace.error();
  Ranks ranks = ranks_of(trace.value(), rank);
  if (*ranks.front().steady_bytes <= 0)
    return bad_input(
        fmt::format("{}: nothing is live at its start or end; a recording of a whole step is needed", file.string()));
  return ranks;
}

std::string row_name(const MeasuredRun& run) {
  return run.variant.empty() ? run.name : fmt::format("{} ({})", run.name, run.variant);
}

Result<MeasuredRun> find_row(const MemorySources& sources) {
  const Result<std::string> text = formats::read_file(sources.truth, formats::kMostMeasurementBytes);
  if (!text) return text.error();
  const Result<std::vector<MeasuredRun>> runs = formats::read_truth(text.value(), sources.truth.string());
  if (!runs) return runs.error();
  std::vector<const MeasuredRun*> found;
  std::vector<std::string> names, variants, cases;
  for (const MeasuredRun& run : runs.value()) {
    names.push_back(run.name);
    if (!sources.case_name.empty() && run.name != sources.case_name) continue;
    variants.push_back(run.variant);
    if (!sources.variant.empty() && run.variant != sources.variant) continue;
    found.push_back(&run);
    if (cases.empty() || cases.back() != run.name) cases.push_back(run.name);
  }
  if (found.size() == 1) return *found.front();
  if (variants.empty())
    return bad_input(fmt::format("--case: {} has no row {}{}", sources.truth.string(),
                                 formats::shown(sources.case_name), hint_for(sources.case_name, names)));
  const bool by_case = sources.case_name.empty() && cases.size() > 1;
  return bad_input(fmt::format("{}: {} of {} rows {}; name one with {}, such as {}", sources.truth.string(),
                               found.size(), runs.value().size(), sources.case_name.empty() ? "are left" : "match",
                               by_case ? "--case" : "--variant", formats::shown_some(by_case ? cases : variants)));
}

Result<MeasuredMemory> from_truth(const MemorySources& sources) {
  Result<MeasuredRun> row = find_row(sources);
  if (!row) return row.error();
  const MeasuredRun& measured = row.value();
  const std::string place = fmt::format("{}: {}", sources.truth.string(), row_name(measured));
  if (!measured.unusable.empty()) return bad_input(fmt::format("{}: {}", place, measured.unusable));
  Result<estimate::ImportedRun> imported = estimate::import_run(measured.arguments, measured.hints);
  if (!imported) return bad_input(fmt::format("{}: {}", place, imported.error().message));
  MeasuredMemory memory{.run = std::move(imported).value().run, .source = "memory of " + place};
  for (MeasuredRank rank : measured.ranks) {
    if (!rank.steady_bytes) return bad_input(fmt::format("{}: holds no measured memory", place));
    if (!rank.rank) rank.rank = estimate::logged_rank(memory.run);
    if (sources.rank < 0 || rank.rank == sources.rank) memory.ranks.push_back(rank);
  }
  if (memory.ranks.empty()) return bad_input(fmt::format("--rank: {} holds no rank {}", place, sources.rank));
  return memory;
}

Result<MeasuredMemory> from_own_run(const MemorySources& sources, const JobOptions& job) {
  if (job.megatron_args.empty())
    return bad_input("--megatron-args: measured memory needs the arguments of the run it was measured with");
  Result<TrainingJob> read = read_training_job(job);
  if (!read) return read.error();
  MeasuredMemory memory{.run = std::move(read).value().imported.run};
  const std::int64_t rank = sources.rank < 0 ? estimate::logged_rank(memory.run) : sources.rank;
  Result<Ranks> ranks = read_ranks(sources, rank);
  if (!ranks) return ranks.error();
  memory.ranks = std::move(ranks).value();
  memory.source = fmt::format("memory of {} of {}", formats::counted_text(std::ssize(memory.ranks), "rank"),
                              inputs_of(sources).front().string());
  return memory;
}

}  // namespace

void add_memory_sources(CLI::App& app, MemorySources& sources) {
  app.add_option("--measured", sources.measured, "memory per rank: CSV or JSON (docs/formats.md)")->type_name("FILE");
  app.add_option("--operator-memory", sources.operator_memory, "operator_memory.csv of the torch_npu profiler")
      ->type_name("FILE");
  app.add_option("--snapshot", sources.snapshot, "memory snapshot of PyTorch or torch_npu")->type_name("FILE");
  app.add_option("--truth", sources.truth, "rows of measured memory with their arguments; --case names the row")
      ->type_name("FILE");
  app.add_option("--case", sources.case_name, "row of --truth")->type_name("NAME");
  app.add_option("--variant", sources.variant, "where several rows have that name")->type_name("NAME");
  add_count(app, "--rank", sources.rank, 0, kMostRankNumber,
            "global rank a profile is of, or the one to take of --truth; default: the last, as Megatron-LM logs");
}

Result<std::optional<MeasuredMemory>> read_measured(const MemorySources& sources, const JobOptions& job) {
  const std::size_t given = inputs_of(sources).size();
  if (given > 1) return bad_input("--measured: give one of --measured, --operator-memory, --snapshot and --truth");
  if (sources.truth.empty() && !(sources.case_name + sources.variant).empty())
    return bad_input("--case: names a row of --truth, which is not given");
  if (given == 0 && sources.rank >= 0) return bad_input("--rank: names a rank of a measurement, and none is given");
  if (!sources.measured.empty() && sources.rank >= 0)
    return bad_input(fmt::format("--rank: {} names its ranks itself; drop it", sources.measured.string()));
  if (given == 0) return std::optional<MeasuredMemory>();
  Result<MeasuredMemory> memory = sources.truth.empty() ? from_own_run(sources, job) : from_truth(sources);
  if (!memory) return memory.error();
  return std::optional(std::move(memory).value());
}

std::vector<std::filesystem::path> inputs_of(const MemorySources& sources) {
  std::vector<std::filesystem::path> inputs;
  for (const std::filesystem::path& file : {sources.measured, sources.operator_memory, sources.snapshot, sources.truth})
    if (!file.empty()) inputs.push_back(file);
  return inputs;
}

}  // namespace tidemark::cli
