#include "planner/estimate/run_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/estimate/argument_value.h"

namespace tidemark::estimate {
namespace {

constexpr std::int64_t kMostStages = 100'000;
constexpr std::size_t kMostLayers = 100'000;

using Counts = std::vector<std::int64_t>;  ///< layers of each stage, in pipeline order

Problem wrong(std::string argument, std::string message) {
  return RunProblem{std::move(argument), std::move(message)};
}

/// Layers on one pipeline rank where the rest is spread evenly; the embedding and the loss may count as layers.
struct Share {
  std::int64_t layers = 0;  ///< with what counts as a layer
  bool embedding = false;
  bool loss = false;
};

/// What counts as a layer: as asked for, or, in the record of a run whose layers do not divide, what makes them divide.
Share share_of(const Draft& draft, std::int64_t stages) {
  const std::int64_t layers = draft.run.model.layers;
  Share share{.embedding = draft.embedding_counts, .loss = draft.loss_counts};
  if (draft.recorded && !share.embedding && !share.loss && stages > 1 && layers % stages != 0) {
    share.embedding = (layers + 2) % stages == 0;
    share.loss = share.embedding || (layers + 1) % stages == 0;
  }
  share.layers = layers + (share.embedding ? 1 : 0) + (share.loss ? 1 : 0);
  return share;
}

Problem count_chunks(Draft& draft) {
  Parallel& parallel = draft.run.parallel;
  std::int64_t& chunks = parallel.virtual_pipeline;
  chunks = 1;
  if (draft.virtual_stages) {
    chunks = *draft.virtual_stages;
  } else if (draft.layers_per_virtual_stage) {
    const std::int64_t per_rank = share_of(draft, parallel.pipeline).layers / parallel.pipeline;
    if (per_rank % *draft.layers_per_virtual_stage != 0)
      return wrong("num-layers-per-virtual-pipeline-stage",
                   fmt::format("{} does not divide the {} layers of a pipeline rank", *draft.layers_per_virtual_stage,
                               per_rank));
    chunks = std::max<std::int64_t>(1, per_rank / *draft.layers_per_virtual_stage);
  }
  if (chunks > 1 && parallel.pipeline == 1)
    return wrong(
        draft.virtual_stages ? "num-virtual-stages-per-pipeline-rank" : "num-layers-per-virtual-pipeline-stage",
        "chunks need more than one pipeline rank; drop it");
  if (parallel.schedule == Schedule::dualpipev) chunks = 2;
  if (chunks > kMostStages / parallel.pipeline)
    return wrong("pipeline-model-parallel-size",
                 fmt::format("{} ranks with {} chunks each are more stages than the {} that are modelled",
                             parallel.pipeline, chunks, kMostStages));
  return std::nullopt;
}

/// Stages whose first and last ranks have layer counts of their own.
Problem uneven_ends(const Draft& draft, Counts& counts) {
  const Parallel& parallel = draft.run.parallel;
  const std::int64_t ranks = parallel.pipeline;
  const std::int64_t given = (draft.first_stage_layers ? 1 : 0) + (draft.last_stage_layers ? 1 : 0);
  const std::int64_t rest =
      draft.run.model.layers - draft.first_stage_layers.value_or(0) - draft.last_stage_layers.value_or(0);
  const std::int64_t middle = ranks - given;
  if (given == 2 && middle == 0 && rest != 0)
    return wrong("decoder-first-pipeline-num-layers",
                 fmt::format("{} + {} layers of the first and the last stage are not the model's {}",
                             *draft.first_stage_layers, *draft.last_stage_layers, draft.run.model.layers));
  if (middle < 0 || rest < 0 || (middle == 0 ? rest != 0 : rest % middle != 0))
    return wrong(draft.first_stage_layers ? "decoder-first-pipeline-num-layers" : "decoder-last-pipeline-num-layers",
                 fmt::format("{} layers are left for {} ranks; they have to divide evenly", rest, middle));
  for (std::int64_t stage = 0; stage < ranks * parallel.virtual_pipeline; ++stage) {
    const std::int64_t rank = stage % ranks;
    const std::int64_t on_rank = rank == 0 && draft.first_stage_layers ? *draft.first_stage_layers
                                 : rank == ranks - 1 && draft.last_stage_layers
                                     ? *draft.last_stage_layers
                                     : rest / std::max<std::int64_t>(1, middle);
    if (on_rank % parallel.virtual_pipeline != 0)
      return wrong("num-virtual-stages-per-pipeline-rank",
                   fmt::format("{} chunks do not divide the {} layers of pipeline rank {}", parallel.virtual_pipeline,
                               on_rank, rank));
    counts.push_back(on_rank / parallel.virtual_pipeline);
  }
  return std::nullopt;
}

Problem even_stages(const Draft& draft, Counts& counts, Notes& notes) {
  const Parallel& parallel = draft.run.parallel;
  const std::int64_t stages = parallel.pipeline * parallel.virtual_pipeline;
  const Share share = share_of(draft, stages);
  if (share.loss && !draft.loss_counts)
    notes.push_back(
        fmt::format("{} layers on {} stages: {}the loss taken as a layer, as --account-for-loss-in-pipeline-"
                    "split would say",
                    draft.run.model.layers, stages, share.embedding ? "the embedding and " : ""));
  if (share.layers % stages != 0)
    return wrong("num-layers", fmt::format("{} layers do not divide into {} pipeline stages{}", share.layers, stages,
                                           share.embedding || share.loss
                                               ? ""
                                               : "; --account-for-embedding-in-pipeline-split and --account-for-loss-"
                                                 "in-pipeline-split make those count as layers"));
  counts.assign(static_cast<std::size_t>(stages), share.layers / stages);
  if (share.embedding) --counts.front();
  if (share.loss) --counts.back();
  if (counts.front() < 0 || counts.back() < 0)
    return wrong("num-layers", fmt::format("{} stages leave none for the layers", stages));
  return std::nullopt;
}

/// A list of layer counts by stage, or nothing where the text holds none (a switch that lost its value).
Problem listed_stages(const Draft& draft, Counts& counts, bool& given) {
  given = false;
  if (draft.layer_list.empty() || switch_value(draft.layer_list).has_value()) return std::nullopt;
  const std::int64_t stages = draft.run.parallel.pipeline * draft.run.parallel.virtual_pipeline;
  const std::optional<Counts> list = number_list(draft.layer_list, kMostLayers);
  std::int64_t sum = 0;
  for (const std::int64_t n : list.value_or(Counts{})) sum = n < 0 || sum < 0 ? -1 : sum + n;
  if (!list || std::ssize(*list) != stages || sum != draft.run.model.layers)
    return wrong("num-layer-list", fmt::format("{} is not a list of {} stages with {} layers together",
                                               quoted(draft.layer_list), stages, draft.run.model.layers));
  counts = *list;
  given = true;
  return std::nullopt;
}

Problem read_noops(const Draft& draft, std::vector<bool>& is_noop) {
  is_noop.assign(static_cast<std::size_t>(draft.run.model.layers), false);
  if (draft.noop_layers.empty()) return std::nullopt;
  const auto ids = number_list(draft.noop_layers, kMostLayers);
  for (const std::int64_t id : ids.value_or(Counts{-1})) {
    if (id < 0 || id >= draft.run.model.layers)
      return wrong("noop-layers", fmt::format("{} is not a list of layers from 0 to {}", quoted(draft.noop_layers),
                                              draft.run.model.layers - 1));
    is_noop[static_cast<std::size_t>(id)] = true;
  }
  return std::nullopt;
}

void make_room(Parallel& parallel) {
  parallel.chunks.assign(static_cast<std::size_t>(parallel.pipeline),
                         std::vector<Chunk>(static_cast<std::size_t>(parallel.virtual_pipeline)));
}

/// Stage i is chunk i / ranks of rank i % ranks; in a V the second half runs back.
void fill_chunks(Draft& draft, const Counts& counts, const std::vector<bool>& is_noop) {
  Parallel& parallel = draft.run.parallel;
  make_room(parallel);
  std::int64_t layer = 0;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    const std::size_t chunk = stage / parallel.chunks.size();
    std::size_t rank = stage % parallel.chunks.size();
    if (parallel.schedule == Schedule::dualpipev && chunk == 1) rank = parallel.chunks.size() - 1 - rank;
    Chunk& filled = parallel.chunks[rank][chunk];
    for (const std::int64_t end = layer + counts[stage]; layer < end; ++layer)
      if (!is_noop[static_cast<std::size_t>(layer)]) filled.layers.push_back(layer);
    filled.embedding = stage == 0;
    filled.loss = stage + 1 == counts.size();
    filled.mtp = filled.loss ? draft.run.model.mtp_layers : 0;
  }
}

Problem place_by_layout(Draft& draft) {
  constexpr const char* kName = "pipeline-model-parallel-layout";
  Parallel& parallel = draft.run.parallel;
  const auto stages = expand_layout(draft.layout);
  if (!stages) return wrong(kName, fmt::format("{} is not a layout like Et*3|(tt|)*6tmL", quoted(draft.layout)));
  const auto count = std::ssize(*stages);
  if (count % parallel.pipeline != 0 || count > kMostStages)
    return wrong(kName, fmt::format("{} stages do not divide over {} pipeline ranks", count, parallel.pipeline));
  parallel.virtual_pipeline = count / parallel.pipeline;
  make_room(parallel);
  std::int64_t layer = 0;
  std::int64_t embeddings = 0, losses = 0, mtp = 0;
  for (std::size_t i = 0; i < stages->size(); ++i) {
    const std::string& stage = (*stages)[i];
    Chunk& chunk = parallel.chunks[i % parallel.chunks.size()][i / parallel.chunks.size()];
    for (auto left = std::ranges::count(stage, 't'); left > 0; --left) chunk.layers.push_back(layer++);
    chunk.embedding = stage.find('E') != std::string::npos;
    chunk.loss = stage.find('L') != std::string::npos;
    chunk.mtp = std::ranges::count(stage, 'm');
    embeddings += std::ranges::count(stage, 'E');
    losses += std::ranges::count(stage, 'L');
    mtp += chunk.mtp;
  }
  if (layer != draft.run.model.layers)
    return wrong(kName, fmt::format("it places {} layers; the model has {}", layer, draft.run.model.layers));
  if (embeddings != 1 || losses != 1 || !parallel.chunks.front().front().embedding ||
      !parallel.chunks.back().back().loss)
    return wrong(kName, "it needs one E in the first stage and one L in the last");
  if (mtp != draft.run.model.mtp_layers)
    return wrong(kName,
                 fmt::format("it places {} MTP layers; --mtp-num-layers is {}", mtp, draft.run.model.mtp_layers));
  return std::nullopt;
}

}  // namespace

