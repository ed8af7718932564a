#include "integrations/formats/import_op_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "integrations/formats/csv_table.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr std::int64_t kNsPerUs = 1000;

/// What the profiler calls tasks that are no computation: collectives of HCCL and their parts.
bool is_communication(std::string_view core) {
  return core == "HCCL" || core == "COMMUNICATION" || core == "SDMA" || core == "N/A";
}

Result<ComputeTime> average(double total_ns, std::int64_t steps, std::int64_t rows, std::string_view file_name) {
  if (rows == 0 || total_ns <= 0)
    return bad_input(fmt::format("{}: holds no compute time; a profile of at least one step is needed", file_name));
  steps = std::max<std::int64_t>(steps, 1);
  return ComputeTime{.step_ns = total_ns / static_cast<double>(steps), .steps = steps, .rows = rows};
}

}  // namespace

Result<ComputeTime> read_kernel_details(std::string_view text, std::string_view file_name) {
  const Result<CsvTable> csv = CsvTable::open(text, file_name);
  if (!csv) return csv.error();
  const Result<std::size_t> duration = csv.value().get("Duration(us)");
  if (!duration) return duration.error();
  std::optional<std::size_t> step = csv.value().find("Step Id");
  if (!step) step = csv.value().find("Step ID");
  const std::optional<std::size_t> core = csv.value().find("Accelerator Core");
  double total_ns = 0;
  std::int64_t rows = 0;
  std::set<std::string_view> steps;
  const Status status = csv.value().for_each([&](const CsvRow& row) -> Status {
    if (core && is_communication(row.fields[*core])) return {};
    // A kernel outside every step (a blank id) belongs to none of those that are averaged.
    if (step && row.fields[*step].empty()) return {};
    const Result<std::int64_t> ns = read_scaled("Duration(us)", row.fields[duration.value()], kNsPerUs);
    if (!ns) return ns.error();
    if (step) steps.insert(row.fields[*step]);
    total_ns += static_cast<double>(ns.value());
    ++rows;
    return {};
  });
  if (!status) return status.error();
  return average(total_ns, static_cast<std::int64_t>(steps.size()), rows, file_name);
}

Result<ComputeTime> read_step_trace_time(std::string_view text, std::string_view file_name) {
  const Result<CsvTable> csv = CsvTable::open(text, file_name);
  if (!csv) return csv.error();
  const Result<std::size_t> computing = csv.value().get("Computing");
  if (!computing) return computing.error();
  const std::optional<std::size_t> device = csv.value().find("Device_id");
  std::string first_device;
  double total_ns = 0;
  std::int64_t rows = 0;
  const Status status = csv.value().for_each([&](const CsvRow& row) -> Status {
    const Result<std::int64_t> ns = read_scaled("Computing", row.fields[computing.value()], kNsPerUs);
    if (!ns) return ns.error();
    if (device && rows == 0) first_device = row.fields[*device];
    if (device && row.fields[*device] != first_device)
      return bad_input(fmt::format("device {} beside device {}: a profile is of one; keep the rows of one Device_id",
                                   shown(row.fields[*device]), shown(first_device)));
    total_ns += static_cast<double>(ns.value());
    ++rows;
    return {};
  });
  if (!status) return status.error();
  return average(total_ns, rows, rows, file_name);
}

}  // namespace tidemark::formats
