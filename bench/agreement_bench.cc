// Question: what does it cost a rank to agree with its expert group on a section, in 2, 8 and 32 processes?
//
//   agreement_bench [votes]      default: 5,000 a group
//
// Every process is a rank on this machine that does nothing but ask. `call` is the time of one, by the clock, at rank
// 1: all ranks have asked and have been told. `processor` is what a vote takes on all of them together, rank 0's
// counting included: with fewer cores than processes it is what the clock shows. The bound is one message to another
// process and one back over the same kind of socket. `step` is what the asks of a step of the reference job come to.

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "integrations/agreement/expert_group.h"

namespace tidemark::agreement {
namespace {

constexpr int kWarmUp = 200;
constexpr Milliseconds kTimeout{60'000};
/// 58 layers over 16 pipeline ranks, 64 micro-batches, 4 sections each.
constexpr double kAsksPerStep = 4.0 * 58 / 16 * 64;

struct Percentiles {
  double median_us = 0;
  double p99_us = 0;
};

Percentiles percentiles_of(std::vector<double> us) {
  std::ranges::sort(us);
  return {.median_us = us[us.size() / 2], .p99_us = us[us.size() * 99 / 100]};
}

double microseconds_since(Clock::time_point began) {
  return std::chrono::duration<double, std::micro>(Clock::now() - began).count();
}

[[noreturn]] void fail(const std::string& text) {
  fmt::print(stderr, "agreement_bench: {}\n", text);
  std::_Exit(2);
}

/// A rank that asks; what its calls take, from behind the warm-up on.
std::vector<double> ask(const std::string& address, std::int32_t rank, std::int32_t size, int votes) {
  auto group = ExpertGroup::open(address, {.rank = rank, .size = size, .timeout = kTimeout});
  if (!group) fail(group.error().message);
  std::vector<double> us;
  for (int vote = 0; vote < kWarmUp + votes; ++vote) {
    const Clock::time_point began = Clock::now();
    const Result<std::int32_t> answer =
        group.value()->seat().ask({.place = {.group = 0, .section = vote}, .chunks = 2 + rank});
    if (!answer) fail(answer.error().message);
    if (vote >= kWarmUp) us.push_back(microseconds_since(began));
  }
  return us;
}

double processor_us_of_children() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/// Forks `size` ranks; rank 1 reports.
void bench(const std::string& address, const char* kind, std::int32_t size, int votes, double bound_us) {
  const double before = processor_us_of_children();
  std::vector<pid_t> ranks;
  std::fflush(stdout);
  int report[2];
  if (pipe(report) != 0) fail("no pipe");
  for (std::int32_t rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child < 0) fail("no process");
    if (child == 0) {
      const Percentiles p = percentiles_of(ask(address, rank, size, votes));
      if (rank == 1 && write(report[1], &p, sizeof p) != sizeof p) fail("no report");
      std::_Exit(0);
    }
    ranks.push_back(child);
  }
  Percentiles p;
  if (read(report[0], &p, sizeof p) != sizeof p) fail("no report");
  for (const pid_t rank : ranks) waitpid(rank, nullptr, 0);
  close(report[0]);
  close(report[1]);
  const double processor_us = (processor_us_of_children() - before) / (kWarmUp + votes);
  fmt::print("{:<5} {:>9} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>12.1f} {:>10.1f}\n", kind, size, bound_us,
             p.median_us, p.p99_us, processor_us, processor_us / size, p.median_us * kAsksPerStep / 1e3);
}

/// There and back between two processes, median.
double round_trip_us(const std::string& text, int votes) {
  const Result<Address> address = find_address(text);
  if (!address) fail(address.error().message);
  Result<Listener> listener = Listener::open(address.value(), 1);
  if (!listener) fail(listener.error().message);
  const Clock::time_point deadline = Clock::now() + kTimeout;
  Message message;
  const pid_t child = fork();
  if (child < 0) fail("no process");
  if (child == 0) {
    Result<Socket> socket = connect_until(address.value(), deadline);
    if (!socket) fail(socket.error().message);
    while (socket.value().receive_until(deadline, message) == Socket::Received::message)
      if (!socket.value().send(message)) break;
    std::_Exit(0);
  }
  Socket socket;
  while (!socket.is_open()) socket = listener.value().accept();
  std::vector<double> us;
  for (int i = 0; i < kWarmUp + votes; ++i) {
    const Clock::time_point began = Clock::now();
    if (!socket.send(message) || socket.receive_until(deadline, message) != Socket::Received::message) fail("broken");
    if (i >= kWarmUp) us.push_back(microseconds_since(began));
  }
  socket.close();
  waitpid(child, nullptr, 0);
  return percentiles_of(std::move(us)).median_us;
}

int run(int votes) {
  fmt::print("{} votes a group, measured on {} cores; times in us\n", votes, std::thread::hardware_concurrency());
  fmt::print("{:<5} {:>9} {:>10} {:>10} {:>10} {:>10} {:>12} {:>10}\n", "over", "processes", "bound", "call",
             "p99 call", "processor", "a rank of it", "step ms");
  const std::string name = "unix:@tidemark-bench-" + std::to_string(getpid());
  const std::string port = "tcp:127.0.0.1:" + std::to_string(20'000 + getpid() % 10'000);
  for (const auto& [kind, address] : {std::pair("unix", name), std::pair("tcp", port)}) {
    const double bound_us = round_trip_us(address, votes);
    for (const std::int32_t size : {2, 8, 32}) bench(address, kind, size, votes, bound_us);
  }
  return 0;
}

}  // namespace
}  // namespace tidemark::agreement

int main(int argc, char** argv) {
  const int votes = argc > 1 ? std::atoi(argv[1]) : 5000;
  if (argc > 2 || votes < 1) {
    fmt::print(stderr, "usage: agreement_bench [votes]\n");
    return 2;
  }
  return tidemark::agreement::run(votes);
}
