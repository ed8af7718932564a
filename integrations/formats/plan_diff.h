#pragma once
// Two plan files side by side: what was added, removed, grown or shrunk, by rank and by decision.

#include <cstdint>
#include <string>
#include <vector>

#include "integrations/formats/named_decision.h"
#include "integrations/formats/program_file.h"

namespace tidemark::formats {

/// One decision in either plan; counts of the side where it is absent are 0.
struct DecisionChange {
  enum class Kind : std::uint8_t {
    added,    ///< moved in the second plan only
    removed,  ///< moved in the first only
    grown,    ///< more bytes are moved
    shrunk,   ///< fewer
    changed,  ///< as many, another way
  };
  Kind kind = Kind::changed;
  NamedDecision before, after;
  [[nodiscard]] Bytes delta_bytes() const { return after.moved_bytes() - before.moved_bytes(); }
  [[nodiscard]] const NamedDecision& shown() const { return kind == Kind::removed ? before : after; }
};

struct RankChange {
  std::int32_t rank = 0;
  bool has_before = false, has_after = false;
  plan::RankFigures before, after;
};

/// What was asked for otherwise: a key of the job, the device or the limits.
struct InputChange {
  std::string key;            ///< dotted, as "parallel.expert"
  std::string before, after;  ///< JSON values; empty: a list that differs, or the default
};

struct PlanDiff {
  std::vector<InputChange> inputs;        ///< ascending key
  std::vector<RankChange> ranks;          ///< ascending
  std::vector<DecisionChange> decisions;  ///< largest change first, ties by key
  plan::StepFigures step_before, step_after;
};
[[nodiscard]] PlanDiff diff_plans(const PlanFile& before, const PlanFile& after);

/// At most `most` decisions are listed, the others counted.
[[nodiscard]] std::string diff_text(const PlanDiff& diff, std::size_t most);
[[nodiscard]] std::string diff_json(const PlanDiff& diff);

}  // namespace tidemark::formats
