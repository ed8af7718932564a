#include "integrations/cli/timed_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "integrations/cli/time_devices.h"
#include "integrations/formats/shown.h"
#include "planner/step_time/software.h"
#include "planner/step_time/step_seconds.h"

namespace tidemark::cli {
namespace {

using formats::TimeDeviceFile;
using step_time::TimeRow;

/// Of the devices that rows name, those that are shipped.
using TimeDevices = std::map<std::string, TimeDeviceFile>;

Result<TimeDevices> read_devices(std::span<const TimeRow> rows, const std::vector<std::filesystem::path>& shares) {
  std::set<std::string> wanted;
  for (const TimeRow& row : rows) wanted.insert(row.device);
  TimeDevices devices;
  for (const Description& shipped : list_time_devices(shares)) {
    if (!wanted.contains(shipped.name)) continue;
    Result<TimeDeviceFile> file = read_named_time_device(shipped.name, shares);
    if (!file) return file.error();
    devices.emplace(shipped.name, std::move(file).value());
  }
  return devices;
}

/// Why nothing is predicted for the row, or nothing.
std::string refusal_of(const TimeRow& row, const TimeDevices& devices) {
  if (!row.refused.empty()) return row.refused;
  const auto device = devices.find(row.device);
  if (device == devices.end()) return fmt::format("no device {} in devices/chips", formats::shown(row.device));
  if (device->second.device.sheet.peak(row.run.precision) <= 0) return "the device has no rate for the precision";
  return step_time::find_software(row.software) == nullptr ? "software not known" : std::string();
}

double seconds_of(const TimeRow& row, const Chip& device) {
  return step_time::step_seconds(row.run, device, *step_time::find_software(row.software)).seconds;
}

}  // namespace

Result<PredictedTimes> predict_times(std::span<const TimeRow> rows, const std::vector<std::filesystem::path>& shares) {
  const Result<TimeDevices> devices = read_devices(rows, shares);
  if (!devices) return devices.error();
  PredictedTimes times;
  std::map<std::string, double> factors;
  for (const TimeRow& row : rows) {
    formats::TimePrediction prediction{.refused = refusal_of(row, devices.value()), .is_scored = row.is_scored};
    if (prediction.refused.empty()) {
      const TimeDeviceFile& file = devices.value().at(row.device);
      const auto found = file.factors.find(row.software);
      const double factor = found == file.factors.end() ? 1 : found->second;
      factors.emplace(file.constants + " " + row.software, factor);
      prediction.predicted_s = factor * seconds_of(row, file.device);
    }
    times.predictions.push_back(std::move(prediction));
  }
  for (const auto& [name, factor] : factors) times.factors.push_back({.name = name, .factor = factor});
  return times;
}

Result<std::vector<formats::TimePrediction>> take_times(std::span<const TimeRow> rows,
                                                        const formats::PredictedTimesById& times) {
  std::vector<formats::TimePrediction> predictions;
  std::set<std::string_view> ids;
  for (const TimeRow& row : rows) {
    ids.insert(row.id);
    formats::TimePrediction prediction{.is_scored = row.is_scored};
    if (const auto found = times.find(row.id); found != times.end())
      prediction.predicted_s = found->second;
    else
      prediction.refused = row.refused.empty() ? "no seconds were given for it" : row.refused;
    predictions.push_back(std::move(prediction));
  }
  for (const auto& [id, seconds] : times)
    if (!ids.contains(id)) return bad_input(fmt::format("no measured row has the id {}", formats::shown(id)));
  return predictions;
}

Result<TriedRates> try_rates(std::span<const TimeRow> rows, const formats::RateCandidates& candidates,
                             const std::vector<std::filesystem::path>& shares) {
  const Result<TimeDevices> devices = read_devices(rows, shares);
  if (!devices) return devices.error();
  TriedRates tried{.constants = std::vector<std::string>(rows.size()), .seconds = {}};
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (refusal_of(rows[r], devices.value()).empty()) tried.constants[r] = devices.value().at(rows[r].device).constants;
  for (const FittedRates& rates : candidates.rates) {
    std::vector<std::optional<double>> seconds(rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (tried.constants[r] != candidates.constants) continue;
      Chip device = devices.value().at(rows[r].device).device;
      device.rates = rates;
      seconds[r] = seconds_of(rows[r], device);
    }
    tried.seconds.push_back(std::move(seconds));
  }
  return tried;
}

}  // namespace tidemark::cli
