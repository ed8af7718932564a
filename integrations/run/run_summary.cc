#include "integrations/run/run_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "device/sim_world.h"
#include "integrations/formats/text_table.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::run {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostListed = 5;

double to_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

/// null where there is none: 0 would read as a time.
Json optional_ms(const std::optional<std::int64_t>& ns) {
  return ns ? Json(to_ms(*ns)) : Json();
}

Bytes scaled_plan_peak(const RunOutcome& run, const RankOutcome& rank) {
  return (rank.plan_peak_bytes - rank.reserve_bytes + run.ask.scale - 1) / run.ask.scale;
}

bool randomised(const RunOutcome& run) {
  return run.simulated && (run.ask.seed != 0 || run.ask.schedules > 1);
}

/// What a seed changes, in the simulator's own figures.
std::string schedules_text(const RunOutcome& run) {
  const SimSchedule schedule;
  std::string text = fmt::format(
      "durations randomised by seed: each {} to {} times its estimate (log-uniform), one in {:.0f} stalls for up to {} "
      "more, host threads pause at random; ",
      schedule.shortest, schedule.longest, 1 / schedule.stall_probability, formats::duration_text(schedule.stall_ns));
  if (run.ask.seed == 0) return text + "seed 0, whose times are shown, is as estimated\n";
  return text + fmt::format("times shown are of seed {}\n", run.ask.seed);
}

std::string head_text(const RunOutcome& run) {
  std::string text = fmt::format("device {} ({})", run.device, run.product);
  text += run.ask.scale == 1 ? ", true sizes" : fmt::format(", sizes 1/{}", run.ask.scale);
  if (run.ask.verify) text += ", contents checked";
  if (run.ask.schedules > 1)
    text += fmt::format(", {} schedules from seed {}", run.ask.schedules, run.ask.seed);
  else if (run.ask.seed != 0)
    text += fmt::format(", schedule of seed {}", run.ask.seed);
  text += "\n";
  if (randomised(run)) text += schedules_text(run);
  if (!run.simulated)
    return text +
           fmt::format(
               "longest rank {} (measured: each alone, copies and checks as fast as they go, no kernels); the plan "
               "models a step of {} with kernels, which is another quantity\n",
               formats::duration_text(run.step_ns), formats::duration_text(run.plan_step_ns));
  if (!run.matched)
    return text + fmt::format(
                      "step {} (simulated, without waiting for messages of other ranks); the plan's step of {} "
                      "(modelled) has such waits in it\n",
                      formats::duration_text(run.step_ns), formats::duration_text(run.plan_step_ns));
  text += fmt::format("step {} (simulated, all ranks in one time), {} in the plan (modelled)",
                      formats::duration_text(run.step_ns), formats::duration_text(run.plan_step_ns));
  if (run.matched && run.ask.seed == 0 && run.plan_step_ns > 0)
    text += fmt::format(", {:+.2f} %", 100.0 * static_cast<double>(run.step_ns - run.plan_step_ns) /
                                           static_cast<double>(run.plan_step_ns));
  return text + "\n";
}

/// GiB, or MiB where sizes were divided: two decimals would show nothing.
struct SizeUnit {
  bool mib = false;
  [[nodiscard]] const char* name() const { return mib ? "MiB" : "GiB"; }
  [[nodiscard]] std::string text(Bytes bytes) const {
    return mib ? fmt::format("{:.2f}", static_cast<double>(bytes) / static_cast<double>(kMiB))
               : formats::gib_text(bytes);
  }
};

std::string rank_table(const RunOutcome& run) {
  const SizeUnit unit{.mib = run.ask.scale > 1};
  const auto sized = [&](std::string_view what) { return fmt::format("{} {}", what, unit.name()); };
  std::vector<std::string> head = {"rank",        "tasks",       sized("taken"),  sized("extent"),
                                   sized("plan"), sized("host"), "copies",        fmt::format("{} out", unit.name()),
                                   "step ms",     "plan ms",     "copy stall ms", "mismatches"};
  if (run.simulated) head.push_back("races");
  formats::TextTable table(std::move(head));
  for (const RankOutcome& rank : run.ranks) {
    const swap::RunReport& r = rank.report;
    std::vector<std::string> cells = {fmt::format("{}", r.rank),
                                      fmt::format("{}", r.tasks),
                                      unit.text(rank.taken_bytes),
                                      unit.text(r.peak_bytes),
                                      unit.text(scaled_plan_peak(run, rank)),
                                      unit.text(r.host_peak_bytes),
                                      fmt::format("{}", r.out.copies + r.in.copies),
                                      unit.text(r.out.bytes),
                                      formats::ms_text(r.step_ns),
                                      rank.plan_step_ns ? formats::ms_text(*rank.plan_step_ns) : "-",
                                      run.simulated ? formats::ms_text(rank.copy_stall_ns) : "-",
                                      run.ask.verify ? fmt::format("{}", r.mismatches) : "-"};
    if (run.simulated) cells.push_back(fmt::format("{}", rank.races));
    table.add(std::move(cells));
  }
  return fmt::format(
      "\nRanks (taken is what the device gave, extent the highest byte touched, reserves not included; step {}, plan "
      "modelled)\n{}",
      run.simulated ? "simulated" : "measured", table.text());
}

