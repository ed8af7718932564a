#pragma once
// Where in a YAML text the keys of a job are, and what they are set to there: so that a report can name the line that
// decides what a storage takes.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "planner/budget/holdings.h"
#include "planner/budget/remedy.h"

namespace tidemark::formats {

struct KeyPlace {
  int line = 0;       ///< from 1
  std::string value;  ///< on one line, as YAML: `{dense: 3, moe: 58}`; cut at kMostValueBytes
  friend bool operator==(const KeyPlace&, const KeyPlace&) = default;
};

inline constexpr std::size_t kMostValueBytes = 60;

/// A value as a report shows it: on one line, without breaking a character of UTF-8 apart; cut at kMostValueBytes.
[[nodiscard]] std::string short_value(std::string value);

/// Every key of the maps of a text by its dotted path (`model.attention.heads`), sections included. Errors
/// (bad_input): the text is no YAML or its root is no mapping, as read_job says it.
[[nodiscard]] Result<std::map<std::string, KeyPlace, std::less<>>> key_places(std::string_view yaml_text,
                                                                              std::string_view file_name);

/// Turns controls whose text is a dotted key into lines of the file: `model.hidden: 7680`. Keys that the text does not
/// have are defaults: they keep their text, name no file and come last. `file_name` is shown as it is.
void place_controls(budget::Holdings& holdings, const std::map<std::string, KeyPlace, std::less<>>& places,
                    std::string_view file_name);

/// The keys that are no section, as lines of the file, in its order: `model.layers.moe: 7`.
[[nodiscard]] std::vector<budget::Control> settings_of(const std::map<std::string, KeyPlace, std::less<>>& places,
                                                       std::string_view file_name);

/// The same for what a remedy changes. A key that the text does not have is placed where it belongs: at the innermost
/// section of it that is there. Edits of no key are left as they are.
void place_edits(budget::Remedy& remedy, const std::map<std::string, KeyPlace, std::less<>>& places,
                 std::string_view file_name);

}  // namespace tidemark::formats
