#include "integrations/cli/help_text.h"

#include <fmt/format.h>

namespace tidemark::cli {

std::string general_help() {
  std::string text =
      "Keep a training step below a device's high-water mark.\n\n"
      "Examples:\n"
      "  tidemark plan models/pangu-ultra-moe-718b.yaml --out plan.json --report plan.html\n"
      "  tidemark check models/small-mla-moe.yaml --budget 8GiB\n"
      "  tidemark plan --help\n\n"
      "Verbs:\n";
  for (const Verb& verb : verbs()) text += fmt::format("  {:<10} {}\n", verb.name, verb.summary);
  return text +
         "\n"
         "Results go to stdout, logs and progress to stderr (NO_COLOR is respected). Sizes have a unit: 60.97GiB, "
         "64GB,\n"
         "512MiB, 4096B. Times are modelled unless they say simulated or measured.\n\n"
         "Exit status: 0 done; 1 the answer is no; 2 bad usage or input; 3 a fault in Tidemark.\n";
}

std::string verb_help(const Verb& verb, const CLI::App& app) {
  return fmt::format("{}.\n\nExamples:\n{}{}\nExit status:\n{}", verb.summary, verb.examples, app.help(),
                     verb.statuses);
}

}  // namespace tidemark::cli
