#include "device/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "device/cuda_driver.h"
#include "device/cuda_kernels.h"
#include "device/process_binding.h"
#include "device/vendor_device.h"

namespace tidemark {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kLargestPinned = 64 * kGiB;  ///< a registration holds a driver lock for about 0.1 s a GiB
constexpr Bytes kBlockAlignment = 512;
constexpr std::int64_t kLongestWaitNs = 1'000'000'000'000'000'000;  ///< 30 years; more would overflow the clock

cuda::Stream stream_of(StreamHandle stream) {
  return reinterpret_cast<cuda::Stream>(stream);
}
cuda::Event event_of(EventHandle event) {
  return reinterpret_cast<cuda::Event>(event);
}
void* pointer_of(Address address) {
  return reinterpret_cast<void*>(address);
}

struct CudaVendor {
  using Library = cuda::Driver;
  using Context = cuda::Context;
  using ContextScope = cuda::ContextScope;
  static constexpr bool kAliasing = true;
  static constexpr const char* kNoMapping = "this GPU or driver has no virtual memory management";
  static constexpr const char* kSetContext = "cuCtxSetCurrent";
  static constexpr const char* kAllocatePinned = "cuMemHostAlloc";
  static constexpr const char* kFreePinned = "cuMemFreeHost";

  static DeviceCode meaning_of(cuda::Code code, VendorCall purpose) { return cuda::device_code_of(code, purpose); }
  static std::string text_of(const cuda::Driver& driver, const char* call, cuda::Code code) {
    return fmt::format("{}: {}", call, driver.text_of(code));
  }
  static void wait_for_all(const cuda::Driver& driver) { (void)driver.context_synchronize(); }
  static PinnedCalls pinned_calls(const cuda::Driver& driver) {
    return {
        .register_pages = [&driver](
                              void* pages,
                              std::size_t bytes) { return driver.host_register(pages, bytes, cuda::kHostPortable); },
        .unregister_pages = [&driver](void* pages) { return driver.host_unregister(pages); },
        .allocate = [&driver](void** pages,
                              std::size_t bytes) { return driver.host_allocate(pages, bytes, cuda::kHostPortable); },
        .free = [&driver](void* pages) { return driver.host_free(pages); },
        .no_memory = cuda::kOutOfMemory};
  }
};

class CudaDevice final : public VendorDevice<CudaVendor> {
 public:
  CudaDevice(cuda::Driver driver, CudaOptions options)
      : VendorDevice(std::move(driver), options.touch_threads), options_(std::move(options)) {}
  ~CudaDevice() override;
  [[nodiscard]] Status open();

  [[nodiscard]] DeviceCode memory_info(MemoryInfo& info) override;

  [[nodiscard]] DeviceCode allocate_plain(Bytes bytes, Address& address) override;
  [[nodiscard]] DeviceCode free_plain(Address address) override;

  [[nodiscard]] DeviceCode create_stream(StreamRole role, StreamHandle& stream) override;
  [[nodiscard]] DeviceCode destroy_stream(StreamHandle stream) override;
  [[nodiscard]] DeviceCode create_event(EventHandle& event) override;
  [[nodiscard]] DeviceCode destroy_event(EventHandle event) override;
  [[nodiscard]] DeviceCode record_event(EventHandle event, StreamHandle stream) override;
  [[nodiscard]] DeviceCode wait_event(StreamHandle stream, EventHandle event) override;
  [[nodiscard]] DeviceCode query_event(EventHandle event) override;
  [[nodiscard]] DeviceCode synchronize_event(EventHandle event, std::int64_t timeout_ns) override;
  [[nodiscard]] DeviceCode synchronize_stream(StreamHandle stream) override;
  [[nodiscard]] DeviceCode synchronize_device() override;

  [[nodiscard]] DeviceCode copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind,
                                std::int64_t id) override;
  [[nodiscard]] DeviceCode launch(StreamHandle stream, const Work& work) override;
  [[nodiscard]] std::int64_t mismatches(Mismatch& first) override;

