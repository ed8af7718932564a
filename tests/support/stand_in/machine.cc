#include "tests/support/stand_in/machine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace stand_in {
namespace {

constexpr unsigned char kGuard = 0xA5;

bool overlap(Range a, Range b) {
  return a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}

bool touches(const Operation& operation, Range range) {
  const auto hit = [range](Range own) { return overlap(own, range); };
  return std::any_of(operation.device_ranges.begin(), operation.device_ranges.end(), hit) ||
         std::any_of(operation.host_ranges.begin(), operation.host_ranges.end(), hit);
}

template <class Thing>
Thing* find_in(const std::map<void*, std::unique_ptr<Thing>>& things, void* handle) {
  const auto found = things.find(handle);
  return found == things.end() ? nullptr : found->second.get();
}

/// Settings by name; what is not set has these values.
std::int64_t preset(const std::string& key) {
  if (key == "capacity_bytes") return std::int64_t{1} << 32;
  if (key == "granule_bytes") return std::int64_t{2} << 20;
  if (key == "event_limit") return 65'536;
  if (key == "host_register" || key == "mapping" || key == "peer_access") return 1;
  return 0;
}

}  // namespace

Stream::Stream(Machine& machine) : machine_(machine), thread_([this] { work(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(machine_.mutex_);
    stop_ = true;
  }
  machine_.changed_.notify_all();
  thread_.join();
}

void Stream::work() {
  Machine::Lock lock(machine_.mutex_);
  for (;;) {
    machine_.changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Operation& operation = queue_.front();
    if (operation.awaits != nullptr) machine_.changed_.wait(lock, [&] { return operation.awaits->done; });
    for (const Range& range : operation.device_ranges) {
      if (!operation.dropped && !machine_.covered(range, operation.runs_on)) {
        machine_.violate_locked("an operation touched device memory that is not there, not accessible or too short");
      }
    }
    for (const Range& range : operation.host_ranges) {
      if (!operation.dropped && !machine_.covered(range, 0)) {
        machine_.violate_locked("an operation touched pinned memory beyond its end");
      }
    }
    if (operation.run && !operation.dropped && machine_.sticky_ == 0) {
      operation.running = true;
      const std::int64_t delay_us = machine_.settings_["delay_us"];
      lock.unlock();
      if (delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
      operation.run();
      lock.lock();
    }
    if (operation.completes != nullptr) operation.completes->done = true;
    queue_.pop_front();
    machine_.changed_.notify_all();
  }
}

void Machine::fail_call(const std::string& call, std::int64_t skip, int code) {
  const std::lock_guard lock(mutex_);
  faults_[call] = {skip, code};
}

int Machine::injected(const char* call) {
  const std::lock_guard lock(mutex_);
  const auto found = faults_.find(call);
  if (found == faults_.end() || found->second.skip-- > 0) return 0;
  const int code = found->second.code;
  faults_.erase(found);
  return code;
}

std::int64_t Machine::count_operations() const {
  std::int64_t count = 0;
  for (const auto& [handle, stream] : streams_) count += static_cast<std::int64_t>(stream->queue_.size());
  return count;
}

std::int64_t Machine::get(const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (key == "violations") return violations_;
  if (key == "blocks") return static_cast<std::int64_t>(blocks_.size());
  if (key == "reservations") return static_cast<std::int64_t>(reservations_.size());
  if (key == "mappings") return static_cast<std::int64_t>(mappings_.size());
  if (key == "physicals") return static_cast<std::int64_t>(physicals_.size());
  if (key == "streams") return static_cast<std::int64_t>(streams_.size());
  if (key == "events") return static_cast<std::int64_t>(events_.size());
  if (key == "operations") return count_operations();
  if (key == "device_bytes") return device_bytes_;
  if (key == "copy_streams_in") return static_cast<std::int64_t>(copy_streams_in_.size());
  if (key == "copy_streams_out") return static_cast<std::int64_t>(copy_streams_out_.size());
  if (key == "tail_pad_bytes") return static_cast<std::int64_t>(tail_pad());
  if (const auto counted = counts_.find(key); counted != counts_.end()) return counted->second;
  const auto found = settings_.find(key);
  return found == settings_.end() ? preset(key) : found->second;
}

void Machine::set(const std::string& key, std::int64_t value) {
  const std::lock_guard lock(mutex_);
  settings_[key] = value;
}

void Machine::reset() {
  synchronize_all();
  Lock lock(mutex_);
  auto streams = std::exchange(streams_, {});
  for (const auto& [at, block] : blocks_) std::free(block.storage);
  for (const auto& [base, bytes] : reservations_) munmap(reinterpret_cast<void*>(base), bytes);
  for (Physical* const physical : physicals_) delete physical;
  if (file_ >= 0) close(file_);
  file_ = -1;
  file_bytes_ = 0;
  device_bytes_ = event_slots_ = violations_ = 0;
  sticky_ = 0;
  blocks_.clear();
  reservations_.clear();
  mappings_.clear();
  physicals_.clear();
  free_pieces_.clear();
  events_.clear();
  faults_.clear();
  settings_.clear();
  counts_.clear();
  copy_streams_in_.clear();
  copy_streams_out_.clear();
  message_.clear();
  lock.unlock();
}

void Machine::count(const char* key, std::int64_t by) {
  const std::lock_guard lock(mutex_);
  counts_[key] += by;
}

void Machine::count_copy(Stream* stream, bool is_out, std::size_t bytes, bool is_pinned) {
  const std::lock_guard lock(mutex_);
  ++counts_[is_out ? "copies_out" : "copies_in"];
  counts_[is_out ? "copied_out_bytes" : "copied_in_bytes"] += static_cast<std::int64_t>(bytes);
  if (!is_pinned) ++counts_["pageable_copies"];
  (is_out ? copy_streams_out_ : copy_streams_in_).insert(stream);
}

int Machine::sticky() {
  const std::lock_guard lock(mutex_);
  return sticky_;
}

std::string Machine::message() {
  const std::lock_guard lock(mutex_);
  return message_;
}

void Machine::violate(const std::string& what) {
  const std::lock_guard lock(mutex_);
  violate_locked(what);
}

void Machine::violate_locked(const std::string& what) {
  ++violations_;
  if (sticky_ == 0) message_ = "stand-in: " + what;
  sticky_ = violation_code_;
}

std::int64_t Machine::free_device_bytes() {
  const std::int64_t capacity = get("capacity_bytes");
  const std::lock_guard lock(mutex_);
  return std::max<std::int64_t>(0, capacity - device_bytes_);
}

void* Machine::allocate(std::size_t bytes, MemoryKind kind, std::size_t alignment, std::size_t skew,
                        std::size_t guard) {
  if (kind == MemoryKind::device && static_cast<std::int64_t>(bytes) > free_device_bytes()) return nullptr;
  void* storage = nullptr;
  if (posix_memalign(&storage, alignment, bytes + skew) != 0) return nullptr;
  auto* const at = static_cast<unsigned char*>(storage) + skew;
  std::memset(at + bytes - guard, kGuard, guard);
  const std::lock_guard lock(mutex_);
  blocks_[reinterpret_cast<Place>(at)] = {bytes, bytes - guard, kind, storage};
  if (kind == MemoryKind::device) device_bytes_ += static_cast<std::int64_t>(bytes);
  if (kind == MemoryKind::pinned) ++counts_["pinned_allocations"];
  return at;
}

/// Drops what is queued on the range and waits for what is running there: it has been counted, and the process shall
/// go on.
void Machine::drop_users(Lock& lock, Range range, const char* how) {
  for (const auto& [handle, stream] : streams_) {
    for (Operation& operation : stream->queue_) {
      if (operation.dropped || !touches(operation, range)) continue;
      operation.dropped = true;
      violate_locked(std::string(how) + " while an operation in flight touches it");
    }
  }
  changed_.wait(lock, [&] {
    return std::none_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
      const auto& queue = entry.second->queue_;
      return !queue.empty() && queue.front().running && touches(queue.front(), range);
    });
  });
}

