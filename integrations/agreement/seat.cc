#include "integrations/agreement/seat.h"

namespace tidemark::agreement {

Seat::Seat(Socket connection, std::int32_t rank, std::int32_t size, Milliseconds timeout)
    : connection_(std::move(connection)),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      // A copy that a forked process kept would hide the end of this one.
      fork_(ForkLevel::group,
            {.before_fork = {}, .after_fork_in_parent = {}, .after_fork_in_child = [this] { connection_.close(); }}) {}

Seat::~Seat() {
  if (connection_.is_open()) (void)connection_.send({.kind = MessageKind::close});
}

Error Seat::lose(const Loss& loss) {
  if (!loss_) loss_ = loss;
  return infeasible(describe(*loss_, size_));
}

Error Seat::lose_server(LossCause cause) {
  return lose({.cause = cause, .rank = 0, .waited_ms = timeout_.count(), .at = agreed_});
}

Result<std::int32_t> Seat::ask(const Ask& ask) {
  if (loss_) return lose(*loss_);
  if (!connection_.is_open())
    return bad_input("the expert group was opened by another process, of which this is a fork");
  const Clock::time_point deadline = Clock::now() + timeout_;
  Message message{.kind = MessageKind::ask};
  message.ask = ask;
  last_ = ask.place;
  // That it cannot be sent says that the connection has ended; why may still be read from it.
  (void)connection_.send(message);
  switch (connection_.receive_until(deadline, message)) {
    case Socket::Received::message:
      if (message.kind == MessageKind::lost) return lose(message.loss);
      if (message.kind != MessageKind::answer) return lose_server(LossCause::foreign);
      agreed_ = ask.place;
      return static_cast<std::int32_t>(message.answer);
    case Socket::Received::end:
      return lose_server(LossCause::gone);
    case Socket::Received::foreign:
      return lose_server(LossCause::foreign);
    case Socket::Received::nothing_yet:
      break;
  }
  (void)connection_.send({.kind = MessageKind::leave});
  return lose_server(LossCause::silent);
}

void Seat::leave() {
  if (loss_) return;
  if (connection_.is_open()) (void)connection_.send({.kind = MessageKind::leave});
  loss_ = Loss{.cause = LossCause::left, .rank = rank_, .at = last_};
}

}  // namespace tidemark::agreement
