#include "integrations/pytorch/csrc/kernel_watch.h"

#include <c10/core/SafePyObject.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/version.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "integrations/pytorch/csrc/session_lock.h"

namespace tidemark_torch {

namespace {

using c10::impl::PyInterpreterVTable;
using c10::impl::PyObject_TorchDispatchMode;
using c10::impl::TorchDispatchModeTLS;
using Mode = std::shared_ptr<PyObject_TorchDispatchMode>;

std::shared_ptr<KernelWatch>& active() {  // under pointer_mutex()
  static auto* watch = new std::shared_ptr<KernelWatch>;
  return *watch;
}

std::shared_ptr<KernelWatch> find_active() {
  const std::lock_guard lock(pointer_mutex());
  return active();
}

/// The one before is destroyed without the lock.
void replace_active(std::shared_ptr<KernelWatch> watch) {
  const std::lock_guard lock(pointer_mutex());
  active().swap(watch);
}

PyObject* mode_object = nullptr;  // a Python mode: PyTorch's Python code takes modes off the stack and puts them back

bool is_watch(const Mode& mode) {
  return mode_object != nullptr && mode->ptr(getPyInterpreter()) == mode_object;
}

/// Off the stack while the call is made.
struct Stashed {
  Mode mode = TorchDispatchModeTLS::pop_stack();
  ~Stashed() { TorchDispatchModeTLS::push_non_infra_mode_onto_stack(std::move(mode)); }
};

/// Python's interpreter, but for calls that reach the watch's mode first: those never enter Python. PyTorch asks the
/// interpreter of the mode on top to make each call, and to detach tensors.
struct WatchInterpreter final : PyInterpreterVTable {
  explicit WatchInterpreter(const PyInterpreterVTable& python) : python(python) {}
  const PyInterpreterVTable& python;

  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) const override {
    if (!is_watch_on_top()) return python.dispatch(op, stack);
    const Stashed stashed;
    if (const auto watch = find_active()) {
      watch->on_call(op, *stack);
    } else {
      op.callBoxed(stack);
    }
  }
  c10::intrusive_ptr<c10::TensorImpl> detach(const c10::TensorImpl* self) const override {
    if (!is_watch_on_top()) return python.detach(self);
    const Stashed stashed;
    const bool seen = self->key_set().has(c10::DispatchKey::Python) || TorchDispatchModeTLS::stack_len() > 0;
    if (seen) return python.detach(self);
    if (self->has_storage()) return {};                                   // nothing: as without modes
    return self->shallow_copy_and_detach(c10::VariableVersion(0), true);  // sparse tensors take nothing for an answer
  }

