#pragma once
// The files that a job is read from, so that no output replaces one.

#include <filesystem>
#include <vector>

#include "integrations/cli/answered_job.h"
#include "integrations/cli/job_request.h"

namespace tidemark::cli {

/// The job's file, or those of its ranks where it is a folder that was measured; the scripts that a launch script
/// sources; the device file that a model names; the files of the options, but not a device that is named and shipped.
/// What cannot be read is left for those who read it to say.
void add_inputs(const JobFile& file, std::vector<std::filesystem::path>& inputs);

/// The same of a file that may be any kind of job, or a baseline.
void add_input(const std::filesystem::path& file, const JobOptions& options,
               std::vector<std::filesystem::path>& inputs);

}  // namespace tidemark::cli