 private:
  // GranuleVendor: the context is current.
  DeviceCode reserve_range(Bytes bytes, Address& base) override;
  DeviceCode release_range(Address base, Bytes bytes) override;
  DeviceCode create_granule(std::uint64_t& handle) override;
  DeviceCode destroy_granule(std::uint64_t handle) override;
  DeviceCode attach_granule(Address at, std::uint64_t handle) override;
  DeviceCode detach_granule(Address at) override;
  DeviceCode allow_range(Address at, Bytes bytes) override;

  void read_traits(cuda::DeviceNumber device);
  void find_peers(int device_count);
  [[nodiscard]] cuda::Code read_granule();
  [[nodiscard]] cuda::Code poll_event(cuda::Event event, std::int64_t timeout_ns);
  [[nodiscard]] cuda::Code load_kernels();
  [[nodiscard]] cuda::Code launch_all(cuda::Stream stream, const Work& work);
  void give_back_all();

  const CudaOptions options_;
  cuda::DeviceNumber device_ = 0;
  cuda::AllocationProperties granule_properties_;
  std::vector<cuda::AccessDescription> access_;  ///< who may touch mapped memory: this device first
  int least_priority_ = 0, greatest_priority_ = 0;
  Outstanding plain_;
  cuda::Kernels kernels_{library_};
  std::mutex kernels_mutex_;
  std::atomic<bool> kernels_loaded_ = false;
  std::atomic<std::int64_t> mismatches_ = 0;
};

cuda::Code CudaDevice::read_granule() {
  granule_properties_.location = {cuda::kLocationDevice, device_};
  std::size_t bytes = 0;
  const cuda::Code code = library_.granularity(&bytes, &granule_properties_, cuda::kGranularityMinimum);
  traits_.granule_bytes = static_cast<Bytes>(bytes);
  mapped_.set_granule(traits_.granule_bytes);
  return code;
}

void CudaDevice::read_traits(cuda::DeviceNumber device) {
  char name[256] = {}, bus[32] = {};
  int mapping = 0, registering = 0;
  if (library_.device_name(name, sizeof name - 1, device) == cuda::kSuccess) traits_.product = name;
  const bool has_bus = library_.device_bus_id(bus, sizeof bus - 1, device) == cuda::kSuccess;
  (void)library_.device_attribute(&mapping, cuda::kAttributeVirtualMemory, device);
  (void)library_.device_attribute(&registering, cuda::kAttributeHostRegister, device);
  traits_.name = "cuda";
  traits_.mapping = traits_.aliasing = mapping != 0;
  traits_.host_register = registering != 0;
  traits_.alignment_bytes = kBlockAlignment;
  traits_.largest_pinned_bytes = kLargestPinned;
  traits_.numa_node =
      numa_node_or_bound(options_.numa_node >= 0 || !has_bus ? options_.numa_node : numa_node_of_pci(bus));
}

/// A device that cannot say whether it reaches this one is taken for one that does not.
void CudaDevice::find_peers(int device_count) {
  access_ = {{.location = {cuda::kLocationDevice, device_}}};
  for (int ordinal = 0; options_.peer_access && ordinal < device_count; ++ordinal) {
    cuda::DeviceNumber peer = 0;
    int can = 0;
    if (ordinal == options_.ordinal || library_.device_get(&peer, ordinal) != cuda::kSuccess) continue;
    if (library_.can_access_peer(&can, peer, device_) != cuda::kSuccess || can == 0) continue;
    access_.push_back({.location = {cuda::kLocationDevice, peer}});
  }
}

