#include "planner/decide/sites/evaluator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace tidemark::decide::sites {
namespace {

/// First compute op from `from` on (as a position of the compute lane) that nominally starts at or after `ns`: mostly
/// not far from `from`.
std::size_t first_compute_at(const DecisionProblem& p, std::int64_t ns, std::size_t from) {
  const auto begin = p.clock_start_ns.begin();
  std::size_t low = std::min(from, p.clock_start_ns.size()), stride = 1;
  while (low + stride < p.clock_start_ns.size() && p.clock_start_ns[low + stride] < ns) {
    low += stride;
    stride *= 2;
  }
  const std::size_t high = std::min(low + stride, p.clock_start_ns.size());
  return static_cast<std::size_t>(
      std::lower_bound(begin + static_cast<std::ptrdiff_t>(low), begin + static_cast<std::ptrdiff_t>(high), ns) -
      begin);
}

/// Bytes that live only while a recipe runs.
Bytes transient_bytes(const DecisionProblem& p, const Recipe& recipe, SiteId site) {
  Bytes bytes = 0;
  for (const std::int32_t local : recipe.transients)
    bytes += p.graph->storages[row(p.graph->storage_at(site, local))].bytes;
  return bytes;
}

}  // namespace

/// Runs before one op follow each other, so of their transients the largest counts; communication issued ahead holds
/// its own.
void Evaluator::add_transients(const SiteClass& c, SiteId site, const SiteEffect& effect) {
  const DecisionProblem& p = problem_;
  const auto ops = p.ops_of(site);
  const auto clock_at = [&](std::int32_t pos) { return p.clock_of[row(ops[static_cast<std::size_t>(pos)])]; };
  // One half-step early: rebuilt bytes are taken while the op before them may still hold its own.
  const auto add = [&](std::int32_t start_pos, std::int32_t need_pos, Bytes bytes) {
    delta_[static_cast<std::size_t>(std::max(0, 2 * clock_at(start_pos) - 1))] += bytes;
    delta_[static_cast<std::size_t>(2 * clock_at(need_pos) + 1)] -= bytes;
  };
  std::int32_t pos = -1;
  Bytes largest = 0;
  for (const SiteEffect::Run& run : effect.runs) {
    const SiteClass::Unit& unit = c.units[static_cast<std::size_t>(run.unit)];
    const Bytes bytes = transient_bytes(p, p.graph->recipes[row(unit.recipe)], site);
    if (run.start_pos != run.need_pos) {
      add(run.start_pos, run.need_pos, bytes);
      continue;
    }
    if (run.need_pos != pos && pos >= 0) {
      add(pos, pos, largest);
      largest = 0;
    }
    pos = run.need_pos;
    largest = std::max(largest, bytes);
  }
  if (pos >= 0) add(pos, pos, largest);
}

/// What of that is free, ns.
double Evaluator::apply_site(const gaps::Choice& choice, std::int32_t site_class, std::size_t site,
                             Evaluation& result) {
  const DecisionProblem& p = problem_;
  const SiteClass& c = p.classes[static_cast<std::size_t>(site_class)];
  const std::int32_t first = c.first_gap[site];
  const SiteEffect& effect = effects_.get(site_class, choice, first);
  const auto ops = p.ops_of(c.sites[site]);
  const std::int64_t recompute_ns = effect.compute_ns - effect.hidden_ns;
  result.recompute_ns += recompute_ns;
  result.hidden_recompute_ns += effect.hidden_ns;
  result.exposed_communication_ns += effect.exposed_communication_ns;
  add_transients(c, c.sites[site], effect);
  double free_ns = 0;
  for (const SiteEffect::Run& run : effect.runs) {
    const std::int32_t slot = c.units[static_cast<std::size_t>(run.unit)].slots.front();
    free_ns += (1 - p.gaps[static_cast<std::size_t>(first + slot)].weight.run) * static_cast<double>(run.paid_ns);
  }
  for (std::size_t k = 0; k < c.slots.size(); ++k) {
    const auto g = static_cast<std::size_t>(first) + k;
    if (choice[g] == Action::keep) continue;
    const GapRow& gap = p.gaps[g];
    // A position past the site's own ops means the gap ends at another site's op, which is gap.after itself.
    const auto back = static_cast<std::size_t>(effect.back_pos[k]);
    const OpId needed = back < ops.size() ? std::min(ops[back], gap.gap.after) : gap.gap.after;
    if (choice[g] == Action::recompute) {
      freed_from_[g] = gap.free_from;
      freed_until_[g] = std::max(gap.free_from, 2 * p.clock_of[row(needed)] - 1);
      delta_[static_cast<std::size_t>(freed_from_[g])] -= gap.bytes;
      delta_[static_cast<std::size_t>(freed_until_[g])] += gap.bytes;
    } else {
      result.swapped_bytes += gap.bytes;
      result.copy_overhead_ns += gap.copy_out.compute_ns + gap.copy_in.compute_ns;
      free_ns += (1 - gap.weight.out) * static_cast<double>(gap.copy_out.compute_ns) +
                 (1 - gap.weight.in) * static_cast<double>(gap.copy_in.compute_ns);
      needed_[g] = needed;
    }
  }
  return free_ns;
}

