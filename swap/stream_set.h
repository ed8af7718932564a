#pragma once
// The streams of one executor and the order between them: records of tasks, waits for them, and direct edges.
//
// Back-pressure. Where the device has no event or no stream slot left, the host waits for the oldest record that tasks
// still to come wait for, then for the oldest mark; what has completed needs no event, its waits are skipped. If there
// is none it waits for everything submitted; only if that does not help is no_resource handed on.
//
// Threads: none. Cost: O(1) a call besides the device's.

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "core/ids.h"
#include "device/device.h"
#include "swap/event_pool.h"

namespace tidemark::swap {

class StreamSet {
 public:
  explicit StreamSet(Device& device) : device_(device), events_(device) {}
  ~StreamSet();
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;

  static constexpr StreamRole kAllRoles[] = {StreamRole::compute, StreamRole::intra_comm, StreamRole::inter_comm,
                                             StreamRole::send,    StreamRole::receive,    StreamRole::d2h,
                                             StreamRole::h2d};
  static_assert(std::size(kAllRoles) == kStreamRoleCount);

  /// A number; valid until the step after.
  enum class Mark : std::size_t {};

  /// One stream for each role. REQUIRES: no other role is named in any call.
  [[nodiscard]] DeviceCode open(std::span<const StreamRole> roles = kAllRoles);
  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] StreamHandle stream(StreamRole role) const { return streams_[static_cast<std::size_t>(role)]; }

  /// Calls `submit(stream)`, again after relief while the device has no slot.
  template <class Submit>
  [[nodiscard]] DeviceCode submit(StreamRole role, Submit&& call) {
    for (bool drained = false;;) {
      const DeviceCode code = call(streams_[static_cast<std::size_t>(role)]);
      if (code != DeviceCode::no_resource) return code;
      if (const DeviceCode relief = relieve(drained); relief != DeviceCode::ok) return relief;
    }
  }

  /// An event behind everything submitted to the stream so far; the caller releases it. A failure leaves `event` as it
  /// was: what could not be recorded is another's already.
  [[nodiscard]] DeviceCode record(StreamRole role, EventHandle& event);
  [[nodiscard]] DeviceCode wait(StreamRole role, EventHandle event);
  void release(EventHandle event) { events_.release(event); }
  /// What is submitted to `later` from now on follows what was submitted to `earlier`.
  [[nodiscard]] DeviceCode order(StreamRole earlier, StreamRole later);
  /// The same behind a stream that is none of these.
  [[nodiscard]] DeviceCode follow(StreamHandle earlier, StreamRole later);

  /// Starts a step of so many tasks. REQUIRES: nothing is in flight.
  void begin_step(std::size_t tasks);
  /// The task just submitted to `role` will be waited for `waiters` times.
  [[nodiscard]] DeviceCode record_task(TaskId task, StreamRole role, std::int32_t waiters);
  [[nodiscard]] DeviceCode wait_task(StreamRole role, TaskId task);

  /// A point behind everything submitted to the stream so far, to be waited for once in this step. A failure
  /// makes none.
  [[nodiscard]] DeviceCode make_mark(StreamRole role, std::optional<Mark>& mark);
  /// Takes the mark, whatever comes of it.
  [[nodiscard]] DeviceCode wait_mark(StreamRole role, std::optional<Mark>& mark);

  [[nodiscard]] std::int64_t count() const { return std::ssize(opened_); }
  [[nodiscard]] std::int64_t events_peak() const { return events_.peak(); }
  [[nodiscard]] std::int64_t records() const { return records_; }
  [[nodiscard]] std::int64_t waits() const { return waits_; }
  [[nodiscard]] std::int64_t host_waits() const { return host_waits_; }

 private:
  struct Held {
    EventHandle event{};
    std::int32_t waiters = 0;  ///< still to come; 0: no event held
  };
  [[nodiscard]] DeviceCode take_event(EventHandle& event);
  [[nodiscard]] DeviceCode wait_held(StreamRole role, Held& held);
  [[nodiscard]] DeviceCode complete(Held& held);
  /// Waits for the oldest record of a task, or mark, and gives its event back. If there is none, for everything, once.
  [[nodiscard]] DeviceCode relieve(bool& drained);

  Device& device_;
  EventPool events_;
  std::array<StreamHandle, kStreamRoleCount> streams_{};
  std::vector<StreamHandle> opened_;
  std::vector<Held> tasks_, marks_;
  std::size_t oldest_mark_ = 0;
  std::size_t oldest_ = 0;  ///< no task before it holds an event
  std::size_t newest_ = 0;  ///< one behind the last task recorded
  std::int64_t records_ = 0, waits_ = 0, host_waits_ = 0;
};

}  // namespace tidemark::swap
