// Spaces of architectures from YAML: the whole schema, and every kind of bad input with its line.

#include "integrations/formats/import_architectures.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace tidemark {
namespace {

TEST(ReadArchitectures, FillsEveryList) {
  const auto query = formats::read_architectures(R"(vary:
  layers: [61, 48]
  dense_layers: 3
  hidden: {from: 4096, to: 8192, step: 2048}
  heads: [64, 128]
  dense_width: [18432]
  experts: [128, 256]
  top_k: [8]
  expert_width: [2048]
  shared_experts: [0, 1]
  mtp_layers: [0, 1]
bounds:
  parameters: {least: 600B, most: 0.8T}
  active_parameters: {most: 40B}
  step: {most: 40s}
layouts:
  tensor: [8]
  context: [1]
  pipeline: [8, 16]
  virtual_pipeline: [1, 2]
  expert: [4]
  micro_batch: [2, 1]
)",
                                                 "space.yaml");
  ASSERT_TRUE(query) << query.error().message;
  const search::ArchitectureRanges& ranges = query.value().ranges;
  EXPECT_EQ(ranges.layers, (std::vector<std::int64_t>{48, 61}));
  EXPECT_EQ(ranges.dense_layers, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(ranges.hidden, (std::vector<std::int64_t>{4096, 6144, 8192}));
  EXPECT_EQ(search::combinations_of(ranges), 2 * 3 * 2 * 2 * 2 * 2);
  EXPECT_EQ(query.value().bounds.least_parameters, 600e9);
  EXPECT_EQ(query.value().bounds.most_parameters, 800e9);
  EXPECT_EQ(query.value().bounds.least_active, std::nullopt);
  EXPECT_EQ(query.value().bounds.most_active, 40e9);
  EXPECT_EQ(query.value().bounds.most_step_s, 40);
  EXPECT_EQ(query.value().layouts.pipeline, (std::vector<std::int32_t>{8, 16}));
  EXPECT_EQ(query.value().layouts.micro_batch, (std::vector<std::int64_t>{1, 2}));
}

struct BadSpace {
  const char* name;
  const char* text;
  const char* message;  ///< begins with
};

/// Test names hold it, so it is no address.
void PrintTo(const BadSpace& bad, std::ostream* out) {
  *out << bad.name;
}

class BadArchitectures : public ::testing::TestWithParam<BadSpace> {};

TEST_P(BadArchitectures, IsRefusedWithItsLine) {
  const auto query = formats::read_architectures(GetParam().text, "space.yaml");
  ASSERT_FALSE(query);
  EXPECT_EQ(query.error().message.rfind(GetParam().message, 0), 0U) << query.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    All, BadArchitectures,
    ::testing::Values(
        BadSpace{"EmptyFile", "", "space.yaml:1: the file is empty; start from one of the files in models/spaces/"},
        BadSpace{"NoMapping", "- vary\n",
                 "space.yaml:1: the file is not a list of `key: value` lines; start from one of the files in "
                 "models/spaces/"},
        BadSpace{"Nothing", "bounds: {step: {most: 1s}}\n", "space.yaml:1: "},
        BadSpace{"UnknownKey", "vary:\n  layer: [1]\n",
                 "space.yaml:2: unknown key 'layer' in section vary; did you mean 'layers'?"},
        BadSpace{"NoNumber", "vary:\n  layers: [a]\n", "space.yaml:2: a value of layers is 'a'"},
        BadSpace{"Negative", "vary:\n  layers: [-1]\n", "space.yaml:2: layers is -1; it must be 1 to"},
        BadSpace{"Twice", "vary:\n  top_k:\n    - 8\n    - 8\n", "space.yaml:4: top_k lists 8 twice"},
        BadSpace{"Empty", "vary:\n  top_k: []\n", "space.yaml:2: top_k is empty"},
        BadSpace{"DownwardRange", "vary:\n  hidden: {from: 8, to: 4, step: 1}\n", "space.yaml:2: hidden goes from 8"},
        BadSpace{"EndlessRange", "vary:\n  hidden: {from: 1, to: 1000000, step: 1}\n",
                 "space.yaml:2: hidden lists more than 1000 values"},
        BadSpace{
            "TooMany",
            "vary:\n  hidden: {from: 1, to: 1000, step: 1}\n  heads: {from: 1, to: 1000, step: 1}\n  top_k: [1, 2]\n",
            "space.yaml:1: vary has 2000000 combinations"},
        BadSpace{"BareCount", "vary: {top_k: [8]}\nbounds:\n  parameters: {most: 700}\n",
                 "space.yaml:3: most: '700' is not a number of parameters"},
        BadSpace{"Crossed", "vary: {top_k: [8]}\nbounds:\n  parameters: {least: 2B, most: 1B}\n",
                 "space.yaml:3: parameters has a least above its most"},
        BadSpace{"Degree", "vary: {top_k: [8]}\nlayouts: {tensor: [0]}\n", "space.yaml:2: tensor is 0"}),
    [](const auto& bad) { return bad.param.name; });

}  // namespace
}  // namespace tidemark
