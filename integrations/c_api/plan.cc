// Plans of the C interface: reading, figures, budget, and running a rank.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/fingerprint.h"
#include "integrations/c_api/handles.h"
#include "integrations/c_api/sound_rank.h"
#include "integrations/c_api/structs.h"
#include "integrations/formats/file.h"
#include "integrations/formats/outcome_json.h"
#include "integrations/formats/plan_restore.h"
#include "planner/budget_check.h"
#include "swap/executor.h"

using namespace tidemark;         // NOLINT: the functions below have the C interface's names
using namespace tidemark::c_api;  // NOLINT

namespace {

constexpr std::int32_t kMostSteps = 1 << 20;
constexpr std::int64_t kMostScale = 1 << 20;  // the executor says what the plan's alignment allows

Outcome read_text(std::string_view text, std::string name, tidemark_plan** plan) {
  Result<formats::PlanFile> file = formats::read_plan_file(text, name);
  if (!file) return outcome_of(file.error());
  *plan = new tidemark_plan{.file = std::move(file).value(), .name = std::move(name)};
  return {};
}

/// Runs `body(const PlanFile::Rank&)` on the rank at a position.
template <class Body>
tidemark_status on_rank(const tidemark_plan* plan, int32_t position, tidemark_error** error, Body body) noexcept {
  return guarded(error, [&]() -> Outcome {
    const formats::PlanFile::Rank* rank = nullptr;
    if (Outcome o = rank_at(plan, position, rank); !o.ok()) return o;
    return body(*rank);
  });
}

tidemark_rank_figures to_c(const plan::RankFigures& f) {
  return {.struct_size = 0,
          .rank = f.rank,
          .fits = f.fits ? 1 : 0,
          .load = f.load,
          .worst_load_f = f.worst_load_f,
          .budget_bytes = f.budget_bytes,
          .peak_bytes = f.peak_bytes,
          .reserve_bytes = f.reserve_bytes,
          .static_bytes = f.static_bytes,
          .activation_peak_bytes = f.activation_peak_bytes,
          .host_bytes = f.host_bytes,
          .swapped_bytes_per_step = f.swapped_bytes_per_step,
          .recompute_ns = f.recompute_ns,
          .added_ns = f.added_ns,
          .offloaded_bytes = f.offloaded_bytes,
          .offload_ns = f.offload_ns};
}

tidemark_run_report to_c(const swap::RunReport& r) {
  const auto in_chunks = [](const swap::SectionRecord& section) { return section.chunks > 1; };
  return {.struct_size = 0,
          .rank = r.rank,
          .simulated = r.simulated ? 1 : 0,
          .tasks = r.tasks,
          .step_ns = r.step_ns,
          .planned_bytes = r.planned_bytes,
          .peak_bytes = r.peak_bytes,
          .mapped_bytes = r.mapped_bytes,
          .host_peak_bytes = r.host_peak_bytes,
          .pinned_bytes = r.pinned_bytes,
          .copied_out_bytes = r.out.bytes,
          .copied_in_bytes = r.in.bytes,
          .chunked_sections = std::ranges::count_if(r.sections, in_chunks),
          .verified_reads = r.verified_reads,
          .mismatches = r.mismatches};
}

tidemark_budget_result to_c(const plan::BudgetCheck& check, const plan::RankFigures& worst) {
  return {.struct_size = 0,
          .verdict = check.verdict == plan::BudgetVerdict::pass   ? TIDEMARK_BUDGET_PASS
                     : check.verdict == plan::BudgetVerdict::near ? TIDEMARK_BUDGET_NEAR
                                                                  : TIDEMARK_BUDGET_FAIL,
          .position = static_cast<int32_t>(check.worst),
          .host = check.host ? 1 : 0,
          .reserved = 0,
          .budget_bytes = check.budget_bytes,
          .peak_bytes = check.host ? worst.host_bytes : worst.peak_bytes};
}

Outcome check_options(const tidemark_run_options& o) {
  if (Outcome out =
          check_numbers("tidemark_run_options", {{.name = "scale", .value = o.scale, .least = 1, .most = kMostScale},
                                                 {.name = "steps", .value = o.steps, .least = 1, .most = kMostSteps}});
      !out.ok())
    return out;
  if (o.sent_load != nullptr && o.load == nullptr)
    return invalid("tidemark_run_options: sent_load is asked with load, which is not set");
  if (o.expert_group != nullptr && (o.agree != nullptr || o.leave != nullptr))
    return invalid("tidemark_run_options: expert_group stands in the place of agree and leave; set one or the other");
  if ((o.scale & (o.scale - 1)) == 0) return {};
  return invalid("tidemark_run_options: scale is " + std::to_string(o.scale) + "; it must be a power of two");
}

Outcome check_options(const tidemark_budget_options& o) {
  return check_numbers("tidemark_budget_options",
                       {{.name = "budget_bytes", .value = o.budget_bytes, .least = 1, .most = kMostBytes},
                        {.name = "host_budget_bytes", .value = o.host_budget_bytes, .least = 1, .most = kMostBytes},
                        {.name = "margin_bytes", .value = o.margin_bytes, .least = 0, .most = kMostBytes}});
}

/// This rank's seat in its expert group. A run that does not end well leaves it, whatever ended it, an exception too:
/// others may wait for this rank's answer.
class GroupSeat {
 public:
  GroupSeat(const tidemark_run_options& options, std::int32_t group) : options_(options), group_(group) {}
  ~GroupSeat() { leave(); }
  GroupSeat(const GroupSeat&) = delete;
  GroupSeat& operator=(const GroupSeat&) = delete;

