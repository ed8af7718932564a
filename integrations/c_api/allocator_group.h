#pragma once
// An allocator and the pools beside it: allocators of their own on the same device, with the same order of streams and
// one limit for all. A block goes back to where it came from, whoever gives it back; no pool's memory serves another.
//
//   tagged  by name; may be suspended and resumed (CachingAllocator::suspend), or be plain: memory that collectives and
//           RDMA may register, which cannot
//   graph   by the two numbers of PyTorch's MempoolId_t; what is allocated on captured streams while it is open. When a
//           graph is replayed it uses memory again that was freed while it was captured: so a pool's memory serves
//           nothing else, and stays mapped where it is, until the pool is released as often as it was begun
//
// In front of it may be planned arenas (allocator/planned_front.h): the last one begun serves what comes as planned,
// and any of them serves its stream where memory runs out. One that has ended stays until its last block is free.
//
// Locks. `mutex_` comes before the allocators' and the arenas' own, and is held, shared, while an arena serves or takes
// back: so it is not dropped meanwhile. Nothing that may wait for a framework's thread is done under it, since that
// thread may want it: what arenas record, wait for, unmap and map again is done on copies of their pointers
// (PlannedFront::release_freed, wait_for_freed, unmap_idle, map_again), and so are the allocators' own calls.
//
// Cost without pools and arenas: two loads on top of the allocator's own; with pools, a free looks its block up first;
// with arenas, every call takes a lock that it shares.
// Threads: any.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/planned_front.h"
#include "allocator/stream_order.h"
#include "integrations/c_api/captures.h"
#include "integrations/c_api/outcome.h"
#include "integrations/c_api/pool_device.h"
#include "integrations/c_api/request_log.h"

namespace tidemark::c_api {

struct Pool {
  enum class Kind : std::uint8_t { tagged, plain, graph };

  Pool(Kind the_kind, Device& device, SharedBudget& budget, const Captures& captures, allocator::StreamOrder& order,
       allocator::AllocatorOptions options)
      : kind(the_kind), own_device(device, budget, captures), allocator(own_device, order, std::move(options)) {}
  [[nodiscard]] DeviceCode allocate(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner) {
    return kind == Kind::plain ? allocator.allocate_plain(bytes, stream, address, owner)
                               : allocator.allocate(bytes, stream, address, owner);
  }

  Kind kind;
  std::string tag;
  GraphId id = {};
  std::atomic<int> uses{0};      ///< of a graph pool: begins that are not released; changed under the group's lock
  int opens{0};                  ///< of a graph pool: begins that are not ended; under the group's lock
  std::atomic<int> visitors{0};  ///< see Visit; begins under the lock under which the pool was found
  PoolDevice own_device;
  allocator::CachingAllocator allocator;
};

class AllocatorGroup {
 public:
  /// Called with what was asked for and error_text() before out_of_memory is returned, on the thread that allocates and
  /// without a lock; what it throws is dropped. Not for a refusal that memory of another pool has mended.
  using Refused = std::function<void(Bytes bytes, const std::string& text)>;

  /// The device is kept alive. REQUIRES: no options.on_out_of_memory, which would hear of single tries.
  AllocatorGroup(std::shared_ptr<Device> device, allocator::AllocatorOptions options, Refused refused = {});
  ~AllocatorGroup();

  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] allocator::StreamOrder& order() { return order_; }
  /// The allocator without its pools.
  [[nodiscard]] const allocator::CachingAllocator& main() const { return main_; }

  /// From the graph pool that is open for the stream, else from the allocator itself.
  [[nodiscard]] DeviceCode allocate(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner);
  [[nodiscard]] DeviceCode allocate_plain(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner);
  [[nodiscard]] Outcome allocate_in(const std::string& tag, Bytes bytes, StreamHandle stream, Address& address,
                                    std::uint32_t owner);
  [[nodiscard]] DeviceCode free(Address address, const StreamHandle* stream = nullptr);
  [[nodiscard]] DeviceCode note_use(Address address, StreamHandle stream);
  [[nodiscard]] Bytes block_bytes(Address address) const;
  /// Of the calling thread's last failure; where memory ran out with what the pools hold, and the limit that the device
  /// itself is under.
  [[nodiscard]] std::string error_text(DeviceCode code) const;

  /// Makes the pool, where there is none of that tag.
  [[nodiscard]] Outcome create_pool(const std::string& tag, bool plain);
  [[nodiscard]] Outcome destroy_pool(const std::string& tag);
  [[nodiscard]] Outcome suspend_pool(const std::string& tag, bool keep_contents, Bytes& given_back);
  [[nodiscard]] Outcome resume_pool(const std::string& tag);

  /// A planned arena for work of `stream`, which serves from now on. Errors: as PlannedFront::open().
  [[nodiscard]] DeviceCode begin_planned(std::span<const allocator::PlannedBlock> blocks, StreamHandle stream,
                                         std::shared_ptr<allocator::PlannedFront>& front);
  void begin_planned_step(allocator::PlannedFront& front, std::thread::id thread);
  void advance_planned(allocator::PlannedFront& front, std::int32_t due);
  void expect_requests(allocator::PlannedFront& front, allocator::Requests requests);
  [[nodiscard]] allocator::PlannedArenaCounts planned_counts(const allocator::PlannedFront& front) const;
  void end_planned(allocator::PlannedFront& front);

