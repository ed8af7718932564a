#include "integrations/replay/replay_report.h"

#include <fmt/format.h>

#include "integrations/formats/json_text.h"
#include "integrations/formats/text_table.h"

namespace tidemark::replay {
namespace {

double percent(Bytes part, Bytes whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 100.0;
}

/// Whole granules that peak reserved has more than the live bytes need.
std::int64_t granules_above(const ReplayFigures& replay, Bytes peak_bytes) {
  return (replay.peak_reserved_bytes - peak_bytes) / replay.granule_bytes;
}

std::string planned_line(const ReplayFigures::Planned& planned) {
  return fmt::format(
      "planned: height {} by {}, {:.2f} % of the load {}; {} requests served from the plan, {} not planned\n",
      format_bytes(planned.height_bytes), planned.packer, percent(planned.height_bytes, planned.load_bytes),
      format_bytes(planned.load_bytes), planned.served, planned.not_planned);
}

}  // namespace

std::string replay_text(const ReplayReport& report) {
  const formats::AllocationTrace& trace = *report.trace;
  const formats::TraceFigures figures = formats::figures_of(trace);
  std::string text = fmt::format(
      "{}: {}, {} allocations, {} frees, {} streams\n"
      "live: {} at the start in {} blocks, peak {} ({} B), {} at the end\n\n",
      report.file, trace.source, figures.allocs, figures.frees, formats::count_streams(trace),
      format_bytes(figures.start_bytes), trace.live_at_start, format_bytes(figures.peak_bytes), figures.peak_bytes,
      format_bytes(figures.end_bytes));
  formats::TextTable table({"allocator", "peak reserved", "peak live / reserved", "granules above",
                            "reserved at the end", "ns per operation"},
                           {0});
  for (const ReplayFigures& replay : report.replays) {
    if (!replay.no_room.empty()) {
      table.add({replay.allocator, "does not fit", "-", "-", "-", "-"});
      continue;
    }
    table.add({replay.allocator, format_bytes(replay.peak_reserved_bytes),
               fmt::format("{:.2f} %", percent(figures.peak_bytes, replay.peak_reserved_bytes)),
               fmt::format("{}", granules_above(replay, figures.peak_bytes)), format_bytes(replay.end_reserved_bytes),
               replay.timed_passes > 0 ? fmt::format("{:.1f}", replay.ns_per_operation) : "-"});
  }
  text += table.text() + "\n";
  for (const ReplayFigures& replay : report.replays) {
    if (!replay.no_room.empty()) text += fmt::format("{} does not fit: {}\n", replay.allocator, replay.no_room);
  }
  for (const ReplayFigures& replay : report.replays)
    if (replay.planned && replay.no_room.empty()) text += planned_line(*replay.planned);
  if (!report.replays.empty())
    text += fmt::format(
        "Reserved: simulated, on {} with granules of {}. ns: measured on this machine, best pass over the warm\n"
        "allocator, an operation being one allocation or one free.\n",
        report.replays.front().device, format_bytes(report.replays.front().granule_bytes));
  for (const std::string& note : trace.notes) text += fmt::format("note: {}\n", note);
  return text;
}

std::string replay_json(const ReplayReport& report) {
  const formats::AllocationTrace& trace = *report.trace;
  const formats::TraceFigures figures = formats::figures_of(trace);
  std::string text;
  formats::JsonText json(text);
  const auto member = [&json](std::string_view name, auto value) {
    json.key(name);
    json.value(value);
  };
  json.open_object();
  json.key("trace");
  json.open_object();
  member("file", std::string_view(report.file));
  member("kind", std::string_view(trace.source));
  member("allocations", figures.allocs);
  member("frees", figures.frees);
  member("streams", formats::count_streams(trace));
  member("blocks_at_start", trace.live_at_start);
  member("start_bytes", figures.start_bytes);
  member("peak_live_bytes", figures.peak_bytes);
  member("end_bytes", figures.end_bytes);
  json.key("notes");
  json.open_list();
  for (const std::string& note : trace.notes) json.value(std::string_view(note));
  json.close_list();
  json.close_object();
  json.key("replays");
  json.open_list();
  for (const ReplayFigures& replay : report.replays) {
    json.line();
    json.open_object();
    member("allocator", std::string_view(replay.allocator));
    member("device", std::string_view(replay.device));
    member("simulated", true);
    member("fits", replay.no_room.empty());
    json.key("no_room");
    replay.no_room.empty() ? json.null() : json.value(std::string_view(replay.no_room));
    member("granule_bytes", replay.granule_bytes);
    member("peak_reserved_bytes", replay.peak_reserved_bytes);
    member("peak_live_percent", percent(figures.peak_bytes, replay.peak_reserved_bytes));
    member("granules_above", granules_above(replay, figures.peak_bytes));
    member("end_reserved_bytes", replay.end_reserved_bytes);
    member("measured_ns_per_operation", replay.ns_per_operation);
    member("timed_passes", replay.timed_passes);
    json.key("planned");
    if (replay.planned) {
      json.open_object();
      member("packer", std::string_view(replay.planned->packer));
      member("height_bytes", replay.planned->height_bytes);
      member("load_bytes", replay.planned->load_bytes);
      member("served", replay.planned->served);
      member("not_planned", replay.planned->not_planned);
      json.close_object();
    } else {
      json.null();
    }
    json.close_object();
  }
  json.close_list();
  json.close_object();
  return text + "\n";
}

}  // namespace tidemark::replay
