#include "planner/graph_build/block_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace tidemark::graph_build {
namespace {

bool contains(const std::vector<std::int32_t>& list, std::int32_t value) {
  return std::ranges::find(list, value) != list.end();
}

void add_once(std::vector<std::int32_t>& list, std::int32_t value) {
  if (!contains(list, value)) list.push_back(value);
}

/// Parameters are resident all step, so a recipe need not name them.
bool is_parameter(Scope scope) {
  return scope == Scope::parameters || scope == Scope::embedding_parameters || scope == Scope::head_parameters;
}

}  // namespace

std::span<const ProgramAccess> PassProgram::accesses_of(std::size_t op) const {
  const auto begin = static_cast<std::size_t>(ops[op].first_access);
  const std::size_t end = op + 1 < ops.size() ? static_cast<std::size_t>(ops[op + 1].first_access) : accesses.size();
  return {accesses.data() + begin, end - begin};
}

BlockBuilder::BlockBuilder(std::string name, bool late_weight_gradients)
    : name_(std::move(name)), late_weight_gradients_(late_weight_gradients) {}

void BlockBuilder::bind_parameters(Scope scope, const std::vector<ParameterGroup>& groups) {
  // A static site lists parameter, gradient and optimizer state of each group in turn.
  std::int32_t local = 0;
  for (const ParameterGroup& group : groups) {
    groups_.push_back({.name = group.name, .parameter = {.scope = scope, .local = local}});
    local += 3;
  }
}

const BlockBuilder::BoundGroup& BlockBuilder::bound(std::string_view group) const {
  const auto found = std::ranges::find(groups_, group, &BoundGroup::name);
  assert(found != groups_.end());
  return *found;
}

Ref BlockBuilder::parameter(std::string_view group) const {
  const BoundGroup& found = bound(group);
  return found.own_parameter.value_or(found.parameter);
}

Ref BlockBuilder::gradient(std::string_view group) const {
  return bound(group).own_gradient.value_or(gradient_shard(group));
}

Ref BlockBuilder::gradient_shard(std::string_view group) const {
  Ref ref = bound(group).parameter;
  ++ref.local;
  return ref;
}

void BlockBuilder::stand_in(std::string_view group, Ref parameter) {
  std::ranges::find(groups_, group, &BoundGroup::name)->own_parameter = parameter;
}

void BlockBuilder::stand_in_gradient(std::string_view group, Ref gradient) {
  std::ranges::find(groups_, group, &BoundGroup::name)->own_gradient = gradient;
}

Ref BlockBuilder::optimizer_state(std::string_view group) const {
  Ref ref = bound(group).parameter;
  ref.local += 2;
  return ref;
}

Ref BlockBuilder::add(StorageTemplate storage) {
  storage.module_path = module_;
  storages_.push_back(std::move(storage));
  own_writes_.push_back(0);
  return {.scope = Scope::own, .local = static_cast<std::int32_t>(storages_.size()) - 1};
}

Ref BlockBuilder::saved(std::string name, Bytes bytes) {
  return add({.name = std::move(name), .fixed_bytes = bytes, .saved_for_backward = true});
}

Ref BlockBuilder::gathered(std::string name, Bytes bytes) {
  return add({.name = std::move(name), .fixed_bytes = bytes, .saved_for_backward = true, .swappable = false});
}

Ref BlockBuilder::temporary(std::string name, Bytes bytes) {
  return add({.name = std::move(name), .role = StorageRole::temporary, .fixed_bytes = bytes, .swappable = false});
}

Ref BlockBuilder::buffer(std::string name, Bytes bytes) {
  return add({.name = std::move(name), .role = StorageRole::communication, .fixed_bytes = bytes, .swappable = false});
}

Ref BlockBuilder::fixed(std::string name, StorageRole role, Bytes bytes) {
  return add({.name = std::move(name),
              .role = role,
              .fixed_bytes = bytes,
              .swappable = may_be_offloaded(role),
              .initial = true,
              .lasting = true});
}

Ref BlockBuilder::routed(std::string name, std::int64_t rows, Bytes row_bytes, bool saved, RowsOf rows_of) {
  return add({.name = std::move(name),
              .role = saved ? StorageRole::activation : StorageRole::temporary,
              .routed_rows = rows,
              .routed_row_bytes = row_bytes,
              .rows_of = rows_of,
              .saved_for_backward = saved,
              .swappable = saved});
}

