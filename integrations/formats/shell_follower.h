#pragma once
// A shell script followed command by command, none of them run. Every truth has three values: what the script alone
// does not decide may run or not, and what it would set is lost. What is not followed as a shell would is a doubt of
// the whole script. Private to formats.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "integrations/formats/shell_budget.h"
#include "integrations/formats/shell_condition.h"
#include "integrations/formats/shell_effects.h"
#include "integrations/formats/shell_launch.h"
#include "integrations/formats/shell_script.h"
#include "integrations/formats/shell_tree.h"
#include "integrations/formats/shell_variables.h"

namespace tidemark::formats {

class ShellFollower {
 public:
  /// REQUIRES: all outlive this.
  ShellFollower(std::string_view text, std::string_view file, const ReadBeside& read_beside)
      : file_(file), read_beside_(read_beside), variables_(text, budget_) {}

  void follow(const ShellTree& tree);
  Result<ShellScript> finish();
  /// A line of what was left out.
  void note(std::size_t offset, const std::string& what);
  /// What is not followed as a shell would, so that the script is never sure.
  void doubt(std::size_t at, std::string what) { doubt_line(variables_.line_at(at), std::move(what)); }

 private:
  using Words = std::span<const ShellWord>;
  /// Of commands in commands, calls and all: as much as a stack of 8 MB holds, with room.
  static constexpr int kDeepestFollowed = 400;

  struct Status {
    ShellTruth truth = true;
    bool is_hopeful = false;  ///< of a command that is not run: what trains behind it runs where it succeeds
  };
  enum class Left : std::uint8_t { no, maybe, yes };  ///< the function that is followed, or the shell
  struct Function {
    std::vector<const ShellNode*> bodies;  ///< one, or those it may have
    bool is_sure = true;
  };
  /// What `local` hid; nothing: there was none.
  struct Hidden {
    std::optional<ShellVariable> before;
    bool is_sure = true;     ///< false: it may not be hidden
    bool is_before = false;  ///< set for the call alone, before its name
    std::int32_t line = 0;
  };
  using Frame = std::map<std::string, Hidden>;
  struct Copy {
    ShellVariables::State variables;
    std::map<std::string, Function, std::less<>> functions;
    std::vector<Frame> frames;
    Left returned = Left::no;
    bool is_return_hopeful = false;
    bool exited = false;
    bool error_exits = false;
    bool is_moved = false;
  };
  /// Of a word that is replaced: the fields in its place.
  struct Command {
    std::string_view name;          ///< empty: the script alone does not say it
    Words words;                    ///< the first is or becomes the name
    Words assignments;              ///< before it
    std::vector<ShellText> fields;  ///< in place of the first, where that is not the name itself
    bool skips_functions = false;
  };

  // ---- shell_follower.cc: what is run, and in what order
  void follow(const ShellNode& node);
  void follow_opened(const ShellNode& node);
  void follow_kind(const ShellNode& node);
  void follow_where_it_runs(const ShellNode& node);
  void stop_at_depth(const ShellNode& node);
  [[nodiscard]] bool leaves_all_alone(const ShellNode& node) const;
  void follow_list(std::span<const ShellNode> nodes);
  void follow_hopefully(std::span<const ShellNode> nodes);
  void follow_asked(const ShellNode& node);
  void follow_joined(const ShellNode& node);
  void follow_joined_from(const ShellNode& node, std::size_t begin, std::size_t end);
  std::size_t follow_chain(const ShellNode& node, std::size_t begin, std::size_t end);
  void follow_pipeline(const ShellNode& node);
  void follow_decision(const ShellNode& node);
  void follow_choice(const ShellNode& node);
  void follow_apart(const ShellNode& node);
  void follow_not(const ShellNode& node, std::string_view word);
  void follow_test(const ShellNode& node);
  [[nodiscard]] std::optional<std::size_t> arm_of(const ShellNode& node);
  [[nodiscard]] bool changes_nothing(const ShellNode& node) const;
  [[nodiscard]] bool is_over() const { return exited_ || returned_ == Left::yes || budget_.is_spent(); }
  Copy copy(std::size_t at);
  void put_back(Copy copy);
  void define(const ShellNode& node, bool is_sure);
  void call(const Function& function, Words words, Words assignments, bool has_arguments, bool is_literal);
  void enter(const ShellNode& body);
  void leave_frame();
  void hide(const std::string& name, std::size_t at, bool is_sure);
  [[nodiscard]] bool is_hidden(const std::string& name) const;
  [[nodiscard]] bool is_set_before_call(const std::string& name) const;
  void note_taken_empty(std::size_t at, const std::vector<std::string>& names);
  void doubt_line(std::int32_t line, std::string what);
  void find_inner_trainings(const ShellNode& node);
  void find_fed_trainings(const ShellNode& node, bool is_copied);

