#pragma once
// What a choice over the gaps of a list comes to as a schedule. A gap given up by a run comes back where it is needed:
// before its next touch, or earlier where a run of something else reads it; what such a run needs and is dead by then
// runs again before it, and so on.

#include <cstdint>
#include <vector>

#include "planner/decide/flat/gaps.h"
#include "planner/decide/flat/state.h"
#include "planner/decide/gaps/gap_problem.h"

namespace tidemark::decide::flat {

class GapPricer final : public gaps::Pricer {
 public:
  /// Both must outlive this.
  GapPricer(const Problem& problem, const ListGaps& gaps);

  gaps::Pricing price(const gaps::Choice& choice) override;
  /// The schedule of the choice priced last.
  [[nodiscard]] Solution solution() const { return state_.solution(); }

  [[nodiscard]] const std::vector<std::int32_t>& freed_from() const override { return freed_from_; }
  [[nodiscard]] const std::vector<std::int32_t>& freed_until() const override { return freed_until_; }
  /// The most in memory while an op runs, or what runs again in its stage.
  [[nodiscard]] const std::vector<Bytes>& profile() const override { return profile_; }
  /// Nothing: host memory is seen to elsewhere (link_schedules.h).
  [[nodiscard]] const std::vector<Bytes>& host_profile() const override { return host_profile_; }

 private:
  [[nodiscard]] Solution schedule(const gaps::Choice& choice);
  void bring_inputs(std::int32_t op, std::int32_t stage, const gaps::Choice& choice);
  [[nodiscard]] std::int32_t gap_over(std::int32_t storage, std::int32_t stage) const;

  const Problem& problem_;
  const ListGaps& gaps_;
  State state_;
  std::vector<std::vector<std::int32_t>> wanted_;  ///< per op, stages in which it runs again
  std::int64_t brought_ = 0;                       ///< runs of inputs that are dead by then
  std::vector<Key> back_;                          ///< per gap: where it is back
  std::vector<std::int32_t> freed_from_, freed_until_;
  std::vector<Bytes> profile_, host_profile_;
};

}  // namespace tidemark::decide::flat
