#include "integrations/run/message_pairs.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <tuple>

namespace tidemark::run {
namespace {

using Key = std::tuple<std::int32_t, std::int32_t, std::int64_t>;  ///< from, to, tag

std::int32_t micro_batch_of(const plan::RankPlan& rank, TaskId task) {
  const SiteId site = rank.program.schedule.tasks[row(task)].site;
  return site == kNone<SiteId> ? -1 : rank.graph.sites[row(site)].micro_batch;
}

/// In issue order: the n-th receive of a key gets its n-th send.
std::multimap<Key, std::int32_t> micro_batches_sent(std::span<const plan::RankPlan> ranks) {
  std::multimap<Key, std::int32_t> sent;
  for (const plan::RankPlan& rank : ranks)
    for (const SendEvent& send : rank.program.sends)
      sent.emplace(Key{rank.figures.rank, send.peer_rank, send.tag}, micro_batch_of(rank, send.task));
  return sent;
}

}  // namespace

Status check_message_pairs(std::span<const plan::RankPlan> ranks) {
  std::multimap<Key, std::int32_t> sent = micro_batches_sent(ranks);
  for (const plan::RankPlan& rank : ranks) {
    for (const ReceiveEvent& receive : rank.program.receives) {
      const auto send = sent.find({receive.peer_rank, rank.figures.rank, receive.tag});
      if (send == sent.end()) continue;
      const std::int32_t wanted = micro_batch_of(rank, receive.task), got = send->second;
      sent.erase(send);
      if (got != wanted)
        return infeasible(
            fmt::format("rank {}: task {} receives micro-batch {} by tag {}, but rank {} sends micro-batch "
                        "{} by it",
                        rank.figures.rank, row(receive.task), wanted, receive.tag, receive.peer_rank, got));
    }
  }
  return {};
}

}  // namespace tidemark::run
