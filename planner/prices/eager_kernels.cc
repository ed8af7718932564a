#include "planner/prices/eager_kernels.h"

#include <array>

namespace tidemark::prices {
namespace {

// x is of 16 bits, x32 and g32 of 32, d the gradient that comes in.

// weight * (x32 * rsqrt(x32.pow(2).mean(-1) + eps)).to(bf16), x32 = x.float()
constexpr std::array kNormForward = {EagerKernel{"x32 = x.float()", 2, 4}, EagerKernel{"x32.pow(2)", 4, 4},
                                     EagerKernel{"mean(-1)", 4, 0},        EagerKernel{"+ eps", 0, 0},
                                     EagerKernel{"r = rsqrt", 0, 0},       EagerKernel{"x32 * r", 4, 4},
                                     EagerKernel{"y = to(bf16)", 4, 2},    EagerKernel{"weight * y", 2, 2}};
constexpr std::array kNormBackward = {EagerKernel{"d * weight", 2, 2},
                                      EagerKernel{"d * y", 4, 2},
                                      EagerKernel{"sum over rows", 2, 0},
                                      EagerKernel{"g32 = float()", 2, 4},
                                      EagerKernel{"g32 * r", 4, 4},
                                      EagerKernel{"g32 * x32", 8, 4},
                                      EagerKernel{"sum(-1)", 4, 0},
                                      EagerKernel{"r.pow(3)", 0, 0},
                                      EagerKernel{"* gradient", 0, 0},
                                      EagerKernel{"* -0.5", 0, 0},
                                      EagerKernel{"expand / n", 0, 4},
                                      EagerKernel{"x32.pow(1)", 4, 4},
                                      EagerKernel{"* 2", 4, 4},
                                      EagerKernel{"* gradient of the power", 8, 4},
                                      EagerKernel{"sum of both gradients", 8, 4},
                                      EagerKernel{"to(bf16)", 4, 2}};

// silu(a) * b, (a, b) = chunk(x, 2): views
constexpr std::array kSwigluForward = {EagerKernel{"s = silu(a)", 2, 2}, EagerKernel{"s * b", 4, 2}};
constexpr std::array kSwigluBackward = {EagerKernel{"d * b", 4, 2}, EagerKernel{"d * s", 4, 2},
                                        EagerKernel{"silu_backward", 4, 2}, EagerKernel{"cat of both halves", 4, 4}};

// x * cos + cat(-x2, x1) * sin, (x1, x2) = chunk(x, 2): views; cos and sin serve all heads
constexpr std::array kRotaryForward = {EagerKernel{"x * cos", 2, 2}, EagerKernel{"-x2", 1, 1}, EagerKernel{"cat", 2, 2},
                                       EagerKernel{"* sin", 2, 2}, EagerKernel{"+", 4, 2}};
constexpr std::array kRotaryBackward = {EagerKernel{"d * cos", 2, 2}, EagerKernel{"d * sin", 2, 2},
                                        EagerKernel{"-(first half)", 1, 1}, EagerKernel{"cat of both halves", 2, 2},
                                        EagerKernel{"sum of both gradients", 4, 2}};

// tokens.index_select(0, argsort(experts) // top_k)
constexpr std::array kPermuteForward = {EagerKernel{"argsort", 0, 0}, EagerKernel{"// top_k", 0, 0},
                                        EagerKernel{"index_select", 2, 2}};
// The zeroed tokens are as many bytes as the fused kernel's sums.
constexpr std::array kPermuteBackward = {EagerKernel{"zeros", 0, 0}, EagerKernel{"index_add_", 4, 2}};

// (zeros.index_copy_(0, order, rows).view(tokens, top_k, h) * p).sum(1)
constexpr std::array kUnpermuteForward = {EagerKernel{"zeros", 0, 2}, EagerKernel{"index_copy_", 2, 2},
                                          EagerKernel{"* p", 2, 2}, EagerKernel{"sum(1)", 2, 0}};
constexpr std::array kUnpermuteBackward = {EagerKernel{"d * p", 0, 2}, EagerKernel{"d * rows", 2, 2},
                                           EagerKernel{"sum(-1)", 2, 0}, EagerKernel{"index_select", 2, 2}};
constexpr std::array kPlainSumForward = {EagerKernel{"zeros", 0, 2}, EagerKernel{"index_copy_", 2, 2},
                                         EagerKernel{"sum(1)", 2, 0}};
constexpr std::array kPlainSumBackward = {EagerKernel{"expand and copy", 0, 2}, EagerKernel{"index_select", 2, 2}};

}  // namespace

double EagerPass::bytes() const {
  double sum = 0;
  for (const EagerKernel& kernel : kernels) sum += kernel.read_bytes + kernel.write_bytes;
  return sum;
}

EagerOperator eager_operator(Operator op, bool scales_rows) {
  switch (op) {
    case Operator::rms_norm:
      // x32 and y are kept in the place of x.
      return {.forward = {.kernels = kNormForward, .fused_bytes = 4},
              .backward = {.kernels = kNormBackward, .fused_bytes = 6},
              .more_saved_bytes = 4};
    case Operator::swiglu:
      // s is kept beside a and b.
      return {.forward = {.kernels = kSwigluForward, .fused_bytes = 6},
              .backward = {.kernels = kSwigluBackward, .fused_bytes = 10},
              .more_saved_bytes = 2};
    case Operator::rotary:
      return {.forward = {.kernels = kRotaryForward, .fused_bytes = 4},
              .backward = {.kernels = kRotaryBackward, .fused_bytes = 4}};
    case Operator::permute:
      return {.forward = {.kernels = kPermuteForward, .fused_bytes = 4},
              .backward = {.kernels = kPermuteBackward, .fused_bytes = 2}};
    case Operator::unpermute:
      break;
  }
  if (!scales_rows)
    return {.forward = {.kernels = kPlainSumForward, .fused_bytes = 2},
            .backward = {.kernels = kPlainSumBackward, .fused_bytes = 2}};
  return {.forward = {.kernels = kUnpermuteForward, .fused_bytes = 2},
          .backward = {.kernels = kUnpermuteBackward, .fused_bytes = 4}};
}

}  // namespace tidemark::prices
