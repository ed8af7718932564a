// One micro-batch on its way through forward and backward: what of it is in device memory, in host memory, or to be
// rebuilt. Lives as long as autograd's graph of the micro-batch, whose saved tensors refer to it.
//
// Correct whatever the plan says: a storage that cannot be rebuilt is given up only when nothing can ask for it any
// more.
//
// Thread rule: any thread, with or without Python's lock: autograd may run the nodes of one graph in several. One lock
// over all of it, which is never waited for with Python's. Destroyed with Python's.

#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "integrations/pytorch/csrc/geometry.h"
#include "integrations/pytorch/csrc/planned_batch.h"
#include "integrations/pytorch/csrc/recorded_call.h"

namespace tidemark_torch {

/// What a session did, since it began.
struct Counters {
  std::int64_t recomputed = 0;
  std::int64_t swapped = 0;
  std::int64_t off_plan = 0;  // rebuilt or kept where the plan says otherwise
  std::int64_t micro_batches = 0;
};

class StepState {
 public:
  /// `host` is a HostMemory of the Python package. Whoever lets go of it last, it is destroyed with Python's lock.
  [[nodiscard]] static std::shared_ptr<StepState> make(std::shared_ptr<const PlannedBatch> batch, pybind11::object host,
                                                       std::shared_ptr<Counters> counters);

  // Forward

  [[nodiscard]] int storage_of(const at::Tensor& tensor) const;

  /// A kernel is about to change `tensor` in place. Where the plan does not know, what would be rebuilt from the old
  /// bytes is rebuilt now and stays.
  void before_change(const at::Tensor& tensor, bool planned);

  /// Before a call of an operation that will run again is made.
  void record_call(const PlannedCall& planned, const c10::OperatorHandle& op, const KernelTraits& traits,
                   const torch::jit::Stack& stack);

  /// A storage that `planned` made.
  void take_output(const PlannedCall& planned, int storage, const at::Tensor& tensor);

  void count_save(const PlannedSave& planned);

  // Progress

  /// Carries out every instruction that is due before `place`.
  void advance_to(int place);

  /// A saved tensor that backward asks for.
  [[nodiscard]] at::Tensor unpack(const PlannedSave& planned, const Geometry& geometry, const VersionSeen& version);

 private:
  struct Storage {
    c10::Storage there;        // in device memory, or nothing
    bool is_original = false;  // what is there, forward made: others may have it too
    int rebuild = kNone;       // operation that can make it again
    int outstanding = 0;       // saved tensors not asked for yet
    bool spared = false;       // can no longer be rebuilt
  };
  class Locked;

  StepState(std::shared_ptr<const PlannedBatch> batch, pybind11::object host, std::shared_ptr<Counters> counters);

  static std::size_t at(int number) { return static_cast<std::size_t>(number); }
  [[nodiscard]] bool is_there(int storage) const { return storages_[at(storage)].there; }
  [[nodiscard]] bool can_be_rebuilt(int storage) const;
  void take(int storage, const c10::Storage& there, bool is_original);
  void forget(int storage);
  [[nodiscard]] c10::Storage get(int storage);
  void rebuild(int operation, const std::vector<int>& wanted);
  void check_sources(const std::vector<RecordedCall>& calls) const;
  void drop(const Instruction& instruction);
  void leave(int storage, bool last);
  void wait_for_copy_out(int storage);
  void copy_out(int storage);
  void begin_copy_in(int storage);
  void from_host(int storage);
  void forget_copies(int storage);

  mutable std::recursive_mutex mutex_;
  std::shared_ptr<const PlannedBatch> batch_;
  pybind11::object host_;
  std::shared_ptr<Counters> counters_;
  std::vector<Storage> storages_;
  std::vector<std::optional<std::vector<RecordedCall>>> recorded_;
  std::vector<int> shared_;  // saved tensors not asked for yet, by node and storage
  std::unordered_map<const void*, int> by_address_;
  std::unordered_map<int, pybind11::object> in_host_;  // copies, on their way or there
  std::unordered_map<int, pybind11::object> coming_;   // on their way back
  std::size_t next_ = 0;                               // instruction
};

/// tidemark_torch_set_phase() of the CPU allocator, or nothing: what is rebuilt or fetched counts to forward, where it
/// was made.
using SetPhase = std::int32_t (*)(std::int32_t);
void count_phases(SetPhase set_phase);

/// As autograd does for what it saves without hooks. Throws std::runtime_error.
void check_unchanged(at::IntArrayRef sizes, const VersionSeen& version);

}  // namespace tidemark_torch
