#pragma once
// Drives a Program on a Device: submits every task of one rank's step in issue order, with the waits of the Program as
// events, copies on streams of their own, and what the expert loads of the step ask for (swap/load_ladder.h). Else it
// obeys and decides nothing; a wrong estimate costs time, never correctness.
//
// Life. open() takes the memory and the streams; issue() submits one step, run after run if wished; finish() waits and
// reports. Whatever fails, the destructor waits for the device and gives everything back.
//
// Blocking. issue() blocks only where the back end does, or where it is out of events or stream slots: then the host
// waits for the oldest outstanding one (counted in the report). Devices of one SimWorld: issue all, run the world,
// finish all (swap/step_run.h).
//
// Errors. bad_input: the program cannot run at this scale or on this device; infeasible: memory refused, rows that find
// no room and cannot run in chunks (before anything is overwritten), a copy or launch failed, the device is lost. One
// line that names rank and task. After an error only destruction is meaningful.
//
// Threads: one thread at a time. Cost: O(tasks + waits) host work per step, no allocation per task.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/program.h"
#include "core/result.h"
#include "device/device.h"
#include "swap/run_report.h"

namespace tidemark::swap {

/// Loads of a site, each 0 to kMostSiteLoad; asked once a step for each site with routed storages, when the first task
/// that touches one of them is issued.
using LoadSource = std::function<SiteLoad(SiteId)>;

/// What a simulated device takes for an op or a recompute, nanoseconds: for all its rows, or for one of so many chunks.
using WorkTime = std::function<std::int64_t(TaskId, std::int32_t chunks)>;

/// What a rank says of running a section in chunks (core/row_sections.h).
struct ChunkWish {
  bool wanted = false;      ///< whole it does not fit
  std::int32_t chunks = 0;  ///< the fewest it needs, at least 2; 0: it cannot run in chunks
};

/// In how many chunks the expert group runs a section; 1: whole. `group` is the pipeline rank, `section` its place in
/// Program::section_ends; sections are asked for as they begin. May block.
///
/// The group: all ranks that take part in a collective of ops on rows, and those that take part in one with them, and
/// so on. That is the expert-parallel group of the all-to-alls; where experts are not split over tensor parallelism
/// (tensor_extends_expert: false), rows are also gathered over it, and the expert-parallel groups of all its ranks are
/// one group. All of them have the same Program.
///
/// Every rank of the group asks once for each section, in the same order, and must be given the same answer: 1 if none
/// wants chunks, else the most that any of them needs; 0 if one that has to run in chunks cannot. One without loads
/// (RunOptions::load) asks as well. An Error ends the step, whatever this rank needs: the group is lost.
using Agree = std::function<Result<std::int32_t>(std::int32_t group, std::int32_t section, ChunkWish wish)>;

/// A rank that asks no more: its step was refused, or its device failed. Called once, within the issue() or finish()
/// that fails; who cannot open() an Executor says it himself. Whoever waits for its answers must be told 0 from now
/// on, for this and every later section and step. Where the group had agreed to a section before, the collectives of
/// its chunks may already wait for this rank on the other devices: the communicators have to be aborted, as after any
/// failure in the middle of a step.
using LeaveGroup = std::function<void(std::int32_t group)>;

/// Names for messages; empty functions: ids.
struct RunNames {
  std::function<std::string(TaskId)> task;
  std::function<std::string(SiteId)> site;
};

struct RunOptions {
  /// Sizes and offsets are divided by this power of two. REQUIRES of the program: arenas aligned to 8 * scale (so that
  /// 512 allows 64); 1 runs at true size.
  std::int64_t scale = 1;
  bool verify = false;          ///< fill what is written, check what is read and what was copied in
  bool match_messages = false;  ///< needs traits().messages; otherwise receives complete at once
  LoadSource load;              ///< empty: as planned
  WorkTime work_ns;             ///< empty: as the Program estimates, a share of it for a chunk
  Agree agree;                  ///< asked with and without loads; empty: the rank decides alone
  LeaveGroup leave;             ///< told where agree is asked; empty: nobody waits
  RunNames names;
};

class Executor {
 public:
  /// Takes memory and streams. Program and device must outlive the executor.
  [[nodiscard]] static Result<std::unique_ptr<Executor>> open(const Program& program, Device& device,
                                                              RunOptions options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Submits one step. The step before must be finished.
  [[nodiscard]] Status issue();
  /// Waits for the step and says what it did.
  [[nodiscard]] Result<RunReport> finish();

 private:
  struct State;
  explicit Executor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tidemark::swap
