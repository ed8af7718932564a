#include "planner/rank_options.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/schedule/scheduler.h"
#include "planner/step_choice.h"

namespace tidemark::plan {
namespace {

/// A choice is carried to a schedule at about what pricing so many takes.
constexpr std::size_t kPricesOfSchedule = 16;
/// Positions and gaps priced in the time of a task played.
constexpr std::int64_t kPricedOfTask = 16;

}  // namespace

RankOptions::RankOptions(const RankRequest& request, const RankPlan& plan)
    : request_(request), plan_(plan), budgets_(budgets_of(request.request)) {
  options_.push_back(
      {.work = played_work(request.request, plan, plan.program.schedule), .addresses = Addresses::found});
}

Status RankOptions::list(std::int64_t most_tasks) {
  using decide::sites::RunTime;
  if (plan_.figures.offloaded_bytes > 0) return {};
  const bool hides = request_.request.policy->hides_recompute;
  is_listed_by_site_ = true;
  if (Status s = list(hides ? RunTime::hidden : RunTime::late, most_tasks); !s) return s;
  if (!listings_.front().problem->sites().runs_early) return {};
  return list(RunTime::late, most_tasks);
}

Status RankOptions::list(decide::sites::RunTime run_time, std::int64_t most_tasks) {
  using decide::gaps::Grain;
  std::unique_ptr<decide::RankProblem> problem = make_problem(request_, budgets_, plan_, {}, run_time);
  if (Status s = problem->check(); !s) return s;
  const decide::gaps::GapProblem& gaps = problem->gaps();
  const auto choices_by = [&](Grain grain) {
    return std::make_unique<decide::gaps::LeastChoices>(gaps, problem->evaluator(), budgets_.device, budgets_.host,
                                                        grain);
  };
  const auto most = static_cast<std::size_t>(most_tasks) / (gaps.base_bytes.size() + gaps.gaps.size() + 1);
  Listing listing{.problem = nullptr, .listed = nullptr, .by_site = choices_by(Grain::units)};
  std::optional<std::vector<decide::gaps::Choice>> found;
  for (const Grain grain : {Grain::units, Grain::kinds}) {
    listing.listed = choices_by(grain);
    found = listing.listed->list(most);
    if (found && found->size() > most / kPricesOfSchedule) found.reset();
    if (found) break;
    is_listed_by_site_ = false;
    listing.listed.reset();
  }
  listing.problem = std::move(problem);
  listings_.push_back(std::move(listing));
  if (!found) return {};
  for (decide::gaps::Choice& choice : *found)
    if (Status s = add(listings_.size() - 1, std::move(choice)); !s) return s;
  return {};
}

Result<Schedule> RankOptions::schedule_of(std::size_t listing, const decide::gaps::Choice& choice) {
  decide::RankProblem& problem = *listings_[listing].problem;
  decide::gaps::PlanCost cost;
  const Plan plan = problem.evaluator().plan(choice, cost);
  return schedule::build_schedule(
      {.graph = problem.graph(), .liveness = problem.liveness(), .nominal = problem.nominal(), .plan = plan});
}

Status RankOptions::add(std::size_t listing, decide::gaps::Choice choice) {
  const Result<Schedule> schedule = schedule_of(listing, choice);
  if (!schedule) return schedule.error();
  tasks_built_ += std::ssize(schedule.value().tasks);
  options_.push_back({.listing = listing,
                      .choice = std::move(choice),
                      .work = played_work(request_.request, plan_, schedule.value())});
  return {};
}

Status RankOptions::add_new(std::size_t listing, std::vector<decide::gaps::Choice> choices) {
  for (decide::gaps::Choice& choice : choices) {
    const auto is_same = [&](const Option& o) { return o.listing == listing && o.choice == choice; };
    if (std::ranges::any_of(options_, is_same)) continue;
    if (Status s = add(listing, std::move(choice)); !s) return s;
  }
  return {};
}

Result<bool> RankOptions::has_addresses(std::size_t option) {
  Option& o = options_[option];
  if (o.addresses == Addresses::unknown) {
    const Result<BuiltPlan> built =
        build_plan(*listings_[o.listing].problem, answer(option), budgets_, request_.request);
    if (!built) return built.error();
    o.addresses = fits(built.value(), budgets_) ? Addresses::found : Addresses::missing;
  }
  return o.addresses == Addresses::found;
}

Status RankOptions::add_beyond(std::size_t option) {
  const Option& o = options_[option];
  if (listings_[o.listing].listed == nullptr) return {};
  return add_new(o.listing, listings_[o.listing].listed->beyond(o.choice));
}

decide::gaps::Choice RankOptions::own_choice() const {
  decide::gaps::Choice choice;
  for (const decide::sites::GapRow& row_of_gap : listings_.front().problem->sites().gaps) {
    const Gap& gap = row_of_gap.gap;
    const Storage& storage = plan_.graph.storages[row(gap.storage)];
    const Site& site = plan_.graph.sites[row(storage.site)];
    const GapKey key{
        .storage_template = storage.storage_template, .chunk = site.chunk, .layer = site.layer, .gap = gap.ordinal};
    choice.push_back(plan_.decisions.action_of(key, site.micro_batch));
  }
  return choice;
}

/// Gaps of what is recomputed, of copies, and of copies that tasks on the path are charged for.
std::vector<bool> RankOptions::gaps_on(const std::vector<std::int32_t>& path, const Schedule& schedule,
                                       std::size_t listing) const {
  const decide::sites::DecisionProblem& p = listings_[listing].problem->sites();
  std::vector<char> is_on_path(schedule.tasks.size(), 0);
  for (const std::int32_t task : path) is_on_path[static_cast<std::size_t>(task)] = 1;
  std::vector<char> is_storage(plan_.graph.storages.size(), 0);
  bool is_charged = false;  // the compute task before
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    const Task& task = schedule.tasks[t];
    if (task.lane == Lane::compute) is_charged = is_on_path[t] != 0;
    if (task.kind == TaskKind::swap_out || task.kind == TaskKind::swap_in) {
      if (is_charged || is_on_path[t] != 0) is_storage[row(task.storage)] = 1;
    } else if (task.kind == TaskKind::recompute && is_on_path[t] != 0) {
      for (const Schedule::Touch& touch : schedule.touches_of(id_of<TaskId>(t)))
        is_storage[row(schedule.residencies[row(touch.residency)].storage)] = 1;
    }
  }
  std::vector<bool> wanted;
  for (const decide::sites::GapRow& gap : p.gaps) wanted.push_back(is_storage[row(gap.gap.storage)] != 0);
  return wanted;
}

