#include "planner/simulate/pass_clock.h"

#include <algorithm>
#include <limits>

namespace tidemark::simulate {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
constexpr std::int32_t kStart = -1;  ///< of the step: the end of every path followed backwards

/// A span of a stage's pass, as a path holds it.
struct Term {
  std::int32_t stage = -1;  ///< -1: none
  std::int32_t span = 0;    ///< index in StageSpans
  std::int32_t times = 1;
};

/// A point in time and the longest way to it.
struct Node {
  std::int32_t before = kStart;
  Term term, other;
};

constexpr std::int32_t index_of(PassSpan span, bool forward) {
  return static_cast<std::int32_t>(span) + (forward ? 0 : static_cast<std::int32_t>(kPassSpans));
}

}  // namespace

enum class ClockMode : std::uint8_t { estimate, bound, path };

/// One step under way.
class PassPlay {
 public:
  PassPlay(PassClock& clock, const StageTimes& times, ClockMode mode)
      : clock_(clock),
        times_(times),
        mode_(mode),
        lane_free_(static_cast<std::size_t>(clock.ranks_), 0),
        lane_node_(static_cast<std::size_t>(clock.ranks_), kStart),
        next_(static_cast<std::size_t>(clock.ranks_), 0) {
    const std::size_t stages = static_cast<std::size_t>(clock.ranks_) * static_cast<std::size_t>(clock.chunks_);
    const auto micro_batches = static_cast<std::size_t>(clock.micro_batches_);
    for (auto& ready : clock.ready_) ready.assign(stages * micro_batches, kNever);
    for (auto& node : clock.ready_node_) node.assign(mode == ClockMode::path ? stages * micro_batches : 0, kStart);
    for (std::size_t mb = 0; mb < micro_batches; ++mb) {
      clock.ready_[0][mb * stages] = 0;               // the first stage's input
      clock.ready_[1][mb * stages + stages - 1] = 0;  // the last stage's gradient is its own
    }
  }

