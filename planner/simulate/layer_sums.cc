#include "planner/simulate/layer_sums.h"

namespace tidemark::simulate {
namespace {

/// `times` layers more, or less where it is negative. What is sent goes out later by as much.
void append(PassTime& pass, const PassTime& layer, std::int64_t times) {
  pass.compute_ns += times * layer.compute_ns;
  pass.lane_ns += times * layer.lane_ns;
  pass.end_ns += times * layer.end_ns;
  pass.intra_ns += times * layer.intra_ns;
  pass.inter_ns += times * layer.inter_ns;
  if (pass.out_ns > 0) pass.out_ns += times * layer.lane_ns;
}

void append(ChunkTime& chunk, const ChunkTime& layer, std::int64_t times) {
  append(chunk.forward, layer.forward, times);
  append(chunk.backward, layer.backward, times);
}

/// A chunk with the same ends and one layer, whose sends wait for it: of the model's first or last layer.
ChunkContent with_one_layer(const graph_build::JobSpec& job, const ChunkContent& content) {
  ChunkContent one = content;
  one.layers = 1;
  one.first_layer = content.is_first ? 0 : static_cast<std::int32_t>(job.model.layers.size()) - 1;
  return one;
}

}  // namespace

Result<ChunkTime> LayerSums::chunk_of(const graph_build::JobSpec& job, const ChunkContent& content) {
  const auto all = static_cast<std::int32_t>(job.model.layers.size());
  const bool is_whole = content.is_first && (content.has_head || content.is_last);
  if (content.layers == 0 || (is_whole && all != 1)) {
    ChunkContent own = content;
    if (content.layers == 0 && !content.is_first) own.first_layer = all;
    return table_.chunk_of(job, own);
  }
  const Result<LayerTimes> times = table_.layers_of(job);
  if (!times) return times.error();
  const ChunkContent one = with_one_layer(job, content);
  Result<ChunkTime> chunk = table_.chunk_of(job, one);
  if (!chunk) return chunk.error();
  const auto of_layer = [&](std::int32_t layer) -> const ChunkTime& { return times.value().of(job, {.layer = layer}); };
  for (std::int32_t i = 0; i < content.layers; ++i) append(chunk.value(), of_layer(content.first_layer + i), 1);
  append(chunk.value(), of_layer(one.first_layer), -1);
  return chunk;
}

Result<LayerTimes> LayerSums::layers_of(const graph_build::JobSpec& job) {
  return table_.layers_of(job);
}

Result<std::int64_t> LayerSums::compute_ns(const graph_build::JobSpec& job) {
  const auto layers = static_cast<std::int32_t>(job.model.layers.size());
  const bool is_one = job.parallel.stages() == 1;
  std::int64_t sum = 0;
  for (const ChunkContent& content :
       {ChunkContent{.layers = layers, .is_first = true, .is_last = is_one, .has_head = is_one},
        ChunkContent{.first_layer = layers, .is_last = true, .has_head = true}}) {
    if (is_one && !content.is_first) continue;
    const Result<ChunkTime> chunk = chunk_of(job, content);
    if (!chunk) return chunk.error();
    sum += chunk.value().forward.compute_ns + chunk.value().backward.compute_ns;
  }
  return sum;
}

}  // namespace tidemark::simulate
