// torch_npu's queue of launches, for the device below its streams (device/launch_queue_device.h): what has been called
// is on its stream once a thread of torch_npu's, the consumer, has carried out the task that stands for it.
//
// What is relied on, by torch_npu's headers and its sources (NPUStream.cpp, NPUQueue.cpp, OpCommand.cpp):
//   - a device has one queue for all of its streams, in the order of the calls, TASK_QUEUE_ENABLE=1 and 2 alike;
//   - NPUStream::stream() returns once the queue of the current device has been found empty, which it is when the last
//     task has been carried out, and stream(false) at once. The wait gives up Python's lock, where the thread has it;
//   - it throws where a task has failed, and torch_npu then means the process to end.
//
// Which threads may wait. With locks of an allocator's held, one that has Python's lock would give that up and want it
// back, while another has it and wants the allocator's. And a thread that Python does not know may be torch_npu's own:
// the consumer, or the one that destroys what tasks held, which the consumer waits for. Both are told to come later.
//
// TASK_QUEUE_ENABLE=2: workspaces are allocated by the consumer, and not from the allocator that is plugged in.

#include <Python.h>
#include <c10/core/DeviceGuard.h>
#include <tidemark/tidemark.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>

#include <cstdint>
#include <cstring>
#include <exception>

#define TIDEMARK_SHIM_API __attribute__((visibility("default")))

namespace {

void say(const char* text, char* why, std::int64_t why_bytes) {
  if (why == nullptr || why_bytes <= 0) return;
  std::strncpy(why, text, static_cast<std::size_t>(why_bytes) - 1);
  why[why_bytes - 1] = '\0';
}

bool has_python_lock() {
  return PyGILState_Check() != 0;
}

bool is_known_to_python() {
  return PyGILState_GetThisThreadState() != nullptr;
}

std::int32_t submit(std::int32_t device, char* why, std::int64_t why_bytes) {
  try {
    const auto index = static_cast<c10::DeviceIndex>(device);
    const c10::DeviceGuard guard(c10::Device(c10::DeviceType::PrivateUse1, index));
    if (c10_npu::getCurrentNPUStream(index).stream() != nullptr) return TIDEMARK_SUBMITTED;
    say("torch_npu says why in its log", why, why_bytes);
  } catch (const std::exception& exception) {
    say(exception.what(), why, why_bytes);
  } catch (...) {
    say("torch_npu does not say why", why, why_bytes);
  }
  return TIDEMARK_SUBMIT_FAILED;
}

}  // namespace

extern "C" {

/// A tidemark_submit_queued for sessions, whose locks are never waited for with Python's held.
TIDEMARK_SHIM_API std::int32_t tidemark_npu_shim_submit_queued(void*, std::int32_t device, char* why,
                                                               std::int64_t why_bytes) {
  return submit(device, why, why_bytes);
}

/// One for the allocators behind the hooks.
TIDEMARK_SHIM_API std::int32_t tidemark_npu_shim_submit_for_allocator(void*, std::int32_t device, char* why,
                                                                      std::int64_t why_bytes) {
  if (is_known_to_python() && !has_python_lock()) return submit(device, why, why_bytes);
  say("this thread has Python's lock, or is torch_npu's own", why, why_bytes);
  return TIDEMARK_SUBMIT_LATER;
}

}  // extern "C"
