#include "integrations/ci/content_hash.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

namespace tidemark::ci {

std::uint64_t fnv1a64(std::string_view content) {
  constexpr std::uint64_t kOffsetBasis = 0xcbf29ce484222325, kPrime = 0x100000001b3;
  std::uint64_t hash = kOffsetBasis;
  for (const char c : content) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  return hash;
}

std::string hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

std::optional<std::uint64_t> parse_hash(std::string_view text) {
  std::uint64_t hash = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  // What is written otherwise (upper case, fewer digits) was not written here.
  if (error != std::errc{} || rest != text.data() + text.size() || hash_text(hash) != text) return std::nullopt;
  return hash;
}

}  // namespace tidemark::ci
