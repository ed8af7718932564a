#include "integrations/formats/shell_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

/// They only speak of the files they are given.
bool is_no_start(const std::vector<ShellText>& words) {
  constexpr std::array<std::string_view, 26> kNames = {
      "echo", "printf", "cp",   "mv",    "rm",   "ls",   "cat", "sed",  "grep", "tee",  "tar",  "git",    "find",
      "diff", "touch",  "head", "chmod", "tail", "test", "wc",  "stat", "awk",  "less", "file", "md5sum", "rsync"};
  constexpr std::array<std::string_view, 4> kBefore = {"nohup", "sudo", "env", "command"};
  std::size_t first = 0;
  while (first < words.size() && std::ranges::find(kBefore, words[first].characters) != kBefore.end()) ++first;
  if (first == words.size() || (words[first].characters.empty() && !words[first].unresolved)) return true;
  return std::ranges::find(kNames, words[first].characters) != kNames.end();
}

bool is_python(const ShellText& word) {
  return word.characters.ends_with(".py");
}

/// A tool's run beside the training's is no reason for doubt.
bool is_training(const std::vector<ShellText>& words) {
  return std::ranges::any_of(words, [](const ShellText& word) {
    const std::string_view name = std::string_view(word.characters).substr(0, word.characters.find('='));
    return name == "--num-layers" || name == "--micro-batch-size";
  });
}

}  // namespace

void split_at_blanks(const ShellText& text, std::vector<ShellText>& words) {
  const std::string& characters = text.characters;
  for (std::size_t begin = characters.find_first_not_of(kBlank); begin != std::string::npos;) {
    const std::size_t end = std::min(characters.find_first_of(kBlank, begin), characters.size());
    words.push_back(text.part(begin, end - begin));
    begin = characters.find_first_not_of(kBlank, end);
  }
}

bool add_command_words(ShellText field, std::vector<ShellText>& words) {
  const std::string& text = field.characters;
  const bool is_line = text.find(".py") != std::string::npos && text.find_first_of(kBlank) != std::string::npos;
  if (!is_line || std::ranges::any_of(words, is_python)) {
    words.push_back(std::move(field));
    return true;
  }
  auto unknown = field.unknown.begin();
  bool is_plain = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    while (unknown != field.unknown.end() && *unknown < i) ++unknown;
    const bool is_unknown = unknown != field.unknown.end() && *unknown == i;
    is_plain &= is_unknown || std::string_view("\n;&|<>()$`\\\"'*?[]{}~#!").find(text[i]) == std::string_view::npos;
  }
  split_at_blanks(field, words);
  return is_plain;
}

ShellText lost_value(const std::string& name, const ShellVariable& variable) {
  ShellText text;
  text.add("$" + name, variable.lost_line);
  text.make_unknown(variable.lost_line);
  return text;
}

ShellLaunches::Variables scalars_of(const ShellVariables& variables) {
  ShellLaunches::Variables scalars;
  for (const auto& [name, variable] : variables.all())
    if (variable.is_set && (variable.items.size() == 1 || variable.lost_line > 0))
      scalars.push_back({.name = name,
                         .value = variable.lost_line > 0 ? lost_value(name, variable) : variable.items.front(),
                         .exported = variable.exported && !variable.is_array});
  return scalars;
}

bool ShellLaunches::take(ShellStart start, const std::function<Variables()>& variables) {
  std::vector<ShellText>& words = start.words;
  if (words.empty() || is_no_start(words)) return false;
  const auto script = std::ranges::find_if(words, is_python);
  if (script == words.end()) return false;
  const auto is_option = [](const ShellText& text) { return text.characters.starts_with("--"); };
  const auto options = std::count_if(script + 1, words.end(), is_option);
  if (options == 0) return false;
  const bool trains = is_training(words);
  if (trains) trainings_.push_back({.line = start.line, .program = script->characters});
  if ((best_trains_ && !trains) || (best_trains_ == trains && options < best_options_)) return true;
  best_options_ = options;
  reached_ = std::move(start.doubts);
  best_trains_ = trains;
  best_line_ = start.line;
  best_.program = script->characters;
  best_.launcher.assign(words.begin(), script);
  best_.arguments.assign(script + 1, words.end());
  best_.variables = variables();
  return true;
}

void ShellLaunches::take_left_out(const ShellStart& start) {
  if (is_no_start(start.words)) return;
  const auto script = std::ranges::find_if(start.words, is_python);
  if (script != start.words.end() && is_training(start.words))
    trainings_.push_back({.line = start.line, .program = script->characters, .is_followed = false});
}

void ShellLaunches::gather_options(const ShellVariables& variables) {
  std::vector<std::pair<std::int32_t, std::vector<ShellText>>> found;
  for (const auto& [name, variable] : variables.all()) {
    std::vector<ShellText> words;
    for (const ShellText& item : variable.items) split_at_blanks(item, words);
    if (!words.empty() && words.front().characters.starts_with("--")) {
      found.emplace_back(words.front().line(0), words);
      reached_.insert(variable.doubts.begin(), variable.doubts.end());
    } else if (variable.held_options && variable.lost_line > 0) {
      found.emplace_back(variable.lost_line, std::vector<ShellText>{lost_value(name, variable)});
    }
  }
  std::ranges::stable_sort(found, {}, [](const auto& entry) { return entry.first; });
  for (auto& [line, words] : found) best_.arguments.insert(best_.arguments.end(), words.begin(), words.end());
  best_.variables = scalars_of(variables);
}

ShellScript ShellLaunches::finish(const std::vector<ShellText>& doubts) {
  name_other_trainings();
  for (const std::int32_t number : reached_) best_.doubts.push_back(doubts[static_cast<std::size_t>(number)]);
  return std::move(best_);
}

void ShellLaunches::name_other_trainings() {
  bool is_past = false;  // the one that is judged, of those that stand in its line
  for (const Training& training : trainings_) {
    if (!is_past && training.is_followed && training.line == best_line_) {
      is_past = true;
      continue;
    }
    const std::string_view when = training.is_followed ? "" : ", if it is: the script does not decide that";
    best_.unread.push_back(
        {training.line, best_line_ == 0
                            ? fmt::format("{} is started here in a way that is not followed; only options that "
                                          "variables hold are judged",
                                          shown(training.program))
                            : fmt::format("{} is started here, too{}; only what line {} starts is judged; give each a "
                                          "script of its own",
                                          shown(training.program), when, best_line_)});
  }
}

}  // namespace tidemark::formats
