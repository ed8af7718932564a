#pragma once
// Which settings of a framework come closest to a plan: settings that fit the budget with the least added time, found
// by changing one at a time from several starts, priced by the decision core and then carried to addresses by the
// planner. What is returned is the planner's own evaluation of the settings, never the figures of another plan.
//
// Settings are few and coarse, so this is a local search without a proof; it is deterministic, and never worse than the
// starts. O(rounds x settings x ranks) evaluations.

#include <cstdint>
#include <vector>

#include "core/result.h"
#include "planner/planner.h"
#include "planner/search/placed_action.h"

namespace tidemark::search {

struct Setting {
  /// By value; [0], off, is empty. A larger value does more.
  std::vector<std::vector<PlacedAction>> rules;
  std::int32_t rank = -1;              ///< the only rank it acts on; -1: all
  std::vector<std::int32_t> needs;     ///< settings that have to be on with it
  std::vector<std::int32_t> excludes;  ///< settings that have to be off with it
  [[nodiscard]] std::int32_t most() const { return static_cast<std::int32_t>(rules.size()) - 1; }
};

/// One value per setting.
using SettingValues = std::vector<std::int32_t>;

/// All rules of the values, in the order of the settings.
[[nodiscard]] std::vector<PlacedAction> rules_of(const std::vector<Setting>& settings, const SettingValues& values);

/// What a setting needs is on, and what it excludes is off.
[[nodiscard]] bool are_consistent(const std::vector<Setting>& settings, const SettingValues& values);

struct SettingSearch {
  const plan::PlanRequest& request;  ///< its policy is not asked
  std::vector<double> loads;         ///< expert load per pipeline rank while searching; evaluation finds its own
  const std::vector<Setting>& settings;
  std::vector<SettingValues> starts;  ///< consistent
};

struct SettingOutcome {
  SettingValues values;
  plan::PlanOutcome outcome;  ///< plan_step with the settings as policy
};

/// The settings that fit with least added time; where none found fits, those that overflow least. Errors: those of
/// plan_step. REQUIRES: at least one start.
[[nodiscard]] Result<SettingOutcome> search_settings(const SettingSearch& search);

}  // namespace tidemark::search
