#include "tests/fuzz/reader_bodies.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "device/host_topology.h"
#include "device/process_places.h"
#include "integrations/ci/baseline_text.h"
#include "integrations/ci/budget_file.h"
#include "integrations/configs/read_config.h"
#include "integrations/formats/calibration_file.h"
#include "integrations/formats/import_captured_step.h"
#include "integrations/formats/import_device_samples.h"
#include "integrations/formats/import_expert_counts.h"
#include "integrations/formats/import_measured_memory.h"
#include "integrations/formats/import_memory_record.h"
#include "integrations/formats/import_op_times.h"
#include "integrations/formats/import_operator_memory.h"
#include "integrations/formats/import_snapshot.h"
#include "integrations/formats/import_trace.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/formats/predicted_times_file.h"
#include "integrations/formats/program_file.h"
#include "integrations/formats/rate_candidates.h"
#include "integrations/formats/search_log.h"
#include "integrations/formats/session_log.h"
#include "integrations/formats/time_device_file.h"
#include "integrations/formats/time_truth_file.h"
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

/// A file names a chip; what its own file holds is another reader's matter.
Result<Chip> any_chip(const std::string& name) {
  if (name == "none") return bad_input("nothing of that name");
  return Chip{};
}

Verdict run_device(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_machine(bytes, kFile, any_chip), reached, [](const Machine& machine) -> Verdict {
    if (machine.visible_bytes <= 0 || !(machine.d2h.bytes_per_s > 0)) return "a device without rates was read";
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

/// Rows of other tables are there, and what was reserved ascends in time.
Verdict check_attributed(const formats::AttributedTrace& run) {
  const auto is_row = [](std::int32_t row, std::size_t rows) {
    return row >= 0 && static_cast<std::size_t>(row) < rows;
  };
  if (run.origin_of.size() != run.trace.blocks.size()) return "a block has no row for its origin";
  for (const std::int32_t origin : run.origin_of)
    if (origin != -1 && !is_row(origin, run.origins.size())) return "a block has an origin that is not there";
  for (const formats::BlockOrigin& origin : run.origins)
    if (origin.stack != -1 && !is_row(origin.stack, run.stacks.size()))
      return "an origin has a stack that is not there";
  for (const formats::CallStack& stack : run.stacks)
    if (stack.empty() || !std::ranges::all_of(stack, [&](auto row) { return is_row(row, run.frames.size()); }))
      return "a stack has a frame that is not there";
  std::size_t event = 0;
  for (const formats::ReservedMark& mark : run.reserved) {
    if (mark.event < event || mark.event > run.trace.events.size() || mark.bytes < 0) return "a mark is out of order";
    event = mark.event;
  }
  return std::nullopt;
}

/// A pickle, or else a table of operators.
Verdict run_attributed(std::string_view bytes, Reached& reached) {
  const bool is_table = bytes.find("Size(KB)") != std::string_view::npos;
  const auto read = is_table ? formats::read_attributed_operator_memory(bytes, kFile)
                             : formats::read_attributed_snapshot(bytes, kFile);
  return judge_read(read, reached, [&](const formats::AttributedTrace& run) -> Verdict {
    if (Verdict fault = formats::find_fault(run.trace)) return fault;
    if (Verdict fault = check_attributed(run)) return fault;
    if (!run.stacks.empty()) ++reached["stacks"];
    if (!run.reserved.empty()) ++reached["reserved"];
    return checked_beyond().attributed != nullptr ? checked_beyond().attributed(run, reached) : std::nullopt;
  });
}

Verdict run_memory_record(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_memory_record(bytes, kFile), reached,
                    [](const formats::MemoryRecord& record) -> Verdict {
                      if (record.components.empty()) return "a record without a component was read";
                      for (const formats::MemoryRecord::Component& component : record.components) {
                        if (component.samples.empty()) return "a component has no sample";
                        if (!std::ranges::is_sorted(component.samples, {}, &formats::ComponentSample::time_ns))
                          return "samples are out of order";
                        for (const formats::ComponentSample& sample : component.samples)
                          if (sample.reserved_bytes < 0 || sample.allocated_bytes.value_or(0) < 0)
                            return "a sample is below zero";
                      }
                      return std::nullopt;
                    });
}

Verdict run_device_samples(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_device_samples(bytes, kFile), reached,
                    [](const std::vector<formats::DeviceSample>& samples) -> Verdict {
                      if (samples.empty()) return "no sample was read";
                      for (const formats::DeviceSample& sample : samples)
                        if (sample.device_used_bytes.value_or(0) < 0 || sample.host_peak_bytes.value_or(0) < 0)
                          return "a sample is below zero";
                      return std::nullopt;
                    });
}

