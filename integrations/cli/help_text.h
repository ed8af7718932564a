#pragma once
// Help, examples first.

#include <CLI/CLI.hpp>
#include <string>

#include "integrations/cli/verb.h"

namespace tidemark::cli {

/// Every verb with its summary, and what holds for all of them.
[[nodiscard]] std::string general_help();

/// Summary, examples, options and exit statuses of a verb whose options `app` has.
[[nodiscard]] std::string verb_help(const Verb& verb, const CLI::App& app);

}  // namespace tidemark::cli