Status CudaDevice::open() {
  int count = 0;
  cuda::Code code = library_.device_count(&count);
  if (code == cuda::kSuccess && options_.ordinal >= count) {
    return infeasible(fmt::format("no CUDA device {}: the driver sees {}", options_.ordinal, count));
  }
  const auto then = [&code](auto&& body) { code = code == cuda::kSuccess ? body() : code; };
  then([&] { return library_.device_get(&device_, options_.ordinal); });
  then([&] { return library_.context_retain(&context_, device_); });
  if (code != cuda::kSuccess) return infeasible("cannot open the CUDA device: " + library_.text_of(code));
  const cuda::ContextScope scope(library_, context_);
  code = scope.code();
  read_traits(device_);
  find_peers(count);
  then([&] { return library_.stream_priorities(&least_priority_, &greatest_priority_); });
  if (traits_.mapping) then([&] { return read_granule(); });
  if (options_.play_estimates) then([&] { return load_kernels(); });  // the first launch takes no longer than others
  if (code != cuda::kSuccess) return infeasible("cannot use the CUDA device: " + library_.text_of(code));
  return {};
}

CudaDevice::~CudaDevice() {
  if (context_ == nullptr || forked_) return;
  {
    const cuda::ContextScope scope(library_, context_);
    (void)library_.context_synchronize();
    give_back_all();
  }
  // Only now: the end of the scope makes the thread's own context current again, and ours may end with this release.
  (void)library_.context_release(device_);
}

/// On a lost device the driver refuses all of this; the process takes it with it.
void CudaDevice::give_back_all() {
  for (const std::uint64_t event : events_.take_all()) (void)library_.event_destroy(event_of(EventHandle{event}));
  for (const std::uint64_t stream : streams_.take_all()) (void)library_.stream_destroy(stream_of(StreamHandle{stream}));
  mapped_.clear();
  for (const std::uint64_t address : plain_.take_all()) (void)library_.free(address);
  pinned_.clear();
  kernels_.unload();
}

DeviceCode CudaDevice::memory_info(MemoryInfo& info) {
  std::size_t free = 0, total = 0;
  const DeviceCode code =
      in_context(VendorCall::other, "cuMemGetInfo", [&] { return library_.memory_info(&free, &total); });
  if (code == DeviceCode::ok) info = {.total_bytes = static_cast<Bytes>(total), .free_bytes = static_cast<Bytes>(free)};
  return code;
}

DeviceCode CudaDevice::reserve_range(Bytes bytes, Address& base) {
  cuda::Pointer pointer = 0;
  const cuda::Code code = library_.address_reserve(&pointer, static_cast<std::size_t>(bytes), 0, 0, 0);
  base = pointer;
  return outcome(code, VendorCall::memory, "cuMemAddressReserve");
}

DeviceCode CudaDevice::release_range(Address base, Bytes bytes) {
  return given_back(library_.address_free(base, static_cast<std::size_t>(bytes)), "cuMemAddressFree");
}

DeviceCode CudaDevice::create_granule(std::uint64_t& handle) {
  cuda::Handle made = 0;
  const auto bytes = static_cast<std::size_t>(traits_.granule_bytes);
  const cuda::Code code = library_.create(&made, bytes, &granule_properties_, 0);
  handle = made;
  return outcome(code, VendorCall::memory, "cuMemCreate");
}

DeviceCode CudaDevice::destroy_granule(std::uint64_t handle) {
  return given_back(library_.release(handle), "cuMemRelease");
}

DeviceCode CudaDevice::attach_granule(Address at, std::uint64_t handle) {
  return outcome(library_.map(at, static_cast<std::size_t>(traits_.granule_bytes), 0, handle, 0), VendorCall::memory,
                 "cuMemMap");
}

DeviceCode CudaDevice::detach_granule(Address at) {
  return given_back(library_.unmap(at, static_cast<std::size_t>(traits_.granule_bytes)), "cuMemUnmap");
}

DeviceCode CudaDevice::allow_range(Address at, Bytes bytes) {
  return outcome(library_.set_access(at, static_cast<std::size_t>(bytes), access_.data(), access_.size()),
                 VendorCall::memory, "cuMemSetAccess");
}

