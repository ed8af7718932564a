#pragma once
// Results of a gate with nasty texts in every place that takes one.

#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "integrations/ci/diff_result.h"
#include "integrations/ci/judgement.h"
#include "tests/ci/held.h"
#include "tests/ci/nasty_text.h"

namespace tidemark::testing {

class RandomResults {
 public:
  explicit RandomResults(std::uint32_t seed) : random_(seed) {}

  ci::GateResult gate() {
    ci::GateResult result{.tool_version = text(), .budget_file = text(), .is_strict = maybe()};
    for (std::size_t i = below(5); i > 0; --i)
      result.jobs.push_back(below(5) == 0 ? ci::unreadable(job(), text()) : judged());
    return result;
  }

  ci::DiffResult diff() {
    return ci::diff_of({.label = text(), .file = text()}, holdings(), {.label = text(), .file = text()}, holdings(),
                       maybe() ? std::optional(budget::Tolerance{.percent = 2}) : std::nullopt, text());
  }

 private:
  std::string text() { return nasty_text(random_); }
  std::size_t below(std::size_t most) { return random_() % most; }
  bool maybe() { return below(2) == 0; }
  Bytes bytes() { return static_cast<Bytes>(random_()) * static_cast<Bytes>(below(40)); }
  budget::Control control() { return {.file = text(), .line = static_cast<int>(below(3)) * 17, .text = text()}; }

  ci::BudgetJob job() {
    ci::BudgetJob job{.name = text(), .kind = static_cast<ci::JobKind>(below(7)), .file = text()};
    job.capacity_bytes = bytes();
    if (maybe()) job.host_bytes = bytes();
    job.line = static_cast<int>(below(9));
    for (std::size_t i = below(3); i > 0; --i)
      job.limits.push_back({.category = static_cast<budget::Category>(below(9)), .most_bytes = bytes(), .line = 4});
    for (std::size_t i = below(3); i > 0; --i)
      job.waivers.push_back({.owner = text(),
                             .reason = text(),
                             .expires = ci::parse_date(maybe() ? "2026-01-01" : "2027-01-01").value(),
                             .scope = {.is_growth = maybe()},
                             .at_most_bytes = bytes()});
    return job;
  }

  budget::Holdings holdings() {
    budget::Holdings holdings{.source = text(), .notes = {text()}};
    for (std::int64_t rank = 0; rank < static_cast<std::int64_t>(1 + below(4)); ++rank) {
      std::vector<budget::HeldStorage> storages;
      for (std::size_t i = below(12); i > 0; --i)
        storages.push_back(held(text(), static_cast<budget::Category>(below(9)), bytes(), {control()}));
      budget::RankHoldings row = rank_of(rank, std::move(storages));
      row.place = text();
      row.peak_at = text();
      if (maybe()) row.host_bytes = bytes();
      if (maybe()) row.by_phase[below(4)] = bytes();
      holdings.ranks.push_back(std::move(row));
    }
    return holdings;
  }

  ci::JobResult judged() {
    ci::JobInput input{.job = job(), .budget_file = text(), .holdings = holdings(), .is_baseline_expected = maybe()};
    input.today = ci::parse_date("2026-06-15").value();
    if (maybe()) input.baseline = ci::baseline_of(input.job.name, {}, holdings());
    if (maybe()) {
      input.holdings.basis = budget::Basis::measured;
      input.predicted = holdings();
    }
    ci::JobResult result = ci::judge(input);
    if (maybe()) result.remedy = remedy();
    return result;
  }

  budget::Remedy remedy() {
    budget::Remedy remedy{.clears = maybe(), .peak_bytes = bytes(), .is_proven = maybe(), .reason = text()};
    if (maybe()) remedy.step_percent = 0.5;
    for (std::size_t i = below(3); i > 0; --i)
      remedy.edits.push_back({.text = text(), .saved_bytes = bytes(), .flags = {text(), text()}, .where = control()});
    return remedy;
  }

  std::mt19937 random_;
};

}  // namespace tidemark::testing
