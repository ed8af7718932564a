#include "tests/fuzz/input_bodies.h"

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "core/fingerprint.h"
#include "integrations/formats/csv_table.h"
#include "integrations/formats/export_snapshot.h"
#include "integrations/formats/import_arguments.h"
#include "integrations/formats/import_trace.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/formats/pack_picture.h"
#include "integrations/formats/pack_verdict.h"
#include "integrations/formats/program_file.h"
#include "integrations/replay/replay.h"
#include "planner/framework/rank_memory.h"
#include "planner/framework/to_job.h"
#include "planner/layout/check_packing.h"
#include "planner/workload/static_memory.h"
#include "tests/support/data.h"
#include "tests/support/plan_figures.h"
#include "tests/support/tiny_graph.h"
#include "tests/support/tiny_schedule.h"

namespace tidemark::testing {
namespace {

constexpr std::string_view kFile = "fuzz";

/// An error is one line that starts with the file.
std::optional<std::string> check_error(const Error& error) {
  if (error.code != Error::Code::bad_input) return "the error is no bad_input: " + error.message;
  if (!error.message.starts_with("fuzz:")) return "the error does not name the file: " + error.message;
  if (error.message.find('\n') != std::string::npos) return "the error is more than one line: " + error.message;
  if (error.message.size() > 1000) return "the error is longer than anybody reads";
  return std::nullopt;
}

/// A trace that was read keeps the promises of its header, and every allocator takes it or says that it does not fit.
std::optional<std::string> check_trace(const AllocationTrace& trace, Reached& reached) {
  if (const std::optional<std::string> fault = find_fault(trace)) return fault;
  const TraceFigures figures = figures_of(trace);
  if (figures.peak_bytes < figures.start_bytes || figures.peak_bytes < figures.end_bytes || figures.end_bytes < 0)
    return "the figures of the trace contradict each other";
  ++reached[trace.source];
  if (trace.live_at_start > 0) ++reached["live at the start"];
  if (!trace.notes.empty()) ++reached["noted"];
  if (reached[trace.source] % 16 != 1) return std::nullopt;  // some of them
  for (const ReplayAllocator allocator :
       {ReplayAllocator::caching, ReplayAllocator::planned, ReplayAllocator::baseline}) {
    const Result<ReplayFigures> replayed =
        replay(trace, {.allocator = allocator, .capacity_bytes = kGiB, .timed_operations = 0});
    if (!replayed && replayed.error().code != Error::Code::infeasible) return replayed.error().message;
    const bool fits = replayed && replayed.value().no_room.empty();
    ++reached[fits ? name_of(allocator, false) : "does not fit"];
    if (fits && replayed.value().planned && replayed.value().planned->not_planned != 0)
      return "the arena departs from its own plan";
  }
  return std::nullopt;
}

std::optional<std::string> run_trace(std::string_view bytes, Reached& reached) {
  const Result<AllocationTrace> trace = read_trace(bytes, kFile);
  ++reached[trace ? "accepted" : "refused"];
  return trace ? check_trace(trace.value(), reached) : check_error(trace.error());
}

std::vector<std::string> table_seeds() {
  return {
      "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n",
      "id,start,end,size,alignment,offset\nb1,0,3,4096,512,0\nb2,4,9,4,,4096\n",
      "Name,Size(KB),Allocation Time(us),Release Time(us),Allocation Total Allocated(MB),Stream Ptr,Device Type\n"
      "aten::a,0.5,1764246877074330.300\t,1764246877750204.070\t,4304.95751953125,2,NPU:0\n"
      "\"aten::b, c\",32.5,1764246877076314.140\t,,4304.9892578125,2,NPU:0\n"
      "aten::d,16.5,1764246877076518.070\t,1764246877147117.340\t,4305.037109375,2,NPU:0\n",
      "Thread,Time,Action,Pointer,Size,Stream\n1,12:00:00:000001,allocate,0x10,100,0\n"
      "1,12:00:00:000002,free,0x99,7,0x2\n1,12:00:00:000003,free,0x10,100,0\n",
  };
}

std::vector<std::string> pack_seeds() {
  return {
      "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n",
      "id,lower,upper,size,gaps,apart\nb1,0,9,4,1-3 5-7@1:2,\nb2,3,9,4,,b4\nb3,0,9,4,0-9,\nb4,9,21,4,9-10,b1\n",
      "buffer_id,begin,end,size,alignment,hint,fixed,group\nb1,0,3,4,4,8,,g\nb2,4,9,4,2,,,g\nb3,0,9,4,,,16,\n",
      "id,start,upper,size,offset\r\n\"b,1\",0,3,4,0\r\n# not a row\r\nb2,3,9,4,2\r\nb3,0,9,4,8\r\n",
  };
}

/// What was read is packed as the format says, and what is written reads as that packing.
std::optional<std::string> check_packed(std::string_view bytes, const IntervalTable& table,
                                        const IntervalProblem& problem, Reached& reached) {
  const PackAnswer answer = find_packer("first_fit_by_size")->pack(problem.problem, {});
  if (const std::optional<std::string> fault = find_fault(problem.problem, answer.packing)) return fault;
  ++reached["packed"];
  if (!table.gaps.empty()) ++reached["gaps"];
  if (!table.groups.empty()) ++reached["groups"];
  if (!table.apart.empty()) ++reached["apart"];
  if (given_packing(problem)) ++reached["given"];
  const PackVerdict verdict = judge(problem, answer, answer.packing.height_bytes - 1);
  if (verdict.fits) return "what is higher than the capacity is said to fit";
  if (!verdict.cannot_fit.empty()) ++reached["infeasible"];
  if (pack_picture(table, problem, answer.packing).find('!') != std::string::npos)
    return "the picture shows a conflict";
  const std::vector<Bytes> at = addresses_of(table, problem, answer.packing, {});
  const Result<IntervalTable> again = read_minimalloc_csv(with_column(bytes, "offset", at), kFile);
  if (!again) return "what was written is refused: " + again.error().message;
  const Result<IntervalProblem> given = problem_of(again.value(), {}, kFile);
  if (!given) return "what was written is no packing: " + given.error().message;
  if (addresses_of(again.value(), given.value(), answer.packing, {}) != at) return "the addresses read as others";
  return std::nullopt;
}

std::optional<std::string> run_pack(std::string_view bytes, Reached& reached) {
  const Result<IntervalTable> table = read_minimalloc_csv(bytes, kFile);
  if (table) {
    const Result<IntervalProblem> problem = problem_of(table.value(), {}, kFile);
    ++reached[problem ? "accepted" : "refused"];
    if (!problem) ++reached["contradiction"];
    if (problem) return check_packed(bytes, table.value(), problem.value(), reached);
    return check_error(problem.error());
  }
  ++reached["refused"];
  return check_error(table.error());
}

std::vector<std::string> pack_words() {
  return {",",
          "\n",
          "\"",
          "0",
          "-1",
          "9223372036854775807",
          "4611686018427387904",
          "0x",
          "-",
          "@",
          ":",
          " ",
          "1-3",
          "@0:2",
          "b1",
          "b2",
          "g",
          "gaps",
          "fixed",
          "group",
          "apart",
          "offset",
          "hint",
          "alignment",
          "size",
          "end",
          "1125899906842624",
          "1099511627776",
          "1099511627775",
          "\xef\xbb\xbf",
          "#",
          "\r\n",
          std::string("\0", 1)};
}

std::vector<std::string> table_words() {
  return {",",
          "\n",
          "\"",
          "0",
          "-1",
          "9223372036854775807",
          "99999999999999999999",
          "1e9",
          "0x",
          "\t",
          "lower",
          "upper",
          "size",
          "id",
          "start,end",
          "1152921504606846976",
          "\xef\xbb\xbf",
          "#",
          ".",
          "\r\n",
          "free",
          "allocate",
          "Size(KB)",
          "1125899906842624",
          "0.0000000000001",
          "nan"};
}

std::vector<std::string> snapshot_seeds() {
  Snapshot snapshot{
      .segments = {{.address = 4096,
                    .total_size = 4096,
                    .blocks = {{.address = 4096, .size = 512, .state = SnapshotBlock::State::active_allocated},
                               {.address = 4608, .size = 3584}}}},
      .trace = {{.action = TraceAction::alloc, .address = 8192, .size = 512},
                {.action = TraceAction::free_requested, .address = 4096, .size = 512},
                {.action = TraceAction::free_completed, .address = 4096, .size = 512},
                {.action = TraceAction::alloc, .address = 4096, .size = 512},
                {.action = TraceAction::free_requested, .address = 8192, .size = 512}},
  };
  const std::string by_hand =
      "(dVsegments\n(lsVdevice_traces\n(l(l(dVaction\nValloc\nsVaddr\nI4096\nsVsize\nI512\nsa(dVaction\n"
      "Vfree_requested\nsVaddr\nL4096L\nsVsize\nI512\nsaas.";
  return {snapshot_pickle(snapshot), by_hand};
}

std::vector<std::string> snapshot_words() {
  return {"(",
          ".",
          "]",
          "}",
          "e",
          "u",
          "a",
          "s",
          "d",
          "l",
          "t",
          "0",
          "2",
          "N",
          "\x85",
          "\x94",
          std::string("h\0", 2),
          std::string("j\0\0\0\0", 5),
          "r\xff\xff\xff\xff",
          "X\xff\xff\xff\xff",
          "\x8a\xff",
          "cos\nsystem\n",
          "R",
          "b",
          "I-1\n",
          "L99999999999999999999999L\n",
          "G12345678",
          "\x80\x05",
          "\x95\x10\0\0\0\0\0\0\0",
          "Valloc\n",
          "q\x05",
          "free_requested",
          "\x8b\xff\xff\xff\x7f",
          "\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
          "(((((((((((((((("};
}

/// One rank of a chain of ops, with something in every column.
PlanFile::Rank small_rank() {
  const Graph graph = chain_graph({.layers = 1, .micro_batches = 2, .warm_up = 1, .communication = true});
  PlanFile::Rank rank{.outline = outline_of(graph)};
  rank.plan.policy = "keep-all";
  rank.plan.decisions = {{.key = {.storage_template = id_of<StorageTemplateId>(1), .chunk = 0, .layer = 0, .gap = 1},
                          .action = Action::recompute,
                          .recipe = id_of<RecipeId>(0),
                          .exceptions = {{.micro_batch = 0, .action = Action::swap}}}};
  Program& program = rank.program;
  program.schedule = keep_all_schedule(graph);
  for (std::size_t r = 0; r < program.schedule.residencies.size(); ++r)
    program.schedule.residencies[r].release = static_cast<std::int32_t>(r);
  program.layout = side_by_side(program.schedule, 512);
  program.estimate_ns.assign(program.schedule.tasks.size(), 7);
  program.sends = {{.task = id_of<TaskId>(2), .peer_rank = 1, .tag = -6}};
  program.receives = {{.task = id_of<TaskId>(3), .peer_rank = 1, .tag = 5, .arrival_estimate_ns = 1'000'007}};
  program.routed = {
      {.residency = id_of<ResidencyId>(3), .site = id_of<SiteId>(1), .fixed_bytes = 5, .rows = 6, .row_bytes = 7}};
  program.contingencies = {{.kind = Contingency::Kind::recompute, .step_count = 1}};
  program.contingency_steps = {{.op_template = id_of<OpTemplateId>(1),
                                .estimate_ns = 8,
                                .touches = {{id_of<ResidencyId>(2), AccessKind::read}}}};
  program.sections = {{.chunks = 2, .first_buffer = 0, .buffer_count = 1}};
  program.chunk_buffers = {{.residency = id_of<ResidencyId>(3), .offset = 512}};
  rank.attempts = {{.target_bytes = 3, .height_bytes = 5, .load_bytes = 4, .packer = "x"}};
  return rank;
}

std::vector<std::string> plan_seeds() {
  const auto read = [](std::string_view path, auto reader) {
    auto result = reader(text_of(source_path(path)), path);
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(result).value();
  };
  PlanFile file{.job = read("models/small-mla-moe.yaml", read_job),
                .machine = read("devices/ascend-910b-64g.yaml", read_machine),
                .policy = "keep-all",
                .ranks = {small_rank()}};
  PlanFile::Rank& rank = file.ranks.front();
  rank.program.machine_fingerprint = fingerprint(file.machine);
  set_figures(rank.program, reserve_memory(file.machine, file.job.parallel).total(), file.machine.visible_bytes,
              rank.figures);
  return {write_plan_file(file)};
}

std::vector<std::string> plan_words() {
  return {"{",       "}",          "[",          "]",
          ",",       ":",          "\"",         "null",
          "true",    "-1",         "0",          "9223372036854775807",
          "1e308",   "1e999",      "\"\"",       "[[[[[[[[",
          "\\u0000", "2147483648", "\"ranks\":", "\"program\":",
          "1.5",     "-2147483649"};
}

std::optional<std::string> run_plan(std::string_view bytes, Reached& reached) {
  const Result<PlanFile> plan = read_plan_file(bytes, kFile);
  ++reached[plan ? "accepted" : "refused"];
  if (!plan) return check_error(plan.error());
  // What is read can be written, and reads as the same again.
  const std::string text = write_plan_file(plan.value());
  if (text != bytes) ++reached["written otherwise"];
  const Result<PlanFile> again = read_plan_file(text, kFile);
  if (!again) return "what was read and written is refused: " + again.error().message;
  if (write_plan_file(again.value()) != text) return "what was read and written reads as something else";
  return std::nullopt;
}

std::vector<std::string> argument_seeds() {
  return {
      "A=2\nif [ $A -gt 1 ]; then B=\"--swiglu\"; else B=; fi\nC=(--num-layers $((A * 4)) # note\n --bf16)\n"
      "export NNODES=${NNODES:-1}\ntorchrun --nproc_per_node 8 pretrain_gpt.py \"${C[@]}\" $B --hidden-size 64 \\\n"
      " --num-attention-heads 4 --seq-length 128 --micro-batch-size 1 --attention-backend flash "
      "--position-embedding-type rope --global-batch-size 8 2>&1 | tee log\n",
      "ENV_VARS:\n  CUBLAS_WORKSPACE_CONFIG: \":4096:8\"\nMODEL_ARGS:\n  --num-layers: 8\n  --hidden-size: 64\n"
      "  --num-attention-heads: 4\n  --seq-length: 128\n  --micro-batch-size: 1\n  --bf16: true\n"
      "  --pipeline-model-parallel-size: 4\n  --pipeline-model-parallel-layout: Et*2|(tt|)*2ttmL\n  --mtp-num-layers: "
      "1\n"
      "  --num-experts: 8\n  --moe-layer-freq: ([0]*2+[1]*6)\n  --expert-model-parallel-size: 2\n",
      "{\"args\": {\"num_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4, \"seq_length\": 128, "
      "\"micro_batch_size\": 1, \"fp16\": true, \"recompute_modules\": [\"mlp\", \"core_attn\"], "
      "\"recompute_granularity\": \"selective\", \"hybrid_layer_pattern\": \"M*-M*-\"}, \"gpus\": 8}\n",
  };
}

std::vector<std::string> argument_words() {
  return {"--num-layers 3 ",
          "--",
          "$",
          "${A:-4}",
          "$((",
          "))",
          "'",
          "\"",
          "\\\n",
          "\n",
          "if [ $A = 2 ]; then\n",
          "fi\n",
          "else ",
          "for ",
          "done\n",
          "=",
          "(",
          ")",
          "|",
          "*3",
          "[0]*2",
          "#",
          ": ",
          ", ",
          "{",
          "}",
          "[",
          "]",
          "- ",
          "&a ",
          "*a",
          "<<E\n",
          "-1",
          "0",
          "9007199254740993",
          "1e308",
          "nan",
          "true",
          "null",
          "--tensor-model-parallel-size 2 ",
          "--swiglu ",
          "--multi-latent-attention ",
          "--noop-layers 1 ",
          "--use-flash-attn ",
          "--num-experts 4 "};
}

/// What is imported is estimated and planned for, or one line says why not.
std::optional<std::string> check_run_of(const framework::TrainingRun& run, Reached& reached) {
  const Result<framework::RankMemory> memory = framework::estimate_rank(run, framework::logged_rank(run));
  ++reached[memory ? "estimated" : "not estimated"];
  if (memory && !(std::isfinite(memory.value().peak_bytes) && memory.value().steady_bytes > 0))
    return "the estimate is no size";
  Result<framework::PlannedRun> planned = framework::to_job(run, "fuzz");
  if (!planned)
    return planned.error().message.find('\n') == std::string::npos ? std::nullopt : std::optional("two lines");
  planned.value().job.device = "any";
  ++reached[find_problems(planned.value().job).empty() ? "a job" : "no job"];
  return std::nullopt;
}

std::optional<std::string> run_arguments(std::string_view bytes, Reached& reached) {
  const Result<ArgumentFile> file = read_arguments(bytes, kFile);
  if (!file) {
    ++reached["refused"];
    return check_error(file.error());
  }
  ++reached["read"];
  const auto imported = framework::import_run(file.value().set, file.value().hints);
  ++reached[imported ? "accepted" : "refused"];
  if (imported) return check_run_of(imported.value().run, reached);
  if (imported.error().message.find('\n') != std::string::npos) return "the error is more than one line";
  return std::nullopt;
}

}  // namespace

const std::vector<FuzzTarget>& fuzz_targets() {
  static const std::vector<FuzzTarget> targets = [] {
    std::vector<FuzzTarget> all = {
        {.name = "table",
         .seeds = table_seeds,
         .words = table_words,
         .run = run_trace,
         .places = {"operator_memory", "minimalloc", "rmm_log", "live at the start", "noted", "caching", "planned",
                    "baseline", "does not fit"},
         .rounds = 30'000},
        {.name = "pack",
         .seeds = pack_seeds,
         .words = pack_words,
         .run = run_pack,
         .places = {"packed", "gaps", "groups", "apart", "given", "infeasible", "contradiction"},
         .rounds = 20'000},
        {.name = "snapshot",
         .seeds = snapshot_seeds,
         .words = snapshot_words,
         .run = run_trace,
         .places = {"snapshot", "live at the start", "noted", "caching", "planned", "baseline"},
         .rounds = 30'000},
        {.name = "plan",
         .seeds = plan_seeds,
         .words = plan_words,
         .run = run_plan,
         .places = {"written otherwise"},
         .rounds = 2'000},
        {.name = "plan_numbers",
         .seeds = plan_seeds,
         .words = plan_words,
         .run = run_plan,
         .places = {"written otherwise"},
         .rounds = 1'000,
         .wounds = Wounds::numbers},
        {.name = "arguments",
         .seeds = argument_seeds,
         .words = argument_words,
         .run = run_arguments,
         .places = {"read", "estimated", "a job", "no job"},
         .rounds = 20'000},
        run_target(),
    };
    for (FuzzTarget& target : measured_targets()) all.push_back(std::move(target));
    return all;
  }();
  return targets;
}

}  // namespace tidemark::testing
