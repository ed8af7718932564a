#pragma once
// Rates and times as text: a number with its unit. Sizes are core/bytes.h's.

#include <string>
#include <string_view>

#include "core/result.h"

namespace tidemark::formats {

/// `23.4GB/s`, `1.6TB/s`, `22GiB/s`: bytes per second.
[[nodiscard]] Result<double> parse_bytes_per_s(std::string_view text);

/// `10us`, `0.5ms`, `200ns`, `1s`: nanoseconds.
[[nodiscard]] Result<double> parse_duration_ns(std::string_view text);

/// `313TFLOPS`, `0.99PFLOPS`: floating-point operations per second.
[[nodiscard]] Result<double> parse_flops_per_s(std::string_view text);

/// `718B`, `39.5B`, `1T`, `350M`: parameters of a model.
[[nodiscard]] Result<double> parse_parameters(std::string_view text);

}  // namespace tidemark::formats
