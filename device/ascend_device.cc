#include "device/ascend_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "device/acl_runtime.h"
#include "device/ascend_verifier.h"
#include "device/host_topology.h"
#include "device/process_binding.h"
#include "device/vendor_device.h"

namespace tidemark {
namespace {

constexpr Bytes kBlockAlignment = 512;        ///< what torch_npu gives, a multiple of the 64 that ACL asks for
constexpr Bytes kPadAlignment = 32;           ///< sizes are rounded up to this before the pad
constexpr Bytes kLargestPlain = 1024 * kTiB;  ///< what is added to a size stays in range
constexpr Bytes kLargestPinned = 64 * kGiB;   ///< single pieces above some 200 GB fail

acl::Stream stream_of(StreamHandle stream) {
  return reinterpret_cast<acl::Stream>(stream);
}
acl::Event event_of(EventHandle event) {
  return reinterpret_cast<acl::Event>(event);
}
void* pointer_of(Address address) {
  return reinterpret_cast<void*>(address);
}
Address address_of(const void* pointer) {
  return reinterpret_cast<Address>(pointer);
}

struct AscendVendor {
  using Library = acl::Runtime;
  using Context = acl::Context;
  using ContextScope = acl::ContextScope;
  static constexpr bool kAliasing = false;
  static constexpr const char* kNoMapping = "this ACL has no virtual memory functions";
  static constexpr const char* kSetContext = "aclrtSetCurrentContext";
  static constexpr const char* kAllocatePinned = "aclrtMallocHost";
  static constexpr const char* kFreePinned = "aclrtFreeHost";

  static DeviceCode meaning_of(acl::Code code, VendorCall purpose) { return acl::device_code_of(code, purpose); }
  static std::string text_of(const acl::Runtime& runtime, const char* call, acl::Code code) {
    return runtime.text_of(call, code);
  }
  static void wait_for_all(const acl::Runtime& runtime) { (void)runtime.synchronize_device(); }
  static PinnedCalls pinned_calls(const acl::Runtime& runtime) {
    return {.register_pages =
                [&runtime](void* pages, std::size_t bytes) {
                  return runtime.host_register(pages, bytes, acl::kRegisterPinned);
                },
            .unregister_pages = [&runtime](void* pages) { return runtime.host_unregister(pages); },
            .allocate = [&runtime](void** pages, std::size_t bytes) { return runtime.host_allocate(pages, bytes); },
            .free = [&runtime](void* pages) { return runtime.host_free(pages); },
            .no_memory = acl::kOutOfMemory};
  }
};

/// ACL has no call that names a device's PCI address, and numbers devices otherwise than PCI does.
int node_of_all_npus() {
  const Result<HostTopology> host = read_host_topology();
  return host ? node_of_all(host.value(), kHuaweiVendor) : -1;
}

class AscendDevice final : public VendorDevice<AscendVendor> {
 public:
  AscendDevice(acl::Runtime runtime, AscendOptions options)
      : VendorDevice(std::move(runtime), options.touch_threads), options_(std::move(options)) {}
  ~AscendDevice() override;
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
  [[nodiscard]] std::int64_t mismatches(Mismatch& first) override { return verifier_.mismatches(first); }

 private:
  // GranuleVendor: the context is current.
  DeviceCode reserve_range(Bytes bytes, Address& base) override;
  DeviceCode release_range(Address base, Bytes bytes) override;
  DeviceCode create_granule(std::uint64_t& handle) override;
  DeviceCode destroy_granule(std::uint64_t handle) override;
  DeviceCode attach_granule(Address at, std::uint64_t handle) override;
  DeviceCode detach_granule(Address at) override;
  /// ACL gives access with the mapping.
  DeviceCode allow_range(Address /*at*/, Bytes /*bytes*/) override { return DeviceCode::ok; }

  void read_traits();
  [[nodiscard]] acl::Code read_granule();
  [[nodiscard]] acl::Code allocate_padded(Bytes bytes, void*& pointer);
  [[nodiscard]] acl::Code launch_all(acl::Stream stream, const Work& work);
  void free_strays();
  void give_back_all();

