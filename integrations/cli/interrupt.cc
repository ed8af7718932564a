#include "integrations/cli/interrupt.h"

#include <atomic>
#include <csignal>

namespace tidemark::cli {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");
struct sigaction before_listening {};

void on_interrupt(int number) {
  interrupted = true;
  ::sigaction(number, &before_listening, nullptr);  // the next one is obeyed at once
}

}  // namespace

InterruptListener::InterruptListener() {
  if (interrupted) return;  // asked to end once: another one is obeyed at once
  if (::sigaction(SIGINT, nullptr, &before_listening) != 0 || before_listening.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  listens_ = ::sigaction(SIGINT, &action, nullptr) == 0;
}

InterruptListener::~InterruptListener() {
  if (listens_) ::sigaction(SIGINT, &before_listening, nullptr);
}

bool InterruptListener::heard() {
  return interrupted;
}

}  // namespace tidemark::cli
