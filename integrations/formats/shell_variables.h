#pragma once
// Variables of a shell script and what words become with them. Only what the script itself says is known: a variable it
// never sets and the output of a command stay as they are written, and are marked as unresolved. Private to formats.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "integrations/formats/shell_budget.h"
#include "integrations/formats/shell_lexer.h"
#include "integrations/formats/shell_text.h"

namespace tidemark::formats {

struct ShellVariable {
  std::vector<ShellText> items;  ///< one, unless it is an array
  bool exported = false;
  bool is_set = true;        ///< false: only declared, or exported before it has a value
  bool is_integer = false;   ///< by `declare -i`: what it is given is computed
  bool is_changed = false;   ///< by `declare -l`, `-u`, `-n` and the like: it does not hold what it is given
  bool is_readonly = false;  ///< or may be
  bool is_array = false;
  bool held_text = false;     ///< it was, or may have been, given what is no number
  bool held_options = false;  ///< of one that is lost: it began with an option
  std::int32_t lost_line =
      0;  ///< the line of a command that is not followed and may have set it; 0: its value is known
  std::set<std::int32_t> doubts;  ///< options it may hold besides, by the number their finder gave them
};

/// Of its values together, and its doubts: what a copy costs.
[[nodiscard]] std::size_t held_characters(const ShellVariable& variable);

class ShellVariables {
 public:
  /// REQUIRES: `script` and `budget` outlive this. With the budget spent, words come out cut short.
  ShellVariables(std::string_view script, ShellBudget& budget);

  /// Fields of a word: quotes removed, variables replaced and, outside of quotes, split at blanks.
  [[nodiscard]] std::vector<ShellText> expand(const ShellWord& word);
  /// The word as one text, as on the right of an assignment.
  [[nodiscard]] ShellText expand_whole(std::size_t begin, std::size_t end, int depth = 0);
  /// Takes `NAME=value`, `NAME+=value`, `NAME=(a b)`; false: the word is no assignment.
  bool assign(const ShellWord& word, bool exported);
  /// Takes `text` for the value.
  void set(const std::string& name, ShellText text, std::int32_t line);
  /// What `NAME=value` would put behind the value NAME has: fields, none where nothing changes. Nothing: it replaces
  /// it. Leaves NAME as it is. REQUIRES: `word` is an assignment.
  [[nodiscard]] std::optional<std::vector<ShellText>> added_by(const ShellWord& word);
  /// A command in `line` that is not followed may have set it.
  void lose(const std::string& name, std::int32_t line);
  /// A shell may end over the sums in a word, if it comes to it: names in them that hold no number.
  void doubt_sums(std::string_view word, std::size_t at);
  /// The same of every variable, those too that no line of the script names.
  void lose_all(std::int32_t line, std::size_t at);
  void doubt(const std::string& name, std::int32_t number) {
    declared(name).doubts.insert(number);
    declared(name).is_set = true;
  }
  /// Of a name, set or not: what `declare` says of it.
  [[nodiscard]] ShellVariable& declared(const std::string& name);
  /// Puts back what a function's `local` hid; null: there was none.
  void restore(const std::string& name, const ShellVariable* before);
  /// The doubts of all variables that words were made of since this was last asked.
  [[nodiscard]] std::set<std::int32_t> take_reached() { return std::exchange(reached_, {}); }
  void reach(const std::set<std::int32_t>& doubts) { reached_.insert(doubts.begin(), doubts.end()); }
  /// `$@` and `$1`: of the script, or of the function that is followed.
  struct OwnArguments {
    /// Nothing else gives any: a script is taken to be started without. False: a function's, from a call that gives
    /// some.
    bool known = true;
    bool is_lost = false;                         ///< a command that is not followed may have set them
    std::optional<std::vector<ShellText>> items;  ///< as `set --` or a call without any says
  };
  [[nodiscard]] const OwnArguments& own_arguments() const { return state_.own; }
  void set_own_arguments(OwnArguments own) { state_.own = std::move(own); }
  /// The value of whole-number arithmetic at `at`. Nothing: it has none that is known, assumed defaults included.
  [[nodiscard]] std::optional<std::int64_t> arithmetic(std::string_view expression, std::size_t at);
  void unset(const std::string& name, std::int32_t line);
  /// `set -a`: what is assigned from here on is exported.
  void export_all(bool exports) { state_.exports_all = exports; }

  /// `set -u`: the shell ends where a name without a value is replaced.
  void refuse_unset(bool refuses) { state_.refuses_unset = refuses; }

  /// What commands that run in a shell of their own do not change.
  struct State {
    std::map<std::string, ShellVariable> variables;
    std::int32_t others_lost_line = 0;  ///< the same as lost_line, of names that have no variable
    bool exports_all = false;
    bool refuses_unset = false;
    OwnArguments own;
  };
  /// Spends the steps of a copy.
  [[nodiscard]] State state(std::size_t at);
  void put_back(State state) { state_ = std::move(state); }

