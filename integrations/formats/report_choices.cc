#include "integrations/formats/report_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "integrations/formats/decision_table.h"
#include "integrations/formats/html_text.h"
#include "integrations/formats/unit_text.h"

namespace tidemark::formats {
namespace {

template <class... Args>
void add(std::string& page, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(page), format, std::forward<Args>(args)...);
}

/// A column of the map: one layer of one rank, or a block outside layers.
struct Place {
  std::int32_t rank = 0;
  std::int32_t chunk = 0;
  std::int32_t layer = -1;
  std::string block;  ///< outside layers only
  friend auto operator<=>(const Place&, const Place&) = default;
};

Place place_of(const DecisionCell& cell) {
  return {.rank = cell.rank, .chunk = cell.chunk, .layer = cell.layer, .block = cell.layer < 0 ? cell.block : ""};
}

/// What a rank's decisions free at its keep-all peak, by how.
struct RankGain {
  Bytes recomputed_bytes = 0, swapped_bytes = 0;
};

std::map<std::int32_t, RankGain> gains_of(const std::vector<DecisionRow>& rows) {
  std::map<std::int32_t, RankGain> gains;
  for (const DecisionRow& decision : rows) {
    for (const DecisionCell& cell : decision.cells) {
      if (cell.moved() == 0) continue;
      // A cell that is recomputed for some micro-batches and swapped for others is shared in that proportion.
      const Bytes swapped = cell.freed_at_peak_bytes * cell.swapped / (cell.swapped + cell.recomputed);
      gains[cell.rank].swapped_bytes += swapped;
      gains[cell.rank].recomputed_bytes += cell.freed_at_peak_bytes - swapped;
    }
  }
  return gains;
}

void add_reasons(std::string& page, const plan::PlanOutcome& outcome, const std::vector<DecisionRow>& rows) {
  page +=
      "<div class=\"scroll\"><table><thead><tr><th>rank</th><th>everything kept<small>needs, GiB</small></th>"
      "<th>over budget<small>GiB</small></th><th>freed by recompute<small>at that peak, GiB</small></th>"
      "<th>freed by swap<small>at that peak, GiB</small></th><th>price<small>ms per step</small></th>"
      "<th>proven bound<small>ms per step</small></th><th>price over bound</th><th class=\"l\">keep-all peak is at</th>"
      "</tr></thead><tbody>\n";
  std::map<std::int32_t, RankGain> gains = gains_of(rows);
  for (const plan::RankPlan& rank : outcome.ranks) {
    const plan::RankFigures& f = rank.figures;
    const Bytes kept = rank.liveness.peak_bytes + f.reserve_bytes;
    const RankGain gain = gains[f.rank];
    const std::string over = kept > f.budget_bytes ? gib_text(kept - f.budget_bytes) : "fits";
    const std::string excess =
        f.lower_bound_ns > 0 ? fmt::format("{:+.1f} %", 100.0 * static_cast<double>(f.added_ns - f.lower_bound_ns) /
                                                            static_cast<double>(f.lower_bound_ns))
                             : std::string("-");
    const std::string op =
        rank.liveness.peak_op == kNone<OpId> ? "" : rank.graph.template_of(rank.liveness.peak_op).name;
    add(page,
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"total\">{}</td><td>{}</td><td>{}</td>"
        "<td class=\"l\">{}</td></tr>\n",
        f.rank, gib_text(kept), over, gib_text(gain.recomputed_bytes), gib_text(gain.swapped_bytes),
        ms_text(f.added_ns), ms_text(f.lower_bound_ns), excess, html_text(op));
  }
  page += "</tbody></table></div>\n";
}

void add_map_head(std::string& page, const std::vector<Place>& places) {
  page += "<tr><th class=\"name\"></th>";
  for (std::size_t i = 0; i < places.size();) {
    std::size_t end = i;
    while (end < places.size() && places[end].rank == places[i].rank) ++end;
    add(page, "<th class=\"rank\" colspan=\"{}\">{}</th>", end - i, places[i].rank);
    i = end;
  }
  page +=
      "<th class=\"sum\">freed<small>GiB</small></th><th class=\"sum\">price<small>ms</small></th></tr>\n<tr><th "
      "class=\"name\"></th>";
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool first = i == 0 || places[i - 1].rank != places[i].rank;
    add(page, "<th class=\"layer{}\">{}</th>", first ? " first" : "",
        html_text(places[i].layer < 0 ? places[i].block.substr(0, 9) : fmt::format("{}", places[i].layer)));
  }
  page += "<th></th><th></th></tr>\n";
}

/// `s`, `r` or nothing where one action holds for all micro-batches, else the shares as a gradient.
std::string cell_look(const DecisionCell& cell) {
  const std::int32_t all = cell.kept + cell.recomputed + cell.swapped;  // a half of each where both are done
  if (cell.swapped == all) return " s\"";
  if (cell.recomputed == all) return " r\"";
  if (cell.kept == all) return "\"";
  const int first = 100 * cell.recomputed / all, second = 100 * (cell.recomputed + cell.swapped) / all;
  return fmt::format(
      "\" style=\"background:linear-gradient(0deg,var(--recompute) 0 {0}%,var(--swap) {0}% {1}%,var(--keep) {1}%)\"",
      first, second);
}

