#include "integrations/pytorch/csrc/kernel_watch.h"

#include <c10/core/SafePyObject.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "integrations/pytorch/csrc/forwarding_interpreter.h"
#include "integrations/pytorch/csrc/geometry.h"
#include "integrations/pytorch/csrc/recorded_call.h"
#include "integrations/pytorch/csrc/session_lock.h"

namespace tidemark_torch {

namespace {

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

/// Whether the tensor is made of others (tidemark/tensor_parts.py), whose kernels are the ones to see.
bool is_wrapper(const at::Tensor& tensor) {
  if (!has_python_kernels(tensor)) return false;
  const pybind11::gil_scoped_acquire lock;
  return PyObject_HasAttrString(pybind11::cast(tensor).ptr(), "__tensor_flatten__") != 0;
}

/// Of the call's arguments.
bool has_wrapper(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  bool found = false;
  for_each_tensor(stack, op.schema().arguments().size(),
                  [&](const at::Tensor& tensor) { found = found || is_wrapper(tensor); });
  return found;
}

/// Off the stack while the call is made.
struct Stashed {
  Mode mode = TorchDispatchModeTLS::pop_stack();
  ~Stashed() { TorchDispatchModeTLS::push_non_infra_mode_onto_stack(std::move(mode)); }
};

/// Python's interpreter, but for calls that reach the watch's mode first: those never enter Python. PyTorch asks the
/// interpreter of the mode on top to make each call, and to detach tensors.
struct WatchInterpreter final : ForwardingInterpreter {
  using ForwardingInterpreter::ForwardingInterpreter;

  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) const override {
    if (!is_watch_on_top() || has_wrapper(op, *stack)) return python.dispatch(op, stack);
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
