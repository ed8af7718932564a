#include "integrations/agreement/rendezvous.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "integrations/agreement/vote_server.h"

namespace tidemark::agreement {
namespace {

constexpr std::size_t kMostStrangers = 64;  ///< connections beside those of ranks that have not said who they are

/// Rank 0 while others come.
class Door {
 public:
  Door(const Joining& joining, Listener listener)
      : joining_(joining),
        listener_(std::move(listener)),
        ranks_(static_cast<std::size_t>(joining.size - 1)),
        deadline_(Clock::now() + patience_for(joining.timeout)) {}

  Result<std::vector<Socket>> open() {
    while (missing() > 0) {
      if (left_until(deadline_) == Clock::duration::zero()) return give_up();
      wait();
    }
    tell({.kind = MessageKind::ready});
    return std::move(ranks_);
  }

 private:
  std::size_t missing() const {
    return static_cast<std::size_t>(std::ranges::count_if(ranks_, [](const Socket& s) { return !s.is_open(); }));
  }

  void tell(const Message& message) const {
    for (const Socket& rank : ranks_)
      if (rank.is_open()) (void)rank.send(message);
  }

  Error give_up() const {
    const auto first = std::ranges::find_if(ranks_, [](const Socket& s) { return !s.is_open(); });
    Message message{.kind = MessageKind::lost};
    message.loss = {.cause = LossCause::late,
                    .rank = static_cast<std::int32_t>(first - ranks_.begin()) + 1,
                    .more = static_cast<std::int32_t>(missing()) - 1,
                    .waited_ms = patience_for(joining_.timeout).count()};
    tell(message);
    return infeasible(describe(message.loss, joining_.size));
  }

  /// Until something happens at one of the connections, or the deadline.
  void wait() {
    std::vector<pollfd> watched{{.fd = listener_.descriptor(), .events = POLLIN, .revents = 0}};
    for (const Socket& stranger : strangers_)
      watched.push_back({.fd = stranger.descriptor(), .events = POLLIN, .revents = 0});
    for (const Socket& rank : ranks_) watched.push_back({.fd = rank.descriptor(), .events = POLLIN, .revents = 0});
    (void)wait_for(watched.data(), watched.size(), deadline_);
    const pollfd* seen = &watched[1 + strangers_.size()];
    for (Socket& rank : ranks_) {  // one that ends before all have come may come again
      Message message;
      if ((seen++)->revents != 0 && rank.receive(message) != Socket::Received::nothing_yet) rank.close();
    }
    seen = &watched[1];
    for (Socket& stranger : strangers_)
      if ((seen++)->revents != 0) listen_to(stranger);
    std::erase_if(strangers_, [](const Socket& s) { return !s.is_open(); });
    if (watched.front().revents != 0) let_in();
  }

  void let_in() {
    for (Socket arrived = listener_.accept(); arrived.is_open(); arrived = listener_.accept()) {
      if (strangers_.size() >= ranks_.size() + kMostStrangers) strangers_.erase(strangers_.begin());
      strangers_.push_back(std::move(arrived));
    }
  }

  void listen_to(Socket& stranger) {
    Message message;
    const Socket::Received received = stranger.receive(message);
    if (received == Socket::Received::nothing_yet) return;
    if (received != Socket::Received::message || message.kind != MessageKind::hello) return stranger.close();
    const Refusal refusal = judge(message);
    if (refusal != Refusal::none) {
      (void)stranger.send({.kind = MessageKind::refused,
                           .refusal = refusal,
                           .size = joining_.size,
                           .timeout_ms = joining_.timeout.count()});
      return stranger.close();
    }
    deadline_ =
        std::min(deadline_, Clock::now() + patience_for(Milliseconds(std::max<std::int64_t>(0, message.left_ms))));
    ranks_[static_cast<std::size_t>(message.rank - 1)] = std::move(stranger);
  }

  Refusal judge(const Message& hello) const {
    if (hello.size != joining_.size) return Refusal::size;
    if (hello.timeout_ms != joining_.timeout.count()) return Refusal::timeout;
    if (hello.rank < 1 || hello.rank >= joining_.size) return Refusal::rank;
    return ranks_[static_cast<std::size_t>(hello.rank - 1)].is_open() ? Refusal::taken : Refusal::none;
  }

  const Joining joining_;
  const Listener listener_;
  std::vector<Socket> ranks_;      ///< of 1 to size - 1; not open: has not come
  std::vector<Socket> strangers_;  ///< have connected and not said who they are
  Clock::time_point deadline_;
};

Error refused(const Address& address, const Joining& joining, const Message& message) {
  const std::string where = fmt::format("address '{}': rank 0 there has ", address.text);
  switch (message.refusal) {
    case Refusal::size:
      return bad_input(fmt::format("{}a group of {}, this rank one of {}", where, message.size, joining.size));
    case Refusal::timeout:
      return bad_input(
          fmt::format("{}a time-out of {} ms, this rank {} ms", where, message.timeout_ms, joining.timeout.count()));
    case Refusal::taken:
      return bad_input(fmt::format("{}a rank {} already", where, joining.rank));
    case Refusal::rank:
    case Refusal::none:
      break;
  }
  return bad_input(fmt::format("{}no rank {}", where, joining.rank));
}

}  // namespace

Result<std::vector<Socket>> gather(const Address& address, const Joining& joining) {
  Result<Listener> listener = Listener::open(address, joining.size);
  if (!listener) return listener.error();
  return Door(joining, std::move(listener).value()).open();
}

Result<Socket> join(const Address& address, const Joining& joining) {
  const Clock::time_point deadline = Clock::now() + joining.timeout;
  Result<Socket> connected = connect_until(address, deadline);
  if (!connected) return connected.error();
  Socket& connection = connected.value();
  Message message{.kind = MessageKind::hello,
                  .rank = joining.rank,
                  .size = joining.size,
                  .timeout_ms = joining.timeout.count(),
                  .left_ms = std::chrono::duration_cast<Milliseconds>(left_until(deadline)).count()};
  (void)connection.send(message);
  switch (connection.receive_until(deadline, message)) {
    case Socket::Received::message:
      if (message.kind == MessageKind::ready) return connected;
      if (message.kind == MessageKind::refused) return refused(address, joining, message);
      if (message.kind == MessageKind::lost) return infeasible(describe(message.loss, joining.size));
      break;
    case Socket::Received::foreign:
      break;
    case Socket::Received::end:
      return infeasible(describe({.cause = LossCause::gone, .rank = 0}, joining.size));
    case Socket::Received::nothing_yet:
      return infeasible(
          describe({.cause = LossCause::silent, .rank = 0, .waited_ms = joining.timeout.count()}, joining.size));
  }
  return bad_input(fmt::format("address '{}': what listens there is no rank 0 of an expert group", address.text));
}

}  // namespace tidemark::agreement
