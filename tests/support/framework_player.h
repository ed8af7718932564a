#pragma once
// A framework as a session sees one: it issues the ops of a captured step, allocates what they write, counts
// references, keeps through the session what backward asks for, and recomputes ops when it is told to. Every byte it
// reads is checked (Work::verify, or in the calling thread). With several streams it orders its own kernels that touch
// the same block, and what a session does with blocks is the session's to order.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/planned_front.h"
#include "core/graph.h"
#include "device/device.h"
#include "device/pattern.h"
#include "swap/session.h"

namespace tidemark::testing {

class FrameworkPlayer {
 public:
  struct Options {
    bool on_calling_thread = false;
    bool tells_backward = true;        ///< else the session hears of backward by what is asked for
    bool verify = true;                ///< contents are written and checked; else only time passes
    bool retains = false;              ///< what backward asks for, it may ask for once more: ask_again()
    bool may_fail = false;             ///< what the session refuses is asked for once more, and counted
    bool plays_costs = false;          ///< an op takes what it is given in the graph, as ns; else all take the same
    std::size_t streams = 1;           ///< that ops are issued on, in no regular order
    std::int64_t failing_rebuild = 0;  ///< which, counted from 1, fails; 0: none does
    std::uint64_t departs = 0;         ///< seed of what it makes and saves beside the plan; 0: nothing
  };

  FrameworkPlayer(const Graph& graph, Device& device, Options options)
      : graph_(graph),
        device_(device),
        options_(std::move(options)),
        random_(options_.departs),
        allocator_(device, order_) {
    for (std::size_t i = 0; i < options_.streams && !options_.on_calling_thread; ++i) {
      StreamHandle stream{};
      EXPECT_EQ(device_.create_stream(StreamRole::compute, stream), DeviceCode::ok);
      streams_.push_back(stream);
      compute_ = streams_.front();
    }
    for (std::size_t s = 0; s < graph_.storages.size(); ++s) versions_.push_back(0);
    find_readers();
  }
  ~FrameworkPlayer() {
    resident_.clear();
    for (const StreamHandle stream : streams_) EXPECT_EQ(device_.destroy_stream(stream), DeviceCode::ok);
  }

  [[nodiscard]] swap::FrameworkCalls calls() {
    return {.rebuild = [this](const swap::Rebuild& again) { return rebuild(again); },
            .take_block = [this](StorageId, Bytes bytes, swap::FrameworkStream) { return hand_out(new_block(bytes)); },
            .release =
                [this](swap::FrameworkBlock block, swap::FrameworkStream stream) {
                  ASSERT_TRUE(lent_.contains(block.handle)) << "released twice, or never handed over";
                  if (stream) lent_.at(block.handle)->uses.try_emplace(*stream);
                  lent_.erase(block.handle);
                },
            .is_idle = [this](void* handle) { return lent_.at(handle).use_count() == 1; }};
  }

  /// Called before each block that it takes, also for the session, as by an allocator at its end.
  void before_blocks(std::function<void()> hook) { before_block_ = std::move(hook); }

  /// What a step ran into; empty: every byte was right.
  [[nodiscard]] const std::string& fault() const { return fault_; }
  [[nodiscard]] Bytes peak_bytes() const { return peak_bytes_; }
  [[nodiscard]] std::size_t lent() const { return lent_.size(); }
  [[nodiscard]] std::int64_t refusals() const { return refusals_; }
  [[nodiscard]] std::int64_t rebuilds() const { return rebuilds_; }
  [[nodiscard]] swap::FrameworkStream stream() const { return compute_; }

  /// What it asks for comes from a planned arena, where it comes as planned.
  void serve(const std::vector<allocator::PlannedBlock>& blocks) {
    EXPECT_EQ(allocator::PlannedFront::open(device_, allocator_, blocks, compute_.value_or(StreamHandle{}), front_),
              DeviceCode::ok);
  }
  [[nodiscard]] allocator::PlannedFront* front() { return front_.get(); }

  /// From now on a storage has other bytes than captured. REQUIRES: no step is under way.
  void resize(StorageId storage, Bytes bytes) { other_bytes_[row(storage)] = bytes; }

  /// Whenever an op makes the storage, its kernel has first had a workspace of so many bytes. REQUIRES: no step is
  /// under way.
  void work_before(StorageId storage, Bytes bytes) { work_before_[row(storage)] = bytes; }