bool Machine::free(void* at, MemoryKind kind) {
  Lock lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<Place>(at));
  if (found == blocks_.end() || found->second.kind != kind) return false;
  const Block block = found->second;
  drop_users(lock, {found->first, block.bytes}, "memory was given back");
  const auto* const guard = static_cast<const unsigned char*>(at) + block.usable_bytes;
  if (block.kind != MemoryKind::registered &&
      std::any_of(guard, guard + (block.bytes - block.usable_bytes), [](unsigned char b) { return b != kGuard; })) {
    violate_locked("the pad behind a block was written");
  }
  blocks_.erase(found);
  if (kind == MemoryKind::device) device_bytes_ -= static_cast<std::int64_t>(block.bytes);
  std::free(block.storage);
  return true;
}

bool Machine::add_registered(void* at, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const Range range{reinterpret_cast<Place>(at), bytes};
  for (const auto& [place, block] : blocks_) {
    if (overlap({place, block.bytes}, range)) return false;
  }
  blocks_[range.at] = {bytes, bytes, MemoryKind::registered, nullptr};
  ++counts_["pinned_allocations"];
  return true;
}

/// The range begins in pinned or registered memory; whether it ends there is checked when the operation runs.
bool Machine::is_pinned(Range range) {
  const std::lock_guard lock(mutex_);
  auto found = blocks_.upper_bound(range.at);
  if (found == blocks_.begin()) return false;
  --found;
  return found->second.kind != MemoryKind::device && range.at < found->first + found->second.bytes;
}

