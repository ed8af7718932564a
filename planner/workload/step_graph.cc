#include "planner/workload/step_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>

#include "planner/cost_model.h"
#include "planner/workload/chunk_line.h"
#include "planner/workload/op_cost.h"
#include "planner/workload/pass_merge.h"
#include "planner/workload/pipeline_schedule.h"

namespace tidemark {
namespace {

/// Op templates of messages between pipeline ranks.
struct MessageOps {
  OpTemplateId receive_activation, receive_gradient, send_activation, send_gradient;
};

class StepBuilder {
 public:
  StepBuilder(const JobSpec& job, const Machine& machine, std::int32_t rank, double load)
      : job_(job),
        machine_(machine),
        rank_(rank),
        load_(load),
        shapes_(device_shapes(job, machine)),
        stages_(job.parallel.pipeline * job.parallel.virtual_pipeline),
        micro_batches_(static_cast<std::int32_t>(job.parallel.micro_batches())) {
    graph_.rank = rank;
  }

  [[nodiscard]] Graph build(const std::vector<Pass>& passes) {
    add_parameters();
    add_message_ops();
    add_chunks();
    reserve();
    add_sites();
    emit_passes(passes);
    emit_step_end();
    return std::move(graph_);
  }

 private:
  // Static part.
  void add_parameters();
  void add_message_ops();
  [[nodiscard]] StorageId parameters_of(ParameterSite::Kind kind, std::int32_t layer) const;
  [[nodiscard]] const ParameterSite* find_parameters(ParameterSite::Kind kind, std::int32_t layer) const;
  void find_ends();

  // Chunks.
  void add_chunks();
  [[nodiscard]] ChunkLine make_chunk(std::int32_t chunk);
  void add_element(ChunkLine& line, Element::Kind kind, std::int32_t layer, const StepBlock& block,
                   ParameterSite::Kind parameters);
  const StepBlock& layer_block(LayerKind kind);
  const StepBlock& mtp_block(const ParameterSite& site, MtpPosition position);
  void add_ends(ChunkLine& line, const std::vector<Slot>& slots);
  void list_passes(ChunkLine& line) const;
  void place_storages(ChunkLine& line, std::int32_t& storages, std::int32_t& sites);
  void reserve();
  void add_sites();
  void add_site(const StepBlock& block, Site site);
  [[nodiscard]] std::int32_t stage_of(std::int32_t chunk) const { return chunk * job_.parallel.pipeline + rank_; }

  // Ops.
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
    return pass.forward ? chunks_.at(pass.chunk).forward : chunks_.at(pass.chunk).backward;
  }
  [[nodiscard]] std::int64_t tag(std::int32_t receiver_stage, std::int32_t micro_batch, bool gradient) const {
    return (std::int64_t{micro_batch} * stages_ + receiver_stage) * 2 + (gradient ? 1 : 0);
  }

  const JobSpec& job_;
  const Machine& machine_;
  std::int32_t rank_;
  double load_;
  DeviceShapes shapes_;
  std::int32_t stages_;
  std::int32_t micro_batches_;
  Graph graph_;

  std::vector<ParameterSite> parameter_sites_;
  std::vector<StepBlock> parameter_blocks_;
  std::vector<StorageId> parameter_storages_;  ///< first storage per parameter site
  EndParameters ends_;                         ///< embedding and head of this rank
  StorageId embedding_storages_ = kNone<StorageId>;
  StorageId head_storages_ = kNone<StorageId>;
  std::vector<std::int32_t> versions_;  ///< of static storages, which come first

