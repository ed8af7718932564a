#include "integrations/formats/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "integrations/formats/shown.h"
#include "integrations/formats/utf8.h"

namespace tidemark::formats {
namespace {

/// Thrown from an event, since nothing else stops the parser; caught below.
struct Refused {
  int line = 1;
  std::string what;
};

int line_of(const YAML::Mark& mark) {
  return std::max(mark.line, 0) + 1;
}

/// A line of the text without the blanks around it.
std::string_view line_at(std::string_view text, int line) {
  for (; line > 1; --line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  text = text.substr(0, text.find('\n'));
  const std::size_t begin = std::min(text.find_first_not_of(" \t\r"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const YamlUse& use) : text_(text), use_(use) {}

  [[nodiscard]] std::shared_ptr<const YamlNode> root() const { return root_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    ++documents_;
    start_line_ = line_of(mark);
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { leaf({.line = line_of(mark)}, anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, const std::string& value) override {
    leaf({.kind = YamlNode::Kind::scalar, .line = line_of(mark), .text = value}, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) throw Refused{line_of(mark), "an alias stands inside what it names; write it out"};
    const auto& [node, weight] = found->second;
    count(weight, line_of(mark));
    if (!open_.empty()) open_.back().levels = std::max(open_.back().levels, weight.levels);
    attach(node);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(YamlNode::Kind::list, line_of(mark), anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(YamlNode::Kind::map, line_of(mark), anchor);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapEnd() override { end(); }

 private:
  /// What a part of the tree adds to a walk over it.
  struct Weight {
    std::size_t nodes = 0;
    std::size_t text_bytes = 0;
    std::size_t levels = 0;  ///< of containers
  };
  struct Open {
    std::shared_ptr<YamlNode> node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    Weight before;           ///< of the document, where it begins
    std::size_t levels = 0;  ///< of containers inside
    std::shared_ptr<const YamlNode> key;
  };

  /// What the parser takes for the start of one may be what is left of the first, and would be left for ever.
  [[noreturn]] void refuse_second(int line) const {
    const std::string_view start = line_at(text_, start_line_);
    if (start.starts_with("---"))
      throw Refused{line, fmt::format("a second document starts here; write one {} a file", use_.what)};
    throw Refused{line, fmt::format("{} belongs to no value of the document; remove it", shown(start))};
  }

  void leaf(YamlNode node, YAML::anchor_t anchor) {
    const Weight weight{.nodes = 1, .text_bytes = node.text.size()};
    count(weight, node.line);
    auto shared = std::make_shared<const YamlNode>(std::move(node));
    if (anchor != YAML::NullAnchor) anchored_[anchor] = {shared, weight};
    attach(std::move(shared));
  }

  void begin(YamlNode::Kind kind, int line, YAML::anchor_t anchor) {
    const Weight before = total_;
    open_.push_back(
        {.node = std::make_shared<YamlNode>(YamlNode{.kind = kind, .line = line}), .anchor = anchor, .before = before});
    count({.nodes = 1}, line);
  }

  void end() {
    Open done = std::move(open_.back());
    open_.pop_back();
    const std::size_t levels = done.levels + 1;
    if (done.anchor != YAML::NullAnchor)
      anchored_[done.anchor] = {done.node,
                                {.nodes = total_.nodes - done.before.nodes,
                                 .text_bytes = total_.text_bytes - done.before.text_bytes,
                                 .levels = levels}};
    if (!open_.empty()) open_.back().levels = std::max(open_.back().levels, levels);
    attach(std::move(done.node));
  }

  void count(const Weight& weight, int line) {
    if (documents_ > 1) refuse_second(line);
    total_.nodes += weight.nodes;
    total_.text_bytes += weight.text_bytes;
    if (open_.size() + weight.levels > kMostYamlLevels)
      throw Refused{line, fmt::format("values lie more than {} levels deep; write them flatter", kMostYamlLevels)};
    if (total_.nodes > kMostYamlNodes)
      throw Refused{line,
                    fmt::format("the values up to here are more than {}, with aliases written out; a {} has fewer",
                                kMostYamlNodes, use_.what)};
    if (total_.text_bytes > kMostYamlTextBytes)
      throw Refused{line, fmt::format("the texts up to here have more than {} bytes, with aliases written out; a {} "
                                      "has fewer",
                                      kMostYamlTextBytes, use_.what)};
  }

  void attach(std::shared_ptr<const YamlNode> node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& open = open_.back();
    if (open.node->kind == YamlNode::Kind::map && !open.key) {
      open.key = std::move(node);
    } else {
      open.node->items.push_back({.key = std::exchange(open.key, nullptr), .value = std::move(node)});
    }
  }

  std::string_view text_;
  const YamlUse& use_;
  int documents_ = 0;
  int start_line_ = 1;  ///< of the document
  std::shared_ptr<const YamlNode> root_ = std::make_shared<YamlNode>();
  std::vector<Open> open_;
  Weight total_;
  std::unordered_map<YAML::anchor_t, std::pair<std::shared_ptr<const YamlNode>, Weight>> anchored_;
};

/// What the parser says, which may quote the text: one line, and no longer than anybody reads.
std::string brief(std::string_view message) {
  constexpr std::size_t kLongest = 120;
  return printable(utf8_prefix(message, kLongest)) + (message.size() > kLongest ? "..." : "");
}

/// The line of the first sign beyond the limit; 0: there is none.
int line_of_excess(std::string_view text) {
  std::size_t signs = 0;
  int line = 1;
  for (const char c : text) {
    if (c == '\n') ++line;
    if (kYamlSigns.find(c) != std::string_view::npos && ++signs > kMostYamlSigns) return line;
  }
  return 0;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  if (!is_map()) return nullptr;
  for (const Item& item : items)
    if (item.key->is_scalar() && item.key->text == key) return item.value.get();
  return nullptr;
}

Result<std::shared_ptr<const YamlNode>> read_yaml_tree(std::string_view text, std::string_view file_name,
                                                       const YamlUse& use) {
  const auto wrong = [&](int line, std::string_view what) {
    return bad_input(fmt::format("{}:{}: {}", file_name, line, what));
  };
  if (text.size() > use.most_bytes)
    return wrong(1, fmt::format("the file has {} bytes; a {} has at most {}", text.size(), use.what, use.most_bytes));
  if (Status status = require_utf8(text, file_name); !status) return status.error();
  if (const int line = line_of_excess(text); line > 0)
    return wrong(line, fmt::format("the signs {} up to here are more than {}; a {} has fewer", kYamlSigns,
                                   kMostYamlSigns, use.what));
  TreeBuilder builder(text, use);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) continue;  // at most twice: the builder refuses a second document
  } catch (const Refused& refused) {
    return wrong(refused.line, refused.what);
  } catch (const YAML::Exception& error) {
    return wrong(line_of(error.mark), fmt::format("{} ({}); {}", use.invalid, brief(error.msg), use.remedy));
  }
  return builder.root();
}

}  // namespace tidemark::formats
