#include "planner/joint_choice.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "planner/rank_options.h"
#include "planner/threads/parallel.h"

namespace tidemark::plan {
namespace {

/// Of a step, all ranks together: of more, choices are too many to list.
constexpr std::int64_t kMostTasks = 6'000;
constexpr std::int64_t kTasksPriced = 16'000'000;  ///< positions and gaps of each rank, to list its options
// Tasks played; ten million take about a second.
constexpr std::int64_t kTasksBound = 2'000'000;     ///< to bound each option
constexpr std::int64_t kTasksCombined = 2'500'000;  ///< to combine options
constexpr std::int64_t kTasksNear = 1'000'000;      ///< to exchange single actions
/// Of an option that is not combined with others.
constexpr std::int64_t kNeverShorter = std::numeric_limits<std::int64_t>::max();

/// What every schedule of a rank relaxes to: its graph, with its waits for data alone.
simulate::RankWork relaxed_work(const RankRequest& request, const RankPlan& plan) {
  return simulate::work_of(plan.graph, request.op_ns);
}

class JointSearch {
 public:
  JointSearch(const std::vector<RankRequest>& requests, const std::vector<RankPlan>& ranks) {
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      options_.emplace_back(requests[r], ranks[r]);
      relaxed_.push_back(relaxed_work(requests[r], ranks[r]));
      tasks_ += std::ssize(relaxed_.back().lanes);
    }
    chosen_.resize(ranks.size(), 0);
    least_ns_.resize(ranks.size());
  }

  Result<JointChoice> run() {
    JointChoice choice;
    if (Status s = play_own(choice); !s) return s.error();
    const Result<std::int64_t> relaxed = play(relaxed_);
    if (!relaxed) return relaxed.error();
    if (step_ns_ <= relaxed.value()) return whole(choice);  // none is shorter
    const Status listed = threads::parallel_try_each(
        options_.size(), [&](std::size_t r) -> Status { return options_[r].list(kTasksPriced); });
    if (!listed) return listed.error();
    allow(kTasksBound);
    if (Status s = bound_options(); !s) return s.error();
    bool is_all = !is_spent() && std::ranges::all_of(options_, &RankOptions::is_listed_by_site);
    if (Status s = exchange_actions(); !s) return s.error();
    const std::int64_t near_ns = step_ns_;
    allow(kTasksCombined);
    if (Status s = combine_listed(); !s) return s.error();
    // Where every combination of what sites may do was looked at, nothing is left to exchange.
    is_all = is_all && !is_spent();
    if (!is_all && step_ns_ < near_ns)
      if (Status s = exchange_actions(); !s) return s.error();
    return whole(choice);
  }

 private:
  Status combine_listed() {
    for (bool is_new = true; is_new && !is_spent();) {
      if (Status s = exchange_ranks(); !s) return s;
      if (Status s = combine_all(); !s) return s;
      const Result<bool> added = replace_dead();
      if (!added) return added.error();
      is_new = added.value();
      if (Status s = bound_options(); !s) return s;
    }
    return {};
  }

  JointChoice whole(JointChoice& choice) {
    choice.step_ns = step_ns_;
    for (std::size_t r = 0; r < options_.size(); ++r) {
      choice.answers.emplace_back();
      if (chosen_[r] > 0) choice.answers.back() = options_[r].answer(chosen_[r]);
    }
    return std::move(choice);
  }

  void allow(std::int64_t tasks) { most_played_ = played_ + tasks; }
  [[nodiscard]] bool is_spent() const { return played_ > most_played_; }

  Result<std::int64_t> play(const std::vector<simulate::RankWork>& works) {
    played_ += tasks_;
    const Result<simulate::StepTiming> timing = simulate::simulate_step(works);
    if (!timing) return timing.error();
    return timing.value().step_ns;
  }

  [[nodiscard]] std::vector<simulate::RankWork> chosen_works() {
    std::vector<simulate::RankWork> works;
    for (std::size_t r = 0; r < options_.size(); ++r) works.push_back(options_[r].work(chosen_[r]));
    return works;
  }

