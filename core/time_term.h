#pragma once
// What takes time in a way of its own, so that a step's seconds can be wrong by it: a model that was never held against
// a run that has one may be right about all others and wrong about that.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

enum class TimeTerm : std::uint8_t {
  experts,
  latent_attention,
  multi_token_prediction,
  tensor_parallel,
  sequence_parallel,
  pipeline,
  interleaved_pipeline,
  folded_pipeline,  ///< every rank is passed twice, forward beside backward (DualPipeV)
  context_parallel,
  expert_parallel,
  expert_tensor_parallel,
  data_parallel,
  fully_sharded,
  exchange_by_node,  ///< rows for experts go to a node once
  expert_overlap,    ///< exchange between experts beside compute
  head_apart,        ///< the main output head before the last stage
  fp8,
  whole_layers_recomputed,
  core_attention_recomputed,
  latent_projections_recomputed,
  dense_feed_forward_recomputed,
  moe_recomputed,
  shared_experts_recomputed,
  norms_recomputed,
  expert_activation_recomputed,
  activation_recomputed,  ///< MindSpeed's, of all layers
  operators_recomputed,   ///< single operators that no framework names as a module
  activations_on_host,
  state_on_host,
};
inline constexpr std::size_t kTimeTermCount = static_cast<std::size_t>(TimeTerm::state_on_host) + 1;

/// By TimeTerm: lower-case words with underscores, as the enumerators.
[[nodiscard]] std::string_view name_of(TimeTerm term);
/// Nothing: no term has that name.
[[nodiscard]] std::optional<TimeTerm> time_term_of(std::string_view name);

/// A set of them.
class TimeTerms {
 public:
  void add(TimeTerm term) { bits_ |= bit(term); }
  void add_if(bool holds, TimeTerm term) {
    if (holds) add(term);
  }
  [[nodiscard]] bool has(TimeTerm term) const { return (bits_ & bit(term)) != 0; }
  [[nodiscard]] bool empty() const { return bits_ == 0; }
  /// Those that are not in `others`.
  [[nodiscard]] TimeTerms without(const TimeTerms& others) const;
  /// In the order of TimeTerm.
  [[nodiscard]] std::vector<std::string_view> names() const;
  /// The same, with commas: `context_parallel, state_on_host`.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::uint64_t bits() const { return bits_; }
  friend bool operator==(const TimeTerms&, const TimeTerms&) = default;

 private:
  static constexpr std::uint64_t bit(TimeTerm term) { return std::uint64_t{1} << static_cast<unsigned>(term); }
  std::uint64_t bits_ = 0;
};

}  // namespace tidemark
