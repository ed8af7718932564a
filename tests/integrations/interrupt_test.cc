// An interrupt asks a search to end; the next one ends the program, and so does one that no search listens for.

#include "integrations/cli/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace tidemark::cli {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

/// Programs that a shell starts in the background ignore interrupts from the start.
void obey_interrupts() {
  std::signal(SIGINT, SIG_DFL);
}

[[noreturn]] void exit_as(bool expected) {
  std::_Exit(expected ? 0 : 1);
}

TEST(Interrupt, TheFirstIsHeard) {
  const auto listen = [] {
    obey_interrupts();
    const InterruptListener listener;
    const bool before = InterruptListener::heard();
    std::raise(SIGINT);
    exit_as(!before && InterruptListener::heard());
  };
  EXPECT_EXIT(listen(), ExitedWithCode(0), "");
}

TEST(Interrupt, TheSecondEndsTheProgram) {
  const auto listen = [] {
    obey_interrupts();
    const InterruptListener listener;
    std::raise(SIGINT);
    std::raise(SIGINT);
    exit_as(false);
  };
  EXPECT_EXIT(listen(), KilledBySignal(SIGINT), "");
}

TEST(Interrupt, WithoutAListenerItEndsTheProgram) {
  const auto listen = [] {
    obey_interrupts();
    { const InterruptListener listener; }
    std::raise(SIGINT);
    exit_as(false);
  };
  EXPECT_EXIT(listen(), KilledBySignal(SIGINT), "");
}

TEST(Interrupt, WhatIsIgnoredStaysIgnored) {
  const auto listen = [] {
    std::signal(SIGINT, SIG_IGN);
    const InterruptListener listener;
    std::raise(SIGINT);
    std::raise(SIGINT);
    exit_as(!InterruptListener::heard());
  };
  EXPECT_EXIT(listen(), ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tidemark::cli
