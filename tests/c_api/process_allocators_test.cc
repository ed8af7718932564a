// The allocators behind the hooks around a fork: no child waits for a lock that a thread of its parent held.

#include "integrations/c_api/process_allocators.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "device/sim_device.h"
#include "integrations/c_api/open_device.h"

namespace tidemark::c_api {
namespace {

using namespace literals;

/// What the stand-in below does for one device at a time.
struct Opening {
  std::atomic<bool> is_slow{false}, has_begun{false};
} opening;

}  // namespace

/// The one of the library, which opens real devices, is not linked.
Result<std::unique_ptr<Device>> open_device(std::string_view, const tidemark_device_options&) {
  opening.has_begun = true;
  while (opening.is_slow) std::this_thread::yield();
  return std::unique_ptr<Device>(make_sim_device({.capacity_bytes = 64_MiB}));
}

namespace {

constexpr unsigned kHangSeconds = 20;

/// The exit status of a child that runs `body`, -1 where a signal ended it: a hang does.
template <class Body>
int status_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kHangSeconds);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ProcessAllocators, OpenInAChildWhatAThreadOfItsParentWasOpening) {
  ProcessAllocators& allocators = cuda_allocators();
  opening.is_slow = true;
  std::thread slow([&] { EXPECT_NE(allocators.get(0), nullptr); });
  while (!opening.has_begun) std::this_thread::yield();
  const int status = status_of_child([&] {
    opening.is_slow = false;
    for (const int device : {0, 1}) {
      tidemark_allocator* const own = allocators.get(device);
      Address address = 0;
      if (own == nullptr || own->group.allocate(1_MiB, {}, address, 0) != DeviceCode::ok) return 1;
    }
    return 0;
  });
  opening.is_slow = false;
  slow.join();
  EXPECT_EQ(status, 0) << "-1: the child waits for the lock of a thread that it does not have";
  EXPECT_NE(allocators.get(1), nullptr);
}

TEST(ProcessAllocators, SayWhatIsWrongInAChildWhileItsParentDoes) {
  std::atomic<bool> stop{false};
  testing::internal::CaptureStderr();
  std::thread other([&] {
    while (!stop) log_warning("of the parent");
  });
  int failed = 0;
  for (int i = 0; i < 200 && failed == 0; ++i) {
    failed = status_of_child([] {
      log_warning("of the child");
      return 0;
    });
  }
  stop = true;
  other.join();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("of the child"), std::string::npos);
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace tidemark::c_api
