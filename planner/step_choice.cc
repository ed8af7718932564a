#include "planner/step_choice.h"

#include <algorithm>
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
  StepPlay(const PlanRequest& request, const std::vector<RankPlan>& ranks, const simulate::StepTiming& nominal)
      : request_(request), ranks_(ranks), nominal_(nominal), works_(ranks.size()) {
    threads::parallel_for_each(0, ranks.size(), [&](std::size_t r) {
      works_[r].push_back({.rule = nullptr, .work = played_work(request, ranks[r], ranks[r].program.schedule)});
    });
    for (const auto& of_rank : works_) tasks_ += std::ssize(of_rank.front().work.lanes);
  }

  /// Of one step.
  [[nodiscard]] std::int64_t tasks() const { return tasks_; }
  [[nodiscard]] const std::vector<const Rule*>& rules() const { return rules_; }
  [[nodiscard]] bool has(std::size_t rank, const Rule* rule) const {
    return std::ranges::find(works_[rank], rule, &Work::rule) != works_[rank].end();
  }

  /// Adds a rule's schedules, unless no step by it is shorter than `step_ns`. False: they were not.
  Result<bool> add(const Rule* rule, std::int64_t step_ns) {
    const auto is_as_long = [&](std::size_t r) {
      const Offer* offer = find(r, rule);
      const std::int64_t computes_ns = nominal_.ranks[r].busy_ns[static_cast<std::size_t>(Lane::compute)];
      return offer != nullptr && computes_ns + offer->recompute_ns >= step_ns;
    };
    bool is_offered = false;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (is_as_long(r)) return false;
      is_offered = is_offered || find(r, rule) != nullptr;
    }
    if (!is_offered) return false;
    const Status status = threads::parallel_try_each(ranks_.size(), [&](std::size_t r) -> Status {
      const Offer* offer = find(r, rule);
      if (offer == nullptr) return {};
      const RankPlan& plan = ranks_[r];
      const Result<Schedule> schedule = schedule::build_schedule(
          {.graph = plan.graph, .liveness = plan.liveness, .nominal = nominal_.ranks[r], .plan = offer->plan});
      if (!schedule) return schedule.error();
      works_[r].push_back({.rule = rule, .work = played_work(request_, plan, schedule.value())});
      return {};
    });
    if (!status) return status.error();
    rules_.push_back(rule);
    return true;
  }

  /// A rank without a schedule of its rule takes its own plan.
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

  [[nodiscard]] const Offer* find(std::size_t rank, const Rule* rule) const {
    const auto& offers = ranks_[rank].offers;
    const auto found = std::ranges::find(offers, rule, &Offer::rule);
    return found == offers.end() ? nullptr : &*found;
  }
  Work& at(std::size_t rank, const Rule* rule) {
    const auto found = std::ranges::find(works_[rank], rule, &Work::rule);
    return found == works_[rank].end() ? works_[rank].front() : *found;
  }

  const PlanRequest& request_;
  const std::vector<RankPlan>& ranks_;
  const simulate::StepTiming& nominal_;
  std::vector<std::vector<Work>> works_;  ///< by rank; its own plan first
  std::vector<const Rule*> rules_;        ///< that were added
  std::int64_t tasks_ = 0;
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
        if (rule == choice.rules[r] || !play.has(r, rule)) continue;
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

simulate::RankWork played_work(const PlanRequest& request, const RankPlan& plan, const Schedule& schedule) {
  const std::vector<std::int64_t> estimates =
      schedule::task_durations(plan.graph, schedule, request.machine, request.time_scale);
  return simulate::work_of(plan.graph, schedule,
                           schedule::charged_durations(plan.graph, schedule, request.machine, estimates));
}

Result<StepChoice> choose_schedules(const PlanRequest& request, const std::vector<RankPlan>& ranks,
                                    const simulate::StepTiming& nominal) {
  StepPlay play(request, ranks, nominal);
  const std::vector<const Rule*> own(ranks.size(), nullptr);
  const Result<std::int64_t> own_step = play.step_ns(own);
  if (!own_step) return own_step.error();
  StepChoice choice{.rules = own, .own_step_ns = own_step.value(), .step_ns = own_step.value()};
  for (const Rule& rule : request.policy->fallbacks) {
    const Result<bool> added = play.add(&rule, choice.step_ns);
    if (!added) return added.error();
    if (!added.value()) continue;
    std::vector<const Rule*> rules;
    for (std::size_t r = 0; r < ranks.size(); ++r) rules.push_back(play.has(r, &rule) ? &rule : nullptr);
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

Result<std::int64_t> played_step_ns(const PlanRequest& request, const std::vector<RankPlan>& ranks) {
  std::vector<simulate::RankWork> work(ranks.size());
  threads::parallel_for_each(
      0, ranks.size(), [&](std::size_t r) { work[r] = played_work(request, ranks[r], ranks[r].program.schedule); });
  const Result<simulate::StepTiming> timing = simulate::simulate_step(work);
  if (!timing) return timing.error();
  return timing.value().step_ns;
}

}  // namespace tidemark::plan
