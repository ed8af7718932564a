// Devices that step times are predicted on: every key, every kind of mistake with its line, and the shipped files.

#include "integrations/formats/time_device_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/formats/rate_candidates.h"
#include "integrations/formats/time_constants.h"
#include "tests/support/data.h"

namespace tidemark {
namespace {

using formats::TimeDeviceFile;
using testing::source_path;
using testing::text_of;

const std::string kFile = R"(name: tiny
sheet:
  peak_flops:
    bf16: 312TFLOPS
    tf32: 109.2TFLOPS
    nvfp4: 0.5PFLOPS
  memory_bandwidth: 2039GB/s
  cores: 108
  tiles: [[256, 128, 1.0], [64, 32, 0.6]]
  intra_node: 300GB/s
  inter_node: 25GB/s
  host_link: 225GB/s
  devices_per_node: 72
  hopper_or_later: true
fitted:
  matmul: 0.81
  tile_start: 146.5
  memory: 0.77
  launch: 18.9us
  intra_link: 0.68
  inter_link: 0.84
  hop: 21.7us
  attention: 0.4
assumed:
  grouped_matmul: 0.86
  fp8: 0.91
base_source: foundry
sources:
  fms: 0.95
  foundry: 1.00
  megatron-core: 1.15
)";

std::string replaced(const std::string& text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  std::string result = text;
  return at == std::string::npos ? result : result.replace(at, from.size(), to);
}

/// The message without its file; empty where there is none.
std::string complaint(const std::string& text) {
  const Result<TimeDeviceFile> file = formats::read_time_device(text, "d.yaml");
  if (file.ok()) return "";
  EXPECT_EQ(file.error().code, Error::Code::bad_input);
  EXPECT_EQ(file.error().message.find('\n'), std::string::npos);
  EXPECT_TRUE(file.error().message.starts_with("d.yaml:")) << file.error().message;
  return file.error().message.substr(7);
}

std::string complaint_with(std::string_view from, std::string_view to) {
  return complaint(replaced(kFile, from, to));
}

TEST(TimeDeviceFile, EveryKeyIsRead) {
  const Result<TimeDeviceFile> read = formats::read_time_device(kFile, "d.yaml");
  ASSERT_TRUE(read.ok()) << read.error().message;
  const TimeDeviceFile& file = read.value();
  const DeviceSheet& sheet = file.device.sheet;
  EXPECT_EQ(file.name, "tiny");
  EXPECT_EQ(sheet.peak(Precision::bf16), 312e12);
  EXPECT_EQ(sheet.peak(Precision::tf32), 109.2e12);
  EXPECT_EQ(sheet.peak(Precision::nvfp4), 500e12);
  EXPECT_EQ(sheet.peak(Precision::fp8), 0) << "not given: not supported";
  EXPECT_EQ(sheet.memory_bytes_per_s, 2039e9);
  EXPECT_EQ(sheet.cores, 108);
  EXPECT_EQ(sheet.tiles, (std::vector<MatmulTile>{{256, 128, 1.0}, {64, 32, 0.6}}));
  EXPECT_EQ(sheet.intra_bytes_per_s, 300e9);
  EXPECT_EQ(sheet.inter_bytes_per_s, 25e9);
  EXPECT_EQ(sheet.host_bytes_per_s, 225e9);
  EXPECT_EQ(sheet.devices_per_node, 72);
  EXPECT_TRUE(sheet.is_hopper_or_later);
  const FittedRates& rates = file.device.rates;
  EXPECT_EQ(rates.matmul, 0.81);
  EXPECT_EQ(rates.tile_start, 146.5);
  EXPECT_EQ(rates.memory, 0.77);
  EXPECT_DOUBLE_EQ(rates.launch_s, 18.9e-6);
  EXPECT_EQ(rates.intra_link, 0.68);
  EXPECT_EQ(rates.inter_link, 0.84);
  EXPECT_DOUBLE_EQ(rates.hop_s, 21.7e-6);
  EXPECT_EQ(rates.attention, 0.4);
  EXPECT_EQ(rates.grouped_matmul, 0.86);
  EXPECT_EQ(rates.fp8, 0.91);
  EXPECT_EQ(file.fitted, (std::vector<std::string>{"matmul", "tile_start", "memory", "launch", "intra_link",
                                                   "inter_link", "hop", "attention"}));
  EXPECT_EQ(file.base_source, "foundry");
  EXPECT_EQ(file.factors, (std::map<std::string, double>{{"fms", 0.95}, {"foundry", 1.0}, {"megatron-core", 1.15}}));
  EXPECT_EQ(file.constants, "tiny");
  EXPECT_FALSE(formats::shares_constants(file));
}

TEST(TimeDeviceFile, ConstantsOfAnotherAreItsRatesAndFactors) {
  const std::string sheet = kFile.substr(0, kFile.find("fitted:"));
  const std::string text = replaced(sheet, "name: tiny", "name: twin") + "constants: tiny\n";
  Result<TimeDeviceFile> twin = formats::read_time_device(text, "d.yaml");
  ASSERT_TRUE(twin.ok()) << twin.error().message;
  EXPECT_TRUE(formats::shares_constants(twin.value()));
  EXPECT_TRUE(twin.value().factors.empty());
  const TimeDeviceFile owner = formats::read_time_device(kFile, "d.yaml").value();
  ASSERT_TRUE(formats::share_constants(twin.value(), owner).ok());
  EXPECT_EQ(twin.value().name, "twin");
  EXPECT_EQ(twin.value().device.rates.matmul, 0.81);
  EXPECT_EQ(twin.value().factors, owner.factors);
  EXPECT_EQ(twin.value().base_source, "foundry");
  EXPECT_EQ(twin.value().fitted, owner.fitted);

  TimeDeviceFile chained = twin.value();
  chained.name = "third", chained.constants = "twin";
  const Status status = formats::share_constants(chained, twin.value());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            "third takes its constants from twin, which takes them from tiny; name the last of them");
}

