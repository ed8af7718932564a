#include "planner/simulate/split_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <string_view>

namespace tidemark::simulate {
namespace {

using graph_build::PassKind;
using graph_build::SplitPass;
using graph_build::SplitSchedule;
using graph_build::SplitTimes;
using graph_build::SplitTimeTable;

constexpr std::int64_t kNotRun = -1;

/// Ends of passes of one kind that others wait for; a whole backward ends in both columns of backward.
enum class EndOf : std::uint8_t { forward, input_grad, weight_grad };

std::string_view name_of(PassKind kind) {
  constexpr std::array<std::string_view, 4> kNames{"forward", "input_grad", "weight_grad", "backward"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::int64_t duration_ns(const SplitTimes& times, PassKind kind) {
  switch (kind) {
    case PassKind::forward:
      return times.forward_ns;
    case PassKind::input_grad:
      return times.input_grad_ns;
    case PassKind::weight_grad:
      return times.weight_grad_ns;
    case PassKind::backward:
      return times.input_grad_ns + times.weight_grad_ns;
  }
  return 0;
}

class SplitStepPlayer {
 public:
  SplitStepPlayer(const SplitSchedule& schedule, const SplitTimeTable& times);

  /// All ranks as far as their inputs let them.
  Status play();
  [[nodiscard]] SplitStepRun summary() const;

 private:
  [[nodiscard]] std::int64_t& end(EndOf kind, std::int32_t stage, std::int32_t micro_batch) {
    const auto cell = static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.micro_batches) +
                      static_cast<std::size_t>(micro_batch);
    return ends_[static_cast<std::size_t>(kind)][cell];
  }
  /// When that pass's result is at `rank`; kNotRun: not known yet.
  [[nodiscard]] std::int64_t result_at(std::int32_t rank, EndOf kind, std::int32_t stage, std::int32_t micro_batch);
  /// When the pass's inputs are there; kNotRun: not known yet.
  [[nodiscard]] std::int64_t ready_ns(std::int32_t rank, const SplitPass& pass);
  [[nodiscard]] bool has_run(std::int32_t rank, const SplitPass& pass);
  void run(std::int32_t rank, const SplitPass& pass, std::int64_t ready);
  /// Whether the rank got any further.
  Result<bool> advance(std::int32_t rank);
  [[nodiscard]] Status check_pass(std::int32_t rank, const SplitPass& pass);
  [[nodiscard]] Status check_finished() const;

  const SplitSchedule& schedule_;
  const SplitTimeTable& times_;
  std::array<std::vector<std::int64_t>, 3> ends_;  ///< [EndOf][stage * micro_batches + micro-batch]
  std::vector<std::size_t> next_;                  ///< [rank] pass
  std::vector<SplitRankRun> ranks_;
};

SplitStepPlayer::SplitStepPlayer(const SplitSchedule& schedule, const SplitTimeTable& times)
    : schedule_(schedule), times_(times), next_(schedule.passes.size(), 0), ranks_(schedule.passes.size()) {
  const auto cells = static_cast<std::size_t>(schedule.stages()) * static_cast<std::size_t>(schedule.micro_batches);
  for (auto& ends : ends_) ends.assign(cells, kNotRun);
}

std::int64_t SplitStepPlayer::result_at(std::int32_t rank, EndOf kind, std::int32_t stage, std::int32_t micro_batch) {
  const std::int64_t end_ns = end(kind, stage, micro_batch);
  return end_ns == kNotRun || schedule_.rank_of(stage) == rank ? end_ns : end_ns + times_.hop_ns;
}

std::int64_t SplitStepPlayer::ready_ns(std::int32_t rank, const SplitPass& pass) {
  const std::int32_t stage = schedule_.stage_of(rank, pass.chunk);
  if (pass.kind == PassKind::weight_grad) return end(EndOf::input_grad, stage, pass.micro_batch);
  if (pass.kind == PassKind::forward) {
    return stage == 0 ? 0 : result_at(rank, EndOf::forward, stage - 1, pass.micro_batch);
  }
  const std::int64_t own = end(EndOf::forward, stage, pass.micro_batch);
  if (own == kNotRun || stage + 1 == schedule_.stages()) return own;
  const std::int64_t after = result_at(rank, EndOf::input_grad, stage + 1, pass.micro_batch);
  return after == kNotRun ? kNotRun : std::max(own, after);
}

bool SplitStepPlayer::has_run(std::int32_t rank, const SplitPass& pass) {
  const std::int32_t stage = schedule_.stage_of(rank, pass.chunk);
  if (pass.kind == PassKind::forward) return end(EndOf::forward, stage, pass.micro_batch) != kNotRun;
  const bool is_weights = pass.kind == PassKind::weight_grad;
  return end(is_weights ? EndOf::weight_grad : EndOf::input_grad, stage, pass.micro_batch) != kNotRun;
}

Status SplitStepPlayer::check_pass(std::int32_t rank, const SplitPass& pass) {
  const bool is_inside = pass.chunk >= 0 && pass.chunk < schedule_.chunks && pass.micro_batch >= 0 &&
                         pass.micro_batch < schedule_.micro_batches;
  if (is_inside && !has_run(rank, pass)) return {};
  return internal_fault(fmt::format("a pipeline order lists {} of chunk {}, micro-batch {} on rank {}, which {}",
                                    name_of(pass.kind), pass.chunk, pass.micro_batch, rank,
                                    is_inside ? "has run before" : "it does not have"));
}

void SplitStepPlayer::run(std::int32_t rank, const SplitPass& pass, std::int64_t ready) {
  SplitRankRun& at = ranks_[static_cast<std::size_t>(rank)];
  std::size_t& next = next_[static_cast<std::size_t>(rank)];
  const std::int64_t start_ns = std::max(at.finish_ns, ready);
  const std::int64_t took_ns =
      duration_ns(times_.chunks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(pass.chunk)], pass.kind);
  if (next == 0) at.start_ns = start_ns;
  at.busy_ns += took_ns;
  at.finish_ns = start_ns + took_ns;
  ++next;
  const std::int32_t stage = schedule_.stage_of(rank, pass.chunk);
  if (pass.kind == PassKind::forward) end(EndOf::forward, stage, pass.micro_batch) = at.finish_ns;
  if (pass.kind == PassKind::input_grad || pass.kind == PassKind::backward) {
    end(EndOf::input_grad, stage, pass.micro_batch) = at.finish_ns;
  }
  if (pass.kind == PassKind::weight_grad || pass.kind == PassKind::backward) {
    end(EndOf::weight_grad, stage, pass.micro_batch) = at.finish_ns;
  }
}

Result<bool> SplitStepPlayer::advance(std::int32_t rank) {
  const auto& passes = schedule_.passes[static_cast<std::size_t>(rank)];
  const std::size_t first = next_[static_cast<std::size_t>(rank)];
  for (std::size_t i = first; i < passes.size(); ++i) {
    if (const Status status = check_pass(rank, passes[i]); !status) return status.error();
    const std::int64_t ready = ready_ns(rank, passes[i]);
    if (ready == kNotRun) break;
    run(rank, passes[i], ready);
  }
  return next_[static_cast<std::size_t>(rank)] > first;
}

Status SplitStepPlayer::play() {
  const auto ranks = static_cast<std::int32_t>(schedule_.passes.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      const auto advanced = advance(rank);
      if (!advanced) return advanced.error();
      moved = moved || advanced.value();
    }
  }
  return check_finished();
}

Status SplitStepPlayer::check_finished() const {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (next_[rank] == schedule_.passes[rank].size()) continue;
    const SplitPass& pass = schedule_.passes[rank][next_[rank]];
    return internal_fault(fmt::format("a pipeline order stands still on rank {} before {} of chunk {}, micro-batch {}",
                                      rank, name_of(pass.kind), pass.chunk, pass.micro_batch));
  }
  return {};
}