void BlockBuilder::view(Ref storage, TensorView tensor) {
  storages_[static_cast<std::size_t>(storage.local)].tensors.push_back(std::move(tensor));
}

bool BlockBuilder::is_saved(Ref storage) const {
  return storage.scope == Scope::own && storages_[static_cast<std::size_t>(storage.local)].saved_for_backward;
}

void BlockBuilder::written_elsewhere(Ref storage) {
  ++writes_of(storage);
}

std::int32_t& BlockBuilder::writes_of(Ref ref) {
  return ref.scope == Scope::own ? own_writes_[static_cast<std::size_t>(ref.local)]
                                 : scope_writes_[static_cast<std::size_t>(ref.scope)];
}

ProgramAccess BlockBuilder::read_access(Ref ref) {
  ProgramAccess access{.scope = ref.scope, .kind = AccessKind::read, .local = ref.local};
  if (ref.scope == Scope::output_gradient) {
    access.version = kFinalVersion;
  } else if (is_parameter(ref.scope)) {
    access.version = kCurrentVersion;
  } else {
    access.version = writes_of(ref);
    assert(access.version > 0);  // nothing has been written yet
  }
  return access;
}

ProgramAccess BlockBuilder::write_access(Ref ref) {
  ProgramAccess access{.scope = ref.scope, .kind = AccessKind::write, .local = ref.local, .version = kNextVersion};
  if (!is_parameter(ref.scope)) access.version = ++writes_of(ref);
  return access;
}

void BlockBuilder::op(OpPhase phase, OpDraft draft) {
  record(phase, named(std::move(draft)));
}

OpDraft BlockBuilder::named(OpDraft draft) const {
  if (part_ != kWhole) draft.name += fmt::format(".part{}", part_);
  draft.backward_launches = backward_launches_;
  return draft;
}

void BlockBuilder::record(OpPhase phase, OpDraft draft) {
  Recorded recorded{.op = {.name = std::move(draft.name),
                           .lane = draft.lane,
                           .phase = phase,
                           .cost = draft.cost,
                           .routed = draft.routed,
                           .collective = draft.collective,
                           .ends_rows = draft.ends_rows},
                    .tag = phase == OpPhase::forward ? tag_ : std::string(),
                    .part = part_,
                    .replays_routing = draft.replays_routing,
                    .backward_launches = draft.backward_launches};
  for (const Ref ref : draft.reads) recorded.accesses.push_back(read_access(ref));
  for (const Ref ref : draft.writes) recorded.accesses.push_back(write_access(ref));
  (phase == OpPhase::forward ? forward_ : backward_).push_back(std::move(recorded));
}

void BlockBuilder::weight_gradient(OpDraft draft) {
  pending_.push_back(named(std::move(draft)));
  if (!late_weight_gradients_) flush();
}

void BlockBuilder::flush() {
  for (OpDraft& draft : pending_) record(OpPhase::weight_gradient, std::move(draft));
  pending_.clear();
}

void BlockBuilder::part(std::int32_t number) {
  if (part_ == kWhole) {
    first_forward_ = forward_.size();
    first_backward_ = backward_.size();
  }
  part_ = number;
}

void BlockBuilder::join_parts() {
  part_ = kWhole;
  interleave(std::span(forward_).subspan(first_forward_));
  interleave(std::span(backward_).subspan(first_backward_));
}

void BlockBuilder::interleave(std::span<Recorded> parts) {
  std::vector<std::int32_t> turns(parts.size(), 0);
  bool computes = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const OpTemplate& op = parts[i].op;
    const bool goes_on = i > 0 && parts[i].part == parts[i - 1].part;
    // The first part has weight gradients from before it: stages are the same in all.
    const bool same_stage = goes_on && (op.phase == OpPhase::weight_gradient || computes == (op.lane == Lane::compute));
    turns[i] = goes_on ? turns[i - 1] + (same_stage ? 0 : 1) : parts[i].part;
    if (!same_stage) computes = op.lane == Lane::compute;
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Of one turn what communicates comes first, to be under way, and of that what experts wait for soonest.
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    return std::tuple(turns[i], parts[i].op.lane == Lane::compute, -parts[i].part);
  });
  std::vector<Recorded> ordered;
  for (const std::size_t i : order) ordered.push_back(std::move(parts[i]));
  std::ranges::move(ordered, parts.begin());
}

