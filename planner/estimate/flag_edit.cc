#include "planner/estimate/flag_edit.h"

#include <algorithm>

#include "planner/estimate/argument_rows.h"
#include "planner/estimate/argument_value.h"

namespace tidemark::estimate {
namespace {

bool is_list_of_modules(const std::string& name) {
  return name == "recompute-modules" || name == "offload-modules";
}

/// The items of both, each once, in the order they come.
std::string joined(const std::string& a, const std::string& b) {
  std::vector<std::string> items = list_items(a);
  for (const std::string& item : list_items(b))
    if (std::ranges::find(items, item) == items.end()) items.push_back(item);
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : " ") + item;
  return text;
}

}  // namespace

std::string flag_text(const Flag& flag) {
  return "--" + flag.name + (flag.value.empty() ? "" : " " + flag.value);
}

std::optional<std::vector<Flag>> join_flags(const std::vector<Flag>& a, const std::vector<Flag>& b) {
  std::vector<Flag> flags = a;
  for (const Flag& flag : b) {
    const auto found = std::ranges::find(flags, flag.name, &Flag::name);
    if (found == flags.end()) {
      flags.push_back(flag);
    } else if (is_list_of_modules(flag.name)) {
      found->value = joined(found->value, flag.value);
    } else if (found->value != flag.value) {
      return std::nullopt;
    }
  }
  return flags;
}

ArgumentSet with_flags(ArgumentSet set, const std::vector<Flag>& flags) {
  for (const Flag& flag : flags) {
    const auto found = std::find_if(set.arguments.rbegin(), set.arguments.rend(), [&flag](const Argument& argument) {
      return table_name(argument.name) == flag.name;
    });
    const bool is_new = found == set.arguments.rend();
    Argument& argument = is_new ? set.arguments.emplace_back(Argument{.name = flag.name}) : *found;
    argument.value = flag.value;
    argument.is_switch = flag.value.empty();
  }
  return set;
}

}  // namespace tidemark::estimate
