#pragma once
// Why an expert group is no more, and which of its ranks is the cause. Plain values: they travel between processes.

#include <cstdint>
#include <string>

namespace tidemark::agreement {

/// A section that a rank asks for.
struct Place {
  std::int32_t group = -1;    ///< pipeline rank
  std::int32_t section = -1;  ///< in its step; -1: the rank has asked for none yet
  std::uint64_t plan = 0;     ///< fingerprint of the rank's plan; 0: not told
  friend bool operator==(const Place&, const Place&) = default;
};

enum class LossCause : std::int32_t {
  none,
  gone,         ///< the process ended or its connection broke
  late,         ///< others wait for it longer than they may
  silent,       ///< rank 0 does not answer: its process is stopped, or its host is gone
  left,         ///< its run failed
  closed,       ///< closed the group while others ask
  out_of_step,  ///< asks for another section than `other_rank`
  other_plan,   ///< has another plan than `other_rank`
  foreign,      ///< sent what is no message of a group
};

struct Loss {
  LossCause cause = LossCause::none;
  std::int32_t rank = -1;        ///< of the group, from 0: the cause
  std::int32_t other_rank = -1;  ///< out_of_step, other_plan: with whom it disagrees
  std::int32_t more = 0;         ///< late: as many higher ranks are late too
  std::int64_t waited_ms = 0;    ///< late, silent: how long others waited
  Place at;                      ///< what `rank` asked for last
  Place other_at;                ///< what `other_rank` asks for; late: what the others wait in
  friend bool operator==(const Loss&, const Loss&) = default;
};

/// One line: the rank, what happened to it, and what it asked for last. `size`: of the group.
[[nodiscard]] std::string describe(const Loss& loss, std::int32_t size);

}  // namespace tidemark::agreement
