// Scores of step times against small cases worked out by hand, and against twins that say each rule the slow way.

#include "planner/step_time/time_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/step_time/constant_mfu.h"
#include "planner/step_time/quantile.h"
#include "planner/step_time/split_fold.h"
#include "planner/step_time/time_bands.h"

namespace tidemark::step_time {
namespace {

using Pairs = std::vector<TimedPair>;

TimedPair timed(double predicted_s, double measured_s, std::string key = "k", std::string group = "g") {
  TimedPair pair;
  pair.track = "t";
  pair.split_key = std::move(key);
  pair.group = std::move(group);
  pair.device = "d";
  pair.precision = "bf16";
  pair.predicted_s = predicted_s;
  pair.measured_s = measured_s;
  return pair;
}

/// Rows of a few tracks, keys of one to four rows, groups that keys share, ties of both times, some without FLOP/s.
class RandomPairs {
 public:
  explicit RandomPairs(std::uint32_t seed) : random_(seed) {}

  Pairs next() {
    Pairs pairs;
    const std::uint32_t count = below(60);
    while (pairs.size() < count) {
      const std::string key = "key" + std::to_string(below(40));
      for (std::uint32_t copies = 1 + below(4); copies > 0; --copies) pairs.push_back(row(key));
    }
    return pairs;
  }

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_()) % n; }
  std::mt19937& engine() { return random_; }

 private:
  /// Steps of 0.0217 and a time of 1.9371 s: no two rows are just 3 % apart, or as far off in opposite directions,
  /// where rounding would decide.
  TimedPair row(const std::string& key) {
    const double measured_s = 1 + 0.0217 * below(200);
    const double predicted_s = measured_s * std::uniform_real_distribution<double>(0.7, 1.4)(random_);
    TimedPair pair = timed(predicted_s, measured_s, key, "group" + std::to_string(below(6)));
    if (below(8) == 0) pair.predicted_s = 1.9371;  // predicted alike
    if (below(10) == 0) pair.group.clear();
    pair.track = "track" + std::to_string(below(3));
    pair.device = below(3) == 0 ? "a100" : "h100";
    pair.precision = below(3) == 0 ? "fp8" : "bf16";
    if (below(5) != 0) pair.model_flops_per_s = 1e14 * (1 + 0.1 * below(50));
    return pair;
  }

  std::mt19937 random_;
};

Pairs of_track(const Pairs& pairs, const std::string& track) {
  Pairs some;
  std::ranges::copy_if(pairs, std::back_inserter(some), [&](const TimedPair& at) { return at.track == track; });
  return some;
}

// Twins. Order statistics by counting, no sorting; ratios as logs; every rule over all pairs of rows.

/// The value that has at most `rank` values below it and more than `rank` at or below it.
double ordered_twin(const std::vector<double>& values, std::size_t rank) {
  for (const double at : values) {
    const auto below = static_cast<std::size_t>(std::ranges::count_if(values, [at](double v) { return v < at; }));
    const auto up_to = static_cast<std::size_t>(std::ranges::count_if(values, [at](double v) { return v <= at; }));
    if (below <= rank && rank < up_to) return at;
  }
  ADD_FAILURE() << "no value of rank " << rank;
  return 0;
}

/// Piecewise linear through (i / (n - 1), i-th smallest).
double quantile_twin(const std::vector<double>& values, double share) {
  if (values.size() == 1) return values[0];
  const double steps = static_cast<double>(values.size() - 1);
  double result = ordered_twin(values, 0);
  for (std::size_t i = 1; i < values.size(); ++i) {
    const double passed = std::clamp(share * steps - static_cast<double>(i - 1), 0.0, 1.0);
    result += passed * (ordered_twin(values, i) - ordered_twin(values, i - 1));
  }
  return result;
}

