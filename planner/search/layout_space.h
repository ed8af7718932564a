#pragma once
// Every layout of a job on a number of devices that is worth a look: tensor, context, pipeline, virtual pipeline and
// expert degrees, micro-batch size, where layers, empty slots and the main output head sit, plain or overlapped
// schedule, and how experts are spread. Legal by find_problems; what is not is counted by the key of the rule it
// breaks.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/machine.h"
#include "planner/graph_build/job_spec.h"
#include "planner/search/placement.h"

namespace tidemark::search {

/// Where empty slots go that fill up the stages.
enum class Spread : std::uint8_t {
  given,  ///< as the job's file places layers
  tail,   ///< all at the end of the pipeline
  back,   ///< one to each stage, the last stage first; MTP modules take a slot
  front,  ///< one to each stage, the first stage first; MTP modules take a slot
  found,  ///< as placement_search.h finds it for the layout's degrees
};
[[nodiscard]] const char* name_of(Spread spread);

struct SearchLayout {
  graph_build::ParallelSpec parallel;  ///< without slots: with_layout fills them
  Spread spread = Spread::given;
  Placement placement;    ///< of Spread::found; otherwise empty
  std::size_t group = 0;  ///< layouts of one group have the same static memory
};

struct LayoutSpace {
  std::vector<SearchLayout> layouts;  ///< the job's own first where it fits the devices; then in a fixed order
  std::map<std::string, std::int64_t> refused;  ///< by the key of the first rule broken
  std::size_t groups = 0;
  std::int64_t tried = 0;  ///< layouts.size() + all refused
  bool has_given = false;  ///< layouts.front() is the job's own
};

/// Values that are tried; empty: the powers of two (and, for the pipeline, every divisor of the devices) that can be.
struct LayoutRanges {
  std::vector<std::int32_t> tensor, context, pipeline, virtual_pipeline, expert;
  std::vector<std::int64_t> micro_batch;
};

/// `job` gives model, batch, precision and what a layout does not change. REQUIRES: devices >= 1. One thread.
[[nodiscard]] LayoutSpace enumerate_layouts(const graph_build::JobSpec& job, const Machine& machine,
                                            std::int64_t devices, const LayoutRanges& ranges = {});

/// `job` with a layout of its space.
[[nodiscard]] graph_build::JobSpec with_layout(const graph_build::JobSpec& job, const SearchLayout& layout);

/// What of a layout is not its placement: `TP8 PP16 VPP2 EP4 MBS2 DP48 overlap`.
[[nodiscard]] std::string degrees_text(const SearchLayout& layout);

/// `TP8 PP16 VPP2 EP4 MBS2 DP48, experts over TP, overlap, hierarchical, empty slots back`: one line, distinct for
/// every layout of a space.
[[nodiscard]] std::string layout_text(const SearchLayout& layout);

}  // namespace tidemark::search
