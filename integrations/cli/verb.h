#pragma once
// The seam between main and the verbs: a verb is one file cmd_<name>.cc that defines `extern const Verb kCmd<Name>`,
// and one line in the list of CMakeLists.txt. A command reads its options, calls public functions of the other folders,
// and prints; it holds no algorithm.

#include <memory>
#include <span>
#include <string_view>

#include "core/result.h"

namespace CLI {
class App;
}

namespace tidemark::cli {

class Console;

/// What the process ends with. The same in every output format.
enum class ExitStatus : int {
  done = 0,
  answer_is_no = 1,  ///< over budget, infeasible, verification failed
  bad_input = 2,     ///< usage or input is wrong
  fault = 3,         ///< a fault in Tidemark
};

class Command {
 public:
  Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  virtual ~Command() = default;

  /// Names options and positionals; their values live in the command.
  virtual void declare(CLI::App& app) = 0;
  /// Runs after a successful parse. Files go through OutputSet, which writes them and stdout together.
  [[nodiscard]] virtual Result<ExitStatus> run(Console& console) = 0;
};

struct Verb {
  std::string_view name;
  std::string_view summary;   ///< one line
  std::string_view examples;  ///< lines, indented by two blanks
  std::string_view statuses;  ///< lines, indented by two blanks
  std::unique_ptr<Command> (*make)();
};

template <class T>
std::unique_ptr<Command> make_command() {
  return std::make_unique<T>();
}

/// Every verb, in the order of integrations/cli/CMakeLists.txt.
[[nodiscard]] std::span<const Verb> verbs();

/// nullptr: no verb of that name.
[[nodiscard]] const Verb* find_verb(std::string_view name);

}  // namespace tidemark::cli
