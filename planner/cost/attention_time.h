#pragma once
// Seconds of fused attention kernels, which never write their scores. Modelled; the share of the peak is fitted.

#include "core/chip.h"

namespace tidemark::cost {

/// Of one device and micro-batch.
struct Attention {
  double tokens = 0;  ///< of queries
  double length = 0;  ///< keys that a query could attend to: sequence, document, or the window twice; > 0
  double heads = 0;
  double qk_dim = 0, v_dim = 0;
  bool is_causal = true;    ///< half of the scores are computed, and the blocks on the diagonal whole
  bool is_flash_2 = false;  ///< FlashAttention-2
};

struct AttentionPasses {
  double forward_s = 0, backward_s = 0;
};

/// Always at the bf16 peak: recipes in fp8 keep attention in bf16.
[[nodiscard]] AttentionPasses attention_passes(const Attention& attention, const Chip& device);

}  // namespace tidemark::cost
