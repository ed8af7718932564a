#pragma once
// Writes the log of a session (swap/session_log.h): stands between the session and its framework and device, and gives
// numbers to blocks, streams and what is saved.
//
// Threads: none, as its session.

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "device/device.h"
#include "swap/followed_program.h"
#include "swap/followed_step.h"
#include "swap/session_log.h"

namespace tidemark::swap {

class SessionRecorder {
 public:
  explicit SessionRecorder(SessionSink sink);
  ~SessionRecorder();
  SessionRecorder(const SessionRecorder&) = delete;
  SessionRecorder& operator=(const SessionRecorder&) = delete;

  /// The same, logged. The recorder, and for the second the device, must outlive what is answered.
  [[nodiscard]] FrameworkCalls logged(FrameworkCalls calls);
  [[nodiscard]] Device& logged(Device& device);

  void call(SessionEvent event, FrameworkStream stream);
  void call(SessionEvent event) { sink_(event); }
  void take(StorageId storage, FrameworkBlock block, FrameworkStream stream);
  void adopt(StorageId storage, FrameworkBlock block, FrameworkStream stream);
  /// Its number.
  [[nodiscard]] std::int32_t save(StorageId storage, OpId op, OpId until);
  /// A block that the session does not have: nothing is logged.
  void change(void* handle, bool planned, FrameworkStream stream);
  void used(FrameworkBlock block, bool is_handed_over);
  /// Logs that a call failed, where it did; `status` is passed on.
  [[nodiscard]] Status ended(Status status);

 private:
  class Copies;
  struct Known {
    std::int32_t number = 0;
    std::int32_t held = 0;  ///< references of the session's
  };

  [[nodiscard]] std::int32_t number_of(FrameworkStream stream);
  [[nodiscard]] std::int32_t find(void* handle) const;
  /// The session has one reference more, or one fewer.
  std::int32_t add(void* handle);
  void drop(void* handle);
  void handed(SessionEvent::Kind kind, StorageId storage, FrameworkBlock block, FrameworkStream stream);

  [[nodiscard]] Status rebuild(const Rebuild& again, const FrameworkCalls& calls);

  const SessionSink sink_;
  std::unique_ptr<Copies> copies_;
  std::unordered_map<void*, Known> blocks_;
  std::unordered_map<std::uint64_t, std::int32_t> streams_;
  std::int32_t blocks_seen_ = 0, saved_ = 0;
};

}  // namespace tidemark::swap
