// Every shipped model through the program: counted as published, planned on its device or refused in one line.

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <string>

#include "integrations/formats/import_yaml.h"
#include "planner/graph_build/parameter_count.h"
#include "tests/support/data.h"
#include "tests/support/json_text.h"
#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

using Json = nlohmann::json;

/// Parameters by the closed form of the published configuration, worked out in the comment of the file, and the figure
/// its makers publish with so many digits.
struct Published {
  const char* name;
  double exact = 0;
  double published = 0;
  int digits = 3;
  const char* rank;  ///< planned by the test; nullptr: refused
};

constexpr Published kModels[] = {
    {"qwen3-235b-a22b", 235'093'634'560, 235e9, 3, "3"},
    {"kimi-k2-1t-a32b", 1'026'408'209'408, 1e12, 1, "9"},
    {"llama-4-maverick-400b-a17b", 400'711'848'960, 400e9, 2, "3"},
    {"gemma-3-27b", 27'009'346'304, 27e9, 2, "0"},
    {"granite-4.0-h-small", 32'207'337'984, 32e9, 2, nullptr},
    {"deepseek-v3-671b-fp8", 671'026'404'352, 671e9, 3, "9"},
    {"llama-3-70b-zero3", 70'553'706'496, 70.6e9, 3, "0"},
};

double rounded(double value, int digits) {
  const double unit = std::pow(10, std::floor(std::log10(value)) + 1 - digits);
  return std::round(value / unit) * unit;
}

graph_build::ModelSpec model_of(const std::string& name) {
  const std::string path = "models/" + name + ".yaml";
  const auto job = formats::read_described_job(text_of(source_path(path)), path);
  EXPECT_TRUE(job.ok()) << (job.ok() ? "" : job.error().message);
  return job.ok() ? job.value().model : graph_build::ModelSpec{};
}

graph_build::ParameterCount count_of(const std::string& name) {
  return graph_build::count_parameters(model_of(name));
}

/// One rank at one load, so that one round of planning does.
std::vector<std::string> plan_words(const std::string& name, const std::string& rank) {
  std::vector<std::string> words = {"plan", source_path("models/" + name + ".yaml").string(), "--ranks", rank};
  if (model_of(name).has_experts()) words.insert(words.end(), {"--imbalance", "1.2"});
  words.insert(words.end(), {"--format", "json"});
  return words;
}

/// Test names hold it, so it is no address.
void PrintTo(const Published& model, std::ostream* out) {
  *out << model.name;
}

class ShippedModel : public ::testing::TestWithParam<Published> {};

TEST_P(ShippedModel, HasThePublishedNumberOfParameters) {
  const graph_build::ParameterCount count = count_of(GetParam().name);
  EXPECT_EQ(count.total_both, GetParam().exact);
  EXPECT_NEAR(rounded(count.total_both, GetParam().digits), GetParam().published, 1);
}

TEST_P(ShippedModel, IsPlannedOrRefusedInOneLine) {
  const Workplace place;
  const std::string name = GetParam().name;
  if (GetParam().rank == nullptr)
    return expect_refused(place, {"plan", source_path("models/" + name + ".yaml").string()},
                          ":[0-9]+: layer 0 has a state-space mixer \\(mamba\\), which is .*");
  const Ran ran = place.run(plan_words(name, GetParam().rank));
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Json rank = parsed(ran.out).at("ranks").at(0);
  EXPECT_TRUE(rank.at("fits").get<bool>());
}

INSTANTIATE_TEST_SUITE_P(Models, ShippedModel, ::testing::ValuesIn(kModels),
                         [](const ::testing::TestParamInfo<Published>& model) {
                           std::string name = model.param.name;
                           std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
                           return name;
                         });

/// Its makers count the module for multi-token prediction, and neither the embedding nor the output matrix.
TEST(ShippedModels, GlmIsCountedAsItsReportDoes) {
  const graph_build::ParameterCount count = count_of("glm-4.5-355b-a32b");
  EXPECT_EQ(count.total_both, 352'797'814'784);
  EXPECT_EQ(count.total_with_mtp, 356'785'884'416);
  EXPECT_NEAR(rounded(count.total_with_mtp - 2 * 151552.0 * 5120, 3), 355e9, 1);
  const Workplace place;
  const Ran ran = place.run(plan_words("glm-4.5-355b-a32b", "15"));
  EXPECT_EQ(ran.status, 0) << ran.err;
}

/// Per token, with the embedding once; published figures count none, one or both of it and the output matrix.
TEST(ShippedModels, HaveThePublishedNumberOfActiveParameters) {
  EXPECT_NEAR(count_of("qwen3-235b-a22b").active / 1e9, 22, 0.5);
  EXPECT_NEAR((count_of("glm-4.5-355b-a32b").active - 151552.0 * 5120) / 1e9, 32, 0.5);
  EXPECT_NEAR(count_of("kimi-k2-1t-a32b").active / 1e9, 32, 0.5);
  EXPECT_NEAR((count_of("llama-4-maverick-400b-a17b").active + 202048.0 * 5120) / 1e9, 17, 0.5);
  EXPECT_NEAR(count_of("granite-4.0-h-small").active / 1e9, 9, 0.5);
}

TEST(ShippedModels, AreListedWithTheirParameters) {
  const Workplace place;
  const std::string listed = place.run({"list", "models"}).out;
  for (const char* text : {"235.09 B parameters, ", "671.03 B parameters, ", "32.21 B parameters, "})
    EXPECT_NE(listed.find(text), std::string::npos) << listed;
}

TEST(ShippedModels, Fp8IsRefusedOnChipsWithoutIt) {
  const Workplace place;
  expect_refused(
      place,
      {"plan", source_path("models/deepseek-v3-671b-fp8.yaml").string(), "--device", "ascend-910b-64g", "--ranks", "0"},
      "deepseek-v3-671b-fp8\\.yaml:[0-9]+: compute is fp8, but the chip of device ascend-910b-64g has no rate");
}

}  // namespace
}  // namespace tidemark::testing
