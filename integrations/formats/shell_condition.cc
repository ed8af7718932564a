#include "integrations/formats/shell_condition.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "integrations/formats/shell_effects.h"
#include "integrations/formats/shell_names.h"

namespace tidemark::formats {
namespace {

bool is_any_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

std::optional<std::int64_t> number_in(std::string_view digits) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && end == digits.data() + digits.size() ? std::optional(value) : std::nullopt;
}

constexpr std::array<std::string_view, 6> kOrders = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};

ShellTruth compare_numbers(std::string_view a, std::string_view operation, std::string_view b) {
  const auto x = number_in(a);
  const auto y = number_in(b);
  const auto* const found = std::ranges::find(kOrders, operation);
  if (!x || !y || found == kOrders.end()) return std::nullopt;
  const std::array<bool, 6> answers = {*x == *y, *x != *y, *x<*y, *x <= *y, *x> * y, *x >= *y};
  return answers[static_cast<std::size_t>(found - kOrders.begin())];
}

/// `-z` and `-n`, the other way to write a default: `[ -z "$TP" ] && TP=8`. What is to happen where one is set stays
/// open.
ShellTruth test_length(bool is_empty_wanted, const ShellText& text, std::vector<std::string>& taken_empty) {
  if (text.is_known()) return text.characters.empty() == is_empty_wanted;
  if (!is_never_set(text)) return std::nullopt;
  if (!is_empty_wanted) taken_empty.push_back(text.characters);
  return is_empty_wanted;
}

bool is_binary(std::string_view operation) {
  return is_any_of(operation, {"=", "==", "!=", "<", ">", "-ot", "-nt", "-ef", "-a", "-o"}) ||
         std::ranges::find(kOrders, operation) != kOrders.end();
}

ShellTruth inverted(ShellTruth truth) {
  return truth ? ShellTruth(!*truth) : truth;
}

// ---- [ ... ], by the number of its words ----------------------------------------------------------------------------

ShellTruth test_two(std::span<const ShellTestWord> words, std::vector<std::string>& taken_empty) {
  const ShellText &operation = words[0].text, &operand = words[1].text;
  if (!operation.is_known()) return std::nullopt;
  if (operation.characters == "!") return operand.is_known() ? ShellTruth(operand.characters.empty()) : std::nullopt;
  // Without quotes and without a value it is `[ -n ]`.
  if (operation.characters == "-n" && words[1].is_bare && is_never_set(operand)) return true;
  if (operation.characters == "-z") return test_length(true, operand, taken_empty);
  if (operation.characters == "-n") return test_length(false, operand, taken_empty);
  return std::nullopt;
}

ShellTruth test_three(std::span<const ShellTestWord> words, std::vector<std::string>& taken_empty) {
  const std::string& operation = words[1].text.characters;
  const bool known = words[0].text.is_known() && words[1].text.is_known() && words[2].text.is_known();
  if (words[1].text.is_known() && is_binary(operation)) {
    if (!known) return std::nullopt;
    const std::string &a = words[0].text.characters, &b = words[2].text.characters;
    if (is_any_of(operation, {"=", "=="})) return a == b;
    if (operation == "!=") return a != b;
    return compare_numbers(a, operation, b);
  }
  if (words[0].text.is_known() && words[0].text.characters == "!")
    return inverted(test_two(words.subspan(1), taken_empty));
  return std::nullopt;
}

// ---- [[ ... ]] ------------------------------------------------------------------------------------------------------

class Expression {
 public:
  Expression(std::span<const ShellWord> words, ShellVariables& variables, std::vector<std::string>& taken_empty)
      : words_(words), variables_(variables), taken_empty_(taken_empty) {}

  ShellTruth run() {
    const ShellTruth truth = any(0);
    return at_ == words_.size() && !is_wrong_ ? truth : std::nullopt;
  }

 private:
  [[nodiscard]] std::string_view next() const {
    return at_ < words_.size() ? variables_.raw(words_[at_]) : std::string_view{};
  }
  bool take(std::string_view word) {
    if (next() != word || at_ >= words_.size()) return false;
    ++at_;
    return true;
  }

  ShellTruth any(int depth) {
    ShellTruth truth = all(depth);
    while (take("||")) {
      const ShellTruth other = all(depth);
      truth = truth == true || other == true ? ShellTruth(true) : truth && other ? ShellTruth(false) : std::nullopt;
    }
    return truth;
  }
  ShellTruth all(int depth) {
    ShellTruth truth = part(depth);
    while (take("&&")) {
      const ShellTruth other = part(depth);
      truth = truth == false || other == false ? ShellTruth(false) : truth && other ? ShellTruth(true) : std::nullopt;
    }
    return truth;
  }

