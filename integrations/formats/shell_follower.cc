// What is run, and in what order.

#include "integrations/formats/shell_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "integrations/formats/shell_builtins.h"
#include "integrations/formats/shell_names.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

using Kind = ShellNode::Kind;

bool speaks_of_training(std::string_view text) {
  const bool trains =
      text.find("--num-layers") != std::string_view::npos || text.find("--micro-batch-size") != std::string_view::npos;
  return trains && text.find(".py") != std::string_view::npos;
}

/// Of `> file` and `< file`, but for files that are always there.
bool may_not_open(std::string_view redirection) {
  const std::size_t sign = std::min(redirection.find_first_of("<>"), redirection.size());
  const std::string_view operation = redirection.substr(sign);
  if (operation.starts_with("<<")) return false;
  std::string_view target = operation.substr(std::min(operation.find_first_not_of("<>&| \t"), operation.size()));
  if (target.starts_with('(')) return false;  // > >(command)
  if (target.size() > 1 && target.front() == '"' && target.back() == '"') target = target.substr(1, target.size() - 2);
  for (const std::string_view open : {"/dev/null", "/dev/stdout", "/dev/stderr", "-", "0", "1", "2"})
    if (target == open && (target.size() > 1 || operation.find('&') != std::string_view::npos)) return false;
  return true;
}

}  // namespace

void ShellFollower::note(std::size_t offset, const std::string& what) {
  constexpr std::size_t kMost = 20;
  if (notes_.size() < kMost) notes_.push_back(fmt::format("{}:{}: {}", file_, variables_.line_at(offset), what));
}

void ShellFollower::doubt_line(std::int32_t line, std::string what) {
  constexpr std::size_t kMost = 20;
  const auto is_same = [&](const ShellScript::Unread& one) { return one.line == line && one.what == what; };
  if (unread_.size() < kMost && std::ranges::none_of(unread_, is_same)) unread_.push_back({line, std::move(what)});
}

void ShellFollower::note_taken_empty(std::size_t at, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    note(at, fmt::format("nothing in the file sets {}; it is taken as empty, and the lines that depend on it are left "
                         "out",
                         shown(name)));
}

// ---- the whole script -----------------------------------------------------------------------------------------------

void ShellFollower::follow(const ShellTree& tree) {
  for (const ShellUnparsed& unparsed : tree.unparsed)
    doubt(unparsed.at, fmt::format("this is not read as a shell reads it: {}", unparsed.what));
  documents_ = tree.documents;
  for (const ShellDocument& document : documents_) {
    if (!document.is_open) continue;
    budget_.spend_steps(document.body.end - document.body.begin, document.body.begin);
    const ShellEffects effects = effects_of_expansion(variables_.raw(document.body));
    if (!effects.names.empty() || effects.any)
      doubt(document.body.begin, "this here-document sets variables, which is not followed");
  }
  follow_list(tree.root.children);
}

Result<ShellScript> ShellFollower::finish() {
  // What starts the training may be called in a way that is not followed.
  exited_ = false;
  for (std::size_t i = 0; i < defined_.size() && !launches_.has_any() && !budget_.is_spent(); ++i) {
    if (called_.contains(defined_[i])) continue;
    returned_ = Left::no;
    enter(*defined_[i]);
    if (launches_.has_any())
      doubt(defined_[i]->begin, "this function starts the training, and nothing calls it in a way that is followed");
  }
  if (budget_.is_spent()) return bad_input(too_much());
  if (!launches_.has_any()) {
    if (!launches_.has_training())
      doubt_line(1, "no command that is followed starts a training; only options that variables hold are judged");
    launches_.gather_options(variables_);
  }
  if (!launches_.has_any())
    return bad_input(
        fmt::format("{}: no command starts a Python script with options like --num-layers, and no "
                    "variable holds such options; here-documents, loops and other scripts do not count{}",
                    file_, notes_.empty() ? "" : fmt::format(" ({})", notes_.front())));
  ShellScript script = launches_.finish(doubts_);
  script.characters = budget_.characters();
  script.steps = budget_.steps();
  for (const ShellVariables::Problem& problem : variables_.problems()) doubt_line(problem.line, problem.what);
  std::ranges::move(unread_, std::back_inserter(script.unread));
  script.notes = std::move(notes_);
  return script;
}

