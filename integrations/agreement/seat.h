#pragma once
// One rank's end of its connection to the VoteServer.
//
// Threads: calls must not overlap.

#include <cstdint>
#include <optional>

#include "device/fork_handlers.h"
#include "integrations/agreement/ballot.h"
#include "integrations/agreement/socket.h"

namespace tidemark::agreement {

class Seat {
 public:
  /// `connection` leads to the VoteServer of a group of `size`. No ask waits longer than `timeout`.
  Seat(Socket connection, std::int32_t rank, std::int32_t size, Milliseconds timeout);
  /// Closes it, as all ranks do when they are through.
  ~Seat();
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  /// What all ranks are told: the chunks of the section, as tidemark_agree has it. Waits for all ranks. Error:
  /// infeasible, describe() of the loss; from then on at every call.
  [[nodiscard]] Result<std::int32_t> ask(const Ask& ask);
  /// This rank asks no more, since its run has failed: the others are told. Nothing where the group is lost already.
  void leave();
  /// Set once the group is lost.
  [[nodiscard]] const std::optional<Loss>& loss() const { return loss_; }

 private:
  [[nodiscard]] Error lose(const Loss& loss);
  /// Of rank 0, as far as it is known here.
  [[nodiscard]] Error lose_server(LossCause cause);

  Socket connection_;
  const std::int32_t rank_;
  const std::int32_t size_;
  const Milliseconds timeout_;
  Place last_;    ///< asked for
  Place agreed_;  ///< by all
  std::optional<Loss> loss_;
  ForkHandlers fork_;
};

}  // namespace tidemark::agreement
