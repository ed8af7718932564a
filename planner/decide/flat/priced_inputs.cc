#include "planner/decide/flat/priced_inputs.h"

#include <algorithm>
#include <cmath>

namespace tidemark::decide::flat {
namespace {

constexpr int kMostDepth = 64;             // of inputs of inputs ...
constexpr std::int64_t kMostLooked = 500;  // ... and so many of them for one run
constexpr double kSpread = 3;              // prices drawn are within that power of e around the mean

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

PricedInputs::PricedInputs(const State& state)
    : state_(state), known_(state.problem().bytes.size()), made_in_(state.problem().bytes.size()) {
  const Problem& p = state.problem();
  double cost = 0, bytes = 0, page_cost = 0, paged = 0;
  for (std::int32_t v = 0; v < p.op_count; ++v) {
    if (p.rerun_until[at(v)] < 0) continue;
    cost += static_cast<double>(p.cost[at(v)]);
    for (const std::int32_t s : p.writes[v]) bytes += static_cast<double>(p.bytes[at(s)]);
  }
  for (std::int32_t s = 0; s < p.storage_count; ++s) {
    if (p.swappable[at(s)] == 0) continue;
    page_cost += static_cast<double>(p.page_in[at(s)] + p.page_out[at(s)]);
    paged += static_cast<double>(p.bytes[at(s)]);
  }
  op_price_ = std::max(cost, 1.0) / std::max(bytes, 1.0);
  page_price_ = paged > 0 ? std::max(page_cost, 1.0) / paged : -1;
}

double PricedInputs::draw_price(Random& random) const {
  const double mean = page_price_ > 0 && random.below(2) == 0 ? page_price_ : op_price_;
  return mean * std::exp(kSpread * (2 * random.unit() - 1));
}

void PricedInputs::begin(Key rerun, double price) {
  rerun_ = rerun;
  price_ = price;
  ++begun_;
  most_looked_ = looked_ + kMostLooked;
}

PricedInputs::Choice PricedInputs::choose(std::int32_t storage, int depth) {
  const Problem& p = state_.problem();
  if (made_in_[at(storage)] == begun_) return known_[at(storage)];
  ++looked_;
  Choice best{.cost = price_ * static_cast<double>(p.bytes[at(storage)]), .input = Input::lives_on};
  if (p.swappable[at(storage)] != 0) {
    const auto cost = static_cast<double>(p.page_in[at(storage)] + p.page_out[at(storage)]);
    if (cost < best.cost) best = {.cost = cost, .input = Input::swapped_in};
  }
  const std::int32_t v = p.producer[at(storage)];
  if (v >= 0 && depth < kMostDepth && looked_ < most_looked_ && p.may_recompute(v, stage_of(rerun_))) {
    auto cost = static_cast<double>(p.cost[at(v)]);
    for (const std::int32_t r : p.reads[v]) {
      if (cost >= best.cost) break;
      if (state_.gap_around(r, rerun_).until == 0) cost += choose(r, depth + 1).cost;
    }
    if (cost < best.cost) best = {.cost = cost, .input = Input::recomputed};
  }
  known_[at(storage)] = best;
  made_in_[at(storage)] = begun_;
  return best;
}

}  // namespace tidemark::decide::flat
