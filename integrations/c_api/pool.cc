// Pools of the C interface: by tag, and of captured graphs.

#include <memory>
#include <string>

#include "integrations/c_api/handles.h"
#include "integrations/c_api/structs.h"

using namespace tidemark;         // NOLINT: the functions below have the C interface's names
using namespace tidemark::c_api;  // NOLINT

namespace {

constexpr std::size_t kMostTag = 255;

/// Runs `body(AllocatorGroup&, tag)`, which returns an Outcome.
template <class Body>
tidemark_status on_pool(tidemark_allocator* allocator, const char* tag, tidemark_error** error, Body body) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (allocator == nullptr) return invalid("allocator is NULL");
    const std::string name = tag == nullptr ? "" : tag;
    if (name.empty() || name.size() > kMostTag) return invalid("a tag has 1 to 255 bytes");
    return body(allocator->group, name);
  });
}

template <class Body>
tidemark_status on_group(tidemark_allocator* allocator, tidemark_error** error, Body body) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (allocator == nullptr) return invalid("allocator is NULL");
    return body(allocator->group);
  });
}

/// The caller's filter, and what it belongs to until nobody asks any more.
Captures::Filter filter_of(tidemark_stream_filter filter, tidemark_drop drop, void* user) {
  const auto forget = [drop](void* what) {
    if (drop != nullptr) drop(what);
  };
  return [filter, keep = std::shared_ptr<void>(user, forget)](StreamHandle stream) {
    return filter(keep.get(), static_cast<tidemark_stream>(stream)) != 0;
  };
}

}  // namespace

extern "C" {

tidemark_status tidemark_pool_create(tidemark_allocator* allocator, const char* tag,
                                     const tidemark_pool_options* options, tidemark_error** error) noexcept {
  return on_pool(allocator, tag, error, [&](AllocatorGroup& group, const std::string& name) -> Outcome {
    tidemark_pool_options known;
    if (Outcome o = read_options(options, "tidemark_pool_options", known); !o.ok()) return o;
    return group.create_pool(name, known.plain != 0);
  });
}

tidemark_status tidemark_pool_destroy(tidemark_allocator* allocator, const char* tag, tidemark_error** error) noexcept {
  return on_pool(allocator, tag, error,
                 [](AllocatorGroup& group, const std::string& name) { return group.destroy_pool(name); });
}

tidemark_status tidemark_pool_allocate(tidemark_allocator* allocator, const char* tag, int64_t bytes,
                                       tidemark_stream stream, uint32_t owner, tidemark_address* address,
                                       tidemark_error** error) noexcept {
  return on_pool(allocator, tag, error, [&](AllocatorGroup& group, const std::string& name) -> Outcome {
    if (address == nullptr) return invalid("address is NULL");
    if (bytes < 0) return invalid("bytes is negative");
    Address made = 0;
    Outcome taken = group.allocate_in(name, bytes, static_cast<StreamHandle>(stream), made, owner);
    if (taken.ok()) *address = made;
    return taken;
  });
}

tidemark_status tidemark_pool_suspend(tidemark_allocator* allocator, const char* tag, int32_t keep_contents,
                                      int64_t* given_back_bytes, tidemark_error** error) noexcept {
  return on_pool(allocator, tag, error, [&](AllocatorGroup& group, const std::string& name) {
    Bytes given_back = 0;
    Outcome suspended = group.suspend_pool(name, keep_contents != 0, given_back);
    if (suspended.ok() && given_back_bytes != nullptr) *given_back_bytes = given_back;
    return suspended;
  });
}

tidemark_status tidemark_pool_resume(tidemark_allocator* allocator, const char* tag, tidemark_error** error) noexcept {
  return on_pool(allocator, tag, error,
                 [](AllocatorGroup& group, const std::string& name) { return group.resume_pool(name); });
}

tidemark_status tidemark_graph_pool_begin(tidemark_allocator* allocator, uint64_t first, uint64_t second,
                                          tidemark_stream_filter filter, tidemark_drop drop, void* user,
                                          tidemark_error** error) noexcept {
  return on_group(allocator, error, [&](AllocatorGroup& group) -> Outcome {
    if (filter == nullptr) return invalid("filter is NULL");
    group.begin_graph({first, second}, filter_of(filter, drop, user));
    return {};
  });
}

tidemark_status tidemark_graph_pool_end(tidemark_allocator* allocator, uint64_t first, uint64_t second,
                                        tidemark_error** error) noexcept {
  return on_group(allocator, error, [&](AllocatorGroup& group) { return group.end_graph({first, second}); });
}

tidemark_status tidemark_graph_pool_release(tidemark_allocator* allocator, uint64_t first, uint64_t second,
                                            tidemark_error** error) noexcept {
  return on_group(allocator, error, [&](AllocatorGroup& group) { return group.release_graph({first, second}); });
}

}  // extern "C"