Problem mark_moe_layers(Draft& draft) {
  const std::int64_t layers = draft.run.model.layers;
  std::vector<bool>& is_moe = draft.run.model.moe.is_moe;
  is_moe.assign(static_cast<std::size_t>(layers), false);
  if (draft.run.model.moe.experts == 0) return std::nullopt;
  Counts pattern{1};
  if (!draft.moe_pattern.empty()) {
    const auto expanded = expand_pattern(draft.moe_pattern, kMostLayers);
    if (!expanded || expanded->empty())
      return wrong("moe-layer-freq",
                   fmt::format("{} is neither a number nor a list like ([0]*3+[1]*11)", quoted(draft.moe_pattern)));
    pattern = *expanded;
  }
  const bool is_list = pattern.size() > 1 || draft.moe_pattern.find('[') != std::string::npos;
  if (is_list && std::ssize(pattern) != layers)
    return wrong("moe-layer-freq",
                 fmt::format("the list has {} entries; the model has {} layers", pattern.size(), layers));
  if (!is_list && pattern.front() == 0 && !draft.recorded)
    return wrong("moe-layer-freq", "every how many layers is a number from 1; or write a list like ([0]*3+[1]*11)");
  const std::int64_t every = !is_list && pattern.front() > 0 ? pattern.front() : 1;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto i = static_cast<std::size_t>(layer);
    is_moe[i] = layer >= draft.first_dense.value_or(0) && (is_list ? pattern[i] != 0 : layer % every == 0);
  }
  return std::nullopt;
}

