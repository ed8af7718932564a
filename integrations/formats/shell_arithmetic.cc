#include "integrations/formats/shell_arithmetic.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

namespace tidemark::formats {
namespace {

using Value = std::optional<std::int64_t>;

constexpr int kDeepest = 64;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

Value combine(char operation, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  switch (operation) {
    case '+':
      return __builtin_add_overflow(a, b, &out) ? Value() : out;
    case '-':
      return __builtin_sub_overflow(a, b, &out) ? Value() : out;
    case '*':
      return __builtin_mul_overflow(a, b, &out) ? Value() : out;
    default:
      if (b == 0 || (a == std::numeric_limits<std::int64_t>::min() && b == -1)) return {};
      return operation == '/' ? a / b : a % b;
  }
}

bool compare(std::string_view sign, std::int64_t a, std::int64_t b) {
  if (sign == "==") return a == b;
  if (sign == "!=") return a != b;
  if (sign == "<=") return a <= b;
  if (sign == ">=") return a >= b;
  return sign == "<" ? a < b : a > b;
}

class Parser {
 public:
  Parser(std::string_view text, const std::function<Value(std::string_view)>& value_of)
      : text_(text), value_of_(value_of) {}

  Value run() {
    const Value value = choice(0);
    skip_blanks();
    return at_ == text_.size() ? value : Value();
  }

 private:
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n\"", at_), text_.size()); }
  [[nodiscard]] char peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(std::string_view token) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  /// `A ? B : C`; of what is not taken the value has to be known as well.
  Value choice(int depth) {
    const Value condition = any(depth);
    if (!condition || !take("?")) return condition;
    if (depth > kDeepest) return {};
    const Value then = choice(depth + 1);
    const Value otherwise = then && take(":") ? choice(depth + 1) : Value();
    if (!otherwise) return {};
    return *condition != 0 ? then : otherwise;
  }

  Value any(int depth) {
    Value value = all(depth);
    while (value && take("||")) {
      const Value other = all(depth);
      value = other ? Value(*value != 0 || *other != 0) : Value();
    }
    return value;
  }

  Value all(int depth) {
    Value value = comparison(depth, true);
    while (value && take("&&")) {
      const Value other = comparison(depth, true);
      value = other ? Value(*value != 0 && *other != 0) : Value();
    }
    return value;
  }

  /// `==` and `!=` bind less than the others.
  Value comparison(int depth, bool equals) {
    Value value = equals ? comparison(depth, false) : sum(depth);
    while (value) {
      const std::string_view sign = comparison_sign(equals);
      if (sign.empty()) return value;
      const Value other = equals ? comparison(depth, false) : sum(depth);
      value = other ? Value(compare(sign, *value, *other)) : Value();
    }
    return value;
  }
  std::string_view comparison_sign(bool equals) {
    skip_blanks();
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("<<") || rest.starts_with(">>")) return {};
    constexpr std::string_view kEquals[] = {"==", "!="}, kOrders[] = {"<=", ">=", "<", ">"};
    const auto first = [&](const auto& signs) {
      for (const std::string_view sign : signs)
        if (take(sign)) return sign;
      return std::string_view{};
    };
    return equals ? first(kEquals) : first(kOrders);
  }

  /// `--A` and `A++` set A.
  [[nodiscard]] bool is_doubled(char operation) const { return at_ < text_.size() && text_[at_] == operation; }

  Value sum(int depth) {
    Value value = product(depth);
    while (value && (peek() == '+' || peek() == '-')) {
      const char operation = text_[at_++];
      const Value other = is_doubled(operation) ? Value() : product(depth);
      value = other ? combine(operation, *value, *other) : Value();
    }
    return value;
  }

  Value product(int depth) {
    Value value = power(depth);
    while (value && (peek() == '*' || peek() == '/' || peek() == '%')) {
      const char operation = text_[at_++];
      const Value other = power(depth);
      value = other ? combine(operation, *value, *other) : Value();
    }
    return value;
  }

  Value power(int depth) {
    const Value base = unit(depth);
    if (!base || !take("**")) return base;
    const Value exponent = depth > kDeepest ? Value() : power(depth + 1);
    if (!exponent || *exponent < 0 || *exponent > 64) return {};
    Value value = 1;
    for (std::int64_t i = 0; i < *exponent && value; ++i) value = combine('*', *value, *base);
    return value;
  }

  Value unit(int depth) {
    if (depth > kDeepest) return {};
    const char c = peek();
    if (c == '(') {
      ++at_;
      const Value value = choice(depth + 1);
      return take(")") ? value : Value();
    }
    if (c == '!') {
      ++at_;
      const Value value = at_ < text_.size() && text_[at_] == '=' ? Value() : unit(depth + 1);
      return value ? Value(*value == 0) : Value();
    }
    if (c == '-') {
      ++at_;
      const Value value = is_doubled('-') ? Value() : unit(depth + 1);
      return value ? combine('-', 0, *value) : Value();
    }
    return is_digit(c) ? number() : name();
  }

  /// Decimal alone: 010 is eight, 0x10 and 2#10 have bases.
  Value number() {
    std::int64_t value = 0;
    const std::size_t begin = at_;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    at_ = static_cast<std::size_t>(end - text_.data());
    if (error != std::errc{} || (text_[begin] == '0' && at_ > begin + 1)) return {};
    return at_ < text_.size() && (is_name(text_[at_]) || text_[at_] == '#' || text_[at_] == '$') ? Value()
                                                                                                 : Value(value);
  }

  /// `NAME`, `$NAME` or `${NAME}`: behind `$` its text counts, not its value.
  Value name() {
    skip_blanks();
    const bool is_text = take("$");
    const bool braced = is_text && text_.substr(at_).starts_with('{');
    if (braced) ++at_;
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == begin) return {};
    const std::string name = (is_text ? "$" : "") + std::string(text_.substr(begin, at_ - begin));
    if (braced && !(at_ < text_.size() && text_[at_++] == '}')) return {};
    // What stands right behind it is part of a number or a word with it.
    if (is_text && at_ < text_.size() && (is_name(text_[at_]) || text_[at_] == '#' || text_[at_] == '$')) return {};
    if (is_text && begin > (braced ? 2U : 1U) && is_name(text_[begin - (braced ? 3 : 2)])) return {};
    return value_of_(name);
  }

  std::string_view text_;
  const std::function<Value(std::string_view)>& value_of_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(
    std::string_view expression, const std::function<std::optional<std::int64_t>(std::string_view)>& value_of) {
  return Parser(expression, value_of).run();
}

}  // namespace tidemark::formats