DeviceCode CudaDevice::allocate_plain(Bytes bytes, Address& address) {
  if (bytes <= 0) return refuse(DeviceCode::invalid, "cannot allocate no bytes");
  cuda::Pointer pointer = 0;
  const auto size = static_cast<std::size_t>(bytes);
  const DeviceCode code =
      in_context(VendorCall::memory, "cuMemAlloc", [&] { return library_.allocate(&pointer, size); });
  if (code != DeviceCode::ok) return code;
  plain_.add(pointer);
  address = pointer;
  return code;
}

DeviceCode CudaDevice::free_plain(Address address) {
  return give_back_of(plain_, address, "cuMemFree", [&] { return library_.free(address); });
}

/// Communication goes before compute where both want the same multiprocessors; copies have engines of their own.
DeviceCode CudaDevice::create_stream(StreamRole role, StreamHandle& stream) {
  const bool urgent = role != StreamRole::compute && role != StreamRole::d2h && role != StreamRole::h2d;
  cuda::Stream made = nullptr;
  const DeviceCode code = in_context(VendorCall::slot, "cuStreamCreateWithPriority", [&] {
    return library_.stream_create(&made, cuda::kStreamNonBlocking, urgent ? greatest_priority_ : least_priority_);
  });
  if (code != DeviceCode::ok) return code;
  stream = StreamHandle{reinterpret_cast<std::uint64_t>(made)};
  streams_.add(static_cast<std::uint64_t>(stream));
  return code;
}

/// A failure of the stream's work comes first, whatever becomes of the stream: nobody would hear of it again.
DeviceCode CudaDevice::destroy_stream(StreamHandle stream) {
  cuda::Code waited = cuda::kSuccess;
  const DeviceCode code = give_back_of(streams_, static_cast<std::uint64_t>(stream), "cuStreamDestroy", [&] {
    if (!lost_) waited = library_.stream_synchronize(stream_of(stream));
    return library_.stream_destroy(stream_of(stream));
  });
  const DeviceCode worked = outcome(waited, VendorCall::wait, "cuStreamSynchronize");
  return worked == DeviceCode::ok ? code : worked;
}

DeviceCode CudaDevice::create_event(EventHandle& event) {
  cuda::Event made = nullptr;
  const unsigned flags = cuda::kEventDisableTiming | cuda::kEventBlockingSync;
  const DeviceCode code =
      in_context(VendorCall::slot, "cuEventCreate", [&] { return library_.event_create(&made, flags); });
  if (code != DeviceCode::ok) return code;
  event = EventHandle{reinterpret_cast<std::uint64_t>(made)};
  events_.add(static_cast<std::uint64_t>(event));
  return code;
}

DeviceCode CudaDevice::destroy_event(EventHandle event) {
  return give_back_of(events_, static_cast<std::uint64_t>(event), "cuEventDestroy",
                      [&] { return library_.event_destroy(event_of(event)); });
}

DeviceCode CudaDevice::record_event(EventHandle event, StreamHandle stream) {
  return in_context(VendorCall::slot, "cuEventRecord",
                    [&] { return library_.event_record(event_of(event), stream_of(stream)); });
}

DeviceCode CudaDevice::wait_event(StreamHandle stream, EventHandle event) {
  return in_context(VendorCall::slot, "cuStreamWaitEvent",
                    [&] { return library_.stream_wait_event(stream_of(stream), event_of(event), 0); });
}

DeviceCode CudaDevice::query_event(EventHandle event) {
  return in_context(VendorCall::wait, "cuEventQuery", [&] { return library_.event_query(event_of(event)); });
}

/// The driver has no wait with a limit, so asks, more and more seldom.
cuda::Code CudaDevice::poll_event(cuda::Event event, std::int64_t timeout_ns) {
  const Clock::time_point end = Clock::now() + std::chrono::nanoseconds(std::min(timeout_ns, kLongestWaitNs));
  auto pause = std::chrono::nanoseconds(500);
  for (;;) {
    const cuda::Code code = library_.event_query(event);
    const Clock::time_point now = Clock::now();
    if (code != cuda::kNotReady || now >= end) return code;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, end - now));
    pause = std::min(pause * 2, std::chrono::nanoseconds(100'000));
  }
}

