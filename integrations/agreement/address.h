#pragma once
// Where the ranks of an expert group meet: `unix:PATH`, `unix:@NAME` (Linux's names without a file) or `tcp:HOST:PORT`.

#include <sys/socket.h>

#include <string>
#include <vector>

#include "core/result.h"

namespace tidemark::agreement {

/// A socket address as the system takes it.
struct SystemAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] int family() const { return storage.ss_family; }
};

struct Address {
  std::string text;                 ///< as given, for messages
  std::string path;                 ///< of the file that a `unix:` socket has; empty: none
  std::vector<SystemAddress> ways;  ///< to be tried in order; at least one
};

/// Looks host names up; may block as long as that takes. bad_input: neither form, a port that is none, a path that is
/// too long, a host that is not found.
[[nodiscard]] Result<Address> find_address(const std::string& text);

}  // namespace tidemark::agreement