std::string ShellFollower::too_much() const {
  const bool characters = budget_.characters() >= kMostShellCharacters;
  return fmt::format("{}:{}: expands to more than {} {}; is a variable made of itself?", file_,
                     variables_.line_at(budget_.spent_at()), characters ? kMostShellCharacters : kMostShellSteps,
                     characters ? "characters" : "steps of searching and arithmetic");
}

// ---- commands made of commands --------------------------------------------------------------------------------------

void ShellFollower::follow(const ShellNode& node) {
  budget_.spend_steps(1 + node.words.size(), node.begin);
  if (is_over()) return;
  if (returned_ == Left::maybe) return leave_out(node);
  if (++depth_ > kDeepestFollowed) {
    stop_at_depth(node);
  } else {
    follow_opened(node);
  }
  --depth_;
}

/// One depth for bodies, calls and what is left out: each is a frame of the stack or several.
void ShellFollower::stop_at_depth(const ShellNode& node) {
  doubt(node.begin, "commands stand in one another too deep to be followed");
  variables_.lose_all(variables_.line_at(node.begin), node.begin);
  status_ = {.truth = std::nullopt};
}

/// With its files open, or not: one that cannot be opened keeps a command from being run.
void ShellFollower::follow_opened(const ShellNode& node) {
  lose_expansions(node.redirections);
  may_not_run_ = std::ranges::any_of(node.redirections,
                                     [this](const ShellWord& word) { return may_not_open(variables_.raw(word)); });
  const bool may_not_run = may_not_run_;
  if (may_not_run && !leaves_all_alone(node)) return follow_where_it_runs(node);
  follow_kind(node);
  if (may_not_run && status_.truth) status_ = {.truth = std::nullopt, .is_hopeful = true};
  const bool may_exit = node.kind == Kind::simple || node.kind == Kind::test || node.kind == Kind::arithmetic ||
                        node.kind == Kind::subshell;
  if (may_exit && error_exits_ && conditions_ == 0 && status_.truth == false && !exited_ && returned_ == Left::no)
    doubt(node.begin, "this command fails, and ends the script where `set -e` asks for that");
}

/// What it sets may be set or not; a training in it counts.
void ShellFollower::follow_where_it_runs(const ShellNode& node) {
  Copy before = copy(node.begin);
  if (budget_.is_spent()) return;
  follow_kind(node);
  put_back(std::move(before));
  const bool finds = std::exchange(finds_trainings_, false);
  leave_out(node);
  finds_trainings_ = finds;
  status_ = {.truth = std::nullopt, .is_hopeful = true};
}

/// Whether it is run or not, this shell goes on alike, as far as that is seen by its name as written.
bool ShellFollower::leaves_all_alone(const ShellNode& node) const {
  if (node.kind == Kind::subshell || node.kind == Kind::loop || node.kind == Kind::each || node.kind == Kind::other ||
      node.kind == Kind::function)
    return true;
  if (node.kind != Kind::simple) return false;
  const auto command = std::ranges::find_if_not(node.words, [this](const ShellWord& word) {
    return is_shell_assignment(variables_.raw(word)) || is_element_assignment(variables_.raw(word));
  });
  if (command == node.words.end()) return node.words.empty();
  const std::string_view name = variables_.raw(*command);
  if (!is_plain_shell_word(name) || name == "exec") return true;  // exec ends the shell where it fails
  return function_named(name) == nullptr && !is_changing_builtin(name);
}

void ShellFollower::follow_kind(const ShellNode& node) {
  switch (node.kind) {
    case Kind::simple:
      return run(node);
    case Kind::arithmetic:
    case Kind::test:
      return follow_test(node);
    case Kind::list:
    case Kind::group:
      return follow_list(node.children);
    case Kind::subshell:
      return follow_apart(node.children.front());
    case Kind::joined:
      return follow_joined(node);
    case Kind::pipeline:
      return follow_pipeline(node);
    case Kind::decision:
      return follow_decision(node);
    case Kind::choice:
      return follow_choice(node);
    case Kind::loop:
      return follow_not(node, "while");
    case Kind::each:
      return follow_not(node, variables_.raw(node.words.front()));
    case Kind::function:
      return define(node, true);
    case Kind::other:
      return follow_not(node, "this");
  }
}

