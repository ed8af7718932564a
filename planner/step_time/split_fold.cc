#include "planner/step_time/split_fold.h"

#include <cstdint>

namespace tidemark::step_time {
namespace {

/// Fowler, Noll, Vo; constants of IETF draft-eastlake-fnv.
constexpr std::uint64_t kFoldOffsetBasis = 0xcbf29ce484222325;

constexpr std::uint64_t hashed_on(std::uint64_t hash, std::string_view bytes) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

int fold_of(std::string_view split_key) {
  return static_cast<int>(hashed_on(hashed_on(kFoldOffsetBasis, "fold"), split_key) % kFolds);
}

}  // namespace tidemark::step_time
