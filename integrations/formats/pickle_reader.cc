#include "integrations/formats/pickle_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <unordered_map>

#include "integrations/formats/shown.h"
#include "integrations/formats/utf8.h"

namespace tidemark::formats {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kMostValues = std::size_t{1} << 26;
constexpr std::size_t kMostMarks = 1000;  // as deep as Python itself nests
constexpr std::size_t kMostKeys = 256;    // of a dict, which is searched from end to end wherever it is shared
constexpr std::uint8_t kNewestProtocol = 5;

/// Instructions that import, call or ask the environment for something.
struct Refused {
  std::uint8_t code;
  std::string_view name;
};
constexpr auto kRefused = std::to_array<Refused>({{'c', "GLOBAL"},
                                                  {0x93, "STACK_GLOBAL"},
                                                  {'i', "INST"},
                                                  {'o', "OBJ"},
                                                  {0x81, "NEWOBJ"},
                                                  {0x92, "NEWOBJ_EX"},
                                                  {'R', "REDUCE"},
                                                  {'b', "BUILD"},
                                                  {'P', "PERSID"},
                                                  {'Q', "BINPERSID"},
                                                  {0x82, "EXT1"},
                                                  {0x83, "EXT2"},
                                                  {0x84, "EXT4"},
                                                  {0x97, "NEXT_BUFFER"},
                                                  {0x98, "READONLY_BUFFER"}});

}  // namespace

std::optional<PickleId> PickleDocument::find(PickleId dict, std::string_view key) const {
  const PickleValue& value = get(dict);
  if (value.kind != Kind::dict) return std::nullopt;
  const auto& items = std::get<std::vector<PickleId>>(value.data);
  for (std::size_t i = items.size(); i >= 2; i -= 2)
    if (find_text(items[i - 2]) == key) return items[i - 1];
  return std::nullopt;
}

const std::vector<PickleId>* PickleDocument::find_items(PickleId id) const {
  const PickleValue& value = get(id);
  if (value.kind != Kind::list && value.kind != Kind::tuple) return nullptr;
  return &std::get<std::vector<PickleId>>(value.data);
}

std::optional<std::int64_t> PickleDocument::find_integer(PickleId id) const {
  const PickleValue& value = get(id);
  if (value.kind != Kind::integer) return std::nullopt;
  if (const auto* number = std::get_if<std::int64_t>(&value.data)) return *number;
  return std::nullopt;
}

