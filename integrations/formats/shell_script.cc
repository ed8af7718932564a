#include "integrations/formats/shell_script.h"

#include <fmt/format.h>

#include <algorithm>

#include "integrations/formats/shell_follower.h"
#include "integrations/formats/shell_parser.h"
#include "integrations/formats/shell_unusual.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/utf8.h"

namespace tidemark::formats {
namespace {

/// What begins and never ends is no script: a shell would take the rest of the file for it.
Status refuse_unended(const ShellTree& tree, std::string_view text, std::string_view file) {
  const auto line_of = [text](std::size_t at) { return 1 + std::ranges::count(text.substr(0, at), '\n'); };
  constexpr std::size_t kNone = std::string_view::npos;
  const ShellUnended& unended = tree.unended;
  if (unended.quote != kNone)
    return bad_input(fmt::format("{}:{}: this quotation never ends; close it", file, line_of(unended.quote)));
  if (unended.bracket != kNone)
    return bad_input(fmt::format("{}:{}: this {} never ends; close it", file, line_of(unended.bracket),
                                 shown(text.substr(unended.bracket, 8))));
  if (unended.parenthesis != kNone)
    return bad_input(fmt::format("{}:{}: a shell refuses this ( among options; put the value in quotes", file,
                                 line_of(unended.parenthesis)));
  if (unended.array != kNone) {
    const std::string_view name = text.substr(unended.array, text.find_first_of("=+", unended.array) - unended.array);
    return bad_input(
        fmt::format("{}:{}: the array {} is never closed; add )", file, line_of(unended.array), shown(name)));
  }
  if (tree.too_deep != kNone)
    return bad_input(
        fmt::format("{}:{}: this command stands in more than {} others; a launch script needs no more "
                    "than a few",
                    file, line_of(tree.too_deep), kDeepestShellCommand));
  return {};
}

}  // namespace

Result<ShellScript> read_shell_script(std::string_view text, std::string_view file_name,
                                      const ReadBeside& read_beside) {
  if (Status status = require_utf8(text, file_name); !status) return status.error();
  const ShellTree tree = parse_shell(text);
  if (Status status = refuse_unended(tree, text, file_name); !status) return status.error();
  ShellFollower follower(text, file_name, read_beside);
  if (tree.unended.here_document != std::string_view::npos)
    follower.note(tree.unended.here_document, "this here-document never ends; what follows is left out");
  for (const ShellUnusual& unusual : unusual_text(text)) follower.doubt(unusual.at, unusual.what);
  for (const ShellUnusual& unusual : unusual_commands(text, tree)) follower.doubt(unusual.at, unusual.what);
  follower.follow(tree);
  return follower.finish();
}

}  // namespace tidemark::formats