  void begin(swap::Session& session) {
    session.begin_step(compute_);
    if (front_ != nullptr) {
      front_->begin_step();
      front_->expect(allocator::Requests::other);  // inputs are none of the step's
    }
    forget_saved();
    for (std::size_t s = 0; s < graph_.storages.size(); ++s) {
      const StorageTemplate& of = graph_.template_of(id_of<StorageId>(s));
      if (!of.initial) continue;
      if (!of.persists() || resident_.count(s) == 0) {
        BlockRef block = new_block(bytes_of(s));
        touch({{block, AccessKind::write, seed(s, versions_[s])}}, 0);
        (of.persists() ? resident_ : local_)[s] = std::move(block);
      }
    }
    if (front_ != nullptr) front_->expect(allocator::Requests::planned);
  }

  /// `session`: nullptr where it is over, or busy with a later step.
  void issue(swap::Session* session, OpId op) {
    if (!fault_.empty()) return;
    issued_.insert(op);
    if (streams_.size() > 1) compute_ = streams_[std::hash<std::string>{}(std::to_string(row(op))) % streams_.size()];
    const bool is_forward = graph_.template_of(op).phase == OpPhase::forward;
    const bool tells = (is_forward || options_.tells_backward) && graph_.template_of(op).told;
    if (session != nullptr && tells) check(session->tell(op, compute_));
    std::vector<Use> uses;
    std::vector<std::size_t> written;
    std::vector<swap::FrameworkBlock> handed_over;
    for (const Access& access : graph_.accesses_of(op)) {
      const std::size_t s = row(access.storage);
      if (access.kind == AccessKind::write) {
        written.push_back(s);
        continue;
      }
      BlockRef block = find(s);
      if (block == nullptr) {
        const auto saved = saved_.find({s, op});
        if (saved == saved_.end())
          return fail("op " + std::to_string(row(op)) + " finds nothing of storage " + std::to_string(s));
        auto used = swap::Session::use(saved->second, options_.retains, compute_);
        if (!used && options_.may_fail) {
          ++refusals_;
          used = swap::Session::use(saved->second, options_.retains, compute_);
        }
        if (!used) return fail(used.error().message);
        block = lent_.at(used.value().block.handle);
        if (used.value().is_handed_over) lent_.erase(used.value().block.handle);
        if (!options_.retains) {
          swap::Session::free(saved->second);
          saved_.erase(saved);
        }
      }
      uses.push_back({block, AccessKind::read, seed(s, versions_[s])});
    }
    for (const std::size_t s : written) {
      BlockRef block = find(s);
      if (block == nullptr) block = local_[s] = make_output(s);
      uses.push_back({block, AccessKind::write, seed(s, ++versions_[s])});
    }
    touch(uses, cost_ns(op));
    for (const std::size_t s : written) {
      if (session == nullptr || !session->is_managed(id_of<StorageId>(s))) continue;
      session->take(id_of<StorageId>(s), hand_out(local_[s]), compute_);
      in_session_.insert(s);
      for (const OpId reader : readers_[s])
        if (graph_.template_of(reader).phase != OpPhase::forward)
          saved_.emplace(std::pair(s, reader), session->save(id_of<StorageId>(s), {.op = reader, .until = reader}));
    }
    drop_locals();
    if (options_.departs == 0) return;
    if (is_forward && session != nullptr) make_others(*session, op);
    if (!is_forward) ask_for_others(session, op);
  }

  /// Another backward reads all that the one before did, the latest first.
  void ask_again() {
    for (auto place = saved_.rbegin(); place != saved_.rend() && fault_.empty(); ++place) {
      const std::size_t s = place->first.first;
      const auto used = swap::Session::use(place->second, true, compute_);
      if (!used) return fail(used.error().message);
      touch({{lent_.at(used.value().block.handle), AccessKind::read, seed(s, versions_[s])}}, 0);
    }
  }

  /// Backward of the step is never run: its graph goes.
  void forget_saved() {
    for (auto& [place, saved] : saved_) swap::Session::free(saved);
    saved_.clear();
    others_.clear();
    local_.clear();
    in_session_.clear();
    issued_.clear();
  }

  void finish(swap::Session& session) {
    forget_saved();
    session.end_step(compute_);
    EXPECT_EQ(device_.synchronize_device(), DeviceCode::ok);
    Mismatch first;
    if (device_.mismatches(first) > 0) fail("work " + std::to_string(first.work_id) + " read other bytes");
  }

  void play(swap::Session& session) {
    begin(session);
    for (std::size_t op = 0; op < graph_.ops.size(); ++op) issue(&session, id_of<OpId>(op));
    finish(session);
  }

