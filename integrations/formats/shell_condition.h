#pragma once
// Tests of a shell script, `[ ... ]` and `[[ ... ]]`, as far as the script alone decides them. Private to formats.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "integrations/formats/shell_lexer.h"
#include "integrations/formats/shell_text.h"
#include "integrations/formats/shell_variables.h"

namespace tidemark::formats {

/// Nothing: it depends on something the script does not say.
using ShellTruth = std::optional<bool>;

struct ShellTestWord {
  ShellText text;
  bool is_bare = false;  ///< not in quotes: with nothing in it, it is no word to `[`
};

/// `$TP` or `${TP}`, which the script never sets and nothing else does.
[[nodiscard]] bool is_never_set(const ShellText& text);

/// The words between `[` and `]`, as fields. `taken_empty`: names that nothing sets and that decide it are added there.
[[nodiscard]] ShellTruth test_words(std::span<const ShellTestWord> words, std::vector<std::string>& taken_empty);

/// The words between `[[` and `]]`, as written.
[[nodiscard]] ShellTruth test_expression(std::span<const ShellWord> words, ShellVariables& variables,
                                         std::vector<std::string>& taken_empty);

}  // namespace tidemark::formats
