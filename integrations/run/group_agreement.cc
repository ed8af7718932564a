#include "integrations/run/group_agreement.h"

namespace tidemark::run {

Error GroupAgreement::lost() const {
  return infeasible(agreement::describe(*loss_, ballot_.size()));
}

Result<std::int32_t> GroupAgreement::ask(std::int32_t member, std::int32_t group, std::int32_t section,
                                         swap::ChunkWish wish) {
  std::unique_lock lock(mutex_);
  if (loss_) return lost();
  loss_ = ballot_.cast(
      member, {.place = {.group = group, .section = section}, .wanted = wish.wanted ? 1 : 0, .chunks = wish.chunks});
  if (loss_) {
    answered_.notify_all();
    return lost();
  }
  if (ballot_.is_complete()) {
    answer_ = ballot_.close();
    ++votes_;
    answered_.notify_all();
    return answer_;
  }
  const std::uint64_t before = votes_;
  answered_.wait(lock, [&] { return votes_ != before || loss_; });
  if (votes_ != before) return answer_;
  return lost();
}

void GroupAgreement::leave(std::int32_t member) {
  const std::lock_guard lock(mutex_);
  if (loss_) return;
  loss_ = {.cause = agreement::LossCause::left, .rank = member, .at = ballot_.last_of(member)};
  answered_.notify_all();
}

}  // namespace tidemark::run