TrackErrors errors_twin(const Pairs& pairs) {
  std::vector<double> errors, medians, per_row;
  double sum = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto error = [&](std::size_t k) {
      return 100 * std::abs(pairs[k].predicted_s - pairs[k].measured_s) / pairs[k].measured_s;
    };
    errors.push_back(error(i));
    sum += error(i);
    std::vector<double> of_key;
    bool is_first = true;
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      if (pairs[k].split_key != pairs[i].split_key) continue;
      of_key.push_back(error(k));
      is_first = is_first && k >= i;
    }
    if (is_first) medians.push_back(quantile_twin(of_key, 0.5));
  }
  return {.rows = pairs.size(),
          .keys = medians.size(),
          .mean_percent = sum / static_cast<double>(pairs.size()),
          .row_p90_percent = quantile_twin(errors, 0.9),
          .worst_percent = ordered_twin(errors, errors.size() - 1),
          .median_percent = quantile_twin(medians, 0.5),
          .p90_percent = quantile_twin(medians, 0.9)};
}

/// Both orders of every pair of rows, halved at the end.
TrackRanking ranking_twin(const Pairs& pairs) {
  int order = 0, counted = 0;
  std::vector<double> regrets;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    bool is_picked = true, has_rival = false;
    double best_s = pairs[i].measured_s;
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      if (i == k || pairs[i].group.empty() || pairs[i].group != pairs[k].group) continue;
      has_rival = true;
      best_s = std::min(best_s, pairs[k].measured_s);
      const double predicted = pairs[i].predicted_s - pairs[k].predicted_s;
      if (predicted > 0 || (predicted == 0 && k < i)) is_picked = false;
      const double measured = std::log(pairs[i].measured_s / pairs[k].measured_s);
      if (std::abs(measured) < std::log(1.03) || predicted == 0) continue;
      counted += 1;
      order += predicted * measured > 0 ? 1 : -1;
    }
    if (has_rival && is_picked) regrets.push_back(100 * (pairs[i].measured_s - best_s) / best_s);
  }
  TrackRanking ranking{.groups = regrets.size(), .pairs = static_cast<std::size_t>(counted / 2)};
  if (counted > 0) ranking.kendall_tau = static_cast<double>(order) / counted;
  if (regrets.empty()) return ranking;
  ranking.regret_p90_percent = quantile_twin(regrets, 0.9);
  ranking.regret_worst_percent = ordered_twin(regrets, regrets.size() - 1);
  return ranking;
}

/// Smallest of the errors that at least four fifths of n + 1 are no larger than.
double band_twin(const Pairs& pairs, const TimedPair& of) {
  std::vector<double> off;
  for (const bool is_other : {true, false}) {
    if (!off.empty()) break;
    for (const TimedPair& at : pairs)
      if (at.track == of.track && (fold_of(at.split_key) != fold_of(of.split_key)) == is_other)
        off.push_back(std::abs(std::log(at.predicted_s / at.measured_s)));
  }
  double band = ordered_twin(off, off.size() - 1);
  for (const double at : off) {
    const auto up_to = std::ranges::count_if(off, [at](double v) { return v <= at; });
    if (5 * up_to >= 4 * (static_cast<std::ptrdiff_t>(off.size()) + 1)) band = std::min(band, at);
  }
  return 100 * std::expm1(band);
}

std::optional<double> rival_twin(const Pairs& pairs, const TimedPair& of) {
  std::vector<double> logs;
  for (const TimedPair& at : pairs)
    if (at.model_flops_per_s && at.track == of.track && at.device == of.device && at.precision == of.precision &&
        fold_of(at.split_key) != fold_of(of.split_key))
      logs.push_back(std::log(*at.model_flops_per_s));
  if (logs.empty() || !of.model_flops_per_s) return std::nullopt;
  return of.measured_s * std::exp(std::log(*of.model_flops_per_s) - quantile_twin(logs, 0.5));
}

constexpr double kNear = 1e-9;

void expect_equal(const TrackErrors& a, const TrackErrors& b) {
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.keys, b.keys);
  EXPECT_NEAR(a.mean_percent, b.mean_percent, kNear);
  EXPECT_NEAR(a.row_p90_percent, b.row_p90_percent, kNear);
  EXPECT_NEAR(a.worst_percent, b.worst_percent, kNear);
  EXPECT_NEAR(a.median_percent, b.median_percent, kNear);
  EXPECT_NEAR(a.p90_percent, b.p90_percent, kNear);
}

