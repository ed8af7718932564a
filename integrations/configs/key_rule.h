#pragma once
// What a key of a framework's configuration means for memory: one row a key, in one table a framework.

#include <cstdint>
#include <span>
#include <string_view>

namespace tidemark::configs {

enum class KeyEffect : std::uint8_t {
  argument,      ///< it is an argument of Megatron-LM's table under another name
  own,           ///< its reader looks at it
  none,          ///< no effect on memory
  not_modelled,  ///< changes memory in a way that is not modelled, unless switched off
  refused,       ///< the job's memory is not modelled at all, unless switched off
};

struct KeyRule {
  std::string_view path;  ///< `ddp.bucket_size`, or `logger.*`: all keys of a section
  KeyEffect effect = KeyEffect::none;
  std::string_view argument;
  std::string_view reason;
  std::string_view off;  ///< the value that switches it off, beside false, 0, null, none and an empty text or list
  int priority = 0;      ///< of two keys for one argument the higher counts
};

[[nodiscard]] constexpr KeyRule to_argument(std::string_view path, std::string_view argument, int priority = 0) {
  return {.path = path, .effect = KeyEffect::argument, .argument = argument, .priority = priority};
}
[[nodiscard]] constexpr KeyRule own_key(std::string_view path) {
  return {.path = path, .effect = KeyEffect::own};
}
[[nodiscard]] constexpr KeyRule no_bytes(std::string_view path, std::string_view reason) {
  return {.path = path, .effect = KeyEffect::none, .reason = reason};
}
[[nodiscard]] constexpr KeyRule doubtful(std::string_view path, std::string_view reason, std::string_view off = {}) {
  return {.path = path, .effect = KeyEffect::not_modelled, .reason = reason, .off = off};
}
[[nodiscard]] constexpr KeyRule refused_key(std::string_view path, std::string_view reason, std::string_view off = {}) {
  return {.path = path, .effect = KeyEffect::refused, .reason = reason, .off = off};
}

}  // namespace tidemark::configs