/// A list of CPUs that a text gives: ascending, each once, the same from its own text.
Verdict check_list(const CpuList& list) {
  if (!std::ranges::is_sorted(list) || std::ranges::adjacent_find(list) != list.end()) return "a list is out of order";
  if (!list.empty() && (list.front() < 0 || list.back() > kLargestNumber)) return "a list is out of range";
  if (list.empty()) return std::nullopt;
  const Result<CpuList> again = read_cpu_list(text_of_list(list), kFile);
  if (!again || again.value() != list) return "a list is another one after it was written";
  return std::nullopt;
}

/// Files of sys and proc about CPUs and nodes: any of them may be any text, so each reader takes all.
Verdict judge_host_files(std::string_view bytes, Reached& by_one) {
  if (Verdict wrong = judge_read(read_cpu_list(bytes, kFile), by_one, check_list)) return wrong;
  Verdict wrong = judge_read(read_status(bytes, kFile), by_one, [](const ProcessPlaces& places) -> Verdict {
    Verdict cpus = check_list(places.cpus);
    return cpus ? cpus : check_list(places.memory_nodes);
  });
  if (wrong) return wrong;
  wrong = judge_read(read_node_memory(bytes, kFile), by_one, [](Bytes memory) -> Verdict {
    return memory < 0 ? Verdict("memory is below zero") : std::nullopt;
  });
  if (wrong) return wrong;
  const MemoryPolicy policy = read_policy(bytes);
  if ((wrong = check_list(policy.nodes))) return wrong;
  const std::map<int, Bytes> pages = read_mapped_pages(bytes);
  for (const auto& [node, mapped] : pages)
    if (node < 0 || mapped < 0) return "pages are below zero";
  const std::string address = plain_pci_address(bytes);
  if (address.find_first_not_of("0123456789abcdef:.") != std::string::npos) return "an address is no address";
  if (policy.kind != MemoryPolicy::Kind::unknown || !pages.empty() || !address.empty()) ++by_one["accepted"];
  return std::nullopt;
}

