// Whatever is wrong with the input, the user gets one line that says where and what, exit status 2, nothing on stdout
// and no file.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/json_text.h"
#include "tests/support/program_run.h"
#include "tests/support/sanitized.h"

namespace tidemark::testing {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("the model no longer has: " + from);
  return text.replace(at, from.size(), to);
}

// ---- descriptions ---------------------------------------------------------------------------------------------------

struct BadModel {
  std::string name;
  std::string from, to;
  std::string pattern;
};

std::ostream& operator<<(std::ostream& out, const BadModel& bad) {
  return out << bad.name;
}

class BadModelTest : public ::testing::TestWithParam<BadModel> {};

TEST_P(BadModelTest, IsRefusedByEveryVerbThatReadsIt) {
  const Workplace place;
  place.write("models/bad.yaml", replaced(text_of(small_model()), GetParam().from, GetParam().to));
  for (const char* verb : {"plan", "estimate", "simulate", "check"})
    expect_refused(place, {verb, "models/bad.yaml"}, "^models/bad\\.yaml:[0-9]+: .*" + GetParam().pattern);
}

TEST(LargeFiles, AreRefusedUnreadByTheLimitOfTheirKind) {
  const Workplace place;
  place.write("large", "x");
  constexpr std::uintmax_t kBeyond = (std::uintmax_t{1} << 30) + 1;  // takes no room on the disk
  std::filesystem::resize_file(place.path("large"), kBeyond);
  const std::string small = small_model();
  const auto expect_limit = [&](const std::vector<std::string>& arguments, const std::string& limit) {
    expect_refused(place, arguments, "^large: is 1\\.00 GiB large; it must be at most " + limit);
  };
  expect_limit({"plan", "large"}, "1\\.00 MiB");
  expect_limit({"plan", "--megatron-args", "large"}, "1\\.00 MiB");
  expect_limit({"plan", small, "--imbalance-from", "large"}, "256\\.00 MiB");
  expect_limit({"plan", "--graph", "large", "--budget", "1GiB"}, "1\\.00 GiB");
  expect_limit({"estimate", "--truth", "large"}, "256\\.00 MiB");
  expect_limit({"show", "large"}, "1\\.00 GiB");
}

/// A job's own device lies beside the job, from wherever it is planned.
TEST(DeviceOfAJob, IsAPathFromTheJobsFile) {
  const Workplace place;
  const std::string job = replaced(text_of(small_model()), "device: ascend-910b-64g", "device: own/small.yaml");
  place.write("jobs/job.yaml", job);
  place.write("own/small.yaml", "not: this one\n");
  expect_refused(place, {"check", "jobs/job.yaml"},
                 "^jobs/job\\.yaml:[0-9]+: no device 'own/small\\.yaml' and no file jobs/own/small\\.yaml");
  place.write("jobs/own/small.yaml", text_of(source_path("devices/ascend-910b-64g.yaml")));
  const auto found = place.run({"estimate", "jobs/job.yaml", "--ranks", "0"});
  EXPECT_EQ(found.status, 0) << found.err;
  expect_refused(place, {"estimate", "jobs/job.yaml", "--device", "own/small.yaml"}, "^own/small\\.yaml:1: ");
}

