#include "integrations/cli/input_files.h"

#include <system_error>
#include <utility>

#include "integrations/cli/job_kind.h"
#include "integrations/cli/locations.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/measured/rank_files.h"

namespace tidemark::cli {
namespace {

namespace fs = std::filesystem;

/// Every rank's files of a folder; of anything else itself.
void add_subject(const fs::path& place, std::vector<fs::path>& inputs) {
  std::error_code error;
  if (place.empty()) return;
  inputs.push_back(place);
  if (!fs::is_directory(place, error)) return;
  const Result<std::vector<measured::RankFiles>> ranks = measured::find_rank_files(place);
  if (!ranks) return;
  for (const measured::RankFiles& rank : ranks.value())
    for (const measured::MeasuredFile& file : rank.files) inputs.push_back(file.path);
}

/// A name that is searched for is a file of the shipped ones, whatever is called so here.
void add_device(const std::string& name, const fs::path& model, const fs::path& folder, std::vector<fs::path>& inputs) {
  if (name.empty()) return;
  if (const Result<fs::path> device = find_device(name, model, folder)) inputs.push_back(device.value());
}

/// Another kind of file names no device: it is no model to read_job.
void add_device_of_model(const fs::path& model, std::vector<fs::path>& inputs) {
  std::error_code error;
  if (!fs::is_regular_file(model, error)) return;
  const Result<std::string> text = formats::read_file(model, formats::kMostDescriptionBytes);
  if (!text) return;
  const Result<graph_build::JobSpec> job = formats::read_job(text.value(), model.string());
  if (job) add_device(job.value().device, model, model.parent_path(), inputs);
}

void add_sourced(const fs::path& script, std::vector<fs::path>& inputs) {
  for (fs::path& file : sourced_by(script)) inputs.push_back(std::move(file));
}

/// The kind is told by the beginning of the file, which a pipe gives once.
bool is_script(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return false;
  const Result<ci::JobKind> kind = job_kind_of(file);
  return kind && kind.value() == ci::JobKind::script;
}

void add_files_of_options(const JobOptions& options, const fs::path& subject, std::vector<fs::path>& inputs) {
  for (const fs::path& file : {options.calibration, options.imbalance_from})
    if (!file.empty()) inputs.push_back(file);
  add_device(options.device, subject, {}, inputs);
}

}  // namespace

void add_inputs(const JobFile& file, std::vector<fs::path>& inputs) {
  const fs::path subject = subject_of(file);
  add_subject(subject, inputs);
  if (file.kind == ci::JobKind::script) add_sourced(subject, inputs);
  if (file.kind == ci::JobKind::model && file.options.device.empty()) add_device_of_model(subject, inputs);
  add_files_of_options(file.options, subject, inputs);
}

void add_input(const fs::path& file, const JobOptions& options, std::vector<fs::path>& inputs) {
  add_subject(file, inputs);
  if (is_script(file)) add_sourced(file, inputs);
  if (options.device.empty()) add_device_of_model(file, inputs);
  add_files_of_options(options, file, inputs);
}

}  // namespace tidemark::cli
