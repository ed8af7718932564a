#include "integrations/configs/config_kind.h"

#include <algorithm>
#include <set>

namespace tidemark::configs {
namespace {

bool ends_with(std::string_view name, std::string_view ending) {
  if (name.size() < ending.size()) return false;
  return std::ranges::equal(name.substr(name.size() - ending.size()), ending,
                            [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b; });
}

/// Outermost keys of a mapping in block style, up to a bound: what lies in brackets or deeper has none.
std::set<std::string_view> outer_keys(std::string_view text) {
  constexpr std::size_t kMost = 256;
  std::set<std::string_view> keys;
  while (!text.empty() && keys.size() < kMost) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && colon > 0 && line.front() != ' ' && line.front() != '#')
      keys.insert(line.substr(0, colon));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return keys;
}

}  // namespace

ConfigKind kind_of(std::string_view text, std::string_view file_name) {
  if (ends_with(file_name, ".toml")) return ConfigKind::torchtitan;
  const std::set<std::string_view> keys = outer_keys(text);
  const bool container = text.find("_target_: megatron.bridge.") != std::string_view::npos;
  if (container || (keys.contains("model") && keys.contains("train") && keys.contains("ddp")))
    return ConfigKind::bridge;
  if (keys.contains("runner_config") || keys.contains("parallel_config")) return ConfigKind::mindformers;
  if (keys.contains("model") && text.find("\n  model_config:") != std::string_view::npos)
    return ConfigKind::mindformers;
  return ConfigKind::other;
}

}  // namespace tidemark::configs
