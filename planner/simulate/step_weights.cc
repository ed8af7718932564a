#include "planner/simulate/step_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace tidemark::simulate {
namespace {

/// What a task that is not on the compute lane goes back to: itself, or by way of other such tasks.
struct Origin {
  std::int32_t compute = 0;     ///< compute tasks up to the last that it waits for
  std::int64_t since_ns = 0;    ///< when it would be done if it waited for that alone
  std::int32_t message = -1;    ///< of the rank: the receive that it waits for
  std::int64_t arrived_ns = 0;  ///< when it would be done if it waited for that alone

  void join(const Origin& other) {
    if (other.compute > compute) {
      compute = other.compute;
      since_ns = other.since_ns;
    }
    if (other.message >= 0 && (message < 0 || other.arrived_ns > arrived_ns)) {
      message = other.message;
      arrived_ns = other.arrived_ns;
    }
  }
};

/// A message at one of its ends, and how much later it could be at no one's cost.
struct MessageEnd {
  std::int32_t compute = 0;  ///< compute tasks before that point of the lane
  std::int32_t message = 0;
  double slack_ns = 0;
};

/// One rank's lane as messages see it.
struct LaneView {
  std::int32_t computes = 0;
  std::vector<MessageEnd> waits, sends;  ///< ascending `compute`
  std::vector<double> idle_ns;           ///< per wait: how long the lane stands still for that message
};

/// Reads tasks in order.
class LaneReader {
 public:
  LaneReader(const RankWork& work, const Timeline& times)
      : work_(work), times_(times), origin_(work.lanes.size()), computes_before_(work.lanes.size(), -1) {}

  LaneView read() && {
    std::size_t next_message = 0;
    for (std::size_t task = 0; task < work_.lanes.size(); ++task) {
      const bool has_message =
          next_message < work_.messages.size() && work_.messages[next_message].task == static_cast<std::int32_t>(task);
      const Origin origin = origin_of(task);
      if (work_.lanes[task] == Lane::compute)
        add_compute(task, origin);
      else
        add_other(task, origin, has_message ? static_cast<std::int32_t>(next_message) : -1);
      next_message += has_message ? 1 : 0;
    }
    std::ranges::stable_sort(view_.sends, {}, &MessageEnd::compute);
    return std::move(view_);
  }

 private:
  [[nodiscard]] Origin origin_of(std::size_t task) const {
    Origin origin;
    for (std::int32_t w = work_.first_wait[task]; w < work_.first_wait[task + 1]; ++w) {
      const auto wait = static_cast<std::size_t>(work_.waits[static_cast<std::size_t>(w)]);
      const std::int32_t computes = computes_before_[wait];
      origin.join(computes < 0 ? origin_[wait] : Origin{.compute = computes + 1, .since_ns = times_.end_ns[wait]});
    }
    return origin;
  }

  void add_compute(std::size_t task, const Origin& origin) {
    if (origin.message >= 0) {
      const std::int64_t slack = times_.start_ns[task] - origin.arrived_ns;
      const std::int64_t idle = slack == 0 ? times_.start_ns[task] - lane_free_ns_ : 0;
      view_.waits.push_back(
          {.compute = view_.computes, .message = origin.message, .slack_ns = static_cast<double>(slack)});
      view_.idle_ns.push_back(static_cast<double>(idle));
    }
    lane_free_ns_ = times_.end_ns[task];
    computes_before_[task] = view_.computes++;
  }

  void add_other(std::size_t task, Origin origin, std::int32_t message) {
    origin.since_ns += work_.duration_ns[task];
    origin.arrived_ns += work_.duration_ns[task];
    if (message >= 0 && work_.messages[static_cast<std::size_t>(message)].is_send) {
      const std::int64_t slack = times_.end_ns[task] - origin.since_ns;
      view_.sends.push_back({.compute = origin.compute,
                             .message = message,
                             .slack_ns = static_cast<double>(std::max<std::int64_t>(0, slack))});
    } else if (message >= 0) {
      origin.message = message;
      origin.arrived_ns = times_.end_ns[task];
    }
    origin_[task] = origin;
  }

  const RankWork& work_;
  const Timeline& times_;
  std::vector<Origin> origin_;                 ///< per task off the compute lane
  std::vector<std::int32_t> computes_before_;  ///< per task of the compute lane; -1: another lane
  std::int64_t lane_free_ns_ = 0;
  LaneView view_;
};

/// Delays by node, and back from the end of the step what each has part in.
class PathGraph {
 public:
  PathGraph(std::span<const RankWork> works, const StepTiming& timing, double softness_ns)
      : softness_ns_(softness_ns), ranks_(works.size()) {
    Senders senders;
    for (std::size_t r = 0; r < works.size(); ++r) {
      add_nodes(r, works[r], LaneReader(works[r], timing.ranks[r]).read(), senders);
      end_slack_ns_.push_back(static_cast<double>(timing.step_ns - timing.ranks[r].finish_ns));
    }
    for (std::size_t r = 0; r < works.size(); ++r) find_senders(r, works[r], senders);
    put_in_order();
  }