  // Nothing below is the watch's.
  std::string name() const override { return python.name(); }
  void incref(PyObject* object) const override { python.incref(object); }
#if TORCH_VERSION_MINOR >= 11
  void decref(PyObject* object) const override {
    python.decref(object);
  }
  bool try_incref(const c10::impl::PyObjectSlot& slot) const override {
    return python.try_incref(slot);
  }
  std::size_t refcnt(PyObject* object) const override {
    return python.refcnt(object);
  }
#else
  void decref(PyObject* object, bool has_slot) const override {
    python.decref(object, has_slot);
  }
#endif
  void reportErrorCallback(PyObject* callback, c10::DispatchKey key) const override {
    python.reportErrorCallback(callback, key);
  }
  void python_op_registration_trampoline(const c10::OperatorHandle& op, c10::DispatchKey key, c10::DispatchKeySet keys,
                                         torch::jit::Stack* stack, bool with_keyset, bool with_op) const override {
    python.python_op_registration_trampoline(op, key, keys, stack, with_keyset, with_op);
  }
  void throw_abstract_impl_not_imported_error(std::string op, const char* module, const char* context) const override {
    python.throw_abstract_impl_not_imported_error(std::move(op), module, context);
  }
  void python_dispatcher(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                         torch::jit::Stack* stack) const override {
    python.python_dispatcher(op, keys, stack);
  }
  bool is_contiguous(const c10::TensorImpl* self, at::MemoryFormat format) const override {
    return python.is_contiguous(self, format);
  }
  c10::SymBool sym_is_contiguous(const c10::TensorImpl* self, at::MemoryFormat format) const override {
    return python.sym_is_contiguous(self, format);
  }
  bool is_strides_like(const c10::TensorImpl* self, at::MemoryFormat format) const override {
    return python.is_strides_like(self, format);
  }
  bool is_non_overlapping_and_dense(const c10::TensorImpl* self) const override {
    return python.is_non_overlapping_and_dense(self);
  }
  c10::Device device(const c10::TensorImpl* self) const override {
    return python.device(self);
  }
  int64_t dim(const c10::TensorImpl* self) const override {
    return python.dim(self);
  }
  c10::IntArrayRef strides(const c10::TensorImpl* self) const override {
    return python.strides(self);
  }
  c10::IntArrayRef sizes(const c10::TensorImpl* self) const override {
    return python.sizes(self);
  }
  c10::SymIntArrayRef sym_sizes(const c10::TensorImpl* self) const override {
    return python.sym_sizes(self);
  }
  c10::Layout layout(const c10::TensorImpl* self) const override {
    return python.layout(self);
  }
  int64_t numel(const c10::TensorImpl* self) const override {
    return python.numel(self);
  }
  c10::SymInt sym_numel(const c10::TensorImpl* self) const override {
    return python.sym_numel(self);
  }
  c10::SymIntArrayRef sym_strides(const c10::TensorImpl* self) const override {
    return python.sym_strides(self);
  }
  c10::SymInt sym_storage_offset(const c10::TensorImpl* self) const override {
    return python.sym_storage_offset(self);
  }
  void trace_gpu_event_creation(c10::DeviceType type, uintptr_t event) const override {
    python.trace_gpu_event_creation(type, event);
  }
  void trace_gpu_event_deletion(c10::DeviceType type, uintptr_t event) const override {
    python.trace_gpu_event_deletion(type, event);
  }
  void trace_gpu_event_record(c10::DeviceType type, uintptr_t event, uintptr_t stream) const override {
    python.trace_gpu_event_record(type, event, stream);
  }
  void trace_gpu_event_wait(c10::DeviceType type, uintptr_t event, uintptr_t stream) const override {
    python.trace_gpu_event_wait(type, event, stream);
  }
  void trace_gpu_memory_allocation(c10::DeviceType type, uintptr_t address) const override {
    python.trace_gpu_memory_allocation(type, address);
  }
  void trace_gpu_memory_deallocation(c10::DeviceType type, uintptr_t address) const override {
    python.trace_gpu_memory_deallocation(type, address);
  }
  void trace_gpu_stream_creation(c10::DeviceType type, uintptr_t stream) const override {
    python.trace_gpu_stream_creation(type, stream);
  }
  void trace_gpu_device_synchronization(c10::DeviceType type) const override {
    python.trace_gpu_device_synchronization(type);
  }
  void trace_gpu_stream_synchronization(c10::DeviceType type, uintptr_t stream) const override {
    python.trace_gpu_stream_synchronization(type, stream);
  }
  void trace_gpu_event_synchronization(c10::DeviceType type, uintptr_t event) const override {
    python.trace_gpu_event_synchronization(type, event);
  }
  void reset_backward_hooks(const c10::TensorImpl* self) const override {
    python.reset_backward_hooks(self);
  }
};

/// Once in a process, and never undone: modes may outlive a session.
void install() {
  if (mode_object != nullptr) return;
  mode_object = pybind11::module_::import("tidemark.watch_mode").attr("WatchMode")().release().ptr();
  c10::impl::PyInterpreter* interpreter = getPyInterpreter();
  interpreter->vtable_ = new WatchInterpreter(*interpreter->vtable_);
}

}  // namespace

void push_watch(std::shared_ptr<KernelWatch> watch) {
  install();
  replace_active(std::move(watch));
  Py_INCREF(mode_object);
  TorchDispatchModeTLS::push_non_infra_mode_onto_stack(
      std::make_shared<PyObject_TorchDispatchMode>(mode_object, getPyInterpreter()));
}

void pop_watch() {
  replace_active({});
  const std::int64_t length = TorchDispatchModeTLS::stack_len();
  std::int64_t at = length - 1;
  while (at >= 0 && !is_watch(TorchDispatchModeTLS::get_stack_at(at))) --at;
  if (at < 0) return;
  std::vector<Mode> above;
  for (std::int64_t i = length - 1; i > at; --i) above.push_back(TorchDispatchModeTLS::pop_stack());
  (void)TorchDispatchModeTLS::pop_stack();
  for (; !above.empty(); above.pop_back()) TorchDispatchModeTLS::push_non_infra_mode_onto_stack(above.back());
}

bool is_watch_on_top() {
  const std::int64_t length = TorchDispatchModeTLS::stack_len();
  return length > 0 && is_watch(TorchDispatchModeTLS::get_stack_at(length - 1));
}

}  // namespace tidemark_torch