  void leave() {
    if (done_) return;
    done_ = true;
    if (options_.agree != nullptr && options_.leave != nullptr) options_.leave(options_.user, group_);
    if (options_.expert_group != nullptr) options_.expert_group->group->seat().leave();
  }
  void run_ended_well() { done_ = true; }

  /// This rank's turns; `plan` is the fingerprint of what it runs. REQUIRES: it has a group.
  swap::Agree turns(std::uint64_t plan) {
    return [this, plan](std::int32_t group, std::int32_t section, swap::ChunkWish wish) {
      Result<std::int32_t> told = ask({.place = {.group = group, .section = section, .plan = plan},
                                       .wanted = wish.wanted ? 1 : 0,
                                       .chunks = wish.chunks});
      is_lost_ = !told;
      return told;
    };
  }

  /// What a failure of this rank's run comes to.
  [[nodiscard]] Outcome outcome_of_failure(const Error& error) const {
    if (is_lost_) return {.status = TIDEMARK_STATUS_PEER_LOST, .text = error.message};
    return outcome_of(error);
  }

 private:
  [[nodiscard]] Result<std::int32_t> ask(const agreement::Ask& ask) const {
    if (options_.expert_group != nullptr) return options_.expert_group->group->seat().ask(ask);
    const std::int32_t told = options_.agree(options_.user, ask.place.group, ask.place.section, ask.wanted, ask.chunks);
    if (told < 0) return infeasible("the expert group is lost");
    return told;
  }

  const tidemark_run_options& options_;
  std::int32_t group_;
  bool done_ = false;
  bool is_lost_ = false;  ///< the last turn has found no group any more
};

/// What all ranks of an expert group must have alike.
std::uint64_t plan_fingerprint(const Program& program) {
  const std::uint64_t both = fingerprint(program.schedule) ^ program.graph_fingerprint;
  return both == 0 ? 1 : both;  // 0: not told
}

/// `seat` outlives what runs by them.
swap::RunOptions options_of(const tidemark_run_options& o, const Program& program, GroupSeat& seat) {
  swap::RunOptions options{.scale = std::max<std::int64_t>(1, o.scale), .verify = o.verify != 0};
  if (o.load != nullptr) {
    options.load = [load = o.load, sent = o.sent_load, user = o.user](SiteId id) {
      const auto site = static_cast<int32_t>(id);
      return SiteLoad(load(user, site), sent == nullptr ? 1 : sent(user, site));
    };
  }
  if (o.agree != nullptr || o.expert_group != nullptr) options.agree = seat.turns(plan_fingerprint(program));
  options.leave = [&seat](std::int32_t) { seat.leave(); };
  return options;
}

Outcome run(const plan::RankPlan& rank, Device& device, const tidemark_run_options& o, GroupSeat& seat,
            swap::RunReport& report) {
  swap::RunOptions options = options_of(o, rank.program, seat);
  Result<std::unique_ptr<swap::Executor>> executor = swap::Executor::open(rank.program, device, std::move(options));
  if (!executor) return outcome_of(executor.error());
  for (std::int32_t step = 0; step < std::max(1, o.steps); ++step) {
    if (Status s = executor.value()->issue(); !s) return seat.outcome_of_failure(s.error());
    Result<swap::RunReport> finished = executor.value()->finish();
    if (!finished) return outcome_of(finished.error());
    report = std::move(finished).value();
  }
  return {};
}

}  // namespace

