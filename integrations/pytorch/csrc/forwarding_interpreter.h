// An interpreter of Python's that passes all on to another, but calls and detached tensors: those are for the class
// that derives from it to answer. Thread rule: as the interpreter that is passed on to.

#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "integrations/pytorch/csrc/interpreter_versions.h"

namespace tidemark_torch {

struct ForwardingInterpreter : VersionedInterpreter {
  using VersionedInterpreter::VersionedInterpreter;

  std::string name() const override { return python.name(); }
  void incref(PyObject* object) const override { python.incref(object); }
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
  bool is_strides_like(const c10::TensorImpl* self, at::MemoryFormat format) const override {
    return python.is_strides_like(self, format);
  }
  bool is_non_overlapping_and_dense(const c10::TensorImpl* self) const override {
    return python.is_non_overlapping_and_dense(self);
  }
  c10::Device device(const c10::TensorImpl* self) const override { return python.device(self); }
  int64_t dim(const c10::TensorImpl* self) const override { return python.dim(self); }
  c10::IntArrayRef strides(const c10::TensorImpl* self) const override { return python.strides(self); }
  c10::IntArrayRef sizes(const c10::TensorImpl* self) const override { return python.sizes(self); }
  c10::SymIntArrayRef sym_sizes(const c10::TensorImpl* self) const override { return python.sym_sizes(self); }
  c10::Layout layout(const c10::TensorImpl* self) const override { return python.layout(self); }
  int64_t numel(const c10::TensorImpl* self) const override { return python.numel(self); }
  c10::SymInt sym_numel(const c10::TensorImpl* self) const override { return python.sym_numel(self); }
  c10::SymIntArrayRef sym_strides(const c10::TensorImpl* self) const override { return python.sym_strides(self); }
  c10::SymInt sym_storage_offset(const c10::TensorImpl* self) const override { return python.sym_storage_offset(self); }
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
  void reset_backward_hooks(const c10::TensorImpl* self) const override { python.reset_backward_hooks(self); }
};

}  // namespace tidemark_torch
