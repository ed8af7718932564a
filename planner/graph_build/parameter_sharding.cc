#include "planner/graph_build/parameter_sharding.h"

#include <algorithm>

#include "planner/graph_build/op_cost.h"

namespace tidemark::graph_build {
namespace {

constexpr const char* kModule = "weights";

/// What each of the ranks sends when `bytes` are gathered or reduced over them.
double others_share(Bytes bytes, std::int64_t ranks) {
  return static_cast<double>(bytes) * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}

}  // namespace

ShardedWeights::ShardedWeights(const BlockContext& context, const ParallelSpec& parallel,
                               const std::vector<ParameterGroup>& groups)
    : context_(context), parallel_(parallel) {
  if (!parallel.sharded_gradients) return;
  for (const bool expert : {false, true}) {
    Unit unit{.name = expert ? "experts" : "dense", .expert = expert};
    for (const ParameterGroup& group : groups) {
      if (group.expert != expert) continue;
      unit.groups.push_back(group.name);
      unit.elements += group.elements();
    }
    if (!unit.groups.empty() && optimizer_shards(parallel, expert) > 1) units_.push_back(std::move(unit));
  }
  if (!parallel.sharded_parameters) return;
  for (const Unit& unit : units_) gather(unit);
}

std::int32_t ShardedWeights::gathers() const {
  return parallel_.sharded_parameters ? static_cast<std::int32_t>(units_.size()) : 0;
}

const GroupShape& ShardedWeights::replicas(const Unit& unit) const {
  return unit.expert ? context_.shapes.expert_data_group : context_.shapes.data_group;
}

void ShardedWeights::gather(const Unit& unit) const {
  BlockBuilder& b = context_.builder;
  b.module(kModule);
  const Bytes bytes = unit.elements * kActivationBytes;
  const std::string name = unit.name + "_gathered_weights";
  const Ref whole = b.gathered(name, bytes);
  OpDraft draft{.name = "weights." + unit.name + "_all_gather",
                .lane = context_.shapes.data_lane,
                .cost = ring_cost(others_share(bytes, replicas(unit).ranks), replicas(unit)),
                .collective = true,
                .writes = {whole}};
  for (const std::string& group : unit.groups) draft.reads.push_back(b.parameter_shard(group));
  b.tag(name);
  b.op(OpPhase::forward, std::move(draft));
  b.recipe(name, {whole});
  b.tag("");
  for (const std::string& group : unit.groups) b.stand_in(group, whole);
}

void ShardedWeights::begin_backward() {
  if (units_.empty()) return;
  BlockBuilder& b = context_.builder;
  b.module(kModule);
  for (Unit& unit : units_) {
    unit.gradients = b.temporary(unit.name + "_whole_gradients", unit.elements * parallel_.gradient_bytes);
    for (const std::string& group : unit.groups) b.stand_in_gradient(group, unit.gradients);
  }
}

void ShardedWeights::reduce_gradients() {
  if (units_.empty()) return;
  BlockBuilder& b = context_.builder;
  b.flush();  // the last of what is added
  for (const Unit& unit : units_) {
    OpDraft draft{
        .name = "weights." + unit.name + "_gradient_reduce_scatter",
        .lane = context_.shapes.data_lane,
        .cost = ring_cost(others_share(unit.elements * parallel_.gradient_bytes, replicas(unit).ranks), replicas(unit)),
        .collective = true,
        .reads = {unit.gradients}};
    for (const std::string& group : unit.groups) draft.writes.push_back(b.gradient_shard(group));
    b.op(OpPhase::backward, std::move(draft));
  }
}

std::vector<ParameterGroup> used_groups(const EndParameters& parameters, const std::vector<std::string>& names) {
  std::vector<ParameterGroup> used;
  for (const std::vector<ParameterGroup>* list : {&parameters.own, &parameters.head, &parameters.embedding})
    for (const ParameterGroup& group : *list) {
      const bool is_named = std::ranges::find(names, group.name) != names.end();
      if (is_named && std::ranges::find(used, group.name, &ParameterGroup::name) == used.end()) used.push_back(group);
    }
  return used;
}

}  // namespace tidemark::graph_build
