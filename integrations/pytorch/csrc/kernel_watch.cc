#include "kernel_watch.h"

#include <c10/core/SafePyObject.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <memory>
#include <utility>

namespace tidemark_torch {

namespace {

using c10::impl::PyObject_TorchDispatchMode;
using c10::impl::TorchDispatchModeTLS;

KernelWatch* active = nullptr;

/// PyTorch asks the interpreter of the mode on top to make each call, and to detach tensors. This one belongs to no
/// tensor and has no Python object, so that nothing else is ever asked of it.
struct WatchInterpreter final : c10::impl::PyInterpreterVTable {
  [[noreturn]] static void never() { TORCH_CHECK(false, "tidemark: this interpreter owns no tensor"); }

  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) const override;
  c10::intrusive_ptr<c10::TensorImpl> detach(const c10::TensorImpl*) const override { return {}; }  // as without modes

  // What follows is not marked as overriding: versions of PyTorch differ in which of it there is.
  std::string name() const { return "tidemark"; }
  void incref(PyObject*) const {}
  void decref(PyObject*, bool) const {}
  void reportErrorCallback(PyObject*, c10::DispatchKey) const { never(); }
  void python_op_registration_trampoline(const c10::OperatorHandle&, c10::DispatchKey, c10::DispatchKeySet,
                                         torch::jit::Stack*, bool, bool) const {
    never();
  }
  void throw_abstract_impl_not_imported_error(std::string, const char*, const char*) const { never(); }
  void python_dispatcher(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack*) const { never(); }
  bool is_contiguous(const c10::TensorImpl*, at::MemoryFormat) const { never(); }
  bool is_strides_like(const c10::TensorImpl*, at::MemoryFormat) const { never(); }
  bool is_non_overlapping_and_dense(const c10::TensorImpl*) const { never(); }
  c10::Device device(const c10::TensorImpl*) const { never(); }
  int64_t dim(const c10::TensorImpl*) const { never(); }
  c10::IntArrayRef strides(const c10::TensorImpl*) const { never(); }
  c10::IntArrayRef sizes(const c10::TensorImpl*) const { never(); }
  c10::SymIntArrayRef sym_sizes(const c10::TensorImpl*) const { never(); }
  c10::Layout layout(const c10::TensorImpl*) const { never(); }
  int64_t numel(const c10::TensorImpl*) const { never(); }
  c10::SymInt sym_numel(const c10::TensorImpl*) const { never(); }
  c10::SymIntArrayRef sym_strides(const c10::TensorImpl*) const { never(); }
  c10::SymInt sym_storage_offset(const c10::TensorImpl*) const { never(); }
  void trace_gpu_event_creation(c10::DeviceType, uintptr_t) const {}
  void trace_gpu_event_deletion(c10::DeviceType, uintptr_t) const {}
  void trace_gpu_event_record(c10::DeviceType, uintptr_t, uintptr_t) const {}
  void trace_gpu_event_wait(c10::DeviceType, uintptr_t, uintptr_t) const {}
  void trace_gpu_memory_allocation(c10::DeviceType, uintptr_t) const {}
  void trace_gpu_memory_deallocation(c10::DeviceType, uintptr_t) const {}
  void trace_gpu_stream_creation(c10::DeviceType, uintptr_t) const {}
  void trace_gpu_device_synchronization(c10::DeviceType) const {}
  void trace_gpu_stream_synchronization(c10::DeviceType, uintptr_t) const {}
  void trace_gpu_event_synchronization(c10::DeviceType, uintptr_t) const {}
  void reset_backward_hooks(const c10::TensorImpl*) const { never(); }
};

/// Never destroyed: PyTorch may hold the mode longer than the session.
const std::shared_ptr<PyObject_TorchDispatchMode>& mode() {
  static auto* interpreter = new c10::impl::PyInterpreter(new WatchInterpreter);
  static auto* instance = new auto(std::make_shared<PyObject_TorchDispatchMode>(nullptr, interpreter));
  return *instance;
}

void WatchInterpreter::dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) const {
  struct Stashed {
    std::shared_ptr<PyObject_TorchDispatchMode> mode = TorchDispatchModeTLS::pop_stack();
    ~Stashed() { TorchDispatchModeTLS::push_non_infra_mode_onto_stack(std::move(mode)); }
  } stashed;
  if (active != nullptr) {
    active->on_call(op, *stack);
  } else {
    op.callBoxed(stack);
  }
}

}  // namespace

void push_watch(KernelWatch& watch) {
  active = &watch;
  TorchDispatchModeTLS::push_non_infra_mode_onto_stack(mode());
}

void pop_watch() {
  (void)TorchDispatchModeTLS::pop_stack();
}

bool is_watch_on_top() {
  const auto length = TorchDispatchModeTLS::stack_len();
  return length > 0 && TorchDispatchModeTLS::get_stack_at(length - 1) == mode();
}

}  // namespace tidemark_torch
