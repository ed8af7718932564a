#include "integrations/agreement/address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/un.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>

namespace tidemark::agreement {
namespace {

constexpr char kForms[] = "'unix:PATH', 'unix:@NAME' or 'tcp:HOST:PORT'";
constexpr int kMostPort = 65535;

Result<Address> find_local(const std::string& text, const std::string& name) {
  const bool has_file = !name.starts_with('@');
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  if (name.size() < 2 && !(has_file && name.size() == 1))
    return bad_input(fmt::format("address '{}': no name behind 'unix:'", text));
  if (name.size() >= sizeof local.sun_path || name.find('\0') != std::string::npos)
    return bad_input(fmt::format("address '{}': the name has {} bytes; it must have at most {}", text, name.size(),
                                 sizeof local.sun_path - 1));
  std::memcpy(local.sun_path, name.data(), name.size());
  if (!has_file) local.sun_path[0] = '\0';
  SystemAddress way;
  std::memcpy(&way.storage, &local, sizeof local);
  way.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (has_file ? 1 : 0));
  return Address{.text = text, .path = has_file ? name : "", .ways = {way}};
}

Result<Address> find_remote(const std::string& text, const std::string& name) {
  const std::size_t colon = name.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return bad_input(fmt::format("address '{}': it must be {}", text, kForms));
  std::string host = name.substr(0, colon);
  const std::string port = name.substr(colon + 1);
  int number = 0;
  const auto [end, fault] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (fault != std::errc() || end != port.data() + port.size() || number < 1 || number > kMostPort)
    return bad_input(fmt::format("address '{}': port '{}' must be from 1 to {}", text, port, kMostPort));
  if (host.size() > 2 && host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(host.c_str(), port.c_str(), &wanted, &found); code != 0)
    return bad_input(fmt::format("address '{}': host '{}': {}", text, host, gai_strerror(code)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  Address address{.text = text};
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    SystemAddress way;
    std::memcpy(&way.storage, at->ai_addr, at->ai_addrlen);
    way.bytes = at->ai_addrlen;
    address.ways.push_back(way);
  }
  return address;
}

}  // namespace

Result<Address> find_address(const std::string& text) {
  if (text.starts_with("unix:")) return find_local(text, text.substr(5));
  if (text.starts_with("tcp:")) return find_remote(text, text.substr(4));
  return bad_input(fmt::format("address '{}': it must be {}", text, kForms));
}

}  // namespace tidemark::agreement
