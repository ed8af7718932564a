// A loadable stand-in for libcuda.so.1: the part of the CUDA driver API that the cuda back end uses, carried out in
// host memory. It is no GPU and runs no GPU code: our three kernels are recognised by name and done by the CPU.
//
// Rules of the documentation that it enforces: cuInit first (else NOT_INITIALIZED); a current context where one is
// needed (INVALID_CONTEXT); sizes, offsets and flags of the virtual memory functions, whole handles in map and unmap,
// no access before cuMemSetAccess, and from those devices only that it named; registered memory registered once; sticky
// errors after a fault on the device. cuMemFree and cuMemFreeHost wait for the device; cuMemUnmap does not, so
// unmapping under an operation in flight is a fault. While the setting `capturing` is not 0, a stream somewhere is
// captured in the global mode: calls that would end the capture are violations unless the thread has gone to the
// relaxed mode, cuCtxSynchronize() in any mode.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "device/cuda_kernels.h"
#include "device/pattern.h"
#include "tests/support/stand_in/controls.h"
#include "tests/support/stand_in/machine.h"

namespace {

using namespace tidemark::cuda;  // NOLINT: the constants and types of the API
using stand_in::machine;
using stand_in::Machine;
using stand_in::MemoryKind;
using stand_in::Operation;
using stand_in::Place;
using stand_in::Range;

constexpr int kDevices = 2;
constexpr std::size_t kAlignment = 512;
constexpr int kCaptureGlobal = 0;

/// What the opaque handles point to.
struct StandInContext {
  std::atomic<int> retained = 0;
};
struct StandInModule {
  std::set<std::string> functions;
};

struct State {
  Machine machine{kIllegalAddress};
  std::mutex mutex;
  std::atomic<bool> started = false;
  StandInContext contexts[kDevices];
  stand_in::Stream* default_stream = nullptr;
  std::mutex report_mutex;
};

State& state() {
  static auto* const the_state = new State;  // never destroyed: its threads live as long as the process
  return *the_state;
}

thread_local StandInContext* current = nullptr;
thread_local int capture_mode = kCaptureGlobal;

/// The device of the calling thread's context, as a bit: what it submits runs there.
unsigned device_bit() {
  return 1U << (current - state().contexts);
}

}  // namespace

stand_in::Machine& stand_in::machine() {
  return state().machine;
}

