#include "integrations/formats/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "integrations/formats/frontier_report.h"
#include "integrations/formats/html_text.h"
#include "integrations/formats/job_text.h"
#include "integrations/formats/report_choices.h"
#include "integrations/formats/report_data.h"
#include "integrations/formats/report_page.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

template <class... Args>
void add(std::string& page, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(page), format, std::forward<Args>(args)...);
}

double percent_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

void add_head(std::string& page, const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  const std::string model = html_text(step_name_of(request));
  add(page,
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<title>Memory plan: {}</title>\n<style>{}</style></head>\n<body><main>\n<h1>Memory plan of {}</h1>\n",
      model, std::string(kReportStyle) + std::string(kPictureStyle), model);
  add(page, "<p class=\"soft\">{} on {}<br>{}</p>\n", html_text(layout_text(request)), html_text(request.machine.name),
      html_text(limits_text(request, outcome)));
  add(page, "<div class=\"verdict {}\"><b>{}</b><span>{}</span></div>\n", outcome.fits() ? "good" : "bad",
      outcome.fits() ? "FITS" : "OVER BUDGET", html_text(verdict_text(request, outcome)));
}

void add_problems(std::string& page, const plan::PlanOutcome& outcome) {
  if (outcome.fits()) return;
  page += "<ul class=\"problems\">\n";
  for (const plan::RankPlan& rank : outcome.ranks) {
    const plan::RankFigures& f = rank.figures;
    if (f.fits) continue;
    add(page, "<li>Rank {}: {}", f.rank, html_text(f.reason.empty() ? "does not fit" : f.reason));
    if (const std::string enough = enough_text(f); !enough.empty()) add(page, "; <b>{}</b>", html_text(enough));
    page += ".</li>\n";
  }
  page += "</ul>\n";
}

void add_figure(std::string& page, std::string_view name, const std::string& value, const std::string& note) {
  add(page, "<div class=\"figure\"><span>{}</span><b>{}</b><i>{}</i></div>\n", name, value, note);
}

void add_step(std::string& page, const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  const plan::StepFigures& s = outcome.step;
  page +=
      "<h2>The step, modelled</h2>\n<p class=\"soft\">From an event simulation over the lanes of all pipeline ranks; "
      "no "
      "figure here is measured.</p>\n<div class=\"figures\">\n";
  add_figure(page, "Step time", duration_text(s.step_ns),
             fmt::format("{:+.2f} % on keep-all, {}", percent_of(s.step_ns - s.keep_all_step_ns, s.keep_all_step_ns),
                         duration_text(s.keep_all_step_ns)));
  if (request.step) {
    add_figure(page, "Exposed copies", fmt::format("{:.2f} %", s.exposed_copy_percent), "of the step");
    add_figure(page, "Recompute", fmt::format("{:.2f} %", s.recompute_percent), "of the step");
    page += "</div>\n";
    return;
  }
  add_figure(page, "Tokens per second", count_text(s.tokens_per_s),
             fmt::format("on {} devices", request.job.parallel.devices()));
  add_figure(page, "MFU", fmt::format("{:.2f} %", s.mfu_percent),
             fmt::format("full-square attention; causal {:.2f} %", s.mfu_causal_percent));
  add_figure(page, "Bubble", fmt::format("{:.2f} %", s.bubble_percent), "waiting for other ranks");
  add_figure(page, "Exposed communication", fmt::format("{:.2f} %", s.exposed_communication_percent), "of the step");
  add_figure(page, "Exposed copies", fmt::format("{:.2f} %", s.exposed_copy_percent), "of the step");
  add_figure(page, "Recompute", fmt::format("{:.2f} %", s.recompute_percent), "of the step");
  add_figure(page, "Parameters", count_text(outcome.parameters.total_both),
             count_text(outcome.parameters.active) + " active per token" +
                 (outcome.parameters.total_both > outcome.parameters.total ? ", without the input embedding" : ""));
  page += "</div>\n";
}

/// The rank's peak as a stacked bar on a scale of `full` bytes, with the budget as a line.
std::string peak_bar(const plan::RankPlan& rank, Bytes full) {
  constexpr double kWidth = 170;
  const auto scale = [&](Bytes bytes) { return kWidth * static_cast<double>(bytes) / static_cast<double>(full); };
  std::array<Bytes, kStorageRoleCount> held{};
  Bytes highest = -1;
  for (const auto& bytes : plan::memory_profile(rank.graph, rank.program.schedule).bytes) {
    Bytes sum = 0;
    for (const Bytes b : bytes) sum += b;
    if (sum > highest) {
      highest = sum;
      held = bytes;
    }
  }
  std::string svg = "<svg class=\"bar\" viewBox=\"0 0 170 16\" aria-hidden=\"true\">";
  double x = scale(rank.figures.reserve_bytes);
  add(svg, "<rect class=\"fr\" x=\"0\" y=\"3\" width=\"{:.1f}\" height=\"10\"/>", x);
  for (std::size_t role = 0; role < kStorageRoleCount; ++role) {
    if (held[role] == 0) continue;
    add(svg, "<rect class=\"f{}\" x=\"{:.1f}\" y=\"3\" width=\"{:.1f}\" height=\"10\"/>", role, x, scale(held[role]));
    x += scale(held[role]);
  }
  const double budget = scale(rank.figures.budget_bytes);
  add(svg, "<line class=\"budget\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"16\"/></svg>", budget);
  return svg;
}

