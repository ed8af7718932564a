#pragma once
// A Program *followed*: a framework issues kernels and allocations and tells the session what it is about to do; the
// session owns copies and recomputes. What drives a Program by itself is the Executor (swap/executor.h).
//
//   session->begin_step();
//   for each op that is told:   session->tell(op, stream);      the session carries out what is due before it
//                               ... the framework runs it ...
//                               session->take(storage, block);  of what it made and the session looks after
//                               ... session->adopt(block);      of what no op of the plan made, to save it
//   where autograd would keep a tensor:      saved = session->save(storage, use);
//   where backward asks for it:              used = session->use(saved, again, stream);
//   session->end_step();
//
// Steps of which something is saved live on beside the one that runs: a backward may come late, or twice, or not at
// all. An op that comes in another order, or not, is a departure: what it concerns is kept, or restored when it is
// asked for. It is never an error.
//
// Where the framework's allocator is at its end, make_room() has storages give up device memory for others: those that
// only the session holds, the one that is needed last first. It is copied to host memory, or has been, or is
// recomputed; who asks for it later finds it, as any departure from the plan. It is the rung `spill` of a driven run
// (swap/load_ladder.h) on the same copies and host memory. What a driven run knows before a section, when a storage may
// leave and return, a session learns from a refusal: it has neither sizes beforehand nor a clock to hide copies by.
//
// Streams: a call names the one that what it speaks of runs on. They may differ: see swap/framework_streams.h.
// Threads: calls must not overlap; the thread may be another one each time, where the stream is one of the device's.
// Errors: bad_input of open(); later ones (infeasible, internal) name the storage, and leave the session as it was but
// for what was due.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/result.h"
#include "swap/followed_step.h"
#include "swap/session_log.h"

namespace tidemark::swap {

struct SessionOptions {
  FollowedLoop loop;
  /// Most pinned memory; 0: what the Program's arenas say, and a sixteenth for what lies between. With storages that
  /// may be spilled: as much as the device gives, when it is needed, since what is adopted has no bound.
  Bytes host_bytes = 0;
  /// Told of every op of the step that runs, once that begins: its time (swap/followed_program.h). May be gone sooner
  /// than what was saved.
  std::function<void(std::int32_t time)> reached;
  SessionSink log;  ///< hears of every call and what it led to, also of what was saved once the session is over
};

/// What the framework keeps in the place of a tensor. It outlives the session, whose content stays with it; given back
/// by Session::free().
struct SavedStorage {
  std::shared_ptr<FollowedStep> step;
  std::int32_t storage = -1;
  SavedUse use;
  bool is_counted = false;   ///< may yet be asked for
  std::int32_t number = -1;  ///< in the session's log
};

struct UsedStorage {
  FrameworkBlock block;
  bool is_handed_over = false;  ///< the block is the caller's from now on, else the session's
};

struct SessionReport {
  SessionCounts counts;
  CopyFigures out, in;
  CopyWaits waits;
  Bytes pinned_peak_bytes = 0;
  Bytes pinned_held_bytes = 0;
  std::int64_t steps_open = 0;
  std::int64_t copy_streams = 0;
  std::vector<allocator::PinnedReport> pinned_reports;  ///< what the device could not do as asked, each kind once
};

class Session {
 public:
  /// The device must outlive the session, and what was saved. Errors: see bind_followed(); infeasible: no stream.
  [[nodiscard]] static Result<std::unique_ptr<Session>> open(const Program& program, Device& device,
                                                             SessionOptions options, FrameworkCalls calls);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Ends the step before, if that was not done.
  void begin_step(FrameworkStream stream);
  /// REQUIRES, as all below: a step has begun; the op is one of the Program's.
  [[nodiscard]] Status tell(OpId op, FrameworkStream stream);
  void take(StorageId storage, FrameworkBlock block, FrameworkStream stream);
  /// A block of the step that runs which no op of the Program made, as take(): a number for save(), behind the
  /// Program's storages. The block is released once all that was saved of it is used or freed; if nothing was, with the
  /// step. Of a block that the step has already: the number that it has, and the reference is released.
  [[nodiscard]] StorageId adopt(FrameworkBlock block, FrameworkStream stream);
  /// What the op makes cannot be made again.
  void keep(OpId op);
  /// kNone: of what the framework keeps itself; using it only says how far backward is.
  [[nodiscard]] SavedStorage save(StorageId storage, SavedUse use);
  /// Backward asks for what was saved: the session is told of the op that it was saved for, as by tell(). `again`: it
  /// may be asked for once more, as it may where this fails.
  [[nodiscard]] static Result<UsedStorage> use(SavedStorage& saved, bool again, FrameworkStream stream);
  /// It will not be asked for. Also for what was used; it holds nothing any more.
  static void free(SavedStorage& saved);
  /// The content behind the handle is about to be changed; `planned`: by an op of the step that runs, at its time.
  [[nodiscard]] Status change(void* handle, bool planned, FrameworkStream stream);
  /// Storages that the framework does not hold give up device memory until that is `bytes`, or none is left: what was
  /// given up. Also within FrameworkCalls::rebuild and take_block; otherwise as the other calls, and it needs no step.
  [[nodiscard]] Result<Bytes> make_room(Bytes bytes, FrameworkStream stream);
  void end_step(FrameworkStream stream);

  [[nodiscard]] bool is_in_step() const { return step_ != nullptr; }
  [[nodiscard]] std::size_t op_count() const { return parts_->program.time_of.size(); }
  /// Whether the session looks after the storage, and whether it runs the op again: then the framework must be able to.
  [[nodiscard]] bool is_managed(StorageId storage) const { return number_of(storage) >= 0; }
  [[nodiscard]] bool is_rebuilt(OpId op) const { return parts_->program.is_rebuilt[row(op)]; }
  /// Whether save() may name the storage: it is managed, or an adopted one of the step that runs, and not gone.
  [[nodiscard]] bool can_be_saved(StorageId storage) const { return step_->number_of(storage) >= 0; }
  /// The managed or adopted storage of the step that runs whose content is behind the handle, or kNone.
  [[nodiscard]] StorageId find(void* handle) const;

  [[nodiscard]] SessionReport report() const;

 private:
  explicit Session(std::shared_ptr<FollowedParts> parts) : parts_(std::move(parts)) {}
  [[nodiscard]] SessionRecorder* recorder() const { return parts_->recorder.get(); }
  [[nodiscard]] Status carry_out(OpId op, FrameworkStream stream);
  void end(FrameworkStream stream);
  [[nodiscard]] static Result<UsedStorage> find_content(SavedStorage& saved, bool again, FrameworkStream stream);
  /// Whether it might have been asked for.
  [[nodiscard]] static bool drop(SavedStorage& saved);
  [[nodiscard]] Result<Bytes> spill(Bytes bytes, FrameworkStream stream);
  [[nodiscard]] Status change_content(void* handle, bool planned, FrameworkStream stream);
  [[nodiscard]] std::int32_t number_of(StorageId storage) const {
    const std::vector<std::int32_t>& numbers = parts_->program.number_of;
    return row(storage) < numbers.size() ? numbers[row(storage)] : -1;
  }

  const std::shared_ptr<FollowedParts> parts_;
  std::shared_ptr<FollowedStep> step_;
  std::vector<std::weak_ptr<FollowedStep>> open_;  ///< steps of which something is saved, this one too
};

}  // namespace tidemark::swap
