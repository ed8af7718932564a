#include "planner/graph_build/step_graph.h"

#include <map>

#include "planner/cost/op_prices.h"
#include "planner/graph_build/pass_merge.h"
#include "planner/graph_build/pipeline_schedule.h"
#include "planner/graph_build/step_parts.h"

namespace tidemark::graph_build {
namespace {

/// Places ops: passes in schedule order, then the end of the step.
class StepEmitter {
 public:
  StepEmitter(const JobSpec& job, const Machine& machine, StepParts parts)
      : machine_(machine),
        ranks_(job.parallel.pipeline),
        stages_(job.parallel.pipeline * job.parallel.virtual_pipeline),
        parts_(std::move(parts)),
        versions_(parts_.static_storages, 0) {}

  [[nodiscard]] Graph emit(const std::vector<Pass>& passes) {
    emit_passes(passes);
    emit_step_end();
    return std::move(graph_);
  }

 private:
  void emit_passes(const std::vector<Pass>& passes);
  void emit_pass(const Pass& pass);
  void emit_pair(const Pass& forward, const Pass& backward);
  void emit_receive(const Pass& pass);
  void emit_send(const Pass& pass);
  void emit_step(const Pass& pass, const PassStep& step, const std::vector<Binding>& bindings);
  void emit_message(OpTemplateId op, SiteId site, Access access, Message message);
  void stamp(const PassProgram& program, std::size_t op, const Binding& binding);
  void emit_step_end();
  const std::vector<bool>& merge_order(std::int32_t forward_chunk, std::int32_t backward_chunk);
  [[nodiscard]] std::vector<TimedOp> timed_ops(std::int32_t chunk, bool forward);
  [[nodiscard]] const std::vector<PassStep>& steps_of(const Pass& pass) const {
    return pass.forward ? parts_.chunks.at(pass.chunk).forward : parts_.chunks.at(pass.chunk).backward;
  }
  [[nodiscard]] std::int64_t tag(std::int32_t receiver_stage, std::int32_t micro_batch, bool gradient) const {
    return (std::int64_t{micro_batch} * stages_ + receiver_stage) * 2 + (gradient ? 1 : 0);
  }

  [[nodiscard]] std::int32_t stage_of(std::int32_t chunk) const { return chunk * ranks_ + graph_.rank; }

