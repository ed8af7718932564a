#include "integrations/formats/import_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "integrations/formats/near_miss.h"
#include "integrations/formats/shell_budget.h"
#include "integrations/formats/shell_script.h"
#include "integrations/formats/shell_variables.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/yaml_tree.h"
#include "planner/estimate/argument_value.h"

namespace tidemark::formats {
namespace {

using estimate::Argument;

constexpr std::size_t kLongestFile = std::size_t{1} << 20;
constexpr std::size_t kMostArguments = 10'000;
constexpr int kDeepest = 20;

std::string at(std::string_view file, int line) {
  return fmt::format("{}:{}", file, line);
}

// ---- YAML and JSON ------------------------------------------------------------------------------------------------

/// A scalar, or the scalars of a list joined by blanks; false: there is something else in it.
bool value_text(const YamlNode& node, int depth, std::string& out) {
  constexpr std::size_t kLongestValue = 1 << 20;
  if (node.is_scalar() || node.is_empty()) {
    if (!out.empty()) out += ' ';
    out += node.is_empty() ? "null" : node.text;
    return out.size() < kLongestValue;
  }
  if (!node.is_list() || depth > kDeepest) return false;
  return std::ranges::all_of(node.items,
                             [&](const YamlNode::Item& item) { return value_text(*item.value, depth + 1, out); });
}

/// `${NAME:-8}` and the like as a shell that knows no NAME has it; what it leaves open stays as it is written. Nothing:
/// the budget is spent.
std::optional<std::string> with_defaults(std::string value, ShellBudget& budget) {
  if (value.find("${") == std::string::npos) return value;
  ShellVariables variables(value, budget);
  ShellText text = variables.expand_whole(0, value.size());
  if (budget.is_spent()) return std::nullopt;
  return text.unresolved ? std::move(value) : std::move(text.characters);
}

class MapReader {
 public:
  MapReader(std::string_view file, ArgumentFile& out) : file_(file), out_(out) {}

  /// Entries of a map; maps inside it are sections whose keys count alike.
  Status arguments(const YamlNode& map, int depth) {
    for (const auto& [key, value] : map.items) {
      if (!key->is_scalar()) return wrong(*key, "a key is not a name; write --argument: value");
      const bool section = value->is_map() && !value->items.empty() && depth < kDeepest;
      if (Status status = section ? arguments(*value, depth + 1) : argument(*key, *value); !status) return status;
    }
    return {};
  }

  Status environment(const YamlNode& map) {
    if (!map.is_map()) return map.is_empty() ? Status() : wrong(map, "the environment is not a map of NAME: value");
    for (const auto& [key, node] : map.items) {
      std::string value;
      if (!key->is_scalar() || !value_text(*node, 0, value))
        return wrong(*key, "the environment is a map of NAME: value");
      out_.set.environment.push_back({.name = key->text, .value = std::move(value), .place = at(file_, key->line)});
    }
    return {};
  }

  Status devices(const YamlNode& node) {
    std::int64_t count = 0;
    const std::string& text = node.text;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc{} || end != text.data() + text.size() || count < 1 || count > (1 << 24))
      return node.is_empty() ? Status() : wrong(node, "the number of devices is a whole number from 1 to 16777216");
    out_.hints.platform.devices = count;
    return {};
  }

 private:
  Status argument(const YamlNode& key, const YamlNode& node) {
    const std::string name = plain_name(key.text);
    std::string value;
    if (!value_text(node, 0, value))
      return wrong(node, fmt::format("the value of {} is neither a value nor a list of values", shown(name)));
    if (out_.set.arguments.size() == kMostArguments)
      return wrong(key, fmt::format("more than {} arguments", kMostArguments));
    note_other_value(name, value, key);
    std::optional<std::string> expanded = with_defaults(std::move(value), budget_);
    value_bytes_ += expanded ? expanded->size() : kMostShellCharacters;
    if (!expanded || value_bytes_ > kMostShellCharacters)
      return wrong(key, fmt::format("the values up to here grow beyond {} characters", kMostShellCharacters));
    out_.set.arguments.push_back({.name = name, .value = std::move(*expanded), .place = at(file_, key.line)});
    return {};
  }

