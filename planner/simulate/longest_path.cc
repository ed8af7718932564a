#include "planner/simulate/longest_path.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tidemark::simulate {

LongestPath::LongestPath(std::span<const RankWork> works) : computes_(works.size(), 0) {
  std::map<std::tuple<std::int32_t, std::int32_t, std::int64_t>, std::int32_t> sent;  // from, to, tag: a node
  std::vector<std::size_t> task(works.size(), 0), message(works.size(), 0);
  std::vector<Placed> placed(works.size(), {.node_of = {}, .last_of_lane = std::vector<std::int32_t>(kLaneCount, -1)});
  // Ranks in turn, each until it waits for a message that is not sent yet: the step runs, so all come to their end.
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < works.size(); ++r) {
      const RankWork& work = works[r];
      for (; task[r] < work.lanes.size(); ++task[r], moved = true) {
        std::int32_t sender = -1;
        const RankWork::Message* at =
            message[r] < work.messages.size() && work.messages[message[r]].task == static_cast<std::int32_t>(task[r])
                ? &work.messages[message[r]]
                : nullptr;
        const auto rank = static_cast<std::int32_t>(r);
        if (at != nullptr && !at->is_send) {
          const auto found = sent.find({at->peer_rank, rank, at->tag});
          if (found == sent.end()) break;
          sender = found->second;
        }
        add_node(r, work, sender, placed[r]);
        if (at == nullptr) continue;
        if (at->is_send) sent[{rank, at->peer_rank, at->tag}] = static_cast<std::int32_t>(nodes_.size()) - 1;
        ++message[r];
      }
    }
  }
  nodes_.push_back({.first_edge = static_cast<std::int32_t>(edges_.size())});
  end_ns_.resize(nodes_.size());
  cause_.resize(nodes_.size());
}

/// The next task of the rank. `sender`: the node of the message that it receives, or -1. A receive takes no time of its
/// own.
void LongestPath::add_node(std::size_t rank, const RankWork& work, std::int32_t sender, Placed& placed) {
  const std::size_t task = placed.node_of.size();
  const auto node = static_cast<std::int32_t>(nodes_.size());
  const Lane lane = work.lanes[task];
  nodes_.push_back({.first_edge = static_cast<std::int32_t>(edges_.size()),
                    .rank = static_cast<std::int32_t>(rank),
                    .place = lane == Lane::compute ? computes_[rank]++ : -1,
                    .duration_ns = sender >= 0 ? 0 : work.duration_ns[task]});
  std::int32_t& last = placed.last_of_lane[static_cast<std::size_t>(lane)];
  if (last >= 0) edges_.push_back(last);
  if (sender >= 0) edges_.push_back(sender);
  for (std::int32_t w = work.first_wait[task]; w < work.first_wait[task + 1]; ++w)
    edges_.push_back(placed.node_of[static_cast<std::size_t>(work.waits[static_cast<std::size_t>(w)])]);
  placed.node_of.push_back(node);
  last = node;
}

double LongestPath::step_ns(const PerComputeTask& added) {
  std::int32_t last = -1;
  double step_ns = 0;
  for (std::size_t n = 0; n + 1 < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    double start_ns = 0;
    std::int32_t cause = -1;
    for (std::int32_t e = node.first_edge; e < nodes_[n + 1].first_edge; ++e) {
      const std::int32_t other = edges_[static_cast<std::size_t>(e)];
      if (end_ns_[static_cast<std::size_t>(other)] <= start_ns) continue;
      start_ns = end_ns_[static_cast<std::size_t>(other)];
      cause = other;
    }
    double end_ns = start_ns + static_cast<double>(node.duration_ns);
    if (node.place >= 0)
      end_ns += static_cast<double>(added[static_cast<std::size_t>(node.rank)][static_cast<std::size_t>(node.place)]);
    end_ns_[n] = end_ns;
    cause_[n] = cause;
    if (end_ns <= step_ns) continue;
    step_ns = end_ns;
    last = static_cast<std::int32_t>(n);
  }
  trace(last);
  return step_ns;
}

void LongestPath::trace(std::int32_t last) {
  on_path_.clear();
  for (std::int32_t n = last; n >= 0; n = cause_[static_cast<std::size_t>(n)]) {
    const Node& node = nodes_[static_cast<std::size_t>(n)];
    if (node.place >= 0) on_path_.push_back({.rank = node.rank, .place = node.place});
  }
}

PerComputeTask LongestPath::nothing() const {
  PerComputeTask nothing;
  for (const std::int32_t computes : computes_) nothing.emplace_back(static_cast<std::size_t>(computes), 0.0F);
  return nothing;
}

}  // namespace tidemark::simulate
