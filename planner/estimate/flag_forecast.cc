#include "planner/estimate/flag_forecast.h"

#include <algorithm>
#include <cmath>

namespace tidemark::estimate {
namespace {

constexpr std::size_t kCategories = budget::kCategoryCount;
constexpr std::size_t kParts = kCategories + budget::kPhaseCount;  ///< of a row
/// Stages of a pipeline differ at its ends: the others in between are seen by some of them.
constexpr std::size_t kMostRows = 8;

/// The row of a run with `count` rows that stands where `row` of `of` does.
std::size_t row_like(std::size_t row, std::size_t of, std::size_t count) {
  if (of < 2 || count < 2) return 0;
  return (2 * row * (count - 1) + (of - 1)) / (2 * (of - 1));
}

void put_row(const budget::RankHoldings& rank, std::vector<double>& bytes) {
  for (const Bytes category : rank.by_category) bytes.push_back(static_cast<double>(category));
  for (const std::optional<Bytes>& phase : rank.by_phase) bytes.push_back(static_cast<double>(phase.value_or(0)));
}

}  // namespace

FlagForecast::FlagForecast(const FlagTrials& trials, const std::vector<std::optional<FlagTrial>>& singles) {
  const FlagTrial& base = trials.base();
  choose_rows(base.holdings);
  base_ = parts_of(base);
  base_seconds_ = base.time.seconds();
  band_ = base.holdings.band_percent / 100;
  for (const budget::Limit& limit : trials.limits()) add_bounds(limit, base.holdings);
  for (const std::optional<FlagTrial>& single : singles)
    changes_.push_back(single ? change_between(base_, parts_of(*single)) : Change{});
}

void FlagForecast::choose_rows(const budget::Holdings& holdings) {
  row_count_ = holdings.ranks.size();
  const std::size_t looked_at = std::min(row_count_, kMostRows);
  for (std::size_t i = 0; i < looked_at; ++i) rows_.push_back(row_like(i, looked_at, row_count_));
}

void FlagForecast::add_bounds(const budget::Limit& limit, const budget::Holdings& holdings) {
  Bound bound{.first = 0, .count = kCategories};
  if (limit.phase) bound.first = kCategories + static_cast<std::size_t>(*limit.phase);
  if (limit.category) bound.first = static_cast<std::size_t>(*limit.category);
  if (limit.phase || limit.category) bound.count = 1;
  bound.most_bytes = std::max(1.0, static_cast<double>(limit.most_bytes));
  bound.kept_bytes = std::max(1.0, static_cast<double>(limit.most_bytes - limit.near.of(limit.most_bytes)));
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    bound.row = i;
    if (limit.ranks.holds(holdings, rows_[i])) bounds_.push_back(bound);
  }
}

ForecastParts FlagForecast::parts_of(const FlagTrial& trial) const {
  const std::vector<budget::RankHoldings>& ranks = trial.holdings.ranks;
  ForecastParts parts{.bytes = {}, .time = trial.time};
  for (const std::size_t row : rows_) {
    // One stage is first and last: of several the highest is like it.
    const std::size_t like =
        row_count_ == 1 ? budget::highest_rank(trial.holdings) : row_like(row, row_count_, ranks.size());
    put_row(ranks[like], parts.bytes);
  }
  return parts;
}

FlagForecast::Change FlagForecast::change_between(const ForecastParts& before, const ForecastParts& after) {
  Change change;
  for (std::size_t i = 0; i < after.bytes.size(); ++i) {
    const bool multiplies = before.bytes[i] > 0 && after.bytes[i] >= 0;
    change.factor.push_back(multiplies ? after.bytes[i] / before.bytes[i] : 1);
    change.more.push_back(multiplies ? 0 : after.bytes[i] - before.bytes[i]);
  }
  change.time = {.passes_s = after.time.passes_s / before.time.passes_s,
                 .idle_chunks = after.time.idle_chunks - before.time.idle_chunks,
                 .micro_batches = after.time.micro_batches / before.time.micro_batches,
                 .end_s = before.time.end_s > 0 ? after.time.end_s / before.time.end_s : 1};
  return change;
}

void FlagForecast::apply(const Change& change, const ForecastParts& before, ForecastParts& after) {
  after.bytes.resize(before.bytes.size());
  for (std::size_t i = 0; i < before.bytes.size(); ++i)
    after.bytes[i] = before.bytes[i] * change.factor[i] + change.more[i];
  after.time = {.passes_s = before.time.passes_s * change.time.passes_s,
                .idle_chunks = before.time.idle_chunks + change.time.idle_chunks,
                .micro_batches = before.time.micro_batches * change.time.micro_batches,
                .end_s = before.time.end_s * change.time.end_s};
}

void FlagForecast::add(const ForecastParts& before, std::size_t candidate, ForecastParts& after) const {
  apply(changes_[candidate], before, after);
}

void FlagForecast::correct(ForecastParts& parts, std::size_t one, std::size_t other) const {
  const auto found = together_.find(std::minmax(one, other));
  if (found != together_.end()) apply(found->second, parts, parts);
}

void FlagForecast::learn(const FlagTrial& two) {
  ForecastParts one, expected;
  add(base_, two.picks[0], one);
  add(one, two.picks[1], expected);
  together_.emplace(std::minmax(two.picks[0], two.picks[1]), change_between(expected, parts_of(two)));
}

Forecast FlagForecast::of(const std::vector<std::size_t>& picks) const {
  ForecastParts parts = base_;
  for (std::size_t i = 0; i < picks.size(); ++i) {
    apply(changes_[picks[i]], parts, parts);
    for (std::size_t j = 0; j < i; ++j) correct(parts, picks[j], picks[i]);
  }
  return of(parts);
}

Forecast FlagForecast::of(const ForecastParts& parts) const {
  Forecast forecast;
  std::vector<double> peaks;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    double peak = 0;
    for (std::size_t i = 0; i < kCategories; ++i) peak += parts.bytes[row * kParts + i];
    forecast.peak = std::max(forecast.peak, peak);
    peaks.push_back(peak);
  }
  for (const Bound& bound : bounds_) {
    double bytes = 0;
    for (std::size_t i = 0; i < bound.count; ++i) bytes += parts.bytes[bound.row * kParts + bound.first + i];
    const double banded = bytes + band_ * peaks[bound.row];
    forecast.reach = std::max({forecast.reach, banded / bound.most_bytes, bytes / bound.kept_bytes});
    forecast.bare = std::max(forecast.bare, bytes / bound.most_bytes);
    forecast.excess += std::max({0.0, banded - bound.most_bytes, bytes - bound.kept_bytes});
  }
  forecast.percent = 100 * (parts.time.seconds() / base_seconds_ - 1);
  return forecast;
}

}  // namespace tidemark::estimate
