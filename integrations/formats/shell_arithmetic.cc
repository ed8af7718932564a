#include "integrations/formats/shell_arithmetic.h"

#include <algorithm>
#include <charconv>
#include <limits>

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

class Parser {
 public:
  Parser(std::string_view text, const std::function<Value(std::string_view)>& value_of)
      : text_(text), value_of_(value_of) {}

  Value run() {
    const Value value = sum(0);
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

  Value sum(int depth) {
    Value value = product(depth);
    while (value && (peek() == '+' || peek() == '-')) {
      const char operation = text_[at_++];
      const Value other = product(depth);
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
      const Value value = sum(depth + 1);
      return take(")") ? value : Value();
    }
    if (c == '-') {
      ++at_;
      const Value value = unit(depth + 1);
      return value ? combine('-', 0, *value) : Value();
    }
    return is_digit(c) ? number() : name();
  }

  Value number() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    at_ = static_cast<std::size_t>(end - text_.data());
    return error == std::errc{} ? Value(value) : Value();
  }

  Value name() {
    if (take("$")) take("{");
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == begin) return {};
    const Value value = value_of_(text_.substr(begin, at_ - begin));
    take("}");
    return value;
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
