#include "device/host_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/copy_sides.h"
#include "device/error_texts.h"
#include "device/host_arena.h"
#include "device/host_copy.h"
#include "device/host_pages.h"
#include "device/host_stream.h"
#include "device/mapped_memory.h"
#include "device/pattern.h"

namespace tidemark {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kAlignment = 64;                          ///< a cache line
constexpr auto kWakeUp = std::chrono::microseconds(100);  ///< how late a sleep may end; the rest is spun

void* pointer_to(Address address) {
  return reinterpret_cast<void*>(address);
}

/// Sleeps most of the time and spins the end of it, so that estimates are met to a microsecond.
void pass_until(Clock::time_point end) {
  if (end - Clock::now() > kWakeUp) std::this_thread::sleep_until(end - kWakeUp);
  while (Clock::now() < end) {
  }
}

/// Work's own copy of what it touches, and how long it takes.
struct HostLaunch {
  std::int64_t id = -1;
  std::chrono::nanoseconds takes{0};
  bool verify = false;
  std::vector<Touch> touches;
};

class HostDevice final : public Device {
 public:
  explicit HostDevice(const HostDeviceOptions& options);
  ~HostDevice() override;

  [[nodiscard]] Status open() { return arena_.open(); }

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
  [[nodiscard]] PinnedFacts pinned_facts(Address address) override;

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
  using Stream = std::shared_ptr<HostStream>;
  using Record = std::shared_ptr<const HostRecord>;
  struct StreamSlot {
    Stream stream;
    bool closing = false;  ///< nobody finds it any more, yet what it has in flight counts
  };

  DeviceCode refuse(DeviceCode code, std::string text);
  /// Lost, or what the fault hook says.
  DeviceCode enter(HostCall call);
  DeviceCode enter() { return lost_ ? refuse(DeviceCode::lost, "the device is lost") : DeviceCode::ok; }
  /// The same on a stream's thread.
  HostFailure start(HostCall call, std::int64_t id);
  DeviceCode report(const HostFailure& failure);

  [[nodiscard]] Stream find_stream(StreamHandle handle);
  DeviceCode no_stream(StreamHandle handle);
  DeviceCode no_event(EventHandle handle);
  /// False: no such event. A null record: never recorded.
  [[nodiscard]] bool find_record(EventHandle handle, Record& record);

  /// Of calls that give back: a lost device takes everything, once what still runs has ended.
  void drain_if_lost();
  [[nodiscard]] bool pinned(Address at, Bytes bytes);
  [[nodiscard]] std::string wrong_copy(Address to, Address from, Bytes bytes, CopyKind kind);
  HostFailure run_launch(const HostLaunch& launch);
  void check(const HostLaunch& launch, const Touch& touch);

  const HostDeviceOptions options_;
  DeviceTraits traits_;
  ErrorTexts errors_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> aliased_{false};  ///< some bytes have had two addresses
  HostArena arena_;
  MappedMemory mapped_;
  std::array<HostCopyEngine, 3> engines_;  ///< by CopyKind

  std::mutex pinned_mutex_;
  struct Pinned {
    Bytes bytes = 0;  ///< as asked for
    HostPages pages;
  };
  std::map<Address, Pinned> pinned_;
  Bytes pinned_bytes_ = 0;

  std::mutex mismatch_mutex_;
  std::int64_t mismatch_count_ = 0;
  Mismatch first_mismatch_;

