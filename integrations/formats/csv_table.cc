#include "integrations/formats/csv_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>

#include "core/bytes.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/near_miss.h"
#include "integrations/formats/shown.h"
#include "integrations/formats/utf8.h"

namespace tidemark::formats {
namespace {

constexpr int kMostRows = 100'000'000;
constexpr std::size_t kMostColumns = 10'000;
constexpr std::int64_t kMostScaled = std::int64_t{1} << 62;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// Takes the first line off the text.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// Takes the next line that holds something; empty: there is none. Counts lines.
std::string_view take_row(std::string_view& text, int& line_number) {
  while (!text.empty()) {
    const std::string_view line = trimmed(take_line(text));
    ++line_number;
    if (!line.empty() && line.front() != '#') return line;
  }
  return {};
}

/// Where a field that starts with a quote ends: behind the closing quote (doubled ones belong to the text), or npos.
std::size_t end_of_quoted(std::string_view line) {
  for (std::size_t at = 1; at < line.size(); ++at) {
    if (line[at] != '"') continue;
    if (at + 1 == line.size() || line[at + 1] != '"') return at + 1;
    ++at;
  }
  return std::string_view::npos;
}

/// Splits at commas outside quotes. What is wrong, if anything.
Status split(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  for (;;) {
    if (fields.size() == kMostColumns) return bad_input(fmt::format("there are more than {} fields", kMostColumns));
    const std::size_t first = std::min(line.find_first_not_of(" \t"), line.size());
    line.remove_prefix(first);
    std::size_t end = 0;
    if (!line.empty() && line.front() == '"') {
      end = end_of_quoted(line);
      if (end == std::string_view::npos) return bad_input(fmt::format("a quote before {} is not closed", shown(line)));
      fields.push_back(line.substr(1, end - 2));
      const std::string_view behind = trimmed(line.substr(end, line.find(',', end) - end));
      if (!behind.empty()) return bad_input(fmt::format("{} follows a closing quote; a comma must", shown(behind)));
      end = line.find(',', end);
    } else {
      end = line.find(',');
      fields.push_back(trimmed(line.substr(0, end)));
    }
    if (end == std::string_view::npos) return {};
    line.remove_prefix(end + 1);
  }
}

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Where field `column` of a line begins and ends, between its commas.
std::pair<std::size_t, std::size_t> raw_field(std::string_view line, std::size_t column) {
  std::size_t begin = 0;
  for (;; --column) {
    const std::size_t first = std::min(line.find_first_not_of(" \t", begin), line.size());
    const bool quoted = first < line.size() && line[first] == '"';
    const std::size_t from = quoted ? first + end_of_quoted(line.substr(first)) : begin;
    const std::size_t end = std::min(line.find(',', from), line.size());
    if (column == 0) return {begin, end};
    begin = end + 1;
  }
}

}  // namespace

Result<CsvTable> CsvTable::open(std::string_view text, std::string_view file) {
  CsvTable table;
  table.file_ = file;
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    const auto lines = std::ranges::count(text.substr(0, nul), '\n');
    return table.wrong(static_cast<int>(lines) + 1, "there is a NUL byte; a table is UTF-8 text without any");
  }
  if (Status status = require_utf8(text, file); !status) return status.error();
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  int line_number = 0;
  const std::string_view line = take_row(text, line_number);
  if (line.empty()) return table.wrong(1, "the file is empty; the first line names the columns");
  if (Status status = split(line, table.header_); !status) return table.wrong(line_number, status.error().message);
  if (line.find('\r') != std::string_view::npos)
    return table.wrong(line_number, "lines end in a carriage return alone; they must end in a line feed");
  table.header_line_ = line_number;
  table.rest_ = text;
  return table;
}

std::optional<std::size_t> CsvTable::find(std::string_view name) const {
  const auto found = std::ranges::find(header_, name);
  if (found == header_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - header_.begin());
}

