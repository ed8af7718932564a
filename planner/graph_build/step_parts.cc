#include "planner/graph_build/step_parts.h"

#include <array>

#include "planner/graph_build/op_cost.h"
#include "planner/graph_build/site_loads.h"

namespace tidemark::graph_build {
namespace {

class StepPartsBuilder {
 public:
  StepPartsBuilder(const JobSpec& job, const Machine& machine, std::int32_t rank, double load)
      : job_(job),
        rank_(rank),
        load_(built_load(job, machine, load)),
        shapes_(device_shapes(job, machine)),
        stages_(job.parallel.pipeline * job.parallel.virtual_pipeline),
        micro_batches_(static_cast<std::int32_t>(job.parallel.micro_batches())) {
    parts_.graph.rank = rank;
    parts_.fullest_load = load_.fullest;
  }

  [[nodiscard]] StepParts build() {
    add_parameters();
    add_message_ops();
    add_chunks();
    reserve();
    add_sites();
    return std::move(parts_);
  }

 private:
  void add_parameters();
  void find_ends();
  [[nodiscard]] const ParameterSite* find_parameters(ParameterSite::Kind kind, std::int32_t layer) const;
  [[nodiscard]] StorageId parameters_of(ParameterSite::Kind kind, std::int32_t layer) const;
  void add_message_ops();

  void add_chunks();
  [[nodiscard]] ChunkLine make_chunk(std::int32_t chunk);
  void add_element(ChunkLine& line, Element::Kind kind, std::int32_t layer, const StepBlock& block,
                   ParameterSite::Kind parameters);
  const StepBlock& keep(StepBlock block);
  const StepBlock& layer_block(std::size_t layer);
  void add_ends(ChunkLine& line, std::int64_t stage, const std::vector<Slot>& slots);
  void list_passes(ChunkLine& line) const;
  void place_storages(ChunkLine& line, std::int32_t& storages, std::int32_t& sites);
  void reserve();
  void add_sites();
  void add_site(const StepBlock& block, Site site);
  [[nodiscard]] std::int32_t stage_of(std::int32_t chunk) const { return chunk * job_.parallel.pipeline + rank_; }
  [[nodiscard]] BlockInput input() { return {parts_.graph, job_, shapes_}; }

  const JobSpec& job_;
  std::int32_t rank_;
  BuiltLoad load_;  ///< of sites with experts
  DeviceShapes shapes_;
  std::int32_t stages_;
  std::int32_t micro_batches_;
  StepParts parts_;

