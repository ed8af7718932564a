#pragma once
// Shell completion, written from what the program itself knows: the verb table and the options that each verb declares.
// A verb or an option that is added completes without a word here.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/cli/verb.h"

namespace tidemark::cli {

/// What may stand on the command line of one verb.
struct CompletedOption {
  std::vector<std::string> names;  ///< `--quiet`, `-q`; of a positional none
  std::string type;                ///< `FILE`; empty: a flag
  std::string help;
  std::vector<std::string> words;  ///< values it takes; empty: any
  std::string listed;              ///< `devices`: names that `tidemark list` gives when completed; empty: none
  bool takes_file = false;
  bool is_repeatable = false;
};
struct CompletedVerb {
  std::string name, summary;
  std::vector<CompletedOption> options;
  std::vector<CompletedOption> positionals;  ///< in their order
};

/// Every verb with its options; those that --help does not show are left out.
[[nodiscard]] std::vector<CompletedVerb> completed_verbs(std::span<const Verb> verbs);

inline constexpr std::string_view kShells[] = {"bash", "zsh"};

/// A script to be sourced, or to be put where the shell loads completions from.
[[nodiscard]] std::string bash_completion(const std::vector<CompletedVerb>& verbs);
[[nodiscard]] std::string zsh_completion(const std::vector<CompletedVerb>& verbs);

}  // namespace tidemark::cli
