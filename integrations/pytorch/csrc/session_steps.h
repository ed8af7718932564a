#pragma once
// The steps of a loop, told to a session of the C interface: hooks become its calls, and what it asks for is done by
// PyTorch. It decides nothing. Blocks are storages: a handle is a StorageImpl that the session holds a reference to.
//
// Thread rule: any thread, with or without Python's lock: autograd may run the nodes of one graph in several. One lock
// over all of it, session_lock.h. Destroyed by any thread: what is Python's is released with its lock.
//
// In a forked child they go on, unless another thread was in a call when it was forked: then they are lost there, and
// what was saved with them cannot be had.

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <pybind11/pybind11.h>
#include <tidemark/tidemark.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "integrations/pytorch/csrc/geometry.h"
#include "integrations/pytorch/csrc/make_room.h"
#include "integrations/pytorch/csrc/planned_loop.h"
#include "integrations/pytorch/csrc/recorded_call.h"
#include "integrations/pytorch/csrc/session_lock.h"

namespace tidemark_torch {

/// The calls of a step that may be recomputed, by operation.
using StepRecords = std::map<int, std::vector<RecordedCall>>;

class SessionSteps;

/// Operation, storage, bytes, least bytes, offset, whether it is remade, whether it is within: a tidemark_request.
using RequestRow = std::tuple<int, int, std::int64_t, std::int64_t, std::int64_t, bool, bool>;

/// What autograd keeps in the place of a tensor of a managed or adopted storage, or beside one that it keeps. Moves
/// only.
class SavedHandle {
 public:
  SavedHandle() = default;
  SavedHandle(std::shared_ptr<SessionSteps> steps, std::shared_ptr<StepRecords> records, tidemark_saved* saved,
              bool is_planned)
      : steps_(std::move(steps)), records_(std::move(records)), saved_(saved), is_planned_(is_planned) {}
  SavedHandle(SavedHandle&& other) noexcept
      : steps_(std::move(other.steps_)),
        records_(std::move(other.records_)),
        saved_(std::exchange(other.saved_, {})),
        is_planned_(other.is_planned_),
        handed_over_(std::move(other.handed_over_)) {}
  SavedHandle& operator=(SavedHandle&& other) noexcept {
    std::swap(steps_, other.steps_);
    std::swap(records_, other.records_);
    std::swap(saved_, other.saved_);
    std::swap(is_planned_, other.is_planned_);
    std::swap(handed_over_, other.handed_over_);
    return *this;
  }
  ~SavedHandle();

  explicit operator bool() const { return saved_ != nullptr; }
  /// Tells how far backward is, and gives the storage where the session looks after it. One that was saved unplanned
  /// and handed over is there until the handle goes, as it may be that nothing makes it again: an autograd function may
  /// look at what it saved any number of times. What is planned is not held: compiled code releases it while it runs.
  [[nodiscard]] c10::Storage use(bool again) const;

 private:
  std::shared_ptr<SessionSteps> steps_;
  std::shared_ptr<StepRecords> records_;  // lives as long as something may be rebuilt from it
  tidemark_saved* saved_ = nullptr;
  bool is_planned_ = false;  // when it is asked for
  mutable c10::Storage handed_over_;
};

class SessionSteps : public std::enable_shared_from_this<SessionSteps> {
 public:
  /// `plan_file`: the text of plan.json. `device`: of PyTorch. `part_of_op`: as in tidemark_session_options.
  /// `copy_bytes_per_s`: on a CPU copies are no quicker; 0: as memory is.
  /// `raw_stream(device index)` is the vendor's handle of the current stream; None on a CPU. `record`: path of a file
  /// for the session's log; empty: none. Throws Error.
  /// `allocator`: that which serves the device, or nullptr; `requests`: what is asked of it. `may_spill`: as in
  /// tidemark_session_options. `submit_queued`: as in tidemark_device_options, of a framework that queues its launches,
  /// or nullptr.
  SessionSteps(const std::string& plan_file, c10::Device device, const std::vector<int>& part_of_op,
               std::int64_t host_bytes, std::int64_t copy_bytes_per_s, pybind11::object raw_stream,
               const std::string& record, tidemark_allocator* allocator, const std::vector<RequestRow>& requests,
               const std::vector<int>& may_spill, tidemark_submit_queued submit_queued);
  ~SessionSteps();
  SessionSteps(const SessionSteps&) = delete;
  SessionSteps& operator=(const SessionSteps&) = delete;

  /// Then only calls from Python may come, which do nothing, and what was saved.
  [[nodiscard]] bool is_lost() const { return forks_ != forks_in_calls(); }
  [[nodiscard]] bool is_managed(int storage) const { return tidemark_session_is_managed(session_, storage) != 0; }
  [[nodiscard]] bool is_rebuilt(int op) const { return tidemark_session_is_rebuilt(session_, op) != 0; }

