#include "integrations/cli/refusal.h"

#include <cstddef>
#include <nlohmann/json.hpp>

#include "integrations/ci/plain_words.h"
#include "integrations/formats/shown.h"

namespace tidemark::cli {
namespace {

std::string_view kind_word(ExitStatus status) {
  switch (status) {
    case ExitStatus::bad_input:
      return "bad_input";
    case ExitStatus::answer_is_no:
      return "infeasible";
    case ExitStatus::done:
    case ExitStatus::fault:
      break;
  }
  return "fault";
}

/// The same JSON without what a CI runner takes for a command anywhere in a line.
std::string without_older_commands(std::string json) {
  for (std::size_t at = json.find("##["); at != std::string::npos; at = json.find("##[", at))
    json.replace(at + 1, 1, "\\u0023");
  return json;
}

}  // namespace

ExitStatus status_of(const Error& error) {
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

std::string refusal_json(const Error& error) {
  using Json = nlohmann::ordered_json;
  const ExitStatus status = status_of(error);
  const Json json{{"verdict", "REFUSED"},
                  {"exit_status", static_cast<int>(status)},
                  {"kind", kind_word(status)},
                  {"message", one_line(error.message)}};
  return without_older_commands(json.dump(2)) + "\n";
}

bool asks_for_json(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--format=json") return true;
    if (arguments[i] == "--format" && i + 1 < arguments.size() && arguments[i + 1] == "json") return true;
  }
  return false;
}

std::string one_line(std::string_view message) {
  std::string line;
  for (const char c : message) line += c == '\n' || c == '\r' ? ' ' : c;
  return formats::printable(line);
}

std::string log_line(std::string_view message) {
  return ci::without_commands(one_line(message));
}

}  // namespace tidemark::cli
