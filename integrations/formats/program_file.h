#pragma once
// plan.json: everything `tidemark plan` decided, and the whole Program of each rank with schedule and addresses. Values
// to text and back; no files. The format is documented in docs/formats.md and versioned.
//
// The file stands alone: names of ops and storages are in it (GraphOutline), and so are the machine and the job, from
// which the graphs can be built again, or the graph of a captured step.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/decision.h"
#include "core/graph.h"
#include "core/machine.h"
#include "core/program.h"
#include "core/result.h"
#include "planner/planner.h"

namespace tidemark::formats {

/// What a reader of a Program needs of its Graph: what the ids in it stand for.
struct GraphOutline {
  struct OpName {
    std::string name;
    Lane lane = Lane::compute;
    OpPhase phase = OpPhase::forward;
    friend bool operator==(const OpName&, const OpName&) = default;
  };
  struct StorageName {
    std::string name;
    std::string module_path;
    StorageRole role = StorageRole::activation;
    friend bool operator==(const StorageName&, const StorageName&) = default;
  };
  struct BlockRange {
    std::string name;
    std::int32_t first_storage_template = 0;
    std::int32_t storage_count = 0;
    friend bool operator==(const BlockRange&, const BlockRange&) = default;
  };
  std::vector<OpName> op_templates;
  std::vector<StorageName> storage_templates;
  std::vector<std::string> recipes;
  std::vector<BlockRange> blocks;
  std::vector<Site> sites;
  std::int32_t storage_count = 0;

  /// The site that owns a storage, and its template. REQUIRES: 0 <= storage < storage_count.
  [[nodiscard]] const Site& site_of(StorageId storage) const;
  [[nodiscard]] const StorageName& template_of(StorageId storage) const;
  friend bool operator==(const GraphOutline&, const GraphOutline&) = default;
};
[[nodiscard]] GraphOutline outline_of(const Graph& graph);

struct PlanFile {
  struct Rank {
    GraphOutline outline;
    Decisions decisions;
    Program program;
    plan::RankFigures figures;
    std::vector<plan::PlanAttempt> attempts;
    friend bool operator==(const Rank&, const Rank&) = default;
  };

  graph_build::JobSpec job;            ///< without a `graph`
  std::string step_name;               ///< with one
  std::string framework;               ///< with one: plan::GivenStep::framework
  std::shared_ptr<const Graph> graph;  ///< of a captured step, which no job describes
  Machine machine;
  std::string policy;
  std::optional<Bytes> budget_bytes;       ///< as asked for; nothing: the machine's
  std::optional<Bytes> host_budget_bytes;  ///< as asked for; nothing: the machine's
  std::optional<double> load;              ///< as asked for; nothing: the job's distribution
  double time_scale = 1;
  plan::StepFigures step;
  graph_build::ParameterCount parameters;
  std::vector<Rank> ranks;
  friend bool operator==(const PlanFile&, const PlanFile&) = default;
};

/// Of what is written, and the only one that is read.
inline constexpr std::int64_t kPlanSchemaVersion = 9;

/// The text of plan.json; ends with a newline. Ranks are written in parallel; same values, same bytes.
[[nodiscard]] std::string write_plan_file(const PlanFile& file);
/// The same without a copy of the Programs.
[[nodiscard]] std::string write_plan_file(const plan::PlanRequest& request, const plan::PlanOutcome& outcome);

/// Reads plan.json. Every id, size and row count in the result is in range; whether the Program is sound is for
/// core/verify. Errors (bad_input): one line, `file_name:line:column: ...` where the text is no JSON,
/// `file_name: /json/pointer: ...` where it is no plan.
[[nodiscard]] Result<PlanFile> read_plan_file(std::string_view text, std::string_view file_name);

}  // namespace tidemark::formats
