// PyTorch's own wrapper of pluggable allocators, for Python: the one that change_current_allocator() has installed. Its
// functions need no GPU as long as nobody touches the memory; what they throw becomes an exception as PyTorch does it.

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <cstdint>
#include <type_traits>

namespace {

using torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;

// What integrations/pytorch/csrc/cuda_allocator.cc declares for itself.
static_assert(std::is_same_v<c10::cuda::MempoolId_t, std::pair<unsigned long long, unsigned long long>>);
static_assert(std::is_same_v<cudaStream_t, CUstream_st*>);

CUDAPluggableAllocator& wrapper() {
  auto* found = dynamic_cast<CUDAPluggableAllocator*>(torch::cuda::CUDAPluggableAllocator::getCurrentAllocator().get());
  TORCH_CHECK(found != nullptr, "no pluggable allocator is installed");
  return *found;
}

cudaStream_t stream_of(unsigned long long number) {
  return reinterpret_cast<cudaStream_t>(number);
}

PyObject* wrapper_malloc(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  unsigned long long size = 0, stream = 0;
  int device = 0;
  if (PyArg_ParseTuple(args, "KiK", &size, &device, &stream) == 0) return nullptr;
  void* pointer = wrapper().malloc(size, static_cast<c10::DeviceIndex>(device), stream_of(stream));
  return PyLong_FromVoidPtr(pointer);
  END_HANDLE_TH_ERRORS
}

PyObject* wrapper_free(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  unsigned long long pointer = 0;
  if (PyArg_ParseTuple(args, "K", &pointer) == 0) return nullptr;
  wrapper().raw_delete(reinterpret_cast<void*>(pointer));
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* wrapper_begin(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  unsigned long long first = 0, second = 0, stream = 0;
  int device = 0;
  if (PyArg_ParseTuple(args, "iKKK", &device, &first, &second, &stream) == 0) return nullptr;
  const cudaStream_t captured = stream_of(stream);
  wrapper().beginAllocateToPool(static_cast<c10::DeviceIndex>(device), {first, second},
                                [captured](cudaStream_t asked) { return asked == captured; });
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* wrapper_end(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  unsigned long long first = 0, second = 0;
  int device = 0;
  if (PyArg_ParseTuple(args, "iKK", &device, &first, &second) == 0) return nullptr;
  wrapper().endAllocateToPool(static_cast<c10::DeviceIndex>(device), {first, second});
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* wrapper_release(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  unsigned long long first = 0, second = 0;
  int device = 0;
  if (PyArg_ParseTuple(args, "iKK", &device, &first, &second) == 0) return nullptr;
  wrapper().releasePool(static_cast<c10::DeviceIndex>(device), {first, second});
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyMethodDef methods[] = {
    {"malloc", wrapper_malloc, METH_VARARGS, nullptr},   {"free", wrapper_free, METH_VARARGS, nullptr},
    {"begin", wrapper_begin, METH_VARARGS, nullptr},     {"end", wrapper_end, METH_VARARGS, nullptr},
    {"release", wrapper_release, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "cuda_wrapper", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

extern "C" PyMODINIT_FUNC PyInit_cuda_wrapper() {
  return PyModule_Create(&module);
}