  std::mutex mutex_;  ///< of the tables below
  std::uint64_t next_handle_ = 1;
  std::unordered_map<std::uint64_t, Record> events_;
  std::map<std::uint64_t, StreamSlot> streams_;  ///< last: their threads use everything above
};

HostDevice::HostDevice(const HostDeviceOptions& options)
    : options_(options),
      arena_(options.capacity_bytes / options.granule_bytes * options.granule_bytes, options.granule_bytes, errors_),
      mapped_(arena_, true),
      engines_{{{options.copy_threads, options.d2h_bytes_per_s},
                {options.copy_threads, options.h2d_bytes_per_s},
                {options.copy_threads, 0}}} {
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
  // A stream may wait for another one's record: all of them carry on until each has come to its end.
  for (const auto& [handle, slot] : streams_) static_cast<void>(slot.stream->record()->await(-1));
  streams_.clear();
  mapped_.clear();
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
  std::vector<Record> records;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, slot] : streams_) records.push_back(slot.stream->record());
  }
  for (const Record& record : records) static_cast<void>(record->await(-1));
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
  if (const DeviceCode code = enter(HostCall::allocate_pinned); code != DeviceCode::ok) return code;
  if (bytes <= 0) return refuse(DeviceCode::invalid, "pinned memory needs a positive size");
  if (bytes > 1024 * kTiB) return refuse(DeviceCode::out_of_memory, "more than any machine has");
  if (options_.largest_pinned_bytes > 0 && bytes > options_.largest_pinned_bytes) {
    return refuse(DeviceCode::out_of_memory, fmt::format("{} in one piece, at most {}", format_bytes(bytes),
                                                         format_bytes(options_.largest_pinned_bytes)));
  }
  const Bytes whole = round_up(bytes, sysconf(_SC_PAGESIZE)), limit = options_.pinned_capacity_bytes;
  {
    const std::lock_guard lock(pinned_mutex_);
    if (limit > 0 && whole > limit - pinned_bytes_) {
      return refuse(DeviceCode::out_of_memory,
                    fmt::format("{} of pinned memory asked for, {} of {} taken", format_bytes(bytes),
                                format_bytes(pinned_bytes_), format_bytes(limit)));
    }
    pinned_bytes_ += whole;  // booked before the slow part
  }
  Result<HostPages> pages = HostPages::allocate(
      {.bytes = bytes, .numa_node = options_.numa_node, .touch_threads = options_.touch_threads, .lock = true});
  const std::lock_guard lock(pinned_mutex_);
  if (!pages) {
    pinned_bytes_ -= whole;
    return refuse(DeviceCode::out_of_memory, pages.error().message);
  }
  address = pages.value().address();
  pinned_.emplace(address, Pinned{bytes, std::move(pages).value()});
  return DeviceCode::ok;
}

DeviceCode HostDevice::free_pinned(Address address) {
  drain_if_lost();
  HostPages pages;  // unmapped outside the lock
  const std::lock_guard lock(pinned_mutex_);
  const auto found = pinned_.find(address);
  if (found == pinned_.end()) return refuse(DeviceCode::invalid, fmt::format("{:#x} is no pinned memory", address));
  pages = std::move(found->second.pages);
  pinned_bytes_ -= pages.bytes();
  pinned_.erase(found);
  return DeviceCode::ok;
}

PinnedFacts HostDevice::pinned_facts(Address address) {
  const std::lock_guard lock(pinned_mutex_);
  const auto found = pinned_.find(address);
  return found == pinned_.end() ? PinnedFacts{} : found->second.pages.facts();
}

DeviceCode HostDevice::no_stream(StreamHandle handle) {
  return refuse(DeviceCode::invalid, fmt::format("there is no stream {}", static_cast<std::uint64_t>(handle)));
}

DeviceCode HostDevice::no_event(EventHandle handle) {
  return refuse(DeviceCode::invalid, fmt::format("there is no event {}", static_cast<std::uint64_t>(handle)));
}

HostDevice::Stream HostDevice::find_stream(StreamHandle handle) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(static_cast<std::uint64_t>(handle));
  return found == streams_.end() || found->second.closing ? nullptr : found->second.stream;
}

bool HostDevice::find_record(EventHandle handle, Record& record) {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(static_cast<std::uint64_t>(handle));
  if (found == events_.end()) return false;
  record = found->second;
  return true;
}

DeviceCode HostDevice::create_stream(StreamRole role, StreamHandle& stream) {
  if (const DeviceCode code = enter(HostCall::create_stream); code != DeviceCode::ok) return code;
  Stream made;
  try {
    made = std::make_shared<HostStream>(role);
  } catch (const std::system_error& error) {
    return refuse(DeviceCode::no_resource, fmt::format("cannot start a thread: {}", error.what()));
  }
  const std::lock_guard lock(mutex_);
  stream = static_cast<StreamHandle>(next_handle_);
  streams_.emplace(next_handle_++, StreamSlot{std::move(made)});
  return DeviceCode::ok;
}

