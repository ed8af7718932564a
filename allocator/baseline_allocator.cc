#include "allocator/baseline_allocator.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "allocator/baseline_pieces.h"

namespace tidemark::allocator {
namespace {

constexpr Bytes kMinBlock = 512;
constexpr Bytes kSmallRequest = kMiB;     // up to this: small pool
constexpr Bytes kOwnSegment = 10 * kMiB;  // from this on a request gets a segment of its own size
constexpr Bytes kSegmentRounding = 2 * kMiB;
constexpr Bytes kMostUnsplit = 20 * kMiB;  // a block of max_split or more may be this much too large

}  // namespace

struct BaselineAllocator::State {
  using Piece = BaselinePiece;
  using Pool = BaselinePool;

  State(Device& on, const Options& given) : device(on), options(given) {}

  ~State() {
    for (auto& [stream, waiting] : parked)
      for (const Parked& entry : waiting) (void)device.destroy_event(entry.event);
    for (const EventHandle event : spare_events) (void)device.destroy_event(event);
    for (const auto& [address, bytes] : segments)
      if (options.expandable) unmap_all(address);
    for (const auto& [address, bytes] : segments)
      (void)(options.expandable ? device.release(address, bytes) : device.free_plain(address));
  }

  // ---- requests -----------------------------------------------------------------------------------------------------

  DeviceCode allocate(Bytes bytes, StreamHandle stream, Address& address) {
    process_events();
    const Bytes size = round_up(bytes + device.traits().tail_pad_bytes, kMinBlock);
    Pool& pool = pieces.pools[size <= kSmallRequest ? 0 : 1];
    Piece* block = find_idle(pool, stream, size);
    if (block == nullptr) {
      const DeviceCode code = grow_or_make_room(pool, stream, size, block);
      if (code != DeviceCode::ok) return code;
    }
    if (should_split(*block, size)) pieces.split(*block, size);
    block->in_use = true;
    change(counts.allocated_bytes, counts.peak_allocated_bytes, block->size);
    change(counts.active_bytes, counts.peak_active_bytes, block->size);
    address = block->address;
    return DeviceCode::ok;
  }

  void free(Address address) {
    Piece& block = pieces.get(address);
    assert(block.in_use);
    block.in_use = false;
    counts.allocated_bytes -= block.size;
    if (block.uses.empty() || !park(block)) make_idle(block);
  }

  /// Gives the caller's block an event on every stream that used it. false: there is none to wait for.
  bool park(Piece& block) {
    for (const StreamHandle stream : std::exchange(block.uses, {})) {
      EventHandle event{};
      if (take_event(event) && device.record_event(event, stream) == DeviceCode::ok) {
        parked[stream].push_back({.event = event, .block = &block});
        ++block.events;
      } else {
        (void)device.synchronize_stream(stream);  // no event to be had: wait now
      }
    }
    return block.events > 0;
  }

  // ---- search and split ---------------------------------------------------------------------------------------------

  /// Best fit, taken out of the idle set; nullptr: none.
  Piece* find_idle(Pool& pool, StreamHandle stream, Bytes size) {
    Piece least = Pool::probe(stream, size);
    auto found = pool.idle.lower_bound(&least);
    if (found == pool.idle.end() || (*found)->stream != stream) return nullptr;
    if (options.expandable) found = prefer_less_room(pool, found);
    const Bytes found_size = (*found)->size;
    if (size < options.max_split_bytes && found_size >= options.max_split_bytes) return nullptr;
    if (size >= options.max_split_bytes && found_size >= size + kMostUnsplit) return nullptr;
    Piece* block = *found;
    pool.idle.erase(found);
    return block;
  }

  /// A block that could grow counts with what it could grow to: the tail of the segment is used last.
  static Pool::Pieces::iterator prefer_less_room(const Pool& pool, Pool::Pieces::iterator found) {
    const auto room = [](const Piece* block) {
      return block->size + (block->next != nullptr && !block->next->mapped ? block->next->size : 0);
    };
    for (auto next = std::next(found);
         next != pool.idle.end() && (*next)->stream == (*found)->stream && room(*next) < room(*found); ++next)
      found = next;
    return found;
  }

  [[nodiscard]] bool should_split(const Piece& block, Bytes size) const {
    const Bytes rest = block.size - size;
    if (block.pool->small || options.expandable) return rest >= kMinBlock;
    return size < options.max_split_bytes && rest > kSmallRequest;
  }

  // ---- free and merge -----------------------------------------------------------------------------------------------

  void make_idle(Piece& block) {
    counts.active_bytes -= block.size;
    pieces.join_neighbours(block);
    BaselinePieces::set_of(block).insert(&block);
  }

  // ---- growth -------------------------------------------------------------------------------------------------------

