#pragma once

namespace tidemark::cost {

inline constexpr double kNsPerSecond = 1e9;

}  // namespace tidemark::cost
