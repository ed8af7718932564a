#include "planner/decide/rank_problem.h"

#include <algorithm>
#include <utility>

namespace tidemark::decide {

/// Parts refer to one another, so they stand where they were made.
struct RankProblem::Sites {
  explicit Sites(sites::DecisionProblem made)
      : problem(std::move(made)), gaps(sites::gap_problem_of(problem)), evaluator(problem) {}
  sites::DecisionProblem problem;
  gaps::GapProblem gaps;
  sites::Evaluator evaluator;
};

RankProblem::RankProblem(const Graph& graph, const Liveness& liveness, const Machine& machine,
                         const simulate::Timeline& nominal, std::vector<std::int64_t> op_ns, Bytes host_budget_bytes,
                         FlatOptions options, sites::ProblemOptions sites)
    : graph_(graph),
      liveness_(liveness),
      machine_(machine),
      nominal_(nominal),
      op_ns_(std::move(op_ns)),
      host_budget_bytes_(host_budget_bytes),
      options_(std::move(options)),
      sites_options_(std::move(sites)),
      is_flat_(flat::is_flat(graph)) {}

RankProblem::~RankProblem() = default;

Status RankProblem::check() {
  if (is_flat_ || sites_ != nullptr) return {};
  Result<sites::DecisionProblem> problem =
      sites::build_problem(graph_, liveness_, machine_, nominal_, op_ns_, sites_options_);
  if (!problem) return problem.error();
  sites_ = std::make_unique<Sites>(std::move(problem).value());
  return {};
}

RankProblem::Sites& RankProblem::made_sites() {
  if (sites_ == nullptr)
    sites_ = std::make_unique<Sites>(
        sites::build_problem(graph_, liveness_, machine_, nominal_, op_ns_, sites_options_).value());
  return *sites_;
}

const sites::DecisionProblem& RankProblem::sites() {
  return made_sites().problem;
}
const gaps::GapProblem& RankProblem::gaps() {
  return made_sites().gaps;
}
sites::Evaluator& RankProblem::evaluator() {
  return made_sites().evaluator;
}

void RankProblem::weigh(std::span<const float> weights, gaps::SearchStart start) {
  Sites& made = made_sites();
  sites::weigh(made.problem, weights, start.choice);
  sites::weigh_costs(made.problem, made.gaps);
  made.evaluator.forget();
  start_ = std::move(start);
}

Bytes RankProblem::keep_all_peak_bytes() {
  return is_flat_ ? liveness_.peak_bytes : *std::ranges::max_element(sites().base_bytes);
}

Bytes RankProblem::persistent_bytes() {
  Bytes bytes = -state_offload().bytes;
  for (const Storage& s : graph_.storages)
    if (graph_.storage_templates[row(s.storage_template)].persists()) bytes += s.bytes;
  return bytes;
}

const sites::StateOffload& RankProblem::state_offload() {
  static const sites::StateOffload nothing;
  return is_flat_ ? nothing : sites().state;
}

sites::StateOffload RankProblem::offload_of(const sites::OffloadChoice& choice) {
  return sites::offload_beside(sites(), choice);
}

std::size_t RankProblem::size() {
  return is_flat_ ? graph_.ops.size() : sites().gaps.size();
}

const flat::Problem& RankProblem::flat_problem() {
  if (flat_ == nullptr) flat_ = std::make_unique<flat::Problem>(graph_, machine_, options_.rules, host_budget_bytes_);
  return *flat_;
}

flat::StepPlanner& RankProblem::flat(flat::StepRule rule) {
  auto& planner = rule == flat::StepRule::greedy ? greedy_ : optimal_;
  if (planner == nullptr)
    planner = std::make_unique<flat::StepPlanner>(flat_problem(), flat::PlanLimits{.rule = rule,
                                                                                   .effort = options_.effort,
                                                                                   .aimed = options_.aimed,
                                                                                   .should_stop = options_.should_stop,
                                                                                   .on_progress = options_.on_progress,
                                                                                   .on_better = options_.on_better});
  return *planner;
}

}  // namespace tidemark::decide
