#pragma once
// The expert group of one rank: its processes, on one host or several, that agree for every section in how many chunks
// it runs (docs/design/runtime.md, "Agreement").
//
// Threads: calls must not overlap.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "integrations/agreement/ballot.h"
#include "integrations/agreement/rendezvous.h"
#include "integrations/agreement/seat.h"
#include "integrations/agreement/vote_server.h"

namespace tidemark::agreement {

class ExpertGroup {
 public:
  /// Waits until all ranks have come, at most the time-out. Error: as gather() and join() have it. A group of one needs
  /// no address.
  [[nodiscard]] static Result<std::unique_ptr<ExpertGroup>> open(const std::string& address, const Joining& joining);

  /// Of this rank.
  [[nodiscard]] Seat& seat() { return *seat_; }

 private:
  ExpertGroup() = default;

  std::unique_ptr<VoteServer> server_;  ///< of rank 0; behind the seat, which closes first
  std::unique_ptr<Seat> seat_;
};

}  // namespace tidemark::agreement
