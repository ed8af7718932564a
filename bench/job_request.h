#pragma once
// The request that benches of planning set out from: a job's file for a device's, by the default policy.

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "integrations/formats/chip_files.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_yaml.h"
#include "planner/planner.h"
#include "planner/search/auto_placement.h"
#include "policies/policies.h"

namespace tidemark::bench {

/// The value, or the end of the program with status 2 and the error on stderr.
template <class T>
T must(Result<T> result) {
  if (result) return std::move(result).value();
  fmt::print(stderr, "{}\n", result.error().message);
  std::exit(2);
}

/// With its layers placed. `device`: a file; empty: the shipped one that the job names. Ends the program where a file
/// is not there or says something wrong.
inline plan::PlanRequest job_request(const std::string& model, std::string device = {}) {
  plan::PlanRequest request{.job = must(formats::read_job(must(formats::read_file(model)), model)),
                            .policy = policies::find_policy("optimal")};
  if (device.empty()) device = std::string(TIDEMARK_SOURCE_DIR) + "/devices/" + request.job.device + ".yaml";
  request.machine =
      must(formats::read_machine(must(formats::read_file(device)), device,
                                 formats::chips_in(std::filesystem::path(device).parent_path() / "chips")));
  if (request.job.parallel.auto_placement) must(search::place_automatically(request));
  return request;
}

}  // namespace tidemark::bench
