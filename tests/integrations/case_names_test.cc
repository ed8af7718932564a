// No constant is fitted to one case of the reference data: no code names one.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/data.h"
#include "tests/support/json_text.h"

namespace tidemark::testing {
namespace {

constexpr std::array<std::string_view, 10> kCode = {"core", "planner", "policies",     "device",  "allocator",
                                                    "swap", "include", "integrations", "scripts", "bench"};
constexpr std::array<std::string_view, 2> kDescriptions = {"models", "devices"};
/// Shorter names could be words of any program.
constexpr std::size_t kLeastLength = 8;

/// Names themselves are data and stay out of the repository; their hashes (FNV-1a) stand in tests/data.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

using Hashes = std::set<std::uint64_t>;

Hashes stored_hashes() {
  Hashes hashes;
  std::istringstream lines(text_of(source_path("tests/data/case_name_hashes.txt")));
  for (std::string line; std::getline(lines, line);) hashes.insert(std::stoull(line, nullptr, 16));
  return hashes;
}

/// `path: word` for every word of the file or its path that is a name.
std::vector<std::string> find_names(const std::string& path, const std::string& text, const Hashes& names) {
  constexpr std::string_view kWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  std::vector<std::string> found;
  for (const std::string_view part : {std::string_view(path), std::string_view(text)}) {
    for (std::size_t begin = part.find_first_of(kWord); begin != std::string_view::npos;) {
      const std::size_t end = std::min(part.find_first_not_of(kWord, begin), part.size());
      const std::string_view word = part.substr(begin, end - begin);
      const std::string_view stem = word.substr(0, word.rfind('.'));  // of a file, and of a sentence's last word
      if (names.contains(hash_of(word)) || names.contains(hash_of(stem)))
        found.push_back(path + ": " + std::string(word));
      begin = part.find_first_of(kWord, end);
    }
  }
  return found;
}

std::vector<std::string> names_in(const std::filesystem::path& file) {
  std::vector<std::string> names;
  const nlohmann::json document = parsed(text_of(file));
  for (const auto& row : document.at("rows")) {
    const std::string name = row.at("case");
    if (name.size() >= kLeastLength) names.push_back(name);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

TEST(CaseNames, AreFoundWhereTheyStand) {
  const Hashes names = {hash_of("model_tp4_pp2"), hash_of("other_case")};
  EXPECT_EQ(find_names("a.cc", "if (name == \"model_tp4_pp2\") scale = 1.07;", names).size(), 1U);
  EXPECT_EQ(find_names("a.cc", "// as in model_tp4_pp2.", names).size(), 1U);
  EXPECT_EQ(find_names("planner/other_case.h", "", names).size(), 1U);
  EXPECT_TRUE(find_names("a.cc", "model_tp2_pp2", names).empty());
}

TEST(CaseNames, AreThoseOfTheData) {
  Hashes hashes;
  for (const char* file : {"truth/megatron_lm_ci_memory.dev.json", "truth/mindspeed_llm_ascend_ci_memory.dev.json"}) {
    const auto path = data_path(file);
    if (!path) GTEST_SKIP() << "no reference data (TIDEMARK_DATA)";
    for (const std::string& name : names_in(*path)) hashes.insert(hash_of(name));
  }
  EXPECT_EQ(hashes, stored_hashes());
}

TEST(CaseNames, StandInNoCode) {
  const Hashes names = stored_hashes();
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
