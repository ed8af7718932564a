#include "device/host_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "device/copy_sides.h"
#include "device/error_texts.h"
#include "device/fork_handlers.h"
#include "device/host_arena.h"
#include "device/host_copy.h"
#include "device/host_handles.h"
#include "device/host_launches.h"
#include "device/host_pinned.h"
#include "device/host_stream.h"
#include "device/mapped_memory.h"
#include "device/process_binding.h"

namespace tidemark {
namespace {

using Clock = HostLaunches::Clock;

constexpr Bytes kAlignment = 64;  ///< a cache line

void* pointer_to(Address address) {
  return reinterpret_cast<void*>(address);
}

class HostDevice final : public Device {
 public:
  explicit HostDevice(const HostDeviceOptions& options);
  ~HostDevice() override;

  [[nodiscard]] Status open();

  [[nodiscard]] const DeviceTraits& traits() const override { return traits_; }
  [[nodiscard]] std::string last_error() const override { return errors_.get(); }
  [[nodiscard]] DeviceCode memory_info(MemoryInfo& info) override;

  [[nodiscard]] DeviceCode reserve(Bytes bytes, Address& base) override;
  [[nodiscard]] DeviceCode release(Address base, Bytes bytes) override;
  [[nodiscard]] DeviceCode map(Address at, Bytes bytes) override;
  [[nodiscard]] DeviceCode unmap(Address at, Bytes bytes) override;
  [[nodiscard]] DeviceCode alias(Address at, Address source, Bytes bytes) override;
  [[nodiscard]] DeviceCode remap(Address at, Address source, Bytes bytes) override;

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
  [[nodiscard]] std::int64_t mismatches(Mismatch& first) override { return launches_.mismatches(first); }
  [[nodiscard]] std::int64_t now_ns() override;

 private:
  using Stream = HostHandles::Stream;
  using Record = HostHandles::Record;

  DeviceCode refuse(DeviceCode code, std::string text);
  /// Lost, or what the fault hook says.
  DeviceCode enter(HostCall call);
  DeviceCode enter() { return lost_ ? refuse(DeviceCode::lost, "the device is lost") : DeviceCode::ok; }
  /// The same on a stream's thread.
  HostFailure start(HostCall call, std::int64_t id);
  DeviceCode report(const HostFailure& failure);
  DeviceCode no_stream(StreamHandle handle);
  DeviceCode no_event(EventHandle handle);
  /// The stream, ready to be given work.
  DeviceCode find_working(StreamHandle handle, Stream& stream);

  using Engines = std::array<std::unique_ptr<HostCopyEngine>, 3>;  ///< by CopyKind
  [[nodiscard]] Engines make_engines() const;
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

  /// Of calls that give back: a lost device takes everything, once what still runs has ended.
  void drain_if_lost();
  [[nodiscard]] std::string wrong_copy(Address to, Address from, Bytes bytes, CopyKind kind);
  HostFailure run_launch(const HostLaunch& launch);

