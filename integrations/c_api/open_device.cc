#include "integrations/c_api/open_device.h"

#include <utility>

#include "device/ascend_device.h"
#include "device/cuda_device.h"
#include "device/host_device.h"
#include "device/launch_queue_device.h"
#include "device/null_device.h"
#include "device/sim_device.h"
#include "integrations/c_api/submit_queued.h"

namespace tidemark::c_api {
namespace {

using Opened = Result<std::unique_ptr<Device>>;

Opened open_sim(const tidemark_device_options& o) {
  SimOptions options{.check_races = false};  // a program of its own has no way to see the reports
  if (o.capacity_bytes > 0) options.capacity_bytes = o.capacity_bytes;
  if (o.d2h_bytes_per_s > 0) options.d2h.bytes_per_s = static_cast<double>(o.d2h_bytes_per_s);
  if (o.h2d_bytes_per_s > 0) options.h2d.bytes_per_s = static_cast<double>(o.h2d_bytes_per_s);
  return std::unique_ptr<Device>(make_sim_device(options));
}

Opened open_host(const tidemark_device_options& o) {
  HostDeviceOptions options{.d2h_bytes_per_s = o.d2h_bytes_per_s,
                            .h2d_bytes_per_s = o.h2d_bytes_per_s,
                            .copies_any_memory = o.copies_any_memory != 0,
                            .play_estimates = o.play_estimates != 0 ? 1.0 : 0.0};
  if (o.capacity_bytes > 0) options.capacity_bytes = o.capacity_bytes;
  return open_host_device(options);
}

Opened open_cuda(const tidemark_device_options& o) {
  CudaOptions options{.ordinal = o.ordinal, .play_estimates = o.play_estimates != 0};
  if (o.library != nullptr) options.library = o.library;
  return open_cuda_device(options);
}

Opened open_ascend(const tidemark_device_options& o) {
  AscendOptions options{.ordinal = o.ordinal, .play_estimates = o.play_estimates != 0};
  if (o.library != nullptr) options.library = o.library;
  return open_ascend_device(options);
}

Opened open_plain(std::string_view name, const tidemark_device_options& options) {
  if (name == "sim") return open_sim(options);
  if (name == "host") return open_host(options);
  if (name == "cuda") return open_cuda(options);
  if (name == "ascend") return open_ascend(options);
  if (name == "null") return open_null_device();
  return bad_input("no device '" + std::string(name) + "'; there are sim, host, cuda, ascend and null");
}

}  // namespace

Opened open_device(std::string_view name, const tidemark_device_options& options) {
  Opened opened = open_plain(name, options);
  if (!opened || options.submit_queued == nullptr) return opened;
  return make_launch_queue_device(
      std::move(opened).value(),
      [submit_queued = options.submit_queued, user = options.submit_user, ordinal = options.ordinal](std::string& why) {
        return submit_through(submit_queued, user, ordinal, why);
      });
}

}  // namespace tidemark::c_api
