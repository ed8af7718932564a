#include "planner/overflow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "planner/known_share.h"
#include "planner/load_posterior.h"

namespace tidemark::plan {
namespace {

using graph_build::LoadFit;

constexpr int kDraws = 200;
constexpr int kDriftPoints = 3;  ///< of the steps ahead at which popularity is drawn
constexpr double kCoarsestStep = 0.5, kFinestStep = 1.0 / 32, kNodesEnd = 7;  ///< of integrals, in deviations
constexpr double kLeastSpread = 1e-9;
constexpr double kHardlyDrifts = 1 - 1e-9;

/// Mean of `of(part)`, over a normal part with this deviation, by the trapezoid rule. `resolution`: of
/// what `of` depends on; steps are half of it where that is fine enough for the normal itself.
template <class Of>
auto over_normal(double deviation, double resolution, Of of) {
  if (deviation <= kLeastSpread) return of(0.0);
  const double step = std::clamp(resolution / (2 * deviation), kFinestStep, kCoarsestStep);
  const auto end = static_cast<int>(std::ceil(kNodesEnd / step));
  decltype(of(0.0)) mean{};
  double weights = 0;
  for (int i = -end; i <= end; ++i) {
    const double weight = std::exp(-i * step * i * step / 2);
    weights += weight;
    mean += of(deviation * i * step) * weight;
  }
  return mean * (1 / weights);
}

/// Without a spread a load that equals its room is not above it.
double above(double distance, double spread) {
  if (spread <= kLeastSpread) return distance < -kLeastSpread ? 1 : 0;
  return std::erfc(distance / (spread * std::numbers::sqrt2)) / 2;
}

/// What the sites of a device show, given its popularity and its part.
struct Shares {
  double none_log = 0;  ///< log of the probability that no site exceeds its room
  double sites = 0;     ///< expected number above their room
  double scatter = 0;   ///< its variance
};

/// Over the device's part.
struct DeviceShares {
  double any = 0;
  double sites = 0, squares = 0;  ///< mean and mean square of the number of sites above
  DeviceShares& operator+=(const DeviceShares& o) {
    any += o.any;
    sites += o.sites;
    squares += o.squares;
    return *this;
  }
  friend DeviceShares operator*(const DeviceShares& s, double by) {
    return {.any = s.any * by, .sites = s.sites * by, .squares = s.squares * by};
  }
};

DeviceShares whole(const Shares& s) {
  return {.any = -std::expm1(s.none_log), .sites = s.sites, .squares = s.scatter + s.sites * s.sites};
}

void add_sites(Shares& shares, double q, double sites) {
  shares.none_log += sites * std::log1p(-std::min(q, 1 - 1e-16));
  shares.sites += sites * q;
  shares.scatter += sites * q * (1 - q);
}

class Forecast {
 public:
  Forecast(const LoadFit& fit, std::span<const LayerRoom> rooms, const ForecastAsk& ask)
      : fit_(fit), rooms_(rooms.begin(), rooms.end()), ask_(ask), truth_(fit, layers_of_fit(), ask.seed) {
    for (const LayerRoom& room : rooms_) sites_ += static_cast<double>(room.sites);
  }

  OverflowForecast run() {
    std::array<std::vector<double>, 4> drawn;  // probability and seen share, of steps and of sites
    for (int i = 0; i < kDraws; ++i) draw(drawn);
    return {.steps = share(drawn[0], drawn[1]), .sites = share(drawn[2], drawn[3])};
  }

 private:
  /// Those that the rooms are in; fills row_of_room_.
  std::vector<std::size_t> layers_of_fit() {
    std::vector<std::size_t> layers;
    for (const LayerRoom& room : rooms_) {
      const auto at = std::ranges::lower_bound(ask_.layers, std::int64_t{room.layer}) - ask_.layers.begin();
      const auto known = std::ranges::find(layers, static_cast<std::size_t>(at));
      row_of_room_.push_back(static_cast<std::size_t>(known - layers.begin()));
      if (known == layers.end()) layers.push_back(static_cast<std::size_t>(at));
    }
    return layers;
  }