TEST(TimeDeviceFile, WithoutSourcesThereAreNoFactors) {
  EXPECT_EQ(complaint(kFile.substr(0, kFile.find("base_source:"))), "");
}

TEST(TimeDeviceFile, MistakesOfTheSheet) {
  EXPECT_EQ(complaint_with("    bf16: 312TFLOPS\n", ""),
            "3: section sheet.peak_flops lacks the key 'bf16'; add `bf16: 312TFLOPS`");
  EXPECT_NE(complaint_with("nvfp4:", "nvpf4:")
                .find("6: unknown key 'nvpf4' in section sheet.peak_flops; did you mean "
                      "'nvfp4'?"),
            std::string::npos);
  EXPECT_NE(complaint_with("312TFLOPS", "312").find("4: bf16: '312' is not a compute rate"), std::string::npos);
  EXPECT_EQ(complaint_with("2039GB/s", "1B/s"),
            "7: memory_bandwidth must be from 1e+03 to 1e+18 a second, like 2039GB/s");
  EXPECT_EQ(complaint_with("cores: 108", "cores: 0"), "8: cores is 0; it must be 1 to 65536");
  EXPECT_EQ(complaint_with("devices_per_node: 72", "devices_per_node: 4096"),
            "13: devices_per_node is 4096; it must be 1 to 1024");
  EXPECT_NE(complaint_with("hopper_or_later: true", "hopper_or_later: yes").find("14: hopper_or_later is 'yes'"),
            std::string::npos);
  EXPECT_NE(complaint_with("intra_node", "intra_nod").find("10: unknown key 'intra_nod'"), std::string::npos);
  EXPECT_EQ(complaint_with("sheet:\n", "sheet: 7\nother:\n").substr(0, 15), "2: sheet is '7'");
}

