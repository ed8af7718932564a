// A tensor over memory of another owner's, at a fixed address.

#pragma once

#include <ATen/ops/from_blob.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <string>

namespace tidemark_torch {

/// Bytes at an address of the device. `owner` lives as long as they are seen. Nothing is read here, and PyTorch is not
/// left to ask whose address it is: memory may come to stand behind it later.
[[nodiscard]] inline at::Tensor fixed_tensor(std::uintptr_t address, std::int64_t bytes, const std::string& device,
                                             pybind11::object owner) {
  const c10::Device place(device);
  const auto drop = [held = owner.release().ptr()](void*) {
    if (!Py_IsInitialized()) return;  // as the process ends
    const pybind11::gil_scoped_acquire gil;
    Py_DECREF(held);
  };
  const auto options = at::TensorOptions().dtype(at::kByte).device(place);
  return at::from_blob(reinterpret_cast<void*>(address), {bytes}, drop, options, place);
}

}  // namespace tidemark_torch