  Status run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < clock_.order_.size(); ++rank)
        while (next_[rank] < clock_.order_[rank].size() && step(rank)) moved = true;
    }
    for (std::size_t rank = 0; rank < clock_.order_.size(); ++rank)
      if (next_[rank] < clock_.order_[rank].size()) return internal_fault("the schedule of passes waits for itself");
    return {};
  }

  [[nodiscard]] std::int64_t end_ns() const { return *std::ranges::max_element(lane_free_); }

  [[nodiscard]] SchedulePath path() const {
    SchedulePath path(static_cast<std::size_t>(clock_.ranks_) * static_cast<std::size_t>(clock_.chunks_), StageSpans{});
    const auto last = static_cast<std::size_t>(std::ranges::max_element(lane_free_) - lane_free_.begin());
    for (std::int32_t at = lane_node_[last]; at != kStart; at = nodes_[static_cast<std::size_t>(at)].before) {
      const Node& node = nodes_[static_cast<std::size_t>(at)];
      for (const Term& term : {node.term, node.other})
        if (term.stage >= 0)
          path[static_cast<std::size_t>(term.stage)][static_cast<std::size_t>(term.span)] += term.times;
    }
    return path;
  }

 private:
  /// A time, and where it comes from.
  struct At {
    std::int64_t ns = 0;
    std::int32_t node = kStart;
  };

  [[nodiscard]] std::int32_t stage_of(std::size_t rank, const graph_build::Pass& pass) const {
    return pass.chunk * clock_.ranks_ + static_cast<std::int32_t>(rank);
  }
  [[nodiscard]] std::size_t index(std::int32_t stage, const graph_build::Pass& pass) const {
    return static_cast<std::size_t>(std::int64_t{pass.micro_batch} * clock_.ranks_ * clock_.chunks_ + stage);
  }
  [[nodiscard]] const PassTime& time_of(std::size_t rank, const graph_build::Pass& pass) const {
    const ChunkTime& time = times_[rank][static_cast<std::size_t>(pass.chunk)];
    return pass.forward ? time.forward : time.backward;
  }
  [[nodiscard]] bool is_ready(std::size_t rank, const graph_build::Pass& pass) const {
    return clock_.ready_[pass.forward ? 0 : 1][index(stage_of(rank, pass), pass)] != kNever;
  }

  std::int32_t add(std::int32_t before, Term term, Term other = {}) {
    if (mode_ != ClockMode::path) return kStart;
    nodes_.push_back({.before = before, .term = term, .other = other});
    return static_cast<std::int32_t>(nodes_.size()) - 1;
  }
  At after(const At& start, std::int64_t ns, std::size_t rank, const graph_build::Pass& pass, PassSpan span) {
    return {.ns = start.ns + ns, .node = add(start.node, {stage_of(rank, pass), index_of(span, pass.forward)})};
  }
  static const At& later(const At& a, const At& b) { return b.ns > a.ns ? b : a; }

  /// When its first compute op may start.
  At start_of(std::size_t rank, const graph_build::Pass& pass) {
    const std::size_t direction = pass.forward ? 0 : 1;
    const std::size_t at = index(stage_of(rank, pass), pass);
    const std::int64_t by_input = clock_.ready_[direction][at] - time_of(rank, pass).early_ns;
    if (by_input <= lane_free_[rank]) return {.ns = lane_free_[rank], .node = lane_node_[rank]};
    const std::int32_t before = mode_ == ClockMode::path ? clock_.ready_node_[direction][at] : kStart;
    return {.ns = by_input, .node = add(before, {stage_of(rank, pass), index_of(PassSpan::early, pass.forward), -1})};
  }

  void send(std::size_t rank, const graph_build::Pass& pass, const At& sent) {
    const std::int32_t to = stage_of(rank, pass) + (pass.forward ? 1 : -1);
    if (to < 0 || to >= clock_.ranks_ * clock_.chunks_) return;
    const std::size_t direction = pass.forward ? 0 : 1;
    clock_.ready_[direction][index(to, pass)] = sent.ns;
    if (mode_ == ClockMode::path) clock_.ready_node_[direction][index(to, pass)] = sent.node;
  }

  /// The end of both passes of a pair that begins at `start`.
  At both_from(const At& start, std::size_t rank, const graph_build::Pass& pass, const graph_build::Pass& other) {
    const PassTime &a = time_of(rank, pass), &b = time_of(rank, other);
    PassSpan span = PassSpan::compute;
    std::int64_t ns = a.compute_ns + b.compute_ns;
    if (mode_ != ClockMode::bound) {
      if (a.intra_ns + b.intra_ns > ns) span = PassSpan::intra;
      ns = std::max(ns, a.intra_ns + b.intra_ns);
      if (a.inter_ns + b.inter_ns > ns) span = PassSpan::inter;
      ns = std::max(ns, a.inter_ns + b.inter_ns);
    }
    return {.ns = start.ns + ns,
            .node = add(start.node, {stage_of(rank, pass), index_of(span, pass.forward)},
                        {stage_of(rank, other), index_of(span, other.forward)})};
  }

  /// Plays the next pass, or the next two where they run interleaved. False: an input is not there yet.
  bool step(std::size_t rank) {
    const std::vector<graph_build::Pass>& passes = clock_.order_[rank];
    const graph_build::Pass& pass = passes[next_[rank]];
    if (!is_ready(rank, pass)) return false;
    if (pass.paired_with_next) return step_pair(rank, pass, passes[next_[rank] + 1]);
    const PassTime& time = time_of(rank, pass);
    const At start = start_of(rank, pass);
    send(rank, pass, after(start, time.out_ns, rank, pass, PassSpan::out));
    set_lane(rank, after(start, time.lane_ns, rank, pass, PassSpan::lane));
    ++next_[rank];
    return true;
  }

  bool step_pair(std::size_t rank, const graph_build::Pass& pass, const graph_build::Pass& other) {
    if (!is_ready(rank, other)) return false;
    const PassTime &time = time_of(rank, pass), &other_time = time_of(rank, other);
    const At start = start_of(rank, pass), other_start = start_of(rank, other);
    // Ops of both alternate in one order, so the pair rather waits for both inputs.
    const bool waits = mode_ != ClockMode::bound;
    const At both = both_from((other_start.ns > start.ns) == waits ? other_start : start, rank, pass, other);
    At sent = after(start, time.out_ns, rank, pass, PassSpan::out);
    At other_sent = after(other_start, other_time.out_ns, rank, other, PassSpan::out);
    if (mode_ != ClockMode::bound) {  // interleaved to their ends, both rather send when both are done
      sent = later(sent, both);
      other_sent = later(other_sent, both);
    }
    send(rank, pass, sent);
    send(rank, other, other_sent);
    set_lane(rank, later(later(after(start, time.lane_ns, rank, pass, PassSpan::lane),
                               after(other_start, other_time.lane_ns, rank, other, PassSpan::lane)),
                         both));
    next_[rank] += 2;
    return true;
  }

  void set_lane(std::size_t rank, const At& at) {
    lane_free_[rank] = at.ns;
    lane_node_[rank] = at.node;
  }

  PassClock& clock_;
  const StageTimes& times_;
  ClockMode mode_;
  std::vector<std::int64_t> lane_free_;
  std::vector<std::int32_t> lane_node_;
  std::vector<std::size_t> next_;
  std::vector<Node> nodes_;
};

