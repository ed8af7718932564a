#pragma once
// The devices of an expert group that play in one process agree on chunks (swap/executor.h, Agree): each asks on a
// thread of its own and waits for the others.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "integrations/agreement/ballot.h"
#include "swap/executor.h"

namespace tidemark::run {

/// Threads: any; one a member.
class GroupAgreement {
 public:
  explicit GroupAgreement(std::int32_t members) : ballot_(members) {}
  GroupAgreement(const GroupAgreement&) = delete;
  GroupAgreement& operator=(const GroupAgreement&) = delete;

  /// Blocks until every member has asked. Error (infeasible): one has left, or members ask for different sections.
  [[nodiscard]] Result<std::int32_t> ask(std::int32_t member, std::int32_t group, std::int32_t section,
                                         swap::ChunkWish wish);
  /// The member asks no more: its step was refused.
  void leave(std::int32_t member);

 private:
  [[nodiscard]] Error lost() const;

  std::mutex mutex_;
  std::condition_variable answered_;
  agreement::Ballot ballot_;
  std::uint64_t votes_ = 0;  ///< closed
  std::int32_t answer_ = 1;  ///< of the last one
  std::optional<agreement::Loss> loss_;
};

}  // namespace tidemark::run
