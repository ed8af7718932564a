#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "integrations/cli/completion_script.h"
#include "integrations/cli/console.h"
#include "integrations/cli/options.h"
#include "integrations/cli/verb.h"

namespace tidemark::cli {
namespace {

class CompletionCommand final : public Command {
 public:
  void declare(CLI::App& app) override {
    const std::vector<std::string> shells(std::begin(kShells), std::end(kShells));
    add_word(app, "SHELL", shell_, "shell", shells, "whose completion is wanted: " + join_words(shells));
    app.get_option("SHELL")->required();
  }

  Result<ExitStatus> run(Console& console) override {
    const std::vector<CompletedVerb> known = completed_verbs(verbs());
    const Status status = console.print(shell_ == "bash" ? bash_completion(known) : zsh_completion(known));
    if (!status) return status.error();
    return ExitStatus::done;
  }

 private:
  std::string shell_;
};

}  // namespace

extern const Verb kCmdCompletion;
const Verb kCmdCompletion = {.name = "completion",
                             .summary = "Print the completion script of a shell",
                             .examples =
                                 "  source <(tidemark completion bash)\n"
                                 "  tidemark completion zsh > ~/.zfunc/_tidemark\n",
                             .statuses =
                                 "  0  printed\n"
                                 "  2  bad usage; one line on stderr\n"
                                 "  3  a fault in Tidemark\n",
                             .make = make_command<CompletionCommand>};

}  // namespace tidemark::cli
