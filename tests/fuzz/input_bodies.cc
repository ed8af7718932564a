#include "tests/fuzz/input_bodies.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "core/fingerprint.h"
#include "integrations/formats/csv_table.h"
#include "integrations/formats/export_snapshot.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/formats/pack_picture.h"
#include "integrations/formats/pack_verdict.h"
#include "integrations/formats/program_file.h"
#include "integrations/replay/replay.h"
#include "planner/estimate/rank_memory.h"
#include "planner/estimate/to_job.h"
#include "planner/graph_build/static_memory.h"
#include "planner/layout/check_packing.h"
#include "tests/configs/config_text.h"
#include "tests/support/captured_steps.h"
#include "tests/support/data.h"
#include "tests/support/devices.h"
#include "tests/support/plan_figures.h"
#include "tests/support/tiny_graph.h"
#include "tests/support/tiny_schedule.h"

namespace tidemark::testing {
namespace {

constexpr std::string_view kFile = "fuzz";

/// Every allocator takes a trace or says that it does not fit.
Verdict check_trace(const formats::AllocationTrace& trace, Reached& reached) {
  if (reached[trace.source] % 16 != 1) return std::nullopt;  // some of them
  for (const replay::ReplayAllocator allocator :
       {replay::ReplayAllocator::caching, replay::ReplayAllocator::planned, replay::ReplayAllocator::baseline}) {
    const Result<replay::ReplayFigures> replayed =
        replay::replay(trace, {.allocator = allocator, .capacity_bytes = kGiB, .timed_operations = 0});
    if (!replayed && replayed.error().code != Error::Code::infeasible) return replayed.error().message;
    const bool fits = replayed && replayed.value().no_room.empty();
    ++reached[fits ? replay::name_of(allocator, false) : "does not fit"];
    if (fits && replayed.value().planned && replayed.value().planned->not_planned != 0)
      return "the arena departs from its own plan";
  }
  return std::nullopt;
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
Verdict check_packed(std::string_view bytes, const formats::IntervalTable& table,
                     const formats::IntervalProblem& problem, Reached& reached) {
  const layout::PackAnswer answer = layout::find_packer("first_fit_by_size")->pack(problem.problem, {});
  if (const std::optional<std::string> fault = layout::find_fault(problem.problem, answer.packing)) return fault;
  ++reached["packed"];
  if (!table.gaps.empty()) ++reached["gaps"];
  if (!table.groups.empty()) ++reached["groups"];
  if (!table.apart.empty()) ++reached["apart"];
  if (formats::given_packing(problem)) ++reached["given"];
  const formats::PackVerdict verdict = formats::judge(problem, answer, answer.packing.height_bytes - 1);
  if (verdict.fits) return "what is higher than the capacity is said to fit";
  if (!verdict.cannot_fit.empty()) ++reached["infeasible"];
  if (formats::pack_picture(table, problem, answer.packing).find('!') != std::string::npos)
    return "the picture shows a conflict";
  const std::vector<Bytes> at = formats::addresses_of(table, problem, answer.packing, {});
  const Result<formats::IntervalTable> again =
      formats::read_minimalloc_csv(formats::with_column(bytes, "offset", at), kFile);
  if (!again) return "what was written is refused: " + again.error().message;
  const Result<formats::IntervalProblem> given = formats::problem_of(again.value(), {}, kFile);
  if (!given) return "what was written is no packing: " + given.error().message;
  if (formats::addresses_of(again.value(), given.value(), answer.packing, {}) != at)
    return "the addresses read as others";
  return std::nullopt;
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
  allocator::Snapshot snapshot{
      .segments =
          {{.address = 4096,
            .total_size = 4096,
            .blocks = {{.address = 4096, .size = 512, .state = allocator::SnapshotBlock::State::active_allocated},
                       {.address = 4608, .size = 3584}}}},
      .trace = {{.action = allocator::TraceAction::alloc, .address = 8192, .size = 512},
                {.action = allocator::TraceAction::free_requested, .address = 4096, .size = 512},
                {.action = allocator::TraceAction::free_completed, .address = 4096, .size = 512},
                {.action = allocator::TraceAction::alloc, .address = 4096, .size = 512},
                {.action = allocator::TraceAction::free_requested, .address = 8192, .size = 512}},
  };
  const std::string by_hand =
      "(dVsegments\n(lsVdevice_traces\n(l(l(dVaction\nValloc\nsVaddr\nI4096\nsVsize\nI512\nsa(dVaction\n"
      "Vfree_requested\nsVaddr\nL4096L\nsVsize\nI512\nsaas.";
  return {formats::snapshot_pickle(snapshot), by_hand};
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
formats::PlanFile::Rank small_rank() {
  const Graph graph = chain_graph({.layers = 1, .micro_batches = 2, .warm_up = 1, .communication = true});
  formats::PlanFile::Rank rank{.outline = formats::outline_of(graph)};
  rank.decisions.rows = {{.key = {.storage_template = id_of<StorageTemplateId>(1), .chunk = 0, .layer = 0, .gap = 1},
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
  program.routed = {{.residency = id_of<ResidencyId>(3),
                     .site = id_of<SiteId>(1),
                     .fixed_bytes = 5,
                     .rows = 6,
                     .row_bytes = 7,
                     .rows_of = RowsOf::sent}};
  program.section_ends = {id_of<TaskId>(4), id_of<TaskId>(9)};
  rank.attempts = {{.target_bytes = 3, .height_bytes = 5, .load_bytes = 4, .packer = "x"}};
  return rank;
}

std::vector<std::string> plan_seeds() {
  const auto read = [](std::string_view path, auto reader) {
    auto result = reader(text_of(source_path(path)), path);
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(result).value();
  };
  formats::PlanFile file{.job = read("models/small-mla-moe.yaml", formats::read_job),
                         .machine = read("devices/ascend-910b-64g.yaml",
                                         [](std::string_view text, std::string_view name) {
                                           return formats::read_machine(text, name, shipped_chips());
                                         }),
                         .policy = "keep-all",
                         .ranks = {small_rank()}};
  formats::PlanFile::Rank& rank = file.ranks.front();
  rank.program.machine_fingerprint = fingerprint(file.machine);
  set_figures(rank.program, graph_build::reserve_memory(file.machine, file.job.parallel).total(),
              file.machine.visible_bytes, rank.figures);
  plan::PlanRequest captured = captured_request(captured_features(), 700);
  return {formats::write_plan_file(file), formats::write_plan_file(captured, plan::plan_step(captured).value())};
}

std::vector<std::string> plan_words() {
  return {"{",       "}",          "[",          "]",
          ",",       ":",          "\"",         "null",
          "true",    "-1",         "0",          "9223372036854775807",
          "1e308",   "1e999",      "\"\"",       "[[[[[[[[",
          "\\u0000", "2147483648", "\"ranks\":", "\"program\":",
          "1.5",     "-2147483649"};
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
Verdict check_run_of(const estimate::TrainingRun& run, Reached& reached) {
  const Result<estimate::RankMemory> memory = estimate::estimate_rank(run, estimate::logged_rank(run));
  ++reached[memory ? "estimated" : "not estimated"];
  if (memory && !(std::isfinite(memory.value().peak_bytes) && memory.value().steady_bytes > 0))
    return "the estimate is no size";
  Result<estimate::PlannedRun> planned = estimate::to_job(run, "fuzz");
  if (!planned) return check_line(planned.error().message);
  planned.value().job.device = "any";
  ++reached[graph_build::find_problems(planned.value().job).empty() ? "a job" : "no job"];
  return std::nullopt;
}

Verdict check_arguments(const formats::ArgumentFile& file, Reached& reached) {
  const auto imported = estimate::import_run(file.set, file.hints);
  ++reached[imported ? "accepted" : "refused"];
  return imported ? check_run_of(imported.value().run, reached) : check_line(imported.error().message);
}

std::vector<std::string> yaml_words() {
  return {"\n",         "\n  ",  ": ",
          ",",          ", b",   "{",
          "}",          "[",     "]",
          "- ",         "---\n", "...\n",
          "&a ",        "*a",    "~",
          "null",       "true",  "0",
          "-1",         "7",     "61",
          "1.5",        "2B",    "64GiB",
          "10us",       "\"",    "\\\n",
          "'",          "#",     "? ",
          "!!str ",     "| \n",  "9223372036854775807",
          "moe x58",    "mtp",   "noop",
          "4-7",        "mla",   "gqa",
          "bf16",       "\t",    "%TAG ! !\n",
          "tensor: 2\n"};
}

std::vector<std::string> bridge_seeds() {
  return {std::string(kBridgeText)};
}

std::vector<std::string> titan_seeds() {
  return {std::string(kTitanText)};
}

std::vector<std::string> mindformers_seeds() {
  return {std::string(kMindformersText)};
}

std::vector<std::string> config_words() {
  return {"model",  "train", "ddp",   "num_layers", "null", "true", "-1",  "0",
          "[1, 2]", "{}",    "&a",    "*a",         "\"\"", "'",    "=",   "[[a]]",
          "\"op\"", "full",  "1e400", "none",       "  ",   "\n",   "...", "99999999999999999999"};
}

std::vector<std::string> job_seeds() {
  return {text_of(source_path("models/llama-3-70b.yaml")), text_of(source_path("models/small-mla-moe.yaml"))};
}

std::vector<std::string> device_seeds() {
  return {text_of(source_path("devices/ascend-910b-64g.yaml"))};
}

std::vector<std::string> graph_seeds() {
  return {
      "G 3 2\nN 0 1 4 0 a\nN 1 2 8 0 b\nN 2 1 4 1 c\nE 0 1\nE 1 2\n",
      "# energy\nG 2 1\nN 0 0.5 4 0 a 1.5 0.25 0.25\nN 1 2 8 1 b 3 0.5 0.5\nE 0 1\n",
      R"({"tidemark_graph": 1, "name": "step", "cost_unit": "ns", "storages": [{"name": "q", "bytes": 4096},
 {"bytes": 8, "bound_bytes": 16, "until_end": true, "page_out_cost": 1, "page_in_cost": 2}],
 "ops": [{"name": "mm", "cost": 12, "reads": [], "writes": [0]},
 {"cost": 3.5, "reads": [0], "writes": [1], "transient_bytes": 64, "phase": "backward", "recompute": "never", "told": false}]})",
      R"({"tidemark_graph": 1, "cost_unit": "ns", "link": {"out_bytes_per_second": 24e9, "in_bytes_per_second": 24e9,
 "latency_ns": 20, "host_bytes": 68719476736}, "storages": [{"bytes": 4096, "pinned_until": 0}],
 "ops": [{"cost": 100, "reads": [], "writes": [0]}]})",
  };
}

std::vector<std::string> graph_words() {
  return {"G 2 1\n", "N 0 1 4 0 a\n",
          "E 0 1\n", " ",
          "\n",      "0",
          "1",       "2",
          "-1",      "1e300",
          "1e-300",  "nan",
          "{",       "}",
          "[",       "]",
          ",",       "\"reads\": ",
          "#",       "0.5",
          "\"ns\"",  "\"joule\"",
          "null",    "99999999999999999999",
          "true",    "\"swappable\": false, "};
}

std::vector<std::string> count_seeds() {
  return {"layer,micro_batch,device,rows\n3,0,0,65012\n3,0,1,66102\n# next\n4,0,0,1\n4,0,1,7\n",
          "layer,micro_batch,device,rows\n0,0,0,1\n0,1,0,2\n0,0,1,3\n0,1,1,4\n0,0,2,0\n0,1,2,9\n"};
}

std::vector<std::string> count_words() {
  return {",", "\n", "0", "1", "-1", "1099511627777", "1000001", "#", "\r", " ", "4,0,2,5\n", "layer"};
}

std::vector<std::string> memory_seeds() {
  return {"rank,allocated_mib,max_allocated_mib\n0,16809.0,20536.3\n1,15000,\n",
          R"({"ranks": [{"rank": 0, "allocated_mib": 16809.0, "max_allocated_mib": 20536.3},
 {"rank": 1, "allocated_mib": 15000, "max_allocated_mib": null}]})"};
}

