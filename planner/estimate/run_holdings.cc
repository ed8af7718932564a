#include "planner/estimate/run_holdings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "core/bytes.h"
#include "planner/estimate/error_band.h"
#include "planner/estimate/in_flight.h"

namespace tidemark::estimate {
namespace {

using budget::Phase;
using budget::RankHoldings;

Bytes whole(double bytes) {
  return static_cast<Bytes>(std::llround(bytes));
}

/// Whole bytes that add up to `total`, each less than two off: rounded down, and what is missing given to the largest
/// remainders, ties to the first.
std::vector<Bytes> apportion(const std::vector<const Term*>& terms, Bytes total) {
  std::vector<Bytes> bytes;
  for (const Term* term : terms) bytes.push_back(static_cast<Bytes>(std::floor(term->bytes)));
  Bytes missing = std::accumulate(bytes.begin(), bytes.end(), total, std::minus{});
  std::vector<std::size_t> order(terms.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return terms[i]->bytes - std::floor(terms[i]->bytes); });
  // Sums of doubles are off by less than a byte a term: one round is enough, from either end.
  for (std::size_t i = 0; i < order.size() && missing > 0; ++i, --missing) ++bytes[order[i]];
  for (std::size_t i = order.size(); i > 0 && missing < 0; --i, ++missing) --bytes[order[i - 1]];
  return bytes;
}

std::vector<const Term*> terms_of(const RankMemory& memory) {
  std::vector<const Term*> terms;
  for (const std::vector<Term>* list : {&memory.steady, &memory.at_running_peak})
    for (const Term& term : *list) terms.push_back(&term);
  return terms;
}

/// When the running peak is reached, by what is held then.
Phase phase_of(const RankMemory& memory) {
  const auto holds = [&](std::string_view name) {
    return std::ranges::find(memory.at_running_peak, name, &Term::name) != memory.at_running_peak.end();
  };
  if (memory.at_running_peak.empty()) return Phase::between_steps;
  if (holds("optimizer_step")) return Phase::optimizer;
  return holds("backward_work") ? Phase::backward : Phase::forward;
}

const std::vector<Chunk>* chunks_of(const TrainingRun& run, std::int64_t stage) {
  const auto index = static_cast<std::size_t>(stage);
  return index < run.parallel.chunks.size() ? &run.parallel.chunks[index] : nullptr;
}

/// Micro-batches of all chunks of a rank that wait for their backward at the most.
std::int64_t waiting(const TrainingRun& run, std::int64_t stage) {
  const std::vector<Chunk>* chunks = chunks_of(run, stage);
  if (chunks == nullptr) return 1;
  const std::vector<std::int64_t> kept = in_flight(run, stage, chunks->size());
  return std::accumulate(kept.begin(), kept.end(), std::int64_t{0});
}

/// `0-3,8-11`; empty: the layout is not one of layers.
std::string layers_of(const TrainingRun& run, std::int64_t stage) {
  const std::vector<Chunk>* chunks = chunks_of(run, stage);
  if (chunks == nullptr) return "";
  std::vector<std::int64_t> layers;
  for (const Chunk& chunk : *chunks) layers.insert(layers.end(), chunk.layers.begin(), chunk.layers.end());
  std::ranges::sort(layers);
  std::string text;
  for (std::size_t first = 0; first < layers.size();) {
    std::size_t last = first;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", layers[first]) : fmt::format("{}-{}", layers[first], layers[last]);
    first = last + 1;
  }
  return text;
}

std::string peak_text(const TrainingRun& run, const RankMemory& memory, Phase phase) {
  switch (phase) {
    case Phase::between_steps:
      return "between steps";
    case Phase::optimizer:
      return "optimizer step";
    case Phase::forward:
    case Phase::backward:
      break;
  }
  const std::int64_t count = waiting(run, memory.stage);
  return fmt::format("{}, {} micro-batch{} in flight", word_of(phase), count, count == 1 ? "" : "es");
}

RankHoldings bare_rank(const TrainingRun& run, const RankMemory& memory) {
  RankHoldings rank{.rank = memory.rank, .peak_bytes = whole(memory.running_peak_bytes)};
  if (run.parallel.pipeline > 1) rank.place = fmt::format("pp{}", memory.stage);
  const Phase phase = phase_of(memory);
  rank.peak_phase = phase;
  rank.by_phase[static_cast<std::size_t>(Phase::between_steps)] = whole(memory.steady_bytes);
  rank.by_phase[static_cast<std::size_t>(Phase::optimizer)] = whole(memory.step_peak_bytes);
  rank.by_phase[static_cast<std::size_t>(phase)] = rank.peak_bytes;
  return rank;
}

/// Calls `take` with every term of the running peak, its rule and its whole bytes, which add up to the peak.
template <class Take>
void each_term(const RankMemory& memory, Bytes peak_bytes, const Take& take) {
  const std::vector<const Term*> terms = terms_of(memory);
  const std::vector<Bytes> bytes = apportion(terms, peak_bytes);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const TermRule* rule = find_term_rule(terms[i]->name);
    assert(rule != nullptr);
    take(*rule, bytes[i]);
  }
}