Verdict run_host_files(std::string_view bytes, Reached& reached) {
  Reached by_one;
  Verdict wrong = judge_host_files(bytes, by_one);
  ++reached[by_one.contains("accepted") ? "accepted" : "refused"];
  return wrong;
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

/// Of a configuration that was read every key is judged, and has a place in the file; what is said of the whole file
/// has a reason.
Verdict run_config(std::string_view bytes, configs::ConfigKind kind, Reached& reached) {
  estimate::RunHints hints;
  // Those of Megatron-Bridge do not say how many, and sharded state needs it.
  if (kind == configs::ConfigKind::bridge) hints.platform.devices = 16;
  return judge_read(configs::read_config(bytes, kFile, kind, hints), reached,
                    [&](const estimate::ImportedRun& run) -> Verdict {
                      for (const estimate::JudgedArgument& one : run.judged) {
                        // What is of the whole file has no key, and no place if it is of what the file does not say.
                        const bool is_of_file = one.key.empty() && one.name.empty();
                        if (!is_of_file && !one.place.starts_with(kFile)) return "a key without a place was judged";
                        if (one.key.empty() && one.reason.empty()) return "nothing was judged, without a reason";
                        if (Verdict fault = check_line(one.key + one.hint)) return fault;
                        if (!one.hint.empty()) ++reached["hint"];
                      }
                      return std::nullopt;
                    });
}

Verdict run_bridge(std::string_view bytes, Reached& reached) {
  return run_config(bytes, configs::ConfigKind::bridge, reached);
}

Verdict run_titan(std::string_view bytes, Reached& reached) {
  return run_config(bytes, configs::ConfigKind::torchtitan, reached);
}

Verdict run_mindformers(std::string_view bytes, Reached& reached) {
  return run_config(bytes, configs::ConfigKind::mindformers, reached);
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

/// What step_seconds divides by is there.
Verdict check_timed(const step_time::TimedRun& run) {
  if (run.data < 1 || !(run.micro_batches() >= 1)) return "a run without a micro-batch was read";
  if (run.model.layers < 1 || run.model.heads < 1 || run.model.head_dim < 1 || run.sequence < 1)
    return "a run without a model was read";
  if (run.model.moe_layers < 0 || run.model.moe_layers > run.model.layers)
    return "more layers have experts than there are";
  if (!(run.recomputed.layers >= 0 && run.recomputed.layers <= 1)) return "the share recomputed is none";
  return std::nullopt;
}

Verdict run_time_truth(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_time_truth(bytes, kFile), reached, [&](const auto& rows) -> Verdict {
    for (const step_time::TimeRow& row : rows) {
      if (row.id.empty() || row.track.empty()) return "a row without a name or a track was read";
      if (row.is_scored && !row.measured_s) return "a row is scored without a figure";
      ++reached[row.refused.empty() ? "a run" : "reason"];
      if (!row.refused.empty()) continue;
      if (Verdict wrong = check_timed(row.run)) return wrong;
      if (!row.notes.empty()) ++reached["noted"];
    }
    return std::nullopt;
  });
}

bool are_rates(const FittedRates& rates) {
  return std::min({rates.matmul, rates.tile_start, rates.memory, rates.launch_s, rates.intra_link, rates.inter_link,
                   rates.hop_s, rates.attention, rates.grouped_matmul, rates.fp8}) > 0;
}

Verdict run_time_device(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_time_device(bytes, kFile), reached, [&](const auto& file) -> Verdict {
    const DeviceSheet& sheet = file.device.sheet;
    if (!(sheet.peak(Precision::bf16) > 0) || sheet.tiles.empty() || sheet.cores < 1)
      return "a device that multiplies nothing was read";
    if (!are_rates(file.device.rates)) return "a constant is not above 0";
    if (file.fitted.size() > formats::kMostFittedConstants) return "more constants are fitted than may be";
    ++reached[shares_constants(file) ? "another's constants" : "own constants"];
    return std::nullopt;
  });
}

Verdict run_rate_candidates(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_rate_candidates(bytes, kFile), reached, [](const auto& candidates) -> Verdict {
    if (candidates.rates.empty() || candidates.rates.size() > formats::kMostCandidates)
      return "not 1 to 256 candidates";
    return std::ranges::all_of(candidates.rates, are_rates) ? Verdict() : "a constant is not above 0";
  });
}

