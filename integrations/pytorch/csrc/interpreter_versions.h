// What PyTorch's interface to Python's interpreter has in some versions only, passed on to another interpreter. All
// else of the interface is the same from 2.6 to 2.15 (forwarding_interpreter.h), and nothing else here asks for the
// version:
//
//   2.6 to 2.8    decref() is told whether a tensor's slot holds the object
//   2.9           the same, and sym_is_contiguous()
//   from 2.10 on  decref() is told the object alone; try_incref() and refcnt()
//
// A new version that differs fails to compile here, or where the interface's class is made: say here what it has, and
// let tidemark/requirements.py name the version.

#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/core/impl/PyInterpreter.h>
#include <torch/version.h>

#include <cstddef>

namespace tidemark_torch {

static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 6, "tidemark/requirements.py says which versions");

struct VersionedInterpreter : c10::impl::PyInterpreterVTable {
  explicit VersionedInterpreter(const PyInterpreterVTable& python) : python(python) {}
  const PyInterpreterVTable& python;

#if TORCH_VERSION_MINOR >= 10
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
#if TORCH_VERSION_MINOR >= 9
  c10::SymBool sym_is_contiguous(const c10::TensorImpl* self, at::MemoryFormat format) const override {
    return python.sym_is_contiguous(self, format);
  }
#endif
};

}  // namespace tidemark_torch
