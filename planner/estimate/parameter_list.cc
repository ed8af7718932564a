#include "planner/estimate/parameter_list.h"

#include <algorithm>

#include "planner/estimate/hybrid.h"
#include "planner/estimate/layer_parameters.h"
#include "planner/estimate/local_sizes.h"

namespace tidemark::estimate {
namespace {

using List = std::vector<Parameter>;

void append_vocabulary(const TrainingRun& run, List& list) {
  list.push_back(
      {.elements = padded_vocabulary(run) / run.parallel.tensor * run.model.hidden, .role = ParameterRole::embedding});
}

void append_positions(const TrainingRun& run, List& list) {
  if (run.model.positions != PositionEmbedding::learned_absolute) return;
  list.push_back({.elements = run.model.max_positions * run.model.hidden, .role = ParameterRole::embedding});
}

void append_embedding(const TrainingRun& run, List& list) {
  append_vocabulary(run, list);
  append_positions(run, list);
  if (run.model.kind == ModelClass::bert)  // two token types
    list.push_back({.elements = 2 * run.model.hidden, .role = ParameterRole::embedding});
}

void append_layer(const TrainingRun& run, std::int64_t layer, bool experts, List& list) {
  append_attention(run, layer, list);
  if (experts)
    append_experts(run, list);
  else
    append_mlp(run, list);
}

/// What stands between the decoder and a multi-token-prediction layer: two norms and the projection of their
/// concatenation, which MindSpeed does not split.
void append_mtp_entry(const TrainingRun& run, List& list) {
  const std::int64_t hidden = run.model.hidden;
  append_norm(run, list);
  append_norm(run, list);
  const std::int64_t ranks = on_ascend(run) ? 1 : run.parallel.tensor;
  list.push_back({.elements = 2 * hidden * hidden / ranks, .role = ParameterRole::linear});
}

void append_mtp(const TrainingRun& run, List& list) {
  append_mtp_entry(run, list);
  append_layer(run, 0, has_experts(run, run.model.layers - 1), list);
  append_norm(run, list);
}

void append_bert_head(const TrainingRun& run, List& list) {
  const std::int64_t hidden = run.model.hidden;
  const auto dense = [&] {
    list.push_back({.elements = hidden * hidden, .role = ParameterRole::matrix});
    list.push_back({.elements = hidden});
  };
  dense();  // of the language-model head, with its norm and the bias of the vocabulary
  list.push_back({.elements = 2 * hidden});
  list.push_back({.elements = padded_vocabulary(run) / run.parallel.tensor});
  dense();  // pooler, and the sentence-order head of two classes
  list.push_back({.elements = 2 * hidden, .role = ParameterRole::matrix});
  list.push_back({.elements = 2});
}

List parameters_of_chunk(const TrainingRun& run, const Chunk& chunk, bool rank_embeds) {
  List list;
  if (chunk.embedding) append_embedding(run, list);
  for (const std::int64_t layer : chunk.layers) append_layer(run, layer, has_experts(run, layer), list);
  const std::int64_t depths = run.model.mtp_repeated ? std::min<std::int64_t>(chunk.mtp, 1) : chunk.mtp;
  for (std::int64_t depth = 0; depth < depths; ++depth) append_mtp(run, list);
  // Multi-token prediction embeds the next tokens itself; a tied head then shares that copy.
  const bool mtp_embeds = chunk.mtp > 0 && !rank_embeds;
  if (mtp_embeds) append_vocabulary(run, list);
  if (!chunk.loss) return list;
  append_norm(run, list);
  const bool shares_matrix = run.model.tied_embedding && (chunk.embedding || mtp_embeds);
  if (!shares_matrix) append_vocabulary(run, list);
  if (run.model.kind == ModelClass::bert) append_bert_head(run, list);
  return list;
}

List t5_parameters(const TrainingRun& run) {
  List list;
  append_vocabulary(run, list);
  append_positions(run, list);
  for (std::int64_t i = 0; i < run.model.encoder_layers; ++i) append_layer(run, 0, false, list);
  append_norm(run, list);
  for (std::int64_t i = 0; i < run.model.layers; ++i) {
    append_attention(run, 0, list);
    append_cross_attention(run, list);
    append_mlp(run, list);
  }
  append_norm(run, list);
  list.push_back({.elements = padded_vocabulary(run) / run.parallel.tensor});
  return list;
}

void append_hybrid_end(const TrainingRun& run, bool embeds, List& list) {
  append_norm(run, list);
  std::vector<std::string> depths = hybrid_pattern(run).depths;
  const bool mtp_embeds = !depths.empty() && !embeds;  // as in parameters_of_chunk
  if (mtp_embeds) append_vocabulary(run, list);
  if (!(run.model.tied_embedding && (embeds || mtp_embeds))) append_vocabulary(run, list);
  if (run.model.mtp_repeated && depths.size() > 1) depths.resize(1);  // one layer, run again for each depth
  for (const std::string& depth : depths) {
    append_mtp_entry(run, list);
    for (const char letter : depth) append_hybrid_layer(run, letter, list);
    append_norm(run, list);
  }
}

std::vector<List> hybrid_parameters(const TrainingRun& run, std::int64_t stage) {
  std::vector<List> chunks;
  for (const std::string& letters : hybrid_chunks(run, stage)) {
    List& list = chunks.emplace_back();
    if (stage == 0 && chunks.size() == 1) {
      append_vocabulary(run, list);
      append_positions(run, list);
    }
    for (const char letter : letters) append_hybrid_layer(run, letter, list);
  }
  if (stage == run.parallel.pipeline - 1 && !chunks.empty()) append_hybrid_end(run, stage == 0, chunks.back());
  return chunks;
}

}  // namespace

bool has_experts(const TrainingRun& run, std::int64_t layer) {
  const std::vector<bool>& is_moe = run.model.moe.is_moe;
  if (run.model.moe.experts <= 0 || layer < 0) return false;
  return static_cast<std::size_t>(layer) < is_moe.size() && is_moe[static_cast<std::size_t>(layer)];
}

std::vector<List> chunk_parameters(const TrainingRun& run, std::int64_t stage) {
  if (run.model.kind == ModelClass::t5) return {t5_parameters(run)};
  if (run.model.kind == ModelClass::hybrid) return hybrid_parameters(run, stage);
  const std::vector<Chunk>& chunks = run.parallel.chunks[static_cast<std::size_t>(stage)];
  const bool embeds = std::any_of(chunks.begin(), chunks.end(), [](const Chunk& chunk) { return chunk.embedding; });
  std::vector<List> lists;
  lists.reserve(chunks.size());
  for (const Chunk& chunk : chunks) lists.push_back(parameters_of_chunk(run, chunk, embeds));
  return lists;
}

List rank_parameters(const TrainingRun& run, std::int64_t stage) {
  List all;
  for (const List& list : chunk_parameters(run, stage)) all.insert(all.end(), list.begin(), list.end());
  return all;
}

double count_elements(const List& parameters) {
  double sum = 0;
  for (const Parameter& parameter : parameters) sum += static_cast<double>(parameter.elements);
  return sum;
}

}  // namespace tidemark::estimate