  StepWeights weights() && {
    for (const At& at : order_) delay(at);
    double top = 0, sum = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) top = std::max(top, end_delay(r));
    for (std::size_t r = 0; r < ranks_.size(); ++r) sum += part(end_delay(r), top);
    StepWeights weights;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      weights.emplace_back(static_cast<std::size_t>(ranks_[r].back().compute), 0.0F);
      ranks_[r].back().weight = part(end_delay(r), top) / sum;
    }
    for (auto at = order_.rbegin(); at != order_.rend(); ++at) hand_back(*at, weights[at->rank]);
    return weights;
  }

 private:
  struct At {
    std::size_t rank = 0, node = 0;
  };
  struct Sender {
    At at;
    double slack_ns = 0;
  };
  using Senders = std::map<std::tuple<std::int32_t, std::int32_t, std::int64_t>, Sender>;  // from, to, tag
  /// A point of a lane; the last of a rank is its end.
  struct Node {
    std::int32_t compute = 0;     ///< compute tasks of the lane before it
    std::int32_t message = -1;    ///< of the rank, waited for here
    double lane_slack_ns = 0;     ///< how much later the lane could come here
    double message_slack_ns = 0;  ///< and the message, at either end
    At sender;                    ///< of the message
    double delay_ns = 0;
    double weight = 0;
  };

  [[nodiscard]] Node& node(const At& at) { return ranks_[at.rank][at.node]; }
  /// Of the weight that the latest of several delays has.
  [[nodiscard]] double part(double delay_ns, double latest_ns) const {
    return std::exp((delay_ns - latest_ns) / softness_ns_);
  }
  [[nodiscard]] double end_delay(std::size_t rank) const { return ranks_[rank].back().delay_ns - end_slack_ns_[rank]; }
  [[nodiscard]] double lane_delay(const At& at) {
    return (at.node > 0 ? ranks_[at.rank][at.node - 1].delay_ns : 0) - node(at).lane_slack_ns;
  }
  [[nodiscard]] double message_delay(const Node& n) { return node(n.sender).delay_ns - n.message_slack_ns; }

  /// What is sent at a point of the lane does not wait for what is received there.
  void add_nodes(std::size_t rank, const RankWork& work, const LaneView& view, Senders& senders) {
    std::vector<Node>& nodes = ranks_[rank];
    std::size_t wait = 0;
    const auto add_waits = [&](std::int32_t before) {
      for (; wait < view.waits.size() && view.waits[wait].compute < before; ++wait)
        nodes.push_back({.compute = view.waits[wait].compute,
                         .message = view.waits[wait].message,
                         .lane_slack_ns = view.idle_ns[wait],
                         .message_slack_ns = view.waits[wait].slack_ns});
    };
    for (const MessageEnd& send : view.sends) {
      add_waits(send.compute);
      nodes.push_back({.compute = send.compute});
      const RankWork::Message& m = work.messages[static_cast<std::size_t>(send.message)];
      senders[{static_cast<std::int32_t>(rank), m.peer_rank, m.tag}] = {.at = {.rank = rank, .node = nodes.size() - 1},
                                                                        .slack_ns = send.slack_ns};
    }
    add_waits(std::numeric_limits<std::int32_t>::max());
    nodes.push_back({.compute = view.computes});
  }

  void find_senders(std::size_t rank, const RankWork& work, const Senders& senders) {
    for (Node& n : ranks_[rank]) {
      if (n.message < 0) continue;
      const RankWork::Message& m = work.messages[static_cast<std::size_t>(n.message)];
      const Sender& sender = senders.at({m.peer_rank, static_cast<std::int32_t>(rank), m.tag});
      n.sender = sender.at;
      n.message_slack_ns += sender.slack_ns;
      // A point is reached as soon as what it waits for is: what this view leaves out is taken to be rigid.
      const double loose_ns = std::min(n.lane_slack_ns, n.message_slack_ns);
      n.lane_slack_ns -= loose_ns;
      n.message_slack_ns -= loose_ns;
    }
  }

  /// Senders first: the step ran, so there is such an order.
  void put_in_order() {
    std::vector<std::size_t> next(ranks_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        for (; next[r] < ranks_[r].size(); ++next[r]) {
          const Node& n = ranks_[r][next[r]];
          if (n.message >= 0 && next[n.sender.rank] <= n.sender.node) break;
          order_.push_back({.rank = r, .node = next[r]});
          moved = true;
        }
    }
  }

  /// A soft maximum of what comes here.
  void delay(const At& at) {
    Node& n = node(at);
    n.delay_ns = lane_delay(at);
    if (n.message < 0) return;
    const double other = message_delay(n), latest = std::max(n.delay_ns, other);
    n.delay_ns = latest + softness_ns_ * std::log(part(n.delay_ns, latest) + part(other, latest));
  }

  /// The weight of a node to what came there, by how late it came.
  void hand_back(const At& at, std::vector<float>& weights) {
    const Node& n = node(at);
    const double by_lane = n.message < 0 ? n.weight : n.weight * part(lane_delay(at), n.delay_ns);
    if (n.message >= 0) node(n.sender).weight += n.weight * part(message_delay(n), n.delay_ns);
    if (at.node > 0) ranks_[at.rank][at.node - 1].weight += by_lane;
    const std::int32_t from = at.node > 0 ? ranks_[at.rank][at.node - 1].compute : 0;
    std::fill(weights.begin() + from, weights.begin() + n.compute, static_cast<float>(by_lane));
  }

  double softness_ns_;
  std::vector<std::vector<Node>> ranks_;
  std::vector<double> end_slack_ns_;
  std::vector<At> order_;
};

}  // namespace

StepWeights step_weights(std::span<const RankWork> works, const StepTiming& timing, double softness_ns) {
  return PathGraph(works, timing, softness_ns).weights();
}

}  // namespace tidemark::simulate