  /// Of equal names the last counts, as in Python; which of two values was meant is the user's to say.
  void note_other_value(const std::string& name, const std::string& value, const YamlNode& key) {
    std::string plain = name;
    std::ranges::replace(plain, '_', '-');
    const auto [before, is_new] = values_.try_emplace(std::move(plain), value);
    if (is_new || before->second == value) return;
    if (estimate::is_used(name))
      out_.notes.push_back(fmt::format("{}: --{} is there twice, {} before and {} here; the last counts",
                                       at(file_, key.line), before->first, shown(before->second), shown(value)));
    before->second = value;
  }

  Status wrong(const YamlNode& node, const std::string& message) const {
    return bad_input(fmt::format("{}: {}", at(file_, node.line), message));
  }
  static std::string plain_name(std::string_view name) {
    name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
    return std::string(name);
  }

  std::string_view file_;
  ArgumentFile& out_;
  std::size_t value_bytes_ = 0;                ///< of arguments read
  ShellBudget budget_;                         ///< of all values with defaults together
  std::map<std::string, std::string> values_;  ///< of arguments read, by plain name
};

/// The member of a map under the first of `names` it has, or nullptr.
const YamlNode* member(const YamlNode& map, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const YamlNode* node = map.find(name)) return node;
  return nullptr;
}

/// Sections are looked up by name: of two of one name, one would count and the other would not.
Status refuse_second_section(const YamlNode& root, std::string_view file) {
  std::map<std::string_view, int> lines;
  for (const auto& [key, value] : root.items) {
    if (!key->is_scalar()) continue;
    const auto [first, is_new] = lines.try_emplace(key->text, key->line);
    constexpr std::array<std::string_view, 10> kSections = {
        "MODEL_ARGS", "args", "arguments", "ENV_VARS", "env", "environment", "devices", "gpus", "npus", "world_size"};
    if (!is_new && std::ranges::find(kSections, key->text) != kSections.end())
      return bad_input(fmt::format("{}: {} is there twice, first in line {}; keep one", at(file, key->line),
                                   shown(key->text), first->second));
  }
  return {};
}

Status read_map(const YamlNode& root, std::string_view file, MapReader& reader) {
  const YamlNode* arguments = member(root, {"MODEL_ARGS", "args", "arguments"});
  if (arguments != nullptr && !arguments->is_map())
    return bad_input(
        fmt::format("{}: the arguments are not a map of name: value; write `--num-layers: 32` lines under it",
                    at(file, arguments->line)));
  if (Status status = refuse_second_section(root, file); !status) return status;
  if (arguments == nullptr) return reader.arguments(root, 0);
  if (Status status = reader.arguments(*arguments, 0); !status) return status;
  if (const YamlNode* environment = member(root, {"ENV_VARS", "env", "environment"})) {
    if (Status status = reader.environment(*environment); !status) return status;
  }
  const YamlNode* devices = member(root, {"devices", "gpus", "npus", "world_size"});
  return devices != nullptr ? reader.devices(*devices) : Status();
}

Result<ArgumentFile> read_yaml(std::string_view text, std::string_view file) {
  constexpr YamlUse kUse = {.most_bytes = kLongestFile,
                            .what = "map of arguments",
                            .invalid = "this is neither valid YAML nor JSON",
                            .remedy = "write `--num-layers: 32` lines, a JSON object, or give the launch script"};
  const Result<std::shared_ptr<const YamlNode>> root = read_yaml_tree(text, file, kUse);
  if (!root) return root.error();
  if (!root.value()->is_map())
    return bad_input(
        fmt::format("{}: the file is not a map of arguments; write `--num-layers: 32` lines, a JSON "
                    "object, or give the launch script",
                    file));
  ArgumentFile out;
  MapReader reader(file, out);
  if (Status status = read_map(*root.value(), file, reader); !status) return status.error();
  return out;
}

