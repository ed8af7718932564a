#pragma once
// A Program as a session follows it: what is to be done between the ops that a framework issues, in order.
//
// Time here is the position of a task in issue order; what is due at t comes before task t is issued. Only *managed*
// storages are looked after: those that the Program copies or recomputes, what they are recomputed from, and those that
// the framework lets it spill. All others are the framework's own affair.
//
// A copy in is due where its bytes may be taken (Residency::acquire), not where its task stands: a framework's host
// does not run as far ahead as the executor's.

#include <cstdint>
#include <span>
#include <vector>

#include "core/program.h"
#include "core/result.h"

namespace tidemark::swap {

/// What a framework says of its own loop.
struct FollowedLoop {
  /// Per op: which of the parts that go through a step by themselves, such as micro-batches, it belongs to. Empty: one.
  std::vector<std::int32_t> part_of_op;
  /// Per op: whether the session hears of it. Empty: of all.
  std::vector<bool> is_told;
  /// Storages that the session may look after although the Program keeps them, to spill them where memory runs out.
  std::vector<StorageId> may_spill;
};

struct FollowedAction {
  enum class Kind : std::uint8_t {
    end_residency,  ///< the residency has ended: what holds its bytes is released
    copy_out,       ///< the same by a copy to host memory, which may begin
    settle_out,     ///< ... and whose end compute waits for; then its bytes are released
    copy_in,        ///< may begin
    settle_in,      ///< compute waits for its end
    rebuild,        ///< an op is recomputed
  };
  std::int32_t time = 0;
  Kind kind = Kind::end_residency;
  std::int32_t storage = -1;  ///< number of the managed storage; rebuild: -1
  OpId op = kNone<OpId>;      ///< rebuild
  bool last = false;  ///< end_residency: the storage does not come back. copy_in: nor is the copy in host memory asked
                      ///< again. rebuild: nor does the op run once more
  ArenaId arena = kNone<ArenaId>;  ///< copy_out: of host memory, and where it goes there; copy_in: of the device's
  Bytes offset = 0;
  std::int32_t part = 0;
  std::int32_t after =
      -1;  ///< no sooner than the part has been told of the op at this time, where parts keep their order
  std::int32_t first_wanted = 0;  ///< rebuild: FollowedProgram::wanted [first_wanted, first_wanted + wanted_count)
  std::int32_t wanted_count = 0;
};

struct FollowedStorage {
  StorageId storage = kNone<StorageId>;
  Bytes bytes = 0;
  OpId made_by = kNone<OpId>;  ///< the op that recomputes it; kNone: none does
};

/// A residency on the device.
struct FollowedResidency {
  std::int32_t first = 0, last = 0;  ///< times of its first and last touch
};

struct FollowedProgram {
  std::vector<FollowedAction> actions;  ///< by time
  std::vector<FollowedStorage> storages;
  std::vector<std::int32_t> number_of;  ///< per StorageId of the Graph: among `storages`, or -1
  std::vector<std::int32_t> time_of;    ///< per op
  std::vector<std::int32_t> part_of;    ///< per op
  std::vector<std::int32_t> wanted;     ///< numbers of storages
  std::int32_t parts = 1;
  std::vector<std::vector<FollowedResidency>> residencies;  ///< per managed storage, by time
  std::vector<std::vector<std::int32_t>>
      recompute_times;                              ///< per managed storage: times of rebuilds that read it, ascending
  std::vector<std::vector<std::int32_t>> reads_of;  ///< per op: managed storages it reads; of recomputed ops alone
  std::vector<std::vector<std::int32_t>> consumers_of;  ///< per managed storage: those that are recomputed from it
  std::vector<bool> is_rebuilt;                         ///< per op: is recomputed somewhere

  [[nodiscard]] std::span<const std::int32_t> wanted_of(const FollowedAction& action) const {
    return {wanted.data() + action.first_wanted, static_cast<std::size_t>(action.wanted_count)};
  }
};

/// Of FollowedLoop::may_spill, those that outlive the step, and numbers the Program does not have, are left out.
/// Errors (bad_input): the loop does not have the Program's ops; a storage that outlives the step is swapped or made
/// recomputed, which a framework holds itself; a recomputed op cannot be told from another.
[[nodiscard]] Result<FollowedProgram> bind_followed(const Program& program, const FollowedLoop& loop);

}  // namespace tidemark::swap
