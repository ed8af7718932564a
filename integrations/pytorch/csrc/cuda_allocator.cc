// What PyTorch's CUDAPluggableAllocator is given, where a C function will not do: an allocation that throws (the
// wrapper does not look whether it was given NULL, so that a refusal would become a tensor without memory), and the
// hooks for the pools of captured graphs, whose signatures have C++ types. All else it looks up in libtidemark.so by
// name.
//
// Signatures as torch/csrc/cuda/Module.cpp casts the addresses it is given:
//   alloc_fn                     void*(size_t, int, cudaStream_t)
//   set_begin_allocate_to_pool   void(int, MempoolId_t, std::function<bool(cudaStream_t)>)
//   set_end_allocate_to_pool_fn  void(int, MempoolId_t)
//   set_release_pool             void(int, MempoolId_t)
//
// No header of CUDA is needed: a cudaStream_t is a pointer to a type without a definition, and MempoolId_t a pair of
// numbers; the suite (tests/pytorch/cuda_wrapper.cc) holds both against PyTorch's own headers.

#include "integrations/pytorch/csrc/make_room.h"
#include "integrations/pytorch/csrc/torch_hooks.h"

#define TIDEMARK_TORCH_API __attribute__((visibility("default")))

struct CUstream_st;

using Stream = CUstream_st*;
using CudaGraphPool = tidemark_torch::GraphPool<Stream>;
using tidemark_torch::MempoolId;

extern "C" {

TIDEMARK_TORCH_API void* tidemark_torch_cuda_malloc(std::size_t size, int device, Stream stream) {
  void* pointer = nullptr;
  tidemark_error* error = nullptr;
  const auto status = tidemark_torch::allocate_with_room(
      static_cast<std::int64_t>(size), device, &error, [&](tidemark_error** refusal) {
        return tidemark_cuda_allocate(static_cast<ssize_t>(size), device, stream, &pointer, refusal);
      });
  tidemark_torch::throw_unless_ok(status, error);
  return pointer;
}

TIDEMARK_TORCH_API void tidemark_torch_cuda_begin_allocate_to_pool(int device, MempoolId id,
                                                                   std::function<bool(Stream)> filter) {
  CudaGraphPool::begin(tidemark_torch::needed(tidemark_cuda_allocator(device), device), id, std::move(filter));
}

TIDEMARK_TORCH_API void tidemark_torch_cuda_end_allocate_to_pool(int device, MempoolId id) {
  CudaGraphPool::end(tidemark_torch::needed(tidemark_cuda_allocator(device), device), id);
}

TIDEMARK_TORCH_API void tidemark_torch_cuda_release_pool(int device, MempoolId id) {
  CudaGraphPool::release(tidemark_cuda_allocator(device), id);
}

}  // extern "C"
