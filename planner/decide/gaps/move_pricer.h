#pragma once
// Prices choices by what each move says of itself, without asking how moves get into each other's way: copies that
// queue, runs that share a place. For searches whose result is priced exactly afterwards.

#include <vector>

#include "planner/decide/gaps/gap_problem.h"

namespace tidemark::decide::gaps {

class MovePricer final : public Pricer {
 public:
  /// Keeps a reference.
  explicit MovePricer(const GapProblem& problem);
  Pricing price(const Choice& choice) override;
  [[nodiscard]] const std::vector<std::int32_t>& freed_from() const override { return from_; }
  [[nodiscard]] const std::vector<std::int32_t>& freed_until() const override { return until_; }
  [[nodiscard]] const std::vector<Bytes>& profile() const override { return profile_; }
  [[nodiscard]] const std::vector<Bytes>& host_profile() const override { return host_profile_; }

 private:
  const GapProblem& p_;
  std::vector<std::int32_t> recompute_, swap_;  ///< per gap: the move that does so; -1: none
  std::vector<std::int32_t> from_, until_;
  std::vector<Bytes> profile_, host_profile_;
};

}  // namespace tidemark::decide::gaps
