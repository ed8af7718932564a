#pragma once
// The streams and events that a host device has handed out. An event is its latest record (device/host_stream.h).
// No handle is given out twice. Threads: any; one lock.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device/device.h"
#include "device/host_record.h"
#include "device/host_stream.h"

namespace tidemark {

class HostHandles {
 public:
  using Stream = std::shared_ptr<HostStream>;
  using Record = std::shared_ptr<const HostRecord>;

  /// `event_limit` 0: none.
  explicit HostHandles(std::int64_t event_limit) : event_limit_(event_limit) {}

  [[nodiscard]] StreamHandle add_stream(Stream stream);
  /// Null: there is none.
  [[nodiscard]] Stream find_stream(StreamHandle handle);
  /// As find_stream(); it cannot be found any more, yet what it has in flight counts until remove_stream().
  [[nodiscard]] Stream close_stream(StreamHandle handle);
  void remove_stream(StreamHandle handle);
  /// A new record at the end of every stream, closed ones as well.
  [[nodiscard]] std::vector<Record> record_all();
  /// Waits until all streams have come to their ends, then ends them. REQUIRES: no other call at the same time.
  void finish();

  /// False: as many as there may be are alive.
  [[nodiscard]] bool add_event(EventHandle& event);
  // False: no such event.
  [[nodiscard]] bool remove_event(EventHandle event);
  [[nodiscard]] bool record_event(EventHandle event, HostStream& stream);
  /// `record` null: never recorded.
  [[nodiscard]] bool find_record(EventHandle event, Record& record);

  // Around a fork (device/host_stream.h). lock() waits until all streams rest.
  void lock();
  void unlock();
  /// In the child, in place of unlock(): streams of its own under the same handles.
  void unlock_in_child();

 private:
  struct StreamSlot {
    Stream stream;
    bool closing = false;
  };

  const std::int64_t event_limit_;
  std::mutex mutex_;
  std::uint64_t next_handle_ = 1;
  std::unordered_map<std::uint64_t, Record> events_;
  std::map<std::uint64_t, StreamSlot> streams_;
};

}  // namespace tidemark
