#pragma once
// One step that a framework runs and a session follows: what of its managed storages is on the device, in host memory,
// or to be recomputed, and what the Program has due between the ops that the framework tells.
//
// Correct whatever the framework does. An op that comes when its time is past, an op that is left out, content that is
// changed or asked for when the plan does not know of it: what cannot come back is not given up, and what is asked for
// is restored then and there. Departing costs memory and time, never content.
//
// A block that the Program knows nothing of may be adopted, so that what departs can be spilled as well: it has no
// residencies and is not recomputed, and goes once nothing may ask for it any more.
//
// Parts (micro-batches) go through the step each in their own order. What is due for a part waits until that part has
// come as far as planned, so a loop that runs them in another order departs for no part.
//
// Threads: none, as its session. Cost: an op O(1) and what is due before it.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "swap/followed_copies.h"
#include "swap/followed_program.h"
#include "swap/framework_streams.h"

namespace tidemark::swap {

/// Device memory of the framework's, behind a handle that is the framework's too.
struct FrameworkBlock {
  void* handle = nullptr;  ///< nullptr: none
  Address address = 0;
  Bytes bytes = 0;  ///< of content from there on: other than planned where shapes are
};

/// An op that is to be recomputed.
struct Rebuild {
  std::int64_t step = 0;  ///< which of the session's, counted from 1
  OpId op = kNone<OpId>;
  struct Source {
    StorageId storage = kNone<StorageId>;
    FrameworkBlock block;
  };
  std::span<const Source> sources;    ///< managed storages it reads; the framework has the others
  std::span<const StorageId> wanted;  ///< managed storages it writes that are to be kept ...
  std::span<FrameworkBlock> made;     ///< ... and where they are now: to be filled
  FrameworkStream stream;
  bool is_last = false;  ///< once this has succeeded the op is not recomputed again in its step
};

/// What a framework does for a session, on the thread and within the call that makes it necessary. None of it may call
/// the session, but for Session::make_room() in rebuild and take_block, and every block that is handed over is released
/// once.
struct FrameworkCalls {
  /// Runs the op again, on its stream. Error: it cannot; the session says so to who asked, and releases what was made.
  std::function<Status(const Rebuild&)> rebuild;
  /// A block of so many bytes for work of the stream, that many of which will be content. A handle of nullptr: out of
  /// memory.
  std::function<FrameworkBlock(StorageId, Bytes, FrameworkStream)> take_block;
  /// The session needs the block no more; work of the stream given so far may still use it.
  std::function<void(FrameworkBlock, FrameworkStream)> release;
  /// Whether nothing but the session holds the block, so that to release it frees its bytes. Not given: never.
  std::function<bool(void* handle)> is_idle;
};

/// Where in backward something saved is asked for: by the op, which with those up to `until` holds it while they run.
/// kNone: it is not known, or not of the plan.
struct SavedUse {
  OpId op = kNone<OpId>;
  OpId until = kNone<OpId>;
};

/// What a session did, since it began.
struct SessionCounts {
  std::int64_t steps = 0;
  std::int64_t rebuilt = 0;        ///< recomputed ops
  std::int64_t departures = 0;     ///< kept, restored or recomputed where the plan says otherwise
  std::int64_t kept_for_host = 0;  ///< of these: not swapped for want of pinned memory
  std::int64_t spilled = 0;        ///< storages that gave their device memory up for others, to host memory
  Bytes spilled_bytes = 0;
  std::int64_t dropped = 0;  ///< the same without a copy: there is one, or it is recomputed
  Bytes dropped_bytes = 0;
};

class SessionRecorder;

/// What the steps of a session have in common.
struct FollowedParts {
  explicit FollowedParts(Device& device);
  ~FollowedParts();
  FollowedProgram program;
  std::unique_ptr<SessionRecorder> recorder;  ///< nullptr: no log
  FrameworkCalls calls;
  std::function<void(std::int32_t time)> reached;  ///< see SessionOptions
  FrameworkStreams streams;
  std::unique_ptr<FollowedCopies> copies;  ///< nullptr: the Program has none
  SessionCounts counts;
};

class FollowedStep {
 public:
  /// `number`: for Rebuild::step.
  FollowedStep(std::shared_ptr<FollowedParts> parts, std::int64_t number);
  ~FollowedStep();
  FollowedStep(const FollowedStep&) = delete;
  FollowedStep& operator=(const FollowedStep&) = delete;