/// The parser behind it makes documents without end of a token that belongs to no value.
TEST(EndlessYaml, IsRefusedByEveryVerbThatReadsIt) {
  const Workplace place;
  for (const std::string text : {",", "- a\n, b", "a: 1\n---\n,"}) {
    place.write("models/bad.yaml", text);
    const std::string pattern = "^models/bad\\.yaml:[0-9]+: .*(belongs to no value|document)";
    for (const char* verb : {"plan", "estimate", "simulate", "check"})
      expect_refused(place, {verb, "models/bad.yaml"}, pattern);
    for (const char* verb : {"plan", "estimate", "simulate"})
      expect_refused(place, {verb, "--megatron-args", "models/bad.yaml"}, pattern);
    expect_refused(place, {"plan", small_model(), "--device", "models/bad.yaml"}, pattern);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, BadModelTest,
    ::testing::Values(
        BadModel{"UnknownKey", "  vocabulary:", "  vocabluary:", "vocabluary.*vocabulary"},
        BadModel{"HeadsByTensor", "    heads: 16", "    heads: 15", "heads"},
        BadModel{"MeanLoadAboveRouting", "  coefficient_of_variation: 0.10",
                 "  coefficient_of_variation: 0.10\n  mean: 4.5",
                 "mean is 4.5, and routing sends a device of this job 4 times the mean of its expert group at most"},
        BadModel{"FrameworkMemoryWithoutAUnit", "  communicators: 6", "  communicators: 6\n  framework_memory: 1000000",
                 "framework_memory: .*a bare number has no unit"},
        BadModel{"FrameworkMemoryAboveAll", "  communicators: 6", "  communicators: 6\n  framework_memory: 2TiB",
                 "framework_memory is 2.00 TiB; it must be at most 1.00 TiB"},
        BadModel{"Nul", "  hidden: 1024",
                 std::string("  hidden: 10\0"
                             "24",
                             15),
                 "byte 0x00 is no part of a text"},
        BadModel{"ExpertsByRanks", "    experts: 16", "    experts: 18", "expert"},
        BadModel{"LayersFillNoStages", "moe: 7}", "moe: 8}", "(layer|slot|stage)"},
        BadModel{"GlobalBatch", "  global_batch: 16", "  global_batch: 15", "(batch)"},
        BadModel{"NegativeSize", "  hidden: 1024", "  hidden: -1024", "hidden"},
        BadModel{"ZeroSize", "  sequence: 2048", "  sequence: 0", "sequence"},
        BadModel{"AbsurdSize", "  hidden: 1024", "  hidden: 99999999999999999999999999", "hidden"},
        BadModel{"OverflowingProduct", "  vocabulary: 32000", "  vocabulary: 9007199254740992", "(2\\^53|vocabulary)"},
        BadModel{"NoNumber", "  hidden: 1024", "  hidden: many", "hidden"},
        BadModel{"KeyTwice", "  hidden: 1024", "  hidden: 1024\n  hidden: 1024", "hidden"},
        BadModel{"BrokenYaml", "model:", "model: [", ""},
        BadModel{"UnknownDevice", "device: ascend-910b-64g", "device: ascend-910b-46g", "ascend-910b-64g"}),
    [](const auto& test) { return test.param.name; });

TEST(BadFiles, AreNamed) {
  const Workplace place;
  place.write("empty.yaml", "");
  place.write("binary.yaml", std::string("\0\1\2\xff\xfe", 5));
  place.write("d/inside", "");
  for (const char* verb : {"plan", "estimate", "simulate", "check"}) {
    expect_refused(place, {verb, "missing.yaml"}, "^missing\\.yaml: cannot read: No such file");
    // A folder may hold a measured run: check looks for one.
    if (std::string_view(verb) != "check") expect_refused(place, {verb, "d"}, "^d: cannot read: Is a directory");
    expect_refused(place, {verb, "/dev/zero"}, "^/dev/zero: is not a regular file; give a file");
    expect_refused(place, {verb, "empty.yaml"}, "^empty\\.yaml:1: ");
    expect_refused(place, {verb, "binary.yaml"}, "^binary\\.yaml(:[0-9]+)?: ");
  }
}

/// A file of ours in the place of another kind: which it is, and what would be right.
TEST(BadFiles, OfAnotherKindAreToldApart) {
  const Workplace place;
  place.write("step.json", R"({"tidemark_graph": 1, "storages": [], "ops": []})");
  place.write("step.graph", "G 1 0\nN 0 1 1 0 a\n");
  // Longer than a model may be, so that its reader never sees it.
  place.write("plan.json",
              R"({"schema": "tidemark.plan", "schema_version": 9, "x": ")" + std::string(2 << 20, 'x') + "\"}");
  const std::string model = small_model();
  const std::string planned =
      "is a model file, where a plan file is wanted; make its plan first: tidemark plan .* --out";
  expect_refused(place, {"run", model}, planned);
  expect_refused(place, {"show", model}, planned);
  expect_refused(place, {"export", model, "--to", "megatron"}, planned);
  expect_refused(place, {"check", "step.json", "--budget", "1GiB"},
                 "^step\\.json:1: is a captured step, where a plan file is wanted; .* --graph step\\.json");
  for (const char* verb : {"plan", "estimate"}) {
    expect_refused(place, {verb, "plan.json"}, "^plan\\.json:1: is a plan file, where a model file is wanted; show, ");
    for (const char* step : {"step.json", "step.graph"})
      expect_refused(place, {verb, step},
                     "is a captured step, where a model file is wanted; plan it with: tidemark plan --graph");
  }
  expect_refused(place, {"plan", "--graph", model, "--budget", "1GiB"},
                 "is a model file, where a captured step is wanted; plan it with: tidemark plan ");
  expect_refused(place, {"plan", "--graph", "plan.json", "--budget", "1GiB"}, "is a plan file, where a captured step");
}

/// Whichever verb rebuilds the plan, and whatever else it would do with the policy.
TEST(PlanFiles, OfAPolicyThatIsNotKnownAreRefused) {
  const Workplace place;
  ASSERT_EQ(place.run({"plan", small_model(), "--out", "plan.json", "--quiet"}).status, 0);
  place.write("plan.json", replaced(place.read("plan.json"), R"("policy":"optimal")", R"("policy":"optimum")"));
  const std::string says =
      "^plan\\.json: policy 'optimum' is not known; it is one of keep-all, full-recompute, .*, greedy, optimal";
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"simulate", "plan.json"},
                                             {"show", "plan.json"},
                                             {"run", "plan.json"},
                                             {"check", "plan.json", "--budget", "60GiB"},
                                             {"diff", "plan.json", "plan.json"},
                                             {"export", "plan.json", "--to", "megatron"}})
    expect_refused(place, arguments, says);
}

