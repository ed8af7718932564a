#include "device/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "device/copy_sides.h"
#include "device/cuda_driver.h"
#include "device/cuda_kernels.h"
#include "device/error_texts.h"
#include "device/host_pages.h"
#include "device/mapped_memory.h"
#include "device/outstanding.h"
#include "device/pinned_blocks.h"

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

class CudaDevice final : public Device, private GranuleVendor {
 public:
  CudaDevice(cuda::Driver driver, CudaOptions options)
      : driver_(std::move(driver)), options_(std::move(options)), pinned_(pinned_calls()) {}
  ~CudaDevice() override;
  [[nodiscard]] Status open();

  [[nodiscard]] const DeviceTraits& traits() const override { return traits_; }
  [[nodiscard]] std::string last_error() const override { return errors_.get(); }
  [[nodiscard]] DeviceCode memory_info(MemoryInfo& info) override;

  [[nodiscard]] DeviceCode reserve(Bytes bytes, Address& base) override {
    return mapping([&] { return mapped_.reserve(bytes, base); });
  }
  [[nodiscard]] DeviceCode release(Address base, Bytes bytes) override {
    return unmapping([&] { return mapped_.release(base, bytes); });
  }
  [[nodiscard]] DeviceCode map(Address at, Bytes bytes) override {
    return mapping([&] { return mapped_.map(at, bytes); });
  }
  [[nodiscard]] DeviceCode unmap(Address at, Bytes bytes) override {
    return unmapping([&] { return mapped_.unmap(at, bytes); });
  }
  [[nodiscard]] DeviceCode alias(Address at, Address source, Bytes bytes) override {
    return mapping([&] { return mapped_.alias(at, source, bytes); });
  }
  [[nodiscard]] DeviceCode remap(Address at, Address source, Bytes bytes) override {
    return mapping([&] { return mapped_.remap(at, source, bytes); });
  }

  [[nodiscard]] DeviceCode allocate_plain(Bytes bytes, Address& address) override;
  [[nodiscard]] DeviceCode free_plain(Address address) override;
  [[nodiscard]] DeviceCode allocate_pinned(Bytes bytes, Address& address) override;
  [[nodiscard]] DeviceCode free_pinned(Address address) override;
  [[nodiscard]] PinnedFacts pinned_facts(Address address) override { return pinned_.facts(address); }

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
  [[nodiscard]] std::int64_t now_ns() override;

 private:
  // GranuleVendor: the context is current.
  DeviceCode reserve_range(Bytes bytes, Address& base) override;
  DeviceCode release_range(Address base, Bytes bytes) override;
  DeviceCode create_granule(std::uint64_t& handle) override;
  DeviceCode destroy_granule(std::uint64_t handle) override;
  DeviceCode attach_granule(Address at, std::uint64_t handle) override;
  DeviceCode detach_granule(Address at) override;
  DeviceCode allow_range(Address at, Bytes bytes) override;
  DeviceCode refuse(DeviceCode code, std::string text) override;
  DeviceCode answer_lost();

  /// The outcome of a driver call named `what`: keeps the text of a failure and notices a lost device.
  DeviceCode outcome(cuda::Code code, VendorCall purpose, const char* call);
  template <class Body>
  DeviceCode in_context(VendorCall purpose, const char* call, Body&& body);
  /// On a lost device, waits for what may still run. The context is current.
  void drain_if_lost();
  /// Also on a lost device, where the answer is ok whatever the vendor says: everything can be given back.
  template <class Body>
  DeviceCode give_back(const char* call, Body&& body);
  DeviceCode given_back(cuda::Code code, const char* call);
  /// The same for a handle that is in `books`, where it stays if the vendor refuses.
  template <class Body>
  DeviceCode give_back_of(Outstanding& books, std::uint64_t handle, const char* call, Body&& body);
  template <class Body>
  DeviceCode mapping(Body&& body);
  template <class Body>
  DeviceCode unmapping(Body&& body);

  [[nodiscard]] PinnedCalls pinned_calls();
  void read_traits(cuda::DeviceNumber device);
  [[nodiscard]] cuda::Code read_granule();
  [[nodiscard]] cuda::Code poll_event(cuda::Event event, std::int64_t timeout_ns);
  [[nodiscard]] cuda::Code load_kernels();
  [[nodiscard]] cuda::Code launch_all(cuda::Stream stream, const Work& work);
  void give_back_all();

