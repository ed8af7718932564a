// A loadable stand-in for libascendcl.so: the part of ACL that the ascend back end uses, and some neighbours that are
// easily confused with it, carried out in host memory. It is no NPU.
//
// Rules of ACL's documentation (acl_rt.h 1.17 and its pages) that it enforces:
//  - aclInit once (100002 afterwards), before anything else (100001); a current context where one is needed (107002);
//    streams of that context (107003).
//  - aclrtFree, aclrtFreeHost and aclrtUnmapMem do not wait: under an operation in flight they are a fault of the
//  device
//    (507013), told at the next synchronisation.
//  - aclrtMallocAlign32 adds no pad: the last 32 bytes of what was asked for may not be touched, and are checked at the
//    free. aclrtMalloc adds its own. Addresses are multiples of 64 and of no more.
//  - The same pad behind mapped memory: the last 32 bytes before memory that is not mapped may not be touched.
//  - Whole handles at offset 0, one address each; freed physical memory goes with its mapping.
//  - Asynchronous copies need pinned memory, pageable ones wait; none from host to host (207000).
//  - Events: 65,536 slots, taken at the record (207007). Extended ones may be recorded again and are complete before
//  the
//    first record; reset and the old queries are refused for them (207000); a wait needs the flag SYNC.
//  - A stream is destroyed when its work is done: the caller synchronises first.
//  - Stream first in aclrtStreamWaitEvent, event first in aclrtRecordEvent: handles are told apart.
//  - Host registration asks for 4 KiB alignment.

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "device/acl_runtime.h"
#include "tests/support/stand_in/controls.h"
#include "tests/support/stand_in/machine.h"

namespace {

using namespace tidemark::acl;  // NOLINT: the constants and types of the API
using stand_in::machine;
using stand_in::Machine;
using stand_in::MemoryKind;
using stand_in::Operation;
using stand_in::Place;
using stand_in::Range;

constexpr std::uint32_t kDevices = 2;
constexpr std::size_t kSkew = 64;  ///< blocks begin this far after a multiple of kGrid
constexpr std::size_t kGrid = 4096;
constexpr std::size_t kPad = 32;
constexpr std::size_t kLargestHost = std::size_t{200} << 30;
constexpr unsigned kExtended = 0x8000'0000;  ///< joins the flags of extended events

struct StandInContext {
  std::atomic<bool> open = false;
};

struct State {
  Machine machine{kCopyEngine, kPad};
  std::mutex mutex;
  std::atomic<bool> started = false;
  StandInContext contexts[kDevices];
  std::map<void*, StandInContext*> stream_contexts;
  std::map<StandInContext*, stand_in::Stream*> default_streams;
};

State& state() {
  static auto* const the_state = new State;  // never destroyed: its threads live as long as the process
  return *the_state;
}

thread_local StandInContext* current = nullptr;
thread_local std::string message;

}  // namespace

stand_in::Machine& stand_in::machine() {
  return state().machine;
}