TEST(BadStreams, StillEndWithTheStatusOfBadInput) {
  for (const char* line : {" list models >/dev/full 2>&-", " plan nope.yaml 2>&-", " plan nope.yaml 2>/dev/full"}) {
    const int status = std::system((testing::program_path() + line).c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << line << ": " << status;
  }
}

TEST(BadDevice, IsNamedWithItsLine) {
  const Workplace place;
  const std::string device = text_of(source_path("devices/ascend-910b-64g.yaml"));
  place.write("own.yaml", replaced(device, "visible: 60.97GiB", "visible: 60.97"));
  expect_refused(place, {"plan", small_model(), "--device", "own.yaml"}, "^own\\.yaml:[0-9]+: .*60\\.97");
  place.write("own.yaml", replaced(device, "visible: 60.97GiB", "visible: -1GiB"));
  expect_refused(place, {"plan", small_model(), "--device", "own.yaml"}, "^own\\.yaml:[0-9]+: ");
  expect_refused(place, {"plan", small_model(), "--device", "h100-08g"}, "--device: .*did you mean 'h100-80g'");
}

TEST(BadDevice, FoldersAreToldFromFilesInThem) {
  const Workplace place;
  place.write("own/b.yaml", "x");
  place.write("own/a.yaml", "x");
  place.write("none/readme", "x");
  for (const char* verb : {"plan", "estimate", "simulate", "check"}) {
    expect_refused(
        place, {verb, small_model(), "--device", "own"},
        "^tidemark [a-z]+: --device: 'own' is a folder; give one device file, such as own/a\\.yaml, or one of "
        "ascend");
    expect_refused(place, {verb, small_model(), "--device", "none"},
                   "'none' is a folder; give a device file, or one of");
    expect_refused(place, {verb, small_model(), "--device", "own/a.yaml"},
                   "^own/a\\.yaml:1: the file is not a list of `key: value` lines");
  }
}

/// Numbers that are each in range can make sums that no plan file holds.
TEST(BadDevice, TotalsThatNoPlanFileHoldsAreRefused) {
  const Workplace place;
  const std::string device = text_of(source_path("devices/ascend-910b-64g.yaml"));
  const auto expect_wrong = [&](const std::string& from, const std::string& to, const std::string& says) {
    place.write("own.yaml", replaced(device, from, to));
    expect_refused(place, {"plan", small_model(), "--device", "own.yaml", "--out", "plan.json"}, says);
    for (const char* verb : {"estimate", "simulate", "check"})
      expect_refused(place, {verb, small_model(), "--device", "own.yaml"}, says);
  };
  expect_wrong("collective_buffer: 400MiB", "collective_buffer: 500TiB",
               "^.*small-mla-moe\\.yaml: peak_bytes of rank 0 comes to [0-9]+; a plan holds 0 to 1125899906842624");
  expect_wrong("visible: 60.97GiB", "alignment: 1024TiB\n  visible: 60.97GiB",
               "^own\\.yaml:[0-9]+: alignment is 1024.00 TiB; it must be 1 B to 1.00 GiB");
  expect_wrong("bandwidth: 23.4GB/s", "bandwidth: 100B/s", "^own\\.yaml:[0-9]+: bandwidth must be from 1e\\+03");
  place.write("chips/own.yaml", replaced(text_of(source_path("devices/chips/ascend-910b-800t-a2.yaml")),
                                         "bf16: 313TFLOPS", "bf16: 0.000001GFLOPS"));
  expect_wrong("chip: ascend-910b-800t-a2", "chip: own",
               "^own\\.yaml:[0-9]+: chip: chips/own\\.yaml:[0-9]+: bf16 must be from 1e\\+06");
}

/// What lies beside a device file is its chip, also where it is of no use: the shipped one in its place would be a
/// surprise.
TEST(BadDevice, ChipsBesideItThatCannotBeTakenAreNotPassedOver) {
  const Workplace place;
  place.write("own.yaml", text_of(source_path("devices/ascend-910b-64g.yaml")));
  const std::string chip = text_of(source_path("devices/chips/ascend-910b-800t-a2.yaml"));
  const auto expect_wrong = [&](const std::string& says) {
    expect_refused(place, {"simulate", small_model(), "--device", "own.yaml"}, "^own\\.yaml:[0-9]+: chip: " + says);
  };
  place.write("chips/ascend-910b-800t-a2.yaml", replaced(chip, "name: ascend-910b-800t-a2", "name: another"));
  expect_wrong(
      "chips/ascend-910b-800t-a2\\.yaml: the name is 'another', but the file is taken for "
      "ascend-910b-800t-a2; name it as the file");
  std::filesystem::remove(place.path("chips/ascend-910b-800t-a2.yaml"));
  std::filesystem::create_directory(place.path("chips/ascend-910b-800t-a2.yaml"));
  expect_wrong("chips/ascend-910b-800t-a2\\.yaml: ");
}

// ---- options --------------------------------------------------------------------------------------------------------

TEST(ArgumentsNotUnderstood, AreWarnedOfOrRefused) {
  const Workplace place;
  place.write("run.yaml",
              "num-layers: 2\nnmu-layers: 3\nhidden-size: 64\nnum-attention-heads: 4\nseq-length: 128\n"
              "micro-batch-size: 1\nbf16: true\nattention-backend: flash\ndelay-wgrad-compute: true\n");
  const std::vector<std::string> plan = {"plan", "--megatron-args", "run.yaml", "--device", "h100-80g"};
  const Ran warned = place.run(plan);
  EXPECT_EQ(warned.status, 0) << warned.err;
  EXPECT_NE(warned.err.find("warning: run.yaml:2: --nmu-layers is not understood"), std::string::npos) << warned.err;
  std::vector<std::string> strict = plan;
  strict.emplace_back("--strict");
  expect_refused(place, strict,
                 "^run\\.yaml:2: --nmu-layers is not understood: unknown argument \\(did you mean --num-layers\\?\\); "
                 "run\\.yaml:9: --delay-wgrad-compute");
}

const std::string kArguments = testing::source_path("tests/data/arguments/moe.json").string();
const std::string kConfig = testing::source_path("tests/data/arguments/model_config.yaml").string();

struct BadUsage {
  std::string name;
  std::vector<std::string> arguments;  ///< MODEL stands for the small model
  std::string pattern;
};

std::ostream& operator<<(std::ostream& out, const BadUsage& bad) {
  return out << bad.name;
}

class BadUsageTest : public ::testing::TestWithParam<BadUsage> {};

TEST_P(BadUsageTest, IsRefused) {
  const Workplace place;
  std::vector<std::string> arguments = GetParam().arguments;
  std::ranges::replace(arguments, std::string("MODEL"), small_model());
  expect_refused(place, arguments, GetParam().pattern);
}

INSTANTIATE_TEST_SUITE_P(
    Usage, BadUsageTest,
    ::testing::Values(
        BadUsage{"NoVerb", {}, "^tidemark: no verb"},
        BadUsage{"GraphWithoutAName", {"plan", "--graph", "", "--budget", "1GiB"}, "--graph: the file name is empty"},
        BadUsage{"ResumeWithoutAName", {"search", "MODEL", "--resume", ""}, "--resume: the file name is empty"},
        BadUsage{"ResumeInNoFolder",
                 {"search", "MODEL", "--resume", "nowhere/log"},
                 "^nowhere/log: cannot write: No such file or directory"},
        BadUsage{"UnknownVerb", {"paln", "MODEL"}, "unknown verb 'paln'; did you mean 'plan'"},
        BadUsage{"VerbOfLater", {"defragment"}, "unknown verb 'defragment'"},
        BadUsage{"ControlCharacters", {"pl\nan\x1b[31m"}, "unknown verb 'pl\\?an\\?\\[31m'"},
        BadUsage{"OptionForVerb", {"--plan"}, "unknown option '--plan'"},
        BadUsage{"UnknownOption",
                 {"plan", "MODEL", "--budgte", "1GiB"},
                 "unknown option '--budgte'; did you mean '--budget'"},
        BadUsage{"UnknownOptionWithValue", {"plan", "MODEL", "--polcy=greedy"}, "'--polcy'; did you mean '--policy'"},
        BadUsage{"GivenTwice",
                 {"plan", "MODEL", "--budget", "1GiB", "--budget", "2GiB"},
                 "^tidemark plan: --budget: is given twice\n$"},
        BadUsage{"MoreThanAnyDevice", {"plan", "MODEL", "--budget", "1025TiB"}, "--budget: .*at most 1024.00 TiB"},
        BadUsage{"MoreThanAnyHost", {"plan", "MODEL", "--host-budget", "1025TiB"}, "--host-budget: .*at most 1024"},
        BadUsage{"UnknownOptionNoModel", {"plan", "--raport", "x"}, "'--raport'; did you mean '--report'"},
        BadUsage{"NoModel", {"plan"}, "MODEL is required"},
        BadUsage{"ModelAndArguments", {"plan", "MODEL", "--megatron-args", "x.sh"}, "excludes"},
        BadUsage{"StrictWithoutArguments", {"plan", "MODEL", "--strict"}, "--strict requires --megatron-args"},
        BadUsage{"NoDevices", {"plan", "--megatron-args", "x.sh", "--world-size", "0"}, "whole number from 1 to"},
        BadUsage{"ArgumentsWithoutDevice", {"plan", "--megatron-args", kArguments}, "--device is required"},
        BadUsage{"ArgumentsNotThere", {"plan", "--megatron-args", "x.sh", "--device", "h100-80g"}, "x.sh: cannot read"},
        BadUsage{"JobThatNoPlanDescribes",
                 {"plan", "--megatron-args", kConfig, "--device", "h100-80g"},
                 "model_config.yaml: a plan cannot describe attention that keeps its scores"},
        BadUsage{"TwoModels", {"plan", "MODEL", "MODEL"}, "unexpected argument"},
        BadUsage{"UnknownPolicy",
                 {"plan", "MODEL", "--policy", "optimall"},
                 "unknown policy 'optimall'; did you mean 'optimal'"},
        BadUsage{"UnknownFormat", {"plan", "MODEL", "--format", "jsn"}, "did you mean 'json'"},
        BadUsage{"BareSize", {"plan", "MODEL", "--budget", "60"}, "--budget: .*unit"},
        BadUsage{"NegativeSize", {"plan", "MODEL", "--budget", "-5GiB"}, "--budget: "},
        BadUsage{"HugeSize", {"plan", "MODEL", "--budget", "99999999999999TiB"}, "--budget: "},
        BadUsage{"UnknownUnit", {"plan", "MODEL", "--host-budget", "5GiBs"}, "--host-budget: "},
        BadUsage{"EmptySize", {"plan", "MODEL", "--budget", ""}, "--budget"},
        BadUsage{"BudgetTwice", {"plan", "MODEL", "--budget", "1GiB", "--budget", "2GiB"}, "--budget"},
        BadUsage{"MissingValue", {"plan", "MODEL", "--budget"}, "--budget"},
        BadUsage{"ImbalanceZero", {"plan", "MODEL", "--imbalance", "0"}, "--imbalance: .*range"},
        BadUsage{"ImbalanceNegative", {"plan", "MODEL", "--imbalance", "-1"}, "--imbalance: .*range"},
        BadUsage{"ImbalanceBelowTheMean",
                 {"plan", "MODEL", "--imbalance", "0.5"},
                 "--imbalance: load 0.5 cannot be; the fullest device of this job has 1 to 4 times the mean"},
        BadUsage{"ImbalanceAboveRouting",
                 {"plan", "MODEL", "--imbalance", "4.5"},
                 "--imbalance: load 4.5 cannot be; the fullest device of this job has 1 to 4 times the mean"},
        BadUsage{"ImbalanceNan", {"plan", "MODEL", "--imbalance", "nan"}, "--imbalance: "},
        BadUsage{"ImbalanceInfinite", {"plan", "MODEL", "--imbalance", "inf"}, "--imbalance: "},
        BadUsage{"ImbalanceHuge", {"plan", "MODEL", "--imbalance", "1e9"}, "--imbalance: .*range"},
        BadUsage{"QuantileOfAll", {"plan", "MODEL", "--imbalance", "p100"}, "--imbalance: .*range"},
        BadUsage{"QuantileOfNothing", {"plan", "MODEL", "--imbalance", "p"}, "--imbalance: "},
        BadUsage{"RankOutOfRange", {"plan", "MODEL", "--ranks", "0-2"}, "--ranks: rank 2 does not exist.*0 to 1"},
        BadUsage{"RanksBackwards", {"plan", "MODEL", "--ranks", "1-0"}, "--ranks: '1-0'"},
        BadUsage{"RanksNegative", {"plan", "MODEL", "--ranks", "-1"}, "--ranks: "},
        BadUsage{"RanksEmptyPart", {"plan", "MODEL", "--ranks", "0,,1"}, "--ranks: "},
        BadUsage{"ThreadsNegative", {"plan", "MODEL", "--threads", "-1"}, "--threads: .*0 to 1024"},
        BadUsage{"ThreadsMany", {"plan", "MODEL", "--threads", "1025"}, "--threads: .*0 to 1024"},
        BadUsage{"PackEffortZero", {"plan", "MODEL", "--pack-effort", "0"}, "--pack-effort: .*range"},
        BadUsage{"ScaleZero", {"plan", "MODEL", "--op-time-scale", "0"}, "--op-time-scale: .*range"},
        BadUsage{"LayerTimeNegative", {"plan", "MODEL", "--layer-ms", "-2"}, "--layer-ms: .*range"},
        BadUsage{"ScaleAndLayerTime",
                 {"plan", "MODEL", "--layer-ms", "10", "--op-time-scale", "2"},
                 "--layer-ms.*--op-time-scale|--op-time-scale.*--layer-ms"},
        BadUsage{"LoadAndCounts",
                 {"plan", "MODEL", "--imbalance", "1.5", "--imbalance-from", "x.csv"},
                 "--imbalance-from: .*exclude"},
        BadUsage{"CountsMissing", {"plan", "MODEL", "--imbalance-from", "x.csv"}, "^x\\.csv: cannot read"},
        BadUsage{"AgainstNothing",
                 {"simulate", "MODEL", "--against", "published"},
                 "nothing is published for small-mla-moe"},
        BadUsage{"AgainstSomeRanks",
                 {"simulate", "MODEL", "--against", "published", "--ranks", "0"},
                 "--against: needs every rank"},
        BadUsage{"PricesOfAQuantile", {"simulate", "MODEL", "--prices", "--imbalance", "p99"}, "--imbalance.*one load"},
        BadUsage{"PricesAgainst",
                 {"simulate", "MODEL", "--prices", "--against", "published"},
                 "--against.*keeps everything"},
        BadUsage{"PricesOfSomeRanks", {"simulate", "MODEL", "--prices", "--ranks", "0"}, "--ranks.*keeps everything"},
        BadUsage{
            "PricesOfAPolicy", {"simulate", "MODEL", "--prices", "--policy", "greedy"}, "--policy.*keeps everything"},
        BadUsage{"MarginBare", {"check", "MODEL", "--margin", "3"}, "--margin: .*unit"},
        BadUsage{"MarginAbsurd", {"check", "MODEL", "--margin", "101%"}, "--margin: .*0% to 100%"},
        BadUsage{"UnknownKind", {"list", "polices"}, "did you mean 'policies'"},
        BadUsage{"NoKind", {"list"}, "KIND is required"}),
    [](const auto& test) { return test.param.name; });

TEST(BadCounts, AreNamedWithTheirLine) {
  const Workplace place;
  place.write("counts.csv", "layer,micro_batch,device,rows\n1,0,0,10\n1,0,1,-3\n");
  expect_refused(place, {"plan", small_model(), "--imbalance-from", "counts.csv"}, "^counts\\.csv:3: rows is '-3'");
}

// ---- every verb -----------------------------------------------------------------------------------------------------

struct VerbInput {
  std::string verb;
  std::vector<std::string> file_in;  ///< what stands before and behind the file: "FILE" is replaced
  std::string number;                ///< an option that wants a number, or nothing
};

std::ostream& operator<<(std::ostream& out, const VerbInput& input) {
  return out << input.verb;
}

class EveryVerb : public ::testing::TestWithParam<VerbInput> {
 protected:
  [[nodiscard]] std::vector<std::string> words(const std::string& file,
                                               const std::vector<std::string>& more = {}) const {
    std::vector<std::string> list = {GetParam().verb};
    for (const std::string& word : GetParam().file_in) list.push_back(word == "FILE" ? file : word);
    list.insert(list.end(), more.begin(), more.end());
    return list;
  }

  /// In text: one line and nothing on stdout. As JSON: the same line, and an object that says so.
  void expect_two(std::vector<std::string> arguments, const std::string& pattern) const {
    SCOPED_TRACE(pattern);
    expect_refused(place, arguments, pattern);
    // In front: a missing value at the end would swallow it.
    arguments.insert(arguments.begin() + 1, {"--format", "json"});
    const Ran ran = place.run(arguments);
    EXPECT_EQ(ran.status, 2) << ran.err;
    EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
    const nlohmann::json json = parsed(ran.out);
    ASSERT_TRUE(json.is_object()) << ran.out;
    EXPECT_EQ(json.value("verdict", ""), "REFUSED");
    EXPECT_EQ(json.value("exit_status", 0), 2);
    EXPECT_EQ(json.value("kind", ""), "bad_input");
    EXPECT_NE(ran.err.find(json.value("message", "?")), std::string::npos) << ran.err;
  }

  Workplace place;
};

class EveryVerbWithAFile : public EveryVerb {};

TEST_P(EveryVerbWithAFile, NamesTheOneItCannotUse) {
  place.write("empty.json", "");
  place.write("cut.json", "{\"schema\": \"tidemark.plan\", \"sche");
  place.write("d.json/inside", "");
  expect_two(words("missing.json"), "^missing\\.json: cannot read: No such file");
  // A folder may hold a measured run.
  const bool takes_folders = GetParam().verb == "check" || GetParam().verb == "diff";
  expect_two(words("d.json"), takes_folders ? "--budget: needed|^d\\.json: the folder holds no measurement"
                                            : "^d\\.json: cannot read: Is a directory");
  expect_two(words("empty.json"), "^empty\\.json:1:");
  expect_two(words("cut.json"), "^cut\\.json:1:");
  expect_two(words("/dev/zero"), "^/dev/zero: is not a regular file");
  if (::geteuid() == 0) return;  // root may read anything
  place.write("locked.json", "{}");
  ::chmod(place.path("locked.json").c_str(), 0);
  expect_two(words("locked.json"), "^locked\\.json: cannot read: Permission denied");
}

TEST_P(EveryVerb, NamesAnOptionItCannotUse) {
  expect_two(words("x", {"--no-such-option"}), "unknown option '--no-such-option'");
  if (GetParam().number.empty()) return;
  for (const char* bad : {"x", "-1", "1e400", ""})
    expect_two(words("x", {GetParam().number, bad}), "^tidemark " + GetParam().verb + ": " + GetParam().number + ": ");
  expect_two(words("x", {GetParam().number}), GetParam().number + ": needs a value, ");
}

TEST_P(EveryVerb, TakesQuiet) {
  for (const char* quiet : {"-q", "--quiet"}) {
    const Ran ran = place.run(words("missing.json", {quiet}));
    EXPECT_EQ(ran.err.find("unknown option"), std::string::npos) << ran.err;
  }
}

TEST_P(EveryVerb, NamesTheFormatsItKnows) {
  expect_refused(place, words("x", {"--format", "yaml"}), "--format: .*text or json");
}

const std::vector<VerbInput> kFileVerbs = {
    {"plan", {"FILE"}, "--op-time-scale"}, {"estimate", {"FILE"}, "--top"}, {"simulate", {"FILE"}, "--layer-ms"},
    {"run", {"FILE"}, "--schedules"},      {"pack", {"FILE"}, "--work"},    {"replay", {"FILE"}, "--capacity"},
    {"check", {"FILE"}, "--top"},          {"show", {"FILE"}, "--rank"},    {"diff", {"FILE", "FILE"}, "--top"}};
const auto kVerbName = [](const auto& test) { return test.param.verb; };

INSTANTIATE_TEST_SUITE_P(Verbs, EveryVerbWithAFile, ::testing::ValuesIn(kFileVerbs), kVerbName);
INSTANTIATE_TEST_SUITE_P(Verbs, EveryVerb, ::testing::ValuesIn(kFileVerbs), kVerbName);
INSTANTIATE_TEST_SUITE_P(VerbsWithoutFiles, EveryVerb,
                         ::testing::Values(VerbInput{"list", {}, ""}, VerbInput{"doctor", {}, ""}), kVerbName);

// ---- outputs --------------------------------------------------------------------------------------------------------

/// Without a distribution there is nothing that a quantile would be of.
TEST(BadLoad, AQuantileNeedsADistribution) {
  const Workplace place;
  place.write("even.yaml",
              replaced(text_of(small_model()), "coefficient_of_variation: 0.10", "coefficient_of_variation: 0"));
  expect_refused(
      place, {"plan", "even.yaml", "--imbalance", "p99"},
      "--imbalance: a quantile is of the job's expert_load, whose coefficient_of_variation is 0; give a number");
}

TEST(BadExport, IsOneLine) {
  const Workplace place;
  place.write("none.json", "{}\n");
  expect_refused(place, {"export", "none.json", "--to", "megatrno"}, "did you mean 'megatron'");
  expect_refused(place, {"export", "none.json"}, "--to is required");
  expect_refused(place, {"export", "none.json", "--to", "megatron"}, "none.json: ");
  expect_refused(place, {"export", "missing.json", "--to", "megatron"}, "missing.json: ");
}

TEST(BadSearch, IsOneLine) {
  const Workplace place;
  const auto search = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"search", small_model()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  expect_refused(place, search({"--devices", "0"}), "--devices");
  expect_refused(place, search({"--devices", "7"}), "no legal layout on 7 devices");
  expect_refused(place, search({"--imbalance", "p99"}), "--imbalance: a search plans every layout at one load");
  expect_refused(place, search({"--ranks", "0"}), "--ranks: a search plans every rank");
  expect_refused(place, search({"--resume", "no/such/log"}), "no/such/log: cannot write");
}

/// A variable that a script left empty is no option left out: whatever reads the value, and however it is written.
TEST(EmptyValues, AreRefusedAndNamed) {
  const Workplace place;
  const std::string model = small_model();
  for (const char* option : {"--device", "--imbalance-from", "--calibration"}) {
    const std::string says =
        fmt::format("^tidemark plan: {}: the value is empty; give [A-Z|]+, or leave it out", option);
    expect_refused(place, {"plan", model, option, ""}, says);
    expect_refused(place, {"plan", model, std::string(option) + "="}, says);
    expect_refused(place, {"plan", std::string(option) + "=", model}, says);
  }
  expect_refused(place, {"plan", ""}, "^tidemark plan: MODEL: the value is empty");
  expect_refused(place, {"plan", "--megatron-args", ""}, "--megatron-args: the value is empty; give FILE");
  expect_refused(place, {"check", "--baseline", ""}, "--baseline: the value is empty; give FILE");
  expect_refused(place, {"check", "--job", ""}, "--job: the value is empty; give NAME");
  expect_refused(place, {"doctor", "--local-devices", ""}, "--local-devices: the value is empty; give LIST");
  expect_refused(place, {"simulate", model, "--loads", ""}, "--loads: the value is empty");
  expect_refused(place, {"estimate", "--truth", ""}, "--truth: the value is empty");
  expect_refused(place, {"calibrate", "--out", "x.json", "--snapshot", ""}, "--snapshot: the value is empty");
  expect_refused(place, {"search", model, "--architectures", ""}, "--architectures: the value is empty");
}

TEST(BadOutput, LeavesNothingBehind) {
  const Workplace place;
  place.write("d/inside", "");
  place.write("file", "");
  for (const char* option : {"--out", "--report", "--trace"}) {
    expect_refused(place, {"plan", small_model(), option, "no/such/place"},
                   "^no/such/place: cannot write: No such file");
    expect_refused(place, {"plan", small_model(), option, "d"}, "^d: cannot write: Is a directory");
    expect_refused(place, {"plan", small_model(), option, "file/below"}, "^file/below: cannot write: Not a directory");
    expect_refused(place, {"plan", small_model(), option, ""}, std::string(option));
  }
}

TEST(BadOutput, OneOfSeveralSparesTheOthers) {
  const Workplace place;
  place.write("plan.json", "old");
  const std::vector<std::string> common = {"plan", small_model()};
  const std::vector<std::string> names = {"plan.json", "report.html", "trace.json"};
  const std::vector<std::string> options = {"--out", "--report", "--trace"};
  for (std::size_t bad = 0; bad < names.size(); ++bad) {
    std::vector<std::string> arguments = common;
    for (std::size_t i = 0; i < names.size(); ++i) {
      arguments.push_back(options[i]);
      arguments.push_back(i == bad ? "missing/" + names[i] : names[i]);
    }
    expect_refused(place, arguments, "^missing/" + names[bad] + ": cannot write");
    EXPECT_EQ(place.read("plan.json"), "old");
  }
}

TEST(BadOutput, FullDevice) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  const Workplace place;
  expect_refused(place, {"plan", small_model(), "--report", "report.html", "--trace", "/dev/full"},
                 "^/dev/full: cannot write: No space left");
  const Ran ran = place.run({"list", "policies"}, "/dev/full");
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(is_one_line(ran.err)) << ran.err;
  EXPECT_NE(ran.err.find("stdout: cannot write"), std::string::npos) << ran.err;
}

