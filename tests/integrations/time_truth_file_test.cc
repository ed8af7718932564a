// Files of measured step times: what is read of them, what is refused with a reason, what is a mistake in one line.

#include "integrations/formats/time_truth_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/fuzz/mutation.h"
#include "tests/support/data.h"
#include "tests/support/json_text.h"

namespace tidemark::testing {
namespace {

using nlohmann::json;
using step_time::RecomputedModule;
using step_time::TimeRow;

std::vector<TimeRow> read(const std::string& text) {
  const Result<std::vector<TimeRow>> rows = formats::read_time_truth(text, "times.json");
  EXPECT_TRUE(rows.ok()) << rows.error().message;
  return rows.ok() ? rows.value() : std::vector<TimeRow>{};
}

const std::string& own_text() {
  static const std::string text = text_of(source_path("tests/data/step_times.json"));
  return text;
}

/// The row whose id begins so, of the file made for tests.
TimeRow own(std::string_view beginning) {
  for (const TimeRow& row : read(own_text()))
    if (row.id.starts_with(beginning)) return row;
  ADD_FAILURE() << "no row " << beginning;
  return {};
}

bool has_note(const TimeRow& row, std::string_view beginning) {
  return std::ranges::any_of(row.notes, [&](const std::string& note) { return note.starts_with(beginning); });
}

TEST(TimeTruth, ARowCarriesItsNamesFiguresAndRun) {
  const TimeRow row = own("vtrain-single/a/tp2pp2");
  EXPECT_EQ(row.group, "vtrain-single/a");
  EXPECT_EQ(row.split_key, "vtrain-single/a");
  EXPECT_EQ(row.track, "1 vtrain single");
  EXPECT_EQ(row.software, "vtrain");
  EXPECT_EQ(row.device, "a100-vtrain8");
  EXPECT_EQ(row.precision, "fp16");
  EXPECT_EQ(row.devices, 8);
  EXPECT_EQ(row.measured_s, 0.5);
  EXPECT_EQ(row.model_flops_per_s, 30.5e12);
  EXPECT_TRUE(row.is_scored);
  EXPECT_EQ(row.refused, "");
  EXPECT_EQ(row.run.model.layers, 24);
  EXPECT_TRUE(row.run.model.is_tied);
  EXPECT_EQ(row.run.data, 2);
  EXPECT_EQ(row.run.micro_batches(), 4);
  EXPECT_EQ(row.run.recomputed.layers, 1);
  EXPECT_FALSE(row.run.is_sequence_parallel);
}

TEST(TimeTruth, EverySourceHasItsTrack) {
  std::map<std::string, std::string> track_of;
  for (const TimeRow& row : read(own_text())) track_of.emplace(row.software, row.track);
  const std::map<std::string, std::string> expected = {
      {"vtrain", "1 vtrain single"},
      {"vtrain-multi", "2 vtrain multi"},
      {"megatron-2022", "2b korthikanti"},
      {"megatron-2021", "2c sc21"},
      {"foundry", "3 fsdp bf16"},
      {"internevo", "3 fsdp bf16"},
      {"titan", "3 fsdp bf16"},
      {"fms", "3 fsdp bf16"},
      {"jax", "3 fsdp bf16"},
      {"dgxc", "4 h100 fp8"},
      {"nemo", "4 h100 fp8"},
      {"bridge", "9 blackwell moe"},
      {"megatron-core", "5 moe bf16"},
      {"mindspeed", "6 ascend dense"},
      {"mindspeed-ci", "6 ascend dense"},
      {"mindformers", "6 ascend dense"},
  };
  EXPECT_EQ(track_of, expected);
}

TEST(TimeTruth, RowsOfShardedWeights) {
  const TimeRow pure = own("foundry/");
  EXPECT_EQ(pure.run.sharded, 64);
  EXPECT_EQ(pure.run.reduced_bytes, 2);
  EXPECT_FALSE(pure.run.gathers_once);
  const TimeRow hybrid = own("fms-fsdp/");
  EXPECT_EQ(hybrid.run.sharded, 8);
  EXPECT_TRUE(hybrid.run.gathers_once);
  const TimeRow titan = own("titan/g");
  EXPECT_TRUE(titan.run.recomputed.is_half_of_products);
  EXPECT_EQ(titan.run.fused_vector_share, 0.6);
  EXPECT_EQ(titan.run.tensor_hidden, 0.6);
  EXPECT_EQ(titan.run.network_share, 0.5);
  EXPECT_EQ(own("internevo/").run.optimizer_span, 8);
  EXPECT_TRUE(has_note(own("jax-maxtext/"), "recompute 'minimal_flash'"));
}

TEST(TimeTruth, RowsOfRecipes) {
  const TimeRow dgxc = own("dgxc/");
  EXPECT_EQ(dgxc.run.virtual_pipeline, 8);
  EXPECT_EQ(dgxc.run.micro_batches(), 32.5);
  EXPECT_TRUE(has_note(dgxc, "global batch is no whole number"));
  EXPECT_EQ(own("nemo/").run.document, 1024);
  const TimeRow table = own("bridge/l");
  EXPECT_TRUE(table.run.sends_once_a_node);
  EXPECT_TRUE(table.run.model.alternates_window);
  EXPECT_EQ(table.run.precision, Precision::mxfp8);
  EXPECT_TRUE(has_note(table, "windows alternate"));
  EXPECT_TRUE(has_note(table, "mxfp8"));
  const TimeRow overlap = own("bridge-overlap/");
  EXPECT_EQ(overlap.run.expert_hidden, 0.37);
  EXPECT_EQ(overlap.run.more_moe_launches, -15);
  const TimeRow latent = own("bridge-recompute/");
  EXPECT_TRUE(latent.run.model.is_mla);
  EXPECT_EQ(latent.run.model.mla.kv_lora, 512);
  EXPECT_EQ(latent.run.model.moe_layers, 26);
  EXPECT_EQ(latent.run.model.mtp_layers, 1);
  EXPECT_EQ(latent.run.recomputed.modules, (std::vector<RecomputedModule>{{"moe_act"}, {"mla_up_proj"}}));
}

TEST(TimeTruth, RowsOfLaunchScripts) {
  const TimeRow core = own("ci/");
  EXPECT_EQ(core.run.recomputed.modules, (std::vector<RecomputedModule>{{"moe_act"}}));
  EXPECT_FALSE(core.is_scored);  // tier L
  for (const char* note : {"which layers have experts", "gradients are not exchanged", "deterministic kernels",
                           "overlap of the exchange between experts", "overlap of tensor parallel"})
    EXPECT_TRUE(has_note(core, note)) << note;
  const TimeRow ascend = own("mindspeed/");
  EXPECT_EQ(ascend.run.recomputed.layers, 0.5);
  EXPECT_EQ(ascend.run.document, 1024);
  EXPECT_EQ(ascend.run.tensor_hidden, 0.7);
  EXPECT_EQ(ascend.run.recomputed.modules, (std::vector<RecomputedModule>{{"activation"}}));
  for (const char* note :
       {"vocabulary not stated", "optimizer state is held whole", "attention without the fused kernel"})
    EXPECT_TRUE(has_note(ascend, note)) << note;
  const TimeRow graph = own("mindformers/");
  EXPECT_EQ(graph.run.recomputed.layers, 0.5);  // 16 of 32 layers over four stages
  EXPECT_TRUE(has_note(graph, "recompute of chosen operators"));
  EXPECT_TRUE(has_note(graph, "optimizer state is held whole"));
}

TEST(TimeTruth, RowsWithoutARunAreKeptWithTheReason) {
  const TimeRow row = own("titan/s");
  EXPECT_EQ(row.refused, "micro-batch size not stated");
  EXPECT_EQ(row.measured_s, 53.5);
  EXPECT_TRUE(row.is_scored);
  const TimeRow hybrid = own("bridge/t");
  EXPECT_EQ(hybrid.refused, "model without layers (hybrid or not described)");
  EXPECT_FALSE(hybrid.measured_s.has_value());
  EXPECT_FALSE(hybrid.model_flops_per_s.has_value());
  EXPECT_FALSE(hybrid.is_scored);
}

TEST(TimeTruth, FiguresFromMemoryAndOtherTiersAreNotScored) {
  EXPECT_TRUE(own("korthikanti/").is_scored);
  EXPECT_TRUE(own("dgxc/").is_scored);   // tier B
  EXPECT_FALSE(own("sc21/").is_scored);  // recalled
  EXPECT_EQ(own("sc21/").measured_s, 20.5);
  for (const char* row :
       {R"({"id": "a", "tier": "C", "derived": {"step_s": 1}})", R"({"id": "a", "derived": {"step_s": 1}})",
        R"({"id": "a", "tier": "A"})", R"({"id": "a", "tier": "A", "derived": {"step_s": null}})",
        R"({"id": "a", "tier": "A", "derived": {"step_s": 0}})"})
    EXPECT_FALSE(read("{\"rows\": [" + std::string(row) + "]}").at(0).is_scored) << row;
}

TEST(TimeTruth, ARowStandsForItselfWhereItNamesNoGroup) {
  const TimeRow row = read(R"({"rows": [{"id": "a"}]})").at(0);
  EXPECT_EQ(row.group, "a");
  EXPECT_EQ(row.split_key, "a");
  EXPECT_EQ(row.refused, "software not known");
  EXPECT_EQ(row.track, "4 h100 fp8");
}

TEST(TimeTruth, SpansOfTheOptimizerAreRanksAllOrATruth) {
  const auto with = [](const json& zero) {
    json file = parsed(own_text());
    file["rows"][0]["parallel"]["zero1"] = zero;
    return read(file.dump()).at(0);
  };
  EXPECT_EQ(with(4).run.optimizer_span, 4);
  EXPECT_EQ(with(-1).run.optimizer_span, 0);
  EXPECT_EQ(with(true).run.optimizer_span, 0);
  EXPECT_TRUE(has_note(with(false), "optimizer state is held whole"));
  EXPECT_FALSE(has_note(with(true), "optimizer state is held whole"));
}

TEST(TimeTruth, MembersThatAreNotNamedAreNotRead) {
  json file = parsed(own_text());
  for (json& row : file["rows"]) {
    row["notes"] = json::array({1, 2});
    row["measured"] = 7;
    row["model"]["kind"] = false;
  }
  EXPECT_EQ(read(file.dump()).size(), file["rows"].size());
}

// Whatever a row lacks, it is kept, with a run or a reason.
TEST(TimeTruth, RowsThatLackMembersAreRefusedNotDropped) {
  const json whole = parsed(own_text());
  std::size_t refused = 0;
  const auto check = [&refused](const json& row) {
    const std::vector<TimeRow> rows = read(json{{"rows", {row}}}.dump());
    ASSERT_EQ(rows.size(), 1U);
    refused += rows[0].refused.empty() ? 0U : 1U;
    EXPECT_TRUE(!rows[0].refused.empty() || rows[0].run.micro_batches() >= 1) << row.dump();
  };
  for (const json& row : whole["rows"]) {
    for (const auto& [key, value] : row.items()) {
      if (key == "id") continue;
      json cut = row;
      cut.erase(key);
      check(cut);
      cut[key] = nullptr;
      check(cut);
      if (!value.is_object()) continue;
      for (const auto& [inner, unused] : value.items()) {
        json less = row;
        less[key].erase(inner);
        check(less);
        less[key][inner] = nullptr;
        check(less);
      }
    }
  }
  EXPECT_GT(refused, 100U);
}

// ---- mistakes -------------------------------------------------------------------------------------------------------

struct BadTimes {
  std::string name, text, message;
};

std::ostream& operator<<(std::ostream& out, const BadTimes& bad) {
  return out << bad.name;
}

class BadTimesTest : public ::testing::TestWithParam<BadTimes> {};

TEST_P(BadTimesTest, IsRefusedInOneLine) {
  const Result<std::vector<TimeRow>> rows = formats::read_time_truth(GetParam().text, "times.json");
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.error().code, Error::Code::bad_input);
  EXPECT_EQ(rows.error().message.find('\n'), std::string::npos);
  EXPECT_TRUE(rows.error().message.starts_with("times.json:")) << rows.error().message;
  EXPECT_NE(rows.error().message.find(GetParam().message), std::string::npos) << rows.error().message;
}

/// A file of one row with this beside its id.
std::string one(const std::string& members) {
  return R"({"rows": [{"id": "a", )" + members + "}]}";
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadTimesTest,
    ::testing::Values(
        BadTimes{"Empty", "", "times.json:1:1: the text ends in the middle of the rows"},
        BadTimes{"NoJson", "rows:\n", "times.json:1:1: not valid JSON here"},
        BadTimes{"NoRows", R"({"row": []})", "/: has no member 'rows'"},
        BadTimes{"NoRow", R"({"rows": []})", "/rows: holds no row"},
        BadTimes{"RowsNoList", R"({"rows": {}})", "/rows: must be a list"},
        BadTimes{"RowNoObject", R"({"rows": [7]})", "/rows/0: must be an object with a member 'id'"},
        BadTimes{"NoId", R"({"rows": [{}]})", "/rows/0: has no member 'id'"},
        BadTimes{"EmptyId", R"({"rows": [{"id": ""}]})", "/rows/0/id: must not be empty"},
        BadTimes{"IdNoText", R"({"rows": [{"id": 3}]})", "/rows/0/id: must be a text"},
        BadTimes{"SameId", R"({"rows": [{"id": "a"}, {"id": "b"}, {"id": "a"}]})",
                 "/rows/2/id: is that of /rows/0 too; a run is there once"},
        BadTimes{"SourceNoText", one(R"("source": 1)"), "/rows/0/source: must be a text"},
        BadTimes{"GroupNoText", one(R"("group": 1)"), "/rows/0/group: must be a text"},
        BadTimes{"KeyNoText", one(R"("split_key": [])"), "/rows/0/split_key: must be a text"},
        BadTimes{"TierNoText", one(R"("tier": 1)"), "/rows/0/tier: must be a text"},
        BadTimes{"RecalledNoTruth", one(R"("recalled": "yes")"), "/rows/0/recalled: must be true or false"},
        BadTimes{"PrecisionNoText", one(R"("precision": 16)"), "/rows/0/precision: must be a text"},
        BadTimes{"FlashNoTruth", one(R"("flash": 1)"), "/rows/0/flash: must be true or false"},
        BadTimes{"HardwareNoObject", one(R"("hardware": "h100")"), "/rows/0/hardware: must be an object"},
        BadTimes{"DeviceNoText", one(R"("hardware": {"name": 1})"), "/rows/0/hardware/name: must be a text"},
        BadTimes{"NoDevices", one(R"("hardware": {"count": 0})"),
                 "/rows/0/hardware/count: must be a whole number from 1"},
        BadTimes{"TooManyDevices", one(R"("hardware": {"count": 16777217})"),
                 "/rows/0/hardware/count: must be a whole"},
        BadTimes{"ModelNoObject", one(R"("model": [])"), "/rows/0/model: must be an object"},
        BadTimes{"LayersText", one(R"("model": {"layers": "32"})"), "/rows/0/model/layers: must be a whole number"},
        BadTimes{"LayersReal", one(R"("model": {"layers": 32.5})"), "/rows/0/model/layers: must be a whole number"},
        BadTimes{"LayersNegative", one(R"("model": {"layers": -1})"), "must be a whole number from 0 to 100000"},
        BadTimes{"HugeWidth", one(R"("model": {"hidden": 99999999999})"), "/rows/0/model/hidden: must be a whole"},
        BadTimes{"DenseLayers", one(R"("model": {"dense_layers": -2})"), "must be a whole number from -1"},
        BadTimes{"GatedNoTruth", one(R"("model": {"gated": 1})"), "/rows/0/model/gated: must be true or false"},
        BadTimes{"MlaNoObject", one(R"("model": {"mla": true})"), "/rows/0/model/mla: must be an object"},
        BadTimes{"MlaWidth", one(R"("model": {"mla": {"kv_lora": -1}})"), "/rows/0/model/mla/kv_lora: must be"},
        BadTimes{"LayoutNoObject", one(R"("parallel": 1)"), "/rows/0/parallel: must be an object"},
        BadTimes{"DegreeText", one(R"("parallel": {"tp": "8"})"), "/rows/0/parallel/tp: must be a whole number"},
        BadTimes{"HugeDegree", one(R"("parallel": {"pp": 1048577})"), "/rows/0/parallel/pp: must be a whole number"},
        BadTimes{"ZeroText", one(R"("parallel": {"zero1": "all"})"), "/rows/0/parallel/zero1: must be a whole"},
        BadTimes{"SequenceParallel", one(R"("parallel": {"sp": 1})"), "/rows/0/parallel/sp: must be true or false"},
        BadTimes{"BatchZero", one(R"("mbs": 0)"), "/rows/0/mbs: must be a whole number from 1"},
        BadTimes{"BatchText", one(R"("gbs": "64")"), "/rows/0/gbs: must be a whole number from 1"},
        BadTimes{"SequenceReal", one(R"("seq": 1e3)"), "/rows/0/seq: must be a whole number from 1"},
        BadTimes{"RecomputeNoObject", one(R"("recompute": "full")"), "/rows/0/recompute: must be an object"},
        BadTimes{"GranularityNoText", one(R"("recompute": {"granularity": true})"),
                 "/rows/0/recompute/granularity: must be a text"},
        BadTimes{"LayersRecomputed", one(R"("recompute": {"num_layers": "1x"})"),
                 "/rows/0/recompute/num_layers: must be a whole number"},
        BadTimes{"ModulesNoList", one(R"("recompute": {"modules": 1})"), "/rows/0/recompute/modules: must be a list"},
        BadTimes{"ModuleNoText", one(R"("recompute": {"modules": [1]})"),
                 "/rows/0/recompute/modules/0: must be a text"},
        BadTimes{"OverlapNoObject", one(R"("overlap": true)"), "/rows/0/overlap: must be an object"},
        BadTimes{"OverlapNoTruth", one(R"("overlap": {"mc2": "on"})"), "/rows/0/overlap/mc2: must be true or false"},
        BadTimes{"GraphsNoList", one(R"("overlap": {"cuda_graph": true})"),
                 "/rows/0/overlap/cuda_graph: must be a list"},
        BadTimes{"OptimizerNoText", one(R"("overlap": {"optimizer_parallel": true})"),
                 "/rows/0/overlap/optimizer_parallel: must be a text"},
        BadTimes{"DerivedNoObject", one(R"("derived": 1)"), "/rows/0/derived: must be an object"},
        BadTimes{"TimeNegative", one(R"("derived": {"step_s": -1})"),
                 "/rows/0/derived/step_s: is -1; it must be at least 0"},
        BadTimes{"TinyTime", one(R"("derived": {"step_s": 5e-324})"),
                 "/rows/0/derived/step_s: is 5e-324; it must be 0, not measured, or at least 1e-09"},
        BadTimes{"TimeText", one(R"("derived": {"step_s": "1 s"})"), "/rows/0/derived/step_s: must be a number"},
        BadTimes{"HugeTime", one(R"("derived": {"step_s": 1e300})"), "at most"},
        BadTimes{"HugeRate", one(R"("derived": {"model_tflops_causal": 1e9})"), "at most"},
        BadTimes{"HugeNumber", one(R"("mbs": 1e999)"), "a number in the file is too large"}),
    [](const auto& test) { return test.param.name; });

TEST(TimeTruthLimits, RowsAreCountedBeforeTheyAreRead) {
  std::string text = "{\"rows\": [{}";
  for (int i = 0; i < 50'000; ++i) text += ",{}";
  const auto rows = formats::read_time_truth(text + "]}", "f");
  ASSERT_FALSE(rows.ok());
  EXPECT_EQ(rows.error().message, "f: /rows: holds more than 50000 rows; give fewer");
}

TEST(TimeTruthLimits, NamesOfAListAreCounted) {
  json modules = json::array();
  std::string words;
  for (int i = 0; i < 65; ++i) modules.push_back("m" + std::to_string(i));
  for (int i = 0; i < 65; ++i) words += "m" + std::to_string(i) + ",";
  for (const json& list : {modules, json(words)}) {
    const json file = {{"rows", {{{"id", "a"}, {"recompute", {{"modules", list}}}}}}};
    const auto rows = formats::read_time_truth(file.dump(), "f");
    ASSERT_FALSE(rows.ok());
    EXPECT_EQ(rows.error().message, "f: /rows/0/recompute/modules: holds more than 64 names; give fewer");
  }
}

/// What every row that was read promises.
std::string broken_promise(const TimeRow& row) {
  const step_time::TimedRun& run = row.run;
  if (row.id.empty() || row.track.empty()) return "no id or track";
  if (row.is_scored && !row.measured_s) return "scored without a figure";
  if (row.measured_s && !(*row.measured_s > 0)) return "a time that is none";
  if (!row.refused.empty()) return row.notes.empty() ? "" : "notes of no run";
  if (run.tensor * run.pipeline * run.context * run.data != row.devices) return "the layout is not of the devices";
  if (!(run.micro_batches() >= 1)) return "less than a micro-batch";
  if (run.data * run.context * run.tensor % (run.expert * run.expert_tensor) != 0 && run.model.experts > 0)
    return "experts do not divide a stage";
  if (run.model.head_dim < 1 || run.model.kv_heads < 1 || run.model.vocabulary < 1) return "a width is missing";
  if (run.model.moe_layers < 0 || run.model.moe_layers > run.model.layers) return "more layers than layers";
  if (!(run.recomputed.layers >= 0 && run.recomputed.layers <= 1)) return "a share that is none";
  return "";
}

TEST(TimeTruthFuzz, DamagedFilesAreRefusedOrKeepTheirPromises) {
  for (const Wounds wounds : {Wounds::any, Wounds::numbers}) {
    Mutator mutator({own_text()}, {"0", "1", "-1", "null", "true", "\"8\"", "[]", "{}", "1e300", "1048576", "16777216"},
                    24, wounds);
    std::size_t accepted = 0;
    for (int round = 0; round < 1'000; ++round) {
      const auto rows = formats::read_time_truth(mutator.next(), "f");
      if (!rows) {
        EXPECT_TRUE(rows.error().message.starts_with("f:")) << rows.error().message;
        continue;
      }
      ++accepted;
      for (const TimeRow& row : rows.value()) ASSERT_EQ(broken_promise(row), "") << row.id;
    }
    EXPECT_GT(accepted, 10U);
  }
}

// ---- the reference data ---------------------------------------------------------------------------------------------

std::vector<TimeRow> reference() {
  const auto path = data_path("step_time/step_time_rows.dev.json");
  return path ? read(text_of(*path)) : std::vector<TimeRow>{};
}

TEST(ReferenceTimes, ScoredRowsAreCountedByTrack) {
  const std::vector<TimeRow> rows = reference();
  if (rows.empty()) GTEST_SKIP() << "no reference data (TIDEMARK_DATA)";
  EXPECT_EQ(rows.size(), 1699U);
  std::map<std::string, int> scored;
  for (const TimeRow& row : rows) {
    EXPECT_EQ(broken_promise(row), "") << row.id;
    if (row.is_scored && row.refused.empty()) ++scored[row.track];
  }
  const std::map<std::string, int> expected = {
      {"1 vtrain single", 710}, {"2 vtrain multi", 63}, {"2b korthikanti", 4}, {"3 fsdp bf16", 118},
      {"3 fsdp fp8", 18},       {"4 h100 bf16", 39},    {"4 h100 fp8", 111},   {"5 moe bf16", 27},
      {"5 moe fp8", 21},        {"6 ascend dense", 63}, {"6 ascend moe", 9},   {"9 blackwell dense", 56},
      {"9 blackwell moe", 59}};
  EXPECT_EQ(scored, expected);
}

TEST(ReferenceTimes, RefusalsAreCountedByReason) {
  const std::vector<TimeRow> rows = reference();
  if (rows.empty()) GTEST_SKIP() << "no reference data (TIDEMARK_DATA)";
  std::map<std::string, int> refused;
  for (const TimeRow& row : rows)
    if (!row.refused.empty()) ++refused[row.refused];
  const std::map<std::string, int> expected = {{"model without layers (hybrid or not described)", 24},
                                               {"micro-batch size not stated", 4},
                                               {"tp x pp x cp does not divide the devices", 3},
                                               {"rematerialisation policy not stated", 3},
                                               {"share of layers recomputed not printed", 2},
                                               {"attention soft cap: the attention kernel is not the fused one", 2},
                                               {"activation swap is not priced here", 1}};
  EXPECT_EQ(refused, expected);
}

}  // namespace
}  // namespace tidemark::testing