  /// Takes the option if the step of `works` is shorter with it and it has addresses.
  Result<bool> take_if_shorter(std::vector<simulate::RankWork>& works, std::size_t rank, std::size_t option) {
    const Result<std::int64_t> step = play_with(works, rank, option);
    if (!step) return step.error();
    if (step.value() >= step_ns_) return false;
    const Result<bool> fits = options_[rank].has_addresses(option);
    if (!fits || !fits.value()) return fits;
    chosen_[rank] = option;
    works[rank] = options_[rank].work(option);
    step_ns_ = step.value();
    return true;
  }

  /// The step of the ranks of `works` with one of them exchanged.
  Result<std::int64_t> play_with(std::vector<simulate::RankWork>& works, std::size_t rank, std::size_t option) {
    std::swap(works[rank], options_[rank].work(option));
    const Result<std::int64_t> step = play(works);
    std::swap(works[rank], options_[rank].work(option));
    return step;
  }

  Status play_own(JointChoice& choice) {
    const Result<std::int64_t> step = play(chosen_works());
    if (!step) return step.error();
    choice.own_step_ns = step_ns_ = step.value();
    return {};
  }

  /// The step is no shorter than with one rank's option and nothing added or waited for by the others. What work is
  /// short for is not combined.
  Status bound_options() {
    std::vector<simulate::RankWork> works = relaxed_;
    for (std::size_t r = 0; r < options_.size(); ++r)
      while (least_ns_[r].size() < options_[r].size() && !is_spent()) {
        const Result<std::int64_t> step = play_with(works, r, least_ns_[r].size());
        if (!step) return step.error();
        least_ns_[r].push_back(step.value());
      }
    pass_over_others();
    return {};
  }

  /// Options without a bound yet are not combined.
  void pass_over_others() {
    for (std::size_t r = 0; r < options_.size(); ++r) least_ns_[r].resize(options_[r].size(), kNeverShorter);
  }

  /// Options that may make a shorter step, the shortest bound first.
  [[nodiscard]] std::vector<std::size_t> promising(std::size_t rank) const {
    std::vector<std::size_t> found;
    for (std::size_t o = 0; o < least_ns_[rank].size(); ++o)
      if (least_ns_[rank][o] < step_ns_ && !options_[rank].is_dead(o)) found.push_back(o);
    std::ranges::stable_sort(found, {}, [&](std::size_t o) { return least_ns_[rank][o]; });
    return found;
  }

  /// Whether every rank's choice has addresses; those that lack them are dead from then on.
  Result<bool> have_addresses(const std::vector<std::size_t>& tried) {
    for (std::size_t r = 0; r < tried.size(); ++r) {
      const Result<bool> has = options_[r].has_addresses(tried[r]);
      if (!has || !has.value()) return has;
    }
    return true;
  }

  /// Goes around the ranks and takes whatever is shorter, until nothing is.
  Status exchange_ranks() {
    std::vector<simulate::RankWork> works = chosen_works();
    for (bool is_shorter = true; is_shorter;) {
      is_shorter = false;
      for (std::size_t r = 0; r < options_.size(); ++r)
        for (const std::size_t o : promising(r)) {
          if (is_spent()) return {};
          if (o == chosen_[r] || least_ns_[r][o] >= step_ns_) continue;
          const Result<bool> taken = take_if_shorter(works, r, o);
          if (!taken) return taken.error();
          is_shorter = is_shorter || taken.value();
        }
    }
    return {};
  }

  /// The longest path stays as long while everything on it stays: what is added there is done elsewhere, until no such
  /// exchange makes the step shorter.
  Status exchange_actions() {
    allow(kTasksNear);
    for (bool is_shorter = true; is_shorter && !is_spent();) {
      std::vector<simulate::RankWork> works = chosen_works();
      played_ += tasks_;
      const Result<simulate::StepTiming> timing = simulate::simulate_step(works);
      if (!timing) return timing.error();
      std::vector<std::vector<std::int32_t>> paths(options_.size());
      for (const simulate::TaskOfRank& at : timing.value().longest_path)
        paths[static_cast<std::size_t>(at.rank)].push_back(at.task);
      is_shorter = false;
      for (std::size_t r = 0; r < options_.size() && !is_shorter; ++r) {
        if (paths[r].empty()) continue;
        const Result<bool> shorter = exchange_actions_of(r, paths[r], works);
        if (!shorter) return shorter.error();
        is_shorter = shorter.value();
      }
    }
    pass_over_others();
    return {};
  }