std::array<std::int64_t, 2 * kPassSpans> spans_of(const ChunkTime& time) {
  const PassTime &f = time.forward, &b = time.backward;
  return {f.lane_ns, f.out_ns, f.early_ns, f.compute_ns, f.intra_ns, f.inter_ns,
          b.lane_ns, b.out_ns, b.early_ns, b.compute_ns, b.intra_ns, b.inter_ns};
}

ChunkTime chunk_time(const std::array<std::int64_t, 2 * kPassSpans>& spans) {
  const auto pass = [&](std::size_t at) {
    return PassTime{.compute_ns = spans[at + 3],
                    .early_ns = spans[at + 2],
                    .lane_ns = spans[at],
                    .out_ns = spans[at + 1],
                    .end_ns = std::max(spans[at], spans[at + 1]),
                    .intra_ns = spans[at + 4],
                    .inter_ns = spans[at + 5]};
  };
  return {.forward = pass(0), .backward = pass(kPassSpans)};
}

Result<PassClock> PassClock::of(const graph_build::ParallelSpec& parallel) {
  PassClock clock;
  clock.ranks_ = parallel.pipeline;
  clock.chunks_ = parallel.virtual_pipeline;
  clock.micro_batches_ = parallel.micro_batches();
  clock.shape_ = {.ranks = parallel.pipeline,
                  .chunks = parallel.virtual_pipeline,
                  .micro_batches = static_cast<std::int32_t>(parallel.micro_batches()),
                  .overlap = parallel.overlap_forward_backward};
  for (std::int32_t rank = 0; rank < parallel.pipeline; ++rank) {
    auto passes = graph_build::pipeline_passes(clock.shape_, rank);
    if (!passes) return passes.error();
    clock.order_.push_back(std::move(passes).value());
  }
  return clock;
}

Result<std::int64_t> PassClock::step_ns(const StageTimes& times) {
  PassPlay play(*this, times, ClockMode::estimate);
  if (Status status = play.run(); !status) return status.error();
  return play.end_ns();
}

Result<std::int64_t> PassClock::bound_ns(const StageTimes& times) {
  PassPlay play(*this, times, ClockMode::bound);
  if (Status status = play.run(); !status) return status.error();
  return play.end_ns();
}

Result<SchedulePath> PassClock::path(const StageTimes& times) {
  PassPlay play(*this, times, ClockMode::path);
  if (Status status = play.run(); !status) return status.error();
  return play.path();
}

}  // namespace tidemark::simulate