  /// Somebody changes what an op made, unplanned, when no op of the step reads it any more.
  void spoil(swap::Session& session, StorageId storage) {
    for (const auto& [handle, block] : lent_) {
      if (session.find(handle) != storage) continue;
      const BlockRef held = block;
      check(session.change(handle, false, compute_));
      touch({{held, AccessKind::write, 0xbad}}, 0);
      return;
    }
  }
  /// Whether ops of backward read what an op of forward made.
  [[nodiscard]] bool is_saved(StorageId storage) const {
    return std::ranges::any_of(readers_[row(storage)],
                               [&](OpId op) { return graph_.template_of(op).phase != OpPhase::forward; });
  }

 private:
  /// Behind a kernel.
  struct Event {
    Event(Device& of, StreamHandle stream) : device(of) {
      EXPECT_EQ(device.create_event(handle), DeviceCode::ok);
      EXPECT_EQ(device.record_event(handle, stream), DeviceCode::ok);
    }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event() { EXPECT_EQ(device.destroy_event(handle), DeviceCode::ok); }
    Device& device;
    EventHandle handle{};
  };
  struct Block {
    FrameworkPlayer* owner = nullptr;
    Address address = 0;
    Bytes bytes = 0;
    std::map<StreamHandle, std::shared_ptr<Event>> uses;  // the last on each stream; of a session's: no event
    ~Block() {
      owner->live_ -= bytes;
      if (owner->streams_.size() > 1) {
        for (const auto& [stream, event] : uses) EXPECT_EQ(owner->allocator_.note_use(address, stream), DeviceCode::ok);
      }
      allocator::PlannedFront* const front = owner->front_.get();
      const bool is_planned = front != nullptr && front->covers(address);
      EXPECT_EQ(is_planned ? front->free(address, nullptr) : owner->allocator_.free(address), DeviceCode::ok);
    }
  };
  using BlockRef = std::shared_ptr<Block>;
  /// What the step made beside the plan, and adopted.
  struct Other {
    std::uint64_t seed = 0;
    BlockRef held;  // by the framework as well
    std::vector<swap::SavedStorage> saved;
    ~Other() {
      for (swap::SavedStorage& one : saved) swap::Session::free(one);
    }
  };
  struct Context {
    std::map<std::size_t, BlockRef> local;
    std::map<std::pair<std::size_t, OpId>, swap::SavedStorage> saved;
    std::vector<std::unique_ptr<Other>> others;
    std::set<std::size_t> in_session;
    std::set<OpId> issued;
    std::vector<std::int32_t> versions;
  };

 public:
  /// The step's tensors, put aside for another, and back; content that persists is there for both.
  [[nodiscard]] Context put_aside() {
    return {.local = std::exchange(local_, {}),
            .saved = std::exchange(saved_, {}),
            .others = std::exchange(others_, {}),
            .in_session = std::exchange(in_session_, {}),
            .issued = std::exchange(issued_, {}),
            .versions = versions_};
  }
  void take_up(Context context) {
    local_ = std::move(context.local);
    saved_ = std::move(context.saved);
    others_ = std::move(context.others);
    in_session_ = std::move(context.in_session);
    issued_ = std::move(context.issued);
    for (std::size_t s = 0; s < versions_.size(); ++s)
      if (!graph_.template_of(id_of<StorageId>(s)).persists()) versions_[s] = context.versions[s];
  }

 private:
  struct Use {
    BlockRef block;
    AccessKind kind = AccessKind::read;
    std::uint64_t seed = 0;
  };

  [[nodiscard]] bool draws(std::uint64_t one_in) { return random_() % one_in == 0; }