void add_rank_row(std::string& page, const plan::RankPlan& rank, Bytes full) {
  const plan::RankFigures& f = rank.figures;
  add(page, "<tr><td>{}</td><td>{:.2f}</td><td class=\"l\">{}</td><td class=\"total\">{}</td><td class=\"{}\">{}</td>",
      f.rank, f.load, peak_bar(rank, full), gib_text(f.peak_bytes), f.fits ? "yes" : "no",
      gib_text(f.budget_bytes - f.peak_bytes));
  for (const Bytes bytes :
       {f.static_bytes, f.activation_peak_bytes, f.reserve_bytes, f.host_bytes, f.swapped_bytes_per_step}) {
    add(page, "<td>{}</td>", gib_text(bytes));
  }
  add(page, "<td class=\"total\">{}</td>", ms_text(f.added_ns));
  for (const std::int64_t ns : {f.paid_ns, f.recompute_ns, f.hidden_recompute_ns, f.exposed_communication_ns,
                                f.exposed_copy_ns, f.copy_overhead_ns, f.lower_bound_ns}) {
    add(page, "<td>{}</td>", ms_text(ns));
  }
  add(page, "<td>{}</td><td class=\"l\">{}</td></tr>\n", any_load_text(f.worst_load_f), html_text(f.peak_op));
}

void add_ranks(std::string& page, const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  Bytes full = device_budget_of(request);
  for (const plan::RankPlan& rank : outcome.ranks) full = std::max(full, rank.figures.peak_bytes);
  page +=
      "<h2>Ranks</h2>\n<p class=\"soft\">Sizes in GiB per device, times in ms per step, modelled. Added time is "
      "recompute "
      "+ repeated communication that stays exposed + exposed copies + what copies take from the compute lane; paid is "
      "what of recomputation and copies lies on the longest path of the step, and hidden what is recomputed while the "
      "lane waits for collectives. The lower "
      "bound is proven: no plan that fits with the same state offloaded adds less. Every step completes at "
      "any expert load up to the last figure, the most that routing can send to one device.</p>\n"
      "<div class=\"scroll\"><table><thead><tr><th>rank</th><th>f</th>"
      "<th class=\"l\">held at the peak<small>red: budget</small></th><th>peak</th><th>spare</th><th>static</th>"
      "<th>activations</th><th>reserve</th><th>host<small>pinned</small></th><th>swapped<small>one way</small></th>"
      "<th>added<small>ms</small></th><th>paid</th><th>recompute</th><th>hidden</th><th>comm</"
      "th><th>copies<small>exposed</small></th>"
      "<th>copies<small>overhead</small></th><th>lower<small>bound, ms</small></th><th>any load<small>up "
      "to</small></th>"
      "<th class=\"l\">peak is at</th></tr></thead><tbody>\n";
  for (const plan::RankPlan& rank : outcome.ranks) add_rank_row(page, rank, full + full / 20);
  page += "</tbody></table></div>\n";
}

void add_offloaded(std::string& page, const plan::PlanOutcome& outcome) {
  const auto offloads = [](const plan::RankPlan& rank) { return rank.figures.offloaded_bytes > 0; };
  if (std::ranges::none_of(outcome.ranks, offloads)) return;
  page +=
      "<h2>Offloaded state</h2>\n<p class=\"soft\">State that rests in pinned host memory between steps and passes "
      "through the device around the ops that touch it. Its bytes are part of host, its time is part of added; "
      "modelled. Initialisation and checkpoints meet no more on the device than is held between steps.</p>\n"
      "<div class=\"scroll\"><table><thead><tr><th>rank</th><th>freed<small>GiB</small></th>"
      "<th>added<small>ms</small></th><th>added<small>ms per GiB</small></th><th>held between "
      "steps<small>GiB</small></th></tr></thead><tbody>\n";
  for (const plan::RankPlan& rank : outcome.ranks) {
    const plan::RankFigures& f = rank.figures;
    if (offloads(rank))
      add(page, "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", f.rank,
          gib_text(f.offloaded_bytes), ms_text(f.offload_ns), ms_per_gib_text(f.offload_ns, f.offloaded_bytes),
          gib_text(f.reserve_bytes + f.static_bytes));
  }
  page += "</tbody></table></div>\n";
}

void add_memory(std::string& page) {
  page +=
      "<h2>Memory over the step</h2>\n<p class=\"soft\">Bytes planned on the device over the modelled step, by "
      "category. "
      "Hover to see the op and the largest holders with their counts in flight; choose a rank below.</p>\n"
      "<div class=\"legend\" id=\"legend\"></div>\n<div class=\"chart\" id=\"chart\"><b id=\"shown\"></b></div>\n"
      "<div class=\"ranks\" id=\"ranks\"></div>\n<noscript><p>The picture needs JavaScript; the figures above do "
      "not.</p></noscript>\n";
}

