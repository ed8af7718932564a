#include <fmt/format.h>

#include <array>

#include "integrations/configs/config_keys.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/yaml_tree.h"

namespace tidemark::configs {
namespace {

using formats::YamlNode;

/// What omegaconf's instantiate makes of a map, if it is one of its objects: the name that tells it from others.
const std::string* object_name(const YamlNode& node) {
  const YamlNode* target = node.find("_target_");
  if (target == nullptr || !target->is_scalar()) return nullptr;
  if (const YamlNode* name = node.find("_name_"); name != nullptr && name->is_scalar()) return &name->text;
  constexpr std::array<std::string_view, 3> kMarks = {"_call_", "_args_", "_partial_"};
  for (const std::string_view mark : kMarks)
    if (node.find(mark) != nullptr) return &target->text;
  return nullptr;
}

class Flattener {
 public:
  explicit Flattener(std::string_view file) : file_(file) {}

  Status section(const YamlNode& map, const std::string& prefix) {
    for (const YamlNode::Item& item : map.items) {
      if (!item.key->is_scalar()) return wrong(*item.key, "a key is not a name; write `name: value` lines");
      const std::string path = prefix.empty() ? item.key->text : prefix + "." + item.key->text;
      if (Status status = entry(path, item.key->line, *item.value); !status) return status;
    }
    return {};
  }

  [[nodiscard]] std::vector<ConfigKey> take() && { return std::move(keys_); }

 private:
  Status entry(const std::string& path, int line, const YamlNode& node) {
    ConfigKey key{.path = path, .line = line, .is_list = node.is_list()};
    if (node.is_map()) {
      const std::string* name = object_name(node);
      if (name == nullptr && !node.items.empty()) return section(node, path);
      key.value = name == nullptr ? "" : *name;
      key.is_unset = name == nullptr;
    } else {
      append_text(node, key.value);
      key.is_unset = node.is_empty() || (node.is_scalar() && (key.value == "null" || key.value == "~"));
    }
    return add(std::move(key));
  }

  /// Lists in brackets, whatever is in them; a map inside one counts as an empty item.
  static void append_text(const YamlNode& node, std::string& out) {
    if (node.is_scalar()) out += node.text;
    if (!node.is_list()) return;
    out += '[';
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      if (i > 0) out += ',';
      append_text(*node.items[i].value, out);
    }
    out += ']';
  }

  Status add(ConfigKey key) {
    bytes_ += key.path.size() + key.value.size();
    if (keys_.size() == kMostKeys || bytes_ > kMostKeyBytes)
      return bad_input(
          fmt::format("{}:{}: the keys up to here are more than {} or have more than {} bytes; a "
                      "configuration has fewer",
                      file_, key.line, kMostKeys, kMostKeyBytes));
    keys_.push_back(std::move(key));
    return {};
  }

  Status wrong(const YamlNode& node, std::string_view message) const {
    return bad_input(fmt::format("{}:{}: {}", file_, node.line, message));
  }

  std::string_view file_;
  std::vector<ConfigKey> keys_;
  std::size_t bytes_ = 0;
};

}  // namespace

Result<std::vector<ConfigKey>> yaml_keys(std::string_view text, std::string_view file_name) {
  constexpr formats::YamlUse kUse = {.most_bytes = kMostYamlBytes,
                                     .what = "training configuration",
                                     .invalid = "this is not valid YAML",
                                     .remedy = "give the configuration as the framework reads or writes it"};
  const auto root = formats::read_yaml_tree(text, file_name, kUse);
  if (!root) return root.error();
  if (!root.value()->is_map())
    return bad_input(
        fmt::format("{}:1: a configuration is a map of sections; write `model:` and what follows it", file_name));
  Flattener flattener(file_name);
  if (Status status = flattener.section(*root.value(), ""); !status) return status.error();
  return std::move(flattener).take();
}

}  // namespace tidemark::configs
