#include "tests/fuzz/reader_bodies.h"

#include <algorithm>
#include <cmath>

#include "integrations/formats/calibration_file.h"
#include "integrations/formats/import_captured_step.h"
#include "integrations/formats/import_expert_counts.h"
#include "integrations/formats/import_measured_memory.h"
#include "integrations/formats/import_op_times.h"
#include "integrations/formats/import_trace.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/formats/program_file.h"
#include "integrations/formats/search_log.h"
#include "integrations/formats/session_log.h"
#include "integrations/formats/truth_file.h"

namespace tidemark::testing {
namespace {

constexpr std::string_view kFile = "fuzz";

/// An error is one line that starts with the file.
Verdict check_error(const Error& error) {
  if (error.code != Error::Code::bad_input) return "the error is no bad_input: " + error.message;
  if (!error.message.starts_with(kFile)) return "the error does not name the file: " + error.message;
  return check_line(error.message);
}

/// Counts what became of the input; `check` looks at what was read.
template <class Value, class Check>
Verdict judge_read(const Result<Value>& read, Reached& reached, Check check) {
  ++reached[read ? "accepted" : "refused"];
  return read ? check(read.value()) : check_error(read.error());
}

Verdict run_job(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_job(bytes, kFile), reached, [](const graph_build::JobSpec& job) -> Verdict {
    if (!graph_build::find_problems(job).empty()) return "a job was read that breaks the rules of jobs";
    return std::nullopt;
  });
}

Verdict run_device(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_machine(bytes, kFile), reached, [](const Machine& machine) -> Verdict {
    if (machine.peak_flops_per_s <= 0 || machine.visible_bytes <= 0) return "a device without rates was read";
    return std::nullopt;
  });
}

/// A trace that was read keeps the promises of its header.
Verdict run_trace(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_trace(bytes, kFile), reached, [&](const formats::AllocationTrace& trace) -> Verdict {
    if (Verdict fault = formats::find_fault(trace)) return fault;
    const formats::TraceFigures figures = formats::figures_of(trace);
    if (figures.peak_bytes < figures.start_bytes || figures.peak_bytes < figures.end_bytes || figures.end_bytes < 0)
      return "the figures of the trace contradict each other";
    ++reached[trace.source];
    if (trace.live_at_start > 0) ++reached["live at the start"];
    if (!trace.notes.empty()) ++reached["noted"];
    return checked_beyond().trace != nullptr ? checked_beyond().trace(trace, reached) : std::nullopt;
  });
}

Verdict run_pack(std::string_view bytes, Reached& reached) {
  const Result<formats::IntervalTable> table = formats::read_minimalloc_csv(bytes, kFile);
  if (!table) ++reached["refused"];
  if (!table) return check_error(table.error());
  const Result<formats::IntervalProblem> problem = formats::problem_of(table.value(), {}, kFile);
  if (!problem) ++reached["contradiction"];
  return judge_read(problem, reached, [&](const formats::IntervalProblem& read) -> Verdict {
    if (read.row_of.size() != read.problem.items.size()) return "an item is of no row";
    const auto pack = checked_beyond().pack;
    return pack != nullptr ? pack(bytes, table.value(), read, reached) : std::nullopt;
  });
}

/// Ids of a graph that was read are in range, and each write makes the next version.
Verdict check_graph(const Graph& graph) {
  std::vector<std::int32_t> made(graph.storages.size(), 0);
  for (std::size_t op = 0; op < graph.ops.size(); ++op)
    for (const Access& access : graph.accesses_of(id_of<OpId>(op))) {
      if (row(access.storage) >= made.size()) return "an op touches a storage that does not exist";
      std::int32_t& version = made[row(access.storage)];
      if (access.kind == AccessKind::write) ++version;
      if (access.version != version) return "an op touches a version that is not there";
    }
  for (const Recipe& recipe : graph.recipes)
    for (const auto* locals : {&recipe.outputs, &recipe.sources, &recipe.transients})
      for (const std::int32_t local : *locals)
        if (local < 0 || static_cast<std::size_t>(local) >= made.size()) return "a recipe is of no storage";
  for (const Storage& storage : graph.storages)
    if (storage.bytes < 0 || (storage.held_until != kNone<OpId> && row(storage.held_until) >= graph.ops.size()))
      return "a storage has no size, or is held until no op";
  return std::nullopt;
}

Verdict run_plan(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_plan_file(bytes, kFile), reached, [&](const formats::PlanFile& plan) -> Verdict {
    // What is read can be written, and reads as the same again.
    const std::string text = formats::write_plan_file(plan);
    if (text != bytes) ++reached["written otherwise"];
    if (plan.graph != nullptr) {
      ++reached["captured"];
      if (Verdict fault = check_graph(*plan.graph)) return fault;
    }
    const Result<formats::PlanFile> again = formats::read_plan_file(text, kFile);
    if (!again) return "what was read and written is refused: " + again.error().message;
    if (formats::write_plan_file(again.value()) != text) return "what was read and written reads as something else";
    return std::nullopt;
  });
}

Verdict run_arguments(std::string_view bytes, Reached& reached) {
  const Result<formats::ArgumentFile> file = formats::read_arguments(bytes, kFile);
  if (!file) ++reached["refused"];
  if (!file) return check_error(file.error());
  ++reached["read"];
  if (checked_beyond().arguments != nullptr) return checked_beyond().arguments(file.value(), reached);
  ++reached["accepted"];
  return std::nullopt;
}

