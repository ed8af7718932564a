#include "integrations/ci/diff_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <string_view>
#include <utility>

#include "integrations/ci/changed_control.h"
#include "integrations/ci/control_texts.h"
#include "integrations/ci/grown_rank.h"
#include "integrations/ci/missing_rank.h"
#include "integrations/ci/tolerance_text.h"
#include "integrations/ci/verdict_line.h"
#include "integrations/formats/shown.h"

namespace tidemark::ci {
namespace {

/// Of either side: a difference is as uncertain as the less certain of the two.
const budget::Holdings* doubted(const budget::Holdings& before, const budget::Holdings& after) {
  if (!after.is_understood) return &after;
  return before.is_understood ? nullptr : &before;
}

std::string line_of(const DiffResult& diff, const GrownRank& worst, const budget::Holdings* doubted) {
  const std::string head{diff.allowed ? budget::word_of(diff.verdict) : "DIFF"};
  std::string line = fmt::format("{} {} -> {} rank {}: peak {}", head, diff.before.label, diff.after.label, worst.rank,
                                 distance_text(worst.after_bytes, "former peak", worst.before_bytes));
  if (diff.allowed) line += fmt::format("; growth of {} is allowed", tolerance_text(*diff.allowed));
  if (diff.verdict != budget::Verdict::fail && doubted != nullptr) line += doubt_text(*doubted);
  return formats::printable(line);
}

bool has_note(const budget::Holdings& holdings, const std::string& note) {
  return std::ranges::find(holdings.notes, note) != holdings.notes.end();
}

/// What both say is said once.
void add_notes(const budget::Holdings& before, const budget::Holdings& after, std::vector<std::string>& notes) {
  for (const std::string& note : before.notes)
    if (has_note(after, note)) notes.push_back(note);
  for (const std::string& note : before.notes)
    if (!has_note(after, note)) notes.push_back("before: " + note);
  for (const std::string& note : after.notes)
    if (!has_note(before, note)) notes.push_back("after: " + note);
}

void judge_missing_ranks(const budget::Holdings& after, DiffResult& diff) {
  const std::vector<MissingRank> missing = missing_ranks(after, &diff.growth);
  if (missing.empty()) return;
  if (diff.allowed) diff.verdict = std::max(diff.verdict, budget::Verdict::near);
  const std::string_view before = after.basis == budget::Basis::planned ? "plan before" : "run before";
  diff.notes.push_back(missing_text(missing, after.basis, before) + ": nothing says what it came to");
}

std::optional<ChangedControl> changed_in(const DiffResult& diff, const std::vector<std::string>& before,
                                         const budget::Holdings& after) {
  const auto has_grown = [](const budget::RankGrowth& rank) { return rank.delta_bytes() > 0; };
  if (std::ranges::none_of(diff.growth.ranks, has_grown)) return std::nullopt;
  return changed_control(before, after, diff.growth.storages, after.ranks[budget::highest_rank(after)].storages);
}

}  // namespace

DiffResult diff_of(DiffSide before, const budget::Holdings& held_before, DiffSide after,
                   const budget::Holdings& held_after, std::optional<budget::Tolerance> allowed,
                   std::string tool_version, const BaselineJob* baseline) {
  assert(held_before.basis == held_after.basis);
  DiffResult diff{.tool_version = std::move(tool_version),
                  .before = std::move(before),
                  .after = std::move(after),
                  .growth = budget::growth_of(held_before, held_after),
                  .allowed = allowed};
  const std::vector<GrownRank> ranks = grown_ranks(diff.growth, allowed.value_or(budget::Tolerance{}), baseline);
  const GrownRank& worst = worst_of(ranks);
  if (allowed) diff.verdict = worst.verdict;
  judge_missing_ranks(held_after, diff);
  const budget::Holdings* const uncertain = doubted(held_before, held_after);
  if (allowed && uncertain != nullptr) diff.verdict = std::max(diff.verdict, budget::Verdict::near);
  diff.changed = changed_in(diff, baseline != nullptr ? baseline->controls : control_texts(held_before), held_after);
  diff.line = line_of(diff, worst, uncertain);
  add_notes(held_before, held_after, diff.notes);
  return diff;
}

int exit_status(const DiffResult& result, bool is_exit_zero) {
  return result.verdict == budget::Verdict::fail && !is_exit_zero ? 1 : 0;
}

}  // namespace tidemark::ci
