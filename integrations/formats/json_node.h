#pragma once
// Reading a JSON document key by key: every read says what it expects, the first mistake is kept as one line
// `file: /json/pointer: what, and what would be right`, and later reads give harmless values. Shared by integrations.

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "integrations/formats/field_ranges.h"

namespace tidemark::formats {

/// The document a text holds. `what` it is, for the message: "the plan". Errors (bad_input): `file:line:column: what`
/// where the text is no JSON, `file:line: what` where it is not UTF-8, `file: /json/pointer: what` where an object has
/// a key twice, of which a document would keep one.
[[nodiscard]] Result<nlohmann::json> parse_json(std::string_view text, std::string_view file_name,
                                                std::string_view what);

class JsonNode {
 public:
  /// The first mistake found anywhere in the document; empty: none yet.
  using Mistake = std::string;

  JsonNode(const nlohmann::json& value, Mistake& mistake) : value_(&value), mistake_(&mistake) {}

  /// A member that must be there.
  [[nodiscard]] JsonNode at(std::string_view key) const;
  [[nodiscard]] bool is_null() const { return value_->is_null(); }
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> keys() const;  ///< of an object, in byte order; a mistake if it is none
  /// A mistake where an object has others: an unknown member is a misspelt one, and would be silently without effect.
  void expect_members(std::initializer_list<std::string_view> known) const;
  [[nodiscard]] std::size_t size() const;  ///< of a list; a mistake if it is none
  [[nodiscard]] JsonNode item(std::size_t index) const;

  [[nodiscard]] std::int64_t integer(std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                                     std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  [[nodiscard]] std::uint64_t unsigned_integer() const;
  [[nodiscard]] double number(const RealRange& range) const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::string text() const;
  /// Position of a text among `words`.
  [[nodiscard]] std::size_t word(std::span<const std::string_view> words) const;
  /// A folded column (int_column.h) of values from `least` to `most`; `count` as given unless kAnyCount.
  static constexpr std::size_t kAnyCount = std::numeric_limits<std::size_t>::max();
  [[nodiscard]] std::vector<std::int64_t> column(std::size_t count, std::int64_t least, std::int64_t most) const;

  /// The value as it is, for what no reader here describes.
  [[nodiscard]] const nlohmann::json& json() const { return *value_; }
  /// `/rows/3/args`; empty at the top. Of a long key the beginning, control characters as `?`.
  [[nodiscard]] const std::string& pointer() const { return pointer_; }

  void wrong(const std::string& message) const;
  [[nodiscard]] bool clean() const { return mistake_->empty(); }

 private:
  JsonNode(const nlohmann::json& value, const JsonNode& parent, const std::string& step)
      : value_(&value), mistake_(parent.mistake_), pointer_(parent.pointer_ + "/" + step) {}

  const nlohmann::json* value_;
  Mistake* mistake_;
  std::string pointer_;
};

}  // namespace tidemark::formats
