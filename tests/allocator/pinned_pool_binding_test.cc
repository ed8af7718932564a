// Where the pinned pool's thread runs in a process that is bound. A process is bound once, so a child is.

#include <gtest/gtest.h>
#include <unistd.h>

#include "allocator/pinned_pool.h"
#include "device/host_device.h"
#include "device/process_binding.h"
#include "device/process_places.h"
#include "tests/support/fork.h"

namespace tidemark::allocator {
namespace {

using namespace literals;

TEST(PinnedPoolBinding, ItsThreadIsOnTheCopyCpusAndItsPagesOnTheNode) {
  const CpuList cpus = own_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "this process may use one CPU alone";
  EXPECT_EQ(in_a_fork([&cpus] {
              RankBinding rank;
              rank.device_node = 0;
              rank.main_cpus = {cpus[0]};
              rank.copy_cpus = {cpus[1]};
              if (!bind_process(rank)) return false;
              const std::unique_ptr<Device> device = open_host_device({.capacity_bytes = 4_MiB}).value();
              PinnedPool pool(*device, {.bound_bytes = 4_MiB});
              PinnedAllocation block;
              while ((block = pool.allocate(1_MiB)).outcome == PinnedOutcome::wait_chunk) {
                if (!pool.wait_for_chunk(block)) return false;
              }
              if (block.outcome != PinnedOutcome::ok || !device->pinned_facts(block.block.address).numa_bound)
                return false;
              bool found = false;
              const ProcessPlaces places = read_process_places(getpid()).value();
              for (const ProcessThread& thread : places.threads) {
                if (thread.name != "tidemark-pinned") continue;
                found = true;
                if (thread.cpus != rank.copy_cpus) return false;
              }
              pool.free(block.block);
              return found && own_cpus() == rank.main_cpus;
            }),
            0);
}

}  // namespace
}  // namespace tidemark::allocator
