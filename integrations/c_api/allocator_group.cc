#include "integrations/c_api/allocator_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

namespace tidemark::c_api {
namespace {

/// In the words of C and of the Python package.
constexpr const char* kResumes = "tidemark_pool_resume (tidemark.restore)";
constexpr Bytes kAddressesPerByte = 2;  ///< of a pool: there may be many, and addresses end at 2^47

/// What a pool needs beside the allocator's own options.
allocator::AllocatorOptions pool_options(Device& device, allocator::AllocatorOptions options) {
  MemoryInfo memory;
  const Bytes granule = std::max<Bytes>(device.traits().granule_bytes, 1);
  if (device.memory_info(memory) != DeviceCode::ok) return options;
  const Bytes enough = round_up(kAddressesPerByte * memory.total_bytes, granule);
  if (options.address_space_bytes == 0 || options.address_space_bytes > enough) options.address_space_bytes = enough;
  return options;
}

void add(allocator::Counter& sum, const allocator::Counter& counter) {
  sum.current += counter.current;
  sum.peak += counter.peak;
  sum.total_up += counter.total_up;
  sum.total_down += counter.total_down;
}

void add(allocator::AllocatorStatistics& sum, const allocator::AllocatorStatistics& s) {
  for (allocator::Counter allocator::AllocatorStatistics::*counter :
       {&allocator::AllocatorStatistics::requested_bytes, &allocator::AllocatorStatistics::allocated_bytes,
        &allocator::AllocatorStatistics::active_bytes, &allocator::AllocatorStatistics::reserved_bytes,
        &allocator::AllocatorStatistics::inactive_split_bytes, &allocator::AllocatorStatistics::allocation,
        &allocator::AllocatorStatistics::active, &allocator::AllocatorStatistics::segment})
    add(sum.*counter, s.*counter);
  for (std::int64_t allocator::AllocatorStatistics::*number :
       {&allocator::AllocatorStatistics::num_alloc_retries, &allocator::AllocatorStatistics::num_ooms,
        &allocator::AllocatorStatistics::num_device_alloc, &allocator::AllocatorStatistics::num_device_free,
        &allocator::AllocatorStatistics::front_hits, &allocator::AllocatorStatistics::remote_frees,
        &allocator::AllocatorStatistics::remaps, &allocator::AllocatorStatistics::harvested_granules,
        &allocator::AllocatorStatistics::stitched_windows, &allocator::AllocatorStatistics::cross_stream_reuses,
        &allocator::AllocatorStatistics::events_recorded, &allocator::AllocatorStatistics::host_waits,
        &allocator::AllocatorStatistics::stream_waits, &allocator::AllocatorStatistics::pending_bytes,
        &allocator::AllocatorStatistics::cached_bytes})
    sum.*number += s.*number;
}

Outcome no_pool(const std::string& tag) {
  return invalid("there is no pool '" + tag + "'");
}

Outcome no_graph(GraphId id, const char* what) {
  return invalid(fmt::format("no pool of graphs ({}, {}) {}", id.first, id.second, what));
}

std::string name_of(const Pool& pool) {
  return pool.kind == Pool::Kind::graph ? fmt::format("graphs ({}, {})", pool.id.first, pool.id.second)
                                        : "'" + pool.tag + "'";
}

}  // namespace

AllocatorGroup::AllocatorGroup(std::shared_ptr<Device> device, allocator::AllocatorOptions options, Refused refused)
    : device_(std::move(device)),
      options_(pool_options(*device_, options)),
      refused_(std::move(refused)),
      own_device_(*device_, budget_, captures_),
      main_(own_device_, order_, std::move(options)) {
  budget_.set_limit(options_.limit_bytes);
}

AllocatorGroup::~AllocatorGroup() {
  if (captures_.any()) (void)device_->synchronize_device();  // the allocators do not, for the sake of the capture
  for (const auto& pool : pools_) pool->own_device.set_fixed(false);
}

AllocatorGroup::Pools AllocatorGroup::copy_of_pools() const {
  if (pool_count_ == 0) return {};
  const std::shared_lock lock(mutex_);
  return pools_;
}

Visit AllocatorGroup::visit_pool(const std::string& tag) const {
  const std::shared_lock lock(mutex_);
  for (const auto& pool : pools_)
    if (pool->kind != Pool::Kind::graph && pool->tag == tag) return Visit(pool);
  return {};
}

/// nullptr: the allocator itself, or nobody.
std::shared_ptr<Pool> AllocatorGroup::find_owner(Address address) const {
  if (pool_count_ == 0 || main_.block_bytes(address) > 0) return nullptr;
  const std::shared_lock lock(mutex_);
  for (const auto& pool : pools_)
    if (pool->allocator.block_bytes(address) > 0) return pool;
  return nullptr;
}

ForkSteps AllocatorGroup::fork_steps() {
  ForkSteps steps = held_over_a_fork(mutex_);
  steps.after_fork_in_child = [this, renew_lock = std::move(steps.after_fork_in_child)] {
    renew_lock();
    for (const auto& pool : pools_) pool->visitors = 0;
    static_cast<void>(log_.end());
  };
  return steps;
}

/// REQUIRES: no lock is held, since an allocator enters and leaves the list of those that a fork waits for.
std::shared_ptr<Pool> AllocatorGroup::make_pool(Pool::Kind kind) {
  allocator::AllocatorOptions options;
  {
    const std::shared_lock lock(mutex_);
    options = options_;
  }
  return std::make_shared<Pool>(kind, *device_, budget_, captures_, order_, std::move(options));
}

/// REQUIRES: mutex_ is held.
void AllocatorGroup::add_pool(const std::shared_ptr<Pool>& pool) {
  pools_.push_back(pool);
  ++pool_count_;
}

/// REQUIRES: mutex_ is held, shared at least.
std::shared_ptr<Pool> AllocatorGroup::find_tagged(const std::string& tag) const {
  const auto is_it = [&](const auto& pool) { return pool->kind != Pool::Kind::graph && pool->tag == tag; };
  const auto found = std::find_if(pools_.begin(), pools_.end(), is_it);
  return found == pools_.end() ? nullptr : *found;
}

/// REQUIRES: mutex_ is held, shared at least.
std::shared_ptr<Pool> AllocatorGroup::find_graph(GraphId id) const {
  const auto is_it = [&](const auto& pool) { return pool->kind == Pool::Kind::graph && pool->id == id; };
  const auto found = std::find_if(pools_.begin(), pools_.end(), is_it);
  return found == pools_.end() ? nullptr : *found;
}

/// Where memory runs out, what the others of the group hold idle is given back first.
template <class Allocate>
DeviceCode AllocatorGroup::with_relief(const allocator::CachingAllocator& of, const Allocate& allocate) {
  const DeviceCode code = allocate();
  if (code != DeviceCode::out_of_memory || (pool_count_ == 0 && front_count_ == 0)) return code;
  Bytes gone = drop_ended_fronts();
  gone += &of == &main_ ? 0 : main_.empty_cache();
  for (const auto& pool : copy_of_pools()) gone += &of == &pool->allocator ? 0 : pool->allocator.empty_cache();
  return gone > 0 ? allocate() : code;
}

DeviceCode AllocatorGroup::tell(DeviceCode code, Bytes bytes, const std::string& prefix) const {
  if (code != DeviceCode::out_of_memory || !refused_) return code;
  try {
    refused_(bytes, prefix + error_text(code));
  } catch (...) {  // the answer is a code
  }
  return code;
}

template <class Allocate>
DeviceCode AllocatorGroup::allocate_for(StreamHandle stream, const Allocate& allocate) {
  if (!captures_.any()) return with_relief(main_, [&] { return allocate(main_); });
  bool released = false;
  DeviceCode code = DeviceCode::ok;
  {
    const Visit open = captures_.pool_for(stream);
    allocator::CachingAllocator& from = open ? open->allocator : main_;
    code = with_relief(from, [&] { return allocate(from); });
    released = open && open->uses == 0;
  }
  if (released) drop_released();  // nobody else may come by
  return code;
}

AllocatorGroup::Fronts AllocatorGroup::copy_of_fronts() const {
  if (front_count_ == 0) return {};
  const std::shared_lock lock(mutex_);
  return fronts_;
}

/// From the latest on: the one that serves, and those whose blocks are not all free yet.
template <class Take>
std::optional<Address> AllocatorGroup::with_fronts(const Take& take) const {
  std::shared_lock lock(mutex_);
  if (std::ranges::any_of(fronts_, [](const auto& front) { return front->has_unwatched(); })) {
    lock.unlock();
    for (const auto& front : copy_of_fronts()) front->release_freed();
    lock.lock();
  }
  for (const auto& front : fronts_ | std::views::reverse)
    if (const std::optional<Address> address = take(*front)) return address;
  return std::nullopt;
}

std::optional<Address> AllocatorGroup::allocate_guest(Bytes bytes, StreamHandle stream) const {
  for (;;) {
    const auto guest = with_fronts([&](auto& front) { return front.allocate_anywhere(bytes, stream); });
    if (guest) return guest;
    const Fronts fronts = copy_of_fronts();
    const bool has_waited = std::ranges::any_of(fronts | std::views::reverse, [&](const auto& front) {
      return front->is_for(stream) && front->wait_for_freed();
    });
    if (!has_waited) return std::nullopt;
  }
}

Bytes AllocatorGroup::unmap_idle(const Fronts& fronts, Bytes bytes) {
  Bytes gone = 0;
  for (const auto& front : fronts | std::views::reverse) do
      gone += front->unmap_idle(bytes - gone);
    while (gone < bytes && front->wait_for_freed());
  return gone;
}

/// Another thread may map again, for its step or since nothing helped it, what this one is about to take: the last that
/// asks maps again, and who loses memory to the begin of a step tries once more.
template <class Allocate>
DeviceCode AllocatorGroup::allocate_from_idle(Bytes bytes, StreamHandle stream, const Allocate& allocate) {
  const Bytes wanted = main_.rounded_bytes(bytes);
  if (budget_.limit() > 0 && wanted > budget_.limit()) return DeviceCode::out_of_memory;
  const Fronts fronts = copy_of_fronts();
  const auto unmapped = [&] {
    Bytes sum = 0;
    for (const auto& front : fronts) sum += front->unmapped_bytes();
    return sum;
  };
  DeviceCode code = DeviceCode::out_of_memory;
  ++asking_;
  bool is_lost = true;
  for (int i = 0; i < 2 && is_lost && code == DeviceCode::out_of_memory && unmap_idle(fronts, wanted) > 0; ++i) {
    const Bytes before = unmapped();
    code = allocate_for(stream, allocate);
    is_lost = unmapped() < before;
  }
  if (--asking_ == 0 && code != DeviceCode::ok)
    for (const auto& front : fronts | std::views::reverse) static_cast<void>(front->map_again());
  return code;
}

template <class Call>
auto AllocatorGroup::on_front(Address address, const Call& call) const
    -> std::optional<std::invoke_result_t<Call, const std::shared_ptr<allocator::PlannedFront>&>> {
  if (front_count_ == 0) return std::nullopt;
  const std::shared_lock lock(mutex_);
  const auto found = std::ranges::find_if(fronts_, [&](const auto& front) { return front->covers(address); });
  if (found == fronts_.end()) return std::nullopt;
  return call(*found);
}

DeviceCode AllocatorGroup::begin_planned(std::span<const allocator::PlannedBlock> blocks, StreamHandle stream,
                                         std::shared_ptr<allocator::PlannedFront>& front) {
  drop_ended_fronts();
  if (front = resumed_front(blocks, stream); front != nullptr) return DeviceCode::ok;
  std::unique_ptr<allocator::PlannedFront> made;
  const DeviceCode code =
      with_relief(main_, [&] { return allocator::PlannedFront::open(own_device_, main_, blocks, stream, made); });
  if (code != DeviceCode::ok) return code;
  front = std::move(made);
  const std::unique_lock lock(mutex_);
  fronts_.push_back(front);
  ++front_count_;
  return DeviceCode::ok;
}

std::shared_ptr<allocator::PlannedFront> AllocatorGroup::resumed_front(std::span<const allocator::PlannedBlock> blocks,
                                                                       StreamHandle stream) {
  const std::unique_lock lock(mutex_);
  const auto found = std::ranges::find_if(fronts_, [&](const auto& front) { return front->resume(blocks, stream); });
  if (found == fronts_.end()) return nullptr;
  std::rotate(found, std::next(found), fronts_.end());
  return fronts_.back();
}

void AllocatorGroup::begin_planned_step(allocator::PlannedFront& front, std::thread::id thread) {
  // What is refused now stands aside in this step too.
  static_cast<void>(with_relief(main_, [&] { return front.map_again(); }));
  const std::shared_lock lock(mutex_);
  front.begin_step(thread);
}

void AllocatorGroup::advance_planned(allocator::PlannedFront& front, std::int32_t due) {
  const std::shared_lock lock(mutex_);
  front.advance(due);
}

void AllocatorGroup::expect_requests(allocator::PlannedFront& front, allocator::Requests requests) {
  const std::shared_lock lock(mutex_);
  front.expect(requests);
}

allocator::PlannedArenaCounts AllocatorGroup::planned_counts(const allocator::PlannedFront& front) const {
  const std::shared_lock lock(mutex_);
  return front.counts();
}

void AllocatorGroup::end_planned(allocator::PlannedFront& front) {
  {
    const std::shared_lock lock(mutex_);
    front.retire();
  }
  drop_ended_fronts();
}

Bytes AllocatorGroup::drop_ended_fronts() {
  if (front_count_ == 0) return 0;
  for (const auto& front : copy_of_fronts())
    if (front->is_retired()) front->release_freed();
  Fronts gone;  // goes without the lock, as does the copy above
  Bytes bytes = 0;
  const std::unique_lock lock(mutex_);
  std::erase_if(fronts_, [&](const auto& front) {
    const bool over = front->is_retired() && front->is_empty();
    if (!over) return false;
    bytes += front->extent_bytes();
    gone.push_back(front);
    return true;
  });
  front_count_ -= gone.size();
  return bytes;
}

DeviceCode AllocatorGroup::allocate(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner) {
  const DeviceCode code = allocate_unnoted(bytes, stream, address, owner);
  if (code == DeviceCode::ok && log_.is_open()) note(address, bytes);
  return code;
}

DeviceCode AllocatorGroup::allocate_unnoted(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner) {
  const auto from_one = [&](allocator::CachingAllocator& from) { return from.allocate(bytes, stream, address, owner); };
  if (front_count_ == 0 || captures_.any()) return tell(allocate_for(stream, from_one), bytes);
  if (const auto planned = with_fronts([&](auto& front) { return front.allocate(bytes, stream); })) {
    address = *planned;
    return DeviceCode::ok;
  }
  const DeviceCode code = allocate_for(stream, from_one);
  if (code != DeviceCode::out_of_memory) return code;
  if (const auto guest = allocate_guest(bytes, stream)) {
    address = *guest;
    return DeviceCode::ok;
  }
  return tell(allocate_from_idle(bytes, stream, from_one), bytes);
}

DeviceCode AllocatorGroup::allocate_plain(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner) {
  const auto from_one = [&](allocator::CachingAllocator& from) {
    return from.allocate_plain(bytes, stream, address, owner);
  };
  return tell(allocate_for(stream, from_one), bytes);
}

Outcome AllocatorGroup::allocate_in(const std::string& tag, Bytes bytes, StreamHandle stream, Address& address,
                                    std::uint32_t owner) {
  const Visit pool = visit_pool(tag);
  if (!pool) return no_pool(tag);
  const DeviceCode code = with_relief(pool->allocator, [&] { return pool->allocate(bytes, stream, address, owner); });
  if (code == DeviceCode::ok) return {};
  if (code == DeviceCode::invalid && pool->allocator.suspended())
    return invalid("the pool '" + tag + "' is suspended: its memory is given back until " + kResumes);
  const std::string prefix = "pool '" + tag + "': ";
  return {.status = status_of(tell(code, bytes, prefix)), .text = prefix + error_text(code)};
}

template <class Call>
DeviceCode AllocatorGroup::on_owner(Address address, const Call& call) {
  const std::shared_ptr<Pool> pool = find_owner(address);
  if (pool == nullptr) return call(main_);
  const DeviceCode code = call(pool->allocator);
  if (pool->kind == Pool::Kind::graph) drop_released();
  return code;
}

void AllocatorGroup::note(Address address, Bytes bytes) {
  const std::unique_lock lock(mutex_);
  log_.note(address, bytes);
}

void AllocatorGroup::begin_log() {
  const std::unique_lock lock(mutex_);
  log_.begin();
}

std::vector<RequestLog::Event> AllocatorGroup::end_log() {
  const std::unique_lock lock(mutex_);
  return log_.end();
}

/// Noted before the address may be another block's.
DeviceCode AllocatorGroup::free(Address address, const StreamHandle* stream) {
  if (log_.is_open()) note(address, 0);
  return free_unnoted(address, stream);
}

DeviceCode AllocatorGroup::free_unnoted(Address address, const StreamHandle* stream) {
  std::shared_ptr<allocator::PlannedFront> due;
  const auto planned = on_front(address, [&](const std::shared_ptr<allocator::PlannedFront>& front) {
    const DeviceCode code = front->free(address, stream);
    if (front->has_unwatched() || front->is_retired()) due = front;
    return code;
  });
  if (due != nullptr) {
    due->release_freed();
    if (due->is_retired() && due->is_empty()) drop_ended_fronts();
  }
  if (planned) return *planned;
  return on_owner(address, [&](allocator::CachingAllocator& owner) {
    return stream == nullptr ? owner.free(address) : owner.free(address, *stream);
  });
}

DeviceCode AllocatorGroup::note_use(Address address, StreamHandle stream) {
  if (const auto planned = on_front(address, [&](const auto& front) { return front->note_use(address, stream); }))
    return *planned;
  return on_owner(address, [&](allocator::CachingAllocator& owner) { return owner.note_use(address, stream); });
}

Bytes AllocatorGroup::block_bytes(Address address) const {
  if (const auto planned = on_front(address, [&](const auto& front) { return front->requested_bytes(address); }))
    return *planned > 0 ? main_.rounded_bytes(*planned) : 0;
  const std::shared_ptr<Pool> pool = find_owner(address);
  return pool == nullptr ? main_.block_bytes(address) : pool->allocator.block_bytes(address);
}

std::string AllocatorGroup::error_text(DeviceCode code) const {
  std::string text = main_.last_error();  // of the thread, whichever allocator it was
  if (code != DeviceCode::out_of_memory) return text;
  if (const std::string limit = describe_limit(); !limit.empty()) text += " " + limit;
  if (const std::string pools = describe_pools(); !pools.empty()) text += " Pools beside it hold: " + pools + ".";
  if (const std::string fronts = describe_fronts(); !fronts.empty()) text += " " + fronts;
  return text;
}

std::string AllocatorGroup::describe_fronts() const {
  if (front_count_ == 0) return {};
  const std::shared_lock lock(mutex_);
  Bytes live = 0, extent = 0;
  for (const auto& front : fronts_) {
    live += front->counts().live_bytes;
    extent += front->extent_bytes() - front->unmapped_bytes();
  }
  return fmt::format("The planned arena is {} of it, {} of that in use.", format_bytes(extent), format_bytes(live));
}

std::string AllocatorGroup::describe_limit() const {
  MemoryInfo memory;
  if (device_->memory_info(memory) != DeviceCode::ok || memory.limit.empty()) return {};
  return "What is free is the " + memory.limit + ".";
}

Outcome AllocatorGroup::create_pool(const std::string& tag, bool plain) {
  std::shared_ptr<Pool> there;
  {
    const std::shared_lock lock(mutex_);
    there = find_tagged(tag);
  }
  if (there == nullptr) {
    const std::shared_ptr<Pool> made = make_pool(plain ? Pool::Kind::plain : Pool::Kind::tagged);
    made->tag = tag;
    const std::unique_lock lock(mutex_);
    there = find_tagged(tag);
    if (there == nullptr) add_pool(there = made);
  }
  if ((there->kind == Pool::Kind::plain) == plain) return {};
  return invalid("the pool '" + tag + "' is there already, and " + (plain ? "is not plain" : "is plain"));
}

Outcome AllocatorGroup::destroy_pool(const std::string& tag) {
  if (captures_.any())
    return invalid("the pool '" + tag + "' cannot be destroyed during a capture: the device is waited for");
  std::shared_ptr<Pool> gone;
  const std::unique_lock lock(mutex_);
  const auto is_it = [&](const auto& pool) { return pool->kind != Pool::Kind::graph && pool->tag == tag; };
  const auto found = std::find_if(pools_.begin(), pools_.end(), is_it);
  if (found == pools_.end()) return no_pool(tag);
  if ((*found)->visitors > 0) return invalid("the pool '" + tag + "' is being allocated from");
  if (const auto live = (*found)->allocator.statistics().allocation.current; live > 0)
    return invalid(fmt::format("the pool '{}' has {} live blocks", tag, live));
  gone = std::move(*found);
  pools_.erase(found);
  --pool_count_;
  return {};
}

Outcome AllocatorGroup::suspend_pool(const std::string& tag, bool keep_contents, Bytes& given_back) {
  const Visit pool = visit_pool(tag);
  if (!pool) return no_pool(tag);
  if (pool->kind == Pool::Kind::plain)
    return {.status = TIDEMARK_STATUS_UNSUPPORTED,
            .text = "the pool '" + tag + "' is plain: its memory cannot come back at the same addresses"};
  if (captures_.any())
    return invalid("the pool '" + tag + "' cannot be suspended during a capture: the device is waited for");
  const Bytes before = pool->allocator.statistics().reserved_bytes.current;
  using Contents = allocator::CachingAllocator::Contents;
  const DeviceCode code = pool->allocator.suspend(keep_contents ? Contents::keep : Contents::drop);
  if (code != DeviceCode::ok) return outcome_of(code, ("pool '" + tag + "'").c_str(), main_.last_error());
  given_back = before - pool->allocator.statistics().reserved_bytes.current;
  return {};
}

Outcome AllocatorGroup::resume_pool(const std::string& tag) {
  const Visit pool = visit_pool(tag);
  if (!pool) return no_pool(tag);
  const DeviceCode code = with_relief(pool->allocator, [&] { return pool->allocator.resume(); });
  if (code == DeviceCode::ok) return {};
  return {.status = status_of(code), .text = "pool '" + tag + "': " + error_text(code)};
}

void AllocatorGroup::begin_graph(GraphId id, Captures::Filter filter) {
  const std::shared_ptr<Pool> made = make_pool(Pool::Kind::graph);  // mostly it is new
  made->id = id;
  const std::unique_lock lock(mutex_);
  std::shared_ptr<Pool> pool = find_graph(id);
  if (pool == nullptr) add_pool(pool = made);
  captures_.open(id, pool, std::move(filter));
  pool->own_device.set_fixed(true);
  ++pool->uses;
  ++pool->opens;
}

Outcome AllocatorGroup::end_graph(GraphId id) {
  if (!captures_.close(id)) return no_graph(id, "is open");
  {
    const std::unique_lock lock(mutex_);  // behind the close: nothing begins to allocate from it any more
    --find_graph(id)->opens;
  }
  drop_released();
  return {};
}

Outcome AllocatorGroup::release_graph(GraphId id) {
  {
    const std::unique_lock lock(mutex_);
    const std::shared_ptr<Pool> pool = find_graph(id);
    if (pool == nullptr || pool->uses == 0) return no_graph(id, "is in use");
    if (--pool->uses == 0) pool->own_device.set_fixed(false);
  }
  drop_released();
  return {};
}

/// Gives back the pools of graphs that are gone, as soon as none of their blocks is live. Not during a capture: the
/// device is waited for.
void AllocatorGroup::drop_released() {
  if (captures_.any()) return;
  Pools gone;
  const std::unique_lock lock(mutex_);
  std::erase_if(pools_, [&](const std::shared_ptr<Pool>& pool) {
    const bool over = pool->kind == Pool::Kind::graph && pool->uses == 0 && pool->opens == 0 && pool->visitors == 0 &&
                      pool->allocator.statistics().allocation.current == 0;
    if (over) gone.push_back(pool);
    return over;
  });
  pool_count_ -= gone.size();
}

void AllocatorGroup::set_limit(Bytes bytes) {
  budget_.set_limit(bytes);
  main_.set_limit(bytes);
  const std::unique_lock lock(mutex_);
  options_.limit_bytes = bytes;
  for (const auto& pool : pools_) pool->allocator.set_limit(bytes);
}

Bytes AllocatorGroup::empty_cache() {
  drop_released();
  drop_ended_fronts();
  Bytes gone = main_.empty_cache();
  for (const auto& pool : copy_of_pools()) gone += pool->allocator.empty_cache();
  return gone;
}

void AllocatorGroup::reset_peaks() {
  main_.reset_peaks();
  for (const auto& pool : copy_of_pools()) pool->allocator.reset_peaks();
}

allocator::AllocatorStatistics AllocatorGroup::statistics() const {
  allocator::AllocatorStatistics sum = main_.statistics();
  for (const auto& pool : copy_of_pools()) add(sum, pool->allocator.statistics());
  return sum;
}

allocator::Snapshot AllocatorGroup::snapshot() const {
  allocator::Snapshot sum = main_.snapshot();
  for (const auto& pool : copy_of_pools()) {
    allocator::Snapshot one = pool->allocator.snapshot();
    if (!pool->allocator.suspended())
      std::move(one.segments.begin(), one.segments.end(), std::back_inserter(sum.segments));
    std::move(one.trace.begin(), one.trace.end(), std::back_inserter(sum.trace));
    sum.trace_dropped += one.trace_dropped;
  }
  std::sort(sum.segments.begin(), sum.segments.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  std::stable_sort(sum.trace.begin(), sum.trace.end(),
                   [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  return sum;
}

std::string AllocatorGroup::describe_pools() const {
  std::string text;
  for (const auto& pool : copy_of_pools()) {
    text += fmt::format("{}{} {}{}", text.empty() ? "" : "; ", name_of(*pool),
                        format_bytes(pool->allocator.statistics().reserved_bytes.current),
                        pool->allocator.suspended() ? ", suspended" : "");
  }
  return text;
}

}  // namespace tidemark::c_api
