#include <array>
#include <atomic>
#include <fstream>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "device/acl_runtime.h"
#include "device/ascend_device.h"
#include "device/cuda_device.h"
#include "device/cuda_driver.h"
#include "device/host_device.h"
#include "device/null_device.h"
#include "device/sim_device.h"
#include "tests/conformance/backends.h"
#include "tests/support/stand_ins.h"

namespace tidemark::conformance {
namespace {

using namespace literals;

constexpr Bytes kCapacity = 96_MiB;
constexpr std::int64_t kEventLimit = 3000;

std::unique_ptr<Device> open_sim(std::uint64_t seed) {
  const SimOptions options{.capacity_bytes = kCapacity, .event_limit = kEventLimit};
  return make_sim_device(options, {.seed = seed});
}

std::string sim_complaints(Device& device) {
  auto& sim = dynamic_cast<SimDevice&>(device);
  std::string text = sim.leaks();
  for (const RaceReport& race : sim.races()) text += to_string(race) + "\n";
  return text;
}

void lose_sim(Device& device) {
  dynamic_cast<SimDevice&>(device).set_faults({{.point = FaultPoint::synchronize, .code = DeviceCode::lost}});
  static_cast<void>(device.synchronize_device());
}

std::atomic<bool> host_is_to_be_lost = false;

Result<std::unique_ptr<Device>> open_host(HostDeviceOptions options) {
  options.capacity_bytes = kCapacity;
  options.event_limit = kEventLimit;
  options.play_estimates = 1;
  options.fault = [](HostCall) { return host_is_to_be_lost ? DeviceCode::lost : DeviceCode::ok; };
  return open_host_device(options);
}

void lose_host(Device& device) {
  host_is_to_be_lost = true;
  EventHandle unused{};
  static_cast<void>(device.create_event(unused));
  host_is_to_be_lost = false;
}

/// Pages of the memory file that is the device's memory.
std::string host_left_behind() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("tidemark_host_device") != std::string::npos) return line;
  }
  return "";
}

void bound_stand_in(const char* library) {
  const StandInControls controls(library);
  controls.reset();
  controls.set("capacity_bytes", kCapacity);
  controls.set("event_limit", kEventLimit);
}

std::string stand_in_complaints(const char* library) {
  const StandInControls controls(library);
  const std::int64_t violations = controls.get("violations");
  return violations == 0 ? "" : std::to_string(violations) + " breaches of the vendor's rules";
}

std::string stand_in_left_behind(const char* library) {
  const StandInControls controls(library);
  std::string text;
  for (const char* const count :
       {"blocks", "reservations", "mappings", "physicals", "events", "operations", "violations"}) {
    if (controls.get(count) != 0) text += std::to_string(controls.get(count)) + " " + count + " ";
  }
  return text;
}

/// The next synchronisation answers `code`, which means that the device is gone.
void lose_stand_in(Device& device, const char* library, const char* call, int code) {
  StandInControls(library).fail_call(call, 0, code);
  static_cast<void>(device.synchronize_device());
}

Result<std::unique_ptr<Device>> open_cuda_stand_in() {
  bound_stand_in(TIDEMARK_CUDA_STAND_IN);
  CudaOptions options = cuda_stand_in_options();
  options.play_estimates = true;
  return open_cuda_device(options);
}

Result<std::unique_ptr<Device>> open_ascend_stand_in() {
  bound_stand_in(TIDEMARK_ACL_STAND_IN);
  AscendOptions options = ascend_stand_in_options();
  options.play_estimates = true;
  options.event_limit = kEventLimit;
  return open_ascend_device(options);
}

void add_simulated(std::vector<Backend>& all) {
  all.push_back({.name = "sim", .open = [] { return open_sim(0); }, .complaints = sim_complaints, .lose = lose_sim});
  all.push_back(
      {.name = "sim_adversarial", .open = [] { return open_sim(17); }, .complaints = sim_complaints, .lose = lose_sim});
}

void add_host(std::vector<Backend>& all) {
  all.push_back(
      {.name = "host", .open = [] { return open_host({}); }, .left_behind = host_left_behind, .lose = lose_host});
  all.push_back(
      {.name = "host_throttled",
       .open = [] { return open_host({.copy_threads = 3, .d2h_bytes_per_s = 4_GiB, .h2d_bytes_per_s = 3_GiB}); },
       .left_behind = host_left_behind,
       .lose = lose_host});
}

void add_hardware(std::vector<Backend>& all) {
  all.push_back({.name = "cuda",
                 .open = [] { return open_cuda_device({.play_estimates = true}); },
                 .may_be_absent = true,
                 .bounded = false});
  all.push_back({.name = "ascend",
                 .open = [] { return open_ascend_device({.play_estimates = true}); },
                 .may_be_absent = true,
                 .bounded = false});
}

/// Host memory behind the vendor's calls, no accelerator: our vendor code runs, and breaches of the vendor's rules
/// count.
void add_stand_ins(std::vector<Backend>& all) {
  all.push_back({.name = "cuda_stand_in",
                 .open = open_cuda_stand_in,
                 .complaints = [](Device&) { return stand_in_complaints(TIDEMARK_CUDA_STAND_IN); },
                 .left_behind = [] { return stand_in_left_behind(TIDEMARK_CUDA_STAND_IN); },
                 .lose =
                     [](Device& device) {
                       lose_stand_in(device, TIDEMARK_CUDA_STAND_IN, "cuCtxSynchronize", cuda::kLaunchFailed);
                     }});
  all.push_back({.name = "ascend_stand_in",
                 .open = open_ascend_stand_in,
                 .complaints = [](Device&) { return stand_in_complaints(TIDEMARK_ACL_STAND_IN); },
                 .left_behind = [] { return stand_in_left_behind(TIDEMARK_ACL_STAND_IN); },
                 .lose =
                     [](Device& device) {
                       lose_stand_in(device, TIDEMARK_ACL_STAND_IN, "aclrtSynchronizeDevice", acl::kCopyEngine);
                     }});
}

std::vector<Backend> make_backends() {
  std::vector<Backend> all;
  add_simulated(all);
  add_host(all);
  all.push_back({.name = "null", .open = [] { return Result<std::unique_ptr<Device>>(open_null_device()); }});
  add_hardware(all);
  add_stand_ins(all);
  return all;
}

/// Cannot, by its nature.
constexpr Exception kUnsupported[] = {
    {"null", "", "the skeleton has no memory, streams or time"},
    {"sim", "HostSees", "addresses have no bytes behind them"},
};

/// Should, and does not yet. Empty rows keep the array well formed.
constexpr Exception kExpectedFailures[] = {
    {"", "", ""},
};

const Exception* find(std::span<const Exception> list, std::string_view backend, std::string_view test) {
  const Exception* best = nullptr;
  for (const Exception& entry : list) {
    const bool applies = !entry.backend.empty() && backend.starts_with(entry.backend) && test.starts_with(entry.test);
    if (applies && (best == nullptr || entry.test.size() > best->test.size())) best = &entry;
  }
  return best;
}

}  // namespace

std::span<const Backend> backends() {
  static const std::vector<Backend> all = make_backends();
  return all;
}

const Exception* find_unsupported(std::string_view backend, std::string_view test) {
  return find(kUnsupported, backend, test);
}

const Exception* find_expected_failure(std::string_view backend, std::string_view test) {
  return find(kExpectedFailures, backend, test);
}

}  // namespace tidemark::conformance
