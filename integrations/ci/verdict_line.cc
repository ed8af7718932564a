#include "integrations/ci/verdict_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/bytes.h"
#include "integrations/ci/date.h"
#include "integrations/ci/rank_presence.h"
#include "integrations/ci/tolerance_text.h"
#include "integrations/formats/shown.h"
#include "planner/budget/growth.h"

namespace tidemark::ci {
namespace {

/// `FAIL pangu rank 3 (pp3): `.
std::string head_of(const BudgetJob& job, budget::Verdict verdict, const budget::RankHoldings* rank) {
  std::string head{budget::word_of(verdict)};
  if (!job.name.empty()) head += " " + job.name;
  if (rank != nullptr) head += fmt::format(" rank {}", rank->rank);
  if (rank != nullptr && !rank->place.empty()) head += fmt::format(" ({})", rank->place);
  return head + ": ";
}

/// Planned figures are those of the plan itself; the others say what they are.
std::string basis_prefix(budget::Basis basis) {
  return basis == budget::Basis::planned ? std::string() : std::string(budget::word_of(basis)) + " ";
}

/// What the limit of a finding is called.
std::string_view most_name_of(FindingKind kind) {
  switch (kind) {
    case FindingKind::device:
      return "budget";
    case FindingKind::host:
      return "host budget";
    case FindingKind::growth:
      return "baseline";
    case FindingKind::limit:
    case FindingKind::rank:
    case FindingKind::program:
    case FindingKind::nothing:
      break;
  }
  return "limit";
}

std::string place_of_peak(const budget::RankHoldings& rank) {
  if (!rank.peak_at.empty()) return " at " + rank.peak_at;
  return rank.peak_phase ? fmt::format(" at {}", budget::word_of(*rank.peak_phase)) : std::string();
}

/// What is below the limit as far as it is known.
std::string untold_reason(const budget::Holdings& holdings, const budget::Limit& limit) {
  Bytes other_bytes = 0;
  if (limit.category)
    for (std::size_t row = 0; row < holdings.ranks.size(); ++row)
      if (limit.ranks.holds(holdings, row) && budget::most_of(holdings.ranks[row], *limit.category))
        other_bytes =
            std::max(other_bytes, holdings.ranks[row].by_category[static_cast<std::size_t>(budget::Category::other)]);
  if (other_bytes > 0) return fmt::format("; up to {} of category other may be of it", format_bytes(other_bytes));
  return fmt::format("; not all it is for was looked at: {}", why_not_held(holdings, limit));
}

/// Growth that its percent, as it is shown, would call allowed.
std::string excess_text(Bytes excess_bytes, Bytes before_bytes) {
  constexpr Bytes kShownParts = 500;  // a change of less than 0.2 % may be rounded away
  if (excess_bytes >= before_bytes / kShownParts) return {};
  return fmt::format(", {} less than this", format_bytes(excess_bytes));
}

/// Why a finding below its limit is NEAR all the same.
std::string near_reason(const budget::Holdings& holdings, const JobFinding& finding, const budget::Limit& limit) {
  if (!holdings.is_understood) return doubt_text(holdings);
  const Bytes near = limit.near.of(limit.most_bytes);
  if (near >= limit.most_bytes && finding.bytes > 0)
    return fmt::format("; the tolerance of {} is no less than the limit itself", tolerance_text(limit.near));
  if (finding.bytes > limit.most_bytes - near)
    return fmt::format(", within the tolerance of {}", tolerance_text(limit.near));
  if (finding.band_bytes > 0 && finding.bytes > limit.most_bytes - finding.band_bytes)
    return fmt::format(", within the error band of {:.1f} %{}", holdings.band_percent,
                       limit.category || limit.phase ? " of the peak" : "");
  return untold_reason(holdings, limit);
}

std::string waiver_text(const BudgetJob& job, const JobFinding& finding) {
  if (!finding.waiver || finding.effect == WaiverEffect::none) return {};
  const Waiver& waiver = job.waivers[*finding.waiver];
  const std::string most = format_bytes(waiver.at_most_bytes), day = date_text(waiver.expires);
  switch (finding.effect) {
    case WaiverEffect::waived:
      return fmt::format("; waived by {} up to {} through {}: {}", waiver.owner, most, day, waiver.reason);
    case WaiverEffect::expired:
      return fmt::format("; the waiver of {} expired on {}", waiver.owner, day);
    case WaiverEffect::exceeded:
      return fmt::format("; the waiver of {} allows {}", waiver.owner, most);
    case WaiverEffect::none:
      break;
  }
  return {};
}

}  // namespace

std::string doubt_text(const budget::Holdings& holdings) {
  const std::string said = "; not all of its input was understood, so nothing says how far off this is";
  if (holdings.doubts.empty()) return said;
  const std::size_t others = holdings.doubts.size() - 1;
  return fmt::format("{}: {}{}", said, holdings.doubts.front(),
                     others == 0 ? "" : fmt::format(" (and {} more, in the notes)", others));
}

std::string change_text(Bytes before, Bytes after) {
  const double percent = budget::percent_above(before, after);
  return std::isfinite(percent) ? fmt::format("{:+.1f} %", percent) : "from nothing";
}

std::string distance_text(Bytes bytes, std::string_view most_name, Bytes most_bytes) {
  const std::string size = format_bytes(bytes), most = format_bytes(most_bytes);
  if (bytes == most_bytes) return fmt::format("{} equals {} {}", size, most_name, most);
  if (bytes > most_bytes)
    return fmt::format("{} exceeds {} {} by {} ({})", size, most_name, most, format_bytes(bytes - most_bytes),
                       change_text(most_bytes, bytes));
  return fmt::format("{} is {} below {} {} ({})", size, format_bytes(most_bytes - bytes), most_name, most,
                     change_text(most_bytes, bytes));
}

std::string subject_of(const budget::Limit& limit) {
  if (limit.is_host) return "host memory";
  if (limit.phase) return fmt::format("peak of {}", budget::word_of(*limit.phase));
  if (limit.category) return fmt::format("category {}", budget::word_of(*limit.category));
  return "peak";
}

std::string limit_line(const BudgetJob& job, const budget::Holdings& holdings, const JobFinding& finding,
                       const budget::Limit& limit) {
  if (!finding.rank)
    return rankless_line(job, finding.verdict,
                         fmt::format("{} {} for {} is held against no rank: {}", most_name_of(finding.kind),
                                     format_bytes(finding.most_bytes), finding.subject, why_not_held(holdings, limit)));
  const budget::RankHoldings& rank = holdings.ranks[*finding.rank];
  std::string line = head_of(job, finding.verdict, &rank) + basis_prefix(holdings.basis) + finding.subject + " " +
                     distance_text(finding.bytes, most_name_of(finding.kind), finding.most_bytes);
  const bool is_exceeded = finding.bytes > finding.most_bytes;
  if (is_exceeded && finding.kind == FindingKind::device) line += place_of_peak(rank);
  if (!is_exceeded && finding.verdict == budget::Verdict::near) line += near_reason(holdings, finding, limit);
  return formats::printable(line + waiver_text(job, finding));
}

std::string growth_line(const BudgetJob& job, const budget::Holdings& holdings, const JobFinding& finding,
                        const std::optional<Spread>& spread) {
  const budget::RankHoldings& rank = holdings.ranks[*finding.rank];
  std::string line = head_of(job, finding.verdict, &rank) + basis_prefix(holdings.basis) + finding.subject + " " +
                     distance_text(finding.bytes, most_name_of(finding.kind), *finding.before_bytes);
  if (finding.bytes > finding.most_bytes) {
    line += fmt::format("; growth of {} is allowed{}", tolerance_text(job.growth),
                        excess_text(finding.bytes - finding.most_bytes, *finding.before_bytes));
    if (spread && finding.verdict == budget::Verdict::near && finding.effect == WaiverEffect::none)
      line += fmt::format(", and this is no more than runs differ ({} to {})", format_bytes(spread->least_bytes),
                          format_bytes(spread->most_bytes));
  } else if (!holdings.is_understood) {
    line += doubt_text(holdings);
  }
  return formats::printable(line + waiver_text(job, finding));
}

std::string rankless_line(const BudgetJob& job, budget::Verdict verdict, std::string_view why) {
  return formats::printable(head_of(job, verdict, nullptr) + std::string(why));
}

}  // namespace tidemark::ci