void add_attempts(std::string& page, const plan::PlanOutcome& outcome) {
  page +=
      "<h2>Layout attempts</h2>\n<p class=\"soft\">What was asked of the policy, the height the addresses came to, and "
      "the load below which no layout can be. Where the height exceeds the budget the target is tightened and the "
      "policy "
      "asked again. GiB, without reserves.</p>\n<div class=\"scroll\"><table><thead><tr><th>rank</th><th>try</th>"
      "<th>target</th><th>height</th><th>load</th><th>height over load</th><th "
      "class=\"l\">packer</th></tr></thead><tbody>\n";
  for (const plan::RankPlan& rank : outcome.ranks) {
    for (std::size_t i = 0; i < rank.attempts.size(); ++i) {
      const plan::PlanAttempt& a = rank.attempts[i];
      add(page,
          "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:+.2f} %</td><td class=\"l\">{}</td></tr>\n",
          rank.figures.rank, i + 1, gib_text(a.target_bytes), gib_text(a.height_bytes), gib_text(a.load_bytes),
          percent_of(a.height_bytes - a.load_bytes, a.load_bytes), html_text(a.packer));
    }
  }
  page += "</tbody></table></div>\n";
}

struct PolicyLine {
  std::ptrdiff_t fitting = 0;
  Bytes peak_bytes = 0, host_bytes = 0, swapped_bytes = 0;
  std::int64_t worst_added_ns = 0, total_added_ns = 0;
};

PolicyLine line_of(const PolicyResult& result) {
  PolicyLine line;
  for (const plan::RankFigures& f : result.ranks) {
    line.fitting += f.fits ? 1 : 0;
    line.peak_bytes = std::max(line.peak_bytes, f.peak_bytes);
    line.host_bytes = std::max(line.host_bytes, f.host_bytes);
    line.swapped_bytes = std::max(line.swapped_bytes, f.swapped_bytes_per_step);
    line.worst_added_ns = std::max(line.worst_added_ns, f.added_ns);
    line.total_added_ns += f.added_ns;
  }
  return line;
}

void add_comparison(std::string& page, std::span<const PolicyResult> comparison) {
  if (comparison.empty()) return;
  page +=
      "<h2>Policies side by side</h2>\n<p class=\"soft\">The same job under each policy. Sizes in GiB, times modelled; "
      "a policy that overflows is shown with what it would need.</p>\n<div class=\"scroll\"><table><thead><tr>"
      "<th class=\"l\">policy</th><th>ranks that fit</th><th>highest peak</th><th>host<small>highest</small></th>"
      "<th>swapped<small>highest, one way</small></th><th>added ms<small>slowest rank</small></th>"
      "<th>added ms<small>all ranks</small></th><th>step</th><th>on keep-all</th><th>MFU</th></tr></thead><tbody>\n";
  for (const PolicyResult& result : comparison) {
    const PolicyLine line = line_of(result);
    const auto ranks = static_cast<std::ptrdiff_t>(result.ranks.size());
    const plan::StepFigures& s = result.step;
    add(page,
        "<tr><td class=\"l\">{}</td><td class=\"{}\">{} of "
        "{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td>{:+.2f} %</td><td>{:.2f} %</td></tr>\n",
        html_text(result.policy), line.fitting == ranks ? "yes" : "no", line.fitting, ranks, gib_text(line.peak_bytes),
        gib_text(line.host_bytes), gib_text(line.swapped_bytes), ms_text(line.worst_added_ns),
        ms_text(line.total_added_ns), duration_text(s.step_ns),
        percent_of(s.step_ns - s.keep_all_step_ns, s.keep_all_step_ns), s.mfu_percent);
  }
  page += "</tbody></table></div>\n";
}

}  // namespace

std::string report_html(const plan::PlanRequest& request, const plan::PlanOutcome& outcome,
                        std::span<const PolicyResult> comparison, std::span<const plan::BudgetPoint> frontier) {
  std::string page;
  add_head(page, request, outcome);
  add_problems(page, outcome);
  add_step(page, request, outcome);
  add_ranks(page, request, outcome);
  add_offloaded(page, outcome);
  add_memory(page);
  page += pipeline_section();
  page += address_section();
  page += choices_html(request, outcome);
  page += frontier_html(frontier, plan::budget_of(request));
  add_comparison(page, comparison);
  add_attempts(page, outcome);
  page +=
      "<footer>Made by Tidemark. Binary units: 1 GiB = 1024 MiB. All times are modelled from the device description, "
      "none measured.</footer>\n</main>\n";
  page += "<script type=\"application/json\" id=\"data\">" + script_text(report_data(outcome)) + "</script>\n";
  // Each its own element, so that a failure of one leaves the others.
  for (const std::string_view script : {kPictureScript, kReportScript, kPipelineScript, kAddressScript})
    add(page, "<script>{}</script>\n", script);
  page += "</body></html>\n";
  return page;
}

}  // namespace tidemark::formats