  cuda::Driver driver_;
  const CudaOptions options_;
  DeviceTraits traits_;
  cuda::DeviceNumber device_ = 0;
  cuda::Context context_ = nullptr;
  cuda::AllocationProperties granule_properties_;
  int least_priority_ = 0, greatest_priority_ = 0;
  std::atomic<bool> lost_ = false;
  std::once_flag drained_;
  ErrorTexts errors_;
  MappedMemory mapped_{*this, true};
  PinnedBlocks pinned_;
  Outstanding plain_, streams_, events_;
  cuda::Kernels kernels_{driver_};
  std::mutex kernels_mutex_;
  std::atomic<bool> kernels_loaded_ = false;
  std::atomic<std::int64_t> mismatches_ = 0;
};

DeviceCode CudaDevice::outcome(cuda::Code code, VendorCall purpose, const char* call) {
  const DeviceCode meaning = cuda::device_code_of(code, purpose);
  if (meaning == DeviceCode::ok || meaning == DeviceCode::not_ready) return meaning;
  return refuse(meaning, fmt::format("{}: {}", call, driver_.text_of(code)));
}

DeviceCode CudaDevice::refuse(DeviceCode code, std::string text) {
  if (code == DeviceCode::lost) lost_ = true;
  errors_.set(std::move(text));
  return code;
}

/// A thread that saw the failure itself keeps its text.
DeviceCode CudaDevice::answer_lost() {
  if (errors_.get().empty()) errors_.set("the device is lost since an earlier failure");
  return DeviceCode::lost;
}

template <class Body>
DeviceCode CudaDevice::in_context(VendorCall purpose, const char* call, Body&& body) {
  if (lost_) return answer_lost();
  const cuda::ContextScope scope(driver_, context_);
  return outcome(scope.code() == cuda::kSuccess ? body() : scope.code(), purpose, call);
}

DeviceCode CudaDevice::given_back(cuda::Code code, const char* call) {
  return lost_ ? DeviceCode::ok : outcome(code, VendorCall::give_back, call);
}

/// A device that is lost only because its books no longer hold may well be at work. Nobody passes before it has ended.
void CudaDevice::drain_if_lost() {
  if (lost_) std::call_once(drained_, [this] { (void)driver_.context_synchronize(); });
}

template <class Body>
DeviceCode CudaDevice::give_back(const char* call, Body&& body) {
  const cuda::ContextScope scope(driver_, context_);
  drain_if_lost();
  return given_back(scope.code() == cuda::kSuccess ? body() : scope.code(), call);
}

/// Out of the books before the call: the vendor may give the handle to another thread before this one is back.
template <class Body>
DeviceCode CudaDevice::give_back_of(Outstanding& books, std::uint64_t handle, const char* call, Body&& body) {
  Outstanding::Node node = books.remove(handle);
  if (node.empty()) return refuse(DeviceCode::invalid, fmt::format("{}: there is no {:#x}", call, handle));
  const DeviceCode code = give_back(call, body);
  if (code != DeviceCode::ok) books.put_back(std::move(node));
  return code;
}

template <class Body>
DeviceCode CudaDevice::mapping(Body&& body) {
  if (!traits_.mapping) return refuse(DeviceCode::unsupported, "this GPU or driver has no virtual memory management");
  if (lost_) return answer_lost();
  const cuda::ContextScope scope(driver_, context_);
  if (scope.code() != cuda::kSuccess) return outcome(scope.code(), VendorCall::other, "cuCtxSetCurrent");
  return body();
}

template <class Body>
DeviceCode CudaDevice::unmapping(Body&& body) {
  if (!traits_.mapping) return refuse(DeviceCode::unsupported, "this GPU or driver has no virtual memory management");
  const cuda::ContextScope scope(driver_, context_);
  if (scope.code() != cuda::kSuccess && !lost_) {
    return outcome(scope.code(), VendorCall::other, "making the context current");
  }
  drain_if_lost();
  return body();
}

cuda::Code CudaDevice::read_granule() {
  granule_properties_.location = {cuda::kLocationDevice, device_};
  std::size_t bytes = 0;
  const cuda::Code code = driver_.granularity(&bytes, &granule_properties_, cuda::kGranularityMinimum);
  traits_.granule_bytes = static_cast<Bytes>(bytes);
  mapped_.set_granule(traits_.granule_bytes);
  return code;
}