void expect_equal(const TrackRanking& a, const TrackRanking& b) {
  EXPECT_EQ(a.groups, b.groups);
  EXPECT_EQ(a.pairs, b.pairs);
  EXPECT_NEAR(a.kendall_tau, b.kendall_tau, kNear);
  EXPECT_NEAR(a.regret_p90_percent, b.regret_p90_percent, kNear);
  EXPECT_NEAR(a.regret_worst_percent, b.regret_worst_percent, kNear);
}

void expect_equal(const TrackScore& a, const TrackScore& b) {
  EXPECT_EQ(a.track, b.track);
  expect_equal(a.errors, b.errors);
  expect_equal(a.ranking, b.ranking);
  EXPECT_NEAR(a.band_percent, b.band_percent, kNear);
  EXPECT_NEAR(a.covered_percent, b.covered_percent, kNear);
  ASSERT_EQ(a.constant_mfu.has_value(), b.constant_mfu.has_value());
  if (a.constant_mfu) expect_equal(*a.constant_mfu, *b.constant_mfu);
}

TrackScore score_twin(const Pairs& all, const std::string& track) {
  const Pairs pairs = of_track(all, track);
  TrackScore score{.track = track, .errors = errors_twin(pairs), .ranking = ranking_twin(pairs), .constant_mfu = {}};
  std::vector<double> bands;
  double inside = 0;
  Pairs rivals;
  for (const TimedPair& pair : pairs) {
    bands.push_back(band_twin(all, pair));
    const double off = 100 * std::expm1(std::abs(std::log(pair.predicted_s / pair.measured_s)));
    if (off <= bands.back() + kNear) inside += 1;
    if (const std::optional<double> rival_s = rival_twin(all, pair)) {
      rivals.push_back(pair);
      rivals.back().predicted_s = *rival_s;
    }
  }
  score.band_percent = quantile_twin(bands, 0.5);
  score.covered_percent = 100 * inside / static_cast<double>(pairs.size());
  if (!rivals.empty()) score.constant_mfu = errors_twin(rivals);
  return score;
}

TEST(Quantiles, AreNumpysDefault) {
  const std::vector<double> values{7, 1, 4, 10, 2};  // numpy.quantile(values, (0, .1, .5, .9, 1))
  const std::vector<std::pair<double, double>> expected{{0, 1}, {0.1, 1.4}, {0.5, 4}, {0.9, 8.8}, {1, 10}};
  for (const auto& [share, value] : expected) EXPECT_NEAR(linear_quantile(values, share), value, 1e-12) << share;
  EXPECT_DOUBLE_EQ(median_of({3, 1}), 2);
  EXPECT_DOUBLE_EQ(median_of({5}), 5);
  EXPECT_DOUBLE_EQ(linear_quantile({5}, 0.9), 5);
}

TEST(Folds, AreOfFnv1aOnEveryMachine) {
  // Worked out by six lines of Python over the UTF-8 bytes.
  const std::vector<std::pair<std::string, int>> expected{{"", 0},
                                                          {"a", 2},
                                                          {"b", 4},
                                                          {"c", 0},
                                                          {"e", 1},
                                                          {"f", 3},
                                                          {"bridge-layout/llama3-70b", 2},
                                                          {"schl\xc3\xbcssel", 2}};
  for (const auto& [key, fold] : expected) EXPECT_EQ(fold_of(key), fold) << key;
}

TEST(Folds, HoldAboutAFifthOfTheKeysEach) {
  std::vector<int> counts(kFolds, 0);
  for (int i = 0; i < 5000; ++i) ++counts.at(static_cast<std::size_t>(fold_of("source/model/" + std::to_string(i))));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 120);  // four standard deviations
}

