#pragma once
// What one rank of a small pipeline may do, as the step plays it: its own plan, and every choice within its budgets in
// which nothing more can be kept.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "planner/built_plan.h"
#include "planner/decide/gaps/least_choices.h"
#include "planner/rank_planner.h"

namespace tidemark::plan {

class RankOptions {
 public:
  /// Option 0 is the plan. Arguments must outlive this.
  RankOptions(const RankRequest& request, const RankPlan& plan);

  /// Adds the choices: by site where these are at most about `most_tasks` to price, or else by site class, or else
  /// none. A rank that offloads state has none: what it holds is not known here. Errors: those of build_problem and of
  /// the scheduler.
  Status list(std::int64_t most_tasks);

  [[nodiscard]] std::size_t size() const { return options_.size(); }
  [[nodiscard]] simulate::RankWork& work(std::size_t option) { return options_[option].work; }
  /// Work done for options that are near others or beyond them, in tasks played.
  [[nodiscard]] std::int64_t tasks_built() const { return tasks_built_; }

  /// Whether it fits with addresses. The first call for an option packs it. Errors: those of build_plan.
  Result<bool> has_addresses(std::size_t option);
  /// Whether it is known that it has none.
  [[nodiscard]] bool is_dead(std::size_t option) const { return options_[option].addresses == Addresses::missing; }
  /// Adds options that keep one thing less than this one, which has no addresses. Errors: as list().
  Status add_beyond(std::size_t option);

  /// Adds options near this one: instead of something it adds on a path of the step, less, or a thing elsewhere.
  /// `path`: its tasks there. About as much work as `most_tasks` played. Errors: as list().
  Status add_near(std::size_t option, const std::vector<std::int32_t>& path, std::int64_t most_tasks);

  /// What it may do was listed for each site by itself.
  [[nodiscard]] bool is_listed_by_site() const { return is_listed_by_site_; }

  /// REQUIRES: option > 0.
  [[nodiscard]] PolicyAnswer answer(std::size_t option);

 private:
  enum class Addresses : std::uint8_t { unknown, found, missing };
  struct Option {
    std::size_t listing = 0;  ///< of `listings_`; of option 0: nothing
    decide::gaps::Choice choice;
    simulate::RankWork work;
    Addresses addresses = Addresses::unknown;
  };
  /// A problem and the choices of it.
  struct Listing {
    std::unique_ptr<decide::RankProblem> problem;
    std::unique_ptr<decide::gaps::LeastChoices> listed;  ///< null: too many
    std::unique_ptr<decide::gaps::LeastChoices> by_site;
  };
  Status list(decide::sites::RunTime run_time, std::int64_t most_tasks);
  Status add(std::size_t listing, decide::gaps::Choice choice);
  Status add_new(std::size_t listing, std::vector<decide::gaps::Choice> choices);
  [[nodiscard]] Result<Schedule> schedule_of(std::size_t listing, const decide::gaps::Choice& choice);
  [[nodiscard]] decide::gaps::Choice own_choice() const;
  [[nodiscard]] std::vector<bool> gaps_on(const std::vector<std::int32_t>& path, const Schedule& schedule,
                                          std::size_t listing) const;

  const RankRequest& request_;
  const RankPlan& plan_;
  Budgets budgets_;
  std::vector<Listing> listings_;
  std::vector<Option> options_;
  std::int64_t tasks_built_ = 0;
  bool is_listed_by_site_ = false;  ///< for every time that recomputation may run
};

}  // namespace tidemark::plan
