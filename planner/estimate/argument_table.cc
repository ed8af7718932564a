#include "planner/estimate/argument_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "planner/estimate/argument_rows.h"
#include "planner/estimate/argument_value.h"
#include "planner/estimate/run_derive.h"
#include "planner/estimate/run_doubts.h"

namespace tidemark::estimate {
namespace {

using Groups = std::span<const ArgumentRow> (*)();
constexpr std::array<Groups, 10> kGroups = {
    model_arguments,     attention_arguments, expert_arguments,  parallel_arguments, optimizer_arguments,
    recompute_arguments, mindspeed_arguments, refused_arguments, training_arguments, numerics_arguments};

using Index = std::map<std::string_view, const ArgumentRow*, std::less<>>;

/// Megatron-LM makes two switches of a field that is on by default, `--no-x` and `--disable-x`
/// (megatron/training/argument_utils.py); the table has the first.
constexpr std::string_view kDisable = "disable-";

const Index& index() {
  static const Index by_name = [] {
    Index made;
    for (const Groups group : kGroups)
      for (const ArgumentRow& row : group()) made.emplace(row.name, &row);
    return made;
  }();
  return by_name;
}

/// One argument on its way through the table.
struct Judge {
  Draft& draft;
  std::vector<JudgedArgument>& judged;
  std::vector<std::string>& notes;

  Status judge(const Argument& argument, const std::string& name);

