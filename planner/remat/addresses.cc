#include "planner/remat/addresses.h"

#include "planner/layout/lay_out.h"

namespace tidemark::remat {

StepAddresses addresses_of(const OpList& list, const OpSchedule& schedule, Bytes enough_bytes) {
  constexpr std::int64_t kWork = 1'000'000;  // about a second, where the orders do not reach what is enough
  StepAddresses addresses;
  PackProblem problem;
  for (const StepResidency& one : residencies_of(list, schedule)) {
    if (one.bytes == 0) continue;
    addresses.residencies.push_back(one);
    problem.items.push_back({.begin = one.begin, .end = one.end, .bytes = one.bytes});
  }
  PackAnswer answer = pack_to_fit(problem, enough_bytes, kWork);
  addresses.height_bytes = answer.packing.height_bytes;
  addresses.offsets = std::move(answer.packing.offsets);
  return addresses;
}

}  // namespace tidemark::remat