// ---- launch scripts -----------------------------------------------------------------------------------------------

bool is_option(std::string_view text) {
  return text.size() > 2 && text.starts_with("--");
}

/// The bytes a dash that is no hyphen begins with: U+2010 to U+2015, U+2212. 0: none.
std::size_t typographic_dash(std::string_view text) {
  for (const std::string_view dash :
       {"\xe2\x80\x90", "\xe2\x80\x91", "\xe2\x80\x92", "\xe2\x80\x93", "\xe2\x80\x94", "\xe2\x80\x95", "\xe2\x88\x92"})
    if (text.starts_with(dash)) return dash.size();
  return 0;
}

/// `--num-layers`, if that is an argument; otherwise what options look like.
std::string option_meant(std::string_view name) {
  while (const std::size_t dash = typographic_dash(name)) name.remove_prefix(dash);
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  const std::string plain(name.substr(0, name.find('=')));
  const bool known = estimate::is_known(plain);
  return known ? fmt::format("is it --{}?", plain) : "an option begins with -- and its name";
}

/// What no program that takes options would take as a value: nothing, or why.
std::string not_a_value(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  const std::string_view trimmed = text.substr(first);
  const std::size_t blank = trimmed.find_first_of(" \t\r\n");
  if (is_option(trimmed) && (first > 0 || blank < trimmed.find('=')))
    return fmt::format("{} is one word in quotes; leave them off, so that its options count", shown(trimmed));
  if (text == "--") return "'--' is no option; write its name right behind it";
  const bool letter = text.size() > 1 && ((text[1] >= 'a' && text[1] <= 'z') || (text[1] >= 'A' && text[1] <= 'Z'));
  if (typographic_dash(text) > 0 || (text.starts_with('-') && letter))
    return fmt::format("{} is no option; {}", shown(text), option_meant(text));
  return {};
}

/// Words as options with their values.
class OptionReader {
 public:
  OptionReader(std::string_view file, ArgumentFile& out) : file_(file), out_(out) {}

  /// Of a launcher, whose options are its own, only what is asked for matters.
  Status read(const std::vector<ShellText>& words, bool launcher) {
    for (const ShellText& word : words) {
      const std::string& text = word.characters;
      if (!launcher && !out_.set.arguments.empty()) {
        if (const std::string wrong = not_a_value(text); !wrong.empty())
          return bad_input(fmt::format("{}: {}", at(file_, word.line(1)), wrong));
        if (!text.empty() && text.find_first_not_of(" \t\r") == std::string::npos && !has_room(text))
          return bad_input(fmt::format("{}: a blank behind the backslash ends the command here; remove the blank",
                                       at(file_, word.line(1))));
      }
      if (is_option(text)) {
        begin(word);
      } else if (!out_.set.arguments.empty()) {
        add_value(word);
      } else if (text.starts_with('@')) {
        leave_out_file(word);
      } else if (is_any(word)) {
        leave_out(word);
      }
      doubt_pattern(word);
      require_known(word, launcher);
      if (!refused_.empty()) return bad_input(refused_);
    }
    return {};
  }

 private:
  /// It may stand for any words.
  static bool is_any(const ShellText& word) {
    return word.unresolved && (word.characters.starts_with('$') || word.characters.starts_with('`'));
  }