/// Of three objectives, of which most files have costs for one.
Verdict run_graph(std::string_view bytes, Reached& reached) {
  Verdict verdict;
  for (const formats::StepObjective objective :
       {formats::StepObjective::time, formats::StepObjective::energy, formats::StepObjective::cost}) {
    const Result<formats::CapturedStep> step = formats::read_captured_step(bytes, kFile, objective);
    if (objective == formats::StepObjective::cost) ++reached[step ? "accepted" : "refused"];
    if (!step && !verdict) verdict = check_error(step.error());
    if (!step) continue;
    const Graph& graph = step.value().graph;
    if (graph.ops.empty()) return "a step without an op was read";
    if (Verdict fault = check_graph(graph)) return fault;
    if (graph.given_costs.unit == GivenCosts::Unit::joule) ++reached["joule"];
    if (std::ranges::any_of(graph.storage_templates,
                            [](const StorageTemplate& s) { return s.given_copies && s.given_copies->out.link > 0; }))
      ++reached["link"];
    if (!graph.recipes.empty()) ++reached["recipes"];
  }
  return verdict;
}

Verdict run_expert_counts(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_expert_counts(bytes, kFile, {}), reached,
                    [](const formats::MeasuredLoads& loads) -> Verdict {
                      const graph_build::ExpertLoadSpec& load = loads.spec;
                      const auto is_share = [](double share) { return share >= 0 && share <= 1; };
                      if (!std::isfinite(load.coefficient_of_variation) || load.coefficient_of_variation < 0 ||
                          !is_share(load.layer_correlation) || !is_share(load.popularity_share) ||
                          !is_share(load.persistence) || load.layer_correlation + load.popularity_share > 1)
                        return "the distribution of loads is none";
                      return std::nullopt;
                    });
}

Verdict run_measured_memory(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_measured_memory(bytes, kFile), reached, [](const auto& ranks) -> Verdict {
    for (const estimate::MeasuredRank& rank : ranks)
      if (!rank.rank || !rank.steady_bytes || *rank.steady_bytes <= 0) return "a rank without a figure was read";
    return std::nullopt;
  });
}

Verdict run_measured_runs(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_truth(bytes, kFile), reached, [&](const auto& runs) -> Verdict {
    return checked_beyond().runs != nullptr ? checked_beyond().runs(runs, reached) : std::nullopt;
  });
}

Verdict run_calibration(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_calibration(bytes, kFile), reached,
                    [](const estimate::Calibration& calibration) -> Verdict {
                      const Result<estimate::Calibration> again =
                          formats::read_calibration(formats::write_calibration(calibration), kFile);
                      if (!again || again.value() != calibration) return "what was read is not read back";
                      return std::nullopt;
                    });
}

Verdict run_search_log(std::string_view bytes, Reached& reached) {
  constexpr std::string_view kHeader = "tidemark-search 1 0123456789abcdef\n";
  return judge_read(formats::read_search_log(bytes, kFile, kHeader), reached,
                    [&](const formats::SearchLog& log) -> Verdict {
                      if (log.whole_bytes > bytes.size()) return "more lines are whole than there are";
                      if (!log.known.empty()) ++reached["known"];
                      return std::nullopt;
                    });
}

Verdict run_session_log(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_session_log(bytes, kFile), reached, [](const swap::SessionLog& log) -> Verdict {
    std::string text = formats::write_session_log_head(log.host_bytes, log.loop);
    for (const swap::SessionEvent& event : log.events) text += formats::write_session_event(event);
    const Result<swap::SessionLog> again = formats::read_session_log(text, kFile);
    if (!again) return "what was read and written is refused: " + again.error().message;
    if (again.value().events != log.events || again.value().loop.part_of_op != log.loop.part_of_op ||
        again.value().loop.is_told != log.loop.is_told || again.value().host_bytes != log.host_bytes)
      return "what was read and written reads as something else";
    return std::nullopt;
  });
}

Verdict check_time(const formats::ComputeTime& time) {
  if (!std::isfinite(time.step_ns) || time.step_ns <= 0 || time.steps < 1) return "a step without time was read";
  return std::nullopt;
}

Verdict run_kernel_details(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_kernel_details(bytes, kFile), reached, check_time);
}

Verdict run_step_trace_time(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_step_trace_time(bytes, kFile), reached, check_time);
}

}  // namespace

Verdict check_line(std::string_view message) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(message, is_control)) return "the error holds a control character: " + std::string(message);
  if (message.size() > 1000) return "the error is longer than anybody reads";
  return std::nullopt;
}

const std::vector<ReaderBody>& reader_bodies() {
  static const std::vector<ReaderBody> bodies = {
      {.name = "job", .run = run_job},
      {.name = "device", .run = run_device},
      {.name = "arguments", .run = run_arguments},
      {.name = "table", .run = run_trace},
      {.name = "snapshot", .run = run_trace},
      {.name = "pack", .run = run_pack},
      {.name = "plan", .run = run_plan},
      {.name = "graph", .run = run_graph},
      {.name = "expert_counts", .run = run_expert_counts},
      {.name = "measured_memory", .run = run_measured_memory},
      {.name = "measured_runs", .run = run_measured_runs},
      {.name = "calibration", .run = run_calibration},
      {.name = "search_log", .run = run_search_log},
      {.name = "session_log", .run = run_session_log},
      {.name = "kernel_details", .run = run_kernel_details},
      {.name = "step_trace_time", .run = run_step_trace_time},
  };
  return bodies;
}

const ReaderBody* find_reader(std::string_view name) {
  const auto found = std::ranges::find(reader_bodies(), name, &ReaderBody::name);
  return found == reader_bodies().end() ? nullptr : &*found;
}

CheckedBeyond& checked_beyond() {
  static CheckedBeyond beyond;
  return beyond;
}

}  // namespace tidemark::testing