namespace {

/// What every call answers before it does anything: an injected fault, a sticky error, no cuInit, no context.
Code begin(const char* call, bool needs_context = true) {
  if (const int code = machine().injected(call)) return code;
  if (const int code = machine().sticky()) return code;
  if (!state().started) return kNotInitialized;
  if (needs_context && (current == nullptr || current->retained == 0)) return kInvalidContext;
  return kSuccess;
}

#define BEGIN(...) \
  if (const Code begun = begin(__VA_ARGS__); begun != kSuccess) return begun

/// What a capture elsewhere does not survive.
void endanger_capture(const char* call, bool in_any_mode = false) {
  if (machine().get("capturing") == 0 || (capture_mode == kCaptureRelaxed && !in_any_mode)) return;
  machine().violate(std::string(call) + " ended a capture");
}

stand_in::Stream* stream_of(Stream stream) {
  if (stream != nullptr) return machine().find_stream(stream);
  const std::lock_guard lock(state().mutex);
  if (state().default_stream == nullptr) state().default_stream = machine().create_stream();
  return state().default_stream;
}

void* pointer(Pointer at) {
  return reinterpret_cast<void*>(static_cast<Place>(at));
}

/// Pinned host memory joins the ranges to watch; with pageable memory the call waits for the copy.
Code copy(Operation operation, Range host, bool is_out, Stream stream) {
  stand_in::Stream* const on = stream_of(stream);
  if (on == nullptr) return kInvalidHandle;
  const bool pinned = machine().is_pinned(host);
  machine().count_copy(on, is_out, host.bytes, pinned);
  if (pinned) operation.host_ranges.push_back(host);
  operation.runs_on = device_bit();
  machine().submit(on, std::move(operation));
  if (pinned) return kSuccess;  // a fault is told later, as on a GPU
  machine().synchronize(on);
  return machine().sticky();
}

template <class Value>
Value parameter(void** parameters, int index) {
  Value value{};
  std::memcpy(&value, parameters[index], sizeof value);
  return value;
}

struct PatternArguments {
  Pointer address = 0;
  std::uint64_t words = 0, first = 0;
  std::uint32_t tail = 0;
};

PatternArguments pattern_arguments(void** parameters) {
  return {parameter<Pointer>(parameters, 0), parameter<std::uint64_t>(parameters, 1),
          parameter<std::uint64_t>(parameters, 2), parameter<std::uint32_t>(parameters, 3)};
}

Range range_of(const PatternArguments& arguments) {
  return {static_cast<Place>(arguments.address), arguments.words * 8 + arguments.tail};
}

void fill(const PatternArguments& arguments) {
  auto* at = static_cast<unsigned char*>(pointer(arguments.address));
  std::uint64_t word = arguments.first;
  for (std::uint64_t i = 0; i < arguments.words; ++i, at += 8, word += tidemark::kPatternStep)
    std::memcpy(at, &word, 8);
  std::memcpy(at, &word, arguments.tail);
}

bool holds(const PatternArguments& arguments) {
  const auto* at = static_cast<const unsigned char*>(pointer(arguments.address));
  std::uint64_t word = arguments.first;
  for (std::uint64_t i = 0; i < arguments.words; ++i, at += 8, word += tidemark::kPatternStep) {
    if (std::memcmp(at, &word, 8) != 0) return false;
  }
  return std::memcmp(at, &word, arguments.tail) == 0;
}

Operation fill_operation(void** parameters) {
  const PatternArguments arguments = pattern_arguments(parameters);
  return {.run = [arguments] { fill(arguments); }, .device_ranges = {range_of(arguments)}};
}

Operation check_operation(void** parameters) {
  const PatternArguments arguments = pattern_arguments(parameters);
  const auto at = parameter<Pointer>(parameters, 4);
  const auto serial = parameter<std::uint64_t>(parameters, 5);
  Report found{.taken = 1,
               .work_id = parameter<std::int64_t>(parameters, 6),
               .address = arguments.address,
               .bytes = parameter<std::int64_t>(parameters, 7),
               .seed = parameter<std::uint64_t>(parameters, 8)};
  const auto run = [arguments, at, serial, found]() mutable {
    if (holds(arguments)) return;
    const std::lock_guard lock(state().report_mutex);
    auto* const report = static_cast<Report*>(pointer(at));
    auto* const slots = reinterpret_cast<std::uint64_t*>(report + 1);
    if (std::exchange(slots[serial % kReportSlots], serial) == serial) return;
    found.mismatches = report->mismatches + 1;
    if (report->taken != 0) {
      report->mismatches = found.mismatches;
    } else {
      *report = found;
    }
  };
  return {.run = run, .device_ranges = {range_of(arguments), {static_cast<Place>(at), sizeof(Report)}}};
}

Operation spin_operation(void** parameters) {
  const auto duration_ns = parameter<std::int64_t>(parameters, 0);
  return {.run = [duration_ns] { std::this_thread::sleep_for(std::chrono::nanoseconds(duration_ns)); }};
}

bool is_on_device(const AllocationProperties* properties) {
  return properties != nullptr && properties->type == kAllocationPinned &&
         properties->location.type == kLocationDevice && properties->location.id >= 0 &&
         properties->location.id < kDevices;
}

}  // namespace