 private:
  Status use(const Argument& argument, const ArgumentRow& row);
  void note_unknown(const Argument& argument, const std::string& name);
  Argument without_rest(Argument argument, const std::string& name);
  void note(const Argument& argument, const std::string& name, Standing standing, std::string_view reason = {}) {
    judged.push_back(
        {.name = name, .place = argument.place, .standing = standing, .reason = reason, .key = argument.key});
  }
};

Error at_place(std::string_view place, std::string_view name, std::string_view message, std::string_view key = {}) {
  return bad_input(fmt::format("{}{}{}{}: {}", place, place.empty() ? "" : ": ", key.empty() ? "--" : "",
                               key.empty() ? name : key, message));
}

Status bad_value(const Argument& argument, std::string_view name, std::string_view expected) {
  if (argument.value.find('$') != std::string::npos)
    return at_place(argument.place, name,
                    fmt::format("nothing in the file says what {} is; {}", quoted(argument.value), expected),
                    argument.key);
  return at_place(argument.place, name, fmt::format("{} is not a value it takes; {}", quoted(argument.value), expected),
                  argument.key);
}

std::string range_of(const ArgumentRow& row) {
  return fmt::format("write {} from {} to {}",
                     std::holds_alternative<SetCount>(row.set) ? "a whole number" : "a number", row.least, row.most);
}

Status Judge::use(const Argument& argument, const ArgumentRow& row) {
  const std::string& value = argument.value;
  if (const auto* turn = std::get_if<SetSwitch>(&row.set)) {
    // Tools that cut command lines leave an unresolved variable behind a switch.
    const std::optional<bool> on = value.starts_with('$') ? std::optional(true) : switch_value(value);
    if (!on) return bad_value(argument, row.name, "it is a switch: write it without a value, or true or false");
    (*turn)(draft, *on);
  } else if (const auto* take = std::get_if<SetText>(&row.set)) {
    if (const std::string_view expected = (*take)(draft, value); !expected.empty())
      return bad_value(argument, row.name, expected);
  } else {
    const std::optional<double> number = real_number(value);
    const std::optional<std::int64_t> whole = whole_number(value);
    const auto* count = std::get_if<SetCount>(&row.set);
    if (!number || *number < row.least || *number > row.most || (count != nullptr && !whole))
      return bad_value(argument, row.name, range_of(row));
    if (count != nullptr) {
      (*count)(draft, *whole);
    } else {
      std::get<SetReal>(row.set)(draft, *number);
    }
  }
  return {};
}

/// Tools that cut command lines leave variables nobody resolved behind values.
Argument Judge::without_rest(Argument argument, const std::string& name) {
  if (const std::size_t rest = argument.value.find(" $"); rest != std::string::npos) {
    notes.push_back(fmt::format("--{}: nothing says what {} behind its value holds; it is left out", name,
                                quoted(argument.value.substr(rest + 1))));
    argument.value.resize(rest);
  }
  return argument;
}

/// A switch that is off, or a count of nothing: the same as leaving the argument out.
bool is_off(const Argument& argument) {
  return !argument.value.empty() && (switch_value(argument.value) == false || is_unset(argument.value));
}

void Judge::note_unknown(const Argument& argument, const std::string& name) {
  if (!is_opposite(name)) return note(argument, name, Standing::not_understood, kUnknownArgument);
  if (is_off(argument)) return note(argument, name, Standing::no_effect, "switched off");
  note(argument, name, Standing::not_understood, kNoSuchOpposite);
}

Status Judge::judge(const Argument& argument, const std::string& name) {
  const ArgumentRow* row = find_argument(name);
  if (row == nullptr) {
    note_unknown(argument, name);
    return {};
  }
  if (row->effect == Effect::used && draft.run.platform.framework == Framework::megatron_lm && is_of_mindspeed(name) &&
      !is_off(argument)) {
    note(argument, name, Standing::not_understood, "an option of MindSpeed-LLM, and the job is taken as Megatron-LM's");
    return {};
  }
  if (!argument.is_switch && is_unset(argument.value)) {
    note(argument, name, Standing::no_effect, "left at its default");
    return {};
  }
  switch (row->effect) {
    case Effect::none:
      note(argument, name, Standing::no_effect, row->reason);
      return {};
    case Effect::not_modelled:
      if (is_off(argument)) {
        note(argument, name, Standing::no_effect, "switched off");
      } else {
        note(argument, name, Standing::not_understood, row->reason);
      }
      return {};
    case Effect::refused:
      if (!is_off(argument)) return at_place(argument.place, name, row->reason, argument.key);
      note(argument, name, Standing::no_effect, "switched off");
      return {};
    case Effect::used:
      note(argument, name, Standing::used);
      draft.doubt = {};
      if (Status status = use(without_rest(argument, name), *row); !status) return status;
      if (!draft.doubt.empty()) {
        judged.back().standing = Standing::not_understood;
        judged.back().reason = draft.doubt;
      } else if (argument.unsure_line > 0) {
        judged.back().standing = Standing::not_understood;
        judged.back().reason = "its value is a default, and a line that is not followed may set another";
        judged.back().hint = fmt::format(": line {}", argument.unsure_line);
      }
      return {};
  }
  return {};
}

/// The place of the argument a problem blames; of equal names the last, which counts.
Error error_of(const RunProblem& problem, const ArgumentSet& set) {
  if (problem.argument.empty()) return bad_input(problem.message);
  for (const std::vector<Argument>* list : {&set.arguments, &set.environment}) {
    for (auto given = list->rbegin(); given != list->rend(); ++given) {
      if (list == &set.environment ? given->name != problem.argument : table_name(given->name) != problem.argument)
        continue;
      if (list == &set.arguments) return at_place(given->place, problem.argument, problem.message, given->key);
      return bad_input(
          fmt::format("{}{}{}: {}", given->place, given->place.empty() ? "" : ": ", problem.argument, problem.message));
    }
  }
  return at_place("", problem.argument, problem.message);
}

/// Marks the argument a doubt is about, or adds a line about the whole file: `place` says then what it is about.
void note_doubt(const Doubt& doubt, std::vector<JudgedArgument>& judged) {
  const auto is_it = [&doubt](const JudgedArgument& argument) {
    return argument.name == doubt.argument && argument.standing == Standing::used;
  };
  const auto found = doubt.argument.empty() ? judged.end() : std::ranges::find_if(judged, is_it);
  if (found != judged.end()) {
    found->standing = Standing::not_understood;
    found->reason = doubt.reason;
    return;
  }
  const std::string about =
      doubt.argument.empty() ? "arguments" : "--" + std::string(doubt.argument) + " at its default";
  judged.insert(judged.begin(), {.place = about, .standing = Standing::not_understood, .reason = doubt.reason});
}

/// `; unknown here: --hiden-size (run.sh:21)`: one of them may be what is missing.
std::string unknown_ones(const std::vector<JudgedArgument>& judged) {
  constexpr int kMost = 3;
  std::string list;
  int count = 0;
  for (const JudgedArgument& argument : judged) {
    if (argument.reason != kUnknownArgument) continue;
    list += fmt::format("{}--{}{}", list.empty() ? "; unknown here: " : ", ", argument.name,
                        argument.place.empty() ? "" : fmt::format(" ({})", argument.place));
    if (++count == kMost) break;
  }
  return list;
}

}  // namespace

std::string table_name(std::string_view given) {
  given.remove_prefix(std::min(given.find_first_not_of('-'), given.size()));
  constexpr std::size_t kLongest = 80;  // of what reaches messages
  std::string name(given.substr(0, kLongest));
  for (char& c : name)
    if (c == '_' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '-';
  return name;
}

const ArgumentRow* find_argument(std::string_view name) {
  if (const auto found = index().find(name); found != index().end()) return found->second;
  if (name.starts_with(kDisable)) {
    const auto found = index().find("no-" + std::string(name.substr(kDisable.size())));
    if (found != index().end()) return found->second;
  }
  for (const ArgumentRow& family : argument_families())
    if (name.starts_with(family.name)) return &family;
  return nullptr;
}

bool is_opposite(std::string_view name) {
  for (const std::string_view turns_off : {std::string_view("no-"), kDisable})
    if (name.starts_with(turns_off) && find_argument(name) == nullptr)
      return find_argument(name.substr(turns_off.size())) != nullptr;
  return false;
}

bool is_known(std::string_view name) {
  return find_argument(table_name(name)) != nullptr;
}

bool is_used(std::string_view name) {
  const ArgumentRow* row = find_argument(table_name(name));
  return row != nullptr && row->effect == Effect::used;
}

bool is_of_mindspeed(std::string_view name) {
  // Those that are described beside arguments of both frameworks.
  constexpr std::array<std::string_view, 17> kOthers = {"noop-layers",
                                                        "num-layer-list",
                                                        "schedules-method",
                                                        "moe-fb-overlap",
                                                        "moe-tp-extend-ep",
                                                        "moe-zero-memory",
                                                        "moe-zero-memory-num-layers",
                                                        "moe-allgather-overlap-comm",
                                                        "moe-alltoall-overlap-comm",
                                                        "use-fused-rmsnorm",
                                                        "use-fused-swiglu",
                                                        "use-fused-rotary-pos-emb",
                                                        "use-fused-ring-attention-update",
                                                        "use-cp-send-recv-overlap",
                                                        "context-parallel-algo",
                                                        "first-k-dense-replace",
                                                        "n-shared-experts"};
  const std::string of_table = table_name(name);
  return std::ranges::find(kOthers, of_table) != kOthers.end() ||
         std::ranges::find(mindspeed_arguments(), of_table, &ArgumentRow::name) != mindspeed_arguments().end();
}

std::vector<std::string_view> known_arguments() {
  std::vector<std::string_view> names;
  for (const auto& [name, row] : index()) names.push_back(name);
  return names;
}

Result<ImportedRun> import_run(const ArgumentSet& set, const RunHints& hints) {
  if (set.arguments.empty()) return bad_input("no arguments are given");
  Draft draft;
  draft.run.platform = hints.platform;
  draft.recorded = hints.recorded;
  ImportedRun imported;
  std::map<std::string, std::size_t> last;  // position of the one that counts
  for (std::size_t i = 0; i < set.arguments.size(); ++i) last[table_name(set.arguments[i].name)] = i;
  Judge judge{draft, imported.judged, imported.notes};
  for (std::size_t i = 0; i < set.arguments.size(); ++i) {
    const Argument& argument = set.arguments[i];
    const std::string name = table_name(argument.name);
    if (last[name] != i) {
      imported.judged.push_back({.name = name,
                                 .place = argument.place,
                                 .standing = Standing::no_effect,
                                 .reason = "given again further on",
                                 .key = argument.key});
      continue;
    }
    if (Status status = judge.judge(argument, name); !status) return status.error();
  }
  for (const UnreadWords& words : set.unread)
    imported.judged.push_back({.place = words.place, .standing = Standing::not_understood, .hint = words.what});
  imported.lost = imported.notes.size();
  if (const Problem problem = read_environment(draft, set.environment)) return error_of(*problem, set);
  if (const Problem problem = derive(draft, hints, imported.notes)) {
    Error error = error_of(*problem, set);
    if (problem->is_missing) error.message += unknown_ones(imported.judged);
    return error;
  }
  if (const Problem problem = find_problem(draft.run)) return error_of(*problem, set);
  for (const Doubt& doubt : doubts_of(draft)) note_doubt(doubt, imported.judged);
  imported.run = std::move(draft.run);
  return imported;
}

}  // namespace tidemark::estimate
