#pragma once
// Small captured steps and requests to plan them.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

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

/// Random layers forward and backward, as a framework would be captured: parameters that every layer reads, in-place
/// sums of gradients, activations that backward reads, some that may be swapped, ops that may run again and ops that
/// may not. `parts` micro-batches after one another. `hears`: what of backward is told.
enum class Hears : std::uint8_t { everything, what_it_asks_for };
[[nodiscard]] inline Graph captured_training(std::mt19937& random, std::int32_t layers, std::int32_t parts = 1,
                                             Hears hears = Hears::everything) {
  using Builder = graph_build::CapturedGraphBuilder;
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  const auto size = [&] { return static_cast<Bytes>(draw(1, 64)) * 64 * kKiB; };
  Builder builder({.unit = GivenCosts::Unit::ns});
  const Bytes bytes_per_ns = draw(1, 16);
  const auto activation = [&](std::string name) {
    const Bytes bytes = size();
    const GivenCopies::OneWay copy{.link = bytes / bytes_per_ns, .compute = 0};
    return builder.add({.name = std::move(name),
                        .bytes = bytes,
                        .swappable = draw(0, 3) > 0,
                        .copies = GivenCopies{.out = copy, .in = copy}});
  };
  std::vector<std::int32_t> weights, sums;
  for (std::int32_t l = 0; l < layers; ++l) {
    weights.push_back(
        builder.add({.name = "weight", .bytes = size(), .role = StorageRole::parameter, .lasting = true}));
    sums.push_back(builder.add({.name = "sum", .bytes = size(), .role = StorageRole::gradient, .lasting = true}));
  }
  struct Forward {
    std::vector<std::int32_t> reads, writes;
    std::int32_t layer = 0;
  };
  const auto add = [&](Builder::OpRow op) {
    for (auto* list : {&op.reads, &op.writes}) {
      std::ranges::sort(*list);
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    builder.add(std::move(op));
  };
  for (std::int32_t part = 0; part < parts; ++part) {
    std::vector<Forward> ops;
    std::vector<std::int32_t> made{builder.add({.name = "input", .bytes = size()})};
    for (std::int32_t l = 0; l < layers; ++l)
      for (int k = draw(1, 3); k > 0; --k) {
        Forward op{.reads = {made.back()}, .writes = {}, .layer = l};
        if (k == 1) op.reads.push_back(weights[static_cast<std::size_t>(l)]);
        if (made.size() > 2 && draw(0, 2) == 0) op.reads.push_back(made[made.size() - 2]);
        for (int w = draw(0, 4) == 0 ? 2 : 1; w > 0; --w) op.writes.push_back(activation("activation"));
        made.push_back(op.writes.front());
        add({.name = "forward",
             .cost = draw(100'000, 900'000),
             .transient_bytes = draw(0, 1) * 128 * kKiB,
             .recompute = draw(0, 4) == 0 ? Builder::Recompute::never : Builder::Recompute::pure,
             .reads = op.reads,
             .writes = op.writes});
        ops.push_back(std::move(op));
      }
    std::int32_t gradient = activation("gradient");
    add({.name = "loss",
         .cost = 100'000,
         .phase = OpPhase::backward,
         .recompute = Builder::Recompute::never,
         .reads = {made.back()},
         .writes = {gradient}});
    for (std::size_t i = ops.size(); i-- > 0;) {
      const auto layer = static_cast<std::size_t>(ops[i].layer);
      const std::int32_t next = activation("gradient");
      std::vector<std::int32_t> reads;
      if (draw(0, 3) > 0) reads = ops[i].reads;
      reads.push_back(gradient);
      if (draw(0, 1) == 0) reads.insert(reads.end(), ops[i].writes.begin(), ops[i].writes.end());
      const bool asks = reads.size() > 1;
      add({.name = "backward",
           .cost = draw(200'000, 1'800'000),
           .phase = OpPhase::backward,
           .recompute = Builder::Recompute::never,
           .reads = reads,
           .writes = {next},
           .told = hears == Hears::everything || asks});
      add({.name = "add",
           .cost = 50'000,
           .phase = OpPhase::backward,
           .recompute = Builder::Recompute::never,
           .reads = {next, sums[layer]},
           .writes = {sums[layer]},
           .told = hears == Hears::everything});
      gradient = next;
    }
  }
  return std::move(builder).build();
}

[[nodiscard]] inline plan::PlanRequest captured_request(Graph graph, Bytes budget) {
  return {.step = plan::GivenStep{.name = "step", .graph = std::make_shared<const Graph>(std::move(graph))},
          .machine = graph_build::given_machine(kMiB, kMiB),
          .policy = policies::find_policy("optimal"),
          .budget_bytes = budget};
}

}  // namespace tidemark::testing
