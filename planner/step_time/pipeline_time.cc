#include "planner/step_time/pipeline_time.h"

#include <algorithm>

namespace tidemark::step_time {
namespace {

/// Of one micro-batch's activations to the next stage. Between nodes every tensor parallel rank sends its part of them.
double send_s(const StepSetting& setting) {
  const TimedRun& run = setting.run;
  const RankShape& rank = setting.rank;
  const DeviceSheet& sheet = setting.device.sheet;
  constexpr double kElementBytes = 2;
  const bool is_inside = run.tensor * run.context * run.data < sheet.devices_per_node;
  const double rate = is_inside ? sheet.intra_bytes_per_s * setting.software.send_rate
                                : sheet.inter_bytes_per_s * run.network_share * setting.device.rates.inter_link;
  const double parts = run.is_sequence_parallel || !is_inside ? rank.tensor : 1;
  return setting.device.rates.hop_s + rank.tokens * rank.hidden * kElementBytes / parts / rate;
}

/// Seconds of one micro-batch on the stages: their sum and that of the fullest.
struct StageLoads {
  double sum_s = 0, fullest_s = 0;
};

StageLoads stage_loads(const StepSetting& setting, const StageSeconds& stage) {
  const double stages = static_cast<double>(setting.run.pipeline);
  const double sum_s = stages * stage.layers_s + stage.embedding_s + stage.head_s;
  if (setting.run.is_even) return {.sum_s = sum_s, .fullest_s = sum_s / stages};
  return {.sum_s = sum_s, .fullest_s = stage.layers_s + std::max(stage.embedding_s, stage.head_s)};
}

}  // namespace

PipelineSeconds pipeline_s(const StepSetting& setting, const StageSeconds& stage) {
  const TimedRun& run = setting.run;
  const double micro_batches = run.micro_batches();
  if (run.pipeline == 1) return {.seconds = micro_batches * (stage.layers_s + stage.head_s + stage.embedding_s)};
  const double stages = static_cast<double>(run.pipeline), chunks = static_cast<double>(run.virtual_pipeline);
  const StageLoads loads = stage_loads(setting, stage);
  const double hop_s = 2 * send_s(setting);
  const double shown_s = hop_s * (1 - setting.software.send_hidden) * chunks;
  const double fill_s = (loads.sum_s - loads.fullest_s) / chunks + (stages - 1) * hop_s;
  const double seconds = micro_batches * (loads.fullest_s + shown_s) + fill_s;
  const double busy_s = micro_batches * (loads.sum_s / stages + shown_s);
  return {.seconds = seconds, .fill_s = fill_s, .bubble_share = 1 - busy_s / seconds};
}

}  // namespace tidemark::step_time
