#include "integrations/formats/yaml_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "integrations/formats/near_miss.h"

namespace tidemark::formats {
namespace {

std::string name_of(const std::string& path) {
  return path.empty() ? "the file" : "section " + path;
}

}  // namespace

// ---- document -----------------------------------------------------------------------------------------------------

Result<std::shared_ptr<const YamlNode>> YamlDocument::parse(std::string_view text) const {
  constexpr YamlUse kUse = {.most_bytes = std::size_t{1} << 20,
                            .what = "description",
                            .invalid = "this is not valid YAML",
                            .remedy = "write `key: value`, with the keys of a section indented alike"};
  Result<std::shared_ptr<const YamlNode>> root = read_yaml_tree(text, file_, kUse);
  if (!root || root.value()->is_map()) return root;
  const bool empty = root.value()->is_empty();
  return bad_input(fmt::format("{}:{}: the file is {}; start from one of the files in {}", file_,
                               empty ? 1 : root.value()->line, empty ? "empty" : "not a list of `key: value` lines",
                               examples_));
}

int YamlDocument::line_of(std::string_view path) const {
  for (;;) {
    const auto found = lines_.find(path);
    if (found != lines_.end()) return found->second;
    const std::size_t dot = path.rfind('.');
    if (dot == std::string_view::npos) return 1;
    path = path.substr(0, dot);
  }
}

Error YamlDocument::first_error() const {
  const auto before = [](const Mistake& a, const Mistake& b) {
    return std::pair(a.missing, a.line) < std::pair(b.missing, b.line);
  };
  const Mistake& first = *std::ranges::min_element(mistakes_, before);  // ties: the one found first
  return bad_input(fmt::format("{}:{}: {}", file_, first.line, first.message));
}

// ---- values -------------------------------------------------------------------------------------------------------

std::string described(const YamlNode& node) {
  if (node.is_list()) return "a list";
  if (node.is_map()) return "a section";
  if (node.is_scalar()) return shown(node.text);
  return "empty";
}

std::optional<std::int64_t> integer_in(std::string_view text) {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

// ---- mapping ------------------------------------------------------------------------------------------------------

YamlMap::YamlMap(YamlDocument& document, const YamlNode& node, std::string path, int line)
    : document_(&document), path_(std::move(path)), line_(line) {
  if (!node.is_map())
    document.wrong(line, fmt::format("{} is {}; write its keys below it, indented", path_, described(node)));
  else
    for (const YamlNode::Item& item : node.items) add_entry(*item.key, *item.value);
}

void YamlMap::add_entry(const YamlNode& key, const YamlNode& value) {
  const int line = key.line;
  if (!key.is_scalar()) {
    document_->wrong(line, fmt::format("a key of {} is {}; write a plain word", name_of(path_), described(key)));
    return;
  }
  if (const Entry* first = entry(key.text)) {
    document_->wrong(line, fmt::format("{} is given twice in {} (first on line {}); keep one", shown(key.text),
                                       name_of(path_), first->line));
    return;
  }
  rows_.emplace(key.text, entries_.size());
  entries_.push_back({key.text, line, &value});
  document_->remember(path_of(key.text), line);
}

const YamlMap::Entry* YamlMap::entry(std::string_view key) const {
  const auto found = rows_.find(key);
  return found == rows_.end() ? nullptr : &entries_[found->second];
}

int YamlMap::line_of(std::string_view key) const {
  const Entry* found = entry(key);
  return found == nullptr ? line_ : found->line;
}

std::string YamlMap::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const YamlMap::Entry* YamlMap::ask(std::string_view key, Need need, std::string_view line_to_add) {
  accept(key);
  const Entry* found = entry(key);
  if (found == nullptr && need == Need::required) {
    document_->missing(line_, fmt::format("{} lacks the key '{}'; add {}", name_of(path_), key, line_to_add));
  }
  return found;
}

const YamlNode* YamlMap::any(std::string_view key, std::string_view example, Need need) {
  const Entry* found = ask(key, need, fmt::format("`{}: {}`", key, example));
  return found == nullptr ? nullptr : found->node;
}

const YamlNode* YamlMap::scalar(std::string_view key, std::string_view example, Need need) {
  const YamlNode* node = any(key, example, need);
  if (node == nullptr || node->is_scalar()) return node;
  wrong(key, fmt::format("{} is {}; write `{}: {}`", key, described(*node), key, example));
  return nullptr;
}

void YamlMap::integer(std::string_view key, std::int64_t& out, Need need) {
  const YamlNode* node = scalar(key, "<whole number>", need);
  if (node == nullptr) return;
  if (const auto value = integer_in(node->text)) {
    out = *value;
  } else {
    wrong(key, fmt::format("{} is {}; write a whole number of at most 19 digits", key, described(*node)));
  }
}

void YamlMap::integer(std::string_view key, std::int32_t& out, Need need) {
  std::int64_t wide = out;
  integer(key, wide, need);
  if (wide > std::numeric_limits<std::int32_t>::max() || wide < std::numeric_limits<std::int32_t>::min()) {
    wrong(key, fmt::format("{} is {}; it must be below 2^31", key, wide));
  } else {
    out = static_cast<std::int32_t>(wide);
  }
}

void YamlMap::real(std::string_view key, double& out, Need need) {
  const YamlNode* node = scalar(key, "<number>", need);
  if (node == nullptr) return;
  const std::string& text = node->text;
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size() || !std::isfinite(value)) {
    wrong(key, fmt::format("{} is {}; write a number like 1.5", key, described(*node)));
  } else {
    out = value;
  }
}

void YamlMap::boolean(std::string_view key, bool& out, Need need) {
  const YamlNode* node = scalar(key, "true", need);
  if (node == nullptr) return;
  if (node->text == "true" || node->text == "false") {
    out = node->text == "true";
  } else {
    wrong(key, fmt::format("{} is {}; write true or false", key, described(*node)));
  }
}

void YamlMap::text(std::string_view key, std::string& out, Need need) {
  const YamlNode* node = scalar(key, "<name>", need);
  if (node == nullptr) return;
  if (node->text.empty()) {
    wrong(key, fmt::format("{} is empty; write a name", key));
  } else {
    out = node->text;
  }
}

std::optional<std::size_t> YamlMap::find_word(std::string_view key, std::span<const std::string> words, Need need) {
  const YamlNode* node = scalar(key, fmt::format("{}", fmt::join(words, " | ")), need);
  if (node == nullptr) return std::nullopt;
  const auto found = std::ranges::find(words, node->text);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  const auto near = find_near_miss(node->text, words);
  wrong(key, fmt::format("{} is {}; {}write one of {}", key, described(*node),
                         near ? fmt::format("did you mean '{}'? ", *near) : "", fmt::join(words, ", ")));
  return std::nullopt;
}

std::optional<YamlMap> YamlMap::section(std::string_view key, Need need) {
  const Entry* found = ask(key, need, fmt::format("a section `{}:`", key));
  if (found == nullptr) return std::nullopt;
  return YamlMap(*document_, *found->node, path_of(key), found->line);
}

const YamlNode* YamlMap::list(std::string_view key, std::string_view example, Need need) {
  const YamlNode* node = any(key, example, need);
  if (node == nullptr || node->is_list()) return node;
  wrong(key, fmt::format("{} is {}; write a list like `{}: {}`", key, described(*node), key, example));
  return nullptr;
}

void YamlMap::forbid(std::string_view key, std::string_view why) {
  accept(key);
  if (has(key)) wrong(key, fmt::format("{} has no meaning here: {}", key, why));
}

void YamlMap::finish() {
  const std::vector<std::string> known(asked_.begin(), asked_.end());
  for (const Entry& found : entries_) {
    if (asked_.contains(found.key)) continue;
    const auto near = find_near_miss(found.key, known);
    document_->wrong(found.line, fmt::format("unknown key {} in {}; {}", shown(found.key), name_of(path_),
                                             near ? fmt::format("did you mean '{}'?", *near)
                                                  : fmt::format("it knows {}", fmt::join(known, ", "))));
    return;  // the first is what is said, and each costs a look at every name
  }
}

}  // namespace tidemark::formats
