// Small languages inside argument values: pipeline layouts and lists of layers.
#include <algorithm>
#include <charconv>

#include "planner/estimate/argument_value.h"
#include "planner/estimate/run_layout.h"

namespace tidemark::estimate {
namespace {

constexpr std::size_t kMostExpanded = 1'000'000;
constexpr int kDeepest = 32;

/// A cursor over text; every reader leaves it behind what it read, and a broken text sets `failed`.
struct Cursor {
  std::string_view text;
  std::size_t at = 0;
  bool failed = false;

  [[nodiscard]] bool done() const { return failed || at >= text.size(); }
  [[nodiscard]] char next() const { return at < text.size() ? text[at] : '\0'; }
  bool take(char c) {
    if (next() != c || at >= text.size()) return false;
    ++at;
    return true;
  }
  std::size_t number() {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
    failed |= error != std::errc{} || value > kMostExpanded;
    at = static_cast<std::size_t>(end - text.data());
    return failed ? 0 : value;
  }
};

/// Appends `unit` to `out` as often as the `*n` at the cursor says, once without one.
template <class Sequence>
void append_repeated(Cursor& cursor, const Sequence& unit, Sequence& out, std::size_t most) {
  std::size_t times = 1;
  while (!cursor.failed && cursor.take('*')) {
    const std::size_t more = cursor.number();
    cursor.failed |= more > 0 && times > most / more;
    if (!cursor.failed) times *= more;
  }
  if (cursor.failed || (!unit.empty() && times > (most - std::min(most, out.size())) / unit.size())) {
    cursor.failed = true;
    return;
  }
  for (; times > 0 && !unit.empty(); --times) out.insert(out.end(), unit.begin(), unit.end());
}

std::string layout_until(Cursor& cursor, char close, int depth) {
  std::string out;
  cursor.failed |= depth > kDeepest;
  while (!cursor.done() && cursor.next() != close) {
    std::string unit;
    if (cursor.take('(')) {
      unit = layout_until(cursor, ')', depth + 1);
      cursor.failed |= !cursor.take(')');
    } else {
      unit = cursor.next();
      cursor.failed |= unit.find_first_of("EtmL|") == std::string::npos;
      ++cursor.at;
    }
    append_repeated(cursor, unit, out, kMostExpanded);
  }
  return out;
}

using Numbers = std::vector<std::int64_t>;

Numbers pattern_sum(Cursor& cursor, int depth, std::size_t most);

Numbers pattern_factor(Cursor& cursor, int depth, std::size_t most) {
  Numbers out;
  cursor.failed |= depth > kDeepest;
  if (cursor.failed) return out;
  if (cursor.take('(')) {
    out = pattern_sum(cursor, depth + 1, most);
    cursor.failed |= !cursor.take(')');
  } else if (cursor.take('[')) {
    while (!cursor.failed && cursor.next() != ']') {
      out.push_back(static_cast<std::int64_t>(cursor.number()));
      cursor.failed |= out.size() > most || (!cursor.take(',') && cursor.next() != ']');
    }
    cursor.failed |= !cursor.take(']');
  } else {
    cursor.failed = true;
  }
  return out;
}

Numbers pattern_sum(Cursor& cursor, int depth, std::size_t most) {
  Numbers out;
  do {
    const Numbers unit = pattern_factor(cursor, depth, most);
    append_repeated(cursor, unit, out, most);
  } while (!cursor.failed && cursor.take('+'));
  return out;
}

std::string without(std::string_view text, std::string_view characters) {
  std::string out;
  for (const char c : text)
    if (characters.find(c) == std::string_view::npos) out += c;
  return out;
}

}  // namespace

std::optional<std::vector<std::string>> expand_layout(std::string_view text) {
  const std::string dense = without(text, " ,'\"");
  Cursor cursor{.text = dense};
  const std::string flat = layout_until(cursor, '\0', 0);
  if (cursor.failed || cursor.at != dense.size() || flat.empty()) return std::nullopt;
  std::vector<std::string> stages(1);
  for (const char c : flat) {
    if (c == '|') {
      stages.emplace_back();
    } else {
      stages.back() += c;
    }
  }
  return stages;
}

std::optional<std::vector<std::int64_t>> expand_pattern(std::string_view text, std::size_t most) {
  if (text.find('[') == std::string_view::npos) return number_list(text, most);
  const std::string dense = without(text, " '\"");
  Cursor cursor{.text = dense};
  Numbers numbers = pattern_sum(cursor, 0, most);
  if (cursor.failed || cursor.at != dense.size()) return std::nullopt;
  return numbers;
}

}  // namespace tidemark::estimate
