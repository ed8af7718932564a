#include "integrations/agreement/vote_server.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <csignal>

namespace tidemark::agreement {
namespace {

constexpr Milliseconds kMostForTelling{1000};

/// A thread that takes none of the process's signals.
template <class Body>
std::thread quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const struct Restore {
    const sigset_t& mask;
    ~Restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } restore{before};
  return std::thread(std::move(body));
}

Message message_of(const Loss& loss) {
  Message message{.kind = MessageKind::lost};
  message.loss = loss;
  return message;
}

}  // namespace

Milliseconds patience_for(Milliseconds timeout) {
  return timeout - std::min(timeout / 4, kMostForTelling);
}

VoteServer::VoteServer(std::vector<Socket> ranks, Milliseconds timeout)
    : ranks_(std::move(ranks)),
      patience_(patience_for(timeout)),
      ballot_(static_cast<std::int32_t>(ranks_.size())),
      over_(ranks_.size()),
      thread_(quiet_thread([this] { serve(); })),
      fork_(ForkLevel::group, {.before_fork = {}, .after_fork_in_parent = {}, .after_fork_in_child = [this] {
                                 for (Socket& rank : ranks_) rank.close();
                                 abandon(std::move(thread_));
                               }}) {}

VoteServer::~VoteServer() {
  ranks_.front().shut();
  if (thread_.joinable()) thread_.join();
}

void VoteServer::serve() {
  std::vector<pollfd> watched;
  for (const Socket& rank : ranks_) watched.push_back({.fd = rank.descriptor(), .events = POLLIN, .revents = 0});
  while (over_.front() == 0) {
    const int ready = wait_for(watched.data(), watched.size(), deadline());
    for (std::size_t rank = 0; rank < watched.size(); ++rank) {
      if (watched[rank].revents == 0) continue;
      read_from(static_cast<std::int32_t>(rank));
      if (over_[rank] != 0) watched[rank].fd = -1;
    }
    if (ready == 0 && deadline() && *deadline() <= Clock::now()) end(ballot_.late(patience_.count()));
  }
}

std::optional<Clock::time_point> VoteServer::deadline() const {
  if (loss_ || !ballot_.is_open()) return std::nullopt;
  return asked_ + patience_;
}

/// One message: a rank that asks waits for its answer before it sends another.
void VoteServer::read_from(std::int32_t rank) {
  Message message;
  switch (ranks_[static_cast<std::size_t>(rank)].receive(message)) {
    case Socket::Received::message:
      return take(rank, message);
    case Socket::Received::nothing_yet:
      return;
    case Socket::Received::end:
      over_[static_cast<std::size_t>(rank)] = 1;
      return end({.cause = LossCause::gone, .rank = rank, .at = ballot_.last_of(rank)});
    case Socket::Received::foreign:
      over_[static_cast<std::size_t>(rank)] = 1;
      return end({.cause = LossCause::foreign, .rank = rank, .at = ballot_.last_of(rank)});
  }
}

void VoteServer::take(std::int32_t rank, const Message& message) {
  if (message.kind == MessageKind::close || message.kind == MessageKind::leave) {
    const bool failed = message.kind == MessageKind::leave;
    over_[static_cast<std::size_t>(rank)] = failed ? 0 : 1;
    end({.cause = failed ? LossCause::left : LossCause::closed, .rank = rank, .at = ballot_.last_of(rank)});
  } else if (loss_) {
    return;  // it will find what it has been told
  } else if (message.kind != MessageKind::ask) {
    end({.cause = LossCause::foreign, .rank = rank, .at = ballot_.last_of(rank)});
  } else {
    if (!ballot_.is_open()) asked_ = Clock::now();
    if (const std::optional<Loss> loss = ballot_.cast(rank, message.ask)) {
      end(*loss);
    } else if (ballot_.is_complete()) {
      answer_all();
    }
  }
}

void VoteServer::answer_all() {
  Message message{.kind = MessageKind::answer};
  message.answer = ballot_.close();
  tell_all(message);
}

void VoteServer::end(const Loss& loss) {
  if (loss_) return;
  loss_ = loss;
  tell_all(message_of(loss));
}

/// Rank 0 last: its process may end once it knows.
void VoteServer::tell_all(const Message& message) {
  for (std::size_t rank = ranks_.size(); rank-- > 0;) {
    if (over_[rank] == 0) (void)ranks_[rank].send(message);  // a connection that is broken is seen when it is read
  }
}

}  // namespace tidemark::agreement
