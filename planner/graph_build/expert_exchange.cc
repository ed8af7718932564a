#include "planner/graph_build/expert_exchange.h"

#include "planner/graph_build/op_cost.h"

namespace tidemark::graph_build {
namespace {

Bytes sent_bytes(const BlockContext& c) {
  return BlockContext::bytes(c.shapes.sent_rows, c.model.hidden);
}

/// Bytes that leave this device, inside its node and to other nodes, when all rows sent are spread evenly.
struct Traffic {
  double intra = 0;
  double inter = 0;
};

Traffic traffic(const BlockContext& c) {
  const ExpertGroup& group = c.shapes.expert_group;
  const auto all = static_cast<double>(sent_bytes(c));
  const auto per_node = static_cast<double>(group.per_node);
  // With hierarchy the rows exchanged already belong to this node's experts.
  if (group.hierarchical) return {.intra = all * (per_node - 1) / per_node};
  const auto ranks = static_cast<double>(group.ranks);
  return {.intra = all * (per_node - 1) / ranks, .inter = all * (ranks - per_node) / ranks};
}

void exchange(const BlockContext& c, OpPhase phase, const std::string& name, Ref from, Ref to) {
  const Traffic bytes = traffic(c);
  const ExpertGroup& group = c.shapes.expert_group;
  const std::int64_t ranks = group.hierarchical ? group.per_node : group.ranks;
  const auto send = [&](const char* suffix, Lane lane, double link_bytes) {
    if (link_bytes <= 0) return;
    c.builder.op(phase, {.name = name + suffix,
                         .lane = lane,
                         .cost = exchange_cost(link_bytes, ranks, lane == Lane::intra_comm),
                         .routed = true,
                         .collective = true,
                         .replays_routing = true,
                         .reads = {from},
                         .writes = {to}});
  };
  send("_inter_node", Lane::inter_comm, bytes.inter);
  send("_intra_node", Lane::intra_comm, bytes.intra);
  if (phase != OpPhase::forward) c.builder.flush();
}

Ref expert_rows(const BlockContext& c, const std::string& name, std::int64_t rows) {
  return c.builder.routed(name, rows, BlockContext::bytes(1, c.model.hidden), false, RowsOf::received);
}

bool between_ranks(const DeviceShapes& s) {
  return s.expert_group.hierarchical ? s.expert_group.per_node > 1 : s.expert_group.ranks > 1;
}

/// Rows of the tensor group, when every member holds a slice of each expert.
OpDraft tensor_collective(const BlockContext& c, const std::string& name, Ref from, Ref to) {
  // Without sequence parallelism all members hold the same rows: nothing to gather, an all-reduce on the way back.
  const std::int64_t passes = c.shapes.gathers() ? 1 : 2;
  const Bytes bytes =
      BlockContext::bytes(c.shapes.expert_rows, c.model.hidden) / c.shapes.tensor * (c.shapes.tensor - 1) * passes;
  return {.name = name,
          .lane = c.shapes.tensor_lane,
          .cost = ring_cost(bytes, c.shapes.tensor_group),
          .routed = true,
          .collective = true,
          .reads = {from},
          .writes = {to}};
}

}  // namespace

bool exchanges_rows(const DeviceShapes& s) {
  return between_ranks(s) || s.experts_split;
}

Ref gather_nodes(const BlockContext& c, OpPhase phase, const std::string& name, Ref tokens) {
  const ExpertGroup& group = c.shapes.expert_group;
  if (!group.hierarchical) return tokens;
  const Bytes bytes = c.local_bytes(c.model.hidden);
  const Ref gathered = c.builder.temporary(name + "_tokens", bytes * group.nodes);
  c.builder.op(phase, {.name = "moe." + name + "_all_gather",
                       .lane = Lane::inter_comm,
                       .cost = ring_cost(bytes * (group.nodes - 1), c.shapes.node_group),
                       .collective = true,
                       .reads = {tokens},
                       .writes = {gathered}});
  if (phase != OpPhase::forward) c.builder.flush();
  return gathered;
}

void reduce_nodes(const BlockContext& c, OpPhase phase, const std::string& name, Ref sums, Ref out) {
  const std::int64_t others = c.shapes.expert_group.nodes - 1;
  c.builder.op(phase, {.name = "moe." + name + "_reduce_scatter",
                       .lane = Lane::inter_comm,
                       .cost = ring_cost(c.local_bytes(c.model.hidden) * others, c.shapes.node_group),
                       .collective = true,
                       .reads = {sums},
                       .writes = {out}});
  if (phase != OpPhase::forward) c.builder.flush();
}

Ref rows_to_experts(const BlockContext& c, OpPhase phase, const std::string& name, Ref rows) {
  Ref received = rows;
  if (between_ranks(c.shapes)) {
    received = expert_rows(c, name + "_received_rows", c.shapes.sent_rows);
    exchange(c, phase, "moe." + name + "_exchange", rows, received);
  }
  if (!c.shapes.experts_split || !c.shapes.gathers()) return received;
  const Ref gathered = expert_rows(c, name + "_gathered_rows", c.shapes.expert_rows);
  c.builder.op(phase, tensor_collective(c, "moe." + name + "_rows_all_gather", received, gathered));
  return gathered;
}

void rows_to_tokens(const BlockContext& c, OpPhase phase, const std::string& name, Ref rows, Ref out) {
  Ref returned = rows;
  if (c.shapes.experts_split) {
    returned = between_ranks(c.shapes) ? expert_rows(c, name + "_reduced_rows", c.shapes.sent_rows) : out;
    c.builder.op(phase, tensor_collective(c, "moe." + name + "_rows_reduce", rows, returned));
    if (phase != OpPhase::forward) c.builder.flush();
  }
  if (between_ranks(c.shapes)) exchange(c, phase, "moe." + name + "_exchange", returned, out);
}

}  // namespace tidemark::graph_build