namespace {

Code begin(const char* call, bool needs_context = true) {
  message.clear();
  if (const int code = machine().injected(call)) return code;
  if (!state().started) return kUninitialised;
  if (needs_context && current == nullptr) return kNullContext;
  return kSuccess;
}

#define BEGIN(...) \
  if (const Code begun = begin(__VA_ARGS__); begun != kSuccess) return begun

/// What a synchronisation answers: the device's fault, with its text.
Code told() {
  const Code code = machine().sticky();
  if (code != kSuccess) message = machine().message();
  return code;
}

/// A stream of the current context, or null and the code that says what is wrong.
stand_in::Stream* stream_of(Stream stream, Code& code) {
  const std::lock_guard lock(state().mutex);
  code = kSuccess;
  if (stream == nullptr) {
    stand_in::Stream*& own = state().default_streams[current];
    if (own == nullptr) own = machine().create_stream();
    return own;
  }
  const auto found = state().stream_contexts.find(stream);
  if (found != state().stream_contexts.end() && found->second == current) return machine().find_stream(stream);
  code = kStreamNotInContext;
  return nullptr;
}

Code submit(Stream stream, Operation operation, bool wait) {
  Code code = kSuccess;
  stand_in::Stream* const on = stream_of(stream, code);
  if (on == nullptr) return code;
  machine().submit(on, std::move(operation));
  if (!wait) return kSuccess;
  machine().synchronize(on);
  return told();
}

Place place_of(const void* pointer) {
  return reinterpret_cast<Place>(pointer);
}

bool is_on_device(const PhysicalProperties* properties) {
  return properties != nullptr && properties->handle_type == 0 && properties->allocation_type == 0 &&
         properties->location_type == kLocationDevice && properties->location_id < kDevices;
}

Code allocate(void** pointer, std::size_t bytes, std::size_t added, std::size_t guard, int policy) {
  if (pointer == nullptr || bytes == 0 || policy < 0 || policy > 7 || bytes + added < guard) return kRuntimeParameter;
  *pointer = machine().allocate(bytes + added, MemoryKind::device, kGrid, kSkew, guard);
  return *pointer != nullptr ? kSuccess : kOutOfMemory;
}

Code create_event(Event* event, unsigned flags) {
  if (event == nullptr) return kRuntimeParameter;
  *event = machine().create_event(flags);
  return kSuccess;
}

}  // namespace

