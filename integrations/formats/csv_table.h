#pragma once
// Comma-separated text with a header line, as rows of fields. Fields lose the blanks and tabs around them; one in
// double quotes may hold commas. Empty lines and lines that start with `#` are skipped, a byte order mark as well.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tidemark::formats {

/// A row: `fields` has as many entries as the header and refers to the text.
struct CsvRow {
  int line = 0;  ///< from 1
  std::span<const std::string_view> fields;
};

class CsvTable {
 public:
  /// Reads the header; rows are checked by for_each. `text` and `file` must outlive the table. Errors (bad_input): no
  /// header line, more than 10,000 columns, a NUL byte or one that is not UTF-8 anywhere, lines that end in a carriage
  /// return alone.
  [[nodiscard]] static Result<CsvTable> open(std::string_view text, std::string_view file);

  [[nodiscard]] std::span<const std::string_view> header() const { return header_; }
  [[nodiscard]] int header_line() const { return header_line_; }
  /// Position of a column, or nothing.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
  /// Errors (bad_input): no such column, and the nearest one is suggested; more than one.
  [[nodiscard]] Result<std::size_t> get(std::string_view name) const;

  /// Calls `visit` for every row until it fails. Errors (bad_input): too few or too many fields, a quote that is not
  /// closed, more than 100 million rows; and what `visit` says (without a place: it is put in front).
  [[nodiscard]] Status for_each(const std::function<Status(const CsvRow&)>& visit) const;

  /// bad_input with `file:line: what`.
  [[nodiscard]] Error wrong(int line, std::string_view what) const;

 private:
  std::string_view file_;
  std::string_view rest_;  ///< behind the header
  int header_line_ = 1;
  std::vector<std::string_view> header_;
};

/// The table once more with a column of numbers, one per row: where a column of that name is, its fields are replaced,
/// or else it becomes the last. Everything else, line ends and comments included, stays as it is. REQUIRES: a text that
/// CsvTable::open and for_each accept.
[[nodiscard]] std::string with_column(std::string_view text, std::string_view name,
                                      std::span<const std::int64_t> numbers);

/// A whole number in [least, most]: the whole text, decimal, or hexadecimal after `0x`. Errors (bad_input), without a
/// place: `name is 'text'; it must be ...`.
[[nodiscard]] Result<std::int64_t> read_whole(std::string_view name, std::string_view text, std::int64_t least,
                                              std::int64_t most);

/// A decimal number times `scale`, rounded to the nearest whole number: `0.5` at scale 1024 is 512. Exact up to 12
/// digits behind the point. Errors (bad_input), without a place: a sign, not a number, a result beyond 2^62.
[[nodiscard]] Result<std::int64_t> read_scaled(std::string_view name, std::string_view text, std::int64_t scale);

}  // namespace tidemark::formats