std::string cell_title(const DecisionRow& decision, const DecisionCell& cell) {
  std::string text = fmt::format("{}, {} of rank {}, chunk {}: keep {}, recompute {}, {} {}{}; {} each",
                                 decision.storage, layer_text(cell.layer, cell.block), cell.rank, cell.chunk, cell.kept,
                                 cell.recomputed, decision.offloads ? "offload" : "swap", cell.swapped,
                                 decision.offloads ? "" : " micro-batches", format_bytes(cell.instance_bytes));
  if (cell.moved() > 0) {
    text += fmt::format("; frees {} at the peak for {} per step", format_bytes(cell.freed_at_peak_bytes),
                        duration_text(cell.added_ns));
  }
  return html_text(text);
}

void add_map_row(std::string& page, const DecisionRow& decision, const std::vector<Place>& places) {
  std::map<Place, const DecisionCell*> cells;
  for (const DecisionCell& cell : decision.cells) cells[place_of(cell)] = &cell;
  add(page, "<tr><th class=\"name\">{}</th>", html_text(decision.storage));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool first = i == 0 || places[i - 1].rank != places[i].rank;
    const auto it = cells.find(places[i]);
    if (it == cells.end()) {
      add(page, "<td class=\"c none{}\"></td>", first ? " first" : "");
    } else {
      add(page, "<td class=\"c{}{} title=\"{}\"></td>", first ? " first" : "", cell_look(*it->second),
          cell_title(decision, *it->second));
    }
  }
  add(page, "<td class=\"sum\">{}</td><td class=\"sum\">{}</td></tr>\n", gib_text(decision.freed_at_peak_bytes()),
      ms_text(decision.added_ns()));
}

void add_map(std::string& page, const std::vector<DecisionRow>& rows) {
  std::set<Place> used;
  for (const DecisionRow& decision : rows) {
    for (const DecisionCell& cell : decision.cells) {
      if (decision.decided()) used.insert(place_of(cell));
    }
  }
  const std::vector<Place> places(used.begin(), used.end());
  page +=
      "<p class=\"soft next\">Each storage over the layers of each rank; hover a cell for its counts, bytes and price. "
      "A "
      "split "
      "cell differs between micro-batches.</p>\n<div class=\"legend\"><span><i "
      "style=\"background:var(--keep)\"></i>keep"
      "</span><span><i style=\"background:var(--recompute)\"></i>recompute</span><span><i "
      "style=\"background:var(--swap)\">"
      "</i>swap to pinned host memory; of state, offload</span></div>\n<div class=\"scroll map\"><table>\n";
  add_map_head(page, places);
  for (const DecisionRow& decision : rows) {
    if (decision.decided()) add_map_row(page, decision, places);
  }
  page += "</table></div>\n";
}

void add_totals(std::string& page, const std::vector<DecisionRow>& rows) {
  page +=
      "<div class=\"scroll\"><table><thead><tr><th class=\"l\">storage</th><th>recomputed<small>of its "
      "instances</small>"
      "</th><th>swapped<small>of its instances</small></th><th class=\"l\">rebuilt by</th><th>freed at the peaks"
      "<small>GiB, all ranks</small></th><th>price<small>ms, all ranks</small></th><th>ms per "
      "GiB</th></tr></thead><tbody>\n";
  for (const DecisionRow& decision : rows) {
    if (!decision.decided()) continue;
    std::int64_t all = 0, recomputed = 0, swapped = 0;
    for (const DecisionCell& cell : decision.cells) {
      all += cell.instances;
      recomputed += cell.recomputed;
      swapped += cell.swapped;
    }
    const Bytes freed = decision.freed_at_peak_bytes();
    const std::string rate = freed > 0
                                 ? fmt::format("{:.2f}", static_cast<double>(decision.added_ns()) / 1e6 /
                                                             (static_cast<double>(freed) / static_cast<double>(kGiB)))
                                 : std::string("-");
    const auto share = [&](std::int64_t n) {
      return n == 0 ? std::string("-")
                    : fmt::format("{:.0f} %", 100.0 * static_cast<double>(n) / static_cast<double>(all));
    };
    add(page,
        "<tr><td class=\"l\">{}</td><td>{}</td><td>{}</td><td "
        "class=\"l\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        html_text(decision.storage), share(recomputed), share(swapped), html_text(decision.recipe), gib_text(freed),
        ms_text(decision.added_ns()), rate);
  }
  page += "</tbody></table></div>\n";
}

void add_kept(std::string& page, const std::vector<DecisionRow>& rows) {
  std::string names;
  for (const DecisionRow& decision : rows) {
    if (!decision.decided()) names += (names.empty() ? "" : ", ") + html_text(decision.storage);
  }
  if (!names.empty()) add(page, "<p class=\"soft\">Kept in every layer of every rank: {}.</p>\n", names);
}

}  // namespace

std::string choices_html(const plan::PlanRequest& request, const plan::PlanOutcome& outcome) {
  const std::vector<DecisionRow> rows = decision_rows(request, outcome);
  std::string page =
      "<h2>What was chosen, and why</h2>\n<p class=\"soft\">What each rank would hold with everything kept, how far "
      "that is "
      "over its budget, and what the plan frees at that point. Freed bytes exceed the shortage where the peak moves "
      "elsewhere or a whole storage is the smallest step. Prices are compute-lane time per step, modelled.</p>\n";
  add_reasons(page, outcome, rows);
  if (std::any_of(rows.begin(), rows.end(), [](const DecisionRow& r) { return r.decided(); })) {
    add_map(page, rows);
    add_totals(page, rows);
    add_kept(page, rows);
  } else {
    page += "<p>Everything is kept on every rank.</p>\n";
  }
  return page;
}

}  // namespace tidemark::formats
