#pragma once
// What plain tensor operations launch, read and write in the place of one fused kernel: counted, not fitted. Each list
// is the plain PyTorch expression of the operator and of what autograd runs for it, one kernel an operation, by the
// formulas of PyTorch's derivatives.yaml. Per element of 16 bits; factors of a row (a mean, an index) count as launches
// and no bytes. docs/design/switch_prices.md has the expressions.

#include <cstdint>
#include <span>
#include <string_view>

namespace tidemark::prices {

enum class Operator : std::uint8_t { rms_norm, swiglu, rotary, permute, unpermute };
inline constexpr std::size_t kOperatorCount = 5;

struct EagerKernel {
  std::string_view expression;
  double read_bytes = 0, write_bytes = 0;  ///< per element
};

/// One way through an operator.
struct EagerPass {
  std::span<const EagerKernel> kernels;
  double fused_bytes = 0;     ///< what the one fused kernel reads and writes per element
  double fused_launches = 1;  ///< it takes
  [[nodiscard]] double launches() const { return static_cast<double>(kernels.size()); }
  [[nodiscard]] double bytes() const;
  [[nodiscard]] double more_bytes() const { return bytes() - fused_bytes; }
  [[nodiscard]] double more_launches() const { return launches() - fused_launches; }
};

struct EagerOperator {
  EagerPass forward, backward;
  double more_saved_bytes = 0;  ///< per element: autograd keeps for backward beyond what the fused kernel does
};

/// `scales_rows`: unpermute multiplies rows by the router's probabilities.
[[nodiscard]] EagerOperator eager_operator(Operator op, bool scales_rows);

}  // namespace tidemark::prices
