#pragma once
// Keys whose meaning is their framework's own, and the argument of Megatron-LM that decides the same memory.

#include <string_view>

namespace tidemark::configs {

/// `recompute-granularity` of `activation_checkpoint.mode`; empty: there is none.
[[nodiscard]] std::string_view argument_like(std::string_view path);

}  // namespace tidemark::configs
