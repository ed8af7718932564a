#pragma once
// Shapes of the models that torchtitan names by `model.name` and `model.flavor`. A configuration names them; the sizes
// are in its code: torchtitan/models/{llama3,qwen3,deepseek_v3}/__init__.py (2025 to 2026).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::configs {

struct TitanFlavor {
  std::string_view model;
  std::string_view flavor;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t groups = 0;    ///< heads of keys and values; 0: multi-latent attention
  std::int64_t head_dim = 0;  ///< 0: hidden / heads
  std::int64_t ffn = 0;       ///< of dense layers
  std::int64_t vocabulary = 0;
  bool qk_norm = false;
  bool tied = false;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t expert_width = 0;
  std::int64_t shared_width = 0;
  std::int64_t dense_layers = 0;  ///< the first of them
  std::int64_t q_lora_rank = 0;
  std::int64_t kv_lora_rank = 0;  ///< heads of queries, keys and values: 128 + 64 rotary, 128
};

/// Of `8B_flex` and `8B_varlen` that of `8B`: another attention kernel. nullptr: not known.
[[nodiscard]] const TitanFlavor* find_flavor(std::string_view model, std::string_view flavor);

/// Flavors of a model in the table's order; of an unknown model none.
[[nodiscard]] std::vector<std::string> flavors_of(std::string_view model);
[[nodiscard]] std::vector<std::string> titan_models();

}  // namespace tidemark::configs