void ShellFollower::follow_list(std::span<const ShellNode> nodes) {
  for (std::size_t i = 0; i < nodes.size() && !is_over(); ++i) {
    if (nodes[i].is_background) {
      follow_apart(nodes[i]);
      status_ = {};
    } else {
      follow(nodes[i]);
    }
    if (returned_ != Left::maybe) continue;
    const auto rest = nodes.subspan(i + 1);
    if (is_return_hopeful_) {
      follow_hopefully(rest);
    } else {
      for (const ShellNode& node : rest) leave_out(node);
    }
    return;
  }
}

/// What runs where a command before it succeeded: a training in it is taken to be started, as nothing would train
/// otherwise, but what it sets may be set or not.
void ShellFollower::follow_hopefully(std::span<const ShellNode> nodes) {
  if (nodes.empty()) return;
  if (nodes.size() == 1 && returned_ == Left::no && changes_nothing(nodes.front())) {
    follow(nodes.front());
  } else {
    Copy before = copy(nodes.front().begin);
    if (budget_.is_spent()) return;
    returned_ = Left::no;
    follow_list(nodes);
    put_back(std::move(before));
    const bool finds = std::exchange(finds_trainings_, false);
    for (const ShellNode& node : nodes) leave_out(node);
    finds_trainings_ = finds;
  }
  status_ = {.truth = std::nullopt, .is_hopeful = true};
}

/// Where its status is asked for, a command that fails does not end the shell.
void ShellFollower::follow_asked(const ShellNode& node) {
  ++conditions_;
  follow(node);
  --conditions_;
}

void ShellFollower::follow_joined(const ShellNode& node) {
  follow_asked(node.children.front());
  follow_joined_from(node, 1, node.children.size());
}

/// Children [begin, end), by the status of the one before them.
void ShellFollower::follow_joined_from(const ShellNode& node, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end && !is_over(); ++i) {
    const ShellNode& child = node.children[i];
    const bool or_else = child.is_or_else;
    if (returned_ == Left::maybe) {
      leave_out(child);
    } else if (status_.truth) {
      if (*status_.truth != or_else) i + 1 < node.children.size() ? follow_asked(child) : follow(child);
    } else if (status_.is_hopeful && !or_else) {
      i = follow_chain(node, i, end) - 1;
    } else {
      const bool is_test =
          child.kind == Kind::test || child.kind == Kind::arithmetic ||
          (child.kind == Kind::simple && !child.words.empty() && is_shell_test(variables_.raw(child.words.front())));
      const bool hopeful = status_.is_hopeful;
      if (!is_test && !hopeful) note(child.begin, "the test before it is not decided; the command is left out");
      leave_out(child);
      if (returned_ == Left::maybe) is_return_hopeful_ = hopeful;
      status_ = {.truth = std::nullopt, .is_hopeful = hopeful};
    }
  }
}

/// Behind `command &&`: the children up to the next `||`, as in follow_hopefully. The first that is not one of them.
std::size_t ShellFollower::follow_chain(const ShellNode& node, std::size_t begin, std::size_t end) {
  std::size_t stop = begin + 1;
  while (stop < end && !node.children[stop].is_or_else) ++stop;
  const std::span<const ShellNode> chain(node.children.begin() + static_cast<std::ptrdiff_t>(begin), stop - begin);
  if (chain.size() == 1) {
    const int asked = stop < node.children.size() ? 1 : 0;
    conditions_ += asked;
    follow_hopefully(chain);
    conditions_ -= asked;
    return stop;
  }
  // What is behind it is followed from each of its commands on.
  constexpr std::size_t kStepsOfLink = 64;
  budget_.spend_steps(kStepsOfLink * chain.size(), chain.front().begin);
  Copy before = copy(chain.front().begin);
  if (budget_.is_spent()) return end;
  follow_asked(chain.front());
  follow_joined_from(node, begin + 1, stop);
  put_back(std::move(before));
  const bool finds = std::exchange(finds_trainings_, false);
  for (const ShellNode& child : chain) leave_out(child);
  finds_trainings_ = finds;
  status_ = {.truth = std::nullopt, .is_hopeful = true};
  return stop;
}