  Result<bool> exchange_actions_of(std::size_t rank, const std::vector<std::int32_t>& path,
                                   std::vector<simulate::RankWork>& works) {
    const std::size_t first = options_[rank].size();
    const std::int64_t built = options_[rank].tasks_built();
    if (Status s = options_[rank].add_near(chosen_[rank], path, kTasksNear / 4); !s) return s.error();
    played_ += options_[rank].tasks_built() - built;
    bool is_shorter = false;
    for (std::size_t o = first; o < options_[rank].size() && !is_spent(); ++o) {
      const Result<bool> taken = take_if_shorter(works, rank, o);
      if (!taken) return taken;
      is_shorter = is_shorter || taken.value();
    }
    return is_shorter;
  }

  /// Ranks with the fewest options first.
  Status combine_all() {
    std::vector<std::vector<std::size_t>> of_rank;
    for (std::size_t r = 0; r < options_.size(); ++r) of_rank.push_back(promising(r));
    std::vector<std::size_t> order(options_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t r) { return of_rank[r].size(); });
    std::vector<simulate::RankWork> works = relaxed_;
    std::vector<std::size_t> tried(options_.size(), 0);
    return combine(order, 0, of_rank, works, tried);
  }

  Status combine(const std::vector<std::size_t>& order, std::size_t depth,
                 const std::vector<std::vector<std::size_t>>& of_rank, std::vector<simulate::RankWork>& works,
                 std::vector<std::size_t>& tried) {
    const std::size_t r = order[depth];
    for (const std::size_t o : of_rank[r]) {
      if (is_spent() || least_ns_[r][o] >= step_ns_) return {};
      if (options_[r].is_dead(o)) continue;
      tried[r] = o;
      std::swap(works[r], options_[r].work(o));
      const Status status = descend(order, depth, of_rank, works, tried);
      std::swap(works[r], options_[r].work(o));
      if (!status) return status;
    }
    return {};
  }

  Status descend(const std::vector<std::size_t>& order, std::size_t depth,
                 const std::vector<std::vector<std::size_t>>& of_rank, std::vector<simulate::RankWork>& works,
                 std::vector<std::size_t>& tried) {
    if (depth > 0) {  // its bound was played alone
      const Result<std::int64_t> step = play(works);
      if (!step) return step.error();
      if (step.value() >= step_ns_) return {};
      if (depth + 1 == order.size()) {
        const Result<bool> fits = have_addresses(tried);
        if (!fits) return fits.error();
        if (fits.value()) {
          chosen_ = tried;
          step_ns_ = step.value();
        }
        return {};
      }
    }
    return combine(order, depth + 1, of_rank, works, tried);
  }

  /// In place of options without addresses, those that keep a little less. False: there were none.
  Result<bool> replace_dead() {
    bool is_new = false;
    for (std::size_t r = 0; r < options_.size(); ++r) {
      replaced_.resize(options_.size());
      const std::size_t before = options_[r].size();
      replaced_[r].resize(before, false);
      for (std::size_t o = 0; o < before; ++o) {
        if (!options_[r].is_dead(o) || replaced_[r][o]) continue;
        replaced_[r][o] = true;
        if (Status s = options_[r].add_beyond(o); !s) return s.error();
      }
      is_new = is_new || options_[r].size() > before;
    }
    return is_new;
  }

  std::vector<RankOptions> options_;
  std::vector<simulate::RankWork> relaxed_;
  std::vector<std::vector<std::int64_t>> least_ns_;  ///< by rank and option
  std::vector<std::vector<bool>> replaced_;          ///< by rank and option: what is beyond it was added
  std::vector<std::size_t> chosen_;                  ///< by rank
  std::int64_t step_ns_ = 0;
  std::int64_t tasks_ = 0;  ///< of one step
  std::int64_t most_played_ = 0;
  std::int64_t played_ = 0;  ///< tasks, other work in tasks included
};

}  // namespace

Result<JointChoice> choose_jointly(const std::vector<RankRequest>& requests, const std::vector<RankPlan>& ranks) {
  std::size_t tasks = 0;
  for (const RankPlan& rank : ranks) tasks += rank.program.schedule.tasks.size();
  if (static_cast<std::int64_t>(tasks) > kMostTasks)
    return JointChoice{.answers = std::vector<std::optional<PolicyAnswer>>(ranks.size())};
  return JointSearch(requests, ranks).run();
}

}  // namespace tidemark::plan