SplitStepRun SplitStepPlayer::summary() const {
  SplitStepRun step{.ranks = ranks_};
  double busy_ns = 0;
  for (const SplitRankRun& rank : ranks_) {
    step.step_ns = std::max(step.step_ns, rank.finish_ns);
    step.longest_rank_ns = std::max(step.longest_rank_ns, rank.finish_ns - rank.start_ns);
    busy_ns += static_cast<double>(rank.busy_ns);
  }
  const double all_ns = static_cast<double>(step.step_ns) * static_cast<double>(ranks_.size());
  step.bubble_share = all_ns > 0 ? 1 - busy_ns / all_ns : 0;
  return step;
}

}  // namespace

Result<SplitStepRun> run_split_step(const SplitSchedule& schedule, const SplitTimeTable& times) {
  assert(schedule.passes.size() == static_cast<std::size_t>(schedule.ranks));
  assert(times.chunks.size() == schedule.passes.size());
  SplitStepPlayer player(schedule, times);
  if (const Status status = player.play(); !status) return status.error();
  return player.summary();
}

std::vector<Bytes> peak_pass_bytes(const SplitSchedule& schedule, const PassBytesTable& bytes) {
  assert(bytes.size() == schedule.passes.size());
  std::vector<Bytes> peaks;
  for (std::size_t rank = 0; rank < schedule.passes.size(); ++rank) {
    Bytes held = 0, peak = 0;
    for (const SplitPass& pass : schedule.passes[rank]) {
      const PassBytes& chunk = bytes[rank][static_cast<std::size_t>(pass.chunk)];
      switch (pass.kind) {
        case PassKind::forward:
          held += chunk.held_bytes;
          break;
        case PassKind::input_grad:
          held += chunk.put_off_bytes - chunk.held_bytes;
          break;
        case PassKind::weight_grad:
          held -= chunk.put_off_bytes;
          break;
        case PassKind::backward:
          held -= chunk.held_bytes;
          break;
      }
      peak = std::max(peak, held);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace tidemark::simulate
