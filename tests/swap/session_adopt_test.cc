// Blocks that a session adopts: what they are called, when they are released, and in which order they give up memory.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "device/sim_device.h"
#include "swap/host_memory.h"
#include "swap/session.h"
#include "tests/support/random_plans.h"

namespace tidemark::swap {
namespace {

/// A framework whose blocks have so many references, on a device where the session may spill.
class Adopting : public ::testing::Test {
 protected:
  struct Block {
    Address address = 0;
    int held = 0;  ///< by the framework
    int lent = 0;  ///< references of the session's
  };

  void open(Bytes host_bytes = 0) {
    SessionOptions options{.loop = {.may_spill = {id_of<StorageId>(0)}}, .host_bytes = host_bytes};
    FrameworkCalls calls{
        .rebuild = [](const Rebuild&) { return internal_fault("nothing is recomputed here"); },
        .take_block = [this](StorageId, Bytes bytes, FrameworkStream) { return lend(add(bytes)); },
        .release = [this](FrameworkBlock block, FrameworkStream) { drop(block); },
        .is_idle = [this](void* handle) { return blocks_.at(handle).held == 0 && blocks_.at(handle).lent == 1; }};
    auto opened = Session::open(plan_.program, *sim_, std::move(options), std::move(calls));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    session_ = std::move(opened).value();
    ASSERT_EQ(sim_->create_stream(StreamRole::compute, stream_.emplace()), DeviceCode::ok);
    session_->begin_step(stream_);
  }
  void TearDown() override {
    session_.reset();
    EXPECT_EQ(lent(), 0);
    for (const auto& [handle, block] : blocks_) EXPECT_EQ(sim_->free_plain(block.address), DeviceCode::ok);
    if (stream_) {
      EXPECT_EQ(sim_->destroy_stream(*stream_), DeviceCode::ok);
    }
    EXPECT_EQ(sim_->race_count(), 0);
    EXPECT_EQ(sim_->leaks(), "");
  }

  void* add(Bytes bytes) {
    void* const handle = reinterpret_cast<void*>(++handles_);
    EXPECT_EQ(sim_->allocate_plain(round_up(bytes, kGranule), blocks_[handle].address), DeviceCode::ok);
    bytes_[handle] = bytes;
    return handle;
  }
  FrameworkBlock lend(void* handle) {
    ++blocks_.at(handle).lent;
    return {.handle = handle, .address = blocks_.at(handle).address, .bytes = bytes_.at(handle)};
  }
  void drop(FrameworkBlock block) { --blocks_.at(block.handle).lent; }
  [[nodiscard]] int lent() const {
    int sum = 0;
    for (const auto& [handle, block] : blocks_) sum += block.lent;
    return sum;
  }
  void write(void* handle, std::uint64_t seed) { touch(handle, AccessKind::write, seed); }
  void read(void* handle, std::uint64_t seed) { touch(handle, AccessKind::read, seed); }
  void touch(void* handle, AccessKind kind, std::uint64_t seed) {
    const Touch touch{.address = blocks_.at(handle).address, .bytes = bytes_.at(handle), .kind = kind, .seed = seed};
    EXPECT_EQ(sim_->launch(*stream_, {.id = 1, .estimate_ns = 1000, .touches = {&touch, 1}, .verify = true}),
              DeviceCode::ok);
    Mismatch first;
    EXPECT_EQ(sim_->synchronize_device(), DeviceCode::ok);
    EXPECT_EQ(sim_->mismatches(first), 0);
  }

  /// A block of its own, written, adopted and saved so many times.
  struct Adopted {
    void* handle = nullptr;
    StorageId storage = kNone<StorageId>;
    std::vector<SavedStorage> saved;
  };
  Adopted adopt(int saves, OpId op = kNone<OpId>, Bytes bytes = kBytes) {
    Adopted made{.handle = add(bytes)};
    write(made.handle, handles_);
    made.storage = session_->adopt(lend(made.handle), stream_);
    for (int i = 0; i < saves; ++i) made.saved.push_back(session_->save(made.storage, {.op = op, .until = op}));
    return made;
  }
  [[nodiscard]] bool is_lent(const Adopted& one) const { return blocks_.at(one.handle).lent > 0; }
  [[nodiscard]] SessionCounts counts() const { return session_->report().counts; }
  [[nodiscard]] StorageId managed() const {
    for (std::size_t s = 0; s < plan_.graph.storages.size(); ++s)
      if (session_->is_managed(id_of<StorageId>(s))) return id_of<StorageId>(s);
    return kNone<StorageId>;
  }

