#include "integrations/formats/import_memory_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "integrations/formats/csv_table.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr std::size_t kMostComponents = 1000;
constexpr std::int64_t kNsPerUs = 1000;
constexpr Bytes kMostRecordedBytes = std::int64_t{1} << 50;  // so that sums over components are exact

/// A column of sizes, whose name says its unit.
struct SizeColumn {
  std::string name;
  std::size_t at = 0;
  Bytes unit_bytes = 0;
};

struct Columns {
  std::size_t component = 0, time = 0;
  SizeColumn reserved;
  std::optional<SizeColumn> allocated;
  std::optional<std::size_t> device;
};

std::optional<SizeColumn> find_size(const CsvTable& csv, std::string_view name) {
  for (const auto& [unit, unit_bytes] : {std::pair("(MB)", kMiB), std::pair("(KB)", kKiB)}) {
    const std::string column = fmt::format("{}{}", name, unit);
    if (const auto at = csv.find(column)) return SizeColumn{.name = column, .at = *at, .unit_bytes = unit_bytes};
  }
  return std::nullopt;
}

Result<Columns> find_columns(const CsvTable& csv) {
  const Result<std::size_t> component = csv.get("Component");
  if (!component) return component.error();
  const Result<std::size_t> time = csv.get("Timestamp(us)");
  if (!time) return time.error();
  const std::optional<SizeColumn> reserved = find_size(csv, "Total Reserved");
  if (!reserved) return csv.get("Total Reserved(MB)").error();
  const auto device = csv.find("Device Type");
  return Columns{.component = component.value(),
                 .time = time.value(),
                 .reserved = *reserved,
                 .allocated = find_size(csv, "Total Allocated"),
                 .device = device ? device : csv.find("Device")};
}

/// Nothing: the field is blank or negative.
Result<std::optional<Bytes>> read_size(const CsvRow& row, const SizeColumn& column) {
  const std::string_view text = row.fields[column.at];
  if (text.empty() || text.front() == '-') return std::optional<Bytes>{};
  const Result<std::int64_t> bytes = read_scaled(column.name, text, column.unit_bytes);
  if (!bytes) return bytes.error();
  if (bytes.value() > kMostRecordedBytes)
    return bad_input(fmt::format("{} is {}; it must be at most 2^50 bytes", column.name, shown(text)));
  return std::optional(bytes.value());
}

class RecordReader {
 public:
  explicit RecordReader(const Columns& columns) : columns_(columns) {}

  [[nodiscard]] Status add(const CsvRow& row) {
    const std::string_view device = columns_.device ? row.fields[*columns_.device] : std::string_view();
    if (!device_) device_ = device;
    if (device != *device_) {
      if (elsewhere_++ == 0) other_device_ = device;
      return {};
    }
    const std::string_view name = row.fields[columns_.component];
    if (name.empty()) return bad_input("Component is blank; it must name one, as PTA or APP");
    const Result<std::int64_t> time = read_scaled("Timestamp(us)", row.fields[columns_.time], kNsPerUs);
    if (!time) return time.error();
    const auto reserved = read_size(row, columns_.reserved);
    if (!reserved) return reserved.error();
    if (!reserved.value()) {
      ++without_total_;
      return {};
    }
    ComponentSample sample{.time_ns = time.value(), .reserved_bytes = *reserved.value()};
    if (columns_.allocated) {
      const auto allocated = read_size(row, *columns_.allocated);
      if (!allocated) return allocated.error();
      sample.allocated_bytes = allocated.value();
    }
    samples_[name].push_back(sample);
    if (samples_.size() > kMostComponents)
      return bad_input(fmt::format("there are more than {} components", kMostComponents));
    return {};
  }

  [[nodiscard]] MemoryRecord take() && {
    MemoryRecord record;
    for (auto& [name, samples] : samples_) {
      std::ranges::stable_sort(samples, {}, &ComponentSample::time_ns);
      record.components.push_back({.name = printable(name), .samples = std::move(samples)});
    }
    if (without_total_ > 0) record.notes.push_back(fmt::format("{} rows without a total are not used", without_total_));
    if (elsewhere_ > 0)
      record.notes.push_back(fmt::format("{} rows of other devices ({}, ...) are not used; those of {} are", elsewhere_,
                                         shown(other_device_), shown(*device_)));
    return record;
  }

 private:
  const Columns& columns_;
  std::map<std::string_view, std::vector<ComponentSample>> samples_;
  std::optional<std::string_view> device_;
  std::string_view other_device_;
  std::int64_t elsewhere_ = 0, without_total_ = 0;
};

}  // namespace

const MemoryRecord::Component* MemoryRecord::find(std::string_view name) const {
  const auto found = std::ranges::find(components, name, &Component::name);
  return found == components.end() ? nullptr : &*found;
}

Result<MemoryRecord> read_memory_record(std::string_view text, std::string_view file_name) {
  const Result<CsvTable> csv = CsvTable::open(text, file_name);
  if (!csv) return csv.error();
  const Result<Columns> columns = find_columns(csv.value());
  if (!columns) return columns.error();
  RecordReader reader(columns.value());
  if (Status status = csv.value().for_each([&](const CsvRow& row) { return reader.add(row); }); !status)
    return status.error();
  MemoryRecord record = std::move(reader).take();
  if (record.components.empty()) return csv.value().wrong(csv.value().header_line(), "no row has a total");
  return record;
}

}  // namespace tidemark::formats
