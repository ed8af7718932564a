#include "planner/decide/gaps/least_choices.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tidemark::decide::gaps {

LeastChoices::LeastChoices(const GapProblem& problem, Pricer& pricer, Bytes device_budget, Bytes host_budget,
                           Grain grain)
    : p_(problem), pricer_(pricer), budget_(device_budget), host_budget_(host_budget) {
  std::map<std::int32_t, std::size_t> part_of_kind;
  for (std::size_t u = 0; u < p_.units.size(); ++u) {
    const std::int32_t kind = grain == Grain::kinds ? p_.units[u].kind : static_cast<std::int32_t>(u);
    const auto [known, is_new] = part_of_kind.try_emplace(kind, parts_.size());
    if (is_new) parts_.push_back({.units = {}, .options = options_of(p_.units[u])});
    parts_[known->second].units.push_back(static_cast<std::int32_t>(u));
  }
  std::erase_if(parts_, [](const Part& part) { return part.options.size() == 1; });
}

/// Swaps in the order of sets of gaps as binary numbers, so that what does less comes first; the recompute last.
std::vector<LeastChoices::Option> LeastChoices::options_of(const GapProblem::Unit& unit) const {
  constexpr std::size_t kMostGaps = 16;  // a unit with more has too many options to list
  const auto gaps = p_.gaps_of(unit);
  std::vector<std::size_t> swappable;
  for (std::size_t i = 0; i < std::min(gaps.size(), kMostGaps); ++i) {
    const GapProblem::Gap& gap = p_.gaps[static_cast<std::size_t>(gaps[i])];
    if (gap.swap_cost >= 0 && gap.bytes <= host_budget_) swappable.push_back(i);
  }
  std::vector<Option> options;
  for (std::size_t set = 0; set < std::size_t{1} << swappable.size(); ++set) {
    Option option{.actions = std::vector<Action>(gaps.size(), Action::keep), .lesser = {}};
    for (std::size_t i = 0; i < swappable.size(); ++i) {
      const std::size_t bit = std::size_t{1} << i;
      if ((set & bit) == 0) continue;
      option.actions[swappable[i]] = Action::swap;
      option.lesser.push_back(set - bit);
    }
    options.push_back(std::move(option));
  }
  if (unit.recompute_cost >= 0)
    options.push_back({.actions = std::vector<Action>(gaps.size(), Action::recompute), .lesser = {0}});
  return options;
}

void LeastChoices::set(const Part& part, const Option& option, Choice& choice) const {
  for (const std::int32_t u : part.units) {
    const auto gaps = p_.gaps_of(p_.units[static_cast<std::size_t>(u)]);
    for (std::size_t i = 0; i < gaps.size(); ++i) choice[static_cast<std::size_t>(gaps[i])] = option.actions[i];
  }
}

std::optional<std::int64_t> LeastChoices::added_cost(const Choice& choice) {
  ++priced_;
  const Pricing pricing = pricer_.price(choice);
  if (pricing.peak_bytes > budget_ || pricing.host_peak_bytes > host_budget_) return std::nullopt;
  return pricing.added_cost;
}

/// Choices are numbered with a digit per part, so whatever keeps more has a lower number.
std::optional<std::vector<Choice>> LeastChoices::list(std::size_t most) {
  std::vector<std::size_t> strides;
  std::size_t count = 1;
  for (const Part& part : parts_) {
    strides.push_back(count);
    if (part.options.size() > most / count) return std::nullopt;
    count *= part.options.size();
  }
  std::vector<Choice> least;
  std::vector<bool> is_met(count, false);  // it fits, or something does that keeps more
  std::vector<std::size_t> digits(parts_.size(), 0);
  Choice choice(p_.gaps.size(), Action::keep);
  for (std::size_t number = 0; number < count; ++number) {
    const auto keeps_more = [&](std::size_t part) {
      const std::size_t digit = digits[part];
      return std::ranges::any_of(parts_[part].options[digit].lesser,
                                 [&](std::size_t l) { return is_met[number - (digit - l) * strides[part]]; });
    };
    for (std::size_t part = 0; part < parts_.size() && !is_met[number]; ++part) is_met[number] = keeps_more(part);
    if (!is_met[number] && added_cost(choice)) {
      is_met[number] = true;
      least.push_back(choice);
    }
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      const bool is_over = ++digits[part] == parts_[part].options.size();
      if (is_over) digits[part] = 0;
      set(parts_[part], parts_[part].options[digits[part]], choice);
      if (!is_over) break;
    }
  }
  return least;
}

