#include "device/host_arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "device/host_pages.h"

namespace tidemark {
namespace {

constexpr Bytes kHugePage = 2 * kMiB;
constexpr Bytes kKeepFree = 256 * kMiB;  ///< of the machine's memory
constexpr Bytes kRoomStep = 64 * kMiB;   ///< how much is taken between two looks at the machine's memory
constexpr int kPopulateWrite = 23;       ///< MADV_POPULATE_WRITE, Linux 5.14: the C library may not know it
constexpr int kNoAccess = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

void* pointer_to(Address address) {
  return reinterpret_cast<void*>(address);
}

std::size_t size_of(Bytes bytes) {
  return static_cast<std::size_t>(bytes);
}

std::string reason() {
  return std::error_code(errno, std::generic_category()).message();
}

std::string text_of_no_room() {
  const std::string limit = available_host_memory().limit;
  return limit.empty() ? "the machine has no memory left" : "the " + limit + " leaves no memory";
}

/// Huge pages as far as there are any; then all of them at once. False: the system has no memory.
bool populate(void* data, Bytes bytes) {
  static_cast<void>(madvise(data, size_of(bytes), MADV_HUGEPAGE));
  errno = populate_pages(data, bytes);
  return errno == 0;
}

/// 0, or the errno.
int back_with_pages(int file, off_t offset, Bytes bytes) {
  int error = EINTR;
  while (error == EINTR) error = fallocate(file, 0, offset, bytes) == 0 ? 0 : errno;
  return error == EOPNOTSUPP ? 0 : error;  // then they come with the first touch
}

/// Other threads may be writing: each word is read once, and ThreadSanitizer is not asked.
__attribute__((no_sanitize("thread"))) bool is_zero(const std::uint64_t* words, Bytes bytes) {
  std::uint64_t any = 0;
  for (Bytes i = 0; i < bytes / 8; ++i) any |= words[i];
  return any == 0;
}

/// By the system call itself, of which ThreadSanitizer knows nothing either.
bool write_all(int file, const char* data, Bytes bytes, off_t offset) {
  while (bytes > 0) {
    const long written = syscall(SYS_pwrite64, file, data, bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    bytes -= written;
    offset += written;
  }
  return true;
}

int make_file(Bytes bytes) {
  const int file = memfd_create("tidemark_host_device", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, bytes) == 0) return file;
  const int error = errno;
  if (file >= 0) close(file);
  errno = error;
  return -1;
}

}  // namespace

HostArena::HostArena(Bytes capacity_bytes, Bytes granule_bytes, ErrorTexts& errors)
    : capacity_bytes_(capacity_bytes), granule_bytes_(granule_bytes), errors_(errors) {}

HostArena::~HostArena() {
  for (const auto& [address, bytes] : plain_) munmap(pointer_to(address), size_of(bytes));
  if (file_ >= 0) close(file_);
}

Status HostArena::open() {
  file_ = make_file(capacity_bytes_);
  if (file_ < 0) {
    return infeasible(fmt::format("cannot make a memory file of {}: {}", format_bytes(capacity_bytes_), reason()));
  }
  return {};
}

off_t HostArena::place_of(std::uint64_t handle) const {
  return static_cast<off_t>(handle) * granule_bytes_;
}

bool HostArena::map_granule(Address at, std::uint64_t handle) const {
  return mmap(pointer_to(at), size_of(granule_bytes_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_,
              place_of(handle)) != MAP_FAILED;
}

/// Pages of zeros stay holes: what was mapped and never written costs the child nothing.
/// REQUIRES: mutex_ is held.
bool HostArena::copy_granule(Address from, std::uint64_t handle) {
  const Bytes page = sysconf(_SC_PAGESIZE);
  const auto* const data = reinterpret_cast<const char*>(from);
  const auto is_hole = [&](Bytes at) { return is_zero(reinterpret_cast<const std::uint64_t*>(data + at), page); };
  for (Bytes at = 0; at < granule_bytes_;) {
    Bytes end = at;
    while (end < granule_bytes_ && !is_hole(end)) end += page;
    if (end > at && (!take_room(end - at) || !write_all(childs_file_, data + at, end - at, place_of(handle) + at))) {
      return false;
    }
    at = end + page;  // the one at the end is a hole
  }
  return true;
}

/// Other threads may be writing: a page has what was written before, as after any fork.
/// REQUIRES: mutex_ is held.
bool HostArena::copy_all() {
  std::unordered_set<std::uint64_t> copied;
  for (const auto& [at, handle] : attached_) {
    if (copied.insert(handle).second && !copy_granule(at, handle)) return false;
  }
  return true;
}

void HostArena::before_fork() {
  mutex_.lock();
  childs_file_ = make_file(capacity_bytes_);
  if (childs_file_ >= 0 && copy_all()) return;
  if (childs_file_ >= 0) close(childs_file_);
  childs_file_ = -1;
  if (attached_.empty()) return;
  std::fprintf(stderr,
               "tidemark: too little memory to copy the host device's for a forked process, which must not touch it; "
               "fork before the memory is taken, or start the process with spawn\n");
}

void HostArena::after_fork_in_parent() {
  if (childs_file_ >= 0) close(childs_file_);
  childs_file_ = -1;
  room_bytes_ = 0;  // the child may have it
  mutex_.unlock();
}

bool HostArena::after_fork_in_child() {
  close(file_);
  file_ = std::exchange(childs_file_, -1);
  room_bytes_ = 0;
  for (const auto& [at, handle] : attached_) {
    if (file_ >= 0 && map_granule(at, handle)) continue;
    // Not even that: better no child than one that writes to its parent's memory.
    if (!hide_granule(at)) std::abort();
    if (file_ >= 0) close(file_);
    file_ = -1;
  }
  mutex_.unlock();
  return file_ >= 0;
}

DeviceCode HostArena::refuse(DeviceCode code, std::string text) {
  errors_.set(std::move(text));
  return code;
}

DeviceCode HostArena::reserve_range(Bytes bytes, Address& base) {
  const Bytes alignment = std::max(granule_bytes_, kHugePage);
  if (bytes > INT64_MAX - alignment) {
    return refuse(DeviceCode::out_of_memory, "address space asked for is beyond any machine");
  }
  const Bytes all = bytes + alignment;
  void* const mapped = mmap(nullptr, size_of(all), PROT_NONE, kNoAccess, -1, 0);
  if (mapped == MAP_FAILED) return refuse(DeviceCode::out_of_memory, "no address space: " + reason());
  const auto begin = reinterpret_cast<Address>(mapped), step = static_cast<Address>(alignment);
  base = (begin + step - 1) / step * step;
  const Address end = base + static_cast<Address>(bytes), mapped_end = begin + static_cast<Address>(all);
  if (base > begin) munmap(mapped, base - begin);
  if (mapped_end > end) munmap(pointer_to(end), mapped_end - end);
  return DeviceCode::ok;
}

DeviceCode HostArena::release_range(Address base, Bytes bytes) {
  if (munmap(pointer_to(base), size_of(bytes)) == 0) return DeviceCode::ok;
  return refuse(DeviceCode::invalid, "cannot release address space: " + reason());
}

/// REQUIRES: mutex_ is held.
bool HostArena::take_room(Bytes bytes) {
  if (bytes > room_bytes_) room_bytes_ = std::min(std::max(kRoomStep, bytes), available_host_bytes() - kKeepFree);
  if (bytes > room_bytes_) return false;
  room_bytes_ -= bytes;
  return true;
}

DeviceCode HostArena::create_granule(std::uint64_t& handle) {
  std::unique_lock lock(mutex_);
  if (used_bytes_ + granule_bytes_ > capacity_bytes_) {
    return refuse(DeviceCode::out_of_memory, fmt::format("all of {} is taken", format_bytes(capacity_bytes_)));
  }
  if (!take_room(granule_bytes_)) return refuse(DeviceCode::out_of_memory, text_of_no_room());
  if (spare_.empty()) {
    if (spare_.capacity() <= fresh_) spare_.reserve(2 * fresh_ + 1);  // giving back asks for no memory
    handle = fresh_++;
  } else {
    handle = spare_.back();
    spare_.pop_back();
  }
  used_bytes_ += granule_bytes_;
  lock.unlock();
  const int error = back_with_pages(file_, place_of(handle), granule_bytes_);
  if (error == 0) return DeviceCode::ok;
  lock.lock();
  spare_.push_back(handle);
  used_bytes_ -= granule_bytes_;
  return refuse(DeviceCode::out_of_memory,
                "the system has no pages left: " + std::error_code(error, std::generic_category()).message());
}

DeviceCode HostArena::destroy_granule(std::uint64_t handle) {
  if (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place_of(handle), granule_bytes_) != 0) {
    return refuse(DeviceCode::invalid, "cannot give a granule back: " + reason());
  }
  const std::lock_guard lock(mutex_);
  spare_.push_back(handle);
  used_bytes_ -= granule_bytes_;
  return DeviceCode::ok;
}

DeviceCode HostArena::attach_granule(Address at, std::uint64_t handle) {
  if (!map_granule(at, handle)) return refuse(DeviceCode::out_of_memory, "cannot map a granule: " + reason());
  const std::lock_guard lock(mutex_);
  attached_[at] = handle;
  return DeviceCode::ok;
}

/// The address space stays taken: a stray touch is a fault, and nobody else gets the addresses.
bool HostArena::hide_granule(Address at) const {
  return mmap(pointer_to(at), size_of(granule_bytes_), PROT_NONE, kNoAccess | MAP_FIXED, -1, 0) != MAP_FAILED;
}

DeviceCode HostArena::detach_granule(Address at) {
  if (!hide_granule(at)) return refuse(DeviceCode::invalid, "cannot unmap a granule: " + reason());
  const std::lock_guard lock(mutex_);
  attached_.erase(at);
  return DeviceCode::ok;
}

DeviceCode HostArena::allow_range(Address at, Bytes bytes) {
  // The file has its pages; this only puts them into the tables. Nothing is written: another thread may be writing to
  // the same granule through another address. Kernels that do not know the advice fill the tables at the first touch.
  static_cast<void>(madvise(pointer_to(at), size_of(bytes), MADV_HUGEPAGE));
  if (madvise(pointer_to(at), size_of(bytes), kPopulateWrite) == 0 || errno == EINVAL) return DeviceCode::ok;
  return refuse(DeviceCode::out_of_memory, "the system has no pages left: " + reason());
}

DeviceCode HostArena::allocate_plain(Bytes bytes, Address& address) {
  const Bytes page = sysconf(_SC_PAGESIZE);
  if (bytes <= 0) return refuse(DeviceCode::invalid, "a plain allocation needs a positive size");
  const std::lock_guard lock(mutex_);
  if (bytes > capacity_bytes_ - used_bytes_ || round_up(bytes, page) > capacity_bytes_ - used_bytes_) {
    return refuse(DeviceCode::out_of_memory,
                  fmt::format("{} asked for, {} of {} free", format_bytes(bytes),
                              format_bytes(capacity_bytes_ - used_bytes_), format_bytes(capacity_bytes_)));
  }
  bytes = round_up(bytes, page);
  if (!take_room(bytes)) return refuse(DeviceCode::out_of_memory, text_of_no_room());
  void* const data = mmap(nullptr, size_of(bytes), PROT_READ | PROT_WRITE, kNoAccess, -1, 0);
  if (data == MAP_FAILED) return refuse(DeviceCode::out_of_memory, "cannot map memory: " + reason());
  if (!populate(data, bytes)) {
    const std::string why = reason();
    munmap(data, size_of(bytes));
    return refuse(DeviceCode::out_of_memory, "the system has no pages left: " + why);
  }
  address = reinterpret_cast<Address>(data);
  plain_.emplace(address, bytes);
  used_bytes_ += bytes;
  return DeviceCode::ok;
}

DeviceCode HostArena::free_plain(Address address) {
  const std::lock_guard lock(mutex_);
  const auto found = plain_.find(address);
  if (found == plain_.end()) return refuse(DeviceCode::invalid, fmt::format("{:#x} is no plain allocation", address));
  if (munmap(pointer_to(address), size_of(found->second)) != 0) {
    return refuse(DeviceCode::invalid, "cannot unmap memory: " + reason());
  }
  used_bytes_ -= found->second;
  plain_.erase(found);
  return DeviceCode::ok;
}

/// What can be taken: of the capacity, or of the machine's memory where that has less.
MemoryInfo HostArena::info() const {
  AvailableMemory machine = available_host_memory();
  const std::lock_guard lock(mutex_);
  const Bytes untaken = capacity_bytes_ - used_bytes_, room = std::max<Bytes>(machine.bytes - kKeepFree, 0);
  if (untaken <= room) return {.total_bytes = capacity_bytes_, .free_bytes = untaken, .limit = {}};
  return {.total_bytes = capacity_bytes_, .free_bytes = room, .limit = std::move(machine.limit)};
}

/// REQUIRES: mutex_ is held, bytes > 0.
bool HostArena::granules_attached(Address at, Bytes bytes) const {
  const auto granule = static_cast<Address>(granule_bytes_);
  const Address last = at + static_cast<Address>(bytes) - 1;
  if (last < at) return false;
  for (Address base = at / granule * granule; base <= last; base += granule) {
    if (!attached_.contains(base)) return false;
  }
  return true;
}

bool HostArena::accessible(Address at, Bytes bytes) const {
  if (bytes <= 0) return bytes == 0;
  const std::lock_guard lock(mutex_);
  auto found = plain_.upper_bound(at);
  if (found != plain_.begin()) {
    --found;
    const Address offset = at - found->first, size = static_cast<Address>(found->second);
    if (offset < size) return static_cast<Address>(bytes) <= size - offset;
  }
  return granules_attached(at, bytes);
}

}  // namespace tidemark