extern "C" {

void stand_in_reset() {
  machine().reset();
  state().default_stream = nullptr;
}

Code cuInit(unsigned flags) {
  if (const int code = machine().injected("cuInit")) return code;
  if (flags != 0) return kInvalidValue;
  (void)stream_of(nullptr);  // so that it is among the streams from the start
  const std::lock_guard lock(state().mutex);
  state().started = true;
  return kSuccess;
}

Code cuGetErrorName(Code code, const char** text) {
  *text = code == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : code == kSuccess ? "CUDA_SUCCESS" : "a CUDA error";
  return kSuccess;
}

Code cuGetErrorString(Code code, const char** text) {
  thread_local std::string message;
  message = code == machine().sticky() ? machine().message() : "reported by the stand-in";
  *text = message.c_str();
  return kSuccess;
}

Code cuDeviceGet(DeviceNumber* device, int ordinal) {
  BEGIN("cuDeviceGet", false);
  if (ordinal < 0 || ordinal >= kDevices) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

Code cuDeviceGetCount(int* count) {
  BEGIN("cuDeviceGetCount", false);
  *count = kDevices;
  return kSuccess;
}

Code cuDeviceGetName(char* name, int bytes, DeviceNumber device) {
  BEGIN("cuDeviceGetName", false);
  if (device < 0 || device >= kDevices || bytes <= 0) return kInvalidValue;
  std::strncpy(name, "CUDA driver stand-in (host memory, no GPU)", static_cast<std::size_t>(bytes));
  name[bytes - 1] = '\0';
  return kSuccess;
}

Code cuDeviceGetAttribute(int* value, int attribute, DeviceNumber) {
  BEGIN("cuDeviceGetAttribute", false);
  *value = attribute == kAttributeHostRegister    ? static_cast<int>(machine().get("host_register"))
           : attribute == kAttributeVirtualMemory ? static_cast<int>(machine().get("mapping"))
                                                  : 0;
  return kSuccess;
}

Code cuDeviceGetPCIBusId(char* text, int bytes, DeviceNumber) {
  BEGIN("cuDeviceGetPCIBusId", false);
  std::strncpy(text, "FFFF:FF:1F.0", static_cast<std::size_t>(bytes));
  return kSuccess;
}

Code cuDeviceCanAccessPeer(int* can, DeviceNumber device, DeviceNumber peer) {
  BEGIN("cuDeviceCanAccessPeer", false);
  if (device < 0 || device >= kDevices || peer < 0 || peer >= kDevices) return kInvalidDevice;
  *can = device != peer && machine().get("peer_access") != 0 ? 1 : 0;
  return kSuccess;
}

Code cuThreadExchangeStreamCaptureMode(int* mode) {
  BEGIN("cuThreadExchangeStreamCaptureMode", false);
  if (*mode < kCaptureGlobal || *mode > kCaptureRelaxed) return kInvalidValue;
  std::swap(capture_mode, *mode);
  return kSuccess;
}

Code cuDevicePrimaryCtxRetain(Context* context, DeviceNumber device) {
  BEGIN("cuDevicePrimaryCtxRetain", false);
  if (device < 0 || device >= kDevices) return kInvalidDevice;
  const std::lock_guard lock(state().mutex);
  ++state().contexts[device].retained;
  *context = reinterpret_cast<Context>(&state().contexts[device]);
  return kSuccess;
}

Code cuDevicePrimaryCtxRelease_v2(DeviceNumber device) {
  if (!state().started) return kNotInitialized;
  const std::lock_guard lock(state().mutex);
  if (state().contexts[device].retained == 0) return kInvalidContext;
  --state().contexts[device].retained;
  return kSuccess;
}

Code cuCtxGetCurrent(Context* context) {
  BEGIN("cuCtxGetCurrent", false);
  *context = reinterpret_cast<Context>(current);
  return kSuccess;
}

Code cuCtxSetCurrent(Context context) {
  BEGIN("cuCtxSetCurrent", false);
  current = reinterpret_cast<StandInContext*>(context);
  return kSuccess;
}

Code cuCtxSynchronize() {
  BEGIN("cuCtxSynchronize");
  endanger_capture("cuCtxSynchronize", true);
  machine().synchronize_all();
  return machine().sticky();
}

Code cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  BEGIN("cuCtxGetStreamPriorityRange");
  *least = 0;
  *greatest = -5;
  return kSuccess;
}

Code cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  BEGIN("cuMemGetInfo");
  *total = static_cast<std::size_t>(machine().get("capacity_bytes"));
  *free = static_cast<std::size_t>(machine().free_device_bytes());
  return kSuccess;
}

Code cuMemAlloc_v2(Pointer* at, std::size_t bytes) {
  BEGIN("cuMemAlloc");
  endanger_capture("cuMemAlloc");
  if (bytes == 0) return kInvalidValue;
  void* const got = machine().allocate(bytes, MemoryKind::device, kAlignment, 0, 0);
  *at = reinterpret_cast<Place>(got);
  return got != nullptr ? kSuccess : kOutOfMemory;
}