  /// What allocate() hands out and free() takes is noted from now on.
  void begin_log();
  [[nodiscard]] std::vector<RequestLog::Event> end_log();

  void begin_graph(GraphId id, Captures::Filter filter);
  [[nodiscard]] Outcome end_graph(GraphId id);
  [[nodiscard]] Outcome release_graph(GraphId id);

  // Of all together. Peaks of several allocators are added: their sum was never exceeded, and perhaps not reached.
  void set_limit(Bytes bytes);
  Bytes empty_cache();
  void reset_peaks();
  [[nodiscard]] allocator::AllocatorStatistics statistics() const;
  [[nodiscard]] allocator::Snapshot snapshot() const;
  /// "'inference' 3.00 GiB, suspended; a captured graph 1.00 GiB"; empty without pools.
  [[nodiscard]] std::string describe_pools() const;
  /// "What is free is the limit of memory group /x."; empty where the device's memory is its own.
  [[nodiscard]] std::string describe_limit() const;

  /// visit(const Pool&) for every pool.
  template <class Visit>
  void visit_pools(const Visit& visit) const {
    for (const auto& pool : copy_of_pools()) visit(*pool);
  }

 private:
  using Pools = std::vector<std::shared_ptr<Pool>>;
  using Fronts = std::vector<std::shared_ptr<allocator::PlannedFront>>;

  [[nodiscard]] DeviceCode allocate_unnoted(Bytes bytes, StreamHandle stream, Address& address, std::uint32_t owner);
  [[nodiscard]] DeviceCode free_unnoted(Address address, const StreamHandle* stream);
  void note(Address address, Bytes bytes);
  [[nodiscard]] Pools copy_of_pools() const;
  [[nodiscard]] Visit visit_pool(const std::string& tag) const;
  /// From the graph pool of the stream or the allocator itself: `allocate`(CachingAllocator&).
  template <class Allocate>
  DeviceCode allocate_for(StreamHandle stream, const Allocate& allocate);
  [[nodiscard]] std::shared_ptr<Pool> find_owner(Address address) const;
  [[nodiscard]] std::shared_ptr<Pool> make_pool(Pool::Kind kind);
  void add_pool(const std::shared_ptr<Pool>& pool);
  [[nodiscard]] std::shared_ptr<Pool> find_tagged(const std::string& tag) const;
  [[nodiscard]] std::shared_ptr<Pool> find_graph(GraphId id) const;
  /// `call`(CachingAllocator&) on the allocator of the live block.
  template <class Call>
  DeviceCode on_owner(Address address, const Call& call);
  /// The code, after the caller's function has been called where memory ran out.
  DeviceCode tell(DeviceCode code, Bytes bytes, const std::string& prefix = {}) const;
  template <class Allocate>
  DeviceCode with_relief(const allocator::CachingAllocator& of, const Allocate& allocate);
  void drop_released();
  [[nodiscard]] Fronts copy_of_fronts() const;
  /// The first address that `take`(PlannedFront&) gives.
  template <class Take>
  [[nodiscard]] std::optional<Address> with_fronts(const Take& take) const;
  /// A guest's address, waited for where blocks that other streams use are in its way.
  [[nodiscard]] std::optional<Address> allocate_guest(Bytes bytes, StreamHandle stream) const;
  /// Idle granules of the fronts, the latest first, that were unmapped; waits for blocks that are held.
  [[nodiscard]] static Bytes unmap_idle(const Fronts& fronts, Bytes bytes);
  /// Once more with those, which come back if that does not help either.
  template <class Allocate>
  DeviceCode allocate_from_idle(Bytes bytes, StreamHandle stream, const Allocate& allocate);
  /// What `call`(const std::shared_ptr<PlannedFront>&) answers of the arena that the address is in; nothing: it is in
  /// none.
  template <class Call>
  [[nodiscard]] auto on_front(Address address, const Call& call) const
      -> std::optional<std::invoke_result_t<Call, const std::shared_ptr<allocator::PlannedFront>&>>;
  /// Arenas that have ended and are empty; their bytes, which the allocator holds idle from then on.
  Bytes drop_ended_fronts();
  /// One that has ended and is not empty yet, which serves the same plan again; nullptr: there is none.
  [[nodiscard]] std::shared_ptr<allocator::PlannedFront> resumed_front(std::span<const allocator::PlannedBlock> blocks,
                                                                       StreamHandle stream);
  [[nodiscard]] std::string describe_fronts() const;
  [[nodiscard]] ForkSteps fork_steps();

  std::shared_ptr<Device> device_;
  allocator::AllocatorOptions options_;  ///< of pools
  const Refused refused_;
  allocator::StreamOrder order_;
  SharedBudget budget_;
  Captures captures_;
  PoolDevice own_device_;
  allocator::CachingAllocator main_;
  mutable std::shared_mutex mutex_;
  Pools pools_;
  std::atomic<std::size_t> pool_count_{0};
  RequestLog log_;
  Fronts fronts_;  ///< the last one serves, unless it has ended
  std::atomic<std::size_t> front_count_{0};
  std::atomic<int> asking_{0};  ///< threads in allocate_from_idle()
  const ForkHandlers at_fork_{ForkLevel::group, fork_steps()};
};

}  // namespace tidemark::c_api
