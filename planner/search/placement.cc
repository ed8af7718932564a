#include "planner/search/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/graph_build/layer_placement.h"

namespace tidemark::search {

void place(const graph_build::ModelSpec& model, const Placement& placement, graph_build::ParallelSpec& parallel) {
  graph_build::fill_stages(model, placement.layers, parallel);
  parallel.head_stage = placement.is_head_apart ? static_cast<std::int32_t>(parallel.last_layer_stage()) : -1;
}

std::string placement_text(const Placement& placement) {
  std::string text;
  for (std::size_t at = 0; at < placement.layers.size();) {
    std::size_t same = 1;
    while (at + same < placement.layers.size() && placement.layers[at + same] == placement.layers[at]) ++same;
    text +=
        fmt::format("{}{}{}", text.empty() ? "" : ", ", same > 1 ? fmt::format("{}x", same) : "", placement.layers[at]);
    at += same;
  }
  text += " layers by stage";
  if (!placement.is_head_apart) return text;
  const auto last = std::ranges::find_if(placement.layers.rbegin(), placement.layers.rend(),
                                         [](std::int32_t layers) { return layers > 0; });
  return text + fmt::format(", main head on stage {}", placement.layers.rend() - last - 1);
}

}  // namespace tidemark::search