void CudaDevice::read_traits(cuda::DeviceNumber device) {
  char name[256] = {}, bus[32] = {};
  int mapping = 0, registering = 0;
  if (driver_.device_name(name, sizeof name - 1, device) == cuda::kSuccess) traits_.product = name;
  const bool has_bus = driver_.device_bus_id(bus, sizeof bus - 1, device) == cuda::kSuccess;
  (void)driver_.device_attribute(&mapping, cuda::kAttributeVirtualMemory, device);
  (void)driver_.device_attribute(&registering, cuda::kAttributeHostRegister, device);
  traits_.name = "cuda";
  traits_.mapping = traits_.aliasing = mapping != 0;
  traits_.host_register = registering != 0;
  traits_.alignment_bytes = kBlockAlignment;
  traits_.largest_pinned_bytes = kLargestPinned;
  traits_.numa_node = options_.numa_node >= 0 || !has_bus ? options_.numa_node : numa_node_of_pci(bus);
}

Status CudaDevice::open() {
  int count = 0;
  cuda::Code code = driver_.device_count(&count);
  if (code == cuda::kSuccess && options_.ordinal >= count) {
    return infeasible(fmt::format("no CUDA device {}: the driver sees {}", options_.ordinal, count));
  }
  const auto then = [&code](auto&& body) { code = code == cuda::kSuccess ? body() : code; };
  then([&] { return driver_.device_get(&device_, options_.ordinal); });
  then([&] { return driver_.context_retain(&context_, device_); });
  if (code != cuda::kSuccess) return infeasible("cannot open the CUDA device: " + driver_.text_of(code));
  const cuda::ContextScope scope(driver_, context_);
  code = scope.code();
  read_traits(device_);
  then([&] { return driver_.stream_priorities(&least_priority_, &greatest_priority_); });
  if (traits_.mapping) then([&] { return read_granule(); });
  if (options_.play_estimates) then([&] { return load_kernels(); });  // the first launch takes no longer than others
  if (code != cuda::kSuccess) return infeasible("cannot use the CUDA device: " + driver_.text_of(code));
  return {};
}

CudaDevice::~CudaDevice() {
  if (context_ == nullptr) return;
  {
    const cuda::ContextScope scope(driver_, context_);
    (void)driver_.context_synchronize();
    give_back_all();
  }
  // Only now: the end of the scope makes the thread's own context current again, and ours may end with this release.
  (void)driver_.context_release(device_);
}

/// On a lost device the driver refuses all of this; the process takes it with it.
void CudaDevice::give_back_all() {
  for (const std::uint64_t event : events_.take_all()) (void)driver_.event_destroy(event_of(EventHandle{event}));
  for (const std::uint64_t stream : streams_.take_all()) (void)driver_.stream_destroy(stream_of(StreamHandle{stream}));
  mapped_.clear();
  for (const std::uint64_t address : plain_.take_all()) (void)driver_.free(address);
  pinned_.clear();
  kernels_.unload();
}

DeviceCode CudaDevice::memory_info(MemoryInfo& info) {
  std::size_t free = 0, total = 0;
  const DeviceCode code =
      in_context(VendorCall::other, "cuMemGetInfo", [&] { return driver_.memory_info(&free, &total); });
  if (code == DeviceCode::ok) info = {.total_bytes = static_cast<Bytes>(total), .free_bytes = static_cast<Bytes>(free)};
  return code;
}

DeviceCode CudaDevice::reserve_range(Bytes bytes, Address& base) {
  cuda::Pointer pointer = 0;
  const cuda::Code code = driver_.address_reserve(&pointer, static_cast<std::size_t>(bytes), 0, 0, 0);
  base = pointer;
  return outcome(code, VendorCall::memory, "cuMemAddressReserve");
}

DeviceCode CudaDevice::release_range(Address base, Bytes bytes) {
  return given_back(driver_.address_free(base, static_cast<std::size_t>(bytes)), "cuMemAddressFree");
}

DeviceCode CudaDevice::create_granule(std::uint64_t& handle) {
  cuda::Handle made = 0;
  const auto bytes = static_cast<std::size_t>(traits_.granule_bytes);
  const cuda::Code code = driver_.create(&made, bytes, &granule_properties_, 0);
  handle = made;
  return outcome(code, VendorCall::memory, "cuMemCreate");
}

DeviceCode CudaDevice::destroy_granule(std::uint64_t handle) {
  return given_back(driver_.release(handle), "cuMemRelease");
}

DeviceCode CudaDevice::attach_granule(Address at, std::uint64_t handle) {
  return outcome(driver_.map(at, static_cast<std::size_t>(traits_.granule_bytes), 0, handle, 0), VendorCall::memory,
                 "cuMemMap");
}

