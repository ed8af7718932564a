#include "integrations/pytorch/csrc/session_engine.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace tidemark_torch {

namespace py = pybind11;

namespace {

constexpr const char* kOutside = "<loss>";  // frames.OUTSIDE

bool in_backward() {
  return torch::autograd::get_current_graph_task_id() != -1;
}

template <class Planned>
const std::vector<std::optional<Planned>>* find(
    const std::map<PlaceInModel, std::vector<std::optional<Planned>>>& planned, const PlaceInModel& place) {
  const auto found = planned.find(place);
  return found == planned.end() ? nullptr : &found->second;
}

/// The n-th of what is planned, or nothing.
template <class Planned>
const Planned* nth(const std::vector<std::optional<Planned>>* planned, int n) {
  if (planned == nullptr || static_cast<std::size_t>(n) >= planned->size()) return nullptr;
  const auto& found = (*planned)[static_cast<std::size_t>(n)];
  return found ? &*found : nullptr;
}

/// What a call changes in place, before it is made.
template <class Use>
void for_each_changed(const KernelTraits& traits, const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                      const Use& use) {
  const auto first = stack.size() - op.schema().arguments().size();
  for (const auto i : traits.changed) for_each_tensor(stack[first + i], use);
}

/// kernels.copies_to_host(): tolist() makes such copies to read numbers off. Capture sees none of these, as its tensors
/// have no contents.
bool copies_to_host(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto first = stack.size() - op.schema().arguments().size();  // self, dtype, layout, device, ...
  const auto& device = stack[first + 3];
  return device.isDevice() && device.toDevice().is_cpu() && !stack[first].toTensor().is_cpu();
}

/// RealRecorder.is_without_memory()
bool is_without_memory(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  using c10::impl::TorchDispatchModeTLS;
  if (TorchDispatchModeTLS::get_mode(c10::impl::TorchDispatchModeKey::FAKE).has_value()) return true;
  const auto count = op.schema().arguments().size();
  bool found = std::any_of(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end(),
                           [](const c10::IValue& value) { return value.isDevice() && value.toDevice().is_meta(); });
  for_each_tensor(stack, count, [&](const at::Tensor& tensor) { found = found || tensor.is_meta(); });
  return found;
}

/// Bytes of a parameter, say, which are there anyway.
bool is_view_of_leaf(const at::Tensor& tensor) {
  return tensor.is_view() && tensor._base().is_leaf() && tensor._base().requires_grad();
}

/// With Python's lock. Passes where the session has ended meanwhile.
KernelTraits classified(const py::object& classify, const c10::OperatorName& op) {
  KernelTraits traits;
  traits.kind = KernelKind::passes;
  if (classify.is_none()) return traits;
  const auto said = classify(op.name, op.overload_name).cast<py::tuple>();
  traits.kind = static_cast<KernelKind>(said[0].cast<int>());
  traits.name = intern(said[1].cast<std::string>());
  traits.changed = said[2].cast<std::vector<std::size_t>>();
  traits.is_random = said[3].cast<bool>();
  traits.is_process_group_call = said[4].cast<bool>();
  if (!said[5].is_none()) traits.running_statistics = said[5].cast<std::array<std::size_t, 3>>();
  traits.may_last = said[6].cast<bool>();
  return traits;
}

constexpr const char* kSavedName = "tidemark.Saved";

void drop_saved(PyObject* capsule) {
  const py::error_scope kept;  // a capsule may go while an exception is on its way
  delete static_cast<Saved*>(PyCapsule_GetPointer(capsule, kSavedName));
}

/// A capsule: pybind11 would enter an object of its own, one for every tensor that is saved, in a table of all objects.
py::object to_python(Saved saved) {
  auto owned = std::make_unique<Saved>(std::move(saved));
  PyObject* capsule = PyCapsule_New(owned.get(), kSavedName, &drop_saved);
  if (capsule == nullptr) throw py::error_already_set();
  static_cast<void>(owned.release());
  return py::reinterpret_steal<py::object>(capsule);
}

const Saved& from_python(const py::object& packed) {
  const void* saved = PyCapsule_GetPointer(packed.ptr(), kSavedName);
  if (saved == nullptr) throw py::error_already_set();
  return *static_cast<const Saved*>(saved);
}

/// The one before is for the caller to destroy, without the lock.
template <class T>
std::shared_ptr<T> replace(std::shared_ptr<T>& pointer, std::shared_ptr<T> with) {
  const std::lock_guard lock(pointer_mutex());
  return std::exchange(pointer, std::move(with));
}

}  // namespace

