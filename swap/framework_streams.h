#pragma once
// The streams that a framework names in the calls of its session, in one order: what a stream is given once it is named
// comes behind all that the stream named before it was given until then.
//
//   S1   ... makes X | op ................. E1 |                      | behind E2: reads Y |
//   S2               |   op: X goes out        '- behind E1 ... E2 ---'
//
// So what the session has one stream wait for holds for all of them. A framework that names one stream pays a
// comparison; one that names several in turn has them run one after the other at the session's calls.
//
// Threads: none, as its session.

#include "device/device.h"
#include "swap/event_pool.h"
#include "swap/followed_copies.h"

namespace tidemark::swap {

class FrameworkStreams {
 public:
  explicit FrameworkStreams(Device& device) : device_(device), events_(device) {}
  FrameworkStreams(const FrameworkStreams&) = delete;
  FrameworkStreams& operator=(const FrameworkStreams&) = delete;

  /// The stream is named. A failure leaves the order as it was: the next call tries again. Without events the host
  /// waits. REQUIRES: the stream named before still exists.
  [[nodiscard]] DeviceCode enter(FrameworkStream stream);
  [[nodiscard]] Device& device() { return device_; }

 private:
  [[nodiscard]] DeviceCode order(StreamHandle earlier, StreamHandle later);

  Device& device_;
  EventPool events_;
  FrameworkStream last_;
};

}  // namespace tidemark::swap
