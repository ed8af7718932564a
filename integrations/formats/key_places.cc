#include "integrations/formats/key_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "integrations/formats/yaml_fields.h"
#include "integrations/formats/yaml_tree.h"

namespace tidemark::formats {
namespace {

using Places = std::map<std::string, KeyPlace, std::less<>>;

/// Appends a node as one line of YAML, no further than a little behind the limit.
void append_flow(const YamlNode& node, std::string& text) {
  if (text.size() > kMostValueBytes) return;
  if (node.is_scalar()) {
    text += node.text;
  } else if (node.is_list() || node.is_map()) {
    text += node.is_list() ? '[' : '{';
    for (std::size_t i = 0; i < node.items.size() && text.size() <= kMostValueBytes; ++i) {
      if (i > 0) text += ", ";
      if (node.is_map()) {
        append_flow(*node.items[i].key, text);
        text += ": ";
      }
      append_flow(*node.items[i].value, text);
    }
    text += node.is_list() ? ']' : '}';
  }
}

/// As deep as read_yaml_tree goes at most (kMostYamlLevels).
void collect(const YamlNode& map, const std::string& path, Places& places) {
  for (const auto& [key, value] : map.items) {
    if (!key->is_scalar()) continue;
    const std::string here = path.empty() ? key->text : path + "." + key->text;
    std::string text;
    append_flow(*value, text);
    places.try_emplace(here, KeyPlace{.line = key->line, .value = short_value(std::move(text))});
    if (value->is_map()) collect(*value, here, places);
  }
}

/// A control of no file whose text is a key of the text.
void place(budget::Control& control, const Places& places, std::string_view file_name) {
  const auto found = places.find(control.text);
  if (found == places.end() || !control.file.empty()) return;
  control = {.file = std::string(file_name),
             .line = found->second.line,
             .text = found->second.value.empty() ? control.text + ":"
                                                 : fmt::format("{}: {}", control.text, found->second.value)};
}

/// Of a key that is not there; 0: no section of it is.
int line_of_section(std::string_view key, const Places& places) {
  for (std::size_t dot = key.rfind('.'); dot != std::string_view::npos; dot = key.rfind('.', dot - 1)) {
    if (const auto found = places.find(key.substr(0, dot)); found != places.end()) return found->second.line;
    if (dot == 0) break;
  }
  return 0;
}

}  // namespace

std::string short_value(std::string value) {
  std::ranges::replace_if(
      value, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  if (value.size() <= kMostValueBytes) return value;
  std::size_t end = kMostValueBytes;
  while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xC0U) == 0x80U) --end;
  return value.substr(0, end) + "...";
}

Result<Places> key_places(std::string_view yaml_text, std::string_view file_name) {
  const YamlDocument document(file_name);
  const Result<std::shared_ptr<const YamlNode>> root = document.parse(yaml_text);
  if (!root) return root.error();
  Places places;
  collect(*root.value(), "", places);
  return places;
}

void place_controls(budget::Holdings& holdings, const Places& places, std::string_view file_name) {
  for (budget::RankHoldings& rank : holdings.ranks) {
    for (budget::HeldStorage& held : rank.storages) {
      for (budget::Control& control : held.controls) place(control, places, file_name);
      std::ranges::stable_partition(held.controls, [](const budget::Control& c) { return !c.file.empty(); });
    }
  }
}

std::vector<budget::Control> settings_of(const Places& places, std::string_view file_name) {
  std::vector<budget::Control> settings;
  for (const auto& [key, key_place] : places) {
    const auto inner = places.lower_bound(key + ".");
    if (inner != places.end() && inner->first.starts_with(key + ".")) continue;
    place(settings.emplace_back(budget::Control{.text = key}), places, file_name);
  }
  std::ranges::stable_sort(settings, {}, &budget::Control::line);
  return settings;
}

void place_edits(budget::Remedy& remedy, const Places& places, std::string_view file_name) {
  for (budget::Edit& edit : remedy.edits) {
    budget::Control& where = edit.where;
    if (where.text.empty() || !where.file.empty()) continue;
    place(where, places, file_name);
    if (where.file.empty())
      where = {.file = std::string(file_name),
               .line = line_of_section(where.text, places),
               .text = where.text + " (not given)"};
  }
}

}  // namespace tidemark::formats
