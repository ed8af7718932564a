#include "planner/step_choice.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "planner/schedule/scheduler.h"
#include "planner/simulate/simulator.h"
#include "planner/threads/parallel.h"

namespace tidemark::plan {
namespace {

constexpr std::int64_t kTasksPlayed = 20'000'000;  ///< by steps with single ranks exchanged: about a second
constexpr std::int64_t kFewTasks = 2'000'000;      ///< played in vain they cost little

/// The step of ranks whose work is exchanged.
class StepPlay {
 public:
  StepPlay(const PlanRequest& request, const std::vector<RankPlan>& ranks) : works_(ranks.size()) {
    std::vector<const Rule*> rules;
    for (const RankPlan& plan : ranks)
      for (const Offer& offer : plan.offers)
        if (std::ranges::find(rules, offer.rule) == rules.end()) rules.push_back(offer.rule);
    rules_ = std::move(rules);
    threads::parallel_for_each(0, ranks.size(), [&](std::size_t r) {
      const RankPlan& plan = ranks[r];
      const auto work_of = [&](const Schedule& schedule) {
        const std::vector<std::int64_t> estimates =
            schedule::task_durations(plan.graph, schedule, request.machine, request.time_scale);
        return simulate::work_of(plan.graph, schedule,
                                 schedule::charged_durations(plan.graph, schedule, request.machine, estimates));
      };
      works_[r].push_back({.rule = nullptr, .work = work_of(plan.program.schedule)});
      for (const Offer& offer : plan.offers) works_[r].push_back({.rule = offer.rule, .work = work_of(offer.schedule)});
    });
    for (const auto& of_rank : works_) tasks_ += std::ssize(of_rank.front().work.lanes);
  }

  [[nodiscard]] const std::vector<const Rule*>& rules() const { return rules_; }
  [[nodiscard]] std::int64_t tasks() const { return tasks_; }
  [[nodiscard]] bool has_offer(std::size_t rank, const Rule* rule) const {
    return std::ranges::find(works_[rank], rule, &Work::rule) != works_[rank].end();
  }

  /// A rank without an offer of its rule takes its own plan.
  Result<std::int64_t> step_ns(const std::vector<const Rule*>& rules) {
    std::vector<simulate::RankWork> work;
    for (std::size_t r = 0; r < works_.size(); ++r) work.push_back(std::move(at(r, rules[r]).work));
    const Result<simulate::StepTiming> timing = simulate::simulate_step(work);
    for (std::size_t r = 0; r < works_.size(); ++r) at(r, rules[r]).work = std::move(work[r]);
    if (!timing) return timing.error();
    return timing.value().step_ns;
  }

 private:
  struct Work {
    const Rule* rule = nullptr;
    simulate::RankWork work;
  };

  Work& at(std::size_t rank, const Rule* rule) {
    const auto found = std::ranges::find(works_[rank], rule, &Work::rule);
    return found == works_[rank].end() ? works_[rank].front() : *found;
  }

  std::vector<std::vector<Work>> works_;  ///< by rank; its own plan first
  std::vector<const Rule*> rules_;        ///< of any rank's offers
  std::int64_t tasks_ = 0;                ///< of a step
};

/// Goes around the ranks and keeps whatever is shorter, until nothing is or the tasks are used up.
Status exchange_single_ranks(StepPlay& play, StepChoice& choice) {
  std::int64_t played = 0;
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (std::size_t r = 0; r < choice.rules.size(); ++r) {
      std::vector<const Rule*> others = {nullptr};
      others.insert(others.end(), play.rules().begin(), play.rules().end());
      for (const Rule* rule : others) {
        if (rule == choice.rules[r] || !play.has_offer(r, rule)) continue;
        played += play.tasks();
        if (played > kTasksPlayed) return {};
        std::vector<const Rule*> tried = choice.rules;
        tried[r] = rule;
        const Result<std::int64_t> step = play.step_ns(tried);
        if (!step) return step.error();
        if (step.value() >= choice.step_ns) continue;
        choice = {.rules = std::move(tried), .own_step_ns = choice.own_step_ns, .step_ns = step.value()};
        shorter = true;
      }
    }
  }
  return {};
}

}  // namespace

Result<StepChoice> choose_schedules(const PlanRequest& request, const std::vector<RankPlan>& ranks) {
  StepPlay play(request, ranks);
  const std::vector<const Rule*> own(ranks.size(), nullptr);
  const Result<std::int64_t> own_step = play.step_ns(own);
  if (!own_step) return own_step.error();
  StepChoice choice{.rules = own, .own_step_ns = own_step.value(), .step_ns = own_step.value()};
  for (const Rule* rule : play.rules()) {
    std::vector<const Rule*> rules;
    for (std::size_t r = 0; r < ranks.size(); ++r) rules.push_back(play.has_offer(r, rule) ? rule : nullptr);
    const Result<std::int64_t> step = play.step_ns(rules);
    if (!step) return step.error();
    if (step.value() < choice.step_ns)
      choice = {.rules = std::move(rules), .own_step_ns = own_step.value(), .step_ns = step.value()};
  }
  // Where no rule is faster by itself, least added on each rank is mostly near the shortest step.
  const auto round = play.tasks() * std::ssize(ranks) * std::ssize(play.rules());
  if (choice.rules == own && round > kFewTasks) return choice;
  if (Status status = exchange_single_ranks(play, choice); !status) return status.error();
  return choice;
}

}  // namespace tidemark::plan
