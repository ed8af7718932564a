#pragma once
// One vote of an expert group after the other: who has asked, and what all are told. No clock, no sockets.
//
// The rule is that of tidemark_agree (include/tidemark/tidemark.h): 1 if none wants chunks; 0 if one wants them and one
// cannot; else the most that any rank needs, but 2 at least.

#include <cstdint>
#include <optional>
#include <vector>

#include "integrations/agreement/loss.h"

namespace tidemark::agreement {

/// What a rank says of a section.
struct Ask {
  Place place;
  std::int32_t wanted = 0;  ///< not 0: it does not fit whole
  std::int32_t chunks = 0;  ///< the fewest it needs; 0: it cannot run in chunks
};

class Ballot {
 public:
  /// `size` ranks, at least 1.
  explicit Ballot(std::int32_t size) : last_(static_cast<std::size_t>(size)), asked_(last_.size()) {}

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(last_.size()); }
  /// One rank at least waits for others.
  [[nodiscard]] bool is_open() const { return count_ > 0; }
  [[nodiscard]] bool is_complete() const { return count_ == size(); }
  [[nodiscard]] const Place& last_of(std::int32_t rank) const { return last_[static_cast<std::size_t>(rank)]; }

  /// A rank's ask. A Loss: it contradicts what was asked before in this vote, or comes twice.
  [[nodiscard]] std::optional<Loss> cast(std::int32_t rank, const Ask& ask);
  /// What all are told; the next vote begins. REQUIRES: is_complete().
  [[nodiscard]] std::int32_t close();
  /// The ranks that have not asked, named by the first. REQUIRES: is_open() and not is_complete().
  [[nodiscard]] Loss late(std::int64_t waited_ms) const;

 private:
  [[nodiscard]] Loss disagreement(LossCause cause, std::int32_t rank, const Place& place, std::int32_t with) const;

  std::vector<Place> last_;  ///< per rank
  std::vector<char> asked_;  ///< per rank, in this vote
  std::int32_t count_ = 0;
  std::int32_t first_ = -1;    ///< who asked first in this vote
  std::int32_t planned_ = -1;  ///< who told its plan first in this vote
  std::int32_t most_ = 0;
  bool wanted_ = false;
  bool cannot_ = false;
};

}  // namespace tidemark::agreement