TEST(BadOutput, ReadOnlyPlaces) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  const Workplace place;
  place.write("locked/file", "old");
  ::chmod(place.path("locked/file").c_str(), 0400);
  expect_refused(place, {"plan", small_model(), "--out", "locked/file"}, "^locked/file: cannot write: Permission");
  ::chmod(place.path("locked").c_str(), 0500);
  expect_refused(place, {"plan", small_model(), "--out", "locked/new"}, "^locked/new: cannot write: Permission");
  ::chmod(place.path("locked").c_str(), 0700);
}

TEST(BadOutput, NeverReplacesAnInput) {
  const Workplace place;
  place.write("models/own.yaml", text_of(small_model()));
  expect_refused(place, {"plan", "models/own.yaml", "--out", "./models/../models/own.yaml"},
                 "it is read by this command");
  expect_refused(place, {"plan", small_model(), "--out", "x", "--trace", "./x"}, "named for two outputs");
}

// ---- plan files -----------------------------------------------------------------------------------------------------

class BadPlanFile : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = new Workplace;
    const Ran ran = place_->run({"plan", small_model(), "--out", "good.json", "--quiet"});
    ASSERT_EQ(ran.status, 0) << ran.err;
    good_ = place_->read("good.json");
  }
  static void TearDownTestSuite() { delete place_; }

  static void expect_refused_by_readers(const std::string& text, const std::string& pattern) {
    place_->write("bad.json", text);
    expect_refused(*place_, {"show", "bad.json"}, pattern);
    expect_refused(*place_, {"check", "bad.json", "--budget", "60GiB"}, pattern);
    expect_refused(*place_, {"diff", "good.json", "bad.json"}, pattern);
  }

  static Workplace* place_;
  static std::string good_;
};
Workplace* BadPlanFile::place_ = nullptr;
std::string BadPlanFile::good_;