  const HostDeviceOptions options_;
  DeviceTraits traits_;
  ErrorTexts errors_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> aliased_{false};  ///< some bytes have had two addresses
  HostArena arena_;
  MappedMemory mapped_;
  Engines engines_;
  HostPinned pinned_;
  HostLaunches launches_;
  HostHandles handles_;  ///< the threads of its streams use everything above
  std::optional<ForkHandlers> forks_;
};

HostDevice::HostDevice(const HostDeviceOptions& options)
    : options_(options),
      arena_(options.capacity_bytes / options.granule_bytes * options.granule_bytes, options.granule_bytes, errors_),
      mapped_(arena_, true),
      engines_(make_engines()),
      pinned_({.capacity_bytes = options.pinned_capacity_bytes,
               .largest_bytes = options.largest_pinned_bytes,
               .numa_node = options.numa_node,
               .touch_threads = options.touch_threads},
              errors_),
      handles_(options.event_limit) {
  traits_ = {.name = "host",
             .product = "host memory",
             .mapping = true,
             .aliasing = true,
             .host_register = true,
             .granule_bytes = options.granule_bytes,
             .alignment_bytes = kAlignment,
             .event_limit = options.event_limit,
             .largest_pinned_bytes = options.largest_pinned_bytes,
             .numa_node = options.numa_node};
  mapped_.set_granule(options.granule_bytes);
}

HostDevice::~HostDevice() {
  forks_.reset();
  handles_.finish();
  mapped_.clear();
}

Status HostDevice::open() {
  if (Status opened = arena_.open(); !opened) return opened;
  forks_.emplace(ForkLevel::device, ForkSteps{.before_fork = [this] { before_fork(); },
                                              .after_fork_in_parent = [this] { after_fork_in_parent(); },
                                              .after_fork_in_child = [this] { after_fork_in_child(); }});
  return {};
}

HostDevice::Engines HostDevice::make_engines() const {
  const auto make = [this](Bytes rate) {
    return std::make_unique<HostCopyEngine>(options_.copy_threads, rate, options_.numa_node);
  };
  return {make(options_.d2h_bytes_per_s), make(options_.h2d_bytes_per_s), make(0)};
}

/// Streams first: their work is done when memory is copied. Every lock of the device is held then, in the order in
/// which calls take them.
void HostDevice::before_fork() {
  handles_.lock();
  launches_.lock();
  pinned_.lock();
  mapped_.lock();
  arena_.before_fork();
  errors_.lock();
}

void HostDevice::after_fork_in_parent() {
  errors_.unlock();
  arena_.after_fork_in_parent();
  mapped_.unlock();
  pinned_.unlock();
  launches_.unlock();
  handles_.unlock();
}

void HostDevice::after_fork_in_child() {
  errors_.unlock();
  if (!arena_.after_fork_in_child()) lost_ = true;
  mapped_.unlock();
  pinned_.unlock();
  launches_.unlock();
  for (auto& engine : std::exchange(engines_, make_engines())) abandon(std::move(engine));
  handles_.unlock_in_child();
}

DeviceCode HostDevice::refuse(DeviceCode code, std::string text) {
  errors_.set(std::move(text));
  return code;
}

DeviceCode HostDevice::enter(HostCall call) {
  if (const DeviceCode code = enter(); code != DeviceCode::ok || !options_.fault) return code;
  const DeviceCode code = options_.fault(call);
  if (code == DeviceCode::ok) return code;
  if (code == DeviceCode::lost) lost_ = true;
  return refuse(code, fmt::format("failure on demand: {}", name_of(code)));
}

HostFailure HostDevice::start(HostCall call, std::int64_t id) {
  if (lost_) return {DeviceCode::lost, "the device is lost"};
  const DeviceCode code = options_.fault ? options_.fault(call) : DeviceCode::ok;
  if (code == DeviceCode::ok) return {};
  if (code == DeviceCode::lost) lost_ = true;
  return {code, fmt::format("{} {}: failure on demand: {}", call == HostCall::run_copy ? "copy" : "launch", id,
                            name_of(code))};
}

DeviceCode HostDevice::report(const HostFailure& failure) {
  if (const DeviceCode code = enter(); code != DeviceCode::ok) return code;
  return failure.code == DeviceCode::ok ? DeviceCode::ok : refuse(failure.code, failure.text);
}

void HostDevice::drain_if_lost() {
  if (!lost_) return;
  for (const Record& record : handles_.record_all()) static_cast<void>(record->await(-1));
}

DeviceCode HostDevice::memory_info(MemoryInfo& info) {
  info = arena_.info();
  return enter();
}

DeviceCode HostDevice::reserve(Bytes bytes, Address& base) {
  const DeviceCode code = enter(HostCall::reserve);
  return code != DeviceCode::ok ? code : mapped_.reserve(bytes, base);
}

DeviceCode HostDevice::release(Address base, Bytes bytes) {
  drain_if_lost();
  return mapped_.release(base, bytes);
}

DeviceCode HostDevice::map(Address at, Bytes bytes) {
  const DeviceCode code = enter(HostCall::map);
  return code != DeviceCode::ok ? code : mapped_.map(at, bytes);
}

DeviceCode HostDevice::unmap(Address at, Bytes bytes) {
  drain_if_lost();
  const DeviceCode code = lost_ ? DeviceCode::ok : enter(HostCall::unmap);
  return code != DeviceCode::ok ? code : mapped_.unmap(at, bytes);
}

DeviceCode HostDevice::alias(Address at, Address source, Bytes bytes) {
  if (const DeviceCode code = enter(HostCall::alias); code != DeviceCode::ok) return code;
  aliased_ = true;
  return mapped_.alias(at, source, bytes);
}

DeviceCode HostDevice::remap(Address at, Address source, Bytes bytes) {
  const DeviceCode code = enter(HostCall::remap);
  return code != DeviceCode::ok ? code : mapped_.remap(at, source, bytes);
}

DeviceCode HostDevice::allocate_plain(Bytes bytes, Address& address) {
  const DeviceCode code = enter(HostCall::allocate_plain);
  return code != DeviceCode::ok ? code : arena_.allocate_plain(bytes, address);
}

DeviceCode HostDevice::free_plain(Address address) {
  drain_if_lost();
  return arena_.free_plain(address);
}

DeviceCode HostDevice::allocate_pinned(Bytes bytes, Address& address) {
  const DeviceCode code = enter(HostCall::allocate_pinned);
  return code != DeviceCode::ok ? code : pinned_.allocate(bytes, address);
}

DeviceCode HostDevice::free_pinned(Address address) {
  drain_if_lost();
  return pinned_.free(address);
}

DeviceCode HostDevice::no_stream(StreamHandle handle) {
  return refuse(DeviceCode::invalid, fmt::format("there is no stream {}", static_cast<std::uint64_t>(handle)));
}

/// A stream of the parent's has no thread in a forked process until it is given work there.
DeviceCode HostDevice::find_working(StreamHandle handle, Stream& stream) {
  stream = handles_.find_stream(handle);
  if (stream == nullptr) return no_stream(handle);
  try {
    stream->start();
  } catch (const std::system_error& error) {
    return refuse(DeviceCode::no_resource, fmt::format("cannot start a thread: {}", error.what()));
  }
  return DeviceCode::ok;
}

DeviceCode HostDevice::no_event(EventHandle handle) {
  return refuse(DeviceCode::invalid, fmt::format("there is no event {}", static_cast<std::uint64_t>(handle)));
}

DeviceCode HostDevice::create_stream(StreamRole role, StreamHandle& stream) {
  if (const DeviceCode code = enter(HostCall::create_stream); code != DeviceCode::ok) return code;
  Stream made;
  try {
    made = std::make_shared<HostStream>(role, options_.numa_node);
    made->start();
  } catch (const std::system_error& error) {
    return refuse(DeviceCode::no_resource, fmt::format("cannot start a thread: {}", error.what()));
  }
  stream = handles_.add_stream(std::move(made));
  return DeviceCode::ok;
}

DeviceCode HostDevice::destroy_stream(StreamHandle handle) {
  Stream stream = handles_.close_stream(handle);
  if (stream == nullptr) return no_stream(handle);
  const Record last = stream->record();
  static_cast<void>(last->await(-1));
  handles_.remove_stream(handle);  // not before: drain_if_lost() waits for what is there
  stream.reset();
  return lost_ ? DeviceCode::ok : report(last->failure());
}

DeviceCode HostDevice::create_event(EventHandle& event) {
  if (const DeviceCode code = enter(HostCall::create_event); code != DeviceCode::ok) return code;
  if (handles_.add_event(event)) return DeviceCode::ok;
  return refuse(DeviceCode::no_resource, fmt::format("all {} events are in use", options_.event_limit));
}

DeviceCode HostDevice::destroy_event(EventHandle event) {
  return handles_.remove_event(event) ? DeviceCode::ok : no_event(event);
}

DeviceCode HostDevice::record_event(EventHandle event, StreamHandle handle) {
  if (const DeviceCode code = enter(HostCall::record_event); code != DeviceCode::ok) return code;
  const Stream stream = handles_.find_stream(handle);
  if (stream == nullptr) return no_stream(handle);
  return handles_.record_event(event, *stream) ? DeviceCode::ok : refuse(DeviceCode::invalid, "there is no such event");
}

DeviceCode HostDevice::wait_event(StreamHandle handle, EventHandle event) {
  if (const DeviceCode code = enter(HostCall::wait_event); code != DeviceCode::ok) return code;
  Stream stream = handles_.find_stream(handle);
  if (stream == nullptr) return no_stream(handle);
  Record record;
  if (!handles_.find_record(event, record)) return no_event(event);
  if (record == nullptr || stream->follow(*record)) return DeviceCode::ok;
  if (const DeviceCode code = find_working(handle, stream); code != DeviceCode::ok) return code;
  stream->wait(std::move(record));
  return DeviceCode::ok;
}

DeviceCode HostDevice::query_event(EventHandle event) {
  if (const DeviceCode code = enter(); code != DeviceCode::ok) return code;
  Record record;
  if (!handles_.find_record(event, record)) return no_event(event);
  return record == nullptr || record->is_complete() ? DeviceCode::ok : DeviceCode::not_ready;
}

DeviceCode HostDevice::synchronize_event(EventHandle event, std::int64_t timeout_ns) {
  if (const DeviceCode code = enter(); code != DeviceCode::ok) return code;
  Record record;
  if (!handles_.find_record(event, record)) return no_event(event);
  if (record == nullptr) return DeviceCode::ok;
  if (!record->await(timeout_ns)) return refuse(DeviceCode::not_ready, "the event is not complete yet");
  return report(record->failure());
}

DeviceCode HostDevice::synchronize_stream(StreamHandle handle) {
  if (const DeviceCode code = enter(); code != DeviceCode::ok) return code;
  const Stream stream = handles_.find_stream(handle);
  if (stream == nullptr) return no_stream(handle);
  const Record record = stream->record();
  static_cast<void>(record->await(-1));
  return report(record->failure());
}

DeviceCode HostDevice::synchronize_device() {
  if (const DeviceCode code = enter(); code != DeviceCode::ok) return code;
  HostFailure first;
  for (const Record& record : handles_.record_all()) {
    static_cast<void>(record->await(-1));
    if (first.code == DeviceCode::ok) first = record->failure();
  }
  return report(first);
}

/// Empty: nothing is wrong with it.
std::string HostDevice::wrong_copy(Address to, Address from, Bytes bytes, CopyKind kind) {
  const auto is_pinned = [this](Address at, Bytes size) { return pinned_.contains(at, size); };
  if (std::string why = wrong_side_of_copy(to, from, bytes, kind, is_pinned); !why.empty()) return why;
  if (options_.copies_any_memory) return "";
  const bool to_device = kind != CopyKind::device_to_host, from_device = kind != CopyKind::host_to_device;
  if ((!to_device || arena_.accessible(to, bytes)) && (!from_device || arena_.accessible(from, bytes))) return "";
  return fmt::format("{} B from {:#x} to {:#x} leave what is mapped", bytes, from, to);
}

DeviceCode HostDevice::copy(StreamHandle handle, Address to, Address from, Bytes bytes, CopyKind kind,
                            std::int64_t id) {
  if (const DeviceCode code = enter(HostCall::copy); code != DeviceCode::ok) return code;
  Stream stream;
  if (const DeviceCode code = find_working(handle, stream); code != DeviceCode::ok) return code;
  if (const std::string why = wrong_copy(to, from, bytes, kind); !why.empty()) {
    return refuse(DeviceCode::invalid, fmt::format("copy {}: {}", id, why));
  }
  const HostTransfer transfer{.to = to, .from = from, .bytes = bytes, .alone = aliased_};
  stream->copy(transfer, [this, transfer, kind, id](std::function<void()> done) -> HostFailure {
    HostFailure failure = start(HostCall::run_copy, id);
    if (failure.code == DeviceCode::ok) {
      engines_[static_cast<std::size_t>(kind)]->begin(pointer_to(transfer.to), pointer_to(transfer.from),
                                                      transfer.bytes, std::move(done));
    }
    return failure;
  });
  return DeviceCode::ok;
}

DeviceCode HostDevice::launch(StreamHandle handle, const Work& work) {
  if (const DeviceCode code = enter(HostCall::launch); code != DeviceCode::ok) return code;
  Stream stream;
  if (const DeviceCode code = find_working(handle, stream); code != DeviceCode::ok) return code;
  if (work.message.peer_rank >= 0) return refuse(DeviceCode::unsupported, "no messages between ranks on host");
  HostLaunch launch{.id = work.id};
  const double ns = static_cast<double>(work.estimate_ns) * options_.play_estimates;
  launch.takes = std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
  if (work.verify) launch.touches.assign(work.touches.begin(), work.touches.end());
  for (const Touch& touch : launch.touches) {
    if (arena_.accessible(touch.address, touch.bytes)) continue;
    return refuse(DeviceCode::invalid,
                  fmt::format("launch {}: {} B at {:#x} leave what is mapped", work.id, touch.bytes, touch.address));
  }
  stream->submit([this, launch = std::move(launch)] { return run_launch(launch); });
  return DeviceCode::ok;
}

HostFailure HostDevice::run_launch(const HostLaunch& launch) {
  const Clock::time_point end = Clock::now() + launch.takes;
  HostFailure failure = start(HostCall::run_launch, launch.id);
  if (failure.code == DeviceCode::ok) launches_.run(launch, end);
  return failure;
}

std::int64_t HostDevice::now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

const char* wrong_option(const HostDeviceOptions& options) {
  if (options.granule_bytes <= 0 || options.granule_bytes % sysconf(_SC_PAGESIZE) != 0) {
    return "granule_bytes must be a multiple of the page size";
  }
  if (options.capacity_bytes < options.granule_bytes) return "capacity_bytes must be at least one granule";
  if (options.copy_threads < 1 || options.touch_threads < 1) return "thread counts must be at least 1";
  if (options.d2h_bytes_per_s < 0 || options.h2d_bytes_per_s < 0) return "rates must not be negative";
  if (!(options.play_estimates >= 0)) return "play_estimates must not be negative";
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Device>> open_host_device(const HostDeviceOptions& options) {
  if (const char* wrong = wrong_option(options); wrong != nullptr) {
    return bad_input(std::string("host device: ") + wrong);
  }
  HostDeviceOptions placed = options;
  placed.numa_node = numa_node_or_bound(options.numa_node);
  auto device = std::make_unique<HostDevice>(placed);
  if (Status opened = device->open(); !opened) return opened.error();
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace tidemark