std::optional<std::uint64_t> PickleDocument::find_unsigned(PickleId id) const {
  const PickleValue& value = get(id);
  if (value.kind != Kind::integer) return std::nullopt;
  if (const auto* number = std::get_if<std::uint64_t>(&value.data)) return *number;
  const std::int64_t number = std::get<std::int64_t>(value.data);
  if (number < 0) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

std::optional<std::string_view> PickleDocument::find_text(PickleId id) const {
  const PickleValue& value = get(id);
  if (value.kind != Kind::text) return std::nullopt;
  return std::get<std::string_view>(value.data);
}

/// The stack machine. Every step_* function runs one group of instructions and answers whether the code was one of its
/// own; what is wrong is kept in `fault_` and ends the run.
class PickleMachine {
 public:
  PickleMachine(std::string_view input, std::string_view file) : input_(input), file_(file) {
    add(Kind::none, std::int64_t{0});
    add(Kind::boolean, std::int64_t{0});
    add(Kind::boolean, std::int64_t{1});
  }

  Result<PickleDocument> run() {
    bool stopped = false;
    while (!stopped && fault_.empty()) {
      code_at_ = at_;
      const auto code = static_cast<std::uint8_t>(unsigned_number(1));
      if (!fault_.empty()) break;
      if (code == '.') {
        stopped = true;
      } else if (!step_frame(code) && !step_number(code) && !step_text(code) && !step_container(code) &&
                 !step_stack(code) && !step_memo(code)) {
        refuse(code);
      }
      if (document_.values_.size() > kMostValues) fail(fmt::format("there are more than {} values", kMostValues));
    }
    if (fault_.empty() && (stack_.size() != 1 || !marks_.empty())) fail("the pickle does not end with one value");
    if (!fault_.empty()) return bad_input(fmt::format("{}: byte {}: {}", file_, code_at_, fault_));
    document_.root_ = stack_.back();
    return std::move(document_);
  }

 private:
  static constexpr PickleId kNone{0}, kFalse{1}, kTrue{2};
  using Items = std::vector<PickleId>;

  void fail(std::string what) {
    if (fault_.empty()) fault_ = std::move(what);
  }

  void refuse(std::uint8_t code) {
    const auto found = std::ranges::find(kRefused, code, &Refused::code);
    if (found != kRefused.end())
      fail(fmt::format("{} would run code of Python; a snapshot holds numbers, texts, lists and dicts only",
                       found->name));
    else
      fail(fmt::format("0x{:02x} is no instruction of a pickle; is this a memory snapshot?", code));
  }

  // ---- input --------------------------------------------------------------------------------------------------------

  std::string_view take(std::uint64_t size) {
    if (size > input_.size() - at_) {
      fail(fmt::format("the file ends here; {} more bytes are announced", size));
      return {};
    }
    const std::string_view bytes = input_.substr(at_, static_cast<std::size_t>(size));
    at_ += bytes.size();
    return bytes;
  }

  /// Little endian.
  std::uint64_t unsigned_number(std::size_t size) {
    std::uint64_t number = 0;
    const std::string_view bytes = take(size);
    for (std::size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<std::uint8_t>(bytes[i]);
    return number;
  }

  std::string_view take_line() {
    const std::size_t end = input_.find('\n', at_);
    if (end == std::string_view::npos) {
      fail("the file ends within a line");
      return {};
    }
    std::string_view line = input_.substr(at_, end - at_);
    at_ = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  // ---- values and the stack -----------------------------------------------------------------------------------------

  PickleId add(Kind kind, decltype(PickleValue::data) data) {
    document_.values_.push_back({.kind = kind, .data = std::move(data)});
    return static_cast<PickleId>(document_.values_.size() - 1);
  }
  void push(PickleId id) { stack_.push_back(id); }
  void push(Kind kind, decltype(PickleValue::data) data) { push(add(kind, std::move(data))); }

  /// First stack position that belongs to the innermost open mark.
  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  PickleId pop() {
    if (stack_.size() <= floor()) {
      fail("the stack is empty");
      return kNone;
    }
    const PickleId id = stack_.back();
    stack_.pop_back();
    return id;
  }

  Items pop_to_mark() {
    if (marks_.empty()) {
      fail("there is no mark");
      return {};
    }
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    Items items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }

  Items pop_some(std::size_t count) {
    Items items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  /// Puts items into the container on top of the stack.
  void extend_top(Kind kind, const Items& items) {
    if (stack_.size() <= floor() || document_.get(stack_.back()).kind != kind) {
      fail("items are added to something that takes none of this kind");
      return;
    }
    auto& held = std::get<Items>(document_.values_[static_cast<std::size_t>(stack_.back())].data);
    held.insert(held.end(), items.begin(), items.end());
    if (kind == Kind::dict) check_dict(held);
  }

  void check_dict(const Items& items) {
    if (items.size() % 2 != 0) fail("a key has no value");
    if (items.size() > 2 * kMostKeys) fail(fmt::format("a dict has more than {} keys", kMostKeys));
  }

  void push_dict(Items items) {
    check_dict(items);
    push(Kind::dict, std::move(items));
  }

  // ---- instructions -------------------------------------------------------------------------------------------------

  bool step_frame(std::uint8_t code) {
    if (code == 0x80) {
      const std::uint64_t protocol = unsigned_number(1);
      if (protocol > kNewestProtocol)
        fail(fmt::format("protocol {} is newer than {}, the newest known", protocol, kNewestProtocol));
    } else if (code == 0x95) {
      const std::uint64_t size = unsigned_number(8);
      if (size > input_.size() - at_) fail(fmt::format("the file ends here; a frame of {} bytes is announced", size));
    } else {
      return false;
    }
    return true;
  }

  bool step_number(std::uint8_t code) {
    switch (code) {
      case 'N':
        push(kNone);
        return true;
      case 0x88:
        push(kTrue);
        return true;
      case 0x89:
        push(kFalse);
        return true;
      case 'I':
        push_int_line(take_line());
        return true;
      case 'L': {
        std::string_view line = take_line();
        if (line.ends_with('L')) line.remove_suffix(1);
        push_decimal(line);
        return true;
      }
      case 'J':
        push(Kind::integer, std::int64_t{static_cast<std::int32_t>(static_cast<std::uint32_t>(unsigned_number(4)))});
        return true;
      case 'K':
        push(Kind::integer, static_cast<std::int64_t>(unsigned_number(1)));
        return true;
      case 'M':
        push(Kind::integer, static_cast<std::int64_t>(unsigned_number(2)));
        return true;
      case 0x8a:
        push_long(take(unsigned_number(1)));
        return true;
      case 0x8b:
        push_long(take(unsigned_number(4)));
        return true;
      case 'F':
        push_real(take_line());
        return true;
      case 'G':
        push_big_endian_real(take(8));
        return true;
      default:
        return false;
    }
  }

  void push_int_line(std::string_view line) {
    if (line == "00" || line == "01")
      push(line == "01" ? kTrue : kFalse);
    else
      push_decimal(line);
  }

  void push_decimal(std::string_view digits) {
    const char* const end = digits.data() + digits.size();
    std::int64_t number = 0;
    const auto read = std::from_chars(digits.data(), end, number);
    if (read.ec == std::errc{} && read.ptr == end && !digits.empty()) return push(Kind::integer, number);
    std::uint64_t large = 0;
    const auto read_large = std::from_chars(digits.data(), end, large);
    if (read_large.ec == std::errc{} && read_large.ptr == end && !digits.empty()) return push(Kind::integer, large);
    fail(fmt::format("{} is not a whole number of 64 bits", shown(digits)));
  }

  /// Two's complement, little endian, any length; up to 64 bits and a sign are of use.
  void push_long(std::string_view bytes) {
    const bool negative = !bytes.empty() && (static_cast<std::uint8_t>(bytes.back()) & 0x80U) != 0;
    const char padding = negative ? '\xff' : '\0';
    while (bytes.size() > 8 && bytes.back() == padding) bytes.remove_suffix(1);
    if (bytes.size() > 8) return fail("a number has more than 64 bits");
    std::uint64_t number = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = bytes.size(); i-- > 0;) number = number << 8 | static_cast<std::uint8_t>(bytes[i]);
    const auto as_signed = static_cast<std::int64_t>(number);
    if ((as_signed < 0) == negative) return push(Kind::integer, as_signed);
    if (negative) return fail("a number has more than 64 bits");
    push(Kind::integer, number);
  }

  void push_real(std::string_view line) {
    double number = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (error != std::errc{} || end != line.data() + line.size() || line.empty())
      fail(fmt::format("{} is not a number", shown(line)));
    push(Kind::real, number);
  }

  void push_big_endian_real(std::string_view bytes) {
    std::uint64_t bits = 0;
    for (const char byte : bytes) bits = bits << 8 | static_cast<std::uint8_t>(byte);
    push(Kind::real, std::bit_cast<double>(bits));
  }

  bool step_text(std::uint8_t code) {
    switch (code) {
      case 'X':
        push_text(take(unsigned_number(4)));
        return true;
      case 0x8c:
        push_text(take(unsigned_number(1)));
        return true;
      case 0x8d:
        push_text(take(unsigned_number(8)));
        return true;
      case 'B':
        push(Kind::bytes, take(unsigned_number(4)));
        return true;
      case 'C':
        push(Kind::bytes, take(unsigned_number(1)));
        return true;
      case 0x8e:
      case 0x96:
        push(Kind::bytes, take(unsigned_number(8)));
        return true;
      case 'T':  // texts of Python 2
        push_text(take(unsigned_number(4)));
        return true;
      case 'U':
        push_text(take(unsigned_number(1)));
        return true;
      case 'S':
        push_quoted(take_line());
        return true;
      case 'V':
        push_escaped(take_line());
        return true;
      default:
        return false;
    }
  }

  void push_quoted(std::string_view line) {
    if (line.size() < 2 || (line.front() != '\'' && line.front() != '"') || line.back() != line.front())
      return fail("a text is not in quotes");
    push_escaped(line.substr(1, line.size() - 2));
  }

  /// Escapes are kept as written: names of files and functions are shown, never used. A text without is not copied.
  void push_escaped(std::string_view text) { push_text(text); }

  /// Python writes lone surrogates into texts, for bytes of a file name that are no characters.
  void push_text(std::string_view text) {
    if (find_bad_utf8(text) != std::string_view::npos)
      return fail(fmt::format("the text {} is not UTF-8", shown(text)));
    push(Kind::text, text);
  }

  bool step_container(std::uint8_t code) {
    switch (code) {
      case ']':
        push(Kind::list, Items{});
        return true;
      case '}':
        push(Kind::dict, Items{});
        return true;
      case ')':
        push(Kind::tuple, Items{});
        return true;
      case 0x8f:
        push(Kind::set, Items{});
        return true;
      case 'l':
        push(Kind::list, pop_to_mark());
        return true;
      case 't':
        push(Kind::tuple, pop_to_mark());
        return true;
      case 0x91:
        push(Kind::set, pop_to_mark());
        return true;
      case 'd':
        push_dict(pop_to_mark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push(Kind::tuple, pop_some(code - 0x84U));
        return true;
      case 'a':
        extend_top(Kind::list, pop_some(1));
        return true;
      case 's':
        extend_top(Kind::dict, pop_some(2));
        return true;
      case 'e':
        extend_top(Kind::list, pop_to_mark());
        return true;
      case 'u':
        extend_top(Kind::dict, pop_to_mark());
        return true;
      case 0x90:
        extend_top(Kind::set, pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  bool step_stack(std::uint8_t code) {
    switch (code) {
      case '(':
        marks_.push_back(stack_.size());
        if (marks_.size() > kMostMarks) fail(fmt::format("it is nested deeper than {}", kMostMarks));
        return true;
      case '0':
        if (!marks_.empty() && stack_.size() == marks_.back())
          marks_.pop_back();
        else
          pop();
        return true;
      case '1':
        pop_to_mark();
        return true;
      case '2': {
        const PickleId top = pop();
        push(top);
        push(top);
        return true;
      }
      default:
        return false;
    }
  }

  bool step_memo(std::uint8_t code) {
    switch (code) {
      case 'p':
        put(line_index());
        return true;
      case 'q':
        put(unsigned_number(1));
        return true;
      case 'r':
        put(unsigned_number(4));
        return true;
      case 0x94:
        put(memo_.size());
        return true;
      case 'g':
        fetch(line_index());
        return true;
      case 'h':
        fetch(unsigned_number(1));
        return true;
      case 'j':
        fetch(unsigned_number(4));
        return true;
      default:
        return false;
    }
  }

  std::uint64_t line_index() {
    const std::string_view line = take_line();
    std::uint64_t index = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), index);
    if (error != std::errc{} || end != line.data() + line.size() || line.empty())
      fail(fmt::format("{} is no position in the memo", shown(line)));
    return index;
  }

  void put(std::uint64_t index) {
    const PickleId top = pop();
    push(top);
    memo_.insert_or_assign(index, top);
  }

  void fetch(std::uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) return fail(fmt::format("nothing was kept at position {} of the memo", index));
    push(found->second);
  }

  std::string_view input_, file_;
  std::size_t at_ = 0;
  std::size_t code_at_ = 0;  // of the instruction that runs
  std::string fault_;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;  // stack sizes
  std::unordered_map<std::uint64_t, PickleId> memo_;
  PickleDocument document_;
};

Result<PickleDocument> read_pickle(std::string_view bytes, std::string_view file_name) {
  return PickleMachine(bytes, file_name).run();
}

}  // namespace tidemark::formats