  static constexpr Bytes kBytes = 64 * kKiB, kGranule = 512;
  const std::vector<plan::RankPlan> plans_ = testing::random_captured_plans(1, 1);
  const plan::RankPlan& plan_ = plans_.front();
  const std::unique_ptr<SimDevice> sim_ = make_sim_device({.capacity_bytes = kGiB, .report_unwritten = true});
  std::unique_ptr<Session> session_;
  FrameworkStream stream_;
  std::uintptr_t handles_ = 0;
  std::map<void*, Block> blocks_;
  std::map<void*, Bytes> bytes_;
};

TEST_F(Adopting, TheLastThatWasSavedReleasesTheBlock) {
  open();
  Adopted freed = adopt(2), used = adopt(2);
  EXPECT_GE(row(freed.storage), plan_.graph.storages.size());
  EXPECT_NE(freed.storage, used.storage);
  EXPECT_FALSE(session_->is_managed(freed.storage));
  EXPECT_TRUE(session_->can_be_saved(freed.storage));
  EXPECT_EQ(session_->find(freed.handle), freed.storage);
  Session::free(freed.saved[0]);
  EXPECT_TRUE(is_lent(freed));
  Session::free(freed.saved[1]);
  EXPECT_FALSE(is_lent(freed));
  EXPECT_FALSE(session_->can_be_saved(freed.storage));
  EXPECT_EQ(session_->find(freed.handle), kNone<StorageId>);

  const auto first = Session::use(used.saved[0], false, stream_);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(first.value().is_handed_over);
  const auto again = Session::use(used.saved[1], true, stream_);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again.value().is_handed_over);
  const auto last = Session::use(used.saved[1], false, stream_);
  ASSERT_TRUE(last.ok());
  EXPECT_TRUE(last.value().is_handed_over);
  EXPECT_EQ(last.value().block.handle, used.handle);
  EXPECT_TRUE(is_lent(used));
  drop(last.value().block);
  for (SavedStorage& one : used.saved) Session::free(one);
  EXPECT_EQ(counts().departures, 0);
}

TEST_F(Adopting, WhatIsNotSavedGoesWithTheStep) {
  open();
  const Adopted one = adopt(0);
  EXPECT_TRUE(is_lent(one));
  session_->end_step(stream_);
  EXPECT_FALSE(is_lent(one));
}

TEST_F(Adopting, WhatIsSavedOutlivesTheStepAndTheSession) {
  open();
  Adopted one = adopt(1);
  ASSERT_EQ(session_->make_room(1, stream_).value(), kBytes);
  session_->begin_step(stream_);
  EXPECT_FALSE(session_->can_be_saved(one.storage));
  session_.reset();
  const auto used = Session::use(one.saved[0], false, stream_);
  ASSERT_TRUE(used.ok());
  EXPECT_TRUE(used.value().is_handed_over);
  read(used.value().block.handle, 1);
  drop(used.value().block);
  Session::free(one.saved[0]);
}

/// A storage that several saved tensors view is one.
TEST_F(Adopting, ABlockIsAdoptedOnce) {
  open();
  Adopted one = adopt(1);
  EXPECT_EQ(session_->adopt(lend(one.handle), stream_), one.storage);
  EXPECT_EQ(blocks_.at(one.handle).lent, 1);
  ASSERT_EQ(session_->make_room(1, stream_).value(), kBytes);
  const auto used = Session::use(one.saved[0], true, stream_);
  ASSERT_TRUE(used.ok());
  EXPECT_EQ(session_->adopt(lend(used.value().block.handle), stream_), one.storage);
  Session::free(one.saved[0]);
}

TEST_F(Adopting, AManagedStorageIsNotAdopted) {
  open();
  const StorageId storage = managed();
  void* const handle = add(kBytes);
  write(handle, 5);
  session_->take(storage, lend(handle), stream_);
  EXPECT_EQ(session_->adopt(lend(handle), stream_), storage);
  EXPECT_EQ(blocks_.at(handle).lent, 1);
}

/// An op may answer what it was given: the block has two numbers and a reference each.
TEST_F(Adopting, WhatIsTakenAsWellIsBoth) {
  for (const bool adopted_goes_first : {false, true}) {
    if (session_ == nullptr) open();
    Adopted one = adopt(1);
    session_->take(managed(), lend(one.handle), stream_);
    EXPECT_EQ(session_->find(one.handle), managed());
    EXPECT_EQ(blocks_.at(one.handle).lent, 2);
    EXPECT_EQ(session_->make_room(1, stream_).value(), 0);
    EXPECT_TRUE(session_->change(one.handle, true, stream_).ok());
    write(one.handle, 77);
    if (adopted_goes_first) {
      Session::free(one.saved[0]);
      EXPECT_EQ(session_->find(one.handle), managed());
      EXPECT_EQ(blocks_.at(one.handle).lent, 1);
      continue;
    }
    session_->take(managed(), lend(add(kBytes)), stream_);
    EXPECT_EQ(session_->find(one.handle), one.storage);
    EXPECT_EQ(blocks_.at(one.handle).lent, 1);
    const auto used = Session::use(one.saved[0], false, stream_);
    ASSERT_TRUE(used.ok() && used.value().is_handed_over);
    read(used.value().block.handle, 77);
    drop(used.value().block);
    Session::free(one.saved[0]);
  }
}

/// Its copy in host memory is not what it is any more.
TEST_F(Adopting, WhatIsChangedIsCopiedAnew) {
  open();
  Adopted one = adopt(1);
  ASSERT_EQ(session_->make_room(1, stream_).value(), kBytes);
  const auto back = Session::use(one.saved[0], true, stream_);
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(session_->change(back.value().block.handle, false, stream_).ok());
  write(back.value().block.handle, 9);
  ASSERT_EQ(session_->make_room(1, stream_).value(), kBytes);
  EXPECT_EQ(counts().spilled, 2);
  EXPECT_EQ(counts().dropped, 0);
  const auto used = Session::use(one.saved[0], true, stream_);
  ASSERT_TRUE(used.ok());
  read(used.value().block.handle, 9);
  ASSERT_EQ(session_->make_room(1, stream_).value(), kBytes);  // the copy is there yet
  EXPECT_EQ(counts().dropped, 1);
  Session::free(one.saved[0]);
}

TEST_F(Adopting, WhatIsSavedFirstIsGivenUpFirst) {
  open();
  std::vector<Adopted> made;
  for (int i = 0; i < 4; ++i) made.push_back(adopt(1, kNone<OpId>, kBytes - i));  // sizes do not matter
  for (std::size_t i = 0; i < made.size(); ++i) {
    EXPECT_TRUE(is_lent(made[i]));
    EXPECT_EQ(session_->make_room(1, stream_).value(), bytes_.at(made[i].handle));
    EXPECT_FALSE(is_lent(made[i])) << i;
  }
  EXPECT_EQ(session_->make_room(1, stream_).value(), 0);
  EXPECT_EQ(counts().spilled, 4);
  for (Adopted& one : made) Session::free(one.saved[0]);
}

/// What is needed last is: by the op that asks, or by what was saved before it.
TEST_F(Adopting, WhatIsNeededLastIsGivenUpFirst) {
  open();
  const std::size_t ops = plan_.graph.ops.size();
  const auto save_planned = [&](std::size_t op) { return session_->save(kNone<StorageId>, {.op = id_of<OpId>(op)}); };
  SavedStorage early = save_planned(ops - 3);
  Adopted first = adopt(1);
  SavedStorage late = save_planned(ops - 2);
  Adopted second = adopt(1), third = adopt(1, id_of<OpId>(ops - 1));
  for (Adopted* one : {&third, &second, &first}) {
    EXPECT_TRUE(is_lent(*one));
    EXPECT_EQ(session_->make_room(1, stream_).value(), kBytes);
    EXPECT_FALSE(is_lent(*one));
  }
  for (SavedStorage* one : {&early, &late, &first.saved[0], &second.saved[0], &third.saved[0]}) Session::free(*one);
}

TEST_F(Adopting, AnyNumberOfBytesIsGivenUp) {
  Bytes planned = 0;
  for (const auto& storage : plan_.graph.storages) planned += storage.bytes;
  open();
  std::vector<Adopted> made;
  for (int i = 0; i < 8; ++i) made.push_back(adopt(1, kNone<OpId>, planned / 2));
  EXPECT_EQ(session_->make_room(kGiB, stream_).value(), 8 * (planned / 2));
  for (Adopted& one : made) Session::free(one.saved[0]);
}

TEST_F(Adopting, WhatHostMemoryIsRefusedForStays) {
  std::vector<Bytes> arenas;
  for (const Arena& arena : plan_.program.layout.arenas)
    arenas.push_back(arena.space == MemorySpace::host ? arena.height_bytes : 0);
  open(HostMemory::bytes_for(arenas) + kBytes);
  Adopted first = adopt(1), second = adopt(1);
  EXPECT_EQ(session_->make_room(kGiB, stream_).value(), kBytes);
  EXPECT_TRUE(is_lent(second));
  const auto used = Session::use(second.saved[0], false, stream_);
  ASSERT_TRUE(used.ok() && used.value().is_handed_over);
  read(second.handle, 2);
  drop(used.value().block);
  for (Adopted* one : {&first, &second}) Session::free(one->saved[0]);
}

TEST_F(Adopting, WhatWasAdoptedAndIsGoneMakesRoomNoDearer) {
  open();
  void* const handle = add(kBytes);
  write(handle, 1);
  blocks_.at(handle).held = 1;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 100'000; ++i) {
    const StorageId storage = session_->adopt(lend(handle), stream_);
    SavedStorage saved = session_->save(storage, {});
    const Result<Bytes> room = session_->make_room(kBytes, stream_);
    ASSERT_TRUE(room.ok());
    ASSERT_EQ(room.value(), 0) << "the framework holds it, too";
    Session::free(saved);
  }
  // A fraction of a second; a quarter of a minute or more where all that was ever adopted is looked at each time.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
}

}  // namespace
}  // namespace tidemark::swap
