#include "planner/estimate/flag_remedy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "planner/estimate/flag_candidates.h"
#include "planner/estimate/flag_edit.h"
#include "planner/estimate/flag_forecast.h"
#include "planner/estimate/flag_trial.h"

namespace tidemark::estimate {
namespace {

using budget::Verdict;

/// What a remedy may cost: a step that gets shorter is no reason to ask for more flags.
double cost_of(double step_percent) {
  return std::max(0.0, step_percent);
}

/// Two or three candidates and what is expected of them.
struct Option {
  std::array<std::uint16_t, 3> picks{};
  std::uint16_t size = 0;
  Forecast forecast;

  [[nodiscard]] double cost() const { return cost_of(forecast.percent); }
  [[nodiscard]] std::vector<std::size_t> all() const { return {picks.begin(), picks.begin() + size}; }
};

enum class Goal : std::uint8_t { pass, near };

class Search {
 public:
  Search(const RemedyRequest& request, FlagTrials trials)
      : request_(request), trials_(std::move(trials)), candidates_(trials_.candidates()), base_(trials_.base()) {}

  budget::Remedy run() {
    least_ = base_;
    if (base_.verdict != Verdict::pass) {
      try_singles();
      if (cost_found(Goal::pass) > 0) look_further();
    }
    return answer();
  }

 private:
  void look_further() {
    try_strong_pairs();
    list_options();
    try_options(Goal::pass);
    if (!best_pass_) add_one_after_the_other();
    if (!best_pass_) go_down();
    if (!best_pass_ && base_.verdict == Verdict::fail) try_options(Goal::near);
  }

  void try_singles() {
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      singles_.push_back(trials_.attempt({i}));
      if (singles_.back()) keep_if_better(*singles_.back());
    }
    forecast_.emplace(trials_, singles_);
  }

  /// Pairs that together do other things than alone: sizes that share out everything, and beside stages what a stage
  /// holds of layers and of the loss.
  static bool is_strong(std::string_view one, std::string_view other) {
    constexpr std::array<std::string_view, 7> kSizes = {
        "tensor parallel", "pipeline parallel",     "context parallel", "expert parallel",
        "micro-batch",     "distributed optimizer", "sequence parallel"};
    const auto is_size = [&](std::string_view family) { return std::ranges::find(kSizes, family) != kSizes.end(); };
    const auto is_of_stage = [](std::string_view family) { return family == "whole layers" || family == "loss"; };
    return (is_size(one) && is_size(other)) || (one == "pipeline parallel" && is_of_stage(other)) ||
           (other == "pipeline parallel" && is_of_stage(one));
  }

  void try_strong_pairs() {
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      for (std::size_t j = i + 1; j < candidates_.size(); ++j)
        if (singles_[i] && may_add(j, i) && is_strong(candidates_[i].family, candidates_[j].family))
          (void)try_pair(i, j);
  }

  /// False: it was tried before, or the two are against each other.
  bool try_pair(std::size_t i, std::size_t j) {
    const auto [pair, is_new] = pairs_.try_emplace({i, j}, false);
    if (!is_new || !fit(i, j)) return false;
    const std::optional<FlagTrial> trial = trials_.attempt({i, j});
    pair->second = trial.has_value();
    if (!trial) return true;
    keep_if_better(*trial);
    forecast_->learn(*trial);
    return true;
  }

  void keep_if_better(const FlagTrial& trial) {
    if (trial.peak_bytes < least_.peak_bytes) least_ = trial;
    const auto order = [](const FlagTrial& one) {
      return std::tuple(cost_of(one.step_percent), one.picks.size(), one.flags.size(), one.step_percent);
    };
    const auto cheaper = [&](const std::optional<FlagTrial>& best) { return !best || order(trial) < order(*best); };
    if (trial.verdict == Verdict::pass && cheaper(best_pass_)) best_pass_ = trial;
    if (trial.verdict == Verdict::near && base_.verdict == Verdict::fail && cheaper(best_near_)) best_near_ = trial;
  }

  // ---- sets of two and three --------------------------------------------------------------------------------------

  [[nodiscard]] bool may_add(std::size_t i, std::size_t to) const {
    return singles_[i] && candidates_[i].family != candidates_[to].family;
  }

