#include "integrations/formats/import_expert_counts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

namespace tidemark {
namespace {

constexpr std::string_view kHeader = "layer,micro_batch,device,rows\n";

graph_build::ExpertLoadSpec read(const std::string& text) {
  const Result<formats::MeasuredLoads> loads =
      formats::read_expert_counts(text, "counts.csv", {.quantile = 0.9, .seed = 7});
  EXPECT_TRUE(loads.ok()) << loads.error().message;
  return loads.ok() ? loads.value().spec : graph_build::ExpertLoadSpec{};
}

std::string complaint(const std::string& text) {
  const Result<formats::MeasuredLoads> spec = formats::read_expert_counts(text, "counts.csv", {});
  EXPECT_FALSE(spec.ok());
  if (spec.ok()) return "";
  EXPECT_EQ(spec.error().code, Error::Code::bad_input);
  EXPECT_EQ(spec.error().message.find('\n'), std::string::npos);
  return spec.error().message;
}

TEST(ExpertCounts, EvenRowsDoNotVary) {
  const graph_build::ExpertLoadSpec spec =
      read(std::string(kHeader) + "3,0,0,5\n3,0,1,5\n# a comment\n\n3,1,0,70\n3,1,1,70\r\n");
  EXPECT_DOUBLE_EQ(spec.mean, 1);
  EXPECT_DOUBLE_EQ(spec.coefficient_of_variation, 0);
  EXPECT_DOUBLE_EQ(spec.layer_correlation, 0);
  EXPECT_DOUBLE_EQ(spec.quantile, 0.9);
  EXPECT_EQ(spec.seed, 7U);
}

// Device 0 always has 1.2 times the mean, device 1 always 0.8: all variance is between devices.
TEST(ExpertCounts, AHotDeviceIsCommonToAllLayers) {
  const graph_build::ExpertLoadSpec spec = read(std::string(kHeader) + "3,0,0,6\n3,0,1,4\n4,0,0,12\n4,0,1,8\n");
  EXPECT_NEAR(spec.coefficient_of_variation, 0.2, 1e-12);
  EXPECT_NEAR(spec.layer_correlation, 1, 1e-12);
}

// The hot device changes from layer to layer: the means of both devices are 1, so nothing is common, and the mean
// square of what layers differ by is 4 * 0.2^2 / (2 * (2 - 1)) = 0.08. One micro-batch cannot tell whether it would
// stay.
TEST(ExpertCounts, AWanderingHotDeviceIsOfItsOwn) {
  const graph_build::ExpertLoadSpec spec = read(std::string(kHeader) + "3,0,0,6\n3,0,1,4\n4,0,0,8\n4,0,1,12\n");
  EXPECT_NEAR(spec.coefficient_of_variation, std::sqrt(0.08), 1e-12);
  EXPECT_NEAR(spec.layer_correlation, 0, 1e-12);
  EXPECT_DOUBLE_EQ(spec.popularity_share, 0);
}

/// Over two micro-batches it is popularity.
TEST(ExpertCounts, WhatStaysOverMicroBatchesIsPopularity) {
  const graph_build::ExpertLoadSpec spec = read(std::string(kHeader) +
                                                "3,0,0,6\n3,0,1,4\n4,0,0,8\n4,0,1,12\n"
                                                "3,1,0,6\n3,1,1,4\n4,1,0,8\n4,1,1,12\n");
  EXPECT_NEAR(spec.coefficient_of_variation, std::sqrt(0.08), 1e-12);
  EXPECT_DOUBLE_EQ(spec.layer_correlation, 0);
  EXPECT_DOUBLE_EQ(spec.popularity_share, 1);
}

TEST(ExpertCounts, TheFitIsOneLine) {
  const Result<formats::MeasuredLoads> loads =
      formats::read_expert_counts(std::string(kHeader) + "3,0,0,6\n3,0,1,4\n3,1,0,6\n3,1,1,4\n", "counts.csv", {});
  ASSERT_TRUE(loads.ok());
  EXPECT_EQ(
      formats::loads_text(loads.value().fit),
      "1 step, 1 layer, 2 micro-batches, 2 devices: loads vary by popularity 0.2000 +- 0.1414, device 0 (below "
      "0.0000), sequences 0 (below 0.0000) (coefficients of variation); popularity keeps 1.0000 of itself a step; "
      "the fullest device has 1.200 times the mean, 1.160 by the model; one layer: the part of devices is missing, "
      "it counts as popularity; one step: the drift of popularity is missing, taken as none");
}

// Rows drawn from the model that planner/graph_build/expert_load.h states give its parameters back.
TEST(ExpertCounts, RecoversTheModel) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  constexpr int kDevices = 400, kSites = 60;
  for (const double correlation : {0.0, 0.25, 0.8}) {
    constexpr double kCv = 0.1;
    std::string text(kHeader);
    std::vector<double> common(kDevices);
    for (double& z : common) z = normal(random);
    for (int site = 0; site < kSites; ++site)
      for (int device = 0; device < kDevices; ++device) {
        const double f = 1 + kCv * (std::sqrt(correlation) * common[static_cast<std::size_t>(device)] +
                                    std::sqrt(1 - correlation) * normal(random));
        text += fmt::format("{},{},{},{}\n", site / 4, site % 4, device, std::lround(f * 65536));
      }
    const graph_build::ExpertLoadSpec spec = read(text);
    EXPECT_NEAR(spec.coefficient_of_variation, kCv, 0.01) << correlation;
    EXPECT_NEAR(spec.layer_correlation, correlation, 0.06) << correlation;
  }
}

/// A device that is hot in one step and cold in the next has a load of its own in each.
TEST(ExpertCounts, StepsAreOnTheirOwn) {
  const graph_build::ExpertLoadSpec spec = read("step," + std::string(kHeader) +
                                                "0,3,0,0,6\n0,3,0,1,4\n0,4,0,0,12\n0,4,0,1,8\n"
                                                "7,3,0,0,4\n7,3,0,1,6\n7,4,0,0,8\n7,4,0,1,12\n");
  EXPECT_NEAR(spec.coefficient_of_variation, 0.2, 1e-12);
  EXPECT_NEAR(spec.layer_correlation, 1, 1e-12);
}

/// Experts stand on the devices in order: two each add up to what the devices have.
TEST(ExpertCounts, ExpertsAddUpToTheirDevices) {
  const auto loads = [](std::string_view text, std::int64_t devices) {
    return formats::read_expert_counts(text, "counts.csv", {}, devices);
  };
  const std::string experts =
      "layer,micro_batch,expert,rows\n3,0,0,1\n3,0,1,5\n3,0,2,4\n3,0,3,0\n4,0,0,6\n4,0,1,6\n4,0,3,7\n4,0,2,1\n";
  const auto of_experts = loads(experts, 2);
  ASSERT_TRUE(of_experts.ok()) << of_experts.error().message;
  const auto of_devices = loads(std::string(kHeader) + "3,0,0,6\n3,0,1,4\n4,0,0,12\n4,0,1,8\n", 2);
  ASSERT_TRUE(of_devices.ok());
  EXPECT_EQ(of_experts.value().spec, of_devices.value().spec);
  EXPECT_NEAR(of_experts.value().spec.coefficient_of_variation, 0.2, 1e-12);
  EXPECT_EQ(of_experts.value().fit.shape.devices, 2);
  const auto message = [&](std::int64_t devices) { return loads(experts, devices).error().message; };
  EXPECT_EQ(message(0), "counts.csv:1: counts are of experts; those of devices are needed here");
  EXPECT_EQ(message(3), "counts.csv:1: 4 experts are counted, which 3 devices do not hold evenly");
  const auto wrong = [&](const std::string& lines) {
    return loads("layer,micro_batch,expert,rows\n" + lines, 1).error().message;
  };
  EXPECT_EQ(wrong("3,0,x,1\n"), "counts.csv:2: expert is 'x'; it must be a whole number from 0 to 1000000000");
  EXPECT_EQ(wrong("3,0,1,1\n3,0,1,1\n"), "counts.csv:3: layer 3, micro-batch 0 names expert 1 twice");
  EXPECT_NE(wrong("3,0,0,1\n3,0,1,1\n4,0,0,1\n").find("expert 1; every step names"), std::string::npos);
}

TEST(ExpertCounts, BadLinesAreNamed) {
  const std::string head(kHeader);
  EXPECT_EQ(complaint(""),
            "counts.csv:1: the file is empty; its first line is layer,micro_batch,device,rows or "
            "step,layer,micro_batch,device,rows");
  EXPECT_NE(complaint("layer,device\n1,2\n").find("counts.csv:1: the first line is 'layer,device'"), std::string::npos);
  EXPECT_NE(complaint(head + "1,0,0\n").find("counts.csv:2: '1,0,0' has not four fields"), std::string::npos);
  EXPECT_NE(complaint(head + "1,0,0,5,6\n").find("counts.csv:2: "), std::string::npos);
  EXPECT_NE(complaint(head + "1,0,0,5\n1,0,x,5\n").find("counts.csv:3: device is 'x'"), std::string::npos);
  EXPECT_NE(complaint(head + "1,0,0,-5\n").find("counts.csv:2: rows is '-5'"), std::string::npos);
  EXPECT_NE(complaint(head + "1,0,0,1.5\n").find("counts.csv:2: rows is '1.5'"), std::string::npos);
  EXPECT_NE(complaint(head + "1,0,0,99999999999999999999\n").find("counts.csv:2: rows is"), std::string::npos);
  EXPECT_NE(complaint(head + "1,0,0,5\n1,0,0,5\n").find("counts.csv:3: layer 1, micro-batch 0 names device 0 twice"),
            std::string::npos);
  EXPECT_NE(complaint(head + "1,0,0,5\n1,0,1,5\n2,0,0,5\n2,0,2,5\n")
                .find("counts.csv:5: layer 2, micro-batch 0 names device 2, which others do not; every step names"),
            std::string::npos);
  EXPECT_NE(
      complaint(head + "1,0,0,5\n1,0,1,5\n2,0,0,0\n2,0,1,0\n").find("counts.csv:4: layer 2, micro-batch 0 has no rows"),
      std::string::npos);
  EXPECT_NE(complaint(head + "1,0,0,5\n1,0,1,5\n1,1,0,5\n1,1,1,5\n2,0,0,5\n2,0,1,5\n")
                .find("counts.csv:7: step 0 ends here without layer 2, micro-batch 1, device 0; every step names"),
            std::string::npos);
  EXPECT_NE(complaint(head + "1,0,0,5\n1,0,1,5\n").find("two of each"), std::string::npos);
  EXPECT_NE(complaint(head + "1,0,0,5\n2,0,0,5\n").find("two of each"), std::string::npos);
  EXPECT_EQ(complaint(head), "counts.csv:1: no line follows the header");
  const std::string steps = "step," + head;
  EXPECT_NE(complaint(steps + "1,0,0,5\n").find("counts.csv:2: '1,0,0,5' has not five fields"), std::string::npos);
  const std::string first = "0,1,0,0,5\n0,1,0,1,5\n0,2,0,0,5\n0,2,0,1,5\n";
  EXPECT_NE(complaint(steps + first + "1,1,0,0,5\n1,1,0,1,5\n1,3,0,0,5\n1,3,0,1,5\n")
                .find("counts.csv:8: layer 3, micro-batch 0 names device 0, which is in no step before"),
            std::string::npos);
  EXPECT_NE(complaint(steps + first + "1,1,0,0,5\n1,1,0,1,5\n1,2,0,0,5\n1,2,0,1,5\n1,2,1,0,5\n1,2,1,1,5\n")
                .find("counts.csv:10: layer 2, micro-batch 1 names device 0, which is in no step before"),
            std::string::npos);
  EXPECT_NE(complaint(steps + first + "1,1,0,0,5\n1,1,0,1,5\n1,1,0,2,5\n1,2,0,0,5\n1,2,0,1,5\n1,2,0,2,5\n")
                .find("counts.csv:8: layer 1, micro-batch 0 names device 2, which is in no step before"),
            std::string::npos);
  EXPECT_NE(complaint(steps + "1,0,0,0,5\n0,0,0,0,5\n").find("counts.csv:3: step 0 stands behind step 1"),
            std::string::npos);
}

/// Lines of two layers with two micro-batches and two devices each, but those that begin so.
std::string lines_of(int step, const std::string& without = "-") {
  std::string text;
  for (int i = 0; i < 8; ++i) {
    const std::string line = fmt::format("{},{},{},{},5\n", step, 1 + i / 4, i / 2 % 2, i % 2);
    if (!line.starts_with(without)) text += line;
  }
  return text;
}

/// A gap is named where it is, also in the first step, in the first layer and in its first device.
TEST(ExpertCounts, WhatIsMissingIsNamedWhereItWouldStand) {
  const std::string head = "step," + std::string(kHeader);
  const auto without = [&](const std::string& what) { return complaint(head + lines_of(0, what) + lines_of(1)); };
  EXPECT_NE(without("0,1,1,").find("counts.csv:4: step 0 goes on here without layer 1, micro-batch 1, device 0; every"),
            std::string::npos)
      << without("0,1,1,");
  EXPECT_NE(without("0,1,0,0").find("counts.csv:2: step 0 goes on here without layer 1, micro-batch 0, device 0"),
            std::string::npos);
  EXPECT_NE(without("0,2,0,1").find("counts.csv:7: step 0 goes on here without layer 2, micro-batch 0, device 1"),
            std::string::npos);
  EXPECT_NE(without("0,2,1,1").find("counts.csv:8: step 0 ends here without layer 2, micro-batch 1, device 1"),
            std::string::npos);
  EXPECT_NE(complaint(head + lines_of(0) + lines_of(1, "1,1,1,")).find("counts.csv:12: step 1 goes on here without"),
            std::string::npos);
  // In no order only the end can tell.
  EXPECT_NE(complaint(head + "0,2,0,0,5\n0,1,0,0,5\n0,1,0,1,5\n0,2,1,0,5\n0,1,1,0,5\n0,1,1,1,5\n0,2,1,1,5\n")
                .find("counts.csv:8: step 0 ends here without layer 2, micro-batch 0, device 1"),
            std::string::npos);
}

/// Of a step in two places neither part is whole: what is said is that they should stand together.
TEST(ExpertCounts, AStepInTwoPlacesIsNamedWhereItGoesOn) {
  const std::string head = "step," + std::string(kHeader), whole = lines_of(0);
  for (const std::size_t lines : {2U, 3U, 4U, 7U}) {
    const std::size_t cut = lines * (whole.size() / 8);
    EXPECT_NE(complaint(head + whole.substr(0, cut) + lines_of(1) + whole.substr(cut))
                  .find(fmt::format("counts.csv:{}: step 0 stands behind step 1", 1 + lines + 8 + 1)),
              std::string::npos)
        << lines;
  }
}

TEST(ExpertCounts, AByteOrderMarkIsSkipped) {
  const std::string lines = std::string(kHeader) + "3,0,0,6\n3,0,1,4\n4,0,0,12\n4,0,1,8\n";
  EXPECT_EQ(read("\xef\xbb\xbf" + lines), read(lines));
  for (const std::string mark : {"\xff\xfe", "\xfe\xff"})
    EXPECT_EQ(complaint(mark + lines),
              "counts.csv:1: the file is UTF-16, where a table is UTF-8 or ASCII; save it as UTF-8");
}

}  // namespace
}  // namespace tidemark