  /// A block of at least `size` by asking the device, giving cached memory back where it refuses.
  DeviceCode grow_or_make_room(Pool& pool, StreamHandle stream, Bytes size, Piece*& block) {
    const auto grow = [&] {
      return options.expandable ? grow_expandable(pool, stream, size, block) : add_segment(pool, stream, size, block);
    };
    DeviceCode code = grow();
    if (code == DeviceCode::out_of_memory && release_some(pool, stream, size)) code = grow();
    if (code == DeviceCode::out_of_memory) {
      ++counts.alloc_retries;
      release_cached();
      code = grow();
    }
    if (code == DeviceCode::out_of_memory) ++counts.out_of_memory;
    return code;
  }

  DeviceCode add_segment(Pool& pool, StreamHandle stream, Bytes size, Piece*& block) {
    Bytes bytes = round_up(size, kSegmentRounding);
    if (size < kOwnSegment) bytes = Pool::kLargeSegment;
    if (size <= kSmallRequest) bytes = Pool::kSmallSegment;
    Address address = 0;
    const DeviceCode code = device.allocate_plain(bytes, address);
    if (code != DeviceCode::ok) return code;
    segments[address] = bytes;
    ++counts.segments;
    change(counts.reserved_bytes, counts.peak_reserved_bytes, bytes);
    block = &pieces.add(pool, stream, address, bytes);
    return DeviceCode::ok;
  }

  DeviceCode grow_expandable(Pool& pool, StreamHandle stream, Bytes size, Piece*& block) {
    Piece* candidate = find_room(pool, stream, size);
    if (candidate == nullptr) {
      const DeviceCode code = add_expandable_segment(pool, stream, candidate);
      if (code != DeviceCode::ok) return code;
      if (candidate->size < size) return DeviceCode::out_of_memory;
    }
    if (!candidate->mapped) {
      const DeviceCode code = map_front(*candidate, std::min(candidate->size, size));
      if (code != DeviceCode::ok) return code;
    }
    while (candidate->size < size) {
      Piece* const next = candidate->next;
      if (!next->mapped) {
        const DeviceCode code = map_front(*next, std::min(next->size, size - candidate->size));
        if (code != DeviceCode::ok) return code;
      }
      candidate = next;  // it has absorbed the candidate
    }
    pool.idle.erase(candidate);
    block = candidate;
    return DeviceCode::ok;
  }

  /// An idle run of `size` that ends in unmapped space; nullptr: none in this pool and stream.
  Piece* find_room(Pool& pool, StreamHandle stream, Bytes size) {
    Piece least = Pool::probe(stream, 0);
    for (auto at = pool.unmapped.lower_bound(&least); at != pool.unmapped.end() && (*at)->stream == stream; ++at) {
      Piece* first = *at;
      if (first->previous != nullptr && first->previous->is_idle()) first = first->previous;
      Bytes room = 0;
      for (Piece* block = first; block != nullptr && block->is_idle() && room < size; block = block->next)
        room += block->size;
      if (room >= size) return first;
    }
    return nullptr;
  }

  DeviceCode add_expandable_segment(Pool& pool, StreamHandle stream, Piece*& block) {
    MemoryInfo info;
    DeviceCode code = device.memory_info(info);
    if (code != DeviceCode::ok) return code;
    const Bytes usual = info.total_bytes + info.total_bytes / 8;
    const Bytes bytes = round_up(options.segment_space_bytes > 0 ? options.segment_space_bytes : usual, pool.granule());
    Address address = 0;
    code = device.reserve(bytes, address);
    if (code != DeviceCode::ok) return code;
    segments[address] = bytes;
    block = &pieces.add(pool, stream, address, bytes);
    block->mapped = false;
    pool.unmapped.insert(block);
    return DeviceCode::ok;
  }

  /// Puts memory behind the first `size` bytes of an unmapped block, in whole granules, and joins it to its mapped
  /// neighbours.
  DeviceCode map_front(Piece& block, Bytes size) {
    const Bytes bytes = std::min(block.size, round_up(size, block.pool->granule()));
    const DeviceCode code = device.map(block.address, bytes);
    if (code != DeviceCode::ok) return code;
    counts.segments += bytes / block.pool->granule();
    change(counts.reserved_bytes, counts.peak_reserved_bytes, bytes);
    block.pool->unmapped.erase(&block);
    if (bytes < block.size) pieces.split(block, bytes);
    block.mapped = true;
    pieces.join_neighbours(block);
    block.pool->idle.insert(&block);
    return DeviceCode::ok;
  }

  // ---- giving back --------------------------------------------------------------------------------------------------

  /// With a split limit, large segments are given back one by one first. true: enough went.
  bool release_some(Pool& pool, StreamHandle stream, Bytes size) {
    if (options.expandable || options.max_split_bytes == Options{}.max_split_bytes) return false;
    Piece least = Pool::probe(stream, std::max(size, options.max_split_bytes));
    auto found = pool.idle.lower_bound(&least);
    if (found != pool.idle.end() && (*found)->stream == stream) {
      release_segment(**found);
      return true;
    }
    std::vector<Piece*> larger;  // than the limit, the largest last
    least.size = options.max_split_bytes;
    for (auto at = pool.idle.lower_bound(&least); at != found; ++at) larger.push_back(*at);
    Bytes released = 0;
    for (; released < size && !larger.empty(); larger.pop_back()) {
      released += larger.back()->size;
      release_segment(*larger.back());
    }
    return released >= size;
  }

