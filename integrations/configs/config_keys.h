#pragma once
// A configuration file as a list of keys: sections are joined with dots, so that a table can say what each key means.

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace tidemark::configs {

struct ConfigKey {
  std::string path;   ///< `model.num_layers`
  std::string value;  ///< of a list `[a,b]`; of a described object its name: `torch.bfloat16`, `flash`
  int line = 1;       ///< from 1
  bool is_list = false;
  bool is_unset = false;  ///< null, or nothing behind the colon
};

/// Limits beside those of the parsers: keys of a file, and bytes of all their paths and values together.
inline constexpr std::size_t kMostKeys = 10'000;
inline constexpr std::size_t kMostKeyBytes = std::size_t{4} << 20;

/// Text limits. A TOML file is parsed slower, and none in use has a tenth of that.
inline constexpr std::size_t kMostYamlBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMostTomlBytes = std::size_t{256} << 10;

/// Keys in the order of the text. A map with `_target_` beside `_call_`, `_args_`, `_name_` or `_partial_` is an object
/// that omegaconf's instantiate would make: one key. Errors (bad_input): `file:line: what, and what would be right`, of
/// what is no YAML, no mapping, or beyond a limit.
[[nodiscard]] Result<std::vector<ConfigKey>> yaml_keys(std::string_view text, std::string_view file_name);

/// Likewise of TOML, by line. Errors: those of the parser, of text that is not UTF-8, of nesting deeper than 32.
[[nodiscard]] Result<std::vector<ConfigKey>> toml_keys(std::string_view text, std::string_view file_name);

}  // namespace tidemark::configs
