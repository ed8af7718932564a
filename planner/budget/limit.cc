#include "planner/budget/limit.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <tuple>

namespace tidemark::budget {
namespace {

Verdict verdict_of(const Finding& finding, const Limit& limit, bool is_understood) {
  if (finding.bytes > limit.most_bytes) return Verdict::fail;
  if (!is_understood) return Verdict::near;
  // A limit of 0 is kept by holding nothing: there is nothing below it to be near to.
  if (finding.bytes == 0) return Verdict::pass;
  const Bytes near = std::max(finding.band_bytes, limit.near.of(limit.most_bytes));
  return finding.bytes > limit.most_bytes - near ? Verdict::near : Verdict::pass;
}

bool has_every_rank(const Holdings& holdings, const RankChoice& choice) {
  if (choice.kind != RankChoice::Kind::listed) return true;
  return std::ranges::all_of(choice.listed, [&](std::int64_t rank) { return row_for(holdings, rank).has_value(); });
}

/// What a source does not tell may be above the limit, however little of it is known. A rank without a figure is not
/// told either.
bool is_told(const RankHoldings& rank, const Limit& limit) {
  if (!measure(rank, limit)) return false;
  if (limit.is_host || limit.phase || !limit.category) return true;
  const std::optional<Bytes> most = most_of(rank, *limit.category);
  return most && *most <= limit.most_bytes;
}

/// One rank by itself; nothing: it does not tell.
std::optional<Finding> look_at(const Holdings& holdings, std::size_t row, const Limit& limit) {
  const RankHoldings& rank = holdings.ranks[row];
  const std::optional<Bytes> bytes = measure(rank, limit);
  if (!bytes) return std::nullopt;
  Finding finding{.rank = row,
                  .bytes = *bytes,
                  .band_bytes = band_bytes(holdings, rank.peak_bytes),
                  .most_bytes = limit.most_bytes};
  finding.verdict = verdict_of(finding, limit, holdings.is_understood);
  return finding;
}

Finding look_at(const Holdings& holdings, const Limit& limit) {
  Finding finding{.verdict = Verdict::near, .most_bytes = limit.most_bytes};
  bool is_all_told = has_every_rank(holdings, limit.ranks);
  for (std::size_t row = 0; row < holdings.ranks.size(); ++row) {
    if (!limit.ranks.holds(holdings, row)) continue;
    is_all_told = is_all_told && is_told(holdings.ranks[row], limit);
    const std::optional<Finding> found = look_at(holdings, row, limit);
    // The band of a higher peak may reach above a limit that a larger part of a lower one is below.
    if (found && (!finding.rank || std::tie(found->verdict, found->bytes) > std::tie(finding.verdict, finding.bytes)))
      finding = *found;
  }
  if (!finding.rank) return finding;
  // What holds of the ranks that tell says nothing of the others.
  if (!is_all_told && finding.verdict == Verdict::pass) finding.verdict = Verdict::near;
  return finding;
}

}  // namespace

std::string_view word_of(Verdict verdict) {
  constexpr std::array<std::string_view, 3> words = {"PASS", "NEAR", "FAIL"};
  return words[static_cast<std::size_t>(verdict)];
}

bool RankChoice::holds(const Holdings& holdings, std::size_t row) const {
  switch (kind) {
    case Kind::all:
      return true;
    case Kind::first:
      return row == 0;
    case Kind::middle:
      return row != 0 && row + 1 != holdings.ranks.size();
    case Kind::last:
      return row + 1 == holdings.ranks.size();
    case Kind::listed:
      if (holdings.stage_stride == 0) return std::ranges::binary_search(listed, holdings.ranks[row].rank);
      return std::ranges::any_of(listed, [&](std::int64_t rank) { return row_for(holdings, rank) == row; });
  }
  return false;
}

bool RankChoice::covers(const Holdings& holdings, std::size_t row) const {
  if (kind != Kind::listed || holdings.stage_stride == 0) return holds(holdings, row);
  const std::int64_t stride = holdings.stage_stride, stages = std::ssize(holdings.ranks);
  const std::int64_t stage = holdings.ranks[row].rank / stride % stages, period = stride * stages;
  const std::int64_t rest = holdings.rank_count % period - stage * stride;
  const std::int64_t wanted = holdings.rank_count / period * stride + std::clamp<std::int64_t>(rest, 0, stride);
  std::int64_t there = 0;
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const bool is_new = i == 0 || listed[i] != listed[i - 1];
    const bool is_rank = listed[i] >= 0 && listed[i] < holdings.rank_count;
    there += is_new && is_rank && listed[i] / stride % stages == stage ? 1 : 0;
  }
  return wanted > 0 && there == wanted;
}

Bytes Tolerance::of(Bytes whole) const {
  assert(whole >= 0);
  constexpr double kMost = 1e18;  // more than any memory has, and far from what an integer holds
  return std::max(bytes, static_cast<Bytes>(std::min(static_cast<double>(whole) * percent / 100, kMost)));
}

std::optional<Bytes> measure(const RankHoldings& rank, const Limit& limit) {
  if (limit.is_host) return rank.host_bytes;
  if (limit.phase) return rank.by_phase[static_cast<std::size_t>(*limit.phase)];
  if (!limit.category) return rank.peak_bytes;
  const auto category = static_cast<std::size_t>(*limit.category);
  if (rank.is_untold[category] && rank.by_category[category] == 0) return std::nullopt;
  return rank.by_category[category];
}

std::vector<Finding> judge(const Holdings& holdings, const std::vector<Limit>& limits) {
  assert(!holdings.ranks.empty());
  std::vector<Finding> findings;
  for (const Limit& limit : limits) {
    Finding finding = look_at(holdings, limit);
    finding.limit = findings.size();
    findings.push_back(finding);
  }
  return findings;
}

Verdict worst(const std::vector<Finding>& findings) {
  Verdict verdict = Verdict::pass;
  for (const Finding& finding : findings) verdict = std::max(verdict, finding.verdict);
  return verdict;
}

}  // namespace tidemark::budget