TEST(TimeDeviceFile, MistakesOfTiles) {
  const auto tiles = [](std::string_view list) { return complaint_with("[[256, 128, 1.0], [64, 32, 0.6]]", list); };
  EXPECT_EQ(tiles("[]"), "9: tiles has 0 tiles; write 1 to 16, like [[256, 128, 1.0], [128, 128, 0.93]]");
  EXPECT_NE(tiles("256").find("9: tiles is '256'; write a list"), std::string::npos);
  for (const char* bad : {"[[256, 128]]", "[[0, 128, 1]]", "[[256, 70000, 1]]", "[[256, 128, 0]]", "[[256, 128, 1.5]]",
                          "[[256, 128, nan]]", "[[2.5, 128, 1]]", "[[256, [128], 1]]", "[256]", "[[256, 128, 1, 1]]"})
    EXPECT_TRUE(tiles(bad).starts_with("9: a tile is ")) << bad << ": " << tiles(bad);
}

TEST(TimeDeviceFile, MistakesOfConstants) {
  EXPECT_EQ(complaint_with("matmul: 0.81", "matmul: 1.2"), "16: matmul is 1.2; it must be above 0 and at most 1");
  EXPECT_EQ(complaint_with("matmul: 0.81", "matmul: 0"), "16: matmul is 0; it must be above 0 and at most 1");
  EXPECT_EQ(complaint_with("tile_start: 146.5", "tile_start: -1"),
            "17: tile_start is -1; it must be above 0 and at most 100000");
  EXPECT_EQ(complaint_with("launch: 18.9us", "launch: 0us"),
            "19: launch is 0us; it must be above 0 and at most 1000000us");
  EXPECT_EQ(complaint_with("launch: 18.9us", "launch: 2s"),
            "19: launch is 2000000us; it must be above 0 and at most 1000000us");
  EXPECT_NE(complaint_with("launch: 18.9us", "launch: 18.9").find("19: launch: '18.9' is not a time"),
            std::string::npos);
  EXPECT_NE(complaint_with("attention:", "atention:")
                .find("23: unknown key 'atention' in section fitted; did you mean "
                      "'attention'?"),
            std::string::npos);
  EXPECT_EQ(
      complaint_with("  fp8: 0.91\n", ""),
      "1: the file lacks the constant 'fp8'; add it under `fitted:` if it was fitted to measured step times, else "
      "under `assumed:`");
  EXPECT_EQ(complaint_with("  fp8: 0.91\n", "  fp8: 0.91\n  memory: 0.7\n"),
            "27: memory is both fitted and assumed; keep one of the two");
  EXPECT_EQ(complaint(replaced(replaced(kFile, "  fp8: 0.91\n", ""), "  attention: 0.4\n",
                               "  attention: 0.4\n  fp8: 0.91\n")),
            "15: 9 constants are fitted; at most 8 may be, so move the others to `assumed:`");
}

TEST(TimeDeviceFile, MistakesOfSources) {
  EXPECT_EQ(complaint_with("fms: 0.95", "fms: 30"),
            "29: fms is 30; a factor of seconds must be 0.1 to 10, 1.00 of the base source");
  EXPECT_NE(complaint_with("fms: 0.95", "FMS: 0.95").find("29: 'FMS' is no name of a software"), std::string::npos);
  EXPECT_NE(complaint_with("fms: 0.95", "fms: fast").find("29: fms is 'fast'; write a number"), std::string::npos);
  EXPECT_NE(complaint_with("fms: 0.95", "foundry: 0.95").find("30: 'foundry' is given twice"), std::string::npos);
  EXPECT_EQ(complaint_with("base_source: foundry\n", ""),
            "1: the file lacks the key 'base_source'; add `base_source: "
            "<name>`");
  for (const char* base : {"base_source: fms", "base_source: none"})
    EXPECT_NE(complaint_with("base_source: foundry", base).find("27: base_source names no source with the factor 1.00"),
              std::string::npos);
  const std::string without = kFile.substr(0, kFile.find("sources:\n  fms"));
  EXPECT_EQ(complaint(without), "27: base_source has no meaning here: no source has a factor; add `sources:`");
}