  /// What an assignment does to more than its variable, each once.
  struct Problem {
    std::int32_t line = 0;
    std::string what;
  };
  void note_problem(std::int32_t line, std::string what);
  [[nodiscard]] const std::vector<Problem>& problems() const { return problems_; }

  /// Takes the variables of the other script, and what of it has no value, in place of its own.
  void take_over(const ShellVariables& other);
  /// Says of all that `before` does not hold alike that it was written in `line`.
  void move_to_line(std::int32_t line, const ShellVariables& before);
  /// Of all values together.
  [[nodiscard]] std::size_t held_characters() const;

  [[nodiscard]] const std::map<std::string, ShellVariable>& all() const { return state_.variables; }
  [[nodiscard]] std::string_view raw(const ShellWord& word) const {
    return script_.substr(word.begin, word.end - word.begin);
  }
  [[nodiscard]] std::int32_t line_at(std::size_t offset) const;

 private:
  struct Fields;
  struct Known {
    const ShellVariable* variable = nullptr;  ///< null: no value
    std::int32_t lost_line = 0;
    bool is_unnamed = false;  ///< lost, and no line of the script sets it: a default is likely
    bool is_outside = false;  ///< the shell sets it
  };
  [[nodiscard]] Known look_up(std::string_view name) const;
  /// `$1` to `$9`, as a variable.
  struct OwnArgument {
    bool is_known = false;
    bool is_taken_as_none = false;  ///< of the script itself, which is taken to be started without
    std::optional<ShellVariable> value;
  };
  [[nodiscard]] OwnArgument own_argument(char digit) const;
  [[nodiscard]] std::optional<std::int64_t> number_of(std::string_view name, std::size_t at);
  [[nodiscard]] std::optional<std::int64_t> sum(std::string_view expression, std::size_t at);
  void expand_own_arguments(std::size_t at, std::size_t end, bool quoted, bool star, Fields& out);
  void expand_default(std::size_t begin, std::size_t argument, std::size_t end, bool quoted, Fields& out, int depth);
  void assign_default(std::size_t begin, std::size_t argument, std::size_t end, bool quoted, Fields& out, int depth);
  [[nodiscard]] std::vector<ShellText> items_of(const ShellWord& word, std::size_t value_at);
  void expand_into(std::size_t begin, std::size_t end, bool quoted, Fields& out, int depth);
  std::size_t expand_dollar(std::size_t at, std::size_t end, bool quoted, Fields& out, int depth);
  std::size_t expand_quotation(std::size_t at, std::size_t end, Fields& out, int depth);
  std::size_t expand_escaped(std::size_t at, std::size_t end, Fields& out);
  void doubt_numbers(std::string_view expression, std::size_t at);
  void doubt_left(std::string_view unit, std::size_t at);
  void lose_effects(std::string_view expression, std::size_t at);
  void note_unset(const Known& known, std::size_t at);
  void assign_value(ShellVariable& variable, const std::string& name, std::vector<ShellText> items, bool is_array,
                    std::int32_t line);
  void append_value(ShellVariable& variable, const std::string& name, std::vector<ShellText> items, bool is_array,
                    std::int32_t line);
  void note_assigned(const ShellVariable& variable, const std::string& name, std::int32_t line);
  bool compute_items(std::vector<ShellText>& items, std::int32_t line);
  void expand_list_of_own(std::size_t begin, std::size_t end, bool quoted, Fields& out);
  void expand_arithmetic(std::size_t at, std::size_t unit, bool quoted, Fields& out, int depth);
  void expand_braces(std::size_t begin, std::size_t end, bool quoted, Fields& out, int depth);
  enum class Items : std::uint8_t { first, apart, joined };
  void insert(const ShellVariable& variable, bool quoted, Items which, Fields& out);
  void insert_text(const ShellText& text, bool quoted, Fields& out);
  void leave(std::size_t begin, std::size_t end, Fields& out, std::int32_t lost_line = 0);
  /// One past what begins at `at`, at most `end`.
  [[nodiscard]] std::size_t end_of_unit(std::size_t at, std::size_t end, bool quoted);
  void spend(std::size_t characters) { budget_.spend_characters(characters, at_); }

  std::string_view script_;
  std::vector<std::size_t> line_ends_;
  State state_;
  ShellBudget& budget_;
  std::set<std::int32_t> reached_;
  std::int32_t sum_lost_line_ = 0;     ///< of the names the last arithmetic asked for
  bool is_sum_open_ = false;           ///< one of them has no value that is known
  std::int32_t sum_assumed_line_ = 0;  ///< of the same, where one holds an assumed default
  std::vector<Problem> problems_;
  std::set<std::string> taken_away_;  ///< names, by `unset`
  std::size_t at_ = 0;                ///< in the script: what is being expanded
};

}  // namespace tidemark::formats
