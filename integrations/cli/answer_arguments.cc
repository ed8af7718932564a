// What a framework's own run holds: launch scripts and configuration files.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "integrations/cli/answered_job.h"
#include "integrations/cli/argument_job.h"
#include "integrations/cli/console.h"
#include "integrations/cli/input_hashes.h"
#include "integrations/cli/locations.h"
#include "integrations/configs/config_kind.h"
#include "integrations/configs/own_keys.h"
#include "integrations/formats/file.h"
#include "integrations/formats/key_places.h"
#include "integrations/formats/rank_memory_report.h"
#include "planner/estimate/flag_remedy.h"
#include "planner/estimate/run_holdings.h"

namespace tidemark::cli {
namespace {

using configs::ConfigKind;

ConfigKind config_kind_of(ci::JobKind kind) {
  switch (kind) {
    case ci::JobKind::bridge:
      return ConfigKind::bridge;
    case ci::JobKind::torchtitan:
      return ConfigKind::torchtitan;
    case ci::JobKind::mindformers:
      return ConfigKind::mindformers;
    default:
      return ConfigKind::other;
  }
}

/// A file that was said to be of one kind and is of another.
Status refuse_other_kind(const JobFile& file) {
  const std::filesystem::path& path = file.options.megatron_args;
  const Result<std::string> text = formats::read_file(path, formats::kMostDescriptionBytes);
  if (!text) return text.error();
  const ConfigKind wanted = config_kind_of(file.kind), is = configs::kind_of(text.value(), path.string());
  if (wanted == is) return {};
  constexpr std::array<std::string_view, 4> names = {"a Megatron-Bridge configuration", "a torchtitan configuration",
                                                     "a MindFormers configuration", "a launch script or its arguments"};
  return bad_input(fmt::format("{}:1: is {}, where {} is wanted", path.string(), names[static_cast<std::size_t>(is)],
                               names[static_cast<std::size_t>(wanted)]));
}

/// `model.num_layers: 61`, or ` = ` as TOML has it.
std::string text_of_key(const estimate::JudgedArgument& argument, ci::JobKind kind) {
  if (argument.said.empty()) return argument.key;
  return argument.key + (kind == ci::JobKind::torchtitan ? " = " : ": ") + formats::short_value(argument.said);
}

/// Of a configuration file: its keys, by the argument that each decides.
estimate::ArgumentPlaces places_of_keys(const estimate::ImportedRun& imported, ci::JobKind kind) {
  estimate::ArgumentPlaces places;
  for (const estimate::JudgedArgument& argument : imported.judged) {
    if (argument.standing != estimate::Standing::used || argument.key.empty()) continue;
    const std::size_t colon = argument.place.rfind(':');
    budget::Control control{.file = argument.place.substr(0, colon), .line = 0, .text = text_of_key(argument, kind)};
    if (colon != std::string::npos)
      std::from_chars(argument.place.data() + colon + 1, argument.place.data() + argument.place.size(), control.line);
    if (const std::string_view alike = configs::argument_like(argument.key); !alike.empty())
      places.try_emplace(std::string(alike), control);
    places.insert_or_assign(argument.name, std::move(control));
  }
  return places;
}

Result<std::vector<ci::InputHash>> hashes_of(const JobOptions& options, const TrainingJob& training) {
  RoleFiles files = {{"arguments", options.megatron_args}, {"calibration", options.calibration}};
  for (const std::filesystem::path& path : training.sourced) files.emplace_back("sourced", path);
  if (!options.device.empty()) {
    const Result<std::filesystem::path> device = find_device(options.device, options.megatron_args);
    if (!device) return bad_input("--device: " + device.error().message);
    files.emplace_back("device", device.value());
  }
  return hash_inputs(files);
}

/// A flag that the script does not give belongs behind its arguments: at the line of the last of them.
void place_new_flags(const estimate::ArgumentPlaces& places, budget::Remedy& remedy) {
  budget::Control last;
  for (const auto& [name, control] : places)
    if (control.text.starts_with("--") && control.line > last.line) last = control;
  for (budget::Edit& edit : remedy.edits) {
    if (!edit.where.file.empty()) continue;
    edit.where.file = last.file;
    edit.where.line = last.line;
  }
}

/// What is not given is said in the words of a launch script, which a configuration file does not use.
void drop_what_is_not_given(budget::Holdings& holdings) {
  for (budget::RankHoldings& rank : holdings.ranks)
    for (budget::HeldStorage& storage : rank.storages)
      std::erase_if(storage.controls, [](const budget::Control& control) { return control.file.empty(); });
}

/// Flags in the words of a launch script: what a configuration file would say instead is not looked for.
void put_remedy(const JobOptions& options, std::shared_ptr<const ArgumentJob> job, estimate::ArgumentPlaces places,
                AnsweredJob& answered) {
  answered.find_remedy = [options, job = std::move(job), places = std::move(places)](
                             const std::vector<budget::Limit>& limits) -> Result<budget::Remedy> {
    const Result<Chip> chip = chip_of(options, job->training.imported.run.platform.accelerator);
    if (!chip) return chip.error();
    Result<budget::Remedy> remedy = estimate::cheapest_flags({.set = job->training.set,
                                                              .hints = job->training.hints,
                                                              .knobs = job->knobs,
                                                              .limits = limits,
                                                              .places = places,
                                                              .chip = chip.value()});
    if (remedy) place_new_flags(places, remedy.value());
    return remedy;
  };
}

}  // namespace

Result<AnsweredJob> answer_arguments(const JobFile& file, const Console& console) {
  if (Status status = refuse_other_kind(file); !status) return status.error();
  Result<ArgumentJob> read = read_argument_job(file.options);
  if (!read) return read.error();
  const auto job = std::make_shared<const ArgumentJob>(std::move(read).value());
  const estimate::ImportedRun& imported = job->training.imported;
  for (const std::string& remark : import_remarks(imported)) console.note(remark);
  const std::string name = file.options.megatron_args.string();
  const bool is_script = file.kind == ci::JobKind::script;
  estimate::ArgumentPlaces places =
      is_script ? estimate::places_of(job->training.set) : places_of_keys(imported, file.kind);
  Result<budget::Holdings> holdings = estimate::run_holdings(
      imported, job->knobs, places,
      fmt::format("{} on {}", name, formats::accelerator_text(imported.run.platform.accelerator)));
  if (!holdings) return bad_input(fmt::format("{}: {}", name, holdings.error().message));
  Result<std::optional<DeviceRoom>> room = device_room(file.options);
  if (!room) return room.error();
  Result<std::vector<ci::InputHash>> hashes = hashes_of(file.options, job->training);
  if (!hashes) return hashes.error();

  AnsweredJob answered;
  answered.holdings = std::move(holdings).value();
  answered.holdings.doubts = doubts_of(imported);
  answered.holdings.settings = estimate::settings_of(places);
  answered.holdings.notes.insert(answered.holdings.notes.begin(), answered.holdings.doubts.begin(),
                                 answered.holdings.doubts.end());
  for (const std::string& note : job->notes) answered.holdings.notes.push_back(note);
  answered.inputs = std::move(hashes).value();
  if (room.value()) {
    answered.device_capacity_bytes = room.value()->visible_bytes;
    answered.device_reserve_bytes = room.value()->reserve_bytes;
  }
  if (is_script) {
    put_remedy(file.options, job, std::move(places), answered);
  } else {
    drop_what_is_not_given(answered.holdings);
    answered.why_no_remedy =
        "no change is looked for in configuration files of this kind; the keys beside the largest storages decide them";
  }
  return answered;
}

}  // namespace tidemark::cli
