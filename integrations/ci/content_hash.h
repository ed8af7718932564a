#pragma once
// Whether an input of a job is what it was: a hash of its bytes. Not cryptographic.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tidemark::ci {

/// FNV-1a of 64 bits (Fowler, Noll, Vo; IETF draft-eastlake-fnv).
[[nodiscard]] std::uint64_t fnv1a64(std::string_view content);

/// 16 hexadecimal digits in lower case, and back; nothing: another text.
[[nodiscard]] std::string hash_text(std::uint64_t hash);
[[nodiscard]] std::optional<std::uint64_t> parse_hash(std::string_view text);

}  // namespace tidemark::ci
