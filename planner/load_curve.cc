#include "planner/load_curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace tidemark::plan {
namespace {

constexpr int kSteps = 32;  ///< between two points

}  // namespace

void LoadCurve::add(Point point) {
  const auto behind = std::ranges::upper_bound(points_, point.load, {}, &Point::load);
  points_.insert(behind, std::move(point));
}

std::optional<double> LoadCurve::added_ns(double load) const {
  const auto found = std::ranges::find(points_, load, &Point::load);
  return found == points_.end() ? std::nullopt : std::optional(found->added_ns);
}

std::optional<double> LoadCurve::next_load(double from, double to) const {
  std::optional<double> next;
  for (const Point& p : points_) {
    if (p.load == from || (p.load < from) != (to < from) || std::abs(p.load - from) > std::abs(to - from)) continue;
    if (!next || std::abs(p.load - from) < std::abs(*next - from)) next = p.load;
  }
  return next;
}

std::optional<LoadCurve::Candidate> LoadCurve::best(const Point& least) const {
  if (points_.empty()) return std::nullopt;
  std::vector<const Point*> ends;
  if (points_.front().load > least.load) ends.push_back(&least);
  for (const Point& p : points_) ends.push_back(&p);
  const auto expected_ns = [](const Point& p) { return p.added_ns + p.chunks_ns(p.load); };
  const double known_ns = expected_ns(*std::ranges::min_element(points_, {}, expected_ns));
  Candidate best{.load = points_.back().load};
  for (std::size_t i = 1; i < ends.size(); ++i)
    for (int step = 0; step < kSteps; ++step) {
      const Point &below = *ends[i - 1], &above = *ends[i];
      const double part = static_cast<double>(step) / kSteps, load = std::lerp(below.load, above.load, part);
      const double gain = known_ns - std::lerp(below.added_ns, above.added_ns, part) - below.chunks_ns(load);
      if (gain > best.gain_ns) best = {.load = load, .gain_ns = gain};
    }
  return best;
}

}  // namespace tidemark::plan