  const Machine& machine_;
  std::int32_t ranks_;
  std::int32_t stages_;
  StepParts parts_;
  Graph& graph_ = parts_.graph;
  std::vector<std::int32_t> versions_;  ///< of static storages
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<bool>> merges_;
  std::vector<Binding> bindings_, other_bindings_;
};

void StepEmitter::stamp(const PassProgram& program, std::size_t op, const Binding& binding) {
  graph_.ops.push_back({.op_template = program.ops[op].op_template,
                        .site = binding.site,
                        .first_access = static_cast<std::int32_t>(graph_.accesses.size())});
  for (const ProgramAccess& access : program.accesses_of(op)) {
    const std::int32_t storage = binding.base[static_cast<std::size_t>(access.scope)] + access.local;
    std::int32_t version = access.version;
    if (version == kFinalVersion) {
      version = binding.final_version;
    } else if (version < 0) {
      std::int32_t& current = versions_[static_cast<std::size_t>(storage)];
      version = version == kNextVersion ? ++current : current;
    }
    graph_.accesses.push_back({.storage = static_cast<StorageId>(storage), .version = version, .kind = access.kind});
  }
}

void StepEmitter::emit_message(OpTemplateId op, SiteId site, Access access, Message message) {
  message.op = id_of<OpId>(graph_.ops.size());
  message.bytes = graph_.storages[row(access.storage)].bytes;
  graph_.ops.push_back(
      {.op_template = op, .site = site, .first_access = static_cast<std::int32_t>(graph_.accesses.size())});
  graph_.accesses.push_back(access);
  graph_.messages.push_back(message);
}

void StepEmitter::emit_receive(const Pass& pass) {
  const std::int32_t stage = stage_of(pass.chunk);
  if (ranks_ == 1 || stage == (pass.forward ? 0 : stages_ - 1)) return;
  const StorageId storage = pass.forward ? parts_.chunks.entry_activation(pass.chunk, pass.micro_batch)
                                         : parts_.chunks.exit_gradient(pass.chunk, pass.micro_batch);
  emit_message(pass.forward ? parts_.messages.receive_activation : parts_.messages.receive_gradient,
               graph_.storages[row(storage)].site, {.storage = storage, .version = 1, .kind = AccessKind::write},
               {.peer_rank = (pass.forward ? stage - 1 : stage + 1) % ranks_,
                .tag = tag(stage, pass.micro_batch, !pass.forward)});
}

void StepEmitter::emit_send(const Pass& pass) {
  const ChunkLine& line = parts_.chunks.at(pass.chunk);
  const std::int32_t stage = stage_of(pass.chunk) + (pass.forward ? 1 : -1);
  const StorageId storage =
      pass.forward ? line.sent_activation(pass.micro_batch) : line.storage(pass.micro_batch, line.gradient_buffer);
  emit_message(pass.forward ? parts_.messages.send_activation : parts_.messages.send_gradient,
               graph_.storages[row(storage)].site,
               {.storage = storage, .version = pass.forward ? 1 : parts_.chunks.gradient_writes(pass.chunk)},
               {.peer_rank = stage % ranks_, .tag = tag(stage, pass.micro_batch, !pass.forward), .is_send = true});
}

void StepEmitter::emit_step(const Pass& pass, const PassStep& step, const std::vector<Binding>& bindings) {
  if (step.element < 0) {
    emit_send(pass);
    return;
  }
  const auto element = static_cast<std::size_t>(step.element);
  const BlockProgram& program = parts_.chunks.at(pass.chunk).elements[element].block->program;
  stamp(pass.forward ? program.forward : program.backward, static_cast<std::size_t>(step.op), bindings[element]);
}

void StepEmitter::emit_pass(const Pass& pass) {
  emit_receive(pass);
  parts_.chunks.bind(pass.chunk, pass.micro_batch, bindings_);
  for (const PassStep& step : steps_of(pass)) emit_step(pass, step, bindings_);
}

void StepEmitter::emit_pair(const Pass& forward, const Pass& backward) {
  emit_receive(forward);
  emit_receive(backward);
  parts_.chunks.bind(forward.chunk, forward.micro_batch, bindings_);
  parts_.chunks.bind(backward.chunk, backward.micro_batch, other_bindings_);
  std::size_t f = 0, b = 0;
  for (const bool takes_forward : merge_order(forward.chunk, backward.chunk)) {
    if (takes_forward) {
      emit_step(forward, steps_of(forward)[f++], bindings_);
    } else {
      emit_step(backward, steps_of(backward)[b++], other_bindings_);
    }
  }
}

void StepEmitter::emit_passes(const std::vector<Pass>& passes) {
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (passes[i].paired_with_next) {
      emit_pair(passes[i], passes[i + 1]);
      ++i;
    } else {
      emit_pass(passes[i]);
    }
  }
}

/// Ops of a pass with modelled times and their dependencies within the pass. Static storages order nothing here: what
/// touches them in a pass runs on one lane.
std::vector<TimedOp> StepEmitter::timed_ops(std::int32_t chunk, bool forward) {
  struct Last {
    std::int32_t writer = -1;
    std::vector<std::int32_t> readers;
  };
  const cost::OpPrices prices(graph_, machine_);
  std::map<std::int32_t, Last> last;
  std::vector<Binding> bindings;
  parts_.chunks.bind(chunk, 0, bindings);
  const ChunkLine& line = parts_.chunks.at(chunk);
  std::vector<TimedOp> ops;
  const auto touch = [&](std::int32_t storage, AccessKind kind) {
    Last& state = last[storage];
    const auto self = static_cast<std::int32_t>(ops.size()) - 1;
    if (state.writer >= 0 && state.writer != self) ops.back().after.push_back(state.writer);
    if (kind == AccessKind::read) {
      state.readers.push_back(self);
      return;
    }
    for (const std::int32_t reader : state.readers) {
      if (reader != self) ops.back().after.push_back(reader);
    }
    state = {.writer = self};
  };
  for (const PassStep& step : forward ? line.forward : line.backward) {
    if (step.element < 0) {
      const OpTemplateId send = forward ? parts_.messages.send_activation : parts_.messages.send_gradient;
      ops.push_back({.lane = Lane::send, .ns = prices.ns(send, parts_.fullest_load)});
      touch(static_cast<std::int32_t>(forward ? line.sent_activation(0) : line.storage(0, line.gradient_buffer)),
            AccessKind::read);
      continue;
    }
    const auto element = static_cast<std::size_t>(step.element);
    const BlockProgram& block = line.elements[element].block->program;
    const PassProgram& program = forward ? block.forward : block.backward;
    const auto op = static_cast<std::size_t>(step.op);
    const OpTemplateId op_template = program.ops[op].op_template;
    ops.push_back(
        {.lane = graph_.op_templates[row(op_template)].lane, .ns = prices.ns(op_template, parts_.fullest_load)});
    for (const ProgramAccess& access : program.accesses_of(op)) {
      const std::int32_t storage = bindings[element].base[static_cast<std::size_t>(access.scope)] + access.local;
      if (static_cast<std::size_t>(storage) >= versions_.size()) touch(storage, access.kind);
    }
  }
  return ops;
}

const std::vector<bool>& StepEmitter::merge_order(std::int32_t forward_chunk, std::int32_t backward_chunk) {
  auto [entry, is_new] = merges_.try_emplace({forward_chunk, backward_chunk});
  if (is_new) entry->second = merge_passes(timed_ops(forward_chunk, true), timed_ops(backward_chunk, false));
  return entry->second;
}

/// All reductions first, so that no update holds up the next reduction on the link.
void StepEmitter::emit_step_end() {
  for (const OpPhase phase : {OpPhase::gradient_reduction, OpPhase::optimizer}) {
    for (std::size_t i = 0; i < parts_.statics.size(); ++i) {
      const auto first = static_cast<std::int32_t>(parts_.statics[i].first_storage);
      Binding binding{.site = id_of<SiteId>(i)};
      binding.base.fill(first);
      const PassProgram& program = parts_.statics[i].block.program.backward;
      for (std::size_t op = 0; op < program.ops.size(); ++op) {
        if (graph_.op_templates[row(program.ops[op].op_template)].phase == phase) stamp(program, op, binding);
      }
    }
  }
}

}  // namespace

Result<Graph> build_step_graph(const JobSpec& job, const Machine& machine, std::int32_t rank, double load) {
  const PipelineShape shape{.ranks = job.parallel.pipeline,
                            .chunks = job.parallel.virtual_pipeline,
                            .micro_batches = static_cast<std::int32_t>(job.parallel.micro_batches()),
                            .overlap = job.parallel.overlap_forward_backward};
  auto passes = pipeline_passes(shape, rank);
  if (!passes) return passes.error();
  return StepEmitter(job, machine, make_step_parts(job, machine, rank, load)).emit(passes.value());
}

}  // namespace tidemark::graph_build