TEST_F(BadPlanFile, CutAnywhere) {
  constexpr std::size_t kCuts = testing::kSanitized ? 9 : 25;
  for (std::size_t cut = 0; cut < kCuts; ++cut) {
    SCOPED_TRACE(cut);
    // The last newline may go without harm; everything before it may not.
    expect_refused_by_readers(good_.substr(0, cut * (good_.size() - 2) / (kCuts - 1)), "^bad\\.json:");
  }
}

TEST_F(BadPlanFile, SomethingElse) {
  expect_refused_by_readers("{}", "^bad\\.json: ");
  expect_refused_by_readers("[]", "^bad\\.json: ");
  expect_refused_by_readers("null", "^bad\\.json: ");
  expect_refused_by_readers(std::string(100'000, '['), "^bad\\.json:");
  nlohmann::json later = parsed(good_);
  ASSERT_TRUE(later.contains("schema_version"));
  later["schema_version"] = 1000;
  expect_refused_by_readers(later.dump(), "^bad\\.json: .*1000");
}

/// Numbers that could stand there but do not belong to the rest of the file.
TEST_F(BadPlanFile, FiguresOfSomethingElse) {
  const auto expect_wrong = [](const std::string& pointer, const nlohmann::json& value, const std::string& says,
                               bool graph_free = true) {
    nlohmann::json edited = parsed(good_);
    edited.at(nlohmann::json::json_pointer(pointer)) = value;
    place_->write("bad.json", edited.dump());
    for (const char* verb : {"check", "run", "show"})
      expect_refused(*place_, {verb, "bad.json"}, "^bad\\.json: .*" + says);
    if (graph_free) expect_refused(*place_, {"diff", "good.json", "bad.json"}, "^bad\\.json: .*" + says);
  };
  const nlohmann::json good = parsed(good_);
  const auto more = [&](const std::string& pointer) {
    return good.at(nlohmann::json::json_pointer(pointer)).get<std::int64_t>() + 512;
  };
  for (const char* figure : {"reserve_bytes", "peak_bytes", "budget_bytes", "host_bytes", "static_bytes"}) {
    const std::string pointer = std::string("/ranks/1/figures/") + figure;
    expect_wrong(pointer, more(pointer), "figures of rank 1 do not follow from its program .*was the file edited");
  }
  expect_wrong("/ranks/0/figures/fits", false, "rank 0 .*\\(fits\\)");
  expect_wrong("/ranks/0/program/arenas/0/capacity_bytes", more("/ranks/0/program/arenas/0/capacity_bytes"),
               "rank 0 .*\\(capacity_bytes\\)");
  expect_wrong("/machine/d2h/bytes_per_s", 1e6, "rank 0 was planned for another machine than the file describes");
  expect_wrong("/ranks/1/sites/loads/0/1", 3, "names, sites or loads of rank 1 are not those of its job", false);
  expect_wrong("/templates/0/storage_templates/0/1", "other", "names, sites or loads of rank ", false);
}

/// The program is asked, as for any other rule.
TEST_F(BadPlanFile, APromiseThatItsProgramDoesNotKeep) {
  nlohmann::json edited = parsed(good_);
  edited["ranks"][1]["figures"]["worst_load_f"] = 5;
  place_->write("bad.json", edited.dump());
  const std::string says = "worst_load_f is 5 where its program has 4";
  const Ran checked = place_->run({"check", "bad.json"});
  EXPECT_EQ(checked.status, 1);
  EXPECT_EQ(checked.out, "FAIL rank 1: the program breaks a rule: " + says + "\n");
  const Ran ran = place_->run({"run", "bad.json"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.err, "tidemark run: rank 1: the program breaks a rule and would not run safely: " + says + "\n");
}

/// The step that run compares its own with.
TEST_F(BadPlanFile, AStepThatIsNotOfItsPrograms) {
  nlohmann::json edited = parsed(good_);
  edited["step"]["step_ns"] = 12345;
  place_->write("bad.json", edited.dump());
  expect_refused(*place_, {"run", "bad.json"}, "the plan's step of 12345 ns does not follow from its programs");
}

TEST_F(BadPlanFile, WrongRank) {
  expect_refused(*place_, {"show", "good.json", "--rank", "7"},
                 "^good\\.json: rank 7 is not in this plan; it holds ranks 0-1");
  expect_refused(*place_, {"check", "good.json", "--policy", "greedy"},
                 "--policy: a plan file is checked as it was planned");
}

}  // namespace
}  // namespace tidemark::testing
