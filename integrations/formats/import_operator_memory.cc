#include "integrations/formats/import_operator_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "integrations/formats/csv_table.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr std::int64_t kNsPerUs = 1000;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct Columns {
  std::size_t size = 0, allocated = 0, released = 0;
  std::optional<std::size_t> name, stream, device, total, reserved, reserved_after;
};

struct Row {
  Bytes bytes = 0;
  std::uint64_t stream = 0;
  std::optional<std::int64_t> born_ns, gone_ns;
  std::optional<Bytes> total_bytes;           ///< live once it is allocated
  std::optional<Bytes> reserved_bytes;        ///< held by the allocator then
  std::optional<Bytes> reserved_after_bytes;  ///< once it is released
  std::string_view name;                      ///< of the operator
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
                 .name = csv.find("Name"),
                 .stream = csv.find("Stream Ptr"),
                 .device = csv.find("Device Type"),
                 .total = csv.find("Allocation Total Allocated(MB)"),
                 .reserved = csv.find("Allocation Total Reserved(MB)"),
                 .reserved_after = csv.find("Release Total Reserved(MB)")};
}

/// A number that may be blank.
Result<std::optional<std::int64_t>> read_blank_or(std::string_view name, std::string_view text, std::int64_t scale) {
  if (text.empty()) return std::optional<std::int64_t>{};
  const Result<std::int64_t> number = read_scaled(name, text, scale);
  if (!number) return number.error();
  return std::optional(number.value());
}

/// A total that may be blank, of a column that may be missing.
Status read_total(const CsvRow& csv, std::optional<std::size_t> column, std::string_view name,
                  std::optional<Bytes>& total_bytes) {
  if (!column) return {};
  const auto total = read_blank_or(name, csv.fields[*column], kMiB);
  if (!total) return total.error();
  total_bytes = total.value();
  return {};
}

Status read_totals(const CsvRow& csv, const Columns& columns, Row& row) {
  if (Status status = read_total(csv, columns.total, "Allocation Total Allocated(MB)", row.total_bytes); !status)
    return status;
  if (Status status = read_total(csv, columns.reserved, "Allocation Total Reserved(MB)", row.reserved_bytes); !status)
    return status;
  return read_total(csv, columns.reserved_after, "Release Total Reserved(MB)", row.reserved_after_bytes);
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
  if (columns.name) row.name = csv.fields[*columns.name];
  if (Status status = read_totals(csv, columns, row); !status) return status.error();
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

struct Moment {
  std::int64_t ns = 0;
  int rank = 0;  // at one time: frees, then allocations, then frees of what was allocated at that time
  std::size_t row = 0;
  auto key() const { return std::tuple(ns, rank, row); }
};

/// The rows as events in the order of their times.
class RunBuilder {
 public:
  explicit RunBuilder(const std::vector<Row>& rows) : rows_(rows), block_of_(rows.size(), -1) {
    run_.trace.source = "operator_memory";
    add_undescribed(rows, run_.trace);
    run_.origin_of.assign(run_.trace.blocks.size(), -1);
  }

  [[nodiscard]] AttributedTrace build() && {
    std::vector<Moment> moments;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const Row& at = rows_[row];
      if (!at.born_ns) add_block(row);
      if (at.born_ns) moments.push_back({.ns = *at.born_ns, .rank = 1, .row = row});
      if (at.gone_ns) moments.push_back({.ns = *at.gone_ns, .rank = at.gone_ns == at.born_ns ? 2 : 0, .row = row});
    }
    run_.trace.live_at_start = static_cast<std::int32_t>(run_.trace.blocks.size());
    std::ranges::sort(moments, {}, &Moment::key);
    for (const Moment& moment : moments) add_event(moment);
    return std::move(run_);
  }

 private:
  void add_block(std::size_t row) {
    block_of_[row] = static_cast<std::int32_t>(run_.trace.blocks.size());
    run_.trace.blocks.push_back({.bytes = rows_[row].bytes, .stream = rows_[row].stream});
    run_.origin_of.push_back(origin_of(rows_[row].name));
  }
  std::int32_t origin_of(std::string_view name) {
    if (name.empty()) return -1;
    const auto [place, is_new] = origin_rows_.try_emplace(name, static_cast<std::int32_t>(run_.origins.size()));
    if (is_new) run_.origins.push_back({.label = name});
    return place->second;
  }
  void add_event(const Moment& moment) {
    const bool is_alloc = moment.rank == 1;
    if (is_alloc) add_block(moment.row);
    const Row& row = rows_[moment.row];
    if (const auto& reserved = is_alloc ? row.reserved_bytes : row.reserved_after_bytes)
      run_.reserved.push_back({.event = run_.trace.events.size(), .bytes = *reserved});
    run_.trace.events.push_back({.action = is_alloc ? AllocationTrace::Action::alloc : AllocationTrace::Action::free,
                                 .block = block_of_[moment.row]});
  }

  const std::vector<Row>& rows_;
  std::vector<std::int32_t> block_of_;
  std::map<std::string_view, std::int32_t> origin_rows_;
  AttributedTrace run_;
};

}  // namespace

Result<AttributedTrace> read_attributed_operator_memory(std::string_view text, std::string_view file_name) {
  const Result<CsvTable> csv = CsvTable::open(text, file_name);
  if (!csv) return csv.error();
  const Result<Columns> columns = find_columns(csv.value());
  if (!columns) return columns.error();
  const Result<Rows> rows = read_rows(csv.value(), columns.value());
  if (!rows) return rows.error();
  AttributedTrace run = RunBuilder(rows.value().rows).build();
  auto& notes = run.trace.notes;
  if (rows.value().empty > 0) notes.push_back(fmt::format("{} rows of size 0 are not used", rows.value().empty));
  if (rows.value().elsewhere > 0)
    notes.push_back(fmt::format("{} rows of other devices ({}, ...) are not used; those of {} are",
                                rows.value().elsewhere, shown(rows.value().other_device), shown(rows.value().device)));
  return run;
}

Result<AllocationTrace> read_operator_memory(std::string_view text, std::string_view file_name) {
  Result<AttributedTrace> run = read_attributed_operator_memory(text, file_name);
  if (!run) return run.error();
  return std::move(run.value().trace);
}

}  // namespace tidemark::formats
