#include "planner/estimate/fsdp2_rank.h"

#include <algorithm>

#include "planner/estimate/fsdp2_layers.h"
#include "planner/estimate/in_flight.h"
#include "planner/estimate/static_cuda.h"

namespace tidemark::estimate {
namespace {

constexpr double kMaster = 4;       // fp32 weights, from which FSDP2 gathers 16-bit ones
constexpr double kMoments = 2 * 4;  // AdamW in fp32

constexpr std::string_view kStateSource = "torch/distributed/fsdp/_fully_shard/_fsdp_param.py: sharded fp32 parameters";
constexpr std::string_view kGatherSource =
    "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: all-gather output on its own stream";

double number(std::int64_t value) {
  return static_cast<double>(value);
}

/// Elements of one unit that is gathered at once. torchtitan shards the embedding, each layer, and norm with output.
struct Units {
  double layer = 0;   ///< the largest layer
  double output = 0;  ///< 0: not on this rank
  double largest = 0;
};

struct Sharded {
  double elements = 0;  ///< on this rank after sharding
};

Sharded sharded(const RankView& view) {
  Sharded sum;
  for (const Parameter& parameter : view.parameters)
    sum.elements += number(parameter.elements) / optimizer_shards(view.run, parameter.expert);
  return sum;
}

Units units_of(const RankView& view) {
  const std::vector<Chunk>& chunks = view.run.parallel.chunks[static_cast<std::size_t>(view.place.stage)];
  double vocabulary = 0;
  double elsewhere = 0;
  double layers = 0;
  for (const Parameter& parameter : view.parameters) {
    // Experts shared out over ranks are gathered over fewer of them, but as many elements of this rank's.
    (parameter.role == ParameterRole::embedding ? vocabulary : elsewhere) += number(parameter.elements);
  }
  for (const Chunk& chunk : chunks) layers += number(std::ssize(chunk.layers));
  Units units{.layer = layers > 0 ? elsewhere / layers : 0};
  const double table = view.sizes.vocabulary * view.sizes.hidden;
  if (view.has_loss()) units.output = table;
  units.largest = std::max(units.layer, vocabulary > 0 ? table : 0);
  return units;
}

std::vector<Term> steady_terms(const RankView& view, const Units& units) {
  const TrainingRun& run = view.run;
  const double elements = sharded(view).elements;
  const double gathered = view.sizes.element_bytes;
  TermList terms;
  terms.add({"parameters", kMaster * elements, Origin::code, kStateSource});
  // Written on the stream of the reduce-scatter, whose pool nothing else uses: reserved between steps, too.
  terms.add({"gradients", kMaster * elements, Origin::code,
             "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: foreach_reduce"});
  terms.add({"moments", kMoments * elements, Origin::code, "torch/optim/adamw.py"});
  terms.add({"gathered_copies", gathered * (units.largest + units.layer), Origin::code, kGatherSource});
  if (run.fsdp2.keeps_gathered)
    terms.add({"gathered_parameters", gathered * count_elements(view.parameters), Origin::code,
               "torchtitan models/*/parallelize.py: reshard_after_forward is off"});
  // Without synchronization until the last micro-batch of a pipeline, gradients add up in the type of the reduction.
  if (run.parallel.pipeline > 1 && run.batch.micro_batches > 1)
    terms.add({"accumulated_gradients", number(run.fsdp2.reduce_bytes) * count_elements(view.parameters), Origin::code,
               "torch/distributed/pipelining/stage.py: backward_maybe_with_nosync"});
  terms.add({"cublas_workspaces", 2 * cublas_workspace_bytes(run.platform), Origin::library_default,
             "pytorch aten/src/ATen/cuda/CublasHandlePool.cpp: parseChosenWorkspaceSize"});
  return std::move(terms).take();
}

struct LayerSums {
  double kept = 0;
  double rebuilt = 0;  ///< beside what is kept, of the layer that needs most
};

LayerSums layer_sums(const RankView& view) {
  const std::vector<Chunk>& chunks = view.run.parallel.chunks[static_cast<std::size_t>(view.place.stage)];
  const std::vector<std::int64_t> flight = in_flight(view.run, view.place.stage, chunks.size());
  LayerSums sums;
  std::int64_t turn = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i)
    for (const std::int64_t layer : chunks[i].layers) {
      const Fsdp2Layer one = fsdp2_layer(view, layer, turn++);
      sums.kept += number(flight[i]) * one.kept;
      sums.rebuilt = std::max(sums.rebuilt, one.rebuilt - one.kept);
    }
  return sums;
}

/// At the loss: the output matrix gathered, its input (of all tensor ranks), logits and their gradients.
std::vector<Term> loss_terms(const RankView& view, const Units& units) {
  TermList terms;
  if (!view.has_loss()) return {};
  const LocalSizes& sizes = view.sizes;
  const double logits = sizes.tokens * fsdp2_logit_columns(view);
  terms.add({"logits", fsdp2_loss_bytes(view.run) * logits, Origin::code,
             "torchtitan components/loss.py; order of the caching allocator's blocks"});
  double norm = 2 * sizes.boundary_bytes;
  if (view.run.parallel.tensor > 1) norm += sizes.tokens * sizes.hidden * sizes.element_bytes;
  terms.add({"final_norm", norm, Origin::code, "torchtitan models/common/decoder.py"});
  if (!view.run.fsdp2.keeps_gathered)
    terms.add({"gathered_output", sizes.element_bytes * units.output, Origin::code,
               "torchtitan models/*/parallelize.py: norm and output are not resharded after forward"});
  return std::move(terms).take();
}

/// In the backward of a layer: it and the one prefetched gathered, its gradient and the copy that is reduced, what is
/// recomputed and as much again in gradients of it.
std::vector<Term> backward_terms(const RankView& view, const Units& units, const LayerSums& sums) {
  TermList terms;
  const double element = view.sizes.element_bytes;
  const double weights = view.run.fsdp2.keeps_gathered ? 0 : 2 * element * units.layer;
  terms.add({"gathered_layers", weights, Origin::code,
             "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py: the next layer is gathered ahead"});
  terms.add({"layer_gradients", (element + number(view.run.fsdp2.reduce_bytes)) * units.layer, Origin::code,
             "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: reduce-scatter input"});
  terms.add({"backward_work", sums.rebuilt + 4 * view.sizes.boundary_bytes, Origin::code,
             "gradients and rebuilt tensors of one layer"});
  return std::move(terms).take();
}

/// A pipeline's last stage keeps the logits of every micro-batch of a step.
Term pipeline_outputs(const RankView& view) {
  const bool used = view.run.parallel.pipeline > 1 && view.has_loss();
  const double waiting = number(view.run.batch.micro_batches) - 1;
  return {"pipeline_outputs",
          used ? waiting * view.sizes.tokens * fsdp2_logit_columns(view) * view.sizes.element_bytes : 0, Origin::code,
          "torch/distributed/pipelining/stage.py: output_chunks"};
}

}  // namespace

void estimate_fsdp2(const RankView& view, RankMemory& memory) {
  const Units units = units_of(view);
  memory.steady = steady_terms(view, units);
  memory.steady_bytes = sum_of(memory.steady);
  memory.parameters = count_elements(view.parameters);
  const LayerSums sums = layer_sums(view);
  const std::vector<Term> at_loss = loss_terms(view, units);
  const std::vector<Term> in_backward = backward_terms(view, units, sums);
  TermList terms;
  terms.add({"activations", sums.kept, Origin::code, "torchtitan distributed/activation_checkpoint.py"});
  terms.add(pipeline_outputs(view));
  for (const Term& term : sum_of(at_loss) >= sum_of(in_backward) ? at_loss : in_backward) terms.add(term);
  memory.at_peak = std::move(terms).take();
  memory.at_running_peak = memory.at_peak;
  memory.step_peak_bytes = memory.steady_bytes;
  memory.peak_bytes = memory.running_peak_bytes = memory.steady_bytes + sum_of(memory.at_peak);
  // Moments are made by the first optimizer step, gradients by its backward.
  memory.first_peak_bytes = memory.peak_bytes - kMoments * sharded(view).elements;
}

}  // namespace tidemark::estimate
