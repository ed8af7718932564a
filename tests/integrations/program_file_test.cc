#include "integrations/formats/program_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <tuple>

#include "core/fingerprint.h"
#include "core/verify.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/field_visitors.h"
#include "integrations/formats/file.h"  // beside field_ranges.h: the limits of both must have names of their own
#include "integrations/formats/import_yaml.h"
#include "planner/graph_build/static_memory.h"
#include "planner/layout/lay_out.h"
#include "policies/policies.h"
#include "tests/support/captured_steps.h"
#include "tests/support/data.h"
#include "tests/support/devices.h"
#include "tests/support/json_text.h"
#include "tests/support/plan_figures.h"
#include "tests/support/tiny_graph.h"
#include "tests/support/tiny_schedule.h"

namespace tidemark {
namespace {

// Every member differs from its default, so that a member forgotten by writer or reader shows.
formats::PlanFile::Rank tiny_rank(std::int32_t number) {
  Graph graph = testing::chain_graph({.layers = 2, .micro_batches = 2, .warm_up = 1, .communication = true});
  graph.rank = number;
  graph.sites[2].load = 1.25F;
  formats::PlanFile::Rank rank;
  rank.outline = formats::outline_of(graph);
  rank.decisions.rows = {
      {.key = {.storage_template = id_of<StorageTemplateId>(1), .chunk = 0, .layer = 0, .gap = 1},
       .action = Action::recompute,
       .recipe = id_of<RecipeId>(0),
       .exceptions = {{.micro_batch = 0, .action = Action::swap}, {.micro_batch = 1, .action = Action::keep}}},
      {.key = {.storage_template = id_of<StorageTemplateId>(2), .chunk = 0, .layer = 1}, .action = Action::swap}};
  Program& program = rank.program;
  program.schedule = testing::keep_all_schedule(graph);
  program.schedule.tasks[5].storage = id_of<StorageId>(4);
  program.schedule.residencies[4].space = MemorySpace::host;
  for (std::size_t r = 0; r < program.schedule.residencies.size(); ++r) {
    Residency& residency = program.schedule.residencies[r];
    residency.acquire = static_cast<std::int32_t>(3 * r);
    residency.release = static_cast<std::int32_t>(5 * r + 1);
  }
  program.layout = testing::side_by_side(program.schedule, 512);
  program.layout.arenas[0].dynamic_bytes = 512;
  program.layout.device_load_bytes = 12345;
  program.layout.packer = "by \"hand\"\n";
  for (std::size_t t = 0; t < program.schedule.tasks.size(); ++t)
    program.estimate_ns.push_back(static_cast<int>(t * t % 7));
  // Ranks 0 and 1 of two write to each other.
  const std::int32_t peer = 1 - number;
  program.receives = {
      {.task = id_of<TaskId>(3), .peer_rank = peer, .tag = -6 - peer, .arrival_estimate_ns = 1'000'000'007}};
  program.sends = {{.task = id_of<TaskId>(2), .peer_rank = peer, .tag = -6 - number}};
  program.schedule.rank = number;
  program.routed = {{.residency = id_of<ResidencyId>(3),
                     .site = id_of<SiteId>(1),
                     .fixed_bytes = 5,
                     .rows = 6,
                     .row_bytes = 7,
                     .rows_of = RowsOf::sent}};
  program.routing_slots = {id_of<ResidencyId>(7), id_of<ResidencyId>(2)};
  program.section_ends = {id_of<TaskId>(1), id_of<TaskId>(4), id_of<TaskId>(6)};
  program.graph_fingerprint = fingerprint(graph);
  rank.figures.rank = number;
  rank.figures.load = 1.1;
  rank.figures.added_ns = 77;
  rank.figures.fits = true;
  rank.figures.peak_op = "out, chunk 0";
  rank.attempts = {{.target_bytes = -3, .height_bytes = 5, .load_bytes = 4, .packer = "x"}, {}};
  return rank;
}

graph_build::JobSpec small_job() {
  const auto path = testing::source_path("models/small-mla-moe.yaml");
  Result<graph_build::JobSpec> job = formats::read_job(testing::text_of(path), path.string());
  EXPECT_TRUE(job.ok());
  return job.value();
}

Machine small_machine() {
  const auto path = testing::source_path("devices/ascend-910b-64g.yaml");
  Result<Machine> machine = formats::read_machine(testing::text_of(path), path.string(), testing::shipped_chips());
  EXPECT_TRUE(machine.ok());
  return machine.value();
}

formats::PlanFile tiny_file() {
  formats::PlanFile file;
  file.job = small_job();
  file.machine = small_machine();
  file.policy = "greedy";
  file.budget_bytes = Bytes{1} << 40;
  file.host_budget_bytes = Bytes{1} << 39;
  file.load = 1.5;
  file.time_scale = 2.25;
  file.step = {.step_ns = 5, .bubble_percent = 0.1, .tokens_per_s = 1e17};
  file.parameters = {.total = 7.179e11, .active = 3.9e10};
  file.ranks = {tiny_rank(0), tiny_rank(1)};
  for (formats::PlanFile::Rank& rank : file.ranks) {
    rank.program.machine_fingerprint = fingerprint(file.machine);
    testing::set_figures(rank.program, graph_build::reserve_memory(file.machine, file.job.parallel).total(),
                         *file.budget_bytes, rank.figures);
  }
  return file;
}

Error error_of(std::string_view text) {
  const auto result = formats::read_plan_file(text, "plan.json");
  EXPECT_FALSE(result.ok());
  return result.ok() ? Error{} : result.error();
}

void expect_error(std::string_view text, std::string_view says) {
  const std::string message = error_of(text).message;
  EXPECT_NE(message.find(says), std::string::npos) << message;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(ProgramFile, ReadsBackWhatWasWritten) {
  const formats::PlanFile file = tiny_file();
  const std::string text = formats::write_plan_file(file);
  const auto back = formats::read_plan_file(text, "plan.json");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back.value().ranks[0].program, file.ranks[0].program);
  EXPECT_EQ(back.value().ranks[1].outline, file.ranks[1].outline);
  EXPECT_EQ(back.value(), file);
  EXPECT_EQ(formats::write_plan_file(back.value()), text);
}

TEST(ProgramFile, AbsentOptionsAndNoRanksSurvive) {
  formats::PlanFile file = tiny_file();
  file.budget_bytes.reset();
  file.load.reset();
  file.ranks.clear();
  const auto back = formats::read_plan_file(formats::write_plan_file(file), "plan.json");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back.value(), file);
}

TEST(ProgramFile, OutlineNamesStorages) {
  const Graph graph = testing::chain_graph({.layers = 2});
  const formats::GraphOutline outline = formats::outline_of(graph);
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    const auto storage = id_of<StorageId>(s);
    EXPECT_EQ(outline.template_of(storage).name, graph.template_of(storage).name);
    EXPECT_EQ(outline.site_of(storage), graph.site_of(storage));
  }
}

// How many members an aggregate has, found by how many initialisers it takes.
struct Anything {
  template <class T>
  operator T() const;  // NOLINT: meant to convert to whatever a member is
};
template <class T, class... Given>
constexpr std::size_t members(Given... given) {
  if constexpr (requires { T{given..., Anything{}}; }) {
    return members<T>(given..., Anything{});
  } else {
    return sizeof...(Given);
  }
}

struct MemberCounter {
  std::size_t count = 0;
  template <class T>
  void operator()(std::string_view, const T&) {
    ++count;
  }
  template <class T, class W>
  void word(std::string_view, const T&, const W&) {
    ++count;
  }
  template <class T>
  void object(std::string_view, const T&) {
    ++count;
  }
  template <class T>
  void later(std::string_view, const T&) {
    ++count;
  }
  template <class T>
  void unless_default(std::string_view, const T&, const T&) {
    ++count;
  }
  template <class T, class W>
  void word_unless_default(std::string_view, const T&, const W&) {
    ++count;
  }
  template <class T>
  void object_unless_default(std::string_view, const T&) {
    ++count;
  }
  template <class T>
  void layers(std::string_view, const T&) {
    ++count;
  }
  template <class T>
  void terms(std::string_view, const T&) {
    ++count;
  }
  template <class T>
  void slots(std::string_view, const T&) {
    ++count;
  }
  template <class T>
  void tiles(std::string_view, const T&) {
    ++count;
  }
};

template <class T>
std::size_t walked() {
  MemberCounter counter;
  const T value{};
  formats::walk(counter, value);
  return counter.count;
}

TEST(ProgramFile, EveryMemberIsInTheTables) {
  EXPECT_EQ(walked<graph_build::AttentionSpec>(), members<graph_build::AttentionSpec>());
  EXPECT_EQ(walked<graph_build::MoeSpec>(), members<graph_build::MoeSpec>());
  EXPECT_EQ(walked<graph_build::MambaSpec>(), members<graph_build::MambaSpec>());
  EXPECT_EQ(walked<graph_build::LinearAttentionSpec>(), members<graph_build::LinearAttentionSpec>());
  EXPECT_EQ(walked<graph_build::ModelSpec>(), members<graph_build::ModelSpec>());
  EXPECT_EQ(walked<graph_build::ParallelSpec>(), members<graph_build::ParallelSpec>());
  EXPECT_EQ(walked<graph_build::ExpertLoadSpec>(), members<graph_build::ExpertLoadSpec>());
  EXPECT_EQ(walked<graph_build::JobSpec>(), members<graph_build::JobSpec>());
  EXPECT_EQ(walked<Machine>(), members<Machine>() + 4);  // the chip's sheet, rates, terms and two bands
  EXPECT_EQ(walked<DeviceSheet>(), members<DeviceSheet>());
  EXPECT_EQ(walked<FittedRates>(), members<FittedRates>());
  EXPECT_EQ(walked<plan::RankFigures>(), members<plan::RankFigures>());
  EXPECT_EQ(walked<plan::PlanAttempt>(), members<plan::PlanAttempt>());
  EXPECT_EQ(walked<plan::StepFigures>(), members<plan::StepFigures>());
  EXPECT_EQ(walked<graph_build::ParameterCount>(), members<graph_build::ParameterCount>());
  EXPECT_EQ(walked<Arena>(), members<Arena>());
}

// A real job, tight enough that storages are swapped and recomputed.
plan::PlanRequest planned_request() {
  return {.job = small_job(),
          .machine = small_machine(),
          .policy = policies::find_policy("optimal"),
          .budget_bytes = 5 * kGiB,
          .host_budget_bytes = 100 * kMiB};
}

const plan::PlanOutcome& planned() {
  static const plan::PlanOutcome outcome = [] {
    Result<plan::PlanOutcome> result = plan::plan_step(planned_request());
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return std::move(result).value();
  }();
  return outcome;
}

std::string planned_text() {
  return formats::write_plan_file(planned_request(), planned());
}

TEST(ProgramFile, RealProgramsSurviveAndVerify) {
  const auto file = formats::read_plan_file(planned_text(), "plan.json");
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file.value().ranks.size(), planned().ranks.size());
  for (std::size_t r = 0; r < planned().ranks.size(); ++r) {
    const plan::RankPlan& rank = planned().ranks[r];
    EXPECT_EQ(file.value().ranks[r].program, rank.program);
    EXPECT_EQ(file.value().ranks[r].decisions, rank.decisions);
    EXPECT_EQ(file.value().ranks[r].figures, rank.figures);
    if (!rank.figures.fits) continue;
    const auto broken = verify_program(rank.graph, file.value().ranks[r].program);
    EXPECT_FALSE(broken.has_value()) << broken->detail;
  }
}

TEST(ProgramFile, BytesDoNotDependOnTheThreadCount) {
  const std::string text = planned_text();
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  EXPECT_EQ(planned_text(), text);
}

/// Tight enough that the step of captured_features() recomputes and swaps.
const plan::PlanOutcome& captured_plan(plan::PlanRequest& request) {
  request = testing::captured_request(testing::captured_features(), 700);
  request.step->rules.collective = true;
  static const plan::PlanOutcome outcome = plan::plan_step(request).value();
  return outcome;
}

std::string captured_text() {
  plan::PlanRequest request;
  const plan::PlanOutcome& outcome = captured_plan(request);
  return formats::write_plan_file(request, outcome);
}

TEST(ProgramFile, CapturedStepsSurviveWithEverythingTheyHave) {
  plan::PlanRequest request;
  const plan::PlanOutcome& outcome = captured_plan(request);
  ASSERT_TRUE(outcome.fits());
  const Graph& graph = *request.step->graph;
  const std::string text = formats::write_plan_file(request, outcome);
  const Result<formats::PlanFile> read = formats::read_plan_file(text, "plan.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  const formats::PlanFile& file = read.value();
  EXPECT_EQ(file.step_name, "step");
  ASSERT_NE(file.graph, nullptr);
  EXPECT_EQ(fingerprint(*file.graph), fingerprint(graph));
  EXPECT_EQ(file.ranks.front().program.graph_fingerprint, fingerprint(graph));
  EXPECT_EQ(file.ranks.front().outline, formats::outline_of(graph));
  EXPECT_EQ(file.ranks.front().program, outcome.ranks.front().program);
  EXPECT_EQ(file.ranks.front().decisions, outcome.ranks.front().decisions);
  EXPECT_EQ(file.ranks.front().figures, outcome.ranks.front().figures);
  EXPECT_EQ(formats::write_plan_file(file), text);
  const auto broken = verify_program(*file.graph, file.ranks.front().program);
  EXPECT_FALSE(broken.has_value()) << broken->detail;
}

/// A fingerprint that leaves something out would let the test above pass.
TEST(ProgramFile, EveryFeatureOfACapturedStepIsInItsColumns) {
  const Graph graph = *formats::read_plan_file(captured_text(), "plan.json").value().graph,
              made = testing::captured_features();
  EXPECT_EQ(graph.given_costs, made.given_costs);
  ASSERT_EQ(graph.storages.size(), made.storages.size());
  for (std::size_t s = 0; s < made.storages.size(); ++s) {
    const StorageTemplate &of = graph.storage_templates[s], &as = made.storage_templates[s];
    EXPECT_EQ(std::tie(of.name, of.module_path, of.role, of.fixed_bytes),
              std::tie(as.name, as.module_path, as.role, as.fixed_bytes));
    EXPECT_EQ(std::tie(of.swappable, of.initial, of.lasting, of.given_copies),
              std::tie(as.swappable, as.initial, as.lasting, as.given_copies))
        << as.name;
    EXPECT_EQ(graph.storages[s].held_until, made.storages[s].held_until) << as.name;
  }
  ASSERT_EQ(graph.accesses.size(), made.accesses.size());
  for (std::size_t a = 0; a < made.accesses.size(); ++a) {
    EXPECT_EQ(graph.accesses[a].storage, made.accesses[a].storage);
    EXPECT_EQ(graph.accesses[a].version, made.accesses[a].version);
    EXPECT_EQ(graph.accesses[a].kind, made.accesses[a].kind);
  }
  ASSERT_EQ(graph.recipes.size(), made.recipes.size());
  for (std::size_t r = 0; r < made.recipes.size(); ++r) {
    const Recipe &of = graph.recipes[r], &as = made.recipes[r];
    EXPECT_EQ(std::tie(of.outputs, of.sources, of.transients), std::tie(as.outputs, as.sources, as.transients));
    EXPECT_EQ(std::tie(of.pure, of.needs_random_state, of.collective),
              std::tie(as.pure, as.needs_random_state, as.collective));
  }
}

/// The values of a column of the graph set to one, one column at a time.
TEST(ProgramFile, GraphColumnsMustBeInRange) {
  const auto document = testing::parsed(captured_text());
  const auto expect_refused = [&](const std::string& pointer, std::int64_t value) {
    auto bad = document;
    auto& column = bad[nlohmann::json::json_pointer(pointer)];
    const auto count = column["count"].get<std::int64_t>();
    ASSERT_GT(count, 0) << pointer;
    column = {{"count", count}, {"data", {value}}};
    if (count > 1) column["data"].push_back({1, count - 1});
    expect_error(bad.dump(), "plan.json: " + pointer);
  };
  for (const char* column :
       {"bytes", "storage_bits", "held_until", "cost", "accesses", "access_storage", "access_kind", "recipe_op",
        "recipe_bits", "copies/out_link", "copies/out_compute", "copies/in_link", "copies/in_compute"}) {
    expect_refused(std::string("/graph/") + column, -2);
    expect_refused(std::string("/graph/") + column, std::int64_t{1} << 60);
  }
  const std::string text = captured_text();
  expect_error(replaced(text, "\"transients\":1", "\"transients\":1000"), "plan.json: /graph/transients");
  expect_error(replaced(text, "\"cost_quantum\":0.5", "\"cost_quantum\":0"), "plan.json: /graph/cost_quantum");
  expect_error(replaced(text, "\"cost_unit\":\"ns\"", "\"cost_unit\":\"s\""), "must be one of ns, joule, one");
  auto many = document;
  many["ranks"].push_back(many["ranks"][0]);
  expect_error(many.dump(), "/ranks: has 2 ranks; a plan with a graph has one");
}

TEST(ProgramFile, SaysWhereTheTextIsNoJson) {
  const std::string text = formats::write_plan_file(tiny_file());
  EXPECT_EQ(error_of("").message, "plan.json:1:1: the text ends in the middle of the plan; is the file cut short?");
  expect_error(text.substr(0, text.size() / 2), "cut short");
  expect_error(replaced(text, "\"times\":", "\"times\";"), "plan.json:2:8: not valid JSON here");
  expect_error("{\"schema\":1e999}", "plan.json:1:15: a number in the file is too large");
}

TEST(ProgramFile, PlansOlderThanTheFrameworksReserveHaveNone) {
  formats::PlanFile file = tiny_file();
  file.job.parallel.framework_bytes = 7;
  const std::string text = formats::write_plan_file(file);
  const Result<formats::PlanFile> older =
      formats::read_plan_file(replaced(text, ",\"framework_bytes\":7", ""), "plan.json");
  ASSERT_TRUE(older.ok()) << older.error().message;
  file.job.parallel.framework_bytes = 0;
  EXPECT_EQ(older.value(), file);
  expect_error(replaced(text, "\"framework_bytes\":7", "\"framework_bytes\":-7"), "/job/parallel/framework_bytes");
}

TEST(ProgramFile, RowsAreCountedBeforeTheyAreUnfolded) {
  const std::string text = formats::write_plan_file(tiny_file());
  expect_error(replaced(text, "\"section_ends\":{\"count\":3,\"coding\":\"delta\",\"data\":[1,3,2]",
                        "\"section_ends\":{\"count\":49000000,\"data\":[0,[1,48999999]]"),
               "/ranks: its columns have more than ");
}

TEST(ProgramFile, RowsOfAGraphAreCounted) {
  auto bad = testing::parsed(captured_text());
  bad["graph"]["access_storage"] = {{"count", 49000000}, {"data", {0, {1, 48999999}}}};
  expect_error(bad.dump(), "/graph: its columns have more than ");
}

TEST(ProgramFile, SaysWhatIsNoPlan) {
  const std::string text = formats::write_plan_file(tiny_file());
  formats::PlanFile twice = tiny_file();
  twice.ranks[1] = twice.ranks[0];
  expect_error(formats::write_plan_file(twice), "plan.json: /ranks/1: rank 0 is given twice");
  expect_error("[]", "plan.json: /: must be an object with a member 'schema'");
  expect_error("{}", "plan.json: /: has no member 'schema'");
  expect_error(replaced(text, "tidemark.plan", "tidemark.plum"), "plan.json: /schema: must be 'tidemark.plan'");
  for (const char* other : {"1", "2", "3", "4", "5", "6", "7", "8"})
    expect_error(
        replaced(text, "\"schema_version\":9", std::string("\"schema_version\":") + other),
        std::string("plan.json: /schema_version: is ") + other + "; this version of Tidemark reads only 9: plan again");
  expect_error(replaced(text, "\"schema_version\":9", "\"schema_version\":\"4\""),
               "/schema_version: must be a whole number");
  expect_error(replaced(text, "\"measured_terms\":[", "\"measured_terms\":[\"luck\","),
               "/machine/measured_terms/0: is no term of step time");
  expect_error(replaced(text, "\"heads\":", "\"haeds\":"), "/job/model/attention: has no member 'heads'");
  expect_error(replaced(text, "\"heads\":", "\"heads\":-"), "/job: model.attention.heads");
  expect_error(replaced(text, "\"kind\":\"mla\"", "\"kind\":\"mqa\""),
               "/job/model/attention/kind: must be one of gqa, mla");
  expect_error(replaced(text, "\"visible_bytes\":", "\"visible_bytes\":-"),
               "/machine/visible_bytes: must be a whole number from 0");
  expect_error(replaced(text, "\"fits\":true", "\"fits\":1"), "/ranks/0/figures/fits: must be true or false");
  expect_error(replaced(text, "\"action\":\"swap\"", "\"action\":\"swop\""), "must be one of keep, recompute, swap");
  expect_error(replaced(text, "\"storage_template\":1,", "\"storage_template\":99,"),
               "/ranks/0/decisions/0/storage_template");
  expect_error(replaced(text, "\"storages\":", "\"storages\":1"), "/ranks/0/sites");
  expect_error(replaced(text, "\"graph_fingerprint\":\"0x", "\"graph_fingerprint\":\"0X"), "16 hexadecimal digits");
  expect_error(replaced(text, "\"compute_tasks\":", "\"compute_tasks\":1"),
               "/ranks/0/program/tasks: the schedule counts");
}

// The columns of one rank, by their place in the document, changed one at a time.
TEST(ProgramFile, IdsAndSizesMustBeInRange) {
  const auto document = testing::parsed(formats::write_plan_file(tiny_file()));
  const auto expect_refused = [&](const std::string& pointer, std::int64_t value) {
    auto bad = document;
    auto& column = bad[nlohmann::json::json_pointer(pointer)];
    const auto count = column["count"].get<std::int64_t>();
    ASSERT_GT(count, 0) << pointer;
    column = {{"count", count}, {"data", {value}}};
    if (count > 1) column["data"].push_back({1, count - 1});
    expect_error(bad.dump(), "plan.json: " + pointer);
  };
  const std::string program = "/ranks/1/program/";
  for (const char* column :
       {"tasks/kind", "tasks/lane", "tasks/op_template", "tasks/site", "tasks/copy_task", "tasks/copy_storage",
        "touch_residency", "touch_kind", "residencies/storage", "residencies/space", "residencies/first_task",
        "residencies/arena", "routing_slots", "receives/task", "sends/task", "routed/residency", "routed/site",
        "routed/rows_of", "section_ends"}) {
    expect_refused(program + column, 1000);
    expect_refused(program + column, -2);
  }
  for (const char* column :
       {"residencies/bytes", "residencies/offset", "residencies/acquire", "wait_back", "tasks/touches", "tasks/waits",
        "routed/fixed_bytes", "routed/rows", "routed/row_bytes", "sends/peer_rank"}) {
    expect_refused(program + column, -1);
  }
  expect_refused(program + "wait_back", 1000);
  expect_refused("/ranks/1/sites/block", 7);
  expect_refused("/ranks/1/sites/load_number", 7);
  expect_refused("/ranks/1/sites/first_storage", 7);
}

/// A short file that counts two billion touches is refused for what it has, not out of memory.
TEST(ProgramFile, CountsThatAddUpToAnythingTakeNoRoom) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the limit on memory leaves no room for the sanitizer";
#else
  auto bad = testing::parsed(formats::write_plan_file(tiny_file()));
  auto& column = bad["ranks"][1]["program"]["tasks"]["touches"];
  column = {{"count", column["count"]}, {"data", {2'000'000'000}}};
  const auto count = column["count"].get<std::int64_t>();
  if (count > 1) column["data"].insert(column["data"].end(), {0, nlohmann::json::array({1, count - 2})});
  const std::string text = bad.dump();
  const pid_t child = ::fork();
  if (child == 0) {
    const struct rlimit limit = {.rlim_cur = std::size_t{8} << 30, .rlim_max = std::size_t{8} << 30};
    ::setrlimit(RLIMIT_AS, &limit);
    const Result<formats::PlanFile> read = formats::read_plan_file(text, "plan.json");
    ::_exit(!read && read.error().message.find("/program/touch_residency: ") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
#endif
}

// Numbers that Tidemark never writes, one at a time, by their place in the document.
TEST(ProgramFile, NumbersWithoutSenseAreRefused) {
  const auto document = testing::parsed(formats::write_plan_file(tiny_file()));
  const auto expect_refused = [&](const std::string& pointer, const nlohmann::json& value, const std::string& says) {
    auto bad = document;
    bad.at(nlohmann::json::json_pointer(pointer)) = value;
    expect_error(bad.dump(), "plan.json: " + pointer + ": " + says);
  };
  for (const char* link : {"d2h", "h2d"}) {
    const std::string pointer = std::string("/machine/") + link;
    for (const double rate : {0.0, -1.0, 1e-300, 1e300})
      expect_refused(pointer + "/bytes_per_s", rate, fmt::format("is {}; it must be at least 1000", rate));
    expect_refused(pointer + "/bytes_per_s", "inf", "must be a number");
    expect_refused(pointer + "/bytes_per_s", nullptr, "must be a number");  // what NaN becomes
    expect_refused(pointer + "/latency_ns", -1.5, "is -1.5; it must be at least 0");
    expect_refused(pointer + "/latency_ns", 1e18, "is 1e+18; it must be at least 0 and at most 1000000000");
  }
  for (const char* share : {"matmul", "grouped_matmul", "attention", "memory", "intra_link", "inter_link", "fp8"}) {
    const std::string pointer = std::string("/machine/rates/") + share + "_share";
    expect_refused(pointer, 0, "is 0; it must be above 0 and at most 1");
    expect_refused(pointer, 1.5, "is 1.5; it must be above 0 and at most 1");
  }
  expect_refused("/machine/sheet/bf16_flops_per_s", 0, "is 0; it must be at least 1000000");
  expect_refused("/machine/sheet/memory_bytes_per_s", -3, "is -3; it must be at least 1000");
  expect_refused("/machine/sheet/cores", 0, "must be a whole number from 1 to 65536");
  expect_refused("/machine/sheet/tiles", nlohmann::json::array(), "has 0 tiles; a device has 1 to 16");
  expect_refused("/machine/sheet/tiles/0/0", 0, "must be a whole number from 1");
  expect_refused("/machine/sheet/tiles/0/2", 1.5, "is 1.5; it must be above 0 and at most 1");
  for (const char* time : {"launch_s", "hop_s"})
    expect_refused(std::string("/machine/rates/") + time, -1, "is -1; it must be at least 0 and at most 1");
  expect_refused("/machine/copy_launch_ns", -1, "is -1; it must be at least 0");
  expect_refused("/machine/softmax_statistics_width", 0, "must be a whole number from 1 to 64");
  expect_refused("/machine/sheet/devices_per_node", 0, "must be a whole number from 1");
  for (const char* pointer : {"/machine/alignment_bytes", "/ranks/1/program/arenas/0/alignment_bytes"}) {
    for (const std::int64_t alignment : {3, 513})
      expect_refused(pointer, alignment, fmt::format("is {}; it must be a power of two", alignment));
    for (const Bytes alignment : {Bytes{0}, 2 * kGiB})
      expect_refused(pointer, alignment, "must be a whole number from 1 to 1073741824");
  }
  for (const double load : {0.0, -1.0, 65537.0, 1e308}) {
    const std::string says = fmt::format("is {}; it must be above 0 and at most 65536", load);
    expect_refused("/load", load, says);
    expect_refused("/ranks/0/figures/load", load, says);
    expect_refused("/ranks/1/sites/loads/0/1", load, says);
  }
  expect_refused("/time_scale", 0, "is 0; it must be at least 1e-12");
  expect_refused("/ranks/0/figures/worst_load_f", -1, "is -1; it must be at least 0");
  expect_refused("/ranks/0/figures/worst_load_f", 1e300, "is 1e+300; it must be at least 0");
  expect_refused("/step/step_ns", -1, "must be a whole number from 0");
  expect_refused("/step/bubble_percent", -5, "is -5; it must be at least 0");
  expect_refused("/step/mfu_percent", 1e308, "is 1e+308; it must be at least 0");
  expect_refused("/parameters/total", 1e308, "is 1e+308; it must be at least 0");
  expect_refused("/ranks/0/figures/swapped_bytes_per_step", -1, "must be a whole number from 0");
  expect_refused("/ranks/0/figures/recompute_ns", -1, "must be a whole number from 0");
  expect_refused("/budget_bytes", std::numeric_limits<std::int64_t>::max(), "must be a whole number from 0");
  expect_refused("/machine/workspace_bytes", std::numeric_limits<std::int64_t>::max(), "must be a whole number");
}

formats::PlanFile changed(void (*change)(formats::PlanFile&)) {
  formats::PlanFile file = tiny_file();
  change(file);
  return file;
}

void expect_file_error(void (*change)(formats::PlanFile&), std::string_view says) {
  expect_error(formats::write_plan_file(changed(change)), says);
}

TEST(ProgramFile, TimesMustBeTimesAndAddUp) {
  expect_file_error([](formats::PlanFile& f) { f.ranks[1].program.estimate_ns[4] = -1; },
                    "plan.json: /ranks/1/program/estimate_ns: row 4 is -1, not from 0");
  expect_file_error([](formats::PlanFile& f) { f.ranks[0].program.receives[0].arrival_estimate_ns = -1; },
                    "/ranks/0/program/receives/arrival_estimate_ns: row 0 is -1");
  // Each a time, all together none.
  expect_file_error([](formats::PlanFile& f) { f.step.step_ns = std::numeric_limits<std::int64_t>::max(); },
                    "/step/step_ns: must be a whole number from 0");
  formats::PlanFile file = tiny_file();
  Program& program = file.ranks[1].program;
  std::ranges::fill(program.estimate_ns, formats::kMostTaskNs);
  const std::size_t tasks = program.estimate_ns.size();
  ASSERT_LT(static_cast<std::int64_t>(tasks), formats::kMostStepNs / formats::kMostTaskNs);
  EXPECT_TRUE(formats::read_plan_file(formats::write_plan_file(file), "plan.json").ok());
}

TEST(ProgramFile, TasksOfAllRanksTogetherMustBeATime) {
  // A long chain, since a task alone cannot be that long.
  const Graph graph = testing::chain_graph({.layers = 16, .micro_batches = 32, .warm_up = 1});
  formats::PlanFile file = tiny_file();
  formats::PlanFile::Rank rank = tiny_rank(1);
  rank.outline = formats::outline_of(graph);
  rank.decisions.rows.clear();
  rank.program = {.schedule = testing::keep_all_schedule(graph)};
  rank.program.schedule.rank = 1;
  rank.program.layout = testing::side_by_side(rank.program.schedule, 512);
  file.ranks[0].program.sends.clear();
  file.ranks[0].program.receives.clear();
  const std::size_t tasks = rank.program.schedule.tasks.size();
  ASSERT_GT(static_cast<std::int64_t>(tasks), formats::kMostStepNs / formats::kMostTaskNs);
  rank.program.estimate_ns.assign(tasks, formats::kMostTaskNs);
  file.ranks[1] = rank;
  expect_error(formats::write_plan_file(file), "plan.json: /ranks/1/program/estimate_ns: adds up to more than");
}

TEST(ProgramFile, EndsOfSectionsAscend) {
  expect_file_error([](formats::PlanFile& f) { f.ranks[1].program.section_ends[2] = id_of<TaskId>(4); },
                    "plan.json: /ranks/1/program/section_ends: row 2 must be above the 4 before it");
  const formats::PlanFile none = changed([](formats::PlanFile& f) {
    for (formats::PlanFile::Rank& rank : f.ranks) rank.program.section_ends.clear();
  });
  const Result<formats::PlanFile> read = formats::read_plan_file(formats::write_plan_file(none), "plan.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value(), none);
  const std::string text = formats::write_plan_file(none);
  expect_error(replaced(text, "\"section_ends\":", "\"other\":"),  // it is always there
               "/ranks/0/program: has no member 'section_ends'");
}

TEST(ProgramFile, StaysLieInTheirArena) {
  expect_file_error([](formats::PlanFile& f) { f.ranks[0].program.layout.offset_of[3] = Bytes{1} << 49; },
                    "/ranks/0/program/residencies/offset: row 3 ends at byte");
  expect_file_error([](formats::PlanFile& f) { f.ranks[0].program.layout.arenas[0].height_bytes -= 512; },
                    "/ranks/0/program/residencies/offset: row ");
}

TEST(ProgramFile, RanksAscend) {
  expect_file_error([](formats::PlanFile& f) { std::swap(f.ranks[0], f.ranks[1]); },
                    "plan.json: /ranks/1: rank 0 stands behind rank 1; ranks must ascend");
  expect_file_error([](formats::PlanFile& f) { f.ranks[1] = f.ranks[0]; },
                    "plan.json: /ranks/1: rank 0 is given twice");
  expect_file_error([](formats::PlanFile& f) { f.ranks[1].figures.rank = 2; },
                    "plan.json: /ranks/1: is rank 2, but the job has pipeline ranks 0 to 1");
  expect_file_error([](formats::PlanFile& f) { f.ranks[1].program.schedule.rank = 0; },
                    "plan.json: /ranks/1/program/rank: is 0 where the figures have 1");
}

TEST(ProgramFile, MessagesHaveTwoEnds) {
  expect_file_error([](formats::PlanFile& f) { f.ranks[0].program.sends[0].tag = 77; },
                    "plan.json: /ranks/1/program/receives/tag: row 0 is -6, which rank 0 never sends");
  expect_file_error([](formats::PlanFile& f) { f.ranks[1].program.receives.clear(); },
                    "plan.json: /ranks/0/program/sends/tag: row 0 is -6, which rank 1 never receives");
  expect_file_error([](formats::PlanFile& f) { f.ranks[0].program.sends.push_back(f.ranks[0].program.sends[0]); },
                    "plan.json: /ranks/0/program/sends/tag: row 1 is -6, the tag of another message from rank 0");
  expect_file_error([](formats::PlanFile& f) { f.ranks[0].program.sends[0].peer_rank = 0; },
                    "plan.json: /ranks/0/program/sends/peer_rank: row 0 is 0; it must be another of the pipeline");
  expect_file_error([](formats::PlanFile& f) { f.ranks[0].program.sends[0].peer_rank = 2; },
                    "plan.json: /ranks/0/program/sends/peer_rank: row 0 is 2; it must be another of the pipeline");
  // A rank that is not in the file may be anybody's partner.
  EXPECT_TRUE(formats::read_plan_file(
                  formats::write_plan_file(changed([](formats::PlanFile& f) { f.ranks.pop_back(); })), "plan.json")
                  .ok());
}

// Whatever happens to the text, the answer is a plan or one line that names the file.
void expect_tame(const std::string& text) {
  const auto result = formats::read_plan_file(text, "plan.json");
  if (result.ok()) return;
  const std::string& message = result.error().message;
  EXPECT_EQ(message.rfind("plan.json:", 0), 0U) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 400U) << message;
  EXPECT_EQ(result.error().code, Error::Code::bad_input);
}

TEST(ProgramFile, EveryTruncationIsRefused) {
  const std::string text = formats::write_plan_file(tiny_file());
  for (std::size_t bytes = 0; bytes + 2 < text.size(); bytes += 1 + bytes % 61) {
    const auto result = formats::read_plan_file(std::string_view(text).substr(0, bytes), "plan.json");
    ASSERT_FALSE(result.ok()) << bytes;
    EXPECT_NE(result.error().message.find("cut short"), std::string::npos) << result.error().message;
  }
}

TEST(ProgramFile, DamagedBytesNeverHarm) {
  const std::string text = formats::write_plan_file(tiny_file());
  std::mt19937 random(77);
  for (int round = 0; round < 1500; ++round) {
    std::string damaged = text;
    for (std::size_t flips = 1 + random() % 3; flips > 0; --flips) {
      char& byte = damaged[random() % damaged.size()];
      // Digits turned into digits keep the text valid and test the checks behind the parser.
      byte = byte >= '0' && byte <= '9' && random() % 4 != 0 ? static_cast<char>('0' + random() % 10)
                                                             : static_cast<char>(random() % 256);
    }
    expect_tame(damaged);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "round " << round;
  }
}

// What scripts/read_plan.py makes of a column.
std::string python_column(const std::filesystem::path& file, const std::string& column) {
  const std::string command = std::string(TIDEMARK_PYTHON) + " -B " +
                              testing::source_path("scripts/read_plan.py").string() + " " + file.string() +
                              " --column " + column;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string output;
  std::array<char, 4096> buffer{};
  while (std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) output.append(buffer.data(), got);
  return output;
}

template <class Rows, class Get>
std::string one_a_line(const Rows& rows, Get get) {
  std::string text;
  for (const auto& row_value : rows) text += std::to_string(get(row_value)) + "\n";
  return text;
}

TEST(ProgramFile, TenLinesOfPythonReadTheSame) {
  const auto path =
      std::filesystem::temp_directory_path() / ("tidemark_program_file_test_" + std::to_string(getpid()) + ".json");
  std::ofstream(path, std::ios::binary) << planned_text();
  const Program& program = planned().ranks[0].program;
  const Schedule& s = program.schedule;
  EXPECT_EQ(python_column(path, "0/program/tasks/site"),
            one_a_line(s.tasks, [](const Task& t) { return static_cast<std::int32_t>(t.site); }));
  EXPECT_EQ(python_column(path, "0/program/tasks/kind"),
            one_a_line(s.tasks, [](const Task& t) { return static_cast<int>(t.kind); }));
  EXPECT_EQ(python_column(path, "0/program/touch_residency"),
            one_a_line(s.touches, [](const auto& t) { return static_cast<std::int32_t>(t.residency); }));
  EXPECT_EQ(python_column(path, "0/program/residencies/offset"),
            one_a_line(program.layout.offset_of, [](Bytes offset) { return offset; }));
  EXPECT_EQ(python_column(path, "0/program/estimate_ns"),
            one_a_line(program.estimate_ns, [](std::int64_t ns) { return ns; }));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tidemark