  /// `*`, `~` and `{a,b}`: what the shell puts there, only its machine says.
  static bool is_pattern(const ShellText& word) {
    return word.unresolved && word.characters.find_first_of("$`") == std::string::npos;
  }
  /// Of an argument that decides memory, or of a word that may become options.
  void doubt_pattern(const ShellText& word) {
    if (!is_pattern(word)) return;
    const bool is_value = !out_.set.arguments.empty() && !out_.set.arguments.back().is_switch;
    if (is_value && !estimate::is_used(out_.set.arguments.back().name) && !is_option(word.characters) &&
        (word.characters.empty() || std::string_view("*?[{").find(word.characters.front()) == std::string_view::npos))
      return;
    leave_unread(word, fmt::format("what the shell makes of {} the script alone does not say; put it in quotes",
                                   shown(word.characters)));
  }

  /// A value that decides memory, or words that may be options, and that a line which is not followed may have set.
  void require_known(const ShellText& word, bool launcher) {
    if (word.lost_line == 0) return;
    const std::string& text = word.characters;
    const bool valued = !out_.set.arguments.empty() && (is_option(text) || !out_.set.arguments.back().is_switch);
    const bool options = text.starts_with('$') && (!valued || !has_value(word));
    std::string name = valued ? out_.set.arguments.back().name : std::string();
    std::ranges::replace(name, '_', '-');
    const bool matters = launcher ? name == "nnodes" || name == "nproc-per-node" : estimate::is_used(name);
    if (!options && !matters) return;
    refused_ = fmt::format(
        "{}: {} needs {}, which line {} may set in a way that is not followed; write its value into the command, or "
        "give the arguments as YAML",
        at(file_, word.line(1)), options ? "the command" : "--" + name,
        shown(is_option(text) ? std::string_view(text).substr(text.find('=') + 1) : text), word.lost_line);
  }
  /// The last argument took the word for its value.
  [[nodiscard]] bool has_value(const ShellText& word) const {
    return out_.set.arguments.back().value.ends_with(word.characters) &&
           estimate::takes(out_.set.arguments.back().name) != estimate::Takes::nothing;
  }

  void begin(const ShellText& word) {
    const std::string& text = word.characters;
    const std::size_t sign = text.find('=');
    const bool alone = sign == std::string::npos;
    out_.set.arguments.push_back({.name = text.substr(2, alone ? sign : sign - 2),
                                  .value = alone ? "" : text.substr(sign + 1),
                                  .is_switch = alone,
                                  .place = at(file_, word.line(1)),
                                  .unsure_line = word.assumed_line()});
    if (!alone) doubt_switch(word);
  }

  /// argparse ends the run over `--swiglu false`; here it is off.
  void doubt_switch(const ShellText& word) {
    const Argument& argument = out_.set.arguments.back();
    const std::string value = estimate::lower_case(argument.value);
    if (value != "false" || !estimate::is_used(argument.name) ||
        estimate::takes(argument.name) != estimate::Takes::nothing)
      return;
    leave_unread(word, fmt::format("--{} is a switch and takes no value: {} ends the run; leave both out",
                                   argument.name, shown(argument.value)));
  }

  /// The last argument takes the word as a value of its own.
  [[nodiscard]] bool has_room(const std::string& text) const {
    const Argument& argument = out_.set.arguments.back();
    switch (estimate::takes(argument.name)) {
      case estimate::Takes::nothing:
        return argument.is_switch && (text == "true" || text == "false" || text == "True" || text == "False");
      case estimate::Takes::value:
        return argument.is_switch;
      case estimate::Takes::list:
        return true;
    }
    return true;
  }

  void add_value(const ShellText& word) {
    Argument& argument = out_.set.arguments.back();
    const std::string& text = word.characters;
    const bool unknown = is_any(word);
    const bool room = has_room(text);
    if (text.starts_with('@') && (!room || !argument.is_switch)) {
      leave_out_file(word);
    } else if (unknown && (!room || !argument.is_switch)) {
      leave_out(word);
    } else if (estimate::takes(argument.name) == estimate::Takes::nothing && !room &&
               !estimate::is_used(argument.name)) {
      leave_unread(word, fmt::format("{} is neither an option nor a value of the switch before it; it is left out",
                                     shown(text)));
    } else {  // a path with blanks in it is no reason for doubt; too much for an argument in use is refused with its
              // name
      argument.value += (argument.value.empty() ? "" : " ") + text;
      argument.is_switch = false;
      argument.unsure_line = std::max(argument.unsure_line, word.assumed_line());
      doubt_switch(word);
    }
  }

