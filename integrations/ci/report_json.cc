#include "integrations/ci/report_json.h"

#include "integrations/ci/date.h"
#include "integrations/ci/json_parts.h"

namespace tidemark::ci {
namespace {

void write_waiver(JsonParts& parts, const JobResult& job, const JobFinding& finding) {
  if (!finding.waiver || *finding.waiver >= job.job.waivers.size()) return parts.null("waiver");
  const Waiver& waiver = job.job.waivers[*finding.waiver];
  parts.object("waiver", [&] {
    parts.text("effect", word_of(finding.effect));
    parts.text("owner", waiver.owner);
    parts.text("reason", waiver.reason);
    parts.text("expires", date_text(waiver.expires));
    parts.number("at_most_bytes", waiver.at_most_bytes);
    parts.number("line", waiver.line);
  });
}

void write_finding(JsonParts& parts, const JobResult& job, const JobFinding& finding) {
  parts.row([&] {
    parts.text("kind", word_of(finding.kind));
    parts.text("verdict", budget::word_of(finding.verdict));
    parts.text("line", finding.line);
    parts.text("subject", finding.subject);
    const bool has_rank = finding.rank && *finding.rank < job.holdings.ranks.size();
    parts.bytes("rank", has_rank ? std::optional(job.holdings.ranks[*finding.rank].rank) : std::nullopt);
    parts.number("bytes", finding.bytes);
    parts.number("most_bytes", finding.most_bytes);
    parts.number("band_bytes", finding.band_bytes);
    parts.bytes("before_bytes", finding.before_bytes);
    write_waiver(parts, job, finding);
    parts.control("where", finding.where);
    parts.changed(finding.changed);
  });
}

void write_predicted(JsonParts& parts, const JobResult& job) {
  if (!job.predicted) return parts.null("predicted");
  parts.object("predicted", [&] {
    parts.text("basis", budget::word_of(job.predicted->basis));
    parts.text("source", job.predicted->source);
    parts.number("band_percent", job.predicted->band_percent);
    parts.ranks("ranks", job.predicted->ranks);
  });
}

void write_holdings(JsonParts& parts, const JobResult& job) {
  const bool is_read = !job.holdings.ranks.empty();
  parts.text_or_null("basis", is_read ? budget::word_of(job.holdings.basis) : std::string_view());
  parts.text("source", job.holdings.source);
  parts.number("band_percent", job.holdings.band_percent);
  parts.number("understood", job.holdings.is_understood);
  parts.texts("notes", job.holdings.notes);
  parts.ranks("ranks", job.holdings.ranks);
  const budget::RankHoldings* rank = is_read ? &explained_rank(job) : nullptr;
  parts.bytes("contributors_of_rank", is_read ? std::optional(rank->rank) : std::nullopt);
  parts.contributors("contributors", is_read ? rank->storages : std::vector<budget::HeldStorage>());
}

void write_job(JsonParts& parts, const JobResult& job) {
  parts.row([&] {
    parts.text("name", job.job.name);
    parts.text("kind", word_of(job.job.kind));
    parts.text("file", job.job.file);
    parts.text("verdict", word_of(verdict_of(job)));
    parts.text_or_null("error", job.error);
    parts.json().line();
    parts.list("findings", job.findings, [&](const JobFinding& finding) { write_finding(parts, job, finding); });
    parts.texts("notices", job.notices);
    parts.json().line();
    write_holdings(parts, job);
    parts.json().line();
    job.growth ? parts.growth("growth", *job.growth) : parts.null("growth");
    parts.remedy("remedy", job.remedy);
    write_predicted(parts, job);
  });
}

void write_counts(JsonParts& parts, const GateCounts& counts) {
  parts.object("counts", [&] {
    parts.number("pass", counts.pass);
    parts.number("near", counts.near);
    parts.number("fail", counts.fail);
    parts.number("error", counts.error);
    parts.number("waived", counts.waived);
  });
}

void write_side(JsonParts& parts, std::string_view name, const DiffSide& side) {
  parts.object(name, [&] {
    parts.text("label", side.label);
    parts.text("basis", budget::word_of(side.basis));
  });
}

void write_allowed(JsonParts& parts, const std::optional<budget::Tolerance>& allowed) {
  if (!allowed) return parts.null("allowed_growth");
  parts.object("allowed_growth", [&] {
    parts.number("percent", allowed->percent);
    parts.number("bytes", allowed->bytes);
  });
}

void write_plans(JsonParts& parts, const std::optional<formats::PlanDiff>& plans) {
  parts.json().line();
  if (!plans) return parts.null("plans");
  std::string text = formats::diff_json(*plans);
  text.erase(text.find_last_not_of('\n') + 1);
  parts.json().key("plans");
  parts.json().raw() += text;
}

/// The members of a report, the first and the last on lines of their own.
template <class Write>
std::string document(const Write& write) {
  std::string text;
  JsonParts parts(text);
  parts.object([&] {
    parts.json().line();
    write(parts);
    parts.json().line();
  });
  return text + "\n";
}

}  // namespace

std::string json_report(const GateResult& result) {
  return document([&](JsonParts& parts) {
    parts.text("schema", kCheckSchema);
    parts.text("tool_version", result.tool_version);
    parts.text_or_null("budget_file", result.budget_file);
    parts.text("verdict", word_of(verdict_of(result)));
    parts.number("strict", result.is_strict);
    write_counts(parts, counts_of(result));
    parts.json().line();
    parts.list("jobs", result.jobs, [&](const JobResult& job) { write_job(parts, job); });
  });
}

std::string json_report(const DiffResult& result) {
  return document([&](JsonParts& parts) {
    parts.text("schema", kDiffSchema);
    parts.text("tool_version", result.tool_version);
    parts.text("verdict", budget::word_of(result.verdict));
    parts.text("line", result.line);
    write_side(parts, "before", result.before);
    write_side(parts, "after", result.after);
    write_allowed(parts, result.allowed);
    parts.changed(result.changed);
    parts.texts("notes", result.notes);
    parts.json().line();
    parts.growth("growth", result.growth);
    write_plans(parts, result.plans);
  });
}

}  // namespace tidemark::ci