  const AscendOptions options_;
  acl::PhysicalProperties granule_properties_;
  Outstanding strays_;  ///< memory ACL would not take back, and nobody has
  std::mutex plain_mutex_;
  std::map<Address, void*> plain_;  ///< what the caller got, and what ACL gave
  acl::Verifier verifier_{library_};
};

acl::Code AscendDevice::read_granule() {
  granule_properties_.location_id = static_cast<std::uint32_t>(options_.ordinal);
  std::size_t bytes = 0;
  const acl::Code code = library_.granularity(&granule_properties_, acl::kGranularityMinimum, &bytes);
  traits_.granule_bytes = static_cast<Bytes>(bytes);
  mapped_.set_granule(traits_.granule_bytes);
  return code;
}

void AscendDevice::read_traits() {
  acl::PackageVersion version;
  if (library_.package_version != nullptr) (void)library_.package_version(acl::kPackageCann, &version);
  const char* const chip = library_.soc_name != nullptr ? library_.soc_name() : nullptr;
  const bool can_map = library_.granularity && library_.address_reserve && library_.address_release &&
                       library_.physical_allocate && library_.physical_free && library_.map && library_.unmap;
  const bool can_register = library_.host_register != nullptr && library_.host_unregister != nullptr;
  traits_.name = "ascend";
  traits_.product = chip != nullptr ? chip : "Ascend NPU";
  traits_.mapping = can_map;
  traits_.host_register = options_.register_pinned && can_register;
  traits_.alignment_bytes = kBlockAlignment;
  traits_.tail_pad_bytes = acl::tail_pad_of(traits_.product, version.version);
  traits_.event_limit = options_.event_limit;
  traits_.largest_pinned_bytes = kLargestPinned;
  traits_.numa_node = numa_node_or_bound(options_.numa_node >= 0 ? options_.numa_node : node_of_all_npus());
}

Status AscendDevice::open() {
  std::uint32_t count = 0;
  if (const acl::Code code = library_.device_count(&count); code != acl::kSuccess) {
    return infeasible(library_.text_of("aclrtGetDeviceCount", code));
  }
  if (options_.ordinal >= static_cast<std::int64_t>(count)) {
    return infeasible(fmt::format("no Ascend device {}: ACL sees {}", options_.ordinal, count));
  }
  acl::Context before = nullptr;
  if (library_.get_context(&before) != acl::kSuccess) before = nullptr;
  acl::Code code = library_.set_device(options_.ordinal);
  if (code == acl::kSuccess) code = library_.get_context(&context_);
  if (code == acl::kSuccess) read_traits();
  if (code == acl::kSuccess && traits_.mapping) code = read_granule();
  if (before != nullptr) (void)library_.set_context(before);
  if (code != acl::kSuccess) return infeasible("cannot use the Ascend device: " + library_.text_of("opening it", code));
  return {};
}

AscendDevice::~AscendDevice() {
  if (context_ == nullptr || forked_) return;
  const acl::ContextScope scope(library_, context_);
  (void)library_.synchronize_device();
  give_back_all();
}

void AscendDevice::give_back_all() {
  for (const std::uint64_t event : events_.take_all()) (void)library_.event_destroy(event_of(EventHandle{event}));
  for (const std::uint64_t stream : streams_.take_all()) (void)library_.stream_destroy(stream_of(StreamHandle{stream}));
  verifier_.drop_all();
  mapped_.clear();
  for (const auto& [address, pointer] : plain_) (void)library_.free(pointer);
  free_strays();
  pinned_.clear();
}

DeviceCode AscendDevice::memory_info(MemoryInfo& info) {
  std::size_t free = 0, total = 0;
  const DeviceCode code =
      in_context(VendorCall::other, "aclrtGetMemInfo", [&] { return library_.memory_info(acl::kHbm, &free, &total); });
  if (code == DeviceCode::ok) info = {.total_bytes = static_cast<Bytes>(total), .free_bytes = static_cast<Bytes>(free)};
  return code;
}

DeviceCode AscendDevice::reserve_range(Bytes bytes, Address& base) {
  void* pointer = nullptr;
  const acl::Code code =
      library_.address_reserve(&pointer, static_cast<std::size_t>(bytes), 0, nullptr, acl::kReserveHugePages);
  base = address_of(pointer);
  return outcome(code, VendorCall::memory, "aclrtReserveMemAddress");
}

DeviceCode AscendDevice::release_range(Address base, Bytes /*bytes*/) {
  return given_back(library_.address_release(pointer_of(base)), "aclrtReleaseMemAddress");
}

DeviceCode AscendDevice::create_granule(std::uint64_t& handle) {
  acl::PhysicalHandle made = nullptr;
  const auto bytes = static_cast<std::size_t>(traits_.granule_bytes);
  const acl::Code code = library_.physical_allocate(&made, bytes, &granule_properties_, 0);
  handle = reinterpret_cast<std::uint64_t>(made);
  return outcome(code, VendorCall::memory, "aclrtMallocPhysical");
}

DeviceCode AscendDevice::destroy_granule(std::uint64_t handle) {
  return given_back(library_.physical_free(reinterpret_cast<acl::PhysicalHandle>(handle)), "aclrtFreePhysical");
}

DeviceCode AscendDevice::attach_granule(Address at, std::uint64_t handle) {
  const auto bytes = static_cast<std::size_t>(traits_.granule_bytes);
  const auto physical = reinterpret_cast<acl::PhysicalHandle>(handle);
  return outcome(library_.map(pointer_of(at), bytes, 0, physical, 0), VendorCall::memory, "aclrtMapMem");
}

DeviceCode AscendDevice::detach_granule(Address at) {
  return given_back(library_.unmap(pointer_of(at)), "aclrtUnmapMem");
}

/// aclrtMalloc adds the pad itself; aclrtMallocAlign32 leaves it to the caller, which we prefer: nothing is added
/// twice.
acl::Code AscendDevice::allocate_padded(Bytes bytes, void*& pointer) {
  const auto size = static_cast<std::size_t>(round_up(bytes, kPadAlignment) + traits_.tail_pad_bytes);
  const auto call = library_.allocate_exact != nullptr ? library_.allocate_exact : library_.allocate;
  return call(&pointer, size, acl::kHugeFirst);
}

/// ACL promises multiples of 64 only: where that is too little, once more with room to move up. The first attempt goes
/// back afterwards; should ACL refuse that, it is kept and tried again later.
DeviceCode AscendDevice::allocate_plain(Bytes bytes, Address& address) {
  if (bytes <= 0) return refuse(DeviceCode::invalid, "cannot allocate no bytes");
  if (bytes > kLargestPlain) return refuse(DeviceCode::out_of_memory, "more than any device has");
  void* pointer = nullptr;
  const DeviceCode code = in_context(VendorCall::memory, "aclrtMalloc", [&] {
    free_strays();
    const acl::Code first = allocate_padded(bytes, pointer);
    if (first != acl::kSuccess || address_of(pointer) % kBlockAlignment == 0) return first;
    strays_.add(address_of(pointer));
    free_strays();
    return allocate_padded(bytes + kBlockAlignment, pointer);
  });
  if (code != DeviceCode::ok) return code;
  const auto alignment = static_cast<Address>(kBlockAlignment);
  address = (address_of(pointer) + alignment - 1) / alignment * alignment;
  const std::lock_guard lock(plain_mutex_);
  plain_.emplace(address, pointer);
  return code;
}

void AscendDevice::free_strays() {
  std::set<std::uint64_t> strays = strays_.take_all();
  while (!strays.empty()) {
    Outstanding::Node stray = strays.extract(strays.begin());
    if (library_.free(pointer_of(stray.value())) != acl::kSuccess) strays_.put_back(std::move(stray));
  }
}

/// Out of the books before the call: ACL may give the address to another thread before this one is back.
DeviceCode AscendDevice::free_plain(Address address) {
  std::unique_lock lock(plain_mutex_);
  auto node = plain_.extract(address);
  lock.unlock();
  if (node.empty()) return refuse(DeviceCode::invalid, fmt::format("{:#x} is no plain block", address));
  const DeviceCode code = give_back("aclrtFree", [&] { return library_.free(node.mapped()); });
  lock.lock();
  if (code != DeviceCode::ok) plain_.insert(std::move(node));
  return code;
}

/// ACL's priorities are reserved, so the role makes no difference.
DeviceCode AscendDevice::create_stream(StreamRole /*role*/, StreamHandle& stream) {
  acl::Stream made = nullptr;
  const DeviceCode code =
      in_context(VendorCall::slot, "aclrtCreateStream", [&] { return library_.stream_create(&made); });
  if (code != DeviceCode::ok) return code;
  stream = StreamHandle{address_of(made)};
  streams_.add(address_of(made));
  return code;
}

/// A failure of the stream's work comes first, whatever becomes of the stream: nobody would hear of it again.
DeviceCode AscendDevice::destroy_stream(StreamHandle stream) {
  acl::Code waited = acl::kSuccess;
  const DeviceCode code = give_back_of(streams_, static_cast<std::uint64_t>(stream), "aclrtDestroyStream", [&] {
    if (!lost_) waited = library_.stream_synchronize(stream_of(stream));
    // Before the call as well: its key may be another thread's stream right after it.
    acl::Verifier::Buffer buffer = verifier_.take(stream_of(stream));
    const acl::Code destroyed = library_.stream_destroy(stream_of(stream));
    if (destroyed == acl::kSuccess || lost_) {
      verifier_.drop(std::move(buffer));
    } else {
      verifier_.put_back(std::move(buffer));
    }
    return destroyed;
  });
  const DeviceCode worked = outcome(waited, VendorCall::wait, "aclrtSynchronizeStream");
  return worked == DeviceCode::ok ? code : worked;
}

DeviceCode AscendDevice::create_event(EventHandle& event) {
  acl::Event made = nullptr;
  const DeviceCode code = in_context(VendorCall::slot, "aclrtCreateEventExWithFlag",
                                     [&] { return library_.event_create(&made, acl::kEventSync); });
  if (code != DeviceCode::ok) return code;
  event = EventHandle{address_of(made)};
  events_.add(address_of(made));
  return code;
}

DeviceCode AscendDevice::destroy_event(EventHandle event) {
  return give_back_of(events_, static_cast<std::uint64_t>(event), "aclrtDestroyEvent",
                      [&] { return library_.event_destroy(event_of(event)); });
}

DeviceCode AscendDevice::record_event(EventHandle event, StreamHandle stream) {
  return in_context(VendorCall::slot, "aclrtRecordEvent",
                    [&] { return library_.event_record(event_of(event), stream_of(stream)); });
}

DeviceCode AscendDevice::wait_event(StreamHandle stream, EventHandle event) {
  return in_context(VendorCall::slot, "aclrtStreamWaitEvent",
                    [&] { return library_.stream_wait_event(stream_of(stream), event_of(event)); });
}

DeviceCode AscendDevice::query_event(EventHandle event) {
  int status = 0;
  const DeviceCode code = in_context(VendorCall::wait, "aclrtQueryEventStatus",
                                     [&] { return library_.event_status(event_of(event), &status); });
  if (code != DeviceCode::ok) return code;
  return status == acl::kEventComplete ? DeviceCode::ok : DeviceCode::not_ready;
}

/// ACL counts milliseconds from 1 up: a timeout of less only asks.
DeviceCode AscendDevice::synchronize_event(EventHandle event, std::int64_t timeout_ns) {
  if (timeout_ns < 0) {
    return in_context(VendorCall::wait, "aclrtSynchronizeEvent",
                      [&] { return library_.event_synchronize(event_of(event)); });
  }
  const DeviceCode now = query_event(event);
  if (now != DeviceCode::not_ready || timeout_ns == 0) return now;
  const std::int64_t wanted_ms = timeout_ns / 1'000'000 + (timeout_ns % 1'000'000 != 0 ? 1 : 0);
  const auto timeout_ms =
      static_cast<std::int32_t>(std::min<std::int64_t>(wanted_ms, std::numeric_limits<std::int32_t>::max()));
  return in_context(VendorCall::wait, "aclrtSynchronizeEventWithTimeout",
                    [&] { return library_.event_synchronize_limit(event_of(event), timeout_ms); });
}

DeviceCode AscendDevice::synchronize_stream(StreamHandle stream) {
  return in_context(VendorCall::wait, "aclrtSynchronizeStream",
                    [&] { return library_.stream_synchronize(stream_of(stream)); });
}

DeviceCode AscendDevice::synchronize_device() {
  return in_context(VendorCall::wait, "aclrtSynchronizeDevice", [&] { return library_.synchronize_device(); });
}

DeviceCode AscendDevice::copy(StreamHandle stream, Address to, Address from, Bytes bytes, CopyKind kind,
                              std::int64_t /*id*/) {
  if (const DeviceCode code = check_copy(to, from, bytes, kind); code != DeviceCode::ok) return code;
  const auto size = static_cast<std::size_t>(bytes);
  const int direction = kind == CopyKind::device_to_host   ? acl::kDeviceToHost
                        : kind == CopyKind::host_to_device ? acl::kHostToDevice
                                                           : acl::kDeviceToDevice;
  return in_context(VendorCall::work, "aclrtMemcpyAsync", [&] {
    if (size == 0) return acl::kSuccess;
    return library_.copy(pointer_of(to), size, pointer_of(from), size, direction, stream_of(stream));
  });
}

acl::Code AscendDevice::launch_all(acl::Stream stream, const Work& work) {
  return carry_out(
      work, options_.play_estimates, [&](const Touch& touch) { return verifier_.check(stream, touch, work.id); },
      [&] { return acl::sleep_on(library_, stream, work.estimate_ns); },
      [&](const Touch& touch) { return verifier_.fill(stream, touch); });
}

DeviceCode AscendDevice::launch(StreamHandle stream, const Work& work) {
  if (lost_) return answer_lost();
  if (work.message.peer_rank >= 0) return refuse(DeviceCode::unsupported, "no messages between ranks on ascend");
  if (!work.verify && !options_.play_estimates) return DeviceCode::ok;
  return in_context(VendorCall::work, "aclrtLaunchHostFunc", [&] { return launch_all(stream_of(stream), work); });
}

}  // namespace

Result<std::unique_ptr<Device>> open_ascend_device(const AscendOptions& options) {
  if (options.ordinal < 0) return bad_input("an Ascend device number is 0 or more");
  Result<acl::Runtime> runtime = acl::load_runtime(options.library, options.second_library);
  if (!runtime) return runtime.error();
  auto device = std::make_unique<AscendDevice>(std::move(runtime).value(), options);
  if (const Status status = device->open(); !status) return status.error();
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace tidemark
