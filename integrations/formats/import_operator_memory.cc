#include "integrations/formats/import_operator_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "integrations/formats/csv_table.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr std::int64_t kNsPerUs = 1000;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct Columns {
  std::size_t size = 0, allocated = 0, released = 0;
  std::optional<std::size_t> stream, device, total;
};

struct Row {
  Bytes bytes = 0;
  std::uint64_t stream = 0;
  std::optional<std::int64_t> born_ns, gone_ns;
  std::optional<Bytes> total_bytes;  ///< live once it is allocated
};

Result<Columns> find_columns(const CsvTable& csv) {
  const Result<std::size_t> size = csv.get("Size(KB)");
  if (!size) return size.error();
  const Result<std::size_t> allocated = csv.get("Allocation Time(us)");
  if (!allocated) return allocated.error();
  const Result<std::size_t> released = csv.get("Release Time(us)");
  if (!released) return released.error();
  return Columns{.size = size.value(),
                 .allocated = allocated.value(),
                 .released = released.value(),
                 .stream = csv.find("Stream Ptr"),
                 .device = csv.find("Device Type"),
                 .total = csv.find("Allocation Total Allocated(MB)")};
}

/// A number that may be blank.
Result<std::optional<std::int64_t>> read_blank_or(std::string_view name, std::string_view text, std::int64_t scale) {
  if (text.empty()) return std::optional<std::int64_t>{};
  const Result<std::int64_t> number = read_scaled(name, text, scale);
  if (!number) return number.error();
  return std::optional(number.value());
}

Result<Row> read_row(const CsvRow& csv, const Columns& columns) {
  Row row;
  const Result<std::int64_t> bytes = read_scaled("Size(KB)", csv.fields[columns.size], kKiB);
  if (!bytes) return bytes.error();
  row.bytes = bytes.value();
  const auto born = read_blank_or("Allocation Time(us)", csv.fields[columns.allocated], kNsPerUs);
  if (!born) return born.error();
  const auto gone = read_blank_or("Release Time(us)", csv.fields[columns.released], kNsPerUs);
  if (!gone) return gone.error();
  row.born_ns = born.value();
  row.gone_ns = gone.value();
  if (row.born_ns && row.gone_ns && *row.gone_ns < *row.born_ns)
    return bad_input(fmt::format("Release Time(us) is {}; it must not be before the allocation at {}",
                                 shown(csv.fields[columns.released]), shown(csv.fields[columns.allocated])));
  if (columns.stream && !csv.fields[*columns.stream].empty()) {
    const Result<std::int64_t> stream = read_whole("Stream Ptr", csv.fields[*columns.stream], 0, kMost);
    if (!stream) return stream.error();
    row.stream = static_cast<std::uint64_t>(stream.value());
  }
  if (columns.total) {
    const auto total = read_blank_or("Allocation Total Allocated(MB)", csv.fields[*columns.total], kMiB);
    if (!total) return total.error();
    row.total_bytes = total.value();
  }
  return row;
}

struct Rows {
  std::vector<Row> rows;
  std::int64_t empty = 0;  ///< of size 0
  std::int64_t elsewhere = 0;
  std::string device, other_device;
};

Result<Rows> read_rows(const CsvTable& csv, const Columns& columns) {
  Rows all;
  Bytes sum = 0;
  const Status status = csv.for_each([&](const CsvRow& line) -> Status {
    const std::string_view device = columns.device ? line.fields[*columns.device] : std::string_view();
    if (all.rows.empty() && all.empty == 0) all.device = device;
    if (device != all.device) {
      if (all.elsewhere++ == 0) all.other_device = device;
      return {};
    }
    const Result<Row> row = read_row(line, columns);
    if (!row) return row.error();
    const std::optional<Bytes> total = checked_add(sum, row.value().bytes);
    if (!total || *total > kMostTraceBytes) return bad_input("the sizes up to here add up to more than 2^60 bytes");
    sum = *total;
    if (row.value().bytes == 0)
      ++all.empty;
    else
      all.rows.push_back(row.value());
    return {};
  });
  if (!status) return status.error();
  return all;
}

/// What the first allocation's total counts beside itself and the rows that say they were there before. Readers promise
/// sums of at most kMostTraceBytes, and a total may say anything.
void add_undescribed(const std::vector<Row>& rows, AllocationTrace& trace) {
  const Row* first = nullptr;
  Bytes described = 0;
  for (const Row& row : rows) {
    if (!row.born_ns)
      described += row.bytes;
    else if (first == nullptr || *row.born_ns < *first->born_ns)
      first = &row;
  }
  if (first == nullptr || !first->total_bytes) return;
  const Bytes rest = *first->total_bytes - first->bytes - described;
  if (rest < 0) trace.notes.push_back("the totals count less than the rows; they are not used");
  if (rest > kMostTraceBytes) trace.notes.push_back("the totals count more than 2^60 bytes; they are not used");
  if (rest <= 0 || rest > kMostTraceBytes) return;
  trace.blocks.push_back({.bytes = rest, .stream = first->stream});
  trace.notes.push_back(fmt::format("{} B were live before the first row and are taken as one block", rest));
}

AllocationTrace trace_of(const std::vector<Row>& rows) {
  struct Moment {
    std::int64_t ns = 0;
    int rank = 0;  // at one time: frees, then allocations, then frees of what was allocated at that time
    std::size_t row = 0;
    auto key() const { return std::tuple(ns, rank, row); }
  };
  AllocationTrace trace{.source = "operator_memory"};
  add_undescribed(rows, trace);
  std::vector<std::int32_t> block_of(rows.size(), -1);
  const auto add_block = [&](std::size_t row) {
    block_of[row] = static_cast<std::int32_t>(trace.blocks.size());
    trace.blocks.push_back({.bytes = rows[row].bytes, .stream = rows[row].stream});
  };
  std::vector<Moment> moments;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const Row& at = rows[row];
    if (!at.born_ns) add_block(row);
    if (at.born_ns) moments.push_back({.ns = *at.born_ns, .rank = 1, .row = row});
    if (at.gone_ns) moments.push_back({.ns = *at.gone_ns, .rank = at.gone_ns == at.born_ns ? 2 : 0, .row = row});
  }
  trace.live_at_start = static_cast<std::int32_t>(trace.blocks.size());
  std::ranges::sort(moments, {}, &Moment::key);
  for (const Moment& moment : moments) {
    const bool is_alloc = moment.rank == 1;
    if (is_alloc) add_block(moment.row);
    trace.events.push_back({.action = is_alloc ? AllocationTrace::Action::alloc : AllocationTrace::Action::free,
                            .block = block_of[moment.row]});
  }
  return trace;
}

}  // namespace

Result<AllocationTrace> read_operator_memory(std::string_view text, std::string_view file_name) {
  const Result<CsvTable> csv = CsvTable::open(text, file_name);
  if (!csv) return csv.error();
  const Result<Columns> columns = find_columns(csv.value());
  if (!columns) return columns.error();
  const Result<Rows> rows = read_rows(csv.value(), columns.value());
  if (!rows) return rows.error();
  AllocationTrace trace = trace_of(rows.value().rows);
  if (rows.value().empty > 0) trace.notes.push_back(fmt::format("{} rows of size 0 are not used", rows.value().empty));
  if (rows.value().elsewhere > 0)
    trace.notes.push_back(fmt::format("{} rows of other devices ({}, ...) are not used; those of {} are",
                                      rows.value().elsewhere, shown(rows.value().other_device),
                                      shown(rows.value().device)));
  return trace;
}

}  // namespace tidemark::formats