std::vector<std::string> memory_words() {
  return {",", "\n", "0", "1", "-1", "1e300", "null", "\"", "{", "}", "[", "]", "16777217", "rank", "0.0000001"};
}

std::vector<std::string> search_seeds() {
  return {
      "tidemark-search 1 0123456789abcdef\ntp2 pp1\tfits\t5\t4\t3\t2\t1\t0\t9\t\n"
      "tp4 pp1\tover\t9\t8\t7\t6\t5\t4\t3\tneeds more\n",
      "tidemark-search 1 0123456789abcdef\n"};
}

std::vector<std::string> search_words() {
  return {"\t", "\n", "fits", "over", "0", "-1", "9223372036854775808", "tidemark-search 1 ", "\r\n"};
}

std::vector<std::string> session_seeds() {
  return {
      "tidemark_session version=1 host_bytes=4096\nloop op=0 part=0 told=1\nloop op=1 part=1 told=0\nbegin_step "
      "stream=0\n"
      "op op=0 stream=0\ntake storage=2 block=0 at=0x7f00 bytes=512 stream=0\nsave op=1 until=1 storage=2 saved=0\n"
      "copy_out storage=2 at=0x7f00 bytes=512\nuse saved=0 again\nroom storage=2 block=1 at=0x7f00 bytes=512\n"
      "copy_in storage=2 at=0x7f00 bytes=512\nrelease block=0\nused block=1 at=0x7f00 handed_over\n",
      "tidemark_session version=1 host_bytes=0\nrebuild step=1 op=3 last\nsource storage=1 block=0\nmade storage=2 "
      "block=1\n"
      "failed\nchange block=0 planned\nkeep op=3\nfree saved=0\nend_step\nclose\n",
      "tidemark_session version=1 host_bytes=0\nmay_spill storage=0\nbegin_step\nadopt storage=52 block=0 at=0x7f00 "
      "bytes=512\nsave storage=52 saved=0\nmake_room bytes=4096\ncopy_out storage=52 at=0x7f00 bytes=512\nrelease "
      "block=0\nfree saved=0\nclose\n"};
}

