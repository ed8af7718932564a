#include "integrations/formats/import_trace.h"

#include <fmt/format.h>

#include <cassert>

#include "integrations/formats/csv_table.h"
#include "integrations/formats/import_minimalloc_csv.h"
#include "integrations/formats/import_operator_memory.h"
#include "integrations/formats/import_rmm_log.h"
#include "integrations/formats/import_snapshot.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr std::string_view kKinds = "a pickled memory snapshot, operator_memory.csv, minimalloc CSV or an RMM log";

/// Protocols from 2 on start with their number; what older ones start a dict with is no header of a table.
bool looks_pickled(std::string_view bytes) {
  return bytes.starts_with('\x80') || bytes.starts_with('}') || bytes.starts_with("(d") || bytes.starts_with("(l");
}

/// Well-known containers that are not traces but may hold one.
Status check_container(std::string_view bytes, std::string_view file) {
  if (bytes.starts_with("PK\x03\x04"))
    return bad_input(fmt::format("{}:1: it is a zip archive; unpack it first", file));
  if (bytes.starts_with("\x1f\x8b")) return bad_input(fmt::format("{}:1: it is compressed; unpack it first", file));
  if (bytes.starts_with('{') || bytes.starts_with('['))
    return bad_input(fmt::format("{}:1: it is JSON; a trace is {}", file, kKinds));
  return {};
}

Result<AllocationTrace> read_table(std::string_view text, std::string_view file) {
  const Result<CsvTable> csv = CsvTable::open(text, file);
  if (!csv) return csv.error();
  const auto has = [&](std::string_view name) { return csv.value().find(name).has_value(); };
  if (has("Allocation Time(us)") || has("Size(KB)")) return read_operator_memory(text, file);
  if (has("Action") || has("Pointer")) return read_rmm_log(text, file);
  if (has("lower") || has("upper") || (has("start") && has("end"))) {
    const Result<IntervalTable> table = read_minimalloc_csv(text, file);
    if (!table) return table.error();
    return trace_of(table.value());
  }
  return csv.value().wrong(1, fmt::format("the first line starts with {}, which no known trace does; a trace is {}",
                                          shown(csv.value().header().front()), kKinds));
}

}  // namespace

Result<AllocationTrace> read_trace(std::string_view bytes, std::string_view file_name) {
  if (Status status = check_container(bytes, file_name); !status) return status.error();
  Result<AllocationTrace> trace = looks_pickled(bytes) ? read_snapshot(bytes, file_name) : read_table(bytes, file_name);
  if (!trace) return trace;
  assert(!find_fault(trace.value()));
  if (trace.value().events.empty())
    return bad_input(fmt::format("{}:1: the trace holds no allocation and no free", file_name));
  return trace;
}

}  // namespace tidemark::formats