Code cuMemFree_v2(Pointer at) {
  BEGIN("cuMemFree");
  endanger_capture("cuMemFree");
  machine().synchronize_all();
  return machine().free(pointer(at), MemoryKind::device) ? kSuccess : kInvalidValue;
}

Code cuMemHostAlloc(void** at, std::size_t bytes, unsigned flags) {
  BEGIN("cuMemHostAlloc");
  if (bytes == 0 || flags > 7) return kInvalidValue;
  *at = machine().allocate(bytes, MemoryKind::pinned, 4096, 0, 0);
  return *at != nullptr ? kSuccess : kOutOfMemory;
}

Code cuMemFreeHost(void* at) {
  BEGIN("cuMemFreeHost");
  machine().synchronize_all();
  return machine().free(at, MemoryKind::pinned) ? kSuccess : kInvalidValue;
}

Code cuMemHostRegister_v2(void* at, std::size_t bytes, unsigned) {
  BEGIN("cuMemHostRegister");
  if (at == nullptr || bytes == 0) return kInvalidValue;
  if (machine().get("host_register") == 0) return kNotSupported;
  return machine().add_registered(at, bytes) ? kSuccess : kHostMemoryAlreadyRegistered;
}

Code cuMemHostUnregister(void* at) {
  BEGIN("cuMemHostUnregister");
  return machine().free(at, MemoryKind::registered) ? kSuccess : kHostMemoryNotRegistered;
}

Code cuMemGetAllocationGranularity(std::size_t* bytes, const AllocationProperties* properties, int option) {
  BEGIN("cuMemGetAllocationGranularity");
  if (!is_on_device(properties) || option < 0 || option > 1) return kInvalidValue;
  *bytes = static_cast<std::size_t>(machine().get("granule_bytes"));
  return kSuccess;
}

Code cuMemAddressReserve(Pointer* base, std::size_t bytes, std::size_t alignment, Pointer, unsigned long long flags) {
  BEGIN("cuMemAddressReserve");
  if (!machine().is_granular(bytes) || (alignment & (alignment - 1)) != 0 || flags != 0) return kInvalidValue;
  const auto granule = static_cast<std::size_t>(machine().get("granule_bytes"));
  void* const got = machine().reserve(bytes, std::max(alignment, granule));
  *base = reinterpret_cast<Place>(got);
  return got != nullptr ? kSuccess : kOutOfMemory;
}

Code cuMemAddressFree(Pointer base, std::size_t bytes) {
  BEGIN("cuMemAddressFree");
  return bytes > 0 && machine().release_range(static_cast<Place>(base), bytes) ? kSuccess : kInvalidValue;
}

Code cuMemCreate(Handle* handle, std::size_t bytes, const AllocationProperties* properties, unsigned long long flags) {
  BEGIN("cuMemCreate");
  if (!machine().is_granular(bytes) || !is_on_device(properties) || flags != 0) return kInvalidValue;
  stand_in::Physical* const physical = machine().create_physical(bytes);
  *handle = reinterpret_cast<Place>(physical);
  return physical != nullptr ? kSuccess : kOutOfMemory;
}

Code cuMemRelease(Handle handle) {
  BEGIN("cuMemRelease");
  auto* const physical = static_cast<stand_in::Physical*>(pointer(handle));
  return machine().release_physical(physical) ? kSuccess : kInvalidValue;
}

Code cuMemMap(Pointer at, std::size_t bytes, std::size_t offset, Handle handle, unsigned long long flags) {
  BEGIN("cuMemMap");
  if (!machine().is_granular(bytes) || !machine().is_granular(static_cast<std::size_t>(at)) || offset != 0 ||
      flags != 0) {
    return kInvalidValue;
  }
  auto* const physical = static_cast<stand_in::Physical*>(pointer(handle));
  return machine().map(static_cast<Place>(at), bytes, physical, 0, false) ? kSuccess : kInvalidValue;
}

