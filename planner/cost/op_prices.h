#pragma once
// Nanoseconds of a graph's ops on a machine: the only place where a Machine's rates meet an op's FLOPs, bytes, link
// traffic and launches. Modelled.
//
// The device runs ops while the host issues those behind them, so that a block (a layer, the head) takes as long as the
// slower of the two needs for its forward and backward, as a measured row's stage does (planner/step_time). An op is
// priced at its device time and its launches, each times what the block's time grows by with a second of either: the
// derivatives of the rounded maximum, times what they belong to, add up to it. So a job that waits for the host pays
// for launches and nothing for shorter kernels, and another the reverse.
//
// Of the compute lane the device's time is that lane's alone: what runs beside it hides no launches. Communication
// hides behind the host where the host takes longer than kernels and communication together.
//
// Approximations: with the load, and by chunks, a block's time changes in proportion to its rows, but for what is the
// same however few they are. A price per op, not a lane of launches in the simulation: decisions need prices.

#include <cstdint>
#include <vector>

#include "core/graph.h"
#include "core/machine.h"

namespace tidemark::cost {

/// Holds references to both. Threads: any.
class OpPrices {
 public:
  OpPrices(const Graph& graph, const Machine& machine);

  /// Of one op on its lane at expert load `load`; of collectives hops are part of it. `given` costs are taken as they
  /// are, a quantum for a nanosecond. Receives take no lane time.
  [[nodiscard]] std::int64_t ns(OpTemplateId op, double load) const;
  /// Of one of so many chunks of its rows, unrounded: what is launched, or has latency, takes that in each.
  [[nodiscard]] double chunk_ns(OpTemplateId op, double load, std::int32_t chunks) const;
  /// Whether ns() depends on the load.
  [[nodiscard]] bool varies(OpTemplateId op) const;

 private:
  /// Seconds of a lane in one forward and backward of a block, at load 1.
  struct DeviceTime {
    double kept_s = 0;    ///< however few rows there are
    double even_s = 0;    ///< in proportion to the rows
    double routed_s = 0;  ///< and to the load
    [[nodiscard]] double at(double load, std::int32_t chunks) const {
      return kept_s + (even_s + load * routed_s) / chunks;
    }
    DeviceTime& operator+=(const DeviceTime& other) {
      kept_s += other.kept_s;
      even_s += other.even_s;
      routed_s += other.routed_s;
      return *this;
    }
  };
  struct BlockTime {
    DeviceTime compute, all;  ///< of the compute lane, and with communication
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
  std::vector<std::int32_t> block_of_;  ///< per op template; -1: none that launches anything
};

/// Times of ops one after another: almost every site has the load of the one before it, so the last time of each
/// template is kept. Holds references to both. One thread.
class OpTimes {
 public:
  /// `time_scale` multiplies compute-lane times (1: as modelled).
  OpTimes(const Graph& graph, const Machine& machine, double time_scale);
  /// At the load of the site; kNone: 1.
  [[nodiscard]] std::int64_t ns(OpTemplateId op, SiteId site);

 private:
  struct Known {
    double load = -1;
    std::int64_t ns = 0;
  };
  const Graph& graph_;
  OpPrices prices_;
  double time_scale_;
  std::vector<Known> known_;  ///< per op template
};

/// Per op of the graph; `time_scale` multiplies compute-lane times (1: as modelled).
[[nodiscard]] std::vector<std::int64_t> op_durations(const Graph& graph, const Machine& machine,
                                                     double time_scale = 1.0);

}  // namespace tidemark::cost