DeviceCode HostDevice::destroy_stream(StreamHandle handle) {
  Stream stream;
  {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(static_cast<std::uint64_t>(handle));
    if (found != streams_.end() && !std::exchange(found->second.closing, true)) stream = found->second.stream;
  }
  if (stream == nullptr) return no_stream(handle);
  const Record last = stream->record();
  static_cast<void>(last->await(-1));
  {
    const std::lock_guard lock(mutex_);
    streams_.erase(static_cast<std::uint64_t>(handle));  // not before: drain_if_lost() waits for what is here
  }
  stream.reset();
  return lost_ ? DeviceCode::ok : report(last->failure());
}

DeviceCode HostDevice::create_event(EventHandle& event) {
  if (const DeviceCode code = enter(HostCall::create_event); code != DeviceCode::ok) return code;
  const std::lock_guard lock(mutex_);
  if (options_.event_limit > 0 && std::ssize(events_) >= options_.event_limit) {
    return refuse(DeviceCode::no_resource, fmt::format("all {} events are in use", options_.event_limit));
  }
  event = static_cast<EventHandle>(next_handle_);
  events_.emplace(next_handle_++, nullptr);
  return DeviceCode::ok;
}

DeviceCode HostDevice::destroy_event(EventHandle event) {
  {
    const std::lock_guard lock(mutex_);
    if (events_.erase(static_cast<std::uint64_t>(event)) > 0) return DeviceCode::ok;
  }
  return no_event(event);
}

DeviceCode HostDevice::record_event(EventHandle event, StreamHandle handle) {
  if (const DeviceCode code = enter(HostCall::record_event); code != DeviceCode::ok) return code;
  const Stream stream = find_stream(handle);
  if (stream == nullptr) return no_stream(handle);
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(static_cast<std::uint64_t>(event));
  if (found == events_.end()) return refuse(DeviceCode::invalid, "there is no such event");
  found->second = stream->record();
  return DeviceCode::ok;
}

DeviceCode HostDevice::wait_event(StreamHandle handle, EventHandle event) {
  if (const DeviceCode code = enter(HostCall::wait_event); code != DeviceCode::ok) return code;
  const Stream stream = find_stream(handle);
  if (stream == nullptr) return no_stream(handle);
  Record record;
  if (!find_record(event, record)) return no_event(event);
  if (record != nullptr) stream->wait(std::move(record));
  return DeviceCode::ok;
}

DeviceCode HostDevice::query_event(EventHandle event) {
  if (const DeviceCode code = enter(); code != DeviceCode::ok) return code;
  Record record;
  if (!find_record(event, record)) return no_event(event);
  return record == nullptr || record->is_complete() ? DeviceCode::ok : DeviceCode::not_ready;
}

DeviceCode HostDevice::synchronize_event(EventHandle event, std::int64_t timeout_ns) {
  if (const DeviceCode code = enter(); code != DeviceCode::ok) return code;
  Record record;
  if (!find_record(event, record)) return no_event(event);
  if (record == nullptr) return DeviceCode::ok;
  if (!record->await(timeout_ns)) return refuse(DeviceCode::not_ready, "the event is not complete yet");
  return report(record->failure());
}

DeviceCode HostDevice::synchronize_stream(StreamHandle handle) {
  if (const DeviceCode code = enter(); code != DeviceCode::ok) return code;
  const Stream stream = find_stream(handle);
  if (stream == nullptr) return no_stream(handle);
  const Record record = stream->record();
  static_cast<void>(record->await(-1));
  return report(record->failure());
}

DeviceCode HostDevice::synchronize_device() {
  if (const DeviceCode code = enter(); code != DeviceCode::ok) return code;
  std::vector<Record> records;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [handle, slot] : streams_) records.push_back(slot.stream->record());
  }
  HostFailure first;
  for (const Record& record : records) {
    static_cast<void>(record->await(-1));
    if (first.code == DeviceCode::ok) first = record->failure();
  }
  return report(first);
}

