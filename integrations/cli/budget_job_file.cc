#include "integrations/cli/budget_job_file.h"

#include <utility>

#include "integrations/cli/budget_location.h"

namespace tidemark::cli {
namespace {

namespace fs = std::filesystem;
using ci::JobKind;

/// Which of the options names the file depends on who reads it.
void put_file(JobFile& file, const fs::path& path) {
  switch (file.kind) {
    case JobKind::model:
    case JobKind::plan:
      file.options.model = path;
      return;
    case JobKind::script:
    case JobKind::bridge:
    case JobKind::torchtitan:
    case JobKind::mindformers:
      file.options.megatron_args = path;
      return;
    case JobKind::measured:
      file.measured = path;
      return;
  }
}

/// A device is a name, or a path that begins in the budget file's folder.
std::string device_beside(const fs::path& budget_file, const std::string& device) {
  const bool is_path = device.find('/') != std::string::npos || device.ends_with(".yaml");
  return is_path ? beside(budget_file, device).string() : device;
}

}  // namespace

JobFile job_file_of(const ci::BudgetJob& job, const fs::path& budget_file, const JobOptions& options) {
  JobFile file{.kind = job.kind, .options = {}, .measured = {}, .reserve_bytes = job.reserve_bytes};
  JobOptions& own = file.options;
  own.threads = options.threads;
  own.policy = job.policy.empty() ? options.policy : job.policy;
  own.device = device_beside(budget_file, job.device);
  own.accelerator = job.accelerator;
  own.world_size = job.world_size.value_or(0);
  own.budget_bytes = job.capacity_bytes;
  own.host_budget_bytes = job.host_bytes;
  if (!job.calibration.empty()) own.calibration = beside(budget_file, job.calibration);
  if (job.load) {
    own.imbalance = {.load = job.load->load, .quantile = job.load->quantile, .where_it_varies = true};
    if (!job.load->trace.empty()) own.imbalance_from = beside(budget_file, job.load->trace);
  }
  put_file(file, beside(budget_file, job.file));
  return file;
}

JobFile job_file_of(JobKind kind, const fs::path& path, JobOptions options) {
  JobFile file{.kind = kind, .options = std::move(options), .measured = {}, .reserve_bytes = {}};
  put_file(file, path);
  return file;
}

ci::BudgetJob entry_of(const JobFile& file, const Margin& margin) {
  ci::BudgetJob job;
  job.kind = file.kind;
  job.file = subject_of(file).string();
  job.capacity_bytes = file.options.budget_bytes;
  job.host_bytes = file.options.host_budget_bytes;
  job.near = {.percent = margin.bytes ? 0 : margin.percent, .bytes = margin.bytes.value_or(0)};
  // A budget on the command line is what the framework may fill, so that nothing more is kept from it.
  if (job.capacity_bytes && !file.options.megatron_args.empty()) job.reserve_bytes = 0;
  return job;
}

}  // namespace tidemark::cli