void ShellFollower::follow_pipeline(const ShellNode& node) {
  if (node.children.size() == 1) {
    node.is_inverted ? follow_asked(node.children.front()) : follow(node.children.front());
    if (node.is_inverted && status_.truth) status_.truth = !*status_.truth;
    if (node.is_inverted) status_.is_hopeful = false;
    return;
  }
  const ShellNode& last = node.children.back();
  const bool is_shell = last.kind == Kind::simple && !last.words.empty() &&
                        !speaks_of(Words(last.words).first(1), {"cat", "tee", "grep", "sed", "awk", "column", "less"});
  for (const ShellNode& child : node.children) {
    if (is_shell && &child != &last) find_fed_trainings(child, false);
    follow_apart(child);
  }
  status_ = {.truth = std::nullopt, .is_hopeful = !node.is_inverted};
}

void ShellFollower::follow_decision(const ShellNode& node) {
  const std::size_t count = node.children.size() / 2;
  for (std::size_t i = 0; i < count; ++i) {
    ++conditions_;
    follow_list(node.children[2 * i].children);
    --conditions_;
    if (is_over()) return;
    if (returned_ != Left::maybe && status_.truth == true) return follow_list(node.children[2 * i + 1].children);
    if (returned_ != Left::maybe && status_.truth == false) continue;
    if (returned_ != Left::maybe)
      note(node.children[2 * i + 1].begin,
           "the condition depends on what the script does not say; its lines are left out");
    for (std::size_t j = 2 * i + 1; j < node.children.size(); ++j) leave_out(node.children[j]);
    status_ = {.truth = std::nullopt};
    return;
  }
  status_ = {};
  if (node.children.size() > 2 * count) follow_list(node.children.back().children);
}

/// The arm whose pattern the word is, the number of arms where none is; nothing: the script does not decide it.
std::optional<std::size_t> ShellFollower::arm_of(const ShellNode& node) {
  const ShellText subject = variables_.expand_whole(node.words.front().begin, node.words.front().end);
  if (!subject.is_known()) return std::nullopt;
  for (std::size_t i = 0; i < node.children.size(); ++i)
    for (const ShellWord& pattern : node.children[i].words) {
      const std::string_view raw = variables_.raw(pattern);
      bool is_it = raw == "*";
      if (!is_it) {
        if (raw.find_first_of("\"'`$\\*?[~(") != std::string_view::npos) return std::nullopt;
        is_it = raw == subject.characters;
      }
      if (is_it) return node.children[i].falls_through ? std::nullopt : std::optional(i);
    }
  return node.children.size();
}

void ShellFollower::follow_choice(const ShellNode& node) {
  const std::optional<std::size_t> arm = arm_of(node);
  if (!arm) return follow_not(node, "case");
  status_ = {};
  if (*arm < node.children.size()) follow_list(node.children[*arm].children);
}

/// `for`, `while` and the like.
void ShellFollower::follow_not(const ShellNode& node, std::string_view word) {
  note(node.begin, fmt::format("`{}` is not followed; what it holds is left out", word));
  if (word == "select") doubt(node.begin, "`select` asks for what the script alone does not say");
  leave_out(node);
  status_ = {.truth = std::nullopt, .is_hopeful = true};
}

void ShellFollower::follow_test(const ShellNode& node) {
  if (node.kind == Kind::arithmetic) {
    status_ = {.truth = compute_word(node.words.front())};
    return;
  }
  std::vector<std::string> taken_empty;
  status_ = {.truth = test_expression(node.words, variables_, taken_empty)};
  note_taken_empty(node.begin, taken_empty);
}

// ---- shells of their own --------------------------------------------------------------------------------------------

/// A plain command that runs outside of the shell.
bool ShellFollower::changes_nothing(const ShellNode& node) const {
  if (node.kind != Kind::simple || node.words.empty() || !node.redirections.empty()) return false;
  const std::string_view first = variables_.raw(node.words.front());
  if (!is_plain_shell_word(first) || is_shell_assignment(first) || is_shell_builtin(first)) return false;
  return function_named(first) == nullptr && std::ranges::all_of(node.words, [this](const ShellWord& word) {
           const std::string_view text = variables_.raw(word);
           return text.find("${") == std::string_view::npos && text.find("$[") == std::string_view::npos &&
                  text.find("$((") == std::string_view::npos;
         });
}

