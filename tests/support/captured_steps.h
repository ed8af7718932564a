#pragma once
// Small captured steps and requests to plan them.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "planner/graph_build/captured_graph.h"
#include "planner/graph_build/given_machine.h"
#include "planner/planner.h"
#include "policies/policies.h"

namespace tidemark::testing {

/// `steps` there and back over a byte each. Storage 2 * steps - v is read by op v, for v > steps.
[[nodiscard]] inline Graph captured_chain(std::int32_t steps) {
  graph_build::CapturedGraphBuilder builder({.unit = GivenCosts::Unit::one});
  for (std::int32_t v = 0; v <= 2 * steps; ++v) {
    builder.add({.name = std::to_string(v), .bytes = 1});
    graph_build::CapturedGraphBuilder::OpRow op{
        .name = std::to_string(v), .cost = v > 0 && v < steps ? 1 : 0, .writes = {v}};
    if (v > steps) op.reads = {2 * steps - v, v - 1};
    if (v > 0 && v <= steps) op.reads = {v - 1};
    std::ranges::sort(op.reads);
    builder.add(std::move(op));
  }
  return std::move(builder).build();
}

/// A step with everything a captured step can have: an input that is freed, a weight that is changed in place and
/// lasts, a result that lasts, an untouched storage that lasts, a hold, workspace, copies with a link, and recipes that
/// are pure, restore random state and communicate.
[[nodiscard]] inline Graph captured_features() {
  using Recompute = graph_build::CapturedGraphBuilder::Recompute;
  graph_build::CapturedGraphBuilder builder({.unit = GivenCosts::Unit::ns, .quantum = 0.5});
  const GivenCopies copies{.out = {.link = 30, .compute = 2}, .in = {.link = 40, .compute = 1}};
  builder.add({.name = "input", .bytes = 64, .swappable = true, .copies = copies});                        // 0
  builder.add({.name = "weight", .bytes = 96, .role = StorageRole::parameter, .lasting = true});           // 1
  builder.add({.name = "hidden", .module = "a", .bytes = 128, .swappable = true, .copies = copies});       // 2
  builder.add({.name = "mask", .module = "a", .bytes = 128, .swappable = true, .copies = copies});         // 3
  builder.add({.name = "gathered", .module = "b", .bytes = 128});                                          // 4
  builder.add({.name = "held", .module = "b", .bytes = 32, .held_until = 5});                              // 5
  builder.add({.name = "loss", .bytes = 8, .lasting = true});                                              // 6
  builder.add({.name = "untouched", .bytes = 16, .role = StorageRole::optimizer_state, .lasting = true});  // 7
  builder.add({.name = "gradient", .bytes = 96, .role = StorageRole::gradient});                           // 8
  const auto backward = OpPhase::backward;
  builder.add({.name = "up", .cost = 100, .transient_bytes = 48, .reads = {0, 1}, .writes = {2}});
  builder.add({.name = "dropout", .cost = 80, .recompute = Recompute::random, .reads = {2}, .writes = {3}});
  builder.add({.name = "gather", .cost = 90, .recompute = Recompute::collective, .reads = {3}, .writes = {4}});
  builder.add({.name = "route", .cost = 10, .recompute = Recompute::routing, .reads = {4}, .writes = {5}});
  builder.add({.name = "loss", .cost = 20, .recompute = Recompute::never, .reads = {4, 5}, .writes = {6}});
  builder.add({.name = "d_up", .cost = 300, .phase = backward, .reads = {2, 3, 4, 6}, .writes = {8}});
  builder.add({.name = "d_in", .cost = 60, .phase = backward, .reads = {0, 8}, .writes = {8}});
  builder.add({.name = "step", .cost = 30, .phase = OpPhase::optimizer, .reads = {1, 8}, .writes = {1}});
  return std::move(builder).build();
}

[[nodiscard]] inline plan::PlanRequest captured_request(Graph graph, Bytes budget) {
  return {.step = plan::GivenStep{.name = "step", .graph = std::make_shared<const Graph>(std::move(graph))},
          .machine = graph_build::given_machine(kMiB, kMiB),
          .policy = policies::find_policy("optimal"),
          .budget_bytes = budget};
}

}  // namespace tidemark::testing