void set_python_error(const Error& error) {
  const auto type = py::module_::import("tidemark.errors").attr("TidemarkError");
  PyErr_SetString(type.ptr(), error.what());
}

const std::string* intern(const std::string& text) {
  static auto* known = new std::set<std::string>;  // under Python's lock
  return &*known->insert(text).first;
}

SessionEngine::SessionEngine(std::vector<std::shared_ptr<PlannedBatch>> batches, std::shared_ptr<SessionSteps> steps,
                             py::object classify, py::object depart, std::shared_ptr<Counters> counters)
    : batches_(std::move(batches)),
      steps_(std::move(steps)),
      classify_(std::move(classify)),
      depart_(std::move(depart)),
      counters_(std::move(counters)),
      top_(std::make_shared<Frame>()),
      copy_(intern("aten._to_copy.default")),
      copy_to_host_(intern("aten._to_copy.default to host")) {
  serve_room(steps_);
}

SessionEngine::~SessionEngine() {
  if (Py_IsInitialized() == 0) return;
  const py::gil_scoped_acquire python;
  classify_ = depart_ = py::object();
}

void SessionEngine::close() {
  closed_ = true;
  batches_.clear();
  batch_.reset();
  is_open_ = false;
  top_ = std::make_shared<Frame>();
  classify_ = depart_ = py::none();
  static_cast<void>(end_record());
  serve_room(nullptr);
  if (const auto ended = replace(steps_, {}); ended != nullptr && !ended->is_lost()) ended->close();
}

std::shared_ptr<SessionSteps> SessionEngine::steps() const {
  const std::lock_guard lock(pointer_mutex());
  return steps_ == nullptr || steps_->is_lost() ? nullptr : steps_;
}

std::shared_ptr<RequestRecorder> SessionEngine::recorder() const {
  const std::lock_guard lock(pointer_mutex());
  return recorder_;
}

void SessionEngine::begin(std::size_t batch) {
  if (begins_step(batch)) {  // loops need not run them all, nor in order
    if (const auto steps = this->steps()) steps->begin_step();
    begun_.clear();
  }
  begun_.insert(batch);
  batch_ = batches_.at(batch);
  progress_ = std::make_shared<BatchProgress>();
  is_open_ = true;
  ++counters_->micro_batches;
}

bool SessionEngine::is_abandoned(bool ends_first) const {
  if (progress_ == nullptr || !progress_->is_saved || progress_->is_asked_for) return false;
  return ends_first || progress_.use_count() == 1;
}

void SessionEngine::follow(std::vector<std::shared_ptr<PlannedBatch>> batches, std::shared_ptr<SessionSteps> steps) {
  if (const auto followed = this->steps()) followed->close();
  batches_ = std::move(batches);
  batch_.reset();
  begun_.clear();
  is_open_ = false;
  top_ = std::make_shared<Frame>();
  serve_room(steps);
  replace(steps_, std::move(steps));
}

void SessionEngine::begin_record(tidemark_allocator* allocator) {
  static_cast<void>(end_record());  // before the next: they have the allocator's log in turn
  replace(recorder_, std::make_shared<RequestRecorder>(allocator));
}

std::vector<SeenKernel> SessionEngine::end_record() {
  const auto recorder = replace(recorder_, {});
  return recorder == nullptr ? std::vector<SeenKernel>{} : recorder->take();
}

std::shared_ptr<Frame> SessionEngine::frame(const std::string& path, int call) const {
  auto frame = std::make_shared<Frame>();
  frame->path = path;
  frame->call = call;
  frame->outside = path == kOutside;
  if (batch_ != nullptr) {
    frame->planned_calls = find(batch_->calls, {path, call});
    frame->planned_saves = find(batch_->saves, {path, call});
  }
  return frame;
}

const KernelTraits& SessionEngine::traits_of(const c10::OperatorHandle& op) {
  const auto* key = &op.operator_name();
  {
    const std::lock_guard lock(pointer_mutex());
    const auto known = traits_.find(key);
    if (known != traits_.end()) return known->second;
  }
  const py::gil_scoped_acquire python;
  KernelTraits traits = classified(py::object(classify_), *key);
  const std::lock_guard lock(pointer_mutex());
  return traits_.emplace(key, std::move(traits)).first->second;
}

