#include "planner/estimate/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/bytes.h"

namespace tidemark::estimate {
namespace {

constexpr std::array<std::string_view, 5> kKinds = {"gpt", "bert", "t5", "hybrid", "multimodal"};
double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

constexpr int kHalvings = 40;  // of the range of factors: far below a byte

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<Bytes>(bytes));
}

/// The measured kind of peak at a factor, all else as in `knobs`.
Result<double> peak_at(double factor, const TrainingRun& run, const MeasuredRank& measured, MemoryKnobs knobs) {
  knobs.activation_factor *= factor;
  const Result<RankMemory> memory = estimate_rank(run, *measured.rank, knobs);
  if (!memory) return memory.error();
  return measured.is_later_step ? memory.value().running_peak_bytes : memory.value().peak_bytes;
}

/// The peak grows with the factor, or stays where something else decides it, such as the optimizer's step. A peak that
/// stays says nothing about activations, unless it was exceeded and a factor in range explains by how much.
Result<double> find_factor(const TrainingRun& run, const MeasuredRank& measured, const MemoryKnobs& knobs) {
  constexpr double kNudge = 1.01;
  std::array<double, 3> peaks{};
  constexpr std::array<double, 3> kFactors = {1, kNudge, kMostActivationFactor};
  for (std::size_t i = 0; i < peaks.size(); ++i) {
    const Result<double> peak = peak_at(kFactors[i], run, measured, knobs);
    if (!peak) return peak.error();
    peaks[i] = peak.value();
  }
  const auto [as_is, nudged, most] = peaks;
  const double wanted = *measured.peak_bytes;
  if (nudged <= as_is && (wanted <= as_is || wanted > most)) return 1.0;
  double low = kLeastActivationFactor, high = kMostActivationFactor;
  (as_is < wanted ? low : high) = 1;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    const Result<double> peak = peak_at(middle, run, measured, knobs);
    if (!peak) return peak.error();
    (peak.value() < wanted ? low : high) = middle;
  }
  return high;
}

}  // namespace

std::string model_text(const TrainingRun& run) {
  const Model& m = run.model;
  std::string text = fmt::format("{}, {} layers, hidden {}, {} heads in {} groups of {}, feed-forward {}{}",
                                 kKinds[static_cast<std::size_t>(m.kind)], m.layers, m.hidden, m.attention.heads,
                                 m.attention.groups, m.attention.head_dim, m.ffn, m.gated ? " gated" : "");
  if (m.encoder_layers > 0) text += fmt::format(", {} encoder layers", m.encoder_layers);
  if (m.attention.multi_latent)
    text += fmt::format(", latent attention {}/{}", m.attention.q_lora_rank, m.attention.kv_lora_rank);
  if (m.moe.experts > 0)
    text += fmt::format(", {} experts of {}, top {}, shared {}", m.moe.experts, m.moe.width, m.moe.top_k,
                        m.moe.shared_width);
  if (m.mtp_layers > 0) text += fmt::format(", {} MTP layers", m.mtp_layers);
  if (!m.hybrid_pattern.empty()) text += fmt::format(", pattern {}", m.hybrid_pattern);
  return text;
}

Result<MemoryCorrection> fit_memory(const TrainingRun& run, const MeasuredRank& measured, const MemoryKnobs& knobs) {
  const Result<RankMemory> plain = estimate_rank(run, *measured.rank, knobs);
  if (!plain) return plain.error();
  const double factor_of_steady = *measured.steady_bytes / plain.value().steady_bytes;
  if (factor_of_steady > kMostSteadyFactor || factor_of_steady < 1 / kMostSteadyFactor)
    return bad_input(
        fmt::format("rank {} measured {} between steps where {} are predicted: too far apart to be the run "
                    "of these arguments",
                    *measured.rank, bytes_text(*measured.steady_bytes), bytes_text(plain.value().steady_bytes)));
  MemoryCorrection correction{.model = model_text(run),
                              .static_offset_bytes = std::max(*measured.steady_bytes - plain.value().steady_bytes, 0.0),
                              .static_factor = std::min(factor_of_steady, 1.0)};
  if (!measured.peak_bytes) return correction;
  const Result<double> factor = find_factor(run, measured, corrected(knobs, correction));
  if (!factor) return factor.error();
  correction.activation_factor = factor.value();
  return correction;
}

Result<MemoryCorrection> fit_memory(const TrainingRun& run, std::span<const MeasuredRank> measured,
                                    const MemoryKnobs& knobs) {
  std::vector<double> offsets, shares, factors;
  for (const MeasuredRank& rank : measured) {
    const Result<MemoryCorrection> one = fit_memory(run, rank, knobs);
    if (!one) return one.error();
    offsets.push_back(one.value().static_offset_bytes);
    shares.push_back(one.value().static_factor);
    if (one.value().activation_factor) factors.push_back(*one.value().activation_factor);
  }
  return MemoryCorrection{
      .model = model_text(run),
      .static_offset_bytes = median(std::move(offsets)),
      .static_factor = median(std::move(shares)),
      .activation_factor = factors.empty() ? std::nullopt : std::optional(median(std::move(factors)))};
}

Result<Remainder> remainder_of(const TrainingRun& run, const MeasuredRank& measured, const MemoryCorrection& correction,
                               const MemoryKnobs& knobs) {
  const Result<RankMemory> memory = estimate_rank(run, *measured.rank, corrected(knobs, correction));
  if (!memory) return memory.error();
  Remainder remainder{.rank = *measured.rank, .steady = *measured.steady_bytes / memory.value().steady_bytes - 1};
  if (measured.peak_bytes)
    remainder.peak = *measured.peak_bytes /
                         (measured.is_later_step ? memory.value().running_peak_bytes : memory.value().peak_bytes) -
                     1;
  return remainder;
}

MemoryKnobs corrected(MemoryKnobs knobs, const MemoryCorrection& correction) {
  knobs.static_offset_bytes += correction.static_offset_bytes;
  knobs.static_factor *= correction.static_factor;
  knobs.activation_factor *= correction.activation_factor.value_or(1);
  return knobs;
}

Machine corrected(Machine machine, const Calibration& calibration) {
  machine.d2h.bytes_per_s = calibration.d2h_bytes_per_s.value_or(machine.d2h.bytes_per_s);
  machine.h2d.bytes_per_s = calibration.h2d_bytes_per_s.value_or(machine.h2d.bytes_per_s);
  if (calibration.memory) machine.workspace_bytes += static_cast<Bytes>(calibration.memory->static_offset_bytes);
  return machine;
}

std::vector<std::string> describe(const Calibration& calibration) {
  std::vector<std::string> lines;
  if (calibration.memory)
    lines.push_back(fmt::format("memory between steps x {:.4f} + {}, activations {} ({})",
                                calibration.memory->static_factor, bytes_text(calibration.memory->static_offset_bytes),
                                calibration.memory->activation_factor
                                    ? fmt::format("x {:.4f}", *calibration.memory->activation_factor)
                                    : "not measured",
                                calibration.memory->model));
  if (calibration.op_time_scale) lines.push_back(fmt::format("compute times x {:.4f}", *calibration.op_time_scale));
  if (calibration.d2h_bytes_per_s) lines.push_back(fmt::format("D2H {:.2f} GB/s", *calibration.d2h_bytes_per_s / 1e9));
  if (calibration.h2d_bytes_per_s) lines.push_back(fmt::format("H2D {:.2f} GB/s", *calibration.h2d_bytes_per_s / 1e9));
  return lines;
}

}  // namespace tidemark::estimate