TEST(TrackErrors, CountNearCopiesOnceOverKeysAndEachOverRows) {
  // Three copies 10, 20 and 60 % off, one row 4 % off the other way.
  const Pairs pairs{timed(11, 10, "copies"), timed(12, 10, "copies"), timed(16, 10, "copies"), timed(24, 25, "one")};
  const TrackErrors errors = track_errors(pairs);
  EXPECT_EQ(errors.rows, 4U);
  EXPECT_EQ(errors.keys, 2U);
  EXPECT_NEAR(errors.mean_percent, 23.5, kNear);
  EXPECT_NEAR(errors.row_p90_percent, 48, kNear);  // 0.7 of the way from 20 to 60
  EXPECT_NEAR(errors.worst_percent, 60, kNear);
  EXPECT_NEAR(errors.median_percent, 12, kNear);  // of 20 and 4
  EXPECT_NEAR(errors.p90_percent, 18.4, kNear);
}

TEST(TrackRanking, CountsPairsInAndOutOfOrder) {
  // Measured 1, 2, 3, 4; predicted swaps the first two: five in order, one out.
  const TrackRanking ranking = track_ranking(Pairs{timed(2, 1), timed(1, 2), timed(3, 3), timed(4, 4)});
  EXPECT_EQ(ranking.groups, 1U);
  EXPECT_EQ(ranking.pairs, 6U);
  EXPECT_NEAR(ranking.kendall_tau, 4.0 / 6, kNear);
  EXPECT_NEAR(ranking.regret_p90_percent, 100, kNear);  // picked 2 s, best 1 s
  EXPECT_NEAR(ranking.regret_worst_percent, 100, kNear);
}

TEST(TrackRanking, IsOneInOrderAndMinusOneInReverse) {
  Pairs right, wrong;
  for (int i = 1; i < 9; ++i) {
    right.push_back(timed(2 * i, i));
    wrong.push_back(timed(9 - i, i));
  }
  EXPECT_EQ(track_ranking(right).kendall_tau, 1);
  EXPECT_EQ(track_ranking(right).regret_worst_percent, 0);
  EXPECT_EQ(track_ranking(wrong).kendall_tau, -1);
  EXPECT_NEAR(track_ranking(wrong).regret_worst_percent, 700, kNear);
  EXPECT_EQ(track_ranking(wrong).pairs, 28U);
}

TEST(TrackRanking, LeavesOutWhatIsMeasuredOrPredictedAlike) {
  EXPECT_EQ(track_ranking(Pairs{timed(1, 100), timed(2, 102.9)}).pairs, 0U);
  EXPECT_EQ(track_ranking(Pairs{timed(1, 100), timed(2, 103.1)}).pairs, 1U);
  EXPECT_EQ(track_ranking(Pairs{timed(2, 103.1), timed(1, 100)}).pairs, 1U);  // either order
  const TrackRanking ties = track_ranking(Pairs{timed(5, 3), timed(5, 2), timed(5, 4)});
  EXPECT_EQ(ties.pairs, 0U);
  EXPECT_EQ(ties.kendall_tau, 0);
  EXPECT_NEAR(ties.regret_worst_percent, 50, kNear);  // the first of those predicted alike is picked
}

TEST(TrackRanking, IsInsideGroupsOnly) {
  Pairs pairs{timed(1, 2, "a", "x"), timed(2, 1, "b", "y"), timed(3, 9, "c", ""), timed(4, 1, "d", "")};
  EXPECT_EQ(track_ranking(pairs).groups, 0U);
  EXPECT_EQ(track_ranking(pairs).pairs, 0U);
  pairs.push_back(timed(3, 1, "e", "x"));  // one regret of 100, none elsewhere
  pairs.push_back(timed(9, 5, "f", "y"));
  const TrackRanking ranking = track_ranking(pairs);
  EXPECT_EQ(ranking.groups, 2U);
  EXPECT_EQ(ranking.pairs, 2U);
  EXPECT_EQ(ranking.kendall_tau, 0);  // one each way
  EXPECT_NEAR(ranking.regret_p90_percent, 90, kNear);
  EXPECT_NEAR(ranking.regret_worst_percent, 100, kNear);
}