DeviceCode CudaDevice::detach_granule(Address at) {
  return given_back(driver_.unmap(at, static_cast<std::size_t>(traits_.granule_bytes)), "cuMemUnmap");
}

DeviceCode CudaDevice::allow_range(Address at, Bytes bytes) {
  const cuda::AccessDescription access{.location = granule_properties_.location};
  return outcome(driver_.set_access(at, static_cast<std::size_t>(bytes), &access, 1), VendorCall::memory,
                 "cuMemSetAccess");
}

DeviceCode CudaDevice::allocate_plain(Bytes bytes, Address& address) {
  if (bytes <= 0) return refuse(DeviceCode::invalid, "cannot allocate no bytes");
  cuda::Pointer pointer = 0;
  const auto size = static_cast<std::size_t>(bytes);
  const DeviceCode code =
      in_context(VendorCall::memory, "cuMemAlloc", [&] { return driver_.allocate(&pointer, size); });
  if (code != DeviceCode::ok) return code;
  plain_.add(pointer);
  address = pointer;
  return code;
}

DeviceCode CudaDevice::free_plain(Address address) {
  return give_back_of(plain_, address, "cuMemFree", [&] { return driver_.free(address); });
}

DeviceCode CudaDevice::allocate_pinned(Bytes bytes, Address& address) {
  if (bytes <= 0) return refuse(DeviceCode::invalid, "cannot allocate no bytes");
  if (bytes > kLargestPinned) return refuse(DeviceCode::unsupported, "one piece of pinned memory is at most 64 GiB");
  const HostPagesOptions wish{.bytes = bytes, .numa_node = traits_.numa_node, .touch_threads = options_.touch_threads};
  if (lost_) return answer_lost();
  if (std::string text = PinnedBlocks::no_room(wish); !text.empty()) {
    return refuse(DeviceCode::out_of_memory, std::move(text));
  }
  return in_context(VendorCall::memory, "cuMemHostAlloc",
                    [&] { return pinned_.allocate(wish, traits_.host_register, address); });
}

PinnedCalls CudaDevice::pinned_calls() {
  return {
      .register_pages = [this](void* pages,
                               std::size_t bytes) { return driver_.host_register(pages, bytes, cuda::kHostPortable); },
      .unregister_pages = [this](void* pages) { return driver_.host_unregister(pages); },
      .allocate = [this](void** pages,
                         std::size_t bytes) { return driver_.host_allocate(pages, bytes, cuda::kHostPortable); },
      .free = [this](void* pages) { return driver_.host_free(pages); },
      .no_memory = cuda::kOutOfMemory};
}

DeviceCode CudaDevice::free_pinned(Address address) {
  if (!pinned_.has(address)) return refuse(DeviceCode::invalid, fmt::format("{:#x} is no pinned block", address));
  return give_back("cuMemFreeHost", [&] { return pinned_.free(address, lost_); });
}

/// Communication goes before compute where both want the same multiprocessors; copies have engines of their own.
DeviceCode CudaDevice::create_stream(StreamRole role, StreamHandle& stream) {
  const bool urgent = role != StreamRole::compute && role != StreamRole::d2h && role != StreamRole::h2d;
  cuda::Stream made = nullptr;
  const DeviceCode code = in_context(VendorCall::slot, "cuStreamCreateWithPriority", [&] {
    return driver_.stream_create(&made, cuda::kStreamNonBlocking, urgent ? greatest_priority_ : least_priority_);
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
    if (!lost_) waited = driver_.stream_synchronize(stream_of(stream));
    return driver_.stream_destroy(stream_of(stream));
  });
  const DeviceCode worked = outcome(waited, VendorCall::wait, "cuStreamSynchronize");
  return worked == DeviceCode::ok ? code : worked;
}

DeviceCode CudaDevice::create_event(EventHandle& event) {
  cuda::Event made = nullptr;
  const unsigned flags = cuda::kEventDisableTiming | cuda::kEventBlockingSync;
  const DeviceCode code =
      in_context(VendorCall::slot, "cuEventCreate", [&] { return driver_.event_create(&made, flags); });
  if (code != DeviceCode::ok) return code;
  event = EventHandle{reinterpret_cast<std::uint64_t>(made)};
  events_.add(static_cast<std::uint64_t>(event));
  return code;
}

DeviceCode CudaDevice::destroy_event(EventHandle event) {
  return give_back_of(events_, static_cast<std::uint64_t>(event), "cuEventDestroy",
                      [&] { return driver_.event_destroy(event_of(event)); });
}