std::optional<std::size_t> LeastChoices::option_in(const Part& part, const Choice& choice) const {
  for (std::size_t option = 0; option < part.options.size(); ++option) {
    const bool is_it = std::ranges::all_of(part.units, [&](std::int32_t u) {
      const auto gaps = p_.gaps_of(p_.units[static_cast<std::size_t>(u)]);
      return std::ranges::equal(gaps, part.options[option].actions, {},
                                [&](std::int32_t gap) { return choice[static_cast<std::size_t>(gap)]; });
    });
    if (is_it) return option;
  }
  return std::nullopt;
}

bool LeastChoices::is_any(const Part& part, const std::vector<bool>& wanted) const {
  return std::ranges::any_of(part.units, [&](std::int32_t u) {
    return std::ranges::any_of(p_.gaps_of(p_.units[static_cast<std::size_t>(u)]),
                               [&](std::int32_t gap) { return wanted[static_cast<std::size_t>(gap)]; });
  });
}

std::vector<Choice> LeastChoices::beyond(const Choice& choice) {
  std::vector<Choice> found;
  for (const Part& part : parts_) {
    const std::optional<std::size_t> now = option_in(part, choice);
    if (!now) continue;
    for (const Option& option : part.options) {
      if (std::ranges::find(option.lesser, *now) == option.lesser.end()) continue;
      Choice more = choice;
      set(part, option, more);
      if (added_cost(more)) found.push_back(std::move(more));
    }
  }
  return found;
}

/// Adds what fits if another part than `part` does more than now. `less`: the choice without what that part did.
void LeastChoices::exchange(const std::vector<std::optional<std::size_t>>& now, std::size_t part, const Choice& less,
                            std::vector<Priced>& found) {
  for (std::size_t other = 0; other < parts_.size(); ++other) {
    if (other == part || !now[other]) continue;
    for (const Option& option : parts_[other].options) {
      if (std::ranges::find(option.lesser, *now[other]) == option.lesser.end()) continue;
      Choice tried = less;
      set(parts_[other], option, tried);
      if (const auto added = added_cost(tried)) found.push_back({.choice = std::move(tried), .added_cost = *added});
    }
  }
}

std::vector<Choice> LeastChoices::near(const Choice& choice, const std::vector<bool>& wanted, std::size_t most) {
  const std::size_t last = priced_ + most;
  std::vector<std::optional<std::size_t>> now;
  for (const Part& part : parts_) now.push_back(option_in(part, choice));
  std::vector<Priced> found;
  for (std::size_t part = 0; part < parts_.size() && priced_ < last; ++part) {
    if (!now[part] || *now[part] == 0 || !is_any(parts_[part], wanted)) continue;
    for (std::size_t option = 0; option < parts_[part].options.size(); ++option) {
      if (option == *now[part]) continue;
      Choice tried = choice;
      set(parts_[part], parts_[part].options[option], tried);
      if (const auto added = added_cost(tried)) {
        found.push_back({.choice = std::move(tried), .added_cost = *added});
      } else {
        exchange(now, part, tried, found);
      }
    }
  }
  std::ranges::stable_sort(found, {}, &Priced::added_cost);
  std::vector<Choice> choices;
  for (Priced& one : found) choices.push_back(std::move(one.choice));
  return choices;
}

}  // namespace tidemark::decide::gaps