extern "C" {

void stand_in_reset() {
  machine().reset();
  const std::lock_guard lock(state().mutex);
  state().default_streams.clear();
  state().stream_contexts.clear();
}

Code aclInit(const char*) {
  if (const int code = machine().injected("aclInit")) return code;
  return state().started.exchange(true) ? kRepeatInit : kSuccess;
}

const char* aclGetRecentErrMsg() {
  return message.empty() ? nullptr : message.c_str();
}

const char* aclrtGetSocName() {
  if (machine().get("chip") == 9101) return "Ascend910B1";  // for who knows chips by name
  return machine().get("chip") == 950 ? "Ascend950 stand-in (host memory, no NPU)"
                                      : "Ascend910B stand-in (host memory, no NPU)";
}

Code aclsysGetCANNVersion(int package, PackageVersion* version) {
  if (package != kPackageCann || version == nullptr) return kInvalidParameter;
  const std::int64_t number = machine().get("version");
  const std::string text = std::to_string(number / 100) + "." + std::to_string(number % 100) + ".RC1";
  std::strncpy(version->version, text.c_str(), sizeof version->version - 1);
  return kSuccess;
}

/// Answers before aclInit as well: torch_npu asks then.
Code aclrtGetDeviceCount(std::uint32_t* count) {
  if (const int code = machine().injected("aclrtGetDeviceCount")) return code;
  *count = kDevices;
  return kSuccess;
}

Code aclrtSetDevice(std::int32_t device) {
  BEGIN("aclrtSetDevice", false);
  if (device < 0 || device >= static_cast<std::int32_t>(kDevices)) return kInvalidDevice;
  current = &state().contexts[device];
  current->open = true;
  return kSuccess;
}

Code aclrtGetDevice(std::int32_t* device) {
  BEGIN("aclrtGetDevice");
  *device = static_cast<std::int32_t>(current - state().contexts);
  return kSuccess;
}

Code aclrtGetCurrentContext(Context* context) {
  BEGIN("aclrtGetCurrentContext");
  *context = current;
  return kSuccess;
}

Code aclrtSetCurrentContext(Context context) {
  BEGIN("aclrtSetCurrentContext", false);
  for (StandInContext& known : state().contexts) {
    if (context != &known || !known.open) continue;
    current = &known;
    return kSuccess;
  }
  return kRuntimeParameter;
}

Code aclrtSynchronizeDevice() {
  BEGIN("aclrtSynchronizeDevice");
  machine().synchronize_all();
  return told();
}

Code aclrtGetMemInfo(int attribute, std::size_t* free, std::size_t* total) {
  BEGIN("aclrtGetMemInfo");
  if (attribute != kHbm) return kRuntimeParameter;
  *total = static_cast<std::size_t>(machine().get("capacity_bytes"));
  *free = static_cast<std::size_t>(machine().free_device_bytes());
  return kSuccess;
}

Code aclrtMalloc(void** pointer, std::size_t bytes, int policy) {
  BEGIN("aclrtMalloc");
  return allocate(pointer, (bytes + kPad - 1) / kPad * kPad, kPad, kPad, policy);
}

Code aclrtMallocAlign32(void** pointer, std::size_t bytes, int policy) {
  BEGIN("aclrtMallocAlign32");
  const auto guard = static_cast<std::size_t>(machine().get("tail_pad_bytes"));
  return allocate(pointer, (bytes + kPad - 1) / kPad * kPad, 0, guard, policy);
}

Code aclrtFree(void* pointer) {
  BEGIN("aclrtFree");
  return machine().free(pointer, MemoryKind::device) ? kSuccess : kRuntimeParameter;
}

Code aclrtMallocHost(void** pointer, std::size_t bytes) {
  BEGIN("aclrtMallocHost");
  if (pointer == nullptr || bytes == 0) return kRuntimeParameter;
  if (bytes > kLargestHost) return kOutOfMemory;
  *pointer = machine().allocate(bytes, MemoryKind::pinned, kGrid, 0, 0);
  return *pointer != nullptr ? kSuccess : kOutOfMemory;
}

Code aclrtFreeHost(void* pointer) {
  BEGIN("aclrtFreeHost");
  return machine().free(pointer, MemoryKind::pinned) ? kSuccess : kRuntimeParameter;
}

Code aclrtHostRegisterV2(void* pointer, std::uint64_t bytes, std::uint32_t) {
  BEGIN("aclrtHostRegisterV2");
  if (machine().get("host_register") == 0) return kUnsupported;
  if (pointer == nullptr || bytes == 0 || place_of(pointer) % 4096 != 0) return kRuntimeParameter;
  return machine().add_registered(pointer, bytes) ? kSuccess : kRuntimeParameter;
}

Code aclrtHostUnregister(void* pointer) {
  BEGIN("aclrtHostUnregister");
  return machine().free(pointer, MemoryKind::registered) ? kSuccess : kRuntimeParameter;
}

Code aclrtMemGetAllocationGranularity(const PhysicalProperties* properties, int option, std::size_t* bytes) {
  BEGIN("aclrtMemGetAllocationGranularity");
  if (!is_on_device(properties) || option < 0 || option > 1) return kRuntimeParameter;
  *bytes = static_cast<std::size_t>(machine().get("granule_bytes"));
  return kSuccess;
}

Code aclrtReserveMemAddress(void** base, std::size_t bytes, std::size_t alignment, void* wish, std::uint64_t flags) {
  BEGIN("aclrtReserveMemAddress");
  if (!machine().is_granular(bytes) || alignment != 0 || wish != nullptr || flags > 1) return kRuntimeParameter;
  *base = machine().reserve(bytes, static_cast<std::size_t>(machine().get("granule_bytes")));
  return *base != nullptr ? kSuccess : kOutOfMemory;
}

Code aclrtReleaseMemAddress(void* base) {
  BEGIN("aclrtReleaseMemAddress");
  return machine().release_range(place_of(base), 0) ? kSuccess : kRuntimeParameter;
}

Code aclrtMallocPhysical(PhysicalHandle* handle, std::size_t bytes, const PhysicalProperties* properties,
                         std::uint64_t flags) {
  BEGIN("aclrtMallocPhysical");
  if (!machine().is_granular(bytes) || !is_on_device(properties) || flags != 0) return kRuntimeParameter;
  *handle = machine().create_physical(bytes);
  return *handle != nullptr ? kSuccess : kDeviceOutOfMemory;
}

Code aclrtFreePhysical(PhysicalHandle handle) {
  BEGIN("aclrtFreePhysical");
  return machine().release_physical(static_cast<stand_in::Physical*>(handle)) ? kSuccess : kRuntimeParameter;
}

Code aclrtMapMem(void* at, std::size_t bytes, std::size_t offset, PhysicalHandle handle, std::uint64_t flags) {
  BEGIN("aclrtMapMem");
  if (!machine().is_granular(bytes) || !machine().is_granular(place_of(at)) || offset != 0 || flags != 0)
    return kRuntimeParameter;
  auto* const physical = static_cast<stand_in::Physical*>(handle);
  return machine().map(place_of(at), bytes, physical, 1, true) ? kSuccess : kRuntimeParameter;
}

Code aclrtUnmapMem(void* at) {
  BEGIN("aclrtUnmapMem");
  return machine().unmap(place_of(at), 0) ? kSuccess : kRuntimeParameter;
}

Code aclrtCreateStream(Stream* stream) {
  BEGIN("aclrtCreateStream");
  *stream = machine().create_stream();
  const std::lock_guard lock(state().mutex);
  state().stream_contexts[*stream] = current;
  return kSuccess;
}

Code aclrtDestroyStream(Stream stream) {
  BEGIN("aclrtDestroyStream");
  Code code = kSuccess;
  stand_in::Stream* const found = stream_of(stream, code);
  if (stream == nullptr || found == nullptr) return stream == nullptr ? kRuntimeParameter : code;
  if (!machine().is_idle(found)) machine().violate("a stream was destroyed with work on it");
  machine().destroy_stream(found);
  const std::lock_guard lock(state().mutex);
  state().stream_contexts.erase(stream);
  return kSuccess;
}

Code aclrtSynchronizeStream(Stream stream) {
  BEGIN("aclrtSynchronizeStream");
  Code code = kSuccess;
  stand_in::Stream* const found = stream_of(stream, code);
  if (found == nullptr) return code;
  machine().synchronize(found);
  return told();
}

Code aclrtStreamWaitEvent(Stream stream, Event event) {
  BEGIN("aclrtStreamWaitEvent");
  Code code = kSuccess;
  stand_in::Stream* const on = stream_of(stream, code);
  if (on == nullptr) return code;
  stand_in::Event* const found = machine().find_event(event);
  if (found == nullptr || (found->flags & kEventSync) == 0) return kRuntimeParameter;
  machine().wait(on, found);
  return kSuccess;
}

Code aclrtCreateEvent(Event* event) {
  BEGIN("aclrtCreateEvent");
  return create_event(event, kEventSync);
}

Code aclrtCreateEventWithFlag(Event* event, std::uint32_t flags) {
  BEGIN("aclrtCreateEventWithFlag");
  if (flags > 0x7F) return kRuntimeParameter;
  return create_event(event, flags);
}

Code aclrtCreateEventExWithFlag(Event* event, std::uint32_t flags) {
  BEGIN("aclrtCreateEventExWithFlag");
  if (flags == 0 || flags > 0x7F) return kRuntimeParameter;
  return create_event(event, flags | kExtended);
}

Code aclrtDestroyEvent(Event event) {
  BEGIN("aclrtDestroyEvent");
  stand_in::Event* const found = machine().find_event(event);
  if (found == nullptr) return kRuntimeParameter;
  machine().destroy_event(found);
  return kSuccess;
}

/// Events of the older kind are recorded once until they are reset.
Code aclrtRecordEvent(Event event, Stream stream) {
  BEGIN("aclrtRecordEvent");
  stand_in::Event* const found = machine().find_event(event);
  if (found == nullptr) return kRuntimeParameter;
  Code code = kSuccess;
  stand_in::Stream* const on = stream_of(stream, code);
  if (on == nullptr) return code;
  return machine().record(found, on) ? kSuccess : kNoEventResource;
}

Code aclrtResetEvent(Event event, Stream) {
  BEGIN("aclrtResetEvent");
  stand_in::Event* const found = machine().find_event(event);
  if (found == nullptr) return kRuntimeParameter;
  return (found->flags & kExtended) != 0 ? kUnsupported : kSuccess;
}

/// The older query: 0 is complete, 1 is not.
Code aclrtQueryEvent(Event event, int* status) {
  BEGIN("aclrtQueryEvent");
  stand_in::Event* const found = machine().find_event(event);
  if (found == nullptr) return kRuntimeParameter;
  if ((found->flags & kExtended) != 0) return kUnsupported;
  *status = machine().is_done(found) ? 0 : 1;
  return kSuccess;
}

Code aclrtQueryEventWaitStatus(Event event, int* status) {
  return aclrtQueryEvent(event, status);
}

/// 1 is complete, 0 is not.
Code aclrtQueryEventStatus(Event event, int* status) {
  BEGIN("aclrtQueryEventStatus");
  stand_in::Event* const found = machine().find_event(event);
  if (found == nullptr) return kRuntimeParameter;
  *status = machine().is_done(found) ? 1 : 0;
  return kSuccess;
}

Code aclrtSynchronizeEventWithTimeout(Event event, std::int32_t timeout_ms) {
  BEGIN("aclrtSynchronizeEventWithTimeout");
  stand_in::Event* const found = machine().find_event(event);
  if (found == nullptr || timeout_ms < -1 || timeout_ms == 0) return kRuntimeParameter;
  return machine().synchronize(found, timeout_ms) ? told() : kEventSyncTimeout;
}

Code aclrtSynchronizeEvent(Event event) {
  BEGIN("aclrtSynchronizeEvent");
  return aclrtSynchronizeEventWithTimeout(event, -1);
}

Code aclrtMemcpyAsync(void* to, std::size_t room, const void* from, std::size_t bytes, int kind, Stream stream) {
  BEGIN("aclrtMemcpyAsync");
  if (to == nullptr || from == nullptr || bytes == 0 || room < bytes) return kRuntimeParameter;
  const Range target{place_of(to), bytes}, source{place_of(from), bytes};
  Operation operation{.run = [=] { std::memmove(to, from, bytes); }};
  if (kind == kDeviceToDevice) {
    operation.device_ranges = {target, source};
    return submit(stream, std::move(operation), false);
  }
  if (kind != kHostToDevice && kind != kDeviceToHost) return kind == 0 ? kUnsupported : kRuntimeParameter;
  const Range host = kind == kHostToDevice ? source : target;
  const bool pinned = machine().is_pinned(host);
  operation.device_ranges = {kind == kHostToDevice ? target : source};
  if (pinned) operation.host_ranges = {host};
  Code code = kSuccess;
  if (stand_in::Stream* const on = stream_of(stream, code))
    machine().count_copy(on, kind == kDeviceToHost, bytes, pinned);
  return submit(stream, std::move(operation), !pinned);
}

/// A neighbour that waits, whatever its host side is.
Code aclrtMemcpy(void* to, std::size_t room, const void* from, std::size_t bytes, int kind) {
  BEGIN("aclrtMemcpy");
  if (to == nullptr || from == nullptr || bytes == 0 || room < bytes) return kRuntimeParameter;
  if (kind != kHostToDevice && kind != kDeviceToHost) return kRuntimeParameter;
  machine().count("synchronous_copies");
  const void* const on_device = kind == kHostToDevice ? to : from;
  return submit(nullptr,
                {.run = [=] { std::memmove(to, from, bytes); }, .device_ranges = {{place_of(on_device), bytes}}}, true);
}

Code aclrtLaunchHostFunc(Stream stream, HostFunction function, void* argument) {
  BEGIN("aclrtLaunchHostFunc");
  if (function == nullptr) return kRuntimeParameter;
  return submit(stream, {.run = [=] { function(argument); }}, false);
}

}  // extern "C"
