#pragma once
// What the readers of /sys and /proc share (host_topology.cc, process_places.cc): a small file as text, its lines and
// words. Threads: any.

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace tidemark {

/// A list of 8192 CPUs one by one is shorter, and nothing else that is read here is as long.
inline constexpr std::size_t kMostFileBytes = 64 * 1024;

/// What a file holds; nothing where there is none.
inline std::optional<std::string> small_file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kMostFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return text;
}

inline std::string_view first_line_of(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

/// Line by line with their numbers, from 1 on, while `body` answers true.
template <class Body>
void each_line_of(std::string_view text, Body body) {
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (!body(text.substr(0, end), number) || end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

inline std::string_view next_word(std::string_view& rest) {
  const std::size_t first = std::min(rest.find_first_not_of(" \t"), rest.size());
  rest.remove_prefix(first);
  const std::size_t end = std::min(rest.find_first_of(" \t"), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

template <class Number>
bool reads_as_number(std::string_view text, Number& number, int base = 10) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return !text.empty() && error == std::errc{} && stop == text.data() + text.size();
}

}  // namespace tidemark