  std::deque<StepBlock> blocks_;  ///< stable addresses
  std::array<const StepBlock*, 2> layer_blocks_{};
  const StepBlock* activation_buffer_ = nullptr;
  const StepBlock* gradient_buffer_ = nullptr;
  ChunkLines chunks_{{}, false};
  MessageOps messages_{};
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<bool>> merges_;
  std::vector<Binding> bindings_, other_bindings_;
};

// ---- static part --------------------------------------------------------------------------------------------------

void StepBuilder::add_parameters() {
  const BlockInput input{graph_, job_, shapes_};
  parameter_sites_ = rank_parameters(job_, rank_);
  for (const ParameterSite& site : parameter_sites_) {
    parameter_blocks_.push_back(make_parameter_block(input, site));
    parameter_storages_.push_back(id_of<StorageId>(graph_.storages.size()));
    add_site(parameter_blocks_.back(), {.chunk = site.chunk, .layer = site.layer});
  }
  versions_.assign(graph_.storages.size(), 0);
  find_ends();
}

void StepBuilder::find_ends() {
  for (std::size_t i = 0; i < parameter_sites_.size(); ++i) {
    const ParameterSite& site = parameter_sites_[i];
    if (site.kind == ParameterSite::Kind::head) {
      ends_.head = site.groups;
      head_storages_ = parameter_storages_[i];
    }
    // The embedding's own site, or the copy one MTP module keeps for all.
    for (std::size_t group = 0; group < site.groups.size(); ++group) {
      if (site.groups[group].name != "embedding") continue;
      ends_.embedding = {site.groups[group]};
      embedding_storages_ = id_of<StorageId>(row(parameter_storages_[i]) + 3 * group);
    }
  }
}

const ParameterSite* StepBuilder::find_parameters(ParameterSite::Kind kind, std::int32_t layer) const {
  for (const ParameterSite& site : parameter_sites_) {
    if (site.kind == kind && site.layer == layer) return &site;
  }
  return nullptr;
}

StorageId StepBuilder::parameters_of(ParameterSite::Kind kind, std::int32_t layer) const {
  const ParameterSite* site = find_parameters(kind, layer);
  return site == nullptr ? kNone<StorageId>
                         : parameter_storages_[static_cast<std::size_t>(site - parameter_sites_.data())];
}

void StepBuilder::add_message_ops() {
  const auto bytes = shapes_.local_tokens * shapes_.hidden * kActivationBytes;
  const auto add = [&](const char* name, OpPhase phase) {
    OpTemplate op{.name = name, .lane = Lane::p2p, .phase = phase};
    if (phase == OpPhase::send) op.cost = link_cost(bytes);
    graph_.op_templates.push_back(std::move(op));
    return id_of<OpTemplateId>(graph_.op_templates.size() - 1);
  };
  messages_ = {.receive_activation = add("pipeline.receive_activation", OpPhase::receive),
               .receive_gradient = add("pipeline.receive_gradient", OpPhase::receive),
               .send_activation = add("pipeline.send_activation", OpPhase::send),
               .send_gradient = add("pipeline.send_gradient", OpPhase::send)};
}

// ---- chunks -------------------------------------------------------------------------------------------------------

const StepBlock& StepBuilder::layer_block(LayerKind kind) {
  const StepBlock*& block = layer_blocks_[kind == LayerKind::moe ? 1 : 0];
  if (block == nullptr) {
    blocks_.push_back(make_layer_block({graph_, job_, shapes_}, kind));
    block = &blocks_.back();
  }
  return *block;
}

const StepBlock& StepBuilder::mtp_block(const ParameterSite& site, MtpPosition position) {
  EndParameters parameters = ends_;
  parameters.own = site.groups;
  blocks_.push_back(make_mtp_block({graph_, job_, shapes_}, parameters, position));
  return blocks_.back();
}

void StepBuilder::add_element(ChunkLine& line, Element::Kind kind, std::int32_t layer, const StepBlock& block,
                              ParameterSite::Kind parameters) {
  line.elements.push_back({.kind = kind,
                           .layer = layer,
                           .block = &block,
                           .parameters = parameters_of(parameters, layer),
                           .embedding_parameters = embedding_storages_,
                           .head_parameters = head_storages_});
}

/// MTP modules and the head, behind the trunk of the last stage.
void StepBuilder::add_ends(ChunkLine& line, const std::vector<Slot>& slots) {
  for (const Slot& slot : slots) {
    if (slot.kind != Slot::Kind::mtp) continue;
    const auto layer = static_cast<std::int32_t>(job_.model.layers.size()) + slot.layer;
    const MtpPosition position{.first = slot.layer == 0, .last = slot.layer + 1 == job_.model.mtp_layers};
    add_element(line, Element::Kind::mtp, layer, mtp_block(*find_parameters(ParameterSite::Kind::mtp, layer), position),
                ParameterSite::Kind::mtp);
  }
  const bool owns_input = static_cast<std::size_t>(line.trunk_end) == line.elements.size();
  blocks_.push_back(make_head_block({graph_, job_, shapes_}, ends_, owns_input));
  add_element(line, Element::Kind::head, -1, blocks_.back(), ParameterSite::Kind::head);
}

void StepBuilder::list_passes(ChunkLine& line) const {
  const auto append = [](std::vector<PassStep>& steps, std::int32_t element, const PassProgram& program) {
    for (std::size_t op = 0; op < program.ops.size(); ++op) {
      steps.push_back({.element = element, .op = static_cast<std::int32_t>(op)});
    }
  };
  const auto size = static_cast<std::int32_t>(line.elements.size());
  for (std::int32_t e = 0; e < size; ++e) {
    append(line.forward, e, line.elements[static_cast<std::size_t>(e)].block->program.forward);
    const std::int32_t last_first = size - 1 - e;
    append(line.backward, last_first, line.elements[static_cast<std::size_t>(last_first)].block->program.backward);
  }
  if (line.activation_buffer >= 0) line.forward.push_back({.element = -1});
  if (line.gradient_buffer >= 0) line.backward.push_back({.element = -1});
}

ChunkLine StepBuilder::make_chunk(std::int32_t chunk) {
  ChunkLine line;
  const std::int32_t stage = stage_of(chunk);
  const auto& slots = job_.parallel.slots[static_cast<std::size_t>(rank_)][static_cast<std::size_t>(chunk)];
  if (stage == 0) {
    blocks_.push_back(make_embedding_block({graph_, job_, shapes_}));
    add_element(line, Element::Kind::embedding, -1, blocks_.back(), ParameterSite::Kind::embedding);
  }
  for (const Slot& slot : slots) {
    if (slot.kind != Slot::Kind::layer) continue;
    const LayerKind kind = job_.model.layers[static_cast<std::size_t>(slot.layer)];
    const auto parameters = kind == LayerKind::moe ? ParameterSite::Kind::moe_layer : ParameterSite::Kind::dense_layer;
    add_element(line, Element::Kind::layer, slot.layer, layer_block(kind), parameters);
  }
  line.trunk_end = static_cast<std::int32_t>(line.elements.size());
  if (stage + 1 == stages_) add_ends(line, slots);
  return line;
}

/// Numbers the sites and storages of a chunk from `sites` and `storages` on.
void StepBuilder::place_storages(ChunkLine& line, std::int32_t& storages, std::int32_t& sites) {
  std::int32_t offset = 0;
  for (const Element& element : line.elements) {
    line.storage_offset.push_back(offset);
    offset += graph_.blocks[row(element.block->program.block)].storage_count;
  }
  line.sites_per_micro_batch = static_cast<std::int32_t>(line.elements.size());
  for (std::int32_t* buffer : {&line.activation_buffer, &line.gradient_buffer}) {
    if (*buffer < 0) continue;
    *buffer = offset++;
    ++line.sites_per_micro_batch;
  }
  line.storages_per_micro_batch = offset;
  line.first_site = static_cast<SiteId>(sites);
  line.first_storage = static_cast<StorageId>(storages);
  sites += micro_batches_ * line.sites_per_micro_batch;
  storages += micro_batches_ * offset;
}

void StepBuilder::add_chunks() {
  const BlockInput input{graph_, job_, shapes_};
  blocks_.push_back(make_buffer_block(input, "send_activation"));
  activation_buffer_ = &blocks_.back();
  blocks_.push_back(make_buffer_block(input, "send_gradient"));
  gradient_buffer_ = &blocks_.back();
  const bool alone = job_.parallel.pipeline == 1;
  auto sites = static_cast<std::int32_t>(graph_.sites.size());
  auto storages = static_cast<std::int32_t>(graph_.storages.size());
  std::vector<ChunkLine> lines;
  for (std::int32_t chunk = 0; chunk < job_.parallel.virtual_pipeline; ++chunk) {
    ChunkLine line = make_chunk(chunk);
    line.activation_buffer = alone || stage_of(chunk) + 1 == stages_ ? -1 : 0;
    line.gradient_buffer = alone || stage_of(chunk) == 0 ? -1 : 0;
    place_storages(line, storages, sites);
    list_passes(line);
    lines.push_back(std::move(line));
  }
  chunks_ = ChunkLines(std::move(lines), alone);
}

void StepBuilder::reserve() {
  std::size_t ops = 0, accesses = 0, sites = graph_.sites.size(), storages = graph_.storages.size();
  const auto micro_batches = static_cast<std::size_t>(micro_batches_);
  for (std::int32_t chunk = 0; chunk < chunks_.count(); ++chunk) {
    const ChunkLine& line = chunks_.at(chunk);
    ops += micro_batches * (line.forward.size() + line.backward.size() + 2);
    sites += micro_batches * static_cast<std::size_t>(line.sites_per_micro_batch);
    storages += micro_batches * static_cast<std::size_t>(line.storages_per_micro_batch);
    for (const Element& element : line.elements) {
      accesses += micro_batches *
                  (element.block->program.forward.accesses.size() + element.block->program.backward.accesses.size());
    }
  }
  constexpr std::size_t kStepEnd = 4096;  // reductions and updates
  graph_.ops.reserve(ops + kStepEnd);
  graph_.accesses.reserve(accesses + 4 * micro_batches * static_cast<std::size_t>(chunks_.count()) + kStepEnd);
  graph_.messages.reserve(4 * micro_batches * static_cast<std::size_t>(chunks_.count()));
  graph_.sites.reserve(sites);
  graph_.storages.reserve(storages);
}

void StepBuilder::add_site(const StepBlock& block, Site site) {
  site.block = block.program.block;
  site.load = block.routed ? static_cast<float>(load_) : 1.0F;
  site.first_storage = id_of<StorageId>(graph_.storages.size());
  const SiteId id = id_of<SiteId>(graph_.sites.size());
  const Block& templates = graph_.blocks[row(site.block)];
  for (std::int32_t local = 0; local < templates.storage_count; ++local) {
    const auto t = static_cast<StorageTemplateId>(static_cast<std::int32_t>(templates.first_storage_template) + local);
    const StorageTemplate& storage = graph_.storage_templates[row(t)];
    graph_.storages.push_back({.storage_template = t,
                               .site = id,
                               .expected_bytes = storage_bytes(storage, 1.0),
                               .bytes = storage_bytes(storage, block.routed ? load_ : 1.0)});
  }
  graph_.sites.push_back(site);
}

void StepBuilder::add_sites() {
  for (std::int32_t chunk = 0; chunk < chunks_.count(); ++chunk) {
    const ChunkLine& line = chunks_.at(chunk);
    for (std::int32_t mb = 0; mb < micro_batches_; ++mb) {
      for (const Element& element : line.elements) {
        add_site(*element.block, {.chunk = chunk, .layer = element.layer, .micro_batch = mb});
      }
      if (line.activation_buffer >= 0) add_site(*activation_buffer_, {.chunk = chunk, .micro_batch = mb});
      if (line.gradient_buffer >= 0) add_site(*gradient_buffer_, {.chunk = chunk, .micro_batch = mb});
    }
  }
}

// ---- ops ----------------------------------------------------------------------------------------------------------

void StepBuilder::stamp(const PassProgram& program, std::size_t op, const Binding& binding) {
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

void StepBuilder::emit_message(OpTemplateId op, SiteId site, Access access, Message message) {
  message.op = id_of<OpId>(graph_.ops.size());
  message.bytes = graph_.storages[row(access.storage)].bytes;
  graph_.ops.push_back(
      {.op_template = op, .site = site, .first_access = static_cast<std::int32_t>(graph_.accesses.size())});
  graph_.accesses.push_back(access);
  graph_.messages.push_back(message);
}

void StepBuilder::emit_receive(const Pass& pass) {
  const std::int32_t stage = stage_of(pass.chunk);
  const std::int32_t ranks = job_.parallel.pipeline;
  if (ranks == 1 || stage == (pass.forward ? 0 : stages_ - 1)) return;
  const StorageId storage = pass.forward ? chunks_.entry_activation(pass.chunk, pass.micro_batch)
                                         : chunks_.exit_gradient(pass.chunk, pass.micro_batch);
  emit_message(pass.forward ? messages_.receive_activation : messages_.receive_gradient,
               graph_.storages[row(storage)].site, {.storage = storage, .version = 1, .kind = AccessKind::write},
               {.peer_rank = (pass.forward ? stage - 1 : stage + 1) % ranks,
                .tag = tag(stage, pass.micro_batch, !pass.forward)});
}

void StepBuilder::emit_send(const Pass& pass) {
  const ChunkLine& line = chunks_.at(pass.chunk);
  const std::int32_t stage = stage_of(pass.chunk) + (pass.forward ? 1 : -1);
  const std::int32_t offset = pass.forward ? line.activation_buffer : line.gradient_buffer;
  const StorageId storage = line.storage(pass.micro_batch, offset);
  emit_message(pass.forward ? messages_.send_activation : messages_.send_gradient, graph_.storages[row(storage)].site,
               {.storage = storage, .version = pass.forward ? 1 : chunks_.gradient_writes(pass.chunk)},
               {.peer_rank = stage % job_.parallel.pipeline,
                .tag = tag(stage, pass.micro_batch, !pass.forward),
                .is_send = true});
}

void StepBuilder::emit_step(const Pass& pass, const PassStep& step, const std::vector<Binding>& bindings) {
  if (step.element < 0) {
    emit_send(pass);
    return;
  }
  const auto element = static_cast<std::size_t>(step.element);
  const BlockProgram& program = chunks_.at(pass.chunk).elements[element].block->program;
  stamp(pass.forward ? program.forward : program.backward, static_cast<std::size_t>(step.op), bindings[element]);
}

void StepBuilder::emit_pass(const Pass& pass) {
  emit_receive(pass);
  chunks_.bind(pass.chunk, pass.micro_batch, bindings_);
  for (const PassStep& step : steps_of(pass)) emit_step(pass, step, bindings_);
}

void StepBuilder::emit_pair(const Pass& forward, const Pass& backward) {
  emit_receive(forward);
  emit_receive(backward);
  chunks_.bind(forward.chunk, forward.micro_batch, bindings_);
  chunks_.bind(backward.chunk, backward.micro_batch, other_bindings_);
  std::size_t f = 0, b = 0;
  for (const bool takes_forward : merge_order(forward.chunk, backward.chunk)) {
    if (takes_forward) {
      emit_step(forward, steps_of(forward)[f++], bindings_);
    } else {
      emit_step(backward, steps_of(backward)[b++], other_bindings_);
    }
  }
}

void StepBuilder::emit_passes(const std::vector<Pass>& passes) {
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
std::vector<TimedOp> StepBuilder::timed_ops(std::int32_t chunk, bool forward) {
  struct Last {
    std::int32_t writer = -1;
    std::vector<std::int32_t> readers;
  };
  std::map<std::int32_t, Last> last;
  std::vector<Binding> bindings;
  chunks_.bind(chunk, 0, bindings);
  const ChunkLine& line = chunks_.at(chunk);
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
      const OpTemplateId send = forward ? messages_.send_activation : messages_.send_gradient;
      ops.push_back({.lane = Lane::p2p, .ns = op_ns(graph_.op_templates[row(send)], machine_, load_)});
      const std::int32_t offset = forward ? line.activation_buffer : line.gradient_buffer;
      touch(static_cast<std::int32_t>(line.storage(0, offset)), AccessKind::read);
      continue;
    }
    const auto element = static_cast<std::size_t>(step.element);
    const BlockProgram& block = line.elements[element].block->program;
    const PassProgram& program = forward ? block.forward : block.backward;
    const auto op = static_cast<std::size_t>(step.op);
    const OpTemplate& op_template = graph_.op_templates[row(program.ops[op].op_template)];
    ops.push_back({.lane = op_template.lane, .ns = op_ns(op_template, machine_, load_)});
    for (const ProgramAccess& access : program.accesses_of(op)) {
      const std::int32_t storage = bindings[element].base[static_cast<std::size_t>(access.scope)] + access.local;
      if (static_cast<std::size_t>(storage) >= versions_.size()) touch(storage, access.kind);
    }
  }
  return ops;
}

const std::vector<bool>& StepBuilder::merge_order(std::int32_t forward_chunk, std::int32_t backward_chunk) {
  auto [entry, is_new] = merges_.try_emplace({forward_chunk, backward_chunk});
  if (is_new) entry->second = merge_passes(timed_ops(forward_chunk, true), timed_ops(backward_chunk, false));
  return entry->second;
}

/// All reductions first, so that no update holds up the next reduction on the link.
void StepBuilder::emit_step_end() {
  for (const OpPhase phase : {OpPhase::gradient_reduction, OpPhase::optimizer}) {
    for (std::size_t i = 0; i < parameter_blocks_.size(); ++i) {
      const auto first = static_cast<std::int32_t>(parameter_storages_[i]);
      Binding binding{.site = id_of<SiteId>(i)};
      binding.base.fill(first);
      const PassProgram& program = parameter_blocks_[i].program.backward;
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
  return StepBuilder(job, machine, rank, load).build(passes.value());
}

}  // namespace tidemark
