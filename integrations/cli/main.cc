// The command line: finds the verb, parses its options, runs it, and turns every failure into one line and a status.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "integrations/cli/console.h"
#include "integrations/cli/help_text.h"
#include "integrations/cli/options.h"
#include "integrations/cli/verb.h"
#include "integrations/cli/version.h"
#include "integrations/formats/file.h"
#include "integrations/formats/shown.h"

namespace tidemark::cli {
namespace {

/// To stderr if it can be written; if not, the exit status has to do.
void complain(std::string_view text) noexcept {
  if (std::fwrite(text.data(), 1, text.size(), stderr) == text.size()) std::fflush(stderr);
}

/// A stream that the caller closed must not become the first file that is opened. Reads and writes still fail.
void occupy_closed_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // takes the lowest free number, this one
}

/// One line to stderr, whatever the message holds.
ExitStatus report(std::string_view where, const Error& error) {
  std::string line;
  for (const char c : error.message) line += c == '\n' || c == '\r' ? ' ' : c;
  complain(fmt::format("{}{}\n", where, line));
  switch (error.code) {
    case Error::Code::bad_input:
      return ExitStatus::bad_input;
    case Error::Code::infeasible:
      return ExitStatus::answer_is_no;
    case Error::Code::internal:
      break;
  }
  return ExitStatus::fault;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// What is wrong with the arguments, or nothing.
Status parse(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // the parser takes them from the back
  std::string complaint;
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    throw;
  } catch (const CLI::ParseError& error) {
    complaint = error.what();
  }
  // An unknown option explains what follows from it, such as a missing positional.
  const std::vector<std::string> extra = app.remaining();
  if (!extra.empty()) {
    const std::string word = extra.front().substr(0, extra.front().find('='));
    if (word.starts_with('-'))
      return bad_input(fmt::format("unknown option {}{}", shown(word), hint_for(word, option_names(app))));
    return bad_input(fmt::format("unexpected argument {}", shown(word)));
  }
  if (!complaint.empty()) return bad_input(complaint);
  return {};
}

ExitStatus run_verb(const Verb& verb, const std::vector<std::string>& arguments, Console& console) {
  const std::string where = fmt::format("tidemark {}: ", verb.name);
  const std::unique_ptr<Command> command = verb.make();
  CLI::App app("", std::string("tidemark ") + std::string(verb.name));
  app.allow_extras();
  app.set_help_flag("-h,--help", "print this help");
  command->declare(app);
  try {
    if (Status status = parse(app, arguments); !status) return report(where, status.error());
  } catch (const CLI::CallForHelp&) {
    const Status status = console.print(verb_help(verb, app));
    return status ? ExitStatus::done : report(where, status.error());
  }
  const Result<ExitStatus> status = command->run(console);
  if (status) return status.value();
  // A message about a file starts with its name, for editors to find; one about an option or a fault with the verb.
  const Error& error = status.error();
  const bool about_file = error.code == Error::Code::bad_input && !error.message.starts_with("--");
  return report(about_file ? "" : where, error);
}

ExitStatus run(std::vector<std::string> arguments) {
  constexpr std::string_view kWhere = "tidemark: ";
  if (arguments.empty()) return report(kWhere, bad_input("no verb is given; see 'tidemark --help'"));
  std::string first = arguments.front();
  arguments.erase(arguments.begin());
  if (first == "help" && !arguments.empty()) {
    first = arguments.front();
    arguments = {"--help"};
  }
  Console console;
  const bool help = first == "--help" || first == "-h" || first == "help";
  if (help || first == "--version") {
    const Status status = console.print(help ? general_help() : version_text());
    return status ? ExitStatus::done : report(kWhere, status.error());
  }
  if (const Verb* verb = find_verb(first)) return run_verb(*verb, arguments, console);
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) names.emplace_back(verb.name);
  const bool option = first.starts_with('-');
  return report(kWhere, bad_input(fmt::format("unknown {} {}{}; see 'tidemark --help'", option ? "option" : "verb",
                                              shown(first), hint_for(first, names))));
}

}  // namespace
}  // namespace tidemark::cli

int main(int argc, char** argv) {
  using tidemark::cli::ExitStatus;
  ExitStatus status = ExitStatus::fault;
  tidemark::cli::occupy_closed_streams();
  tidemark::remove_temporaries_on_signals();
  try {
    status = tidemark::cli::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    tidemark::cli::complain("tidemark: fault: ");
    tidemark::cli::complain(error.what());
    tidemark::cli::complain("\n");
  } catch (...) {
    tidemark::cli::complain("tidemark: fault of unknown kind\n");
  }
  return static_cast<int>(status);
}
