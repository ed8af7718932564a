#pragma once
// Reading a YAML mapping key by key with its line numbers: every mistake is found and kept as one `file:line: what, and
// what would be right`, and the first one in the text is reported. Shared by integrations.
//
// A YamlMap knows its keys only from the reads made of it, so `finish` must come last: what was never asked for is
// unknown. Key paths are dotted ("model.attention.heads").

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/yaml_tree.h"

namespace tidemark::formats {

enum class Need : std::uint8_t { required, optional };

/// One file: its name, the line of every key met so far, and the mistakes found.
class YamlDocument {
 public:
  /// `examples`: the folders whose files show what one looks like.
  explicit YamlDocument(std::string_view file_name, std::string_view examples = "models/ or devices/")
      : file_(file_name), examples_(examples) {}

  /// The one document of a text, a mapping. Errors (bad_input): those of read_yaml_tree, an empty file, another root.
  [[nodiscard]] Result<std::shared_ptr<const YamlNode>> parse(std::string_view text) const;

  /// A mistake at a line (1 is the first).
  void wrong(int line, std::string message) { mistakes_.push_back({line, false, std::move(message)}); }
  /// A key that is not there: reported only if nothing that is there is wrong, since a misspelt key explains a missing
  /// one.
  void missing(int line, std::string message) { mistakes_.push_back({line, true, std::move(message)}); }

  void remember(const std::string& path, int line) { lines_.emplace(path, line); }
  /// Line of a key, or of the nearest section around it.
  [[nodiscard]] int line_of(std::string_view path) const;

  [[nodiscard]] bool clean() const { return mistakes_.empty(); }
  /// REQUIRES: !clean().
  [[nodiscard]] Error first_error() const;

 private:
  struct Mistake {
    int line;
    bool missing;
    std::string message;
  };
  std::string file_;
  std::string examples_;
  std::map<std::string, int, std::less<>> lines_;
  std::vector<Mistake> mistakes_;
};

/// What a node is, for "x is <described>": a quoted scalar, "a list", "a section" or "empty".
[[nodiscard]] std::string described(const YamlNode& node);

/// A whole number of at most 64 bits: digits, with a sign if negative.
[[nodiscard]] std::optional<std::int64_t> integer_in(std::string_view text);

class YamlMap {
 public:
  /// `line`: where the section begins. A node that is no mapping is a mistake and reads as empty. `node` must outlive
  /// the reads.
  YamlMap(YamlDocument& document, const YamlNode& node, std::string path, int line);

  [[nodiscard]] bool has(std::string_view key) const { return entry(key) != nullptr; }
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] int line_of(std::string_view key) const;
  [[nodiscard]] std::string path_of(std::string_view key) const;

  void integer(std::string_view key, std::int64_t& out, Need need);
  void integer(std::string_view key, std::int32_t& out, Need need);
  void real(std::string_view key, double& out, Need need);
  void boolean(std::string_view key, bool& out, Need need);
  void text(std::string_view key, std::string& out, Need need);

  /// One of a few words. False: it is missing or wrong, and `out` is as it was.
  template <class Value>
  bool choice(std::string_view key, Value& out, std::span<const std::pair<std::string_view, Value>> words, Need need) {
    std::vector<std::string> names;
    for (const auto& word : words) names.emplace_back(word.first);
    const auto at = find_word(key, names, need);
    if (at) out = words[*at].second;
    return at.has_value();
  }

  /// A number with its unit, by one of the parsers of core/bytes.h and quantity.h.
  template <class Value>
  void quantity(std::string_view key, Value& out, Result<Value> (*parse)(std::string_view), std::string_view example,
                Need need) {
    const YamlNode* node = scalar(key, example, need);
    if (node == nullptr) return;
    Result<Value> value = parse(node->text);
    if (!value.ok()) {
      wrong(key, std::string(key) + ": " + value.error().message);
    } else {
      out = value.value();
    }
  }

  /// A nested mapping, or nothing.
  [[nodiscard]] std::optional<YamlMap> section(std::string_view key, Need need);
  /// A list of any nodes, or nullptr.
  [[nodiscard]] const YamlNode* list(std::string_view key, std::string_view example, Need need);
  /// Any node, or nullptr; `example` completes "add `key: `" where it is required.
  [[nodiscard]] const YamlNode* any(std::string_view key, std::string_view example, Need need);

  /// A mistake at the line of a key.
  void wrong(std::string_view key, std::string message) { document_->wrong(line_of(key), std::move(message)); }
  /// Makes a key known without reading it.
  void accept(std::string_view key) { asked_.emplace(key); }
  /// A key that has no meaning in this place; `why` says when it would have.
  void forbid(std::string_view key, std::string_view why);

  /// Reports every key that was never asked for, with the nearest one that was.
  void finish();

 private:
  struct Entry {
    std::string key;
    int line;
    const YamlNode* node;
  };
  [[nodiscard]] const Entry* entry(std::string_view key) const;
  [[nodiscard]] const Entry* ask(std::string_view key, Need need, std::string_view line_to_add);
  [[nodiscard]] const YamlNode* scalar(std::string_view key, std::string_view example, Need need);
  [[nodiscard]] std::optional<std::size_t> find_word(std::string_view key, std::span<const std::string> words,
                                                     Need need);
  void add_entry(const YamlNode& key, const YamlNode& value);

  YamlDocument* document_;
  std::string path_;
  int line_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> rows_;  ///< of entries_, by key
  std::set<std::string, std::less<>> asked_;
};

}  // namespace tidemark::formats