DeviceCode CudaDevice::synchronize_event(EventHandle event, std::int64_t timeout_ns) {
  return in_context(VendorCall::wait, "cuEventSynchronize", [&] {
    return timeout_ns < 0 ? library_.event_synchronize(event_of(event)) : poll_event(event_of(event), timeout_ns);
  });
}

DeviceCode CudaDevice::synchronize_stream(StreamHandle stream) {
  return in_context(VendorCall::wait, "cuStreamSynchronize",
                    [&] { return library_.stream_synchronize(stream_of(stream)); });
}

DeviceCode CudaDevice::synchronize_device() {
  return in_context(VendorCall::wait, "cuCtxSynchronize", [&] { return library_.context_synchronize(); });
}

DeviceCode CudaDevice::copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind,
                            std::int64_t /*id*/) {
  if (const DeviceCode code = check_copy(to, from, bytes, kind); code != DeviceCode::ok) return code;
  const auto size = static_cast<std::size_t>(bytes);
  const cuda::Stream on = stream_of(stream);
  return in_context(VendorCall::work, "cuMemcpyAsync", [&] {
    if (size == 0) return cuda::kSuccess;
    if (kind == CopyKind::device_to_host) return library_.copy_to_host(pointer_of(to), from, size, on);
    if (kind == CopyKind::host_to_device) return library_.copy_to_device(to, pointer_of(from), size, on);
    return library_.copy_in_device(to, from, size, on);
  });
}

cuda::Code CudaDevice::load_kernels() {
  if (kernels_loaded_) return cuda::kSuccess;
  const std::lock_guard lock(kernels_mutex_);
  if (kernels_loaded_) return cuda::kSuccess;
  const cuda::Code code = kernels_.load();
  kernels_loaded_ = code == cuda::kSuccess;
  return code;
}

cuda::Code CudaDevice::launch_all(cuda::Stream stream, const Work& work) {
  if (const cuda::Code code = load_kernels(); code != cuda::kSuccess) return code;
  return carry_out(
      work, options_.play_estimates, [&](const Touch& touch) { return kernels_.check(stream, touch, work.id); },
      [&] { return kernels_.spin(stream, work.estimate_ns); },
      [&](const Touch& touch) { return kernels_.fill(stream, touch); });
}

DeviceCode CudaDevice::launch(StreamHandle stream, const Work& work) {
  if (lost_) return answer_lost();
  if (work.message.peer_rank >= 0) return refuse(DeviceCode::unsupported, "no messages between ranks on cuda");
  if (!work.verify && !options_.play_estimates) return DeviceCode::ok;
  const auto misplaced = [](const Touch& touch) {
    return touch.address % 8 != 0 || touch.place % 8 != 0 || touch.bytes < 0;
  };
  if (work.verify && std::any_of(work.touches.begin(), work.touches.end(), misplaced)) {
    return refuse(DeviceCode::invalid,
                  "a verifying launch needs touches that start at multiples of 8 bytes, in memory and in the pattern");
  }
  return in_context(VendorCall::work, "cuLaunchKernel", [&] { return launch_all(stream_of(stream), work); });
}

std::int64_t CudaDevice::mismatches(Mismatch& first) {
  cuda::Report report;
  if (!kernels_loaded_) return 0;
  if (in_context(VendorCall::wait, "cuMemcpyDtoH", [&] { return kernels_.read(report); }) != DeviceCode::ok)
    return mismatches_;
  mismatches_ = static_cast<std::int64_t>(report.mismatches);
  if (report.taken != 0) first = {report.work_id, report.address, report.bytes, report.seed};
  return mismatches_;
}

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(const CudaOptions& options) {
  if (options.ordinal < 0) return bad_input("a CUDA device number is 0 or more");
  Result<cuda::Driver> driver = cuda::load_driver(options.library);
  if (!driver) return driver.error();
  auto device = std::make_unique<CudaDevice>(std::move(driver).value(), options);
  if (const Status status = device->open(); !status) return status.error();
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace tidemark