  /// The framework names the stream: before every call below with one.
  [[nodiscard]] Status enter(FrameworkStream stream);
  /// Before the framework issues an op: carries out what is due.
  [[nodiscard]] Status tell(OpId op, FrameworkStream stream);
  /// A managed storage holds content that an op has just made; the block is the step's from now on.
  void take(std::int32_t storage, FrameworkBlock block, FrameworkStream stream);
  /// Content that the Program does not know is in the block, which is the step's from now on: the storage's number,
  /// behind the managed ones. REQUIRES: find() of its handle answers -1.
  [[nodiscard]] std::int32_t adopt(FrameworkBlock block);
  /// What the op makes cannot be made again: what it reads may be gone, or it does something else the next time.
  void keep(OpId op);
  /// One more, or one fewer, may ask for the storage, at that op. Added to -1: of what the framework keeps itself.
  void add_saved(std::int32_t storage, OpId use);
  void drop_saved(std::int32_t storage, OpId use);
  /// Behind drop_saved(): where that was all that a storage past its end was there for, it is released.
  void release_unneeded(std::int32_t storage, FrameworkStream stream);
  /// What is behind the handle is about to be changed. `planned`: by an op of the step, at its time.
  [[nodiscard]] Status change(void* handle, bool planned, FrameworkStream stream);
  /// The content, on the device and in order for what the stream is given from now on. The block stays the step's.
  [[nodiscard]] Result<FrameworkBlock> use(std::int32_t storage, FrameworkStream stream);
  /// Behind use() and drop_saved(): whether nothing but who asked now touches the storage before the plan gives it up,
  /// or ever. If so it is given up: true, and the block is the caller's, who releases it.
  [[nodiscard]] bool hand_over(std::int32_t storage, SavedUse use, FrameworkStream stream);
  /// A storage that could give its device memory up. The framework may hold it too: FrameworkCalls::is_idle.
  struct Spillable {
    std::int32_t storage = -1;
    std::int64_t next_use = 0;  ///< time in this step; kNever: none that the plan knows
    std::int64_t rank = 0;      ///< of one next use the largest is to leave first
    Bytes bytes = 0;
    void* handle = nullptr;
  };
  static constexpr std::int64_t kNever = INT64_MAX;
  /// Ascending by number. O(blocks that are there), whatever was adopted before.
  void list_spillable(std::vector<Spillable>& out) const;
  /// The storage gives its device memory up: what it holds is in host memory, or can be recomputed. false: there is
  /// neither, and it is where it was.
  [[nodiscard]] Result<bool> spill(std::int32_t storage, FrameworkStream stream);
  /// The framework issues no more ops of this step: once nothing may be asked for, all is released.
  void end(FrameworkStream stream);
  /// The managed or adopted storage whose content is there behind the handle, or -1. Of several the latest.
  [[nodiscard]] std::int32_t find(void* handle) const;

  /// A storage of the Program, or what the next block is called that is adopted: numbers of StorageId go on behind
  /// those of the Program.
  [[nodiscard]] StorageId name_of(std::int32_t storage) const;
  [[nodiscard]] std::int32_t next_adopted() const { return static_cast<std::int32_t>(storages_.size()); }
  /// Of a managed storage, or of an adopted one whose content there is; else -1.
  [[nodiscard]] std::int32_t number_of(StorageId name) const;

  /// Of the session; nullptr: no log.
  [[nodiscard]] SessionRecorder* recorder() const { return parts_->recorder.get(); }
  [[nodiscard]] bool is_there(std::int32_t storage) const { return there(storage).block.handle != nullptr; }