bool HostDevice::pinned(Address at, Bytes bytes) {
  const std::lock_guard lock(pinned_mutex_);
  auto found = pinned_.upper_bound(at);
  if (found == pinned_.begin()) return false;
  --found;
  const Address offset = at - found->first, size = static_cast<Address>(found->second.bytes);
  return offset <= size && static_cast<Address>(bytes) <= size - offset;
}

/// Empty: nothing is wrong with it.
std::string HostDevice::wrong_copy(Address to, Address from, Bytes bytes, CopyKind kind) {
  const auto is_pinned = [this](Address at, Bytes size) { return pinned(at, size); };
  if (std::string why = wrong_side_of_copy(to, from, bytes, kind, is_pinned); !why.empty()) return why;
  const bool to_device = kind != CopyKind::device_to_host, from_device = kind != CopyKind::host_to_device;
  if ((!to_device || arena_.accessible(to, bytes)) && (!from_device || arena_.accessible(from, bytes))) return "";
  return fmt::format("{} B from {:#x} to {:#x} leave what is mapped", bytes, from, to);
}

DeviceCode HostDevice::copy(StreamHandle handle, Address to, Address from, Bytes bytes, CopyKind kind,
                            std::int64_t id) {
  if (const DeviceCode code = enter(HostCall::copy); code != DeviceCode::ok) return code;
  const Stream stream = find_stream(handle);
  if (stream == nullptr) return no_stream(handle);
  if (const std::string why = wrong_copy(to, from, bytes, kind); !why.empty()) {
    return refuse(DeviceCode::invalid, fmt::format("copy {}: {}", id, why));
  }
  const HostTransfer transfer{.to = to, .from = from, .bytes = bytes, .alone = aliased_};
  stream->copy(transfer, [this, transfer, kind, id](std::function<void()> done) -> HostFailure {
    HostFailure failure = start(HostCall::run_copy, id);
    if (failure.code == DeviceCode::ok) {
      engines_[static_cast<std::size_t>(kind)].begin(pointer_to(transfer.to), pointer_to(transfer.from), transfer.bytes,
                                                     std::move(done));
    }
    return failure;
  });
  return DeviceCode::ok;
}

DeviceCode HostDevice::launch(StreamHandle handle, const Work& work) {
  if (const DeviceCode code = enter(HostCall::launch); code != DeviceCode::ok) return code;
  const Stream stream = find_stream(handle);
  if (stream == nullptr) return no_stream(handle);
  if (work.message.peer_rank >= 0) return refuse(DeviceCode::unsupported, "no messages between ranks on host");
  HostLaunch launch{.id = work.id, .verify = work.verify};
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
  if (failure.code != DeviceCode::ok) return failure;
  // All reads before any write: work in place finds the old version.
  for (const Touch& touch : launch.touches) {
    if (touch.kind == AccessKind::read) check(launch, touch);
  }
  for (const Touch& touch : launch.touches) {
    if (touch.kind == AccessKind::write) fill_pattern(pointer_to(touch.address), touch.bytes, touch.seed, touch.place);
  }
  if (launch.takes.count() > 0) pass_until(end);
  return failure;
}

void HostDevice::check(const HostLaunch& launch, const Touch& touch) {
  if (holds_pattern(pointer_to(touch.address), touch.bytes, touch.seed, touch.place)) return;
  const std::lock_guard lock(mismatch_mutex_);
  if (mismatch_count_++ > 0) return;
  first_mismatch_ = {.work_id = launch.id, .address = touch.address, .bytes = touch.bytes, .expected_seed = touch.seed};
}

std::int64_t HostDevice::mismatches(Mismatch& first) {
  const std::lock_guard lock(mismatch_mutex_);
  first = first_mismatch_;
  return mismatch_count_;
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
  auto device = std::make_unique<HostDevice>(options);
  if (Status opened = device->open(); !opened) return opened.error();
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace tidemark