/// Storages of a rank with what decides them. The count of what is kept for backward is that of its micro-batches.
void describe(RankHoldings& rank, const TrainingRun& run, const RankMemory& memory, const ArgumentPlaces& places) {
  rank.peak_at = peak_text(run, memory, *rank.peak_phase);
  const std::string layers = layers_of(run, memory.stage);
  each_term(memory, rank.peak_bytes, [&](const TermRule& rule, Bytes bytes) {
    budget::HeldStorage& storage = rank.storages.emplace_back(
        budget::HeldStorage{.name = std::string(rule.term), .category = rule.category, .bytes = bytes});
    storage.controls = controls_of(rule, run, places);
    if (storage.name == "activations") storage.count = waiting(run, memory.stage);
    if (storage.name == "activations" || storage.name == "parameters") storage.layers = layers;
  });
  budget::settle(rank, budget::Category::other);
}

/// An estimate knows what a framework asks for, not what its allocator keeps beside that, or the driver.
void leave_untold(RankHoldings& rank) {
  for (const budget::Category category : {budget::Category::cached, budget::Category::reserve})
    rank.is_untold[static_cast<std::size_t>(category)] = true;
}

void note_band(const TrainingRun& run, const MemoryKnobs& knobs, budget::Holdings& holdings) {
  if (!holdings.is_understood) {
    holdings.notes.push_back(fmt::format(
        "estimated for {} devices; there is no error band: not all of the input was understood (docs/ACCURACY.md)",
        run.parallel.world));
    return;
  }
  const ErrorBand& band = band_of(run);
  const std::string load =
      run.model.moe.experts > 0 ? fmt::format(", expert load {}", knobs.routing_load) : std::string();
  holdings.notes.push_back(fmt::format(
      "estimated for {} devices; error band {} %, {}: of measured runs of this class at most {} % peak above the "
      "estimate and the band; assumed: sequences of full length{} (docs/ACCURACY.md)",
      run.parallel.world, band.percent, band.name, band.share_percent, load));
}

/// The figure a user sees first in a log, where it is another one.
void note_first_step(const std::vector<RankMemory>& stages, budget::Holdings& holdings) {
  const auto highest = std::ranges::max_element(stages, {}, &RankMemory::running_peak_bytes);
  if (whole(highest->first_peak_bytes) == whole(highest->running_peak_bytes)) return;
  holdings.notes.push_back(fmt::format(
      "rank {} comes to {} in its first step, before the optimizer's moments are there, and to {} from the second on",
      highest->rank, format_bytes(whole(highest->first_peak_bytes)), format_bytes(whole(highest->running_peak_bytes))));
}

/// Rows ascending, and which ranks they stand for (error_band.cc, rank_at, the other direction).
void settle_ranks(const TrainingRun& run, budget::Holdings& holdings) {
  std::ranges::sort(holdings.ranks, {}, &RankHoldings::rank);
  const Parallel& parallel = run.parallel;
  holdings.rank_count = parallel.world;
  holdings.stage_stride =
      parallel.pipeline_inside_data ? parallel.tensor * parallel.context : parallel.world / parallel.pipeline;
}

}  // namespace

bool is_understood(const ImportedRun& imported) {
  return std::ranges::none_of(
      imported.judged, [](const JudgedArgument& argument) { return argument.standing == Standing::not_understood; });
}

budget::Holdings bare_holdings(const TrainingRun& run, const std::vector<RankMemory>& stages) {
  budget::Holdings holdings{.basis = budget::Basis::estimated, .band_percent = band_of(run).percent};
  for (const RankMemory& memory : stages) {
    RankHoldings& rank = holdings.ranks.emplace_back(bare_rank(run, memory));
    each_term(memory, rank.peak_bytes, [&rank](const TermRule& rule, Bytes bytes) {
      rank.by_category[static_cast<std::size_t>(rule.category)] += bytes;
    });
  }
  settle_ranks(run, holdings);
  return holdings;
}

Result<budget::Holdings> run_holdings(const ImportedRun& imported, const MemoryKnobs& knobs,
                                      const ArgumentPlaces& places, std::string source) {
  const TrainingRun run = cautious(imported.run);
  const MemoryKnobs careful = cautious(knobs);
  const Result<std::vector<RankMemory>> stages = estimate_stages(run, careful);
  if (!stages) return stages.error();
  budget::Holdings holdings{.basis = budget::Basis::estimated,
                            .source = std::move(source),
                            .band_percent = is_understood(imported) ? band_of(run).percent : 0,
                            .is_understood = is_understood(imported)};
  for (const RankMemory& memory : stages.value()) {
    RankHoldings& rank = holdings.ranks.emplace_back(bare_rank(run, memory));
    describe(rank, run, memory, places);
    leave_untold(rank);
  }
  settle_ranks(run, holdings);
  note_band(run, careful, holdings);
  note_first_step(stages.value(), holdings);
  holdings.notes.insert(holdings.notes.end(), imported.notes.begin(), imported.notes.end());
  return holdings;
}

}  // namespace tidemark::estimate
