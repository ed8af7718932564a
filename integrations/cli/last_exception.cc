#include "integrations/cli/last_exception.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

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

void tell(std::string_view kind, const char* what, Error (*error)(std::string)) noexcept {
  complain("tidemark: ");
  complain(kind);
  complain(what);
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

void tell_exception() noexcept {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
    status = ExitStatus::fault;
  } catch (const std::bad_alloc&) {
    return tell("", "not enough memory on this machine for this input, or a limit on memory is too low", bad_input);
  } catch (const std::exception& exception) {
    status = ExitStatus::fault;
    return tell_fault(exception.what());
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