 private:
  struct Stored {
    FrameworkBlock block;               ///< on the device
    std::int32_t beneath = -1;          ///< another storage in the block, which was placed before
    std::optional<EventHandle> coming;  ///< ... behind this, which is not settled yet
    std::optional<HostCopy> host;
    bool leaving = false;          ///< the block goes once its copy out is settled; so while that is not
    bool was_taken = false;        ///< in this step
    bool is_spared = false;        ///< can no longer be recomputed
    bool is_over = false;          ///< past its last residency: nothing planned needs it
    bool is_late = false;          ///< past it, and needed yet; adopted: from the beginning
    std::int32_t pins = 0;         ///< of rebuilds that are about to read it: it may not be spilled
    std::vector<OpId> saved;       ///< ops, or kNone, at which it may be asked for: one each time
    std::int64_t behind = kNever;  ///< adopted: when backward asks for what was saved before it
  };
  static std::size_t at(std::int32_t number) { return static_cast<std::size_t>(number); }
  [[nodiscard]] const Stored& there(std::int32_t storage) const { return storages_[at(storage)]; }
  [[nodiscard]] bool is_adopted(std::int32_t storage) const { return at(storage) >= program_.storages.size(); }
  // Of what is adopted the Program knows nothing.
  [[nodiscard]] OpId made_by(std::int32_t storage) const {
    return is_adopted(storage) ? kNone<OpId> : program_.storages[at(storage)].made_by;
  }
  [[nodiscard]] std::span<const FollowedResidency> residencies_of(std::int32_t storage) const;
  [[nodiscard]] std::span<const std::int32_t> recompute_times_of(std::int32_t storage) const;
  [[nodiscard]] std::span<const std::int32_t> consumers_of(std::int32_t storage) const;
  [[nodiscard]] bool is_needed(const Stored& one, std::int32_t storage) const {
    return !one.saved.empty() || is_owed(storage);
  }
  [[nodiscard]] bool can_be_rebuilt(std::int32_t storage) const;
  /// The same, by what its framework has recorded: not behind the last planned time.
  [[nodiscard]] bool can_be_rebuilt_again(std::int32_t storage) const;
  /// `now`: the latest time that any part has reached.
  [[nodiscard]] std::int64_t next_use(std::int32_t storage, std::int32_t now) const;
  /// Whether something that may be asked for, and is not there, is recomputed from the storage, or a part has yet to
  /// come to a recompute that reads it. As planned that is so for none behind its last residency.
  [[nodiscard]] bool is_owed(std::int32_t storage) const;
  /// Per storage, whether it may be asked for, or something that is recomputed from it.
  [[nodiscard]] std::vector<bool> find_needed() const;

  [[nodiscard]] Status change(std::int32_t storage, bool planned, FrameworkStream stream);
  [[nodiscard]] Status carry_out(const FollowedAction& action, FrameworkStream stream);
  /// `is_last`: see Rebuild.
  [[nodiscard]] Status rebuild(OpId op, std::span<const std::int32_t> wanted, bool is_last, FrameworkStream stream);
  void end_residency(std::int32_t storage, bool last, FrameworkStream stream);
  [[nodiscard]] Status copy_out(const FollowedAction& action, FrameworkStream stream);
  /// Host memory for the block: where the Program has it if the block is no larger, else beside the arenas.
  [[nodiscard]] HostPiece host_place(const FollowedAction& action) const;
  [[nodiscard]] Status settle_out(std::int32_t storage, FrameworkStream stream);
  /// `last`: the copy in host memory serves no more.
  [[nodiscard]] Status copy_in(std::int32_t storage, bool last, FrameworkStream stream);
  [[nodiscard]] Status settle_in(std::int32_t storage, FrameworkStream stream);
  void place(std::int32_t storage, FrameworkBlock block);
  [[nodiscard]] FrameworkBlock take_from_place(std::int32_t storage);
  [[nodiscard]] FrameworkBlock detach(std::int32_t storage, FrameworkStream stream);
  void release(std::int32_t storage, FrameworkStream stream);
  void forget_copy(std::int32_t storage);
  [[nodiscard]] Status check(DeviceCode code, std::int32_t storage, const char* what) const;

  const std::shared_ptr<FollowedParts> parts_;
  const std::int64_t number_;
  const FollowedProgram& program_;
  FollowedCopies* const copies_;
  const FrameworkCalls& calls_;
  SessionCounts& counts_;
  std::vector<Stored> storages_;                        ///< managed ones, then adopted ones
  std::vector<bool> told_;                              ///< per op
  std::vector<bool> kept_;                              ///< per op: see keep()
  std::vector<bool> ran_last_;                          ///< per op: past its last planned recompute
  std::vector<std::int32_t> reached_;                   ///< per part: time of the op told last
  std::vector<std::deque<std::int32_t>> deferred_;      ///< per part: actions that wait for it
  std::unordered_map<void*, std::int32_t> storage_of_;  ///< blocks that are there; `beneath` has the others
  std::size_t next_ = 0;                                ///< action
  std::int64_t saved_ = 0;                              ///< of all storages
  std::int64_t last_saved_for_ = kNever;                ///< time of the op that asks for what was saved last
};

}  // namespace tidemark::swap
