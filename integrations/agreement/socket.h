#pragma once
// A stream socket that never blocks without a limit. Closed in programs that the process starts (close-on-exec); copies
// in forked processes are for its owner to close (device/fork_handlers.h).

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/result.h"
#include "integrations/agreement/address.h"
#include "integrations/agreement/message.h"

namespace tidemark::agreement {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

/// Time until `deadline`, not below zero.
[[nodiscard]] Clock::duration left_until(Clock::time_point deadline);

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), filled_(other.filled_), buffer_(other.buffer_) {}
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// Two that are connected to each other.
  [[nodiscard]] static Result<std::pair<Socket, Socket>> pair();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  void close();
  /// Both ends see the end of the connection; the descriptor remains.
  void shut() const;

  /// Whole or not at all: false where the connection is broken, or so much lies unread that this message finds no room.
  [[nodiscard]] bool send(const Message& message) const;

  enum class Received : std::uint8_t { message, nothing_yet, end, foreign };
  /// What is there, without waiting.
  [[nodiscard]] Received receive(Message& message);
  /// Waits: `nothing_yet` is at the deadline.
  [[nodiscard]] Received receive_until(Clock::time_point deadline, Message& message);

 private:
  int descriptor_ = -1;
  std::size_t filled_ = 0;  ///< of `buffer_`
  Message buffer_;
};

/// Waits until one of `count` descriptors (pollfd) is ready, or the deadline; none: for ever. The number of those
/// ready.
[[nodiscard]] int wait_for(pollfd* descriptors, std::size_t count, std::optional<Clock::time_point> deadline);

/// A socket that others connect to. Its file, if it has one, is deleted with it.
class Listener {
 public:
  /// A file of a socket that no process listens to any more is replaced. bad_input: the address is taken, or cannot be
  /// listened at.
  [[nodiscard]] static Result<Listener> open(const Address& address, std::int32_t backlog);
  ~Listener();
  Listener(Listener&& other) noexcept : socket_(std::move(other.socket_)), path_(std::exchange(other.path_, {})) {}
  Listener& operator=(Listener&&) = delete;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] int descriptor() const { return socket_.descriptor(); }
  /// Closed where no one waits.
  [[nodiscard]] Socket accept() const;

 private:
  Listener(Socket socket, std::string path) : socket_(std::move(socket)), path_(std::move(path)) {}
  Socket socket_;
  std::string path_;
};

/// Tries until the deadline, since the process that listens may start later. Error: infeasible, with the system's last
/// word.
[[nodiscard]] Result<Socket> connect_until(const Address& address, Clock::time_point deadline);

}  // namespace tidemark::agreement