TEST(Bands, AreTheConformalQuantile) {
  std::vector<double> off;
  for (int n = 1; n <= 40; ++n) {
    off.push_back(n);  // 1 to n: the k-th smallest is k
    EXPECT_EQ(conformal_percent(off), std::min(n, static_cast<int>(std::ceil(0.8 * (n + 1) - 1e-9)))) << n;
  }
  EXPECT_NEAR(off_percent(timed(12, 10)), 20, kNear);
  EXPECT_NEAR(off_percent(timed(10, 12)), 20, kNear);  // either way
}

TEST(Bands, ComeFromTheOtherFoldsOfTheTrack) {
  ASSERT_NE(fold_of("a"), fold_of("b"));
  Pairs pairs{timed(11, 10, "a"), timed(13, 10, "b"), timed(90, 10, "a")};
  pairs[2].track = "other";
  const std::vector<double> bands = band_percents(pairs);
  EXPECT_NEAR(bands.at(0), 30, kNear);
  EXPECT_NEAR(bands.at(1), 10, kNear);
  EXPECT_NEAR(bands.at(2), 800, kNear);  // its own: there is no other fold
  const std::vector<TrackScore> scores = score_tracks(pairs);
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_EQ(scores[0].track, "other");
  EXPECT_EQ(scores[0].covered_percent, 100);  // just inside
  EXPECT_EQ(scores[1].covered_percent, 50);
  EXPECT_NEAR(scores[1].band_percent, 20, kNear);
}

TEST(Bands, HoldFourFifthsOfRandomErrors) {
  std::mt19937 random(7);
  std::normal_distribution<double> error(0.02, 0.1);
  Pairs pairs;
  for (int key = 0; key < 1500; ++key)
    for (int copy = 0; copy <= key % 3; ++copy)
      pairs.push_back(timed(10 * std::exp(error(random)), 10, "key" + std::to_string(key)));
  const TrackScore score = score_tracks(pairs).at(0);
  EXPECT_NEAR(score.covered_percent, 80, 3);
  // |normal(0.02, 0.1)| is below 0.1306 four times in five.
  EXPECT_NEAR(score.band_percent, 100 * std::expm1(0.1306), 1);
}

TEST(Bands, OfTheCallerDecideWhatIsCovered) {
  const Pairs pairs{timed(11, 10, "a"), timed(8, 10, "b"), timed(10, 10, "c")};
  const std::vector<double> bands{9, 26, 0};
  const TrackScore score = score_tracks(pairs, bands).at(0);
  EXPECT_NEAR(score.covered_percent, 200.0 / 3, kNear);  // 10 % is outside 9, 25 inside 26, 0 inside 0
  EXPECT_EQ(score.band_percent, 9);
}

TEST(ConstantMfu, IsFittedOnTheOtherFoldsOfTheSameDevice) {
  Pairs pairs{timed(1, 10, "a"), timed(1, 20, "b"), timed(1, 30, "b"), timed(1, 5, "a"), timed(1, 7, "b")};
  const std::vector<double> rates{4e14, 2e14, 8e14, 1e14, 0};
  for (std::size_t i = 0; i < 4; ++i) pairs[i].model_flops_per_s = rates[i];
  pairs[3].device = "another";
  const std::vector<std::optional<double>> seconds = constant_mfu_s(pairs);
  EXPECT_NEAR(seconds.at(0).value(), 10, kNear);  // geometric mean of 2 and 8 is 4
  EXPECT_NEAR(seconds.at(1).value(), 10, kNear);  // 20 s at 2 of 4
  EXPECT_NEAR(seconds.at(2).value(), 60, kNear);
  EXPECT_FALSE(seconds.at(3).has_value());  // no other fold on its device
  EXPECT_FALSE(seconds.at(4).has_value());  // no figure of its own
  const TrackErrors rival = score_tracks(pairs).at(0).constant_mfu.value();
  EXPECT_EQ(rival.rows, 3U);
  EXPECT_NEAR(rival.mean_percent, 50, kNear);  // 0, 50, 100
}