extern "C" {

tidemark_status tidemark_plan_read(const char* path, tidemark_plan** plan, tidemark_error** error) noexcept {
  if (plan != nullptr) *plan = nullptr;
  return guarded(error, [&]() -> Outcome {
    if (path == nullptr) return invalid("path is NULL");
    if (plan == nullptr) return invalid("plan is NULL");
    const Result<std::string> text = formats::read_file(path, formats::kMostPlanFileBytes);
    if (!text) return outcome_of(text.error());
    return read_text(text.value(), path, plan);
  });
}

tidemark_status tidemark_plan_read_text(const char* text, int64_t bytes, const char* name, tidemark_plan** plan,
                                        tidemark_error** error) noexcept {
  if (plan != nullptr) *plan = nullptr;
  return guarded(error, [&]() -> Outcome {
    if (text == nullptr) return invalid("text is NULL");
    if (plan == nullptr) return invalid("plan is NULL");
    if (bytes < 0) return invalid("bytes is negative");
    return read_text({text, static_cast<std::size_t>(bytes)}, name == nullptr ? "plan" : name, plan);
  });
}

void tidemark_plan_free(tidemark_plan* plan) noexcept {
  delete plan;
}

tidemark_status tidemark_plan_rank_count(const tidemark_plan* plan, int32_t* count, tidemark_error** error) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (plan == nullptr) return invalid("plan is NULL");
    if (count == nullptr) return invalid("count is NULL");
    *count = static_cast<int32_t>(plan->file.ranks.size());
    return {};
  });
}

tidemark_status tidemark_plan_rank_figures(const tidemark_plan* plan, int32_t position, tidemark_rank_figures* figures,
                                           tidemark_error** error) noexcept {
  return on_rank(plan, position, error, [&](const formats::PlanFile::Rank& rank) {
    return write_result(to_c(rank.figures), "figures", figures);
  });
}

tidemark_status tidemark_plan_answer(const tidemark_plan* plan, tidemark_buffer** answer,
                                     tidemark_error** error) noexcept {
  if (answer != nullptr) *answer = nullptr;
  return guarded(error, [&]() -> Outcome {
    if (plan == nullptr) return invalid("plan is NULL");
    if (answer == nullptr) return invalid("answer is NULL");
    const Result<plan::PlanOutcome> outcome = formats::restore_outcome(plan->file, {}, plan->name);
    if (!outcome) return outcome_of(outcome.error());
    *answer = new tidemark_buffer{
        .bytes = formats::plan_json(formats::request_of(plan->file), outcome.value(), /*seconds=*/0)};
    return {};
  });
}

tidemark_status tidemark_plan_check_budget(const tidemark_plan* plan, const tidemark_budget_options* options,
                                           tidemark_budget_result* result, tidemark_error** error) noexcept {
  return guarded(error, [&]() -> Outcome {
    if (plan == nullptr) return invalid("plan is NULL");
    tidemark_budget_options known;
    if (Outcome o = read_options(options, "tidemark_budget_options", known); !o.ok()) return o;
    if (Outcome o = check_options(known); !o.ok()) return o;
    if (plan->file.ranks.empty()) return invalid("the plan has no ranks");
    std::vector<plan::RankFigures> figures;
    for (const formats::PlanFile::Rank& rank : plan->file.ranks) figures.push_back(rank.figures);
    const Bytes budget = known.budget_bytes > 0 ? known.budget_bytes : figures.front().budget_bytes;
    std::optional<plan::BudgetLimit> host;
    if (known.host_budget_bytes > 0)
      host = {.budget_bytes = known.host_budget_bytes, .margin_bytes = known.margin_bytes};
    const plan::BudgetCheck check =
        plan::check_budget(figures, {.budget_bytes = budget, .margin_bytes = known.margin_bytes}, host);
    return write_result(to_c(check, figures[check.worst]), "result", result);
  });
}

tidemark_status tidemark_plan_run_rank(const tidemark_plan* plan, int32_t position, tidemark_device* device,
                                       const tidemark_run_options* options, tidemark_run_report* report,
                                       tidemark_error** error) noexcept {
  return on_rank(plan, position, error, [&](const formats::PlanFile::Rank& rank) -> Outcome {
    if (device == nullptr) return invalid("device is NULL");
    tidemark_run_options known;
    if (Outcome o = read_options(options, "tidemark_run_options", known); !o.ok()) return o;
    if (Outcome o = check_options(known); !o.ok()) return o;
    // Whether the report can be written is seen before a step is run.
    if (Outcome o = check_result(report, "report"); !o.ok()) return o;
    GroupSeat seat(known, rank.figures.rank);
    Result<std::unique_ptr<plan::RankPlan>> sound = sound_rank(*plan, rank);
    if (!sound) return outcome_of(sound.error());
    swap::RunReport ran;
    if (Outcome o = run(*sound.value(), *device->device, known, seat, ran); !o.ok()) return o;
    seat.run_ended_well();
    return write_result(to_c(ran), "report", report);
  });
}

}  // extern "C"
