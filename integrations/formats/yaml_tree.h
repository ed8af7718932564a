#pragma once
// One YAML document (or JSON, which is YAML) as a tree of plain values, whatever the text holds. Shared by
// integrations.
//
// The parser behind it takes any bytes for YAML, and its own loaders trust them: a comma alone gives empty documents
// without end, and a few lines of anchors and aliases stand for more nodes than a machine has memory. So its events are
// taken here, where the first one beyond a limit ends the reading with one line.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tidemark::formats {

struct YamlNode {
  enum class Kind : std::uint8_t { empty, scalar, list, map };
  struct Item {
    std::shared_ptr<const YamlNode> key;  ///< of a map; none in a list
    std::shared_ptr<const YamlNode> value;
  };

  Kind kind = Kind::empty;
  int line = 1;             ///< from 1
  std::string text;         ///< of a scalar
  std::vector<Item> items;  ///< of a list or map, in the order of the text

  [[nodiscard]] bool is_empty() const { return kind == Kind::empty; }
  [[nodiscard]] bool is_scalar() const { return kind == Kind::scalar; }
  [[nodiscard]] bool is_list() const { return kind == Kind::list; }
  [[nodiscard]] bool is_map() const { return kind == Kind::map; }
  /// The value under the first key of this name, or nullptr. Of what is no map: nullptr.
  [[nodiscard]] const YamlNode* find(std::string_view key) const;
};

/// What a text is, for the limit of its size and the words of its mistakes.
struct YamlUse {
  std::size_t most_bytes = 0;
  std::string_view what;     ///< "description"
  std::string_view invalid;  ///< "this is not valid YAML"
  std::string_view remedy;   ///< what to write instead
};

/// Of one document. What an alias stands for counts at each place where it stands, so a walk over the tree is bounded,
/// too: by nodes, by levels and by the texts that it meets.
inline constexpr std::size_t kMostYamlNodes = std::size_t{1} << 17;
inline constexpr std::size_t kMostYamlLevels = 64;
inline constexpr std::size_t kMostYamlTextBytes = std::size_t{8} << 20;
/// Of the text: characters that may begin a value. Of a value in brackets the parser keeps every token, some 200 bytes
/// each, before it tells the first.
inline constexpr std::string_view kYamlSigns = "[{,?:&*!\"'";
inline constexpr std::size_t kMostYamlSigns = std::size_t{1} << 17;

/// The only document of a text; a text without any is an empty node. Errors (bad_input): `file:line: what, and what
/// would be right`, of a text that is too large, not UTF-8 or not YAML, of a second document, of a limit above.
[[nodiscard]] Result<std::shared_ptr<const YamlNode>> read_yaml_tree(std::string_view text, std::string_view file_name,
                                                                     const YamlUse& use);

}  // namespace tidemark::formats
