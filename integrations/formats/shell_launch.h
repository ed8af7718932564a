#pragma once
// Which command of a shell script starts the training, out of all that start a Python script. Private to formats.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "integrations/formats/shell_script.h"
#include "integrations/formats/shell_text.h"
#include "integrations/formats/shell_variables.h"

namespace tidemark::formats {

/// A command as its words and where it stands.
struct ShellStart {
  std::vector<ShellText> words;
  std::int32_t line = 0;
  std::set<std::int32_t> doubts;  ///< of the variables its words are made of
};

class ShellLaunches {
 public:
  using Variables = std::vector<ShellScript::Variable>;

  /// True: it starts a Python script with options. `variables`: those it would see; asked for where it is the best.
  bool take(ShellStart start, const std::function<Variables()>& variables);
  /// One that may run or not, which the script does not decide.
  void take_left_out(const ShellStart& start);

  [[nodiscard]] bool has_any() const { return !best_.arguments.empty(); }
  [[nodiscard]] bool has_training() const { return !trainings_.empty(); }
  /// Without a command: variables that hold options, in the order of their lines.
  void gather_options(const ShellVariables& variables);
  /// What is to be judged, and which others there are. `doubts`: texts by number.
  [[nodiscard]] ShellScript finish(const std::vector<ShellText>& doubts);

 private:
  struct Training {
    std::int32_t line = 0;
    std::string program;
    bool is_followed = true;  ///< false: it may run or not
  };
  void name_other_trainings();

  ShellScript best_;
  std::ptrdiff_t best_options_ = 0;
  bool best_trains_ = false;
  std::int32_t best_line_ = 0;
  std::set<std::int32_t> reached_;   ///< doubts the best command is made of
  std::vector<Training> trainings_;  ///< in the order they are met
};

/// Adds a field to the words of a command; a quoted command line, as for `bash -c`, becomes words. False: more than
/// blanks stands between these, and how they are cut is not followed.
bool add_command_words(ShellText field, std::vector<ShellText>& words);

/// The parts of `text` between blanks, behind those of `words`.
void split_at_blanks(const ShellText& text, std::vector<ShellText>& words);

/// What stands in place of a value that a line which is not followed may have set.
[[nodiscard]] ShellText lost_value(const std::string& name, const ShellVariable& variable);

/// Scalars, ascending by name.
[[nodiscard]] ShellLaunches::Variables scalars_of(const ShellVariables& variables);

}  // namespace tidemark::formats
