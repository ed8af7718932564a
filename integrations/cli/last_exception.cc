#include "integrations/cli/last_exception.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "integrations/cli/console.h"
#include "integrations/cli/refusal.h"
#include "integrations/cli/verb.h"
#include "integrations/formats/file.h"

namespace tidemark::cli {
namespace {

/// For the words about memory that is short.
constexpr std::size_t kReserveBytes = 64 << 10;

// None of these has a destructor: static objects may be gone when they are read.
std::atomic<char*> reserve{nullptr};
std::atomic<bool> asked_for_json{false};
/// Of the first exception. Until that could be looked at there is not even enough memory to look.
std::atomic<ExitStatus> status{ExitStatus::bad_input};

/// The word about how the run ends, which one thread has. Returns only there, and only once.
void take_word() noexcept {
  static std::atomic<bool> taken{false};
  static thread_local bool here = false;
  if (here) std::_Exit(static_cast<int>(status.load()));  // while it was telling, or after
  here = true;
  while (taken.exchange(true)) ::pause();
}

/// What an exception says on one line, which a CI runner takes for no command (ci::without_commands): without memory.
void complain_on_one_line(std::string_view what) noexcept {
  std::size_t hashes = 0;
  for (const char& c : what) {
    if (c == '[' && hashes >= 2) complain("\\");
    hashes = c == '#' ? hashes + 1 : 0;
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    complain(is_control ? std::string_view("?") : std::string_view(&c, 1));
  }
}

void tell(std::string_view kind, const char* what, Error (*error)(std::string)) noexcept {
  complain("tidemark: ");
  complain(kind);
  complain_on_one_line(what);
  complain("\n");
  if (!asked_for_json) return;
  try {
    const std::string json = refusal_json(error(what));
    if (std::fwrite(json.data(), 1, json.size(), stdout) == json.size()) std::fflush(stdout);
  } catch (...) {  // the line and the status have to do
  }
}

void tell_fault(const char* what) noexcept {
  tell("fault: ", what, internal_fault);
}

void tell_short_memory() noexcept {
  tell("", "not enough memory on this machine for this input, or a limit on memory is too low", bad_input);
}

/// No thread could be started, for want of memory for its stack or of threads. oneTBB throws what pthread_create said
/// as a text.
bool is_short_of_threads(const std::exception& exception) noexcept {
  if (const auto* error = dynamic_cast<const std::system_error*>(&exception))
    return error->code() == std::errc::resource_unavailable_try_again || error->code() == std::errc::not_enough_memory;
  const std::string_view what = exception.what();
  return what.find("pthread_create") != std::string_view::npos || what.find("pthread_attr") != std::string_view::npos;
}

void tell_exception() noexcept {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
    status = ExitStatus::fault;
  } catch (const std::bad_alloc&) {
    return tell_short_memory();
  } catch (const std::length_error&) {  // more than any memory holds
    return tell_short_memory();
  } catch (const std::exception& exception) {
    status = ExitStatus::fault;  // what() may be the next to fail
    if (!is_short_of_threads(exception)) return tell_fault(exception.what());
    status = ExitStatus::bad_input;
    return tell("", "no thread can be started; raise the limit on memory or on threads, or give --threads 1",
                bad_input);
  } catch (...) {
    status = ExitStatus::fault;
  }
  tell_fault("of unknown kind");
}

}  // namespace

void expect_last_exception(bool json) {
  asked_for_json = json;
  delete[] reserve.exchange(new char[kReserveBytes]);
  std::set_terminate(end_on_exception);
}

void end_on_exception() noexcept {
  take_word();
  delete[] reserve.exchange(nullptr);
  formats::remove_temporaries();
  tell_exception();
  std::_Exit(static_cast<int>(status.load()));
}

}  // namespace tidemark::cli
