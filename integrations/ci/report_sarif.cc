#include "integrations/ci/report_sarif.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "integrations/ci/case_text.h"
#include "integrations/ci/content_hash.h"
#include "integrations/ci/json_parts.h"
#include "integrations/ci/safe_text.h"
#include "integrations/formats/shown.h"

namespace tidemark::ci {
namespace {

constexpr std::string_view kSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

void write_message(JsonParts& parts, std::string_view name, std::string_view text) {
  parts.object(name, [&] { parts.text("text", text); });
}

void write_driver(JsonParts& parts, const Report& report) {
  parts.object("tool", [&] {
    parts.object("driver", [&] {
      parts.text("name", "tidemark");
      if (!report.tool_version.empty()) parts.text("version", report.tool_version);
      parts.list("rules", kReportRules, [&](const ReportRule& rule) {
        parts.row([&] {
          parts.text("id", rule.id);
          write_message(parts, "shortDescription", rule.text);
        });
      });
    });
  });
}

/// REQUIRES: a file.
void write_physical_location(JsonParts& parts, const budget::Control& where) {
  parts.object("physicalLocation", [&] {
    parts.object("artifactLocation", [&] { parts.text("uri", uri_of_path(where.file)); });
    if (where.line > 0) parts.object("region", [&] { parts.number("startLine", where.line); });
  });
}

void write_location(JsonParts& parts, const budget::Control& where) {
  const std::vector<budget::Control> places(where.file.empty() ? 0 : 1, where);
  parts.list("locations", places,
             [&](const budget::Control& place) { parts.object([&] { write_physical_location(parts, place); }); });
}

/// Lines to change.
void write_edits(JsonParts& parts, const std::vector<ReportEdit>& edits) {
  if (edits.empty()) return;
  parts.list("relatedLocations", edits, [&](const ReportEdit& edit) {
    parts.object([&] {
      write_physical_location(parts, edit.where);
      write_message(parts, "message", edit.text);
    });
  });
}

struct SarifResult {
  std::string_view rule;
  std::string_view level;  ///< error, warning, note
  std::string_view message;
  std::string identity;  ///< the same in every run that finds the same: a job and what was checked
  budget::Control where;
  std::vector<ReportEdit> edits;
  bool is_waived = false;
};

void write_suppression(JsonParts& parts, const SarifResult& result) {
  parts.json().key("suppressions");
  parts.json().open_list();
  parts.object([&] {
    parts.text("kind", "external");
    parts.text("justification", result.message);
  });
  parts.json().close_list();
}

void write_result(JsonParts& parts, const SarifResult& result) {
  const auto rule = std::ranges::find(kReportRules, result.rule, &ReportRule::id);
  parts.row([&] {
    parts.text("ruleId", result.rule);
    parts.number("ruleIndex", rule - kReportRules.begin());
    parts.text("level", result.level);
    write_message(parts, "message", result.message);
    write_location(parts, result.where);
    write_edits(parts, result.edits);
    parts.object("partialFingerprints", [&] { parts.text("tidemark/v1", hash_text(fnv1a64(result.identity))); });
    if (result.is_waived) write_suppression(parts, result);
  });
}

void write_section(JsonParts& parts, const Report& report, const ReportSection& section) {
  for (const ReportCase& found : section.cases) {
    if (found.verdict == GateVerdict::pass) continue;
    write_result(parts, {.rule = found.rule,
                         .level = is_failure(report, found.verdict) ? "error" : "warning",
                         .message = line_with_remedy(section, found),
                         .identity = section.name + "\n" + found.name,
                         .where = found.where,
                         .edits = is_mended(found) ? section.edits : std::vector<ReportEdit>(),
                         .is_waived = found.is_waived});
  }
  const budget::Control where = section.cases.empty() ? budget::Control{} : section.cases.front().where;
  for (const std::string& notice : section.notices)
    write_result(parts, {.rule = "notice",
                         .level = "note",
                         .message = notice,
                         .identity = section.name + "\nnotice\n" + notice,
                         .where = where,
                         .edits = {}});
}

}  // namespace

std::string sarif_report(const Report& report) {
  std::string text;
  JsonParts parts(text);
  parts.object([&] {
    parts.json().line();
    parts.text("$schema", kSchema);
    parts.json().line();
    parts.text("version", "2.1.0");
    parts.json().line();
    parts.json().key("runs");
    parts.json().open_list();
    parts.object([&] {
      write_driver(parts, report);
      parts.json().line();
      parts.list("results", report.sections,
                 [&](const ReportSection& section) { write_section(parts, report, section); });
    });
    parts.json().close_list();
    parts.json().line();
  });
  return formats::without_turns(text) + "\n";
}

}  // namespace tidemark::ci