DeviceCode CudaDevice::record_event(EventHandle event, StreamHandle stream) {
  return in_context(VendorCall::slot, "cuEventRecord",
                    [&] { return driver_.event_record(event_of(event), stream_of(stream)); });
}

DeviceCode CudaDevice::wait_event(StreamHandle stream, EventHandle event) {
  return in_context(VendorCall::slot, "cuStreamWaitEvent",
                    [&] { return driver_.stream_wait_event(stream_of(stream), event_of(event), 0); });
}

DeviceCode CudaDevice::query_event(EventHandle event) {
  return in_context(VendorCall::wait, "cuEventQuery", [&] { return driver_.event_query(event_of(event)); });
}

/// The driver has no wait with a limit, so asks, more and more seldom.
cuda::Code CudaDevice::poll_event(cuda::Event event, std::int64_t timeout_ns) {
  const Clock::time_point end = Clock::now() + std::chrono::nanoseconds(std::min(timeout_ns, kLongestWaitNs));
  auto pause = std::chrono::nanoseconds(500);
  for (;;) {
    const cuda::Code code = driver_.event_query(event);
    const Clock::time_point now = Clock::now();
    if (code != cuda::kNotReady || now >= end) return code;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, end - now));
    pause = std::min(pause * 2, std::chrono::nanoseconds(100'000));
  }
}

DeviceCode CudaDevice::synchronize_event(EventHandle event, std::int64_t timeout_ns) {
  return in_context(VendorCall::wait, "cuEventSynchronize", [&] {
    return timeout_ns < 0 ? driver_.event_synchronize(event_of(event)) : poll_event(event_of(event), timeout_ns);
  });
}

DeviceCode CudaDevice::synchronize_stream(StreamHandle stream) {
  return in_context(VendorCall::wait, "cuStreamSynchronize",
                    [&] { return driver_.stream_synchronize(stream_of(stream)); });
}

DeviceCode CudaDevice::synchronize_device() {
  return in_context(VendorCall::wait, "cuCtxSynchronize", [&] { return driver_.context_synchronize(); });
}

DeviceCode CudaDevice::copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind,
                            std::int64_t /*id*/) {
  if (lost_) return answer_lost();
  const auto pinned = [this](Address at, Bytes size) { return pinned_.covers(at, size); };
  if (std::string why = wrong_side_of_copy(to, from, bytes, kind, pinned); !why.empty()) {
    return refuse(DeviceCode::invalid, std::move(why));
  }
  const auto size = static_cast<std::size_t>(bytes);
  const cuda::Stream on = stream_of(stream);
  return in_context(VendorCall::work, "cuMemcpyAsync", [&] {
    if (size == 0) return cuda::kSuccess;
    if (kind == CopyKind::device_to_host) return driver_.copy_to_host(pointer_of(to), from, size, on);
    if (kind == CopyKind::host_to_device) return driver_.copy_to_device(to, pointer_of(from), size, on);
    return driver_.copy_in_device(to, from, size, on);
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

/// Checks what is read, lets the time pass, then fills what is written.
cuda::Code CudaDevice::launch_all(cuda::Stream stream, const Work& work) {
  cuda::Code code = load_kernels();
  const auto touch_all = [&](AccessKind kind) {
    for (const Touch& touch : work.touches) {
      if (code != cuda::kSuccess || touch.kind != kind || touch.bytes == 0) continue;
      code = kind == AccessKind::read ? kernels_.check(stream, touch, work.id) : kernels_.fill(stream, touch);
    }
  };
  if (work.verify) touch_all(AccessKind::read);
  if (code == cuda::kSuccess && options_.play_estimates && work.estimate_ns > 0) {
    code = kernels_.spin(stream, work.estimate_ns);
  }
  if (work.verify) touch_all(AccessKind::write);
  return code;
}

DeviceCode CudaDevice::launch(StreamHandle stream, const Work& work) {
  if (lost_) return answer_lost();
  if (work.message.peer_rank >= 0) return refuse(DeviceCode::unsupported, "no messages between ranks on cuda");
  if (!work.verify && !options_.play_estimates) return DeviceCode::ok;
  const auto misplaced = [](const Touch& touch) { return touch.address % 8 != 0 || touch.bytes < 0; };
  if (work.verify && std::any_of(work.touches.begin(), work.touches.end(), misplaced)) {
    return refuse(DeviceCode::invalid, "a verifying launch needs touches that start at multiples of 8 bytes");
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

std::int64_t CudaDevice::now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
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
