// No other file may include the parser: its headers take seconds to compile.
// Some mistakes end in an assertion of release 3.3, which would stop the process; here they are mistakes of the text,
// also where assertions are off: there the parser drops its own and goes on.
#undef NDEBUG
namespace tidemark::configs {
struct TomlParserLost {};
[[noreturn]] static void lose_parser() {
  throw TomlParserLost{};
}
}  // namespace tidemark::configs
#define TOML_ASSERT(holds) ((holds) ? static_cast<void>(0) : ::tidemark::configs::lose_parser())
#define TOML_EXCEPTIONS 1
#define TOML_MAX_NESTED_VALUES 32
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ENABLE_WINDOWS_COMPAT 0
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>

#include "integrations/configs/config_keys.h"
#include "integrations/formats/shown.h"

namespace tidemark::configs {
namespace {

/// A dotted key makes a table for every dot, which the parser does not count as nesting.
constexpr std::size_t kMostDots = 64;

/// Dots outside strings; with strings of several lines in the text, any dots.
std::size_t dots_of(std::string_view line, bool any) {
  std::size_t dots = 0;
  char quote = '\0';
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (any || quote == '\0') {
      if (c == '.') ++dots;
      if (!any && c == '#') break;
      if (!any && (c == '"' || c == '\'')) quote = c;
    } else if (c == quote) {
      quote = '\0';
    } else if (c == '\\' && quote == '"') {
      ++i;
    }
  }
  return dots;
}

/// The first line with more dots than a key may have; 0: none.
int line_of_excess(std::string_view text) {
  const bool any = text.find("\"\"\"") != std::string_view::npos || text.find("'''") != std::string_view::npos;
  int line = 1;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (dots_of(text.substr(0, end), any) > kMostDots) return line;
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line;
  }
  return 0;
}

class Flattener {
 public:
  explicit Flattener(std::string_view file) : file_(file) {}

  Status table(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      const std::string path = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
      const auto* inner = node.as_table();
      Status status = inner != nullptr && !inner->empty() ? this->table(*inner, path)
                                                          : add(path, node, static_cast<int>(key.source().begin.line));
      if (!status) return status;
    }
    return {};
  }

  /// By line, since the parser keeps tables by name.
  [[nodiscard]] std::vector<ConfigKey> take() && {
    std::ranges::stable_sort(keys_, {}, &ConfigKey::line);
    return std::move(keys_);
  }

 private:
  Status add(const std::string& path, const toml::node& node, int line) {
    ConfigKey key{.path = path, .line = line, .is_list = node.is_array(), .is_unset = node.is_table()};
    append_text(node, key.value);
    bytes_ += key.path.size() + key.value.size();
    if (keys_.size() == kMostKeys || bytes_ > kMostKeyBytes)
      return bad_input(
          fmt::format("{}:{}: the keys are more than {} or have more than {} bytes; a configuration has "
                      "fewer",
                      file_, line, kMostKeys, kMostKeyBytes));
    keys_.push_back(std::move(key));
    return {};
  }

  static void append_text(const toml::node& node, std::string& out) {
    if (const auto* text = node.as_string()) out += text->get();
    if (const auto* flag = node.as_boolean()) out += flag->get() ? "true" : "false";
    if (const auto* whole = node.as_integer()) out += fmt::format("{}", whole->get());
    if (const auto* number = node.as_floating_point()) out += fmt::format("{}", number->get());
    const auto* list = node.as_array();
    if (list == nullptr) return;
    out += '[';
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (i > 0) out += ',';
      append_text(*list->get(i), out);
    }
    out += ']';
  }

  std::string_view file_;
  std::vector<ConfigKey> keys_;
  std::size_t bytes_ = 0;
};

/// What the parser says, which may quote the text.
std::string brief(std::string_view message) {
  constexpr std::size_t kLongest = 160;
  return formats::printable(message.substr(0, kLongest)) + (message.size() > kLongest ? "..." : "");
}

}  // namespace

Result<std::vector<ConfigKey>> toml_keys(std::string_view text, std::string_view file_name) {
  if (text.size() > kMostTomlBytes)
    return bad_input(fmt::format("{}:1: the file has {} bytes; a training configuration has at most {}", file_name,
                                 text.size(), kMostTomlBytes));
  if (const int line = line_of_excess(text); line > 0)
    return bad_input(
        fmt::format("{}:{}: more than {} dots in a line; write tables as [sections]", file_name, line, kMostDots));
  try {
    const toml::table parsed = toml::parse(text);
    Flattener flattener(file_name);
    if (Status status = flattener.table(parsed, ""); !status) return status.error();
    return std::move(flattener).take();
  } catch (const toml::parse_error& error) {
    return bad_input(fmt::format("{}:{}: this is not valid TOML ({}); give the configuration as torchtitan reads it",
                                 file_name, std::max<std::uint32_t>(1, error.source().begin.line),
                                 brief(error.description())));
  } catch (const TomlParserLost&) {
    return bad_input(
        fmt::format("{}:1: this is not valid TOML (a key is broken off); give the configuration as "
                    "torchtitan reads it",
                    file_name));
  }
}

}  // namespace tidemark::configs
