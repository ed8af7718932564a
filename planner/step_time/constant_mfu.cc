#include "planner/step_time/constant_mfu.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <string_view>
#include <tuple>

#include "planner/step_time/quantile.h"
#include "planner/step_time/split_fold.h"

namespace tidemark::step_time {
namespace {

using RivalClass = std::tuple<std::string_view, std::string_view, std::string_view>;
using LogRatesByFold = std::array<std::vector<double>, kFolds>;
using RateByFold = std::array<std::optional<double>, kFolds>;

RivalClass rival_class(const TimedPair& pair) {
  return {pair.track, pair.device, pair.precision};
}

std::optional<double> rate_outside(const LogRatesByFold& rates, std::size_t fold) {
  std::vector<double> others;
  for (std::size_t f = 0; f < rates.size(); ++f)
    if (f != fold) others.insert(others.end(), rates[f].begin(), rates[f].end());
  if (others.empty()) return std::nullopt;
  return std::exp(median_of(others));
}

/// FLOP/s that a fold's runs are predicted with.
std::map<RivalClass, RateByFold> rates_of(std::span<const TimedPair> pairs) {
  std::map<RivalClass, LogRatesByFold> logs;
  for (const TimedPair& pair : pairs)
    if (pair.model_flops_per_s)
      logs[rival_class(pair)][static_cast<std::size_t>(fold_of(pair.split_key))].push_back(
          std::log(*pair.model_flops_per_s));
  std::map<RivalClass, RateByFold> rates;
  for (const auto& [of, by_fold] : logs)
    for (std::size_t fold = 0; fold < kFolds; ++fold) rates[of][fold] = rate_outside(by_fold, fold);
  return rates;
}

}  // namespace

std::vector<std::optional<double>> constant_mfu_s(std::span<const TimedPair> pairs) {
  const std::map<RivalClass, RateByFold> rates = rates_of(pairs);
  std::vector<std::optional<double>> seconds;
  for (const TimedPair& pair : pairs) {
    std::optional<double>& of_pair = seconds.emplace_back();
    if (!pair.model_flops_per_s) continue;
    const auto& rate = rates.at(rival_class(pair))[static_cast<std::size_t>(fold_of(pair.split_key))];
    if (rate) of_pair = pair.measured_s * *pair.model_flops_per_s / *rate;
  }
  return seconds;
}

}  // namespace tidemark::step_time
