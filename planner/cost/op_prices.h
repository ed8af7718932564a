#pragma once
// Nanoseconds of a graph's ops on a machine: the only place where a Machine's rates meet an op's FLOPs, bytes, link
// traffic and launches. Modelled.
//
// The device runs ops while the host issues those behind them, so that a block (a layer, the head) takes as long as the
// slower of the two needs for its forward and backward, as a measured row's stage does (planner/step_time). What an op
// is priced at is what the block would take less without it: its device time and its launches, each times what the
// block's time grows by with it. Prices of a block's ops so add up to the block's time.

#include <cstdint>
#include <vector>

#include "core/graph.h"
#include "core/machine.h"

namespace tidemark::cost {

/// Holds references to both. Threads: any.
class OpPrices {
 public:
  OpPrices(const Graph& graph, const Machine& machine);

  /// Of one op on its lane at expert load `load`: what its kernels take, of collectives their hops and the transfer, or
  /// its share of what the host takes. `given` costs are taken as they are, a quantum for a nanosecond. Receives take
  /// no lane time.
  [[nodiscard]] std::int64_t ns(OpTemplateId op, double load) const;
  /// Of one of so many chunks of its rows, unrounded: what is launched, or has latency, takes that in each.
  [[nodiscard]] double chunk_ns(OpTemplateId op, double load, std::int32_t chunks) const;
  /// Whether ns() depends on the load.
  [[nodiscard]] bool varies(OpTemplateId op) const;

 private:
  /// Seconds of one forward and backward of a block, at load 1.
  struct BlockTime {
    double fixed_s = 0, routed_s = 0;  ///< of the device; what has routed rows takes in proportion to the load
    double host_s = 0;
  };
  /// What a block's time grows by with a second of either.
  struct Shares {
    double device = 1, host = 0;
  };
  [[nodiscard]] Shares shares(OpTemplateId op, double load, std::int32_t chunks) const;
  [[nodiscard]] BlockTime time_of(const Block& block) const;

  const Graph& graph_;
  const Machine& machine_;
  std::vector<BlockTime> blocks_;
  std::vector<std::int32_t> block_of_;  ///< per op template; -1: none
};

/// Per op of the graph; `time_scale` multiplies compute-lane times (1: as modelled).
[[nodiscard]] std::vector<std::int64_t> op_durations(const Graph& graph, const Machine& machine,
                                                     double time_scale = 1.0);

}  // namespace tidemark::cost