std::string load_text(const RunOutcome& run) {
  std::string text;
  for (const RankOutcome& rank : run.ranks) {
    const swap::RunReport& r = rank.report;
    if (r.oversized.empty() && r.sections.empty()) continue;
    text += fmt::format("  rank {}: {} storages beside their slots, at most {} of the dynamic region", r.rank,
                        r.oversized.size(), format_bytes(r.extra_peak_bytes));
    if (!r.spills.empty()) text += fmt::format(", {} spilled to the host", r.spills.size());
    if (!r.sections.empty()) {
      std::int32_t most = 0;
      for (const swap::SectionRecord& s : r.sections) most = std::max(most, s.chunks);
      text += fmt::format(", {} sections in up to {} chunks", r.sections.size(), most);
    }
    text += "\n";
  }
  return text.empty() ? "" : "\nExpert load above the plan\n" + text;
}

/// Each warning once, with the ranks it is about.
std::string warning_text(const RunOutcome& run) {
  std::vector<std::pair<std::string, std::vector<std::int32_t>>> warnings;
  for (const RankOutcome& rank : run.ranks)
    for (const swap::RunWarning& w : rank.report.warnings) {
      auto found =
          std::find_if(warnings.begin(), warnings.end(), [&](const auto& known) { return known.first == w.text; });
      if (found == warnings.end()) found = warnings.insert(warnings.end(), {w.text, {}});
      found->second.push_back(rank.report.rank);
    }
  std::string text;
  for (const auto& [what, ranks] : warnings)
    text += fmt::format("WARNING ranks {}: {}\n", formats::ranges_text(ranks), what);
  return text.empty() ? "" : "\n" + text;
}

std::string problem_text(const RunOutcome& run) {
  if (run.problems.empty()) return "\nOK\n";
  const std::size_t count = run.problems.size();
  std::string text = fmt::format("\nFAIL: {} problem{}\n", count, count == 1 ? "" : "s");
  for (std::size_t i = 0; i < std::min(kMostListed, count); ++i) text += "  " + run.problems[i] + "\n";
  if (count > kMostListed) text += fmt::format("  and {} more; --format json lists all\n", count - kMostListed);
  return text;
}

Json copies_json(const swap::CopyFigures& figures) {
  return {{"copies", figures.copies}, {"bytes", figures.bytes}, {"pieces", figures.pieces}};
}

Json section_json(const swap::SectionRecord& s) {
  return {{"section", s.section},    {"site", static_cast<std::int32_t>(s.site)},
          {"load", s.load.received}, {"sent_load", s.load.sent},
          {"chunks", s.chunks},      {"wanted", s.wanted}};
}

Json rank_json(const RunOutcome& run, const RankOutcome& rank) {
  const swap::RunReport& r = rank.report;
  Json json{{"rank", r.rank},
            {"tasks", r.tasks},
            {"taken_bytes", rank.taken_bytes},
            {"allowed_bytes", rank.allowed_bytes},
            {"planned_extent_bytes", r.peak_bytes},
            {"plan_bytes", scaled_plan_peak(run, rank)},
            {"mapped_bytes", r.mapped_bytes},
            {"extra_peak_bytes", r.extra_peak_bytes},
            {"host_peak_bytes", r.host_peak_bytes},
            {"pinned_bytes", r.pinned_bytes},
            {"out", copies_json(r.out)},
            {"in", copies_json(r.in)},
            {"step_ms", to_ms(r.step_ns)},
            {"plan_step_ms", optional_ms(rank.plan_step_ns)},
            {"events", r.events_peak},
            {"waits", r.waits},
            {"waits_implied", r.waits_implied},
            {"oversized", r.oversized.size()},
            {"spills", r.spills.size()}};
  if (run.simulated) {
    json["copy_stall_ms"] = to_ms(rank.copy_stall_ns);
    json["plan_copy_stall_ms"] = optional_ms(rank.plan_copy_stall_ns);
    json["races"] = rank.races;
  }
  if (run.ask.verify) {
    json["verified_reads"] = r.verified_reads;
    json["mismatches"] = r.mismatches;
  }
  json["sections"] = Json::array();
  for (const swap::SectionRecord& s : r.sections) json["sections"].push_back(section_json(s));
  json["warnings"] = Json::array();
  for (const swap::RunWarning& w : r.warnings) json["warnings"].push_back(w.text);
  return json;
}

}  // namespace

std::string run_text(const RunOutcome& run) {
  return head_text(run) + rank_table(run) + load_text(run) + warning_text(run) + problem_text(run);
}

std::string run_json(const RunOutcome& run) {
  Json json{{"verdict", run.problems.empty() ? "OK" : "FAIL"},
            {"device", run.device},
            {"product", run.product},
            {"time_is", run.simulated ? "simulated" : "measured"},
            {"scale", run.ask.scale},
            {"verify", run.ask.verify},
            {"schedules", run.ask.schedules},
            {"seed", run.ask.seed},
            {"durations", !run.simulated    ? "real"
                          : randomised(run) ? "randomised"
                                            : "as estimated"},
            {"messages_matched", run.matched},
            {"step_ms", to_ms(run.step_ns)},
            {"plan_step_ms", to_ms(run.plan_step_ns)}};
  json["ranks"] = Json::array();
  for (const RankOutcome& rank : run.ranks) json["ranks"].push_back(rank_json(run, rank));
  json["problems"] = run.problems;
  return json.dump(2) + "\n";
}

}  // namespace tidemark::run
