#pragma once
// A plan played on simulated devices under the loads of a trace: for every step and every device of an expert group
// that is asked for, the programs of all ranks run with the loads of that device. Says which steps were refused, what
// the others took beyond the plan, and what that cost. Every time is simulated.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/machine.h"
#include "core/result.h"
#include "integrations/run/load_trace.h"
#include "planner/planner.h"

namespace tidemark::run {

/// What a load above the plan takes, the cheapest first.
enum class Rung : std::uint8_t { room, spill, chunks };
inline constexpr std::array<std::string_view, 3> kRungNames = {"room", "spill", "chunks"};
/// Storages that stood beside their slots, those that left device memory in between, and sections that ran in chunks.
using RungCounts = std::array<std::int64_t, kRungNames.size()>;

/// One device of the expert group in one step.
struct TracedStep {
  std::int64_t step = 0;
  std::int64_t device = 0;
  std::string refused;  ///< why the step did not complete; empty: it did
  /// The device of the group whose refusal this one follows, since no device goes on without the others; nothing: the
  /// refusal is its own.
  std::optional<std::int64_t> refused_after;
  std::int64_t step_ns = 0;   ///< 0 where refused
  std::int64_t loads_ns = 0;  ///< these loads by themselves: all that exceeds the plan finds room. Modelled
  std::int64_t races = 0;
  std::string first_race;  ///< in words
  RungCounts rungs{};
  Bytes peak_bytes = 0;    ///< of the fullest rank, reserves included: highest byte touched and what stood beside slots
  Bytes beside_bytes = 0;  ///< device memory that stood beside slots at once, of the rank that had most
};

/// A step of one device, and whether its refusal, if it was refused, is the group's doing: the group had lost a device,
/// or did not agree to what this one could do.
struct PlayedDevice {
  TracedStep traced;
  bool follows = false;
};

/// The steps; those that follow name the first device that was refused by itself, where there is one. Does not depend
/// on which of several left first.
[[nodiscard]] std::vector<TracedStep> with_causes(std::vector<PlayedDevice> devices);

struct TraceAsk {
  std::optional<std::int32_t> rank;  ///< nothing: all ranks in one time
  /// Whose programs run: alone, as if no other device of the group needed chunks. Nothing: those of every device, which
  /// agree on chunks, at the memory of as many rigs.
  std::optional<std::int64_t> device;
  bool check_races = false;
};

class TraceRun {
 public:
  /// Plays the step as planned once. `plan`, whose estimates are charged (charge_copies), and `machine` must outlive
  /// the run. Errors: as run_plan.
  [[nodiscard]] static Result<TraceRun> open(const plan::PlanOutcome& plan, const Machine& machine,
                                             const graph_build::LoadShape& shape, const TraceAsk& ask);
  ~TraceRun();
  TraceRun(TraceRun&&) noexcept;
  TraceRun& operator=(TraceRun&&) noexcept;

  /// One entry for each device asked for, ascending; does not depend on the thread count. Errors: of the device or the
  /// runtime; a refusal is none.
  [[nodiscard]] Result<std::vector<TracedStep>> play(std::int64_t step, const StepLoads& loads);

  [[nodiscard]] std::int64_t planned_ns() const { return planned_ns_; }  ///< of the step as planned
  [[nodiscard]] bool matched() const { return matched_; }                ///< ranks wait for each other's messages

 private:
  class Players;
  explicit TraceRun(std::unique_ptr<Players> players);

  std::unique_ptr<Players> players_;
  std::int64_t first_device_ = 0, device_count_ = 1;
  bool matched_ = false;
  std::int64_t planned_ns_ = 0;
};

}  // namespace tidemark::run
