#pragma once
// Counts the votes of an expert group: a thread in the process of rank 0, with a connection to every rank.
//
// Why a thread. What ends a group must be told to ranks that wait while rank 0 computes, or is itself the one that is
// late. The thread sleeps in ppoll() but for that.
//
// Ends. A vote is waited for from its first ask on for patience_for(timeout): the rest of the time-out is for telling
// the others, so that every rank has its answer, or the name of the rank at fault, within the time-out. A connection
// that ends, a rank that leaves, closes or contradicts: all are told at once. The group is then lost for good.
//
// Cost of a vote: one recv() and one send() a rank, and a wake-up of this thread for ranks that come one by one
// (bench/agreement_bench).

#include <optional>
#include <thread>
#include <vector>

#include "device/fork_handlers.h"
#include "integrations/agreement/ballot.h"
#include "integrations/agreement/socket.h"

namespace tidemark::agreement {

/// How long the first to ask waits before the group ends for those that have not.
[[nodiscard]] Milliseconds patience_for(Milliseconds timeout);

class VoteServer {
 public:
  /// `ranks[r]` is connected to rank r; the thread ends when rank 0's ends. Throws std::system_error without a thread.
  VoteServer(std::vector<Socket> ranks, Milliseconds timeout);
  /// Ends the group where rank 0 has not closed it yet.
  ~VoteServer();
  VoteServer(const VoteServer&) = delete;
  VoteServer& operator=(const VoteServer&) = delete;

 private:
  void serve();
  void read_from(std::int32_t rank);
  void take(std::int32_t rank, const Message& message);
  void answer_all();
  void end(const Loss& loss);
  void tell_all(const Message& message);
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;

  std::vector<Socket> ranks_;  ///< none comes or goes while the thread runs: a forked process closes its copies of all
  const Milliseconds patience_;
  Ballot ballot_;
  std::vector<char> over_;     ///< per rank: nothing more is to come from it
  Clock::time_point asked_{};  ///< when the open vote's first ask came
  std::optional<Loss> loss_;
  std::thread thread_;
  ForkHandlers fork_;
};

}  // namespace tidemark::agreement
