#pragma once
// Where the allocators keep their own books: host memory by mimalloc's named API, so that a host application's malloc
// is never replaced and never waited for. Sanitizer builds take plain new, which they can watch.

#include <cstddef>
#include <deque>
#include <new>
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIDEMARK_PLAIN_METADATA 1
#else
#define TIDEMARK_PLAIN_METADATA 0
#include <mimalloc.h>
#endif

namespace tidemark::allocator {

/// STL allocator for metadata. Throws std::bad_alloc when the host has no memory left.
template <class T>
struct MetadataAllocator {
  using value_type = T;
  MetadataAllocator() = default;
  template <class U>
  MetadataAllocator(const MetadataAllocator<U>&) {}

  T* allocate(std::size_t n) {
#if TIDEMARK_PLAIN_METADATA
    return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(alignof(T))));
#else
    void* memory = mi_malloc_aligned(n * sizeof(T), alignof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
#endif
  }
  void deallocate(T* memory, std::size_t n) {
#if TIDEMARK_PLAIN_METADATA
    ::operator delete(memory, n * sizeof(T), std::align_val_t(alignof(T)));
#else
    (void)n;
    mi_free(memory);
#endif
  }
  friend bool operator==(const MetadataAllocator&, const MetadataAllocator&) {
    return true;
  }
};

template <class T>
using MetadataVector = std::vector<T, MetadataAllocator<T>>;
template <class T>
using MetadataDeque = std::deque<T, MetadataAllocator<T>>;

}  // namespace tidemark::allocator