ShellFollower::Copy ShellFollower::copy(std::size_t at) {
  budget_.spend_steps(functions_.size() + frames_.size(), at);
  for (const auto& entry : functions_) budget_.spend_steps(entry.second.bodies.size(), at);
  for (const Frame& frame : frames_)
    for (const auto& entry : frame)
      budget_.spend_steps(1 + (entry.second.before ? held_characters(*entry.second.before) : 0), at);
  return {.variables = variables_.state(at),
          .functions = functions_,
          .frames = frames_,
          .returned = returned_,
          .is_return_hopeful = is_return_hopeful_,
          .exited = exited_,
          .error_exits = error_exits_,
          .is_moved = is_moved_};
}

void ShellFollower::put_back(Copy copy) {
  variables_.put_back(std::move(copy.variables));
  functions_ = std::move(copy.functions);
  frames_ = std::move(copy.frames);
  returned_ = copy.returned;
  is_return_hopeful_ = copy.is_return_hopeful;
  exited_ = copy.exited;
  error_exits_ = copy.error_exits;
  is_moved_ = copy.is_moved;
}

/// `( ... )`, a member of a pipeline, `... &`: what it sets does not outlive it.
void ShellFollower::follow_apart(const ShellNode& node) {
  if (changes_nothing(node)) return follow(node);
  Copy before = copy(node.begin);
  if (budget_.is_spent()) return;
  follow(node);
  if (returned_ == Left::maybe) status_ = {.truth = std::nullopt, .is_hopeful = status_.is_hopeful};
  put_back(std::move(before));
}

// ---- functions ------------------------------------------------------------------------------------------------------

void ShellFollower::define(const ShellNode& node, bool is_sure) {
  const std::string_view raw = variables_.raw(node.words.front());
  const ShellNode& body = node.children.front();
  defined_.push_back(&body);
  if (!is_plain_shell_word(raw)) return doubt(node.begin, "this function has a name that is not followed");
  Function& function = functions_[std::string(raw)];
  if (is_sure) function.bodies.clear();
  if (std::ranges::find(function.bodies, &body) == function.bodies.end()) function.bodies.push_back(&body);
  function.is_sure = is_sure;
  if (is_sure) status_ = {};
}

const ShellFollower::Function* ShellFollower::function_named(std::string_view name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : &found->second;
}

void ShellFollower::call(const Function& function, Words words, Words assignments, bool has_arguments,
                         bool is_literal) {
  constexpr std::size_t kDeepest = 16, kStepsOfCall = 64;
  const std::size_t at = words.front().begin;
  if (frames_.size() == kDeepest) {
    variables_.lose_all(variables_.line_at(at), at);
    doubt(at, "functions call one another too deep to be followed");
    status_ = {.truth = std::nullopt};
    return;
  }
  if (!function.is_sure) {
    for (const ShellWord& word : assignments) lose_expansions({&word, 1});
    return leave_call_out(function, at);
  }
  budget_.spend_steps(kStepsOfCall, at);
  ShellVariables::OwnArguments outer = variables_.own_arguments();
  for (const ShellText& item : outer.items.value_or(std::vector<ShellText>{}))
    budget_.spend_steps(1 + item.characters.size(), at);
  if (budget_.is_spent()) return;
  const bool hands_on = is_literal && words.size() == 2 && speaks_of(words.subspan(1), {"\"$@\"", "$@", "\"${@}\""});
  if (!has_arguments) variables_.set_own_arguments({.items = std::vector<ShellText>{}});
  if (has_arguments && !hands_on) variables_.set_own_arguments({.known = false, .items = {}});
  const ShellNode& body = *function.bodies.front();
  frames_.emplace_back();
  for (const ShellWord& word : assignments) {
    const std::string_view text = variables_.raw(word);
    const std::string name(text.substr(0, shell_name_length(text)));
    hide(name, word.begin, true);
    frames_.back().at(name).is_before = true;
    if (!variables_.assign(word, true)) doubt(word.begin, "an item is set for one command, which is not followed");
  }
  enter(body);
  variables_.set_own_arguments(std::move(outer));
}