  void leave_out(const ShellText& word) {
    leave_unread(word, fmt::format("nothing in the file says what {} holds; it is left out", shown(word.characters)));
  }
  void leave_out_file(const ShellText& word) {
    leave_unread(word, fmt::format("the arguments in {} are left out; give them here", shown(word.characters)));
  }
  void leave_unread(const ShellText& word, std::string what) {
    out_.set.unread.push_back({.place = at(file_, word.line(1)), .what = std::move(what)});
  }

  std::string_view file_;
  ArgumentFile& out_;
  std::string refused_;
};

/// Options of torchrun that say how many devices there are; others are the launcher's own.
void collect_launcher(const std::vector<ShellText>& words, std::string_view file, ArgumentFile& out) {
  ArgumentFile all;
  if (const Status status = OptionReader(file, all).read(words, true); !status)
    out.device_problem = status.error().message;
  for (Argument& argument : all.set.arguments) {
    std::ranges::replace(argument.name, '_', '-');
    if (argument.name != "nnodes" && argument.name != "nproc-per-node") continue;
    if (argument.value.find('$') == std::string::npos) {
      out.set.arguments.push_back(std::move(argument));
    } else if (argument.name == "nnodes") {
      out.device_notes.push_back(fmt::format("{}: --nnodes: nothing says what {} is; 1 taken, --world-size would say",
                                             argument.place, shown(argument.value)));
    }
  }
}

/// The launcher's options do: what variables of such names hold is moot.
bool says_devices(const ArgumentFile& out) {
  return std::ranges::any_of(out.set.arguments,
                             [](const Argument& argument) { return argument.name == "nproc-per-node"; });
}

/// Options that decide memory and that only a condition the script does not decide gives.
Status refuse_doubts(const ShellScript& script, std::string_view file) {
  for (const ShellText& doubt : script.doubts) {
    const std::string name = doubt.characters.substr(2, doubt.characters.find('=') - 2);
    if (estimate::is_used(name))
      return bad_input(
          fmt::format("{}: whether --{} is given depends on a condition that the script does not decide; set what it "
                      "asks for, as in NAME=${{NAME:-1}}, or write the argument into the command",
                      at(file, doubt.line(1)), name));
  }
  return {};
}

void take_variables(const ShellScript& script, std::string_view file, ArgumentFile& out) {
  for (const ShellScript::Variable& variable : script.variables) {
    constexpr std::array<std::string_view, 5> kCounts = {"NNODES", "NPUS_PER_NODE", "GPUS_PER_NODE", "NPROC_PER_NODE",
                                                         "WORLD_SIZE"};
    const bool counts = std::ranges::find(kCounts, variable.name) != kCounts.end();
    if (counts && variable.value.lost_line > 0 && !says_devices(out) && out.device_problem.empty())
      out.device_problem = fmt::format(
          "{}: {} is the number of devices or nodes, and this line may set it in a way that is not followed; "
          "--world-size would say",
          at(file, variable.value.lost_line), variable.name);
    if (variable.value.unresolved || (!variable.exported && !counts)) continue;
    if (counts && variable.value.assumed_line() > 0 && !says_devices(out))
      out.set.unread.push_back({.place = at(file, variable.value.line(1)),
                                .what = fmt::format("{} is the number of devices or nodes, and its default is taken, "
                                                    "though line {} may set another",
                                                    variable.name, variable.value.assumed_line())});
    out.set.environment.push_back(
        {.name = variable.name, .value = variable.value.characters, .place = at(file, variable.value.line(1))});
  }
}

