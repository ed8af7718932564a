#pragma once
// A device below a framework that queues its launches (torch_npu's task queue): what the framework has called is on its
// stream only once a thread of its own has submitted it. What we put on such a stream, and what we wait for there, must
// come behind that, so the framework is asked first to submit all that it has queued:
//
//   called      k1  k2  k3 | record E     k4
//   queued          k2  k3 |
//   on stream   k1         | k2 k3  E     k4     the record comes when the queue is empty
//
// Asked before: a record, a wait, a copy and a launch on a stream that was not created here, waiting for such a stream,
// and waiting for the device. Not before what concerns streams created here alone, which the framework does not know:
// they follow its work by events that were recorded so, and what it calls later is submitted later.
//
// Why not through the framework's queue: then each of our calls would fail behind our back, where nobody can give
// something back and try again, a query would have to know of records that are not there yet, and the streams created
// here would have to go through it as well.
//
// Cost: the calling thread waits until the framework's thread has submitted what is queued: not for the device, which
// goes on with it. Nothing where nothing is queued. Threads: as device.h; who calls holds no lock that the framework's
// thread takes, as for a block that it frees.

#include <functional>
#include <memory>
#include <string>

#include "device/device.h"

namespace tidemark {

/// Returns once all that the framework queued for the device before is on its streams: ok. no_resource: the calling
/// thread must not wait for that (the framework's may be waiting for it); lost: the framework has failed. `why` says
/// more. Any thread; must not throw.
using SubmitQueued = std::function<DeviceCode(std::string& why)>;

/// Owns `device`. What `submit_queued` answers other than ok is the answer of the call, which then has done nothing.
[[nodiscard]] std::unique_ptr<Device> make_launch_queue_device(std::unique_ptr<Device> device,
                                                               SubmitQueued submit_queued);

}  // namespace tidemark
