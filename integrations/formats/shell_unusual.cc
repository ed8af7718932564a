#include "integrations/formats/shell_unusual.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <span>

#include "integrations/formats/shell_builtins.h"
#include "integrations/formats/shell_names.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

using Kind = ShellNode::Kind;

bool is_one(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool starts_program(std::string_view text) {
  return holds(text, ".py") || holds(text, "torchrun") || holds(text, "python -m");
}

std::string without_quotes(std::string_view word) {
  std::string plain;
  for (const char c : word)
    if (c != '"' && c != '\'' && c != '\\') plain += c;
  return plain;
}

/// What the shell itself keeps, or changes how it runs.
bool is_shells_own(std::string_view name) {
  return is_one(name,
                {"UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "FUNCNEST", "PS4", "BASH_ENV", "ENV", "PWD", "OLDPWD",
                 "POSIXLY_CORRECT", "PROMPT_COMMAND", "GLOBIGNORE", "DIRSTACK", "GROUPS", "FUNCNAME", "PIPESTATUS"}) ||
         name.starts_with("BASH_");
}

/// What a command stands in.
struct Around {
  bool is_conditional = false;  ///< it may not run
  bool is_in_loop = false;
};

/// Functions that start programs: with more, every word may name one.
constexpr std::size_t kMostLaunching = 64;

class Finder {
 public:
  Finder(std::string_view script, const ShellTree& tree)
      : script_(script),
        has_sums_(holds(script, "((") || holds(script, "let ") || holds(script, "[") || holds(script, "-eq")),
        has_setup_(holds(script, "__conda_setup=\"$(")) {
    find_functions(tree.root);
    has_nounset_ = sets_nounset();
    for (const std::string_view sign : {">", "tee "}) find_written(sign);
  }

  void walk(const ShellNode& node, Around around) {
    if (found_.size() >= kMostUnusual) return;
    judge(node, around);
    for (const ShellWord& word : node.words) judge_word(word);
    if (node.kind == Kind::function) around = {};
    around.is_conditional |= is_one_of(node.kind, {Kind::decision, Kind::choice, Kind::joined});
    around.is_in_loop |= is_one_of(node.kind, {Kind::loop, Kind::each});
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      if (is_one_of(node.kind, {Kind::joined, Kind::decision, Kind::loop}) && i + 1 < node.children.size())
        judge_deciding(node.children[i]);
      walk(node.children[i], around);
    }
  }

  std::vector<ShellUnusual> take() { return std::move(found_); }

 private:
  using Words = std::span<const ShellWord>;

  [[nodiscard]] std::string_view raw(const ShellWord& word) const {
    return script_.substr(word.begin, word.end - word.begin);
  }

  void add(std::size_t at, std::string what) {
    if (found_.size() < kMostUnusual) found_.push_back({at, std::move(what)});
  }

  /// Files that the script writes, without their folders.
  void find_written(std::string_view sign) {
    for (std::size_t at = script_.find(sign); at != std::string_view::npos; at = script_.find(sign, at + sign.size())) {
      const std::size_t begin = std::min(script_.find_first_not_of("> \t\"'", at + sign.size()), script_.size());
      const std::size_t end = std::min(script_.find_first_of(" \t\r\n;&|<>()\"'", begin), script_.size());
      written_.insert(without_folder(script_.substr(begin, end - begin)));
    }
  }
  static std::string without_folder(std::string_view path) {
    return std::string(path.substr(path.find_last_of('/') + 1));
  }

  /// `set -u`, among other letters or by its name.
  [[nodiscard]] bool sets_nounset() const {
    constexpr std::string_view kSet = "set -";
    for (std::size_t at = script_.find(kSet); at != std::string_view::npos; at = script_.find(kSet, at + 1)) {
      const std::string_view letters = script_.substr(at + kSet.size());
      const std::size_t end = std::min(letters.find_first_of(" \t\r\n;&|)"), letters.size());
      if (holds(letters.substr(0, end), "u")) return true;
    }
    return holds(script_, "nounset");
  }
  /// A value in it that has to be set: all of them under `set -u`, else `${NAME?}` and `${NAME:?}`.
  [[nodiscard]] bool may_find_unset(const ShellNode& node) const {
    std::size_t end = node.begin;
    find_end(node, end);
    const std::string_view text = script_.substr(node.begin, end - node.begin);
    if (has_nounset_) return holds(text, "$");
    for (std::size_t at = text.find("${"); at != std::string_view::npos; at = text.find("${", at + 2)) {
      const std::string_view inner = text.substr(at + 2);
      const std::string_view rest = inner.substr(shell_name_length(inner));
      if (rest.starts_with('?') || rest.starts_with(":?")) return true;
    }
    return false;
  }

  /// And those that start a program.
  void find_functions(const ShellNode& node) {
    if (node.kind == Kind::function && !node.words.empty() && !node.children.empty()) {
      functions_.insert(std::string(raw(node.words.front())));
      std::size_t end = node.begin;
      find_end(node, end);
      if (starts_program(script_.substr(node.begin, end - node.begin)) || runs_value(node))
        launching_.insert(std::string(raw(node.words.front())));
    }
    for (const ShellNode& child : node.children) find_functions(child);
  }
  /// `$COMMAND`, somewhere in it.
  [[nodiscard]] bool runs_value(const ShellNode& node) const {
    const bool is_value = node.kind == Kind::simple && !node.words.empty() &&
                          (raw(node.words.front()).starts_with('$') || raw(node.words.front()).starts_with("\"$"));
    return is_value || std::ranges::any_of(node.children, [this](const ShellNode& child) { return runs_value(child); });
  }
  void find_end(const ShellNode& node, std::size_t& end) const {
    for (const ShellWord& word : node.words) end = std::max(end, word.end);
    for (const ShellNode& child : node.children) find_end(child, end);
  }

  [[nodiscard]] bool names_launching(std::string_view text) const {
    if (launching_.size() > kMostLaunching) return true;
    return std::ranges::any_of(launching_, [&](const std::string& name) {
      for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
        const char before = at == 0 ? ' ' : text[at - 1];
        const char behind = at + name.size() < text.size() ? text[at + name.size()] : ' ';
        if (holds(" \t\n(;&|\"'`{", std::string_view(&before, 1)) &&
            holds(" \t\n);&|\"'`}", std::string_view(&behind, 1)))
          return true;
      }
      return false;
    });
  }

  void judge(const ShellNode& node, Around around) {
    if (node.kind == Kind::function && !node.words.empty() && raw(node.words.front()) == "command_not_found_handle")
      add(node.begin, "command_not_found_handle is called in a way that is not followed");
    judge_closed(node);
    if (node.kind == Kind::test) judge_test(node.words);
    if (node.kind == Kind::simple) judge_simple(node, around);
  }

  static bool is_one_of(Kind kind, std::initializer_list<Kind> kinds) {
    return std::ranges::find(kinds, kind) != kinds.end();
  }

  /// Writing to a stream that is closed fails.
  void judge_closed(const ShellNode& node) {
    for (const ShellWord& word : node.redirections)
      if (raw(word).ends_with("&-")) add(word.begin, "what a closed stream makes fail is not followed");
  }

  /// In front of `&&` or `||`, and in a condition, a failed declaration decides.
  void judge_deciding(const ShellNode& node) {
    if (node.kind == Kind::list && !node.children.empty()) return judge_deciding(node.children.back());
    if (node.kind == Kind::subshell && may_find_unset(node))
      add(node.begin, "an unset variable ends a subshell alone; that is not followed");
    if (node.kind != Kind::simple || node.words.size() < 2) return;
    const std::string name = without_quotes(raw(node.words.front()));
    if ((declares_variables(name) || name == "unset") && raw(node.words[1]).starts_with('-'))
      add(node.begin, "whether a declaration succeeds is not followed");
  }

  /// What stands among numbers is computed, and computing it may set variables. Of a name that is its value's matter
  /// (holds_assignment).
  void judge_test(Words words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (raw(words[i]) == "-v") add(words[i].begin, "-v asks for a variable in a way that is not followed");
      if (!is_one(raw(words[i]), {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})) continue;
      for (const std::size_t operand : {i - 1, i + 1})
        if (operand < words.size() && !is_number_or_value(raw(words[operand])))
          add(words[operand].begin, "text among numbers is computed in a way that is not followed");
    }
  }
  static bool is_number_or_value(std::string_view text) {
    if (text.starts_with('$') || text.starts_with("\"$") || shell_name_length(text) == text.size()) return true;
    return !text.empty() && text.find_first_not_of("\"'+-0123456789") == std::string_view::npos;
  }

  void judge_word(const ShellWord& word) {
    const std::string_view text = raw(word);
    for (const ShellWord& item : word.items) {
      judge_word(item);
      if (raw(item).starts_with('[')) judge_item(item);
    }
    if (holds(text, "$'") && holds(text, "\\")) judge_escapes(word);
    if (holds(text, "BASH_REMATCH")) add(word.begin, "BASH_REMATCH is not followed");
    if (sets_in_subscript(text)) add(word.begin, "an assignment in a subscript is not followed");
    const bool has_inner = holds(text, "$(") || holds(text, "`") || holds(text, "<(") || holds(text, ">(");
    if (has_inner && !text.starts_with("$((") && (names_launching(text) || holds(text, "torchrun")) &&
        !holds(text, "which torchrun") && !holds(text, "command -v torchrun"))
      add(word.begin, "what is run for its output may train; that is not looked into");
    if (has_inner && (holds(text, "<(") || holds(text, ">(")) && starts_program(text))
      add(word.begin, "what is run for its output may train; that is not looked into");
    if (quotes_in_braces(text)) add(word.begin, "a quote in ${ } is taken in a way that is not followed");
  }

  /// `A[N=8]`, `([N=8]=x)`.
  static bool sets_in_subscript(std::string_view text) {
    for (std::size_t at = text.find('['); at != std::string_view::npos; at = text.find('[', at + 1)) {
      const std::string_view inner = text.substr(at + 1);
      const std::size_t length = shell_name_length(inner);
      const bool is_behind_name = at > 0 && text[at - 1] != ' ' && text[at - 1] != '"' && text[at - 1] != '\'';
      if (length == 0 || !is_behind_name) continue;
      const std::string_view rest = inner.substr(length);
      if ((rest.starts_with('=') && !rest.starts_with("==")) || rest.starts_with("+=") || rest.starts_with("++"))
        return true;
    }
    return false;
  }

  /// `[N=8]=x` in an array.
  void judge_item(const ShellWord& item) {
    const std::string_view inner = raw(item).substr(1);
    if (inner.substr(shell_name_length(inner)).starts_with('='))
      add(item.begin, "an assignment in a subscript is not followed");
  }

  void judge_escapes(const ShellWord& word) {
    for (const std::string_view escape : {"\\r", "\\x", "\\0", "\\u", "\\U", "\\c"})
      if (holds(raw(word), escape)) return add(word.begin, "an escape in $' ' is not followed");
  }

  static bool quotes_in_braces(std::string_view text) {
    for (std::size_t at = text.find("${"); at != std::string_view::npos; at = text.find("${", at + 2)) {
      const std::size_t close = std::min(text.find('}', at), text.size());
      if (holds(text.substr(at, close - at), "'")) return true;
    }
    return false;
  }

  void judge_simple(const ShellNode& node, Around around) {
    Words words(node.words);
    std::size_t first = 0;
    for (; first < words.size() && is_shell_assignment(raw(words[first])); ++first) {
      const std::string_view text = raw(words[first]);
      judge_assignment(text.substr(0, shell_name_length(text)), words[first].begin);
      if (has_sums_ && holds_assignment(text.substr(text.find('=') + 1)))
        add(words[first].begin, "text that reads as an assignment may be computed; that is not followed");
    }
    if (first == words.size()) return;
    if (first > 0 && may_be_nothing(words.subspan(first)))
      add(words[first].begin, "the command behind an assignment may be nothing; that is not followed");
    const std::string name = without_quotes(raw(words[first]));
    const Words arguments = words.subspan(first + 1);
    if (functions_.contains(name) && hands_on_loosely(arguments))
      add(words[first].begin, "what a function is given may be more words than it looks; that is not followed");
    if (name == "exec" && !arguments.empty() && may_be_nothing(arguments, "\"$"))
      add(words[first].begin, "exec of nothing goes on; that is not followed");
    if (is_one(name, {"bash", "sh"}) && has_document(node))
      add(words[first].begin, "a shell reads a here-document; it is not looked into");
    if (declares_variables(name)) judge_declaration(arguments);
    if (name == "trap") judge_trap(arguments, words[first].begin);
    if (name == "eval") judge_eval(arguments, words[first].begin);
    if (name == "set" && sets_arguments(arguments)) sets_own_ = true;
    if (name == "getopts" && (sets_own_ || (arguments.size() > 2 && raw(arguments[2]) != "\"$@\"")))
      add(words[first].begin, "getopts over arguments that the script sets is not followed");
    const bool sets = name == "set" && (around.is_conditional || around.is_in_loop) && sets_arguments(arguments);
    if (sets || (name == "shift" && shifts_oddly(arguments, around)))
      add(words[first].begin, "the script's own arguments change where they may not; that is not followed");
    judge_named(name, arguments, words[first].begin);
  }

  [[nodiscard]] bool shifts_oddly(Words arguments, Around around) const {
    const bool is_counted =
        arguments.empty() || raw(arguments.front()).find_first_not_of("0123456789") == std::string_view::npos;
    return !is_counted || (around.is_conditional && !around.is_in_loop);
  }

  void judge_assignment(std::string_view name, std::size_t at) {
    if (is_shells_own(name)) add(at, fmt::format("{} is the shell's own; setting it is not followed", shown(name)));
  }

  /// Words that are nothing but values, which may be empty.
  [[nodiscard]] bool may_be_nothing(Words words, std::string_view beginning = "$") const {
    return std::ranges::all_of(words, [&](const ShellWord& word) { return raw(word).starts_with(beginning); });
  }
  [[nodiscard]] bool hands_on_loosely(Words words) const {
    return std::ranges::any_of(words, [this](const ShellWord& w) {
      return is_one(raw(w), {"$@", "$*", "${@}", "${*}"});
    });
  }
  [[nodiscard]] bool has_document(const ShellNode& node) const {
    return std::ranges::any_of(node.redirections, [this](const ShellWord& word) { return holds(raw(word), "<<"); });
  }
  /// `'N=8'`, as a value.
  static bool holds_assignment(std::string_view value) {
    const std::string_view text = value.substr(std::min(value.find_first_not_of("\"'$"), value.size()));
    const std::string_view rest = text.substr(shell_name_length(text));
    if (rest.size() == text.size()) return false;
    return (rest.starts_with('=') && !rest.starts_with("==")) || rest.starts_with("+=") || rest.starts_with("++") ||
           rest.starts_with("*=") || rest.starts_with("-=");
  }

  void judge_declaration(Words arguments) {
    for (const ShellWord& word : arguments) {
      const std::string_view text = raw(word);
      const bool is_option = text.starts_with('-') || text.starts_with('+');
      if (is_option && text.find_first_of("Ffpn") != std::string_view::npos)
        return add(word.begin, "a declaration that asks, or refers to another name, is not followed");
      if (is_option) continue;
      const std::size_t length = shell_name_length(text);
      judge_assignment(text.substr(0, length), word.begin);
      const std::string_view rest = text.substr(length);
      const bool is_name = length > 0 && (rest.empty() || is_shell_assignment(text) || rest.starts_with('['));
      if (!is_name && !text.starts_with('$') && !text.starts_with('"') && !text.starts_with('\''))
        return add(word.begin, "what is no name cannot be declared; what the shell does then is not followed");
    }
  }

  /// Before the script ends, or on signals that end it, nothing that trains goes on.
  void judge_trap(Words arguments, std::size_t at) {
    if (arguments.size() < 2) return;
    const std::string text = without_quotes(raw(arguments.front()));
    const std::string_view word = std::string_view(text).substr(0, text.find_first_of(" ;"));
    const bool is_plain = text.empty() || text == "-" || is_one(word, {"exit", "echo", "kill", "rm"});
    for (const ShellWord& signal : arguments.subspan(1)) {
      std::string name = without_quotes(raw(signal));
      if (name.starts_with("SIG")) name.erase(0, 3);
      const bool ends = is_one(name, {"EXIT", "INT", "TERM", "HUP", "QUIT", "PIPE", "0", "1", "2", "3", "15"});
      if (!ends && !(name == "ERR" && is_plain && !functions_.contains(std::string(word))))
        return add(at, fmt::format("a trap on {} may set variables; it is not followed", shown(name)));
    }
    if (starts_program(text) || names_launching(" " + text + " ") || raw(arguments.front()).starts_with("\"$"))
      add(at, "a trap may train; it is not looked into");
  }
  void judge_eval(Words arguments, std::size_t at) {
    const std::string_view text = arguments.empty() ? std::string_view() : raw(arguments.front());
    const bool is_hook = arguments.size() == 1 && text.starts_with("\"$(") && !holds(text, "()") &&
                         !holds(text, "\\") &&
                         (holds(text, "conda") || holds(text, "mamba") || holds(text, "ssh-agent"));
    const bool is_setup = arguments.size() == 1 && text == "\"$__conda_setup\"" && has_setup_;
    const bool is_program =
        !arguments.empty() && !is_shell_builtin(text) && std::ranges::all_of(arguments, [this](const ShellWord& word) {
          return is_plain_shell_word(raw(word)) && !holds(raw(word), "=");
        });
    if (!is_hook && !is_setup && !is_program && !arguments.empty())
      add(at, "eval runs what is put together; that is not followed");
  }

  [[nodiscard]] bool sets_arguments(Words arguments) const {
    if (arguments.empty()) return false;
    const std::string_view text = raw(arguments.front());
    return text == "--" || text == "-" || (!text.starts_with('-') && !text.starts_with('+'));
  }

  void judge_named(std::string_view name, Words arguments, std::size_t at) {
    if (is_one(name,
               {"mapfile", "readarray", "compgen", "complete", "compopt", "enable", "bind", "fc", "coproc", "hash"}))
      return add(at, fmt::format("{} is not followed", name));
    if (name == "let" && any_holds(arguments, "$")) return add(at, "let with values in it is not followed");
    if (is_one(name, {"xargs", "find", "parallel"}) && any_starts_program(arguments))
      return add(at, fmt::format("{} may train; it is not looked into", name));
    if (name == "read" && reads_oddly(arguments)) return add(at, "read with these options is not followed");
    if (name == "printf" && prints_oddly(arguments)) return add(at, "printf -v in this form is not followed");
    if (is_one(name, {"[", "test"})) judge_builtin_test(arguments);
    if (is_one(name, {"bash", "sh", ".", "source"}) && runs_written(arguments))
      return add(at, "a script that this one writes is run; it is not looked into");
    if (is_one(name, {"bash", "sh"}) && std::ranges::any_of(arguments, [this](const ShellWord& w) {
          return launching_.contains(without_quotes(raw(w)));
        }))
      return add(at, "a function is called in another shell; it is not looked into");
    if (runs_module(arguments)) add(at, "another training may be started as a module; it is not judged");
  }

  [[nodiscard]] bool any_holds(Words words, std::string_view part) const {
    return std::ranges::any_of(words, [&](const ShellWord& word) { return holds(raw(word), part); });
  }
  [[nodiscard]] bool any_starts_program(Words words) const {
    return std::ranges::any_of(words, [this](const ShellWord& word) { return starts_program(raw(word)); });
  }
  [[nodiscard]] bool reads_oddly(Words arguments) const {
    return std::ranges::any_of(arguments, [this](const ShellWord& word) {
      const std::string_view text = raw(word);
      return (text.starts_with('-') && text.size() > 2 && !is_one(text, {"-ra", "-rp", "-rs", "-rsp", "-rd"})) ||
             holds(text, "[");
    });
  }
  [[nodiscard]] bool prints_oddly(Words arguments) const {
    if (arguments.empty()) return false;
    const std::string_view text = raw(arguments.front());
    const bool is_option = without_quotes(text).starts_with("-v");
    return is_option && (text != "-v" || (arguments.size() > 1 && holds(raw(arguments[1]), "[")));
  }
  void judge_builtin_test(Words arguments) {
    for (const ShellWord& word : arguments)
      if (raw(word) == "-v") add(word.begin, "-v asks for a variable in a way that is not followed");
  }
  /// `bash go.sh` where something is redirected to go.sh.
  [[nodiscard]] bool runs_written(Words arguments) const {
    if (arguments.empty()) return false;
    const std::string name = without_folder(without_quotes(raw(arguments.front())));
    return !name.empty() && written_.contains(name);
  }
  [[nodiscard]] bool runs_module(Words arguments) const {
    const bool has_module = std::ranges::any_of(arguments, [this](const ShellWord& w) { return raw(w) == "-m"; });
    const bool trains = std::ranges::any_of(arguments, [this](const ShellWord& word) {
      return raw(word).starts_with("--num-layers") || raw(word).starts_with("--micro-batch-size");
    });
    const bool has_file = any_holds(arguments, ".py");
    return has_module && trains && !has_file;
  }

  std::string_view script_;
  bool has_sums_ = false;   ///< arithmetic, or subscripts
  bool has_setup_ = false;  ///< what conda writes into a login's script
  bool sets_own_ = false;   ///< so far
  bool has_nounset_ = false;
  std::set<std::string> functions_, launching_, written_;
  std::vector<ShellUnusual> found_;
};

}  // namespace

std::vector<ShellUnusual> unusual_commands(std::string_view script, const ShellTree& tree) {
  Finder finder(script, tree);
  finder.walk(tree.root, {});
  return finder.take();
}

}  // namespace tidemark::formats