void SessionEngine::on_call(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  if (closed_) return op.callBoxed(stack);
  try {
    watched_call(op, stack);
  } catch (const Error& error) {
    const py::gil_scoped_acquire lock;
    set_python_error(error);
    throw py::error_already_set();
  }
}

void SessionEngine::watched_call(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const auto& traits = traits_of(op);
  if (expected_ == Kernels::make_state && is_of_thread()) return sorted_call(op, traits, stack);
  if (expected_ != Kernels::forwards) return call(op, traits, stack);
  if (traits.kind != KernelKind::passes && is_forward()) return forward_call(op, traits, stack);
  if (traits.kind == KernelKind::changes) {
    for_each_changed(traits, op, stack, [this](const at::Tensor& tensor) { before_change(tensor, false); });
  }
  op.callBoxed(stack);
}

void SessionEngine::call(const c10::OperatorHandle& op, const KernelTraits& traits, torch::jit::Stack& stack) {
  const auto recorder = this->recorder();
  if (recorder == nullptr || traits.kind == KernelKind::passes) return op.callBoxed(stack);
  recorder->call(op, traits.name, stack);
}

void SessionEngine::sorted_call(const c10::OperatorHandle& op, const KernelTraits& traits, torch::jit::Stack& stack) {
  struct Expected {
    std::shared_ptr<SessionSteps> steps;
    ~Expected() {
      try {
        if (steps != nullptr) steps->expect_requests(TIDEMARK_REQUESTS_OTHER);
      } catch (...) {  // the kernel has failed already, or the next call says so
      }
    }
  };
  const auto requests = traits.may_last ? TIDEMARK_REQUESTS_OTHER : TIDEMARK_REQUESTS_TRANSIENT;
  const Expected behind{steps()};
  if (behind.steps != nullptr) behind.steps->expect_requests(requests);
  call(op, traits, stack);
}

/// In evaluation there is no gradient; inside a module that is the forward of an autograd function.
bool SessionEngine::is_forward() const {
  return is_of_thread() && is_open_ && !in_backward() && (c10::GradMode::is_enabled() || !top_->outside);
}

/// `planned`: the plan of the micro-batch that runs knows of it.
void SessionEngine::before_change(const at::Tensor& changed, bool planned) {
  if (const auto steps = this->steps()) steps->change(changed, planned || !is_of_thread());  // there no forward is told
}

void SessionEngine::forward_call(const c10::OperatorHandle& op, const KernelTraits& traits, torch::jit::Stack& stack) {
  const auto steps = this->steps();
  if (steps == nullptr || is_without_memory(op, stack)) return op.callBoxed(stack);
  const auto* planned = planned_call(*top_, op, traits, stack);
  const bool is_planned = planned != nullptr && !planned->apart;
  steps->expect_requests(is_planned ? TIDEMARK_REQUESTS_PLANNED : TIDEMARK_REQUESTS_OTHER);
  if (traits.kind == KernelKind::changes) {
    for_each_changed(traits, op, stack, [&](const at::Tensor& tensor) { before_change(tensor, planned != nullptr); });
  }
  if (planned == nullptr) return op.callBoxed(stack);
  if (planned->first) steps->tell(planned->op);
  if (planned->rebuilt) steps->record_call(*planned, op, traits, stack);
  call(op, traits, stack);
  if (planned->outputs.empty()) return;
  std::size_t n = 0;
  for_each_tensor(stack, op.schema().returns().size(), [&](const at::Tensor& tensor) {
    if (n < planned->outputs.size() && planned->outputs[n] != kNone) {
      steps->take_output(*planned, planned->outputs[n], tensor);
    }
    ++n;
  });
}