std::vector<std::string> session_words() {
  return {" ", "\n", "=", "0x", "-1", "9223372036854775808", "op=", "at=0x", "loop ", "use saved=0", "again"};
}

std::vector<std::string> kernel_seeds() {
  return {"Step Id,Name,Duration(us),Accelerator Core\n1,MatMul,12.5,AI_CORE\n1,all_reduce,99,HCCL\n2,Add,0.25,MIX\n",
          "Name,Duration(us)\nmm,1\n\"a, b\",2.125\n"};
}

std::vector<std::string> step_seeds() {
  return {"Device_id,Step,Computing,Communication\n0,1,1500.5,3\n0,2,1400,4\n", "Computing\n1\n"};
}

std::vector<std::string> time_words() {
  return {",", "\n", "\"", "0", "-1", "12.5", ".5", "9223372036854775807", "1e9", "HCCL", "N/A", "Duration(us)", "#"};
}

}  // namespace

const std::vector<FuzzTarget>& fuzz_targets() {
  static const std::vector<FuzzTarget> targets = [] {
    checked_beyond().trace = check_trace;
    checked_beyond().pack = check_packed;
    checked_beyond().arguments = check_arguments;
    std::vector<FuzzTarget> all = {
        {.name = "job", .seeds = job_seeds, .words = yaml_words, .rounds = 3'000},
        {.name = "device", .seeds = device_seeds, .words = yaml_words, .rounds = 3'000},
        {.name = "table",
         .seeds = table_seeds,
         .words = table_words,
         .places = {"operator_memory", "minimalloc", "rmm_log", "live at the start", "noted", "caching", "planned",
                    "baseline", "does not fit"},
         .rounds = 30'000},
        {.name = "pack",
         .seeds = pack_seeds,
         .words = pack_words,
         .places = {"packed", "gaps", "groups", "apart", "given", "infeasible", "contradiction"},
         .rounds = 20'000},
        {.name = "snapshot",
         .seeds = snapshot_seeds,
         .words = snapshot_words,
         .places = {"snapshot", "live at the start", "noted", "caching", "planned", "baseline"},
         .rounds = 30'000},
        {.name = "plan",
         .seeds = plan_seeds,
         .words = plan_words,
         .places = {"written otherwise", "captured"},
         .rounds = 6'000},
        {.name = "plan_numbers",
         .reader = "plan",
         .seeds = plan_seeds,
         .words = plan_words,
         .places = {"written otherwise", "captured"},
         .rounds = 1'000,
         .wounds = Wounds::numbers},
        {.name = "arguments",
         .seeds = argument_seeds,
         .words = argument_words,
         .places = {"read", "estimated", "a job", "no job"},
         .rounds = 20'000},
        {.name = "bridge", .seeds = bridge_seeds, .words = config_words, .places = {"hint"}, .rounds = 1'000},
        {.name = "torchtitan", .seeds = titan_seeds, .words = config_words, .places = {"hint"}, .rounds = 3'000},
        {.name = "mindformers", .seeds = mindformers_seeds, .words = config_words, .places = {"hint"}, .rounds = 1'000},
        {.name = "graph",
         .seeds = graph_seeds,
         .words = graph_words,
         .places = {"joule", "link", "recipes"},
         .rounds = 20'000},
        {.name = "expert_counts", .seeds = count_seeds, .words = count_words, .rounds = 20'000},
        {.name = "measured_memory", .seeds = memory_seeds, .words = memory_words, .rounds = 20'000},
        {.name = "search_log", .seeds = search_seeds, .words = search_words, .places = {"known"}, .rounds = 20'000},
        {.name = "session_log", .seeds = session_seeds, .words = session_words, .rounds = 20'000},
        {.name = "kernel_details", .seeds = kernel_seeds, .words = time_words, .rounds = 20'000},
        {.name = "step_trace_time", .seeds = step_seeds, .words = time_words, .rounds = 20'000},
        run_target(),
    };
    for (FuzzTarget& target : measured_targets()) all.push_back(std::move(target));
    for (FuzzTarget& target : time_targets()) all.push_back(std::move(target));
    for (FuzzTarget& target : held_targets()) all.push_back(std::move(target));
    for (FuzzTarget& target : gate_targets()) all.push_back(std::move(target));
    for (FuzzTarget& target : all) {
      const ReaderBody* reader = find_reader(target.reader.empty() ? target.name : target.reader);
      if (target.run == nullptr && reader != nullptr) target.run = reader->run;
    }
    return all;
  }();
  return targets;
}

}  // namespace tidemark::testing
