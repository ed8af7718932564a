#include "planner/decide/rank_problem.h"

#include <algorithm>
#include <utility>

namespace tidemark {

/// Parts refer to one another, so they stand where they were made.
struct RankProblem::Sites {
  explicit Sites(DecisionProblem made) : problem(std::move(made)), gaps(gap_problem_of(problem)), evaluator(problem) {}
  DecisionProblem problem;
  GapProblem gaps;
  Evaluator evaluator;
};

RankProblem::RankProblem(const Graph& graph, const Liveness& liveness, const Machine& machine, const Timeline& nominal,
                         std::vector<std::int64_t> op_ns, Bytes host_budget_bytes, FlatOptions options,
                         OffloadChoice offload)
    : graph_(graph),
      liveness_(liveness),
      machine_(machine),
      nominal_(nominal),
      op_ns_(std::move(op_ns)),
      host_budget_bytes_(host_budget_bytes),
      options_(std::move(options)),
      offload_(std::move(offload)),
      is_flat_(remat::is_flat(graph)) {}

RankProblem::~RankProblem() = default;

Status RankProblem::check() {
  if (is_flat_ || sites_ != nullptr) return {};
  Result<DecisionProblem> problem = build_problem(graph_, liveness_, machine_, nominal_, op_ns_, offload_);
  if (!problem) return problem.error();
  sites_ = std::make_unique<Sites>(std::move(problem).value());
  return {};
}

RankProblem::Sites& RankProblem::made_sites() {
  if (sites_ == nullptr)
    sites_ = std::make_unique<Sites>(build_problem(graph_, liveness_, machine_, nominal_, op_ns_, offload_).value());
  return *sites_;
}

const DecisionProblem& RankProblem::sites() {
  return made_sites().problem;
}
const GapProblem& RankProblem::gaps() {
  return made_sites().gaps;
}
Evaluator& RankProblem::evaluator() {
  return made_sites().evaluator;
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

const StateOffload& RankProblem::state_offload() {
  static const StateOffload nothing;
  return is_flat_ ? nothing : sites().state;
}

StateOffload RankProblem::offload_of(const OffloadChoice& choice) {
  return offload_beside(sites(), choice);
}

std::size_t RankProblem::size() {
  return is_flat_ ? graph_.ops.size() : sites().gaps.size();
}

const remat::Problem& RankProblem::flat_problem() {
  if (flat_ == nullptr) flat_ = std::make_unique<remat::Problem>(graph_, machine_, options_.rules, host_budget_bytes_);
  return *flat_;
}

remat::StepPlanner& RankProblem::flat(remat::StepRule rule) {
  auto& planner = rule == remat::StepRule::greedy ? greedy_ : optimal_;
  if (planner == nullptr)
    planner = std::make_unique<remat::StepPlanner>(
        flat_problem(),
        remat::PlanLimits{.rule = rule, .effort = options_.effort, .on_progress = options_.on_progress});
  return *planner;
}

}  // namespace tidemark