TEST(TimeScores, OfNothingAreNone) {
  EXPECT_TRUE(score_tracks({}).empty());
  EXPECT_TRUE(band_percents({}).empty());
  EXPECT_EQ(track_errors({}).rows, 0U);
  EXPECT_EQ(track_ranking({}).groups, 0U);
}

TEST(TimeScores, OfOneRowAreItsOwn) {
  const TrackScore score = score_tracks(Pairs{timed(9, 10)}).at(0);
  EXPECT_EQ(score.errors.rows, 1U);
  EXPECT_EQ(score.errors.keys, 1U);
  for (const double percent : {score.errors.mean_percent, score.errors.row_p90_percent, score.errors.worst_percent,
                               score.errors.median_percent, score.errors.p90_percent})
    EXPECT_NEAR(percent, 10, kNear);
  EXPECT_NEAR(score.band_percent, 100.0 / 9, kNear);
  EXPECT_EQ(score.covered_percent, 100);
  EXPECT_EQ(score.ranking.groups, 0U);
  EXPECT_FALSE(score.constant_mfu.has_value());
}

TEST(TimeScores, OfExactPredictionsAreZero) {
  const TrackScore score = score_tracks(Pairs(7, timed(3, 3))).at(0);
  EXPECT_EQ(score.errors.keys, 1U);
  EXPECT_EQ(score.errors.worst_percent, 0);
  EXPECT_EQ(score.band_percent, 0);
  EXPECT_EQ(score.covered_percent, 100);  // a band of no width holds what is exact
  EXPECT_EQ(score.ranking.pairs, 0U);
  EXPECT_EQ(score.ranking.regret_worst_percent, 0);
}

TEST(TimeScores, AgreeWithTwinsOnRandomRows) {
  RandomPairs random(24);
  std::size_t pairs_seen = 0, rivals_seen = 0;
  for (int round = 0; round < 300; ++round) {
    const Pairs pairs = random.next();
    std::size_t rows = 0;
    for (const TrackScore& score : score_tracks(pairs)) {
      expect_equal(score, score_twin(pairs, score.track));
      rows += score.errors.rows;
      pairs_seen += score.ranking.pairs;
      if (score.constant_mfu) ++rivals_seen;
    }
    EXPECT_EQ(rows, pairs.size());
    if (HasFailure()) FAIL() << "round " << round;
  }
  EXPECT_GT(pairs_seen, 3000U);
  EXPECT_GT(rivals_seen, 300U);
}

TEST(TimeScores, DoNotDependOnTheOrderOfRows) {
  RandomPairs random(25);
  for (int round = 0; round < 100; ++round) {
    Pairs pairs = random.next();
    // Of rows predicted alike the first is picked: nothing else may look at the order.
    for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i].predicted_s *= 1 + 1e-6 * static_cast<double>(i);
    const std::vector<TrackScore> before = score_tracks(pairs);
    std::ranges::shuffle(pairs, random.engine());
    const std::vector<TrackScore> after = score_tracks(pairs);
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t i = 0; i < before.size(); ++i) expect_equal(before[i], after[i]);
  }
}

TEST(TimeScores, AreInByteOrderOfTracksAndNeverPooled) {
  Pairs pairs{timed(11, 10), timed(12, 10), timed(20, 10)};
  pairs[0].track = "b";
  pairs[1].track = "B";
  pairs[2].track = "a";
  const std::vector<TrackScore> scores = score_tracks(pairs);
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[0].track, "B");
  EXPECT_EQ(scores[1].track, "a");
  EXPECT_EQ(scores[2].track, "b");
  EXPECT_NEAR(scores[0].errors.mean_percent, 20, kNear);
  EXPECT_NEAR(scores[1].errors.mean_percent, 100, kNear);
  EXPECT_NEAR(scores[2].errors.mean_percent, 10, kNear);
  EXPECT_EQ(scores[0].ranking.groups, 0U);  // one group, three tracks
}

}  // namespace
}  // namespace tidemark::step_time
