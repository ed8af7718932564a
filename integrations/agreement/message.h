#pragma once
// What travels between the ranks of an expert group: one struct of one size, its bytes as they stand in memory. Hosts
// of one group have one byte order and one version of Tidemark; the mark says so.

#include <cstdint>
#include <type_traits>

#include "integrations/agreement/ballot.h"
#include "integrations/agreement/loss.h"

namespace tidemark::agreement {

/// "TideAgr" and the version of this struct.
inline constexpr std::uint64_t kMark = 0x5469646541677201ULL;

enum class MessageKind : std::int32_t {
  hello,    ///< to rank 0: who this is
  refused,  ///< from rank 0: why this rank may not join
  ready,    ///< from rank 0: all have joined
  ask,      ///< to rank 0
  answer,   ///< from rank 0: the chunks
  lost,     ///< from rank 0: the group is no more
  leave,    ///< to rank 0: the run has failed
  close,    ///< to rank 0: asks no more, and all went well
};

enum class Refusal : std::int32_t { none, size, timeout, rank, taken };

struct Message {
  std::uint64_t mark = kMark;
  MessageKind kind = MessageKind::hello;
  Refusal refusal = Refusal::none;
  std::int32_t rank = -1;       ///< hello: one's own
  std::int32_t size = 0;        ///< hello and refused: of the group, as the sender has it
  std::int64_t timeout_ms = 0;  ///< hello and refused: of the group, as the sender has it
  std::int64_t left_ms = 0;     ///< hello: how much longer this rank waits for the group to be complete
  std::int64_t answer = 0;      ///< answer: chunks
  Ask ask;                      ///< ask
  Loss loss;                    ///< lost
};
static_assert(std::is_trivially_copyable_v<Message>);
static_assert(std::has_unique_object_representations_v<Message>, "no padding: what is sent is what is set");

}  // namespace tidemark::agreement
