#include "integrations/cli/input_hashes.h"

#include <algorithm>
#include <tuple>

#include "integrations/ci/content_hash.h"
#include "integrations/formats/file.h"

namespace tidemark::cli {
namespace {

namespace fs = std::filesystem;

Status add(const std::string& role, const fs::path& file, std::vector<ci::InputHash>& hashes) {
  const Result<std::string> text = formats::read_file(file);
  if (!text) return text.error();
  hashes.push_back({.role = role, .fnv1a64 = ci::fnv1a64(text.value())});
  return {};
}

}  // namespace

Result<std::vector<ci::InputHash>> hash_inputs(const RoleFiles& files) {
  std::vector<ci::InputHash> hashes;
  for (const auto& [role, file] : files) {
    if (file.empty()) continue;
    if (Status status = add(role, file, hashes); !status) return status.error();
  }
  std::ranges::sort(hashes, {}, [](const ci::InputHash& hash) { return std::tuple(hash.role, hash.fnv1a64); });
  return hashes;
}

}  // namespace tidemark::cli