void Evaluator::apply_sites(const gaps::Choice& choice, Evaluation& result) {
  double free_ns = 0;
  for (std::size_t ci = 0; ci < problem_.classes.size(); ++ci) {
    const SiteClass& c = problem_.classes[ci];
    for (std::size_t s = 0; s < c.sites.size(); ++s) {
      const auto begin = choice.begin() + c.first_gap[s];
      if (std::all_of(begin, begin + static_cast<std::ptrdiff_t>(c.slots.size()),
                      [](Action a) { return a == Action::keep; }))
        continue;
      free_ns += apply_site(choice, static_cast<std::int32_t>(ci), s, result);
    }
  }
  result.free_ns = std::llround(free_ns);
}

void Evaluator::list_copy_rows() {
  const DecisionProblem& p = problem_;
  std::vector<std::pair<OpId, std::int32_t>> order;
  order.reserve(p.gaps.size());
  for (const GapRow& gap : p.gaps) order.emplace_back(gap.gap.before, static_cast<std::int32_t>(order.size()));
  std::sort(order.begin(), order.end());
  copy_rows_.reserve(order.size());
  for (const auto& [before, g] : order) {
    const GapRow& gap = p.gaps[static_cast<std::size_t>(g)];
    copy_rows_.push_back({.gap = g,
                          .after_ready = p.clock_of[row(before)] + 1,
                          .free_from = gap.free_from,
                          .ready_ns = p.nominal->end_ns[row(before)],
                          .out_ns = gap.copy_out.link_ns,
                          .in_ns = gap.copy_in.link_ns,
                          .bytes = gap.bytes});
  }
}

/// The copies of a choice in the order in which the D2H lane takes them, which is that of ops.
schedule::LinkPlan Evaluator::queue_copies(const gaps::Choice& choice) {
  std::vector<schedule::CopyRequest> requests;
  std::int64_t last_ready = 0;
  for (std::size_t i = 0; i < copy_rows_.size(); ++i) {
    const CopyRow& copy = copy_rows_[i];
    const auto g = static_cast<std::size_t>(copy.gap);
    if (choice[g] != Action::swap) continue;
    swapped_.push_back({.gap = copy.gap, .row = static_cast<std::int32_t>(i), .needed = needed_[g]});
    last_ready = std::max(last_ready, copy.ready_ns);  // the lane is FIFO in op order
    requests.push_back({.ready_ns = last_ready,
                        .deadline_ns = problem_.nominal->start_ns[row(needed_[g])],
                        .out_ns = copy.out_ns,
                        .in_ns = copy.in_ns});
  }
  return schedule::plan_copies(requests);
}