  // ---- shell_commands.cc: one command
  void run(const ShellNode& node);
  void assign(const ShellWord& word);
  void run_words(Words words, Words assignments, bool skips_functions);
  void run_command(const Command& command);
  void run_literal(const Command& command);
  void run_replaced(const Command& command);
  void run_unknown(const Command& command);
  void run_external(const Command& command);
  void run_function(const Command& command, const Function& function);
  void change_folder(Words words);
  void doubt_functions();
  void run_quietly(const Command& command);
  void run_exec(const Command& command);
  void run_eval(const Command& command);
  void run_test(const Command& command);
  void run_return(const Command& command);
  void run_reader(const Command& command);
  void run_printf(const Command& command);
  void run_let(const Command& command);
  void run_source(const Command& command);
  void run_trap(const Command& command);
  void run_set(const Command& command);
  void run_shift(const Command& command);
  void run_unset(const Command& command);
  void exit_on_errors(bool is_on, std::size_t at);
  void take_set_option(std::string_view option, bool is_on, std::size_t at);
  bool wraps(Command& command);
  bool follow_sourced(Words words);
  bool start(std::vector<ShellText> texts, std::size_t at, std::set<std::int32_t> doubts);
  [[nodiscard]] std::vector<ShellText> texts_of(const Command& command);
  ShellTruth compute(std::string_view expression, std::size_t at);
  ShellTruth compute_word(const ShellWord& word);
  [[nodiscard]] const Function* function_named(std::string_view name) const;
  void assign_before(Words assignments, std::vector<std::pair<std::string, std::optional<ShellVariable>>>& before);

  // ---- shell_declarations.cc: export, declare, local, readonly
  void declare(const Command& command);
  void declare_name(const ShellWord& word, std::string_view first, const std::string& flags);
  void declare_as(const std::string& name, const std::string& flags, std::size_t at);
  void lose_declared(Words words);
  void doubt_order(Words words);
  void doubt_cut(Words words);

  // ---- shell_left_out.cc: what may run or not
  void leave_out(const ShellNode& node);
  void leave_kind_out(const ShellNode& node);
  void leave_children_out(const ShellNode& node);
  void leave_apart(const ShellNode& node);
  void leave_command_out(const ShellNode& node);
  void leave_named_out(std::string_view name, Words words);
  void leave_declaration_out(std::string_view first, Words words);
  void leave_options_out(std::span<const std::string_view> words, std::size_t at);
  void leave_choice_out(const ShellNode& node);
  [[nodiscard]] ShellTruth truth_without_arguments(const ShellNode& condition) const;
  void leave_loop_out(const ShellNode& node);
  void leave_call_out(const Function& function, std::size_t at);
  void leave_assignment_out(const ShellWord& word);
  void find_left_out_training(Words words);
  void lose_expansions(Words words);
  void lose(const ShellEffects& effects, std::size_t at);
  [[nodiscard]] bool is_over_own_arguments(const ShellNode& node) const;
  [[nodiscard]] bool speaks_of(Words words, std::initializer_list<std::string_view> texts) const;

  [[nodiscard]] std::string too_much() const;
  [[nodiscard]] std::vector<std::string_view> raw_of(Words words) const;
  [[nodiscard]] std::int32_t line_of(Words words) const { return variables_.line_at(words.front().begin); }

  std::string file_;
  const ReadBeside& read_beside_;
  ShellBudget budget_;
  ShellVariables variables_;
  ShellLaunches launches_;
  std::map<std::string, Function, std::less<>> functions_;
  std::span<const ShellDocument> documents_;
  std::vector<const ShellNode*> defined_;  ///< bodies, in the order of their definitions
  std::set<const ShellNode*> called_;
  std::vector<Frame> frames_;  ///< of the calls followed
  Status status_;
  Left returned_ = Left::no;
  bool is_return_hopeful_ = false;
  bool exited_ = false;
  bool may_not_run_ = false;       ///< the command followed: a file may not be there
  bool is_moved_ = false;          ///< `cd`: where paths begin is not known
  int depth_ = 0;                  ///< of commands in commands, calls and all
  bool error_exits_ = false;       ///< `set -e`: a command that fails ends the shell
  int conditions_ = 0;             ///< around here: in them it does not
  int left_out_calls_ = 0;         ///< around here
  int left_out_loops_ = 0;         ///< around here
  bool finds_trainings_ = true;    ///< in what is left out
  std::vector<ShellText> doubts_;  ///< options a condition may give, by number
  std::vector<ShellScript::Unread> unread_;
  std::vector<std::string> notes_;
};

}  // namespace tidemark::formats
