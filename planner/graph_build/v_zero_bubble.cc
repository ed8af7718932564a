#include "planner/graph_build/v_zero_bubble.h"

#include <cassert>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "planner/graph_build/gap_filler.h"

namespace tidemark::graph_build {
namespace {

// The ways of kVWays.
constexpr std::size_t kDown = 0, kUp = 1, kBackDown = 2, kBackUp = 3;

/// Whether weight gradients may hold up what they stand before.
struct VDelays {
  bool forward = true;
  bool back_down = true;
};

/// One build; every pass it runs has its input, so the order is one that can run.
class VBuild {
 public:
  VBuild(const GapFiller::Setting& setting, const VDelays& delays, std::vector<std::int64_t> earlier_idle_ns)
      : setting_(setting), delays_(delays), filler_(setting, std::move(earlier_idle_ns)) {}

  GapFiller run() && {
    reach_every_rank();
    catch_up();
    for (std::int32_t turn = 0; turn < 2 * setting_.micro_batches; ++turn) {
      run_input_grads();
      run_forwards();
    }
    filler_.finish();
    return std::move(filler_);
  }

 private:
  void reach_every_rank();
  void catch_up();
  void run_input_grads();
  void run_forwards();
  [[nodiscard]] std::size_t next_input_grad(std::int32_t rank) const;
  [[nodiscard]] std::optional<std::size_t> next_forward(std::int32_t rank) const;
  [[nodiscard]] std::int32_t forwards(std::int32_t rank) const {
    return filler_.done(rank, kDown) + filler_.done(rank, kUp);
  }

  GapFiller::Setting setting_;
  VDelays delays_;
  GapFiller filler_;
};

/// Micro-batch 0 down the V and up again. On the way up every rank, and all before it, run as many further forwards of
/// chunk 0 as leave memory free for the two that each rank before will run until micro-batch 0 is there. With equal
/// times that is what fits into the wait; with others, which of these forwards run first changes nothing for memory.
void VBuild::reach_every_rank() {
  for (std::int32_t rank = 0; rank < setting_.ranks; ++rank) filler_.run(rank, kDown);
  for (std::int32_t rank = setting_.ranks - 1; rank >= 0; --rank) {
    const bool waits = rank + 1 < setting_.ranks;
    while (waits && filler_.held(rank) + 2 + 2 * rank <= setting_.held_limit && !filler_.is_complete(rank, kDown)) {
      for (std::int32_t before = 0; before <= rank; ++before) filler_.run(before, kDown);
    }
    filler_.run(rank, kUp);
  }
}

/// Forwards of both chunks in turn until every rank has as many as the one before it, and one more of chunk 1.
void VBuild::catch_up() {
  std::size_t way = kDown;
  const auto is_behind = [&](std::int32_t rank) {
    return forwards(rank) < forwards(rank - 1) ||
           (filler_.done(rank, kUp) <= filler_.done(rank - 1, kUp) && !filler_.is_complete(rank - 1, kUp));
  };
  for (std::int32_t rank = 1; rank < setting_.ranks; ++rank) {
    while (is_behind(rank)) {
      for (std::int32_t later = setting_.ranks - 1; later >= rank; --later) {
        if (!filler_.is_complete(later, way)) filler_.run(later, way);
      }
      way = way == kDown ? kUp : kDown;
    }
  }
}

/// Chunk 0's where its input is there or nothing of chunk 1 is left, else chunk 1's, which starts the way back.
std::size_t VBuild::next_input_grad(std::int32_t rank) const {
  if (filler_.done(rank, kBackUp) >= filler_.done(rank, kBackDown)) return kBackDown;
  return filler_.has_input(rank, kBackUp) || filler_.is_complete(rank, kBackDown) ? kBackUp : kBackDown;
}

/// One dX a rank. Which, all ranks choose before the first runs; they run in the order in which they need each other.
void VBuild::run_input_grads() {
  std::vector<std::size_t> ways;
  for (std::int32_t rank = 0; rank < setting_.ranks; ++rank) ways.push_back(next_input_grad(rank));
  const auto run = [&](std::int32_t rank, std::size_t way) {
    if (ways[static_cast<std::size_t>(rank)] != way) return;
    filler_.fill_gap(rank, way, way == kBackUp || delays_.back_down);
    filler_.run(rank, way);
  };
  for (std::int32_t rank = setting_.ranks - 1; rank >= 0; --rank) run(rank, kBackUp);
  for (std::int32_t rank = 0; rank < setting_.ranks; ++rank) run(rank, kBackDown);
}

/// Chunk 1's where its input is there, else chunk 0's.
std::optional<std::size_t> VBuild::next_forward(std::int32_t rank) const {
  if (filler_.is_complete(rank, kUp)) return std::nullopt;
  if (filler_.has_input(rank, kUp)) return kUp;
  if (filler_.is_complete(rank, kDown) || !filler_.has_input(rank, kDown)) return std::nullopt;
  return kDown;
}

void VBuild::run_forwards() {
  for (std::int32_t rank = 0; rank < setting_.ranks; ++rank) {
    const auto way = next_forward(rank);
    if (!way) continue;
    filler_.make_room(rank);
    filler_.fill_gap(rank, *way, delays_.forward);
    filler_.run(rank, *way);
  }
}

}  // namespace

Result<SplitSchedule> v_zero_bubble(std::int32_t ranks, std::int32_t micro_batches, const SplitTimeTable& times) {
  if (const Status status = check_split_counts(ranks, micro_batches); !status) return status.error();
  assert(times.chunks.size() == static_cast<std::size_t>(ranks));
  const GapFiller::Setting setting{
      .ways = kVWays, .ranks = ranks, .micro_batches = micro_batches, .times = &times, .held_limit = 2 * ranks};
  std::optional<GapFiller> best;
  for (const VDelays& delays :
       {VDelays{true, true}, VDelays{false, true}, VDelays{true, false}, VDelays{false, false}}) {
    GapFiller next = shortest_idle([&](std::vector<std::int64_t> earlier_idle_ns) {
      return VBuild(setting, delays, std::move(earlier_idle_ns)).run();
    });
    if (!best || next.longest_idle_ns() < best->longest_idle_ns()) best = std::move(next);
  }
  return SplitSchedule{.ranks = ranks,
                       .chunks = 2,
                       .micro_batches = micro_batches,
                       .placement = StagePlacement::zigzag,
                       .passes = std::move(*best).take_passes()};
}

}  // namespace tidemark::graph_build
