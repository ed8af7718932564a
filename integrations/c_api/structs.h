#pragma once
// Structs of the C interface carry their size, so that a program and a library of different age understand each other.

#include <cstddef>
#include <cstring>
#include <string>

#include "integrations/c_api/outcome.h"

namespace tidemark::c_api {

/// No struct grows beyond this; a larger size is taken for garbage rather than read.
inline constexpr std::size_t kMostStructBytes = 4096;

/// Size of each struct in the first version of the interface: smaller was never right. While nothing has been added,
/// that is its size.
template <class T>
inline constexpr std::size_t kFirstBytes = sizeof(T);

template <class T>
[[nodiscard]] Outcome check_size(const T* given, const char* name, std::size_t& size) {
  std::memcpy(&size, given, sizeof(size));
  if (size >= kFirstBytes<T> && size <= kMostStructBytes) return {};
  return invalid(std::string(name) + ": struct_size is " + std::to_string(size) + ", must be sizeof the struct (" +
                 std::to_string(sizeof(T)) + ")");
}

/// Options as the caller knows them into `known`; NULL: all defaults. What this version does not know must be zero.
template <class T>
[[nodiscard]] Outcome read_options(const T* given, const char* name, T& known) {
  std::memset(&known, 0, sizeof(T));
  if (given == nullptr) return {};
  std::size_t size = 0;
  if (Outcome o = check_size(given, name, size); !o.ok()) return o;
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0)
      return invalid(std::string(name) + ": sets an option that this version of Tidemark does not know");
  }
  std::memcpy(&known, given, size < sizeof(T) ? size : sizeof(T));
  return {};
}

/// Results into the caller's struct, as far as it knows them.
template <class T>
[[nodiscard]] Outcome write_result(T value, const char* name, T* given) {
  if (given == nullptr) return invalid(std::string(name) + " is NULL");
  std::size_t size = 0;
  if (Outcome o = check_size(given, name, size); !o.ok()) return o;
  auto* bytes = reinterpret_cast<unsigned char*>(given);
  if (size > sizeof(T)) std::memset(bytes + sizeof(T), 0, size - sizeof(T));
  value.struct_size = size;
  std::memcpy(given, &value, size < sizeof(T) ? size : sizeof(T));
  return {};
}

}  // namespace tidemark::c_api