TEST(TimeDeviceFile, SaysWhatWasMeasuredAndHowFarOffItIs) {
  const std::string text = kFile + "bands:\n  dense: 12.5\n  experts: 31\nmeasured:\n  - experts\n  - pipeline\n";
  const Result<TimeDeviceFile> file = formats::read_time_device(text, "d.yaml");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file.value().device.bands, (StepBands{.dense_percent = 12.5, .experts_percent = 31}));
  EXPECT_EQ(file.value().device.measured.text(), "experts, pipeline");
  const Result<TimeDeviceFile> without = formats::read_time_device(kFile, "d.yaml");
  EXPECT_EQ(without.value().device.bands, StepBands{});
  EXPECT_TRUE(without.value().device.measured.empty());
  TimeDeviceFile shares = without.value();
  shares.name = "other";
  shares.constants = "tiny";
  ASSERT_TRUE(formats::share_constants(shares, file.value()));
  EXPECT_EQ(shares.device.bands, file.value().device.bands);
  EXPECT_EQ(shares.device.measured, file.value().device.measured);
}

TEST(TimeDeviceFile, MistakesOfBandsAndTerms) {
  EXPECT_EQ(complaint(kFile + "bands: {dense: 0}\n"), "32: dense is 0; a band is above 0 and at most 1000 percent");
  EXPECT_NE(complaint(kFile + "bands: {dens: 4}\n").find("32: unknown key 'dens' in section bands"), std::string::npos);
  EXPECT_EQ(complaint(kFile + "measured: [pipeline, pipelines]\n"),
            "32: 'pipelines' is no term of step time; scripts/fit_device writes them, like tensor_parallel");
  EXPECT_EQ(complaint(kFile + "measured: [pipeline, experts, pipeline]\n"), "32: pipeline stands twice; drop one");
  EXPECT_EQ(complaint(kFile + "measured: pipeline\n").substr(0, 15), "32: measured is");
  const std::string sheet = kFile.substr(0, kFile.find("fitted:"));
  EXPECT_NE(complaint(sheet + "constants: h100\nmeasured: [pipeline]\n").find("measured has no meaning here"),
            std::string::npos);
}

TEST(TimeDeviceFile, MistakesOfShared) {
  EXPECT_EQ(complaint("constants: h100\n" + kFile),
            "16: fitted has no meaning here: `constants: h100` takes them from that device; drop one of the two");
  const std::string sheet = kFile.substr(0, kFile.find("fitted:"));
  EXPECT_NE(complaint(sheet + "constants: tiny\n").find("15: constants names this file"), std::string::npos);
  EXPECT_NE(complaint(sheet + "constants: ../h100\n").find("15: constants is '../h100'; write the name of a file"),
            std::string::npos);
}

TEST(TimeDeviceFile, ShippedOnesAreReadAndFitFewConstants) {
  std::set<std::string> names, owners;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("devices/chips"))) {
    const Result<TimeDeviceFile> file = formats::read_time_device(text_of(entry.path()), entry.path().string());
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file.value().name, entry.path().stem().string());
    EXPECT_LE(file.value().fitted.size(), formats::kMostFittedConstants);
    EXPECT_EQ(file.value().fitted.empty(), formats::shares_constants(file.value()));
    EXPECT_EQ(file.value().factors.empty(), formats::shares_constants(file.value()));
    names.insert(file.value().name);
    owners.insert(file.value().constants);
  }
  EXPECT_EQ(names, (std::set<std::string>{"a100-40g", "a100-80g", "a100-vtrain8", "ascend-910b-800t-a2",
                                          "ascend-910b-900-a2", "ascend-910b-a2pod", "ascend-910c", "ascend-ci", "b200",
                                          "b300", "gb200", "gb300", "h100", "h100-500w", "h200"}));
  EXPECT_TRUE(std::ranges::includes(names, owners)) << "constants are shared with a device that is not shipped";
  for (const std::string& owner : owners) {
    const TimeDeviceFile file =
        formats::read_time_device(text_of(source_path("devices/chips/" + owner + ".yaml")), owner).value();
    EXPECT_FALSE(formats::shares_constants(file)) << owner;
  }
}

