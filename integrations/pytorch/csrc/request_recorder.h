// What kernels ask the allocator for, noted while a step runs whose capture did not measure it.
//
// Of what is asked for the allocator's log has the requests of the thread that ends it; of releases it has those of all
// threads. The log is one for all threads, and ends with each kernel, so kernels of two threads at once leave nothing
// to learn from: the second is only called. What runs besides, as a loader of data, is kept out but for what it
// releases.
//
// Thread rule: any thread; no lock is held while a kernel runs, as kernels may wait for each other.

#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <tidemark/tidemark.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tidemark_torch {

/// tidemark_allocator_event: address, bytes.
using AllocatorEvents = std::vector<std::pair<std::int64_t, std::int64_t>>;

struct SeenKernel {
  const std::string* name = nullptr;  // interned
  std::vector<std::int64_t> outputs;  // addresses of the storages of what it returned
  AllocatorEvents before;             // since the kernel before has ended, as numbers become tensors above the watch
  AllocatorEvents events;             // while it ran
};

class RequestRecorder {
 public:
  /// Throws std::runtime_error where the allocator has no log.
  explicit RequestRecorder(tidemark_allocator* allocator);
  RequestRecorder(const RequestRecorder&) = delete;
  RequestRecorder& operator=(const RequestRecorder&) = delete;
  ~RequestRecorder();

  /// Makes the call. Throws what it throws.
  void call(const c10::OperatorHandle& op, const std::string* name, torch::jit::Stack& stack);
  /// Ends the record. What was seen, in order; nothing where kernels ran at once.
  std::vector<SeenKernel> take();

 private:
  [[nodiscard]] bool begin(SeenKernel& kernel);
  void end(SeenKernel kernel);
  /// What came since the last time.
  AllocatorEvents end_log();
  [[nodiscard]] AllocatorEvents next_events();

  tidemark_allocator* const allocator_;
  const pid_t process_ = getpid();  // a child of a fork only makes the calls
  std::mutex mutex_;                // over the log, and all below
  bool is_over_ = false;
  bool is_running_ = false;  // a kernel; for ever, where it has thrown
  bool is_mixed_ = false;    // another began meanwhile
  std::vector<SeenKernel> seen_;
};

}  // namespace tidemark_torch
