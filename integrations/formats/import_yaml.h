#pragma once
// Job and device descriptions from YAML: text in, value out. The schema is documented in docs/formats.md.

#include <functional>
#include <string>
#include <string_view>

#include "core/machine.h"
#include "core/result.h"
#include "planner/graph_build/job_spec.h"

namespace tidemark::formats {

/// A job that obeys every rule of find_problems. Errors (bad_input): one line, `file_name:line: what, and what would be
/// right`; of several mistakes the first in the file.
[[nodiscard]] Result<graph_build::JobSpec> read_job(std::string_view yaml_text, std::string_view file_name);

/// The same for a job that may hold what is not planned: to count its parameters.
[[nodiscard]] Result<graph_build::JobSpec> read_described_job(std::string_view yaml_text, std::string_view file_name);

/// The chip of a name, as a device file gives it. Errors (bad_input): nothing of that name, or its file is wrong.
using ReadChip = std::function<Result<Chip>(const std::string& name)>;

/// A device. Errors as above, those of its chip behind `file_name:line: chip: `; every rate is above 0, reserves leave
/// memory to use.
[[nodiscard]] Result<Machine> read_machine(std::string_view yaml_text, std::string_view file_name,
                                           const ReadChip& read_chip);

}  // namespace tidemark::formats