// ---- candidates -----------------------------------------------------------------------------------------------------

const std::string kCandidate =
    R"({"matmul": 0.81, "tile_start": "146", "memory": 0.77, "launch": "18.9000000000012us", "intra_link": 0.68, )"
    R"("inter_link": 0.84, "hop": "21.7us", "attention": 0.4, "grouped_matmul": 0.86, "fp8": 0.91})";

TEST(RateCandidates, AreReadFromWhatTheScriptWrites) {
  const std::string text =
      R"({"constants": "a100-80g", "candidates": [)" + kCandidate + ", " + replaced(kCandidate, "0.81", "0.5") + "]}";
  const auto read = formats::read_rate_candidates(text, "c.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().constants, "a100-80g");
  ASSERT_EQ(read.value().rates.size(), 2U);
  EXPECT_EQ(read.value().rates[0].matmul, 0.81);
  EXPECT_EQ(read.value().rates[1].matmul, 0.5);
  EXPECT_EQ(read.value().rates[1].tile_start, 146);
  EXPECT_NEAR(read.value().rates[0].launch_s, 18.9000000000012e-6, 1e-20) << "differences are taken of them";
  EXPECT_EQ(read.value().rates[0].fp8, 0.91);
}

TEST(RateCandidates, WhatIsWrongIsNamed) {
  const auto said = [](const std::string& candidates) {
    const auto read = formats::read_rate_candidates("constants: h100\ncandidates: " + candidates, "c");
    return read.ok() ? "" : read.error().message;
  };
  EXPECT_EQ(said("[" + kCandidate + "]"), "");
  EXPECT_EQ(said("[]"), "c:2: candidates has 0 entries; write 1 to 256");
  EXPECT_NE(said("[{matmul: 0.8}]").find("section candidates lacks the key 'tile_start'"), std::string::npos);
  EXPECT_NE(said("[" + replaced(kCandidate, "0.81", "1.5") + "]").find("c:2: matmul is 1.5; it must be above 0"),
            std::string::npos);
  EXPECT_NE(said("[" + replaced(kCandidate, "\"hop\"", "\"hops\"") + "]").find("did you mean 'hop'?"),
            std::string::npos);
  EXPECT_NE(said("[7]").find("candidates is '7'"), std::string::npos);
  EXPECT_NE(formats::read_rate_candidates("candidates: [" + kCandidate + "]", "c").error().message.find("'constants'"),
            std::string::npos);
}

TEST(RateCandidates, SecondsOfRowsAreWrittenInFull) {
  step_time::TimeRow scored, refused;
  scored.id = "a\"1", scored.split_key = "k", scored.software = "fms", scored.measured_s = 2.5, scored.is_scored = true;
  scored.run.tensor = 2;
  refused.id = "b";
  const std::vector<step_time::TimeRow> rows = {scored, refused};
  const std::vector<std::string> constants = {"h100", ""};
  const std::vector<std::vector<std::optional<double>>> seconds = {{1.0 / 3, std::nullopt}, {0.5, std::nullopt}};
  EXPECT_EQ(formats::candidates_json(rows, constants, seconds),
            R"({"rows":[{"id":"a\"1","split_key":"k","software":"fms","constants":"h100","measured_s":2.5,)"
            R"("terms":["tensor_parallel"],"scored":true},)"
            R"({"id":"b","split_key":"","software":"","constants":"","measured_s":null,)"
            R"("terms":[],"scored":false}],)"
            R"("candidates":[[0.3333333333333333,null],[0.5,null]]})"
            "\n");
}

}  // namespace
}  // namespace tidemark