  void list_options() {
    ForecastParts two, three;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (!singles_[i]) continue;
      const ForecastParts one = forecast_->parts_of(*singles_[i]);
      for (std::size_t j = i + 1; j < candidates_.size(); ++j) {
        if (!may_add(j, i)) continue;
        forecast_->add(one, j, two);
        forecast_->correct(two, i, j);
        put_option({i, j}, two);
        for (std::size_t k = j + 1; k < candidates_.size(); ++k) {
          if (!may_add(k, i) || !may_add(k, j)) continue;
          forecast_->add(two, k, three);
          forecast_->correct(three, i, k);
          forecast_->correct(three, j, k);
          put_option({i, j, k}, three);
        }
      }
    }
  }

  void put_option(std::initializer_list<std::size_t> picks, const ForecastParts& parts) {
    Option option{.forecast = forecast_->of(parts)};
    for (const std::size_t pick : picks) option.picks[option.size++] = static_cast<std::uint16_t>(pick);
    options_.push_back(option);
  }

  static double reach(const Forecast& forecast, Goal goal) {
    return goal == Goal::pass ? forecast.reach : forecast.bare;
  }

  /// Those that are expected to reach the goal first, then those that are expected a little short of it, and so on;
  /// in each the cheapest first. What is expected to cost more than what was found is not tried.
  void try_options(Goal goal) {
    std::size_t left = kMostTries;
    double least = 0;
    for (const double most : {1.0, 1.1, 1.3, 1.6}) {
      std::vector<const Option*> order;
      for (const Option& option : options_)
        if (const double at = reach(option.forecast, goal); at > least && at <= most) order.push_back(&option);
      std::ranges::stable_sort(order, [](const Option* a, const Option* b) {
        return std::pair(a->cost(), a->size) < std::pair(b->cost(), b->size);
      });
      for (const Option* option : order) {
        if (left == 0 || kSureCost * option->cost() > cost_found(goal)) break;
        if (try_option(*option, goal, most)) --left;
      }
      least = most;
    }
  }

  [[nodiscard]] double cost_found(Goal goal) const {
    const std::optional<FlagTrial>& best = goal == Goal::pass ? best_pass_ : best_near_;
    return best ? cost_of(best->step_percent) : HUGE_VAL;
  }

  /// False: it was not worth an estimate.
  bool try_option(const Option& option, Goal goal, double most) {
    if (cost_found(goal) == 0 || !fit(option)) return false;
    const std::vector<std::size_t> picks = option.all();
    if (option.size == 2) return try_pair(picks[0], picks[1]);
    if (is_refused(picks)) return false;
    // Pairs that were estimated since say more than what each of them did.
    const Forecast forecast = forecast_->of(picks);
    if (reach(forecast, goal) > most || kSureCost * cost_of(forecast.percent) > cost_found(goal)) return false;
    if (!triples_.insert(option.picks).second) return false;
    if (const std::optional<FlagTrial> trial = trials_.attempt(picks)) keep_if_better(*trial);
    return true;
  }

  [[nodiscard]] bool is_refused(const std::vector<std::size_t>& picks) const {
    for (std::size_t i = 0; i < picks.size(); ++i)
      for (std::size_t j = i + 1; j < picks.size(); ++j)
        if (const auto found = pairs_.find({picks[i], picks[j]}); found != pairs_.end() && !found->second) return true;
    return false;
  }

  /// No two of them are against each other; asked once for each two.
  bool fit(const Option& option) {
    for (std::size_t i = 0; i < option.size; ++i)
      for (std::size_t j = i + 1; j < option.size; ++j)
        if (!fit(option.picks[i], option.picks[j])) return false;
    return true;
  }
  bool fit(std::size_t i, std::size_t j) {
    const auto [known, is_new] = fits_.try_emplace({i, j}, false);
    if (is_new) {
      const auto joined = join_flags(candidates_[i].flags, candidates_[j].flags);
      known->second = joined && fit_together(*joined);
    }
    return known->second;
  }

  // ---- larger sets ------------------------------------------------------------------------------------------------

  /// The step that leaves least above the limits for what it costs, until none is left that helps.
  void add_one_after_the_other() {
    FlagTrial at = base_;
    while (at.verdict != Verdict::pass) {
      const double excess = forecast_->of(forecast_->parts_of(at)).excess;
      const auto worth = [&](const Forecast& after) { return (excess - after.excess) / paid(at, after.percent); };
      std::optional<FlagTrial> best;
      double best_worth = 0;
      for (const std::size_t pick : additions(at, worth)) {
        std::optional<FlagTrial> next = attempt_with(at, pick);
        if (!next) continue;
        const double next_worth = worth(forecast_->of(forecast_->parts_of(*next)));
        if (next_worth <= best_worth) continue;
        best_worth = next_worth;
        best = std::move(next);
      }
      if (!best) return;
      at = std::move(*best);
    }
    keep_if_better(without_needless(std::move(at)));
  }

