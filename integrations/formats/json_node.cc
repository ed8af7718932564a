#include "integrations/formats/json_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "integrations/formats/int_column.h"
#include "integrations/formats/near_miss.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/utf8.h"

namespace tidemark::formats {
namespace {

const nlohmann::json kNothing;

// Line and column of a byte of the text, both from 1.
std::string place_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t start = before.rfind('\n');
  const std::size_t column = start == std::string_view::npos ? before.size() : before.size() - start - 1;
  return fmt::format("{}:{}", line, std::max<std::size_t>(column, 1));
}

/// A key as a step of a JSON pointer: `~` and `/` as RFC 6901 writes them, the rest as it may stand in a message.
std::string pointer_step(std::string_view key) {
  const std::string quoted = shown(key);
  std::string step;
  for (const char c : std::string_view(quoted).substr(1, quoted.size() - 2))
    step += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return step;
}

/// Builds the document from the parser's events as the library does, but ends at a key that an object has twice: of two
/// values the library would keep one without a word.
class DocumentBuilder {
 public:
  using Json = nlohmann::json;

  [[nodiscard]] Json take() { return std::move(root_); }
  /// A key that is there twice: which, and where; empty: none.
  [[nodiscard]] const std::string& repeated() const { return repeated_; }
  [[nodiscard]] std::size_t error_byte() const { return error_byte_; }
  [[nodiscard]] bool is_number_too_large() const { return is_number_too_large_; }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(Json::number_integer_t value) { return add(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(value); }
  bool number_float(Json::number_float_t value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t& value) { return add(std::move(value)); }
  bool start_object(std::size_t) { return open(Json::value_t::object); }
  bool start_array(std::size_t) { return open(Json::value_t::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    Level& level = levels_.back();
    const auto [member, is_new] = level.container->get_ref<Json::object_t&>().try_emplace(std::move(name));
    level.member = member;
    if (is_new) return true;
    repeated_ = fmt::format("{}: has the member {} twice", pointer(), shown(member->first));
    return false;
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::json::exception& error) {
    constexpr int kNumberOverflow = 406;  // by the library's table of exceptions
    error_byte_ = byte;
    is_number_too_large_ = error.id == kNumberOverflow;
    return false;
  }

 private:
  struct Level {
    Json* container = nullptr;
    Json::object_t::iterator member{};  ///< of an object: the present one
  };

  /// Of the innermost object. A line on a terminal holds no more than some levels.
  [[nodiscard]] std::string pointer() const {
    constexpr std::size_t kMostSteps = 16;
    const std::size_t steps = levels_.size() - 1;
    std::string pointer;
    for (std::size_t i = 0; i < std::min(steps, kMostSteps); ++i) {
      const Level& level = levels_[i];
      pointer += "/" + (level.container->is_array() ? std::to_string(level.container->size() - 1)
                                                    : pointer_step(level.member->first));
    }
    if (steps > kMostSteps) pointer += "/...";
    return pointer.empty() ? "/" : pointer;
  }

  /// Where the next value belongs. Only the innermost container grows, so those around it keep their places.
  Json& place() {
    if (levels_.empty()) return root_;
    const Level& level = levels_.back();
    if (!level.container->is_array()) return level.member->second;
    return level.container->get_ref<Json::array_t&>().emplace_back();
  }
  template <class Value>
  bool add(Value value) {
    place() = std::move(value);
    return true;
  }
  bool open(Json::value_t kind) {
    Json& container = place();
    container = kind;
    levels_.push_back({.container = &container});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Level> levels_;
  std::string repeated_;
  std::size_t error_byte_ = 0;
  bool is_number_too_large_ = false;
};

/// Why a text is no JSON.
Error not_json(std::string_view text, std::string_view file_name, std::string_view what, std::size_t byte) {
  if (find_bad_utf8(text) < byte) return require_utf8(text, file_name).error();
  const bool cut = byte > text.size();
  return bad_input(fmt::format(
      "{}:{}: {}", file_name, place_of(text, byte),
      cut ? fmt::format("the text ends in the middle of {}; is the file cut short?", what) : "not valid JSON here"));
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, std::string_view file_name, std::string_view what) {
  // The library takes a NUL for the end of the text, whatever follows.
  if (text.find('\0') != std::string_view::npos) return require_utf8(text, file_name).error();
  DocumentBuilder builder;
  if (nlohmann::json::sax_parse(text, &builder)) return builder.take();
  if (!builder.repeated().empty()) return bad_input(fmt::format("{}: {}", file_name, builder.repeated()));
  if (builder.is_number_too_large())
    return bad_input(
        fmt::format("{}:{}: a number in the file is too large", file_name, place_of(text, builder.error_byte())));
  return not_json(text, file_name, what, builder.error_byte());
}

void JsonNode::wrong(const std::string& message) const {
  if (!mistake_->empty()) return;
  *mistake_ = (pointer_.empty() ? "/" : pointer_) + ": " + message;
}

JsonNode JsonNode::at(std::string_view key) const {
  const std::string step = pointer_step(key);
  if (!value_->is_object()) {
    wrong("must be an object with a member " + shown(key));
    return {kNothing, *this, step};
  }
  const auto found = value_->find(std::string(key));
  if (found == value_->end()) {
    wrong("has no member " + shown(key));
    return {kNothing, *this, step};
  }
  return {*found, *this, step};
}

bool JsonNode::has(std::string_view key) const {
  return value_->is_object() && value_->contains(std::string(key));
}

std::vector<std::string> JsonNode::keys() const {
  std::vector<std::string> keys;
  if (!value_->is_object()) {
    wrong("must be an object");
    return keys;
  }
  for (const auto& [key, value] : value_->items()) keys.push_back(key);
  return keys;
}

void JsonNode::expect_members(std::initializer_list<std::string_view> known) const {
  if (!value_->is_object()) return wrong("must be an object");
  for (const auto& [key, value] : value_->items()) {
    if (std::ranges::find(known, std::string_view(key)) != known.end()) continue;
    const std::vector<std::string> candidates(known.begin(), known.end());
    const std::optional<std::string> near = find_near_miss(key, candidates);
    return wrong(fmt::format(
        "has an unknown member {}; {}", shown(key),
        near ? fmt::format("did you mean '{}'?", *near) : fmt::format("it knows {}", fmt::join(known, ", "))));
  }
}

std::size_t JsonNode::size() const {
  if (value_->is_array()) return value_->size();
  wrong("must be a list");
  return 0;
}

JsonNode JsonNode::item(std::size_t index) const {
  if (value_->is_array() && index < value_->size()) return {(*value_)[index], *this, std::to_string(index)};
  wrong(fmt::format("must be a list of more than {} items", index));
  return {kNothing, *this, std::to_string(index)};
}

std::int64_t JsonNode::integer(std::int64_t least, std::int64_t most) const {
  if (value_->is_number_integer()) {
    const bool too_large =
        value_->is_number_unsigned() &&
        value_->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const auto value = too_large ? std::int64_t{0} : value_->get<std::int64_t>();
    if (!too_large && value >= least && value <= most) return value;
  }
  wrong("must be " + whole_range_text(least, most));
  return least > 0 ? least : 0;
}

std::uint64_t JsonNode::unsigned_integer() const {
  if (value_->is_number_unsigned()) return value_->get<std::uint64_t>();
  wrong("must be a whole number, not negative");
  return 0;
}

double JsonNode::number(const RealRange& range) const {
  if (!value_->is_number()) {
    wrong("must be a number");
    return 0;
  }
  const auto value = value_->get<double>();
  if (range.holds(value)) return value;
  wrong(fmt::format("is {}; it must be {} {} and at most {}", value, range.open ? "above" : "at least", range.least,
                    range.most));
  return 0;
}

bool JsonNode::boolean() const {
  if (value_->is_boolean()) return value_->get<bool>();
  wrong("must be true or false");
  return false;
}

std::string JsonNode::text() const {
  if (value_->is_string()) return value_->get<std::string>();
  wrong("must be a text");
  return {};
}

std::size_t JsonNode::word(std::span<const std::string_view> words) const {
  if (value_->is_string()) {
    const auto text = value_->get<std::string>();
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == text) return i;
    }
  }
  wrong(fmt::format("must be one of {}", fmt::join(words, ", ")));
  return 0;
}

std::vector<std::int64_t> JsonNode::column(std::size_t count, std::int64_t least, std::int64_t most) const {
  if (!clean()) return {};
  Result<std::vector<std::int64_t>> values = read_column(*value_);
  if (!values) {
    wrong(values.error().message);
    return {};
  }
  if (count != kAnyCount && values.value().size() != count) {
    wrong(fmt::format("has {} rows where {} belong", values.value().size(), count));
    return {};
  }
  for (std::size_t i = 0; i < values.value().size(); ++i) {
    const std::int64_t value = values.value()[i];
    if (value >= least && value <= most) continue;
    wrong(fmt::format("row {} is {}, not from {} to {}", i, value, least, most));
    return {};
  }
  return std::move(values).value();
}

}  // namespace tidemark::formats