  void release_cached() {
    wait_for_parked();
    for (Pool& pool : pieces.pools) {
      const std::vector<Piece*> idle(pool.idle.begin(), pool.idle.end());
      for (Piece* block : idle) {
        if (options.expandable)
          unmap_granules(*block);
        else if (block->previous == nullptr && block->next == nullptr)
          release_segment(*block);
      }
    }
  }

  /// REQUIRES: idle and the whole of its segment.
  void release_segment(Piece& block) {
    assert(block.previous == nullptr && block.next == nullptr);
    if (device.free_plain(block.address) != DeviceCode::ok) return;
    counts.reserved_bytes -= block.size;
    block.pool->idle.erase(&block);
    segments.erase(block.address);
    pieces.erase(block.address);
  }

  /// Takes the memory behind the whole granules of an idle block away.
  void unmap_granules(Piece& block) {
    const Bytes granule = block.pool->granule();
    const auto begin = static_cast<Bytes>(block.address - block.segment);
    const Bytes first = round_up(begin, granule);
    const Bytes last = (begin + block.size) / granule * granule;
    if (first >= last || device.unmap(block.segment + static_cast<Address>(first), last - first) != DeviceCode::ok)
      return;
    counts.reserved_bytes -= last - first;
    Pool& pool = *block.pool;
    pool.idle.erase(&block);
    Piece* gone = &block;
    if (first > begin) {
      gone = &pieces.insert_behind(block, first - begin);
      pool.idle.insert(&block);
    }
    if (gone->size > last - first) pieces.split(*gone, last - first);
    gone->mapped = false;
    pieces.join_neighbours(*gone);
    pool.unmapped.insert(gone);
  }

  /// Takes the memory behind a whole segment away, whoever uses it.
  void unmap_all(Address segment) {
    Address begin = segment;  // of the run of mapped pieces up to here
    for (const Piece* piece = &pieces.get(segment); piece != nullptr; piece = piece->next) {
      const Address end = piece->address + static_cast<Address>(piece->size);
      if (!piece->mapped) begin = end;
      const bool run_ends = piece->next == nullptr || !piece->next->mapped;
      if (run_ends && begin < end) (void)device.unmap(begin, static_cast<Bytes>(end - begin));
    }
  }

  // ---- events -------------------------------------------------------------------------------------------------------

  struct Parked {
    EventHandle event{};
    Piece* block = nullptr;
  };

  bool take_event(EventHandle& event) {
    if (spare_events.empty()) return device.create_event(event) == DeviceCode::ok;
    event = spare_events.back();
    spare_events.pop_back();
    return true;
  }

  /// Frees what the device is done with: in the order of each stream, up to the first that is not.
  void process_events() {
    for (auto& [stream, waiting] : parked) {
      while (!waiting.empty() && device.query_event(waiting.front().event) == DeviceCode::ok) unpark(waiting);
    }
  }

  void wait_for_parked() {
    for (auto& [stream, waiting] : parked) {
      while (!waiting.empty()) {
        (void)device.synchronize_event(waiting.front().event);
        unpark(waiting);
      }
    }
  }

  void unpark(std::deque<Parked>& waiting) {
    const Parked entry = waiting.front();
    waiting.pop_front();
    spare_events.push_back(entry.event);
    if (--entry.block->events == 0) make_idle(*entry.block);
  }

  // ---- small change -------------------------------------------------------------------------------------------------

  static void change(Bytes& current, Bytes& peak, Bytes by) {
    current += by;
    peak = std::max(peak, current);
  }

  Device& device;
  Options options;
  Counts counts;
  BaselinePieces pieces;
  std::map<Address, Bytes> segments;  // as taken from the device
  std::map<StreamHandle, std::deque<Parked>> parked;
  std::vector<EventHandle> spare_events;
};

BaselineAllocator::BaselineAllocator(Device& device, const Options& options)
    : state_(std::make_unique<State>(device, options)) {}
BaselineAllocator::~BaselineAllocator() = default;

DeviceCode BaselineAllocator::allocate(Bytes bytes, StreamHandle stream, Address& address) {
  assert(bytes > 0);
  return state_->allocate(bytes, stream, address);
}

void BaselineAllocator::free(Address address) {
  state_->free(address);
}

void BaselineAllocator::record_stream(Address address, StreamHandle stream) {
  BaselinePiece& block = state_->pieces.get(address);
  if (stream != block.stream) block.uses.insert(stream);
}

void BaselineAllocator::empty_cache() {
  state_->release_cached();
}

const BaselineAllocator::Counts& BaselineAllocator::counts() const {
  return state_->counts;
}

}  // namespace tidemark::allocator
