#pragma once
// How the ranks of an expert group find each other: rank 0 listens, all others connect to it and say who they are.
//
// A process that is no rank of the group is refused with the reason; nothing it sends or leaves unsent holds others up.
// Where ranks do not come, rank 0 tells those that have come which are missing, before the first of them gives up.

#include <cstdint>
#include <vector>

#include "integrations/agreement/socket.h"

namespace tidemark::agreement {

/// A rank that opens a group; all ranks of one have the same `size` and `timeout`.
struct Joining {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  Milliseconds timeout{};
};

/// Of rank 0: connections to ranks 1 to size - 1, in this order. Error: bad_input where it cannot listen, infeasible
/// with the ranks that did not come.
[[nodiscard]] Result<std::vector<Socket>> gather(const Address& address, const Joining& joining);

/// Of the others: the connection to rank 0 once all have come. Error: bad_input where this rank is not one of the
/// group, infeasible where rank 0 or others do not come.
[[nodiscard]] Result<Socket> join(const Address& address, const Joining& joining);

}  // namespace tidemark::agreement
