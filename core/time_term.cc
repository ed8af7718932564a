#include "core/time_term.h"

#include <algorithm>

namespace tidemark {
namespace {

constexpr std::array<std::string_view, kTimeTermCount> kNames = {"experts",
                                                                 "latent_attention",
                                                                 "multi_token_prediction",
                                                                 "tensor_parallel",
                                                                 "sequence_parallel",
                                                                 "pipeline",
                                                                 "interleaved_pipeline",
                                                                 "folded_pipeline",
                                                                 "context_parallel",
                                                                 "expert_parallel",
                                                                 "expert_tensor_parallel",
                                                                 "data_parallel",
                                                                 "fully_sharded",
                                                                 "exchange_by_node",
                                                                 "expert_overlap",
                                                                 "head_apart",
                                                                 "fp8",
                                                                 "whole_layers_recomputed",
                                                                 "core_attention_recomputed",
                                                                 "latent_projections_recomputed",
                                                                 "dense_feed_forward_recomputed",
                                                                 "moe_recomputed",
                                                                 "shared_experts_recomputed",
                                                                 "norms_recomputed",
                                                                 "expert_activation_recomputed",
                                                                 "activation_recomputed",
                                                                 "operators_recomputed",
                                                                 "activations_on_host",
                                                                 "state_on_host"};
static_assert(kNames.back() == "state_on_host");

}  // namespace

std::string_view name_of(TimeTerm term) {
  return kNames[static_cast<std::size_t>(term)];
}

std::optional<TimeTerm> time_term_of(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<TimeTerm>(found - kNames.begin());
}

TimeTerms TimeTerms::without(const TimeTerms& others) const {
  TimeTerms rest;
  rest.bits_ = bits_ & ~others.bits_;
  return rest;
}

std::vector<std::string_view> TimeTerms::names() const {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kTimeTermCount; ++i)
    if (has(static_cast<TimeTerm>(i))) names.push_back(kNames[i]);
  return names;
}

std::string TimeTerms::text() const {
  std::string text;
  for (const std::string_view name : names()) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

}  // namespace tidemark