Problem place_layers(Draft& draft, Notes& notes) {
  if (!draft.layout.empty()) return place_by_layout(draft);
  if (Problem problem = count_chunks(draft)) return problem;
  Counts counts;
  bool listed = false;
  if (Problem problem = listed_stages(draft, counts, listed)) return problem;
  if (!listed) {
    Problem problem = draft.first_stage_layers || draft.last_stage_layers ? uneven_ends(draft, counts)
                                                                          : even_stages(draft, counts, notes);
    if (problem) return problem;
  }
  std::vector<bool> is_noop;
  if (Problem problem = read_noops(draft, is_noop)) return problem;
  fill_chunks(draft, counts, is_noop);
  return std::nullopt;
}

Problem place_hybrid(Draft& draft) {
  constexpr const char* kName = "hybrid-layer-pattern";
  Parallel& parallel = draft.run.parallel;
  const std::string_view pattern = draft.run.model.hybrid_pattern;
  if (pattern.size() > kMostLayers || pattern.find_first_not_of("M*-E|/") != std::string_view::npos)
    return wrong(kName,
                 fmt::format("{} is not a pattern of M, *, - and E with | between stages and / before MTP layers",
                             quoted(pattern)));
  const std::string_view main = pattern.substr(0, pattern.find('/'));
  const std::int64_t bars = std::ranges::count(main, '|');
  const std::int64_t stages = bars + 1;
  const std::int64_t layers = std::ssize(main) - bars;
  if (layers == 0) return wrong(kName, "it has no layer");
  if (bars > 0 ? stages % parallel.pipeline != 0 : layers % parallel.pipeline != 0)
    return wrong(kName, fmt::format("{} do not divide over {} pipeline ranks",
                                    bars > 0 ? fmt::format("{} stages", stages) : fmt::format("{} layers", layers),
                                    parallel.pipeline));
  parallel.virtual_pipeline = bars > 0 ? stages / parallel.pipeline : 1;
  draft.run.model.layers = layers;
  return std::nullopt;
}

}  // namespace tidemark::estimate
