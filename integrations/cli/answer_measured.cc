// Runs that were measured: snapshots, profiler files, samples of the device, folders of ranks.
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "integrations/ci/content_hash.h"
#include "integrations/cli/answered_job.h"
#include "integrations/cli/argument_job.h"
#include "integrations/measured/measured_run.h"

namespace tidemark::cli {

Result<AnsweredJob> answer_measured(const JobFile& file, const Console& console) {
  static_cast<void>(console);
  const std::filesystem::path& place = file.measured;
  // Of the bytes that the figures come from: a run that still writes has others a moment later.
  std::vector<ci::InputHash> inputs;
  const auto hash = [&inputs](std::string_view bytes) {
    inputs.push_back({.role = "measured", .fnv1a64 = ci::fnv1a64(bytes)});
  };
  Result<budget::Holdings> holdings = measured::read_measured(place, hash);
  if (!holdings) return holdings.error();
  std::ranges::sort(inputs, {}, &ci::InputHash::fnv1a64);
  const Result<std::optional<DeviceRoom>> room = device_room(file.options);
  if (!room) return room.error();
  AnsweredJob answered;
  answered.holdings = std::move(holdings).value();
  answered.inputs = std::move(inputs);
  answered.why_no_remedy =
      "no change is looked for: a measured run says what was held, not what decides it; check the job's model or "
      "launch "
      "script beside it";
  if (room.value()) answered.device_capacity_bytes = room.value()->visible_bytes;
  return answered;
}

}  // namespace tidemark::cli