/// What the plan says of the kernel about to be called, or nothing: not on the plan.
const PlannedCall* SessionEngine::planned_call(Frame& frame, const c10::OperatorHandle& op, const KernelTraits& traits,
                                               const torch::jit::Stack& stack) {
  const int n = frame.calls++;
  if (frame.departed) return nullptr;
  const bool is_behind = frame.planned_calls == nullptr || static_cast<std::size_t>(n) >= frame.planned_calls->size();
  if (is_behind && frame.outside) return nullptr;  // behind the loss: backward begins, metrics are taken
  const auto* planned = nth(frame.planned_calls, n);
  const bool to_host = traits.name == copy_ && copies_to_host(op, stack);
  const auto* name = to_host ? copy_to_host_ : traits.name;
  if (to_host && (planned == nullptr || planned->kernel != name)) {
    --frame.calls;
    return nullptr;
  }
  if (planned == nullptr) {
    depart(frame, *traits.name + " was not captured");
  } else if (planned->kernel != name) {
    depart(frame, *traits.name + " is called where " + *planned->kernel + " was captured");
    planned = nullptr;
  }
  return planned;
}

void SessionEngine::depart(Frame& frame, const std::string& what) {
  frame.departed = true;
  const py::gil_scoped_acquire lock;
  ++counters_->off_plan;
  depart_(frame.path, frame.call, what);
}

/// Whether the session has the tensor's storage. Otherwise it may hear of what autograd keeps, where it is planned.
bool SessionEngine::save_in_session(SessionSteps& steps, const Frame& frame, int n, const at::Tensor& tensor,
                                    Saved& saved) const {
  const auto* planned = frame.departed ? nullptr : nth(frame.planned_saves, n);
  const bool is_managed = planned != nullptr && planned->storage != kNone;
  if (is_managed && steps.storage_of(tensor) == planned->storage) {
    saved.micro_batch = counters_->micro_batches;
    saved.handle = steps.save(*planned);
    return true;
  }
  if (planned != nullptr && !is_managed) {
    saved.micro_batch = counters_->micro_batches;
    if (planned->use != kNone) saved.handle = steps.save(*planned);
    return false;
  }
  if (!frame.left && (!steps.spills() || is_view_of_leaf(tensor))) return false;
  saved.handle = steps.save_unplanned(tensor);
  saved.unplanned = static_cast<bool>(saved.handle);
  return saved.unplanned;
}

py::object SessionEngine::pack(const py::object& object) {
  const auto& tensor = THPVariable_Unpack(object.ptr());
  auto& frame = *top_;
  const int n = frame.saves++;
  Saved saved;
  if (progress_ != nullptr && is_of_thread() && is_open_ && !in_backward()) {
    saved.progress = progress_;
    progress_->is_saved = true;
  }
  if (tensor.is_leaf() && tensor.requires_grad()) {  // the leaf itself, which has no history
    saved.kept = tensor;
    saved.version = VersionSeen(tensor);
    return to_python(std::move(saved));
  }
  const auto steps = this->steps();
  const bool is_in_forward = !in_backward() || !top_->outside;  // a module differentiates, to be differentiated again
  const bool is_followed = steps != nullptr && is_of_thread() && is_open_ && is_in_forward;
  if (is_followed && save_in_session(*steps, frame, n, tensor, saved)) {
    saved.geometry = Geometry::of(tensor);
    saved.version = VersionSeen(tensor);
    return to_python(std::move(saved));
  }
  std::optional<Unseen> unseen;
  if (!has_python_kernels(tensor)) unseen.emplace();
  saved.kept = tensor.detach();
  saved.version = VersionSeen(saved.kept);
  return to_python(std::move(saved));
}

py::object SessionEngine::unpack(const py::object& packed) {
  const Saved& saved = from_python(packed);
  if (saved.progress != nullptr) saved.progress->is_asked_for = true;
  auto tensor = found(saved);
  if (saved.handle && saved.micro_batch == counters_->micro_batches && top_->outside) {
    end_forward();  // else a gradient is taken within forward
  }
  return py::cast(std::move(tensor));
}

at::Tensor SessionEngine::found(const Saved& saved) {
  const Unseen unseen;
  const bool again = torch::autograd::get_current_graph_task_keep_graph();
  const bool is_kept = saved.kept.defined();
  check_unchanged(is_kept ? saved.kept.sizes() : at::IntArrayRef(saved.geometry.sizes), saved.version);
  if (!saved.handle) return saved.kept;
  const c10::Storage storage = saved.handle.use(again);
  if (is_kept) return saved.kept;
  at::Tensor tensor = saved.geometry.over(storage);
  if (saved.unplanned) saved.version.count_in(tensor);
  return tensor;
}

}  // namespace tidemark_torch