Code cuMemUnmap(Pointer at, std::size_t bytes) {
  BEGIN("cuMemUnmap");
  return bytes > 0 && machine().unmap(static_cast<Place>(at), bytes) ? machine().sticky() : kInvalidValue;
}

Code cuMemSetAccess(Pointer at, std::size_t bytes, const AccessDescription* description, std::size_t count) {
  BEGIN("cuMemSetAccess");
  if (count == 0 || description == nullptr) return kInvalidValue;
  unsigned access = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Location where = description[i].location;
    if (description[i].flags != kAccessReadWrite || where.type != kLocationDevice) return kInvalidValue;
    if (where.id < 0 || where.id >= kDevices) return kInvalidDevice;
    access |= 1U << where.id;
  }
  return machine().allow(static_cast<Place>(at), bytes, access) ? kSuccess : kInvalidValue;
}

Code cuStreamCreateWithPriority(Stream* stream, unsigned flags, int) {
  BEGIN("cuStreamCreateWithPriority");
  if (flags > 1) return kInvalidValue;
  *stream = reinterpret_cast<Stream>(machine().create_stream());
  return kSuccess;
}

Code cuStreamDestroy_v2(Stream stream) {
  BEGIN("cuStreamDestroy");
  stand_in::Stream* const found = machine().find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  machine().destroy_stream(found);
  return kSuccess;
}

Code cuStreamSynchronize(Stream stream) {
  BEGIN("cuStreamSynchronize");
  stand_in::Stream* const found = stream_of(stream);
  if (found == nullptr) return kInvalidHandle;
  machine().synchronize(found);
  return machine().sticky();
}

Code cuStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  BEGIN("cuStreamWaitEvent");
  stand_in::Stream* const on = stream_of(stream);
  stand_in::Event* const found = machine().find_event(event);
  if (on == nullptr || found == nullptr) return kInvalidHandle;
  if (flags != 0) return kInvalidValue;
  machine().wait(on, found);
  return kSuccess;
}

Code cuEventCreate(Event* event, unsigned flags) {
  BEGIN("cuEventCreate");
  *event = reinterpret_cast<Event>(machine().create_event(flags));
  return kSuccess;
}

Code cuEventDestroy_v2(Event event) {
  BEGIN("cuEventDestroy");
  stand_in::Event* const found = machine().find_event(event);
  if (found == nullptr) return kInvalidHandle;
  machine().destroy_event(found);
  return kSuccess;
}

Code cuEventRecord(Event event, Stream stream) {
  BEGIN("cuEventRecord");
  stand_in::Stream* const on = stream_of(stream);
  stand_in::Event* const found = machine().find_event(event);
  if (on == nullptr || found == nullptr) return kInvalidHandle;
  return machine().record(found, on) ? kSuccess : kOutOfMemory;
}

Code cuEventQuery(Event event) {
  BEGIN("cuEventQuery");
  stand_in::Event* const found = machine().find_event(event);
  if (found == nullptr) return kInvalidHandle;
  return machine().is_done(found) ? kSuccess : kNotReady;
}

Code cuEventSynchronize(Event event) {
  BEGIN("cuEventSynchronize");
  stand_in::Event* const found = machine().find_event(event);
  if (found == nullptr) return kInvalidHandle;
  (void)machine().synchronize(found, -1);
  return machine().sticky();
}

Code cuMemcpyHtoDAsync_v2(Pointer to, const void* from, std::size_t bytes, Stream stream) {
  BEGIN("cuMemcpyHtoDAsync");
  void* const target = pointer(to);
  Operation operation{.run = [=] { std::memcpy(target, from, bytes); },
                      .device_ranges = {{static_cast<Place>(to), bytes}}};
  return copy(std::move(operation), {reinterpret_cast<Place>(from), bytes}, false, stream);
}

Code cuMemcpyDtoHAsync_v2(void* to, Pointer from, std::size_t bytes, Stream stream) {
  BEGIN("cuMemcpyDtoHAsync");
  const void* const source = pointer(from);
  Operation operation{.run = [=] { std::memcpy(to, source, bytes); },
                      .device_ranges = {{static_cast<Place>(from), bytes}}};
  return copy(std::move(operation), {reinterpret_cast<Place>(to), bytes}, true, stream);
}

