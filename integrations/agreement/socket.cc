#include "integrations/agreement/socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace tidemark::agreement {
namespace {

constexpr int kKind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr Milliseconds kBetweenTries{10};

std::string reason(int code) {
  return std::generic_category().message(code);
}

/// Votes are small and waited for: no packet is held back.
void hurry(const Socket& socket, int family) {
  const int yes = 1;
  if (family != AF_UNIX) (void)setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/// A port that no process listens at may be given to the very socket that tries it: it is then connected to itself.
bool is_own_peer(const Socket& socket) {
  SystemAddress own;
  SystemAddress peer;
  own.bytes = peer.bytes = sizeof own.storage;
  const auto at = [](SystemAddress& a) { return reinterpret_cast<sockaddr*>(&a.storage); };
  return getsockname(socket.descriptor(), at(own), &own.bytes) == 0 &&
         getpeername(socket.descriptor(), at(peer), &peer.bytes) == 0 && own.family() != AF_UNIX &&
         own.bytes == peer.bytes && std::memcmp(&own.storage, &peer.storage, own.bytes) == 0;
}

/// One try. 0 or why not.
int connect_once(const SystemAddress& way, Clock::time_point deadline, Socket& made) {
  Socket socket(::socket(way.family(), kKind, 0));
  if (!socket.is_open()) return errno;
  if (::connect(socket.descriptor(), way.get(), way.bytes) != 0) {
    if (errno != EINPROGRESS) return errno;
    pollfd wanted{.fd = socket.descriptor(), .events = POLLOUT, .revents = 0};
    if (wait_for(&wanted, 1, deadline) == 0) return ETIMEDOUT;
    int code = 0;
    socklen_t bytes = sizeof code;
    if (getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &code, &bytes) != 0) return errno;
    if (code != 0) return code;
  }
  if (is_own_peer(socket)) return ECONNREFUSED;
  hurry(socket, way.family());
  made = std::move(socket);
  return 0;
}

/// Whether the file is a socket that no process listens to.
bool is_left_over(const Address& address) {
  struct stat file {};
  if (address.path.empty() || lstat(address.path.c_str(), &file) != 0 || !S_ISSOCK(file.st_mode)) return false;
  Socket probe;
  return connect_once(address.ways.front(), Clock::now(), probe) == ECONNREFUSED;
}

int listen_once(const SystemAddress& way, std::int32_t backlog, Socket& made) {
  Socket socket(::socket(way.family(), kKind, 0));
  if (!socket.is_open()) return errno;
  const int yes = 1;
  if (way.family() != AF_UNIX) (void)setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(socket.descriptor(), way.get(), way.bytes) != 0 || listen(socket.descriptor(), backlog) != 0) return errno;
  made = std::move(socket);
  return 0;
}

}  // namespace

Clock::duration left_until(Clock::time_point deadline) {
  return std::max(deadline - Clock::now(), Clock::duration::zero());
}

int wait_for(pollfd* descriptors, std::size_t count, std::optional<Clock::time_point> deadline) {
  for (;;) {
    timespec limit{};
    if (deadline) {
      const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(left_until(*deadline));
      limit.tv_sec = static_cast<std::time_t>(left.count() / 1'000'000'000);
      limit.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
    }
    const int ready = ppoll(descriptors, static_cast<nfds_t>(count), deadline ? &limit : nullptr, nullptr);
    if (ready >= 0) return ready;
    if (errno != EINTR) return 0;
  }
}

Socket& Socket::operator=(Socket&& other) noexcept {
  close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  filled_ = other.filled_;
  buffer_ = other.buffer_;
  return *this;
}

Result<std::pair<Socket, Socket>> Socket::pair() {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, kKind, 0, ends) != 0) return bad_input("a pair of sockets: " + reason(errno));
  return std::pair(Socket(ends[0]), Socket(ends[1]));
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  filled_ = 0;
}

void Socket::shut() const {
  if (descriptor_ >= 0) (void)shutdown(descriptor_, SHUT_RDWR);
}

bool Socket::send(const Message& message) const {
  ssize_t sent = 0;
  do {
    sent = ::send(descriptor_, &message, sizeof message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof message);
}

Socket::Received Socket::receive(Message& message) {
  while (filled_ < sizeof buffer_) {
    const ssize_t got = recv(descriptor_, reinterpret_cast<char*>(&buffer_) + filled_, sizeof buffer_ - filled_, 0);
    if (got > 0) {
      filled_ += static_cast<std::size_t>(got);
    } else if (got == 0) {
      return Received::end;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Received::nothing_yet;
    } else if (errno != EINTR) {
      return Received::end;
    }
  }
  filled_ = 0;
  message = buffer_;
  return message.mark == kMark ? Received::message : Received::foreign;
}

Socket::Received Socket::receive_until(Clock::time_point deadline, Message& message) {
  for (;;) {  // waits first: an answer is hardly ever there when it is asked for
    pollfd wanted{.fd = descriptor_, .events = POLLIN, .revents = 0};
    if (wait_for(&wanted, 1, deadline) == 0) return Received::nothing_yet;
    const Received received = receive(message);
    if (received != Received::nothing_yet) return received;
  }
}

Result<Listener> Listener::open(const Address& address, std::int32_t backlog) {
  int code = 0;
  for (const SystemAddress& way : address.ways) {
    Socket socket;
    code = listen_once(way, backlog, socket);
    if (code == EADDRINUSE && is_left_over(address) && unlink(address.path.c_str()) == 0)
      code = listen_once(way, backlog, socket);
    if (code == 0) return Listener(std::move(socket), address.path);
  }
  return bad_input(fmt::format("address '{}': rank 0 cannot listen there: {}", address.text, reason(code)));
}

Listener::~Listener() {
  if (socket_.is_open() && !path_.empty()) (void)unlink(path_.c_str());
}

Socket Listener::accept() const {
  SystemAddress peer;
  peer.bytes = sizeof peer.storage;
  Socket socket(accept4(socket_.descriptor(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.bytes,
                        SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.is_open()) hurry(socket, peer.family());
  return socket;
}

Result<Socket> connect_until(const Address& address, Clock::time_point deadline) {
  for (;;) {
    int code = 0;
    for (const SystemAddress& way : address.ways) {
      Socket socket;
      code = connect_once(way, deadline, socket);
      if (code == 0) return socket;
    }
    if (left_until(deadline) == Clock::duration::zero())
      return infeasible(
          fmt::format("rank 0 of the expert group does not answer at '{}': {}", address.text, reason(code)));
    std::this_thread::sleep_for(std::min<Clock::duration>(kBetweenTries, left_until(deadline)));
  }
}

}  // namespace tidemark::agreement