  std::vector<ParameterSite> parameter_sites_;
  EndParameters ends_;  ///< embedding and head of this rank
  StorageId embedding_storages_ = kNone<StorageId>;
  StorageId head_storages_ = kNone<StorageId>;
  std::array<const StepBlock*, 4> layer_blocks_{};  ///< dense and MoE, then the two with a window
  const StepBlock* activation_buffer_ = nullptr;
  const StepBlock* gradient_buffer_ = nullptr;
};

void StepPartsBuilder::add_parameters() {
  parameter_sites_ = rank_parameters(job_, rank_);
  for (const ParameterSite& site : parameter_sites_) {
    parts_.statics.push_back({.block = make_parameter_block(input(), site),
                              .first_storage = id_of<StorageId>(parts_.graph.storages.size())});
    add_site(parts_.statics.back().block, {.chunk = site.chunk, .layer = site.layer});
  }
  parts_.static_storages = parts_.graph.storages.size();
  find_ends();
}

void StepPartsBuilder::find_ends() {
  for (std::size_t i = 0; i < parameter_sites_.size(); ++i) {
    const ParameterSite& site = parameter_sites_[i];
    if (site.kind == ParameterSite::Kind::head) {
      ends_.head = site.groups;
      head_storages_ = parts_.statics[i].first_storage;
    }
    // The embedding's own site, or the copy one MTP module keeps for all.
    for (std::size_t group = 0; group < site.groups.size(); ++group) {
      if (site.groups[group].name != "embedding") continue;
      ends_.embedding = {site.groups[group]};
      embedding_storages_ = id_of<StorageId>(row(parts_.statics[i].first_storage) + 3 * group);
    }
  }
}

const ParameterSite* StepPartsBuilder::find_parameters(ParameterSite::Kind kind, std::int32_t layer) const {
  for (const ParameterSite& site : parameter_sites_) {
    if (site.kind == kind && site.layer == layer) return &site;
  }
  return nullptr;
}

StorageId StepPartsBuilder::parameters_of(ParameterSite::Kind kind, std::int32_t layer) const {
  const ParameterSite* site = find_parameters(kind, layer);
  return site == nullptr ? kNone<StorageId>
                         : parts_.statics[static_cast<std::size_t>(site - parameter_sites_.data())].first_storage;
}

void StepPartsBuilder::add_message_ops() {
  const auto bytes = shapes_.local_tokens * shapes_.hidden * kActivationBytes;
  const auto add = [&](const char* name, OpPhase phase) {
    OpTemplate op{.name = name, .lane = phase == OpPhase::send ? Lane::send : Lane::receive, .phase = phase};
    if (phase == OpPhase::send) op.cost = send_cost(static_cast<double>(bytes), shapes_.sends_inside_node);
    parts_.graph.op_templates.push_back(std::move(op));
    return id_of<OpTemplateId>(parts_.graph.op_templates.size() - 1);
  };
  parts_.messages = {.receive_activation = add("pipeline.receive_activation", OpPhase::receive),
                     .receive_gradient = add("pipeline.receive_gradient", OpPhase::receive),
                     .send_activation = add("pipeline.send_activation", OpPhase::send),
                     .send_gradient = add("pipeline.send_gradient", OpPhase::send)};
}

const StepBlock& StepPartsBuilder::keep(StepBlock block) {
  parts_.blocks.push_back(std::move(block));
  return parts_.blocks.back();
}

const StepBlock& StepPartsBuilder::layer_block(std::size_t layer) {
  const LayerKind kind = job_.model.layers[layer];
  const bool windowed = job_.model.is_windowed(layer);
  const StepBlock*& block = layer_blocks_[(kind == LayerKind::moe ? 1U : 0U) + (windowed ? 2U : 0U)];
  if (block == nullptr) {
    block = &keep(make_layer_block(input(), kind, windowed));
  }
  return *block;
}

void StepPartsBuilder::add_element(ChunkLine& line, Element::Kind kind, std::int32_t layer, const StepBlock& block,
                                   ParameterSite::Kind parameters) {
  line.elements.push_back({.kind = kind,
                           .layer = layer,
                           .block = &block,
                           .parameters = parameters_of(parameters, layer),
                           .embedding_parameters = embedding_storages_,
                           .head_parameters = head_storages_});
}

/// MTP modules and the head, behind the trunk of the last stage; or the head behind that of another.
void StepPartsBuilder::add_ends(ChunkLine& line, std::int64_t stage, const std::vector<Slot>& slots) {
  const bool has_head = stage == job_.parallel.main_head_stage();
  for (const Slot& slot : slots) {
    if (slot.kind != Slot::Kind::mtp) continue;
    const auto layer = static_cast<std::int32_t>(job_.model.layers.size()) + slot.layer;
    EndParameters parameters = ends_;
    parameters.own = find_parameters(ParameterSite::Kind::mtp, layer)->groups;
    const MtpPosition position{
        .first = slot.layer == 0, .last = slot.layer + 1 == job_.model.mtp_layers, .beside_head = has_head};
    add_element(line, Element::Kind::mtp, layer, keep(make_mtp_block(input(), parameters, position)),
                ParameterSite::Kind::mtp);
  }
  if (!has_head) return;
  const HeadPosition position{.owns_input = static_cast<std::size_t>(line.trunk_end) == line.elements.size(),
                              .has_next_stage = stage + 1 < stages_};
  add_element(line, Element::Kind::head, -1, keep(make_head_block(input(), ends_, position)),
              ParameterSite::Kind::head);
}

void StepPartsBuilder::list_passes(ChunkLine& line) const {
  const auto append = [](std::vector<PassStep>& steps, std::int32_t element, std::size_t from, std::size_t to) {
    for (std::size_t op = from; op < to; ++op) {
      steps.push_back({.element = element, .op = static_cast<std::int32_t>(op)});
    }
  };
  const auto block = [&line](std::int32_t element) -> const StepBlock& {
    return *line.elements[static_cast<std::size_t>(element)].block;
  };
  const auto gathers = [&](std::int32_t element) { return static_cast<std::size_t>(block(element).gathers); };
  const auto size = static_cast<std::int32_t>(line.elements.size());
  for (std::int32_t e = 0; e < size; ++e) {
    // Weights are gathered one block ahead.
    if (e == 0) append(line.forward, e, 0, gathers(e));
    if (e + 1 < size) append(line.forward, e + 1, 0, gathers(e + 1));
    append(line.forward, e, gathers(e), block(e).program.forward.ops.size());
    const std::int32_t last_first = size - 1 - e;
    append(line.backward, last_first, 0, block(last_first).program.backward.ops.size());
  }
  if (line.sends_activation()) line.forward.push_back({.element = -1});
  if (line.gradient_buffer >= 0) line.backward.push_back({.element = -1});
}

ChunkLine StepPartsBuilder::make_chunk(std::int32_t chunk) {
  ChunkLine line;
  const std::int32_t stage = stage_of(chunk);
  const auto& slots = job_.parallel.slots[static_cast<std::size_t>(rank_)][static_cast<std::size_t>(chunk)];
  if (stage == 0) {
    add_element(line, Element::Kind::embedding, -1, keep(make_embedding_block(input())),
                ParameterSite::Kind::embedding);
  }
  for (const Slot& slot : slots) {
    if (slot.kind != Slot::Kind::layer) continue;
    const LayerKind kind = job_.model.layers[static_cast<std::size_t>(slot.layer)];
    const auto parameters = kind == LayerKind::moe ? ParameterSite::Kind::moe_layer : ParameterSite::Kind::dense_layer;
    add_element(line, Element::Kind::layer, slot.layer, layer_block(static_cast<std::size_t>(slot.layer)), parameters);
  }
  line.trunk_end = static_cast<std::int32_t>(line.elements.size());
  if (stage + 1 == stages_ || stage == job_.parallel.main_head_stage()) add_ends(line, stage, slots);
  return line;
}

/// Numbers the sites and storages of a chunk from `sites` and `storages` on.
void StepPartsBuilder::place_storages(ChunkLine& line, std::int32_t& storages, std::int32_t& sites) {
  std::int32_t offset = 0;
  for (const Element& element : line.elements) {
    line.storage_offset.push_back(offset);
    offset += parts_.graph.blocks[row(element.block->program.block)].storage_count;
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

void StepPartsBuilder::add_chunks() {
  activation_buffer_ = &keep(make_buffer_block(input(), "send_activation"));
  gradient_buffer_ = &keep(make_buffer_block(input(), "send_gradient"));
  const bool alone = job_.parallel.pipeline == 1;
  auto sites = static_cast<std::int32_t>(parts_.graph.sites.size());
  auto storages = static_cast<std::int32_t>(parts_.graph.storages.size());
  std::vector<ChunkLine> lines;
  for (std::int32_t chunk = 0; chunk < job_.parallel.virtual_pipeline; ++chunk) {
    ChunkLine line = make_chunk(chunk);
    line.sends_head_input = job_.parallel.is_head_apart() && stage_of(chunk) == job_.parallel.main_head_stage();
    line.activation_buffer = alone || stage_of(chunk) + 1 == stages_ || line.sends_head_input ? -1 : 0;
    line.gradient_buffer = alone || stage_of(chunk) == 0 ? -1 : 0;
    place_storages(line, storages, sites);
    list_passes(line);
    lines.push_back(std::move(line));
  }
  parts_.chunks = ChunkLines(std::move(lines), alone);
}

void StepPartsBuilder::reserve() {
  std::size_t ops = 0, accesses = 0, sites = parts_.graph.sites.size(), storages = parts_.graph.storages.size();
  const auto micro_batches = static_cast<std::size_t>(micro_batches_);
  for (std::int32_t chunk = 0; chunk < parts_.chunks.count(); ++chunk) {
    const ChunkLine& line = parts_.chunks.at(chunk);
    ops += micro_batches * (line.forward.size() + line.backward.size() + 2);
    sites += micro_batches * static_cast<std::size_t>(line.sites_per_micro_batch);
    storages += micro_batches * static_cast<std::size_t>(line.storages_per_micro_batch);
    for (const Element& element : line.elements) {
      accesses += micro_batches *
                  (element.block->program.forward.accesses.size() + element.block->program.backward.accesses.size());
    }
  }
  constexpr std::size_t kStepEnd = 4096;  // reductions and updates
  parts_.graph.ops.reserve(ops + kStepEnd);
  parts_.graph.accesses.reserve(accesses + 4 * micro_batches * static_cast<std::size_t>(parts_.chunks.count()) +
                                kStepEnd);
  parts_.graph.messages.reserve(4 * micro_batches * static_cast<std::size_t>(parts_.chunks.count()));
  parts_.graph.sites.reserve(sites);
  parts_.graph.storages.reserve(storages);
}

void StepPartsBuilder::add_site(const StepBlock& block, Site site) {
  site.block = block.program.block;
  if (block.routed) set_load(site, load_);
  site.first_storage = id_of<StorageId>(parts_.graph.storages.size());
  const SiteId id = id_of<SiteId>(parts_.graph.sites.size());
  const Block& templates = parts_.graph.blocks[row(site.block)];
  for (std::int32_t local = 0; local < templates.storage_count; ++local) {
    const auto t = static_cast<StorageTemplateId>(static_cast<std::int32_t>(templates.first_storage_template) + local);
    const StorageTemplate& storage = parts_.graph.storage_templates[row(t)];
    parts_.graph.storages.push_back({.storage_template = t,
                                     .site = id,
                                     .expected_bytes = storage_bytes(storage, 1.0),
                                     .bytes = storage_bytes(storage, site.loads())});
  }
  parts_.graph.sites.push_back(site);
}

void StepPartsBuilder::add_sites() {
  for (std::int32_t chunk = 0; chunk < parts_.chunks.count(); ++chunk) {
    const ChunkLine& line = parts_.chunks.at(chunk);
    for (std::int32_t mb = 0; mb < micro_batches_; ++mb) {
      for (const Element& element : line.elements) {
        add_site(*element.block, {.chunk = chunk, .layer = element.layer, .micro_batch = mb});
      }
      if (line.activation_buffer >= 0) add_site(*activation_buffer_, {.chunk = chunk, .micro_batch = mb});
      if (line.gradient_buffer >= 0) add_site(*gradient_buffer_, {.chunk = chunk, .micro_batch = mb});
    }
  }
}

}  // namespace

StepParts make_step_parts(const JobSpec& job, const Machine& machine, std::int32_t rank, double load) {
  return StepPartsBuilder(job, machine, rank, load).build();
}

}  // namespace tidemark::graph_build