/// Where device bytes are free. Copies end one after the other, so each is looked for from the one before on.
void Evaluator::release(const schedule::LinkPlan& link) {
  const DecisionProblem& p = problem_;
  std::size_t at = 0;
  for (std::size_t i = 0; i < swapped_.size(); ++i) {
    SwappedGap& s = swapped_[i];
    const CopyRow& copy = copy_rows_[static_cast<std::size_t>(s.row)];
    const auto needed = static_cast<std::size_t>(p.clock_of[row(s.needed)]);
    const auto after_ready = static_cast<std::size_t>(copy.after_ready);
    at = first_compute_at(p, link.copies[i].out_end_ns, std::max(at, after_ready));
    s.released_at = std::min(at, needed);
    s.released = p.compute_op[std::min(s.released_at, p.compute_op.size() - 1)];
    const auto g = static_cast<std::size_t>(s.gap);
    freed_from_[g] = std::max(copy.free_from, static_cast<std::int32_t>(2 * s.released_at));
    delta_[static_cast<std::size_t>(freed_from_[g])] -= copy.bytes;
    host_delta_[after_ready * 2 - 1] += copy.bytes;
    host_delta_[std::min(needed * 2 + 1, host_delta_.size() - 1)] -= copy.bytes;
  }
}

/// Where device bytes are taken again. Copies in start one after the other, too.
void Evaluator::prefetch(const schedule::LinkPlan& link) {
  const DecisionProblem& p = problem_;
  std::size_t at = 0;
  for (const std::uint32_t i : link.in_order) {
    SwappedGap& s = swapped_[i];
    s.in_start_ns = link.copies[i].in_start_ns;
    at = first_compute_at(p, s.in_start_ns + 1, at);
    // The last compute op that has started when the copy in should begin: waiting for its predecessor is never late.
    const std::size_t started = std::max(at, s.released_at);
    const std::size_t begin =
        std::clamp(started == 0 ? 0 : started - 1, s.released_at, static_cast<std::size_t>(p.clock_of[row(s.needed)]));
    // The op that needs the data may sit on another lane, before the next compute op.
    s.prefetch = std::min(p.compute_op[std::min(begin, p.compute_op.size() - 1)], s.needed);
    const auto g = static_cast<std::size_t>(s.gap);
    freed_until_[g] = std::max(freed_from_[g], static_cast<std::int32_t>(2 * begin) - 1);
    delta_[static_cast<std::size_t>(freed_until_[g])] += copy_rows_[static_cast<std::size_t>(s.row)].bytes;
  }
}

void Evaluator::apply_copies(const gaps::Choice& choice, Evaluation& result) {
  if (copy_rows_.empty()) list_copy_rows();
  const schedule::LinkPlan link = queue_copies(choice);
  result.exposed_copy_ns = link.exposed_ns;
  release(link);
  prefetch(link);
}

/// Profiles from what changes where, which is zero again after.
void Evaluator::sum_up(Evaluation& result) {
  Bytes change = 0, host = 0;
  for (std::size_t t = 0; t < profile_.size(); ++t) {
    change += std::exchange(delta_[t], 0);
    profile_[t] = problem_.base_bytes[t] + change;
    if (profile_[t] > result.peak_bytes) {
      result.peak_bytes = profile_[t];
      result.peak_clock = static_cast<std::int32_t>(t);
    }
    host += std::exchange(host_delta_[t], 0);
    host_profile_[t] = host;
    result.host_peak_bytes = std::max(result.host_peak_bytes, host);
  }
  const auto length = static_cast<std::ptrdiff_t>(profile_.size());
  std::fill(delta_.begin() + length, delta_.end(), 0);
  std::fill(host_delta_.begin() + length, host_delta_.end(), 0);
}

void Evaluator::work_out(const gaps::Choice& choice, Evaluation& result) {
  const auto length = static_cast<std::size_t>(problem_.clock_length());
  delta_.resize(length + 2, 0);  // zero from the last time
  host_delta_.resize(length + 2, 0);
  profile_.resize(length);
  host_profile_.resize(length);
  freed_from_.resize(choice.size());
  freed_until_.resize(choice.size());
  needed_.resize(choice.size());
  swapped_.clear();

  const StateOffload& state = problem_.state;
  result.swapped_bytes = state.bytes;
  result.copy_overhead_ns = state.overhead_ns;
  apply_sites(choice, result);
  if (std::ranges::find(choice, Action::swap) != choice.end()) apply_copies(choice, result);
  result.exposed_copy_ns += state.exposed_ns;
  host_delta_[0] += state.bytes;
  sum_up(result);
}

Evaluation Evaluator::evaluate(const gaps::Choice& choice) {
  if (last_.empty() || choice != last_) {
    of_last_ = {};
    work_out(choice, of_last_);
    last_ = choice;
  }
  return of_last_;
}

