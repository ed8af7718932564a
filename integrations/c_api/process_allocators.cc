#include "integrations/c_api/process_allocators.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/launch_queue_device.h"
#include "integrations/c_api/open_device.h"
#include "integrations/c_api/submit_queued.h"

namespace tidemark::c_api {
namespace {

/// Lines to stderr, one after the other. The lock is our own since a fork must not leave spdlog's locked in the child.
class Log {
 public:
  void write(spdlog::level::level_enum level, const std::string& text) {
    const std::lock_guard lock(mutex_);
    logger_.log(level, text);
  }

 private:
  std::mutex mutex_;
  spdlog::logger logger_{"tidemark", std::make_shared<spdlog::sinks::stderr_sink_st>()};
  const ForkHandlers at_fork_{ForkLevel::device, held_over_a_fork(mutex_)};
};

// Made while the library is loaded, and never destroyed: a fork during a first use would leave the child waiting for
// that for ever.
Log& process_log = *new Log;
ProcessAllocators& family_of_cuda = *new ProcessAllocators("cuda");
ProcessAllocators& family_of_ascend = *new ProcessAllocators("ascend");

/// The device asked for by the environment, or the family's own.
const char* wanted_device(const char* family) {
  const char* named = std::getenv("TIDEMARK_ALLOCATOR_DEVICE");
  return named == nullptr || *named == '\0' ? family : named;
}

/// Length of the history in snapshots, which a framework has no hook for; none unless asked for.
std::size_t wanted_trace_entries() {
  constexpr long kMost = 1 << 24;
  const char* wanted = std::getenv("TIDEMARK_ALLOCATOR_TRACE_ENTRIES");
  const long entries = wanted == nullptr ? 0 : std::strtol(wanted, nullptr, 10);
  return static_cast<std::size_t>(std::clamp(entries, 0L, kMost));
}

/// torch_npu hands out streams without draining its queue of launches, so an event recorded on one from here may come
/// before kernels that were called earlier, unless the queue is submitted first.
void warn_of_task_queue() {
  const char* setting = std::getenv("TASK_QUEUE_ENABLE");
  if (setting != nullptr && std::strcmp(setting, "0") == 0) return;
  log_warning(
      "torch_npu may queue launches (TASK_QUEUE_ENABLE is not 0): an event recorded by this allocator can come before "
      "kernels called earlier, and memory used on several streams be reused too soon. Give "
      "tidemark_npu_set_submit_queued() the function of integrations/npu_shim, or set TASK_QUEUE_ENABLE=0.");
}

}  // namespace

void log_error(const std::string& text) noexcept {
  try {
    process_log.write(spdlog::level::err, text);
  } catch (...) {  // a log that cannot be written changes nothing
  }
}

void log_warning(const std::string& text) noexcept {
  try {
    process_log.write(spdlog::level::warn, text);
  } catch (...) {
  }
}

tidemark_allocator* ProcessAllocators::open_slot(int index) {
  const auto i = static_cast<std::size_t>(index);
  const std::lock_guard lock(mutex_);
  if (tidemark_allocator* open = slots_[i].load(std::memory_order_acquire)) return open;
  if (refused_[i]) return nullptr;
  const char* name = wanted_device(device_name_);
  tidemark_device_options options{};
  options.ordinal = index;
  Result<std::unique_ptr<Device>> device = open_device(name, options);
  if (!device) {
    refused_[i] = true;
    log_error("allocator for device " + std::to_string(index) + ": " + device.error().message);
    return nullptr;
  }
  if (std::strcmp(name, "ascend") == 0 && submitting_.load() == nullptr) warn_of_task_queue();
  auto* made = new tidemark_allocator(std::shared_ptr<Device>(below_launches(std::move(device).value(), index)),
                                      {.trace_entries = wanted_trace_entries(), .device_index = index});
  made->of_process = true;
  slots_[i].store(made, std::memory_order_release);
  return made;
}

void ProcessAllocators::set_submit_queued(tidemark_submit_queued submit_queued, void* user) {
  if (submit_queued == nullptr) {
    submitting_ = nullptr;
    return;
  }
  const std::lock_guard lock(mutex_);
  was_set_.push_front({.submit_queued = submit_queued, .user = user});
  submitting_ = &was_set_.front();
}

/// Of a family that may have such a framework: CUDA's has none.
std::unique_ptr<Device> ProcessAllocators::below_launches(std::unique_ptr<Device> device, int index) const {
  if (this != &family_of_ascend) return device;
  return make_launch_queue_device(std::move(device), [this, index](std::string& why) {
    const Submitting* const now = submitting_.load();
    return now == nullptr ? DeviceCode::ok : submit_through(now->submit_queued, now->user, index, why);
  });
}

tidemark_allocator* ProcessAllocators::refuse_index(int index) {
  if (!refused_an_index_.exchange(true))
    log_error("allocator for device " + std::to_string(index) + ": device indices are 0 to " +
              std::to_string(kMostDevices - 1) + "; nothing is allocated, freed or set for any other");
  return nullptr;
}

tidemark_allocator* ProcessAllocators::owner_of(Address address) const {
  tidemark_allocator* owner = nullptr;
  for_each([&](tidemark_allocator& a) {
    if (owner == nullptr && a.group.block_bytes(address) > 0) owner = &a;
  });
  return owner;
}

ProcessAllocators::Block ProcessAllocators::block_around(Address address) const {
  if (const tidemark_allocator* owner = owner_of(address)) {
    return {.base = address, .bytes = owner->group.block_bytes(address)};
  }
  Block found;
  for_each([&](const tidemark_allocator& a) {
    if (found.base != 0) return;
    for (const allocator::SnapshotSegment& segment : a.group.snapshot().segments) {
      for (const allocator::SnapshotBlock& block : segment.blocks) {
        const bool live = block.state == allocator::SnapshotBlock::State::active_allocated;
        if (live && block.address <= address && address - block.address < static_cast<Address>(block.size))
          found = {.base = block.address, .bytes = block.size};
      }
    }
  });
  return found;
}

ProcessAllocators& cuda_allocators() {
  return family_of_cuda;
}

ProcessAllocators& npu_allocators() {
  return family_of_ascend;
}

}  // namespace tidemark::c_api