std::size_t Machine::tail_pad() const {
  const auto found = settings_.find("tail_pad_bytes");
  return static_cast<std::size_t>(found == settings_.end() ? tail_pad_bytes_ : found->second);
}

/// With the pad: blocks are cut out of mapped memory, and the last one needs as much behind it as any other.
bool Machine::covered_by_mappings(Range range, unsigned devices) const {
  range.bytes += tail_pad();
  auto found = mappings_.upper_bound(range.at);
  if (found == mappings_.begin()) return false;
  Place at = range.at;
  for (--found; found != mappings_.end() && at < range.at + range.bytes; ++found) {
    const Place end = found->first + found->second.bytes;
    if (found->first > at || end <= at || (found->second.access & devices) != devices) return false;
    at = end;
  }
  return at >= range.at + range.bytes;
}

bool Machine::covered(Range range, unsigned devices) const {
  const bool device = devices != 0;
  auto found = blocks_.upper_bound(range.at);
  if (found != blocks_.begin()) {
    --found;
    const bool of_kind = (found->second.kind == MemoryKind::device) == device;
    if (of_kind && range.at + range.bytes <= found->first + found->second.usable_bytes) return true;
  }
  return device && covered_by_mappings(range, devices);
}

void* Machine::reserve(std::size_t bytes, std::size_t alignment) {
  void* const got = mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<Place>(got);
  const Place base = (start + alignment - 1) / alignment * alignment;
  if (base > start) munmap(got, base - start);
  if (start + alignment > base) munmap(reinterpret_cast<void*>(base + bytes), start + alignment - base);
  const std::lock_guard lock(mutex_);
  reservations_[base] = bytes;
  return reinterpret_cast<void*>(base);
}

bool Machine::release_range(Place base, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = reservations_.find(base);
  if (found == reservations_.end() || (bytes != 0 && found->second != bytes)) return false;
  const auto inside = mappings_.lower_bound(base);
  if (inside != mappings_.end() && inside->first < base + found->second) return false;
  munmap(reinterpret_cast<void*>(base), found->second);
  reservations_.erase(found);
  return true;
}

bool Machine::open_file() {
  if (file_ < 0) file_ = memfd_create("stand-in device memory", MFD_CLOEXEC);
  return file_ >= 0;
}

Physical* Machine::create_physical(std::size_t bytes) {
  if (static_cast<std::int64_t>(bytes) > free_device_bytes()) return nullptr;
  const std::lock_guard lock(mutex_);
  if (!open_file()) return nullptr;
  auto physical = std::make_unique<Physical>();
  physical->bytes = bytes;
  if (const auto piece = free_pieces_.find(bytes); piece != free_pieces_.end()) {
    physical->offset = piece->second;
    free_pieces_.erase(piece);
  } else {
    physical->offset = file_bytes_;
    if (ftruncate(file_, static_cast<off_t>(file_bytes_ + bytes)) != 0) return nullptr;
    file_bytes_ += bytes;
  }
  device_bytes_ += static_cast<std::int64_t>(bytes);
  return *physicals_.insert(physical.release()).first;
}

void Machine::give_up_physical(Physical* physical) {
  if (!physical->released || physical->mappings > 0) return;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(physical->offset),
            static_cast<off_t>(physical->bytes));
  free_pieces_.emplace(physical->bytes, physical->offset);
  device_bytes_ -= static_cast<std::int64_t>(physical->bytes);
  physicals_.erase(physical);
  delete physical;
}

bool Machine::release_physical(Physical* physical) {
  const std::lock_guard lock(mutex_);
  if (physicals_.count(physical) == 0 || physical->released) return false;
  physical->released = true;
  give_up_physical(physical);
  return true;
}

/// Whole handles at offset 0 only. `exclusive`: a handle has one mapping at a time.
bool Machine::map(Place at, std::size_t bytes, Physical* physical, unsigned access, bool exclusive) {
  const std::lock_guard lock(mutex_);
  if (physicals_.count(physical) == 0 || physical->released || physical->bytes != bytes) return false;
  if (exclusive && physical->mappings > 0) return false;
  auto home = reservations_.upper_bound(at);
  if (home == reservations_.begin()) return false;
  --home;
  if (at + bytes > home->first + home->second) return false;
  for (const auto& [place, mapping] : mappings_) {
    if (overlap({place, mapping.bytes}, {at, bytes})) return false;
  }
  void* const where = reinterpret_cast<void*>(at);
  if (mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, static_cast<off_t>(physical->offset)) ==
      MAP_FAILED) {
    return false;
  }
  ++physical->mappings;
  mappings_[at] = {bytes, physical, access};
  return true;
}

