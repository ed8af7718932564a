#include "planner/cost/attention_time.h"

namespace tidemark::cost {
namespace {

/// FlashAttention-2 beside cuDNN or FlashAttention-3 on Hopper. A default of the model, set on the development rows and
/// not fitted: the 350 and 640 TFLOP/s of arXiv 2407.08608 would give 0.55.
constexpr double kFlash2OnHopper = 0.45;
/// Five products for the forward's two, each of them slower. The factor is a default of the model, not fitted.
constexpr double kBackwardFlops = 2.5, kBackwardSlower = 1.15;
/// Tokens of the blocks on the diagonal, which are computed whole.
constexpr double kDiagonal = 256;

/// Share of what heads of 128 reach: the softmax costs a score the same, however narrow the head. The width at which it
/// costs as much as the products (32) is a default of the model, not fitted.
double width_rate(double qk_dim, double v_dim) {
  constexpr double kSoftmaxWidth = 32, kReferenceWidth = 128;
  const double width = (qk_dim + v_dim) / 2;
  return width / (width + kSoftmaxWidth) * (kReferenceWidth + kSoftmaxWidth) / kReferenceWidth;
}

double flops(const Attention& a) {
  const double whole = 2 * a.tokens * a.length * a.heads * (a.qk_dim + a.v_dim);
  return a.is_causal ? whole / 2 * (1 + kDiagonal / a.length) : whole;
}

}  // namespace

AttentionPasses attention_passes(const Attention& attention, const Chip& device) {
  double rate = device.sheet.peak(Precision::bf16) * device.rates.attention;
  rate *= width_rate(attention.qk_dim, attention.v_dim);
  if (attention.is_flash_2 && device.sheet.is_hopper_or_later) rate *= kFlash2OnHopper;
  const double forward_s = flops(attention) / rate;
  return {.forward_s = forward_s, .backward_s = kBackwardFlops * kBackwardSlower * forward_s};
}

}  // namespace tidemark::cost
