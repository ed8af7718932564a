// The command line: finds the verb, parses its options, runs it, and turns every failure into one line and a status.

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "integrations/cli/console.h"
#include "integrations/cli/help_text.h"
#include "integrations/cli/last_exception.h"
#include "integrations/cli/options.h"
#include "integrations/cli/refusal.h"
#include "integrations/cli/verb.h"
#include "integrations/cli/version.h"
#include "integrations/formats/file.h"
#include "integrations/formats/shown.h"

namespace tidemark::cli {
namespace {

/// A stream that the caller closed must not become the first file that is opened. Reads and writes still fail.
void occupy_closed_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // takes the lowest free number, this one
}

/// What the plan of one rank gives back the next one takes: the heap keeps it, or the system would clear every page
/// anew (an eighth of the time of a check of the 718B job). Not where the address space is limited.
void keep_freed_memory() {
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur != RLIM_INFINITY) return;
  constexpr int kMiB = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);  // the most that glibc takes
  mallopt(M_TRIM_THRESHOLD, 1024 * kMiB);
  mallopt(M_TOP_PAD, 64 * kMiB);
}

/// How a run was asked for, as far as failures care.
struct Asked {
  const Console& console;
  bool json = false;
};

/// One line to stderr, and where JSON was asked for an object to stdout. A stdout that cannot be written has no say:
/// the status tells.
ExitStatus report(std::string_view where, const Error& error, const Asked& asked) {
  complain(log_line(fmt::format("{}{}", where, error.message)) + "\n");
  if (asked.json) (void)asked.console.print(refusal_json(error)).ok();
  return status_of(error);
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return !o->get_group().empty(); }))
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

Error empty_value(const CLI::Option& option) {
  return bad_input(fmt::format("{}: the value is empty; give {}, or leave it out",
                               option.get_name(option.get_positional()), option.get_type_name()));
}

/// `--name=`, for which the parser would take the next argument.
Status refuse_bare_equals(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    if (!argument.starts_with("--") || argument.find('=') != argument.size() - 1) continue;
    const CLI::Option* option = app.get_option_no_throw(argument.substr(0, argument.size() - 1));
    if (option != nullptr && option->get_items_expected_max() > 0) return empty_value(*option);
  }
  return {};
}

/// No value that any option takes is empty, and one that a variable of a script left empty must not count as not given.
Status refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    if (option->get_items_expected_max() > 0 && std::ranges::any_of(option->results(), &std::string::empty))
      return empty_value(*option);
  return {};
}

/// What is wrong with the arguments, or nothing.
Status parse(CLI::App& app, std::vector<std::string> arguments) {
  if (Status status = refuse_bare_equals(app, arguments); !status) return status;
  std::reverse(arguments.begin(), arguments.end());  // the parser takes them from the back
  std::string complaint;
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    throw;
  } catch (const CLI::ArgumentMismatch& error) {
    // "--name: 1 required TYPE missing" or "--name: At most 1 required but received 2"
    const std::string text = error.what(), name = text.substr(0, text.find(':'));
    const CLI::Option* option = app.get_option_no_throw(name);
    if (option == nullptr)
      complaint = text;
    else if (option->count() > 1)
      complaint = fmt::format("{}: is given twice", name);
    else
      complaint = fmt::format("{}: needs a value, {}", name, option->get_type_name());
  } catch (const CLI::ParseError& error) {
    complaint = error.what();
  }
  // An unknown option explains what follows from it, such as a missing positional.
  const std::vector<std::string> extra = app.remaining();
  if (!extra.empty()) {
    const std::string word = extra.front().substr(0, extra.front().find('='));
    if (word.starts_with('-'))
      return bad_input(fmt::format("unknown option {}{}", formats::shown(word), hint_for(word, option_names(app))));
    return bad_input(fmt::format("unexpected argument {}", formats::shown(word)));
  }
  if (!complaint.empty()) return bad_input(complaint);
  return refuse_empty_values(app);
}

ExitStatus run_verb(const Verb& verb, const std::vector<std::string>& arguments, Console& console) {
  const Asked asked{.console = console, .json = asks_for_json(arguments)};
  const std::string where = fmt::format("tidemark {}: ", verb.name);
  const std::unique_ptr<Command> command = verb.make();
  CLI::App app("", std::string("tidemark ") + std::string(verb.name));
  app.allow_extras();
  command->declare(app);
  bool quiet = false;
  add_common_options(app, quiet);
  try {
    if (Status status = parse(app, arguments); !status) return report(where, status.error(), asked);
  } catch (const CLI::CallForHelp&) {
    const Status status = console.print(verb_help(verb, app));
    return status ? ExitStatus::done : report(where, status.error(), asked);
  }
  console.set_quiet(quiet);
  const Result<ExitStatus> status = command->run(console);
  if (status) return status.value();
  // A message about a file starts with its name, for editors to find; one about an option or a fault with the verb.
  const Error& error = status.error();
  const bool about_file = error.code == Error::Code::bad_input && !error.message.starts_with("--");
  return report(about_file ? "" : where, error, asked);
}

ExitStatus run(std::vector<std::string> arguments) {
  constexpr std::string_view kWhere = "tidemark: ";
  Console console;
  const Asked asked{.console = console, .json = asks_for_json(arguments)};
  if (arguments.empty()) return report(kWhere, bad_input("no verb is given; see 'tidemark --help'"), asked);
  std::string first = arguments.front();
  arguments.erase(arguments.begin());
  if (first == "help" && !arguments.empty()) {
    first = arguments.front();
    arguments = {"--help"};
  }
  const bool help = first == "--help" || first == "-h" || first == "help";
  if (help || first == "--version") {
    const Status status = console.print(help ? general_help() : version_text());
    return status ? ExitStatus::done : report(kWhere, status.error(), asked);
  }
  if (const Verb* verb = find_verb(first)) return run_verb(*verb, arguments, console);
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) names.emplace_back(verb.name);
  const bool option = first.starts_with('-');
  return report(kWhere,
                bad_input(fmt::format("unknown {} {}{}; see 'tidemark --help'", option ? "option" : "verb",
                                      formats::shown(first), hint_for(first, names))),
                asked);
}

}  // namespace
}  // namespace tidemark::cli

int main(int argc, char** argv) {
  namespace cli = tidemark::cli;
  cli::occupy_closed_streams();
  cli::keep_freed_memory();
  tidemark::formats::remove_temporaries_on_signals();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  cli::expect_last_exception(cli::asks_for_json(arguments));
  try {
    return static_cast<int>(cli::run(arguments));
  } catch (...) {
    cli::end_on_exception();
  }
}
