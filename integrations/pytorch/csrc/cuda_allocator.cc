// What PyTorch's CUDAPluggableAllocator is given, where a C function will not do: an allocation that throws (the wrapper
// does not look whether it was given NULL, so that a refusal would become a tensor without memory), and the hooks for
// the pools of captured graphs, whose signatures have C++ types. All else it looks up in libtidemark.so by name.
//
// Signatures as torch/csrc/cuda/Module.cpp casts the addresses it is given:
//   alloc_fn                     void*(size_t, int, cudaStream_t)
//   set_begin_allocate_to_pool   void(int, MempoolId_t, std::function<bool(cudaStream_t)>)
//   set_end_allocate_to_pool_fn  void(int, MempoolId_t)
//   set_release_pool             void(int, MempoolId_t)
//
// No header of CUDA is needed: a cudaStream_t is a pointer to a type without a definition, and MempoolId_t a pair of
// numbers (c10/cuda/CUDAGraphsC10Utils.h); the suite holds both against PyTorch's own headers.
// Thread rule: any thread.

#include <c10/util/Exception.h>
#include <tidemark/tidemark.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#define TIDEMARK_TORCH_API __attribute__((visibility("default")))

struct CUstream_st;

namespace {

using Stream = CUstream_st*;
using MempoolId = std::pair<unsigned long long, unsigned long long>;
using Filter = std::function<bool(Stream)>;

std::string take_text(tidemark_error* error) {
  std::string text = tidemark_error_message(error);
  tidemark_error_free(error);
  return text;
}

void throw_unless_ok(tidemark_status status, tidemark_error* error) {
  if (status == TIDEMARK_STATUS_OK) return;
  const std::string text = take_text(error);
  TORCH_CHECK_WITH(OutOfMemoryError, status != TIDEMARK_STATUS_OUT_OF_MEMORY, "tidemark: ", text);
  TORCH_CHECK(false, "tidemark: ", text);
}

tidemark_allocator* allocator_of(int device) {
  tidemark_allocator* allocator = tidemark_cuda_allocator(device);
  TORCH_CHECK(allocator != nullptr, "tidemark: there is no allocator for device ", device, "; stderr says why");
  return allocator;
}

/// What PyTorch's filter throws, as where CUDA refuses the question, must not pass through C: the stream is not captured
/// then.
int32_t ask(void* user, tidemark_stream stream) {
  try {
    return (*static_cast<Filter*>(user))(reinterpret_cast<Stream>(stream)) ? 1 : 0;
  } catch (...) {
    return 0;
  }
}

void drop(void* user) {
  delete static_cast<Filter*>(user);
}

}  // namespace

extern "C" {

TIDEMARK_TORCH_API void* tidemark_torch_cuda_malloc(std::size_t size, int device, Stream stream) {
  void* pointer = nullptr;
  tidemark_error* error = nullptr;
  const tidemark_status status =
      tidemark_cuda_allocate(static_cast<ssize_t>(size), device, static_cast<void*>(stream), &pointer, &error);
  throw_unless_ok(status, error);
  return pointer;
}

TIDEMARK_TORCH_API void tidemark_torch_cuda_begin_allocate_to_pool(int device, MempoolId id, Filter filter) {
  tidemark_allocator* allocator = allocator_of(device);
  tidemark_error* error = nullptr;
  const tidemark_status status = tidemark_graph_pool_begin(allocator, id.first, id.second, &ask, &drop,
                                                           std::make_unique<Filter>(std::move(filter)).release(),
                                                           &error);
  throw_unless_ok(status, error);
}

TIDEMARK_TORCH_API void tidemark_torch_cuda_end_allocate_to_pool(int device, MempoolId id) {
  tidemark_error* error = nullptr;
  const tidemark_status status = tidemark_graph_pool_end(allocator_of(device), id.first, id.second, &error);
  throw_unless_ok(status, error);
}

/// Comes from destructors: does not throw.
TIDEMARK_TORCH_API void tidemark_torch_cuda_release_pool(int device, MempoolId id) {
  tidemark_error* error = nullptr;
  tidemark_allocator* allocator = tidemark_cuda_allocator(device);
  if (tidemark_graph_pool_release(allocator, id.first, id.second, &error) == TIDEMARK_STATUS_OK) return;
  TORCH_WARN("tidemark: a pool of graphs is not released: ", take_text(error));
}

}  // extern "C"
