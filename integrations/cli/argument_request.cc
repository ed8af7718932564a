// The jobs of --megatron-args.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <system_error>

#include "integrations/cli/job_request.h"
#include "integrations/cli/locations.h"
#include "integrations/cli/options.h"
#include "integrations/cli/time_devices.h"
#include "integrations/configs/config_kind.h"
#include "integrations/configs/read_config.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_arguments.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/formats/rank_memory_report.h"
#include "integrations/formats/utf8.h"
#include "planner/estimate/to_job.h"

namespace tidemark::cli {
namespace {

using estimate::Accelerator;
using estimate::ImportedRun;
using estimate::JudgedArgument;
using estimate::Standing;

/// The generation a device's name tells; nothing: another one.
std::optional<Accelerator> accelerator_of(std::string name) {
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  constexpr std::array<std::pair<std::string_view, Accelerator>, 9> kParts = {{{"ascend", Accelerator::ascend},
                                                                               {"910", Accelerator::ascend},
                                                                               {"a100", Accelerator::a100},
                                                                               {"a800", Accelerator::a100},
                                                                               {"gb200", Accelerator::gb200},
                                                                               {"b200", Accelerator::gb200},
                                                                               {"h100", Accelerator::h100},
                                                                               {"h200", Accelerator::h100},
                                                                               {"h800", Accelerator::h100}}};
  for (const auto& [part, accelerator] : kParts)
    if (name.find(part) != std::string::npos) return accelerator;
  return std::nullopt;
}

void run_on(Accelerator accelerator, estimate::Platform& platform) {
  platform.accelerator = accelerator;
  platform.framework =
      accelerator == Accelerator::ascend ? estimate::Framework::mindspeed_llm : estimate::Framework::megatron_lm;
}

Result<Machine> machine_of(const JobOptions& options) {
  const Result<std::filesystem::path> device = find_device(options.device, options.megatron_args);
  if (!device) return bad_input("--device: " + device.error().message);
  const Result<std::string> text = formats::read_file(device.value(), formats::kMostDescriptionBytes);
  if (!text) return text.error();
  return formats::read_machine(text.value(), device.value().string(), chips_for(device.value()));
}

/// The generation or the device named on the command line decides what the job runs on.
Status choose_accelerator(const JobOptions& options, estimate::Platform& platform) {
  if (!options.accelerator.empty())
    if (const Status status = expect_word("accelerator", options.accelerator, accelerator_names()); !status)
      return bad_input("--accelerator: " + status.error().message);
  const std::optional<Accelerator> named = accelerator_of(options.accelerator);
  if (named) run_on(*named, platform);
  if (options.device.empty()) return {};
  const Result<Machine> machine = machine_of(options);
  if (!machine) return machine.error();
  const std::optional<Accelerator> accelerator = accelerator_of(machine.value().name);
  if (named && accelerator.value_or(*named) != *named)
    return bad_input(fmt::format("--accelerator: {} beside --device {}, which is another; drop one",
                                 options.accelerator, machine.value().name));
  if (named) return {};
  if (!accelerator)
    return bad_input(
        fmt::format("--device: {} is none of the accelerators whose frameworks are modelled (A100, H100, "
                    "H200, GB200, Ascend); say with --accelerator which it is like",
                    machine.value().name));
  run_on(*accelerator, platform);
  return {};
}

std::string remark_on(const JudgedArgument& argument) {
  const bool is_key = !argument.key.empty();
  if (argument.name.empty()) return fmt::format("{}: {}{}", argument.place, argument.reason, argument.hint);
  const std::string hint =
      argument.reason == estimate::kUnknownArgument && !is_key ? formats::argument_hint(argument.name) : argument.hint;
  return fmt::format("{}{}{}{} is not understood: {}{}", argument.place, argument.place.empty() ? "" : ": ",
                     is_key ? "" : "--", is_key ? argument.key : argument.name, argument.reason, hint);
}

/// A line for each of the first arguments that are not understood, and one with the number of the others: each looks
/// for a near miss among all names there are.
std::vector<std::string> remarks_on(const ImportedRun& imported) {
  constexpr std::size_t kMost = 20;
  std::vector<std::string> remarks;
  std::size_t count = 0;
  for (const JudgedArgument& argument : imported.judged)
    if (argument.standing == Standing::not_understood && ++count <= kMost) remarks.push_back(remark_on(argument));
  if (count > kMost)
    remarks.push_back(
        fmt::format("{} more argument{} not understood", count - kMost, count - kMost == 1 ? " is" : "s are"));
  return remarks;
}

Status refuse_not_understood(const ImportedRun& imported) {
  std::string all;
  for (const std::string& remark : remarks_on(imported)) all += (all.empty() ? "" : "; ") + remark;
  for (std::size_t i = 0; i < imported.lost; ++i) all += (all.empty() ? "" : "; ") + imported.notes[i];
  return all.empty() ? Status() : bad_input(all);
}

/// `before`: what was left out may be what is missing.
Error with_name(const Error& error, const std::string& name, const std::vector<std::string>& before) {
  return bad_input(fmt::format("{}{}{}", error.message.starts_with(name) ? "" : name + ": ", error.message,
                               before.empty() ? "" : fmt::format(" ({})", before.front())));
}

/// What the file left open, and what had to be assumed.
void add_notes(const JobOptions& options, configs::ConfigKind kind, const formats::ArgumentFile& file,
               TrainingJob& job) {
  std::vector<std::string>& notes = job.imported.notes;
  for (std::string& note : notes) note = fmt::format("{}: {}", options.megatron_args.string(), note);
  notes.insert(notes.begin(), file.notes.begin(), file.notes.end());
  job.imported.lost += file.notes.size();
  if (options.world_size == 0) {
    notes.insert(notes.begin(), file.device_notes.begin(), file.device_notes.end());
    job.imported.lost += file.device_notes.size();
  }
  if (!options.accelerator.empty() || !options.device.empty()) return;
  const Accelerator taken = job.hints.platform.accelerator;
  const std::string_view why = kind == configs::ConfigKind::mindformers ? "which MindFormers runs on"
                               : taken == Accelerator::ascend           ? "since the file speaks of MindSpeed or NPUs"
                                                                        : "which nothing says";
  notes.push_back(fmt::format("{}: accelerator taken as {}, {}; --accelerator or --device would say",
                              options.megatron_args.string(), formats::accelerator_text(taken), why));
}

/// What a launch script reads beside it: `path` from its folder. Each that is read is put into `sourced`.
formats::ReadBeside reader_beside(const std::filesystem::path& script, std::vector<std::filesystem::path>& sourced) {
  return [&sourced, folder = script.parent_path()](const std::string& path) -> std::optional<std::string> {
    Result<std::string> text = formats::read_file(folder / path, formats::kMostDescriptionBytes);
    if (!text) return std::nullopt;
    if (std::ranges::find(sourced, folder / path) == sourced.end()) sourced.push_back(folder / path);
    return std::move(text).value();
  };
}

/// The first of them may be what is missing.
std::vector<std::string> left_out_of(const formats::ArgumentFile& file) {
  std::vector<std::string> lines;
  for (const estimate::UnreadWords& words : file.set.unread)
    lines.push_back(fmt::format("{}: {}", words.place, words.what));
  lines.insert(lines.end(), file.notes.begin(), file.notes.end());
  return lines;
}

}  // namespace

Result<TrainingJob> read_training_job(const JobOptions& options) {
  const std::string name = options.megatron_args.string();
  const Result<std::string> text = formats::read_file(options.megatron_args, formats::kMostDescriptionBytes);
  if (!text) return text.error();
  const configs::ConfigKind kind = configs::kind_of(text.value(), name);
  const bool is_config = kind != configs::ConfigKind::other;
  std::vector<std::filesystem::path> sourced;
  Result<formats::ArgumentFile> file =
      is_config ? Result<formats::ArgumentFile>(formats::ArgumentFile())
                : formats::read_arguments(text.value(), name, reader_beside(options.megatron_args, sourced));
  if (!file) return file.error();
  if (options.world_size == 0 && !file.value().device_problem.empty()) return bad_input(file.value().device_problem);
  const std::vector<std::string> left_out = left_out_of(file.value());
  TrainingJob job{
      .imported = {}, .set = std::move(file.value().set), .hints = file.value().hints, .sourced = std::move(sourced)};
  if (kind == configs::ConfigKind::mindformers) run_on(Accelerator::ascend, job.hints.platform);
  if (Status status = choose_accelerator(options, job.hints.platform); !status) return status.error();
  if (options.world_size > 0) job.hints.platform.devices = options.world_size;
  Result<ImportedRun> imported =
      is_config ? configs::read_config(text.value(), name, kind, job.hints) : estimate::import_run(job.set, job.hints);
  if (!imported) return with_name(imported.error(), name, left_out);
  job.imported = std::move(imported).value();
  add_notes(options, kind, file.value(), job);
  if (options.strict)
    if (Status status = refuse_not_understood(job.imported); !status) return status.error();
  return job;
}

Result<Chip> chip_of(const JobOptions& options, Accelerator accelerator) {
  if (!options.device.empty()) {
    Result<Machine> machine = machine_of(options);
    if (!machine) return machine.error();
    Chip chip = machine.value().chip;
    chip.sheet.host_bytes_per_s = std::min(machine.value().d2h.bytes_per_s, machine.value().h2d.bytes_per_s);
    return chip;
  }
  constexpr std::array<std::string_view, 4> kUsual = {"a100-80g", "h100", "gb200", "ascend-910b-800t-a2"};
  const std::string name(kUsual[static_cast<std::size_t>(accelerator)]);
  Result<formats::TimeDeviceFile> file = read_named_time_device(name, share_directories());
  if (!file) return file.error();
  return std::move(file).value().device;
}

std::vector<std::filesystem::path> sourced_by(const std::filesystem::path& script) {
  std::vector<std::filesystem::path> sourced;
  std::error_code error;
  // A pipe gives its text once, to the reader of the job.
  if (!std::filesystem::is_regular_file(script, error)) return sourced;
  const std::string name = script.string();
  const Result<std::string> text = formats::read_file(script, formats::kMostDescriptionBytes);
  if (text && configs::kind_of(text.value(), name) == configs::ConfigKind::other)
    (void)formats::read_arguments(text.value(), name, reader_beside(script, sourced));
  return sourced;
}

Result<graph_build::JobSpec> job_of(const ImportedRun& imported, const JobOptions& options,
                                    std::vector<std::string>& left_out) {
  const std::string file = options.megatron_args.string();
  if (options.device.empty()) return bad_input("--device is required with --megatron-args: arguments name none");
  Result<estimate::PlannedRun> planned =
      estimate::to_job(imported.run, formats::utf8_text(options.megatron_args.stem().native()));
  if (!planned) return bad_input(fmt::format("{}: {}", file, planned.error().message));
  graph_build::JobSpec& job = planned.value().job;
  job.device = std::filesystem::path(options.device).stem().string();
  if (const std::vector<graph_build::SpecProblem> problems = graph_build::find_problems(job); !problems.empty()) {
    const auto layout =
        std::ranges::find(imported.judged, "pipeline-model-parallel-layout", &estimate::JudgedArgument::name);
    if (problems.front().key == "parallel.placement" && imported.run.model.mtp_layers > 0 &&
        layout != imported.judged.end())
      return bad_input(
          fmt::format("{}{}--pipeline-model-parallel-layout: {}; plans have it in the stage of the loss: "
                      "end the layout in mL",
                      layout->place, layout->place.empty() ? "" : ": ", problems.front().message));
    return bad_input(fmt::format("{}: as a plan's job, {}: {}", file, problems.front().key, problems.front().message));
  }
  for (const std::string& line : planned.value().left_out) left_out.push_back(fmt::format("note: {}: {}", file, line));
  return std::move(job);
}

std::vector<std::string> doubts_of(const ImportedRun& imported) {
  return remarks_on(imported);
}

std::vector<std::string> import_remarks(const ImportedRun& imported) {
  std::vector<std::string> remarks;
  for (const std::string& remark : remarks_on(imported)) remarks.push_back("warning: " + remark);
  for (const std::string& note : imported.notes) remarks.push_back("note: " + note);
  return remarks;
}

}  // namespace tidemark::cli