void BlockBuilder::recipe(const std::string& name, const std::vector<Ref>& outputs) {
  RecipeDraft draft{.name = name, .part = part_};
  for (const Ref output : outputs) draft.outputs.push_back(output.local);
  recipes_.push_back(std::move(draft));
}

bool BlockBuilder::is_step_of(const RecipeDraft& draft, const Recorded& op) {
  return op.tag == draft.name && (draft.part == kWhole || op.part == draft.part);
}

bool BlockBuilder::needs_other_sites(const RecipeDraft& draft) const {
  return std::ranges::any_of(forward_, [&](const Recorded& recorded) {
    return is_step_of(draft, recorded) && std::ranges::any_of(recorded.accesses, [](const ProgramAccess& access) {
             return access.scope != Scope::own && !is_parameter(access.scope);
           });
  });
}

Recipe BlockBuilder::make_recipe(const RecipeDraft& draft) const {
  Recipe recipe{.name = draft.name, .outputs = draft.outputs};
  std::vector<std::int32_t> written;
  for (const Recorded& recorded : forward_) {
    if (!is_step_of(draft, recorded)) continue;
    Recipe::Step step{.op = recorded.id};
    for (const ProgramAccess& access : recorded.accesses) {
      if (access.scope != Scope::own) continue;
      if (access.kind == AccessKind::read) {
        step.reads.push_back(access.local);
        if (!contains(written, access.local)) add_once(recipe.sources, access.local);
      } else {
        step.writes.push_back(access.local);
        add_once(written, access.local);
        if (!contains(recipe.outputs, access.local)) add_once(recipe.transients, access.local);
      }
    }
    recipe.replays_routing = recipe.replays_routing || recorded.replays_routing;
    recipe.collective = recipe.collective || recorded.op.collective;
    recipe.steps.push_back(std::move(step));
  }
  return recipe;
}

PassProgram BlockBuilder::make_program(const std::vector<Recorded>& ops) {
  PassProgram program;
  for (const Recorded& recorded : ops) {
    program.ops.push_back(
        {.op_template = recorded.id, .first_access = static_cast<std::int32_t>(program.accesses.size())});
    program.accesses.insert(program.accesses.end(), recorded.accesses.begin(), recorded.accesses.end());
  }
  return program;
}

void BlockBuilder::share_backward_launches() {
  struct Launches {
    double forward = 0, backward = 0;
  };
  std::map<double, Launches> groups;
  for (auto [ops, sum] : {std::pair(&forward_, &Launches::forward), std::pair(&backward_, &Launches::backward)})
    for (const Recorded& recorded : *ops)
      if (recorded.op.lane == Lane::compute) groups[recorded.backward_launches].*sum += recorded.op.cost.launches;
  for (Recorded& recorded : backward_) {
    const Launches& group = groups[recorded.backward_launches];
    if (recorded.op.lane != Lane::compute || group.forward <= 0) continue;  // parameters have no forward
    recorded.op.cost.launches *= recorded.backward_launches * group.forward / group.backward;
  }
}

BlockProgram BlockBuilder::finish(Graph& graph) {
  flush();
  share_backward_launches();
  const std::size_t first_op_template = graph.op_templates.size();
  std::erase_if(recipes_, [&](const RecipeDraft& draft) { return needs_other_sites(draft); });
  for (auto* ops : {&forward_, &backward_}) {
    for (Recorded& recorded : *ops) {
      recorded.id = id_of<OpTemplateId>(graph.op_templates.size());
      graph.op_templates.push_back(recorded.op);
    }
  }
  Block block{.name = name_,
              .first_storage_template = id_of<StorageTemplateId>(graph.storage_templates.size()),
              .storage_count = static_cast<std::int32_t>(storages_.size()),
              .first_recipe = id_of<RecipeId>(graph.recipes.size()),
              .recipe_count = static_cast<std::int32_t>(recipes_.size()),
              .first_op_template = id_of<OpTemplateId>(first_op_template),
              .op_template_count = static_cast<std::int32_t>(graph.op_templates.size() - first_op_template)};
  for (StorageTemplate& storage : storages_) graph.storage_templates.push_back(std::move(storage));
  for (const RecipeDraft& draft : recipes_) graph.recipes.push_back(make_recipe(draft));
  graph.blocks.push_back(std::move(block));
  return {.block = id_of<BlockId>(graph.blocks.size() - 1),
          .forward = make_program(forward_),
          .backward = make_program(backward_)};
}

}  // namespace tidemark::graph_build
