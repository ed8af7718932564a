#include "integrations/cli/console.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "integrations/cli/refusal.h"
#include "integrations/formats/shown.h"

namespace tidemark::cli {

Console::Console() : terminal_(::isatty(STDERR_FILENO) == 1) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool plain = no_color != nullptr && *no_color != '\0';
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(plain ? spdlog::color_mode::never
                                                                          : spdlog::color_mode::automatic);
  auto logger = std::make_shared<spdlog::logger>("tidemark", std::move(sink));
  logger->set_error_handler([](const std::string&) {});  // a log that cannot be written is not worth an error
  logger->set_pattern("%^tidemark%$: %v");
  spdlog::set_default_logger(std::move(logger));
}

void Console::set_quiet(bool quiet) {
  quiet_ = quiet;
  spdlog::set_level(quiet ? spdlog::level::off : spdlog::level::info);
}

Status Console::print(std::string_view text) const {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0)
    return bad_input(std::string("stdout: cannot write: ") + std::strerror(errno));
  return {};
}

void Console::note(std::string_view line) const {
  spdlog::info("{}", log_line(formats::printable(line)));
}

void complain(std::string_view text) noexcept {
  if (std::fwrite(text.data(), 1, text.size(), stderr) == text.size()) std::fflush(stderr);
}

}  // namespace tidemark::cli
