#pragma once
// One stream of the host back end: a thread that carries out what was queued, first in first out.
//
// Records. record() queues a HostRecord, a thing that becomes complete once; an event is a pointer to its latest
// record. A wait holds the record it was submitted for, so recording the event anew does not move it. A record is
// complete only after everything queued before it, and waits refer to records queued earlier, so no wait is for ever.
//
// Copies are begun in order and may be under way together where they touch different bytes (device/host_transfers.h).
//
// Failures. The first failure belongs to the stream: work behind it is skipped, records complete and carry it, and a
// stream that waits for such a record takes it over. So no work uses bytes that were never written.
//
// Forks. A forked process has no threads but one. So a fork waits until the streams rest, with all that was queued
// carried out, and the child goes on with new streams of the same roles and failures, whose threads begin with their
// first work. The old ones are never destroyed there: their condition variables would wait for the parent's threads.
//
// Threads: any; the queue is locked.

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>

#include "device/device.h"
#include "device/host_record.h"
#include "device/host_transfers.h"

namespace tidemark {

class HostStream {
 public:
  /// Work answers how it went. It is not started after a failure of the stream.
  using Job = std::function<HostFailure()>;
  /// Starts a copy; calls `done` once, from any thread, when the bytes are there, unless it answers a failure.
  using Begin = std::function<HostFailure(std::function<void()> done)>;

  /// `numa_node`: of the device, for a stream that copies; -1: not known.
  explicit HostStream(StreamRole role, int numa_node = -1, HostFailure failure = {})
      : role_(role), numa_node_(numa_node), failure_(std::move(failure)) {}
  /// Carries out what is queued, then ends the thread.
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  [[nodiscard]] StreamRole role() const { return role_; }
  /// Starts the thread, unless it runs. Before the first submit, copy or wait. Throws std::system_error.
  void start();
  void submit(Job job);
  void copy(const HostTransfer& transfer, Begin begin);
  void wait(std::shared_ptr<const HostRecord> record);
  /// A wait that is over at once: there is no thread yet, and the record is complete. False: it needs wait().
  [[nodiscard]] bool follow(const HostRecord& record);
  [[nodiscard]] std::shared_ptr<const HostRecord> record();

  // Around a fork. lock() waits until the stream rests; the child has no use for unlock() and takes a successor().
  void lock();
  void unlock() { mutex_.unlock(); }
  /// REQUIRES: locked.
  [[nodiscard]] std::shared_ptr<HostStream> successor() const {
    return std::make_shared<HostStream>(role_, numa_node_, failure_);
  }

 private:
  using Wait = std::shared_ptr<const HostRecord>;
  using Mark = std::shared_ptr<HostRecord>;
  struct Copy {
    HostTransfer transfer;
    Begin begin;
  };
  using Item = std::variant<Job, Copy, Wait, Mark>;

  void push(Item item);
  /// False: the stream ends.
  [[nodiscard]] bool pop(Item& item);
  void carry_out(Item& item);
  void begin(Copy& copy);
  void run();

  const StreamRole role_;
  const int numa_node_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool ending_ = false;
  bool rests_ = true;    ///< the thread waits for work, or there is none
  HostFailure failure_;  ///< of the thread alone, while it does not rest
  HostTransfers transfers_;
  std::thread thread_;
};

}  // namespace tidemark
