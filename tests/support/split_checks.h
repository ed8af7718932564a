#pragma once
// Whether an order of split passes is one that can run, and how long it takes: by definition, over one list of all
// passes, sharing only the nouns with the builders and the evaluator.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/graph_build/split_schedule.h"
#include "planner/graph_build/split_times.h"

namespace tidemark::testing {

class SplitChecks {
 public:
  /// Borrows the schedule.
  explicit SplitChecks(const graph_build::SplitSchedule& schedule) : schedule_(schedule) {}

  /// Empty where every rank runs exactly its passes and an order over all ranks exists.
  [[nodiscard]] std::string problem() const {
    if (const std::string wrong = wrong_list(); !wrong.empty()) return wrong;
    return played(graph_build::unit_times(schedule_.ranks, schedule_.chunks)) ? "" : "stands still";
  }

  /// When the last pass ends. REQUIRES: no problem.
  [[nodiscard]] std::int64_t makespan_ns(const graph_build::SplitTimeTable& times) const {
    return played(times).value();
  }

 private:
  enum Letter : std::uint8_t { kF, kB, kW };  // kB: dX

  /// Stages of a V written out: 0 to p - 1 on the way there, p to 2p - 1 on the way back.
  [[nodiscard]] std::int32_t stage(std::int32_t rank, std::int32_t chunk) const {
    const std::int32_t p = schedule_.ranks;
    if (schedule_.placement == graph_build::StagePlacement::looped) return chunk * p + rank;
    return chunk == 0 ? rank : 2 * p - 1 - rank;
  }
  [[nodiscard]] std::int32_t rank_with(std::int32_t s) const {
    for (std::int32_t rank = 0; rank < schedule_.ranks; ++rank) {
      for (std::int32_t chunk = 0; chunk < schedule_.chunks; ++chunk) {
        if (stage(rank, chunk) == s) return rank;
      }
    }
    return -1;
  }
  static std::vector<Letter> letters(graph_build::PassKind kind) {
    switch (kind) {
      case graph_build::PassKind::forward:
        return {kF};
      case graph_build::PassKind::input_grad:
        return {kB};
      case graph_build::PassKind::weight_grad:
        return {kW};
      case graph_build::PassKind::backward:
        return {kB, kW};
    }
    return {};
  }
  /// Of (letter, stage or chunk, micro-batch) in a flat table.
  [[nodiscard]] std::size_t cell(Letter letter, std::int32_t s, std::int32_t n) const {
    const std::int32_t stages = schedule_.ranks * schedule_.chunks;
    return static_cast<std::size_t>((letter * stages + s) * schedule_.micro_batches + n);
  }
  [[nodiscard]] std::size_t cells() const { return cell(kW, schedule_.ranks * schedule_.chunks, 0); }

  [[nodiscard]] std::string wrong_list() const {
    if (schedule_.passes.size() != static_cast<std::size_t>(schedule_.ranks)) return "a list per rank";
    std::vector<int> count(cells(), 0);
    for (std::int32_t rank = 0; rank < schedule_.ranks; ++rank) {
      for (const auto& pass : schedule_.passes[static_cast<std::size_t>(rank)]) {
        if (pass.chunk < 0 || pass.chunk >= schedule_.chunks) return "a chunk that is not there";
        if (pass.micro_batch < 0 || pass.micro_batch >= schedule_.micro_batches) return "a micro-batch too many";
        for (const Letter letter : letters(pass.kind)) ++count[cell(letter, stage(rank, pass.chunk), pass.micro_batch)];
      }
    }
    for (std::size_t i = 0; i < count.size(); ++i) {
      if (count[i] != 1) return fmt::format("pass {} runs {} times", i, count[i]);
    }
    return "";
  }

  static constexpr std::int64_t kNotRun = -1;

  /// The latest of what a pass waits for on any rank; nothing while one of them has not run.
  [[nodiscard]] std::optional<std::int64_t> ready(const std::vector<std::int64_t>& ends, std::int32_t rank,
                                                  const graph_build::SplitPass& pass, std::int64_t hop) const {
    const std::int32_t s = stage(rank, pass.chunk), last = schedule_.ranks * schedule_.chunks - 1;
    std::vector<std::pair<Letter, std::int32_t>> inputs;
    const Letter letter = letters(pass.kind).front();
    if (letter == kF && s > 0) inputs.emplace_back(kF, s - 1);
    if (letter == kB) inputs.emplace_back(kF, s);
    if (letter == kB && s < last) inputs.emplace_back(kB, s + 1);
    if (letter == kW) inputs.emplace_back(kB, s);
    std::int64_t at = 0;
    for (const auto& [input, from] : inputs) {
      const std::int64_t end = ends[cell(input, from, pass.micro_batch)];
      if (end == kNotRun) return std::nullopt;
      at = std::max(at, rank_with(from) == rank ? end : end + hop);
    }
    return at;
  }

  /// When the last pass ends; nothing where the order stands still.
  [[nodiscard]] std::optional<std::int64_t> played(const graph_build::SplitTimeTable& times) const {
    std::vector<std::int64_t> ends(cells(), kNotRun);
    std::vector<std::size_t> next(schedule_.passes.size(), 0);
    std::vector<std::int64_t> clock(schedule_.passes.size(), 0);
    std::size_t left = 0;
    for (const auto& passes : schedule_.passes) left += passes.size();
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < next.size(); ++r) {
        for (; next[r] < schedule_.passes[r].size(); ++next[r], --left, moved = true) {
          const auto& pass = schedule_.passes[r][next[r]];
          const auto at = ready(ends, static_cast<std::int32_t>(r), pass, times.hop_ns);
          if (!at) break;
          clock[r] = std::max(clock[r], *at);
          const auto& t = times.chunks[r][static_cast<std::size_t>(pass.chunk)];
          for (const Letter letter : letters(pass.kind)) {
            clock[r] += letter == kF ? t.forward_ns : letter == kB ? t.input_grad_ns : t.weight_grad_ns;
          }
          const std::int32_t s = stage(static_cast<std::int32_t>(r), pass.chunk);
          for (const Letter letter : letters(pass.kind)) ends[cell(letter, s, pass.micro_batch)] = clock[r];
        }
      }
    }
    if (left > 0) return std::nullopt;
    return *std::max_element(clock.begin(), clock.end());
  }

  const graph_build::SplitSchedule& schedule_;
};

}  // namespace tidemark::testing
