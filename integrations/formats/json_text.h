#pragma once
// Writing JSON straight into a text: no tree in between, members in the order of the calls. Shared by integrations.

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <iterator>
#include <string>
#include <string_view>

namespace tidemark::formats {

class JsonText {
 public:
  explicit JsonText(std::string& out) : out_(out) {}

  void open_object() { open('{'); }
  void close_object() { close('}'); }
  void open_list() { open('['); }
  void close_list() { close(']'); }
  /// Starts a new line before the next member or item, for people and for line numbers in errors.
  void line() { line_ = true; }
  void key(std::string_view name) {
    separate();
    quote(name);
    out_ += ':';
    first_ = true;  // the value follows without a comma
  }

  template <std::integral Value>
  void value(Value v) {
    separate();
    if constexpr (std::same_as<Value, bool>) {
      out_ += v ? "true" : "false";
    } else {
      const fmt::format_int text(v);
      out_.append(text.data(), text.size());
    }
  }
  /// The shortest digits that read back as the same number.
  void value(double v) {
    separate();
    if (std::isfinite(v)) {
      fmt::format_to(std::back_inserter(out_), "{}", v);
    } else {
      out_ += v > 0 ? "\"inf\"" : "\"-inf\"";
    }
  }
  void value(std::string_view v) {
    separate();
    quote(v);
  }
  void null() {
    separate();
    out_ += "null";
  }
  /// The text to append one value to that the caller formats.
  std::string& raw() {
    separate();
    return out_;
  }

 private:
  void open(char bracket) {
    separate();
    out_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    if (line_) out_ += '\n';
    line_ = false;
    out_ += bracket;
    first_ = false;
  }
  void separate() {
    if (!first_) out_ += ',';
    if (line_) out_ += '\n';
    line_ = false;
    first_ = false;
  }
  void quote(std::string_view text) {
    out_ += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        fmt::format_to(std::back_inserter(out_), "\\u{:04x}", static_cast<unsigned>(c));
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  std::string& out_;
  bool first_ = true;
  bool line_ = false;
};

}  // namespace tidemark::formats