  /// Saved once or more, for an op of backward that asks for what `op` made, or for none that is known.
  void make_others(swap::Session& session, OpId op) {
    while (draws(2)) {
      auto other = std::make_unique<Other>();
      other->seed = random_() | 1;
      BlockRef block = new_block(static_cast<Bytes>(random_() % (96 * kKiB)) + 1);
      touch({{block, AccessKind::write, other->seed}}, 0);
      if (draws(3)) other->held = block;
      const swap::FrameworkBlock handed = hand_out(std::move(block));
      const StorageId storage = session.adopt(handed, compute_);
      EXPECT_EQ(session.find(handed.handle), storage);
      OpId use = kNone<OpId>;
      for (const Access& access : graph_.accesses_of(op))
        for (const OpId reader : readers_[row(access.storage)])
          if (graph_.template_of(reader).phase != OpPhase::forward && draws(4)) use = reader;
      do other->saved.push_back(session.save(storage, {.op = use, .until = use}));
      while (draws(3));
      others_.push_back(std::move(other));
    }
  }
  /// The latest first, unless they were saved for this op; some twice, some changed in between, some never.
  void ask_for_others(swap::Session* session, OpId op) {
    for (std::size_t i = others_.size(); i-- > 0 && fault_.empty();) {
      const OpId use = others_[i]->saved.back().use.op;
      if (use != op && (use != kNone<OpId> || draws(3))) continue;
      ask_for(session, *others_[i]);
      if (others_[i]->saved.empty() || draws(5)) others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  void ask_for(swap::Session* session, Other& other) {
    other.held = nullptr;
    const bool again = options_.retains || draws(3);
    auto used = swap::Session::use(other.saved.back(), again, compute_);
    if (!used && options_.may_fail) {
      ++refusals_;
      used = swap::Session::use(other.saved.back(), again, compute_);
    }
    if (!used) return fail(used.error().message);
    void* const handle = used.value().block.handle;
    const BlockRef block = lent_.at(handle);
    if (used.value().is_handed_over) lent_.erase(handle);
    touch({{block, AccessKind::read, other.seed}}, 0);
    if (again && session != nullptr && draws(2)) {
      const Status status = session->change(handle, draws(2), compute_);
      check(status);
      if (status) touch({{block, AccessKind::write, other.seed += 2}}, 0);
    }
    if (again) return;
    swap::Session::free(other.saved.back());
    other.saved.pop_back();
  }

  void find_readers() {
    readers_.resize(graph_.storages.size());
    touching_.resize(graph_.storages.size());
    touching_locally_.resize(graph_.storages.size());
    for (std::size_t op = 0; op < graph_.ops.size(); ++op)
      for (const Access& access : graph_.accesses_of(id_of<OpId>(op))) {
        const std::size_t s = row(access.storage);
        if (access.kind == AccessKind::read) readers_[s].push_back(id_of<OpId>(op));
        touching_[s].push_back(id_of<OpId>(op));
        if (graph_.template_of(id_of<OpId>(op)).phase == OpPhase::forward || access.kind == AccessKind::write)
          touching_locally_[s].push_back(id_of<OpId>(op));
      }
  }

  [[nodiscard]] static std::uint64_t seed(std::size_t storage, std::int32_t version) {
    return (static_cast<std::uint64_t>(storage) << 32) ^ static_cast<std::uint64_t>(version) ^ 0x5eed;
  }

  [[nodiscard]] BlockRef find(std::size_t storage) {
    for (const auto* blocks : {&local_, &resident_})
      if (const auto found = blocks->find(storage); found != blocks->end()) return found->second;
    return nullptr;
  }

  [[nodiscard]] Bytes bytes_of(std::size_t storage) const {
    const auto found = other_bytes_.find(storage);
    return found == other_bytes_.end() ? graph_.storages[storage].bytes : found->second;
  }

  [[nodiscard]] BlockRef new_block(Bytes bytes) {
    if (before_block_) before_block_();
    auto block = std::make_shared<Block>();
    block->owner = this;
    block->bytes = bytes;
    const StreamHandle stream = compute_.value_or(StreamHandle{});
    const std::optional<Address> planned = front_ == nullptr ? std::nullopt : front_->allocate(bytes, stream);
    block->address = planned.value_or(0);
    if (!planned) {
      EXPECT_EQ(allocator_.allocate(bytes, stream, block->address), DeviceCode::ok);
    }
    live_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, live_);
    return block;
  }

  [[nodiscard]] BlockRef make_output(std::size_t storage) {
    if (const auto work = work_before_.find(storage); work != work_before_.end())
      touch({{new_block(work->second), AccessKind::write, seed(storage, 0)}}, 0);
    return new_block(bytes_of(storage));
  }

  swap::FrameworkBlock hand_out(BlockRef block) {
    const Address address = block->address;
    const Bytes bytes = block->bytes;
    void* const handle = reinterpret_cast<void*>(++handles_);
    lent_[handle] = std::move(block);
    return {.handle = handle, .address = address, .bytes = bytes};
  }

  /// Locals die where forward is through with them; what is saved lives on in the session.
  void drop_locals() {
    std::erase_if(local_, [&](const auto& one) {
      const auto& touching = (in_session_.count(one.first) != 0 ? touching_locally_ : touching_)[one.first];
      // What is recomputed may read an input, which the record of its call holds.
      return !graph_.template_of(id_of<StorageId>(one.first)).initial &&
             std::ranges::all_of(touching, [&](OpId op) { return issued_.contains(op); });
    });
  }

  Status rebuild(const swap::Rebuild& again) {
    if (++rebuilds_ == options_.failing_rebuild) return infeasible("out of memory, as it happens");
    EXPECT_FALSE(over_.contains({again.step, again.op})) << row(again.op) << " runs again behind its last time";
    std::vector<Use> uses;
    for (const Access& access : graph_.accesses_of(again.op)) {
      const std::size_t s = row(access.storage);
      if (access.kind == AccessKind::read) {
        BlockRef block = find(s);
        for (const swap::Rebuild::Source& source : again.sources)
          if (row(source.storage) == s) block = lent_.at(source.block.handle);
        if (block == nullptr) return internal_fault("op " + std::to_string(row(again.op)) + " cannot run again");
        uses.push_back({block, AccessKind::read, seed(s, versions_[s])});
        continue;
      }
      BlockRef block = make_output(s);
      uses.push_back({block, AccessKind::write, seed(s, versions_[s])});
      for (std::size_t i = 0; i < again.wanted.size(); ++i)
        if (again.wanted[i] == access.storage) again.made[i] = hand_out(block);
    }
    touch(uses, cost_ns(again.op));
    if (again.is_last) over_.insert({again.step, again.op});
    return {};
  }

  [[nodiscard]] std::int64_t cost_ns(OpId op) const {
    if (!options_.plays_costs) return 400'000;
    return std::llround(graph_.template_of(op).cost.given * graph_.given_costs.quantum);
  }

  void touch(const std::vector<Use>& uses, std::int64_t ns) {
    if (compute_) {
      order_by_blocks(uses);
      std::vector<Touch> touches;
      for (const AccessKind kind : {AccessKind::read, AccessKind::write})
        for (const Use& use : uses)
          if (use.kind == kind)
            touches.push_back(
                {.address = use.block->address, .bytes = use.block->bytes, .kind = kind, .seed = use.seed});
      EXPECT_EQ(
          device_.launch(*compute_, {.id = ++works_, .estimate_ns = ns, .touches = touches, .verify = options_.verify}),
          DeviceCode::ok);
      note_uses(uses);
      return;
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.plays_costs ? ns : 0);
    if (options_.verify) touch_here(uses);
    while (std::chrono::steady_clock::now() < end) {
    }
  }

  void order_by_blocks(const std::vector<Use>& uses) {
    for (const Use& use : uses)
      for (const auto& [stream, event] : use.block->uses)
        if (stream != *compute_ && event != nullptr) {
          EXPECT_EQ(device_.wait_event(*compute_, event->handle), DeviceCode::ok);
        }
  }
  void note_uses(const std::vector<Use>& uses) {
    if (streams_.size() < 2) return;
    const auto event = std::make_shared<Event>(device_, *compute_);
    for (const Use& use : uses) use.block->uses[*compute_] = event;
  }

  void touch_here(const std::vector<Use>& uses) {
    for (const Use& use : uses)
      if (use.kind == AccessKind::read &&
          !holds_pattern(reinterpret_cast<const void*>(use.block->address), use.block->bytes, use.seed))
        fail("a read found other bytes");
    for (const Use& use : uses)
      if (use.kind == AccessKind::write)
        fill_pattern(reinterpret_cast<void*>(use.block->address), use.block->bytes, use.seed);
  }

  void check(const Status& status) {
    if (!status && options_.may_fail) {
      ++refusals_;
    } else if (!status) {
      fail(status.error().message);
    }
  }
  void fail(const std::string& what) {
    if (fault_.empty()) fault_ = what;
  }

  const Graph& graph_;
  Device& device_;
  const Options options_;
  std::mt19937_64 random_;
  std::vector<StreamHandle> streams_;
  swap::FrameworkStream compute_;  // the one that ops are issued on now
  allocator::StreamOrder order_;
  allocator::CachingAllocator allocator_;
  std::unique_ptr<allocator::PlannedFront> front_;
  std::vector<std::int32_t> versions_;
  std::map<std::size_t, Bytes> work_before_;
  std::map<std::size_t, Bytes> other_bytes_;
  std::vector<std::vector<OpId>> readers_;
  std::set<std::pair<std::int64_t, OpId>> over_;                // step and op, which does not run again there
  std::vector<std::vector<OpId>> touching_, touching_locally_;  // per storage; locally: of those in the session
  Bytes live_ = 0, peak_bytes_ = 0;
  std::function<void()> before_block_;
  std::int64_t works_ = 0, refusals_ = 0, rebuilds_ = 0;
  std::uintptr_t handles_ = 0;
  std::string fault_;
  std::map<void*, BlockRef> lent_;
  std::map<std::size_t, BlockRef> local_, resident_;
  std::set<std::size_t> in_session_;
  std::set<OpId> issued_;  // of the step
  std::map<std::pair<std::size_t, OpId>, swap::SavedStorage> saved_;
  std::vector<std::unique_ptr<Other>> others_;
};

}  // namespace tidemark::testing