Code cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t bytes, Stream stream) {
  BEGIN("cuMemcpyDtoDAsync");
  void* const target = pointer(to);
  const void* const source = pointer(from);
  stand_in::Stream* const on = stream_of(stream);
  if (on == nullptr) return kInvalidHandle;
  machine().submit(on, {.run = [=] { std::memmove(target, source, bytes); },
                        .device_ranges = {{static_cast<Place>(to), bytes}, {static_cast<Place>(from), bytes}},
                        .runs_on = device_bit()});
  return kSuccess;
}

Code cuMemcpyDtoH_v2(void* to, Pointer from, std::size_t bytes) {
  BEGIN("cuMemcpyDtoH");
  machine().count("synchronous_copies");
  const void* const source = pointer(from);
  machine().submit(stream_of(nullptr), {.run = [=] { std::memcpy(to, source, bytes); },
                                        .device_ranges = {{static_cast<Place>(from), bytes}},
                                        .runs_on = device_bit()});
  return cuStreamSynchronize(nullptr);
}

Code cuMemsetD8_v2(Pointer to, unsigned char value, std::size_t bytes) {
  BEGIN("cuMemsetD8");
  void* const target = pointer(to);
  machine().submit(stream_of(nullptr), {.run = [=] { std::memset(target, value, bytes); },
                                        .device_ranges = {{static_cast<Place>(to), bytes}},
                                        .runs_on = device_bit()});
  return cuStreamSynchronize(nullptr);
}

Code cuLaunchHostFunc(Stream stream, void (*function)(void*), void* argument) {
  BEGIN("cuLaunchHostFunc");
  stand_in::Stream* const on = stream_of(stream);
  if (on == nullptr) return kInvalidHandle;
  if (function == nullptr) return kInvalidValue;
  machine().submit(on, {.run = [=] { function(argument); }});
  return kSuccess;
}

Code cuModuleLoadData(Module* module, const void* image) {
  BEGIN("cuModuleLoadData");
  const std::string text = static_cast<const char*>(image);
  if (text.find(".version") == std::string::npos || text.find(".address_size 64") == std::string::npos) {
    return kInvalidPtx;
  }
  auto loaded = std::make_unique<StandInModule>();
  for (const char* const name : {kFillName, kCheckName, kSpinName}) {
    if (text.find(".entry " + std::string(name) + "(") != std::string::npos) loaded->functions.insert(name);
  }
  *module = reinterpret_cast<Module>(loaded.release());
  return kSuccess;
}

Code cuModuleUnload(Module module) {
  BEGIN("cuModuleUnload");
  delete reinterpret_cast<StandInModule*>(module);
  return kSuccess;
}

Code cuModuleGetFunction(Function* function, Module module, const char* name) {
  BEGIN("cuModuleGetFunction");
  const auto& functions = reinterpret_cast<StandInModule*>(module)->functions;
  const auto found = functions.find(name);
  if (found == functions.end()) return kNotFound;
  *function = reinterpret_cast<Function>(const_cast<std::string*>(&*found));
  return kSuccess;
}

Code cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                    unsigned block_y, unsigned block_z, unsigned, Stream stream, void** parameters, void** extra) {
  BEGIN("cuLaunchKernel");
  stand_in::Stream* const on = stream_of(stream);
  if (on == nullptr) return kInvalidHandle;
  const bool some = grid_x > 0 && grid_y > 0 && grid_z > 0 && block_x > 0 && block_y > 0 && block_z > 0;
  if (!some || block_x * block_y * block_z > 1024 || parameters == nullptr || extra != nullptr) return kInvalidValue;
  const std::string& name = *reinterpret_cast<const std::string*>(function);
  if (name != kSpinName && parameter<Pointer>(parameters, 0) % 8 != 0) {
    machine().violate("a kernel's 8-byte access was misaligned");
    return kSuccess;  // found out later, as on a GPU
  }
  Operation operation = name == kFillName    ? fill_operation(parameters)
                        : name == kCheckName ? check_operation(parameters)
                                             : spin_operation(parameters);
  operation.runs_on = device_bit();
  machine().submit(on, std::move(operation));
  return kSuccess;
}

}  // extern "C"
