#include "integrations/formats/import_minimalloc_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "integrations/formats/csv_table.h"
#include "integrations/formats/shown.h"

namespace tidemark {
namespace {

constexpr std::int64_t kMostTime = std::int64_t{1} << 62;
constexpr Bytes kMostBytes = std::int64_t{1} << 50;
constexpr std::size_t kNoColumn = static_cast<std::size_t>(-1);

struct Columns {
  std::size_t id = kNoColumn, lower = kNoColumn, upper = kNoColumn, size = kNoColumn;
  std::size_t alignment = kNoColumn, hint = kNoColumn, offset = kNoColumn;
  bool end_counts = false;  ///< `start,end`
};

Result<Columns> find_columns(const CsvTable& csv, std::vector<std::string>& notes) {
  Columns columns;
  columns.end_counts = !csv.find("lower") && csv.find("start");
  const std::array<std::pair<std::string_view, std::size_t*>, 4> required = {
      {{"id", &columns.id},
       {columns.end_counts ? "start" : "lower", &columns.lower},
       {columns.end_counts ? "end" : "upper", &columns.upper},
       {"size", &columns.size}}};
  const std::array<std::pair<std::string_view, std::size_t*>, 3> optional = {
      {{"alignment", &columns.alignment}, {"hint", &columns.hint}, {"offset", &columns.offset}}};
  std::set<std::string_view> known;
  for (const auto& [name, column] : required) {
    const Result<std::size_t> found = csv.get(name);
    if (!found) return found.error();
    *column = found.value();
    known.insert(name);
  }
  for (const auto& [name, column] : optional) {
    *column = csv.find(name).value_or(kNoColumn);
    known.insert(name);
  }
  std::vector<std::string_view> unused;
  for (const std::string_view name : csv.header())
    if (!known.contains(name)) unused.push_back(name);
  if (unused.size() == 1) notes.push_back(fmt::format("column {} is not used", shown(unused.front())));
  if (unused.size() > 1) notes.push_back(fmt::format("columns {} are not used", shown_some(unused)));
  return columns;
}

/// An optional number: a column that is not there or an empty field is nothing.
Result<std::optional<std::int64_t>> read_optional(const CsvRow& csv, std::string_view name, std::size_t column,
                                                  std::int64_t least) {
  if (column == kNoColumn || csv.fields[column].empty()) return std::optional<std::int64_t>{};
  const Result<std::int64_t> number = read_whole(name, csv.fields[column], least, kMostBytes);
  if (!number) return number.error();
  return std::optional(number.value());
}

Result<IntervalTable::Row> read_row(const CsvRow& csv, const Columns& columns) {
  const auto& fields = csv.fields;
  const std::string_view last_name = columns.end_counts ? "end" : "upper";
  const Result<std::int64_t> lower =
      read_whole(columns.end_counts ? "start" : "lower", fields[columns.lower], 0, kMostTime);
  if (!lower) return lower.error();
  const Result<std::int64_t> upper = read_whole(last_name, fields[columns.upper], 0, kMostTime);
  if (!upper) return upper.error();
  const Result<std::int64_t> bytes = read_whole("size", fields[columns.size], 1, kMostBytes);
  if (!bytes) return bytes.error();
  const auto alignment = read_optional(csv, "alignment", columns.alignment, 1);
  if (!alignment) return alignment.error();
  const auto hint = read_optional(csv, "hint", columns.hint, 0);
  if (!hint) return hint.error();
  const auto offset = read_optional(csv, "offset", columns.offset, 0);
  if (!offset) return offset.error();
  IntervalTable::Row row{.id = std::string(fields[columns.id]),
                         .lower = lower.value(),
                         .upper = upper.value() + (columns.end_counts ? 1 : 0),
                         .bytes = bytes.value(),
                         .alignment_bytes = alignment.value().value_or(1),
                         .hint = hint.value(),
                         .offset = offset.value()};
  if (row.id.empty()) return bad_input("id is empty; every buffer has a name");
  if (row.upper <= row.lower)
    return bad_input(fmt::format("{} is {}; it must be {} lower, {}", last_name, upper.value(),
                                 columns.end_counts ? "at least" : "above", lower.value()));
  return row;
}

}  // namespace

Result<IntervalTable> read_minimalloc_csv(std::string_view text, std::string_view file_name) {
  const Result<CsvTable> csv = CsvTable::open(text, file_name);
  if (!csv) return csv.error();
  IntervalTable table;
  const Result<Columns> columns = find_columns(csv.value(), table.notes);
  if (!columns) return columns.error();
  std::set<std::string, std::less<>> ids;
  Bytes sum = 0;
  const Status status = csv.value().for_each([&](const CsvRow& line) -> Status {
    Result<IntervalTable::Row> row = read_row(line, columns.value());
    if (!row) return row.error();
    if (!ids.insert(row.value().id).second)
      return bad_input(fmt::format("id {} is there twice", shown(row.value().id)));
    sum += row.value().bytes;
    if (sum > kMostTraceBytes) return bad_input("the sizes up to here add up to more than 2^60 bytes");
    table.rows.push_back(std::move(row).value());
    return {};
  });
  if (!status) return status.error();
  return table;
}

AllocationTrace trace_of(const IntervalTable& table) {
  struct Moment {
    std::int64_t time = 0;
    bool is_alloc = false;  // false first
    std::size_t row = 0;
    auto key() const { return std::tuple(time, is_alloc, row); }
  };
  std::vector<Moment> moments;
  moments.reserve(2 * table.rows.size());
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    moments.push_back({.time = table.rows[row].lower, .is_alloc = true, .row = row});
    moments.push_back({.time = table.rows[row].upper, .is_alloc = false, .row = row});
  }
  std::ranges::sort(moments, {}, &Moment::key);
  AllocationTrace trace{.source = "minimalloc", .notes = table.notes};
  std::vector<std::int32_t> block_of(table.rows.size());
  for (const Moment& moment : moments) {
    if (moment.is_alloc) {
      block_of[moment.row] = static_cast<std::int32_t>(trace.blocks.size());
      trace.blocks.push_back({.bytes = table.rows[moment.row].bytes});
    }
    trace.events.push_back({.action = moment.is_alloc ? AllocationTrace::Action::alloc : AllocationTrace::Action::free,
                            .block = block_of[moment.row]});
  }
  return trace;
}

}  // namespace tidemark
