// Binding the process, of the C interface.

#include "device/process_binding.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "integrations/c_api/handles.h"
#include "integrations/c_api/structs.h"
#include "integrations/formats/binding_report.h"

using namespace tidemark;         // NOLINT: the functions below have the C interface's names
using namespace tidemark::c_api;  // NOLINT

namespace {

constexpr std::int32_t kMostRank = 4095;

/// What the process was given: once it is bound, what it had before.
Result<ProcessPlaces> read_given_places(const std::string& root) {
  Result<ProcessPlaces> places = read_own_places(root);
  if (const BoundProcess* const bound = bound_process(); places && root.empty() && bound != nullptr) {
    places.value().cpus = bound->cpus_before;
    places.value().cpus_are_own = bound->cpus_were_own;
  }
  return places;
}

Result<std::vector<RankDevice>> devices_of(const tidemark_bind_options& options, const HostTopology& host) {
  std::vector<RankDevice> accelerators = all_accelerators(host);
  if (options.devices == nullptr && !accelerators.empty()) return accelerators;
  return read_rank_devices(options.devices == nullptr ? "none" : options.devices, host);
}

/// A mask made for this process alone is its share already: only this rank divides it.
formats::BindingReport report_for_rank(HostTopology host, ProcessPlaces places, std::vector<RankDevice> ranks,
                                       std::size_t rank) {
  const RankDevice own = ranks[rank];
  const bool has_share = places.cpus_are_own;
  formats::BindingReport report =
      formats::make_binding_report(std::move(host), std::move(places),
                                   has_share ? std::vector<RankDevice>{own} : std::move(ranks), DevicesMeant::all);
  const RankBinding binding = report.plan.ranks[has_share ? 0 : rank];
  report.ranks = {own};
  report.plan.ranks = {binding};
  report.problems = check_binding(report.host, report.places, report.ranks, report.plan, DevicesMeant::all);
  return report;
}

Outcome plan_and_bind(const tidemark_bind_options& options, std::string& json) {
  const std::string root = options.topology != nullptr ? options.topology : "";
  if (!root.empty() && options.only_plan == 0)
    return invalid("topology is for only_plan: nothing can be bound on a simulated host");
  Result<HostTopology> host = read_host_topology(root);
  if (!host) return outcome_of(host.error());
  Result<ProcessPlaces> places = read_given_places(root);
  if (!places) return outcome_of(places.error());
  Result<std::vector<RankDevice>> devices = devices_of(options, host.value());
  if (!devices) return outcome_of(devices.error());
  if (static_cast<std::size_t>(options.rank) >= devices.value().size()) {
    return invalid("rank is " + std::to_string(options.rank) + ", and devices has " +
                   std::to_string(devices.value().size()) + "; it must be one of them, from 0 on");
  }
  const formats::BindingReport report =
      report_for_rank(std::move(host).value(), std::move(places).value(), std::move(devices).value(),
                      static_cast<std::size_t>(options.rank));
  nlohmann::ordered_json said = formats::rank_json(report.ranks.front(), report.plan.ranks.front());
  said["simulated"] = report.host.simulated();
  said["cpus_before"] = text_of_list(report.places.cpus);
  BoundProcess bound;
  if (options.only_plan == 0) {
    const Result<BoundProcess> done = bind_process(report.plan.ranks.front(), report.places.cpus_are_own);
    if (!done) return outcome_of(done.error());
    bound = done.value();
  }
  said["bound"] = options.only_plan == 0;
  said["threads_bound"] = bound.threads_bound;
  said["threads_left"] = bound.threads_left;
  said["memory_placed"] = bound.memory_placed;
  said["problems"] = formats::problems_json(report.problems);
  json = said.dump();
  return {};
}

}  // namespace

extern "C" {

tidemark_status tidemark_bind_process(const tidemark_bind_options* options, tidemark_buffer** report,
                                      tidemark_error** error) noexcept {
  if (report != nullptr) *report = nullptr;
  return guarded(error, [&]() -> Outcome {
    if (report == nullptr) return invalid("report is NULL");
    tidemark_bind_options known;
    if (Outcome o = read_options(options, "tidemark_bind_options", known); !o.ok()) return o;
    if (Outcome o = check_numbers("tidemark_bind_options",
                                  {{.name = "rank", .value = known.rank, .least = 0, .most = kMostRank}});
        !o.ok())
      return o;
    auto said = std::make_unique<tidemark_buffer>();
    if (Outcome o = plan_and_bind(known, said->bytes); !o.ok()) return o;
    *report = said.release();
    return {};
  });
}

}  // extern "C"
