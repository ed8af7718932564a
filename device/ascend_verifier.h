#pragma once
// Verifying launches of the ascend back end: every touch goes through a pinned buffer of its stream, a piece at a time,
// between asynchronous copies and host functions, all in stream order. One buffer per stream therefore suffices: the
// next piece's copy runs after the host function that used the last one. Threads: launches on the same stream must not
// overlap; host functions run on ACL's threads.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "core/bytes.h"
#include "device/acl_runtime.h"
#include "device/device.h"

namespace tidemark::acl {

class Verifier {
 public:
  using Buffer = std::map<Stream, void*>::node_type;  ///< with the stream that used it; may be empty

  /// REQUIRES: `runtime` outlives this; the context is current in check(), fill() and drop().
  explicit Verifier(const Runtime& runtime) : runtime_(runtime) {}

  [[nodiscard]] Code check(Stream stream, const Touch& touch, std::int64_t work_id);
  [[nodiscard]] Code fill(Stream stream, const Touch& touch);
  /// Takes the stream's buffer, if it has one, out of the books. REQUIRES: the stream is idle.
  [[nodiscard]] Buffer take(Stream stream);
  /// The stream is still there.
  void put_back(Buffer buffer);
  /// The stream is gone: frees its buffer, or keeps it for drop_all() if ACL refuses.
  void drop(Buffer buffer);
  void drop_all();

  [[nodiscard]] std::int64_t mismatches(Mismatch& first) const;

  struct Findings {
    std::mutex mutex;
    std::int64_t count = 0;
    Mismatch first;
  };

 private:
  [[nodiscard]] Code buffer_of(Stream stream, void*& buffer);

  const Runtime& runtime_;
  const std::shared_ptr<Findings> findings_ = std::make_shared<Findings>();
  std::mutex mutex_;
  std::map<Stream, void*> buffers_;
  std::multimap<Stream, void*> orphans_;  ///< of streams that are gone
};

/// A host function that sleeps, for launches that take time.
[[nodiscard]] Code sleep_on(const Runtime& runtime, Stream stream, std::int64_t duration_ns);

}  // namespace tidemark::acl