  void begin_step();
  void end_step();
  /// Ends the step, and gives back all that is not kept for what was saved, which can still be asked for. Calls that
  /// other threads make meanwhile do nothing; report() answers as at the end.
  void close();
  void tell(int op);
  /// What is asked of the allocator from now on: TIDEMARK_REQUESTS_*.
  void expect_requests(std::int32_t requests);
  /// Before a call of an operation that will be recomputed is made.
  void record_call(const PlannedCall& planned, const c10::OperatorHandle& op, const KernelTraits& traits,
                   const torch::jit::Stack& stack);
  void take_output(const PlannedCall& planned, int storage, const at::Tensor& tensor);
  [[nodiscard]] int storage_of(const at::Tensor& tensor) const;
  [[nodiscard]] SavedHandle save(const PlannedSave& planned);
  /// Whether what autograd saves may go to host memory: then the session is to have all of it.
  [[nodiscard]] bool spills() const { return spills_; }
  /// Of a tensor that the plan has nothing of: its storage is managed, or adopted where the session spills. Nothing: it
  /// is for autograd to keep.
  [[nodiscard]] SavedHandle save_unplanned(const at::Tensor& tensor);
  /// A kernel is about to change `tensor` in place.
  void change(const at::Tensor& tensor, bool planned);
  /// The allocator of the device is at its end. Whether storages have given something up.
  [[nodiscard]] bool make_room(std::int64_t bytes);
  /// Number of the accelerator, or kCpu.
  [[nodiscard]] std::int32_t ordinal() const { return device_.is_cpu() ? kCpu : device_.index(); }
  [[nodiscard]] tidemark_session_report report() const;

 private:
  friend class SavedHandle;

  /// Whether the session can have its storage: of another device, as meta, there is nothing to copy.
  [[nodiscard]] bool is_lendable(const at::Tensor& tensor) const;
  /// Whether spilling it would make room for others.
  [[nodiscard]] bool is_worth_adopting(const c10::Storage& storage) const;
  [[nodiscard]] int adopt(const c10::Storage& storage);
  [[nodiscard]] bool is_idle(c10::StorageImpl* storage) const;
  void forget_adopted(const void* handle);
  /// What the op made in this step is not recomputed. With the lock.
  void keep(int op);
  /// `is_handed_over`: the storage is the caller's from now on.
  [[nodiscard]] c10::Storage use(tidemark_saved* saved, bool again, bool& is_handed_over);
  void free(tidemark_saved* saved);
  /// Throws what a callback threw, or what the session says.
  void check(tidemark_status status, tidemark_error*& error);
  [[nodiscard]] tidemark_stream stream();

  [[nodiscard]] tidemark_status rebuild(const tidemark_rebuild& asked);
  [[nodiscard]] tidemark_block take_block(std::int64_t bytes);
  void release(tidemark_block block);
  /// The last of several streams that work was given may use the storage yet.
  void note_stream(const c10::Storage& storage) const;
  void check_sources(const std::vector<RecordedCall>& calls, const tidemark_rebuild& asked) const;

  struct CloseDevice {
    void operator()(tidemark_device* device) const { tidemark_device_close(device); }
  };

  const int forks_ = forks_in_calls();
  const c10::Device device_;
  const bool spills_;
  pybind11::object raw_stream_;
  std::optional<c10::Stream> stream_;  // the one named last
  tidemark_stream vendors_stream_{};   // the same as the vendor has it
  bool has_streams_ = false;           // several were named
  std::unique_ptr<tidemark_device, CloseDevice> opened_;
  tidemark_session* session_ = nullptr;    // nullptr: closed
  tidemark_session_report last_report_{};  // of a closed one
  std::int64_t step_ = 0;
  std::int32_t expected_ = TIDEMARK_REQUESTS_PLANNED;
  std::shared_ptr<StepRecords> records_;                          // of the step that runs
  std::map<std::int64_t, std::weak_ptr<StepRecords>> in_flight_;  // by step
  std::int64_t changes_ = 0;                                      // in place, that the session heard of
  std::unordered_map<const void*, std::int64_t> last_change_;     // by storage, while steps are in flight
  struct Adopted {
    tidemark_block block{};  // as it was
    int times = 0;           // by steps in flight
  };
  std::unordered_map<const void*, Adopted> adopted_;  // by storage
  std::exception_ptr thrown_;                         // in a callback
};

/// Of whom make_room() is asked from now on; nullptr: none.
void serve_room(const std::shared_ptr<SessionSteps>& steps);
/// Asks them: a MakeRoom (make_room.h).
[[nodiscard]] std::int32_t make_room_of_session(std::int64_t bytes, std::int32_t device);

/// As autograd does for what it saves without hooks. Throws std::runtime_error.
void check_unchanged(at::IntArrayRef sizes, const VersionSeen& version);

/// tidemark_torch_set_phase() of the CPU allocator, or nothing: what is rebuilt or fetched counts to forward, where it
/// was made.
using SetPhase = std::int32_t (*)(std::int32_t);
void count_phases(SetPhase set_phase);

}  // namespace tidemark_torch