Result<ArgumentFile> read_script(std::string_view text, std::string_view file, const ReadBeside& read_beside) {
  Result<ShellScript> script = read_shell_script(text, file, read_beside);
  if (!script) return script.error();
  ArgumentFile out{.notes = std::move(script.value().notes)};
  collect_launcher(script.value().launcher, file, out);
  if (Status status = OptionReader(file, out).read(script.value().arguments, false); !status) return status.error();
  if (out.set.arguments.size() > kMostArguments)
    return bad_input(fmt::format("{}: more than {} arguments", file, kMostArguments));
  if (Status status = refuse_doubts(script.value(), file); !status) return status.error();
  take_variables(script.value(), file, out);
  for (ShellScript::Unread& unread : script.value().unread)
    out.set.unread.push_back({.place = at(file, unread.line), .what = std::move(unread.what)});
  const std::string& program = script.value().program;
  const std::string name = program.substr(program.find_last_of('/') + 1);
  out.hints.bert = name.find("bert") != std::string::npos;
  out.hints.t5 = !out.hints.bert && name.find("t5") != std::string::npos;
  return out;
}

// ---- which form ---------------------------------------------------------------------------------------------------

bool is_script(std::string_view text, std::string_view file) {
  for (const std::string_view extension : {".yaml", ".yml", ".json"})
    if (file.ends_with(extension)) return false;
  if (file.ends_with(".sh") || file.ends_with(".bash")) return true;
  if (text.starts_with("#!")) return true;
  return text.find("torchrun") != std::string_view::npos || text.find(".py") != std::string_view::npos;
}

/// The text without comments: what they speak of decides nothing.
std::string without_comments(std::string_view text) {
  std::string kept;
  kept.reserve(text.size());
  bool comment = false;
  char before = '\n';
  for (const char c : text) {
    if (c == '\n') comment = false;
    if (c == '#' && (before == '\n' || before == ' ' || before == '\t')) comment = true;
    if (!comment) kept += c;
    before = c;
  }
  return kept;
}

/// An option only MindSpeed has, or a word for devices only it runs on.
bool is_mindspeed(const estimate::ArgumentSet& set, std::string_view text) {
  for (const Argument& argument : set.arguments)
    if (estimate::is_of_mindspeed(argument.name)) return true;
  const std::string read = without_comments(text);
  for (const std::string_view sign :
       {"mindspeed", "MindSpeed", "NPUS_PER_NODE", "ASCEND", "torch_npu", "PYTORCH_NPU", "HCCL_", "\"npus\""})
    if (read.find(sign) != std::string::npos) return true;
  return false;
}

}  // namespace

Result<ArgumentFile> read_arguments(std::string_view text, std::string_view file_name, const ReadBeside& read_beside) {
  if (text.size() > kLongestFile)
    return bad_input(fmt::format("{}: the file has {} bytes; a launch script or a map of arguments has at most {}",
                                 file_name, text.size(), kLongestFile));
  Result<ArgumentFile> read =
      is_script(text, file_name) ? read_script(text, file_name, read_beside) : read_yaml(text, file_name);
  if (!read) return read;
  if (read.value().set.arguments.empty())
    return bad_input(
        fmt::format("{}: it holds no argument; write `--num-layers: 32` lines or give the launch script", file_name));
  if (is_mindspeed(read.value().set, text)) {
    read.value().hints.platform.framework = estimate::Framework::mindspeed_llm;
    read.value().hints.platform.accelerator = estimate::Accelerator::ascend;
  }
  return read;
}

std::string argument_hint(std::string_view name) {
  static const std::vector<std::string> known = [] {
    std::vector<std::string> names;
    for (const std::string_view known_name : estimate::known_arguments()) names.emplace_back(known_name);
    return names;
  }();
  const auto near = find_near_miss(name, known);
  return near ? fmt::format(" (did you mean --{}?)", *near) : "";
}

}  // namespace tidemark::formats