Status RankOptions::add_near(std::size_t option, const std::vector<std::int32_t>& path, std::int64_t most_tasks) {
  if (listings_.empty()) return {};
  const std::size_t listing = options_[option].listing;
  const decide::gaps::Choice choice = option == 0 ? own_choice() : options_[option].choice;
  std::optional<Schedule> built;
  if (option > 0) {
    Result<Schedule> schedule = schedule_of(listing, choice);
    if (!schedule) return schedule.error();
    built = std::move(schedule).value();
  }
  const Schedule& schedule = built ? *built : plan_.program.schedule;
  Listing& l = listings_[listing];
  const decide::gaps::GapProblem& gaps = l.problem->gaps();
  const std::int64_t of_price = std::ssize(gaps.base_bytes) + std::ssize(gaps.gaps);
  const std::int64_t most = most_tasks * kPricedOfTask / of_price;
  const std::size_t priced = l.by_site->priced();
  std::vector<decide::gaps::Choice> found =
      l.by_site->near(choice, gaps_on(path, schedule, listing), static_cast<std::size_t>(most));
  tasks_built_ += static_cast<std::int64_t>(l.by_site->priced() - priced) * of_price / kPricedOfTask;
  const auto most_built = static_cast<std::size_t>(most_tasks / std::ssize(schedule.tasks) + 1);
  if (found.size() > most_built) found.resize(most_built);
  return add_new(listing, std::move(found));
}

PolicyAnswer RankOptions::answer(std::size_t option) {
  const Option& o = options_[option];
  PolicyAnswer answer;
  answer.plan = listings_[o.listing].problem->evaluator().plan(o.choice, answer.cost);
  return answer;
}

}  // namespace tidemark::plan
