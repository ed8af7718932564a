// No constant is fitted to one case of the reference data: no code names one.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/data.h"

namespace tidemark::testing {
namespace {

constexpr std::array<std::string_view, 10> kCode = {"core", "planner", "policies",     "device",  "allocator",
                                                    "swap", "include", "integrations", "scripts", "bench"};
constexpr std::array<std::string_view, 2> kDescriptions = {"models", "devices"};
/// Shorter names could be words of any program.
constexpr std::size_t kLeastLength = 8;

/// `path: name` for every name that stands in the file or in its path.
std::vector<std::string> find_names(const std::string& path, const std::string& text,
                                    const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names)
    if (text.find(name) != std::string::npos || path.find(name) != std::string::npos)
      found.push_back(path + ": " + name);
  return found;
}

std::vector<std::string> names_in(const std::filesystem::path& file) {
  std::vector<std::string> names;
  const nlohmann::json document = nlohmann::json::parse(text_of(file));
  for (const auto& row : document.at("rows")) {
    const std::string name = row.at("case");
    if (name.size() >= kLeastLength) names.push_back(name);
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

TEST(CaseNames, AreFoundWhereTheyStand) {
  const std::vector<std::string> names = {"model_tp4_pp2", "other_case"};
  EXPECT_EQ(find_names("a.cc", "if (name == \"model_tp4_pp2\") scale = 1.07;", names).size(), 1U);
  EXPECT_EQ(find_names("other_case.h", "", names).size(), 1U);
  EXPECT_TRUE(find_names("a.cc", "model_tp2_pp2", names).empty());
}

TEST(CaseNames, StandInNoCode) {
  std::vector<std::string> names;
  for (const char* file : {"truth/megatron_lm_ci_memory.dev.json", "truth/mindspeed_llm_ascend_ci_memory.dev.json"}) {
    const auto path = data_path(file);
    if (!path) GTEST_SKIP() << "no reference data (TIDEMARK_DATA)";
    for (std::string& name : names_in(*path)) names.push_back(std::move(name));
  }
  ASSERT_GT(names.size(), 100U);
  std::size_t files = 0;
  std::vector<std::string_view> folders(kCode.begin(), kCode.end());
  folders.insert(folders.end(), kDescriptions.begin(), kDescriptions.end());
  for (const std::string_view folder : folders) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source_path(folder))) {
      if (!entry.is_regular_file()) continue;
      ++files;
      const std::string path = std::filesystem::relative(entry.path(), source_path("")).string();
      for (const std::string& found : find_names(path, text_of(entry.path()), names)) ADD_FAILURE() << found;
    }
  }
  EXPECT_GT(files, 300U);
}

}  // namespace
}  // namespace tidemark::testing
