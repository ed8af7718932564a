#pragma once
// Which framework's configuration a file is.

#include <array>
#include <cstdint>
#include <string_view>

namespace tidemark::configs {

enum class ConfigKind : std::uint8_t { bridge, torchtitan, mindformers, other };
inline constexpr std::array<std::string_view, 4> kConfigKindWords = {"Megatron-Bridge", "torchtitan", "MindFormers",
                                                                     "other"};

/// By the file's name (.toml: torchtitan) and the names of its outermost keys; nothing is parsed. `other`: none of the
/// three, such as a model description of this project. Pure.
[[nodiscard]] ConfigKind kind_of(std::string_view text, std::string_view file_name);

}  // namespace tidemark::configs
