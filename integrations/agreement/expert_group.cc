#include "integrations/agreement/expert_group.h"

#include "integrations/agreement/address.h"

namespace tidemark::agreement {
namespace {

/// Rank 0's connections to all ranks but itself.
Result<std::vector<Socket>> gather_others(const std::string& address, const Joining& joining) {
  if (joining.size == 1) return std::vector<Socket>();
  const Result<Address> found = find_address(address);
  if (!found) return found.error();
  return gather(found.value(), joining);
}

}  // namespace

Result<std::unique_ptr<ExpertGroup>> ExpertGroup::open(const std::string& address, const Joining& joining) {
  std::unique_ptr<ExpertGroup> group(new ExpertGroup());
  Socket own;
  if (joining.rank == 0) {
    Result<std::pair<Socket, Socket>> ends = Socket::pair();
    if (!ends) return ends.error();
    Result<std::vector<Socket>> others = gather_others(address, joining);
    if (!others) return others.error();
    own = std::move(ends.value().first);
    others.value().insert(others.value().begin(), std::move(ends.value().second));
    group->server_ = std::make_unique<VoteServer>(std::move(others).value(), joining.timeout);
  } else {
    const Result<Address> found = find_address(address);
    if (!found) return found.error();
    Result<Socket> joined = join(found.value(), joining);
    if (!joined) return joined.error();
    own = std::move(joined).value();
  }
  group->seat_ = std::make_unique<Seat>(std::move(own), joining.rank, joining.size, joining.timeout);
  return group;
}

}  // namespace tidemark::agreement