  /// What costs nothing is worth most.
  static double paid(const FlagTrial& before, double percent_after) {
    constexpr double kLeastPercent = 1e-3;
    return std::max(kLeastPercent, percent_after - before.step_percent);
  }

  /// The least that can be reached: from the sets of which least is expected, then flag by flag.
  void go_down() {
    std::vector<const Option*> order;
    for (const Option& option : options_) order.push_back(&option);
    const std::size_t some = std::min(order.size(), 4 * kMostLeast);
    std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(some), {},
                              [](const Option* option) { return std::pair(option->forecast.peak, option); });
    std::size_t left = kMostLeast;
    for (std::size_t i = 0; i < some && left > 0; ++i) {
      if (!fit(*order[i])) continue;
      if (const std::optional<FlagTrial> trial = trials_.attempt(order[i]->all())) keep_if_better(*trial);
      --left;
    }
    while (go_one_down()) {
    }
    if (least_.verdict == Verdict::pass) keep_if_better(without_needless(least_));
  }

  bool go_one_down() {
    const FlagTrial at = least_;
    const auto worth = [&](const Forecast& after) { return static_cast<double>(at.peak_bytes) - after.peak; };
    for (const std::size_t pick : additions(at, worth)) (void)attempt_with(at, pick);
    return least_.peak_bytes < at.peak_bytes;
  }

  std::optional<FlagTrial> attempt_with(const FlagTrial& at, std::size_t pick) {
    std::vector<std::size_t> picks = at.picks;
    picks.push_back(pick);
    std::optional<FlagTrial> next = trials_.attempt(std::move(picks));
    if (next) keep_if_better(*next);
    return next;
  }

  /// The candidates that are expected to be worth most beside a set, best first, if anything.
  template <class Worth>
  std::vector<std::size_t> additions(const FlagTrial& at, const Worth& worth) const {
    const ForecastParts before = forecast_->parts_of(at);
    ForecastParts after;
    std::vector<std::pair<double, std::size_t>> found;  // worth, negative: the largest comes first
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (!singles_[i] || is_taken(at, i)) continue;
      forecast_->add(before, i, after);
      for (const std::size_t pick : at.picks) forecast_->correct(after, pick, i);
      const double is_worth = worth(forecast_->of(after));
      if (is_worth > 0) found.emplace_back(-is_worth, i);
    }
    std::ranges::sort(found);
    std::vector<std::size_t> picks;
    for (std::size_t i = 0; i < found.size() && i < kMostAdditions; ++i) picks.push_back(found[i].second);
    return picks;
  }

  [[nodiscard]] bool is_taken(const FlagTrial& at, std::size_t candidate) const {
    return std::ranges::any_of(
        at.picks, [&](std::size_t pick) { return candidates_[pick].family == candidates_[candidate].family; });
  }

  /// The same without flags that later ones made needless.
  FlagTrial without_needless(FlagTrial trial) {
    for (std::size_t i = 0; i < trial.picks.size();) {
      std::vector<std::size_t> fewer = trial.picks;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      const std::optional<FlagTrial> next = fewer.empty() ? std::nullopt : trials_.attempt(std::move(fewer));
      if (next && next->verdict == Verdict::pass && cost_of(next->step_percent) <= cost_of(trial.step_percent)) {
        trial = *next;
        i = 0;
      } else {
        ++i;
      }
    }
    return trial;
  }

  budget::Remedy answer() {
    if (base_.verdict == Verdict::pass)
      return {
          .clears = true, .peak_bytes = base_.peak_bytes, .step_percent = 0, .reason = "every limit is kept as it is"};
    const std::optional<FlagTrial>& best = best_pass_ ? best_pass_ : best_near_;
    if (!best) return least_reached();
    budget::Remedy remedy{.clears = true, .peak_bytes = best->peak_bytes, .step_percent = best->step_percent};
    remedy.edits = edits_of(*best);
    if (!best_pass_)
      remedy.reason =
          fmt::format("NEAR: within the limits, but not with the error band of {} %; ", best->holdings.band_percent);
    if (!trials_.is_understood()) remedy.reason += "NEAR at most: an argument is not understood; ";
    remedy.reason += fmt::format(
        "the cheapest of {} sets of flags, each estimated anew; step cost modelled from the "
        "layers' operations and bytes",
        trials_.looked_at());
    // What the run has already was its author's choice.
    const TimeTerms unmeasured = best->terms.without(base_.terms).without(request_.chip.measured);
    if (!unmeasured.empty())
      remedy.reason +=
          fmt::format("; no measured run on chips of this kind had {}: that part is unchecked", unmeasured.text());
    remedy.reason += left_out();
    return remedy;
  }

  budget::Remedy least_reached() const {
    std::string with;
    for (const Flag& flag : least_.flags) with += " " + flag_text(flag);
    return {.clears = false,
            .peak_bytes = least_.peak_bytes,
            .reason = fmt::format("no flag that was looked at clears: least reached {} {}{} ({} sets of flags)",
                                  format_bytes(least_.peak_bytes), with.empty() ? "without any" : "with", with,
                                  trials_.looked_at())
                          .append(left_out())};
  }

  std::string_view left_out() const {
    if (!trials_.leaves_out_sharding()) return "";
    return "; the number of devices is not given, so that sharing optimizer state out among them was not looked at";
  }

  /// One edit a candidate, each with what it saves after those before it.
  std::vector<budget::Edit> edits_of(const FlagTrial& trial) {
    std::vector<budget::Edit> edits;
    FlagTrial before = base_;
    for (std::size_t i = 0; i < trial.picks.size(); ++i) {
      const std::size_t pick = trial.picks[i];
      const bool is_last = i + 1 == trial.picks.size();
      const std::vector<std::size_t> so_far(trial.picks.begin(),
                                            trial.picks.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      const std::optional<FlagTrial> after = is_last ? trial : trials_.attempt(so_far);
      budget::Edit edit{.saved_bytes = after ? most_saved(before, *after) : 0};
      for (const Flag& flag : candidates_[pick].flags) {
        // Of a list that several edits add to, the whole.
        const auto whole = std::ranges::find(trial.flags, flag.name, &Flag::name);
        edit.flags.push_back(flag_text(whole != trial.flags.end() ? *whole : flag));
        edit.text += (edit.text.empty() ? "" : " ") + edit.flags.back();
      }
      edit.where = place_of_edit(candidates_[pick]);
      edits.push_back(std::move(edit));
      if (after) before = *after;
    }
    return edits;
  }

  /// Of the rank that saves most; ranks of other numbers, after another split of the model, by the highest.
  static Bytes most_saved(const FlagTrial& before, const FlagTrial& after) {
    if (before.holdings.ranks.size() != after.holdings.ranks.size()) return before.peak_bytes - after.peak_bytes;
    Bytes most = before.peak_bytes - after.peak_bytes;
    for (std::size_t i = 0; i < before.holdings.ranks.size(); ++i)
      most = std::max(most, before.holdings.ranks[i].peak_bytes - after.holdings.ranks[i].peak_bytes);
    return most;
  }

  /// The first flag that stands in the script already; otherwise the first, as not given.
  [[nodiscard]] budget::Control place_of_edit(const FlagCandidate& candidate) const {
    for (const Flag& flag : candidate.flags)
      if (request_.places.contains(flag.name)) return place_of_argument(flag.name, request_.places);
    return place_of_argument(candidate.flags.front().name, request_.places);
  }

  /// A set that is expected to cost this much more than what was found does not cost less.
  static constexpr double kSureCost = 0.9;
  // Estimates, a tenth of a millisecond each: together they keep a remedy below a tenth of a second.
  static constexpr std::size_t kMostTries = 120, kMostLeast = 24, kMostAdditions = 6;

  const RemedyRequest& request_;
  FlagTrials trials_;
  const std::vector<FlagCandidate>& candidates_;
  const FlagTrial& base_;                          ///< no flag
  FlagTrial least_;                                ///< of all looked at, by the highest rank
  std::vector<std::optional<FlagTrial>> singles_;  ///< by candidate
  std::optional<FlagForecast> forecast_;
  std::vector<Option> options_;
  using PickPair = std::pair<std::size_t, std::size_t>;
  std::map<PickPair, bool> pairs_;  ///< those tried; false: refused
  std::set<std::array<std::uint16_t, 3>> triples_;
  std::map<PickPair, bool> fits_;
  std::optional<FlagTrial> best_pass_, best_near_;
};

}  // namespace

Result<budget::Remedy> cheapest_flags(const RemedyRequest& request) {
  std::vector<budget::Limit> limits;
  for (const budget::Limit& limit : request.limits)
    if (!limit.is_host) limits.push_back(limit);
  Result<FlagTrials> trials = FlagTrials::of(request.set, request.hints, request.knobs, limits, request.chip);
  if (!trials) return trials.error();
  return Search(request, std::move(trials).value()).run();
}

}  // namespace tidemark::estimate