Verdict run_predicted_times(std::string_view bytes, Reached& reached) {
  return judge_read(formats::read_predicted_times(bytes, kFile), reached, [](const auto& times) -> Verdict {
    const bool are_seconds = std::ranges::all_of(times, [](const auto& row) { return row.second > 0; });
    return are_seconds ? Verdict() : "seconds are not above 0";
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

Verdict check_limit(const budget::Limit& limit) {
  if (limit.phase && (limit.category || limit.is_host)) return "a limit is on two things";
  if (limit.most_bytes < 0 || limit.near.bytes < 0 || !(limit.near.percent >= 0 && limit.near.percent < 100))
    return "a limit that nothing can keep was read";
  if (limit.line < 1) return "a limit has no line";
  return std::nullopt;
}

Verdict check_budget_job(const ci::BudgetJob& job, Reached& reached) {
  if (job.name.empty() || job.file.empty() || job.line < 1) return "a job without a name, a file or a line was read";
  if (Verdict fault = check_line(job.name)) return fault;
  if (!(job.near.percent >= 0 && job.near.percent < 100) || job.near.bytes < 0) return "a tolerance is none";
  if (!std::isfinite(job.growth.percent) || job.growth.percent < 0 || job.growth.bytes < 0)
    return "a growth is below zero";
  if (job.capacity_bytes && job.reserve_bytes && *job.reserve_bytes >= *job.capacity_bytes)
    return "a reserve leaves nothing of the capacity";
  for (const budget::Limit& limit : job.limits)
    if (Verdict fault = check_limit(limit)) return fault;
  for (const ci::Waiver& waiver : job.waivers)
    if (waiver.owner.empty() || waiver.reason.empty() || waiver.line < 1)
      return "a waiver without an owner or a reason was read";
  if (!job.limits.empty()) ++reached["limits"];
  if (!job.waivers.empty()) ++reached["waivers"];
  if (job.load) ++reached["load"];
  return std::nullopt;
}

Verdict run_budget(std::string_view bytes, Reached& reached) {
  return judge_read(ci::read_budget_file(bytes, kFile), reached, [&](const ci::BudgetFile& file) -> Verdict {
    if (file.jobs.empty() || file.jobs.size() > ci::kMostBudgetItems) return "a file without a job was read";
    std::set<std::string_view> names;
    for (const ci::BudgetJob& job : file.jobs) {
      if (!names.insert(job.name).second) return "two jobs have one name";
      if (Verdict fault = check_budget_job(job, reached)) return fault;
    }
    return std::nullopt;
  });
}

/// What is read can be written, and reads as the same again.
Verdict run_baseline(std::string_view bytes, Reached& reached) {
  return judge_read(ci::read_baseline(bytes, kFile), reached, [&](const ci::Baseline& baseline) -> Verdict {
    for (const ci::BaselineJob& job : baseline.jobs) {
      if (ci::find_job(baseline, job.name) != &job) return "a job is not found by its name";
      ++reached[budget::word_of(job.basis) == "measured" ? "measured" : "predicted"];
    }
    const Result<ci::Baseline> again = ci::read_baseline(ci::write_baseline(baseline), kFile);
    if (!again) return "what was read and written is refused: " + again.error().message;
    if (again.value() != baseline) return "what was read and written reads as something else";
    return std::nullopt;
  });
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
      {.name = "bridge", .run = run_bridge},
      {.name = "torchtitan", .run = run_titan},
      {.name = "mindformers", .run = run_mindformers},
      {.name = "table", .run = run_trace},
      {.name = "snapshot", .run = run_trace},
      {.name = "attributed", .run = run_attributed},
      {.name = "memory_record", .run = run_memory_record},
      {.name = "device_samples", .run = run_device_samples},
      {.name = "host_files", .run = run_host_files},
      {.name = "pack", .run = run_pack},
      {.name = "plan", .run = run_plan},
      {.name = "graph", .run = run_graph},
      {.name = "expert_counts", .run = run_expert_counts},
      {.name = "measured_memory", .run = run_measured_memory},
      {.name = "measured_runs", .run = run_measured_runs},
      {.name = "time_truth", .run = run_time_truth},
      {.name = "time_device", .run = run_time_device},
      {.name = "rate_candidates", .run = run_rate_candidates},
      {.name = "predicted_times", .run = run_predicted_times},
      {.name = "calibration", .run = run_calibration},
      {.name = "search_log", .run = run_search_log},
      {.name = "session_log", .run = run_session_log},
      {.name = "kernel_details", .run = run_kernel_details},
      {.name = "step_trace_time", .run = run_step_trace_time},
      {.name = "budget", .run = run_budget},
      {.name = "baseline", .run = run_baseline},
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