/// REQUIRES: the frame of the call is there, or this is no call.
void ShellFollower::enter(const ShellNode& body) {
  called_.insert(&body);
  const std::size_t depth = std::max<std::size_t>(1, frames_.size());
  if (frames_.empty()) frames_.emplace_back();
  const Left returned = std::exchange(returned_, Left::no);
  const bool is_hopeful = std::exchange(is_return_hopeful_, false);
  status_ = {};
  follow(body);
  if (returned_ == Left::maybe) status_ = {.truth = std::nullopt, .is_hopeful = is_return_hopeful_};
  returned_ = returned;
  is_return_hopeful_ = is_hopeful;
  while (frames_.size() >= depth) leave_frame();
}

void ShellFollower::leave_frame() {
  const Frame frame = std::move(frames_.back());
  frames_.pop_back();
  for (const auto& [name, hidden] : frame) {
    if (hidden.is_sure) {
      variables_.restore(name, hidden.before ? &*hidden.before : nullptr);
    } else {
      variables_.lose(name, hidden.line);
    }
  }
}

/// `local` hides a variable until the function ends.
void ShellFollower::hide(const std::string& name, std::size_t at, bool is_sure) {
  const std::int32_t line = variables_.line_at(at);
  if (frames_.empty()) return;
  const auto found = variables_.all().find(name);
  const bool exists = found != variables_.all().end();
  const auto [place, is_new] = frames_.back().try_emplace(name);
  if (!is_new) return;
  constexpr std::size_t kStepsOfName = 64;
  budget_.spend_steps(kStepsOfName + (exists ? 2 * held_characters(found->second) : 0), at);
  place->second = {.before = exists ? std::optional(found->second) : std::nullopt, .is_sure = is_sure, .line = line};
  if (exists && found->second.is_readonly) doubt_line(line, fmt::format("{} is readonly here, or may be", name));
}

bool ShellFollower::is_hidden(const std::string& name) const {
  return std::ranges::any_of(frames_, [&](const Frame& frame) { return frame.contains(name); });
}

bool ShellFollower::is_set_before_call(const std::string& name) const {
  return std::ranges::any_of(frames_, [&](const Frame& frame) {
    const auto found = frame.find(name);
    return found != frame.end() && found->second.is_before;
  });
}

/// The output of a command may come from a training, too.
void ShellFollower::find_inner_trainings(const ShellNode& node) {
  find_fed_trainings(node, true);
  for (const ShellWord& word : node.words) {
    const std::string_view text = variables_.raw(word);
    if (text.find("$(") == std::string_view::npos && text.find('`') == std::string_view::npos &&
        text.find("<(") == std::string_view::npos && text.find(">(") == std::string_view::npos)
      continue;
    budget_.spend_steps(text.size(), word.begin);
    if (speaks_of_training(text))
      doubt(word.begin, "a training may be started here for its output, which is not followed");
  }
}

/// What a shell reads from its input it runs; `cat` and `tee` only copy it.
void ShellFollower::find_fed_trainings(const ShellNode& node, bool is_copied) {
  const std::string_view name = node.words.empty() ? std::string_view{} : variables_.raw(node.words.front());
  if (is_copied && (name.empty() || name == "cat" || name == "tee")) return;
  for (const ShellWord& word : node.redirections) {
    const std::string_view text = variables_.raw(word);
    const std::size_t sign = text.find("<<");
    if (sign == std::string_view::npos) continue;
    const auto found = std::ranges::lower_bound(documents_, word.begin + sign, {}, &ShellDocument::at);
    const bool is_document = found != documents_.end() && found->at == word.begin + sign;
    const std::string_view fed = is_document ? variables_.raw(found->body) : text;
    budget_.spend_steps(fed.size(), word.begin);
    if (speaks_of_training(fed)) doubt(word.begin, "a training may be started by what is read here");
  }
}

std::vector<std::string_view> ShellFollower::raw_of(Words words) const {
  std::vector<std::string_view> raw;
  for (const ShellWord& word : words) raw.push_back(variables_.raw(word));
  return raw;
}

}  // namespace tidemark::formats
