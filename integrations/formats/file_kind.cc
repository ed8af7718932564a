#include "integrations/formats/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "integrations/formats/file.h"

namespace tidemark::formats {
namespace {

constexpr Bytes kHeadBytes = 64 * kKiB;
constexpr std::array<std::string_view, 3> kNames = {"a plan file", "a captured step", "a model file"};

/// A line begins with `word`.
bool has_line(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    if (at == 0 || text[at - 1] == '\n') return true;
  return false;
}

/// What to do with a file of this kind, given where another is wanted.
std::string advice(FileKind is, FileKind wanted, const std::string& file) {
  if (is == FileKind::plan) return "show, check, run, simulate, diff and export read it";
  const std::string make = is == FileKind::job ? fmt::format("tidemark plan {}", file)
                                               : fmt::format("tidemark plan --graph {} --budget SIZE", file);
  return wanted == FileKind::plan ? fmt::format("make its plan first: {} --out plan.json", make)
                                  : fmt::format("plan it with: {}", make);
}

FileKind kind_of(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (text.starts_with('{')) {
    if (text.find("\"tidemark.plan\"") != std::string_view::npos) return FileKind::plan;
    return text.find("\"tidemark_graph\"") != std::string_view::npos ? FileKind::captured_step : FileKind::other;
  }
  if (has_line(text, "G ") && has_line(text, "N ")) return FileKind::captured_step;
  return has_line(text, "model:") ? FileKind::job : FileKind::other;
}

}  // namespace

Error explain_kind(Error error, const std::filesystem::path& path, FileKind wanted) {
  const FileKind is = kind_of(read_head(path, kHeadBytes));
  if (is == FileKind::other || is == wanted) return error;
  return bad_input(fmt::format("{}:1: is {}, where {} is wanted; {}", path.string(),
                               kNames[static_cast<std::size_t>(is)], kNames[static_cast<std::size_t>(wanted)],
                               advice(is, wanted, path.string())));
}

}  // namespace tidemark::formats