  ShellTruth part(int depth) {
    constexpr int kDeepest = 100;
    bool is_inverted = false;
    while (take("!")) is_inverted = !is_inverted;
    ShellTruth truth;
    if (depth > kDeepest || at_ >= words_.size()) {
      is_wrong_ = true;
    } else if (take("(")) {
      truth = any(depth + 1);
      is_wrong_ |= !take(")");
    } else {
      truth = primary();
    }
    return is_inverted ? inverted(truth) : truth;
  }

  [[nodiscard]] bool ends_part(std::size_t ahead) const {
    return at_ + ahead >= words_.size() || is_any_of(variables_.raw(words_[at_ + ahead]), {"&&", "||", ")"});
  }
  ShellText text() {
    const ShellWord& word = words_[at_++];
    return variables_.expand_whole(word.begin, word.end);
  }

  ShellTruth primary() {
    const std::string_view first = next();
    const bool is_unary = first.size() == 2 && first.starts_with('-');
    if (!ends_part(1) && ends_part(2) && is_unary) {
      ++at_;
      const ShellText operand = text();
      if (first != "-z" && first != "-n") return std::nullopt;
      return test_length(first == "-z", operand, taken_empty_);
    }
    if (ends_part(1)) {
      const ShellText alone = text();
      return alone.is_known() ? ShellTruth(!alone.characters.empty()) : std::nullopt;
    }
    if (!ends_part(2) && ends_part(3)) return binary();
    is_wrong_ = true;
    return std::nullopt;
  }

  ShellTruth binary() {
    const ShellText a = text();
    const std::string_view operation = variables_.raw(words_[at_++]);
    const std::string_view written = next();
    const ShellText b = text();
    if (!a.is_known() || !b.is_known()) return std::nullopt;
    if (is_any_of(operation, {"=", "==", "!="})) {
      if (may_be_pattern(written, b.characters)) return std::nullopt;
      return (a.characters == b.characters) == (operation != "!=");
    }
    if (is_any_of(operation, {"=~", "<", ">"})) return std::nullopt;
    return compute(a.characters, operation, b.characters);
  }

  /// To `==` a word is a pattern unless it stands in quotes.
  static bool may_be_pattern(std::string_view written, std::string_view text) {
    const bool quoted = written.size() > 1 && (written.front() == '"' || written.front() == '\'') &&
                        end_of_shell_unit(written, 0) == written.size();
    return !quoted && text.find_first_of("*?[\\(") != std::string_view::npos;
  }

  /// Sums are computed here, and 010 is eight: only plain numbers are known.
  ShellTruth compute(std::string_view a, std::string_view operation, std::string_view b) {
    for (const std::string_view text : {a, b})
      for (const std::string& name : effects_of_arithmetic(text).names)
        variables_.lose(name, variables_.line_at(words_.front().begin));
    const auto is_plain = [](std::string_view text) {
      const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
      return digits.size() == 1 || (!digits.empty() && digits.front() != '0');
    };
    return is_plain(a) && is_plain(b) ? compare_numbers(a, operation, b) : std::nullopt;
  }

  std::span<const ShellWord> words_;
  ShellVariables& variables_;
  std::vector<std::string>& taken_empty_;
  std::size_t at_ = 0;
  bool is_wrong_ = false;
};

}  // namespace

bool is_never_set(const ShellText& text) {
  std::string_view name = text.characters;
  if (text.lost_line > 0 || !text.unresolved || !name.starts_with('$')) return false;
  name.remove_prefix(1);
  if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
  return !name.empty() && shell_name_length(name) == name.size() && !is_set_outside(name);
}

ShellTruth test_words(std::span<const ShellTestWord> words, std::vector<std::string>& taken_empty) {
  switch (words.size()) {
    case 0:
      return false;
    case 1:
      return words[0].text.is_known() ? ShellTruth(!words[0].text.characters.empty()) : std::nullopt;
    case 2:
      return test_two(words, taken_empty);
    case 3:
      return test_three(words, taken_empty);
    case 4:
      if (words[0].text.is_known() && words[0].text.characters == "!")
        return inverted(test_three(words.subspan(1), taken_empty));
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

ShellTruth test_expression(std::span<const ShellWord> words, ShellVariables& variables,
                           std::vector<std::string>& taken_empty) {
  if (words.empty()) return std::nullopt;
  // What it sets on the way depends on what was asked before.
  bool has_effects = false;
  for (const ShellWord& word : words) {
    const ShellEffects effects = effects_of_expansion(variables.raw(word));
    has_effects |= !effects.names.empty() || effects.any;
    for (const std::string& name : effects.names) variables.lose(name, variables.line_at(word.begin));
    if (effects.any) variables.lose_all(variables.line_at(word.begin), word.begin);
  }
  if (has_effects) return std::nullopt;
  return Expression(words, variables, taken_empty).run();
}

}  // namespace tidemark::formats
