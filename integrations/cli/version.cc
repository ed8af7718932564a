#include "integrations/cli/version.h"

#include <fmt/format.h>
#include <spdlog/version.h>
#include <tbb/version.h>

#include <CLI/Version.hpp>
#include <nlohmann/json.hpp>

#include "integrations/cli/build_info.h"

namespace tidemark::cli {

std::string version_number() {
  return kVersion;
}

std::vector<std::pair<std::string, std::string>> build_facts() {
  return {
      {"revision", kRevision},
      {"compiler", kCompiler},
      {"build type", kBuildType},
      {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
      {"oneTBB", TBB_runtime_version()},
      {"spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
      {"CLI11", CLI11_VERSION},
      {"nlohmann-json",
       fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
      {"yaml-cpp", kYamlCppVersion},
  };
}

std::string version_text() {
  std::string text = fmt::format("tidemark {}\n", version_number());
  for (const auto& [name, value] : build_facts()) text += fmt::format("  {:<14} {}\n", name, value);
  return text;
}

}  // namespace tidemark::cli
