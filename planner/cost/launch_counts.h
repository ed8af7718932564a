#pragma once
// Kernels that Megatron-Core's host launches for one micro-batch and rank: defaults of the model of measured rows
// (planner/step_time), where a software source's own count stands beside them, and of the graphs of plans.

namespace tidemark::cost {

inline constexpr double kLayerLaunches = 14;       ///< of a dense layer, forward
inline constexpr double kAttentionLaunches = 2;    ///< of them fused attention's
inline constexpr double kFeedForwardLaunches = 6;  ///< and the feed-forward's: two products and what stands around them
/// Of a MoE layer, in place of the feed-forward's: router, permutation and experts, forward.
inline constexpr double kMoeLaunches = 110;
inline constexpr double kActivationLaunches = 2;
inline constexpr double kMlaLaunches = 16;                                 ///< more for latent attention, forward
inline constexpr double kHeadLaunches = 14;                                ///< of head and loss, each pass
inline constexpr double kLookupLaunches = 6, kLookupBackwardLaunches = 4;  ///< of the embedding
/// Of a layer's forward: two products for one, fewer of all else.
inline constexpr double kBackwardLaunches = 1.6;

}  // namespace tidemark::cost