Result<std::size_t> CsvTable::get(std::string_view name) const {
  if (std::ranges::count(header_, name) > 1)
    return wrong(header_line_, fmt::format("column {} is there twice", shown(name)));
  if (const std::optional<std::size_t> column = find(name)) return *column;
  if (header_.size() == 1 && header_.front().find_first_of(";\t|") != std::string_view::npos)
    return wrong(header_line_,
                 fmt::format("there is no column {}; the header is one field, {}: commas must separate them",
                             shown(name), shown(header_.front())));
  const std::vector<std::string> names(header_.begin(), header_.end());
  const std::optional<std::string> near = find_near_miss(name, names);
  return wrong(header_line_, fmt::format("there is no column {}{}", shown(name),
                                         near ? fmt::format("; is it {}?", shown(*near)) : ""));
}

Status CsvTable::for_each(const std::function<Status(const CsvRow&)>& visit) const {
  std::string_view text = rest_;
  std::vector<std::string_view> fields;
  int line_number = header_line_;
  for (int rows = 0;; ++rows) {
    const std::string_view line = take_row(text, line_number);
    if (line.empty()) return {};
    if (rows == kMostRows) return wrong(line_number, fmt::format("there are more than {} rows", kMostRows));
    if (Status status = split(line, fields); !status) return wrong(line_number, status.error().message);
    if (fields.size() != header_.size())
      return wrong(line_number, fmt::format("there are {} fields; the header has {}", fields.size(), header_.size()));
    if (Status status = visit({.line = line_number, .fields = fields}); !status)
      return wrong(line_number, status.error().message);
  }
}

Error CsvTable::wrong(int line, std::string_view what) const {
  return bad_input(fmt::format("{}:{}: {}", file_, line, what));
}

std::string with_column(std::string_view text, std::string_view name, std::span<const std::int64_t> numbers) {
  const Result<CsvTable> table = CsvTable::open(text, "");
  assert(table);
  const std::optional<std::size_t> column = table.value().find(name);
  std::string result;
  result.reserve(text.size() + 8 * numbers.size() + 16);
  if (text.starts_with(kByteOrderMark)) result += kByteOrderMark;
  text.remove_prefix(result.size());
  bool in_header = true;
  for (std::size_t row = 0; !text.empty();) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(end);
    const std::string_view line = trimmed(whole.substr(0, whole.find('\n')));
    if (line.empty() || line.front() == '#') {
      result += whole;
      continue;
    }
    const std::string value = in_header ? std::string(name) : std::to_string(numbers[row]);
    if (!in_header) ++row;
    in_header = false;
    const auto line_begin = static_cast<std::size_t>(line.data() - whole.data());
    const auto [from, to] = column ? raw_field(line, *column) : std::pair(line.size(), line.size());
    result.append(whole.substr(0, line_begin + from)).append(column ? "" : ",").append(value);
    result += whole.substr(line_begin + to);
  }
  return result;
}

Result<std::int64_t> read_whole(std::string_view name, std::string_view text, std::int64_t least, std::int64_t most) {
  const bool hexadecimal = text.starts_with("0x") && text.size() > 2 && text[2] != '-';
  const std::string_view digits = hexadecimal ? text.substr(2) : text;
  std::int64_t number = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, hexadecimal ? 16 : 10);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size() || number < least || number > most)
    return bad_input(fmt::format("{} is {}; it must be {}", name, shown(text), whole_range_text(least, most)));
  return number;
}

Result<std::int64_t> read_scaled(std::string_view name, std::string_view text, std::int64_t scale) {
  constexpr std::size_t kMostDigits = 12;
  const Error wrong = bad_input(fmt::format("{} is {}; it must be a number such as 12.5", name, shown(text)));
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole_digits = text.substr(0, point);
  const std::string_view all_fraction = text.substr(std::min(point + 1, text.size()));
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (whole_digits.empty() || !std::ranges::all_of(whole_digits, is_digit) ||
      !std::ranges::all_of(all_fraction, is_digit))
    return wrong;
  std::int64_t whole = 0;
  if (std::from_chars(whole_digits.data(), whole_digits.data() + whole_digits.size(), whole).ec != std::errc{})
    return wrong;
  std::int64_t fraction = 0, one = 1;
  for (const char digit : all_fraction.substr(0, kMostDigits)) {
    fraction = fraction * 10 + (digit - '0');
    one *= 10;
  }
  const std::optional<std::int64_t> product = checked_multiply(whole, scale);
  if (!product || *product > kMostScaled - scale) return wrong;
  return *product + (fraction * scale + one / 2) / one;
}

}  // namespace tidemark::formats
