#include "integrations/ci/judgement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "integrations/ci/changed_control.h"
#include "integrations/ci/control_texts.h"
#include "integrations/ci/grown_rank.h"
#include "integrations/ci/lowered_budget.h"
#include "integrations/ci/missing_rank.h"
#include "integrations/ci/verdict_line.h"
#include "integrations/ci/waiver_match.h"
#include "integrations/ci/waiver_table.h"
#include "integrations/formats/shown.h"
#include "planner/budget/comparison.h"
#include "planner/budget/growth.h"

namespace tidemark::ci {
namespace {

struct HeldLimit {
  FindingKind kind = FindingKind::limit;
  budget::Limit limit;
};

/// Device memory that the job may fill; nothing: neither the job nor its device says.
std::optional<Bytes> device_budget_of(const JobInput& input) {
  const std::optional<Bytes> capacity =
      input.job.capacity_bytes ? input.job.capacity_bytes : input.device_capacity_bytes;
  if (!capacity) return std::nullopt;
  return std::max<Bytes>(*capacity - kept_of_capacity(input), 0);
}

std::vector<HeldLimit> held_limits_of(const JobInput& input) {
  std::vector<HeldLimit> held;
  if (const std::optional<Bytes> most = device_budget_of(input))
    held.push_back({.kind = FindingKind::device,
                    .limit = {.most_bytes = *most, .near = input.job.near, .line = input.job.line_of("capacity")}});
  if (input.job.host_bytes)
    held.push_back(
        {.kind = FindingKind::host,
         .limit = {.is_host = true,
                   .most_bytes = *input.job.host_bytes,
                   // Plans fill pinned memory on purpose: nothing is near.
                   .near = input.holdings.basis == budget::Basis::planned ? budget::Tolerance{} : input.job.near,
                   .line = input.job.line_of("host")}});
  for (const budget::Limit& limit : input.job.limits) held.push_back({.kind = FindingKind::limit, .limit = limit});
  return held;
}

/// Largest first; the reserve behind them, as what a device needs is no choice of the job. But where there is no room
/// beside the reserve, it comes first.
std::vector<const budget::HeldStorage*> by_blame(const budget::RankHoldings& rank, const budget::Limit& limit) {
  std::vector<const budget::HeldStorage*> storages;
  for (const budget::HeldStorage& storage : rank.storages)
    if (!limit.is_host && (!limit.category || storage.category == *limit.category)) storages.push_back(&storage);
  const Bytes reserve = rank.by_category[static_cast<std::size_t>(budget::Category::reserve)];
  const bool has_room = reserve < limit.most_bytes;
  std::ranges::stable_partition(storages, [&](const budget::HeldStorage* storage) {
    return (storage->category != budget::Category::reserve) == has_room;
  });
  return storages;
}

/// Where a person changes most of what is held: the line of the largest storage that has one.
budget::Control control_of(const JobInput& input, const budget::RankHoldings& rank, const budget::Limit& limit) {
  for (const budget::HeldStorage* storage : by_blame(rank, limit))
    for (const budget::Control& control : storage->controls)
      if (is_placed(control)) return control;
  if (input.budget_file.empty()) return {.file = input.job.file};
  return {.file = input.budget_file, .line = limit.line > 0 ? limit.line : input.job.line};
}

/// A limit is exceeded: by the rank furthest above it that no waiver allows, else by the one furthest above it.
void apply_waivers(const budget::Holdings& holdings, const budget::Limit& limit,
                   const std::vector<WaiverMatch>& matches, JobFinding& finding) {
  std::optional<std::size_t> worst;
  WaiverMatch match = matches[*finding.rank];
  for (std::size_t row = 0; row < holdings.ranks.size(); ++row) {
    if (!limit.ranks.holds(holdings, row)) continue;
    const std::optional<Bytes> bytes = budget::measure(holdings.ranks[row], limit);
    if (!bytes || *bytes <= limit.most_bytes || (worst && *bytes <= finding.bytes)) continue;
    if (matches[row].effect == WaiverEffect::waived) continue;
    worst = row;
    match = matches[row];
    finding.bytes = *bytes;
  }
  if (worst) finding.rank = worst;
  if (!worst) finding.verdict = budget::Verdict::near;
  finding.effect = match.effect;
  finding.waiver = match.waiver;
}

JobFinding find_against(const JobInput& input, const budget::Holdings& judged, const HeldLimit& held,
                        WaiverTable& waivers) {
  // A limit on the reserve itself is on what there is of it.
  const budget::Holdings& holdings = held.limit.category ? input.holdings : judged;
  const budget::Finding found = budget::judge(holdings, {held.limit}).front();
  JobFinding finding{.kind = held.kind,
                     .verdict = found.verdict,
                     .subject = subject_of(held.limit),
                     .rank = found.rank,
                     .bytes = found.bytes,
                     .most_bytes = found.most_bytes,
                     .band_bytes = found.band_bytes};
  if (finding.verdict == budget::Verdict::fail)
    apply_waivers(holdings, held.limit, waivers.of(held.limit, holdings), finding);
  finding.line = limit_line(input.job, holdings, finding, held.limit);
  finding.where = finding.rank ? control_of(input, holdings.ranks[*finding.rank], held.limit)
                               : budget::Control{.file = input.budget_file, .line = held.limit.line};
  return finding;
}

/// A verdict without a rank, which the job as a whole has.
JobFinding rankless(const JobInput& input, FindingKind kind, std::string_view why) {
  return {.kind = kind,
          .verdict = budget::Verdict::near,
          .line = rankless_line(input.job, budget::Verdict::near, why),
          .subject = "peak",
          .where = {.file = input.budget_file.empty() ? input.job.file : input.budget_file, .line = input.job.line}};
}

/// REQUIRES: the rank is there.
std::size_t row_of(const budget::Holdings& holdings, std::int64_t rank) {
  const std::optional<std::size_t> row = budget::find_row(holdings, rank);
  assert(row);
  return *row;
}

/// The line that controls what grew most on a rank.
budget::Control control_of_growth(const JobInput& input, const budget::RankGrowth& grown,
                                  const budget::RankHoldings& held) {
  for (const budget::StorageGrowth& storage : grown.storages) {
    if (storage.delta_bytes() <= 0) continue;
    for (const budget::Control& control : storage.controls)
      if (is_placed(control)) return control;
  }
  return control_of(input, held, {.most_bytes = held.peak_bytes, .line = input.job.line_of("growth")});
}

/// The line that was changed, else the one that controls most of what grew.
void place_growth(const JobInput& input, const budget::Growth& growth, JobFinding& finding) {
  const budget::RankHoldings& held = input.holdings.ranks[*finding.rank];
  // A stage that is gone may have had the number.
  const budget::RankGrowth& grown = *std::ranges::find_if(
      growth.ranks, [&held](const budget::RankGrowth& one) { return one.rank == held.rank && one.after_bytes; });
  const auto changed = changed_control(input.baseline->controls, input.holdings, grown.storages, held.storages);
  finding.where = changed && is_placed(changed->line.now) ? changed->line.now : control_of_growth(input, grown, held);
  if (finding.bytes > *finding.before_bytes) finding.changed = changed;
}

struct WaivedRank {
  GrownRank rank;
  WaiverMatch match;
};

/// The rank that a growth finding is about: the worst that no waiver allows, else the worst.
WaivedRank choose_grown(const JobInput& input, std::vector<GrownRank> ranks) {
  const WaiverScope scope{.is_growth = true};
  WaivedRank chosen{.rank = worst_of(ranks), .match = {}};
  std::vector<GrownRank> not_waived;
  for (const GrownRank& rank : ranks) {
    if (rank.verdict != budget::Verdict::fail) continue;
    const std::size_t row = row_of(input.holdings, rank.rank);
    const WaiverMatch match = match_waiver(input.job, scope, input.holdings, row, rank.after_bytes, input.today);
    if (match.effect != WaiverEffect::waived) not_waived.push_back(rank);
    if (rank.rank == chosen.rank.rank) chosen.match = match;
  }
  if (chosen.rank.verdict != budget::Verdict::fail) return chosen;
  if (not_waived.empty()) {
    chosen.rank.verdict = budget::Verdict::near;
    return chosen;
  }
  chosen.rank = worst_of(not_waived);
  chosen.match = match_waiver(input.job, scope, input.holdings, row_of(input.holdings, chosen.rank.rank),
                              chosen.rank.after_bytes, input.today);
  return chosen;
}

JobFinding growth_finding(const JobInput& input, const budget::Growth& growth) {
  const WaivedRank chosen = choose_grown(input, grown_ranks(growth, input.job.growth, &*input.baseline));
  JobFinding finding{.kind = FindingKind::growth,
                     .verdict = chosen.rank.verdict,
                     .subject = "peak",
                     .rank = row_of(input.holdings, chosen.rank.rank),
                     .bytes = chosen.rank.after_bytes,
                     .most_bytes = chosen.rank.allowed_bytes,
                     .before_bytes = chosen.rank.before_bytes,
                     .effect = chosen.match.effect,
                     .waiver = chosen.match.waiver};
  if (!input.holdings.is_understood) finding.verdict = std::max(finding.verdict, budget::Verdict::near);
  finding.line = growth_line(input.job, input.holdings, finding, chosen.rank.spread);
  place_growth(input, growth, finding);
  return finding;
}

/// `input`: its holdings and its baseline as they are judged.
void judge_growth(const JobInput& input, JobResult& result) {
  if (!input.baseline) {
    if (input.is_growth_asked)
      result.findings.push_back(rankless(input, FindingKind::growth,
                                         "the baseline does not have this job, so that nothing says what it grew by; "
                                         "`tidemark baseline update` adds it"));
    else if (input.is_baseline_expected)
      result.notices.push_back("the baseline does not have this job; `tidemark baseline update` adds it");
    return;
  }
  if (input.baseline->basis != input.holdings.basis) {
    result.findings.push_back(rankless(
        input, FindingKind::growth,
        fmt::format("the baseline is {}, this is {}: they are not compared; `tidemark baseline update` makes it anew",
                    budget::word_of(input.baseline->basis), budget::word_of(input.holdings.basis))));
    return;
  }
  result.growth = budget::growth_of(holdings_of(*input.baseline), input.holdings);
  result.findings.push_back(growth_finding(input, *result.growth));
  if (const std::optional<std::string> notice = lowered_budget_notice(input, *result.growth))
    result.notices.push_back(*notice);
  const bool is_changed =
      std::ranges::any_of(result.growth->ranks, [](const budget::RankGrowth& rank) { return rank.delta_bytes() != 0; });
  if (is_changed && !input.inputs.empty() && input.inputs == input.baseline->inputs &&
      input.holdings.basis != budget::Basis::measured)
    result.notices.push_back(
        "its files are those of the baseline: the difference comes from its settings in the budget file, or from "
        "another "
        "version of Tidemark");
}

/// What nothing is known of is kept by no limit, whatever the other ranks hold.
void judge_missing_ranks(const JobInput& input, JobResult& result) {
  const std::vector<MissingRank> missing = missing_ranks(input.holdings, result.growth ? &*result.growth : nullptr);
  if (missing.empty()) return;
  const budget::Basis basis = input.holdings.basis;
  JobFinding finding = rankless(input, FindingKind::rank,
                                fmt::format("{}: nothing says that its limits are kept; {}",
                                            missing_text(missing, basis, "baseline"), missing_advice(missing, basis)));
  finding.subject = fmt::format("ranks {}", budget::word_of(basis));
  const bool is_planned = basis == budget::Basis::planned;
  if (!input.budget_file.empty()) finding.where.line = input.job.line_of(is_planned ? "plan" : "measured");
  result.findings.push_back(std::move(finding));
}

/// Growth is of the figures that limits are held against: the same reserve is out of both sides.
JobInput judged_input(const JobInput& input, const budget::Holdings& judged) {
  JobInput growth = input;
  growth.holdings = judged;
  if (growth.baseline) growth.baseline = judged_baseline(growth.job, *growth.baseline);
  return growth;
}

/// Those that some finding is about, or a rank that no finding is about and that exceeds a limit they cover.
std::vector<bool> needed_waivers(const JobInput& input, const JobResult& result, WaiverTable& waivers) {
  std::vector<bool> needed(input.job.waivers.size(), false);
  for (const JobFinding& finding : result.findings)
    if (finding.waiver) needed[*finding.waiver] = true;
  for (const HeldLimit& held : held_limits_of(input)) {
    const budget::Holdings& holdings = held.limit.category ? input.holdings : result.holdings;
    const std::vector<WaiverMatch>& matches = waivers.of(held.limit, holdings);
    for (std::size_t row = 0; row < holdings.ranks.size(); ++row) {
      if (!matches[row].waiver || !held.limit.ranks.holds(holdings, row)) continue;
      const std::optional<Bytes> bytes = budget::measure(holdings.ranks[row], held.limit);
      if (bytes && *bytes > held.limit.most_bytes) needed[*matches[row].waiver] = true;
    }
  }
  return needed;
}

void note_waivers(const JobInput& input, WaiverTable& waivers, JobResult& result) {
  const std::vector<bool> needed = needed_waivers(input, result, waivers);
  for (std::size_t i = 0; i < input.job.waivers.size(); ++i)
    if (!needed[i])
      result.notices.push_back(formats::printable(unneeded_text(input.job.waivers[i], result.holdings, input.today)));
}

}  // namespace

budget::Holdings judged_holdings(const BudgetJob& job, budget::Holdings holdings) {
  if (!job.reserve_bytes || holdings.basis == budget::Basis::estimated) return holdings;
  // A plan's reserve is its device file's, in place of which the job names its own. What was measured outside the
  // allocator is a fact: as far as the job's reserve goes it is in that already, what is more counts.
  const bool is_measured = holdings.basis == budget::Basis::measured;
  return is_measured ? budget::without_reserve(std::move(holdings), *job.reserve_bytes)
                     : budget::without_reserve(std::move(holdings));
}

BaselineJob judged_baseline(const BudgetJob& job, const BaselineJob& baseline) {
  return lowered_to(baseline, judged_holdings(job, holdings_of(baseline)));
}

Bytes kept_of_capacity(const JobInput& input) {
  const Bytes of_device = input.holdings.basis == budget::Basis::estimated ? input.device_reserve_bytes : 0;
  return input.job.reserve_bytes.value_or(of_device);
}

std::vector<budget::Limit> limits_of(const JobInput& input) {
  std::vector<budget::Limit> limits;
  for (HeldLimit& held : held_limits_of(input)) limits.push_back(std::move(held.limit));
  return limits;
}

JobResult judge(const JobInput& input) {
  assert(!input.holdings.ranks.empty());
  JobResult result{.job = input.job, .holdings = judged_holdings(input.job, input.holdings)};
  if (input.predicted) {
    result.predicted = judged_holdings(input.job, *input.predicted);
    result.comparison = budget::compare(*result.predicted, result.holdings);
  }
  WaiverTable waivers(input.job, input.today);
  for (const HeldLimit& held : held_limits_of(input))
    result.findings.push_back(find_against(input, result.holdings, held, waivers));
  judge_growth(judged_input(input, result.holdings), result);
  judge_missing_ranks(input, result);
  if (result.findings.empty())
    result.findings.push_back(rankless(input, FindingKind::nothing,
                                       "there is nothing to hold it against; add `capacity: 64GiB`, limits or a "
                                       "baseline"));
  note_waivers(input, waivers, result);
  return result;
}

JobResult unreadable(BudgetJob job, std::string error) {
  budget::Control where{.file = job.file, .line = 0, .text = {}};
  return {.job = std::move(job),
          .where = std::move(where),
          .error = error.empty() ? "the job could not be read" : formats::printable(error)};
}

}  // namespace tidemark::ci
