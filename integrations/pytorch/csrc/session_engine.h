// What of a session happens at every kernel and every saved tensor. Python says where in the model forward is, module
// by module, and hears of departures from the plan.
//
// Thread rule: one engine in a process, made by the thread that runs forward. Of what other threads call, which PyTorch
// may have handed the modes of this one, only changes in place matter. on_call() and unpack() are for any thread, also
// while the session ends; what else there is is for Python, with its lock.

#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "integrations/pytorch/csrc/kernel_traits.h"
#include "integrations/pytorch/csrc/kernel_watch.h"
#include "integrations/pytorch/csrc/planned_loop.h"
#include "integrations/pytorch/csrc/request_recorder.h"
#include "integrations/pytorch/csrc/session_steps.h"

namespace tidemark_torch {

/// One call of a module in a micro-batch's forward.
struct Frame {
  std::string path;
  int call = 0;
  bool outside = false;  // behind the model, where the loss is made
  int calls = 0;         // kernels called so far
  int saves = 0;         // tensors saved so far
  bool departed = false;
  bool left = false;  // by leave_plan()
  const std::vector<std::optional<PlannedCall>>* planned_calls = nullptr;
  const std::vector<std::optional<PlannedSave>>* planned_saves = nullptr;
};

/// What a session did, since it began, beside what the session itself counts.
struct Counters {
  std::int64_t off_plan = 0;
  std::int64_t micro_batches = 0;
};

/// Of the forward of one micro-batch. What autograd keeps of it holds a reference.
struct BatchProgress {
  bool is_saved = false;                  // something of it is
  std::atomic<bool> is_asked_for{false};  // by backward
};

/// What autograd keeps in the place of a tensor: where to find it, or itself, without its history, as autograd's graph
/// must not hold itself. Where the plan knows it, asking for it says how far backward is.
struct Saved {
  SavedHandle handle;
  std::shared_ptr<BatchProgress> progress;
  std::int64_t micro_batch = 0;  // since the session began
  at::Tensor kept;
  Geometry geometry;       // where nothing is kept
  bool unplanned = false;  // the session has it all the same
  VersionSeen version;
};

/// What the kernels are that the watch sees.
enum class Kernels {
  forwards,    // of forward, or around it
  unfollowed,  // of a phase that the session does not follow
  make_state,  // the same, and none of the captured step's: what they make may outlive it
};

class SessionEngine final : public KernelWatch {
 public:
  /// `classify(name, overload)` is kernels.traits; `depart(frame, what)` hears of departures.
  SessionEngine(std::vector<std::shared_ptr<PlannedBatch>> batches, std::shared_ptr<SessionSteps> steps,
                pybind11::object classify, pybind11::object depart, std::shared_ptr<Counters> counters);
  ~SessionEngine() override;

  void on_call(const c10::OperatorHandle& op, torch::jit::Stack& stack) override;

  /// The session ends: what Python gave is released, as autograd's graphs hold the hooks, so the engine, for longer,
  /// and Python's collector does not see through it. What was saved can still be asked for. The session has ended also
  /// where this throws, as where its log could not be written.
  void close();

  /// A micro-batch begins.
  void begin(std::size_t batch);
  /// Whether the micro-batch begins another step.
  [[nodiscard]] bool begins_step(std::size_t batch) const { return begun_.empty() || begun_.count(batch) > 0; }
  /// Whether the last micro-batch that began, of which something was saved, has had no backward: its graph is gone, or
  /// `ends_first`, it would have come by now.
  [[nodiscard]] bool is_abandoned(bool ends_first) const;
  /// What kernels are from now on; returns what they were.
  Kernels expect(Kernels kernels) { return expected_.exchange(kernels); }
  /// Another plan of the same loop, between steps.
  void follow(std::vector<std::shared_ptr<PlannedBatch>> batches, std::shared_ptr<SessionSteps> steps);
  /// What the kernels of a step ask for is noted until end_record(), whichever phase they are of.
  void begin_record(tidemark_allocator* allocator);
  [[nodiscard]] std::vector<SeenKernel> end_record();
  /// Its forward is over.
  void end_forward() { is_open_ = false; }
  [[nodiscard]] std::shared_ptr<Frame> frame(const std::string& path, int call) const;
  void enter(std::shared_ptr<Frame> frame) { top_ = std::move(frame); }
  /// What the module that runs does from here on is not the captured step's, and it says so itself. Of what it saves
  /// the session still has what is managed, also where it does not spill.
  void leave_plan() { top_->departed = top_->left = true; }

  // Hooks of saved tensors
  [[nodiscard]] pybind11::object pack(const pybind11::object& tensor);
  [[nodiscard]] pybind11::object unpack(const pybind11::object& packed);

 private:
  const KernelTraits& traits_of(const c10::OperatorHandle& op);
  const PlannedCall* planned_call(Frame& frame, const c10::OperatorHandle& op, const KernelTraits& traits,
                                  const torch::jit::Stack& stack);
  void depart(Frame& frame, const std::string& what);
  void call(const c10::OperatorHandle& op, const KernelTraits& traits, torch::jit::Stack& stack);
  void sorted_call(const c10::OperatorHandle& op, const KernelTraits& traits, torch::jit::Stack& stack);
  void watched_call(const c10::OperatorHandle& op, torch::jit::Stack& stack);
  void before_change(const at::Tensor& changed, bool planned);
  [[nodiscard]] bool is_of_thread() const { return std::this_thread::get_id() == thread_; }
  [[nodiscard]] bool is_forward() const;
  /// Nothing where there are none, or none to be had in a forked child.
  [[nodiscard]] std::shared_ptr<SessionSteps> steps() const;
  [[nodiscard]] std::shared_ptr<RequestRecorder> recorder() const;
  void forward_call(const c10::OperatorHandle& op, const KernelTraits& traits, torch::jit::Stack& stack);
  [[nodiscard]] bool save_in_session(SessionSteps& steps, const Frame& frame, int n, const at::Tensor& tensor,
                                     Saved& saved) const;
  at::Tensor found(const Saved& saved);

  std::vector<std::shared_ptr<PlannedBatch>> batches_;
  std::shared_ptr<SessionSteps> steps_;  // under pointer_mutex(), as the two below
  std::shared_ptr<RequestRecorder> recorder_;
  std::unordered_map<const c10::OperatorName*, KernelTraits> traits_;
  pybind11::object classify_, depart_;
  std::shared_ptr<Counters> counters_;
  std::shared_ptr<PlannedBatch> batch_;
  std::shared_ptr<BatchProgress> progress_;
  std::set<std::size_t> begun_;       // micro-batches of the step
  std::atomic<bool> is_open_{false};  // its forward runs
  std::atomic<Kernels> expected_{Kernels::forwards};
  std::shared_ptr<Frame> top_;
  const std::string *copy_, *copy_to_host_;  // as kernels.name_of_call() has them
  const std::thread::id thread_ = std::this_thread::get_id();
  std::atomic<bool> closed_{false};
};

/// What Error becomes in Python. With Python's lock.
void set_python_error(const Error& error);

/// Equal texts have equal addresses.
[[nodiscard]] const std::string* intern(const std::string& text);

}  // namespace tidemark_torch