bool Machine::unmap(Place at, std::size_t bytes) {
  Lock lock(mutex_);
  const auto found = mappings_.find(at);
  if (found == mappings_.end() || (bytes != 0 && found->second.bytes != bytes)) return false;
  const Mapping mapping = found->second;
  drop_users(lock, {at, mapping.bytes}, "memory was unmapped");
  mappings_.erase(at);
  if (mmap(reinterpret_cast<void*>(at), mapping.bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return false;
  }
  --mapping.physical->mappings;
  give_up_physical(mapping.physical);
  return true;
}

bool Machine::allow(Place at, std::size_t bytes, unsigned access) {
  const std::lock_guard lock(mutex_);
  const auto first = mappings_.find(at);
  std::size_t found_bytes = 0;
  for (auto it = first; it != mappings_.end() && it->first == at + found_bytes && found_bytes < bytes; ++it) {
    found_bytes += it->second.bytes;
  }
  if (found_bytes != bytes) return false;
  for (auto it = first; it != mappings_.end() && it->first < at + bytes; ++it) it->second.access |= access;
  return true;
}

Stream* Machine::create_stream() {
  auto stream = std::make_unique<Stream>(*this);
  Stream* const handle = stream.get();
  const std::lock_guard lock(mutex_);
  streams_[handle] = std::move(stream);
  return handle;
}

Stream* Machine::find_stream(void* handle) {
  const std::lock_guard lock(mutex_);
  return find_in(streams_, handle);
}

void Machine::destroy_stream(Stream* stream) {
  synchronize(stream);
  Lock lock(mutex_);
  const auto node = streams_.extract(stream);
  lock.unlock();
}

bool Machine::is_idle(Stream* stream) {
  const std::lock_guard lock(mutex_);
  return stream->queue_.empty();
}

Event* Machine::create_event(unsigned flags) {
  auto event = std::make_unique<Event>();
  event->flags = flags;
  Event* const handle = event.get();
  const std::lock_guard lock(mutex_);
  events_[handle] = std::move(event);
  return handle;
}

Event* Machine::find_event(void* handle) {
  const std::lock_guard lock(mutex_);
  return find_in(events_, handle);
}

void Machine::destroy_event(Event* event) {
  const std::lock_guard lock(mutex_);
  if (event->holds_slot) --event_slots_;
  events_.erase(event);
}

bool Machine::record(Event* event, Stream* stream) {
  const std::int64_t limit = get("event_limit");
  auto ticket = std::make_shared<Ticket>();
  {
    const std::lock_guard lock(mutex_);
    if (!event->holds_slot && event_slots_ >= limit) return false;
    event_slots_ += event->holds_slot ? 0 : 1;
    event->holds_slot = true;
    event->latest = ticket;
  }
  submit(stream, {.completes = std::move(ticket)});
  return true;
}

void Machine::wait(Stream* stream, Event* event) {
  std::shared_ptr<Ticket> latest;
  {
    const std::lock_guard lock(mutex_);
    latest = event->latest;
  }
  if (latest != nullptr) submit(stream, {.awaits = std::move(latest)});
}

bool Machine::is_done(Event* event) {
  const std::lock_guard lock(mutex_);
  return event->latest == nullptr || event->latest->done;
}

bool Machine::synchronize(Event* event, std::int64_t timeout_ms) {
  Lock lock(mutex_);
  const std::shared_ptr<Ticket> latest = event->latest;
  const auto done = [&] { return latest == nullptr || latest->done; };
  if (timeout_ms >= 0) return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), done);
  changed_.wait(lock, done);
  return true;
}

void Machine::synchronize(Stream* stream) {
  Lock lock(mutex_);
  changed_.wait(lock, [stream] { return stream->queue_.empty(); });
}

void Machine::synchronize_all() {
  Lock lock(mutex_);
  changed_.wait(lock, [this] {
    return std::all_of(streams_.begin(), streams_.end(),
                       [](const auto& entry) { return entry.second->queue_.empty(); });
  });
}

void Machine::submit(Stream* stream, Operation operation) {
  {
    const std::lock_guard lock(mutex_);
    stream->queue_.push_back(std::move(operation));
  }
  changed_.notify_all();
}

}  // namespace stand_in
