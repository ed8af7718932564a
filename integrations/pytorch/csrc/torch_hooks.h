#pragma once
// What the plug-ins of PyTorch and torch_npu need beyond C: refusals as exceptions of PyTorch's, and the hooks for
// pools of captured graphs over the C interface. A template of the vendor's stream, a pointer of some type. Thread
// rule: any thread.

#include <c10/util/Exception.h>
#include <tidemark/tidemark.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace tidemark_torch {

/// c10::MempoolId_t, which is declared in headers of CUDA.
using MempoolId = std::pair<unsigned long long, unsigned long long>;

inline std::string take_text(tidemark_error* error) {
  std::string text = tidemark_error_message(error);
  tidemark_error_free(error);
  return text;
}

inline void throw_unless_ok(tidemark_status status, tidemark_error* error) {
  if (status == TIDEMARK_STATUS_OK) return;
  const std::string text = take_text(error);
  TORCH_CHECK_WITH(OutOfMemoryError, status != TIDEMARK_STATUS_OUT_OF_MEMORY, "tidemark: ", text);
  TORCH_CHECK(false, "tidemark: ", text);
}

inline tidemark_allocator* needed(tidemark_allocator* allocator, int device) {
  TORCH_CHECK(allocator != nullptr, "tidemark: there is no allocator for device ", device, "; stderr says why");
  return allocator;
}

template <class Stream>
struct GraphPool {
  using Filter = std::function<bool(Stream)>;

  /// What the framework's filter throws, as where the vendor refuses the question, must not pass through C: the stream
  /// is not captured then.
  static int32_t ask(void* user, tidemark_stream stream) {
    try {
      return (*static_cast<Filter*>(user))(reinterpret_cast<Stream>(stream)) ? 1 : 0;
    } catch (...) {
      return 0;
    }
  }
  static void drop(void* user) { delete static_cast<Filter*>(user); }

  static void begin(tidemark_allocator* allocator, MempoolId id, Filter filter) {
    tidemark_error* error = nullptr;
    const auto status = tidemark_graph_pool_begin(allocator, id.first, id.second, &ask, &drop,
                                                  std::make_unique<Filter>(std::move(filter)).release(), &error);
    throw_unless_ok(status, error);
  }
  static void end(tidemark_allocator* allocator, MempoolId id) {
    tidemark_error* error = nullptr;
    const auto status = tidemark_graph_pool_end(allocator, id.first, id.second, &error);
    throw_unless_ok(status, error);
  }
  /// Comes from destructors: does not throw.
  static void release(tidemark_allocator* allocator, MempoolId id) {
    tidemark_error* error = nullptr;
    if (tidemark_graph_pool_release(allocator, id.first, id.second, &error) == TIDEMARK_STATUS_OK) return;
    TORCH_WARN("tidemark: a pool of graphs is not released: ", take_text(error));
  }
};

}  // namespace tidemark_torch
