#pragma once
// What the framework of a followed step will ask its allocator for, in order, and where the Program has it: the plan of
// an allocator::PlannedArena.
//
// A session's own requests, for what it copies in, and those of recomputed ops stand among them where the session
// will make them. What outlives the step on both sides (parameters, optimizer state, inputs) is the framework's and
// lies elsewhere: a Layout has it lowest, and the arena begins above it.

#include <vector>

#include "allocator/planned_arena.h"
#include "core/program.h"
#include "swap/followed_program.h"

namespace tidemark::swap {

struct OpRequest {
  OpId op = kNone<OpId>;
  StorageId storage = kNone<StorageId>;  ///< kNone: part of the op's workspace
  Bytes bytes = 0;                       ///< of a workspace; a storage of more than kUnorderedBytes has the Program's
  Bytes least_bytes = 0;                 ///< 0: always as many; else any from here on (routed storages)
  Bytes offset = 0;                      ///< of a workspace, in what the Program has for all of the op's, or within
  bool is_remade = false;                ///< that of the step before is there until this one is made
  bool is_within = false;  ///< a workspace, which lies in the storage's place: released before the op asks for that
};

/// `requests`: by op, of each in the order in which it asks whenever it runs. `tail_pad_bytes`: of the device, and part
/// of what the Program has for a storage, as it is of the allocator's blocks. Offsets are those of the Program less
/// what lies below the arena. Empty: what outlives the step is not lowest. What the Program has no room for is left
/// out. A block is due at the time of the op that asks, or before which the session does. REQUIRES: requests by
/// ascending op. Errors: as bind_followed().
[[nodiscard]] Result<std::vector<allocator::PlannedBlock>> plan_requests(const Program& program,
                                                                         const FollowedLoop& loop,
                                                                         const std::vector<OpRequest>& requests,
                                                                         Bytes tail_pad_bytes = 0);

}  // namespace tidemark::swap
