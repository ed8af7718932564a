// The jobs of --megatron-args.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "integrations/cli/job_request.h"
#include "integrations/cli/locations.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_arguments.h"
#include "integrations/formats/import_yaml.h"
#include "integrations/formats/rank_memory_report.h"
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

/// The generation or the device named on the command line decides what the job runs on.
Status choose_accelerator(const JobOptions& options, estimate::Platform& platform) {
  const std::optional<Accelerator> named = accelerator_of(options.accelerator);
  if (named) run_on(*named, platform);
  if (options.device.empty()) return {};
  const Result<std::filesystem::path> device = find_device(options.device, options.megatron_args);
  if (!device) return bad_input("--device: " + device.error().message);
  const Result<std::string> text = formats::read_file(device.value(), formats::kMostDescriptionBytes);
  if (!text) return text.error();
  const Result<Machine> machine = formats::read_machine(text.value(), device.value().string());
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
  return fmt::format("{}{}--{} is not understood: {}{}", argument.place, argument.place.empty() ? "" : ": ",
                     argument.name, argument.reason,
                     argument.reason == estimate::kUnknownArgument ? formats::argument_hint(argument.name) : "");
}

Status refuse_not_understood(const ImportedRun& imported) {
  std::string all;
  for (const JudgedArgument& argument : imported.judged) {
    if (argument.standing != Standing::not_understood) continue;
    all += (all.empty() ? "" : "; ") + remark_on(argument);
  }
  for (std::size_t i = 0; i < imported.lost; ++i) all += (all.empty() ? "" : "; ") + imported.notes[i];
  return all.empty() ? Status() : bad_input(all);
}

}  // namespace

Result<ImportedRun> read_training_run(const JobOptions& options) {
  const Result<std::string> text = formats::read_file(options.megatron_args, formats::kMostDescriptionBytes);
  if (!text) return text.error();
  Result<formats::ArgumentFile> file = formats::read_arguments(text.value(), options.megatron_args.string());
  if (!file) return file.error();
  estimate::RunHints& hints = file.value().hints;
  if (Status status = choose_accelerator(options, hints.platform); !status) return status.error();
  if (options.world_size > 0) hints.platform.devices = options.world_size;
  Result<ImportedRun> imported = estimate::import_run(file.value().set, hints);
  if (!imported) {
    const std::string& message = imported.error().message;
    const std::string name = options.megatron_args.string();
    const std::vector<std::string>& before = file.value().notes;  // what was left out may be what is missing
    return bad_input(fmt::format("{}{}{}", message.starts_with(name) ? "" : name + ": ", message,
                                 before.empty() ? "" : fmt::format(" ({})", before.front())));
  }
  std::vector<std::string>& notes = imported.value().notes;
  for (std::string& note : notes) note = fmt::format("{}: {}", options.megatron_args.string(), note);
  notes.insert(notes.begin(), file.value().notes.begin(), file.value().notes.end());
  imported.value().lost += file.value().notes.size();
  if (options.world_size == 0) {
    const std::vector<std::string>& devices = file.value().device_notes;
    notes.insert(notes.begin(), devices.begin(), devices.end());
    imported.value().lost += devices.size();
  }
  if (options.accelerator.empty() && options.device.empty())
    notes.push_back(fmt::format("{}: accelerator taken as {}, {}; --accelerator or --device would say",
                                options.megatron_args.string(), formats::accelerator_text(hints.platform.accelerator),
                                hints.platform.accelerator == Accelerator::ascend
                                    ? "since the file speaks of MindSpeed or NPUs"
                                    : "which nothing says"));
  if (options.strict) {
    if (Status status = refuse_not_understood(imported.value()); !status) return status.error();
  }
  return imported;
}

Result<graph_build::JobSpec> job_of(const ImportedRun& imported, const JobOptions& options,
                                    std::vector<std::string>& left_out) {
  const std::string file = options.megatron_args.string();
  if (options.device.empty()) return bad_input("--device is required with --megatron-args: arguments name none");
  Result<estimate::PlannedRun> planned = estimate::to_job(imported.run, options.megatron_args.stem().string());
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

std::vector<std::string> import_remarks(const ImportedRun& imported) {
  std::vector<std::string> remarks;
  for (const JudgedArgument& argument : imported.judged)
    if (argument.standing == Standing::not_understood) remarks.push_back("warning: " + remark_on(argument));
  for (const std::string& note : imported.notes) remarks.push_back("note: " + note);
  return remarks;
}

}  // namespace tidemark::cli
