#pragma once
// Structs of the C interface carry their size, so that a program and a library of different age understand each other.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>

#include "include/tidemark/tidemark.h"
#include "integrations/c_api/outcome.h"

namespace tidemark::c_api {

/// No struct grows beyond this; a larger size is taken for garbage rather than read.
inline constexpr std::size_t kMostStructBytes = 1024;

/// Size of each struct in the first version of the interface: smaller was never right. While nothing has been added,
/// that is its size.
template <class T>
inline constexpr std::size_t kFirstBytes = sizeof(T);
/// Sizes of a struct that has grown more than once, after the first and before the last time.
template <class T>
inline constexpr std::array<std::size_t, 2> kLaterBytes = {kFirstBytes<T>, kFirstBytes<T>};
template <>
inline constexpr std::size_t kFirstBytes<tidemark_rank_figures> = offsetof(tidemark_rank_figures, offloaded_bytes);
template <>
inline constexpr std::size_t kFirstBytes<tidemark_run_options> = offsetof(tidemark_run_options, agree);
template <>
inline constexpr std::array<std::size_t, 2> kLaterBytes<tidemark_run_options> = {
    offsetof(tidemark_run_options, expert_group), offsetof(tidemark_run_options, sent_load)};
template <>
inline constexpr std::size_t kFirstBytes<tidemark_device_options> = offsetof(tidemark_device_options, submit_queued);
template <>
inline constexpr std::size_t kFirstBytes<tidemark_graph_options> = offsetof(tidemark_graph_options, watch);
template <>
inline constexpr std::size_t kFirstBytes<tidemark_session_options> = offsetof(tidemark_session_options, record);

/// The caller's size of the struct, checked: what it has behind what this version knows must be zero. Nothing behind
/// what is known is ever written, so that a size that is wrong does not become a write into somebody's stack.
template <class T>
[[nodiscard]] Outcome check_struct(const T* given, const char* name, std::size_t& size) {
  static_assert(sizeof(T) <= kMostStructBytes);
  std::memcpy(&size, given, sizeof(size));
  // Between two versions there is none: half a member would be read.
  const bool is_older = size == kFirstBytes<T> || size == kLaterBytes<T>[0] || size == kLaterBytes<T>[1];
  if ((!is_older && size < sizeof(T)) || size > kMostStructBytes)
    return invalid(std::string(name) + ": struct_size is " + std::to_string(size) + ", must be sizeof the struct (" +
                   std::to_string(sizeof(T)) + ")");
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0)
      return invalid(std::string(name) + ": struct_size is " + std::to_string(size) + ", and what lies behind the " +
                     std::to_string(sizeof(T)) + " bytes that this version of Tidemark does know is not zero");
  }
  return {};
}

/// Options as the caller knows them into `known`; NULL: all defaults.
template <class T>
[[nodiscard]] Outcome read_options(const T* given, const char* name, T& known) {
  std::memset(&known, 0, sizeof(T));
  if (given == nullptr) return {};
  std::size_t size = 0;
  if (Outcome o = check_struct(given, name, size); !o.ok()) return o;
  std::memcpy(&known, given, size < sizeof(T) ? size : sizeof(T));
  return {};
}

/// Whether write_result() will succeed, for functions that do much before they write.
template <class T>
[[nodiscard]] Outcome check_result(const T* given, const char* name) {
  if (given == nullptr) return invalid(std::string(name) + " is NULL");
  std::size_t size = 0;
  return check_struct(given, name, size);
}

/// Results into the caller's struct, as far as both know them. struct_size stays the caller's.
template <class T>
[[nodiscard]] Outcome write_result(T value, const char* name, T* given) {
  if (Outcome o = check_result(given, name); !o.ok()) return o;
  std::memcpy(&value.struct_size, given, sizeof(value.struct_size));
  std::memcpy(given, &value, value.struct_size < sizeof(T) ? value.struct_size : sizeof(T));
  return {};
}

/// A number of an options struct that must lie within limits.
struct Bounded {
  const char* name;
  std::int64_t value;
  std::int64_t least;
  std::int64_t most;
};

/// INVALID with the first number outside its limits; 0 is the default and always allowed.
[[nodiscard]] inline Outcome check_numbers(const char* options, std::initializer_list<Bounded> numbers) {
  for (const Bounded& n : numbers) {
    if (n.value == 0 || (n.value >= n.least && n.value <= n.most)) continue;
    return invalid(std::string(options) + ": " + n.name + " is " + std::to_string(n.value) + "; it must be from " +
                   std::to_string(n.least) + " to " + std::to_string(n.most) +
                   (n.least > 0 ? ", or 0 for the default" : ""));
  }
  return {};
}

/// Sizes above this are nobody's: sums of a few of them still fit.
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

}  // namespace tidemark::c_api
