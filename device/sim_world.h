#pragma once
// The virtual time that simulated devices share.
//
// What. One clock, any number of SimDevices (one per pipeline rank), and the messages between them. Submitting work
// costs no virtual time; it is queued per stream. Time advances when a host thread synchronises (or run() is called),
// from one end of work to the next, in time order: a discrete-event simulation.
//
// Hosts. Without attached hosts (the usual case: one thread drives everything) whoever synchronises advances time at
// once. When every rank has its own thread, each attaches a SimHost first; time then advances only while all attached
// threads are blocked in a synchronisation, so results do not depend on how the threads are scheduled. A thread that
// polls (query_event) counts as blocked for SimOptions::poll_ns after a query that found nothing.
//
// Schedules. `seed` 0: every duration is as given, ties go to the lower stream. Otherwise durations are stretched or
// shrunk at random, some stall for long, ready streams are picked in random order and the host pauses now and then:
// any execution that stream order, events, links and messages allow can occur. Same seed and calls, same execution.
//
// Deadlock (a message that nobody sends) is an answer, never a hang: the synchronisation returns DeviceCode::invalid
// and last_error() says who waits for what; run() returns the same text.
//
// Threads: internally synchronised by one mutex. The world may be destroyed before its devices.

#include <cstdint>
#include <memory>

#include "core/result.h"

namespace tidemark {

struct SimOptions;
class SimDevice;
class SimEngine;

struct SimSchedule {
  std::uint64_t seed = 0;  ///< 0: nominal
  double shortest = 0.1;   ///< factors on every duration, drawn log-uniformly
  double longest = 4;
  double stall_probability = 0.02;
  std::int64_t stall_ns = 5'000'000;      ///< added by a stall, uniformly in [0, stall_ns]
  double host_pause_probability = 0.125;  ///< before a query or submission the host pauses for up to one end of work
};

/// A thread that drives one rank, attached for the life of this object.
class SimHost {
 public:
  explicit SimHost(std::shared_ptr<SimEngine> engine);
  ~SimHost();
  SimHost(const SimHost&) = delete;
  SimHost& operator=(const SimHost&) = delete;

 private:
  std::shared_ptr<SimEngine> engine_;
};

class SimWorld {
 public:
  explicit SimWorld(const SimSchedule& schedule = {});
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  /// A device in this world. REQUIRES: options.rank is used by no other device of this world.
  [[nodiscard]] std::unique_ptr<SimDevice> make_device(const SimOptions& options);
  /// Attach before the first thread starts to synchronise, for instance all of them before any thread is started.
  [[nodiscard]] std::unique_ptr<SimHost> attach_host();
  /// Lets everything submitted so far finish. Error (infeasible): deadlock, who waits for what.
  [[nodiscard]] Status run();
  [[nodiscard]] std::int64_t now_ns() const;

 private:
  std::shared_ptr<SimEngine> engine_;
};

}  // namespace tidemark