gaps::Pricing Evaluator::price(const gaps::Choice& choice) {
  const Evaluation evaluation = evaluate(choice);
  return {.peak_bytes = evaluation.peak_bytes,
          .host_peak_bytes = evaluation.host_peak_bytes,
          .added_cost = evaluation.weighted_ns(),
          .exposed_copy_cost = evaluation.exposed_copy_ns};
}

/// Those of the choice priced last and of offloaded state, on one D2H and one H2D lane.
void Evaluator::add_swaps(Plan& plan) const {
  struct Timed {
    Plan::Swap swap;
    std::int64_t in_start_ns = 0;
  };
  std::vector<Timed> rows;
  for (const Plan::Swap& swap : problem_.state.plan.swaps) rows.push_back({.swap = swap});
  for (const SwappedGap& s : swapped_) {
    const Gap& gap = problem_.gaps[static_cast<std::size_t>(s.gap)].gap;
    rows.push_back({.swap = {.storage = gap.storage,
                             .ready = {.op = gap.before},
                             .released = PlanPoint::ahead_of(s.released),
                             .prefetch = PlanPoint::ahead_of(s.prefetch),
                             .needed = PlanPoint::ahead_of(s.needed)},
                    .in_start_ns = s.in_start_ns});
  }
  std::ranges::stable_sort(rows, {}, [](const Timed& t) { return t.swap.ready; });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    plan.swaps.push_back(rows[i].swap);
    if (!rows[i].swap.ends()) plan.swap_in_order.push_back(static_cast<std::int32_t>(i));
  }
  std::ranges::stable_sort(plan.swap_in_order, {}, [&](std::int32_t i) {
    const Timed& t = rows[static_cast<std::size_t>(i)];
    return std::pair(t.swap.prefetch, t.in_start_ns);
  });
}

std::vector<Evaluator::Placed> Evaluator::recomputations(const gaps::Choice& choice) {
  std::vector<Placed> placed;
  const DecisionProblem& p = problem_;
  std::size_t first_unit = 0;
  for (std::size_t ci = 0; ci < p.classes.size(); ++ci) {
    const SiteClass& c = p.classes[ci];
    for (std::size_t s = 0; s < c.sites.size(); ++s, first_unit += c.units.size()) {
      const auto ops = p.ops_of(c.sites[s]);
      for (const SiteEffect::Run& run : effects_.get(static_cast<std::int32_t>(ci), choice, c.first_gap[s]).runs)
        placed.push_back({.unit = static_cast<std::int32_t>(first_unit) + run.unit,
                          .clock = p.clock_of[row(ops[static_cast<std::size_t>(run.start_pos)])],
                          .ns = run.paid_ns});
    }
  }
  return placed;
}

Plan Evaluator::plan(const gaps::Choice& choice, gaps::PlanCost& cost) {
  cost = evaluate(choice);
  const DecisionProblem& p = problem_;
  Plan plan;
  for (std::size_t g = 0; g < choice.size(); ++g)
    if (choice[g] == Action::recompute) plan.drops.push_back({p.gaps[g].gap.storage, {.op = p.gaps[g].gap.before}});
  for (std::size_t ci = 0; ci < p.classes.size(); ++ci) {
    const SiteClass& c = p.classes[ci];
    for (std::size_t s = 0; s < c.sites.size(); ++s) {
      const auto ops = p.ops_of(c.sites[s]);
      for (const SiteEffect::Run& run : effects_.get(static_cast<std::int32_t>(ci), choice, c.first_gap[s]).runs)
        plan.runs.push_back({.site = c.sites[s],
                             .recipe = c.units[static_cast<std::size_t>(run.unit)].recipe,
                             .start = ops[static_cast<std::size_t>(run.start_pos)],
                             .need = ops[static_cast<std::size_t>(run.need_pos)]});
    }
  }
  std::ranges::stable_sort(plan.drops, {}, &Plan::Drop::after);
  std::ranges::stable_sort(plan.runs, {}, &Plan::Run::start);
  add_swaps(plan);
  return plan;
}

}  // namespace tidemark::decide::sites