  DeviceShares shares_of(std::size_t device) const {
    return over_normal(truth_.device_deviation(), truth_.site_deviation(), [&](double part) {
      Shares shares;
      for (std::size_t i = 0; i < rooms_.size(); ++i) {
        const double liked = truth_.popularity(row_of_room_[i], device);
        const double distance = rooms_[i].load / fit_.model.mean - 1 - part - liked;
        add_sites(shares, above(distance, truth_.site_deviation()), static_cast<double>(rooms_[i].sites));
      }
      return whole(shares);
    });
  }

  /// A number of successes in `count` trials of probability p.
  double binomial(double count, double p) {
    const double mean = count * p;
    if (std::min(mean, count - mean) > 25)
      return std::clamp(std::round(mean + std::sqrt(mean * (1 - p)) * truth_.draws().normal()), 0.0, count);
    const bool turned = p > 0.5;
    const double q = turned ? 1 - p : p;
    double u = static_cast<double>(truth_.draws().next() >> 11) * 0x1.0p-53, chance = std::exp(count * std::log1p(-q)),
           k = 0;
    while (u > chance && k < count) {
      u -= chance;
      chance *= (count - k) / (k + 1) * q / (1 - q);
      ++k;
    }
    return turned ? count - k : k;
  }

  void draw(std::array<std::vector<double>, 4>& drawn) {
    truth_.draw();
    const int points =
        truth_.persistence() < kHardlyDrifts ? std::min<int>(kDriftPoints, static_cast<int>(ask_.steps)) : 1;
    const auto first = static_cast<std::size_t>(std::max<std::int64_t>(0, ask_.device));
    const std::size_t last = ask_.device < 0 ? static_cast<std::size_t>(fit_.shape.devices) : first + 1;
    std::array<double, 4> mean{};
    double middle = 0;
    for (int p = 0; p < points; ++p) {
      // The middle of this part of the steps, seen from the middle of the one before.
      const std::int64_t begin = ask_.steps * p / points, end = ask_.steps * (p + 1) / points;
      const double ahead = static_cast<double>(begin + end + 1) / 2 - middle;
      middle += ahead;
      const auto steps = static_cast<double>(end - begin);
      const double weight = steps / static_cast<double>(ask_.steps) / static_cast<double>(last - first);
      truth_.drift(ahead);
      for (std::size_t d = first; d < last; ++d) {
        const DeviceShares shares = shares_of(d);
        const double of_sites = shares.sites / sites_;
        const double spread = std::sqrt(std::max(0.0, shares.squares - shares.sites * shares.sites) / steps) / sites_;
        mean[0] += weight * shares.any;
        mean[1] += weight * binomial(steps, shares.any) / steps;
        mean[2] += weight * of_sites;
        mean[3] += weight * std::clamp(of_sites + spread * truth_.draws().normal(), 0.0, 1.0);
      }
    }
    for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i].push_back(mean[i]);
  }

  static ShareForecast share(std::vector<double>& probability, std::vector<double>& seen) {
    ShareForecast forecast;
    for (const double p : probability) forecast.probability += p / kDraws;
    std::ranges::sort(probability);
    std::ranges::sort(seen);
    const auto beyond = static_cast<std::size_t>(kDraws * (1 - kShareConfidence) / 2);
    forecast.low = probability[beyond];
    forecast.high = probability[kDraws - 1 - beyond];
    forecast.seen_low = seen[beyond];
    forecast.seen_high = seen[kDraws - 1 - beyond];
    return forecast;
  }

  const LoadFit& fit_;
  std::vector<LayerRoom> rooms_;
  const ForecastAsk& ask_;
  std::vector<std::size_t> row_of_room_;
  LoadPosterior truth_;
  double sites_ = 0;
};

}  // namespace

OverflowForecast forecast_overflow(const graph_build::LoadFit& fit, std::span<const LayerRoom> rooms,
                                   const ForecastAsk& ask) {
  if (rooms.empty()) return {};
  return Forecast(fit, rooms, ask).run();
}

}  // namespace tidemark::plan
